"""
The best mapping of one layer on a machine: every point of a stated space, none left out but those
that are proved to be no better.

The space. DPUs: all that the machine has, for every lp and split_cb that is 2^i or 3·2^i. n_m: the
DPU's rows over 2^i or 3·2^i. c_l: its codebooks over the same, with at least 256 rows of
the table. c_m and f_m: c_l and f_l times 1, 2, 4 (f_m: 8) or all. f_l of 4 to 32; all orders,
loads, variants and index widths; six counts of tasklets. What a user fixes takes the place of its
part.

What is left out, and why nothing is lost:

* `out` = i32 where the sums fit i16, and 16-bit indices where bytes or half-bytes cost no more
  instructions: the same work and more bytes;
* `per_call` tables, unless asked for: the same and a transfer more;
* orders that nest the same loops as one before, since a loop of one turn is not there;
* a part of the space (a partition, variant and index width) whose transfers and additions alone
  take longer than a point already found; in the other parts, tiles that do so with the moves of
  the best of all orders.

Of equally fast points the one with fewer DPUs wins, then the first in the order of the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Dict
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from typing import Any, Literal

import numpy as np

from ..errors import CompileError
from .upmem_cost import (
    KERNEL_COSTS,
    Breakdown,
    Numbers,
    breakdown,
    floor_cycles,
    in_turn,
    predict_all,
    swar8_run,
)
from .upmem_legality import Machine, demands, legal, violations, wram_needed
from .upmem_mapping import (
    FIELDS,
    INDEX_BITS,
    LOADS,
    ORDERS,
    SIGNED,
    UNROLL,
    LutShape,
    Mapping,
    Variant,
    lane_limit,
    up_to_multiple,
)
from .upmem_points import Flags, Integers, Points, code
from .upmem_target import MIB

Fixed = Dict[str, Any]
"""Fields of a mapping that the user has chosen."""

Objective = Literal["pipelined", "total"]
"""Seconds of `Costs` that are minimised: with the groups in turn, or one after the other."""

COLUMNS = (4, 8, 16, 32)
"""f_l: what registers allow."""

TASKLETS = (16, 14, 12, 11, 8)
"""Counts of tasklets, besides the most that the generation has."""

LEAST_ROWS = 256
"""Rows of the table (codebooks times centroids) that a sub-tile has at least, if there are more."""


@dataclass(frozen=True)
class Partition:
    """The part of the space with one split over DPUs, one variant and one index width."""

    ip: int
    lp: int
    split_cb: int
    groups: int
    variant: Variant
    idx_bits: int


@dataclass(frozen=True)
class Tuned:
    """The best point, and how it was found."""

    shape: LutShape
    machine: Machine
    mapping: Mapping
    cost: Breakdown
    points: int
    """Legal points that were bounded or computed."""
    parts: int
    """Parts of the space."""
    skipped: int
    """Parts that a bound proved to be no better."""
    fixed: Fixed = field(default_factory=dict[str, Any])

    @property
    def seconds(self) -> float:
        """Of a call, with the rank groups in turn where there are several."""
        return self.cost.pipelined


@cache
def steps(most: int) -> tuple[int, ...]:
    """1, 2, 3, 4, 6, 8, 12, ... up to `most`."""
    found = {1 << i for i in range(most.bit_length())} | {3 << i for i in range(most.bit_length())}
    return tuple(sorted(n for n in found if n <= most))


def partitions(shape: LutShape, machine: Machine, fixed: Fixed, pipeline: bool) -> list[Partition]:
    """The parts of the space, in a fixed order."""
    groups = list(steps(machine.ranks)) if pipeline else [1]
    found: dict[Partition, None] = {}
    for group in [fixed["groups"]] if "groups" in fixed else groups:
        per_rank = machine.target.dpus_per_rank
        missing = machine.ranks * per_rank - machine.dpus
        each = machine.dpus if group == 1 else machine.ranks // group * per_rank - missing
        columns = max(1, ceil(shape.features / min(COLUMNS)))
        most = max(1, min(each, columns))
        for lp in _given(fixed, "lp", steps(most)):
            books = max(1, min(each // lp, ceil(shape.codebooks / UNROLL)))
            for split in _given(fixed, "split_cb", steps(min(16, books))):
                rows = each // (lp * split) * group
                # As few DPUs as keep the rows of each.
                least = up_to_multiple(ceil(shape.rows / ceil(shape.rows / max(1, rows))), group)
                for ip in _given(fixed, "ip", (min(max(1, rows), least),)):
                    for variant in _given(fixed, "variant", variants(shape)):
                        for bits in _given(fixed, "idx_bits", _index_bits(shape)):
                            found[Partition(ip, lp, split, group, variant, bits)] = None
    return list(found)


def _given(fixed: Fixed, name: str, otherwise: Sequence[Any]) -> Sequence[Any]:
    return (fixed[name],) if name in fixed else otherwise


def variants(shape: LutShape) -> tuple[Variant, ...]:
    if shape.is_product:
        return ("int8",)
    return ("scalar32", "swar16", *(("swar8",) if swar8_run(shape.max_entry) else ()))


def _index_bits(shape: LutShape) -> tuple[int, ...]:
    if shape.is_product:
        return (8,)
    cost = KERNEL_COSTS.get("index", {})
    wide = cost.get("16", 0.0) < cost.get("8", 0.0)
    return tuple(
        bits for bits in INDEX_BITS if shape.centroids <= 1 << bits and (bits < 16 or wide)
    )


def fits_i16(shape: LutShape, split_cb: int) -> bool:
    """Whether sums of one part of the codebooks fit 16 bits, by the table's bound."""
    if split_cb > 1:
        books = up_to_multiple(ceil(shape.codebooks / split_cb), UNROLL)
        return shape.term * books < 1 << 15
    return shape.high < 1 << 15 and shape.low >= -(1 << 15)


