"""
Merge what is computed twice.

    %0 = arith.mulf %a, %b : tensor<8xf64>
    %1 = arith.mulf %b, %a : tensor<8xf64>
    %2 = arith.subf %0, %1 : tensor<8xf64>

becomes

    %0 = arith.mulf %a, %b : tensor<8xf64>
    %2 = arith.subf %0, %0 : tensor<8xf64>

The operands of commutative operations are put in the order of their definitions first, so that
a·b and b·a meet; xDSL's CSE does the rest. A constant is one value whatever it is called: the
first name stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.arith import AddfOp, ConstantOp, MaximumfOp, MinimumfOp, MulfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import dce

from ..dialects.inr import CompareOp, Predicate
from .graph_builder import NAME

COMMUTATIVE = (AddfOp, MulfOp, MaximumfOp, MinimumfOp)
"""Operations whose two operands may change places."""


def is_commutative(op: Operation) -> bool:
    """Whether the two operands of an operation may change places."""
    if isinstance(op, CompareOp):
        return op.predicate.data in (Predicate.EQ, Predicate.NE)
    return isinstance(op, COMMUTATIVE)


def order_operands(block: Block) -> None:
    """Give commutative operations the operand first that is defined first."""
    positions: dict[SSAValue, int] = {}
    for argument in block.args:
        positions[argument] = len(positions)
    for op in block.ops:
        if is_commutative(op):
            lhs, rhs = op.operands
            if positions[lhs] > positions[rhs]:
                op.operands = (rhs, lhs)
        for result in op.results:
            positions[result] = len(positions)


def merge_constants(block: Block) -> None:
    """
    Keep the first of constants of one value.

    It takes the first name that any of them has.
    """
    first: dict[Attribute, ConstantOp] = {}
    for op in list(block.ops):
        if not isinstance(op, ConstantOp):
            continue
        kept = first.setdefault(op.value, op)
        if kept is op:
            continue
        if NAME in op.attributes:
            kept.attributes.setdefault(NAME, op.attributes[NAME])
        op.result.replace_all_uses_with(kept.result)
        Rewriter.erase_op(op)


def merge_common(module: ModuleOp) -> None:
    """Merge equal operations in every function of a module and remove what is then dead."""
    while True:
        before = _size(module)
        for function in module.ops:
            if not isinstance(function, FuncOp) or len(function.body.blocks) != 1:
                continue
            merge_constants(function.body.block)
            order_operands(function.body.block)
        cse(module)
        dce(module)
        # Operands that were merged may stand in another order now, and then meet others.
        if _size(module) == before:
            return


def _size(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())


@dataclass(frozen=True)
class InrCsePass(ModulePass):
    """Common subexpressions, commutative ones included, and dead code."""

    name = "inr-cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Merge in place."""
        merge_common(op)
