"""
Which way to compute each layer, under a budget for all of them: an exact knapsack.

Each layer has options with an error and a cost; one is taken of each, and errors and costs add up.
Errors of layers add up as long as they are small and independent of each other; the error of an
option is the share of the layer in what counts (the model's output), not that of its own output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, cast

import numpy as np
import scipy.optimize  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from ..errors import CompileError

_solver = cast(Any, scipy.optimize)

Numbers = NDArray[np.float64]

SLACK = 1e-9
"""The share of a budget by which a sum may pass it: what adding up floats may be off."""

FRONT = 2000
"""Points of a front, at most."""


@dataclass(frozen=True)
class Candidate:
    """One way to compute a layer."""

    error: float
    cost: float
    label: str = ""


@dataclass(frozen=True)
class Selection:
    """One option of each layer, by its position, and the sums."""

    picks: tuple[int, ...]
    error: float
    cost: float


def select_layers(
    layers: Sequence[Sequence[Candidate]],
    *,
    error: float | None = None,
    cost: float | None = None,
) -> Selection:
    """
    The options of least cost whose errors add up to at most `error`, or of least error whose costs
    add up to at most `cost`; one of the two is given.

    Raises CompileError for a budget that no options meet, with the least that they reach, for an
    error or cost that is negative or not finite, and for a layer without options.
    """
    if (error is None) == (cost is None):
        raise CompileError("a selection needs one budget: either of error or of cost")
    errors, costs = _checked(layers)
    limited, goal = (errors, costs) if cost is None else (costs, errors)
    what, budget = ("error", error) if cost is None else ("cost", cost)
    assert budget is not None
    least = sum(min(values) for values in limited)
    if not budget >= least * (1 - SLACK):
        raise CompileError(
            f"no choice of options for {len(layers)} layers has a total {what} of {budget:.6g} or "
            f"less; the least is {least:.6g}"
        )
    if not layers:
        return Selection((), 0.0, 0.0)
    if sum(max(values) for values in limited) <= budget:
        # No limit at all: each layer for itself.
        pairs = [list(zip(*pair, strict=True)) for pair in zip(goal, limited, strict=True)]
        return _selection([options.index(min(options)) for options in pairs], errors, costs)
    return _selection(_solve(goal, limited, budget), errors, costs)


def _checked(
    layers: Sequence[Sequence[Candidate]],
) -> tuple[list[list[float]], list[list[float]]]:
    for number, options in enumerate(layers):
        if not options:
            raise CompileError(f"layer {number} has no options to choose from")
        for option in options:
            for what, value in (("error", option.error), ("cost", option.cost)):
                if not isfinite(value) or value < 0:
                    raise CompileError(
                        f"layer {number}, option '{option.label}': {what} {value}; "
                        "a finite number of 0 or more"
                    )
    return (
        [[option.error for option in options] for options in layers],
        [[option.cost for option in options] for options in layers],
    )


def _selection(
    picks: Sequence[int], errors: list[list[float]], costs: list[list[float]]
) -> Selection:
    return Selection(
        tuple(picks),
        sum(values[pick] for values, pick in zip(errors, picks, strict=True)),
        sum(values[pick] for values, pick in zip(costs, picks, strict=True)),
    )


def _solve(goal: list[list[float]], limited: list[list[float]], budget: float) -> list[int]:
    """The picks of least goal within the budget, by branch and cut (HiGHS)."""
    # What is lost against each layer's least: numbers as small as the decision itself.
    kept = [_undominated(g, w) for g, w in zip(goal, limited, strict=True)]
    gains = np.concatenate([np.array(g)[k] - min(g) for g, k in zip(goal, kept, strict=True)])
    weights = np.concatenate([np.array(w)[k] - min(w) for w, k in zip(limited, kept, strict=True)])
    base = sum(min(values) for values in limited)
    room = max(0.0, budget + SLACK * abs(budget) - base)
    # An option that alone is over the budget is out, so that no weight is above 1.
    possible = weights <= room
    weights = np.where(possible, weights, 0) / (room or 1.0)
    # HiGHS stops at a gap of 1e-6 of the goal's own unit, whatever it is asked for.
    scale = (float(np.max(gains[possible], initial=0)) or 1.0) / 1e4
    gains = np.where(possible, gains, 0) / scale
    owner = np.repeat(np.arange(len(kept)), [len(k) for k in kept])
    one_each = (owner[None] == np.arange(len(kept))[:, None]).astype(np.float64)
    constraints = [
        _solver.LinearConstraint(one_each, 1, 1),
        _solver.LinearConstraint(weights[None], -inf, 1),
    ]
    while True:
        found = _solver.milp(
            gains,
            integrality=np.ones(len(gains)),
            bounds=_solver.Bounds(0, possible.astype(np.float64)),
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        if found.x is None:
            raise CompileError(f"the solver gave no selection: {found.message}")
        values = np.asarray(found.x, dtype=np.float64)
        taken = np.array([np.argmax(np.where(owner == i, values, -1)) for i in range(len(kept))])
        if weights[taken].sum() <= 1 + SLACK:
            return [int(kept[i][at - np.argmax(owner == i)]) for i, at in enumerate(taken)]
        # Within the solver's tolerance of 1e-6 of the budget, not within ours: anything but this.
        row = np.zeros(len(gains))
        row[taken] = 1
        constraints.append(_solver.LinearConstraint(row[None], -inf, len(kept) - 1))


def _undominated(goal: Sequence[float], limited: Sequence[float]) -> NDArray[np.intp]:
    """Options for which no other is as good in both, the first of equal ones."""
    kept: list[int] = []
    best = inf
    for i in sorted(range(len(goal)), key=lambda i: (limited[i], goal[i], i)):
        if goal[i] < best:
            best = goal[i]
            kept.append(i)
    return np.array(sorted(kept), dtype=np.intp)


def pareto_front(layers: Sequence[Sequence[Candidate]], limit: int = FRONT) -> list[Selection]:
    """
    All selections for which no other has a lower error and a cost that is no higher, or the other
    way round, by rising cost: the sums of layer after layer, without those that another beats.

    Where there are more than `limit` of them on the way, near ones are left out, and the front is
    a subset of near-best selections: `select_layers` stays exact.
    """
    errors, costs = _checked(layers)
    front: list[Selection] = [Selection((), 0.0, 0.0)]
    for layer_errors, layer_costs in zip(errors, costs, strict=True):
        sums = [
            Selection((*point.picks, pick), point.error + e, point.cost + c)
            for point in front
            for pick, (e, c) in enumerate(zip(layer_errors, layer_costs, strict=True))
        ]
        sums.sort(key=lambda s: (s.cost, s.error, s.picks))
        best = inf
        front = list[Selection]()
        for point in sums:
            if point.error < best:
                best = point.error
                front.append(point)
        if len(front) > limit:
            places = np.unique(np.linspace(0, len(front) - 1, limit).round().astype(int))
            front = [front[int(place)] for place in places]
    return front