def candidates(
    shape: LutShape, part: Partition, machine: Machine, fixed: Fixed, smallest: bool = False
) -> Iterator[dict[str, Integers]]:
    """
    All tiles of a part, for each load and f_l: equal arrays a field, `order` left out. With
    `smallest`, only those that take the least WRAM or the least MRAM, legal or not.
    """
    rows = ceil(shape.rows / part.ip)
    books = up_to_multiple(ceil(shape.codebooks / part.split_cb), UNROLL)
    wram = machine.target.wram
    most_tasklets = machine.target.tasklets
    tasklets = tuple(t for t in (most_tasklets, *TASKLETS) if t <= most_tasklets)
    n_ms = {n for k in steps(rows) if (n := ceil(rows / k)) * 8 <= wram}
    least = min(books, up_to_multiple(ceil(LEAST_ROWS / shape.centroids), UNROLL))
    lanes = lane_limit("swar16", shape.max_entry)
    most = books if part.variant in SIGNED else min(books, lanes // UNROLL * UNROLL)
    c_ls = {up_to_multiple(ceil(books / k), UNROLL) for k in steps(books // UNROLL)}
    c_ls = {c for c in c_ls if min(least, most) <= c <= most} or {most}
    pairs = [
        (c_l, c_m)
        for c_l in _given(fixed, "c_l", sorted(c_ls))
        for c_m in _given(fixed, "c_m", _tiles(c_l, books, 4))
    ]
    if smallest:
        tasklets, n_ms = (min(tasklets),), {min(n_ms, default=1)}
        pairs = [pair for pair in pairs if pair[0] == pairs[0][0]]
    for f_l in _given(fixed, "f_l", COLUMNS):
        features = up_to_multiple(ceil(shape.features / part.lp), f_l)
        f_ms = _tiles(f_l, features, 8)[: 1 if smallest else None]
        for load in _given(fixed, "load", LOADS):
            if load == "static" and not smallest and features * books * shape.centroids > wram:
                continue
            axes = np.meshgrid(
                np.array(list(dict.fromkeys(_given(fixed, "tasklets", tasklets))), np.int64),
                np.array(list(_given(fixed, "n_m", sorted(n_ms))), np.int64),
                np.array(list(_given(fixed, "f_m", f_ms)), np.int64),
                np.arange(len(pairs)),
                indexing="ij",
            )
            threads, n_m, f_m, pair = (axis.ravel() for axis in axes)
            chosen = np.array(pairs, dtype=np.int64).reshape(-1, 2)[pair]
            values = {
                "tasklets": threads,
                "n_m": n_m,
                "f_m": f_m,
                "c_l": chosen[:, 0],
                "c_m": chosen[:, 1],
            }
            default = "i16" if fits_i16(shape, part.split_cb) else "i32"
            constants = {
                "f_l": f_l,
                "load": load,
                "out": fixed.get("out", default),
                "residency": fixed.get("residency", "resident"),
                **vars(part),
            }
            for name, value in constants.items():
                values[name] = np.full(len(threads), code(name, value), dtype=np.int64)
            yield values


def _tiles(step: int, whole: int, most: int) -> list[int]:
    """`step` times 1, 2, ... `most` below `whole`, and `whole`."""
    return [t for i in range(most.bit_length()) if (t := step << i) < whole] + [whole]


_AXIS_BITS = {"n": 4, "f": 2, "c": 1}


def _first_of_their_kind() -> Flags:
    """For each set of loops that are there, the orders that no earlier one equals."""
    keep = np.zeros((8, len(ORDERS)), dtype=bool)
    for there in range(8):
        seen: set[str] = set()
        for i, order in enumerate(ORDERS):
            nest = "".join(axis for axis in order if there & _AXIS_BITS[axis])
            keep[there, i] = nest not in seen
            seen.add(nest)
    return keep


_KEEP = _first_of_their_kind()


def legal_tiles(
    shape: LutShape,
    part: Partition,
    machine: Machine,
    fixed: Fixed,
    kernel_limit: Callable[[], float] = lambda: float("inf"),
) -> Iterator[Points]:
    """
    The legal points of a part with one order, in pieces; no rule depends on the order. Those whose
    kernel takes more than `kernel_limit` seconds are left out.
    """
    for values in candidates(shape, part, machine, fixed):
        first = code("order", fixed.get("order", ORDERS[0]))
        values["order"] = np.full(len(values["ip"]), first, dtype=np.int64)
        points = Points(shape, values)
        # The one rule that most points break comes first.
        points = points[wram_needed(points) <= machine.target.wram]
        limit = kernel_limit()
        if len(points) and limit < float("inf"):
            floor = machine.target.seconds(floor_cycles(points, machine.target))
            points = points[floor <= limit]
        if len(points):
            points = points[legal(points, machine)]
        if len(points):
            yield points


def all_orders(points: Points, fixed: Fixed) -> Points:
    """Each point with every order that nests its loops in another way."""
    if "order" in fixed:
        return points
    there = sum(
        (bit * (points.turns(axis) > 1) for axis, bit in _AXIS_BITS.items()),
        start=np.zeros(len(points), dtype=np.int64),
    )
    each, orders = np.nonzero(_KEEP[there])
    expanded = points[each]
    expanded.fields["order"] = orders.astype(np.int64)
    return expanded


@dataclass(frozen=True)
class Bound:
    """Seconds that no point of a part goes below."""

    moved: float
    """Transfers."""
    total: float
    """The objective."""


def bounds(
    shape: LutShape,
    parts: Sequence[Partition],
    machine: Machine,
    fixed: Fixed,
    objective: Objective = "pipelined",
) -> list[Bound]:
    """What no point of each part goes below: transfers, the additions, the table once."""
    widths, loads = _given(fixed, "f_l", COLUMNS), _given(fixed, "load", LOADS)
    residency, whole = fixed.get("residency", "resident"), 1 << 40
    sample = [
        Mapping(
            n_m=whole,
            f_m=f_l,
            c_m=whole,
            f_l=f_l,
            c_l=whole,
            load=load,
            tasklets=fixed.get("tasklets", machine.target.tasklets),
            out=fixed.get("out", "i16" if fits_i16(shape, part.split_cb) else "i32"),
            residency=residency,
            **vars(part),
        )
        for part in parts
        for f_l in widths
        for load in loads
    ]
    points, target = Points.of(shape, sample), machine.target
    ranks = -(-points.dpus // target.dpus_per_rank)
    mib = points.dpus / MIB
    # Indices without the padding of tiles.
    indices = mib * points.rows * points.codebooks * points.field("idx_bits") / 8
    moved = target.transfer("index", indices, ranks)
    moved = moved + target.transfer("output", mib * points.output_bytes, ranks)
    if residency == "per_call":
        moved = moved + target.transfer("table", mib * points.table_bytes, ranks)
    kernel = target.seconds(floor_cycles(points, target)) + target.launch_seconds
    groups = points.field("groups")
    total = moved + kernel if objective == "total" else in_turn(moved, kernel, groups)
    shaped = (len(parts), len(widths) * len(loads))
    return [
        Bound(float(a), float(b))
        for a, b in zip(
            moved.reshape(shaped).min(axis=1), total.reshape(shaped).min(axis=1), strict=True
        )
    ]


_FIRST = 512
"""Points of a part that are tried first, those with the lowest bounds."""


def search(
    shape: LutShape,
    parts: Sequence[Partition],
    machine: Machine,
    fixed: Fixed,
    below: float = float("inf"),
    objective: Objective = "pipelined",
) -> Tuned | None:
    """The best legal point of some parts, if one takes at most `below` seconds."""
    best: tuple[float, tuple[int, ...], Points, int, Breakdown] | None = None
    counted = skipped = 0

    def limit() -> float:
        # Costs of equal points may differ by rounding, and a bound is summed in another order.
        return (below if best is None else min(below, best[0])) * (1 + 1e-9)

    def attempt(points: Points) -> None:
        nonlocal best, counted
        points = all_orders(points, fixed)
        costs = predict_all(points, machine.target)
        counted += len(points)
        seconds: Numbers = getattr(costs, objective)
        i = _first_best(points, seconds)
        key = float(seconds[i]), _rank(points, i)
        if key[0] <= below and (best is None or key < best[:2]):
            best = *key, points, i, breakdown(costs, i)

    least = bounds(shape, parts, machine, fixed, objective) if parts else []
    for number in sorted(range(len(parts)), key=lambda i: least[i].total):
        if least[number].total > limit():
            skipped += 1
            continue
        groups, moved = parts[number].groups, least[number].moved

        def kernel_limit(groups: int = groups, moved: float = moved) -> float:
            # All of the kernel is in every objective, after a G-th of the transfers at least.
            return limit() - (moved if objective == "total" else moved / groups)

        for points in legal_tiles(shape, parts[number], machine, fixed, kernel_limit):
            floor: Numbers = getattr(predict_all(points, machine.target, least=True), objective)
            counted += len(points)
            order = np.argsort(floor, kind="stable")
            first, rest = order[:_FIRST], order[_FIRST:]
            for chosen in (first, rest):
                left = chosen[floor[chosen] <= limit()]
                if len(left):
                    attempt(points[left])
    if best is None:
        return None
    _, _, points, i, cost = best
    return Tuned(shape, machine, points.mapping(i), cost, counted, len(parts), skipped, dict(fixed))


def _rank(points: Points, i: int) -> tuple[int, ...]:
    return (int(points.dpus[i]), *(int(points.field(name)[i]) for name in FIELDS))


def _first_best(points: Points, seconds: Any) -> int:
    ties: list[int] = np.flatnonzero(seconds == seconds.min()).tolist()
    return min(ties, key=lambda i: _rank(points, i))


def tune(
    shape: LutShape,
    machine: Machine,
    fixed: Fixed | None = None,
    *,
    pipeline: bool = False,
    name: str = "layer",
) -> Tuned:
    """
    The fastest legal mapping that keeps the fields the user has fixed. With `pipeline`, groups
    of ranks may transfer and run in turn.

    Raises CompileError where no point is legal: which memory or rule, and by how much, at the
    point that comes closest.
    """
    given = dict(fixed or {})
    if unknown := [key for key in given if key not in FIELDS]:
        raise CompileError(f"{name}: a mapping has no field '{unknown[0]}'")
    parts = partitions(shape, machine, given, pipeline)
    if found := search(shape, parts, machine, given):
        return found
    raise CompileError(unfit(shape, parts, machine, given, name))


def unfit(
    shape: LutShape, parts: Sequence[Partition], machine: Machine, fixed: Fixed, name: str
) -> str:
    """Why no point is legal: the rules that the point coming closest breaks, and by how much."""
    closest: tuple[int, float, Mapping] | None = None
    for part in parts:
        for values in candidates(shape, part, machine, fixed, smallest=True):
            order = code("order", fixed.get("order", ORDERS[0]))
            values["order"] = np.full(len(values["ip"]), order, dtype=np.int64)
            points = Points(shape, values)
            broken = np.zeros(len(points), dtype=np.int64)
            excess = np.zeros(len(points))
            for demand in demands(points, machine):
                broken += ~demand.kept
                over = np.maximum(demand.need - demand.have, 0)
                excess += over / np.maximum(demand.have, 1)
            i = int(np.lexsort((excess, broken))[0])
            if closest is None or (broken[i], excess[i]) < closest[:2]:
                closest = int(broken[i]), float(excess[i]), points.mapping(i)
    size = f"{shape.codebooks} codebooks of {shape.centroids} × {shape.features}"
    head = f"{name}: no mapping of {size} for {shape.rows} rows fits {machine.dpus} DPUs of "
    head += f"{machine.target.name}"
    if fixed:
        head += f" with {', '.join(f'{k}={v}' for k, v in fixed.items())}"
    if closest is None:
        return f"{head}: no tile is small enough for {machine.target.wram:,} bytes of WRAM"
    reasons = violations(shape, closest[2], machine)
    return f"{head}. The closest breaks {'; '.join(map(str, reasons))} ({closest[2]})"


@dataclass(frozen=True)
class Choice:
    """What a layer may do, on DPUs or not: seconds of a call, and the MRAM that it holds."""

    what: str
    """`tables`, `int8 product` or `host`."""
    sent: float
    """Transfers to DPUs."""
    received: float
    """Transfers from DPUs."""
    kernel: float
    """The kernel and its launch."""
    host: float
    """Work of the host: search and dequantisation, or the whole product."""
    resident: int
    """Bytes of each DPU kept between calls."""
    scratch: int
    """Bytes of each DPU during a call, free for other layers after it."""
    mapping: Mapping | None = None

    @property
    def moved(self) -> float:
        """Both transfers."""
        return self.sent + self.received

    @property
    def seconds(self) -> float:
        """One after the other."""
        return self.moved + self.kernel + self.host


def pareto(
    shape: LutShape,
    machine: Machine,
    fixed: Fixed | None = None,
    *,
    pipeline: bool = False,
    objective: Objective = "pipelined",
    name: str = "layer",
) -> list[Choice]:
    """
    Mappings of a layer of which none is as fast as another and as small in MRAM,
    fastest last: one for each size of table a DPU that is worth it.

    Raises CompileError as `tune` does.
    """
    given = dict(fixed or {})
    found: list[Tuned] = []
    for residency in _given(given, "residency", ("per_call", "resident")):
        now = {**given, "residency": residency}
        parts = partitions(shape, machine, now, pipeline)
        sizes: dict[tuple[int, int], list[Partition]] = {}
        for part in parts:
            sizes.setdefault((part.lp, part.split_cb), []).append(part)
        by_size = sorted(sizes, key=lambda key: (-key[0] * key[1], key))
        # Small tables first: a larger one has to be faster than all that came before.
        for key in [None] if residency == "per_call" else by_size:
            mine = parts if key is None else sizes[key]
            limit = min((getattr(c.cost, objective) for c in found), default=float("inf"))
            if (best := search(shape, mine, machine, now, limit, objective)) is not None:
                found.append(best)
    if not found:
        raise CompileError(
            unfit(shape, partitions(shape, machine, given, pipeline), machine, given, name)
        )
    return front([choice_of(tuned) for tuned in found])


def choice_of(tuned: Tuned) -> Choice:
    """A mapping as what it holds and costs, without the work of the host."""
    points, cost = Points.of(tuned.shape, [tuned.mapping]), tuned.cost
    table = int(points.table_bytes[0])
    scratch = int(points.index_bytes[0] + points.output_bytes[0])
    resident = tuned.mapping.residency == "resident"
    return Choice(
        "tables",
        sent=cost.index + cost.table,
        received=cost.output,
        kernel=cost.kernel + tuned.machine.target.launch_seconds,
        host=0.0,
        resident=table if resident else 0,
        scratch=scratch + (0 if resident else table),
        mapping=tuned.mapping,
    )


def front(choices: Sequence[Choice]) -> list[Choice]:
    """The choices that no other matches in all of times and memory, slowest first."""

    def size(c: Choice) -> tuple[float, ...]:
        return c.moved, c.kernel, c.host, c.resident, c.scratch

    kept: list[Choice] = []
    for choice in sorted(choices, key=size):
        if not any(all(b <= a for a, b in zip(size(choice), size(k), strict=True)) for k in kept):
            kept.append(choice)
    return sorted(kept, key=lambda c: (-c.seconds, size(c)))
