"""
A design at a glance: `report.html`, one file that needs no network.

What the compiler writes into `report.json` is one source, `ReportDetails` the other: processes,
FIFOs and what an analysis knows of them. A section whose data is not there is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import log2
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ..analysis.certificate import Certificate
from ..analysis.critical_path import critical_path
from ..analysis.event_engine import Engine
from ..analysis.network import Body, Network, Segment
from ..analysis.operators import lanes_of
from ..analysis.process_costs import fill_of
from ..analysis.resources import resources_of
from ..analysis.schedules import element_bits, network_of
from ..analysis.targets import RESOURCES, FpgaPart, Resources
from ..dialects import array_stream
from ..dialects.array_stream import stream_type
from ..passes.array_stream_select_parallelism import PARALLELISM
from ..passes.array_stream_size_fifos import ends_of
from .graph_layout import Placed, place
from .hls_cpp import Design

DEEPEST = 8
"""FIFOs whose occupancy is drawn."""

SAMPLES = 240
"""Points of such a curve."""


@dataclass(frozen=True)
class ProcessDetail:
    """
    One process: `cycles` it takes for a batch when it never waits, `lanes` (multiply-accumulate
    units of a product, elements at once of any other), and what it and its FIFOs take.
    """

    name: str
    kind: str
    comment: str
    lanes: int
    cycles: int | None = None
    resources: Resources | None = None


@dataclass(frozen=True)
class FifoDetail:
    """
    One FIFO from process `source` to `target`, `depth` tokens of `bits` bits that hold `block`
    elements each; `peak` is the most tokens that it held, `curve` the most in each of equal
    spans of the run.
    """

    name: str
    source: str
    target: str
    depth: int
    block: int
    bits: int
    storage: str
    shape: str
    peak: int | None = None
    curve: tuple[int, ...] = ()


@dataclass(frozen=True)
class ReportDetails:
    """What the report shows besides `report.json`; `cycles` are those of a batch."""

    processes: tuple[ProcessDetail, ...] = ()
    fifos: tuple[FifoDetail, ...] = ()
    critical: frozenset[str] = frozenset()
    """The processes and FIFOs on the path that decides the latency."""
    full: frozenset[str] = frozenset()
    """The FIFOs among them whose space is waited for on it."""
    exact: bool = False
    """Whether the path is that of a run, or the one with the longest delays."""
    cycles: int | None = None
    parallelism: Mapping[str, int] = field(default_factory=dict[str, int])
    """What `array-stream-select-parallelism` says of the function."""
    used: Resources | None = None
    available: Resources | None = None
    part: str = ""


_SHOWN = (
    "name",
    "mode",
    "part",
    "clock_ns",
    "widths",
    "streams",
    "timing",
    "graph",
    "seconds",
    "overflows",
)
"""Entries of `report.json` that the page shows where they are there."""


def add_report(
    texts: MutableMapping[str, str], report: Mapping[str, Any], details: ReportDetails | None = None
) -> None:
    """Write the page into the files of a project, as `report.html`."""
    texts["report.html"] = render_report(report, details or ReportDetails())


def render_report(report: Mapping[str, Any], details: ReportDetails) -> str:
    """The page. `report` is what `report.json` holds; any part of it may be missing."""
    slowest = max((p.cycles or 0 for p in details.processes), default=0)
    environment = Environment(
        loader=PackageLoader("inr.lowering"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    template = environment.get_template("report.html.j2")
    graph = _drawn(details, slowest)
    return template.render(
        report={**dict.fromkeys(_SHOWN), **report},
        details=details,
        slowest=slowest,
        graph=graph,
        box=(BOX_WIDTH, BOX_HEIGHT),
        curves=_curves(details),
        bars=_bars(details),
        kinds=sorted({_family(p.kind) for p in details.processes}),
        outputs=_accuracy(report.get("accuracy", {})),
        resources=[k for k in ("dsp", "bram18", "uram", "lut", "ff") if _any(details, k)],
    )


def gather_details(
    function: FuncOp,
    design: Design,
    part: FpgaPart | None = None,
    certificate: Certificate | None = None,
) -> ReportDetails:
    """
    All that can be known of a sized function at the linear stage whose C++ is `design`.

    The time is that of the event engine at the depths of the function; it is left out where these
    deadlock. The critical path is that of `certificate`, which must hold the earliest schedule at
    these depths, as that of a sizing does; without one it is estimated from the processes' delays.
    Raises CompileError for a function at another stage.
    """
    ops = [
        op
        for op in function.body.block.ops
        if isinstance(op, array_stream.ProcessOp) and not isinstance(op, array_stream.ReshapeOp)
    ]
    names: dict[Operation, str] = {
        op: process.name for op, process in zip(ops, design.processes, strict=True)
    }
    streams = {value: name for name, value in design.fifo_of.items()}
    network, fifos = network_of(function, {**names, **streams})
    deepest = sorted(
        range(len(fifos)),
        key=lambda f: -(network.fifos[f].depth or 0) * network.fifos[f].width,
    )[:DEEPEST]
    run = Engine(network).run(record=deepest)
    busy = _busy_cycles(network)
    estimate = resources_of(function, part, names) if part is not None else None
    processes = tuple(
        ProcessDetail(
            name=names[op],
            kind=op.name.removeprefix("array_stream."),
            comment=process.comment,
            lanes=_lanes(op),
            cycles=busy[names[op]],
            resources=estimate.processes[names[op]].total if estimate else None,
        )
        for op, process in zip(ops, design.processes, strict=True)
    )
    details: list[FifoDetail] = []
    for index, value in enumerate(fifos):
        peak, curve = None, ()
        if run.latency is not None and index in deepest:
            peak = run.occupancy(index)
            curve = _envelope(run.written_at[index], run.read_at[index], run.latency)
        details.append(_fifo(value, streams[value], names, peak, curve))
    if certificate is not None:
        critical, full = _traced(network, certificate)
    else:
        path = [names[op] for op in _slowest_path(ops, {op: busy[names[op]] for op in ops})]
        steps = set(pairwise(path))
        joining = {f.name for f in details if (f.source, f.target) in steps}
        critical, full = {*path, *joining}, set[str]()
    chosen = function.attributes.get(PARALLELISM)
    entries = chosen.data if isinstance(chosen, DictionaryAttr) else {}
    return ReportDetails(
        processes=processes,
        fifos=tuple(details),
        critical=frozenset(critical),
        full=frozenset(full),
        exact=certificate is not None,
        cycles=run.latency,
        parallelism={k: v.value.data for k, v in entries.items() if isinstance(v, IntegerAttr)},
        used=estimate.total if estimate else None,
        available=part.capacity if part else None,
        part=part.name if part else "",
    )


def _fifo(
    value: SSAValue,
    name: str,
    names: Mapping[Operation, str],
    peak: int | None,
    curve: tuple[int, ...],
) -> FifoDetail:
    type_ = stream_type(value)
    source, target = ends_of(value)
    return FifoDetail(
        name=name,
        source=names[source],
        target=names[target],
        depth=type_.capacity or 0,
        block=type_.block.data,
        bits=element_bits(type_.element) * type_.block.data,
        storage=type_.storage_kind or "",
        shape=" x ".join(map(str, type_.extents)) or "1",
        peak=peak,
        curve=curve,
    )


def _lanes(op: array_stream.ProcessOp) -> int:
    if isinstance(op, array_stream.MatmulOp):
        along_k, along_n = lanes_of(op)
        return len(op.inputs) * along_k * along_n
    streams = (*op.input_streams, *op.output_streams)
    return max(stream_type(v).block.data for v in streams)


def _busy_cycles(network: Network) -> dict[str, int]:
    """Cycles of each process if it never waited; the chains of one process count once."""
    cycles: dict[str, int] = {}
    for process in network.processes:
        name = process.name.split(".")[0]
        cycles[name] = max(cycles.get(name, 0), _length(process.body))
    return cycles


def _length(body: Body) -> int:
    return sum(
        part.first_gap + (part.count - 1) * part.gap
        if isinstance(part, Segment)
        else part.times * _length(part.body)
        for part in body
    )


def _envelope(written: Any, read: Any, cycles: int) -> tuple[int, ...]:
    """The most tokens a FIFO held in each of `SAMPLES` spans of a run."""
    written, read = np.asarray(written, np.int64), np.asarray(read, np.int64)
    edges = np.linspace(0, cycles, SAMPLES + 1)
    # At the start of a span, and after every write in it.
    held = np.searchsorted(written, edges, "right") - np.searchsorted(read, edges, "right")
    most = held[:-1].copy()
    after = np.arange(1, len(written) + 1) - np.searchsorted(read, written, "left")
    span = np.clip(np.searchsorted(edges, written, "left") - 1, 0, SAMPLES - 1)
    np.maximum.at(most, span, after)
    return tuple(int(n) for n in most)


def _traced(network: Network, certificate: Certificate) -> tuple[set[str], set[str]]:
    """The processes and FIFOs that explain the latency, and the FIFOs that are full on the way."""
    steps = critical_path(network, certificate)
    on_path = {network.processes[step.process].name.split(".")[0] for step in steps}
    waited = [s for s in steps if s.fifo is not None and not network.fifos[s.fifo].internal]
    fifos = {network.fifos[s.fifo].name for s in waited if s.fifo is not None}
    full = {
        network.fifos[s.fifo].name for s in waited if s.fifo is not None and s.reason == "space"
    }
    return on_path | fifos, full


def _slowest_path(
    ops: list[array_stream.ProcessOp], busy: Mapping[array_stream.ProcessOp, int]
) -> list[array_stream.ProcessOp]:
    """
    The path with the longest delays that leads through the slowest process: what comes before it
    delays its start, what comes after it the end.
    """
    writer = {v: op for op in ops for v in op.output_streams}
    before: dict[array_stream.ProcessOp, list[array_stream.ProcessOp]] = {}
    after: dict[array_stream.ProcessOp, list[array_stream.ProcessOp]] = {op: [] for op in ops}
    for op in ops:
        before[op] = [writer[_through_reshapes(v)] for v in op.input_streams]
        for source in before[op]:
            after[source].append(op)
    slowest = max(ops, key=busy.__getitem__)
    to_start = _longest(ops, before)
    to_end = _longest(reversed(ops), after)
    path = [slowest]
    while joined := before[path[0]]:
        path.insert(0, max(joined, key=to_start.__getitem__))
    while joined := after[path[-1]]:
        path.append(max(joined, key=to_end.__getitem__))
    return path


def _through_reshapes(value: SSAValue) -> SSAValue:
    while isinstance(owner := value.owner, array_stream.ReshapeOp):
        value = owner.stream
    return value


def _longest(
    ops: Iterable[array_stream.ProcessOp],
    joined: Mapping[array_stream.ProcessOp, list[array_stream.ProcessOp]],
) -> dict[array_stream.ProcessOp, int]:
    """The longest sum of delays that ends at each process; `ops` come after what they join."""
    distance: dict[array_stream.ProcessOp, int] = {}
    for op in ops:
        distance[op] = fill_of(op) + max((distance[other] for other in joined[op]), default=0)
    return distance


# What the template draws.


_FAMILIES = {
    "read": "memory",
    "write": "memory",
    "constant": "memory",
    "matmul": "product",
    "matmul_dynamic": "product",
    "map": "elementwise",
    "reduce_sum": "sum",
    "copy": "copy",
}


def _family(kind: str) -> str:
    return _FAMILIES.get(kind, "movement")


@dataclass(frozen=True)
class _Box:
    detail: ProcessDetail
    family: str
    x: float
    y: float
    label: str
    critical: bool
    limits: bool
    """The slowest process, or as slow."""


@dataclass(frozen=True)
class _Line:
    detail: FifoDetail
    path: str
    width: float
    critical: bool
    full: bool


@dataclass(frozen=True)
class _Drawing:
    boxes: list[_Box]
    lines: list[_Line]
    width: float
    height: float


BOX_WIDTH, BOX_HEIGHT, COLUMN, ROW = 132, 26, 146, 52
"""Pixels of a process and from one to the next; rows of a wide graph stand further apart."""

_LABEL = 20
"""Characters that fit into a box."""


def _drawn(details: ReportDetails, slowest: int) -> _Drawing | None:
    if not details.processes:
        return None
    placed: Placed = place(
        [p.name for p in details.processes], [(f.source, f.target) for f in details.fifos]
    )
    row = max(ROW, round(0.6 * COLUMN * placed.columns / placed.rows))
    boxes: list[_Box] = []
    for process in details.processes:
        x, y = placed.positions[process.name]
        short = process.name if len(process.name) <= _LABEL else f"{process.name[: _LABEL - 1]}…"
        boxes.append(
            _Box(
                process,
                _family(process.kind),
                x * COLUMN,
                y * row,
                short,
                process.name in details.critical,
                bool(slowest) and process.cycles == slowest,
            )
        )
    lines = [
        _Line(
            fifo,
            _curve([(x * COLUMN, y * row) for x, y in route]),
            1 + 0.7 * log2(max(fifo.depth, 1)),
            fifo.name in details.critical,
            fifo.name in details.full,
        )
        for fifo, route in zip(details.fifos, placed.routes, strict=True)
    ]
    # Where lines run over each other, the path is on top.
    lines.sort(key=lambda line: line.critical)
    width, height = (placed.columns - 1) * COLUMN + BOX_WIDTH, (placed.rows - 1) * row + BOX_HEIGHT
    return _Drawing(boxes, lines, width, height)


def _curve(points: list[tuple[float, float]]) -> str:
    """An SVG path down through points: from the lower edge of a box to the upper edge of one."""
    middle = BOX_WIDTH / 2
    shifted = [(x + middle, y + BOX_HEIGHT / 2) for x, y in points]
    (x, y), (end_x, end_y) = shifted[0], shifted[-1]
    shifted[0] = (x, y + BOX_HEIGHT / 2)
    shifted[-1] = (end_x, end_y - BOX_HEIGHT / 2)
    x, y = shifted[0]
    path = [f"M{x:.0f} {y:.0f}"]
    for next_x, next_y in shifted[1:]:
        half = (next_y - y) / 2
        controls = f"{x:.0f} {y + half:.0f} {next_x:.0f} {next_y - half:.0f}"
        path.append(f"C{controls} {next_x:.0f} {next_y:.0f}")
        x, y = next_x, next_y
    return "".join(path)


def _curves(details: ReportDetails) -> list[dict[str, Any]]:
    """Occupancy over time: a filled step of each FIFO, in a field of 240 by 40."""
    drawn: list[dict[str, Any]] = []
    for fifo in sorted(details.fifos, key=lambda f: -f.depth * f.bits):
        if not fifo.curve or fifo.depth <= 2:
            continue
        step = 240 / len(fifo.curve)
        heights = [40 - 38 * held / max(fifo.depth, 1) for held in fifo.curve]
        top = [f"{i * step:.1f},{h:.1f}" for i, h in enumerate(heights)]
        outline = ["0,40", *top, f"240,{heights[-1]:.1f}", "240,40"]
        drawn.append({"fifo": fifo, "points": " ".join(outline)})
    return drawn


def _bars(details: ReportDetails) -> list[dict[str, Any]]:
    if details.used is None or details.available is None:
        return []
    shares = details.used.fraction_of(details.available)
    bars: list[dict[str, Any]] = []
    for kind in RESOURCES:
        used, there = getattr(details.used, kind), getattr(details.available, kind)
        if there or used:
            bars.append({"kind": kind, "used": used, "there": there, "share": shares[kind]})
    return bars


def _any(details: ReportDetails, kind: str) -> bool:
    return any(p.resources is not None and getattr(p.resources, kind) for p in details.processes)


def _accuracy(accuracy: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, Any]:
    """Outputs by name, with the number systems that were compared."""
    systems = [k for k in ("float", "fixed") if any(k in entry for entry in accuracy.values())]
    return {"systems": systems, "rows": accuracy}
