"""
A program for UPMEM at a glance: `report.html`, one file that needs no network.

Its one source is what the compiler writes into `report.json`. Where nothing was run, what only a
run can tell is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

PARTS = ("index", "table", "kernel", "output", "launch")
"""Of a layer's time, in the order in which they follow each other."""

WIDTH, HEIGHT = 640, 330
"""Pixels of the roofline's field."""

NEAR = 12
"""Pixels between points whose numbers would overlap."""


def render_upmem_report(report: Mapping[str, Any]) -> str:
    """The page of a `report.json` of `inr-compile --target upmem`."""
    environment = Environment(
        loader=PackageLoader("inr.lowering"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("upmem_report.html.j2").render(
        report=report,
        parts=PARTS,
        times=_times(report),
        mram=_mram(report),
        wram=_wram(report),
        roofline=_roofline(report),
        alike=_alike(report),
    )


@dataclass(frozen=True)
class Segment:
    """A piece of a bar; `share` of the whole bar's length."""

    label: str
    kind: str
    value: float
    share: float


@dataclass(frozen=True)
class Bar:
    """A row of a chart: pieces one after the other, and a mark, both as shares of the longest."""

    label: str
    segments: tuple[Segment, ...]
    mark: float | None = None

    @property
    def total(self) -> float:
        """What the pieces come to."""
        return sum(segment.value for segment in self.segments)


def _alike(report: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Layers by what they have in common, sizes and mapping: a title and their names."""
    found: dict[str, list[str]] = {}
    for name, size in report["layers"].items():
        mapping = " ".join(f"{k}={v}" for k, v in report["mapping"][name].items())
        what = (
            "int8 product"
            if size.get("kind") == "int8"
            else f"{size['codebooks']} codebooks of {size['centroids']} at {size['bits']} bits"
        )
        title = f"{size['inputs']} → {size['features']}, {what}|{mapping}"
        found.setdefault(title, []).append(name)
    return list(found.items())


def _times(report: Mapping[str, Any]) -> list[Bar]:
    """Predicted time of each layer by its parts; the mark is where an emulated kernel ends."""
    costs = report["predicted"]["layers"]
    emulated = (report["emulated"] or {}).get("layers", {})
    longest = max(
        max(cost["total_ms"], cost["total_ms"] - cost["kernel_ms"] + _kernel(emulated, name, cost))
        for name, cost in costs.items()
    )
    bars: list[Bar] = []
    for name, cost in costs.items():
        segments = tuple(
            Segment(part, part, cost[f"{part}_ms"], cost[f"{part}_ms"] / longest) for part in PARTS
        )
        mark = None
        if name in emulated:
            before = cost["index_ms"] + cost["table_ms"]
            mark = (before + emulated[name]["kernel_ms"]) / longest
        bars.append(Bar(name, segments, mark))
    return bars


def _kernel(emulated: Mapping[str, Any], name: str, cost: Mapping[str, float]) -> float:
    return emulated[name]["kernel_ms"] if name in emulated else cost["kernel_ms"]


def _mram(report: Mapping[str, Any]) -> dict[str, Any]:
    """The symbols in MRAM, in the order of the program: the whole, and what is used, enlarged."""
    memory = report["memory"]["mram"]
    used = sum(memory["symbols"].values())

    def kind(symbol: str) -> str:
        return "index" if symbol == "index" else "output" if symbol == "sums" else "table"

    def bar(label: str, whole: float) -> Bar:
        return Bar(
            label,
            tuple(
                Segment(name, kind(name), size, size / whole)
                for name, size in memory["symbols"].items()
            ),
        )

    return {
        "size": memory["size"],
        "used": used,
        "whole": bar("MRAM", memory["size"]),
        "enlarged": bar("used part", used),
        "symbols": [
            Segment(name, kind(name), size, size / memory["size"])
            for name, size in memory["symbols"].items()
        ],
    }


def _wram(report: Mapping[str, Any]) -> list[Bar]:
    """The program's WRAM, then the buffers of each kind of kernel."""
    memory = report["memory"]["wram"]
    size = memory["size"]
    known = (("buffers", "kernel"), ("stacks", "stacks"), ("rest", "launch"))
    bars = [
        Bar(
            "program",
            tuple(
                Segment(what, kind, memory[what], memory[what] / size)
                for what, kind in known
                if memory.get(what)
            ),
        )
    ]
    kinds = (("table", "table"), ("index tile", "index"), ("output tile", "output"))
    for _, names in _alike(report):
        buffers = report["layers"][names[0]]["wram"]
        label = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        bars.append(
            Bar(
                label,
                tuple(
                    Segment(what, kind, buffers[what], buffers[what] / size) for what, kind in kinds
                ),
            )
        )
    return bars


# Additions a second of a DPU against additions a byte of its DMA.


@dataclass(frozen=True)
class Point:
    """A kind of layer in the roofline."""

    label: str
    x: float
    y: float
    intensity: float
    rate: float
    number: int


def _roofline(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """
    Of one DPU: what the emulated kernels reach, below what issue and DMA allow.

    Issue: one instruction a cycle over the instructions an addition of the innermost loop, for the
    best of the kernels that are here. DMA: the engine's bytes a second in long requests.
    """
    if report["emulated"] is None:
        return None
    machine, emulated = report["machine"], report["emulated"]["layers"]
    clock = machine["clock_mhz"] * 1e6
    least = min(cost["slots_per_addition"] for cost in report["predicted"]["layers"].values())
    issue, dma = clock / least, machine["dma_bytes_per_second"]
    found: list[tuple[str, float, float]] = []
    for _, names in _alike(report):
        run = emulated[names[0]]
        label = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        seconds = run["kernel_ms"] / 1e3
        found.append(
            (label, run["additions"] / run["dma_bytes"], run["additions"] / run["dpus"] / seconds)
        )
    ridge = issue / dma
    xs = _decades(
        [ridge / 4, ridge * 4, *(x / 1.2 for _, x, _ in found), *(x * 1.2 for _, x, _ in found)]
    )
    ys = _decades([issue * 1.5, *(y / 1.3 for _, _, y in found)])

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            WIDTH * (log10(x) - xs[0]) / (xs[1] - xs[0]),
            HEIGHT * (1 - (log10(y) - ys[0]) / (ys[1] - ys[0])),
        )

    left = max(10.0 ** xs[0], 10.0 ** ys[0] / dma)
    corners = [place(left, left * dma), place(ridge, issue), place(10.0 ** xs[1], issue)]
    slope = (place(ridge, issue)[0] + place(left, left * dma)[0]) / 2
    points = [
        Point(label, *place(x, y), x, y, number) for number, (label, x, y) in enumerate(found, 1)
    ]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "roof": " ".join(f"{x:.1f},{y:.1f}" for x, y in corners),
        "issue_y": corners[1][1],
        "slope": (slope, (corners[0][1] + corners[1][1]) / 2),
        "issue": issue,
        "least": least,
        "dma": dma,
        "x_ticks": [(place(10.0**e, 10.0 ** ys[0])[0], _power(e)) for e in range(xs[0], xs[1] + 1)],
        "y_ticks": [(place(10.0 ** xs[0], 10.0**e)[1], _power(e)) for e in range(ys[0], ys[1] + 1)],
        "points": points,
        "numbers": _numbers(points),
    }


def _numbers(points: Sequence[Point]) -> list[tuple[float, float, str]]:
    """Where the numbers of points stand; points on one spot share a place."""
    spots: list[tuple[Point, list[str]]] = []
    for point in points:
        for first, numbers in spots:
            if abs(first.x - point.x) < NEAR and abs(first.y - point.y) < NEAR:
                numbers.append(str(point.number))
                break
        else:
            spots.append((point, [str(point.number)]))
    return [(first.x, first.y, ", ".join(numbers)) for first, numbers in spots]


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten around some values, at least one apart."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def _power(exponent: int) -> str:
    if exponent < 0:
        return f"{10.0**exponent:g}"
    unit = {0: "", 1: " k", 2: " M", 3: " G"}.get(exponent // 3, "")
    return f"{10 ** (exponent % 3)}{unit}" if exponent < 12 else f"1e{exponent}"
