"""
What a FIFO is made of.

Vitis HLS makes a FIFO of shift registers up to depth 2 or up to 1024 bits, and of memory beyond
(seen in its synthesis reports). The choice is written into the IR and bound explicitly in the
C++, so that model and tool agree.
"""

from __future__ import annotations

SHIFT_REGISTER_BITS = 1024
LUTRAM_DEPTH = 64
"""Deepest FIFO in distributed RAM: one SLICEM column; beyond it a block RAM is cheaper."""


def fifo_storage(depth: int, bits: int) -> str:
    """`srl`, `lutram` or `bram` for a FIFO of `depth` tokens of `bits` bits."""
    if depth <= 2 or depth * bits <= SHIFT_REGISTER_BITS:
        return "srl"
    return "lutram" if depth <= LUTRAM_DEPTH else "bram"
