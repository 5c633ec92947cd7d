"""
What a mapping must keep to, as one list of rules; the verifier, the tuner and the tests ask here.

| rule | what |
|---|---|
| R1 | tables, indices and outputs fit the MRAM that is left |
| R2 | buffers, stacks and the runtime fit WRAM |
| R3 | the kernel fits IRAM, its accumulators fit the registers |
| R4 | no more tasklets than the generation has |
| R5 | every DMA: 8 to 2048 bytes, a multiple of 8, both ends 8-aligned; so the sizes of tiles |
| R6 | every transfer: MRAM offsets and lengths multiples of 8, one length for all |
| R7 | a group runs or transfers as a whole: it has whole ranks |
| R8 | only the DPUs that work are counted on |
| R9 | lanes, accumulators and outputs hold the sums that the table can give; a product is int8 |
| R10 | an index is below K and fits its bits, a pre-scaled one as well; activations are bytes |
| R11 | every cost is there, finite and positive |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from ..errors import CompileError
from .upmem_cost import REGISTERS, predict, registers, swar8_run
from .upmem_mapping import (
    DMA_MAX,
    STACK_BYTES,
    UNROLL,
    VARIANTS,
    LutShape,
    Mapping,
    lane_limit,
)
from .upmem_points import Flags, Integers, Points, ceil_div
from .upmem_target import UpmemTarget

RUNTIME_BYTES = 256
"""WRAM of the runtime besides stacks: the null area (8), a barrier, parameters, alignment."""

CACHE_BYTES = 8
"""WRAM of the runtime's software cache for each tasklet, and the guard of each stack."""

CODE_INSTRUCTIONS = 900
"""IRAM of a kernel without its innermost loop and flush; about what PrIM's kernels have."""


@dataclass(frozen=True)
class Machine:
    """A target, the DPUs of it that work, and the MRAM that this layer may take of each."""

    target: UpmemTarget
    dpus: int
    ranks: int
    mram: int

    @classmethod
    def of(
        cls,
        target: UpmemTarget,
        dpus: int | None = None,
        ranks: int | None = None,
        mram: int | None = None,
    ) -> Machine:
        """
        `dpus` working DPUs in `ranks` ranks (by default as few as hold them, all of them working),
        each with `mram` bytes free.

        Raises CompileError for more DPUs than the ranks have, or none.
        """
        count = target.dpus if dpus is None else dpus
        most = target.dpus_per_rank
        in_ranks = ceil(count / most) if ranks is None else ranks
        if not 1 <= count <= in_ranks * most:
            raise CompileError(
                f"{count} DPUs in {in_ranks} ranks of target '{target.name}', "
                f"which has {most} a rank"
            )
        free = target.mram if mram is None else mram
        return cls(target, count, in_ranks, free)


@dataclass(frozen=True)
class Violation:
    """A rule that a mapping breaks: what is short, what it needs, what there is."""

    rule: str
    what: str
    """`MRAM`, `WRAM`, `tasklets`, ..."""
    need: int
    have: int
    hint: str
    """What would work."""

    @property
    def by(self) -> int:
        """By how much."""
        return self.need - self.have

    def __str__(self) -> str:
        return (
            f"{self.rule}: {self.what}: {self.need:,} of at most {self.have:,}, "
            f"{self.by:,} too many; {self.hint}"
        )


@dataclass(frozen=True)
class Demand:
    """One rule for many mappings: legal where `need` is at most `have`."""

    rule: str
    what: str
    need: Integers
    have: Integers
    hint: str

    @property
    def kept(self) -> Flags:
        """Where it is kept."""
        return self.need <= self.have


def fixed_wram(points: Points) -> Integers:
    """Bytes of WRAM besides buffers."""
    return points.field("tasklets") * (STACK_BYTES + 8 + CACHE_BYTES) + RUNTIME_BYTES


def wram_needed(points: Points) -> Integers:
    """Bytes of WRAM: stacks and their guards, the runtime, all buffers."""
    buffers = points.index_tile_bytes + points.output_tile_bytes + points.table_tile_bytes
    return fixed_wram(points) + buffers


def code_size(points: Points) -> Integers:
    """An estimate of the kernel's instructions: the unrolled loop, two flushes, the rest."""
    words = ceil_div(points.field("f_l"), 4)
    return CODE_INSTRUCTIONS + words * (UNROLL * 10 + 40)


