"""
Running the token RTL of networks in Verilator.

A build takes seconds and a small network runs in microseconds, so one build serves many: each is
a module of its own, all run on the same clock, and each says when it is done or stuck. Builds are
kept in the cache by the content of what went into them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..analysis.network import Network
from ..errors import CompileError
from ..lowering.token_rtl import fifo_instances, module_names, token_rtl
from .toolchain import cache_folder, fingerprint

FLAGS = ("-O3", "-fno-table", "--x-assign", "fast", "--x-initial", "fast", "--noassert")
"""Tables in place of the state machines' case statements take minutes to make."""

QUICK_BUILD = ("-fno-inline", "-MAKEFLAGS", "OPT_FAST=-O0 OPT_GLOBAL=-O0")
FAST_RUN = ("-MAKEFLAGS", "OPT_FAST=-O1 OPT_GLOBAL=-O1")

BATCH = 400
"""Processes in a quick build. Without inlining each is several source files, and the make file of
Verilator names them all in one command."""

LINT = ("-Wall", "-Wno-DECLFILENAME", "-Wno-UNUSED", "-Wno-WIDTH")

MAIN = """\
#include "V.h"
#include "verilated.h"

int main(int argc, char** argv) {
  VerilatedContext context;
  context.commandArgs(argc, argv);
  V top(&context);
  top.rst = 1;
  for (int edge = 0; edge < 4; ++edge) {
    top.clk = edge & 1;
    top.eval();
  }
  top.rst = 0;
  while (!context.gotFinish()) {
    top.clk = 0;
    top.eval();
    top.clk = 1;
    top.eval();
  }
  return 0;
}
"""


@dataclass(frozen=True)
class RtlRun:
    """How the simulation of a network ended."""

    cycles: int | None
    """The cycle of the last stage, counted from 1; None for a deadlock."""
    occupancy: tuple[int, ...]
    """Tokens that each FIFO holds at the end: all 0 where the run finished."""

    @property
    def deadlock(self) -> bool:
        """True where some process has not finished and none can ever go on."""
        return self.cycles is None


@cache
def find_verilator() -> str:
    """
    The simulator (`VERILATOR` where set, else `verilator`) of this machine.

    Raises CompileError that says what to install.
    """
    found = shutil.which(os.environ.get("VERILATOR", "verilator"))
    if found is None:
        raise CompileError(
            "no verilator found to simulate the token RTL; install it (Debian: apt install "
            "verilator) or set VERILATOR"
        )
    return found


