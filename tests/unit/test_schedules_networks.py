"""
Cycles that a simulation counts against those of the event engine, on arbitrary networks: loops of
every kind, several FIFOs an iteration, shallow FIFOs, deadlocks.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from inr.analysis.event_engine import Engine
from inr.analysis.network import Fifo, Network, Process, Segment
from inr.runtime.simulate import FLAGS
from inr.runtime.toolchain import find_toolchain

HLS = Path(__file__).parents[2] / "runtime" / "hls"

# Reads a network; a process is a list of loops, each with the FIFOs of every iteration.
PROGRAM = r"""
#include <hls_stream.h>

#include <cstdio>
#include <memory>
#include <vector>

struct fifo : hls::stream<int> {
  fifo(const std::string& name, int depth) : hls::stream<int>(name, depth) {}
};

struct iteration {
  std::vector<fifo*> reads, writes;
};

struct steps {
  int kind, latency, interval;  // kind 0: no loop, one read or write after the other
  std::vector<iteration> iterations;
};

void play(const std::vector<steps>& loops) {
  for (const steps& each : loops) {
    if (each.kind == 0) {
      inr::sim::leave_loop();
    } else {
      inr::sim::enter_loop(inr::sim::loop(each.kind - 1), each.latency, each.interval);
    }
    for (const iteration& one : each.iterations) {
      if (each.kind != 0) inr::sim::start_iteration();
      for (fifo* from : one.reads) from->read();
      for (fifo* to : one.writes) to->write(1);
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
    fifos[i]->make_of(number() != 0 ? "srl" : "bram");
  }
  std::vector<std::vector<steps> > processes(number());
  for (std::vector<steps>& loops : processes) {
    loops.resize(number());
    for (steps& each : loops) {
      each.kind = number();
      each.latency = number();
      each.interval = number();
      each.iterations.resize(number());
      for (iteration& one : each.iterations) {
        for (std::vector<fifo*>* ends : {&one.reads, &one.writes}) {
          ends->resize(number());
          for (fifo*& end : *ends) end = fifos[number()].get();
        }
      }
    }
  }
  inr::sim::region network("network");
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const std::vector<steps>* loops = &processes[i];
    network.add(std::to_string(i).c_str(), [loops] { play(*loops); });
  }
}
"""

PLAIN, READS, WRITES, BOTH = range(4)
Iteration = tuple[tuple[int, ...], tuple[int, ...]]
"""The FIFOs that it reads and those that it writes."""


@dataclass
class Loop:
    kind: int
    latency: int
    interval: int
    iterations: list[Iteration] = field(default_factory=list)

    def stages(self) -> list[Segment]:
        """Its chain of stages, where it is one."""
        if self.kind == PLAIN:
            return [Segment(1, 1, 1, *i) for i in self.iterations]
        first = 1 + (self.latency if self.kind == WRITES else 0)
        stages = [Segment(1, 1, 1)]
        for n, (reads, writes) in enumerate(self.iterations):
            stages.append(Segment(1, self.interval if n else first, 1, reads, writes))
        if self.kind == READS and self.latency and self.iterations:
            stages.append(Segment(1, self.latency, 1))
        return stages


@dataclass
class Design:
    """FIFOs as (depth, made of shift registers), and the loops of each process."""

    fifos: list[tuple[int, bool]]
    processes: list[list[Loop]]

    def text(self) -> str:
        words: list[object] = [len(self.fifos)]
        for depth, registers in self.fifos:
            words += [depth, int(registers)]
        words.append(len(self.processes))
        for loops in self.processes:
            words.append(len(loops))
            for loop in loops:
                words += [loop.kind, loop.latency, loop.interval, len(loop.iterations)]
                for iteration in loop.iterations:
                    for ends in iteration:
                        words += [len(ends), *ends]
        return " ".join(map(str, words))

    def network(self) -> Network:
        fifos = [
            Fifo(str(n), 32, depth, "srl" if registers else "bram")
            for n, (depth, registers) in enumerate(self.fifos)
        ]
        processes: list[Process] = []
        for number, loops in enumerate(self.processes):
            stages: list[Segment] = []
            for loop in loops:
                if loop.kind != BOTH:
                    stages += loop.stages()
                    continue
                # The last loop: what it writes, only it does.
                depth = -(-(loop.latency + 1) // loop.interval)
                pipe = len(fifos)
                fifos.append(Fifo("pipeline", 1, depth, latency=loop.latency))
                stages.append(Segment(1, 1, 1))
                leave: list[Segment] = []
                for n, (reads, writes) in enumerate(loop.iterations):
                    gap = loop.interval if n else 1
                    stages.append(Segment(1, gap, 1, reads, (pipe,)))
                    leave.append(Segment(1, gap, 1, (pipe,), writes))
                processes.append(Process(f"{number}.out", tuple(leave)))
            processes.append(Process(str(number), tuple(stages)))
        return Network(tuple(processes), tuple(fifos))


def subset(random: Random, left: dict[int, int]) -> tuple[int, ...]:
    """Takes one token from some of the FIFOs that have any left."""
    found = [f for f, n in left.items() if n]
    chosen = random.sample(found, random.randint(0, len(found)))
    for f in chosen:
        left[f] -= 1
    return tuple(chosen)


def random_loops(
    random: Random, reads: dict[int, int], writes: dict[int, int], last_writes: dict[int, int]
) -> list[Loop]:
    """Loops in which every token is read and written, those of `last_writes` in the last."""
    loops: list[Loop] = []
    while any(writes.values()) or (any(reads.values()) and random.random() < 0.6):
        loop = Loop(
            random.choice([PLAIN, READS, WRITES]), random.randint(0, 5), random.randint(1, 3)
        )
        for _ in range(random.randint(1, 5)):
            if loop.kind == PLAIN:
                ends = [(reads, f) for f in reads if reads[f]]
                ends += [(writes, f) for f in writes if writes[f]]
                if not ends:
                    break
                left, end = random.choice(ends)
                left[end] -= 1
                loop.iterations.append(((end,), ()) if left is reads else ((), (end,)))
            elif loop.kind == READS:
                loop.iterations.append((subset(random, reads), ()))
            else:
                loop.iterations.append(((), subset(random, writes)))
        loops.append(loop)
    last = Loop(BOTH, random.randint(1, 6), random.randint(1, 3))
    while any(reads.values()) or any(last_writes.values()) or not last.iterations:
        last.iterations.append((subset(random, reads), subset(random, last_writes)))
    return [*loops, last]


def random_design(random: Random) -> Design:
    count = random.randint(2, 5)
    fifos: list[tuple[int, bool]] = []
    ends: list[list[dict[int, int]]] = [[{}, {}, {}] for _ in range(count)]
    for fifo in range(random.randint(1, 7)):
        writer, reader = sorted(random.sample(range(count), 2))
        registers = random.random() < 0.6
        depth = random.choice([1, 2, 3, 9]) if registers else random.choice([2, 3, 9])
        fifos.append((depth, registers))
        ends[reader][0][fifo] = ends[writer][random.choice([1, 2])][fifo] = random.randint(1, 9)
    return Design(fifos, [random_loops(random, *each) for each in ends])


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("networks")
    (folder / "networks.cpp").write_text(PROGRAM)
    toolchain = find_toolchain()
    program = folder / "networks"
    subprocess.run(
        [toolchain.compiler, *FLAGS, "-I", str(HLS / "sim"), "-I", str(HLS / "include"),
         str(folder / "networks.cpp"), "-o", str(program)],
        check=True,
    )  # fmt: skip
    return program


def finishes(design: Design, simulator: Path) -> bool:
    """The outcome, after comparing all cycles up to it."""
    report = simulator.with_suffix(".json")
    ended = subprocess.run(
        [str(simulator)],
        input=design.text(),
        env={**os.environ, "INR_SIM_TRACE": "1", "INR_SIM_REPORT": str(report)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found = json.loads(report.read_text())
    (region,) = found["regions"]
    fifos = {fifo["name"]: fifo for fifo in region["fifos"]}
    run = Engine(design.network()).run(record=range(len(design.fifos)))
    for number in range(len(design.fifos)):
        fifo = fifos.get(str(number), {"written_at": [], "read_at": []})
        assert fifo["written_at"] == run.written_at[number].tolist()
        assert fifo["read_at"] == run.read_at[number].tolist()
    if run.deadlock is not None:
        assert (ended.returncode, found["verdict"]) == (3, "deadlock")
        return False
    assert ended.returncode == 0, ended.stderr
    assert region["cycles"] == run.latency
    return True


def test_simulation_and_engine_agree_on_every_cycle(simulator: Path):
    outcomes = []
    for seed in range(200):
        try:
            outcomes.append(finishes(random_design(Random(seed)), simulator))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert 40 < sum(outcomes) < 160
