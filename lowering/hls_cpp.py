"""
The `hls-cpp` target: a function at the linear stage as HLS C++.

Everything that is a decision was made by passes and stands in attributes and types; what is
printed here is how it is spelled. An operation, format or stream without a spelling is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import IO

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.target import Target

from ..analysis.fixed import Format
from ..analysis.formats import format_of
from ..analysis.operators import map_latency
from ..dialects import array_stream, inr
from ..dialects.array_stream import STAGE, FixedType, StreamType, split_at, stream_type
from ..errors import CompileError, reject, source_line
from ..interpreters.arrays import constant_value
from .cpp_names import Names, identifier
from .hls_constants import Roms
from .hls_map import BodyPrinter, Tables, describe
from .hls_types import TypeNames, is_float, word_type


@dataclass(frozen=True)
class Port:
    """An array argument of the top function."""

    name: str
    shape: tuple[int, ...]
    word: str
    """C type of an element."""
    format: Format | None
    """None for floats, and for an input that the design does not read."""
    bundle: str
    """Name of its memory port."""
    stream: SSAValue | None

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class Fifo:
    """A stream's declaration."""

    name: str
    block: str
    depth: int
    storage: str
    comment: str


@dataclass(frozen=True)
class Process:
    """A call in the dataflow region."""

    name: str
    call: str
    comment: str


@dataclass
class Design:
    """All the parts of a design's C++, in the order in which they are needed."""

    name: str
    floating: bool = False
    inputs: list[Port] = field(default_factory=list[Port])
    outputs: list[Port] = field(default_factory=list[Port])
    fifos: list[Fifo] = field(default_factory=list[Fifo])
    fifo_of: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """The stream behind each FIFO's name."""
    process_of: dict[Operation, str] = field(default_factory=dict[Operation, str])
    """The name of each process."""
    functions: list[str] = field(default_factory=list[str])
    """Definitions of the elementwise processes."""
    processes: list[Process] = field(default_factory=list[Process])
    types: TypeNames = field(default_factory=TypeNames)
    tables: Tables = field(default_factory=Tables)
    names: Names = field(default_factory=Names)
    roms: Roms = field(init=False)

    def __post_init__(self) -> None:
        self.roms = Roms(self.names)


def build_design(function: FuncOp) -> Design:
    """
    The C++ parts of a function at the linear stage.

    Raises CompileError for a function at another stage, and for what has no spelling.
    """
    name = function.sym_name.data
    if function.attributes.get(STAGE) != StringAttr("linear"):
        raise CompileError(
            f"hls-cpp: {name} is not at the linear stage; run array-stream-insert-copies"
        )
    return _Builder(function, Design(identifier(name))).build()


