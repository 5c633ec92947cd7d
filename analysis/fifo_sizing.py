"""
A depth and a storage for every FIFO of a network: the least memory that keeps its speed.

`size_fifos` is the entry; the methods are

| method | |
|---|---|
| `default` | descent in several orders at full speed, then levels lowered while the slack lasts |
| `exact` | the optimum, by implicit hitting sets: for small networks |
| `inr-arch` | the procedure that INR-Arch publishes, for comparison |
| `max-occupancy` | what each FIFO holds when none is bounded |
| `tensor-size` | room for everything that passes |

Every answer comes with a certificate that it does not deadlock and ends in time, checked before
it is returned.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import CompileError
from .certificate import Certificate, certify, violation
from .event_engine import Engine
from .fifo_bound import lower_bound_of
from .fifo_cost import METHODS, OBJECTIVES, least_depth, raw_at, total
from .fifo_exact import optimum
from .fifo_search import Reference, Search, reference, visiting_orders
from .network import Fifo, Network
from .relaxation import Relaxation

Ints: TypeAlias = npt.NDArray[np.integer[Any]]

MOST_TRIALS = 8
"""Runs of the whole network that `default` spends on the slack, fewer where they are long."""

TRIED_EVENTS = 64_000_000
"""Reads and writes of those runs together."""

SEVERAL_ORDERS = 20_000_000
"""Reads and writes up to which more than one order is tried."""


@dataclass(frozen=True)
class Sizing:
    """
    `depths` and `storage` of every FIFO, in order, and what they amount to.

    `latency_unbounded` is the latency when no FIFO is bounded but those whose depth is given;
    `cost` and `lower_bound` are in units of the objective, and no depths within the same bound cost
    less than `lower_bound`. `evaluations` are schedules looked at. The seconds of the lower
    bound are not part of `seconds`.
    """

    depths: tuple[int, ...]
    storage: tuple[str, ...]
    latency: int
    latency_unbounded: int
    cost: float
    lower_bound: float
    evaluations: int
    seconds: float
    certificate: Certificate

    @property
    def gap(self) -> float:
        """How much more it costs than the lower bound, as a fraction of the cost."""
        return 1 - self.lower_bound / self.cost if self.cost else 0.0


def size_fifos(
    network: Network,
    alpha: float = 0.01,
    objective: str = "bits",
    method: str = "default",
    fixed: Mapping[int, int] | None = None,
    bound_below: bool = True,
) -> Sizing:
    """
    Depths with which the network is at most a fraction `alpha` slower than with unbounded FIFOs.

    `fixed` gives the depths of FIFOs, by number, that are not to be chosen. Without `bound_below`
    the lower bound is the trivial one of least depths.

    Raises CompileError for an unknown method or objective, a negative `alpha`, a depth below 1,
    depth 1 in a memory, and given depths that deadlock: with the cycle and the least depth that
    works.
    """
    _check(network, alpha, objective, method, fixed or {})
    begun = time.perf_counter()
    fixed = dict(fixed or {})
    engine = Engine(network)
    start = reference(engine, fixed)
    if start is None:
        raise _deadlock(engine, fixed)
    bound = floor(start.latency * (1 + alpha))
    task = _Task(engine, start, fixed, objective, bound)
    proven = None
    if method == "exact":
        found = optimum(engine, fixed, objective, bound, _default(task)[0])
        depth, evaluations, proven = found.depth, found.evaluations, found.lower_bound
    else:
        depth, evaluations = _METHODS[method](task)
    sized, certificate = _finish(network, engine, depth, fixed)
    seconds = time.perf_counter() - begun
    if proven is None:
        proven = lower_bound_of(network, start, fixed, objective, bound, depth, bound_below)
    return Sizing(
        depths=tuple(int(d) for d in depth),
        storage=tuple(fifo.storage_kind for fifo in sized.fifos),
        latency=certificate.latency,
        latency_unbounded=start.latency,
        cost=total(network.fifos, [int(d) for d in depth], objective),
        lower_bound=proven,
        evaluations=evaluations,
        seconds=seconds,
        certificate=certificate,
    )


def _check(
    network: Network, alpha: float, objective: str, method: str, fixed: Mapping[int, int]
) -> None:
    if not alpha >= 0:
        raise CompileError(f"alpha is the share of speed to give up, at least 0, not {alpha}")
    if objective not in OBJECTIVES:
        raise CompileError(f"objective '{objective}' is not one of {', '.join(OBJECTIVES)}")
    if method not in METHODS:
        raise CompileError(f"method '{method}' is not one of {', '.join(METHODS)}")
    for f, depth in fixed.items():
        if not 0 <= f < len(network.fifos):
            raise CompileError(f"there is no FIFO number {f} to fix")
        # The FIFO itself says what is wrong with its depth.
        fifo = replace(network.fifos[f], depth=depth)
        if fifo.internal:
            raise CompileError(f"'{fifo.name}' is a pipeline, not a FIFO whose depth can be given")


def _deadlock(engine: Engine, fixed: Mapping[int, int]) -> CompileError:
    """The error about given depths that deadlock although all others are unbounded."""
    network = engine.network
    given: list[int | None] = [
        fixed.get(f, fifo.depth if fifo.internal else None) for f, fifo in enumerate(network.fifos)
    ]
    deadlock = engine.run(given).deadlock
    assert deadlock is not None
    advice: list[str] = []
    for f in deadlock.full:
        name = network.fifos[f].name
        if f not in fixed:
            continue
        works = _least_that_works(engine, given, f)
        if works is None:
            advice.append(f"'{name}' alone does not resolve it at any depth")
        else:
            advice.append(f"'{name}' needs depth {works} or more")
    return CompileError(
        "these FIFO depths deadlock, whatever the others are:\n"
        f"{deadlock.describe(network, given)}\n{'; or '.join(advice)}"
    )


def _least_that_works(engine: Engine, given: list[int | None], f: int) -> int | None:
    """The least depth of one FIFO without deadlock, None when there is none."""

    def runs(depth: int) -> bool:
        return engine.run([depth if g == f else d for g, d in enumerate(given)]).latency is not None

    low, high = given[f] or 0, int(engine.network.tokens[f])
    if not runs(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if runs(middle) else (middle, high)
    return high


def _finish(
    network: Network, engine: Engine, depth: Ints, fixed: Mapping[int, int]
) -> tuple[Network, Certificate]:
    """The network at its depths and the certificate, checked."""
    sized = network.with_depths([int(d) for d in depth])
    everything = range(len(network.fifos))
    run = engine.run(sized.depths, record=everything)
    if run.latency is None:
        assert run.deadlock is not None
        raise CompileError(
            "the chosen FIFO depths deadlock:\n" + run.deadlock.describe(network, sized.depths)
        )
    certificate = certify(sized, run.written_at, run.read_at)
    broken = violation(sized, certificate)
    if broken is not None:
        raise CompileError(f"the schedule of the chosen FIFO depths is not one: {broken}")
    return sized, certificate


@dataclass(frozen=True)
class _Task:
    """What every method works from."""

    engine: Engine
    start: Reference
    fixed: Mapping[int, int]
    objective: str
    bound: int

    @property
    def fifos(self) -> tuple[Fifo, ...]:
        return self.engine.network.fifos

    @property
    def open(self) -> list[int]:
        """FIFOs whose depth is to be chosen."""
        return [f for f, x in enumerate(self.fifos) if f not in self.fixed and not x.internal]


def _default(task: _Task) -> tuple[Ints, int]:
    search = Search(task.engine, task.start, task.fixed, task.objective)
    answers: list[Ints] = []
    events = task.engine.network.events
    orders = list(visiting_orders(task.engine.network).values())
    for order in orders if events <= SEVERAL_ORDERS else orders[:1]:
        relaxation = search.descend(order)
        answers.append(relaxation.depth.copy())
    best = min(answers, key=search.cost)
    if task.bound == task.start.latency:
        return best, search.evaluations
    trials = min(MOST_TRIALS, max(2, TRIED_EVENTS // max(events, 1)))
    best = search.spend(best, task.bound, trials)
    return best, search.evaluations


def _max_occupancy(task: _Task) -> tuple[Ints, int]:
    depth = task.start.depth.copy()
    for f in task.open:
        depth[f] = max(int(task.start.most[f]), least_depth(task.fifos[f]))
    return depth, 1


def _tensor_size(task: _Task) -> tuple[Ints, int]:
    depth = task.start.depth.copy()
    for f in task.open:
        depth[f] = max(int(task.engine.network.tokens[f]), least_depth(task.fifos[f]))
    return depth, 1


def _inr_arch(task: _Task) -> tuple[Ints, int]:
    """
    The procedure of INR-Arch (Abi-Karam and others, ICCAD 2023): from unbounded FIFOs, each in the
    order of declaration to 2 for good if the latency stays within the bound; in the end each
    other one to what it was seen to hold, at least 2. All FIFOs have the delay of shift
    registers while it searches, as theirs do.
    """
    raw = np.array([raw_at(fifo, 2) for fifo in task.fifos], dtype=np.int64)
    relaxation = Relaxation(task.engine, task.start.depth, raw, task.bound)
    deep: list[int] = []
    for f in task.open:
        if relaxation.occupancy(f) <= 2:
            relaxation.adopt({f: 2})
        elif not relaxation.tighten({f: (2, int(raw[f]))}):
            deep.append(f)
    relaxation.adopt({f: max(2, relaxation.occupancy(f)) for f in deep})
    return relaxation.depth, len(task.open)


_METHODS = {
    "default": _default,
    "inr-arch": _inr_arch,
    "max-occupancy": _max_occupancy,
    "tensor-size": _tensor_size,
}
