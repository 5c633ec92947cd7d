"""
Rules of `inr-simplify` about products of matrices.

Numbers go into the weights on either side of a product, constants that are added go into the
bias, rows that are all the same are multiplied once, and of a product only the columns and the
summands that count are computed.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.arith import AddfOp, MulfOp, SubfOp
from xdsl.dialects.tensor import ExtractSliceOp
from xdsl.ir import SSAValue

from ..dialects.inr import BroadcastOp, MatmulOp, PadOp, shape_of
from ..interpreters.arrays import constant_value
from .coefficients import (
    coefficient,
    derived_name,
    goes_into_weights,
    is_zero,
    number,
    scaled_operand,
)
from .graph_builder import GraphBuilder, name_of
from .rules import RuleTable, entering

RULES: RuleTable = {}
rule = entering(RULES)

SCALES: RuleTable = {}
"""The rules that the option `fold-scales` switches."""
scale_rule = entering(SCALES)


def _is_constant(value: SSAValue) -> bool:
    return constant_value(value) is not None


def _has_constant_bias(op: MatmulOp) -> bool:
    """Whether a product has no bias or a constant one."""
    return op.bias is None or coefficient(op.bias) is not None


def _scaled(b: GraphBuilder, value: SSAValue, factor: float) -> SSAValue:
    """A constant times a number, under its name with a suffix."""
    array = cast(np.ndarray, constant_value(value))
    return b.constant(array * factor, derived_name(name_of(value), "scaled"))


# --- rows that are all the same ----------------------------------------------------------------


@rule(MatmulOp)
def product_of_equal_rows(op: MatmulOp, b: GraphBuilder) -> SSAValue | None:
    """broadcast(r)·W = broadcast(r·W) for a row r."""
    rows, inner = shape_of(op.lhs)
    owner = op.lhs.owner
    if rows == 1:
        return None
    if isinstance(owner, BroadcastOp) and shape_of(owner.operand) == (1, inner):
        row = owner.operand
    elif (value := number(op.lhs)) is not None:
        row = b.splat(value, (1, inner))
    else:
        return None
    return b.broadcast(b.matmul(row, op.rhs, op.bias), shape_of(op.result))


@rule(MatmulOp)
def product_of_constants(op: MatmulOp, b: GraphBuilder) -> SSAValue | None:
    """A product of constants is a constant; a one-hot row picks a row of the weights."""
    if is_zero(op.lhs) or is_zero(op.rhs):
        zeros = b.splat(0, shape_of(op.result))
        if op.bias is None:
            return zeros
        return b.broadcast(op.bias, shape_of(op.result))
    lhs, rhs = constant_value(op.lhs), constant_value(op.rhs)
    if lhs is None or rhs is None or not _has_constant_bias(op):
        return None
    product = lhs @ rhs
    if product.size > max(lhs.size, rhs.size):
        return None
    if op.bias is not None:
        product = product + cast(np.ndarray, constant_value(op.bias))
    hot = np.flatnonzero(lhs)
    name = name_of(op.rhs)
    picks_row = lhs.shape[0] == 1 and len(hot) == 1 and lhs.flat[hot[0]] == 1 and op.bias is None
    what = f"row{hot[0]}" if picks_row else "product"
    return b.constant(product, derived_name(name, what))


# --- only what counts --------------------------------------------------------------------------


@rule(MatmulOp)
def product_of_pad(op: MatmulOp, b: GraphBuilder) -> SSAValue | None:
    """pad(x)·W = x·(the rows of W that x meets)."""
    pad = op.lhs.owner
    if not isinstance(pad, PadOp) or any(pad.amounts[0]) or not _is_constant(op.rhs):
        return None
    rows = b.slice_axis(op.rhs, 0, pad.amounts[1][0], shape_of(pad.operand)[1])
    return b.matmul(pad.operand, rows, op.bias)


@rule(MatmulOp)
def product_of_padded_rows(op: MatmulOp, b: GraphBuilder) -> SSAValue | None:
    """Rows of zeros stay rows of zeros."""
    pad = op.lhs.owner
    if not isinstance(pad, PadOp) or any(pad.amounts[1]) or op.bias is not None:
        return None
    product = b.matmul(pad.operand, op.rhs)
    (low, high) = pad.amounts[0]
    return b.pad(product, [low, 0], [high, 0])


@rule(ExtractSliceOp)
def slice_of_product(op: ExtractSliceOp, b: GraphBuilder) -> SSAValue | None:
    """Rows or columns of a product that nothing else uses are a smaller product."""
    inner = op.source.owner
    if not isinstance(inner, MatmulOp) or not op.source.has_one_use():
        return None
    if not _is_constant(inner.rhs) or not _has_constant_bias(inner):
        return None
    (rows, columns), (row_count, column_count), (row_step, column_step) = (
        numbers.get_values() for numbers in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    lhs = b.slice_axis(inner.lhs, 0, rows, row_count, row_step)
    rhs = b.slice_axis(inner.rhs, 1, columns, column_count, column_step)
    bias = inner.bias
    if bias is not None:
        bias = b.slice_axis(bias, 0, columns, column_count, column_step)
    return b.reshape(b.matmul(lhs, rhs, bias), shape_of(op.result))


# --- sums --------------------------------------------------------------------------------------


@rule(AddfOp)
def add_to_bias(op: AddfOp, b: GraphBuilder) -> SSAValue | None:
    """(x·W + b) + k = x·W + (b + k) for a constant row k."""
    for product, k in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inner = product.owner
        if not isinstance(inner, MatmulOp) or not product.has_one_use():
            continue
        row = coefficient(k)
        if row is None or not _has_constant_bias(inner) or (row.ndim and row.shape[0] != 1):
            continue
        columns = shape_of(inner.rhs)[1]
        total, name = np.broadcast_to(row.reshape(-1), (columns,)), None
        if inner.bias is not None:
            total = total + cast(np.ndarray, constant_value(inner.bias))
            name = derived_name(name_of(inner.bias), "shifted")
        return b.matmul(inner.lhs, inner.rhs, b.constant(total, name))
    return None


@rule(AddfOp, SubfOp)
def add_products(op: AddfOp | SubfOp, b: GraphBuilder) -> SSAValue | None:
    """x·W + y·W = (x + y)·W, where nothing else uses the two products."""
    lhs, rhs = op.lhs.owner, op.rhs.owner
    if not isinstance(lhs, MatmulOp) or not isinstance(rhs, MatmulOp) or lhs is rhs:
        return None
    if lhs.rhs is not rhs.rhs or lhs.bias is not None or rhs.bias is not None:
        return None
    if not (op.lhs.has_one_use() and op.rhs.has_one_use()):
        return None
    return b.matmul(b.like(op, [lhs.lhs, rhs.lhs], shape_of(lhs.lhs)), lhs.rhs)


# --- numbers and signs -------------------------------------------------------------------------


@rule(MatmulOp)
def move_sign_out(op: MatmulOp, b: GraphBuilder) -> SSAValue | None:
    """(−x)·W = −(x·W): the sign goes on, the weights stay what others use."""
    if op.bias is not None:
        return None
    for operand, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        split = scaled_operand(operand)
        if split is None or split[1] != -1:
            continue
        lhs, rhs = (split[0], other) if operand is op.lhs else (other, split[0])
        return b.neg(b.matmul(lhs, rhs))
    return None


@scale_rule(MatmulOp)
def scale_weights_after(op: MatmulOp, b: GraphBuilder) -> SSAValue | None:
    """(x·c)·W = x·(c·W), where only products with constants use x·c."""
    split = scaled_operand(op.lhs)
    if split is None or split[1] == -1 or not goes_into_weights(op.lhs):
        return None
    x, c = split
    if c < 0 and op.bias is None:
        # The weights of one layer keep one sign, so that its products can share them.
        return b.neg(b.matmul(x, _scaled(b, op.rhs, -c)))
    return b.matmul(x, _scaled(b, op.rhs, c), op.bias)


@scale_rule(MulfOp)
def scale_weights_before(op: MulfOp, b: GraphBuilder) -> SSAValue | None:
    """(x·W + b)·c = x·(c·W) + c·b, where nothing else uses the product."""
    split = scaled_operand(op.result)
    if split is None or split[1] == -1 or not split[0].has_one_use():
        return None
    product, c = split
    inner = product.owner
    if not isinstance(inner, MatmulOp) or not _is_constant(inner.rhs):
        return None
    if not _has_constant_bias(inner):
        return None
    bias = None if inner.bias is None else _scaled(b, inner.bias, abs(c))
    scaled = b.matmul(inner.lhs, _scaled(b, inner.rhs, abs(c)), bias)
    return b.neg(scaled) if c < 0 else scaled


@scale_rule(MatmulOp)
def number_out_of_product(op: MatmulOp, b: GraphBuilder) -> SSAValue | None:
    """(x·c)·y = (x·y)·c, for a product of two computed matrices."""
    if op.bias is not None or _is_constant(op.lhs) or _is_constant(op.rhs):
        return None
    for operand in (op.lhs, op.rhs):
        split = scaled_operand(operand)
        if split is None or not operand.has_one_use() or split[1] == -1:
            continue
        lhs, rhs = (split[0], op.rhs) if operand is op.lhs else (op.lhs, split[0])
        return b.scale(b.matmul(lhs, rhs), split[1])
    return None
