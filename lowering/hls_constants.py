"""Resident constants as C++ arrays of mantissas or floats, each once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..analysis.fixed import Format, quantize
from .cpp_names import Names
from .hls_map import float_literal

LARGE = 4096
"""An array with more elements than this goes to a file of its own, included where it stands."""


@dataclass(frozen=True)
class Rom:
    """One array: its C++ name, element type, shape, elements as text, and where it came from."""

    name: str
    element: str
    shape: tuple[int, ...]
    lines: tuple[str, ...]
    comment: str

    @property
    def declaration(self) -> str:
        """`static const T name[K][N]`"""
        extents = "".join(f"[{d}]" for d in self.shape)
        return f"static const {self.element} {self.name}{extents}"

    @property
    def is_large(self) -> bool:
        """Whether the elements go to a file of their own."""
        return int(np.prod(self.shape)) > LARGE


@dataclass
class Roms:
    """The constants of a design. Equal values in equal formats are one array."""

    names: Names
    roms: list[Rom] = field(default_factory=list[Rom])
    _known: dict[tuple[object, ...], str] = field(default_factory=dict[tuple[object, ...], str])

    def add(self, values: np.ndarray, format_: Format | None, name: str) -> str:
        """
        The C++ name of an array of `values`, as mantissas of `format_` or, without one, as
        floats; `name` is the name the model gives it.
        """
        if format_ is None:
            data = values.astype(np.float32)
            element, comment = "float", f"{name}: {_by(values.shape)}, float"
        else:
            data = quantize(values, format_)
            element = f"inr::rom<{format_.width}>::type"
            comment = f"{name}: {_by(values.shape)}, mantissas of {format_.cpp()}"
        key = (data.tobytes(), str(data.dtype), values.shape, element)
        if (known := self._known.get(key)) is not None:
            return known
        unique = self.names.unique(name)
        self._known[key] = unique
        self.roms.append(Rom(unique, element, values.shape, tuple(_rows(data)), comment))
        return unique


def _rows(data: np.ndarray) -> Iterator[str]:
    """The elements in lines of at most about a hundred columns."""
    if data.dtype == np.float32:
        words = [float_literal(float(v)) for v in data.ravel()]
    else:
        suffix = "LL" if data.size and max(abs(int(data.min())), int(data.max())) >= 2**31 else ""
        words = [f"{v}{suffix}" for v in data.ravel().tolist()]
    line = ""
    for word in words:
        if len(line) + len(word) + 2 > 96:
            yield line.rstrip()
            line = ""
        line += f"{word}, "
    yield line.rstrip().rstrip(",")


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "1"
