"""
The stream level: array streams between processes that run side by side.

A *stream* is a FIFO that carries one array, row-major, in blocks of consecutive elements, from
one producer to one consumer. A *process* reads and writes its streams in an order that depends
on shapes alone. `docs/dialects/array_stream.md` gives the reasons.

One `func.func` is one dataflow region. Its attribute `array_stream.stage` says which of two
stages it is in: at `value` (or with none) a stream is a value with any number of uses, and
graph rewriting goes on; at `linear` each stream has exactly one use and every operation is a
piece of hardware.

Bodies of `array_stream.map` are written over the reals (`f64`). Rounding is an attribute of
each of their operations, `array_stream.format`, set by `array-stream-assign-formats`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import (
    Attribute,
    Block,
    Dialect,
    Operation,
    Region,
    SSAValue,
)
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasParent, IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from .inr import shape_of
from .stream_movement import (
    BroadcastOp,
    ConcatOp,
    CopyOp,
    PadOp,
    ReblockOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from .streams import (
    FORMAT,
    STAGE,
    FixedType,
    ProcessOp,
    StartsStream,
    StreamType,
    require_same,
    require_whole_blocks,
    split_at,
    stage_of,
    stream_type,
)

__all__ = [
    "FORMAT",
    "STAGE",
    "ArrayStream",
    "BroadcastOp",
    "ConcatOp",
    "ConstantOp",
    "CopyOp",
    "FixedType",
    "MapOp",
    "MatmulDynamicOp",
    "MatmulOp",
    "PadOp",
    "ProcessOp",
    "ReadOp",
    "ReblockOp",
    "ReduceSumOp",
    "ReshapeOp",
    "SinCosOp",
    "SliceOp",
    "StreamType",
    "TransposeOp",
    "WriteOp",
    "YieldOp",
    "split_at",
    "stage_of",
    "stream_type",
]


def require_resident(rule: str, *tensors: SSAValue) -> None:
    """Raises VerifyException, with the rule, unless all tensors are constants of the module."""
    for tensor in tensors:
        owner = tensor.owner
        if not isinstance(owner, Operation) or owner.name != "arith.constant":
            raise VerifyException(rule)


@irdl_op_definition
class ReadOp(ProcessOp):
    """Memory to a stream, a block a cycle. It rounds into the stream's format."""

    name = "array_stream.read"
    memory = operand_def(TensorType[AnyFloat])
    stream = result_def(StreamType)
    traits = traits_def(StartsStream())
    assembly_format = "$memory attr-dict `:` type($memory) `->` type($stream)"

    def __init__(self, memory: SSAValue | Operation):
        memory = SSAValue.get(memory)
        shape = shape_of(memory)
        super().__init__(operands=[memory], result_types=[StreamType(shape)])

    def verify_streams(self) -> None:
        memory = shape_of(self.memory)
        require_same("shapes", memory, stream_type(self.stream).extents)


@irdl_op_definition
class WriteOp(ProcessOp):
    """A stream to memory, a block a cycle."""

    name = "array_stream.write"
    stream = operand_def(StreamType)
    memory = result_def(TensorType[AnyFloat])
    traits = traits_def(Pure())
    assembly_format = "$stream attr-dict `:` type($stream) `->` type($memory)"

    def __init__(self, stream: SSAValue | Operation):
        stream = SSAValue.get(stream)
        super().__init__(
            operands=[stream], result_types=[TensorType(f64, stream_type(stream).extents)]
        )

    def verify_streams(self) -> None:
        memory = shape_of(self.memory)
        require_same("shapes", memory, stream_type(self.stream).extents)


@irdl_op_definition
class ConstantOp(ProcessOp):
    """
    A constant array as a stream. The values are those of `values`, over and over until the
    array is full: repeated rows are stored once.
    """

    name = "array_stream.constant"
    values = operand_def(TensorType[AnyFloat])
    stream = result_def(StreamType)
    traits = traits_def(StartsStream())
    assembly_format = "$values attr-dict `:` type($values) `->` type($stream)"

    def __init__(self, values: SSAValue | Operation, shape: Sequence[int]):
        super().__init__(operands=[values], result_types=[StreamType(shape)])

    @property
    def repeats(self) -> int:
        """How often the stored values are sent."""
        stored = prod(shape_of(self.values))
        return stream_type(self.stream).elements // stored

    def verify_streams(self) -> None:
        stored = prod(shape_of(self.values))
        require_resident("a constant stream repeats an arith.constant", self.values)
        if stored < 1 or stream_type(self.stream).elements % stored:
            raise VerifyException(
                f"{stored} values do not fill {stream_type(self.stream).elements} elements evenly"
            )
        require_whole_blocks(self.stream, stored, "the stored values")


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """The results of a map's body, one a result stream."""

    name = "array_stream.yield"
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure(), HasParent(MapOp)))


