"""
What arrays and FIFOs are made of, by their shape.

The rules for arrays are read off 13,099 memories in 1,849 module reports of Vitis HLS 2023.2
(Stream-HLS artefact, mostly xcu280 at 3.33 ns). `round(words * bits / 16384)` beyond 8,192 words
is what the tool reports. A FIFO is different: the tool's report prints one block RAM for every
deep FIFO, whatever its depth, while a memory of its shape takes as many as an array does.
Both numbers are here, and never mixed.
"""

from __future__ import annotations

from math import ceil, floor

from .network import Fifo
from .targets import Resources

LUTRAM_BITS = 4096
"""The tool makes arrays up to this many bits of LUTs, and larger ones of block RAM."""

BRAM_SHAPES = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2))
"""Words and bits of 18 Kb of block RAM with one port to write and one to read."""

BRAM_BITS = 16384
"""Data bits of 18 Kb of block RAM at one bit a word."""

URAM_WORDS, URAM_BITS = 4096, 72

LUTRAM_WORDS = 64
"""Words of one bit in a LUT with a port to write and one to read."""

SRL_WORDS = 32
"""Longest shift register in a LUT."""


def bram18(words: int, bits: int, pingpong: bool = False) -> int:
    """Halves of block RAMs (18 Kb) of an array, or of two for a `pingpong` buffer."""
    copies = 2 if pingpong else 1
    for most, wide in BRAM_SHAPES:
        if words <= most:
            return copies * ceil(bits / wide)
    return floor(copies * words * bits / BRAM_BITS + 0.5)


def uram(words: int, bits: int, pingpong: bool = False) -> int:
    """UltraRAMs of an array, or of two for a `pingpong` buffer."""
    return (2 if pingpong else 1) * ceil(words / URAM_WORDS) * ceil(bits / URAM_BITS)


def array_resources(
    words: int, bits: int, pingpong: bool = False, storage: str | None = None
) -> Resources:
    """
    An array of `words` words of `bits` bits, or two of them for a `pingpong` buffer.

    `storage` is `lutram`, `bram` or `uram`; None chooses as the tool does where it has no reason
    for UltraRAM. A single word is a register.
    """
    copies = 2 if pingpong else 1
    if words == 1 and storage is None:
        return Resources(ff=bits * copies)
    if storage is None:
        storage = "lutram" if words * bits <= LUTRAM_BITS else "bram"
    if storage == "bram":
        return Resources(bram18=bram18(words, bits, pingpong))
    if storage == "uram":
        return Resources(uram=uram(words, bits, pingpong))
    # A register for the word that is read, and a LUT of address logic.
    return Resources(lut=bits * ceil(words / LUTRAM_WORDS) + 1, ff=bits) * copies


def fifo_control_ff(depth: int, bits: int) -> int:
    """
    Flip-flops of a FIFO as the tool prints them.

    Read off 79 shapes, all of 32 bits but two: both words and four flags up to depth 2, else
    counters of as many bits as the depth has, with an output register in front of a memory. The
    width of that register is therefore known for 32 bits only, and taken as given.
    """
    address = max(depth - 1, 0).bit_length()
    if depth <= 2:
        return 2 * bits + 4
    if depth * bits <= 1024:
        return 3 + address
    if depth * bits <= LUTRAM_BITS:
        return 100 + 3 * address
    return 68 + 3 * min(address, 9)


def fifo_printed(depth: int, bits: int) -> Resources:
    """
    What a synthesis report prints for a FIFO that the tool chooses the storage of: one block RAM
    for any that is not made of LUTs or registers.
    """
    deep = depth > 2 and depth * bits > LUTRAM_BITS
    return Resources(ff=fifo_control_ff(depth, bits), bram18=int(deep))


def fifo_resources(depth: int, bits: int, storage: str) -> Resources:
    """
    What a FIFO of `depth` tokens of `bits` bits takes when it is `srl`, `lutram`, `bram` or
    `uram`: its memory by the rules for arrays, its control as the tool prints it.
    """
    control = Resources(ff=fifo_control_ff(depth, bits))
    match storage:
        case "srl":
            return control + Resources(lut=bits * ceil(depth / SRL_WORDS))
        case "lutram":
            return control + Resources(lut=bits * ceil(depth / LUTRAM_WORDS))
        case "bram":
            return control + Resources(bram18=bram18(depth, bits))
        case _:
            return control + Resources(uram=uram(depth, bits))


def network_fifo_resources(fifo: Fifo) -> Resources:
    """The same for a FIFO of a network at its depth; the registers of a pipeline are none."""
    if fifo.internal or fifo.depth is None:
        return Resources()
    return fifo_resources(fifo.depth, fifo.width, fifo.storage_kind)
