"""`inr-compile --target upmem`: a converted PyTorch model to a program for UPMEM."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CompileError

if TYPE_CHECKING:
    from rich.console import Console

    from ..runtime.deployment import UpmemOptions


def add_upmem_arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The options that only this target has; returns them."""
    group = parser.add_argument_group("UPMEM", "with --target upmem")
    return [
        group.add_argument(
            "--tables",
            type=Path,
            metavar="FOLDER",
            help="what inr-lut wrote for this model; without it the factory returns a converted "
            "model",
        ),
        group.add_argument(
            "--machine",
            default="v1A",
            metavar="NAME",
            help="v1A, v1B, pim-dl, or a .toml file that describes another (default: v1A)",
        ),
        group.add_argument(
            "--dpus", type=int, metavar="N", help="DPUs to use (default: all of the machine)"
        ),
        group.add_argument(
            "--rows",
            type=int,
            default=1024,
            metavar="N",
            help="rows of a launch, which mappings are chosen for (default: 1024)",
        ),
        group.add_argument(
            "--mapping",
            default="",
            metavar="FIELDS",
            help='fields of the mapping that hold for all layers: "order=nfc load=coarse"',
        ),
        group.add_argument(
            "--groups",
            type=int,
            metavar="G",
            help="groups of ranks that transfer and run in turn (default: 1)",
        ),
        group.add_argument(
            "--explain", action="store_true", help="say why each kind of layer has its mapping"
        ),
    ]


def compile_for_upmem(options: argparse.Namespace) -> dict[str, Any]:
    """Compiles, writes, shows; returns the report. Raises CompileError."""
    from rich.console import Console

    from ..analysis.upmem_target import find_target
    from ..lowering.hls_project import refuse_existing, write_project
    from ..lowering.upmem_report import render_upmem_report
    from ..runtime.upmem_build import find_dpu_toolchain, host_compiler

    console = Console(stderr=True, quiet=options.quiet or options.json)
    # What can be refused is refused before any work is done.
    if options.out is not None:
        refuse_existing(options.out, force=options.force)
    settings = _settings(options)
    find_target(settings.machine)
    if options.check:
        try:
            find_dpu_toolchain()
            host_compiler()
        except CompileError as error:
            raise CompileError(f"{error}, or give --no-check to write the project only") from None
    with _progress(console) as stage:
        start = time.perf_counter()
        with stage("load"):
            from ..runtime.upmem_compiler import compile_upmem, load_converted

            model = load_converted(options.spec, options.tables)
        seconds = time.perf_counter() - start
        compiled = compile_upmem(
            model.converted,
            model.inputs,
            model.name,
            settings,
            original=model.original,
            check=options.check,
            explained=options.explain,
            stage=stage,
        )
    report = compiled.report
    report["seconds"] = {"load": round(seconds, 4), **report["seconds"]}
    if compiled.explained:
        report["explained"] = compiled.explained
    files = dict(compiled.files)
    files["report.json"] = json.dumps(report, indent=2, allow_nan=False) + "\n"
    files["report.html"] = render_upmem_report(report)
    if options.out is not None:
        try:
            write_project(files, options.out, force=options.force, headers=False)
        except OSError as error:
            raise CompileError(f"cannot write {options.out}: {error.strerror}") from error
    _show(console, report, options.out)
    return report


def _settings(options: argparse.Namespace) -> UpmemOptions:
    from ..analysis.upmem_mapping import parse_fields
    from ..runtime.deployment import UpmemOptions

    mapping = options.mapping
    fixed = parse_fields(mapping)
    if options.groups is not None:
        if options.groups < 1:
            raise CompileError(f"--groups {options.groups}: at least one")
        if "groups" in fixed:
            raise CompileError("--groups and the groups of --mapping: give one of them")
        mapping = f"{mapping} groups={options.groups}"
    return UpmemOptions(options.machine, options.dpus, options.rows, mapping)


@contextmanager
def _progress(console: Console) -> Iterator[Any]:
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

        yield stage


def _show(console: Console, report: dict[str, Any], out: Path | None) -> None:
    from rich.markup import escape
    from rich.table import Table

    for text in report.get("explained", {}).values():
        console.print(escape(text), highlight=False, soft_wrap=True)
    emulated = (report["emulated"] or {}).get("layers", {})
    table = Table(title=f"{report['name']}: {report['rows']} rows on {report['dpus']} DPUs")
    table.add_column("layer", overflow="fold", min_width=12)
    for heading in ("size", "index", "kernel", "output", "emulated", "ratio"):
        table.add_column(heading, justify="right")
    for name, cost in report["predicted"]["layers"].items():
        size = report["layers"][name]
        run = emulated.get(name)
        table.add_row(
            escape(name),
            f"{size['inputs']}→{size['features']}",
            *(f"{cost[f'{part}_ms']:.3f}" for part in ("index", "kernel", "output")),
            f"{run['kernel_ms']:.3f}" if run else "",
            f"{run['ratio']:.2f}" if run else "",
        )
    console.print(table)
    total = report["predicted"]["total"]
    console.print(
        f"predicted {total['total_ms']:.2f} ms for all layers one after the other, "
        f"{total['kernel_ms']:.2f} of it kernels; times in ms, of one launch, modelled"
    )
    if report["accuracy"] is not None:
        for other, found in report["accuracy"]["model"].items():
            what = "the converted model" if other == "converted" else "the original"
            console.print(
                f"whole model on emulated DPUs against {what} in PyTorch: largest difference "
                f"{found['max_abs']:.2e}, {found['relative']:.2e} of the largest value"
            )
        console.print(
            f"all sums of {len(report['layers'])} layers equal; no fault with checks for "
            f"{report['checked']['checks']}"
        )
    console.print(f"{sum(report['seconds'].values()):.1f} s in all")
    if out is not None:
        console.print(f"wrote {out}", style="green")
