"""The parts that designs can be made for, read from `targets/fpga.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..errors import CompileError


@dataclass(frozen=True)
class FpgaPart:
    """A device: the name users give, the vendor's part number, its multiplier."""

    name: str
    part: str
    limb: int
    """Bits of a DSP's wide multiplier port besides the sign."""


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
