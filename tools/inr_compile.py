"""`inr-compile`: a PyTorch model to a checked project, for FPGAs (HLS) or for UPMEM DPUs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CompileError
from .inr_compile_upmem import add_upmem_arguments, compile_for_upmem
from .inr_import import add_model_arguments

if TYPE_CHECKING:
    from rich.console import Console

    from ..runtime.compiler import Compiled, HlsOptions


def main(arguments: Sequence[str] | None = None) -> int:
    """The tool; returns the exit status: 1, with one message on stderr, for bad input."""
    parser, _ = _parser()
    options = parser.parse_args(arguments)
    try:
        _refuse_others(options, arguments)
        report = compile_for_upmem(options) if options.target == "upmem" else _compile(options)
    except CompileError as error:
        print(f"inr-compile: error: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(report, indent=2))
    return 0


def _refuse_others(options: argparse.Namespace, arguments: Sequence[str] | None) -> None:
    """Raises CompileError where an option of another target is given."""
    parser, owners = _parser()
    for actions in owners.values():
        for action in actions:
            # Then an option that is not given is not there.
            action.default = argparse.SUPPRESS
    given = vars(parser.parse_args(arguments))
    for target, actions in owners.items():
        wrong = [a.option_strings[0] for a in actions if a.dest in given]
        if target != options.target and wrong:
            raise CompileError(
                f"{', '.join(wrong)}: only with --target {target}; this is --target "
                f"{options.target}"
            )


def _compile(options: argparse.Namespace) -> dict[str, Any]:
    # Imported here: `inr-compile --help` must not wait for torch.
    from rich.console import Console
    from xdsl.printer import Printer

    from ..lowering.hls_project import refuse_existing, write_project
    from ..runtime.toolchain import find_toolchain

    console = Console(stderr=True, quiet=options.quiet or options.json)
    settings = _settings(options)
    # What can be refused is refused before any work is done.
    if options.out is not None:
        refuse_existing(options.out, force=options.force)
    if settings.check:
        find_toolchain()
    seconds: dict[str, float] = {}
    compiled = _run(options, settings, console, seconds)
    compiled.report["seconds"] = {**seconds, **compiled.report["seconds"]}
    compiled.texts["report.json"] = json.dumps(compiled.report, indent=2) + "\n"
    text = StringIO()
    Printer(stream=text).print_op(compiled.module)
    compiled.texts["design.mlir"] = f"{text.getvalue()}\n"
    if options.out is not None:
        write_project(compiled.texts, options.out, force=options.force)
    _show(console, compiled, options.out)
    return compiled.report


def _settings(options: argparse.Namespace) -> HlsOptions:
    from ..analysis.targets import find_part
    from ..runtime.compiler import HlsOptions

    find_part(options.part)
    if options.alpha < 0:
        raise CompileError(f"--alpha {options.alpha}: a design is never faster than unbounded")
    if not 0 < options.fill <= 1:
        raise CompileError(f"--fill {options.fill}: a share of the part, above 0 and up to 1")
    if options.lanes is not None and options.lanes < 1:
        raise CompileError(f"--lanes {options.lanes}: a design has at least one")
    if options.clock <= 0:
        raise CompileError(f"--clock {options.clock}: the period is a positive number of ns")
    if options.tolerance is not None and options.mode == "float":
        raise CompileError("--tolerance chooses fixed-point widths; it goes with --mode fixed")
    if options.domain is not None and not options.domain[0] < options.domain[1]:
        raise CompileError("--domain takes two numbers, the lower one first")
    return HlsOptions(
        mode=options.mode,
        activation=options.activation,
        weight=options.weight,
        guard=options.guard,
        tolerance=options.tolerance,
        domain=tuple(options.domain) if options.domain is not None else None,
        samples=options.samples,
        calibration=options.calibration,
        part=options.part,
        clock=options.clock,
        fill=options.fill,
        lanes=options.lanes,
        alpha=options.alpha,
        objective=options.objective,
        check=options.check,
    )


def _run(
    options: argparse.Namespace, settings: HlsOptions, console: Console, seconds: dict[str, float]
) -> Compiled:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:

        @contextmanager
        def stage(name: str) -> Iterator[None]:
            task = progress.add_task(name, total=None)
            try:
                yield
            finally:
                progress.remove_task(task)

        with stage("import"):
            start = time.perf_counter()
            from ..frontend.importer import import_torch
            from ..frontend.spec import load_spec

            spec = load_spec(options.spec)
            imported = import_torch(
                spec.callable,
                spec.example_inputs,
                name=spec.name,
                order=options.order,
                outputs=options.outputs,
            )
            inputs = [x.detach().double().numpy() for x in spec.example_inputs]
            seconds["import"] = round(time.perf_counter() - start, 4)
        for note in imported.notes:
            console.print(f"note: {note}", style="yellow")
        from ..runtime.compiler import compile_hls

        with stage("reference"):
            start = time.perf_counter()
            reference = imported.reference(inputs)
            seconds["reference"] = round(time.perf_counter() - start, 4)
        compiled = compile_hls(imported.module, inputs, reference, settings, stage)
        compiled.report["notes"] = imported.notes
        return compiled


def _show(console: Console, compiled: Compiled, out: Path | None) -> None:
    """The report as tables."""
    from rich.table import Table

    report = compiled.report
    graph = Table(title=f"{report['name']}: graph")
    for heading in ("after", "nodes", "matmuls"):
        graph.add_column(heading, justify="left" if heading == "after" else "right")
    for step, size in report["graph"].items():
        graph.add_row(step, str(size["nodes"]), str(size["matmuls"]))
    console.print(graph)
    streams, timing, fifo = report["streams"], report["timing"], report["fifo"]
    console.print(
        f"{streams['processes']} processes, {fifo['count']} FIFOs of {fifo['elements']} elements "
        f"({fifo['bits']} bits; no sizing needs fewer than {fifo['lower_bound']:.0f})"
    )
    console.print(
        f"{timing['cycles']} cycles a batch ({timing['microseconds']:.1f} µs), "
        f"{timing['lanes']} lanes for {timing['macs']} multiply-accumulates; "
        f"{timing['cycles_unbounded']} cycles with unbounded FIFOs, floor {timing['floor']}"
    )
    used = ", ".join(
        f"{kind} {amount} ({report['resources']['fraction'][kind]:.0%})"
        for kind, amount in report["resources"]["used"].items()
    )
    console.print(f"of {report['part']}: {used}")
    if (widths := report["widths"]) is not None:
        console.print(
            f"{widths['activation']}-bit activations by {widths['weight']}-bit weights: "
            f"{widths['dsp_per_product']} DSP a product"
        )
    kinds = [k for k in ("float", "fixed") if any(k in e for e in report["accuracy"].values())]
    if kinds:
        table = Table(title="error of the C++ against PyTorch in float64")
        table.add_column("output", no_wrap=True)
        for kind in kinds:
            for heading in ("max", "mean / largest"):
                table.add_column(f"{kind}: {heading}", justify="right")
        for name, entry in report["accuracy"].items():
            cells = [f"{entry[kind][key]:.2e}" for kind in kinds for key in ("max_abs", "relative")]
            table.add_row(name, *cells)
        console.print(table)
    for kind, overflows in report["overflows"].items():
        for process, count in overflows.items():
            console.print(
                f"note: {count} values did not fit their format in {process} ({kind}); "
                "give more guard bits or a wider calibration",
                style="yellow",
            )
    total = sum(report["seconds"].values())
    console.print(f"{total:.1f} s in all")
    if out is not None:
        console.print(f"wrote {out}", style="green")


def _parser() -> tuple[argparse.ArgumentParser, dict[str, list[argparse.Action]]]:
    """The parser, and the options that only one target has."""
    parser = argparse.ArgumentParser(
        prog="inr-compile",
        description="Compiles a PyTorch function, or a model and its derivatives, to a streaming "
        "HLS C++ project; or a model with layers of tables to a program for UPMEM DPUs. Either is "
        "simulated and compared with PyTorch.",
    )
    derivatives = add_model_arguments(parser)
    parser.add_argument(
        "--target", choices=("hls", "upmem"), default="hls", help="what to make (default: hls)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the project folder to write")
    parser.add_argument("--force", action="store_true", help="replace an existing --out")
    parser.add_argument(
        "--no-check",
        dest="check",
        action="store_false",
        help="write the project without simulating it",
    )
    parser.add_argument("--json", action="store_true", help="print report.json, nothing else")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    hls = [*derivatives, *_add_hls_arguments(parser)]
    return parser, {"hls": hls, "upmem": add_upmem_arguments(parser)}


def _add_hls_arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    group = parser.add_argument_group("HLS", "with --target hls")
    add = group.add_argument
    return [
        add("--part", default="xcu50", help="the device (default: xcu50)"),
        add("--clock", type=float, default=3.33, metavar="NS", help="clock period (default: 3.33)"),
        add("--lanes", type=int, metavar="N", help="at most N multiply-accumulate units"),
        add(
            "--fill",
            type=float,
            default=0.8,
            metavar="SHARE",
            help="share of the part that processes may take (default: 0.8)",
        ),
        add(
            "--alpha",
            type=float,
            default=0.01,
            metavar="A",
            help="how much slower than with unbounded FIFOs, as a fraction (default: 0.01)",
        ),
        add(
            "--objective",
            choices=("bits", "bram", "weighted"),
            default="bits",
            help="what FIFOs take the least of (default: bits)",
        ),
        add("--mode", choices=("fixed", "float"), default="fixed", help="numbers (default: fixed)"),
        add("--activation", type=int, default=27, metavar="BITS"),
        add("--weight", type=int, default=18, metavar="BITS"),
        add(
            "--guard", type=int, default=1, metavar="BITS", help="integer bits above what was seen"
        ),
        add(
            "--tolerance",
            type=float,
            metavar="E",
            help="choose the cheapest widths whose mean error stays below E of each output's "
            "largest value",
        ),
        add(
            "--domain",
            type=float,
            nargs=2,
            metavar=("LOW", "HIGH"),
            help="where the inputs lie (default: the range of the example inputs)",
        ),
        add("--samples", type=int, default=512, help="rows to measure ranges on (default: 512)"),
        add("--calibration", type=Path, metavar="FILE.npz", help="inputs to measure ranges on"),
    ]


if __name__ == "__main__":
    sys.exit(main())
