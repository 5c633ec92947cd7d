"""`inr-report`: a project's report again, with what Vitis HLS says beside the estimate."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import CompileError


def main(arguments: Sequence[str] | None = None) -> int:
    """The tool; returns the exit status: 1, with one message on stderr, for bad input."""
    parser = argparse.ArgumentParser(
        prog="inr-report",
        description="Rewrites report.json and report.html of a project that inr-compile wrote; "
        "after `vitis_hls -f run_hls.tcl` the synthesis report stands beside the estimate.",
    )
    parser.add_argument("project", type=Path, metavar="DIR", help="the project folder")
    parser.add_argument(
        "--csynth",
        type=Path,
        metavar="PATH",
        help="a csynth.xml, or a folder that has one (default: look in the project)",
    )
    options = parser.parse_args(arguments)
    try:
        _report(options.project, options.csynth)
    except CompileError as error:
        print(f"inr-report: error: {error}", file=sys.stderr)
        return 1
    return 0


def _report(project: Path, csynth: Path | None) -> None:
    from ..lowering.csynth_report import read_csynth
    from ..lowering.hls_cpp import build_design
    from ..lowering.html_report import gather_details, render_report

    try:
        report: dict[str, Any] = json.loads((project / "report.json").read_text())
        text = (project / "design.mlir").read_text()
    except (OSError, ValueError) as error:
        raise CompileError(f"{project} is not a project of inr-compile: {error}") from error
    function = _function(text, project / "design.mlir")
    from ..analysis.targets import find_part

    part = find_part(report["part"])
    if csynth is not None or any(project.rglob("csynth.xml")):
        found = read_csynth(csynth or project)
        report["csynth"] = {
            "part": found.part,
            "version": found.version,
            "clock_ns": found.top.clock,
            "latency": list(found.top.latency),
            "used": asdict(found.top.resources),
        }
    (project / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    details = gather_details(function, build_design(function), part)
    (project / "report.html").write_text(render_report(report, details))
    _show(report)


def _function(text: str, path: Path) -> Any:
    from xdsl.context import Context
    from xdsl.dialects.arith import Arith
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func
    from xdsl.dialects.math import Math
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError

    from ..dialects.array_stream import ArrayStream
    from ..dialects.inr import Inr
    from ..interpreters.graph import find_function

    ctx = Context()
    for dialect in (ArrayStream, Arith, Builtin, Func, Inr, Math):
        ctx.load_dialect(dialect)
    try:
        return find_function(Parser(ctx, text, str(path)).parse_module())
    except ParseError as error:
        raise CompileError(str(error)) from error


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{report['name']} on {report['part']}")
    columns = ("", "estimate", "csynth") if "csynth" in report else ("", "estimate")
    for heading in columns:
        table.add_column(heading, justify="left" if not heading else "right")
    rows: dict[str, list[object]] = {"cycles": [report["timing"]["cycles"]]}
    rows |= {kind: [amount] for kind, amount in report["resources"]["used"].items()}
    if (csynth := report.get("csynth")) is not None:
        low, high = csynth["latency"]
        rows["cycles"].append(high if low == high else f"{low} to {high}")
        for kind, amount in csynth["used"].items():
            rows[kind].append(amount)
    for name, cells in rows.items():
        table.add_row(name, *map(str, cells))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
