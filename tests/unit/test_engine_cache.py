"""The compiled loops where nothing can be written, as in a read-only installation."""

from __future__ import annotations

import numba
import pytest
from inr.analysis.jit import compiled


def test_without_a_folder_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    njit = numba.njit

    def refuse(function: object, *, cache: bool = False, nogil: bool) -> object:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(function, nogil=nogil)

    monkeypatch.setattr(numba, "njit", refuse)

    def double(x: int) -> int:
        return 2 * x

    assert compiled(double)(21) == 42
    assert asked == [True, False]
