"""
The cheapest depths of all, for small networks: implicit hitting sets.

Depths that do not do say something about all shallower ones too: of a set of depths that cannot
be raised anywhere without ending in time, at least one must be exceeded. Those statements,
collected, make an integer program whose optimum is a lower bound; if the network ends in time with
that optimum, it is the answer, otherwise it gives a new statement (the scheme of Saikko, Wallner
and Järvisalo, KR 2016).

A memory is a cycle slower than shift registers, so a deeper FIFO can be the slower one. The
statements therefore come from a network in which all FIFOs that may be shift registers are as
fast as these, which ends no later; where only the true delays are too slow, that one combination of
levels is excluded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import scipy.optimize  # pyright: ignore[reportMissingTypeStubs]

from ..errors import CompileError
from .event_engine import Engine
from .fifo_cost import cost, levels, raw_at

Ints: TypeAlias = npt.NDArray[np.integer[Any]]

LARGEST = 4000
"""Levels of all FIFOs beyond which the integer program is not for this method."""

SECONDS = 60.0
"""When to stop and answer with the best known."""


_solver = cast(Any, scipy.optimize)
"""SciPy has no type stubs."""

_OPTIMAL, _INFEASIBLE = 0, 2
"""What `scipy.optimize.milp` answers with."""


@dataclass(frozen=True)
class Optimum:
    """The best depths known, and what no depths cost less than."""

    depth: Ints
    lower_bound: float
    evaluations: int


def optimum(
    engine: Engine,
    fixed: Mapping[int, int],
    objective: str,
    bound: int,
    known: Ints,
    seconds: float = SECONDS,
) -> Optimum:
    """
    The least cost with which the network ends by `bound`; `known` are depths with which it does.

    Raises CompileError for a network with too many levels to choose from.
    """
    problem = _Problem(engine, fixed, objective, bound, known)
    until = time.perf_counter() + seconds
    while True:
        chosen, lowest = problem.cheapest(max(until - time.perf_counter(), 1.0))
        if lowest >= problem.best - 1e-6:
            return Optimum(known, problem.given + problem.best, problem.evaluations)
        if chosen is not None and problem.ends(chosen):
            return Optimum(problem.depths(chosen), problem.given + lowest, problem.evaluations)
        if chosen is None or time.perf_counter() > until:
            return Optimum(known, problem.given + lowest, problem.evaluations)
        problem.learn(chosen)


class _Problem:
    """The levels of every open FIFO and what is known of them; `chosen` is a level for each."""

    def __init__(
        self, engine: Engine, fixed: Mapping[int, int], objective: str, bound: int, known: Ints
    ):
        self.engine, self.bound, self.known, self.evaluations = engine, bound, known, 0
        fifos = engine.network.fifos
        self.fifos = fifos
        self.open = [f for f, fifo in enumerate(fifos) if f not in fixed and not fifo.internal]
        self.given = sum(cost(fifos[f], depth, objective) for f, depth in fixed.items())
        self.best = sum(cost(fifos[f], int(known[f]), objective) for f in self.open)
        tokens = engine.network.tokens
        self.ladder = [levels(fifos[f], int(tokens[f]), objective) for f in self.open]
        self.price = [
            [cost(fifos[f], depth, objective) for depth in ladder]
            for f, ladder in zip(self.open, self.ladder, strict=True)
        ]
        self.fewest = sum(prices[0] for prices in self.price)
        for n, prices in enumerate(self.price):
            # A level that with all else at the least costs more than the best known is no use.
            room = self.best - self.fewest + prices[0]
            count = max(int(np.searchsorted(prices, room + 1e-9, side="right")), 1)
            self.ladder[n], self.price[n] = self.ladder[n][:count], prices[:count]
        self.top = [len(ladder) - 1 for ladder in self.ladder]
        self.begin = [0, *np.cumsum(self.top).tolist()]
        if self.begin[-1] > LARGEST:
            raise CompileError(
                f"method 'exact' chooses among at most {LARGEST} levels, this network has "
                f"{self.begin[-1]}; use 'default', which reports a lower bound"
            )
        self.rows: list[npt.NDArray[np.float64]] = []
        self.least: list[float] = []
        for n, top in enumerate(self.top):
            for level in range(1, top):
                self._require({(n, level): 1, (n, level + 1): -1}, 0)

    def _require(self, terms: Mapping[tuple[int, int], int], least: float) -> None:
        """A weighted sum of statements (n, level), 'FIFO n has this level or more', is so much."""
        row = np.zeros(self.begin[-1])
        for (n, level), weight in terms.items():
            row[self.begin[n] + level - 1] += weight
        self.rows.append(row)
        self.least.append(least)

    def cheapest(self, seconds: float) -> tuple[list[int] | None, float]:
        """
        The cheapest levels that nothing learned so far excludes, and a bound of their cost; None
        when there are none within the best cost, or not in time.
        """
        if self.begin[-1] == 0:
            return [0] * len(self.open), self.fewest
        steps = np.concatenate([np.diff(prices) for prices in self.price])
        rows = np.array(self.rows).reshape(-1, len(steps))
        constraints = _solver.LinearConstraint(rows, np.array(self.least), np.inf)
        answer = _solver.milp(
            steps,
            integrality=np.ones(len(steps)),
            bounds=_solver.Bounds(0, 1),
            constraints=constraints if self.rows else (),
            options={"time_limit": seconds},
        )
        if answer.status == _INFEASIBLE:
            return None, self.best
        if answer.x is None or answer.status != _OPTIMAL:
            return None, self.fewest + max(float(answer.mip_dual_bound or 0), 0.0)
        reached = np.asarray(answer.x, dtype=np.float64).round()
        chosen = [
            int(reached[first:end].sum())
            for first, end in zip(self.begin, self.begin[1:], strict=False)
        ]
        return chosen, self.fewest + float(answer.fun)

    def depths(self, chosen: Sequence[int]) -> Ints:
        """The depth of every FIFO."""
        depth = self.known.copy()
        depth[self.open] = [
            ladder[level] for ladder, level in zip(self.ladder, chosen, strict=True)
        ]
        return depth

    def ends(self, chosen: Sequence[int], fast: bool = False) -> bool:
        """Whether the network ends in time; `fast`: with the delays of shift registers."""
        self.evaluations += 1
        depth = self.depths(chosen)
        raw = [
            raw_at(fifo, 2 if fast and f in self._open_set else int(d))
            for f, (fifo, d) in enumerate(zip(self.fifos, depth, strict=True))
        ]
        run = self.engine.run_arrays(depth, np.array(raw, dtype=np.int64), self.bound)
        return run.latency is not None

    @cached_property
    def _open_set(self) -> frozenset[int]:
        return frozenset(self.open)

    def learn(self, chosen: Sequence[int]) -> None:
        """Exclude levels with which the network does not end in time, and all below them."""
        if self.ends(chosen, fast=True):
            above = {(n, x + 1): 1 for n, x in enumerate(chosen) if x < self.top[n]}
            below = {(n, x): -1 for n, x in enumerate(chosen) if x > 0}
            self._require(above | below, 1 - len(below))
            return
        numbers = range(len(self.open))
        for order in (numbers, reversed(numbers)):
            raised = self._raised(chosen, order)
            self._require({(n, x + 1): 1 for n, x in enumerate(raised) if x < self.top[n]}, 1)

    def _raised(self, chosen: Sequence[int], order: Iterable[int]) -> list[int]:
        """Levels raised as far as the network still does not end in time, one FIFO at a time."""
        raised = list(chosen)
        for n in order:
            low, high = raised[n], self.top[n] + 1
            while high - low > 1:
                # The top first: most FIFOs have nothing to do with what is in the way.
                raised[n] = high - 1 if high > self.top[n] else (low + high) // 2
                low, high = (low, raised[n]) if self.ends(raised, fast=True) else (raised[n], high)
            raised[n] = low
        return raised
