"""Batches to calibrate and to judge with, from what a user's factory returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..errors import CompileError


def split_batches(data: Any, spec: str) -> tuple[list[Any], list[Any]]:
    """
    Batches to calibrate and to judge with: the two of a pair of lists, or a list whose last
    quarter is held out.
    """
    if isinstance(data, tuple) and len(data) == 2 and all(_is_list(part) for part in data):
        found = list(data[0]), list(data[1])
    elif _is_list(data):
        batches = list(data)
        if len(batches) == 1:
            raise CompileError(
                f"{spec}: one batch, which cannot be both calibrated and judged with; return "
                "several, or (calibration, held_out)"
            )
        held = max(1, len(batches) // 4) if batches else 0
        found = batches[: len(batches) - held], batches[len(batches) - held :]
    else:
        raise CompileError(
            f"{spec}: the factory must return a list of batches, or (calibration, held_out) of two "
            f"lists; a batch is a tensor, a tuple of them or a dict. It returned {_kind(data)}"
        )
    for batches, what in zip(found, ("calibrate with", "judge with"), strict=True):
        if not batches:
            raise CompileError(f"{spec}: no batches to {what}")
        for batch in batches:
            _check_batch(batch, spec)
    return found


def _is_list(data: Any) -> bool:
    """Whether this is many batches: anything that is gone through, but a tensor or a batch."""
    return hasattr(data, "__iter__") and not isinstance(data, Tensor | tuple | Mapping | str)


def _check_batch(batch: Any, spec: str) -> None:
    if isinstance(batch, Tensor):
        return
    parts = batch.values() if hasattr(batch, "keys") else batch
    if not isinstance(parts, str) and hasattr(parts, "__iter__"):
        if any(isinstance(part, Tensor) for part in parts):
            return
    raise CompileError(
        f"{spec}: a batch is a tensor, a tuple of tensors or a dict of them; one is {_kind(batch)}"
    )


def _kind(value: Any) -> str:
    parts = f" of {len(value)}" if hasattr(value, "__len__") else ""
    return f"{type(value).__name__}{parts}"
