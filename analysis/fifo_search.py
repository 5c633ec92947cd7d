"""
Depths by descent: every FIFO in turn to the least depth that keeps the network in time.

The answer depends on the order, because FIFOs on the branches of a fork and its join share what
has to be held: the one that is visited last carries it. Visiting readers before writers is good in
general, since a FIFO that is cheap to make deep stands early, before a fork, a broadcast or an
expansion; another order is tried too and the better kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .event_engine import Engine, most_held
from .fifo_cost import cost, least_depth, levels, raw_at, storage_at
from .network import Network
from .relaxation import Relaxation

Ints: TypeAlias = npt.NDArray[np.integer[Any]]


PART, LEAST_WORK = 8, 100_000
"""A trial may touch so many stages: one in `PART` of a run's events, or `LEAST_WORK`."""


@dataclass(frozen=True)
class Reference:
    """
    The network with unbounded FIFOs, except those whose depth is given: the fastest it can be.

    A FIFO that then holds so much that it must be a memory has the delay of one. `most` are the
    tokens that each FIFO holds.
    """

    latency: int
    depth: Ints
    raw: Ints
    most: Ints


def reference(engine: Engine, fixed: Mapping[int, int]) -> Reference | None:
    """The reference of a network, or None when the given depths deadlock."""
    fifos = engine.network.fifos
    everything = range(len(fifos))
    given = [
        fixed.get(f, (fifo.depth or 0) if fifo.internal else 0) for f, fifo in enumerate(fifos)
    ]
    depth = np.array(given, dtype=np.int64)
    raw = np.array([raw_at(fifo, d) for fifo, d in zip(fifos, given, strict=True)], dtype=np.int64)
    while True:
        run = engine.run_arrays(depth, raw, record=everything)
        if run.latency is None:
            return None
        most = np.array([most_held(run.written_at[f], run.read_at[f]) for f in everything])
        held = [
            raw_at(fifo, int(d) or max(int(m), least_depth(fifo)))
            for fifo, d, m in zip(fifos, depth, most, strict=True)
        ]
        # A memory stays one, so this ends.
        slower = np.maximum(raw, held)
        if np.array_equal(slower, raw):
            return Reference(run.latency, depth, raw, most)
        raw = slower


def visiting_orders(network: Network) -> dict[str, list[int]]:
    """The orders in which FIFOs are visited, by name."""
    place = {p: n for n, p in enumerate(network.topological_order)}
    fifos = range(len(network.fifos))
    return {
        "readers first": sorted(fifos, key=lambda f: -place[network.writers[f]]),
        "last declared first": list(reversed(fifos)),
    }


class Search:
    """Descent over the open FIFOs of a network, from its reference, within a bound."""

    def __init__(self, engine: Engine, start: Reference, fixed: Mapping[int, int], objective: str):
        self.engine, self.start, self.objective = engine, start, objective
        self.fifos = engine.network.fifos
        self.open = [f for f, fifo in enumerate(self.fifos) if f not in fixed and not fifo.internal]
        self.memories: set[int] = set()
        """FIFOs taken to be memories from the start."""
        self.evaluations = 0
        """Schedules looked at."""
        self._relaxation = self._relax()
        self._fresh = self._relaxation.state()

    def _relax(self) -> Relaxation:
        """The network with open FIFOs unbounded and, but for `memories`, of shift registers."""
        raw = self.start.raw.copy()
        for f in set(self.open) - self.memories:
            raw[f] = raw_at(self.fifos[f], 0)
        return Relaxation(self.engine, self.start.depth, raw, self.start.latency)

    def cost(self, depth: Ints) -> float:
        """What depths cost."""
        return sum(
            cost(fifo, int(d), self.objective) for fifo, d in zip(self.fifos, depth, strict=True)
        )

    def descend(self, order: Sequence[int]) -> Relaxation:
        """Every open FIFO in turn to the least level that does not make the network slower."""
        order = [f for f in order if f in set(self.open)]
        while True:
            relaxation = self._relaxation
            relaxation.restore(self._fresh)
            before = relaxation.evaluations
            stuck = self._descend(relaxation, order)
            self.evaluations += relaxation.evaluations - before
            if stuck is None:
                return relaxation
            # It has to be a memory, and those before it took what its delay needs.
            self.memories.add(stuck)
            self._relaxation = self._relax()
            self._fresh = self._relaxation.state()

    def _descend(self, relaxation: Relaxation, order: Sequence[int]) -> int | None:
        """The first FIFO that no level is enough for, None when all have one."""
        return next((f for f in order if not self._settle(relaxation, f)), None)

    def _raw(self, f: int, depth: int) -> int:
        return 2 if f in self.memories else raw_at(self.fifos[f], depth)

    def _settle(self, relaxation: Relaxation, f: int) -> bool:
        """Give one FIFO the least level that works, if any does."""
        least, held = least_depth(self.fifos[f]), relaxation.occupancy(f)
        if held <= least and relaxation.raw[f] == self._raw(f, least):
            relaxation.adopt({f: least})
            return True
        held = max(held, int(self.start.most[f]))
        allowed = levels(self.fifos[f], held, self.objective)
        if f in self.memories:
            allowed = [d for d in allowed if storage_at(self.fifos[f], d) != "srl"] or allowed[-1:]
        low, high = -1, len(allowed)
        budget = max(self.engine.network.events // PART, LEAST_WORK)
        while high - low > 1:
            # The least level first: it is the answer for most FIFOs.
            middle = 0 if low < 0 else (low + high) // 2
            depth = allowed[middle]
            change = {f: (depth, self._raw(f, depth))}
            # What takes longer than a part of a run to decide counts as too shallow.
            if relaxation.tighten(change, budget=budget if middle < len(allowed) - 1 else None):
                high = middle
            else:
                low = middle
        return high < len(allowed)

    def spend(self, depth: Ints, bound: int, trials: int) -> Ints:
        """
        Lower the levels of `depth` while the network still ends by `bound`, which it does at
        `depth`: all that are above the least by one level as often as it goes, then the halves
        of that group, and so on, FIFOs of the same depth together. At most `trials` runs.

        A run of the whole network, because when every row comes a little later then all do.
        """
        depth = depth.copy()
        heavy = [f for f in self.open if depth[f] > least_depth(self.fifos[f])]
        heavy.sort(key=lambda f: (self.fifos[f].width * int(depth[f]), f))
        ladder = {f: levels(self.fifos[f], int(depth[f]), self.objective) for f in heavy}
        groups = [heavy] if heavy else []
        self._relaxation.extend(bound)
        lateness = self._relaxation.lateness
        while groups and trials > 0:
            group = groups.pop(0)
            lower = depth.copy()
            for f in group:
                place = ladder[f].index(int(depth[f]))
                lower[f] = ladder[f][max(place - 1, 0)]
            if self.cost(lower) == self.cost(depth):
                continue
            trials -= 1
            self.evaluations += 1
            run = self.engine.run_arrays(lower, self.delays(lower), bound, lateness=lateness)
            if run.latency is not None:
                depth = lower
                groups.insert(0, group)
            elif len(group) > 1:
                middle = len(group) // 2
                groups += [group[:middle], group[middle:]]
        return depth

    def delays(self, depth: Ints) -> Ints:
        """The delay from write to read of every FIFO at its depth."""
        pairs = zip(self.fifos, depth, strict=True)
        return np.array([raw_at(fifo, int(d)) for fifo, d in pairs], dtype=np.int64)
