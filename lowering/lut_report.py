"""
A conversion to tables at a glance: `report.html`, one file that needs no network.

Its source is what `inr-lut` writes into `report.json`. The picture has two fields, error against
predicted cost on logarithmic axes: each layer with each setting that was looked at, and the whole
model with the Pareto front of all combinations of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

WIDTH, HEIGHT = 560, 380
"""Pixels of a field, with the margin that the numbers stand in."""

LEFT, RIGHT, TOP, BOTTOM = 64, 14, 12, 44


@dataclass(frozen=True)
class Tick:
    """A number at an axis, and how far along it is, in pixels of the field."""

    at: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A point: `kind` is its class in the style sheet, `title` what hovering over it says."""

    x: float
    y: float
    kind: str
    title: str
    chosen: bool


@dataclass(frozen=True)
class Field:
    """One coordinate system with what is drawn in it."""

    caption: str
    x_label: str
    y_label: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    marks: list[Mark]
    line: str
    """An SVG path, the front; may be empty."""
    dense: float | None = None
    """Where the cost of the model without tables lies; no error, no point on such an axis."""


def render_lut_report(report: Mapping[str, Any]) -> str:
    """The page of a `report.json` of `inr-lut`."""
    environment = Environment(
        loader=PackageLoader("inr.lowering"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    settings = sorted({c["setting"] for c in report["candidates"]} - {"dense"})
    kinds = {setting: f"s{i % 8}" for i, setting in enumerate(settings)}
    kinds["dense"] = "dense"
    fields = [_layers(report, kinds), _whole(report)]
    return environment.get_template("lut_report.html.j2").render(
        report=report,
        fields=[f for f in fields if f is not None],
        kinds=kinds,
        size=(WIDTH, HEIGHT),
        frame=(LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM),
        worst=max((layer["rel_mse"] or 0.0 for layer in report["layers"]), default=0.0),
        seconds=readable_seconds,
    )


def readable_seconds(value: float) -> str:
    """Three digits in the unit that suits: `12.3 µs`."""
    for factor, unit in ((1e-6, "µs"), (1e-3, "ms")):
        if value < 1000 * factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} s"


def _layers(report: Mapping[str, Any], kinds: Mapping[str, str]) -> Field | None:
    """Each layer with each setting; a dense layer has no error and no place on such an axis."""
    points = [c for c in report["candidates"] if c["rel_mse"] > 0 and c["cost_seconds"] > 0]
    if not points:
        return None
    across = _Axis([p["cost_seconds"] for p in points], LEFT, WIDTH - RIGHT)
    down = _Axis([p["rel_mse"] for p in points], HEIGHT - BOTTOM, TOP)
    marks = [
        Mark(
            across.place(p["cost_seconds"]),
            down.place(p["rel_mse"]),
            kinds[p["setting"]],
            f"{p['layer']}\n{p['setting']}{', chosen' if p['chosen'] else ''}\n"
            f"relative error {p['rel_mse']:.3g}, {readable_seconds(p['cost_seconds'])}",
            p["chosen"],
        )
        # What was chosen is drawn last, on top.
        for p in sorted(points, key=lambda p: p["chosen"])
    ]
    return Field(
        "Each layer",
        "predicted cost",
        "relative error of the layer's output, held out",
        across.ticks(readable_seconds),
        down.ticks(_number),
        marks,
        "",
    )


def _whole(report: Mapping[str, Any]) -> Field | None:
    """The front of the whole model, in predicted errors, and what was chosen."""
    front = [p for p in report["front"] if p["error"] > 0 and p["cost_seconds"] > 0]
    chosen = report["chosen"]
    measured = report["model"]["error"]
    points = [(p["cost_seconds"], p["error"]) for p in front]
    marked: list[tuple[float, float, str, str]] = []
    if chosen["error"] is not None and chosen["error"] > 0:
        marked.append((chosen["cost_seconds"], chosen["error"], "predicted", "predicted"))
    if measured > 0:
        marked.append((chosen["cost_seconds"], measured, "measured", "measured on held-out data"))
    everything = [*points, *((x, y) for x, y, _, _ in marked)]
    if not everything:
        return None
    dense = report["dense_seconds"]
    costs = [*(x for x, _ in everything), *([dense] if dense > 0 else [])]
    across = _Axis(costs, LEFT, WIDTH - RIGHT)
    down = _Axis([y for _, y in everything], HEIGHT - BOTTOM, TOP)
    marks = [
        Mark(
            across.place(p["cost_seconds"]),
            down.place(p["error"]),
            "front",
            f"error {p['error']:.3g} predicted, {readable_seconds(p['cost_seconds'])}\n{p['what']}",
            False,
        )
        for p in front
    ]
    marks += [
        Mark(
            across.place(x),
            down.place(y),
            kind,
            f"this model: error {y:.3g} {words}, {readable_seconds(x)}",
            True,
        )
        for x, y, kind, words in marked
    ]
    return Field(
        "The whole model",
        "predicted cost",
        "error of the model's output",
        across.ticks(readable_seconds),
        down.ticks(_number),
        marks,
        _steps([(across.place(x), down.place(y)) for x, y in sorted(points)]),
        across.place(dense) if dense > 0 else None,
    )


def _steps(points: Sequence[tuple[float, float]]) -> str:
    """A staircase: up to the cost of a point, the error of the one before it is the best."""
    if not points:
        return ""
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    path += [f"H{x:.1f}V{y:.1f}" for x, y in points[1:]]
    return "".join(path)


def _number(value: float) -> str:
    return f"{value:.3g}" if value >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")


class _Axis:
    """A logarithmic axis over positive values, from pixel `start` to pixel `end`."""

    def __init__(self, values: Sequence[float], start: float, end: float):
        low, high = log10(min(values)), log10(max(values))
        # A margin, and some width where all values are one.
        room = max(0.06 * (high - low), 0.05)
        self.low, self.high = low - room, high + room
        self.start, self.end = start, end

    def place(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, label: Any) -> list[Tick]:
        """Powers of ten, with 2 and 5 between where there are few, or more where there are none."""
        for digits in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
            found = [
                digit * 10.0**power
                for power in range(floor(self.low), ceil(self.high) + 1)
                for digit in digits
                if self.low <= log10(digit) + power <= self.high
            ]
            if len(found) >= 3:
                break
        else:
            middle = (self.low + self.high) / 2
            found = found or [10**middle]
        every = ceil(len(found) / 8)
        return [Tick(self.place(value), label(value)) for value in found[::every]]
