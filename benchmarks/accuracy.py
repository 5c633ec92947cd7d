"""
How exact fixed-point hardware is, and what each choice in it is worth.

    python benchmarks/accuracy.py [--order 0 1 2] [--check] [--json]

For the SIREN 2-256×4-3 of `examples/zoo/siren.py:image` and its derivatives: the mean |error| of
each output against PyTorch in float64, divided by the output's largest magnitude, in groups (the
value, the first, the second derivatives); the worst output of a group and the mean over it. The
numbers come from the integer model, which the generated C++ equals bit for bit; `--check` builds
and runs the C++ of two of the configurations and holds it against the model.

The second table starts from 32-bit streams and weights and switches on, one by one and then
together, what the published INR-Arch design does with ap_fixed<32, 10>: one format for
everything, truncation, products truncated before they are added, and ω₀ outside the weights.
(Its sine, which quantises the angle's step, is not among them: ours is in all rows. Its
numbers wrap where they overflow; here they saturate, which is kinder, and the last column counts
them.) A product's DSPs are those of a DSP48E2.

All orders take some minutes, most of them in the sweep; `--no-sweep` leaves it out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from inr.analysis.dsp import dsp_of_product
from inr.analysis.fixed import Format, to_real
from inr.analysis.formats import fixed_type, format_of, stream_format
from inr.dialects import array_stream
from inr.dialects.array_stream import FORMAT, FixedType, stream_type
from inr.errors import CompileError
from inr.frontend.importer import import_torch
from inr.frontend.spec import load_spec
from inr.interpreters.fixed_stream import Saturation, run_fixed
from inr.interpreters.graph import find_function
from inr.interpreters.measure import Ranges, measure_ranges, sample_inputs
from inr.lowering.hls_cpp import build_design
from inr.lowering.hls_project import Batch, render
from inr.passes.array_stream_assign_formats import (
    Widths,
    assign_fixed,
    output_streams,
    search_widths,
)
from inr.passes.array_stream_fuse import ArrayStreamFusePass
from inr.passes.array_stream_insert_copies import ArrayStreamInsertCopiesPass
from inr.passes.array_stream_size_fifos import ArrayStreamSizeFifosPass
from inr.passes.convert_inr_to_array_stream import ConvertInrToArrayStreamPass
from inr.passes.inr_hls_pipeline import graph_passes
from inr.passes.inr_simplify import InrSimplifyPass
from inr.runtime.simulate import build, run
from inr.runtime.toolchain import find_toolchain
from rich.console import Console
from rich.table import Table
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

SIREN = Path(__file__).parents[1] / "examples" / "zoo" / "siren.py"
PUBLISHED = Format(32, 10, "trn", "sat")
"""The published design's one format."""
GROUPS = ("value", "first", "second")
FOUND = "for 1e-3"
BOUNDS = {"32/32": 5e-5, "27/18": 5e-3, FOUND: 1e-3}
"""What each configuration must reach in every output."""
SWEEP_ACTIVATIONS = (16, 18, 20, 22, 24, 27, 32)
SWEEP_WEIGHTS = (12, 14, 16, 18, 24, 32)


@dataclass
class Subject:
    """A network's derivatives at stream level, with float64 streams, and the truth."""

    module: ModuleOp
    inputs: list[np.ndarray]
    reference: list[np.ndarray]
    groups: list[str]
    """Which of GROUPS each output belongs to."""

    def copy(self) -> Subject:
        """The same with a module of its own."""
        return replace(self, module=self.module.clone())

    def ranges(self) -> Ranges:
        """As `inr-compile` measures them: on the batch, and on 512 rows of the inputs' range."""
        function = find_function(self.module)
        domains = [(float(x.min()), float(x.max())) for x in self.inputs]
        batches = [self.inputs, *sample_inputs(function, domains, 512)]
        return measure_ranges(self.module, batches)


@cache
def subject(order: int, *, unfolded: bool = False) -> Subject:
    """The SIREN at an order; `unfolded` keeps ω₀ and 2/π as multiplications of their own."""
    spec = load_spec(f"{SIREN}:image")
    model = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=order)
    inputs = [x.double().numpy() for x in spec.example_inputs]
    ctx = Context()
    for each in graph_passes():
        if unfolded and isinstance(each, InrSimplifyPass):
            each = InrSimplifyPass(quarter_turns=False, fold_scales=False)
        each.apply(ctx, model.module)
    ConvertInrToArrayStreamPass().apply(ctx, model.module)
    ArrayStreamFusePass().apply(ctx, model.module)
    groups = [_group(name) for name in model.output_names]
    return Subject(model.module, inputs, model.reference(inputs), groups)


def _group(output: str) -> str:
    """`y0` is a value, `dy0_dx1` a first derivative, `d2y0_dx0x1` a second one."""
    if not output.startswith("d"):
        return "value"
    return "first" if output.startswith("dy") else "second"


