"""
The token RTL, simulated by Verilator, against the rules of time in two other forms: a simulation
cycle by cycle in Python, here, and the event engine.

All networks of this file share a few Verilator builds, because a build takes longer than all
the simulations.
"""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from inr.analysis.event_engine import Engine
from inr.analysis.network import (
    Body,
    Fifo,
    Network,
    Process,
    Repeat,
    Segment,
    flushable_pipeline,
    rigid_pipeline,
)
from inr.errors import CompileError
from inr.lowering.token_rtl import fifo_instances, module_names, token_rtl
from inr.runtime.verilator import RtlRun, lint, simulate

pytestmark = pytest.mark.skipif(
    shutil.which("verilator") is None, reason="verilator is not installed"
)

DATA = Path(__file__).parents[1] / "data"

COUNT = 240
"""Random networks; about a third of them deadlock."""


# The rules, one cycle after the other.


def stages(body: Body) -> Iterator[tuple[int, Segment]]:
    """Each stage of a body: the gap before it and its segment."""
    for part in body:
        if isinstance(part, Repeat):
            for _ in range(part.times):
                yield from stages(part.body)
            continue
        yield part.first_gap, part
        for _ in range(part.count - 1):
            yield part.gap, part


@dataclass
class Chain:
    """A process under way: its next stage and the first cycle in which its gap has passed."""

    rest: Iterator[tuple[int, Segment]]
    last: int
    segment: Segment | None = None
    earliest: int = 0

    def advance(self) -> None:
        """Go to the next stage."""
        gap, self.segment = next(self.rest, (0, None))
        self.earliest = self.last + gap


@dataclass
class Tokens:
    """When the tokens of a FIFO were written and read."""

    fifo: Fifo
    written: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)

    def readable(self, now: int) -> bool:
        """Token n can be read `raw` cycles after it was written."""
        n = len(self.read)
        return n < len(self.written) and now >= self.written[n] + self.fifo.raw

    def writable(self, now: int) -> bool:
        """Token n can be written in the cycle after token n - depth was read."""
        if self.fifo.depth is None or (n := len(self.written) - self.fifo.depth) < 0:
            return True
        return n < len(self.read) and now >= self.read[n] + 1


def step_by_step(network: Network) -> RtlRun:
    """Run a network, cycle after cycle, until it is done or nothing can happen any more."""
    fifos = [Tokens(fifo) for fifo in network.fifos]
    chains = [Chain(iter(stages(p.body)), p.start) for p in network.processes]
    for chain in chains:
        chain.advance()
    longest = max((f.raw for f in network.fifos), default=1)
    now, latest = 0, 0
    while any(chain.segment is not None for chain in chains):
        now += 1
        for chain in chains:
            segment = chain.segment
            if segment is None or now < chain.earliest:
                continue
            ready = all(fifos[f].readable(now) for f in segment.reads)
            if not ready or not all(fifos[f].writable(now) for f in segment.writes):
                continue
            for f in segment.reads:
                fifos[f].read.append(now)
            for f in segment.writes:
                fifos[f].written.append(now)
            latest = now
            chain.last = now
            chain.advance()
        waiting = max((c.earliest for c in chains if c.segment is not None), default=0)
        if now > max(waiting, latest + longest):
            return RtlRun(None, occupancy(fifos))
    return RtlRun(latest, occupancy(fifos))


def occupancy(fifos: list[Tokens]) -> tuple[int, ...]:
    """Tokens in each FIFO."""
    return tuple(len(f.written) - len(f.read) for f in fifos)


# Random networks.


def random_network(seed: int) -> Network:
    """
    Up to seven processes joined by FIFOs of every storage; the rates of their ends differ, and
    tokens come in bursts, in any order, so that shallow FIFOs deadlock now and then.
    """
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    base = rng.choice((2, 4, 6, 12))
    ends: list[tuple[int, int]] = []
    for reader in range(1, count):
        sources = [rng.randrange(reader) for _ in range(rng.choice((1, 1, 2, 3)))]
        ends += [(writer, reader) for writer in sources]
    tokens = [base * rng.choice((1, 1, 1, 2, 3)) for _ in ends]
    fifos = [random_fifo(rng, f"f{n}") for n in range(len(ends))]
    processes: list[Process] = []
    for p in range(count):
        reads = {f: tokens[f] for f, (_, reader) in enumerate(ends) if reader == p}
        writes = {f: tokens[f] for f, (writer, _) in enumerate(ends) if writer == p}
        processes += random_process(rng, f"p{p}", base, reads, writes, fifos)
    return Network(tuple(processes), tuple(fifos))


