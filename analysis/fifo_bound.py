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

SHARE = 8
"""A probe may touch one in so many stages of a run; beyond, it proves nothing."""


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
        while (before := _only(network, network.writers[row[0]])) is not None:
            row.insert(0, before[0])
            held += before[2]
        while (after := _only(network, network.readers[row[-1]])) is not None:
            row.append(after[1])
            held += after[2]
        held += sum(network.fifos[g].depth or 0 for g in row if network.fifos[g].internal)
        # Ends inside a process are no ends of a path that a FIFO can be drawn between.
        used.update(row)
        real = tuple(g for g in row if not network.fifos[g].internal)
        paths.append(Path(real, row[0], row[-1], held))
    return paths


def _only(network: Network, p: int) -> tuple[int, int, int] | None:
    """The FIFO that a process reads, the one it writes, and what it holds; if one for one."""
    process = network.processes[p]
    if len(process.reads) != 1 or len(process.writes) != 1:
        return None
    (source, read), (target, written) = *process.reads.items(), *process.writes.items()
    if read != written:
        return None
    return source, target, held_by(write_out(process.body), source, target)


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
    for n, path in enumerate(paths):
        total = _least_total(relaxation, len(fifos) + n, path, fifos, depth)
        known += _least_cost([fifos[f] for f in path.fifos], total, objective)
    return known


def _least_total(
    relaxation: Relaxation, twin: int, path: Path, fifos: Sequence[Fifo], depth: Ints
) -> int:
    """Tokens that the FIFOs of a path must hold together."""
    budget = relaxation.engine.network.events // SHARE
    least = sum(least_depth(fifos[f]) for f in path.fifos)
    # Below `low` in total is known not to do; `high` does, or is not known not to.
    low, high = least, int(sum(depth[f] for f in path.fifos))
    while low < high:
        middle = (low + high) // 2
        room = middle + path.held
        works = relaxation.tighten({twin: (room, 1)}, keep=False, budget=budget)
        if works or not relaxation.proven_broken:
            high = middle
        else:
            low = middle + 1
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
