"""
Bounds on every value of a stream-level function that hold for all inputs of a domain.

Interval arithmetic, element by element: each array is a pair of arrays, lowest and highest.
Each operation rounds outwards, so the bounds hold over the reals and for float64 alike. An
operation forgets how its operands depend on each other, so bounds grow with depth where no sine
or sigmoid cuts them; a function without a finite bound (a reciprocal of an interval around
zero) gives infinity.

The rules are those of R. E. Moore, "Interval Analysis", Prentice-Hall 1966.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import arith, math
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ..dialects import array_stream, inr
from ..dialects.array_stream import stream_type
from ..errors import reject
from ..interpreters.arrays import to_array
from ..interpreters.graph import ELEMENTWISE

Array = npt.NDArray[np.float64]

_EPSILON = float(np.finfo(np.float64).eps)
_ULPS = 4
"""How far NumPy's functions and one operation's rounding can be off, together, in last places."""


@dataclass(frozen=True)
class Interval:
    """Lowest and highest value of each element of an array; both arrays have its shape."""

    low: Array
    high: Array

    @property
    def peak(self) -> float:
        """The largest magnitude of any element; infinite where there is no bound."""
        if not self.low.size:
            return 0.0
        return float(max(np.max(np.abs(self.low)), np.max(np.abs(self.high))))

    def map(self, move: Callable[[Array], Array]) -> Interval:
        """Both arrays moved alike."""
        return Interval(move(self.low), move(self.high))


def _outwards(low: Any, high: Any, slack: Any = 0.0) -> Interval:
    """An interval that holds what rounding may have lost, and `slack` more; NaN is no bound."""
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    low = low - _ULPS * _EPSILON * np.abs(low) - slack
    high = high + _ULPS * _EPSILON * np.abs(high) + slack
    return Interval(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


# Elementwise functions. All are called with floating-point warnings off.


def _increasing(op_type: type[Operation]) -> Callable[[Interval], Interval]:
    function = ELEMENTWISE[op_type]

    def bound(x: Interval) -> Interval:
        return _outwards(function(x.low), function(x.high))

    return bound


def _add(a: Interval, b: Interval) -> Interval:
    return _outwards(a.low + b.low, a.high + b.high)


def _negate(x: Interval) -> Interval:
    return Interval(-x.high, -x.low)


def _subtract(a: Interval, b: Interval) -> Interval:
    return _add(a, _negate(b))


def _multiply(a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    # Zero times a missing bound is zero: the bound stands for numbers, not for infinity.
    ends = [np.where(np.isnan(e), 0.0, e) for e in ends]
    return _outwards(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _square(x: Interval) -> Interval:
    a, b = np.square(x.low), np.square(x.high)
    low = np.where((x.low <= 0) & (x.high >= 0), 0.0, np.minimum(a, b))
    return _outwards(low, np.maximum(a, b))


def _reciprocal(x: Interval) -> Interval:
    around_zero = (x.low <= 0) & (x.high >= 0)
    return _outwards(
        np.where(around_zero, -np.inf, 1 / x.high), np.where(around_zero, np.inf, 1 / x.low)
    )


def _divide(a: Interval, b: Interval) -> Interval:
    return _multiply(a, _reciprocal(b))


def _rsqrt(x: Interval) -> Interval:
    # Falling, and without a bound at zero.
    bound = _outwards(1 / np.sqrt(x.high), 1 / np.sqrt(x.low))
    return Interval(
        np.where(x.low > 0, bound.low, -np.inf), np.where(x.low > 0, bound.high, np.inf)
    )


def _absolute(x: Interval) -> Interval:
    a, b = np.abs(x.low), np.abs(x.high)
    low = np.where((x.low <= 0) & (x.high >= 0), 0.0, np.minimum(a, b))
    return Interval(low, np.maximum(a, b))


def _maximum(a: Interval, b: Interval) -> Interval:
    return Interval(np.maximum(a.low, b.low), np.maximum(a.high, b.high))


def _minimum(a: Interval, b: Interval) -> Interval:
    return Interval(np.minimum(a.low, b.low), np.minimum(a.high, b.high))


def _sinq(x: Interval) -> Interval:
    """sin(π/2·x): +1 where an angle 4k + 1 lies between the ends, −1 where one 4k + 3 does."""
    function = ELEMENTWISE[inr.SinQOp]
    finite = np.isfinite(x.low) & np.isfinite(x.high)
    low, high = np.where(finite, x.low, 0.0), np.where(finite, x.high, 4.0)
    ends = function(low), function(high)
    bound = _outwards(np.minimum(*ends), np.maximum(*ends))
    top = np.floor((high - 1) / 4) >= np.ceil((low - 1) / 4)
    bottom = np.floor((high - 3) / 4) >= np.ceil((low - 3) / 4)
    return Interval(
        np.where(bottom, -1.0, np.maximum(bound.low, -1.0)),
        np.where(top, 1.0, np.minimum(bound.high, 1.0)),
    )


def _cosq(x: Interval) -> Interval:
    quarter = Interval(np.asarray(1.0), np.asarray(1.0))
    return _sinq(_add(x, quarter))


def _turns(x: Interval) -> Interval:
    """An angle in radians, in quarter-turns."""
    return _outwards(x.low * (2 / np.pi), x.high * (2 / np.pi))


def _sin(x: Interval) -> Interval:
    return _sinq(_turns(x))


def _cos(x: Interval) -> Interval:
    return _cosq(_turns(x))


def _compare(predicate: str, a: Interval, b: Interval) -> Interval:
    """1 where the comparison holds for all values, 0 where for none, else between."""
    match predicate:
        case "gt" | "ge":
            return _compare({"gt": "lt", "ge": "le"}[predicate], b, a)
        case "lt":
            always, never = a.high < b.low, a.low >= b.high
        case "le":
            always, never = a.high <= b.low, a.low > b.high
        case _:
            one = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
            apart = (a.high < b.low) | (b.high < a.low)
            always, never = (one, apart) if predicate == "eq" else (apart, one)
    return Interval(
        np.asarray(always).astype(np.float64), 1.0 - np.asarray(never).astype(np.float64)
    )


def _select(condition: Interval, a: Interval, b: Interval) -> Interval:
    first = (condition.low > 0) | (condition.high < 0)
    second = (condition.low == 0) & (condition.high == 0)
    low, high = np.minimum(a.low, b.low), np.maximum(a.high, b.high)
    return Interval(
        np.where(first, a.low, np.where(second, b.low, low)),
        np.where(first, a.high, np.where(second, b.high, high)),
    )


_BOUNDS: dict[type[Operation], Callable[..., Interval]] = {
    arith.AddfOp: _add,
    arith.SubfOp: _subtract,
    arith.DivfOp: _divide,
    arith.NegfOp: _negate,
    arith.MaximumfOp: _maximum,
    arith.MinimumfOp: _minimum,
    math.AbsFOp: _absolute,
    math.RsqrtOp: _rsqrt,
    math.SinOp: _sin,
    math.CosOp: _cos,
    inr.SinQOp: _sinq,
    inr.CosQOp: _cosq,
    inr.ReciprocalOp: _reciprocal,
    inr.SelectOp: _select,
    **{
        op_type: _increasing(op_type)
        for op_type in (
            math.ExpOp,
            math.ExpM1Op,
            math.LogOp,
            math.Log1pOp,
            math.TanhOp,
            math.ErfOp,
            math.SqrtOp,
            inr.SigmoidOp,
            inr.SoftplusOp,
            inr.SignOp,
        )
    },
}


def bound_elementwise(op: Operation, operands: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """
    The intervals of an elementwise operation's results.

    Raises CompileError for an operation that is not elementwise.
    """
    with np.errstate(all="ignore"):
        if isinstance(op, arith.ConstantOp):
            values = to_array(op.value)
            return (Interval(values, values),)
        if isinstance(op, array_stream.SinCosOp):
            return _sinq(*operands), _cosq(*operands)
        if isinstance(op, inr.CompareOp):
            return (_compare(op.predicate.data, *operands),)
        if isinstance(op, arith.MulfOp):
            same = op.lhs is op.rhs
            return (_square(operands[0]) if same else _multiply(*operands),)
        bound = _BOUNDS.get(type(op))
        if bound is None:
            raise reject(op, "no interval bound; use mode=measured")
        return (bound(*operands),)


# Processes.


def _matmul(op: array_stream.MatmulOp, x: Interval, weights: Array, bias: Array | None) -> Interval:
    """Positive weights take the bound's own side, negative ones the other."""
    rows = x.map(lambda a: np.reshape(a, (op.rows, op.weight_shape[0])))
    finite = np.isfinite(rows.low) & np.isfinite(rows.high)
    without_bound = ~np.min(finite, axis=1, keepdims=True)
    low = np.where(without_bound, 0.0, rows.low)
    high = np.where(without_bound, 0.0, rows.high)
    positive, negative = np.maximum(weights, 0.0), np.minimum(weights, 0.0)
    sum_low = low @ positive + high @ negative
    sum_high = high @ positive + low @ negative
    magnitudes = np.maximum(np.abs(low), np.abs(high)) @ np.abs(weights)
    if bias is not None:
        sum_low, sum_high = sum_low + bias, sum_high + bias
        magnitudes = magnitudes + np.abs(bias)
    bound = _outwards(sum_low, sum_high, _sum_slack(op.weight_shape[0], magnitudes))
    return Interval(
        np.where(without_bound, -np.inf, bound.low),
        np.where(without_bound, np.inf, bound.high),
    )


