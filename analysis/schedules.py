"""
When each process of a linear function reads and writes: the function as a process network.

A schedule says what the loops of the kernel library (`runtime/hls/include/inr`) do, with the same
numbers: the comment at each kernel says in words what its function here says in segments, and
tests hold the cycle stamps of a simulation of the C++ against these. Three rules hold for all:

* entering a pipelined loop takes one cycle, so the first iteration of a process is in cycle 2 (as
  in RTL that Vitis HLS made); a nest of loops that is flattened is one loop;
* a loop after another one in the same process starts when the last iteration of the first has left
  its pipeline;
* a loop that reads and writes is a flushable pipeline: two chains joined by its registers, which
  hold as many iterations as are under way at full speed. A loop that only reads, or only writes,
  is one chain.

Outside the model: the block-level handshake of the top function (3 cycles in that RTL), and
arguments of the top function that share a memory port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import Float32Type, Float64Type, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import array_stream
from ..dialects.array_stream import STAGE, FixedType, split_at, stream_type
from ..dialects.inr import shape_of
from ..errors import CompileError, reject
from .network import WAR_DELAY, Body, Fifo, Network, Process, Repeat, Segment
from .operators import (
    MEMORY_CYCLES,
    function_tables,
    is_float,
    lanes_of,
    map_latency,
    operators_of,
    product_of,
    reduce_timing,
)

__all__ = [
    "Buffer",
    "buffers_of",
    "element_bits",
    "fifos_of",
    "network_of",
    "operators_of",
]

ENTRY = Segment(1, 1, 1)
"""Entering a pipelined loop."""

ROUTE = 1
"""Cycles from a read to the write of a block that is only moved, into or out of an array."""


def element_bits(element: Attribute) -> int:
    """The bits of one element of a stream."""
    if isinstance(element, FixedType):
        return element.width.data
    return 64 if isinstance(element, Float64Type) else 32


def fifos_of(function: FuncOp) -> list[SSAValue]:
    """Every stream of a linear function that is a FIFO: a reshape shares its operand's."""
    return [value for op in _processes(function) for value in op.output_streams]


def _processes(function: FuncOp) -> list[array_stream.ProcessOp]:
    return [
        op
        for op in function.body.block.ops
        if isinstance(op, array_stream.ProcessOp) and not isinstance(op, array_stream.ReshapeOp)
    ]


def network_of(
    function: FuncOp, names: Mapping[Operation | SSAValue, str] | None = None
) -> tuple[Network, list[SSAValue]]:
    """
    The process network of a function at the linear stage, and the stream of each of its FIFOs.

    The FIFOs come in the order of `fifos_of`, at the depths and storages of their types; after
    them those inside processes (`Fifo.internal`). `names` may name processes and FIFOs; an
    operation without one is called by its kind and number.

    Raises CompileError for a function at another stage, for streams without a number format and
    for a process without a kernel.
    """
    if function.attributes.get(STAGE) != StringAttr("linear"):
        raise CompileError(
            f"{function.sym_name.data} is not at the linear stage; run array-stream-insert-copies"
        )
    builder = _Builder(names or {})
    fifos = fifos_of(function)
    processes = _processes(function)
    for op in processes:
        builder.name(op)
    for value in fifos:
        builder.declare(value)
    for op in processes:
        schedule = _SCHEDULES.get(type(op))
        if schedule is None:
            raise reject(op, "no schedule; analysis/schedules.py has one for every kernel")
        schedule(builder, op)
    return Network(tuple(builder.processes), tuple(builder.fifos)), fifos


def _run(
    count: int,
    reads: tuple[int, ...] = (),
    writes: tuple[int, ...] = (),
    gap: int = 1,
    first_gap: int | None = None,
) -> Body:
    """`count` like stages, of which there may be none."""
    if count == 0:
        return ()
    return (Segment(count, gap if first_gap is None else first_gap, gap, reads, writes),)


