"""
Tensors become streams, operations become processes.

Before:

```mlir
func.func @f(%x: tensor<64x2xf64>) -> tensor<64x8xf64> {
  %w = arith.constant dense<…> : tensor<2x8xf64>
  %0 = inr.matmul %x, %w : (tensor<64x2xf64>, tensor<2x8xf64>) -> tensor<64x8xf64>
  %1 = inr.sinq %0 : tensor<64x8xf64>
  func.return %1 : tensor<64x8xf64>
}
```

After (`!s<…>` short for `!array_stream.stream<…>`):

```mlir
func.func @f(%x: tensor<64x2xf64>) -> tensor<64x8xf64> attributes {array_stream.stage = "value"} {
  %w = arith.constant dense<…> : tensor<2x8xf64>
  %0 = array_stream.read %x : tensor<64x2xf64> -> !s<64x2xf64>
  %1 = array_stream.matmul %0 by %w : (!s<64x2xf64>) -> !s<64x8xf64> by tensor<2x8xf64>
  %2 = array_stream.map(%1) : (!s<64x8xf64>) -> !s<64x8xf64> {
  ^bb0(%a: f64):
    %b = inr.sinq %a : f64
    array_stream.yield %b : f64
  }
  %3 = array_stream.write %2 : !s<64x8xf64> -> tensor<64x8xf64>
  func.return %3 : tensor<64x8xf64>
}
```

A constant that multiplies stays where its kernel reads it; a constant with one value moves into
the body of the map that uses it; any other constant becomes a stream that repeats what is
stored. Each elementwise operation becomes a map of its own: `array-stream-fuse` joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import pi, prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import FloatAttr, ModuleOp, StringAttr, f64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects import array_stream, inr
from ..dialects.array_stream import STAGE, StreamType, stream_type
from ..errors import CompileError, reject
from ..interpreters.arrays import constant_value, splat_value, to_dense
from ..interpreters.graph import ELEMENTWISE

_ELEMENTWISE = frozenset((*ELEMENTWISE, inr.CompareOp))

_NAME = "inr.name"


@dataclass
class _Converter:
    """Rebuilds one function's block at the stream level, operation by operation."""

    block: Block
    """The new body; operations are appended to it."""
    streams: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The stream of each tensor that has one."""
    tensors: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The resident constant of each constant tensor that is used as one."""
    source: Operation | None = None
    """The graph operation being converted: new operations take its location."""

    def add(self, op: Operation) -> SSAValue:
        """Append an operation; its (first) result."""
        if self.source is not None:
            op.location = self.source.location
        self.block.add_op(op)
        return op.results[0]

    def resident(self, value: SSAValue) -> SSAValue:
        """The constant `value` as an operand of a kernel that stores it."""
        if (known := self.tensors.get(value)) is not None:
            return known
        owner = value.owner
        assert isinstance(owner, arith.ConstantOp)
        op = owner.clone()
        op.result.name_hint = value.name_hint
        self.block.add_op(op)
        self.tensors[value] = op.result
        return op.result

    def stream(self, value: SSAValue) -> SSAValue:
        """The stream of `value`; a constant gets one now."""
        if (known := self.streams.get(value)) is not None:
            return known
        result = self.constant(_constant(value), value)
        self.streams[value] = result
        return result

    def constant(self, values: np.ndarray, like: SSAValue | None = None) -> SSAValue:
        """A stream of a constant array, the repetition along leading axes taken out."""
        shape = values.shape
        stored = values
        while stored.ndim and stored.shape[0] > 1 and bool((stored == stored[:1]).all()):
            stored = stored[:1]
        if stored.ndim and stored.shape[0] == 1 and stored.ndim > 1:
            inner = stored[0]
            if inner.size and bool((inner == inner[:1]).all()):
                stored = inner[:1][None]
        op = arith.ConstantOp(to_dense(stored))
        owner = like.owner if like is not None else None
        if isinstance(owner, arith.ConstantOp) and (name := owner.attributes.get(_NAME)):
            op.attributes[_NAME] = name
        return self.add(array_stream.ConstantOp(self.add(op), shape))

    # One method a kind of operation.

    def elementwise(self, op: Operation) -> SSAValue:
        """A map with this one operation as its body."""
        splats = [splat_value(v) for v in op.operands]
        inputs = list(
            dict.fromkeys(
                self.stream(v) for v, s in zip(op.operands, splats, strict=True) if s is None
            )
        )
        if not inputs:
            # Nothing but numbers: the value is a number.
            inputs = [self.stream(op.operands[0])]
            splats[0] = None
        result = array_stream.MapOp(inputs, [StreamType(inr.shape_of(op.results[0]))])
        body = result.body.block
        arguments = dict(zip(inputs, body.args, strict=True))
        operands: list[SSAValue] = []
        for value, splat in zip(op.operands, splats, strict=True):
            if splat is None:
                operands.append(arguments[self.streams[value]])
                continue
            number = arith.ConstantOp(FloatAttr(splat, f64))
            body.add_op(number)
            operands.append(number.result)
        value = _scalar(op, operands, body)
        body.add_op(array_stream.YieldOp(value))
        return self.add(result)

    def matmul(self, op: inr.MatmulOp) -> SSAValue:
        """With a resident weight where the right side is constant, else of two streams."""
        bias = op.bias
        if constant_value(op.rhs) is not None and constant_value(op.lhs) is None:
            stays = bias is not None and constant_value(bias) is not None
            result = self.add(
                array_stream.MatmulOp(
                    [self.stream(op.lhs)],
                    self.resident(op.rhs),
                    self.resident(bias) if bias is not None and stays else None,
                )
            )
            if stays or bias is None:
                return result
        else:
            result = self.add(
                array_stream.MatmulDynamicOp(self.stream(op.lhs), self.stream(op.rhs))
            )
            if bias is None:
                return result
        rows, columns = stream_type(result).extents
        row = self.add(array_stream.ReshapeOp(self.stream(bias), (1, columns)))
        spread = self.spread(row, (rows, columns))
        return self.add_streams(result, spread)

    def add_streams(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """A map that adds two streams."""
        op = array_stream.MapOp([a, b], [stream_type(a)])
        value = arith.AddfOp(op.body.block.args[0], op.body.block.args[1])
        op.body.block.add_ops([value, array_stream.YieldOp(value.result)])
        return self.add(op)

    def spread(self, stream: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Axes of extent 1 repeated one by one, the last first: a row is held, not an array."""
        for axis in reversed(range(len(shape))):
            if stream_type(stream).extents[axis] != shape[axis]:
                stream = self.add(array_stream.BroadcastOp(stream, axis, shape[axis]))
        return stream

    def broadcast(self, op: inr.BroadcastOp) -> SSAValue:
        shape = inr.shape_of(op.result)
        if (values := constant_value(op.operand)) is not None:
            return self.constant(np.broadcast_to(values, shape), op.operand)
        return self.spread(self.stream(op.operand), shape)

    def transpose(self, op: inr.TransposeOp) -> SSAValue:
        """Swaps of neighbouring groups, one for each axis that is not yet in its place."""
        stream = self.stream(op.operand)
        order = list(range(len(op.axes)))
        for place, axis in enumerate(op.axes):
            at = order.index(axis)
            if at == place:
                continue
            # Move the axis (with those that follow it in both orders) to its place.
            length = 1
            while (
                at + length < len(order)
                and place + length < len(order)
                and order[at + length] == op.axes[place + length]
            ):
                length += 1
            permutation = [
                *range(place),
                *range(at, at + length),
                *range(place, at),
                *range(at + length, len(order)),
            ]
            order = [order[p] for p in permutation]
            stream = self.swap(stream, permutation)
        return stream

    def swap(self, stream: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """One transpose; axes of extent 1 move for nothing."""
        shape = stream_type(stream).extents
        kept = [p for p in permutation if shape[p] != 1]
        if all(a < b for a, b in pairwise(kept)):
            return self.add(array_stream.ReshapeOp(stream, [shape[p] for p in permutation]))
        return self.add(array_stream.TransposeOp(stream, permutation))

    def reshape(self, op: inr.ReshapeOp) -> SSAValue:
        return self.add(array_stream.ReshapeOp(self.stream(op.operand), inr.shape_of(op.result)))

    def reduce_sum(self, op: inr.ReduceSumOp) -> SSAValue:
        stream = self.stream(op.operand)
        for axis in reversed(op.axes):
            stream = self.add(array_stream.ReduceSumOp(stream, axis))
        return stream

    def pad(self, op: inr.PadOp) -> SSAValue:
        stream = self.stream(op.operand)
        for axis, (low, high) in enumerate(op.amounts):
            if low or high:
                stream = self.add(array_stream.PadOp(stream, axis, low, high))
        return stream

    def extract_slice(self, op: tensor.ExtractSliceOp) -> SSAValue:
        stream = self.stream(op.source)
        window = zip(
            op.static_offsets.get_values(),
            op.static_sizes.get_values(),
            op.static_strides.get_values(),
            strict=True,
        )
        for axis, (start, size, step) in enumerate(window):
            if stream_type(stream).extents[axis] != size:
                stream = self.add(array_stream.SliceOp(stream, axis, start, size, step))
        shape = inr.shape_of(op.result)
        if stream_type(stream).extents != shape:
            stream = self.add(array_stream.ReshapeOp(stream, shape))
        return stream

    def concat(self, op: tensor.ConcatOp) -> SSAValue:
        return self.add(
            array_stream.ConcatOp([self.stream(v) for v in op.inputs], op.dim.value.data)
        )

    def convert(self, op: Operation) -> None:
        """Convert one operation with one tensor result."""
        self.source = op
        method = _METHODS.get(type(op), _Converter.elementwise)
        result = method(self, op)
        self.streams[op.results[0]] = result
        if result.name_hint is None:
            result.name_hint = op.results[0].name_hint


_METHODS: dict[type[Operation], Callable[[_Converter, Operation], SSAValue]] = {
    inr.MatmulOp: _Converter.matmul,
    inr.BroadcastOp: _Converter.broadcast,
    inr.TransposeOp: _Converter.transpose,
    inr.ReshapeOp: _Converter.reshape,
    inr.ReduceSumOp: _Converter.reduce_sum,
    inr.PadOp: _Converter.pad,
    tensor.ExtractSliceOp: _Converter.extract_slice,
    tensor.ConcatOp: _Converter.concat,
}  # pyright: ignore[reportAssignmentType]
"""What is not here is elementwise."""


def _scalar(op: Operation, operands: Sequence[SSAValue], body: Block) -> SSAValue:
    """
    An elementwise operation on numbers, in the terms that kernels exist for: angles in
    quarter-turns, quotients by a reciprocal, eˣ − 1 by the exponential.
    """

    def add(new: Operation) -> SSAValue:
        body.add_op(new)
        return new.results[0]

    def number(value: float) -> SSAValue:
        return add(arith.ConstantOp(FloatAttr(value, f64)))

    match op:
        case math.SinOp() | math.CosOp():
            phase = add(arith.MulfOp(operands[0], number(2 / pi)))
            return add((inr.SinQOp if isinstance(op, math.SinOp) else inr.CosQOp)(phase))
        case arith.DivfOp():
            return add(arith.MulfOp(operands[0], add(inr.ReciprocalOp(operands[1]))))
        case math.ExpM1Op():
            return add(arith.SubfOp(add(math.ExpOp(operands[0])), number(1.0)))
        case _:
            return add(
                type(op).create(
                    operands=operands, result_types=[f64], properties=dict(op.properties)
                )
            )


def _constant(value: SSAValue) -> np.ndarray:
    values = constant_value(value)
    assert values is not None, "every other value was converted before its uses"
    return values


def _check(function: FuncOp) -> None:
    """Refuse, before anything is changed, what the stream level cannot express."""
    if not function.body.blocks.first or function.body.blocks.first.next_block:
        raise CompileError(f"{function.sym_name.data}: a dataflow region is one block")
    if not function.function_type.outputs:
        raise reject(
            function, f"{function.sym_name.data} returns nothing; a design needs an output"
        )
    for op in function.body.block.ops:
        for value in (*op.operands, *op.results):
            type_ = inr.as_tensor(value)
            if type_ is None or type_.element_type != f64:
                raise reject(
                    op, f"expected f64 tensors, got {value.type}; run convert-torch-to-inr first"
                )
            if any(d < 0 for d in type_.get_shape()):
                raise reject(op, "the shape is dynamic; import with fixed example inputs")
            if prod(type_.get_shape()) == 0:
                raise reject(op, f"{type_} has no elements; give inputs of at least one row")
        known = type(op) in _ELEMENTWISE or type(op) in _METHODS
        if not known and not isinstance(op, arith.ConstantOp | ReturnOp):
            raise reject(
                op, "no stream-level form; expected arith, math, tensor and inr operations"
            )


def convert_function(function: FuncOp) -> None:
    """
    Rewrite one graph-level function in place.

    Raises CompileError for an operation or type without a stream-level form; the function is
    then unchanged.
    """
    _check(function)
    old = function.body.block
    new = Block(arg_types=[a.type for a in old.args])
    converter = _Converter(new)
    for argument, replacement in zip(old.args, new.args, strict=True):
        replacement.name_hint = argument.name_hint
        if argument.uses:
            stream = converter.add(array_stream.ReadOp(replacement))
            stream.name_hint = argument.name_hint
            converter.streams[argument] = stream
    results: list[SSAValue] = []
    for op in old.ops:
        if isinstance(op, ReturnOp):
            converter.source = None
            results = [
                converter.add(array_stream.WriteOp(converter.stream(v))) for v in op.operands
            ]
        elif not isinstance(op, arith.ConstantOp):
            converter.convert(op)
    new.add_op(ReturnOp(*results))
    function.body.detach_block(old)
    function.body.add_block(new)
    old.erase()
    function.attributes[STAGE] = StringAttr("value")


@dataclass(frozen=True)
class ConvertInrToArrayStreamPass(ModulePass):
    """Graph level to stream level, a process an operation."""

    name = "convert-inr-to-array-stream"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and STAGE not in function.attributes:
                convert_function(function)
