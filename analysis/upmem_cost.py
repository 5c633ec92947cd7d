"""
What a layer costs on a machine: transfers, kernel, launch.

    t = index + table (unless resident) + kernel + output + launch

Transfers follow the target's curves over all bytes sent, padding and copies counted. The kernel
is counted in issue slots, by the instructions of the kernel that is generated, and in the time
of the DMA engine:

* a phase of n rows dealt to T tasklets lasts max(n, 11·⌈n/T⌉) times the slots of a row: a DPU
  issues one instruction a cycle, a tasklet one in 11 cycles (PrIM, arXiv 2105.03814);
* `static` and `fine`: max(slots, DMA, a tasklet's own slots and waits), as other tasklets issue
  while one waits;
* `coarse`: between two barriers the same; but all wait for the sub-tile, and for the indices of the
  first and the sums of the last n tile of such a phase, as all tasklets move theirs at once.

With G groups of ranks that transfer and run in turn (a group's part of a transfer takes 1/G of it;
launches are part of the kernel, a group need not wait for another's) a layer takes
(t_in + t_k + t_out)/G + (G - 1)/G · max(t_in + t_out, t_k), once many layers follow each other; an
estimate, see `upmem_joint.schedule`.

`KERNEL_COSTS` has every constant of the kernel; what a machine is stands in its target.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CompileError
from .upmem_mapping import (
    DMA_MAX,
    ROWS_AT_ONCE,
    UNROLL,
    VARIANTS,
    Geometry,
    LutShape,
    Mapping,
    Variant,
    lane_limit,
)
from .upmem_points import Flags, Integers, Points, ceil_div
from .upmem_target import MIB, UpmemTarget

Numbers = npt.NDArray[np.float64]

KERNEL_COSTS: dict[str, dict[str, float]] = {
    # Instructions of a row for a codebook: load the index, add it to the pointer. 4 bits: a load
    # for two, a mask and a shifted add for the low one, a mask and an add or shift for the other.
    "index": {"4": 2.5, "8": 2.0, "16": 2.0},
    # Instructions of a row for `UNROLL` codebooks: two pointers, one of them with the branch.
    "turn": {"scalar32": 3.0, "swar16": 3.0, "swar8": 3.0},
    # int8, of an input: the load of each row's activation; for all rows that are multiplied at once
    # a load of each weight, and for `UNROLL` inputs the pointers, those of rows and of weights with
    # the branch; a product (MUL8 of the DPU, one cycle) and an addition of each row and column.
    "product": {"activation": 1.0, "weight": 1.0, "pointer": 1.0, "branch": 1.0, "multiply": 2.0},
    # Loads of four entries; a 64-bit load has eight. scalar32 loads each entry (in "add").
    "load": {"scalar32": 0.0, "swar16": 0.5, "swar8": 0.5},
    # Adding four entries. scalar32: load and add of each are 8; 10 is what fits the 2.8 cycles an
    # addition measured for f_l = 8 in PIM-DL. swar16: add, mask, add shifted. swar8: n words added,
    # then as swar16, so (n - 1 + 3)/n for n in {2, 4}.
    "add": {"scalar32": 10.0, "swar16": 3.0, "swar8/2": 2.0, "swar8/4": 1.5},
    # Clearing the accumulators of four columns.
    "clear": {"scalar32": 4.0, "swar16": 2.0, "swar8": 2.0, "int8": 4.0},
    # Four sums to the output tile: the first time stored, else loaded, added and stored. From lanes
    # each is taken out and freed of its bias first, and one word is made of two.
    "store": {"scalar32": 4.0, "swar16": 13.0, "swar8": 13.0, "int8": 4.0},
    "accumulate": {"scalar32": 12.0, "swar16": 21.0, "swar8": 21.0, "int8": 12.0},
    # Instructions around these: pointers of a row and sub-tile, of a tasklet and tile, of a DMA
    # request, of a barrier and tasklet.
    "around": {"row": 12.0, "tile": 40.0, "request": 8.0, "barrier": 20.0},
    # Cycles of a launch before the first and after the last row.
    "start": {"static": 3000.0, "coarse": 3000.0, "fine": 3000.0},
}
"""Instructions (issue slots) of the generated kernel on a DPU, by what they are for."""

REGISTERS = 24
"""General registers of a tasklet (DPU target in upmem/llvm-project)."""


def kernel_cost(group: str, key: str) -> float:
    """
    An entry of `KERNEL_COSTS`.

    Raises CompileError where it is missing or no positive number (loads may be 0).
    """
    found = KERNEL_COSTS.get(group, {}).get(key)
    if found is None:
        raise CompileError(f"the cost model has no entry '{group}' of '{key}' in KERNEL_COSTS")
    if not 0 < found < float("inf") and not (group == "load" and found == 0):
        raise CompileError(f"cost '{group}' of '{key}' is {found}; it must be finite and above 0")
    return found


def swar8_run(max_entry: int) -> int:
    """Entries that `swar8` adds in 8-bit lanes before it widens: 4, 2, or 0 where not even 2."""
    limit = lane_limit("swar8", max_entry)
    return 4 if limit >= 4 else 2 if limit >= 2 else 0


def registers(variant: Variant, f_l: npt.ArrayLike, max_entry: int) -> Integers:
    """Registers of the innermost loop: accumulators, two pointers and an end, temporaries."""
    columns = np.asarray(f_l, dtype=np.int64)
    if variant == "int8":
        # Of each row its accumulators, activation and pointer; a weight and its pointer, a product,
        # the end of the loop.
        return ROWS_AT_ONCE * (columns + 2) + 4
    if variant == "scalar32":
        return columns + 6
    if variant == "swar16":
        return ceil_div(columns, 2) + 6
    return ceil_div(columns, 2) + 7 + swar8_run(max_entry)


def _add_key(variant: str, max_entry: int) -> str:
    return f"swar8/{swar8_run(max_entry)}" if variant == "swar8" else variant


def _by(points: Points, field: str, values: dict[int, float]) -> Numbers:
    """For each point the value that belongs to its value of a field."""
    out = np.zeros(len(points))
    for key, value in values.items():
        out[points.field(field) == key] = value
    return out


def _by_variant(points: Points, group: str) -> Numbers:
    present = np.unique(points.field("variant"))
    keys = {int(v): VARIANTS[int(v)] for v in present}
    if group == "add":
        keys = {v: _add_key(name, points.shape.max_entry) for v, name in keys.items()}
    return _by(points, "variant", {v: kernel_cost(group, key) for v, key in keys.items()})


def _slots_per_product(points: Points, least: bool) -> Numbers:
    """
    Instructions of the innermost loop of an int8 product for a row, input and column; with `least`
    as if no row went alone.
    """
    f_l, own = points.field("f_l"), points.rows_per_tasklet
    parts = ("activation", "weight", "pointer", "branch", "multiply")
    activation, weight, pointer, branch, multiply = (kernel_cost("product", p) for p in parts)

    def together(rows: int) -> Numbers:
        shared = f_l * weight + ((rows + 1) * pointer + branch) / UNROLL
        return (activation + shared / rows) / f_l + multiply

    # What is left of a tasklet's rows goes one by one.
    alone = 0 * own if least else own % ROWS_AT_ONCE / own
    return together(ROWS_AT_ONCE) * (1 - alone) + together(1) * alone


def slots_per_addition(points: Points, least: bool = False) -> Numbers:
    """
    Instructions of the innermost loop an addition, or of an int8 product a multiply-add: what the
    kernel comes to in long runs. With `least`, what no tiling of rows goes below.
    """
    if points.shape.is_product:
        return _slots_per_product(points, least)
    f_l = points.field("f_l")
    bits = {int(b): kernel_cost("index", str(int(b))) for b in np.unique(points.field("idx_bits"))}
    words = f_l / 4
    row = _by(points, "idx_bits", bits) + _by_variant(points, "turn") / UNROLL
    row = row + words * (_by_variant(points, "load") + _by_variant(points, "add"))
    fine = points.is_("load", "fine")
    return np.where(fine, row + kernel_cost("around", "request"), row) / f_l


@dataclass(frozen=True)
class Costs:
    """Seconds of many mappings, an array each."""

    index: Numbers
    """Indices to the DPUs."""
    table: Numbers
    """Tables to the DPUs, 0 for resident ones."""
    output: Numbers
    """Sums from the DPUs."""
    slots: Numbers
    """Issue slots of the kernel."""
    dma: Numbers
    """The DMA engine in the kernel."""
    kernel: Numbers
    """The kernel: slots and DMA as far as they overlap, start and end."""
    launch: Numbers
    """Launches, one a group."""
    total: Numbers
    """All of them one after the other."""
    pipelined: Numbers
    """With the groups in turn; the same as `total` for one group."""


@dataclass(frozen=True)
class Breakdown:
    """Seconds of one mapping; the fields of `Costs`."""

    index: float
    table: float
    output: float
    slots: float
    dma: float
    kernel: float
    launch: float
    total: float
    pipelined: float

    def __str__(self) -> str:
        parts = ("index", "table", "kernel", "output", "launch")
        return " + ".join(f"{name} {getattr(self, name) * 1e3:.2f}" for name in parts) + (
            f" = {self.total * 1e3:.2f} ms (slots {self.slots * 1e3:.2f},"
            f" DMA {self.dma * 1e3:.2f}; in groups {self.pipelined * 1e3:.2f})"
        )


def predict(shape: LutShape, mapping: Mapping, target: UpmemTarget) -> Breakdown:
    """
    What one mapping costs.

    Raises CompileError where a cost is missing, or is not finite and positive.
    """
    costs = predict_all(Points.of(shape, [mapping]), target)
    return breakdown(costs, 0)


def breakdown(costs: Costs, i: int) -> Breakdown:
    """One mapping's seconds out of many."""
    return Breakdown(**{f.name: float(getattr(costs, f.name)[i]) for f in fields(Costs)})