# Configurations: each gives a copy of the subject its formats.


@dataclass(frozen=True)
class Choices:
    """How numbers are held: ours, and what the published design does otherwise."""

    activation: int = 32
    weight: int = 32
    one_format: bool = False
    """PUBLISHED's width and integer bits for every stream, value, weight and bias."""
    truncate: bool = False
    narrow_sum: bool = False
    """A product is truncated to PUBLISHED before it is added, and so is each sum."""
    unfolded: bool = False

    def apply(self, order: int) -> Subject:
        """The subject of an order with these formats."""
        result = subject(order, unfolded=self.unfolded).copy()
        function = find_function(result.module)
        assign_fixed(function, result.ranges(), Widths(self.activation, self.weight))
        if self.one_format:
            _edit_formats(result.module, lambda f: replace(f, width=32, integer=10))
        if self.truncate:
            _edit_formats(result.module, lambda f: replace(f, rounding="trn"))
        if self.narrow_sum:
            for op in result.module.walk():
                if isinstance(op, array_stream.MatmulOp):
                    op.accumulator = fixed_type(PUBLISHED)
        return result


def _edit_formats(module: ModuleOp, edit: Callable[[Format], Format]) -> None:
    """Change every format of streams, values in maps, weights and biases."""

    def edited(type_: FixedType) -> FixedType:
        return fixed_type(edit(format_of(type_)))

    for op in module.walk():
        if isinstance(format_ := op.attributes.get(FORMAT), FixedType):
            op.attributes[FORMAT] = edited(format_)
        if isinstance(op, array_stream.MatmulOp):
            op.weight_format = op.weight_format and edited(op.weight_format)
            op.bias_format = op.bias_format and edited(op.bias_format)
        if isinstance(op, array_stream.ProcessOp):
            for stream in op.output_streams:
                _edit_stream(stream, edited)


def _edit_stream(stream: SSAValue, edited: Callable[[FixedType], FixedType]) -> None:
    type_ = stream_type(stream)
    assert isinstance(type_.element, FixedType)
    Rewriter.replace_value_with_new_type(stream, type_.with_element(edited(type_.element)))


# Measurements.


@dataclass
class Measured:
    """Errors by group: (worst output, mean over the outputs)."""

    label: str
    order: int
    errors: dict[str, tuple[float, float]]
    overflows: int
    """Elements of all streams and values that did not fit."""
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def worst(self) -> float:
        """The largest of all outputs."""
        return max(worst for worst, _ in self.errors.values())


def measure(label: str, order: int, formatted: Subject) -> Measured:
    """Run the integer model and compare."""
    saturation = Saturation()
    words = run_fixed(formatted.module, formatted.inputs, saturation=saturation)
    streams = output_streams(find_function(formatted.module))
    by_group: dict[str, list[float]] = {}
    for stream, mantissas, want, group in zip(
        streams, words, formatted.reference, formatted.groups, strict=True
    ):
        error = np.abs(to_real(mantissas, stream_format(stream)) - want)
        by_group.setdefault(group, []).append(float(error.mean() / np.abs(want).max()))
    errors = {g: (max(e), sum(e) / len(e)) for g, e in by_group.items()}
    return Measured(label, order, errors, saturation.total())


def measure_ours(order: int) -> list[Measured]:
    """32/32, 27/18, and the widths found for a tolerance of 1e-3."""
    rows = [measure(f"{a}/{w}", order, Choices(a, w).apply(order)) for a, w in ((32, 32), (27, 18))]
    found = subject(order).copy()
    function = find_function(found.module)
    ranges = found.ranges()
    widths = search_widths(found.module, function, ranges, found.inputs, 1e-3)
    assign_fixed(function, ranges, widths)
    rows.append(measure(FOUND, order, found))
    rows[-1].details = {"activation": widths.activation, "weight": widths.weight}
    for row, (a, w) in zip(
        rows, ((32, 32), (27, 18), (widths.activation, widths.weight)), strict=True
    ):
        row.details = {
            "activation": a,
            "weight": w,
            "dsp_per_product": dsp_of_product(a, w),
            "bound": BOUNDS[row.label],
        }
    return rows


SWITCHED = {
    "ours, 32/32": Choices(),
    "one format <32, 10>": Choices(one_format=True),
    "truncation": Choices(truncate=True),
    "narrow sums <32, 10>": Choices(narrow_sum=True),
    "ω₀ outside the weights": Choices(unfolded=True),
    "all four": Choices(one_format=True, truncate=True, narrow_sum=True, unfolded=True),
}