def _sum_slack(terms: int, magnitudes: Array) -> Array:
    """
    What a float64 sum of so many terms, in any order, can be off; twice, for two sums of it:
    N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 4.2.
    """
    return 2 * (terms + 2) * _EPSILON * magnitudes


def _matmul_dynamic(a: Interval, b: Interval) -> Interval:
    low: Array = np.zeros((a.low.shape[0], b.low.shape[1]))
    high, magnitudes = low, low
    terms = a.low.shape[1]
    for k in range(terms):
        product = _multiply(
            a.map(lambda x, k=k: x[:, k : k + 1]), b.map(lambda x, k=k: x[k : k + 1])
        )
        low, high = low + product.low, high + product.high
        magnitudes = magnitudes + np.maximum(np.abs(product.low), np.abs(product.high))
    return _outwards(low, high, _sum_slack(terms, magnitudes))


def _reduce_sum(x: Interval, axis: int) -> Interval:
    magnitudes = np.sum(np.maximum(np.abs(x.low), np.abs(x.high)), axis=axis)
    slack = _sum_slack(x.low.shape[axis], magnitudes)
    return _outwards(np.sum(x.low, axis=axis), np.sum(x.high, axis=axis), slack)


def _slice(op: array_stream.SliceOp, x: Array) -> Array:
    start, size, step = op.window
    window = [slice(None)] * x.ndim
    window[op.axis.value.data] = slice(start, start + (size - 1) * step + 1, step)
    return x[tuple(window)]