def _times(times: int, body: Body) -> Body:
    """A body so many times, without a loop where one is not needed."""
    if times == 0 or not body:
        return ()
    if times == 1:
        return body
    match body:
        case (Segment(count, first, gap, reads, writes),) if first == gap:
            return (Segment(times * count, gap, gap, reads, writes),)
        case _:
            return (Repeat(times, body),)


@dataclass
class _Builder:
    names: Mapping[Operation | SSAValue, str]
    processes: list[Process] = field(default_factory=list[Process])
    fifos: list[Fifo] = field(default_factory=list[Fifo])
    index: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The FIFO behind each stream, reshapes included."""
    given: dict[Operation, str] = field(default_factory=dict[Operation, str])

    def name(self, op: Operation) -> None:
        kind = op.name.removeprefix("array_stream.")
        self.given[op] = self.names.get(op) or f"{kind}_{len(self.given)}"

    def declare(self, value: SSAValue) -> None:
        type_, number = stream_type(value), len(self.fifos)
        name = self.names.get(value) or f"fifo_{number}"
        bits = element_bits(type_.element) * type_.block.data
        self.fifos.append(Fifo(name, bits, type_.capacity, type_.storage_kind))
        self.index[value] = number
        while isinstance(reader := next(iter(value.uses)).operation, array_stream.ReshapeOp):
            value = reader.result
            self.index[value] = number

    def internal(self, name: str, depth: int, latency: int) -> int:
        """A FIFO inside a process."""
        self.fifos.append(Fifo(name, 1, depth, latency=latency))
        return len(self.fifos) - 1

    def chain(self, name: str, *body: Body) -> None:
        """A process of one chain."""
        self.processes.append(Process(name, tuple(part for piece in body for part in piece)))

    def flushable(
        self,
        op: Operation,
        latency: int,
        reads: Callable[[int], Body],
        writes: Callable[[int], Body],
        interval: int = 1,
    ) -> None:
        """
        A loop that reads and writes: `reads` gives the stages in which iterations start, each
        writing one token to the FIFO it is called with, and `writes` those in which they end.
        """
        name = self.given[op]
        depth = -(-(latency + WAR_DELAY) // interval)
        pipeline = self.internal(f"{name}.pipeline", depth, latency)
        self.chain(f"{name}.in", (ENTRY,), reads(pipeline))
        self.chain(f"{name}.out", writes(pipeline))

    # Processes, one kernel each.

    def read(self, op: array_stream.ReadOp) -> None:
        blocks = stream_type(op.stream).blocks
        out = (self.index[op.stream],)
        self.chain(self.given[op], (ENTRY,), _run(blocks, (), out, first_gap=1 + MEMORY_CYCLES))

    def write(self, op: array_stream.WriteOp) -> None:
        blocks = stream_type(op.stream).blocks
        stored = (Segment(1, MEMORY_CYCLES, 1),)
        self.chain(self.given[op], (ENTRY,), _run(blocks, (self.index[op.stream],)), stored)

    def constant(self, op: array_stream.ConstantOp) -> None:
        blocks = stream_type(op.stream).blocks
        out = (self.index[op.stream],)
        self.chain(self.given[op], (ENTRY,), _run(blocks, (), out, first_gap=1 + ROUTE))

    def copy(self, op: array_stream.CopyOp) -> None:
        blocks = stream_type(op.stream).blocks
        out = tuple(self.index[v] for v in op.outputs)
        self.flushable(
            op,
            ROUTE,
            lambda pipe: _run(blocks, (self.index[op.stream],), (pipe,)),
            lambda pipe: _run(blocks, (pipe,), out),
        )

    def map(self, op: array_stream.MapOp) -> None:
        blocks = stream_type(op.inputs[0]).blocks
        inputs = tuple(self.index[v] for v in op.inputs)
        outputs = tuple(self.index[v] for v in op.outputs)
        interval = op.cycles_apart
        self.flushable(
            op,
            map_latency(op),
            lambda pipe: _run(blocks, inputs, (pipe,), interval, 1),
            lambda pipe: _run(blocks, (pipe,), outputs),
            interval,
        )

    def matmul(self, op: array_stream.MatmulOp) -> None:
        (k, n), (source, *_), (result, *_) = op.weight_shape, op.inputs, op.outputs
        blocks = stream_type(source).block.data, stream_type(result).block.data
        inputs = tuple(self.index[v] for v in op.inputs)
        outputs = tuple(self.index[v] for v in op.outputs)
        self._product(op, _ProductShape(op.rows, k, n, *blocks), inputs, outputs, ())

    def matmul_dynamic(self, op: array_stream.MatmulDynamicOp) -> None:
        a, b, c = stream_type(op.lhs), stream_type(op.rhs), stream_type(op.result)
        (rows, k), (_, n) = a.extents, b.extents
        first = (ENTRY, *_run(b.blocks, (self.index[op.rhs],)), Segment(1, ROUTE, 1))
        shape = _ProductShape(rows, k, n, a.block.data, c.block.data)
        self._product(op, shape, (self.index[op.lhs],), (self.index[op.result],), first)

    def _product(
        self,
        op: array_stream.MatmulOp | array_stream.MatmulDynamicOp,
        shape: _ProductShape,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        first: Body,
    ) -> None:
        """
        Two chains that share two row buffers. `claimed` has a token for each buffer from before
        it is filled until after it was used, `filled` one from after it is filled until before
        it is used.
        """
        name, product = self.given[op], product_of(op)
        claimed = self.internal(f"{name}.claimed", 2, 1)
        filled = self.internal(f"{name}.filled", 2, 1)
        blocks = shape.k // shape.block_in
        row = (
            Segment(1, 1, 1, (), (claimed,)),
            ENTRY,
            *_run(blocks, inputs),
            Segment(1, ROUTE + 1, 1, (), (filled,)),
        )
        self.chain(f"{name}.load", first, _times(shape.rows, row))
        # Results leave in groups of so many blocks, one group every `turn` iterations.
        held = max(product.lanes[1], shape.block_out)
        group = held // shape.block_out
        turn = product.steps * (held // product.lanes[1])
        gap = product.interval
        start = 2 + (turn - 1) * gap + product.latency
        if group == 1:
            results = _run(shape.n // held, (), outputs, turn * gap, start)
        else:
            again = _run(group, (), outputs, gap, (turn - group + 1) * gap)
            results = (
                *_run(group, (), outputs, gap, start),
                *_times(shape.n // held - 1, again),
            )
        row = (
            Segment(1, 1, 1, (filled,), ()),
            *results,
            Segment(1, 1, 1, (claimed,), ()),
        )
        self.chain(f"{name}.compute", _times(shape.rows, row))

    def transpose(self, op: array_stream.TransposeOp) -> None:
        outer, a, c, inner = op.groups
        blocks = a * c * inner // stream_type(op.stream).block.data
        one = (
            ENTRY,
            *_run(blocks, (self.index[op.stream],)),
            Segment(1, ROUTE + 1, 1),  # the last block is stored; the second loop is entered
            *_run(blocks, (), (self.index[op.result],), first_gap=1 + ROUTE),
        )
        self.chain(self.given[op], _times(outer, one))

    def broadcast(self, op: array_stream.BroadcastOp) -> None:
        block = stream_type(op.stream).block.data
        outer, repeat, inner = split_at(stream_type(op.result).extents, op.axis.value.data)
        source, total = (self.index[op.stream],), stream_type(op.result).blocks
        if inner % block:  # single elements, a block of them at once
            groups, first, rest = outer // block, 1, repeat - 1
        else:
            groups, first, rest = outer, inner // block, (repeat - 1) * (inner // block)
        self.flushable(
            op,
            ROUTE,
            lambda pipe: _times(groups, (*_run(first, source, (pipe,)), *_run(rest, (), (pipe,)))),
            lambda pipe: _run(total, (pipe,), (self.index[op.result],)),
        )

    def reduce_sum(self, op: array_stream.ReduceSumOp) -> None:
        a, b = stream_type(op.stream), stream_type(op.result)
        outer, axis, inner = split_at(a.extents, op.axis.value.data)
        latency, interval = reduce_timing(op)
        if inner == 1:
            groups, writing = b.blocks, 1
            silent = a.blocks // groups - 1
        else:
            groups, writing = outer, inner // a.block.data
            silent = (axis - 1) * writing
        out = (self.index[op.result],)
        self.flushable(
            op,
            latency,
            lambda pipe: _run(a.blocks, (self.index[op.stream],), (pipe,), interval, 1),
            lambda pipe: _times(
                groups,
                (*_run(silent, (pipe,), (), interval), *_run(writing, (pipe,), out, interval)),
            ),
            interval,
        )

    def slice(self, op: array_stream.SliceOp) -> None:
        a, block = stream_type(op.stream), stream_type(op.stream).block.data
        outer, axis, inner = split_at(a.extents, op.axis.value.data)
        start, size, step = op.window
        if step == 1:
            taken, skipped, times = size * inner // block, 0, 1
        else:
            taken, skipped, times = inner // block, (step - 1) * inner // block, size
        before = start * inner // block
        after = axis * inner // block - before - times * taken - (times - 1) * skipped
        out = (self.index[op.result],)

        def leave(pipe: int) -> Body:
            one = _run(taken, (pipe,), out)
            repeated = _times(times - 1, (*one, *_run(skipped, (pipe,))))
            row = (*_run(before, (pipe,)), *repeated, *one, *_run(after, (pipe,)))
            return _times(outer, row)

        self.flushable(
            op, ROUTE, lambda pipe: _run(a.blocks, (self.index[op.stream],), (pipe,)), leave
        )

    def pad(self, op: array_stream.PadOp) -> None:
        block = stream_type(op.stream).block.data
        outer, axis, inner = split_at(stream_type(op.stream).extents, op.axis.value.data)
        low, size, high = (
            n * inner // block for n in (op.low.value.data, axis, op.high.value.data)
        )
        source = (self.index[op.stream],)
        self.flushable(
            op,
            ROUTE,
            lambda pipe: _times(
                outer,
                (
                    *_run(low, (), (pipe,)),
                    *_run(size, source, (pipe,)),
                    *_run(high, (), (pipe,)),
                ),
            ),
            lambda pipe: _run(outer * (low + size + high), (pipe,), (self.index[op.result],)),
        )

    def concat(self, op: array_stream.ConcatOp) -> None:
        axis = op.axis.value.data
        outer = prod(stream_type(op.result).extents[:axis])
        parts = [(self.index[v], stream_type(v).blocks // outer) for v in op.inputs]
        self.flushable(
            op,
            ROUTE,
            lambda pipe: _times(
                outer, tuple(s for source, n in parts for s in _run(n, (source,), (pipe,)))
            ),
            lambda pipe: _run(stream_type(op.result).blocks, (pipe,), (self.index[op.result],)),
        )

    def reblock(self, op: array_stream.ReblockOp) -> None:
        a, b = stream_type(op.stream), stream_type(op.result)
        source, out = (self.index[op.stream],), (self.index[op.result],)
        parts_in = max(1, a.block.data // b.block.data)
        parts_out = max(1, b.block.data // a.block.data)
        self.flushable(
            op,
            ROUTE,
            lambda pipe: _times(
                a.blocks, (*_run(1, source, (pipe,)), *_run(parts_in - 1, (), (pipe,)))
            ),
            lambda pipe: _times(b.blocks, (*_run(parts_out - 1, (pipe,)), *_run(1, (pipe,), out))),
        )


@dataclass(frozen=True)
class _ProductShape:
    """M x K by K x N, in blocks of `block_in` elements to blocks of `block_out`."""

    rows: int
    k: int
    n: int
    block_in: int
    block_out: int


_SCHEDULES: Mapping[type[Operation], Callable[[_Builder, array_stream.ProcessOp], None]] = {
    array_stream.ReadOp: _Builder.read,
    array_stream.WriteOp: _Builder.write,
    array_stream.ConstantOp: _Builder.constant,
    array_stream.CopyOp: _Builder.copy,
    array_stream.MapOp: _Builder.map,
    array_stream.MatmulOp: _Builder.matmul,
    array_stream.MatmulDynamicOp: _Builder.matmul_dynamic,
    array_stream.TransposeOp: _Builder.transpose,
    array_stream.BroadcastOp: _Builder.broadcast,
    array_stream.ReduceSumOp: _Builder.reduce_sum,
    array_stream.SliceOp: _Builder.slice,
    array_stream.PadOp: _Builder.pad,
    array_stream.ConcatOp: _Builder.concat,
    array_stream.ReblockOp: _Builder.reblock,
}  # pyright: ignore[reportAssignmentType]


# Arrays inside processes.


@dataclass(frozen=True)
class Buffer:
    """
    `count` arrays of `words` words of `bits` bits, each with one port to write and one to read;
    `pingpong` when there are two of each, filled and used in turn, and `rom` when it is constant.
    """

    words: int
    bits: int
    pingpong: bool = False
    rom: bool = False
    count: int = 1


def buffers_of(op: array_stream.ProcessOp) -> list[Buffer]:
    """The arrays inside a process, cut into the banks that its loops need; FIFOs are not here."""
    match op:
        case array_stream.ConstantOp():
            block = stream_type(op.stream).block.data
            bits = element_bits(stream_type(op.stream).element)
            return [Buffer(prod(shape_of(op.values)) // block, bits, rom=True, count=block)]
        case array_stream.MapOp():
            block = stream_type(op.inputs[0]).block.data
            return [
                Buffer(t.data.size, t.width, rom=True, count=block) for t in function_tables(op)
            ]
        case array_stream.MatmulOp():
            return _matmul_buffers(op)
        case array_stream.MatmulDynamicOp():
            (k, n), b = stream_type(op.rhs).extents, stream_type(op.rhs)
            row = Buffer(k, element_bits(stream_type(op.lhs).element), pingpong=True)
            return [row, Buffer(k * n, element_bits(b.element))]
        case array_stream.TransposeOp():
            _, a, c, inner = op.groups
            type_ = stream_type(op.stream)
            block, bits = type_.block.data, element_bits(type_.element)
            if inner % block:
                return [Buffer(a * c // (block * block), bits, count=block * block)]
            return [Buffer(a * c * inner // block, bits * block)]
        case array_stream.BroadcastOp():
            type_ = stream_type(op.stream)
            _, _, inner = split_at(stream_type(op.result).extents, op.axis.value.data)
            words = max(1, inner // type_.block.data)
            return [Buffer(words, element_bits(type_.element) * type_.block.data)]
        case array_stream.ReduceSumOp():
            type_ = stream_type(op.stream)
            _, axis, inner = split_at(type_.extents, op.axis.value.data)
            bits = element_bits(type_.element)
            if not isinstance(type_.element, Float32Type):
                bits += max(axis - 1, 0).bit_length()
            if inner == 1:
                return [Buffer(1, bits)]
            return [Buffer(inner // type_.block.data, bits, count=type_.block.data)]
        case _:
            return []


def _matmul_buffers(op: array_stream.MatmulOp) -> list[Buffer]:
    (k, n), (lanes_k, lanes_n) = op.weight_shape, lanes_of(op)
    row = max(element_bits(stream_type(v).element) for v in op.inputs)
    floating = is_float(op.inputs[0])
    if not floating and op.weight_format is None:
        raise reject(op, "no weight format; run array-stream-assign-formats")
    weight = op.weight_format.width.data if op.weight_format and not floating else 32
    lanes = lanes_k * lanes_n
    buffers = [
        Buffer(k // lanes_k, row, pingpong=True, count=len(op.inputs) * lanes_k),
        Buffer(k * n // lanes, weight, rom=True, count=lanes),
    ]
    if op.bias is not None:
        bits = op.bias_format.width.data if op.bias_format and not floating else 32
        buffers.append(Buffer(prod(shape_of(op.bias)), bits, rom=True))
    return buffers
