"""FIFO depths: the optimum by hand and by brute force, the published network, bad input."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from inr.analysis.certificate import violation
from inr.analysis.event_engine import Engine, latency, unbounded
from inr.analysis.fifo_cost import METHODS, cost, least_depth, levels, raw_at
from inr.analysis.fifo_search import Search, reference
from inr.analysis.fifo_sizing import Sizing, size_fifos
from inr.analysis.memories import bram18
from inr.analysis.network import Fifo, Network, Process, Segment, rigid_pipeline
from inr.analysis.relaxation import Relaxation, latest
from inr.errors import CompileError

DATA = Path(__file__).parents[1] / "data"


def fork_and_join(elements: int = 64, width: int = 32) -> Network:
    """
    A product that reads everything before it writes and a cosine, from one source to one sum:
    what the product delays has to wait on the other branch, before the cosine or behind it.
    """
    source, to_matmul, to_cos, product, cosine, output = range(6)
    return Network(
        (
            rigid_pipeline("source", elements, 3, (), (source,)),
            rigid_pipeline("fork", elements, 2, (source,), (to_matmul, to_cos)),
            Process(
                "matmul",
                (
                    Segment(elements, 1, 1, reads=(to_matmul,)),
                    Segment(elements, 1, 1, writes=(product,)),
                ),
            ),
            rigid_pipeline("cos", elements, 9, (to_cos,), (cosine,)),
            rigid_pipeline("multiply", elements, 4, (product, cosine), (output,)),
            rigid_pipeline("sink", elements, 1, (output,), ()),
        ),
        tuple(
            Fifo(name, width, storage="srl")
            for name in ("source", "to_matmul", "to_cos", "product", "cosine", "output")
        ),
    )


@st.composite
def joins(draw: st.DrawFn) -> Network:
    """One source of several branches of pipelines and of buffers, joined at the end."""
    count = draw(st.integers(2, 6))
    branches = draw(st.integers(1, 2)) + 1
    width = draw(st.sampled_from((8, 32, 300)))
    fifos = [Fifo("source", width)]
    processes = [rigid_pipeline("read", count, draw(st.integers(0, 3)), (), (0,))]
    forked: list[int] = []
    joined: list[int] = []
    for branch in range(branches):
        fifos.append(Fifo(f"fork_{branch}", width))
        forked.append(last := len(fifos) - 1)
        for n in range(draw(st.integers(0 if branch else 1, 1))):
            fifos.append(Fifo(f"branch_{branch}_{n}", draw(st.sampled_from((8, 32)))))
            here = len(fifos) - 1
            name = f"process_{branch}_{n}"
            if draw(st.booleans()):
                gap = draw(st.integers(1, 3))
                body = (Segment(count, 1, 1, reads=(last,)), Segment(count, gap, gap, (), (here,)))
                processes.append(Process(name, body))
            else:
                processes.append(
                    rigid_pipeline(name, count, draw(st.integers(0, 5)), (last,), (here,))
                )
            last = here
        joined.append(last)
    processes.append(rigid_pipeline("fork", count, draw(st.integers(0, 2)), (0,), tuple(forked)))
    processes.append(rigid_pipeline("join", count, 1, tuple(joined), ()))
    return Network(tuple(processes), tuple(fifos))


def check(network: Network, sizing: Sizing, alpha: float) -> None:
    """What must hold of every answer."""
    sized = network.with_depths(sizing.depths)
    assert [fifo.storage_kind for fifo in sized.fifos] == list(sizing.storage)
    assert violation(sized, sizing.certificate) is None
    assert latency(sized) == sizing.latency == sizing.certificate.latency
    assert sizing.latency <= sizing.latency_unbounded * (1 + alpha)
    assert sizing.lower_bound <= sizing.cost * (1 + 1e-9)
    assert 0 <= sizing.gap <= 1


@pytest.mark.parametrize("method", METHODS)
def test_fork_and_join(method: str) -> None:
    network = fork_and_join()
    sizing = size_fifos(network, 0.0, method=method)
    check(network, sizing, 0.0)
    assert sizing.latency == sizing.latency_unbounded == 142
    total = {
        # 53 on one branch, as RTL says, and 2 everywhere else.
        "default": 63,
        "exact": 63,
        # 57 results of the cosine are there when the product's first comes, if nothing waits.
        "inr-arch": 67,
        "max-occupancy": 67,
        "tensor-size": 6 * 64,
    }[method]
    assert sum(sizing.depths) == total
    if method in ("default", "exact"):
        assert sizing.lower_bound == 63 * 32
        assert 53 in sizing.depths


def brute_force(network: Network, alpha: float, objective: str) -> float:
    """The least cost among all levels of all FIFOs."""
    engine = Engine(network)
    sizing = size_fifos(network, alpha, objective, "max-occupancy")
    bound = int(sizing.latency_unbounded * (1 + alpha))
    ladders = [levels(fifo, int(network.tokens[0]), objective) for fifo in network.fifos]
    choices = sorted(
        (sum(cost(f, d, objective) for f, d in zip(network.fifos, depths, strict=True)), depths)
        for depths in itertools.product(*ladders)
    )
    return next(c for c, depths in choices if engine.run(depths, bound).latency is not None)


@given(joins(), st.sampled_from((0.0, 0.1, 0.5)), st.sampled_from(("bits", "bram", "weighted")))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_exact_is_the_optimum(network: Network, alpha: float, objective: str) -> None:
    assume(len(network.fifos) <= 6)
    exact = size_fifos(network, alpha, objective, "exact")
    check(network, exact, alpha)
    least = brute_force(network, alpha, objective)
    assert exact.cost == pytest.approx(least)
    assert exact.lower_bound == pytest.approx(least)
    default = size_fifos(network, alpha, objective)
    check(network, default, alpha)
    assert default.cost >= least - 1e-9
    assert default.lower_bound <= least + 1e-9


@given(joins(), st.data())
@settings(max_examples=100, deadline=None)
def test_repair_is_the_run_from_scratch(network: Network, data: st.DataObject) -> None:
    """Any shrinking in any order: same schedule as the engine's, or refused and undone."""
    engine = Engine(network)
    free = engine.run(unbounded(network))
    assert free.latency is not None
    bound = free.latency + data.draw(st.integers(0, 10))
    count = len(network.fifos)
    relaxation = Relaxation(
        engine, np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64), bound
    )
    for _ in range(data.draw(st.integers(1, 6))):
        f = data.draw(st.integers(0, count - 1))
        most = int(relaxation.depth[f]) or 8
        depth = data.draw(st.integers(1, most))
        raw = max(raw_at(network.fifos[f], depth), int(relaxation.raw[f]))
        tried, delays = relaxation.depth.copy(), relaxation.raw.copy()
        tried[f], delays[f] = depth, raw
        everything = range(count)
        run = engine.run_arrays(tried, delays, bound, everything)
        assert relaxation.tighten({f: (depth, raw)}) == (run.latency is not None)
        if run.latency is None:
            run = engine.run_arrays(relaxation.depth, relaxation.raw, bound, everything)
        else:
            assert np.array_equal(relaxation.depth, tried)
        assert np.array_equal(relaxation.written, np.concatenate([*run.written_at.values()]))
        assert np.array_equal(relaxation.read, np.concatenate([*run.read_at.values()]))


