"""
What a FIFO costs at a depth, and the depths that are worth asking for.

Block RAM is counted as the synthesis tool allocates a simple dual-port memory in 18 Kb halves, by
depth: 36 bits wide to 512 words, 18 to 1024, 9 to 2048, 4 to 4096, 2 to 8192, 1 beyond (read off
the reports of Vitis HLS 2023.2 in the Stream-HLS artefact). A LUT holds 32 bits of a shift
register (SRL32) or 64 of a memory (LUTRAM).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .memories import bram18, uram
from .network import Fifo
from .storage import fifo_storage
from .targets import DEFAULT_PART, find_part

Ints: TypeAlias = npt.NDArray[np.integer[Any]]

OBJECTIVES = ("bits", "bram", "weighted")
"""Bits of all FIFOs; 18 Kb block RAMs; LUTs, with a block RAM as its share of a part in LUTs."""

METHODS = ("default", "exact", "inr-arch", "max-occupancy", "tensor-size")
"""The methods of `fifo_sizing`, here because naming them needs no compiled loops."""

_PART = find_part(DEFAULT_PART)

LUTS_OF_BRAM18 = _PART.lut // _PART.bram18
"""LUTs to one 18 Kb block RAM on a typical part."""


def storage_at(fifo: Fifo, depth: int) -> str:
    """What a FIFO is made of at a depth: what was asked for, or the rule of the tool."""
    return fifo.storage or fifo_storage(depth, fifo.width)


def raw_at(fifo: Fifo, depth: int) -> int:
    """Cycles from a write until the token can be read, at a depth; 0 is unbounded."""
    if fifo.latency is not None:
        return fifo.latency
    if depth == 0 and fifo.storage is None:
        return 1
    return 1 if storage_at(fifo, depth) == "srl" else 2


def least_depth(fifo: Fifo) -> int:
    """Tokens a FIFO needs to pass one a cycle: a place for each cycle of its two delays."""
    return 2 if fifo.storage in (None, "srl") else 3


def cost(fifo: Fifo, depth: int, objective: str) -> float:
    """The cost of one FIFO at a depth; the registers of a pipeline cost nothing here."""
    if fifo.internal:
        return 0.0
    if objective == "bits":
        return float(depth * fifo.width)
    storage = storage_at(fifo, depth)
    blocks = bram18(depth, fifo.width) if storage == "bram" else 0
    if storage == "uram":  # One takes the place of 16 halves of block RAM.
        blocks = 16 * uram(depth, fifo.width)
    if objective == "bram":
        return float(blocks)
    luts = {"srl": ceil(depth / 32), "lutram": ceil(depth / 64)}.get(storage, 0) * fifo.width
    return float(luts + LUTS_OF_BRAM18 * blocks)


def levels(fifo: Fifo, most: int, objective: str) -> list[int]:
    """
    Depths worth choosing up to the first that holds `most` tokens, ascending: every one where
    each token costs, otherwise the last before a step of the cost or of the delay.
    """
    least = least_depth(fifo)
    if objective == "bits":
        return list(range(least, max(most, least) + 1))
    chosen: list[int] = []
    depth = least
    while True:
        last = _last_of_step(fifo, depth, objective)
        chosen.append(last)
        if last >= most:
            return chosen
        depth = last + 1


def _last_of_step(fifo: Fifo, depth: int, objective: str) -> int:
    """The greatest depth from `depth` on at the same cost and delay."""

    def same(d: int) -> bool:
        return cost(fifo, d, objective) == cost(fifo, depth, objective) and raw_at(
            fifo, d
        ) == raw_at(fifo, depth)

    step = 1
    while same(depth + step) and step < 2**24:
        step *= 2
    low, high = depth + step // 2, depth + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if same(middle) else (low, middle)
    return low


def total(fifos: Sequence[Fifo], depths: Sequence[int], objective: str) -> float:
    """The cost of all FIFOs."""
    return sum(cost(f, d, objective) for f, d in zip(fifos, depths, strict=True))
