"""The simulation runtime: bounded FIFOs, fibers, and what it says at the end."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import inr
import pytest
from inr.runtime.toolchain import compile_program

HLS = Path(inr.__path__[0]) / "runtime" / "hls"

# One program, a scenario an argument. `gather` reads all of its input before it writes, so the
# direct branch of `branches` has to hold the array meanwhile.
GATHER = r"""
#include <hls_stream.h>

#include "inr/kernels.hpp"

typedef inr::block<float, 1> one;
const int n = 16;

void gather(hls::stream<one>& in, hls::stream<one>& out) {
  one all[n];
  for (int i = 0; i < n; ++i) all[i] = in.read();
  for (int i = 0; i < n; ++i) out.write(all[n - 1 - i]);
}
"""

PROGRAM = r"""
#include <hls_stream.h>

#include "inr/kernels.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

typedef inr::block<float, 1> one;
typedef ap_fixed<8, 4, AP_RND, AP_SAT> small;
const int n = 16;

void gather(hls::stream<one>& in, hls::stream<one>& out);  // in the other source file

void join(hls::stream<one>& a, hls::stream<one>& b, hls::stream<one>& out) {
  for (int i = 0; i < n; ++i) {
    one sum;
    sum.lane[0] = a.read().lane[0] + b.read().lane[0];
    out.write(sum);
  }
}

template <int DEPTH>
void branches(const float* x, float* y) {
  hls::stream<one> source("source");
  hls::stream<one, 2> to_gather("to_gather");
  hls::stream<one, DEPTH> direct("direct");
  hls::stream<one, 2> late("late");
  hls::stream<one, 2> sum("sum");
  INR_REGION("branches");
  INR_PROCESS("read_x", inr::read<float, 1, n>(x, source));
  INR_PROCESS("fork", inr::copy<float, 1, n>(source, to_gather, direct));
  INR_PROCESS("gather", gather(to_gather, late));
  INR_PROCESS("join", join(late, direct, sum));
  INR_PROCESS("write_y", inr::write<float, 1, n>(sum, y));
}

void run_branches(int depth) {
  float x[n], y[n];
  for (int i = 0; i < n; ++i) x[i] = float(i);
  if (depth == 2) branches<2>(x, y);
  if (depth == n - 2) branches<n - 2>(x, y);
  if (depth == n - 1) branches<n - 1>(x, y);
  for (int i = 0; i < n; ++i) {
    if (y[i] != n - 1) std::exit(1);
  }
}

template <int READ>
void reader(hls::stream<one>& in) {
  for (int i = 0; i < READ; ++i) in.read();
}

template <int READ>
void rates(const float* x) {
  hls::stream<one, 8> between("between");
  INR_REGION("rates");
  INR_PROCESS("producer", inr::read<float, 1, n>(x, between));
  INR_PROCESS("consumer", reader<READ>(between));
}

void halve(hls::stream<inr::block<ap_fixed<16, 12>, 2> >& in,
           hls::stream<inr::block<small, 2> >& out) {
  for (int i = 0; i < n / 2; ++i) {
    const inr::block<ap_fixed<16, 12>, 2> wide = in.read();
    inr::block<small, 2> narrow;
    for (int lane = 0; lane < 2; ++lane) narrow.lane[lane] = inr::narrow<small>(wide.lane[lane]);
    out.write(narrow);
  }
}

void overflows() {
  std::int32_t x[n], y[n];
  for (int i = 0; i < n; ++i) x[i] = i << 4;  // i, of which 8 .. 15 do not fit
  for (int run = 0; run < 2; ++run) {
    hls::stream<inr::block<ap_fixed<16, 12>, 2>, 2> wide("wide");
    hls::stream<inr::block<small, 2>, 4> narrow("narrow");
    INR_REGION("overflows");
    INR_PROCESS("read_x", inr::read<ap_fixed<16, 12>, 2, n>(x, wide));
    INR_PROCESS("clip", halve(wide, narrow));
    INR_PROCESS("write_y", inr::write<small, 2, n>(narrow, y));
  }
}

void shared() {
  float x[n];
  hls::stream<one, 2 * n> both("both");
  INR_REGION("shared");
  INR_PROCESS("first", inr::read<float, 1, n>(x, both));
  INR_PROCESS("second", inr::read<float, 1, n>(x, both));
  INR_PROCESS("consumer", reader<2 * n>(both));
}