@given(joins(), st.data())
@settings(max_examples=100, deadline=None)
def test_lateness_only_ends_runs_that_are_too_long(network: Network, data: st.DataObject) -> None:
    engine = Engine(network)
    count = len(network.fifos)
    free = engine.run(unbounded(network), raw=[1] * count)
    assert free.latency is not None
    bound = free.latency + data.draw(st.integers(0, 10))
    depths = [data.draw(st.integers(1, 8)) for _ in range(count)]
    depth = np.array(depths, dtype=np.int64)
    raw = np.array([raw_at(f, d) for f, d in zip(network.fifos, depths, strict=True)])
    _, _, lateness = latest(network, bound, np.ones(count, dtype=np.int64))
    early = engine.run_arrays(depth, raw, bound, lateness=lateness)
    assert early.latency == engine.run_arrays(depth, raw, bound).latency


def published() -> Network:
    network = Network.from_json((DATA / "inr_arch_order1_network.json").read_text())
    return replace(network, fifos=tuple(replace(f, storage="srl") for f in network.fifos))


def test_published_network() -> None:
    network = published()
    sizing = size_fifos(network, 0.01)
    check(network, sizing, 0.01)
    assert sum(sizing.depths) <= 13_200
    assert sizing.latency_unbounded == 563_773


def test_published_network_at_full_speed() -> None:
    network = published()
    sizing = size_fifos(network, 0.0)
    check(network, sizing, 0.0)
    assert sizing.latency == 563_773
    assert sum(sizing.depths) <= 13_245
    assert sizing.lower_bound >= 10_400 * 32


@given(joins())
@settings(max_examples=50, deadline=None)
def test_no_single_fifo_can_be_shallower(network: Network) -> None:
    fifos = tuple(replace(fifo, storage="srl") for fifo in network.fifos)
    network = replace(network, fifos=fifos)
    sizing = size_fifos(network, 0.0)
    engine = Engine(network)
    for f, depth in enumerate(sizing.depths):
        if depth > 2:
            less = [*sizing.depths[:f], depth - 1, *sizing.depths[f + 1 :]]
            assert engine.run(less, sizing.latency_unbounded).latency is None


