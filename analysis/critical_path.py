"""
What the latency is made of: a chain of stages from the first cycle to the last without slack.

Going back from the last stage, each stage is as late as it is because of the stage before it in its
process, because a token had only just arrived, or because a place in a FIFO had only just become
free. A FIFO whose space is waited for on the way would make the network faster, or at least
not slower, if it were deeper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .certificate import Certificate, Stages, write_out
from .network import WAR_DELAY, Network

Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Reason: TypeAlias = Literal["start", "arrival", "space"]


@dataclass(frozen=True)
class Step:
    """
    Stages `first` to `last` of one process, each as soon as it may be after the one before; and
    what the first of them waited for: the start of the run, a token of `fifo`, or a place in it.
    """

    process: int
    first: int
    last: int
    reason: Reason
    fifo: int | None


def critical_path(network: Network, certificate: Certificate) -> list[Step]:
    """
    A chain of stages that explains the latency, from the start of the run to its last stage.

    `certificate` must hold the earliest schedule of the network at its depths, which that of a
    sizing does; raises ValueError where a stage waits for nothing.
    """
    path = _Path(network, certificate)
    ends = [int(cycle[-1]) if len(cycle) else 0 for cycle in certificate.schedule]
    if not any(ends):
        return []
    process = ends.index(max(ends))
    stage = len(certificate.schedule[process]) - 1
    steps: list[Step] = []
    while True:
        step, before = path.back(process, stage)
        steps.append(step)
        if before is None:
            return steps[::-1]
        process, stage = before


def waits_for_space(steps: list[Step]) -> Mapping[int, int]:
    """How often a chain waits for a place in each FIFO: those that a greater depth may help."""
    return Counter(s.fifo for s in steps if s.reason == "space" and s.fifo is not None)


class _Path:
    """A network written out, one process at a time as the chain comes to it."""

    def __init__(self, network: Network, certificate: Certificate):
        self.network, self.schedule = network, certificate.schedule
        self._stages: dict[int, Stages] = {}
        self._waits: dict[int, Ints] = {}

    def _written_out(self, process: int) -> Stages:
        if process not in self._stages:
            stages = write_out(self.network.processes[process].body)
            self._stages[process] = stages
            start = self.network.processes[process].start
            slack = np.diff(self.schedule[process], prepend=start) - stages.gaps
            self._waits[process] = np.flatnonzero(slack > 0)
        return self._stages[process]

    def back(self, process: int, stage: int) -> tuple[Step, tuple[int, int] | None]:
        """The step that ends in a stage, and the stage that it waited for."""
        stages = self._written_out(process)
        waits = self._waits[process]
        place = int(np.searchsorted(waits, stage, side="right"))
        if place == 0:
            return Step(process, 0, stage, "start", None), None
        first = int(waits[place - 1])
        cycle = int(self.schedule[process][first])
        for fifo, at in stages.reads.items():
            token = int(np.searchsorted(at, first))
            if token == len(at) or at[token] != first:
                continue
            writer = self.network.writers[fifo]
            source = int(self._written_out(writer).writes[fifo][token])
            if self.schedule[writer][source] + self.network.fifos[fifo].raw == cycle:
                return Step(process, first, stage, "arrival", fifo), (writer, source)
        for fifo, at in stages.writes.items():
            depth = self.network.fifos[fifo].depth
            token = int(np.searchsorted(at, first))
            if depth is None or token == len(at) or at[token] != first or token < depth:
                continue
            reader = self.network.readers[fifo]
            source = int(self._written_out(reader).reads[fifo][token - depth])
            if self.schedule[reader][source] + WAR_DELAY == cycle:
                return Step(process, first, stage, "space", fifo), (reader, source)
        name = self.network.processes[process].name
        raise ValueError(f"stage {first} of '{name}' waits for nothing; not the earliest schedule")
