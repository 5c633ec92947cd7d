"""
The elementwise ATen operators at the graph level: arithmetic, functions, activations, masks.

The formulas are those of PyTorch's documentation, thresholds included, so that every value can
be compared with PyTorch's.
"""

from __future__ import annotations

import math as pymath

from xdsl.dialects import math
from xdsl.dialects.arith import MaximumfOp, MinimumfOp
from xdsl.ir import Operation, SSAValue

from ..dialects import inr
from ..dialects.inr import Predicate, shape_of
from ..dialects.torch import constant_of
from ..errors import reject
from ..interpreters.arrays import splat_value
from .torch_lowering import Lowering, Table, entering

LARGEST_POWER = 64
"""Powers up to here are products; beyond it, or in between halves, they are exp and log."""

ELEMENTWISE: Table = {}
lowers = entering(ELEMENTWISE)

_UNARY: dict[str, type[Operation]] = {
    "aten.sin": math.SinOp,
    "aten.cos": math.CosOp,
    "aten.exp": math.ExpOp,
    "aten.expm1": math.ExpM1Op,
    "aten.log": math.LogOp,
    "aten.log1p": math.Log1pOp,
    "aten.tanh": math.TanhOp,
    "aten.erf": math.ErfOp,
    "aten.sqrt": math.SqrtOp,
    "aten.rsqrt": math.RsqrtOp,
    "aten.abs": math.AbsFOp,
    "aten.sigmoid": inr.SigmoidOp,
    "aten.sgn": inr.SignOp,
    "aten.sign": inr.SignOp,
    "aten.reciprocal": inr.ReciprocalOp,
}


@lowers(*_UNARY)
def _unary(b: Lowering) -> SSAValue:
    op_type = _UNARY[b.op.name.removeprefix("torch.")]
    return b.insert(op_type(b.tensor("self")))  # pyright: ignore[reportCallIssue]


@lowers("aten.neg")
def _neg(b: Lowering) -> SSAValue:
    return b.neg(b.tensor("self"))


@lowers("aten.square")
def _square(b: Lowering) -> SSAValue:
    return b.mul(b.tensor("self"), b.tensor("self"))


@lowers("aten.exp2")
def _exp2(b: Lowering) -> SSAValue:
    return b.insert(math.ExpOp(b.scale(b.tensor("self"), pymath.log(2))))


@lowers("aten.log2")
def _log2(b: Lowering) -> SSAValue:
    return b.scale(b.insert(math.LogOp(b.tensor("self"))), 1 / pymath.log(2))


@lowers("aten.log10")
def _log10(b: Lowering) -> SSAValue:
    return b.scale(b.insert(math.LogOp(b.tensor("self"))), 1 / pymath.log(10))


@lowers("aten.tan")
def _tan(b: Lowering) -> SSAValue:
    x = b.tensor("self")
    return b.div(b.insert(math.SinOp(x)), b.insert(math.CosOp(x)))


@lowers("aten.sinh")
def _sinh(b: Lowering) -> SSAValue:
    # With e = exp(x) - 1: (e + e/(e + 1)) / 2, which keeps its digits near zero.
    e = b.insert(math.ExpM1Op(b.tensor("self")))
    return b.scale(b.add(e, b.div(e, b.offset(e, 1))), 0.5)


@lowers("aten.cosh")
def _cosh(b: Lowering) -> SSAValue:
    e = b.insert(math.ExpOp(b.tensor("self")))
    return b.scale(b.add(e, b.insert(inr.ReciprocalOp(e))), 0.5)


@lowers("aten.add.Tensor")
def _add(b: Lowering) -> SSAValue:
    if b.is_mask:
        return b.insert(MaximumfOp(b.full("self"), b.full("other")))
    return b.add(b.full("self"), b.scale(b.full("other"), b.number("alpha")))


@lowers("aten.sub.Tensor")
def _sub(b: Lowering) -> SSAValue:
    return b.sub(b.full("self"), b.scale(b.full("other"), b.number("alpha")))


@lowers("aten.add.Scalar")
def _add_scalar(b: Lowering) -> SSAValue:
    return b.offset(b.tensor("self"), b.number("other") * b.number("alpha"))


@lowers("aten.sub.Scalar")
def _sub_scalar(b: Lowering) -> SSAValue:
    return b.offset(b.tensor("self"), -b.number("other") * b.number("alpha"))


@lowers("aten.rsub.Scalar")
def _rsub_scalar(b: Lowering) -> SSAValue:
    scaled = b.scale(b.tensor("self"), b.number("alpha"))
    return b.sub(b.splat(b.number("other"), b.shape), scaled)


