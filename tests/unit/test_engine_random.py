"""Engine, certificate checker and happens-before graph agree on arbitrary networks."""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import networkx as nx
import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from inr.analysis.certificate import Certificate, certify, violation
from inr.analysis.event_engine import Engine, unbounded
from inr.analysis.happens_before import (
    deadlock_cycle,
    happens_before,
    latency_of,
    to_dot,
    write_graphml,
)
from inr.analysis.network import Fifo, Network, Process, Repeat, Segment


@st.composite
def stages(draw: st.DrawFn, ends: list[tuple[int, bool, int]]) -> tuple[Segment, ...]:
    """Segments that use each (fifo, writes, tokens) exactly `tokens` times, in any order."""
    left = {(fifo, writes): tokens for fifo, writes, tokens in ends}
    body: list[Segment] = []
    while left:
        used = draw(st.lists(st.sampled_from(sorted(left)), min_size=1, unique=True))
        count = draw(st.integers(1, min(left[end] for end in used)))
        for end in used:
            left[end] -= count
        left = {end: tokens for end, tokens in left.items() if tokens}
        body.append(
            Segment(
                count,
                draw(st.integers(1, 5)),
                draw(st.integers(1, 3)),
                tuple(fifo for fifo, writes in used if not writes),
                tuple(fifo for fifo, writes in used if writes),
            )
        )
        if draw(st.integers(0, 5)) == 0:
            body.append(Segment(draw(st.integers(1, 3)), draw(st.integers(1, 9)), 1))
    return tuple(body)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Acyclic networks of 2 to 5 processes with FIFOs of any storage and often too small."""
    processes = draw(st.integers(2, 5))
    repeats = draw(st.integers(1, 4))
    pairs = list(itertools.combinations(range(processes), 2))
    joined = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=8))
    tokens = [draw(st.integers(1, 4)) for _ in joined]
    fifos: list[Fifo] = []
    for n in range(len(joined)):
        storage = draw(st.sampled_from((None, "srl", "lutram", "bram", "uram")))
        least = 1 if storage in (None, "srl") else 2
        depth = draw(st.none() | st.integers(least, 4))
        latency = draw(st.none() | st.integers(1, 7)) if depth and storage is None else None
        fifos.append(Fifo(f"f{n}", draw(st.sampled_from((8, 32, 600))), depth, storage, latency))
    made: list[Process] = []
    for p in range(processes):
        ends = [(f, p == w, n) for f, ((w, r), n) in enumerate(zip(joined, tokens)) if p in (w, r)]
        if ends and draw(st.booleans()):
            inner = draw(stages(ends))
            twice = repeats % 2 == 0 and draw(st.booleans())
            nested = Repeat(2, (Repeat(repeats // 2, inner),)) if twice else Repeat(repeats, inner)
            body = (nested,)
        else:
            body = draw(stages([(f, writes, repeats * n) for f, writes, n in ends]))
        made.append(Process(f"p{p}", body, draw(st.integers(0, 4))))
    return Network(tuple(made), tuple(fifos))


@given(networks())
@settings(max_examples=200, deadline=None)
def test_three_ways_to_the_same_time(network: Network) -> None:
    everything = range(len(network.fifos))
    run = Engine(network).run(record=everything)
    graph = happens_before(network)
    event("deadlock" if run.latency is None else "finishes")
    assert run.latency == latency_of(graph)
    if run.latency is None:
        assert run.deadlock is not None
        cycle = run.deadlock.cycle
        assert run.deadlock.full
        assert [w.other for w in cycle] == [w.process for w in (*cycle[1:], cycle[0])]
        ring = deadlock_cycle(graph)
        assert all(b in graph[a] for a, b in zip(ring, [*ring[1:], *ring[:1]], strict=True))
        return
    assert deadlock_cycle(graph) == []
    certificate = certify(network, run.written_at, run.read_at)
    assert certificate.latency == run.latency
    assert violation(network, certificate) is None


@given(networks())
@settings(max_examples=50, deadline=None)
def test_cycles_do_not_depend_on_what_is_recorded(network: Network) -> None:
    everything = range(len(network.fifos))
    engine = Engine(network)
    full = engine.run(record=everything)
    assert engine.run().latency == full.latency
    some = engine.run(record=everything[::2])
    for f in everything[::2]:
        assert np.array_equal(some.written_at[f], full.written_at[f])
        assert np.array_equal(some.read_at[f], full.read_at[f])


@given(networks(), st.data())
@settings(max_examples=100, deadline=None)
def test_no_stage_can_come_earlier(network: Network, data: st.DataObject) -> None:
    everything = range(len(network.fifos))
    run = Engine(network).run(record=everything)
    if run.latency is None:
        return
    certificate = certify(network, run.written_at, run.read_at)
    used = [p for p, cycles in enumerate(certificate.schedule) if len(cycles)]
    p = data.draw(st.sampled_from(used))
    k = data.draw(st.integers(0, len(certificate.schedule[p]) - 1))
    earlier = [cycles.copy() for cycles in certificate.schedule]
    earlier[p][k] -= 1
    assert violation(network, Certificate(certificate.latency, tuple(earlier))) is not None
    assert violation(network, Certificate(certificate.latency - 1, certificate.schedule))


@given(networks())
@settings(max_examples=50, deadline=None)
def test_depths_that_hold_all_tokens_of_the_unbounded_run(network: Network) -> None:
    everything = range(len(network.fifos))
    engine = Engine(network)
    raw = [fifo.raw for fifo in network.fifos]
    free = engine.run(unbounded(network), record=everything, raw=raw)
    if free.latency is None:  # Only registers of pipelines can be too few.
        return
    depths = [free.occupancy(f) for f in everything]
    for f, depth in zip(everything, depths, strict=True):
        held = [
            np.sum(free.written_at[f] <= cycle) - np.sum(free.read_at[f] < cycle)
            for cycle in free.written_at[f]
        ]
        assert max(held) == depth
    kept = [
        fifo.depth if fifo.internal else depth
        for fifo, depth in zip(network.fifos, depths, strict=True)
    ]
    again = engine.run_arrays(
        np.array(kept, dtype=np.int64), np.array(raw, dtype=np.int64), record=everything
    )
    assert again.latency == free.latency
    for f in everything:
        assert np.array_equal(again.written_at[f], free.written_at[f])


@given(networks(), st.integers(1, 60))
@settings(max_examples=50, deadline=None)
def test_a_run_ends_at_its_bound(network: Network, bound: int) -> None:
    engine = Engine(network)
    latency = engine.run().latency
    bounded = engine.run(bound=bound).latency
    assert bounded == (latency if latency is not None and latency <= bound else None)


@given(networks())
@settings(max_examples=50, deadline=None)
def test_json_round_trip(network: Network) -> None:
    assert Network.from_json(network.to_json()) == network


@given(networks())
@settings(max_examples=20, deadline=None)
def test_graph_is_exported(network: Network) -> None:
    graph = happens_before(network)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.graphml"
        write_graphml(graph, path)
        again = nx.read_graphml(path)
    assert len(again.nodes) == len(graph.nodes)
    assert {d["cycles"] for *_, d in again.edges(data=True)} == {
        d["cycles"] for *_, d in graph.edges(data=True)
    }
    text = to_dot(graph)
    assert text.count(" -> ") == len(graph.edges)
    assert ("color=red" in text) == (latency_of(graph) is None)