@dataclass
class _Builder:
    function: FuncOp
    design: Design
    process_names: dict[Operation, str] = field(default_factory=dict[Operation, str])
    bases: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """For each stream the layer or input that it descends from: names are made of these."""
    streams: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """The C++ name of each stream; a reshape shares its operand's."""

    def build(self) -> Design:
        block = self.function.body.block
        self.design.names.unique(self.design.name)
        streams = [
            v
            for op in block.ops
            if isinstance(op, array_stream.ProcessOp)
            for v in op.output_streams
        ]
        self.design.floating = any(map(is_float, streams))
        self._ports()
        processes = [
            op
            for op in block.ops
            if isinstance(op, array_stream.ProcessOp) and not isinstance(op, array_stream.ReshapeOp)
        ]
        for op in block.ops:
            self._name(op)
        for op in processes:
            for value in op.output_streams:
                self._declare(op, value)
        for op in processes:
            self._process(op)
        self.design.process_of = self.process_names
        return self.design

    # The top function's arguments.

    def _ports(self) -> None:
        block = self.function.body.block
        last = block.last_op
        assert isinstance(last, ReturnOp)
        inputs = _names_of(self.function.arg_attrs, "x", len(block.args))
        outputs = _names_of(self.function.res_attrs, "y", len(last.operands))
        for argument, name in zip(block.args, inputs, strict=True):
            reads = [u.operation for u in argument.uses]
            stream = reads[0].results[0] if reads else None
            self.design.inputs.append(self._port(name, argument, stream, "gmem_in"))
        for index, (value, name) in enumerate(zip(last.operands, outputs, strict=True)):
            owner = value.owner
            if not isinstance(owner, array_stream.WriteOp):
                raise reject(last, "a result that is not written by array_stream.write")
            bundle = f"gmem_out{index % 8}"
            self.design.outputs.append(self._port(name, value, owner.stream, bundle))

    def _port(self, name: str, value: SSAValue, stream: SSAValue | None, bundle: str) -> Port:
        element = stream_type(stream).element if stream is not None else None
        if element is not None:
            self.design.types.element(element)
        return Port(
            self.design.names.unique(name),
            inr.shape_of(value),
            word_type(element) if element is not None else "float",
            format_of(element) if isinstance(element, FixedType) else None,
            bundle,
            stream,
        )

    # Names.

    def _name(self, op: Operation) -> None:
        """Give a process its name, and its results the layer they descend from."""
        unique = self.design.names.unique
        sources = [self.bases[v] for v in op.operands if v in self.bases]
        base = sources[0] if sources else ""
        match op:
            case array_stream.ReadOp():
                index = list[SSAValue](self.function.body.block.args).index(op.memory)
                base = self.design.inputs[index].name
                self.process_names[op] = unique(f"read_{base}")
            case array_stream.WriteOp():
                last = self.function.body.block.last_op
                assert last is not None
                index = list(last.operands).index(op.memory)
                self.process_names[op] = unique(f"write_{self.design.outputs[index].name}")
            case array_stream.ConstantOp():
                base = _layer(_constant_name(op.values, "constant"))
                self.process_names[op] = unique(
                    f"constant_{base}".replace("constant_constant", "constant")
                )
            case array_stream.MatmulOp():
                base = _layer(_constant_name(op.weights, "matmul"))
                self.process_names[op] = unique(base)
            case array_stream.MapOp():
                verb = describe(tuple(op.body.block.ops))
                self.process_names[op] = unique(f"{verb}_{base}")
            case array_stream.ReshapeOp():
                pass
            case array_stream.ProcessOp():
                verb = op.name.removeprefix("array_stream.")
                self.process_names[op] = unique(f"{verb}_{base}")
            case _:
                return
        for result in op.results:
            if isinstance(result.type, StreamType):
                self.bases[result] = base

    def _declare(self, op: Operation, value: SSAValue) -> None:
        """Declare the FIFO of a stream; a chain of reshapes is one FIFO."""
        aliases = [value]
        while isinstance(reader := _reader(aliases[-1]), array_stream.ReshapeOp):
            aliases.append(reader.result)
        reader = _reader(aliases[-1])
        name = self.design.names.unique(f"{self.process_names[op]}_to_{self.process_names[reader]}")
        for alias in aliases:
            self.streams[alias] = name
        type_ = stream_type(value)
        if type_.capacity is None or type_.storage_kind is None:
            raise reject(op, "a stream without a depth; run array-stream-size-fifos")
        shape = " x ".join(map(str, type_.extents))
        self.design.fifo_of[name] = value
        self.design.fifos.append(
            Fifo(name, self.design.types.block(type_), type_.capacity, type_.storage_kind, shape)
        )

    # Processes.

    def _process(self, op: array_stream.ProcessOp) -> None:
        printer = _PRINTERS.get(type(op))
        if printer is None:
            raise reject(op, "no C++ form")
        where = _file_line(op)
        what, call = printer(self, op)
        comment = f"{what} ({where})" if where else what
        self.design.processes.append(Process(self.process_names[op], call, comment))

    def element(self, value: SSAValue) -> str:
        """The C++ element type of a stream."""
        return self.design.types.element(stream_type(value).element)

    def call(self, kernel: str, arguments: Sequence[object], operands: Sequence[str]) -> str:
        """A call of a kernel template."""
        inside = ", ".join(map(str, arguments))
        return f"inr::{kernel}<{inside}>({', '.join(operands)})"

    def format_of_stream(self, value: SSAValue) -> Format | None:
        """The format of a stream's constants; None for floats."""
        element = stream_type(value).element
        return format_of(element) if isinstance(element, FixedType) else None

    def read(self, op: array_stream.ReadOp) -> tuple[str, str]:
        index = list[SSAValue](self.function.body.block.args).index(op.memory)
        port, type_ = self.design.inputs[index].name, stream_type(op.stream)
        arguments = (self.element(op.stream), type_.block.data, type_.elements)
        return f"{port} from memory", self.call("read", arguments, [port, self.streams[op.stream]])

    def write(self, op: array_stream.WriteOp) -> tuple[str, str]:
        last = self.function.body.block.last_op
        assert last is not None
        port = self.design.outputs[list(last.operands).index(op.memory)].name
        type_ = stream_type(op.stream)
        arguments = (self.element(op.stream), type_.block.data, type_.elements)
        return f"{port} to memory", self.call("write", arguments, [self.streams[op.stream], port])

    def copy(self, op: array_stream.CopyOp) -> tuple[str, str]:
        type_ = stream_type(op.stream)
        arguments = (self.element(op.stream), type_.block.data, type_.elements)
        operands = [self.streams[v] for v in (op.stream, *op.outputs)]
        return f"{len(op.outputs)} readers", self.call("copy", arguments, operands)

    def constant(self, op: array_stream.ConstantOp) -> tuple[str, str]:
        values = _values(op, op.values).ravel()
        rom = self.design.roms.add(
            values, self.format_of_stream(op.stream), _constant_name(op.values, "constant")
        )
        arguments = (
            self.element(op.stream),
            stream_type(op.stream).block.data,
            op.repeats,
            values.size,
        )
        what = f"{values.size} values, {op.repeats} times"
        return what, self.call("constant", arguments, [rom, self.streams[op.stream]])

    def matmul(self, op: array_stream.MatmulOp) -> tuple[str, str]:
        k, n = op.weight_shape
        floating = is_float(op.inputs[0])
        if not floating and op.weight_format is None:
            raise reject(op, "no weight format; run array-stream-assign-formats")
        weight_format = format_of(op.weight_format) if op.weight_format and not floating else None
        name = _constant_name(op.weights, "weight")
        operands = [self.design.roms.add(_values(op, op.weights), weight_format, name)]
        lanes = op.lanes.get_values() if op.lanes is not None else (1, 1)
        arguments: list[object] = [
            len(op.inputs),
            op.rows,
            k,
            n,
            stream_type(op.inputs[0]).block.data,
            stream_type(op.outputs[0]).block.data,
            *lanes,
            self._number(weight_format),
        ]
        if op.bias is not None:
            if not floating and op.bias_format is None:
                raise reject(op, "no bias format; run array-stream-assign-formats")
            bias_format = format_of(op.bias_format) if op.bias_format and not floating else None
            arguments.append(self._number(bias_format))
            name = _constant_name(op.bias, "bias")
            operands.append(self.design.roms.add(_values(op, op.bias), bias_format, name))
        if op.accumulator is not None:
            arguments.append(self._number(format_of(op.accumulator)))
        operands += [self.streams[v] for v in (*op.inputs, *op.outputs)]
        times = "" if len(op.inputs) == 1 else f"{len(op.inputs)} arrays of "
        what = f"{times}{op.rows} rows by {_constant_name(op.weights, 'weight')}, {k} x {n}"
        return what, self.call("matmul", arguments, operands)

    def _number(self, format_: Format | None) -> str:
        return "float" if format_ is None else self.design.types.number(format_)

    def matmul_dynamic(self, op: array_stream.MatmulDynamicOp) -> tuple[str, str]:
        a, b, c = stream_type(op.lhs), stream_type(op.rhs), stream_type(op.result)
        (m, k), n = a.extents, b.extents[1]
        arguments = (m, k, n, a.block.data, b.block.data, c.block.data, 1, 1)
        operands = [self.streams[v] for v in (op.lhs, op.rhs, op.result)]
        return f"{m} x {k} by {k} x {n}", self.call("matmul_dynamic", arguments, operands)

    def transpose(self, op: array_stream.TransposeOp) -> tuple[str, str]:
        arguments = (self.element(op.stream), stream_type(op.stream).block.data, *op.groups)
        what = f"axes {list(op.axes)} of {_by(op.stream)}"
        return what, self._unary("transpose", op, arguments)

    def broadcast(self, op: array_stream.BroadcastOp) -> tuple[str, str]:
        outer, repeat, inner = split_at(stream_type(op.result).extents, op.axis.value.data)
        block = stream_type(op.stream).block.data
        arguments = (self.element(op.stream), block, outer, repeat, inner)
        what = f"{_by(op.stream)} to {_by(op.result)}"
        return what, self._unary("broadcast", op, arguments)

    def reduce_sum(self, op: array_stream.ReduceSumOp) -> tuple[str, str]:
        sizes = split_at(stream_type(op.stream).extents, op.axis.value.data)
        blocks = stream_type(op.stream).block.data, stream_type(op.result).block.data
        arguments = (self.element(op.result), self.element(op.stream), *blocks, *sizes)
        what = f"sum of {_by(op.stream)} over axis {op.axis.value.data}"
        return what, self._unary("reduce_sum", op, arguments)

    def slice(self, op: array_stream.SliceOp) -> tuple[str, str]:
        axis = op.axis.value.data
        sizes = split_at(stream_type(op.stream).extents, axis)
        block = stream_type(op.stream).block.data
        arguments = (self.element(op.stream), block, *sizes, *op.window)
        start, size, step = op.window
        what = f"{size} of axis {axis} of {_by(op.stream)} from {start}, step {step}"
        return what, self._unary("slice", op, arguments)

    def pad(self, op: array_stream.PadOp) -> tuple[str, str]:
        sizes = split_at(stream_type(op.stream).extents, op.axis.value.data)
        amounts = op.low.value.data, op.high.value.data
        block = stream_type(op.stream).block.data
        arguments = (self.element(op.stream), block, *sizes, *amounts)
        what = f"{_by(op.stream)} with zeros to {_by(op.result)}"
        return what, self._unary("pad", op, arguments)

    def reblock(self, op: array_stream.ReblockOp) -> tuple[str, str]:
        a, b = stream_type(op.stream), stream_type(op.result)
        arguments = (self.element(op.stream), a.block.data, b.block.data, a.elements)
        what = f"blocks of {a.block.data} to blocks of {b.block.data}"
        return what, self._unary("reblock", op, arguments)

    def concat(self, op: array_stream.ConcatOp) -> tuple[str, str]:
        axis = op.axis.value.data
        outer, _, inner = split_at(stream_type(op.result).extents, axis)
        extents = [stream_type(v).extents[axis] for v in op.inputs]
        block = stream_type(op.result).block.data
        arguments = (self.element(op.result), block, outer, inner, *extents)
        operands = [self.streams[v] for v in (op.result, *op.inputs)]
        what = f"{extents} along axis {axis}"
        return what, self.call("concat", arguments, operands)

    def _unary(self, kernel: str, op: array_stream.ProcessOp, arguments: Sequence[object]) -> str:
        operands = [self.streams[v] for v in (*op.input_streams, *op.output_streams)]
        return self.call(kernel, arguments, operands)

    def map(self, op: array_stream.MapOp) -> tuple[str, str]:
        name = self.process_names[op]
        local = Names()
        ports = [
            (value, local.unique(f"in_{i}" if len(op.inputs) > 1 else "in"))
            for i, value in enumerate(op.inputs)
        ] + [
            (value, local.unique(f"out_{i}" if len(op.outputs) > 1 else "out"))
            for i, value in enumerate(op.outputs)
        ]
        type_ = stream_type(op.inputs[0])
        inputs, outputs = ports[: len(op.inputs)], ports[len(op.inputs) :]
        body = BodyPrinter(self.design.types, self.design.tables, is_float(op.inputs[0]), {}, local)
        loads: list[str] = []
        for argument, (value, port) in zip(op.body.block.args, inputs, strict=True):
            scalar = body.declare(argument, "x")
            loads.append(f"const {self.element(value)} {scalar} = {port}_block.lane[lane];")
        for inner in op.body.block.ops:
            if not isinstance(inner, array_stream.YieldOp):
                body.print(inner)
        stores = [
            f"{port}_block.lane[lane] = {self._converted(body, scalar, value)};"
            for scalar, (value, port) in zip(op.terminator.arguments, outputs, strict=True)
        ]
        block = self.design.types.block
        signature = ", ".join(
            f"hls::stream<{block(stream_type(value))} >& {port}" for value, port in ports
        )
        read = [
            f"const {block(stream_type(v))} {port}_block = {port}.read();" for v, port in inputs
        ]
        made = [f"{block(stream_type(v))} {port}_block;" for v, port in outputs]
        written = [f"{port}.write({port}_block);" for _, port in outputs]
        lines = [
            f"static void {name}({signature}) {{",
            "#pragma HLS INLINE off",
            f"  INR_FLUSHABLE_LOOP({map_latency(op)}, {op.cycles_apart});",
            f"  for (int token = 0; token < {type_.blocks}; ++token) {{",
            f"#pragma HLS PIPELINE II = {op.cycles_apart} style = flp",
            "    INR_ITERATION();",
            *(f"    {line}" for line in (*read, *made)),
            f"    for (int lane = 0; lane < {type_.block.data}; ++lane) {{",
            "#pragma HLS UNROLL",
            *(f"      {line}" for line in (*loads, *body.lines, *stores)),
            "    }",
            *(f"    {line}" for line in written),
            "  }",
            "}",
        ]
        where = _file_line(op)
        what = f"{describe(tuple(op.body.block.ops))}, elementwise on {_by(op.inputs[0])}"
        comment = f"// {what}{f' ({where})' if where else ''}"
        self.design.functions.append("\n".join([comment, *lines]))
        return what, f"{name}({', '.join(self.streams[v] for v, _ in ports)})"

    def _converted(self, body: BodyPrinter, scalar: SSAValue, stream: SSAValue) -> str:
        """A yielded value in the stream's format."""
        name, want = body.names[scalar], self.element(stream)
        if body.floating or body.type_of(scalar) == want:
            return name
        return f"inr::narrow<{want}>({name})"