def predict_all(points: Points, target: UpmemTarget, least: bool = False) -> Costs:
    """
    What each of some mappings costs; with `least`, what no order of the same sizes goes below.

    Raises CompileError where a cost is missing, or is not finite and positive (rule R11).
    """
    ranks = ceil_div(points.dpus, target.dpus_per_rank)
    every = points.dpus / MIB
    index = target.transfer("index", every * points.index_bytes, ranks)
    table = target.transfer("table", every * points.table_bytes, ranks)
    table = np.where(points.is_("residency", "resident"), 0.0, table)
    output = target.transfer("output", every * points.output_bytes, ranks)
    slots, dma, kernel = (target.seconds(c) for c in kernel_cycles(points, target, least))
    launch = target.launch_seconds * points.field("groups")
    total = index + table + output + kernel + launch
    groups = points.field("groups")
    turns = in_turn(index + table + output, kernel + target.launch_seconds, groups)
    costs = Costs(
        index, table, output, slots, dma, kernel, np.asarray(launch, np.float64), total, turns
    )
    for name in ("index", "output", "slots", "dma", "kernel", "total", "pipelined"):
        values = getattr(costs, name)
        if len(values) and not (np.all(np.isfinite(values)) and np.all(values > 0)):
            worst = points.mapping(int(np.argmin(np.where(np.isfinite(values), values, -1.0))))
            raise CompileError(f"R11: the cost '{name}' of ({worst}) is not finite and positive")
    return costs