@irdl_op_definition
class MapOp(ProcessOp, HasCanonicalizationPatternsInterface):
    """
    One function on each element: a block of each input, then a block of each output.

    A block starts every `interval` cycles (1 where it is not said): operators are then used in
    turn, and the process needs as much less of them.
    """

    name = "array_stream.map"
    inputs = var_operand_def(StreamType)
    outputs = var_result_def(StreamType)
    interval = opt_prop_def(IntegerAttr[I64])
    body = region_def("single_block")
    traits = traits_def(Pure(), RecursiveMemoryEffect())
    assembly_format = (
        "`(` $inputs `)` (`interval` $interval^)? attr-dict-with-keyword `:` "
        "functional-type($inputs, $outputs) $body"
    )

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        output_types: Sequence[StreamType],
        body: Region | None = None,
    ):
        body = body or Region(Block(arg_types=[f64] * len(inputs)))
        super().__init__(operands=[inputs], result_types=[output_types], regions=[body])

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .stream_patterns import ReadOnlyWhatIsUsed

        return (ReadOnlyWhatIsUsed(),)

    @property
    def cycles_apart(self) -> int:
        """Cycles from one block to the next."""
        return 1 if self.interval is None else self.interval.value.data

    @property
    def terminator(self) -> YieldOp:
        """The yield at the end of the body."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    def verify_streams(self) -> None:
        streams = (*self.inputs, *self.outputs)
        require_same("shapes", *(stream_type(s).extents for s in streams))
        require_same("blocks", *(stream_type(s).block.data for s in streams))
        if self.cycles_apart < 1:
            raise VerifyException(f"an interval is at least one cycle, not {self.cycles_apart}")
        if not self.inputs:
            raise VerifyException("a map reads at least one stream; see array_stream.constant")
        if not self.outputs:
            raise VerifyException("a map writes at least one stream")
        if any(a.type != f64 for a in self.body.block.args):
            raise VerifyException("a map's body is written over f64")
        if len(self.body.block.args) != len(self.inputs):
            raise VerifyException(
                f"{len(self.inputs)} streams but {len(self.body.block.args)} block arguments"
            )
        last = self.body.block.last_op
        if not isinstance(last, YieldOp) or len(last.arguments) != len(self.outputs):
            raise VerifyException(f"the body must yield {len(self.outputs)} values")


@irdl_op_definition
class SinCosOp(IRDLOperation):
    """
    Sine and cosine of one angle in quarter-turns, sin(π/2·x) and cos(π/2·x), by one table.
    """

    name = "array_stream.sincos"
    phase = operand_def(f64)
    sine = result_def(f64)
    cosine = result_def(f64)
    traits = traits_def(Pure(), HasParent(MapOp))
    assembly_format = "$phase attr-dict `:` type($phase)"

    def __init__(self, phase: SSAValue | Operation):
        super().__init__(operands=[phase], result_types=[f64, f64])


@irdl_op_definition
class MatmulOp(ProcessOp):
    """
    Streams times one resident weight: a row of K from each input, then the N outputs block by
    block, those of one block side by side.

    `weights` (K×N) and `bias` (N) are constants. `lanes = [k, n]` multipliers work in parallel.
    """

    name = "array_stream.matmul"
    inputs = var_operand_def(StreamType)
    weights = operand_def(TensorType[AnyFloat])
    bias = opt_operand_def(TensorType[AnyFloat])
    outputs = var_result_def(StreamType)
    lanes = opt_prop_def(DenseArrayBase.constr(i64))
    weight_format = opt_prop_def(FixedType)
    bias_format = opt_prop_def(FixedType)
    accumulator = opt_prop_def(FixedType)
    """The running sum's format; wide enough to be exact where it is not said."""
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$inputs `by` $weights (`bias` $bias^)? (`lanes` $lanes^)? "
        "(`weight_format` $weight_format^)? (`bias_format` $bias_format^)? "
        "(`accumulator` $accumulator^)? attr-dict `:` functional-type($inputs, $outputs) "
        "`by` type($weights) (`bias` type($bias)^)?"
    )

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        weights: SSAValue | Operation,
        bias: SSAValue | Operation | None = None,
    ):
        columns = shape_of(SSAValue.get(weights))[1]
        types = [
            stream_type(v).with_shape((*stream_type(v).extents[:-1], columns))
            for v in map(SSAValue.get, inputs)
        ]
        super().__init__(
            operands=[inputs, weights, [] if bias is None else [bias]], result_types=[types]
        )

    @property
    def weight_shape(self) -> tuple[int, int]:
        """(K, N)."""
        k, n = shape_of(self.weights)
        return k, n

    @property
    def rows(self) -> int:
        """The number of rows of each input."""
        return stream_type(self.inputs[0]).elements // self.weight_shape[0]

    def verify_streams(self) -> None:
        if len(shape_of(self.weights)) != 2 or min(shape_of(self.weights)) < 1:
            raise VerifyException(f"a weight is K x N, not {self.weights.type}")
        k, n = self.weight_shape
        if not self.inputs or len(self.inputs) != len(self.outputs):
            raise VerifyException(
                f"{len(self.inputs)} inputs need as many outputs, not {len(self.outputs)}"
            )
        require_same("input shapes", *(stream_type(s).extents for s in self.inputs))
        rows = self.rows
        for source, result in zip(self.inputs, self.outputs, strict=True):
            a, c = stream_type(source).extents, stream_type(result).extents
            if not a or not c or a[-1] != k or c[-1] != n or prod(c) != rows * n:
                raise VerifyException(f"{a} times a {k}x{n} weight does not give {c}")
        if self.bias is not None:
            shape = shape_of(self.bias)
            require_same("bias and columns", shape, (n,))
        tensors = [self.weights] if self.bias is None else [self.weights, self.bias]
        require_resident("weights and bias are resident: arith.constant values", *tensors)
        require_same("blocks", *(stream_type(s).block.data for s in self.inputs))
        require_same("blocks", *(stream_type(s).block.data for s in self.outputs))
        require_whole_blocks(self.inputs[0], k, "a row of the input")
        require_whole_blocks(self.outputs[0], n, "a row of the output")
        self.verify_lanes()

    def verify_lanes(self) -> None:
        """Multipliers in parallel divide the weight's extents and fit the output's blocks."""
        if self.lanes is None:
            return
        lanes, (k, n) = self.lanes.get_values(), self.weight_shape
        if len(lanes) != 2 or min(lanes) < 1 or k % lanes[0] or n % lanes[1]:
            raise VerifyException(f"lanes {list(lanes)} do not divide a {k}x{n} weight")
        block = stream_type(self.outputs[0]).block.data
        if lanes[1] % block and block % lanes[1]:
            raise VerifyException(
                f"of {lanes[1]} lanes and output blocks of {block}, one divides the other"
            )


