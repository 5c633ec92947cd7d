"""
Remove transposes.

    %w = arith.constant {inr.name = "w"} dense<…> : tensor<8x2xf64>
    %0 = inr.transpose %w [1, 0] : tensor<8x2xf64> to tensor<2x8xf64>
    %1 = inr.matmul %x, %0 : (tensor<64x2xf64>, tensor<2x8xf64>) -> tensor<64x8xf64>

becomes

    %w = arith.constant {inr.name = "w"} dense<…> : tensor<2x8xf64>
    %1 = inr.matmul %x, %w : (tensor<64x2xf64>, tensor<2x8xf64>) -> tensor<64x8xf64>

A transposed constant is a constant under the same name; pairs cancel; a transpose that moves no
element is a reshape. Other transposes move towards the results, through elementwise operations,
slices, joins and products with a constant, where they meet and cancel; one that remains is
shared by all that need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..dialects.inr import (
    BroadcastOp,
    MatmulOp,
    PadOp,
    ReduceSumOp,
    TransposeOp,
    shape_of,
)
from ..interpreters.arrays import constant_value
from .graph_builder import GraphBuilder, name_of
from .rules import ELEMENTWISE_OPS, RuleTable, apply_rules, entering, is_elementwise

RULES: RuleTable = {}
rule = entering(RULES)


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `permutation`."""
    return tuple(int(axis) for axis in np.argsort(permutation))


def _permuted(items: Sequence[int], permutation: Sequence[int]) -> tuple[int, ...]:
    return tuple(items[axis] for axis in permutation)


# --- transposes of something -----------------------------------------------------------------


@rule(TransposeOp)
def compose(op: TransposeOp, b: GraphBuilder) -> SSAValue | None:
    """transpose(transpose(x)) is one transpose, or none."""
    inner = op.operand.owner
    if op.axes == tuple(range(len(op.axes))):
        return op.operand
    if not isinstance(inner, TransposeOp):
        return None
    return b.transpose(inner.operand, _permuted(inner.axes, op.axes))


@rule(TransposeOp)
def transpose_constant(op: TransposeOp, b: GraphBuilder) -> SSAValue | None:
    """A transposed constant is a constant; its name stays."""
    array = constant_value(op.operand)
    if array is None:
        return None
    return b.constant(np.transpose(array, op.axes), name_of(op.operand))


@rule(TransposeOp)
def move_nothing(op: TransposeOp, b: GraphBuilder) -> SSAValue | None:
    """A transpose that keeps the order of all axes longer than 1 is a reshape."""
    shape = shape_of(op.operand)
    long = [axis for axis in op.axes if shape[axis] != 1]
    return b.reshape(op.operand, shape_of(op.result)) if long == sorted(long) else None


@rule(TransposeOp)
def transpose_broadcast(op: TransposeOp, b: GraphBuilder) -> SSAValue | None:
    """transpose(broadcast(x)) = broadcast(transpose(x)), of fewer elements."""
    inner = op.operand.owner
    if not isinstance(inner, BroadcastOp):
        return None
    return b.broadcast(b.transpose(inner.operand, op.axes), shape_of(op.result))


_DEEPEST = 64
"""How many operations up a transpose looks for others to cancel with."""


