"""
Processes that move elements and do not look at them: the same for any number format.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, i64
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .streams import (
    ProcessOp,
    StreamType,
    require_same,
    require_same_elements,
    require_whole_blocks,
    split_at,
    stream_type,
)


def swaps_neighbours(axes: Sequence[int]) -> bool:
    """Whether a permutation exchanges two groups of axes that stand side by side, or nothing."""
    moved = [i for i, p in enumerate(axes) if i != p]
    if not moved:
        return True
    first, last = moved[0], moved[-1] + 1
    middle = axes[first]
    return tuple(axes[first:last]) == (*range(middle, last), *range(first, middle))


@irdl_op_definition
class TransposeOp(ProcessOp, HasCanonicalizationPatternsInterface):
    """Two neighbouring groups of axes swapped: the whole array in, then the whole array out."""

    name = "array_stream.transpose"
    stream = operand_def(StreamType)
    permutation = prop_def(DenseArrayBase.constr(i64))
    result = result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = "$stream $permutation attr-dict `:` type($stream) `->` type($result)"

    def __init__(self, stream: SSAValue | Operation, permutation: Sequence[int]):
        type_ = stream_type(SSAValue.get(stream))
        super().__init__(
            operands=[stream],
            properties={"permutation": DenseArrayBase.from_list(i64, permutation)},
            result_types=[type_.with_shape([type_.extents[p] for p in permutation])],
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """The permutation as integers."""
        return tuple(self.permutation.get_values())

    @property
    def groups(self) -> tuple[int, int, int, int]:
        """(outer, a, c, inner): the array is outer×a×c×inner and becomes outer×c×a×inner."""
        shape, axes = stream_type(self.stream).extents, self.axes
        moved = [i for i, p in enumerate(axes) if i != p]
        if not moved:
            return prod(shape), 1, 1, 1
        first, last = moved[0], moved[-1] + 1
        middle = axes[first]
        return (
            prod(shape[:first]),
            prod(shape[first:middle]),
            prod(shape[middle:last]),
            prod(shape[last:]),
        )

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .stream_patterns import DropMoveOfNothing, JoinTransposes

        return DropMoveOfNothing(), JoinTransposes()

    def verify_streams(self) -> None:
        shape, axes = stream_type(self.stream).extents, self.axes
        if sorted(axes) != list(range(len(shape))):
            raise VerifyException(f"{list(axes)} is no permutation of {len(shape)} axes")
        if not swaps_neighbours(axes):
            raise VerifyException(f"{list(axes)} swaps more than two neighbouring groups")
        require_same("shapes", tuple(shape[p] for p in axes), stream_type(self.result).extents)
        require_same_elements(self.stream, self.result)
        _, a, c, inner = self.groups
        if inner > 1:
            require_whole_blocks(self.stream, inner, "the elements that stay together")
            return
        require_whole_blocks(self.stream, a, "the first axis that moves")
        require_whole_blocks(self.stream, c, "the second axis that moves")


@irdl_op_definition
class BroadcastOp(ProcessOp, HasCanonicalizationPatternsInterface):
    """One axis of extent 1 repeated; the elements after it are held meanwhile."""

    name = "array_stream.broadcast"
    stream = operand_def(StreamType)
    axis = prop_def(IntegerAttr[I64])
    result = result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = "$stream `axis` $axis attr-dict `:` type($stream) `->` type($result)"

    def __init__(self, stream: SSAValue | Operation, axis: int, extent: int):
        type_ = stream_type(SSAValue.get(stream))
        shape = list(type_.extents)
        shape[axis] = extent
        super().__init__(
            operands=[stream],
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[type_.with_shape(shape)],
        )

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .stream_patterns import DropMoveOfNothing

        return (DropMoveOfNothing(),)

    def verify_streams(self) -> None:
        a, b = stream_type(self.stream).extents, stream_type(self.result).extents
        axis = self.axis.value.data
        if not 0 <= axis < len(a) or a[axis] != 1 or a != (*b[:axis], 1, *b[axis + 1 :]):
            raise VerifyException(f"axis {axis} of {a} does not broadcast to {b}")
        require_same_elements(self.stream, self.result)
        outer, repeat, inner = split_at(b, axis)
        if inner > 1:
            require_whole_blocks(self.stream, inner, "the elements that are repeated together")
            return
        require_whole_blocks(self.stream, outer, "the elements that are repeated")
        require_whole_blocks(self.stream, repeat, "the repetitions")


@irdl_op_definition
class SliceOp(ProcessOp, HasCanonicalizationPatternsInterface):
    """A window of one axis; what lies outside it is read and dropped."""

    name = "array_stream.slice"
    stream = operand_def(StreamType)
    axis = prop_def(IntegerAttr[I64])
    start = prop_def(IntegerAttr[I64])
    size = prop_def(IntegerAttr[I64])
    step = prop_def(IntegerAttr[I64])
    result = result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = (
        "$stream `axis` $axis `from` $start `size` $size `step` $step attr-dict "
        "`:` type($stream) `->` type($result)"
    )

    def __init__(
        self, stream: SSAValue | Operation, axis: int, start: int, size: int, step: int = 1
    ):
        type_ = stream_type(SSAValue.get(stream))
        shape = list(type_.extents)
        shape[axis] = size
        super().__init__(
            operands=[stream],
            properties={
                "axis": IntegerAttr(axis, i64),
                "start": IntegerAttr(start, i64),
                "size": IntegerAttr(size, i64),
                "step": IntegerAttr(step, i64),
            },
            result_types=[type_.with_shape(shape)],
        )

    @property
    def window(self) -> tuple[int, int, int]:
        """(start, size, step)."""
        return self.start.value.data, self.size.value.data, self.step.value.data

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .stream_patterns import DropMoveOfNothing

        return (DropMoveOfNothing(),)

    def verify_streams(self) -> None:
        a, b = stream_type(self.stream).extents, stream_type(self.result).extents
        axis, (start, size, step) = self.axis.value.data, self.window
        if not 0 <= axis < len(a) or b != (*a[:axis], size, *a[axis + 1 :]):
            raise VerifyException(f"{size} of axis {axis} of {a} is not {b}")
        if start < 0 or step < 1 or start + (size - 1) * step >= a[axis]:
            raise VerifyException(f"the window leaves axis {axis} of {a}")
        require_same_elements(self.stream, self.result)
        _, extent, inner = split_at(a, axis)
        if step > 1:
            require_whole_blocks(self.stream, inner, "the elements that are taken together")
            return
        require_whole_blocks(self.stream, start * inner, "what lies before the window")
        require_whole_blocks(self.stream, size * inner, "the window")
        require_whole_blocks(self.stream, extent * inner, "the axis")


@irdl_op_definition
class PadOp(ProcessOp, HasCanonicalizationPatternsInterface):
    """Zeros before and after one axis."""

    name = "array_stream.pad"
    stream = operand_def(StreamType)
    axis = prop_def(IntegerAttr[I64])
    low = prop_def(IntegerAttr[I64])
    high = prop_def(IntegerAttr[I64])
    result = result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = (
        "$stream `axis` $axis `low` $low `high` $high attr-dict "
        "`:` type($stream) `->` type($result)"
    )

    def __init__(self, stream: SSAValue | Operation, axis: int, low: int, high: int):
        type_ = stream_type(SSAValue.get(stream))
        shape = list(type_.extents)
        shape[axis] += low + high
        super().__init__(
            operands=[stream],
            properties={
                "axis": IntegerAttr(axis, i64),
                "low": IntegerAttr(low, i64),
                "high": IntegerAttr(high, i64),
            },
            result_types=[type_.with_shape(shape)],
        )

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .stream_patterns import DropMoveOfNothing

        return (DropMoveOfNothing(),)

    def verify_streams(self) -> None:
        a, b = stream_type(self.stream).extents, stream_type(self.result).extents
        axis, low, high = self.axis.value.data, self.low.value.data, self.high.value.data
        if low < 0 or high < 0 or not 0 <= axis < len(a):
            raise VerifyException(f"cannot pad axis {axis} of {a} by {low} and {high}")
        require_same("shapes", (*a[:axis], a[axis] + low + high, *a[axis + 1 :]), b)
        require_same_elements(self.stream, self.result)
        _, extent, inner = split_at(a, axis)
        require_whole_blocks(self.stream, low * inner, "the zeros before")
        require_whole_blocks(self.stream, extent * inner, "the axis")
        require_whole_blocks(self.stream, high * inner, "the zeros after")


@irdl_op_definition
class ConcatOp(ProcessOp):
    """Arrays one behind the other along an axis."""

    name = "array_stream.concat"
    inputs = var_operand_def(StreamType)
    axis = prop_def(IntegerAttr[I64])
    result = result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = "$inputs `axis` $axis attr-dict `:` functional-type(operands, results)"

    def __init__(self, inputs: Sequence[SSAValue | Operation], axis: int):
        types = [stream_type(SSAValue.get(v)) for v in inputs]
        shape = list(types[0].extents)
        shape[axis] = sum(t.extents[axis] for t in types)
        super().__init__(
            operands=[inputs],
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[types[0].with_shape(shape)],
        )

    def verify_streams(self) -> None:
        axis = self.axis.value.data
        shapes = [stream_type(s).extents for s in self.inputs]
        result = stream_type(self.result).extents
        if not shapes or not 0 <= axis < len(result):
            raise VerifyException("a concatenation has inputs and an axis of the result")
        require_same("ranks", *(len(s) for s in (*shapes, result)))
        require_same("blocks", *(stream_type(s).block.data for s in (*self.inputs, self.result)))
        total = sum(s[axis] for s in shapes)
        if any((*s[:axis], total, *s[axis + 1 :]) != result for s in shapes):
            given = ", ".join(map(str, shapes))
            raise VerifyException(f"{given} do not concatenate to {result} along axis {axis}")
        for source, shape in zip(self.inputs, shapes, strict=True):
            require_whole_blocks(source, prod(shape[axis:]), "the rows of an input")


@irdl_op_definition
class ReshapeOp(ProcessOp, HasCanonicalizationPatternsInterface):
    """The same stream seen with another shape. No hardware: the FIFO is the same one."""

    name = "array_stream.reshape"
    stream = operand_def(StreamType)
    result = result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = "$stream attr-dict `:` type($stream) `->` type($result)"

    def __init__(self, stream: SSAValue | Operation, shape: Sequence[int]):
        type_ = stream_type(SSAValue.get(stream))
        super().__init__(operands=[stream], result_types=[type_.with_shape(shape)])

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .stream_patterns import DropMoveOfNothing, JoinReshapes

        return DropMoveOfNothing(), JoinReshapes()

    def verify_streams(self) -> None:
        require_same("sizes", stream_type(self.stream).elements, stream_type(self.result).elements)
        require_same_elements(self.stream, self.result)


@irdl_op_definition
class ReblockOp(ProcessOp, HasCanonicalizationPatternsInterface):
    """Blocks of one size to blocks of another."""

    name = "array_stream.reblock"
    stream = operand_def(StreamType)
    result = result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = "$stream attr-dict `:` type($stream) `->` type($result)"

    def __init__(self, stream: SSAValue | Operation, block: int):
        type_ = stream_type(SSAValue.get(stream))
        super().__init__(
            operands=[stream], result_types=[StreamType(type_.extents, type_.element, block)]
        )

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .stream_patterns import DropMoveOfNothing

        return (DropMoveOfNothing(),)

    def verify_streams(self) -> None:
        a, b = stream_type(self.stream), stream_type(self.result)
        require_same("shapes", a.extents, b.extents)
        require_same("elements", a.element, b.element)
        if a.block.data % b.block.data and b.block.data % a.block.data:
            raise VerifyException(
                f"of blocks of {a.block.data} and of {b.block.data}, one divides the other"
            )


@irdl_op_definition
class CopyOp(ProcessOp):
    """A block in, the same block to each output in order. One output would be a wire."""

    name = "array_stream.copy"
    stream = operand_def(StreamType)
    outputs = var_result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = "$stream attr-dict `:` type($stream) `->` type($outputs)"

    def __init__(self, stream: SSAValue | Operation, count: int):
        type_ = stream_type(SSAValue.get(stream)).with_depth(None)
        super().__init__(operands=[stream], result_types=[[type_] * count])

    def verify_streams(self) -> None:
        if len(self.outputs) < 2:
            raise VerifyException("a copy has at least two outputs")
        streams = (self.stream, *self.outputs)
        require_same("shapes", *(stream_type(s).extents for s in streams))
        require_same_elements(*streams)
