"""
Proof that a network with given depths does not deadlock and ends in time.

A *certificate* is a cycle for every stage of every process. If the cycles satisfy every inequality
of `network`, the earliest schedule exists and is no later: the design cannot deadlock, and takes
at most as long as the certificate. `violation` checks that with NumPy alone and shares no
code with the engine that found the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .network import WAR_DELAY, Body, Network, Segment

Ints: TypeAlias = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Stages:
    """
    A process written out: the least number of cycles before each stage, and the stages that
    read and that write each FIFO, in the order of its tokens.
    """

    gaps: Ints
    reads: Mapping[int, Ints]
    writes: Mapping[int, Ints]


def write_out(body: Body) -> Stages:
    """All stages of a body, repetitions included."""
    gaps: list[Ints] = []
    reads: dict[int, list[Ints]] = {}
    writes: dict[int, list[Ints]] = {}
    done = 0
    for part in body:
        if isinstance(part, Segment):
            gap = np.full(part.count, part.gap)
            gap[0] = part.first_gap
            gaps.append(gap)
            stages = done + np.arange(part.count)
            for fifo in part.reads:
                reads.setdefault(fifo, []).append(stages)
            for fifo in part.writes:
                writes.setdefault(fifo, []).append(stages)
            done += part.count
            continue
        inner = write_out(part.body)
        gaps.append(np.tile(inner.gaps, part.times))
        first = done + len(inner.gaps) * np.arange(part.times)[:, None]
        for fifo, stages in inner.reads.items():
            reads.setdefault(fifo, []).append((first + stages).ravel())
        for fifo, stages in inner.writes.items():
            writes.setdefault(fifo, []).append((first + stages).ravel())
        done += len(inner.gaps) * part.times
    return Stages(
        np.concatenate(gaps) if gaps else np.zeros(0, dtype=np.int64),
        {fifo: np.concatenate(stages) for fifo, stages in reads.items()},
        {fifo: np.concatenate(stages) for fifo, stages in writes.items()},
    )


@dataclass(frozen=True)
class Certificate:
    """`schedule[p]` is the cycle of every stage of process p; none comes after `latency`."""

    latency: int
    schedule: tuple[Ints, ...]


def certify(
    network: Network, written_at: Mapping[int, Ints], read_at: Mapping[int, Ints]
) -> Certificate:
    """
    The certificate that the cycles of all writes and reads amount to. Stages that only take time
    follow the stage before them as early as they may.
    """
    schedule: list[Ints] = []
    for process in network.processes:
        stages = write_out(process.body)
        cycle = np.full(len(stages.gaps), -1, dtype=np.int64)
        for fifo, at in stages.reads.items():
            cycle[at] = read_at[fifo]
        for fifo, at in stages.writes.items():
            cycle[at] = written_at[fifo]
        for stage in np.flatnonzero(cycle < 0):
            before = cycle[stage - 1] if stage else process.start
            cycle[stage] = before + stages.gaps[stage]
        schedule.append(cycle)
    latency = max((int(cycle[-1]) for cycle in schedule if len(cycle)), default=0)
    return Certificate(latency, tuple(schedule))


def violation(network: Network, certificate: Certificate) -> str | None:
    """
    The first inequality that the certificate breaks at the depths of `network`, in words, or None
    for a valid one.
    """
    written: dict[int, Ints] = {}
    read: dict[int, Ints] = {}
    for process, cycle in zip(network.processes, certificate.schedule, strict=True):
        stages = write_out(process.body)
        if cycle.shape != stages.gaps.shape:
            return f"'{process.name}' has {len(stages.gaps)} stages, the schedule {len(cycle)}"
        if np.any(np.diff(cycle, prepend=process.start) < stages.gaps):
            return f"a stage of '{process.name}' comes too early after the one before it"
        if np.any(cycle > certificate.latency):
            return f"'{process.name}' ends after cycle {certificate.latency}"
        written |= {fifo: cycle[at] for fifo, at in stages.writes.items()}
        read |= {fifo: cycle[at] for fifo, at in stages.reads.items()}
    for index, fifo in enumerate(network.fifos):
        w, r = written[index], read[index]
        if np.any(r < w + fifo.raw):
            return f"'{fifo.name}': a token is read before it has arrived"
        if fifo.depth is not None and np.any(w[fifo.depth :] < r[: -fifo.depth] + WAR_DELAY):
            return f"'{fifo.name}': more than {fifo.depth} tokens are on the way"
    return None