def _pad(op: array_stream.PadOp, x: Array) -> Array:
    amounts = [(0, 0)] * x.ndim
    amounts[op.axis.value.data] = (op.low.value.data, op.high.value.data)
    return np.pad(x, amounts)


class _Bounds:
    """Walks a function and keeps the interval of each value."""

    def __init__(self, domain: tuple[float, float]):
        self.domain = domain
        self.intervals: dict[SSAValue, Interval] = {}

    def run(self, op: Operation) -> None:
        """Bound the results of one operation of a stream-level function."""
        match op:
            case arith.ConstantOp() | ReturnOp():
                return
            case array_stream.MapOp():
                results = self.map(op)
            case array_stream.CopyOp():
                results = (self.intervals[op.stream],) * len(op.outputs)
            case array_stream.MatmulOp():
                weights = _resident(op.weights)
                bias = None if op.bias is None else _resident(op.bias)
                results = tuple(
                    _matmul(op, self.intervals[x], weights, bias).map(
                        lambda a, y=y: np.reshape(a, stream_type(y).extents)
                    )
                    for x, y in zip(op.inputs, op.outputs, strict=True)
                )
            case _:
                results = (self.process(op),)
        self.intervals.update(zip(op.results, results, strict=True))

    def process(self, op: Operation) -> Interval:
        """The result of a process that has just one."""
        match op:
            case array_stream.ReadOp():
                shape = stream_type(op.stream).extents
                low, high = self.domain
                return Interval(np.full(shape, low), np.full(shape, high))
            case array_stream.WriteOp():
                return self.intervals[op.stream]
            case array_stream.ConstantOp():
                values = np.tile(_resident(op.values).ravel(), op.repeats)
                values = values.reshape(stream_type(op.stream).extents)
                return Interval(values, values)
            case array_stream.MatmulDynamicOp():
                return _matmul_dynamic(self.intervals[op.lhs], self.intervals[op.rhs])
            case array_stream.ReduceSumOp():
                return _reduce_sum(self.intervals[op.stream], op.axis.value.data)
            case array_stream.ConcatOp():
                parts = [self.intervals[v] for v in op.inputs]
                axis = op.axis.value.data
                return Interval(
                    np.concatenate([p.low for p in parts], axis),
                    np.concatenate([p.high for p in parts], axis),
                )
            case _:
                return self.intervals[op.operands[0]].map(lambda x: _moved(op, x))

    def map(self, op: array_stream.MapOp) -> tuple[Interval, ...]:
        """The results of a map; the values of its body are kept as well."""
        known = self.intervals
        known.update(zip(op.body.block.args, (known[v] for v in op.inputs), strict=True))
        for inner in op.body.block.ops:
            if not isinstance(inner, array_stream.YieldOp):
                results = bound_elementwise(inner, tuple(known[v] for v in inner.operands))
                known.update(zip(inner.results, results, strict=True))
        shape = stream_type(op.outputs[0]).extents
        return tuple(
            known[v].map(lambda x: np.broadcast_to(x, shape)) for v in op.terminator.arguments
        )