@irdl_op_definition
class MatmulDynamicOp(ProcessOp):
    """The product of two streams: reads all of `rhs` (K×N), then streams `lhs` by rows."""

    name = "array_stream.matmul_dynamic"
    lhs = operand_def(StreamType)
    rhs = operand_def(StreamType)
    result = result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        a, b = stream_type(SSAValue.get(lhs)), stream_type(SSAValue.get(rhs))
        super().__init__(
            operands=[lhs, rhs], result_types=[a.with_shape((a.extents[0], b.extents[1]))]
        )

    def verify_streams(self) -> None:
        a, b, c = (stream_type(s).extents for s in (self.lhs, self.rhs, self.result))
        if len(a) != 2 or len(b) != 2 or a[1] != b[0] or c != (a[0], b[1]):
            raise VerifyException(f"{a} times {b} does not give {c}")
        require_whole_blocks(self.lhs, a[1], "a row of the left side")
        require_whole_blocks(self.rhs, b[1], "a row of the right side")
        require_whole_blocks(self.result, b[1], "a row of the result")


@irdl_op_definition
class ReduceSumOp(ProcessOp):
    """The sum over one axis, which the result does not have."""

    name = "array_stream.reduce_sum"
    stream = operand_def(StreamType)
    axis = prop_def(IntegerAttr[I64])
    result = result_def(StreamType)
    traits = traits_def(Pure())
    assembly_format = "$stream `axis` $axis attr-dict `:` type($stream) `->` type($result)"

    def __init__(self, stream: SSAValue | Operation, axis: int):
        type_ = stream_type(SSAValue.get(stream))
        shape = (*type_.extents[:axis], *type_.extents[axis + 1 :])
        super().__init__(
            operands=[stream],
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[type_.with_shape(shape)],
        )

    def verify_streams(self) -> None:
        a, b = stream_type(self.stream).extents, stream_type(self.result).extents
        axis = self.axis.value.data
        if not 0 <= axis < len(a) or b != (*a[:axis], *a[axis + 1 :]):
            raise VerifyException(f"{a} summed over axis {axis} is not {b}")
        outer, extent, inner = split_at(a, axis)
        if inner == 1:
            require_whole_blocks(self.stream, extent, "the axis that is summed")
            require_whole_blocks(self.result, outer, "the sums")
            return
        require_same(
            "blocks", stream_type(self.stream).block.data, stream_type(self.result).block.data
        )
        require_whole_blocks(self.stream, inner, "the elements that are summed side by side")


ArrayStream = Dialect(
    "array_stream",
    [
        BroadcastOp,
        ConcatOp,
        ConstantOp,
        CopyOp,
        MapOp,
        MatmulDynamicOp,
        MatmulOp,
        PadOp,
        ReadOp,
        ReblockOp,
        ReduceSumOp,
        ReshapeOp,
        SinCosOp,
        SliceOp,
        TransposeOp,
        WriteOp,
        YieldOp,
    ],
    [FixedType, StreamType],
)