def _vanishes(value: SSAValue, permutation: tuple[int, ...], depth: int = 0) -> bool:
    """Whether `value` transposed costs nothing: constants, and transposes the other way."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        return True
    if isinstance(owner, TransposeOp):
        return owner.axes == inverse(permutation)
    if depth == _DEEPEST or not value.has_one_use():
        return False
    if isinstance(owner, BroadcastOp):
        return _vanishes(owner.operand, permutation, depth + 1)
    if isinstance(owner, MatmulOp):
        return owner.bias is None and all(
            _vanishes(operand, permutation, depth + 1) for operand in owner.operands
        )
    return (
        isinstance(owner, Operation)
        and is_elementwise(owner)
        and all(_vanishes(operand, permutation, depth + 1) for operand in owner.operands)
    )


@rule(TransposeOp)
def cancel_above(op: TransposeOp, b: GraphBuilder) -> SSAValue | None:
    """
    transpose(f(transpose(x), c)) = f(x, transpose(c)) and (W·xᵀ)ᵀ = x·Wᵀ, where every transpose
    that this makes is one of a constant or cancels.
    """
    inner = op.operand.owner
    if not isinstance(inner, Operation) or not _vanishes(op.operand, op.axes):
        return None
    moved = [b.transpose(operand, op.axes) for operand in inner.operands]
    if isinstance(inner, MatmulOp):
        return b.matmul(moved[1], moved[0])
    return b.like(inner, moved, shape_of(op.result))


# --- something of transposes -----------------------------------------------------------------


def _has_one_user(value: SSAValue) -> bool:
    """Whether one operation alone uses a value, be it as several operands."""
    return len({use.operation for use in value.uses}) == 1


def _common_permutation(operands: Sequence[SSAValue]) -> tuple[int, ...] | None:
    """
    The permutation of all operands but the constant ones, where each is a transpose with no
    other use.
    """
    permutations: set[tuple[int, ...]] = set()
    for operand in operands:
        owner = operand.owner
        if isinstance(owner, ConstantOp):
            continue
        if not isinstance(owner, TransposeOp) or not _has_one_user(operand):
            return None
        permutations.add(owner.axes)
    return permutations.pop() if len(permutations) == 1 else None


def _before(value: SSAValue, permutation: tuple[int, ...], b: GraphBuilder) -> SSAValue:
    """What `value` is a transpose of, a constant transposed back."""
    owner = value.owner
    if isinstance(owner, TransposeOp):
        return owner.operand
    return b.transpose(value, inverse(permutation))


@rule(*ELEMENTWISE_OPS)
def sink_through_elementwise(op: Operation, b: GraphBuilder) -> SSAValue | None:
    """f(transpose(x), transpose(y)) = transpose(f(x, y)): nearer to where it can cancel."""
    permutation = _common_permutation(op.operands)
    if permutation is None:
        return None
    operands = [_before(operand, permutation, b) for operand in op.operands]
    return b.transpose(b.like(op, operands, shape_of(operands[0])), permutation)


@rule(MatmulOp)
def sink_through_matmul(op: MatmulOp, b: GraphBuilder) -> SSAValue | None:
    """xᵀ·yᵀ = (y·x)ᵀ, where one of the two may be a constant on the left."""
    if op.bias is not None or not isinstance(op.rhs.owner, TransposeOp):
        return None
    permutation = _common_permutation(op.operands)
    if permutation is None:
        return None
    lhs, rhs = (_before(operand, permutation, b) for operand in op.operands)
    return b.transpose(b.matmul(rhs, lhs), permutation)


@rule(ReduceSumOp)
def sum_of_transpose(op: ReduceSumOp, b: GraphBuilder) -> SSAValue | None:
    """A sum over axes of a transpose is one over the axes that they were."""
    inner = op.operand.owner
    if not isinstance(inner, TransposeOp):
        return None
    kept = [axis for i, axis in enumerate(inner.axes) if i not in op.axes]
    total = b.reduce_sum(inner.operand, sorted(inner.axes[i] for i in op.axes))
    return b.transpose(total, [sorted(kept).index(axis) for axis in kept])


@rule(tensor.ExtractSliceOp)
def slice_of_transpose(op: tensor.ExtractSliceOp, b: GraphBuilder) -> SSAValue | None:
    """A slice of a transpose is a transpose of a slice, which has fewer elements."""
    inner = op.source.owner
    if not isinstance(inner, TransposeOp):
        return None
    back = inverse(inner.axes)
    offsets, sizes, strides = (
        _permuted(numbers.get_values(), back)
        for numbers in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    window = b.transpose(b.slice(inner.operand, offsets, sizes, strides), inner.axes)
    return b.reshape(window, shape_of(op.result))


@rule(PadOp)
def pad_of_transpose(op: PadOp, b: GraphBuilder) -> SSAValue | None:
    """Padding a transpose is transposing what was padded."""
    inner = op.operand.owner
    if not isinstance(inner, TransposeOp) or not op.operand.has_one_use():
        return None
    back = inverse(inner.axes)
    low, high = (_permuted(numbers.get_values(), back) for numbers in (op.low, op.high))
    return b.transpose(b.pad(inner.operand, low, high), inner.axes)


@rule(tensor.ConcatOp)
def join_of_transposes(op: tensor.ConcatOp, b: GraphBuilder) -> SSAValue | None:
    """Transposes joined are what they are of joined, transposed."""
    permutation = _common_permutation(op.operands)
    if permutation is None:
        return None
    parts = [_before(operand, permutation, b) for operand in op.operands]
    return b.transpose(b.concat(parts, permutation[op.dim.value.data]), permutation)


# --- the pass --------------------------------------------------------------------------------


def share(block: Block) -> None:
    """Keep one transpose for each value and permutation."""
    first: dict[tuple[SSAValue, Attribute], TransposeOp] = {}
    for op in list(block.ops):
        if not isinstance(op, TransposeOp):
            continue
        kept = first.setdefault((op.operand, op.permutation), op)
        if kept is not op:
            op.result.replace_all_uses_with(kept.result)
            Rewriter.erase_op(op)


@dataclass(frozen=True)
class InrFoldTransposePass(ModulePass):
    """Remove the transposes that constants and other transposes can absorb."""

    name = "inr-fold-transpose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fold in place."""
        apply_rules(op, RULES)
        for function in op.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                share(function.body.block)
