"""
The types of the `array_stream` dialect and what all its processes have in common.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    ArrayAttr,
    Float32Type,
    Float64Type,
    IntAttr,
    NoneAttr,
    StringAttr,
    f64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import (
    Attribute,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind
from xdsl.utils.exceptions import VerifyException

STAGE = "array_stream.stage"
"""Attribute of a function: `value` or `linear`."""

FORMAT = "array_stream.format"
"""Attribute of an operation in a map's body: the fixed-point format of its result."""


ROUNDINGS = ("rnd", "trn")
"""Bits below the format: to nearest, halves up; or dropped."""

OVERFLOWS = ("sat", "wrap")
"""A value outside the format: held at the nearest end; or taken modulo the range."""


@irdl_attr_definition
class FixedType(ParametrizedAttribute, TypeAttribute):
    """
    A signed fixed-point number: `!array_stream.fixed<27, 9>` has 27 bits, 9 of them left of
    the point. It rounds to nearest and saturates; `fixed<27, 2, rnd, wrap>` says otherwise.
    """

    name = "array_stream.fixed"

    width: IntAttr
    integer: IntAttr
    rounding: StringAttr
    overflow: StringAttr

    def __init__(self, width: int, integer: int, rounding: str = "rnd", overflow: str = "sat"):
        super().__init__(
            IntAttr(width), IntAttr(integer), StringAttr(rounding), StringAttr(overflow)
        )

    def verify(self) -> None:
        if not 1 <= self.width.data <= 64:
            raise VerifyException(f"a fixed-point number has 1 to 64 bits, not {self.width.data}")
        if self.rounding.data not in ROUNDINGS or self.overflow.data not in OVERFLOWS:
            raise VerifyException(
                f"'{self.rounding.data}, {self.overflow.data}' is not a rounding "
                f"({', '.join(ROUNDINGS)}) and an overflow ({', '.join(OVERFLOWS)})"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            width = parser.parse_integer()
            parser.parse_punctuation(",")
            integer = parser.parse_integer()
            rounding, overflow = "rnd", "sat"
            if parser.parse_optional_punctuation(","):
                rounding = parser.parse_identifier()
                parser.parse_punctuation(",")
                overflow = parser.parse_identifier()
        return (IntAttr(width), IntAttr(integer), StringAttr(rounding), StringAttr(overflow))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.width.data}, {self.integer.data}")
            if (self.rounding.data, self.overflow.data) != ("rnd", "sat"):
                printer.print_string(f", {self.rounding.data}, {self.overflow.data}")


ELEMENTS = (Float32Type, Float64Type, FixedType)
"""What a stream can carry; f64 means that no format has been assigned yet."""


STORAGES = ("srl", "lutram", "bram", "uram")
"""What a FIFO can be made of: shift registers, or a memory of one of three kinds."""


