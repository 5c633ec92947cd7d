"""
The meaning of stream-level operations on whole arrays, in float64.

A network of processes whose rates do not depend on data computes the same arrays whatever the
FIFOs' depths, so an array function an operation says all there is to say about values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.interpreters.func import FuncFunctions
from xdsl.ir import Operation, SSAValue

from ..dialects import array_stream
from ..dialects.array_stream import split_at, stream_type
from .arrays import to_array
from .graph import ELEMENTWISE, evaluate_elementwise, find_function

Observer = Callable[[SSAValue, Any], None]
"""Called with each stream or body value and its array."""


@register_impls
class MovementFunctions(InterpreterFunctions):
    """Operations that move elements and do not look at them: the same for any number format."""

    @impl(array_stream.TransposeOp)
    def run_transpose(
        self, interpreter: Interpreter, op: array_stream.TransposeOp, args: PythonValues
    ) -> PythonValues:
        return (np.transpose(args[0], op.axes),)

    @impl(array_stream.BroadcastOp)
    def run_broadcast(
        self, interpreter: Interpreter, op: array_stream.BroadcastOp, args: PythonValues
    ) -> PythonValues:
        return (np.broadcast_to(args[0], stream_type(op.result).extents),)

    @impl(array_stream.SliceOp)
    def run_slice(
        self, interpreter: Interpreter, op: array_stream.SliceOp, args: PythonValues
    ) -> PythonValues:
        start, size, step = op.window
        outer, extent, inner = split_at(stream_type(op.stream).extents, op.axis.value.data)
        window = np.reshape(args[0], (outer, extent, inner))[
            :, start : start + (size - 1) * step + 1 : step
        ]
        return (window.reshape(stream_type(op.result).extents),)

    @impl(array_stream.PadOp)
    def run_pad(
        self, interpreter: Interpreter, op: array_stream.PadOp, args: PythonValues
    ) -> PythonValues:
        amounts = [(0, 0)] * np.ndim(args[0])
        amounts[op.axis.value.data] = (op.low.value.data, op.high.value.data)
        return (np.pad(args[0], amounts),)

    @impl(array_stream.ReshapeOp)
    def run_reshape(
        self, interpreter: Interpreter, op: array_stream.ReshapeOp, args: PythonValues
    ) -> PythonValues:
        return (np.reshape(args[0], stream_type(op.result).extents),)

    @impl(array_stream.ReblockOp)
    def run_reblock(
        self, interpreter: Interpreter, op: array_stream.ReblockOp, args: PythonValues
    ) -> PythonValues:
        return args

    @impl(array_stream.CopyOp)
    def run_copy(
        self, interpreter: Interpreter, op: array_stream.CopyOp, args: PythonValues
    ) -> PythonValues:
        return args * len(op.outputs)


@register_impls
class StreamFunctions(InterpreterFunctions):
    """Operations that compute, in float64."""

    def __init__(self, observe: Observer | None = None):
        self.observe = observe or (lambda value, array: None)

    @impl(arith.ConstantOp)
    def run_resident(
        self, interpreter: Interpreter, op: arith.ConstantOp, args: PythonValues
    ) -> PythonValues:
        return (to_array(op.value),)

    @impl(array_stream.ReadOp)
    def run_read(
        self, interpreter: Interpreter, op: array_stream.ReadOp, args: PythonValues
    ) -> PythonValues:
        return args

    @impl(array_stream.WriteOp)
    def run_write(
        self, interpreter: Interpreter, op: array_stream.WriteOp, args: PythonValues
    ) -> PythonValues:
        return args

    @impl(array_stream.ConstantOp)
    def run_constant(
        self, interpreter: Interpreter, op: array_stream.ConstantOp, args: PythonValues
    ) -> PythonValues:
        return (np.tile(args[0].ravel(), op.repeats).reshape(stream_type(op.stream).extents),)

    @impl(array_stream.MapOp)
    def run_map(
        self, interpreter: Interpreter, op: array_stream.MapOp, args: PythonValues
    ) -> PythonValues:
        values: dict[SSAValue, Any] = dict(zip(op.body.block.args, args, strict=True))
        shape = stream_type(op.inputs[0]).extents
        for inner in op.body.block.ops:
            if isinstance(inner, array_stream.YieldOp):
                return tuple(np.broadcast_to(values[v], shape) for v in inner.arguments)
            results = _evaluate_scalar(inner, tuple(values[v] for v in inner.operands))
            for result, array in zip(inner.results, results, strict=True):
                values[result] = array
                self.observe(result, array)
        raise AssertionError("a map's body ends in a yield")

    @impl(array_stream.MatmulOp)
    def run_matmul(
        self, interpreter: Interpreter, op: array_stream.MatmulOp, args: PythonValues
    ) -> PythonValues:
        count = len(op.inputs)
        weights, *bias = args[count:]
        products: list[np.ndarray] = []
        for array, output in zip(args[:count], op.outputs, strict=True):
            product = np.reshape(array, (op.rows, op.weight_shape[0])) @ weights
            product = product + bias[0] if bias else product
            products.append(product.reshape(stream_type(output).extents))
        return tuple(products)

    @impl(array_stream.MatmulDynamicOp)
    def run_matmul_dynamic(
        self, interpreter: Interpreter, op: array_stream.MatmulDynamicOp, args: PythonValues
    ) -> PythonValues:
        return (args[0] @ args[1],)

    @impl(array_stream.ReduceSumOp)
    def run_reduce_sum(
        self, interpreter: Interpreter, op: array_stream.ReduceSumOp, args: PythonValues
    ) -> PythonValues:
        return (np.sum(args[0], axis=op.axis.value.data),)

    @impl(array_stream.ConcatOp)
    def run_concat(
        self, interpreter: Interpreter, op: array_stream.ConcatOp, args: PythonValues
    ) -> PythonValues:
        return (np.concatenate(args, axis=op.axis.value.data),)


def _evaluate_scalar(op: Operation, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """One operation of a map's body on arrays."""
    from ..dialects import inr

    if isinstance(op, arith.ConstantOp):
        return (to_array(op.value),)
    if isinstance(op, array_stream.SinCosOp):
        return ELEMENTWISE[inr.SinQOp](*operands), ELEMENTWISE[inr.CosQOp](*operands)
    return (evaluate_elementwise(op, operands),)


class StreamListener(Interpreter.Listener):
    """Shows every stream to an observer as soon as it is computed."""

    def __init__(self, observe: Observer):
        self.observe = observe

    def will_interpret_op(self, op: Operation, args: PythonValues) -> None:
        pass

    def did_interpret_op(self, op: Operation, results: PythonValues) -> None:
        if isinstance(op, array_stream.ProcessOp):
            for value, array in zip(op.results, results, strict=True):
                self.observe(value, array)


def run_streams(
    module: ModuleOp,
    inputs: list[np.ndarray],
    function: str | None = None,
    observe: Observer | None = None,
) -> list[np.ndarray]:
    """
    Evaluate a function of a stream-level module in float64, formats and blocks ignored.

    `observe` is called with each stream and each value in a map's body. Raises ValueError where
    there is no such function.
    """
    listeners = (StreamListener(observe),) if observe else ()
    interpreter = Interpreter(module, listeners=listeners)
    interpreter.register_implementations(MovementFunctions())
    interpreter.register_implementations(StreamFunctions(observe))
    interpreter.register_implementations(FuncFunctions())
    op = find_function(module, function)
    arrays = tuple(np.asarray(x, dtype=np.float64) for x in inputs)
    return list(interpreter.call_op(op, arrays))
