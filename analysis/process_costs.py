"""
What a process costs at a choice of blocks and lanes: cycles for one batch, and resources.

A choice is made before the hardware exists: at the value stage, where nothing has been changed
yet. Cycles are those of the longest chain of the process in `analysis/schedules.py`, in closed
form; a test holds the two against each other. Resources come from the operators and buffers
that `operators_of` and `buffers_of` name.

The *side* of a process is a set of its streams that carry blocks of one size. Most have one;
what a matrix product reads has nothing to do with what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import gcd, prod

from xdsl.ir import SSAValue

from ..dialects import array_stream
from ..dialects.array_stream import split_at, stream_type
from ..dialects.inr import shape_of
from ..errors import reject
from .operators import (
    FLOAT_CYCLES,
    MEMORY_CYCLES,
    Operator,
    Product,
    in_turn,
    is_float,
    lanes_of,
    map_latency,
    map_operators,
    operators_of,
    product_of,
    reduce_timing,
)
from .schedules import ROUTE, Buffer, buffers_of


def divisors(n: int) -> tuple[int, ...]:
    """All divisors of n, ascending."""
    return tuple(d for d in range(1, n + 1) if n % d == 0)


@dataclass(frozen=True)
class Side:
    """
    Streams of one process that carry blocks of one size: operands by index, and results.

    Every block size divides `extent`. `cycles` gives, for a block size, the least cycles that the
    process takes for a batch whatever its other choices; None where its kernel does not take it.
    """

    inputs: tuple[int, ...]
    outputs: tuple[SSAValue, ...]
    extent: int
    cycles: Callable[[int], int | None]


def sides_of(op: array_stream.ProcessOp) -> list[Side]:
    """
    The sides of a process.

    Raises CompileError for a process whose timing is not known.
    """
    inputs = tuple(i for i, v in enumerate(op.operands) if v in op.input_streams)
    outputs = op.output_streams
    match op:
        case array_stream.ReadOp() | array_stream.WriteOp():
            (stream,) = (*op.input_streams, *outputs)
            n = stream_type(stream).elements
            return [Side(inputs, outputs, n, lambda b: n // b + 1 + MEMORY_CYCLES)]
        case array_stream.ConstantOp():
            n = stream_type(op.stream).elements
            stored = prod(shape_of(op.values))
            return [Side(inputs, outputs, stored, lambda b: n // b + 1 + ROUTE)]
        case array_stream.MapOp() | array_stream.CopyOp():
            return [_one_side(op, stream_type(op.input_streams[0]).elements)]
        case array_stream.ReshapeOp():
            return [Side(inputs, outputs, stream_type(op.stream).elements, lambda b: 0)]
        case array_stream.MatmulOp():
            return _matmul_sides(op)
        case array_stream.MatmulDynamicOp():
            return _matmul_dynamic_sides(op)
        case array_stream.ReblockOp():
            a, b = stream_type(op.stream), stream_type(op.result)
            taken = max(a.blocks, b.blocks) + 1
            # Somebody asked for these two sizes.
            return [
                Side(inputs, (), a.block.data, lambda _: taken),
                Side((), outputs, b.block.data, lambda _: taken),
            ]
        case array_stream.ReduceSumOp():
            return _reduce_sides(op)
        case array_stream.TransposeOp():
            outer, a, c, inner = op.groups
            extent = inner if inner > 1 else gcd(a, c)
            array = a * c * inner
            return [Side(inputs, outputs, extent, lambda b: outer * (2 * (array // b) + 4))]
        case array_stream.BroadcastOp():
            outer, repeat, inner = split_at(stream_type(op.result).extents, op.axis.value.data)
            return [_one_side(op, inner if inner > 1 else gcd(outer, repeat))]
        case array_stream.SliceOp():
            _, extent, inner = split_at(stream_type(op.stream).extents, op.axis.value.data)
            start, size, step = op.window
            return [_one_side(op, inner if step > 1 else inner * gcd(start, size, extent))]
        case array_stream.PadOp():
            _, extent, inner = split_at(stream_type(op.stream).extents, op.axis.value.data)
            return [_one_side(op, inner * gcd(op.low.value.data, extent, op.high.value.data))]
        case array_stream.ConcatOp():
            axis = op.axis.value.data
            rows = [prod(stream_type(v).extents[axis:]) for v in op.inputs]
            return [_one_side(op, gcd(*rows))]
        case _:
            raise reject(op, "no known cycles for it")


def _one_side(op: array_stream.ProcessOp, extent: int) -> Side:
    """All streams in blocks of one size, a block of the largest in each iteration."""
    streams = (*op.input_streams, *op.output_streams)
    n = max(stream_type(v).elements for v in streams)
    apart = op.cycles_apart if isinstance(op, array_stream.MapOp) else 1
    return Side(
        tuple(range(len(op.operands))),
        op.output_streams,
        extent,
        lambda b: (n // b - 1) * apart + 2,
    )


def _reduce_sides(op: array_stream.ReduceSumOp) -> list[Side]:
    n = stream_type(op.stream).elements
    outer, axis, inner = split_at(stream_type(op.stream).extents, op.axis.value.data)
    adder = FLOAT_CYCLES["fadd"] if is_float(op.stream) else 0
    if inner == 1:
        # In float each element of a block waits for the sum with the one before it.
        return [
            Side((0,), (), axis, lambda b: n // b * (b * adder or 1) + 1),
            Side((), (op.result,), outer, lambda b: 0),
        ]
    return [
        Side((0,), (op.result,), inner, lambda b: n // b * max(1, -(-adder // (inner // b))) + 1)
    ]


# Matrix products.


def _matmul_sides(op: array_stream.MatmulOp) -> list[Side]:
    k, n = op.weight_shape
    rows = op.rows
    choices = lane_choices(op)
    product = product_of(op)

    def fastest(block: int) -> int | None:
        possible = [c for c in choices if lanes_fit(k, c, block)]
        return min((matmul_cycles(product, rows, (k, n), c, block) for c in possible), default=None)

    return [
        Side(tuple(range(len(op.inputs))), (), k, lambda b: rows * (k // b + LOAD_CYCLES)),
        Side((), tuple(op.outputs), n, fastest),
    ]


def _matmul_dynamic_sides(op: array_stream.MatmulDynamicOp) -> list[Side]:
    (rows, k), (_, n) = stream_type(op.lhs).extents, stream_type(op.rhs).extents
    product = product_of(op)
    # One chain reads all of one side and then all of the other: half of the time for each.
    return [
        Side((0,), (), k, lambda b: 2 * rows * (k // b + LOAD_CYCLES)),
        Side((1,), (), n, lambda b: 2 * (k * n // b + 2)),
        Side((), (op.result,), n, lambda b: matmul_cycles(product, rows, (k, n), (1, 1), b)),
    ]


LOAD_CYCLES = 4
"""Cycles of a row besides its blocks: claim a buffer, enter the loop, store, hand over."""


def lane_choices(op: array_stream.MatmulOp) -> tuple[tuple[int, int], ...]:
    """Every pair of lanes that divides the weight; those of the user where there are any."""
    if op.lanes is not None:
        return (lanes_of(op),)
    k, n = op.weight_shape
    return tuple((a, b) for a in divisors(k) for b in divisors(n))


def lanes_fit(k: int, lanes: tuple[int, int], block: int) -> bool:
    """
    Whether the kernel takes these lanes with output blocks of `block`: one of the lanes along N
    and the block divides the other, and blocks that complete together leave before the next do.
    """
    lanes_k, lanes_n = lanes
    if lanes_n % block and block % lanes_n:
        return False
    held = max(lanes_n, block)
    return held // block <= k // lanes_k * (held // lanes_n)


def at_lanes(product: Product, k: int, lanes: tuple[int, int]) -> Product:
    """The timing of a product at other lanes."""
    return replace(product, lanes=lanes, steps=k // lanes[0])


def matmul_row(product: Product, shape: tuple[int, int], lanes: tuple[int, int], block: int) -> int:
    """Cycles that the products of a row take, of a K x N weight, with output blocks of `block`."""
    k, n = shape
    chosen = at_lanes(product, k, lanes)
    group = max(1, lanes[1] // block)
    iterations = chosen.steps * (n // lanes[1]) + group - 1
    return 4 + chosen.latency + (iterations - 1) * chosen.interval


def matmul_cycles(
    product: Product, rows: int, shape: tuple[int, int], lanes: tuple[int, int], block: int
) -> int:
    """Cycles that the products of a batch take."""
    return rows * matmul_row(product, shape, lanes, block)


def macs_of(op: array_stream.ProcessOp) -> int:
    """Multiply-accumulate operations of a matrix product; 0 for any other process."""
    match op:
        case array_stream.MatmulOp():
            return len(op.inputs) * op.rows * prod(op.weight_shape)
        case array_stream.MatmulDynamicOp():
            return prod(stream_type(op.lhs).extents) * stream_type(op.rhs).extents[1]
        case _:
            return 0


# Depths.


def pipeline_depth(op: array_stream.ProcessOp) -> int:
    """Cycles that no choice avoids between what a process reads and what it makes of it."""
    match op:
        case array_stream.ReadOp() | array_stream.WriteOp():
            return MEMORY_CYCLES
        case array_stream.MapOp():
            return map_latency(op)
        case array_stream.MatmulOp():
            return at_lanes(product_of(op), op.weight_shape[0], (1, 1)).latency
        case array_stream.MatmulDynamicOp():
            return product_of(op).latency
        case array_stream.ReduceSumOp():
            return reduce_timing(op)[0]
        case array_stream.ReshapeOp():
            return 0
        case _:
            return ROUTE


def fill_of(op: array_stream.ProcessOp) -> int:
    """
    Cycles by which a process with its blocks and lanes is behind what it reads, at most: the
    entry into its loop, what it reads before it can write, its pipeline, a FIFO.
    """
    hop, depth = 2, pipeline_depth(op)
    match op:
        case array_stream.MatmulOp():
            k, _ = op.weight_shape
            source, result = (stream_type(v).block.data for v in (op.inputs[0], op.outputs[0]))
            row = matmul_row(product_of(op), op.weight_shape, lanes_of(op), result)
            return hop + k // source + LOAD_CYCLES + row
        case array_stream.MatmulDynamicOp():
            a, b = stream_type(op.lhs), stream_type(op.rhs)
            shape, block = (b.extents[0], b.extents[1]), stream_type(op.result).block.data
            loaded = b.blocks + 2 + shape[0] // a.block.data + LOAD_CYCLES
            return hop + loaded + matmul_row(product_of(op), shape, (1, 1), block)
        case array_stream.TransposeOp():
            outer, *_ = op.groups
            return hop + 2 * (stream_type(op.stream).blocks // outer) + LOAD_CYCLES
        case array_stream.ReduceSumOp():
            a, b = stream_type(op.stream), stream_type(op.result)
            _, axis, inner = split_at(a.extents, op.axis.value.data)
            sums = b.block.data if inner == 1 else 1
            return hop + depth + sums * axis * inner // a.block.data * reduce_timing(op)[1]
        case array_stream.SliceOp() | array_stream.PadOp() | array_stream.ConcatOp():
            streams = (*op.input_streams, *op.output_streams)
            axis = op.axis.value.data
            longest = max(
                prod(stream_type(v).extents[axis:]) // stream_type(v).block.data for v in streams
            )
            return hop + depth + longest
        case array_stream.ReshapeOp():
            return 0
        case array_stream.ReblockOp():
            sizes = [stream_type(v).block.data for v in (op.stream, op.result)]
            return hop + depth + max(sizes) // min(sizes)
        case _:
            return hop + depth


def longest_chain(
    ops: Iterable[array_stream.ProcessOp], depth: Callable[[array_stream.ProcessOp], int]
) -> int:
    """The largest sum of depths along a path of streams; `ops` come after what they read."""
    until: dict[SSAValue, int] = {}
    longest = 0
    for op in ops:
        total = depth(op) + max((until[v] for v in op.input_streams), default=0)
        longest = max(longest, total)
        until.update(dict.fromkeys(op.output_streams, total))
    return longest


# Resources.


def operators_at(op: array_stream.ProcessOp, block: int, interval: int = 1) -> list[Operator]:
    """The operators of an elementwise process or a sum at another block size and interval."""
    if not isinstance(op, array_stream.MapOp | array_stream.ReduceSumOp):
        return operators_of(op)
    now = stream_type(op.input_streams[0]).block.data
    uses = map_operators(op) if isinstance(op, array_stream.MapOp) else operators_of(op)
    return in_turn([replace(o, count=o.count * block // now) for o in uses], interval)


def buffers_at(op: array_stream.ProcessOp, block: int) -> list[Buffer]:
    """The buffers of a process other than a product at another block size."""
    streams = (*op.input_streams, *op.output_streams)
    now = stream_type(streams[0]).block.data
    buffers = buffers_of(op)
    if block == now or not buffers:
        return buffers
    match op:
        case array_stream.MapOp():
            return [replace(b, count=b.count * block // now) for b in buffers]
        case array_stream.ConstantOp() | array_stream.ReduceSumOp():
            return [
                replace(b, words=max(1, b.words * now // block), count=b.count * block // now)
                for b in buffers
            ]
        case array_stream.TransposeOp() if op.groups[3] == 1:
            banks = block * block // (now * now)
            return [replace(b, words=b.words // banks, count=b.count * banks) for b in buffers]
        case _:
            return [
                replace(b, words=max(1, b.words * now // block), bits=b.bits * block // now)
                for b in buffers
            ]