@irdl_attr_definition
class StreamType(ParametrizedAttribute, TypeAttribute):
    """
    A FIFO that carries one array: `!array_stream.stream<64x256xf64, block = 4, depth = 18>`.

    `block` elements travel together (1 where it is not said); `depth` is the FIFO's capacity in
    blocks and `storage` what it is made of, absent until they have been chosen.
    """

    name = "array_stream.stream"

    shape: ArrayAttr[IntAttr]
    element: Attribute
    block: IntAttr
    depth: IntAttr | NoneAttr
    storage: StringAttr | NoneAttr

    def __init__(
        self,
        shape: Sequence[int],
        element: Attribute = f64,
        block: int = 1,
        depth: int | None = None,
        storage: str | None = None,
    ):
        super().__init__(
            ArrayAttr([IntAttr(d) for d in shape]),
            element,
            IntAttr(block),
            NoneAttr() if depth is None else IntAttr(depth),
            NoneAttr() if storage is None else StringAttr(storage),
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """The array's shape as integers."""
        return tuple(d.data for d in self.shape)

    @property
    def elements(self) -> int:
        """The number of elements of the array."""
        return prod(self.extents)

    @property
    def blocks(self) -> int:
        """The number of blocks that pass for one array."""
        return self.elements // self.block.data

    @property
    def capacity(self) -> int | None:
        """The depth in blocks, None while it is open."""
        return None if isinstance(self.depth, NoneAttr) else self.depth.data

    @property
    def storage_kind(self) -> str | None:
        """What the FIFO is made of, None while it is open."""
        return None if isinstance(self.storage, NoneAttr) else self.storage.data

    def with_shape(self, shape: Sequence[int]) -> StreamType:
        """The same element and block, another shape, depth open."""
        return StreamType(shape, self.element, self.block.data)

    def with_element(self, element: Attribute) -> StreamType:
        """The same stream of other numbers."""
        return StreamType(self.extents, element, self.block.data, self.capacity, self.storage_kind)

    def with_depth(self, depth: int | None, storage: str | None = None) -> StreamType:
        """The same stream at another depth in blocks, made of something else."""
        return StreamType(self.extents, self.element, self.block.data, depth, storage)

    def verify(self) -> None:
        if not isinstance(self.element, ELEMENTS):
            raise VerifyException(f"a stream carries f32, f64 or fixed, not {self.element}")
        if any(d < 1 for d in self.extents):
            shape = "x".join("?" if d < 0 else str(d) for d in self.extents)
            raise VerifyException(f"a stream has a static shape without zeros, not {shape}")
        if self.block.data < 1 or self.elements % self.block.data:
            raise VerifyException(
                f"blocks of {self.block.data} do not divide an array of {self.elements} elements"
            )
        if self.capacity is not None and self.capacity < 1:
            raise VerifyException(f"a FIFO holds at least one block, not {self.capacity}")
        if self.storage_kind not in (None, *STORAGES):
            raise VerifyException(
                f"storage '{self.storage_kind}' is not one of {', '.join(STORAGES)}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
            block, depth, storage = 1, None, None
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("block"):
                    parser.parse_punctuation("=")
                    block = parser.parse_integer()
                elif parser.parse_optional_keyword("storage"):
                    parser.parse_punctuation("=")
                    storage = parser.parse_identifier()
                else:
                    parser.parse_keyword("depth")
                    parser.parse_punctuation("=")
                    depth = parser.parse_integer()
        return (
            ArrayAttr([IntAttr(d) for d in shape]),
            element,
            IntAttr(block),
            NoneAttr() if depth is None else IntAttr(depth),
            NoneAttr() if storage is None else StringAttr(storage),
        )

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            for d in self.extents:
                printer.print_string(f"{d}x")
            printer.print_attribute(self.element)
            if self.block.data != 1:
                printer.print_string(f", block = {self.block.data}")
            if self.capacity is not None:
                printer.print_string(f", depth = {self.capacity}")
            if self.storage_kind is not None:
                printer.print_string(f", storage = {self.storage_kind}")


def stream_type(value: SSAValue) -> StreamType:
    """The type of a stream value; any other value is a mistake of the caller."""
    type_ = value.type
    assert isinstance(type_, StreamType)
    return type_


def split_at(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """
    An array seen around one axis: the product of the extents before it, its own extent, and the
    product of the extents after it.
    """
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


class ProcessOp(IRDLOperation, abc.ABC):
    """
    An operation of the stream level: at the linear stage, a process.

    The verifier holds the rule of that stage: a FIFO has one reader.
    """

    @property
    def input_streams(self) -> tuple[SSAValue, ...]:
        """The streams it reads, in the order in which it reads them."""
        return tuple(v for v in self.operands if isinstance(v.type, StreamType))

    @property
    def output_streams(self) -> tuple[SSAValue, ...]:
        """The streams it writes, in the order in which it writes them."""
        return tuple(v for v in self.results if isinstance(v.type, StreamType))

    def verify_(self) -> None:
        self.verify_streams()
        if stage_of(self) != "linear":
            return
        for result in self.output_streams:
            if (uses := result.uses.get_length()) != 1:
                raise VerifyException(
                    f"at the linear stage a stream has one reader, this one has {uses}; "
                    "`array-stream-insert-copies` multicasts"
                )

    def verify_streams(self) -> None:
        """What shapes, blocks and elements of this operation's streams must satisfy."""


def stage_of(op: Operation) -> str:
    """The stage of the function around `op`: `value` unless it says `linear`."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp):
        parent = parent.parent_op()
    stage = parent.attributes.get(STAGE) if parent is not None else None
    return stage.data if isinstance(stage, StringAttr) else "value"


class StartsStream(MemoryEffect):
    """
    The effect of a process that reads no stream: none at the value stage, where two of the same
    array are one. At the linear stage each is a FIFO of its own and they must stay apart; one
    that nobody reads may still go.
    """

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        """What common-subexpression and dead-code elimination go by."""
        if stage_of(op) != "linear":
            return set()
        return {EffectInstance(MemoryEffectKind.ALLOC, result) for result in op.results}


def require_same(kind: str, *values: object) -> None:
    """Raises VerifyException, with the values, unless all are equal."""
    if len(set(values)) > 1:
        raise VerifyException(f"{kind} differ: {', '.join(map(str, values))}")


def require_same_elements(*streams: SSAValue) -> None:
    """Raises VerifyException unless all streams carry the same elements in the same blocks."""
    require_same("elements", *(stream_type(s).element for s in streams))
    require_same("blocks", *(stream_type(s).block.data for s in streams))


def require_whole_blocks(stream: SSAValue, extent: int, what: str) -> None:
    """Raises VerifyException unless the blocks of `stream` divide `extent`, which is `what`."""
    block = stream_type(stream).block.data
    if extent % block:
        raise VerifyException(f"blocks of {block} do not divide {what}, {extent}")