@cache
def _version(verilator: str) -> str:
    done = subprocess.run([verilator, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def simulate(
    networks: Sequence[Network], limit: int = 1_000_000_000, *, long: bool = False
) -> list[RtlRun]:
    """
    Run networks at their depths.

    A `long` run is one that is worth a slower build. Raises CompileError where a network is
    neither done nor stuck after `limit` cycles, and where there is no Verilator.
    """
    runs: list[RtlRun] = []
    for batch in _batches(networks):
        numbered = {str(i): network for i, network in enumerate(batch)}
        design, names = token_rtl(numbered), module_names(numbered)
        quick = not long and sum(len(n.processes) for n in batch) <= BATCH
        executable = build(design, testbench(names, batch), QUICK_BUILD if quick else FAST_RUN)
        runs += _run(executable, len(batch), limit)
    return runs


def _batches(networks: Sequence[Network]) -> Iterator[list[Network]]:
    """The networks in their order, in groups of up to `BATCH` processes."""
    batch: list[Network] = []
    for network in networks:
        if batch and sum(len(n.processes) for n in (*batch, network)) > BATCH:
            yield batch
            batch = []
        batch.append(network)
    if batch:
        yield batch


def _run(executable: Path, count: int, limit: int) -> list[RtlRun]:
    """What a testbench of some networks prints."""
    done = subprocess.run(
        [str(executable), f"+limit={limit}"], capture_output=True, text=True, check=True
    )
    runs: dict[int, RtlRun] = {}
    for line in done.stdout.splitlines():
        match line.split():
            case ["RESULT", index, verdict, cycles, *occupancy]:
                runs[int(index)] = RtlRun(
                    int(cycles) if verdict == "1" else None, tuple(map(int, occupancy))
                )
            case _:
                pass
    if len(runs) < count:
        raise CompileError(
            f"token-rtl: {count - len(runs)} of {count} networks were neither done nor stuck "
            f"after {limit} cycles"
        )
    return [runs[i] for i in range(count)]


def testbench(names: Sequence[str], networks: Sequence[Network]) -> str:
    """Verilog that runs all networks and prints a line for each when it ends."""
    lines = [
        "module testbench (input wire clk, input wire rst);",
        "  reg [63:0] tick;",
        "  reg [63:0] limit;",
        '  initial if (!$value$plusargs("limit=%d", limit)) limit = 64\'d1000000000;',
    ]
    count = len(names)
    lines += [
        f"  wire [{count - 1}:0] done;",
        f"  wire [{count - 1}:0] stuck;",
        f"  reg [{count - 1}:0] reported;",
    ]
    for index, name in enumerate(names):
        lines += [
            f"  wire [63:0] cycles_{index};",
            f"  {name} top_{index} (.clk(clk), .rst(rst), .done(done[{index}]), "
            f".stuck(stuck[{index}]), .cycles(cycles_{index}));",
        ]
    lines += [
        "  always @(posedge clk) begin",
        "    if (rst) begin",
        "      tick <= 0;",
        "      reported <= 0;",
        "    end else begin",
        "      tick <= tick + 1;",
        "      reported <= reported | done | stuck;",
        "      if (&reported || tick == limit) $finish;",
    ]
    for index, network in enumerate(networks):
        stored = [f"top_{index}.{fifo}.stored" for fifo in fifo_instances(network)]
        values = ", ".join([f"done[{index}]", f"cycles_{index}", *stored])
        text = " ".join(["RESULT", str(index), "%0d", "%0d", *["%0d"] * len(stored)])
        lines += [
            f"      if (!reported[{index}] && (done[{index}] || stuck[{index}]))",
            f'        $display("{text}", {values});',
        ]
    lines += ["    end", "  end", "endmodule", ""]
    return "\n".join(lines)


def lint(design: str, top: str) -> str:
    """What Verilator warns of in a design; empty for a clean one."""
    with tempfile.TemporaryDirectory(prefix="inr-") as name:
        source = Path(name) / "design.v"
        source.write_text(design)
        done = subprocess.run(
            [find_verilator(), "--lint-only", *LINT, "--top-module", top, str(source)],
            capture_output=True,
            text=True,
        )
    return done.stderr


def build(design: str, bench: str, options: Sequence[str] = QUICK_BUILD) -> Path:
    """
    The executable that simulates a testbench.

    Raises CompileError with the tool's words where it does not take the Verilog.
    """
    verilator = find_verilator()
    texts = {"design.v": design, "testbench.v": bench, "main.cpp": MAIN}
    key = fingerprint(
        [_version(verilator).encode(), " ".join((*FLAGS, *options)).encode()]
        + [part.encode() for name, text in texts.items() for part in (name, text)]
    )
    executable = cache_folder() / "token-rtl" / key
    if executable.exists():
        return executable
    with tempfile.TemporaryDirectory(prefix="inr-") as name:
        folder = Path(name)
        for path, text in texts.items():
            (folder / path).write_text(text)
        command = [
            verilator,
            "--cc",
            "--exe",
            "--build",
            *FLAGS,
            "-Wno-fatal",
            "-Wno-WIDTH",
            *options,
            *("--top-module", "testbench", "--prefix", "V"),
            *("--Mdir", str(folder / "build")),
            *map(str, (folder / "design.v", folder / "testbench.v", folder / "main.cpp")),
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode:
            raise CompileError(f"verilator does not take the token RTL:\n{done.stderr[:2000]}")
        executable.parent.mkdir(parents=True, exist_ok=True)
        staged = executable.with_name(f".{key}-{os.getpid()}")
        shutil.copy2(folder / "build" / "V", staged)
        staged.rename(executable)
    return executable