def measure_sweep(order: int) -> dict[tuple[int, int], float]:
    """The worst output at each pair of an activation's and a weight's bits."""
    return {
        (a, w): measure("", order, Choices(a, w).apply(order)).worst
        for a in SWEEP_ACTIVATIONS
        for w in SWEEP_WEIGHTS
    }


def confirm(order: int, choices: Choices) -> None:
    """
    Build and run the generated C++. Raises CompileError where a word differs from the model.
    """
    formatted = choices.apply(order)
    expected = run_fixed(formatted.module, formatted.inputs)
    ctx = Context()
    for each in (ArrayStreamInsertCopiesPass(), ArrayStreamSizeFifosPass("safe")):
        each.apply(ctx, formatted.module)
    design = build_design(find_function(formatted.module))
    texts = render(design, Batch(formatted.inputs, expected, formatted.reference))
    simulation = run(build(texts, find_toolchain()), design)
    if not simulation.outputs:
        raise CompileError(f"the simulation failed:\n{simulation.text}")
    for port, got, want in zip(design.outputs, simulation.outputs, expected, strict=True):
        if not np.array_equal(got.ravel(), np.ravel(want)):
            raise CompileError(f"the C++ differs from the integer model in {port.name}")


# Tables.


def error_table(title: str, rows: Sequence[Measured], *, ours: bool) -> Table:
    """Errors by group; with `ours`, the bound and the DSPs of a product beside them."""
    table = Table(title=title)
    table.add_column("streams/weights" if ours else "numbers", no_wrap=True)
    for group in rows[0].errors:
        table.add_column(f"{group}: worst (mean)", justify="right", no_wrap=True)
    for heading in ("required", "DSPs") if ours else ("did not fit",):
        table.add_column(heading, justify="right")
    for row in rows:
        cells = [f"{worst:.1e} ({mean:.1e})" for worst, mean in row.errors.values()]
        if ours:
            d = row.details
            met = "" if row.worst <= d["bound"] else " MISSED"
            cells += [f"≤ {d['bound']:.0e}{met}", str(d["dsp_per_product"])]
            chosen = f": {d['activation']}/{d['weight']}" if row.label == FOUND else ""
            table.add_row(row.label + chosen, *cells)
        else:
            table.add_row(row.label, *cells, str(row.overflows))
    return table


def sweep_table(order: int, sweep: dict[tuple[int, int], float]) -> Table:
    """Bits of activations down, of weights across; the DSPs of a product in brackets."""
    table = Table(title=f"order {order}: worst output by bits (DSPs a product)")
    table.add_column("streams \\ weights", justify="right")
    for w in SWEEP_WEIGHTS:
        table.add_column(str(w), justify="right")
    for a in SWEEP_ACTIVATIONS:
        cells = [f"{sweep[a, w]:.1e} ({dsp_of_product(a, w)})" for w in SWEEP_WEIGHTS]
        table.add_row(str(a), *cells)
    return table


def _as_json(row: Measured) -> dict[str, Any]:
    return {
        "numbers": row.label,
        "errors": {g: {"worst": w, "mean": m} for g, (w, m) in row.errors.items()},
        "overflows": row.overflows,
        **row.details,
    }


def main() -> int:
    """The command line; 1 where a required bound is missed or the C++ differs."""
    parser = argparse.ArgumentParser(description="Error of fixed-point hardware, by choice.")
    parser.add_argument("--order", type=int, nargs="+", default=[0, 1, 2], choices=(0, 1, 2))
    parser.add_argument("--check", action="store_true", help="hold the C++ against the model")
    parser.add_argument("--no-sweep", dest="sweep", action="store_false")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON only")
    options = parser.parse_args()
    # In a file, as wide as the tables need.
    width = None if sys.stdout.isatty() else 120
    console = Console(stderr=options.json, width=width)
    report: dict[str, Any] = {}
    missed = False
    for order in options.order:
        ours = measure_ours(order)
        missed |= any(row.worst > row.details["bound"] for row in ours)
        console.print(error_table(f"order {order}: mean |error| / max |value|", ours, ours=True))
        switched = [measure(k, order, c.apply(order)) for k, c in SWITCHED.items()]
        title = f"order {order}: the published choices, one by one"
        console.print(error_table(title, switched, ours=False))
        entry: dict[str, Any] = {
            "ours": [_as_json(r) for r in ours],
            "switched": [_as_json(r) for r in switched],
        }
        if options.sweep:
            sweep = measure_sweep(order)
            console.print(sweep_table(order, sweep))
            entry["sweep"] = [
                {"activation": a, "weight": w, "worst": e} for (a, w), e in sweep.items()
            ]
        report[str(order)] = entry
    if options.check:
        for label in ("ours, 32/32", "all four"):
            confirm(1, SWITCHED[label])
            console.print(f"order 1, {label}: the C++ equals the model in every word")
    if options.json:
        print(json.dumps(report, indent=2))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
