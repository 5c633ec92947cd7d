"""How number formats and streams are spelled in HLS C++."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute, SSAValue

from ..analysis.fixed import Format
from ..analysis.formats import format_of
from ..dialects.array_stream import FixedType, StreamType
from ..errors import CompileError


def format_name(format_: Format) -> str:
    """
    A typedef's name for a format: `q27_9` has 27 bits, 9 of them integer; `m` is a minus sign,
    `t` marks truncation, `w` wrapping.
    """
    integer = f"m{-format_.integer}" if format_.integer < 0 else str(format_.integer)
    modes = ("t" if format_.rounding == "trn" else "") + ("w" if format_.overflow == "wrap" else "")
    return f"q{format_.width}_{integer}{modes}"


class TypeNames:
    """The number formats that a design uses, each with a typedef."""

    def __init__(self) -> None:
        self.formats: dict[str, Format] = {}

    def number(self, format_: Format) -> str:
        """The C++ name of a format."""
        name = format_name(format_)
        self.formats[name] = format_
        return name

    def element(self, element: Attribute) -> str:
        """The C++ type of a stream's element. Raises CompileError for f64."""
        if isinstance(element, FixedType):
            return self.number(format_of(element))
        if isinstance(element, Float32Type):
            return "float"
        raise CompileError(
            f"hls-cpp: a stream of {element} has no format; run array-stream-assign-formats"
        )

    def block(self, type_: StreamType) -> str:
        """The C++ type of one token of a stream."""
        return f"inr::block<{self.element(type_.element)}, {type_.block.data}>"

    def typedefs(self) -> list[tuple[str, str]]:
        """(name, type) of each format used, by width and integer bits."""
        ordered = sorted(self.formats.items(), key=lambda i: (i[1].width, i[1].integer, i[0]))
        return [(name, format_.cpp()) for name, format_ in ordered]


def word_type(element: Attribute) -> str:
    """The C type of one element in memory: `float`, or the integer that holds a mantissa."""
    if isinstance(element, Float32Type):
        return "float"
    assert isinstance(element, FixedType)
    return "int32_t" if element.width.data <= 32 else "int64_t"


def is_float(value: SSAValue) -> bool:
    """Whether a stream carries floats."""
    return isinstance(value.type, StreamType) and isinstance(value.type.element, Float32Type)