@lowers("aten.mul.Tensor")
def _mul(b: Lowering) -> SSAValue:
    return b.mul(b.full("self"), b.full("other"))


@lowers("aten.mul.Scalar")
def _mul_scalar(b: Lowering) -> SSAValue:
    return b.scale(b.tensor("self"), b.number("other"))


@lowers("aten.div.Tensor")
def _div(b: Lowering) -> SSAValue:
    return b.div(b.full("self"), b.full("other"))


@lowers("aten.div.Scalar")
def _div_scalar(b: Lowering) -> SSAValue:
    return b.div(b.tensor("self"), b.splat(b.number("other"), b.shape))


@lowers("aten.addcmul")
def _addcmul(b: Lowering) -> SSAValue:
    product = b.mul(b.full("tensor1"), b.full("tensor2"))
    return b.add(b.full("self"), b.scale(product, b.number("value")))


@lowers("aten.addcdiv")
def _addcdiv(b: Lowering) -> SSAValue:
    quotient = b.div(b.full("tensor1"), b.full("tensor2"))
    return b.add(b.full("self"), b.scale(quotient, b.number("value")))


@lowers("aten.maximum")
def _maximum(b: Lowering) -> SSAValue:
    return b.insert(MaximumfOp(b.full("self"), b.full("other")))


@lowers("aten.minimum")
def _minimum(b: Lowering) -> SSAValue:
    return b.insert(MinimumfOp(b.full("self"), b.full("other")))


@lowers("aten.clamp")
def _clamp(b: Lowering) -> SSAValue:
    value = b.tensor("self")
    if not b.is_none("min"):
        value = b.insert(MaximumfOp(value, b.splat(b.number("min"), b.shape)))
    if not b.is_none("max"):
        value = b.insert(MinimumfOp(value, b.splat(b.number("max"), b.shape)))
    return value


@lowers("aten.clamp_min")
def _clamp_min(b: Lowering) -> SSAValue:
    return b.insert(MaximumfOp(b.tensor("self"), b.splat(b.number("min"), b.shape)))


@lowers("aten.clamp_max")
def _clamp_max(b: Lowering) -> SSAValue:
    return b.insert(MinimumfOp(b.tensor("self"), b.splat(b.number("max"), b.shape)))


def _whole_power(b: Lowering, x: SSAValue, exponent: int) -> SSAValue | None:
    """x to a power of at least 0 by squaring; None for the power 0."""
    power: SSAValue | None = None
    while exponent:
        if exponent & 1:
            power = x if power is None else b.mul(power, x)
        exponent >>= 1
        if exponent:
            x = b.mul(x, x)
    return power


def power(b: Lowering, x: SSAValue, exponent: float) -> SSAValue:
    """
    x to a constant power: whole and half powers by products and a square root, others as
    exp(c·log x), which like PyTorch's is not a number for a negative x.
    """
    whole, half = divmod(abs(exponent), 1)
    if whole > LARGEST_POWER or half not in (0, 0.5):
        return b.insert(math.ExpOp(b.scale(b.insert(math.LogOp(x)), exponent)))
    result = _whole_power(b, x, int(whole))
    if half:
        root = b.insert(math.RsqrtOp(x) if exponent < 0 and whole == 0 else math.SqrtOp(x))
        if result is None:
            return root
        result = b.mul(result, root)
    if result is None:
        return b.splat(1, shape_of(x))
    return b.insert(inr.ReciprocalOp(result)) if exponent < 0 else result


@lowers("aten.pow.Tensor_Scalar")
def _pow(b: Lowering) -> SSAValue:
    return power(b, b.tensor("self"), b.number("exponent"))


@lowers("aten.pow.Tensor_Tensor")
def _pow_tensor(b: Lowering) -> SSAValue:
    exponent = splat_value(b.tensor("exponent"))
    if exponent is None:
        raise reject(b.op, "the exponent must be a constant; write exp(y * log(x)) for x > 0")
    return power(b, b.full("self"), exponent)


# --- activations -----------------------------------------------------------------------------


@lowers("aten.relu")
def _relu(b: Lowering) -> SSAValue:
    return b.insert(MaximumfOp(b.tensor("self"), b.splat(0, b.shape)))


@lowers("aten.threshold_backward")
def _threshold_backward(b: Lowering) -> SSAValue:
    outside = b.compare(Predicate.LE, b.full("self"), b.number("threshold"))
    return b.select(outside, b.splat(0, b.shape), b.full("grad_output"))


@lowers("aten.leaky_relu")
def _leaky_relu(b: Lowering) -> SSAValue:
    x = b.tensor("self")
    return b.select(b.compare(Predicate.GT, x, 0), x, b.scale(x, b.number("negative_slope")))