_PRINTERS: dict[type[Operation], Callable[[_Builder, Operation], tuple[str, str]]] = {
    array_stream.ReadOp: _Builder.read,
    array_stream.WriteOp: _Builder.write,
    array_stream.CopyOp: _Builder.copy,
    array_stream.ConstantOp: _Builder.constant,
    array_stream.MatmulOp: _Builder.matmul,
    array_stream.MatmulDynamicOp: _Builder.matmul_dynamic,
    array_stream.TransposeOp: _Builder.transpose,
    array_stream.BroadcastOp: _Builder.broadcast,
    array_stream.ReduceSumOp: _Builder.reduce_sum,
    array_stream.SliceOp: _Builder.slice,
    array_stream.PadOp: _Builder.pad,
    array_stream.ReblockOp: _Builder.reblock,
    array_stream.ConcatOp: _Builder.concat,
    array_stream.MapOp: _Builder.map,
}  # pyright: ignore[reportAssignmentType]
"""(what it does, the call) of each process."""


def _reader(value: SSAValue) -> Operation:
    """The one operation that reads a stream at the linear stage."""
    return next(iter(value.uses)).operation


def _values(op: Operation, value: SSAValue) -> np.ndarray:
    values = constant_value(value)
    if values is None:
        raise reject(op, "its constant is not an arith.constant")
    return values