void external() {
  hls::stream<one> in("in"), out("out");
  for (int i = 0; i < n; ++i) {
    one value;
    value.lane[0] = float(i);
    in.write(value);
  }
  {
    INR_REGION("external");
    INR_EXTERNAL(out);
    INR_PROCESS("reverse", gather(in, out));
  }
  for (int i = 0; i < n; ++i) {
    if (out.read().lane[0] != n - 1 - i) std::exit(1);
  }
  if (!in.empty() || !out.empty()) std::exit(1);
}

// A process that is a region itself; its parts take over its streams.
void inner(hls::stream<one>& in, hls::stream<one>& out) {
  hls::stream<one, 2> middle("middle");
  INR_REGION("inner");
  INR_PROCESS("front", gather(in, middle));
  INR_PROCESS("back", gather(middle, out));
}

template <int DEPTH>
void nested() {
  float x[n], y[n];
  for (int i = 0; i < n; ++i) x[i] = float(i);
  {
    hls::stream<one, 2> source("source"), twice("twice"), sum("sum"), to_inner("to_inner");
    hls::stream<one, DEPTH> direct("direct");
    INR_REGION("nested");
    INR_PROCESS("read_x", inr::read<float, 1, n>(x, source));
    INR_PROCESS("fork", inr::copy<float, 1, n>(source, to_inner, direct));
    INR_PROCESS("outer", inner(to_inner, twice));
    INR_PROCESS("join", join(twice, direct, sum));
    INR_PROCESS("write_y", inr::write<float, 1, n>(sum, y));
  }
  for (int i = 0; i < n; ++i) {
    if (y[i] != 2 * i) std::exit(1);
  }
}

// Two processes that wait for a token from each other: no depth helps.
void pass(hls::stream<one>& in, hls::stream<one>& out) {
  for (int i = 0; i < n; ++i) out.write(in.read());
}
void circle() {
  hls::stream<one, 2> left("left"), right("right");
  INR_REGION("circle");
  INR_PROCESS("one", pass(left, right));
  INR_PROCESS("two", pass(right, left));
}

void huge(hls::stream<one>& in, hls::stream<one>& out) {
  volatile char buffer[1 << 20];
  for (int i = 0; i < (1 << 20); i += 4096) buffer[i] = 1;
  for (int i = 0; i < n; ++i) {
    one value = in.read();
    value.lane[0] *= buffer[4096 * i];
    out.write(value);
  }
}
void stack() {
  float x[n] = {0};
  hls::stream<one, 2> in("in"), out("out");
  INR_REGION("stack");
  INR_PROCESS("read_x", inr::read<float, 1, n>(x, in));
  INR_PROCESS("buffers", huge(in, out));
  INR_PROCESS("consumer", reader<n>(out));
}

// Nobody takes the products before all rows are given away.
template <int ROWS>
void give(hls::stream<one>& rows, hls::stream<one>& done) {
  one value;
  value.lane[0] = 1;
  for (int i = 0; i < ROWS * n; ++i) rows.write(value);
  done.write(value);
}
template <int ROWS>
void take(hls::stream<one>& done, hls::stream<one>& products) {
  done.read();
  for (int i = 0; i < ROWS * n; ++i) products.read();
}
template <int ROWS>
void row_buffers() {
  static const float weights[n][n] = {{0}};
  hls::stream<one, 2> rows("rows"), done("done"), products("products");
  INR_REGION("row_buffers");
  INR_PROCESS("give", give<ROWS>(rows, done));
  INR_PROCESS("product", inr::matmul<1, ROWS, n, n, 1, 1, 1, 1, float>(weights, rows, products));
  INR_PROCESS("take", take<ROWS>(done, products));
}

