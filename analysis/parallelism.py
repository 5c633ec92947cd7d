"""
Blocks and lanes under the limits of a part: the least number of cycles that fits.

The rate of a streaming design is that of its slowest process, so the choice is a search over
one number, the cycles T that no process may exceed for a batch:

* at a given T, streams that meet in a process get the smallest blocks with which all that read and
  write them keep to T (what a larger block costs is one more copy of every elementwise
  operator), and at these blocks each product the cheapest lanes with which it does;
* what changes between two values of T is in the cycles of some process at some choice, so only
  those values are tried, upwards from what the multipliers of the part allow. The first that fits
  is the least.

Cheapest is the smallest sum of what is used of each limit, as fractions of it. Where that does not
fit, the same is tried with each resource for itself. Of equal cost, the lanes that give
results at the most even pace are taken: they need the shallowest FIFOs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, inf
from typing import TypeAlias

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ..dialects import array_stream
from ..dialects.array_stream import StreamType, stream_type
from ..errors import CompileError, reject
from .operators import Product, product_of
from .process_costs import (
    Side,
    buffers_at,
    divisors,
    lane_choices,
    lanes_fit,
    macs_of,
    matmul_cycles,
    operators_at,
    sides_of,
)
from .resources import buffer_resources, operator_resources
from .targets import RESOURCES, FpgaPart, Resources

Lanes: TypeAlias = tuple[int, int]


NOTHING = Resources()


@dataclass(frozen=True)
class Usage:
    """What a design, or a part of one, takes."""

    resources: Resources = NOTHING
    lanes: int = 0
    """Multiply-accumulate units."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.resources + other.resources, self.lanes + other.lanes)

    @cached_property
    def amounts(self) -> tuple[int, ...]:
        """How much of each of `KINDS`."""
        return (*(getattr(self.resources, kind) for kind in RESOURCES), self.lanes)


KINDS = (*RESOURCES, "lanes")
"""What is limited."""


@dataclass(frozen=True)
class Limits:
    """How much of each resource may be used; `lanes` None is as many as the others allow."""

    resources: Resources
    lanes: int | None = None

    @cached_property
    def amounts(self) -> tuple[float, ...]:
        """How much of each of `KINDS`; infinite where there is no limit."""
        lanes = inf if self.lanes is None else self.lanes
        return (*(getattr(self.resources, kind) for kind in RESOURCES), lanes)

    def allow(self, usage: Usage) -> bool:
        """Whether nothing is exceeded."""
        return all(u <= n for u, n in zip(usage.amounts, self.amounts, strict=True))


def limits_of(
    part: FpgaPart, fill: float, dsp: int | None = None, lanes: int | None = None
) -> Limits:
    """The share `fill` of a part; of the DSPs not more than `dsp`."""
    share = {kind: int(getattr(part.capacity, kind) * fill) for kind in RESOURCES}
    if dsp is not None:
        share["dsp"] = min(share["dsp"], dsp)
    return Limits(Resources(**share), lanes)


@dataclass(frozen=True)
class Reblock:
    """Where two ends of a stream cannot agree: the reader at `operand` of `reader` gets blocks."""

    stream: SSAValue
    reader: Operation
    operand: int
    block: int


@dataclass(frozen=True)
class Parallelism:
    """A choice for a function, and what it costs."""

    cycles: int
    """What no process exceeds for a batch."""
    blocks: Mapping[SSAValue, int]
    """The block size of each stream where it is written."""
    reblocks: tuple[Reblock, ...]
    lanes: Mapping[array_stream.MatmulOp, Lanes]
    intervals: Mapping[array_stream.MapOp, int]
    """Cycles between blocks of the elementwise processes that use their operators in turn."""
    usage: Usage


@dataclass(frozen=True)
class Option:
    """Lanes that a product can have at an output block size, and the cycles it then takes."""

    lanes: Lanes
    cycles: int


@dataclass(frozen=True)
class _Node:
    """One side of one process."""

    op: array_stream.ProcessOp
    side: Side
    sizes: Mapping[int, int]
    """Cycles for each block size that it takes."""


@dataclass(frozen=True)
class _Edge:
    """A stream and one of its readers, as the sides at its ends."""

    stream: SSAValue
    reader: Operation
    operand: int
    ends: tuple[int, int]


@dataclass(frozen=True)
class _Group:
    """Sides, by their numbers, that get one block size, and those that suit them all."""

    members: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass
