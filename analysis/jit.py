"""Compiled inner loops that keep their Python types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """
    The function compiled by numba on its first call. The machine code is kept beside the source
    or, where that cannot be written, in the user's cache folder; where neither can, not at all.
    """
    njit = cast(Any, numba).njit
    try:
        return cast(_Function, njit(function, cache=True, nogil=True))
    except RuntimeError:  # numba found no folder that it can write to.
        return cast(_Function, njit(function, nogil=True))