int main(int, char** arguments) {
  const char* scenario = arguments[1];
  float x[n] = {0};
  if (std::strncmp(scenario, "branches", 8) == 0) run_branches(std::atoi(scenario + 8));
  if (std::strcmp(scenario, "unread") == 0) rates<n - 3>(x);
  if (std::strcmp(scenario, "starved") == 0) rates<n + 1>(x);
  if (std::strcmp(scenario, "overflows") == 0) overflows();
  if (std::strcmp(scenario, "shared") == 0) shared();
  if (std::strcmp(scenario, "external") == 0) external();
  if (std::strcmp(scenario, "nested2") == 0) nested<2>();
  if (std::strcmp(scenario, "nested16") == 0) nested<n>();
  if (std::strcmp(scenario, "circle") == 0) circle();
  if (std::strcmp(scenario, "stack") == 0) stack();
  if (std::strcmp(scenario, "rows2") == 0) row_buffers<2>();
  if (std::strcmp(scenario, "rows3") == 0) row_buffers<3>();
  std::puts("end of main");
}
"""


def build(*options: str) -> Path:
    """Two translation units, as a design and its testbench are."""
    warnings = ["-Wall", "-Wextra", "-Wno-unknown-pragmas"]
    # The default constructors of ap_types read their own member.
    warnings += ["-Wno-uninitialized", "-Wno-maybe-uninitialized"]
    sources = {"program.cpp": PROGRAM, "gather.cpp": GATHER}
    return compile_program(sources, *warnings, *options, f"-I{HLS / 'sim'}")


@pytest.fixture(scope="module")
def program() -> Path:
    return build("-O1")


def run(
    program: Path, scenario: str, **environment: str
) -> tuple[subprocess.CompletedProcess[str], dict]:
    report = program.parent / f"{scenario}.json"
    report.unlink(missing_ok=True)
    ended = subprocess.run(
        [str(program), scenario],
        env={**os.environ, "INR_SIM_REPORT": str(report), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ended, json.loads(report.read_text())


def test_a_fifo_that_is_too_shallow_deadlocks_and_the_cycle_is_named(program: Path):
    ended, report = run(program, "branches2")
    assert ended.returncode == 3
    assert "end of main" not in ended.stdout
    message = ended.stderr.splitlines()
    assert message[0].startswith("DEADLOCK in region 'branches'")
    assert (
        "  process 'fork' waits to write FIFO 'direct': full, depth 2, 0 tokens passed; "
        "its reader is 'join'" in message
    )
    assert (
        "  process 'join' waits to read FIFO 'late': empty, depth 2, 0 tokens passed; "
        "its writer is 'gather'" in message
    )
    assert (
        "  cycle: 'fork' -[direct full]-> 'join' -[late empty]-> 'gather' "
        "-[to_gather empty]-> 'fork'" in message
    )
    assert report["verdict"] == "deadlock"


def test_the_verdict_changes_at_the_least_depth(program: Path):
    # `fork` writes a token to `gather` before the direct branch: with all 16 of them `gather`
    # begins to write, and then 15 are on the direct branch.
    shallow, _ = run(program, "branches14")
    assert shallow.returncode == 3
    enough, report = run(program, "branches15")
    assert enough.returncode == 0, enough.stderr
    assert report["verdict"] == "finished"


def fifos(report: dict) -> dict[str, dict]:
    (region,) = report["regions"]
    return {fifo["name"]: fifo for fifo in region["fifos"]}


def test_growing_finds_the_least_depth_and_leaves_the_others(program: Path):
    ended, report = run(program, "branches2", INR_SIM_GROW="1")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines() == [
        "FIFO 'direct' of region 'branches': depth 2 is declared, 15 is needed"
    ]
    depths = {name: fifo["final_depth"] for name, fifo in fifos(report).items()}
    assert depths == {"source": 2, "to_gather": 2, "direct": 15, "late": 2, "sum": 2}


def test_the_report_has_every_fifo_and_process(program: Path):
    _, report = run(program, "branches15")
    (region,) = report["regions"]
    assert region["name"] == "branches"
    assert region["runs"] == 1
    assert region["seconds"] > 0
    assert [process["name"] for process in region["processes"]] == [
        "read_x",
        "fork",
        "gather",
        "join",
        "write_y",
    ]
    assert fifos(report)["direct"] == {
        "name": "direct",
        "bits": 32,
        "declared_depth": 15,
        "final_depth": 15,
        "maximum_occupancy": 15,
        "tokens": 16,
    }


def test_unread_tokens_are_an_error_that_names_the_fifo(program: Path):
    ended, report = run(program, "unread")
    assert ended.returncode == 4
    assert "3 of 16 tokens unread in FIFO 'between'" in ended.stderr
    assert "written by 'producer' and read by 'consumer'" in ended.stderr
    assert report["verdict"] == "unread tokens"
    assert fifos(report)["between"]["tokens"] == 16


@pytest.mark.parametrize("environment", [{}, {"INR_SIM_GROW": "1"}])
def test_a_consumer_that_wants_more_than_was_produced(program: Path, environment: dict[str, str]):
    ended, _ = run(program, "starved", **environment)
    assert ended.returncode == 3
    assert "FIFO 'between': empty, depth 8, 16 tokens passed" in ended.stderr
    assert "its writer 'producer' has finished" in ended.stderr


@pytest.mark.parametrize("environment", [{}, {"INR_SIM_GROW": "1"}])
def test_a_cycle_without_a_full_fifo_is_fatal(program: Path, environment: dict[str, str]):
    ended, _ = run(program, "circle", **environment)
    assert ended.returncode == 3
    assert "cycle: 'one' -[left empty]-> 'two' -[right empty]-> 'one'" in ended.stderr
    assert "no FIFO on it is full" in ended.stderr


def test_overflows_are_counted_for_the_process_over_all_runs(program: Path):
    ended, report = run(program, "overflows")
    assert ended.returncode == 0
    assert "process 'clip' of region 'overflows': 16 values did not fit" in ended.stderr
    (region,) = report["regions"]
    assert region["runs"] == 2
    counts = {process["name"]: process["overflows"] for process in region["processes"]}
    assert counts == {"read_x": 0, "clip": 16, "write_y": 0}
    assert fifos(report)["wide"]["bits"] == 32
    assert fifos(report)["narrow"]["bits"] == 16
    assert fifos(report)["narrow"]["tokens"] == 16


def test_two_writers_of_a_fifo(program: Path):
    ended, _ = run(program, "shared")
    assert ended.returncode == 4
    assert "FIFO 'both' is written by two processes, 'first' and 'second'" in ended.stderr


def test_streams_of_the_caller_are_not_bounded(program: Path):
    ended, _ = run(program, "external")
    assert ended.returncode == 0, ended.stderr


def test_a_region_inside_a_process(program: Path):
    deadlocked, _ = run(program, "nested2")
    assert deadlocked.returncode == 3
    assert (
        "cycle: 'fork' -[direct full]-> 'join' -[twice empty]-> 'outer/back' "
        "-[middle empty]-> 'outer/front' -[to_inner empty]-> 'fork'" in deadlocked.stderr
    )
    ended, _ = run(program, "nested16")
    assert ended.returncode == 0, ended.stderr
    grown, _ = run(program, "nested2", INR_SIM_GROW="1")
    assert grown.returncode == 0
    assert "FIFO 'direct' of region 'nested': depth 2 is declared, 15 is needed" in grown.stderr


def test_a_matmul_holds_two_rows(program: Path):
    ended, report = run(program, "rows2")
    assert ended.returncode == 0, ended.stderr
    assert set(fifos(report)) == {"rows", "done", "products"}
    deadlocked, _ = run(program, "rows3")
    assert deadlocked.returncode == 3
    assert "process 'product/load' waits to write FIFO 'row buffers': full" in deadlocked.stderr
    # The buffers are part of the kernel; the FIFO before it is what can be deeper.
    grown, report = run(program, "rows3", INR_SIM_GROW="1")
    assert grown.returncode == 0
    depths = {name: fifo["final_depth"] for name, fifo in fifos(report).items()}
    assert depths["done"] == 2
    assert max(depths["rows"], depths["products"]) > 2


def test_buffers_that_do_not_fit_the_stack(program: Path):
    ended = subprocess.run(
        [str(program), "stack"],
        env={**os.environ, "INR_SIM_STACK_KB": "256"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 4
    assert "the buffers of process 'buffers' do not fit its stack of 256 KB" in ended.stderr
    enough, _ = run(program, "stack")
    assert enough.returncode == 0, enough.stderr


def test_fortified_and_optimised_builds_switch_between_fibers():
    program = build("-O2", "-D_FORTIFY_SOURCE=2")
    ended, _ = run(program, "nested16")
    assert ended.returncode == 0, ended.stderr
    deadlocked, _ = run(program, "branches2")
    assert deadlocked.returncode == 3
