"""
The algebra that the chain rule leaves behind.

    %0 = inr.matmul %x, %w : (tensor<64x2xf64>, tensor<2x8xf64>) -> tensor<64x8xf64>
    %1 = arith.mulf %0, %thirty : tensor<64x8xf64>
    %2 = math.sin %1 : tensor<64x8xf64>

becomes, with w_scaled = w · 30 · 2/π,

    %0 = inr.matmul %x, %w_scaled : (tensor<64x2xf64>, tensor<2x8xf64>) -> tensor<64x8xf64>
    %1 = inr.sinq %0 : tensor<64x8xf64>

and the product that seeds a derivative, whose rows are all the same unit vector,

    %0 = inr.matmul %seed, %w : (tensor<64x3xf64>, tensor<3x8xf64>) -> tensor<64x8xf64>

a row of the weights:

    %0 = arith.constant {inr.name = "w_row1"} dense<…> : tensor<1x8xf64>
    %1 = inr.broadcast %0 : tensor<1x8xf64> to tensor<64x8xf64>

The rules are in `simplify_arithmetic.py`, `simplify_shapes.py` and `simplify_products.py`. Each
makes the graph smaller or moves something one way only, so there is an end. Equal operations are
merged in between, as `inr-cse` does. The results differ
from those before by rounding in float64, and where an infinite value was multiplied by zero.

Options: `quarter-turns=false` keeps `math.sin` and `math.cos` and their angles in radians,
`fold-scales=false` keeps numbers out of the weights.
"""

from __future__ import annotations

import math as pymath
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ..dialects.inr import CosQOp, SinQOp
from . import simplify_arithmetic, simplify_products, simplify_shapes
from .graph_builder import GraphBuilder
from .inr_cse import merge_common
from .rules import apply_rules, merged

_QUARTER_TURNS = 2 / pymath.pi


def measure_in_quarter_turns(module: ModuleOp) -> None:
    """
    sin(x) = sinq(x·2/π), cos(x) = cosq(x·2/π), one multiplication for all users of an x.

    The factor ends in the weights before a sine; what is left of the range reduction in fixed
    point is then a choice of bits.
    """
    angles: dict[SSAValue, SSAValue] = {}
    for op in list(module.walk()):
        if not isinstance(op, math.SinOp | math.CosOp):
            continue
        b = GraphBuilder(Builder(InsertPoint.before(op)), op.location)
        b.builder.name_hint = op.result.name_hint
        if op.operand not in angles:
            angles[op.operand] = b.scale(op.operand, _QUARTER_TURNS)
        in_turns = (SinQOp if isinstance(op, math.SinOp) else CosQOp)(angles[op.operand])
        in_turns.location = op.location
        Rewriter.replace_op(op, in_turns)


@dataclass(frozen=True)
class InrSimplifyPass(ModulePass):
    """Simplify graph-level functions."""

    name = "inr-simplify"

    quarter_turns: bool = True
    """Measure angles in quarter-turns."""
    fold_scales: bool = True
    """Move numbers into the weights of products."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Simplify in place."""
        if self.quarter_turns:
            measure_in_quarter_turns(op)
        tables = [
            simplify_arithmetic.RULES,
            simplify_shapes.RULES,
            simplify_products.RULES,
        ]
        if self.fold_scales:
            tables.append(simplify_products.SCALES)
        table = merged(tables)
        # What was merged may have one use where it had several, and more rules apply.
        while apply_rules(op, table):
            merge_common(op)
