"""
A lower bound of what FIFOs must cost: how good a sizing is, without knowing the best.

Take a path u → … → v of FIFOs and processes that pass every token on, one for one. At any time,
what u has written and v has not read is in one of the FIFOs or in one of the processes between
them, and process P never holds more than H(P) tokens: the most by which its reads are ahead of its
writes. So depths d with which the network ends in time keep

    tokens between u and v ≤ Σ d + Σ H.

A FIFO drawn from u to v beside the path, with that depth, then makes nothing later, however deep
the FIFOs of the path are made. Turned round: when the network with all FIFOs unbounded but that one
cannot end in time at depth G, then Σ d > G - Σ H. Sums over disjoint paths add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .certificate import Stages, write_out
from .event_engine import Engine
from .fifo_cost import cost, least_depth, levels, raw_at
from .fifo_search import Reference
from .network import Body, Fifo, Network, Repeat
from .relaxation import Relaxation

Ints: TypeAlias = npt.NDArray[np.integer[Any]]

WORK = 10_000_000
"""Stages that all probes together may touch; one that would need more proves nothing."""

WHOLE_RUNS = 90_000_000
"""Reads and writes of the probes that may take whole runs, which those of the longest paths do."""

MOST_WHOLE_RUNS = 12

PROBES = 8
"""Probes of a path, about: bisection over its depth."""

RESOLUTION = 64
"""Bisection ends within one in so many of the known depth."""

PART = 100
"""How close to the known depth a whole run looks: within one in so many."""


@dataclass(frozen=True)
class Path:
    """FIFOs in a row, pipelines inside processes left out, and what the rest can hold."""

    fifos: tuple[int, ...]
    first: int
    last: int
    held: int


def held_by(stages: Stages, source: int, target: int) -> int:
    """Most tokens of FIFO `source` that a process has read and not yet written to `target`."""
    reads, writes = stages.reads[source], stages.writes[target]
    ahead = np.arange(1, len(reads) + 1) - np.searchsorted(writes, reads, side="right")
    return max(int(ahead.max()), 0)


def paths_through(network: Network, fifos: Sequence[int]) -> list[Path]:
    """Disjoint paths, each as long as it goes, that together hold all of `fifos`."""
    paths: list[Path] = []
    used: set[int] = set()
    for f in fifos:
        if f in used:
            continue
        row, held = [f], 0
        while (step := _into(network, row[0], used)) is not None:
            row.insert(0, step[0])
            held += step[1]
        while (step := _out_of(network, row[-1], used)) is not None:
            row.append(step[0])
            held += step[1]
        held += sum(network.fifos[g].depth or 0 for g in row if network.fifos[g].internal)
        used.update(row)
        real = tuple(g for g in row if not network.fifos[g].internal)
        paths.append(Path(real, row[0], row[-1], held))
    return paths


def _into(network: Network, fifo: int, used: set[int]) -> tuple[int, int] | None:
    """The FIFO that alone feeds this one, one for one, and what is held between; not at a fork."""
    process = network.processes[network.writers[fifo]]
    if len(process.reads) != 1 or len(process.writes) != 1:
        return None
    ((source, read),) = process.reads.items()
    if source in used or read != process.writes[fifo]:
        return None
    return source, held_by(write_out(process.body), source, fifo)


def _out_of(network: Network, fifo: int, used: set[int]) -> tuple[int, int] | None:
    """A FIFO that this one alone feeds, one for one, and what is held between; not at a join."""
    process = network.processes[network.readers[fifo]]
    if len(process.reads) != 1:
        return None
    for target, written in process.writes.items():
        if target not in used and written == process.reads[fifo]:
            return target, held_by(write_out(process.body), fifo, target)
    return None


def _beside(body: Body, twins: Mapping[int, int], writes: bool) -> Body:
    """The body with every use of a FIFO of `twins` also using its twin."""
    parts: list[Any] = []
    for part in body:
        if isinstance(part, Repeat):
            parts.append(replace(part, body=_beside(part.body, twins, writes)))
            continue
        ends = part.writes if writes else part.reads
        ends = (*ends, *(twins[f] for f in ends if f in twins))
        parts.append(replace(part, writes=ends) if writes else replace(part, reads=ends))
    return tuple(parts)


def _with_twins(network: Network, paths: Sequence[Path]) -> Network:
    """The network with an unbounded FIFO beside each path, after all others."""
    first = {path.first: len(network.fifos) + n for n, path in enumerate(paths)}
    last = {path.last: len(network.fifos) + n for n, path in enumerate(paths)}
    processes = tuple(
        replace(p, body=_beside(_beside(p.body, first, True), last, False))
        for p in network.processes
    )
    twins = tuple(Fifo(f"path {n}", 1, storage="srl") for n in range(len(paths)))
    return Network(processes, (*network.fifos, *twins))


def lower_bound_of(
    network: Network,
    start: Reference,
    fixed: Mapping[int, int],
    objective: str,
    bound: int,
    depth: Ints,
    search: bool = True,
) -> float:
    """
    A cost that no depths within `bound` go below. The paths are those of the FIFOs that `depth`
    makes deeper than the least; without `search`, that of least depths everywhere.
    """
    fifos = network.fifos
    chosen = [f for f, fifo in enumerate(fifos) if f not in fixed and not fifo.internal]
    deep = [f for f in chosen if depth[f] > least_depth(fifos[f])] if search else []
    deep.sort(key=lambda f: (-int(depth[f]), f))
    paths = [p for p in paths_through(network, deep) if not set(p.fifos) & set(fixed)]
    in_path = {f for path in paths for f in path.fifos}
    known = sum(cost(fifos[f], fixed[f], objective) for f in fixed)
    known += sum(cost(fifos[f], least_depth(fifos[f]), objective) for f in set(chosen) - in_path)
    if not paths:
        return known
    raw = np.concatenate((start.raw, np.ones(len(paths), dtype=np.int64)))
    for f in chosen:
        raw[f] = raw_at(fifos[f], 0)
    free = np.concatenate((start.depth, np.zeros(len(paths), dtype=np.int64)))
    relaxation = Relaxation(Engine(_with_twins(network, paths)), free, raw, bound)
    whole = min(MOST_WHOLE_RUNS, WHOLE_RUNS // max(network.events, 1))
    budget = WORK // (len(paths) * PROBES)
    for n, path in enumerate(paths):
        most = int(sum(depth[f] for f in path.fifos))
        probe = _Probe(relaxation, len(fifos) + n, path.held)
        total = _least_total(probe, sum(least_depth(fifos[f]) for f in path.fifos), most, budget)
        if n < whole and total < (near := most - most // PART):
            # The last few tokens only show at the end of a run.
            total = near + 1 if probe.fails(near, None) else total
        known += _least_cost([fifos[f] for f in path.fifos], total, objective)
    return known


@dataclass(frozen=True)
class _Probe:
    """Tries the depth of the FIFO beside a path."""

    relaxation: Relaxation
    twin: int
    held: int

    def fails(self, total: int, budget: int | None) -> bool:
        """True when the FIFOs of the path certainly have to hold more than `total` together."""
        change = {self.twin: (total + self.held, 1)}
        works = self.relaxation.tighten(change, keep=False, budget=budget)
        return not works and self.relaxation.proven_broken


def _least_total(probe: _Probe, least: int, most: int, budget: int) -> int:
    """Tokens, up to `most`, that the FIFOs of a path must hold together as far as is proven."""
    if most == least or probe.fails(most - 1, budget):
        return most
    low, high = least, most - 1
    while high - low > most // RESOLUTION:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if probe.fails(middle, budget) else (low, middle)
    return low


def _least_cost(fifos: Sequence[Fifo], total: int, objective: str) -> float:
    """The least cost of FIFOs that hold `total` tokens together, each at least its least depth."""
    least = sum(least_depth(fifo) for fifo in fifos)
    if objective == "bits":
        fewest = sum(cost(fifo, least_depth(fifo), objective) for fifo in fifos)
        return fewest + max(total - least, 0) * min(fifo.width for fifo in fifos)
    # best[t]: the least cost of holding t tokens in the FIFOs so far.
    best = np.full(total + 1, np.inf)
    best[0] = 0
    places = np.arange(total + 1)
    for fifo in fifos:
        wider = np.full(total + 1, np.inf)
        for level in levels(fifo, total, objective):
            wider = np.minimum(
                wider, best[np.maximum(places - level, 0)] + cost(fifo, level, objective)
            )
        best = wider
    return float(best[total])
