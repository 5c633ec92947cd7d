"""`inr-dpu-run`: builds a host program and its DPU programs, runs them on the emulator."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import CompileError

CHECKS = ("races", "mram-reads", "uninitialised", "dma-window", "host", "all")
ROWS = 24
"""Launches that the table shows before it sums up the rest."""

EPILOG = """\
Each DPU argument is one binary: a C file, several joined by '+', or name=file.c+file.c; its name is
the first file's without suffix. The host program gets the first one's path as the macro DPU_BINARY
(unless it defines that itself) and those of all as DPU_BINARY_<NAME>. Whatever path it gives to
dpu_load, a built binary with the same file name is loaded, or the only one there is.

The exit status is the host program's; 1 if it ends well although a DPU was in fault."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The tool; returns the host program's exit status, or 1 with one message for bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # What follows -- is the host program's, options included.
    split = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(given[:split])
    try:
        return _run(options, given[split + 1 :])
    except CompileError as error:
        print(f"inr-dpu-run: error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="inr-dpu-run",
        description="Builds host C and UPMEM device C and runs them on the DPU emulator.",
        usage="%(prog)s [options] HOST.c DPU.c [DPU.c ...] [-- arguments of the host program]",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("host", metavar="HOST.c", help="the host program; several files are joined by '+'")
    add("dpu", nargs="+", metavar="DPU.c", help="device programs")
    add("--tasklets", type=int, default=16, metavar="N", help="NR_TASKLETS of both (16)")
    add("--stack", type=int, default=None, metavar="BYTES", help="of each tasklet (1024)")
    add("--target", default=None, metavar="DPU", help="v1A (24 tasklets, 64 KB) or v1B (16, 62 KB)")
    add(
        "--check",
        default="",
        metavar="LIST",
        help=f"optional checks, slower: {', '.join(CHECKS)}",
    )
    add("--seed", type=int, default=None, metavar="N", help="a random order of tasklets")
    add("--hwmask", action="store_true", help="mask misaligned DMA as hardware does, not fault")
    add("--max-cycles", type=int, default=None, metavar="N", help="then a launch is a fault")
    add("--ranks", type=int, default=None, metavar="N", help="ranks of the machine (40)")
    add("--faulty", default=None, metavar="LIST", help="DPUs that do not work, as 3,70-71")
    add("--stats", action="store_true", help="a table of modelled cycles, slots and DMA at the end")
    add("--profile", action="store_true", help="the source lines that most slots went to")
    add("--sanitize", action="store_true", help="host program with ASan and UBSan")
    add("-D", dest="defines", action="append", default=[], metavar="MACRO", help="for both sides")
    add("-I", dest="includes", action="append", default=[], metavar="DIR", help="for both sides")
    add("--host-flags", default="", metavar="FLAGS", help="further arguments of the C compiler")
    add("--dpu-flags", default="", metavar="FLAGS", help="further arguments of clang")
    return parser


def _binaries(given: Sequence[str]) -> dict[str, list[str]]:
    """The DPU arguments as name -> source files."""
    binaries: dict[str, list[str]] = {}
    for argument in given:
        name, equals, files = argument.partition("=")
        sources = (files if equals else argument).split("+")
        name = name if equals else Path(sources[0]).stem
        if name in binaries:
            raise CompileError(
                f"two DPU programs are called '{name}'; give one another name: other={argument}"
            )
        binaries[name] = sources
    for source in (source for sources in binaries.values() for source in sources):
        if not Path(source).is_file():
            raise CompileError(f"no file {source}")
    return binaries


def _environment(options: argparse.Namespace) -> dict[str, str]:
    checks = [c for c in options.check.split(",") if c]
    for check in checks:
        if check not in CHECKS:
            raise CompileError(f"--check {check}: there are {', '.join(CHECKS)}")
    engine = [c for c in checks if c != "host"]
    values = {
        "INR_DPU_TARGET": options.target,
        "INR_DPU_CHECK": ",".join(engine) or None,
        "INR_DPU_ASYNC": "defer" if {"host", "all"} & set(checks) else None,
        "INR_DPU_SEED": options.seed,
        "INR_DPU_MASK": 1 if options.hwmask else None,
        "INR_DPU_MAX_CYCLES": options.max_cycles,
        "INR_DPU_STATS": 2 if options.profile else None,
        "INR_DPU_RANKS": options.ranks,
        "INR_DPU_FAULTY": options.faulty,
    }
    environment = dict(os.environ)
    environment |= {name: str(value) for name, value in values.items() if value is not None}
    if options.sanitize:
        # A program that ends need not free; what it must not do is read or write elsewhere.
        environment.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    return environment


def _run(options: argparse.Namespace, arguments: list[str]) -> int:
    from ..runtime.upmem_build import STACK_DEFAULT, DeviceOptions, device_program, host_program

    binaries = _binaries(options.dpu)
    hosts: list[str] = options.host.split("+")
    for source in hosts:
        if not Path(source).is_file():
            raise CompileError(f"no file {source}")
    environment = _environment(options)
    both = [f"-D{define}" for define in options.defines] + [f"-I{i}" for i in options.includes]
    device = DeviceOptions(
        tasklets=options.tasklets,
        stack=options.stack or STACK_DEFAULT,
        flags=(*both, *shlex.split(options.dpu_flags)),
        target=environment.get("INR_DPU_TARGET", "v1A"),
    )
    built = {name: device_program(sources, device) for name, sources in binaries.items()}

    flags = [*both, f"-DNR_TASKLETS={options.tasklets}", *shlex.split(options.host_flags)]
    for name, path in built.items():
        flags.append(f'-DDPU_BINARY_{re.sub(r"[^A-Z0-9]", "_", name.upper())}="{path}"')
    if not any(_defines_binary(Path(source).read_text(errors="replace")) for source in hosts):
        flags.append(f'-DDPU_BINARY="{next(iter(built.values()))}"')
    program = host_program(hosts, flags=flags, sanitize=options.sanitize)

    with tempfile.TemporaryDirectory(prefix="inr-dpu-") as folder:
        named = Path(folder) / "binaries"
        named.mkdir()
        for name, path in built.items():
            (named / name).symlink_to(path)
        report = Path(folder) / "report"
        environment |= {"INR_DPU_BINARIES": str(named), "INR_DPU_REPORT": str(report)}
        done = subprocess.run([program, *arguments], env=environment)
        lines = report.read_text().splitlines() if report.exists() else []
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    if options.stats:
        _print_statistics(entries)
    if options.profile:
        _print_profile(entries)
    if done.returncode < 0:
        print(f"inr-dpu-run: the host program died of signal {-done.returncode}", file=sys.stderr)
        return 128 - done.returncode
    faults = sum(entry.get("faults", 0) for entry in entries)
    if faults and done.returncode == 0:
        print(
            f"inr-dpu-run: error: {faults} DPUs were in fault, and the host program went on",
            file=sys.stderr,
        )
        return 1
    return done.returncode


def _defines_binary(text: str) -> bool:
    """Whether a source defines DPU_BINARY whatever the command line says."""
    return bool(re.search(r"^\s*#\s*define\s+DPU_BINARY\b", text, re.MULTILINE)) and not re.search(
        r"^\s*#\s*if(ndef\s+|\s+!\s*defined\s*\(?\s*)DPU_BINARY\b", text, re.MULTILINE
    )


def _print_statistics(entries: list[dict[str, Any]]) -> None:
    """Launches as a table on stderr, stdout is the host program's."""
    from rich.console import Console
    from rich.table import Table

    launches = [entry for entry in entries if "launch" in entry]
    table = Table(title="DPU launches (modelled, not measured)", title_justify="left")
    columns = ["launch", "DPUs", "tasklets", "cycles", "ms", "issued", "DMA busy", "DMA", "bytes"]
    for column in columns:
        table.add_column(column, justify="right")
    for launch in launches[:ROWS]:
        cycles = launch["cycles_max"]
        share = [f"{launch[k] / cycles:.0%}" if cycles else "" for k in ("slots", "dma_busy")]
        table.add_row(
            str(launch["launch"]),
            str(launch["dpus"]),
            str(launch["tasklets"]),
            f"{cycles:,}",
            f"{launch['ms']:.4f}",
            *share,
            f"{launch['dma_reads'] + launch['dma_writes']:,}",
            f"{launch['dma_read_bytes'] + launch['dma_write_bytes']:,}",
        )
    table.add_section()
    table.add_row(
        f"all {len(launches)}",
        "",
        "",
        f"{sum(launch['cycles_max'] for launch in launches):,}",
        f"{sum(launch['ms'] for launch in launches):.4f}",
    )
    console = Console(stderr=True)
    console.print(table)
    console.print(
        "cycles, issued (slots a cycle) and DMA busy are the slowest DPU's; DMA and bytes are all "
        "DPUs'"
    )
    for entry in entries:
        if "transfers" in entry:
            t = entry["transfers"]
            console.print(
                f"host transfers: {t['to_calls']:,} to DPUs of {t['to_bytes']:,} bytes, "
                f"{t['from_calls']:,} from DPUs of {t['from_bytes']:,} bytes"
            )


def _print_profile(entries: list[dict[str, Any]]) -> None:
    """The lines with most issue slots, of all DPUs and launches together."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    slots: Counter[tuple[str, int, str]] = Counter()
    for entry in entries:
        if "line_slots" in entry:
            slots[entry["file"], entry["line"], entry["function"]] += entry["line_slots"]
    total = slots.total()
    rows = [
        (
            f"{count:,}",
            f"{count / total:.1%}",
            f"{file}:{line}" if line else "no line",
            _source(file, line, function),
        )
        for (file, line, function), count in slots.most_common(ROWS)
    ]
    console = Console(stderr=True)
    table = Table(title="issue slots by source line (modelled)", title_justify="left")
    table.add_column("slots", justify="right")
    table.add_column("share", justify="right")
    table.add_column("where")
    table.add_column("line")
    # What gets shorter on a narrow terminal is the text of the lines.
    taken = 14 + sum(max((len(row[i]) for row in rows), default=0) for i in range(3))
    for row in rows:
        table.add_row(*row[:3], Text(row[3][: max(8, console.width - taken)]))
    console.print(table)
    if not slots:
        console.print("no launch has ended")


def _source(file: str, line: int, function: str) -> str:
    """A line's text, or for the runtime, whose files are not the user's, the function."""
    path = Path(file)
    if file.startswith("<") or not path.is_file():
        return function
    lines = path.read_text(errors="replace").splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else function


if __name__ == "__main__":
    sys.exit(main())
