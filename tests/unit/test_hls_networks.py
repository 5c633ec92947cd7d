"""The deadlock verdict on arbitrary networks against a simulation that steps every process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import inr
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inr.runtime.toolchain import compile_program

HLS = Path(inr.__path__[0]) / "runtime" / "hls"

# A network that is read from standard input: per process up to four FIFOs and what it does to them.
NETWORK = r"""
#include <hls_stream.h>

#include <cstdio>
#include <memory>
#include <vector>

struct fifo : hls::stream<int> {
  fifo(const std::string& name, int depth) : hls::stream<int>(name, depth) {}
};

struct step {
  bool write;
  int port;
};

struct script {
  std::vector<step> steps;
  int fifos[4];
};

void play(const script& steps, fifo* a, fifo* b, fifo* c, fifo* d) {
  fifo* ports[4] = {a, b, c, d};
  for (const step& next : steps.steps) {
    if (next.write) {
      ports[next.port]->write(1);
    } else {
      ports[next.port]->read();
    }
  }
}

int number() {
  int value;
  if (std::scanf("%d", &value) != 1) std::abort();
  return value;
}

int main() {
  std::vector<std::unique_ptr<fifo> > fifos(number());
  for (std::size_t i = 0; i < fifos.size(); ++i) {
    fifos[i].reset(new fifo(std::to_string(i), number()));
  }
  std::vector<script> scripts(number());
  for (script& each : scripts) {
    for (int& which : each.fifos) which = number();
    each.steps.resize(number());
    for (step& next : each.steps) {
      next.write = number() != 0;
      next.port = number();
    }
  }
  inr::sim::region network("network");
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    const script* steps = &scripts[i];
    fifo* ends[4];
    for (int k = 0; k < 4; ++k) {
      ends[k] = steps->fifos[k] < 0 ? nullptr : fifos[steps->fifos[k]].get();
    }
    fifo *a = ends[0], *b = ends[1], *c = ends[2], *d = ends[3];
    network.add(std::to_string(i).c_str(), [=] { play(*steps, a, b, c, d); });
  }
}
"""


def build() -> Path:
    """The program that reads a network and runs it."""
    warnings = ["-Wall", "-Wextra", "-Wno-unknown-pragmas"]
    # The default constructors of ap_types read their own member.
    warnings += ["-Wno-uninitialized", "-Wno-maybe-uninitialized"]
    return compile_program({"network.cpp": NETWORK}, *warnings, "-O1", f"-I{HLS / 'sim'}")


@dataclass
class Network:
    """Processes as lists of (writes, FIFO); FIFO f has the depth ``depths[f]``."""

    depths: list[int]
    processes: list[list[tuple[bool, int]]]

    def text(self) -> str:
        lines = [f"{len(self.depths)} {' '.join(map(str, self.depths))}", str(len(self.processes))]
        for steps in self.processes:
            fifos = sorted({fifo for _, fifo in steps})
            ports = [*fifos, -1, -1, -1, -1][:4]
            moves = " ".join(f"{int(write)} {fifos.index(fifo)}" for write, fifo in steps)
            lines.append(f"{' '.join(map(str, ports))} {len(steps)} {moves}")
        return "\n".join(lines) + "\n"

    def finishes(self, depths: Sequence[float]) -> bool:
        """Step every process in turn until nothing moves."""
        filled = [0] * len(depths)
        at = [0] * len(self.processes)
        moved = True
        while moved:
            moved = False
            for number, steps in enumerate(self.processes):
                if at[number] == len(steps):
                    continue
                write, fifo = steps[at[number]]
                if filled[fifo] >= depths[fifo] if write else filled[fifo] == 0:
                    continue
                filled[fifo] += 1 if write else -1
                at[number] += 1
                moved = True
        return at == [len(steps) for steps in self.processes]


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Each FIFO carries the same number of tokens in as out, in an arbitrary order of moves."""
    processes: list[list[tuple[bool, int]]] = [[] for _ in range(draw(st.integers(2, 4)))]
    ends = st.permutations(range(len(processes))).map(lambda order: order[:2])
    depths = []
    for fifo in range(draw(st.integers(1, 5))):
        writer, reader = draw(ends.filter(lambda pair: all(room(processes[p]) for p in pair)))
        tokens = draw(st.integers(1, 6))
        processes[writer] += [(True, fifo)] * tokens
        processes[reader] += [(False, fifo)] * tokens
        depths.append(draw(st.integers(1, 3)))
    return Network(depths, [draw(st.permutations(steps)) for steps in processes])


def room(steps: list[tuple[bool, int]]) -> bool:
    return len({fifo for _, fifo in steps}) < 4


@pytest.fixture(scope="module")
def network_program() -> Path:
    return build()


@given(networks())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_verdict_is_that_of_a_stepwise_simulation(network_program: Path, network: Network):
    report = network_program.parent / "network.json"
    environment = {**os.environ, "INR_SIM_REPORT": str(report)}
    outcomes = []
    for grow in ("0", "1"):
        ended = subprocess.run(
            [str(network_program)],
            input=network.text(),
            env={**environment, "INR_SIM_GROW": grow},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        outcomes.append((ended.returncode, json.loads(report.read_text())))
    assert outcomes[0][0] == (0 if network.finishes(network.depths) else 3)
    unbounded = [float("inf")] * len(network.depths)
    assert outcomes[1][0] == (0 if network.finishes(unbounded) else 3)
    if outcomes[1][0] != 0:
        return
    (region,) = outcomes[1][1]["regions"]
    by_name = {fifo["name"]: fifo["final_depth"] for fifo in region["fifos"]}
    depths = [by_name[str(fifo)] for fifo in range(len(network.depths))]
    assert network.finishes(depths)
    grown = [fifo for fifo, depth in enumerate(depths) if depth > network.depths[fifo]]
    if len(grown) == 1:
        depths[grown[0]] -= 1
        assert not network.finishes(depths)