def _moved(op: Operation, x: Array) -> Array:
    """The array that a process makes which moves elements and does not look at them."""
    match op:
        case array_stream.TransposeOp():
            return np.transpose(x, op.axes)
        case array_stream.BroadcastOp():
            return np.broadcast_to(x, stream_type(op.result).extents)
        case array_stream.SliceOp():
            return _slice(op, x)
        case array_stream.PadOp():
            return _pad(op, x)
        case array_stream.ReshapeOp():
            return np.reshape(x, stream_type(op.result).extents)
        case array_stream.ReblockOp():
            return x
        case _:
            raise reject(op, "no interval bound; use mode=measured")


def _resident(value: SSAValue) -> Array:
    owner = value.owner
    assert isinstance(owner, arith.ConstantOp)
    return to_array(owner.value)


def bound_ranges(function: FuncOp, domain: tuple[float, float]) -> dict[SSAValue, float]:
    """
    A bound on the magnitude of each stream and each value in a map's body of a stream-level
    function, for all inputs whose elements lie in `domain` (low, high); infinite where interval
    arithmetic has none.

    Raises CompileError for an operation without a rule.
    """
    bounds = _Bounds(domain)
    for op in function.body.block.ops:
        bounds.run(op)
    return {value: interval.peak for value, interval in bounds.intervals.items()}
