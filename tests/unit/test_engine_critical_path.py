"""The chain that explains the latency has no gap in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from inr.analysis.certificate import Certificate, certify, write_out
from inr.analysis.critical_path import Step, critical_path, waits_for_space
from inr.analysis.event_engine import Engine, latency
from inr.analysis.fifo_sizing import size_fifos
from inr.analysis.network import WAR_DELAY, Fifo, Network, Process, Segment

DATA = Path(__file__).parents[1] / "data"


def burst(depth: int) -> Network:
    """A writer in two bursts and a slow reader: the deeper the FIFO, the sooner the second."""
    part = Segment(64, 200, 1, writes=(0,))
    reader = Process("reader", (Segment(128, 2, 4, reads=(0,)),))
    return Network((Process("writer", (part, part)), reader), (Fifo("f", 32, depth, "srl"),))


def explained(network: Network, steps: list[Step]) -> int:
    """The cycles that the steps account for, from the rules alone."""
    cycles = network.processes[steps[0].process].start
    for step in steps:
        gaps = write_out(network.processes[step.process].body).gaps
        if step.fifo is None:
            cycles += int(gaps[0])
        else:
            cycles += WAR_DELAY if step.reason == "space" else network.fifos[step.fifo].raw
        cycles += int(gaps[step.first + 1 : step.last + 1].sum())
    return cycles


def certified(network: Network) -> Certificate:
    run = Engine(network).run(record=range(len(network.fifos)))
    return certify(network, run.written_at, run.read_at)


@pytest.mark.parametrize("depth", [1, 2, 40, 64, 100])
def test_steps_add_up_to_the_latency(depth: int) -> None:
    network = burst(depth)
    steps = critical_path(network, certified(network))
    assert steps[0].reason == "start"
    assert explained(network, steps) == latency(network)
    deeper = latency(network.with_depths([depth + 1]))
    # Only where the chain waits for space can depth help.
    if not waits_for_space(steps):
        assert deeper == latency(network)
    if deeper < latency(network):
        assert set(waits_for_space(steps)) == {0}


def test_published_network() -> None:
    network = Network.from_json((DATA / "inr_arch_order1_network.json").read_text())
    network = replace(network, fifos=tuple(replace(f, storage="srl") for f in network.fifos))
    sizing = size_fifos(network, 0.01, bound_below=False)
    sized = network.with_depths(sizing.depths)
    steps = critical_path(sized, sizing.certificate)
    assert explained(sized, steps) == sizing.latency
    # Slower than with unbounded FIFOs, so somewhere it waits for space.
    assert sizing.latency > sizing.latency_unbounded
    assert waits_for_space(steps)


def test_a_schedule_with_an_idle_cycle_is_refused() -> None:
    network = burst(64)
    certificate = certified(network)
    late = tuple(cycles.copy() for cycles in certificate.schedule)
    late[1][-1] += 5
    with pytest.raises(ValueError, match="stage 127 of 'reader' waits for nothing"):
        critical_path(network, Certificate(certificate.latency + 5, late))