class Search:
    """
    The choices of a function at the value stage with number formats.

    Raises CompileError for streams and weights without a format.
    """

    function: FuncOp
    part: FpgaPart
    limits: Limits
    nodes: list[_Node] = field(default_factory=list[_Node])
    edges: list[_Edge] = field(default_factory=list[_Edge])
    in_turn: bool = False
    """Whether elementwise processes may use their operators in turn."""
    _usage: dict[tuple[int, Lanes | None, int, int], Usage] = field(
        default_factory=dict[tuple[int, "Lanes | None", int, int], Usage]
    )
    _options: dict[tuple[Operation, int], list[Option]] = field(
        default_factory=dict[tuple[Operation, int], list[Option]]
    )

    def __post_init__(self) -> None:
        writer: dict[SSAValue, int] = {}
        reads: list[tuple[Operation, int, int]] = []
        for op in self.processes:
            for side in sides_of(op):
                index = len(self.nodes)
                self.nodes.append(_Node(op, side, _sizes(op, side)))
                writer.update(dict.fromkeys(side.outputs, index))
                reads += [(op, operand, index) for operand in side.inputs]
        for op, operand, index in reads:
            stream = op.operands[operand]
            self.edges.append(_Edge(stream, op, operand, (writer[stream], index)))

    @cached_property
    def processes(self) -> list[array_stream.ProcessOp]:
        """The processes of the function, each after what it reads."""
        ops = self.function.body.block.ops
        return [op for op in ops if isinstance(op, array_stream.ProcessOp)]

    @cached_property
    def products(self) -> dict[array_stream.MatmulOp, Product]:
        """The matrix products by a resident weight, and their timing."""
        return {
            op: product_of(op) for op in self.processes if isinstance(op, array_stream.MatmulOp)
        }

    @cached_property
    def _alike(self) -> dict[array_stream.ProcessOp, int]:
        """A number for each process; products of one shape in the same formats share theirs."""
        numbers: dict[object, int] = {}
        alike: dict[array_stream.ProcessOp, int] = {}
        for op in self.processes:
            key = op if op not in self.products else (op.operand_types, op.result_types)
            properties = tuple(op.properties.values()) if op in self.products else ()
            alike[op] = numbers.setdefault((key, properties), len(numbers))
        return alike

    @property
    def macs(self) -> int:
        """Multiply-accumulate operations of a batch."""
        return sum(map(macs_of, self.processes))

    @cached_property
    def floor(self) -> int:
        """
        Cycles that no choice goes below: the operations of all products over the lanes that the
        limits allow if everything else were free.
        """
        least = -(-self.macs // self.limits.lanes) if self.limits.lanes else 0
        work = 0.0
        for op in self.products:
            one = self.usage(op, (1, 1), 1)
            work += macs_of(op) * one.resources.dsp / one.lanes
        return max(least, int(work / max(self.limits.resources.dsp, 1)))

    # The search.

    def best(self) -> Parallelism:
        """
        The choice with the fewest cycles that fits: first with an operator for each use; where
        nothing fits then, with elementwise processes that use theirs in turn.

        Raises CompileError, with what is short, where none does.
        """
        candidates = self.candidates()
        first = bisect_left(candidates, self.floor)
        for self.in_turn in (False, True):
            for cycles in candidates[first:]:
                if (found := self.at(cycles)) is not None:
                    return found
        raise self._too_small()

    def interval(self, op: array_stream.ProcessOp, block: int, cycles: int) -> int:
        """Cycles between the blocks of a process that keeps to `cycles`; 1 without sharing."""
        if not isinstance(op, array_stream.MapOp):
            return 1
        if op.interval is not None or not self.in_turn:
            return op.cycles_apart
        blocks = stream_type(op.inputs[0]).elements // block
        # More than one use of everything in turn saves nothing.
        uses = max((o.count for o in operators_at(op, block)), default=1)
        return max(1, min((cycles - 2) // max(blocks - 1, 1), uses))

    def candidates(self) -> list[int]:
        """The cycles of every process at every choice, ascending."""
        values = {c for node in self.nodes for c in node.sizes.values()}
        for node in self.nodes:
            if isinstance(node.op, array_stream.MatmulOp) and node.side.outputs:
                values |= {o.cycles for b in node.sizes for o in self.options(node.op, b)}
        return sorted(values)

    def options(self, op: array_stream.MatmulOp, block: int) -> list[Option]:
        """All lanes that a product can have with output blocks of `block`."""
        key = (op, block)
        if key not in self._options:
            shape, rows, product = op.weight_shape, op.rows, self.products[op]
            self._options[key] = [
                Option(lanes, matmul_cycles(product, rows, shape, lanes, block))
                for lanes in lane_choices(op)
                if lanes_fit(shape[0], lanes, block)
            ]
        return self._options[key]

    def at(self, cycles: int) -> Parallelism | None:
        """The choice at a number of cycles; None where it is too fast, or does not fit."""
        groups = self._groups(cycles)
        if groups is None:
            return None
        for weights in self._weightings():
            found = self._choose(cycles, groups, weights)
            if found is not None and self.limits.allow(found.usage):
                return found
        return None

    def _weightings(self) -> Iterator[tuple[float, ...]]:
        """What a unit of each of `KINDS` costs: all of them, then each for itself."""
        fractions = [1 / max(n, 1) for n in self.limits.amounts]
        yield tuple(fractions)
        for index, fraction in enumerate(fractions):
            if fraction:
                # The others break ties.
                yield tuple(f * (1 if i == index else 1e-6) for i, f in enumerate(fractions))

    def _choose(
        self, cycles: int, groups: Sequence[_Group], weights: Sequence[float]
    ) -> Parallelism | None:
        """
        The smallest blocks for each group, and the cheapest lanes at these; None where two groups
        cannot be joined.
        """
        sizes: dict[int, int] = {}
        lanes: dict[array_stream.MatmulOp, Lanes] = {}
        intervals: dict[array_stream.MapOp, int] = {}
        usage = Usage()
        for group in groups:
            tried = ((b, self._at_block(group, b, cycles, weights)) for b in group.sizes)
            found = next(((b, part) for b, part in tried if part is not None), None)
            if found is None:
                return None
            block, (taken_by_group, chosen) = found
            sizes.update(dict.fromkeys(group.members, block))
            usage += taken_by_group
            lanes.update(chosen)
            for index in group.members:
                op = self.nodes[index].op
                apart = self.interval(op, block, cycles)
                if isinstance(op, array_stream.MapOp) and apart > 1:
                    intervals[op] = apart
        reblocks: list[Reblock] = []
        for edge in self.edges:
            a, b = (sizes[end] for end in edge.ends)
            if a == b:
                continue
            taken = stream_type(edge.stream).elements // min(a, b) + 1
            if max(a, b) % min(a, b) or taken > cycles:
                return None
            reblocks.append(Reblock(edge.stream, edge.reader, edge.operand, b))
        blocks = {
            stream: sizes[index]
            for index, node in enumerate(self.nodes)
            for stream in node.side.outputs
        }
        return Parallelism(cycles, blocks, tuple(reblocks), lanes, intervals, usage)

    def _at_block(
        self, group: _Group, block: int, cycles: int, weights: Sequence[float]
    ) -> tuple[Usage, dict[array_stream.MatmulOp, Lanes]] | None:
        """What the processes that write a group's streams take, and the lanes of the products."""
        usage = Usage()
        lanes: dict[array_stream.MatmulOp, Lanes] = {}
        for index in group.members:
            op = self.nodes[index].op
            if not self.nodes[index].side.outputs:
                continue
            chosen = None
            if isinstance(op, array_stream.MatmulOp):
                chosen = self._cheapest(op, block, cycles, weights)
                if chosen is None:
                    return None
                lanes[op] = chosen
            usage += self.usage(op, chosen, block, self.interval(op, block, cycles))
        return usage, lanes

    def _cheapest(
        self, op: array_stream.MatmulOp, block: int, cycles: int, weights: Sequence[float]
    ) -> Lanes | None:
        best: tuple[float, int, int] | None = None
        chosen: Lanes | None = None
        for option in self.options(op, block):
            if option.cycles > cycles:
                continue
            cost = _cost(self.usage(op, option.lanes, block), weights)
            rank = (cost, option.lanes[1], option.cycles)
            if best is None or rank < best:
                best, chosen = rank, option.lanes
        return chosen

    # Blocks.

    def _groups(self, cycles: int) -> list[_Group] | None:
        """
        Sides with one block size: all that are joined by streams, as far as their processes keep
        to `cycles` with a common one. None where some process cannot with any.
        """
        able = [frozenset(b for b, c in n.sizes.items() if c <= cycles) for n in self.nodes]
        if not all(able):
            return None
        joined = list(range(len(self.nodes)))

        def root(index: int) -> int:
            while joined[index] != index:
                index = joined[index]
            return index

        # Where not all can agree, long arrays do first: what stays apart needs a process that
        # passes the whole array.
        for edge in sorted(self.edges, key=lambda e: -stream_type(e.stream).elements):
            a, b = (root(end) for end in edge.ends)
            if a != b and (common := able[a] & able[b]):
                joined[b] = a
                able[a] = common
        members: dict[int, list[int]] = {}
        for index in range(len(self.nodes)):
            members.setdefault(root(index), []).append(index)
        return [_Group(tuple(m), tuple(sorted(able[r]))) for r, m in members.items()]

    # Resources.

    def usage(
        self, op: array_stream.ProcessOp, lanes: Lanes | None, block: int, interval: int = 1
    ) -> Usage:
        """What a process takes at these lanes, blocks of its results and cycles between them."""
        key = (self._alike[op], lanes, block, interval)
        if key not in self._usage:
            self._usage[key] = self._measure(op, lanes, block, interval)
        return self._usage[key]

    def _measure(
        self, op: array_stream.ProcessOp, lanes: Lanes | None, block: int, interval: int = 1
    ) -> Usage:
        if isinstance(op, array_stream.MatmulOp) and lanes is not None:
            trial = with_lanes(op, lanes, block)
            usage = self._measure(trial, None, block)
            trial.drop_all_references()
            return usage + Usage(lanes=len(op.inputs) * lanes[0] * lanes[1])
        usage = Usage(lanes=int(isinstance(op, array_stream.MatmulDynamicOp)))
        for operator in operators_at(op, block, interval):
            usage += Usage(operator_resources(operator, self.part))
        for buffer in buffers_at(op, block):
            usage += Usage(buffer_resources(buffer))
        return usage

    def _too_small(self) -> CompileError:
        """What is short even at the slowest choice."""
        name, slowest = self.function.sym_name.data, self.candidates()[-1]
        groups = self._groups(slowest)
        assert groups is not None  # every process keeps to the most cycles of any
        rows = [f"{'':8}{'needed':>10}{'allowed':>10}{'short of':>10}"]
        for index, (kind, allowed) in enumerate(zip(KINDS, self.limits.amounts, strict=True)):
            alone = [float(i == index) for i in range(len(KINDS))]
            found = self._choose(slowest, groups, alone)
            if found is None:
                return CompileError(
                    f"{name}: some stream has no block sizes that suit its writer and all its "
                    "readers; leave more of them open"
                )
            if allowed == inf:
                continue
            needed = found.usage.amounts[index]
            short = needed - int(allowed)
            shown = short if short > 0 else "-"
            rows.append(f"{kind:8}{needed:>10}{int(allowed):>10}{shown:>10}")
        return CompileError(
            f"{name} does not fit {self.part.name} even with each product at its fewest lanes, "
            "each stream at its smallest blocks and elementwise operators used in turn:\n"
            + "\n".join(rows)
            + "\ntake a larger part, or allow more of this one; narrower numbers, a lower order or "
            "fewer outputs need less"
        )


def _cost(usage: Usage, weights: Sequence[float]) -> float:
    return sum(w * n for w, n in zip(weights, usage.amounts, strict=True))


def with_block(type_: StreamType, block: int) -> StreamType:
    """The same stream in other blocks."""
    return StreamType(type_.extents, type_.element, block, type_.capacity, type_.storage_kind)


def set_lanes(op: array_stream.MatmulOp, lanes: Lanes) -> None:
    """Give a product its lanes along K and N."""
    op.lanes = DenseArrayBase.from_list(i64, lanes)


def with_lanes(op: array_stream.MatmulOp, lanes: Lanes, block: int) -> array_stream.MatmulOp:
    """A copy of a product, in no block, at other lanes and blocks of its results."""
    trial = op.clone()
    set_lanes(trial, lanes)
    for value in tuple(trial.outputs):
        Rewriter.replace_value_with_new_type(value, with_block(stream_type(value), block))
    return trial


def _sizes(op: array_stream.ProcessOp, side: Side) -> dict[int, int]:
    """Cycles of a side for each of its block sizes; those that somebody set are the only ones."""
    streams = (*(op.operands[i] for i in side.inputs), *side.outputs)
    types = [stream_type(v) for v in streams]
    extent = gcd(side.extent, *(t.elements for t in types))
    fixed = {t.block.data for t in types if t.block.data != 1 or t.capacity is not None}
    kept = isinstance(op, array_stream.ReblockOp)
    sizes = {t.block.data for t in types} if kept else fixed or set(divisors(extent))
    cycles = {b: c for b in sorted(sizes) if (c := side.cycles(b)) is not None}
    if not cycles:
        raise reject(op, f"no lanes go with blocks of {', '.join(map(str, sizes))}; leave one open")
    return cycles
