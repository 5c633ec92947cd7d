"""
The meaning of graph-level operations: one NumPy function each, in float64. The operations of the
`lut` dialect stand in `lut.py`; their indices, tables and sums are arrays of integers.

The elementwise functions take arrays of any shape, so they serve the bodies of
`array_stream.map` as well, a whole array at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.interpreters.func import FuncFunctions
from xdsl.ir import Attribute, Operation

from ..dialects import inr
from ..dialects.lut_constants import dense_array, numpy_type
from .arrays import to_array
from .lut import LutFunctions


def _erf(x: np.ndarray) -> np.ndarray:
    # Imported on use: SciPy takes a tenth of a second, and few networks have an erf.
    from scipy.special import erf

    return erf(x)


def _sinq(x: np.ndarray) -> np.ndarray:
    """sin(π/2·x); the range reduction is exact, so an angle of any size keeps its digits."""
    quadrant = np.rint(x)
    angle = (x - quadrant) * (np.pi / 2)
    q = np.mod(quadrant, 4)
    s, c = np.sin(angle), np.cos(angle)
    return np.where(q == 0, s, np.where(q == 1, c, np.where(q == 2, -s, -c)))


def _cosq(x: np.ndarray) -> np.ndarray:
    quadrant = np.rint(x)
    angle = (x - quadrant) * (np.pi / 2)
    q = np.mod(quadrant, 4)
    s, c = np.sin(angle), np.cos(angle)
    return np.where(q == 0, c, np.where(q == 1, -s, np.where(q == 2, -c, s)))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # Two forms, so that neither exponential overflows.
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


ELEMENTWISE: dict[type[Operation], Callable[..., np.ndarray]] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    math.SinOp: np.sin,
    math.CosOp: np.cos,
    math.ExpOp: np.exp,
    math.ExpM1Op: np.expm1,
    math.LogOp: np.log,
    math.Log1pOp: np.log1p,
    math.TanhOp: np.tanh,
    math.ErfOp: _erf,
    math.SqrtOp: np.sqrt,
    math.RsqrtOp: lambda x: 1 / np.sqrt(x),
    math.AbsFOp: np.abs,
    inr.SinQOp: _sinq,
    inr.CosQOp: _cosq,
    inr.SigmoidOp: _sigmoid,
    inr.SoftplusOp: lambda x: np.logaddexp(0, x),
    inr.SignOp: np.sign,
    inr.ReciprocalOp: np.reciprocal,
    inr.SelectOp: lambda c, a, b: np.where(c != 0, a, b),
}
"""Every elementwise operation, on float64 arrays of one shape."""

_COMPARISONS: dict[str, Callable[..., np.ndarray]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def evaluate_elementwise(op: Operation, operands: PythonValues) -> np.ndarray:
    """
    The value of an elementwise operation on arrays (float64, equal shapes).

    Raises KeyError for an operation that is not elementwise.
    """
    # Derivative formulas divide by zero where the other branch of a select is taken.
    with np.errstate(all="ignore"):
        if isinstance(op, inr.CompareOp):
            return _COMPARISONS[op.predicate.data](*operands).astype(np.float64)
        return ELEMENTWISE[type(op)](*operands)


def _elementwise_impl(op_type: type[Operation]) -> Any:
    @impl(op_type)
    def run(
        self: InterpreterFunctions, interpreter: Interpreter, op: Operation, args: PythonValues
    ) -> PythonValues:
        return (evaluate_elementwise(op, args),)

    return run


class GraphFunctions(InterpreterFunctions):
    """`arith`, `math`, `tensor` and `inr` on float64 arrays."""

    @impl(arith.ConstantOp)
    def run_constant(
        self, interpreter: Interpreter, op: arith.ConstantOp, args: PythonValues
    ) -> PythonValues:
        value = op.value
        if isinstance(value, DenseIntOrFPElementsAttr) and isinstance(
            value.get_element_type(), IntegerType
        ):
            return (dense_array(value),)
        return (to_array(value),)

    @impl(inr.MatmulOp)
    def run_matmul(
        self, interpreter: Interpreter, op: inr.MatmulOp, args: PythonValues
    ) -> PythonValues:
        lhs, rhs, *bias = args
        product = lhs @ rhs
        return (product + bias[0] if bias else product,)

    @impl(inr.TransposeOp)
    def run_transpose(
        self, interpreter: Interpreter, op: inr.TransposeOp, args: PythonValues
    ) -> PythonValues:
        return (np.transpose(args[0], op.axes),)

    @impl(inr.BroadcastOp)
    def run_broadcast(
        self, interpreter: Interpreter, op: inr.BroadcastOp, args: PythonValues
    ) -> PythonValues:
        return (np.broadcast_to(args[0], inr.shape_of(op.result)),)

    @impl(inr.ReshapeOp)
    def run_reshape(
        self, interpreter: Interpreter, op: inr.ReshapeOp, args: PythonValues
    ) -> PythonValues:
        return (np.reshape(args[0], inr.shape_of(op.result)),)

    @impl(inr.ReduceSumOp)
    def run_reduce_sum(
        self, interpreter: Interpreter, op: inr.ReduceSumOp, args: PythonValues
    ) -> PythonValues:
        return (np.sum(args[0], axis=op.axes),)

    @impl(inr.PadOp)
    def run_pad(self, interpreter: Interpreter, op: inr.PadOp, args: PythonValues) -> PythonValues:
        return (np.pad(args[0], op.amounts),)

    @impl(tensor.ExtractSliceOp)
    def run_extract_slice(
        self, interpreter: Interpreter, op: tensor.ExtractSliceOp, args: PythonValues
    ) -> PythonValues:
        picked = args[0][slices(op)]
        return (picked.reshape(inr.shape_of(op.result)),)

    @impl(tensor.ConcatOp)
    def run_concat(
        self, interpreter: Interpreter, op: tensor.ConcatOp, args: PythonValues
    ) -> PythonValues:
        return (np.concatenate(args, axis=op.dim.value.data),)


for _op in (*ELEMENTWISE, inr.CompareOp):
    setattr(GraphFunctions, f"run_{_op.name}", _elementwise_impl(_op))
register_impls(GraphFunctions)


def slices(op: tensor.ExtractSliceOp) -> tuple[slice, ...]:
    """The static window of an extract_slice as Python slices, one an axis."""
    return tuple(
        slice(start, start + (size - 1) * step + 1, step)
        for start, size, step in zip(
            op.static_offsets.get_values(),
            op.static_sizes.get_values(),
            op.static_strides.get_values(),
            strict=True,
        )
    )


Observer = Callable[[Operation, PythonValues], None]
"""Called with each operation before it runs, and the arrays of its operands."""


class _Listener(Interpreter.Listener):
    """Tells an observer."""

    def __init__(self, observe: Observer):
        self.observe = observe

    def will_interpret_op(self, op: Operation, args: PythonValues) -> None:
        self.observe(op, args)


def run_graph(
    module: ModuleOp,
    inputs: list[np.ndarray],
    function: str | None = None,
    observe: Observer | None = None,
) -> list[np.ndarray]:
    """
    Evaluate a function of a graph-level module in float64, arguments of integers in their type.

    `function` names it; without a name the module must have just one.
    Raises ValueError where there is no such function.
    """
    interpreter = Interpreter(module, listeners=(_Listener(observe),) if observe else ())
    interpreter.register_implementations(GraphFunctions())
    interpreter.register_implementations(LutFunctions())
    interpreter.register_implementations(FuncFunctions())
    op = find_function(module, function)
    arrays = tuple(
        np.asarray(x, dtype=_argument_type(a.type))
        for x, a in zip(inputs, op.body.block.args, strict=True)
    )
    return list(interpreter.call_op(op, arrays))


def _argument_type(type_: Attribute) -> np.dtype[Any]:
    """The type of an argument's array: integers keep theirs."""
    if isinstance(type_, TensorType) and isinstance(type_.get_element_type(), IntegerType):
        own = numpy_type(type_.get_element_type())
        if own is not None:
            return own
    return np.dtype(np.float64)


def find_function(module: ModuleOp, name: str | None = None) -> FuncOp:
    """The function of that name, or the only one. Raises ValueError where there is none."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    if name is not None:
        functions = [f for f in functions if f.sym_name.data == name]
    if len(functions) != 1:
        raise ValueError(
            f"expected one function{f' {name}' if name else ''}, found {len(functions)}"
        )
    return functions[0]
