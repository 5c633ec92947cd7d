"""
What a design takes of a device, before any synthesis.

Memories and FIFOs follow `memories`, products of integers `dsp`, other operators
`targets/operators.toml`, where each number has its source. Counters, addresses, handshakes, memory
ports and everything that place and route does are not counted, and nothing is claimed about the
clock. See `docs/resources.md`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from math import ceil
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ..dialects import array_stream
from ..dialects.array_stream import STAGE, stream_type
from ..errors import CompileError, reject
from .dsp import dsp_of_product
from .memories import array_resources, fifo_printed, fifo_resources
from .operators import Operator, operators_of
from .schedules import Buffer, buffers_of, element_bits
from .storage import fifo_storage
from .targets import FpgaPart, Resources


@cache
def _costs() -> Mapping[str, Any]:
    return tomllib.loads((files("inr") / "targets" / "operators.toml").read_text())


def product_resources(a: int, b: int, limb: int = 26) -> Resources:
    """A product of integers of `a` and `b` bits; `limb` as in `dsp_of_product`."""
    costs = _costs()["product"]
    dsp = dsp_of_product(a, b, limb)
    if dsp == 0:
        width = max(a, b)
        return Resources(lut=costs["luts"].get(str(width), ceil(0.6 * width * width)))
    first, further = costs["first_dsp"], costs["further_dsp"]
    return Resources(
        lut=round(first["lut"] + (dsp - 1) * further["lut"]),
        ff=round(first["ff"] + (dsp - 1) * further["ff"]),
        dsp=dsp,
    )


def operator_resources(operator: Operator, part: FpgaPart) -> Resources:
    """
    All of an operator's copies.

    Raises CompileError for a kind that nothing is known of.
    """
    return _one_operator(operator, part) * operator.count


def _one_operator(operator: Operator, part: FpgaPart) -> Resources:
    costs, widths = _costs(), operator.widths
    logic = costs["logic"]
    if (core := costs["float"].get(operator.kind)) is not None:
        return Resources(lut=core["lut"], ff=core["ff"], dsp=core["dsp"])
    match operator.kind:
        case "mul":
            return product_resources(widths[0], widths[1], part.limb)
        case "add":
            width = max(widths) + 1
            return Resources(lut=ceil(logic["add_lut_per_bit"] * width), ff=width)
        case "compare":
            return Resources(lut=ceil(logic["compare_lut_per_bit"] * max(widths)), ff=1)
        case "select":
            return Resources(lut=ceil(logic["select_lut_per_bit"] * max(widths)))
        case "shift":
            # The amount is the second operand. Two levels of it fit in a LUT.
            levels = ceil(widths[-1] / 2)
            return Resources(lut=levels * widths[0], ff=widths[0])
        case "narrow":
            return Resources(lut=ceil(logic["narrow_lut_per_bit"] * widths[-1]), ff=widths[-1])
        case _:
            raise CompileError(f"no known resources of an operator '{operator.kind}'")


def buffer_resources(buffer: Buffer) -> Resources:
    """All copies of an array inside a process."""
    return array_resources(buffer.words, buffer.bits, buffer.pingpong) * buffer.count


@dataclass(frozen=True)
class ProcessResources:
    """What one process takes, by where it goes; FIFOs are those that it writes."""

    operators: Resources
    buffers: Resources
    fifos: Resources
    fifos_printed: Resources
    """What a synthesis report prints for the same FIFOs."""

    @property
    def total(self) -> Resources:
        """Operators, buffers and FIFOs."""
        return self.operators + self.buffers + self.fifos


@dataclass(frozen=True)
class DesignResources:
    """The estimate for a design on a part."""

    part: FpgaPart
    processes: Mapping[str, ProcessResources]

    @property
    def total(self) -> Resources:
        """All processes and FIFOs."""
        return sum((p.total for p in self.processes.values()), Resources())

    @property
    def fifos(self) -> Resources:
        """All FIFOs."""
        return sum((p.fifos for p in self.processes.values()), Resources())

    @property
    def fifos_printed(self) -> Resources:
        """All FIFOs as a synthesis report prints them."""
        return sum((p.fifos_printed for p in self.processes.values()), Resources())

    @property
    def buffers(self) -> Resources:
        """All arrays inside processes."""
        return sum((p.buffers for p in self.processes.values()), Resources())

    @property
    def fractions(self) -> dict[str, float]:
        """The share of the part that each resource takes; infinite for what it has none of."""
        return self.total.fraction_of(self.part.capacity)

    def short(self, fill: float = 1.0) -> tuple[str, ...]:
        """The resources of which more than the share `fill` of the part is needed."""
        return tuple(kind for kind, share in self.fractions.items() if share > fill)

    def require_fit(self, fill: float = 1.0) -> None:
        """Raises CompileError, with a table of what is short, when `short` names something."""
        short = self.short(fill)
        if not short:
            return
        total, capacity = self.total, self.part.capacity
        rows = [f"{'':8}{'needed':>12}{'allowed':>12}{'the part has':>14}"]
        for kind in short:
            needed, there = getattr(total, kind), getattr(capacity, kind)
            rows.append(f"{kind:8}{needed:>12,}{int(there * fill):>12,}{there:>14,}")
        raise CompileError(
            f"the design does not fit {self.part.name} filled to {fill:.0%}:\n"
            + "\n".join(rows)
            + "\nfewer lanes, narrower formats (--activation, --weight) or a larger part would help"
        )

    def report(self) -> dict[str, Any]:
        """The estimate as plain numbers: totals, shares of the part, and each process."""
        return {
            "part": self.part.name,
            "total": asdict(self.total),
            "available": asdict(self.part.capacity),
            "share": self.fractions,
            "fifos": asdict(self.fifos),
            "fifos_printed": asdict(self.fifos_printed),
            "buffers": asdict(self.buffers),
            "processes": {name: asdict(p.total) for name, p in self.processes.items()},
        }


def process_resources(op: array_stream.ProcessOp, part: FpgaPart) -> ProcessResources:
    """
    The estimate for one process and the FIFOs that it writes; a FIFO without a depth counts as
    nothing. Raises CompileError for an operator that nothing is known of.
    """
    operators = sum((operator_resources(o, part) for o in operators_of(op)), Resources())
    buffers = sum((buffer_resources(b) for b in buffers_of(op)), Resources())
    fifos, printed = Resources(), Resources()
    for stream in op.output_streams:
        type_ = stream_type(stream)
        if (depth := type_.capacity) is None:
            continue
        bits = element_bits(type_.element) * type_.block.data
        fifos += fifo_resources(depth, bits, type_.storage_kind or fifo_storage(depth, bits))
        printed += fifo_printed(depth, bits)
    return ProcessResources(operators, buffers, fifos, printed)


def resources_of(
    function: FuncOp, part: FpgaPart, names: Mapping[Operation, str] | None = None
) -> DesignResources:
    """
    The estimate for a function at the linear stage. A process without a name in `names` is
    called by its kind and number.

    Raises CompileError for a function at another stage, and for a process without number formats.
    """
    if function.attributes.get(STAGE) != StringAttr("linear"):
        raise reject(function, "not at the linear stage; run array-stream-insert-copies")
    names = names or {}
    found: dict[str, ProcessResources] = {}
    for op in function.body.block.ops:
        if not isinstance(op, array_stream.ProcessOp) or isinstance(op, array_stream.ReshapeOp):
            continue
        default = f"{op.name.removeprefix('array_stream.')}_{len(found)}"
        found[names.get(op, default)] = process_resources(op, part)
    return DesignResources(part, found)
