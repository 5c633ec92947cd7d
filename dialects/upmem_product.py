"""The micro-kernel of an int8 product, the counterpart of `upmem.lut_accumulate`."""

from __future__ import annotations

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, MemRefType, i1, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, lazy_traits_def, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from ..analysis.int8_layer import MAX_INPUTS
from ..analysis.upmem_mapping import UNROLL
from .upmem_attributes import WramAttr, bits_of, space_of
from .upmem_device import Multiplies, in_kernel, require_multiple


@irdl_op_definition
class Int8AccumulateOp(IRDLOperation):
    """
    The sums of some rows over `count` inputs, for `columns` columns:

        sums[r, f] = (fresh ? 0 : sums[r, f]) + Σ_{h < count} activations[r, h]·weights[h, f]

    with count at most `inputs`, both multiples of 4, the inputs of a turn of its loop. Row r of the
    activations begins r·pitch bytes behind their offset, row r of the sums, which are i32 or i16
    and wrap around, r times their own pitch behind theirs. Row h of the weights are the `columns`
    bytes at their offset + h·columns. All bytes are signed.

    All rows of a tasklet are one operation, so that a weight is loaded for several of them at once.
    """

    name = "upmem.int8_accumulate"

    activations = operand_def(MemRefType)
    activations_offset = operand_def(IndexType())
    activations_pitch = operand_def(IndexType())
    rows = operand_def(IndexType())
    count = operand_def(IndexType())
    weights = operand_def(MemRefType)
    weights_offset = operand_def(IndexType())
    sums = operand_def(MemRefType)
    sums_offset = operand_def(IndexType())
    sums_pitch = operand_def(IndexType())
    fresh = operand_def(i1)
    inputs = prop_def(IntegerAttr[I64])
    columns = prop_def(IntegerAttr[I64])
    traits = lazy_traits_def(lambda: in_kernel(Multiplies()))
    assembly_format = (
        "$activations `[` $activations_offset `]` `pitch` $activations_pitch `rows` $rows "
        "`count` $count `of` $weights `[` $weights_offset `]` `into` $sums `[` $sums_offset `]` "
        "`pitch` $sums_pitch `fresh` $fresh `inputs` $inputs `columns` $columns attr-dict "
        "`:` type($activations) `,` type($weights) `into` type($sums)"
    )

    def __init__(
        self,
        activations: tuple[SSAValue, SSAValue, SSAValue],
        rows: SSAValue,
        count: SSAValue,
        weights: tuple[SSAValue, SSAValue],
        sums: tuple[SSAValue, SSAValue, SSAValue],
        fresh: SSAValue,
        inputs: int,
        columns: int,
    ):
        super().__init__(
            operands=[*activations, rows, count, *weights, *sums, fresh],
            properties={"inputs": IntegerAttr(inputs, i64), "columns": IntegerAttr(columns, i64)},
        )

    def verify_(self) -> None:
        columns, inputs = self.columns.value.data, self.inputs.value.data
        if columns < 4 or columns % 4:
            raise VerifyException(f"columns come in fours: {columns} do not")
        if inputs < 1 or inputs % UNROLL:
            raise VerifyException(f"inputs come in turns of {UNROLL}: {inputs} do not")
        if inputs > MAX_INPUTS:
            raise VerifyException(
                f"products of {inputs} inputs overflow 32 bits (R9): at most {MAX_INPUTS}"
            )
        if (width := bits_of(self.sums)) not in (16, 32):
            raise VerifyException(f"sums are i16 or i32, not i{width}")
        for what, value in (
            ("activations", self.activations),
            ("weights", self.weights),
            ("sums", self.sums),
        ):
            if not isinstance(space_of(value), WramAttr):
                raise VerifyException(f"{what} lie in #upmem.wram, not {value.type}")
            if value is not self.sums and bits_of(value) != 8:
                raise VerifyException(f"{what} are bytes, not {value.type}")
        require_multiple("the offset of sums", self.sums_offset, width // 8)
        require_multiple("the pitch of sums", self.sums_pitch, width // 8)
