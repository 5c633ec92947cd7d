"""Ranges of a stream-level function's values, seen on sample inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ..dialects import inr
from .stream import run_streams

Ranges = dict[SSAValue, float]
"""The largest magnitude of each stream and of each value in a map's body."""


def measure_ranges(
    module: ModuleOp, batches: Iterable[list[np.ndarray]], function: str | None = None
) -> Ranges:
    """
    The largest magnitude that each value takes on `batches` (lists of input arrays).

    A value that is not finite anywhere counts as infinite: NaN is never smaller than a bound.
    """
    ranges: Ranges = {}

    def observe(value: SSAValue, array: np.ndarray) -> None:
        peak = float(np.max(np.abs(array))) if np.size(array) else 0.0
        peak = float("inf") if np.isnan(peak) else peak
        ranges[value] = max(ranges.get(value, 0.0), peak)

    for batch in batches:
        run_streams(module, batch, function, observe)
    return ranges


def sample_inputs(
    function: FuncOp, domains: Sequence[tuple[float, float]], samples: int, seed: int = 0
) -> Iterator[list[np.ndarray]]:
    """
    Batches of at least `samples` rows in all, each input uniform over its domain (low, high),
    both ends included in the first batch. The same for the same arguments.
    """
    shapes = [inr.shape_of(a) for a in function.body.block.args]
    rows = max((s[0] if s else 1 for s in shapes), default=1)
    rng = np.random.default_rng(seed)
    for index in range(max(1, ceil(samples / rows))):
        batch = [
            rng.uniform(low, high, shape)
            for (low, high), shape in zip(domains, shapes, strict=True)
        ]
        if index == 0:
            for array, (low, high) in zip(batch, domains, strict=True):
                flat = array.reshape(-1)
                flat[:1], flat[-1:] = low, high
        yield batch
