"""
What the rules of `inr-simplify` ask about constants.

A *coefficient* is a constant in its smallest form: one number for a splat, one row for a
broadcast row, the whole array otherwise. Coefficients are combined in that form, so that no
rule ever writes a broadcast out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.arith import ConstantOp, MulfOp, NegfOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, f64
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.inr import BroadcastOp, MatmulOp
from ..interpreters.arrays import to_array
from .graph_builder import GraphBuilder, name_of


# The cache is by value: a big constant is hashed once, by its bytes, and compared by identity.
@lru_cache(maxsize=512)
def smallest(attribute: Attribute) -> np.ndarray | None:
    """
    The values of a dense float attribute, extent 1 along every axis where all are equal; a
    single number has no axes. None for an attribute without floats of 64 bits, the graph's own:
    others are tables and what goes with them.

    The array is shared: it must not be written to.
    """
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        return None
    if cast(Attribute, attribute.get_element_type()) != f64:
        return None
    array = to_array(cast(Attribute, attribute))
    for axis in range(array.ndim):
        first = array.take([0], axis) if array.shape[axis] else array
        if array.shape[axis] > 1 and _same(array, first):
            array = first
    return array.reshape(()) if array.size == 1 else np.ascontiguousarray(array)


def _same(array: np.ndarray, first: np.ndarray) -> bool:
    """Whether every slice has the numbers of the first; -0.0 is not 0.0 here."""
    equal = array == first
    return bool(equal.all() and (np.signbit(array) == np.signbit(first)).all())


def coefficient(value: SSAValue) -> np.ndarray | None:
    """
    The coefficient that a value is, or None: of a constant, or of a broadcast of one.

    The array has the rank of the value, or rank 0 for one number.
    """
    owner = value.owner
    if isinstance(owner, BroadcastOp):
        owner = owner.operand.owner
    return smallest(owner.value) if isinstance(owner, ConstantOp) else None


def number(value: SSAValue) -> float | None:
    """The number that every element of a value is known to be, or None."""
    array = coefficient(value)
    return float(array) if array is not None and array.ndim == 0 else None


def coefficient_name(value: SSAValue) -> str | None:
    """The parameter that a coefficient comes from, or None."""
    owner = value.owner
    return name_of(owner.operand if isinstance(owner, BroadcastOp) else value)


def derived_name(name: str | None, what: str) -> str | None:
    """The name of a constant computed from the one called `name`: `name_what`, said once."""
    if name is None or name.endswith(f"_{what}"):
        return name
    return f"{name}_{what}"


def materialize(
    b: GraphBuilder, array: np.ndarray, shape: tuple[int, ...], name: str | None = None
) -> SSAValue:
    """A value of `shape` with a coefficient's elements: a splat, or a constant broadcast."""
    if array.size == 1 and prod(shape) > 1:
        return b.splat(float(array.reshape(())), shape)
    if array.size == 1:
        return b.constant(array.reshape(shape), name)
    return b.broadcast(b.constant(array, name), shape)


def combine(
    f: Callable[[np.ndarray, np.ndarray], Any], lhs: np.ndarray, rhs: np.ndarray
) -> np.ndarray | None:
    """`f` of two coefficients, where the result is no larger than the larger of them."""
    if lhs.ndim and rhs.ndim and lhs.shape != rhs.shape:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(f(lhs, rhs))


def scaled_operand(value: SSAValue) -> tuple[SSAValue, float] | None:
    """(x, c) where `value` is x·c or c·x for a number c, or −x, which is x·(−1); else None."""
    owner = value.owner
    if isinstance(owner, NegfOp):
        return owner.operand, -1.0
    if not isinstance(owner, MulfOp):
        return None
    for x, c in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
        if (factor := number(c)) is not None:
            return x, factor
    return None


def product_with_coefficient(op: Operation) -> tuple[SSAValue, SSAValue] | None:
    """(x, k) where a product is of some x with a coefficient k, in either order; else None."""
    if not isinstance(op, MulfOp):
        return None
    if coefficient(op.rhs) is not None:
        return op.lhs, op.rhs
    if coefficient(op.lhs) is not None:
        return op.rhs, op.lhs
    return None


def goes_into_weights(value: SSAValue) -> bool:
    """
    Whether all that uses a value multiplies it with constant matrices: a factor of it is then
    one of theirs.
    """
    users = [use.operation for use in value.uses]
    return bool(users) and all(
        isinstance(user, MatmulOp)
        and user.rhs is not value
        and user.bias is not value
        and isinstance(user.rhs.owner, ConstantOp)
        for user in users
    )


def is_zero(value: SSAValue) -> bool:
    """Whether every element is known to be 0."""
    return number(value) == 0
