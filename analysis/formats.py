"""Fixed-point formats as the IR spells them, and as the arithmetic takes them."""

from __future__ import annotations

from math import frexp
from typing import Literal, cast

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ..dialects.array_stream import FORMAT, FixedType, MapOp, StreamType, stream_type
from ..errors import reject
from .fixed import Format


def format_of(type_: FixedType) -> Format:
    """The arithmetic format of an IR type."""
    return Format(
        type_.width.data,
        type_.integer.data,
        cast(Literal["rnd", "trn"], type_.rounding.data),
        cast(Literal["sat", "wrap"], type_.overflow.data),
    )


def fixed_type(format_: Format) -> FixedType:
    """The IR type of an arithmetic format."""
    return FixedType(format_.width, format_.integer, format_.rounding, format_.overflow)


def stream_format(stream: SSAValue) -> Format:
    """
    The fixed-point format of a stream.

    Raises CompileError for a stream of floats.
    """
    element = stream_type(stream).element
    if isinstance(element, FixedType):
        return format_of(element)
    owner = stream.owner
    assert isinstance(owner, Operation)
    raise reject(
        owner, f"a stream of {element} has no fixed-point format; run array-stream-assign-formats"
    )


def body_format(value: SSAValue) -> Format:
    """
    The format of a value in a map's body: that of its stream for an argument, the attribute
    `array_stream.format` of its operation for a result.

    Raises CompileError for an operation without one.
    """
    if isinstance(value, BlockArgument):
        parent = value.block.parent_op()
        assert isinstance(parent, MapOp)
        return stream_format(parent.inputs[value.index])
    owner = value.owner
    assert isinstance(owner, Operation)
    format_ = owner.attributes.get(FORMAT)
    if not isinstance(format_, FixedType):
        raise reject(owner, f"no `{FORMAT}`; run array-stream-assign-formats")
    return format_of(format_)


def is_fixed(type_: Attribute) -> bool:
    """Whether a stream type carries fixed-point numbers."""
    return isinstance(type_, StreamType) and isinstance(type_.element, FixedType)


def integer_bits(magnitude: float) -> int:
    """
    The fewest integer bits, the sign included, that hold every number up to `magnitude`:
    the smallest i with magnitude < 2**(i-1). Zero and subnormal magnitudes take −30.
    """
    if magnitude < 2.0**-31:
        return -30
    return frexp(magnitude)[1] + 1
