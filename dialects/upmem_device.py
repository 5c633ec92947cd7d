"""
The operations of a kernel: what one tasklet of a DPU does.

Offsets and sizes are in bytes. Buffers lie at addresses that are multiples of 8.
"""

from __future__ import annotations

import abc
from math import gcd
from typing import Any, cast

from xdsl.dialects import scf
from xdsl.dialects.arith import AddiOp, ConstantOp, MaxUIOp, MinUIOp, MuliOp, SelectOp, SubiOp
from xdsl.dialects.builtin import (
    I64,
    IndexType,
    IntegerAttr,
    MemRefType,
    i1,
    i64,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, Block, Operation, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.traits import EffectInstance, HasAncestor, MemoryEffect, MemoryEffectKind, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ..analysis.upmem_mapping import UNROLL
from .upmem_attributes import MramAttr, WramAttr, bits_of, space_of

DMA_LEAST, DMA_MOST = 8, 2048
"""Bytes of one DMA transfer, a multiple of 8 between these (SDK, `mram_read`)."""


def buffer_bytes(type_: Attribute) -> int:
    """The size of a static buffer of integers of 8, 16, 32 or 64 bits."""
    shape, bits = cast(MemRefType[Attribute], type_).get_shape(), bits_of(type_)
    if bits not in (8, 16, 32, 64):
        raise VerifyException(f"a buffer holds integers of 8 to 64 bits, not i{bits}")
    if len(shape) != 1 or shape[0] < 1:
        raise VerifyException(f"a buffer has one static dimension, not {type_}")
    return shape[0] * bits // 8


def constant_of(value: SSAValue) -> int | None:
    """The integer that an `arith.constant` gives, None for any other value."""
    if isinstance(value.owner, ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return cast(IntegerAttr[Any], value.owner.value).value.data
    return None


def divisor_of(value: SSAValue) -> int:
    """
    A number that divides an index whatever happens, as large as index arithmetic shows; 0 for an
    index that is 0.
    """
    owner = value.owner
    if isinstance(owner, Block):
        loop = owner.parent_op()
        if isinstance(loop, scf.ForOp) and value is owner.args[0]:
            return gcd(divisor_of(loop.lb), divisor_of(loop.step))
        return 1
    match owner:
        case ConstantOp():
            return abs(constant_of(value) or 0)
        case MuliOp():
            return divisor_of(owner.lhs) * divisor_of(owner.rhs)
        case AddiOp() | SubiOp() | MinUIOp() | MaxUIOp():
            return gcd(divisor_of(owner.lhs), divisor_of(owner.rhs))
        case SelectOp():
            return gcd(divisor_of(owner.lhs), divisor_of(owner.rhs))
        case _:
            return 1


def require_multiple(what: str, value: SSAValue, of: int) -> None:
    """Raises VerifyException unless an index is proved to be a multiple of a number."""
    if (found := divisor_of(value)) % of:
        raise VerifyException(
            f"{what} is a multiple of {of}, and no more than a multiple of {found} is proved (R5)"
        )


class _Effects(MemoryEffect, abc.ABC):
    """Effects on the operands with the names in `reads` and `writes`."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {
            EffectInstance(kind, value)
            for kind, names in (
                (MemoryEffectKind.READ, cls.reads),
                (MemoryEffectKind.WRITE, cls.writes),
            )
            for name in names
            if (value := getattr(op, name)) is not None
        }


class CopiesSource(_Effects):
    """Reads `source`, writes `destination`."""

    reads = ("source",)
    writes = ("destination",)


class Accumulates(_Effects):
    """Reads indices, table and sums; writes the sums and the buffer that rows pass through."""

    reads = ("index", "table", "sums")
    writes = ("sums", "buffer")


class Multiplies(_Effects):
    """Reads activations, weights and sums; writes the sums."""

    reads = ("activations", "weights", "sums")
    writes = ("sums",)


class Synchronises(MemoryEffect):
    """Everything before lies before everything behind: reads and writes what is not named."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.READ), EffectInstance(MemoryEffectKind.WRITE)}


class AllocatesBuffer(MemoryEffect):
    """Two buffers are two buffers; one that nobody uses goes away."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.ALLOC, r) for r in op.results}


def in_kernel(*traits: OpTrait) -> tuple[OpTrait, ...]:
    """These traits, and that the operation lies in a kernel."""
    from .upmem_program import KernelOp

    return (HasAncestor(KernelOp), *traits)


@irdl_op_definition
class TaskletIdOp(IRDLOperation):
    """Which tasklet runs, 0 to tasklets - 1."""

    name = "upmem.tasklet_id"

    result = result_def(IndexType())
    traits = lazy_traits_def(lambda: in_kernel(Pure()))
    assembly_format = "attr-dict"

    def __init__(self):
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class WramBufferOp(IRDLOperation):
    """
    A static buffer that all tasklets of a DPU share: `upmem.wram_buffer at 4096 : memref<…>`.

    `at` is its place in the memory that the kernels of a program use in turn.
    """

    name = "upmem.wram_buffer"

    offset = prop_def(IntegerAttr[I64])
    buffer = result_def(MemRefType)
    traits = lazy_traits_def(lambda: in_kernel(AllocatesBuffer()))
    assembly_format = "`at` $offset attr-dict `:` type($buffer)"

    def __init__(self, offset: int, type_: MemRefType[Any]):
        super().__init__(properties={"offset": IntegerAttr(offset, i64)}, result_types=[type_])

    def verify_(self) -> None:
        if not isinstance(space_of(self.buffer), WramAttr):
            raise VerifyException(f"the buffer lies in #upmem.wram, not {self.buffer.type}")
        size, offset = buffer_bytes(self.buffer.type), self.offset.value.data
        if size % 8 or offset % 8 or offset < 0:
            raise VerifyException(f"a buffer of {size} bytes at {offset}: both are multiples of 8")


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Every tasklet waits for all the others."""

    name = "upmem.barrier"

    traits = lazy_traits_def(lambda: in_kernel(Synchronises()))
    assembly_format = "attr-dict"

    def __init__(self):
        super().__init__()


class _Dma(IRDLOperation, abc.ABC):
    """
    A transfer between MRAM and WRAM of `size` bytes, or of the `rest` if that is less.

    The tasklet waits for its end. Sizes are multiples of 8 from 8 to 2048, both ends lie at
    multiples of 8 (rule R5): the hardware would move other bytes than the program says.
    """

    source = operand_def(MemRefType)
    source_offset = operand_def(IndexType())
    destination = operand_def(MemRefType)
    destination_offset = operand_def(IndexType())
    rest = opt_operand_def(IndexType())
    size = prop_def(IntegerAttr[I64])
    traits = lazy_traits_def(lambda: in_kernel(CopiesSource()))
    assembly_format = (
        "$source `[` $source_offset `]` `to` $destination `[` $destination_offset `]` "
        "`size` $size (`rest` $rest^)? attr-dict `:` type($source) `,` type($destination)"
    )

    def __init__(
        self,
        source: SSAValue,
        source_offset: SSAValue | Operation,
        destination: SSAValue,
        destination_offset: SSAValue | Operation,
        size: int,
        rest: SSAValue | Operation | None = None,
    ):
        super().__init__(
            operands=[
                source,
                source_offset,
                destination,
                destination_offset,
                [] if rest is None else [rest],
            ],
            properties={"size": IntegerAttr(size, i64)},
        )

    def verify_ends(self, source: type[Attribute], destination: type[Attribute]) -> None:
        """The spaces of both ends, the size and what is known of the offsets."""
        if not isinstance(space_of(self.source), source) or not isinstance(
            space_of(self.destination), destination
        ):
            raise VerifyException(
                f"{self.name} goes from #{source.name} to #{destination.name}, not from "
                f"{self.source.type} to {self.destination.type}"
            )
        size = self.size.value.data
        if not DMA_LEAST <= size <= DMA_MOST or size % 8:
            raise VerifyException(f"a DMA moves 8 to 2048 bytes, a multiple of 8, not {size}")
        if self.rest is not None:
            require_multiple("the rest of a DMA", self.rest, 8)
        if self.rest is not None and (rest := constant_of(self.rest)) is not None:
            if rest < DMA_LEAST:
                raise VerifyException(f"the rest of a DMA is at least 8, not {rest}")
            size = min(size, rest)
        for buffer, offset in (
            (self.source, self.source_offset),
            (self.destination, self.destination_offset),
        ):
            require_multiple("an offset of a DMA", offset, 8)
            if (known := constant_of(offset)) is None:
                continue
            # With a rest that is not known, the least that it can move.
            least = size if self.rest is None or constant_of(self.rest) is not None else DMA_LEAST
            if known < 0 or known + least > buffer_bytes(buffer.type):
                raise VerifyException(
                    f"{least} bytes at {known} lie outside a buffer of {buffer_bytes(buffer.type)}"
                )


@irdl_op_definition
class DmaReadOp(_Dma):
    """MRAM to WRAM: `upmem.dma_read %m[%a] to %w[%b] size 2048 rest %n : …`."""

    name = "upmem.dma_read"

    def verify_(self) -> None:
        self.verify_ends(MramAttr, WramAttr)


@irdl_op_definition
class DmaWriteOp(_Dma):
    """WRAM to MRAM: `upmem.dma_write %w[%a] to %m[%b] size 64 : …`."""

    name = "upmem.dma_write"

    def verify_(self) -> None:
        self.verify_ends(WramAttr, MramAttr)


class Variant(StrEnum):
    """How the micro-kernel adds."""

    SCALAR32 = "scalar32"
    SWAR16 = "swar16"
    SWAR8 = "swar8"


@irdl_attr_definition
class VariantAttr(EnumAttribute[Variant], SpacedOpaqueSyntaxAttribute):
    """The way of adding, printed as its bare name."""

    name = "upmem.variant"


@irdl_op_definition
class LutAccumulateOp(IRDLOperation):
    """
    The micro-kernel: the sums of one row over `count` codebooks, for `columns` columns.

        sums[f] = (fresh ? 0 : sums[f]) + Σ_{c < count} (table[c, index[c], f] - bias)

    with count at most `codebooks`, both multiples of 4, the codebooks of a turn of its loop.
    Index c is the c-th one of `idx_bits` bits at `index_offset` (4 bits: the low half of a byte
    first; 16 bits: already multiplied by `columns`). Row k of codebook c are the `columns` bytes at
    `table_offset` + (c·centroids + k)·columns, signed where `bias` is 0 and unsigned otherwise.
    `sums` are i32 or i16 at `sums_offset`, added modulo their width.

    `scalar32` adds each entry to a 32-bit sum. `swar16` adds four entries in two words of two
    16-bit lanes, which are emptied into the sums at the end; `swar8` first adds `flush` entries in
    8-bit lanes, four a word, then these to 16-bit ones. No lane may overflow (rule R9).

    With `via`, the table lies in MRAM and each row goes through a buffer of `columns` bytes.
    """

    name = "upmem.lut_accumulate"

    variant = prop_def(VariantAttr)
    index = operand_def(MemRefType)
    index_offset = operand_def(IndexType())
    count = operand_def(IndexType())
    table = operand_def(MemRefType)
    table_offset = operand_def(IndexType())
    buffer = opt_operand_def(MemRefType)
    buffer_offset = opt_operand_def(IndexType())
    sums = operand_def(MemRefType)
    sums_offset = operand_def(IndexType())
    fresh = operand_def(i1)
    codebooks = prop_def(IntegerAttr[I64])
    columns = prop_def(IntegerAttr[I64])
    centroids = prop_def(IntegerAttr[I64])
    idx_bits = prop_def(IntegerAttr[I64])
    bias = prop_def(IntegerAttr[I64])
    flush = opt_prop_def(IntegerAttr[I64])
    traits = lazy_traits_def(lambda: in_kernel(Accumulates()))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$variant $index `[` $index_offset `]` `count` $count `of` $table `[` $table_offset `]` "
        "(`via` $buffer^ `[` $buffer_offset `]`)? `into` $sums `[` $sums_offset `]` `fresh` $fresh "
        "`codebooks` $codebooks `columns` $columns `centroids` $centroids `idx_bits` $idx_bits "
        "`bias` $bias (`flush` $flush^)? "
        "attr-dict `:` type($index) `,` type($table) (`via` type($buffer)^)? `into` type($sums)"
    )

    def __init__(
        self,
        variant: str,
        index: tuple[SSAValue, SSAValue],
        count: SSAValue,
        table: tuple[SSAValue, SSAValue],
        sums: tuple[SSAValue, SSAValue],
        fresh: SSAValue,
        buffer: tuple[SSAValue, SSAValue] | None = None,
        **fields: int | None,
    ):
        through: list[list[SSAValue]] = (
            [[], []] if buffer is None else [[value] for value in buffer]
        )
        super().__init__(
            operands=[*index, count, *table, *through, *sums, fresh],
            properties={
                "variant": VariantAttr(Variant(variant)),
                **{k: IntegerAttr(v, i64) for k, v in fields.items() if v is not None},
            },
        )

    @property
    def largest(self) -> int:
        """The largest byte of the table that a lane has to take."""
        return 2 * self.bias.value.data - 1

    def verify_(self) -> None:
        columns, count = self.columns.value.data, self.centroids.value.data
        bias = self.bias.value.data
        if columns < 1 or not 1 <= count <= 256:
            raise VerifyException(f"{columns} columns of {count} centroids; 1 or more of 1 to 256")
        bits = self.idx_bits.value.data
        if bits not in (4, 8, 16):
            raise VerifyException(f"an index has 4, 8 or 16 bits, not {bits}")
        top = (count - 1) * (columns if bits == 16 else 1)
        if top >= 2**bits:
            raise VerifyException(f"an index up to {top} does not fit {bits} bits (R10)")
        if (width := bits_of(self.sums)) not in (16, 32):
            raise VerifyException(f"sums are i16 or i32, not i{width}")
        self._verify_lanes(columns, bias)
        require_multiple("the offset of sums", self.sums_offset, width // 8)
        if bits == 16:
            require_multiple("the offset of indices", self.index_offset, 2)
        if bias:
            require_multiple("the offset of words of entries", self.table_offset, 4)
        self._verify_spaces(columns)

    def _verify_lanes(self, columns: int, bias: int) -> None:
        variant, codebooks = self.variant.data, self.codebooks.value.data
        if codebooks < 1 or codebooks % UNROLL:
            raise VerifyException(f"codebooks come in turns of {UNROLL}: {codebooks} do not")
        if (self.flush is not None) != (variant == Variant.SWAR8):
            raise VerifyException("swar8, and nothing else, says after how many it flushes")
        if variant == Variant.SCALAR32:
            if bias:
                raise VerifyException(f"scalar32 adds signed entries: a bias of 0, not {bias}")
            return
        if columns % 4:
            raise VerifyException(f"{variant} takes four columns a word: {columns} are not")
        if not 2 <= bias <= 128 or bias & (bias - 1):
            raise VerifyException(f"{variant} adds biased entries: 2 to 128, not {bias}")
        self._verify_room(codebooks, 65535)
        if self.flush is not None:
            self._verify_room(self.flush.value.data, 255)

    def _verify_room(self, entries: int, room: int) -> None:
        if not 1 <= entries <= room // self.largest:
            raise VerifyException(
                f"{entries} entries up to {self.largest} in a lane of {room} (R9): "
                f"1 to {room // self.largest}"
            )

    def _verify_spaces(self, columns: int) -> None:
        if (self.buffer is None) != (self.buffer_offset is None):
            raise VerifyException("a buffer and its offset go together")
        table = MramAttr if self.buffer is not None else WramAttr
        for what, value, space in (
            ("indices", self.index, WramAttr),
            ("the table", self.table, table),
            ("sums", self.sums, WramAttr),
            ("the buffer", self.buffer, WramAttr),
        ):
            if value is None:
                continue
            if not isinstance(space_of(value), space):
                raise VerifyException(f"{what} in #{space.name}, not {value.type}")
        for what, value in (("indices", self.index), ("the table", self.table)):
            if bits_of(value) != 8:
                raise VerifyException(f"{what} are bytes, not {value.type}")
        if self.buffer is not None and (columns % 8 or not DMA_LEAST <= columns <= DMA_MOST):
            raise VerifyException(
                f"a row of {columns} bytes is no DMA: 8 to 2048, a multiple of 8 (R5)"
            )
