"""The compiled loops where nothing can be written, as in a read-only installation."""

from __future__ import annotations

from typing import Any

import numba
import pytest
from inr.analysis.jit import compiled


def test_without_a_folder_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    njit: Any = numba.njit

    def refuse(*functions: Any, **options: Any) -> Any:
        asked.append(options.get("cache", False))
        if asked[-1]:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*functions, **options)

    def double(x: int) -> int:
        return 2 * x

    monkeypatch.setattr(numba, "njit", refuse)
    made = compiled(double)
    monkeypatch.undo()
    assert made(21) == 42
    assert asked == [True, False]