def test_the_delay_of_a_memory_is_kept_free() -> None:
    """
    X has to be a memory, and its second cycle of delay is all that L* leaves over shift registers.
    Y comes first, and would take that cycle if it were not known.
    """
    y, x, z = range(3)
    network = Network(
        (
            Process(
                "writer",
                (
                    Segment(4, 1, 1, writes=(y,)),
                    Segment(4, 16, 1, writes=(x,)),
                    Segment(1, 7, 1, writes=(z,)),
                ),
            ),
            Process(
                "reader",
                (
                    Segment(4, 1, 2, reads=(y,)),
                    Segment(4, 1, 3, reads=(x,)),
                    Segment(1, 1, 1, reads=(z,)),
                ),
            ),
        ),
        (Fifo("Y", 8), Fifo("X", 600), Fifo("Z", 8)),
    )
    engine = Engine(network)
    start = reference(engine, {})
    assert start is not None
    assert (start.latency, list(start.raw)) == (32, [1, 2, 1])
    search = Search(engine, start, {}, "bits")
    assert list(search.descend([y, x, z]).depth) == [3, 3, 2]
    assert search.memories == {x}
    sizing = size_fifos(network, 0.0)
    check(network, sizing, 0.0)
    assert sizing.cost == size_fifos(network, 0.0, method="exact").cost


def test_given_depths_stay() -> None:
    network = fork_and_join()
    for depth in (10, 70):
        sizing = size_fifos(network, 0.0, fixed={2: depth})
        check(network, sizing, 0.0)
        assert sizing.depths[2] == depth
        # What the branch must hold goes behind the cosine instead.
        assert sizing.depths[4] == (45 if depth == 10 else 2)


def test_given_depth_that_deadlocks() -> None:
    a, b = range(2)
    network = Network(
        (
            Process("writer", (Segment(3, 1, 1, writes=(a,)), Segment(1, 1, 1, writes=(b,)))),
            Process("reader", (Segment(1, 1, 1, reads=(b,)), Segment(3, 1, 1, reads=(a,)))),
        ),
        (Fifo("A", 32), Fifo("B", 32)),
    )
    with pytest.raises(CompileError) as e:
        size_fifos(network, fixed={a: 2})
    assert "'writer' waits to write 'A', full at depth 2, until 'reader' reads it" in str(e.value)
    assert "'A' needs depth 3 or more" in str(e.value)
    assert size_fifos(network, fixed={a: 3}).depths == (3, 2)


def test_bad_input() -> None:
    network = fork_and_join()
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"alpha": -0.1}, "alpha is the share of speed to give up"),
        ({"alpha": float("nan")}, "alpha is the share of speed to give up"),
        ({"objective": "area"}, "objective 'area' is not one of bits, bram, weighted"),
        ({"method": "best"}, "method 'best' is not one of default, exact"),
        ({"fixed": {9: 2}}, "there is no FIFO number 9"),
        ({"fixed": {0: 0}}, "'source' holds at least one token, not 0"),
    )
    for wrong, message in cases:
        with pytest.raises(CompileError, match=message):
            size_fifos(network, **wrong)
    memory = replace(network, fifos=(replace(network.fifos[0], storage="bram"), *network.fifos[1:]))
    with pytest.raises(CompileError, match="depth 1 in bram"):
        size_fifos(memory, fixed={0: 1})
    with pytest.raises(CompileError, match="the processes form a cycle: 'a' -> 'b' -> 'a'"):
        Network(
            (
                Process("a", (Segment(1, 1, 1, (0,), (1,)),)),
                Process("b", (Segment(1, 1, 1, (1,), (0,)),)),
            ),
            (Fifo("x", 8), Fifo("y", 8)),
        )


def test_block_ram_of_memories() -> None:
    """Rows of the reports that the rule was read from: depth, width, blocks."""
    for depth, width, blocks in (
        (512, 36, 1),
        (512, 32, 1),
        (1024, 32, 2),
        (2048, 32, 4),
        (4096, 32, 8),
        (8192, 32, 16),
        (16384, 32, 32),
    ):
        assert bram18(depth, width) == blocks


def test_levels_are_the_last_of_their_cost() -> None:
    fifo = Fifo("f", 32)
    assert levels(fifo, 5, "bits") == [2, 3, 4, 5]
    ladder = levels(fifo, 3000, "bram")
    assert ladder[:4] == [32, 64, 512, 1024]
    assert ladder[-1] >= 3000
    for objective in ("bram", "weighted"):
        for depth in levels(fifo, 3000, objective):
            here, above = (depth, depth + 1)
            assert (cost(fifo, here, objective), raw_at(fifo, here)) != (
                cost(fifo, above, objective),
                raw_at(fifo, above),
            )
    assert least_depth(replace(fifo, storage="bram")) == 3