def in_turn(moved: Any, kernel: Any, groups: Any) -> Any:
    """Seconds with G groups in turn: of all transfers `moved` and of the kernels `kernel`."""
    return (moved + kernel) / groups + (groups - 1) / groups * np.maximum(moved, kernel)


def effective_rows(points: Points, target: UpmemTarget) -> Integers:
    """
    Σ over n tiles of max(n, 11·⌈n/T⌉): rows of slots that the phases of all n tiles last.
    """
    tasklets, spacing = points.field("tasklets"), target.spacing

    def phase(rows: Integers) -> Integers:
        return np.maximum(rows, spacing * ceil_div(rows, tasklets))

    return (points.turns("n") - 1) * phase(points.tile("n")) + phase(points.last("n"))


def kernel_cycles(
    points: Points, target: UpmemTarget, least: bool = False
) -> tuple[Numbers, Numbers, Numbers]:
    """
    Cycles of a DPU: issue slots, DMA engine, kernel as a whole. With `least`, as if an order
    moved everything as seldom as any order does.
    """
    tasklets, spacing = points.field("tasklets"), target.spacing
    static, coarse, fine = (points.is_("load", kind) for kind in ("static", "coarse", "fine"))
    f_l = points.field("f_l")

    # The DMA engine.
    n, f, c = (points.turns(axis) for axis in "nfc")
    tiles = n * f * c
    table_visits, index_visits, output_visits = (
        (f * c, n * c, n * f) if least else map(points.visits, ("fc", "nc", "nf"))
    )
    passes = np.where(points.hoisted, table_visits // (f * c), n)
    sub_tiles = passes * points.column_tiles * points.codebook_tiles
    table_requests = np.select(
        [static, coarse],
        [
            ceil_div(points.table_bytes, DMA_MAX),
            sub_tiles * ceil_div(points.sub_tile_bytes, DMA_MAX),
        ],
        points.rows * points.column_tiles * points.codebooks,
    )
    table_moved = np.select(
        [static, coarse], [points.table_bytes, passes * points.table_bytes], table_requests * f_l
    )
    own_rows, busy = points.rows_per_tasklet, np.minimum(tasklets, points.tile("n"))
    # Where c is not the innermost loop, all visits but the first of a tile read it back.
    output_moves = 2 * output_visits - n * f
    index_moved = points.index_bytes * index_visits / (n * c)
    output_moved = points.output_bytes * output_moves / (n * f)
    index_each = ceil_div(own_rows * points.pitch(points.tile("c")), DMA_MAX)
    output_each = ceil_div(own_rows * points.tile("f") * points.row_bytes, DMA_MAX)
    own_requests = index_visits * busy * index_each + output_moves * busy * output_each
    requests = table_requests + own_requests
    table_dma = target.dma_request * table_requests + target.dma_per_byte * table_moved
    own_dma = target.dma_request * own_requests + target.dma_per_byte * (index_moved + output_moved)
    dma = table_dma + own_dma

    row = row_slots(points)
    work = effective_rows(points, target) * points.column_tiles * row
    # Around it, by each tasklet of a tile; few tasklets issue one in `spacing` cycles.
    pace = np.maximum(tasklets, spacing)
    around = tiles * kernel_cost("around", "tile") * pace
    outside_rows = np.where(fine, own_requests, requests)
    around = around + outside_rows * kernel_cost("around", "request") * pace / tasklets
    barriers = np.select([static, coarse], [1 + 0 * sub_tiles, 2 * sub_tiles], 0)
    around = around + barriers * kernel_cost("around", "barrier") * pace
    slots = work + around

    # A tasklet by itself waits for every entry that it fetches.
    latency = target.read_latency + target.latency_per_byte * f_l
    waits = np.where(fine, points.codebooks * latency, 0.0)
    longest = (n - 1) * own_rows + ceil_div(points.last("n"), tasklets)
    alone = longest * points.column_tiles * (spacing * row + waits)
    start = {load: kernel_cost("start", load) for load in ("static", "coarse", "fine")}
    first = np.select([static, coarse], [start["static"], start["coarse"]], start["fine"])
    # Tiles of rows that follow each other between two barriers.
    in_phase = np.where(points.hoisted & (passes == 1), n, 1)
    behind = own_dma * (in_phase - 1) / in_phase
    together = np.select(
        [coarse, static],
        [
            table_dma + own_dma - behind + np.maximum(slots, behind),
            table_dma + np.maximum(slots, own_dma),
        ],
        np.maximum(np.maximum(slots, dma), alone),
    )
    return slots, dma, together + first


def row_slots(points: Points, least: bool = False) -> Numbers:
    """
    Instructions of a row in one sub-tile of columns: all codebooks, all flushes. `least` as in
    `slots_per_addition`.
    """
    f_l, words = points.field("f_l"), points.field("f_l") / 4
    addition = slots_per_addition(points, least) * f_l
    flush = kernel_cost("around", "row") + words * _by_variant(points, "clear")
    store, again = (words * _by_variant(points, group) for group in ("store", "accumulate"))
    tiles = points.codebook_tiles
    return points.codebooks * addition + tiles * flush + store + (tiles - 1) * again


def floor_cycles(points: Points, target: UpmemTarget) -> Numbers:
    """
    Cycles that the kernel of these points does not go below: the work of its rows, and the table
    moved once (`static`, `coarse`) or each entry (`fine`).

    No mapping of a DPU goes below the same with all rows and all codebooks as one tile and the most
    tasklets.
    """
    work = effective_rows(points, target) * points.column_tiles * row_slots(points, least=True)
    once = target.dma_request * ceil_div(points.table_bytes, DMA_MAX)
    once = work + once + target.dma_per_byte * points.table_bytes
    entries = points.rows * points.column_tiles * points.codebooks
    each = entries * (target.dma_request + target.dma_per_byte * points.field("f_l"))
    return np.where(points.is_("load", "fine"), np.maximum(work, each), once)


def published_prediction(shape: LutShape, mapping: Mapping, target: UpmemTarget) -> Breakdown:
    """
    The same for the kernel of PIM-DL, by its own measured cycles (`published_kernel` of a target):
    additions at the cycles of (c_l, f_l) and the loads of sub-tiles, one after the other. Its
    kernel moves a sub-tile for each n tile.

    Raises CompileError where the target has no such measurement.
    """
    table = target.published
    if table is None or mapping.load != "coarse" or mapping.tasklets != table.tasklets:
        raise CompileError(
            f"target '{target.name}' has no published kernel for load {mapping.load} and "
            f"{mapping.tasklets} tasklets"
        )
    cycles = table.cycles.get((mapping.c_l, mapping.f_l))
    if cycles is None:
        raise CompileError(
            f"target '{target.name}': no published cycles for c_l {mapping.c_l}, f_l {mapping.f_l}"
        )
    known = predict(shape, mapping, target)
    g = Geometry(shape, mapping)
    each = cycles / (mapping.c_l * mapping.f_l * table.tasklets)
    slots = g.rows * g.features * g.codebooks * each
    sub_tiles = g.axis("n").turns * g.features * g.codebooks / (mapping.f_l * mapping.c_l)
    size = mapping.c_l * mapping.f_l * shape.centroids / table.tasklets
    # Each tasklet loads its part in one request.
    dma = sub_tiles * table.tasklets * (target.dma_request + target.dma_per_byte * size)
    kernel = target.seconds(slots + dma)
    total = known.index + known.table + known.output + kernel
    values: dict[str, Any] = {
        "index": known.index,
        "table": known.table,
        "output": known.output,
        "slots": target.seconds(slots),
        "dma": target.seconds(dma),
        "kernel": kernel,
        "launch": 0.0,
        "total": total,
        "pipelined": total,
    }
    return Breakdown(**values)


def legal_variants(max_entry: int) -> Flags:
    """Which of `VARIANTS` a table with this largest entry can use."""
    return np.array([v != "int8" and (v != "swar8" or swar8_run(max_entry) > 0) for v in VARIANTS])
