"""
Canonical forms of processes: a move of nothing goes, two in a row are one, a map reads what it
needs, once.

A stream's depth and storage are decisions that somebody made: an operation that changes them is
kept, even where it moves nothing.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from .array_stream import MapOp
from .stream_movement import ReshapeOp, TransposeOp, swaps_neighbours
from .streams import stage_of


class DropMoveOfNothing(RewritePattern):
    """
    A reshape, slice, pad, broadcast, reblock or transpose whose result is its operand:
    `array_stream.reshape %0 : !s -> !s` becomes `%0`.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace the result by the operand where the types are equal."""
        if op.operands[0].type != op.results[0].type:
            return
        if isinstance(op, TransposeOp) and op.axes != tuple(range(len(op.axes))):
            return
        rewriter.replace(op, [], [op.operands[0]])


class JoinReshapes(RewritePattern):
    """A reshape of a reshape reads what the first one reads."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        """Skip the first reshape; it goes where nobody else reads it."""
        first = op.stream.owner
        if not isinstance(first, ReshapeOp):
            return
        joined = ReshapeOp.build(operands=[first.stream], result_types=[op.result.type])
        rewriter.replace(op, joined)
        if not first.result.uses:
            rewriter.erase(first)


class JoinTransposes(RewritePattern):
    """
    A transpose of a transpose by one permutation, or by none, where that is still a swap of two
    neighbouring groups of axes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        """Compose the permutations."""
        first = op.stream.owner
        if not isinstance(first, TransposeOp):
            return
        axes = [first.axes[p] for p in op.axes]
        if not swaps_neighbours(axes):
            return
        joined = TransposeOp.build(
            operands=[first.stream],
            properties={"permutation": DenseArrayBase.from_list(i64, axes)},
            result_types=[op.result.type],
        )
        rewriter.replace(op, joined)
        if not first.result.uses:
            rewriter.erase(first)


class ReadOnlyWhatIsUsed(RewritePattern):
    """
    A map reads each stream once, and none that its body has no use for; a body of constants
    keeps one, which says how many. At the linear stage a reader is hardware and stays.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MapOp, rewriter: PatternRewriter) -> None:
        """Drop unused and repeated inputs."""
        if stage_of(op) == "linear":
            return
        arguments = op.body.block.args
        first = dict(zip(reversed(op.inputs), reversed(arguments), strict=True))
        repeated = [
            a for s, a in zip(op.inputs, arguments, strict=True) if a.uses and first[s] is not a
        ]
        for argument in repeated:
            rewriter.replace_all_uses_with(argument, first[op.inputs[argument.index]])
        unused = [a for a in arguments if not a.uses]
        dropped = unused[1:] if len(unused) == len(arguments) else unused
        if not dropped:
            return
        indices = {a.index for a in dropped}
        for argument in dropped:
            op.body.block.erase_arg(argument)
        inputs = [s for i, s in enumerate(op.inputs) if i not in indices]
        rewriter.replace(
            op,
            MapOp.build(
                operands=[inputs],
                result_types=[list(op.outputs.types)],
                regions=[op.detach_region(op.body)],
                attributes=op.attributes,
            ),
        )
