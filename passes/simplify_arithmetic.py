"""
Rules of `inr-simplify` about sums, products and signs, and about constants among them.

Signs and numbers move towards the results, (−a)·b = −(a·b) and (c·a)·b = c·(a·b), until they
meet a coefficient, a sum that takes the sign, or weights that take both.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.arith import AddfOp, ConstantOp, DivfOp, MulfOp, NegfOp, SubfOp
from xdsl.ir import Operation, SSAValue

from ..dialects.inr import (
    CosQOp,
    ReciprocalOp,
    SelectOp,
    SinQOp,
    shape_of,
)
from ..interpreters.graph import evaluate_elementwise
from .coefficients import (
    coefficient,
    coefficient_name,
    combine,
    derived_name,
    goes_into_weights,
    is_zero,
    materialize,
    number,
    product_with_coefficient,
    scaled_operand,
)
from .graph_builder import GraphBuilder
from .rules import ELEMENTWISE_OPS, RuleTable, entering

RULES: RuleTable = {}
rule = entering(RULES)


def negated(value: SSAValue) -> SSAValue | None:
    """x where `value` is −x, else None."""
    return value.owner.operand if isinstance(value.owner, NegfOp) else None


# --- constants -------------------------------------------------------------------------------

_SUFFIXES: dict[type[Operation], str] = {MulfOp: "scaled", NegfOp: "negated"}


@rule(*ELEMENTWISE_OPS)
def fold(op: Operation, b: GraphBuilder) -> SSAValue | None:
    """An elementwise operation on coefficients is a coefficient."""
    arrays = [coefficient(operand) for operand in op.operands]
    if any(array is None for array in arrays):
        return None
    known = cast(list[np.ndarray], arrays)
    shapes = {array.shape for array in known if array.ndim}
    if len(shapes) > 1:
        return None
    names = [name for operand in op.operands if (name := coefficient_name(operand))]
    suffix = _SUFFIXES.get(type(op), op.name.split(".")[-1])
    name = derived_name(names[0], suffix) if len(names) == 1 else None
    return materialize(b, evaluate_elementwise(op, tuple(known)), shape_of(op.results[0]), name)


@rule(ConstantOp)
def shrink(op: ConstantOp, b: GraphBuilder) -> SSAValue | None:
    """A constant whose rows are equal is a broadcast of one of them."""
    array = coefficient(op.result)
    if array is None or array.ndim == 0 or array.shape == shape_of(op.result):
        return None
    return materialize(b, array, shape_of(op.result), coefficient_name(op.result))


# --- products --------------------------------------------------------------------------------


@rule(MulfOp)
def multiply_by_number(op: MulfOp, b: GraphBuilder) -> SSAValue | None:
    """x·1 = x, x·0 = 0, x·(−1) = −x."""
    for x, c in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        match number(c):
            case 1.0:
                return x
            case 0.0:
                return b.splat(0, shape_of(x))
            case -1.0:
                return b.neg(x)
            case _:
                pass
    return None


@rule(MulfOp)
def multiply_coefficients(op: MulfOp, b: GraphBuilder) -> SSAValue | None:
    """(x·k)·k' = x·(k·k'), (−x)·k = x·(−k)."""
    split = product_with_coefficient(op)
    if split is None:
        return None
    x, k = split
    array = cast(np.ndarray, coefficient(k))
    name = derived_name(coefficient_name(k), "scaled")
    if (inner := negated(x)) is not None:
        return b.mul(inner, materialize(b, -array, shape_of(x), name))
    if not isinstance(x.owner, MulfOp) or (nested := product_with_coefficient(x.owner)) is None:
        return None
    other = cast(np.ndarray, coefficient(nested[1]))
    if array.ndim == 0 and other.ndim and goes_into_weights(op.result):
        return None
    product = combine(np.multiply, other, array)
    if product is None:
        return None
    names = [n for value in (k, nested[1]) if (n := coefficient_name(value))]
    name = derived_name(names[0], "scaled") if len(names) == 1 else None
    return b.mul(nested[0], materialize(b, product, shape_of(x), name))


_DEEPEST = 16
"""How many products deep a number looks for a coefficient to join."""


def _absorbed(value: SSAValue, factor: float, b: GraphBuilder, depth: int = 0) -> SSAValue | None:
    """
    `value` times a number, where a product of which `value` is the only user has a coefficient
    to take it; else None, and nothing is built.
    """
    owner = value.owner
    if depth == _DEEPEST or not isinstance(owner, MulfOp) or not value.has_one_use():
        return None
    if (split := product_with_coefficient(owner)) is not None:
        x, k = split
        array = cast(np.ndarray, coefficient(k))
        name = derived_name(coefficient_name(k), "scaled")
        return b.mul(x, materialize(b, array * factor, shape_of(x), name))
    for x, y in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
        if (scaled := _absorbed(x, factor, b, depth + 1)) is not None:
            return b.mul(scaled, y)
    return None


@rule(MulfOp, NegfOp)
def absorb_number(op: MulfOp | NegfOp, b: GraphBuilder) -> SSAValue | None:
    """((x·k)·y)·c = (x·(c·k))·y and −((x·k)·y) = (x·(−k))·y, where nothing else uses them."""
    split = scaled_operand(op.result)
    if split is None or (split[1] != -1 and goes_into_weights(op.result)):
        return None
    return _absorbed(*split, b)


@rule(MulfOp)
def move_sign_out(op: MulfOp, b: GraphBuilder) -> SSAValue | None:
    """(−x)·(−y) = x·y, (−x)·y = −(x·y)."""
    lhs, rhs = negated(op.lhs), negated(op.rhs)
    if lhs is not None and rhs is not None:
        return b.mul(lhs, rhs)
    if lhs is not None:
        return b.neg(b.mul(lhs, op.rhs))
    if rhs is not None:
        return b.neg(b.mul(op.lhs, rhs))
    return None


@rule(MulfOp)
def move_number_out(op: MulfOp, b: GraphBuilder) -> SSAValue | None:
    """(x·c)·y = (x·y)·c, where x·c has no other use and y is no coefficient."""
    if product_with_coefficient(op) is not None:
        return None
    for scaled, y in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if scaled.has_one_use() and (split := scaled_operand(scaled)) is not None:
            return b.scale(b.mul(split[0], y), split[1])
    return None


@rule(DivfOp)
def divide_by_coefficient(op: DivfOp, b: GraphBuilder) -> SSAValue | None:
    """x/k = x·(1/k) where that is finite, 1/x is the reciprocal, (−x)/y = −(x/y)."""
    divisor = coefficient(op.rhs)
    if divisor is not None and np.isfinite(1 / np.where(divisor == 0, np.nan, divisor)).all():
        name = derived_name(coefficient_name(op.rhs), "reciprocal")
        return b.mul(op.lhs, materialize(b, 1 / divisor, shape_of(op.lhs), name))
    if number(op.lhs) == 1:
        return b.insert(ReciprocalOp(op.rhs))
    if (x := negated(op.lhs)) is not None:
        return b.neg(b.div(x, op.rhs))
    if (y := negated(op.rhs)) is not None:
        return b.neg(b.div(op.lhs, y))
    return None


@rule(ReciprocalOp)
def reciprocal_twice(op: ReciprocalOp, b: GraphBuilder) -> SSAValue | None:
    """1/(1/x) = x."""
    inner = op.operand.owner
    return inner.operand if isinstance(inner, ReciprocalOp) else None


# --- signs -----------------------------------------------------------------------------------


@rule(NegfOp)
def negate(op: NegfOp, b: GraphBuilder) -> SSAValue | None:
    """−(−x) = x, and −(x − y) = y − x where nothing else uses the difference."""
    if (inner := negated(op.operand)) is not None:
        return inner
    owner = op.operand.owner
    if isinstance(owner, SubfOp) and op.operand.has_one_use():
        return b.sub(owner.rhs, owner.lhs)
    return None


@rule(math.CosOp, CosQOp, math.AbsFOp)
def even(op: math.CosOp | CosQOp | math.AbsFOp, b: GraphBuilder) -> SSAValue | None:
    """f(−x) = f(x)."""
    inner = negated(op.operand)
    return None if inner is None else b.insert(type(op)(inner))


@rule(math.SinOp, SinQOp, math.TanhOp, math.ErfOp)
def odd(op: math.SinOp | SinQOp | math.TanhOp | math.ErfOp, b: GraphBuilder) -> SSAValue | None:
    """f(−x) = −f(x)."""
    inner = negated(op.operand)
    return None if inner is None else b.neg(b.insert(type(op)(inner)))


# --- sums ------------------------------------------------------------------------------------


@rule(AddfOp)
def add_signed(op: AddfOp, b: GraphBuilder) -> SSAValue | None:
    """x + 0 = x, x + x = 2·x, x + (−y) = x − y, (−x) + (−y) = −(x + y)."""
    for x, c in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if is_zero(c):
            return x
    if op.lhs is op.rhs:
        return b.scale(op.lhs, 2)
    lhs, rhs = negated(op.lhs), negated(op.rhs)
    if lhs is not None and rhs is not None:
        return b.neg(b.add(lhs, rhs))
    if rhs is not None:
        return b.sub(op.lhs, rhs)
    if lhs is not None:
        return b.sub(op.rhs, lhs)
    return None


@rule(SubfOp)
def subtract_signed(op: SubfOp, b: GraphBuilder) -> SSAValue | None:
    """x − 0 = x, 0 − x = −x, x − x = 0, x − (−y) = x + y, (−x) − y = −(x + y), x − k = x + (−k)."""
    if is_zero(op.rhs):
        return op.lhs
    if is_zero(op.lhs):
        return b.neg(op.rhs)
    if op.lhs is op.rhs:
        return b.splat(0, shape_of(op.lhs))
    lhs, rhs = negated(op.lhs), negated(op.rhs)
    if rhs is not None:
        return b.add(op.lhs, rhs)
    if lhs is not None:
        return b.neg(b.add(lhs, op.rhs))
    if (array := coefficient(op.rhs)) is not None:
        name = derived_name(coefficient_name(op.rhs), "negated")
        return b.add(op.lhs, materialize(b, -array, shape_of(op.lhs), name))
    return None


@rule(AddfOp)
def add_coefficients(op: AddfOp, b: GraphBuilder) -> SSAValue | None:
    """(x + k) + k' = x + (k + k')."""
    for inner, constant in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        outer = coefficient(constant)
        if outer is None or not isinstance(inner.owner, AddfOp):
            continue
        nested = inner.owner
        for x, k in ((nested.lhs, nested.rhs), (nested.rhs, nested.lhs)):
            array = coefficient(k)
            total = None if array is None else combine(np.add, array, outer)
            if total is not None:
                return b.add(x, materialize(b, total, shape_of(x)))
    return None


@rule(AddfOp, SubfOp)
def factor(op: AddfOp | SubfOp, b: GraphBuilder) -> SSAValue | None:
    """x·z + y·z = (x + y)·z, where the products have no other use; likewise differences."""
    lhs, rhs = op.lhs.owner, op.rhs.owner
    if not isinstance(lhs, MulfOp) or not isinstance(rhs, MulfOp) or lhs is rhs:
        return None
    if not (op.lhs.has_one_use() and op.rhs.has_one_use()):
        return None
    for x, z in ((lhs.lhs, lhs.rhs), (lhs.rhs, lhs.lhs)):
        for y, w in ((rhs.lhs, rhs.rhs), (rhs.rhs, rhs.lhs)):
            if _same_factor(z, w):
                return b.mul(b.like(op, [x, y], shape_of(x)), z)
    return None


def _same_factor(z: SSAValue, w: SSAValue) -> bool:
    if z is w:
        return True
    first, second = coefficient(z), coefficient(w)
    if first is None or second is None:
        return False
    return first.shape == second.shape and bool((first == second).all())


# --- choices ---------------------------------------------------------------------------------


@rule(SelectOp)
def select_known(op: SelectOp, b: GraphBuilder) -> SSAValue | None:
    """A choice between equals, or under a condition that is known everywhere."""
    if op.lhs is op.rhs:
        return op.lhs
    condition = coefficient(op.condition)
    if condition is None:
        return None
    if (condition != 0).all():
        return op.lhs
    return op.rhs if (condition == 0).all() else None