def _constant_name(value: SSAValue, default: str) -> str:
    """The name the model gives a constant."""
    owner = value.owner
    name = owner.attributes.get("inr.name") if isinstance(owner, arith.ConstantOp) else None
    return name.data if isinstance(name, StringAttr) else default


def _layer(name: str) -> str:
    """The layer that a parameter belongs to: `layers_1` for `layers.1.weight_scaled`."""
    return identifier(re.sub(r"[._](weight|bias)\b.*|[._](weight|bias)_.*", "", name))


def _file_line(op: Operation) -> str | None:
    """Where an operation came from, without the folder: output does not depend on the machine."""
    where = source_line(op)
    return where.replace("\\", "/").rsplit("/", 1)[-1] if where else None


def _names_of(attributes: object, default: str, count: int) -> list[str]:
    """The `inr.name` of each argument or result; numbered where there is none."""
    names: list[str] = []
    entries = list(attributes) if attributes is not None else []  # pyright: ignore
    for index in range(count):
        entry = entries[index] if index < len(entries) else None  # pyright: ignore
        name = entry.data.get("inr.name") if isinstance(entry, DictionaryAttr) else None
        fallback = default if count == 1 else f"{default}{index}"
        names.append(name.data if isinstance(name, StringAttr) else fallback)
    return names


def _by(value: SSAValue) -> str:
    return " x ".join(map(str, stream_type(value).extents)) or "1"


@dataclass(frozen=True)
class HlsCppTarget(Target):
    """One self-contained translation unit, for reading and piping; see `hls_project` for files."""

    name = "hls-cpp"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from .hls_project import render_single_file

        functions = [op for op in module.ops if isinstance(op, FuncOp)]
        if len(functions) != 1:
            raise CompileError(f"hls-cpp: expected one function, found {len(functions)}")
        output.write(render_single_file(build_design(functions[0])))