def demands(points: Points, machine: Machine) -> Iterator[Demand]:
    """
    Rules R1 to R10 for mappings of a shape. A rule of divisibility needs the remainder and has 0.
    """
    shape, target = points.shape, machine.target
    zero = np.zeros(len(points), dtype=np.int64)

    def limit(rule: str, what: str, need: Integers, have: Integers | int, hint: str) -> Demand:
        return Demand(rule, what, need + zero, have + zero, hint)

    def multiple(rule: str, what: str, size: Integers, of: Integers | int, hint: str) -> Demand:
        return limit(rule, what, size % np.maximum(of, 1), 0, hint)

    field = points.field
    f_l, c_l, split = field("f_l"), field("c_l"), field("split_cb")
    used = points.table_bytes + points.index_bytes + points.output_bytes
    yield limit("R1", "bytes of MRAM", used, machine.mram, "more DPUs, or fewer rows a call")
    yield limit(
        "R2",
        "bytes of WRAM",
        wram_needed(points),
        target.wram,
        "smaller n_m, f_m, c_m, c_l or fewer tasklets",
    )
    yield limit("R3", "instructions of IRAM", code_size(points), target.iram, "a smaller f_l")
    product = np.array([shape.is_product], dtype=bool) | (zero > 0)
    int8 = points.is_("variant", "int8")
    yield limit(
        "R9",
        "variants of another kind of layer",
        (product != int8).astype(np.int64),
        0,
        "variant=int8" if shape.is_product else "variant=swar16",
    )
    unshared = product & points.is_("load", "fine")
    yield limit(
        "R5",
        "weights moved for each row",
        unshared.astype(np.int64),
        0,
        "load=coarse or static, as all rows use the same weights",
    )
    in_registers = zero
    for number, variant in enumerate(VARIANTS):
        count = registers(variant, f_l, shape.max_entry)
        in_registers = np.where(field("variant") == number, count, in_registers)
    yield limit("R3", "registers", in_registers, REGISTERS, "a smaller f_l")
    yield limit("R4", "tasklets", field("tasklets"), target.tasklets, "fewer tasklets")

    wide = np.where(points.is_("variant", "scalar32") & ~points.is_("load", "fine"), 4, 8)
    power = f_l & (f_l - 1)
    yield limit("R5", "f_l beyond a power of two", power, 0, "f_l of 4, 8, 16 or 32")
    yield multiple("R5", "f_l modulo its loads", f_l, wide, "f_l a multiple of 8 (4 for scalar32)")
    yield multiple("R5", f"c_l modulo {UNROLL}", c_l, UNROLL, f"c_l a multiple of {UNROLL}")
    yield multiple("R5", "f_m modulo f_l", points.tile("f"), f_l, "f_m a multiple of f_l")
    c_rest = np.where(field("c_m") >= points.codebooks, 0, field("c_m") % np.maximum(c_l, 1))
    yield limit("R5", "c_m modulo c_l", c_rest, 0, "c_m a multiple of c_l, or all codebooks")
    c_unroll = points.tile("c") % UNROLL
    yield limit("R5", f"c_m modulo {UNROLL}", c_unroll, 0, f"c_m a multiple of {UNROLL}")
    yield limit("R5", "f_l above f_m", f_l, points.tile("f"), "f_l of f_m or less")
    yield limit(
        "R5",
        "c_l above c_m",
        np.minimum(c_l, points.codebooks),
        points.tile("c"),
        "c_l of c_m or less",
    )
    fine = points.is_("load", "fine")
    yield limit("R5", "bytes of a DMA", np.where(fine, f_l, 8), DMA_MAX, "a smaller f_l")

    run = points.last("f") * points.row_bytes
    yield multiple("R5", "bytes of an output row modulo 8", run, 8, "f_l of 8, or i32")
    for what, size in (
        ("table", points.table_bytes),
        ("indices", points.index_bytes),
        ("output", points.output_bytes),
    ):
        yield multiple("R6", f"bytes of the {what} modulo 8", size, 8, "padded arrays")

    groups, per_rank = field("groups"), target.dpus_per_rank
    yield multiple("R7", "ip modulo groups", field("ip"), groups, "groups that divide ip")
    # With ranks of unequal size the smallest group decides; it has at least this many DPUs.
    missing = machine.ranks * per_rank - machine.dpus
    smallest = np.where(
        groups > 1, machine.ranks // np.maximum(groups, 1) * per_rank - missing, machine.dpus
    )
    each = np.where(groups > 1, ceil_div(points.dpus, np.maximum(groups, 1)), 0)
    yield limit("R7", "DPUs of a group of whole ranks", each, smallest, "fewer groups or DPUs")
    yield limit("R8", "DPUs", points.dpus, machine.dpus, "smaller ip, lp or split_cb")

    lanes = zero
    for number, variant in enumerate(VARIANTS):
        most = lane_limit("swar16" if variant == "swar8" else variant, shape.max_entry)
        lanes = np.where(field("variant") == number, most, lanes)
    longest = np.minimum(c_l, points.tile("c"))
    yield limit("R9", "codebooks a flush", longest, lanes, "a smaller c_l")
    if swar8_run(shape.max_entry) == 0:
        need = np.where(points.is_("variant", "swar8"), shape.max_entry, 0)
        yield limit("R9", "two entries in 8 bits", 2 * need, 255, "swar16, or tables of 7 bits")
    part = shape.term * points.codebooks
    whole = max(shape.high, -1 - shape.low)
    sums = np.where(split > 1, part, whole)
    room = np.where(points.is_("out", "i16"), 2**15 - 1, 2**31 - 1)
    yield limit("R9", "the largest sum", sums, room, "out=i32")

    bits = field("idx_bits")
    known = np.isin(bits, (4, 8, 16)).astype(np.int64)
    yield limit("R10", "bits of an index besides 4, 8, 16", 1 - known, 0, "idx_bits of 4, 8 or 16")
    odd = (product & (bits != 8)).astype(np.int64)
    yield limit("R10", "activations that are no bytes", odd, 0, "idx_bits=8")
    biggest = np.where(bits == 16, (shape.centroids - 1) * f_l, zero + shape.centroids - 1)
    room = (1 << np.minimum(bits, 16)) - 1
    yield limit("R10", "the largest index", biggest, room, "wider indices")


