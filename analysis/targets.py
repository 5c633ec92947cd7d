"""The parts that designs can be made for, read from `targets/fpga.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

from ..errors import CompileError


@dataclass(frozen=True)
class Resources:
    """What a device has or a design takes; block RAMs in halves of 18 Kb."""

    lut: int = 0
    ff: int = 0
    bram18: int = 0
    uram: int = 0
    dsp: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(*(getattr(self, k) + getattr(other, k) for k in RESOURCES))

    def __mul__(self, times: int) -> Resources:
        return Resources(*(getattr(self, k) * times for k in RESOURCES))

    def fraction_of(self, available: Resources) -> dict[str, float]:
        """
        Each resource as a share of what is available; infinite where there is none of it and
        some is needed.
        """
        shares: dict[str, float] = {}
        for kind in RESOURCES:
            needed, there = getattr(self, kind), getattr(available, kind)
            shares[kind] = needed / there if there else (float("inf") if needed else 0.0)
        return shares


RESOURCES: tuple[str, ...] = tuple(f.name for f in fields(Resources))
"""The kinds of resources, in the order of `Resources`."""


@dataclass(frozen=True)
class FpgaPart:
    """A device: the name users give, the vendor's part number, its multiplier, what it has."""

    name: str
    part: str
    limb: int
    """Bits of a DSP's wide multiplier port besides the sign."""
    lut: int
    ff: int
    bram18: int
    uram: int
    dsp: int

    @property
    def capacity(self) -> Resources:
        """All that the device has."""
        return Resources(self.lut, self.ff, self.bram18, self.uram, self.dsp)


DEFAULT_PART = "xcu50"
"""The part that is meant where none is named."""


@cache
def fpga_parts() -> dict[str, FpgaPart]:
    """Every known part by its short name."""
    text = (files("inr") / "targets" / "fpga.toml").read_text()
    return {name: FpgaPart(name, **entry) for name, entry in tomllib.loads(text).items()}


def find_part(name: str) -> FpgaPart:
    """
    A part by its short name or by its full part number.

    Raises CompileError, with the names there are, for any other.
    """
    for part in fpga_parts().values():
        if name in (part.name, part.part):
            return part
    raise CompileError(f"unknown part '{name}'; known parts: {', '.join(fpga_parts())}")
