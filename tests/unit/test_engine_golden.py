"""The engine against latencies that others measured, and against points known by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from inr.analysis.certificate import certify, violation
from inr.analysis.event_engine import Engine, latency, unbounded
from inr.analysis.happens_before import happens_before, latency_of
from inr.analysis.network import Fifo, Network, Process, Segment, rigid_pipeline
from inr.errors import CompileError

DATA = Path(__file__).parents[1] / "data"

BLOCK_PROTOCOL = 3
"""Cycles of ap_ctrl_hs around a region, which are no part of a network."""


def vitis_points() -> list[tuple[str, int, int]]:
    with (DATA / "vitis_fifo_points.csv").open() as file:
        rows = csv.DictReader(file)
        return [(r["storage"], int(r["depth"]), int(r["rtl_latency"])) for r in rows]


@pytest.mark.parametrize(("storage", "depth", "cycles"), vitis_points())
def test_latency_of_rtl_that_vitis_generated(storage: str, depth: int, cycles: int) -> None:
    burst = Segment(8192, 24577, 1, writes=(0,))
    network = Network(
        (Process("writer", (burst, burst)), Process("reader", (Segment(16384, 2, 4, reads=(0,)),))),
        (Fifo("tokens", 32, depth, "srl" if storage == "srl" else "bram"),),
    )
    assert latency(network) + BLOCK_PROTOCOL == cycles


def test_every_vitis_point_is_tested() -> None:
    assert len(vitis_points()) == 11


def branches(elements: int, cos_depth: int) -> Network:
    """
    One source feeds a matrix product, which reads everything before it writes, and a cosine of 9
    cycles; their results are multiplied.
    """
    source, to_matmul, to_cos, product, cosine, output = range(6)
    matmul = (
        Segment(elements, 1, 1, reads=(to_matmul,)),
        Segment(elements, 1, 1, writes=(product,)),
    )
    depths = [2, 2, cos_depth, 2, 2, 2]
    return Network(
        (
            rigid_pipeline("source", elements, 3, (), (source,)),
            rigid_pipeline("fork", elements, 2, (source,), (to_matmul, to_cos)),
            Process("matmul", matmul),
            rigid_pipeline("cos", elements, 9, (to_cos,), (cosine,)),
            rigid_pipeline("multiply", elements, 4, (product, cosine), (output,)),
            rigid_pipeline("sink", elements, 1, (output,), ()),
        ),
        tuple(Fifo(f"fifo_{n}", 32, depth, "srl") for n, depth in enumerate(depths)),
    )


@pytest.mark.parametrize("depth", [53, 54, 64])
def test_two_branches_with_enough_room(depth: int) -> None:
    network = branches(64, depth)
    assert latency(network) == 142
    assert latency_of(happens_before(network)) == 142


@pytest.mark.parametrize("depth", [2, 40, 52])
def test_two_branches_with_too_little_room(depth: int) -> None:
    network = branches(64, depth)
    run = Engine(network).run()
    assert run.latency is None
    assert run.deadlock is not None
    assert 2 in run.deadlock.full
    assert latency_of(happens_before(network)) is None
    with pytest.raises(CompileError, match="'fork' waits to write 'fifo_2', full at depth"):
        latency(network)


def other_order(depth: int) -> Network:
    """Three tokens of A before one of B, read in the other order."""
    a, b = range(2)
    return Network(
        (
            Process("writer", (Segment(3, 1, 1, writes=(a,)), Segment(1, 1, 1, writes=(b,)))),
            Process("reader", (Segment(1, 1, 1, reads=(b,)), Segment(3, 1, 1, reads=(a,)))),
        ),
        (Fifo("A", 32, depth), Fifo("B", 32, 2)),
    )


def test_fifo_that_must_hold_what_is_read_later() -> None:
    assert Engine(other_order(2)).run().latency is None
    assert latency(other_order(3)) == 8
    deadlock = Engine(other_order(2)).run().deadlock
    assert deadlock is not None
    assert deadlock.full == (0,)


def test_published_network() -> None:
    network = Network.from_json((DATA / "inr_arch_order1_network.json").read_text())
    assert (len(network.processes), len(network.fifos)) == (215, 238)
    everything = range(len(network.fifos))
    engine = Engine(network)
    run = engine.run(unbounded(network), record=everything)
    assert run.latency == 563_773
    # At the depths that the run needs, it is the same run.
    depths = [run.occupancy(f) for f in everything]
    assert engine.run(depths, raw=[1] * len(depths)).latency == 563_773
    certificate = certify(network, run.written_at, run.read_at)
    assert certificate.latency == 563_773
    assert violation(network, certificate) is None