_WORDS = ("order", "load", "variant", "out", "residency")


def legal(points: Points, machine: Machine) -> Flags:
    """Which mappings keep R1 to R10. Sizes that are not positive are for `violations`."""
    kept = np.ones(len(points), dtype=bool)
    for demand in demands(points, machine):
        kept &= demand.kept
    return kept


def violations(shape: LutShape, mapping: Mapping, machine: Machine) -> list[Violation]:
    """The rules that one mapping breaks, R1 to R11; none where it is legal."""
    sizes = {k: v for k, v in vars(mapping).items() if k not in _WORDS}
    if bad := [name for name, value in sizes.items() if value < 1]:
        return [Violation("R5", f"{n} = {sizes[n]}", 1, sizes[n], "1 or more") for n in bad]
    points = Points.of(shape, [mapping])
    parts = {
        "MRAM": f"table {points.table_bytes[0]:,}, indices {points.index_bytes[0]:,}, "
        f"output {points.output_bytes[0]:,}",
        "WRAM": f"table {points.table_tile_bytes[0]:,}, indices {points.index_tile_bytes[0]:,}, "
        f"output {points.output_tile_bytes[0]:,}, stacks and runtime {fixed_wram(points)[0]:,}",
    }
    broken = [
        Violation(
            d.rule,
            d.what + (f" ({parts[d.what[-4:]]})" if d.what[-4:] in parts else ""),
            int(d.need[0]),
            int(d.have[0]),
            d.hint,
        )
        for d in demands(points, machine)
        if not d.kept[0]
    ]
    if not broken:
        try:
            predict(shape, mapping, machine.target)
        except CompileError as error:
            broken.append(Violation("R11", f"a cost ({error})", 1, 0, "the missing entry"))
    return broken


def check(shape: LutShape, mapping: Mapping, machine: Machine, name: str = "layer") -> None:
    """Raise CompileError naming the layer and every rule that the mapping breaks, if it does."""
    if broken := violations(shape, mapping, machine):
        reasons = "; ".join(map(str, broken))
        raise CompileError(f"{name}: mapping ({mapping}) on {machine.target.name}: {reasons}")
