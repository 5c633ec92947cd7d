"""
The meaning of stream-level operations in fixed point: the integers that the hardware holds.

Every array is an array of mantissas; its format is that of its stream, or the attribute
`array_stream.format` of the operation in a map's body. The generated C++ computes the same
integers, bit for bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.interpreters.func import FuncFunctions
from xdsl.ir import Operation, SSAValue

from ..analysis import fixed
from ..analysis.fixed import Format
from ..analysis.formats import body_format, format_of, stream_format
from ..analysis.kernels import sincos_kernel, unary_kernel
from ..dialects import array_stream, inr
from ..dialects.array_stream import stream_type
from ..errors import reject
from .arrays import to_array
from .graph import find_function
from .stream import MovementFunctions

UNARY_KERNELS: dict[type[Operation], str] = {
    math.ExpOp: "exp",
    math.TanhOp: "tanh",
    math.ErfOp: "erf",
    math.SqrtOp: "sqrt",
    math.RsqrtOp: "rsqrt",
    math.LogOp: "log",
    math.Log1pOp: "log1p",
    inr.SigmoidOp: "sigmoid",
    inr.SoftplusOp: "softplus",
    inr.ReciprocalOp: "reciprocal",
}
"""Functions that a table computes, and the table's name."""


class Saturation(Counter[SSAValue]):
    """How many elements of each value did not fit its format."""