def random_fifo(rng: random.Random, name: str) -> Fifo:
    storage = rng.choice(("srl", "srl", "lutram", "bram", "uram", None))
    depth = rng.choice((None, 1, 2, 2, 3, 3, 4, 5, 8, 20))
    if depth == 1 and storage != "srl":
        depth = 2
    return Fifo(name, rng.choice((1, 18, 32, 512)), depth, storage)


def random_process(
    rng: random.Random,
    name: str,
    base: int,
    reads: dict[int, int],
    writes: dict[int, int],
    fifos: list[Fifo],
) -> list[Process]:
    gap = rng.choice((1, 1, 1, 2, 3, 7))
    totals = {*reads.values(), *writes.values()}
    if reads and writes and len(totals) == 1 and rng.random() < 0.5:
        latency = rng.randint(0, 9)
        shape = (name, totals.pop(), latency, tuple(reads), tuple(writes))
        if rng.random() < 0.5:
            return [rigid_pipeline(*shape, interval=gap)]
        chains, registers = flushable_pipeline(*shape, registers=len(fifos), interval=gap)
        fifos.append(registers)
        return list(chains)
    rounds = rng.choice([n for n in (1, 2, 3, 4, 6, 12) if base % n == 0])
    body = random_body(rng, {f: n // rounds for f, n in (reads | writes).items()}, set(reads))
    if rounds % 2 == 0 and rng.random() < 0.5:
        body = (Repeat(2, (Repeat(rounds // 2, body),)),)
    else:
        body = (Repeat(rounds, body),)
    return [Process(name, body, start=rng.choice((0, 0, 0, 5)))]


def random_body(rng: random.Random, left: dict[int, int], read: set[int]) -> Body:
    """Segments that use up the tokens `left` of each FIFO, some side by side."""
    parts: list[Segment] = []
    while left:
        together = rng.sample(sorted(left), rng.randint(1, len(left)))
        count = rng.randint(1, min(left[f] for f in together))
        gaps = rng.choice((1, 1, 2, 9)), rng.choice((1, 1, 1, 2, 4))
        parts.append(
            Segment(
                count,
                *gaps,
                tuple(f for f in together if f in read),
                tuple(f for f in together if f not in read),
            )
        )
        left = {f: n - count * (f in together) for f, n in left.items()}
        left = {f: n for f, n in left.items() if n}
        if rng.random() < 0.1:
            parts.append(Segment(rng.randint(1, 2), 3, 2))
    return tuple(parts)


# The tests.


def test_random_networks_run_as_the_rules_and_the_engine_say():
    """Cycles, and in a deadlock the tokens that each FIFO holds."""
    networks = [random_network(seed) for seed in range(COUNT)]
    expected = [step_by_step(network) for network in networks]
    deadlocks = sum(run.deadlock for run in expected)
    assert COUNT // 5 < deadlocks < COUNT // 2
    assert simulate(networks) == expected
    assert [Engine(network).run().latency for network in networks] == [e.cycles for e in expected]


def two_processes(depth: int, storage: str) -> Network:
    """The design whose RTL was measured: a writer of two bursts and a slow reader."""
    writer = Process("writer", (Repeat(2, (Segment(8192, 24577, 1, (), (0,)),)),))
    reader = Process("reader", (Segment(16384, 2, 4, (0,)),))
    return Network((writer, reader), (Fifo("bursts", 32, depth, storage),))


def two_branches(depth: int) -> Network:
    """
    A source whose 64 tokens take two ways to a product: all of them have to be there before
    the first leaves a matrix product, while those that wait for it are in the other branch.
    """
    n = 64
    return Network(
        (
            rigid_pipeline("source", n, 3, (), (0,)),
            rigid_pipeline("fork", n, 2, (0,), (1, 2)),
            Process("matmul", (Segment(n, 1, 1, (1,)), Segment(n, 1, 1, (), (3,)))),
            rigid_pipeline("cosine", n, 9, (2,), (4,)),
            rigid_pipeline("product", n, 4, (3, 4), (5,)),
            rigid_pipeline("sink", n, 1, (5,), ()),
        ),
        tuple(Fifo(f"f{f}", 32, depth if f == 2 else 2, "srl") for f in range(6)),
    )


def corners() -> list[Network]:
    """Networks at the edges of what can be written down."""
    return [
        Network((Process("wait", (Segment(1, 5, 1),), start=4), Process("none", ())), ()),
        Network((Process("loops", (Repeat(2, (Repeat(3, (Segment(2, 4, 3),)),)),)),), ()),
        # Names that a Verilog identifier cannot have, and that only differ by such characters.
        Network(
            (
                Process("module", (Segment(3, 1, 1, (), (0, 1)),)),
                Process("a.b", (Segment(3, 1, 1, (0,)),)),
                Process("a-b", (Segment(3, 1, 1, (1,)),)),
            ),
            (Fifo("reg", 8, 1), Fifo("1", 8, 2, "bram")),
        ),
        Network(flushable(9, 40), (Fifo("in", 8, 2), Fifo("out", 8), PIPELINE)),
    ]


PIPELINE = Fifo("cosine.pipeline", 1, depth=10, latency=9)


def flushable(latency: int, count: int) -> tuple[Process, ...]:
    chains, registers = flushable_pipeline("cosine", count, latency, (0,), (1,), 2)
    assert registers == PIPELINE
    writer = Process("writer", (Segment(count, 1, 3, (), (0,)),))
    return (writer, *chains, Process("reader", (Segment(count, 1, 1, (1,)),)))


MEASURED = [
    (row["storage"].replace("ram", "bram"), int(row["depth"]), int(row["rtl_latency"]))
    for row in csv.DictReader((DATA / "vitis_fifo_points.csv").open())
]

PROTOCOL = 3
"""Cycles that the block-level protocol adds to a measured latency."""


def test_measured_latencies_and_corners():
    """One build for all of them, and a run of it that is too short."""
    measured = [two_processes(depth, storage) for storage, depth, _ in MEASURED]
    branches = [two_branches(depth) for depth in (2, 52, 53, 54)]
    networks = [*measured, *branches, *corners()]
    runs = simulate(networks)
    latencies = [run.cycles for run in runs[: len(measured)]]
    assert latencies == [latency - PROTOCOL for _, _, latency in MEASURED]
    shallow, short, enough, deep = runs[len(measured) :][:4]
    assert shallow.deadlock
    assert short.deadlock
    assert (enough.cycles, deep.cycles) == (142, 142)
    # The branch that is too short is full.
    assert short.occupancy[2] == 52
    at_the_edges = runs[len(measured) + 4 :]
    assert [run.cycles for run in at_the_edges[:2]] == [9, 2 * 3 * (4 + 3)]
    assert at_the_edges == [step_by_step(network) for network in corners()]
    with pytest.raises(CompileError, match="of 19 networks were neither done nor stuck after 5 "):
        simulate(networks, limit=5)


def test_lint_finds_nothing():
    networks_by_name = {f"n{i}": n for i, n in enumerate([*corners(), two_branches(2)])}
    design = token_rtl(networks_by_name)
    for name in module_names(networks_by_name):
        assert lint(design, name) == ""


def test_processes_with_one_schedule_share_a_module():
    text = token_rtl({"two": two_branches(2)})
    assert text.count("\nmodule tokens_two") == 1 + 6
    copies = Network(
        tuple(
            process
            for n in range(3)
            for process in (
                Process(f"w{n}", (Segment(3, 1, 1, (), (n,)),)),
                Process(f"r{n}", (Segment(3, 1, 1, (n,)),)),
            )
        ),
        tuple(Fifo(f"f{n}", 8, 2) for n in range(3)),
    )
    assert token_rtl({"three": copies}).count("\nmodule tokens_three") == 1 + 2
    assert fifo_instances(copies) == ["fifo_f0", "fifo_f1", "fifo_f2"]


def test_no_networks_need_no_build():
    assert simulate([]) == []