@lowers("aten.leaky_relu_backward")
def _leaky_relu_backward(b: Lowering) -> SSAValue:
    gradient = b.full("grad_output")
    positive = b.compare(Predicate.GT, b.full("self"), 0)
    return b.select(positive, gradient, b.scale(gradient, b.number("negative_slope")))


@lowers("aten.tanh_backward")
def _tanh_backward(b: Lowering) -> SSAValue:
    y = b.full("output")
    return b.mul(b.full("grad_output"), b.sub(b.splat(1, b.shape), b.mul(y, y)))


@lowers("aten.sigmoid_backward")
def _sigmoid_backward(b: Lowering) -> SSAValue:
    y = b.full("output")
    return b.mul(b.full("grad_output"), b.mul(y, b.sub(b.splat(1, b.shape), y)))


@lowers("aten.softplus")
def _softplus(b: Lowering) -> SSAValue:
    x, beta = b.tensor("self"), b.number("beta")
    scaled = b.scale(x, beta)
    soft = b.scale(b.insert(inr.SoftplusOp(scaled)), 1 / beta)
    return b.select(b.compare(Predicate.GT, scaled, b.number("threshold")), x, soft)


@lowers("aten.silu")
def _silu(b: Lowering) -> SSAValue:
    x = b.tensor("self")
    return b.mul(x, b.insert(inr.SigmoidOp(x)))


@lowers("aten.elu")
def _elu(b: Lowering) -> SSAValue:
    x, scale = b.tensor("self"), b.number("scale")
    below = b.insert(math.ExpM1Op(b.scale(x, b.number("input_scale"))))
    below = b.scale(below, b.number("alpha") * scale)
    return b.select(b.compare(Predicate.GT, x, 0), b.scale(x, scale), below)


@lowers("aten.gelu")
def _gelu(b: Lowering) -> SSAValue:
    x = b.tensor("self")
    if constant_of(b.op.argument("approximate")) == "tanh":
        cube = b.mul(b.mul(x, x), x)
        inner = b.scale(b.add(x, b.scale(cube, 0.044715)), pymath.sqrt(2 / pymath.pi))
        gate = b.insert(math.TanhOp(inner))
    else:
        gate = b.insert(math.ErfOp(b.scale(x, pymath.sqrt(0.5))))
    return b.mul(b.scale(x, 0.5), b.offset(gate, 1))


# --- masks -----------------------------------------------------------------------------------

_SCALAR_COMPARISONS = {f"aten.{p.value}.Scalar": p for p in Predicate}
_TENSOR_COMPARISONS = {f"aten.{p.value}.Tensor": p for p in Predicate}


@lowers(*_SCALAR_COMPARISONS)
def _compare_scalar(b: Lowering) -> SSAValue:
    predicate = _SCALAR_COMPARISONS[b.op.name.removeprefix("torch.")]
    return b.compare(predicate, b.tensor("self"), b.number("other"))


@lowers(*_TENSOR_COMPARISONS)
def _compare_tensor(b: Lowering) -> SSAValue:
    predicate = _TENSOR_COMPARISONS[b.op.name.removeprefix("torch.")]
    return b.compare(predicate, b.full("self"), b.full("other"))


@lowers("aten.logical_not", "aten.bitwise_not")
def _not(b: Lowering) -> SSAValue:
    return b.compare(Predicate.EQ, b.tensor("self"), 0)


@lowers("aten.logical_and")
def _and(b: Lowering) -> SSAValue:
    return b.mul(b.truth("self"), b.truth("other"))


@lowers("aten.logical_or")
def _or(b: Lowering) -> SSAValue:
    return b.insert(MaximumfOp(b.truth("self"), b.truth("other")))


@lowers("aten.where.self")
def _where(b: Lowering) -> SSAValue:
    return b.select(b.full("condition"), b.full("self"), b.full("other"))


@lowers("aten.where.ScalarSelf")
def _where_scalar_self(b: Lowering) -> SSAValue:
    return b.select(b.full("condition"), b.splat(b.number("self"), b.shape), b.full("other"))


@lowers("aten.where.ScalarOther")
def _where_scalar_other(b: Lowering) -> SSAValue:
    return b.select(b.full("condition"), b.full("self"), b.splat(b.number("other"), b.shape))


@lowers("aten.where.Scalar")
def _where_scalar(b: Lowering) -> SSAValue:
    lhs, rhs = (b.splat(b.number(p), b.shape) for p in ("self", "other"))
    return b.select(b.full("condition"), lhs, rhs)


@lowers("aten.masked_fill.Scalar")
def _masked_fill(b: Lowering) -> SSAValue:
    return b.select(b.full("mask"), b.splat(b.number("value"), b.shape), b.full("self"))