@register_impls
class FixedStreamFunctions(InterpreterFunctions):
    """Operations that compute, on mantissas."""

    def __init__(self, saturation: Saturation | None = None):
        self.saturation = saturation

    def narrow(self, value: SSAValue, mantissas: Any, fraction: int, target: Format) -> Any:
        """Exact integers into the format of `value`, what does not fit counted."""
        # NumPy makes a Python integer of what is computed from big integers without an axis.
        shape = np.shape(mantissas)
        mantissas = np.atleast_1d(mantissas)
        if self.saturation is not None and target.overflow == "sat":
            count = fixed.count_overflow(mantissas, fraction, target)
            if count:
                self.saturation[value] += count
        return fixed.rescale(mantissas, fraction, target).reshape(shape)

    @impl(arith.ConstantOp)
    def run_resident(
        self, interpreter: Interpreter, op: arith.ConstantOp, args: PythonValues
    ) -> PythonValues:
        return (to_array(op.value),)

    @impl(array_stream.ReadOp)
    def run_read(
        self, interpreter: Interpreter, op: array_stream.ReadOp, args: PythonValues
    ) -> PythonValues:
        return (fixed.quantize(args[0], stream_format(op.stream)),)

    @impl(array_stream.WriteOp)
    def run_write(
        self, interpreter: Interpreter, op: array_stream.WriteOp, args: PythonValues
    ) -> PythonValues:
        return args

    @impl(array_stream.ConstantOp)
    def run_constant(
        self, interpreter: Interpreter, op: array_stream.ConstantOp, args: PythonValues
    ) -> PythonValues:
        stored = fixed.quantize(args[0].ravel(), stream_format(op.stream))
        return (np.tile(stored, op.repeats).reshape(stream_type(op.stream).extents),)

    @impl(array_stream.MapOp)
    def run_map(
        self, interpreter: Interpreter, op: array_stream.MapOp, args: PythonValues
    ) -> PythonValues:
        arrays = map(np.atleast_1d, args)
        values: dict[SSAValue, Any] = dict(zip(op.body.block.args, arrays, strict=True))
        for inner in op.body.block.ops:
            if isinstance(inner, array_stream.YieldOp):
                return tuple(
                    self.yielded(values[value], value, output)
                    for value, output in zip(inner.arguments, op.outputs, strict=True)
                )
            results = self.evaluate(inner, tuple(values[v] for v in inner.operands))
            values.update(zip(inner.results, results, strict=True))
        raise AssertionError("a map's body ends in a yield")

    def yielded(self, mantissas: Any, value: SSAValue, output: SSAValue) -> np.ndarray:
        """What a map writes to a stream: a value of its body, once for each element."""
        fraction = body_format(value).fraction
        narrowed = self.narrow(output, mantissas, fraction, stream_format(output))
        shape = stream_type(output).extents
        return np.broadcast_to(narrowed, shape or (1,)).reshape(shape)

    def evaluate(self, op: Operation, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """One operation of a map's body on mantissas: exact, then rounded once."""
        target = body_format(op.results[0])
        if isinstance(op, arith.ConstantOp):
            return (fixed.quantize(np.atleast_1d(to_array(op.value)), target),)
        formats = [body_format(v) for v in op.operands]
        if isinstance(op, array_stream.SinCosOp):
            return sincos_kernel(formats[0], target).evaluate(operands[0])
        if isinstance(op, inr.SinQOp):
            return sincos_kernel(formats[0], target).evaluate(operands[0])[:1]
        if isinstance(op, inr.CosQOp):
            return sincos_kernel(formats[0], target).evaluate(operands[0])[1:]
        if (name := UNARY_KERNELS.get(type(op))) is not None:
            return (unary_kernel(name, formats[0], target).evaluate(operands[0]),)
        exact = EXACT.get(type(op))
        if exact is None:
            raise reject(op, "no fixed-point form")
        mantissas, fraction = exact(op, operands, [f.fraction for f in formats])
        return (self.narrow(op.results[0], mantissas, fraction, target),)

    @impl(array_stream.MatmulOp)
    def run_matmul(
        self, interpreter: Interpreter, op: array_stream.MatmulOp, args: PythonValues
    ) -> PythonValues:
        if op.weight_format is None:
            raise reject(op, "no weight format; run array-stream-assign-formats")
        count = len(op.inputs)
        weight_format = format_of(op.weight_format)
        weights = fixed.quantize(args[count], weight_format)
        bias: tuple[Any, int] | None = None
        if op.bias is not None:
            if op.bias_format is None:
                raise reject(op, "no bias format; run array-stream-assign-formats")
            bias_format = format_of(op.bias_format)
            bias = fixed.quantize(args[count + 1], bias_format), bias_format.fraction
        outputs: list[Any] = []
        for source, array, output in zip(op.inputs, args, op.outputs, strict=False):
            fraction = stream_format(source).fraction
            rows = np.reshape(array, (op.rows, op.weight_shape[0]))
            if op.accumulator is not None:
                accumulator = format_of(op.accumulator)
                start = (None, 0) if bias is None else bias
                total = fixed.dot_narrow(
                    rows, fraction, weights, weight_format.fraction, accumulator, *start
                )
                total_fraction = accumulator.fraction
            else:
                total = fixed.dot(rows, weights)
                total_fraction = fraction + weight_format.fraction
                if bias is not None:
                    total, total_fraction = fixed.add(total, total_fraction, *bias)
            result = self.narrow(output, total, total_fraction, stream_format(output))
            outputs.append(result.reshape(stream_type(output).extents))
        return tuple(outputs)

    @impl(array_stream.MatmulDynamicOp)
    def run_matmul_dynamic(
        self, interpreter: Interpreter, op: array_stream.MatmulDynamicOp, args: PythonValues
    ) -> PythonValues:
        fraction = stream_format(op.lhs).fraction + stream_format(op.rhs).fraction
        total = fixed.dot(args[0], args[1])
        return (self.narrow(op.result, total, fraction, stream_format(op.result)),)

    @impl(array_stream.ReduceSumOp)
    def run_reduce_sum(
        self, interpreter: Interpreter, op: array_stream.ReduceSumOp, args: PythonValues
    ) -> PythonValues:
        fraction = stream_format(op.stream).fraction
        total, fraction = fixed.total(args[0], fraction, op.axis.value.data)
        return (self.narrow(op.result, total, fraction, stream_format(op.result)),)

    @impl(array_stream.ConcatOp)
    def run_concat(
        self, interpreter: Interpreter, op: array_stream.ConcatOp, args: PythonValues
    ) -> PythonValues:
        target = stream_format(op.result)
        parts = [
            self.narrow(op.result, array, stream_format(stream).fraction, target)
            for stream, array in zip(op.inputs, args, strict=True)
        ]
        return (np.concatenate(parts, axis=op.axis.value.data),)


# The exact value of an operation, as integers and their fraction bits.

Exact = Callable[[Operation, tuple[Any, ...], list[int]], tuple[Any, int]]


def _compare(op: Operation, operands: tuple[Any, ...], fractions: list[int]) -> tuple[Any, int]:
    assert isinstance(op, inr.CompareOp)
    a, b, _ = fixed.align(operands[0], fractions[0], operands[1], fractions[1])
    holds = {
        "eq": a == b,
        "ne": a != b,
        "lt": a < b,
        "le": a <= b,
        "gt": a > b,
        "ge": a >= b,
    }[op.predicate.data]
    return np.asarray(holds).astype(np.int64), 0


def _select(op: Operation, operands: tuple[Any, ...], fractions: list[int]) -> tuple[Any, int]:
    condition, a, b = operands
    a, b, fraction = fixed.align(a, fractions[1], b, fractions[2])
    return np.where(condition != 0, a, b), fraction


def _extreme(pick: Callable[[Any, Any], Any]) -> Exact:
    def run(op: Operation, operands: tuple[Any, ...], fractions: list[int]) -> tuple[Any, int]:
        a, b, fraction = fixed.align(operands[0], fractions[0], operands[1], fractions[1])
        return pick(a, b), fraction

    return run


EXACT: dict[type[Operation], Exact] = {
    arith.AddfOp: lambda op, x, f: fixed.add(x[0], f[0], x[1], f[1]),
    arith.SubfOp: lambda op, x, f: fixed.subtract(x[0], f[0], x[1], f[1]),
    arith.MulfOp: lambda op, x, f: fixed.multiply(x[0], f[0], x[1], f[1]),
    arith.NegfOp: lambda op, x, f: fixed.negate(x[0], f[0]),
    arith.MaximumfOp: _extreme(np.maximum),
    arith.MinimumfOp: _extreme(np.minimum),
    math.AbsFOp: lambda op, x, f: fixed.absolute(x[0], f[0]),
    inr.SignOp: lambda op, x, f: (np.sign(x[0]).astype(np.int64), 0),
    inr.CompareOp: _compare,
    inr.SelectOp: _select,
}


def run_fixed(
    module: ModuleOp,
    inputs: list[np.ndarray],
    function: str | None = None,
    saturation: Saturation | None = None,
) -> list[np.ndarray]:
    """
    Evaluate a function of a stream-level module in its fixed-point formats.

    `inputs` are real numbers; the results are mantissas in the formats of the written streams.
    Raises CompileError where a format is missing, ValueError where there is no such function.
    """
    interpreter = Interpreter(module)
    interpreter.register_implementations(MovementFunctions())
    interpreter.register_implementations(FixedStreamFunctions(saturation))
    interpreter.register_implementations(FuncFunctions())
    op = find_function(module, function)
    arrays = tuple(np.asarray(x, dtype=np.float64) for x in inputs)
    return list(interpreter.call_op(op, arrays))
