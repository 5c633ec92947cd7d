"""
All layers of a model on one machine: what each does, where, and with which mapping.

A layer may be tables on DPUs, an int8 product on DPUs, or a float32 product on the host. The
tables and weights of all layers stay in MRAM together; indices and sums of one layer make room for
those of the next. `plan` picks one choice a layer, the fastest together that fit, by an integer
program (HiGHS).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, cast

import numpy as np
import scipy.optimize  # pyright: ignore[reportMissingTypeStubs]

from ..errors import CompileError
from .int8_layer import LIMIT
from .upmem_cost import in_turn
from .upmem_legality import Machine
from .upmem_mapping import LutShape, up_to_multiple
from .upmem_target import UpmemTarget
from .upmem_tuner import Choice, Fixed, front, pareto

_solver = cast(Any, scipy.optimize)

PRODUCT_COSTS = {
    # Bytes that the host reads and writes for each activation that it makes a byte.
    "round": 5.0,
    # Float32 operations of the search for each multiply-add of its scores: the minimum beside it.
    "search": 2.0,
    # Bytes that the host reads and writes for each sum that it makes a float32.
    "dequantise": 8.0,
}
"""Constants of what a layer does besides adding table entries."""


@dataclass(frozen=True)
class Layer:
    """One layer of a plan: its shape, what is fixed of its mapping, calls for each of the model."""

    name: str
    shape: LutShape
    fixed: Fixed = field(default_factory=dict[str, Any])
    calls: int = 1


@dataclass(frozen=True)
class Plan:
    """What each layer does, and what that comes to."""

    layers: tuple[Layer, ...]
    choices: tuple[Choice, ...]
    groups: int
    mram: int
    """Bytes of a DPU that are free for all."""

    def _sum(self, of: Callable[[Choice], float]) -> float:
        pairs = zip(self.layers, self.choices, strict=True)
        return sum(layer.calls * of(choice) for layer, choice in pairs)

    @property
    def one_after_the_other(self) -> float:
        """Seconds on DPUs and to and from them, nothing at the same time."""
        return self._sum(lambda c: c.moved) + self._sum(lambda c: c.kernel)

    @property
    def in_groups(self) -> float:
        """The same with the groups in turn, over all layers."""
        moved, kernel = self._sum(lambda c: c.moved), self._sum(lambda c: c.kernel)
        return in_turn(moved, kernel, self.groups)

    def scheduled(self, rounds: int) -> float:
        """
        Seconds of `rounds` passes through all layers, one after another for each group, on a bus
        that serves one group at a time: see `schedule`. Without the host's own work.
        """
        pairs = zip(self.layers, self.choices, strict=True)
        chain = [(c.sent, c.kernel, c.received) for layer, c in pairs for _ in range(layer.calls)]
        return schedule(chain * rounds, self.groups)

    @property
    def host(self) -> float:
        """Seconds of the host's own work."""
        return self._sum(lambda c: c.host)

    @property
    def seconds(self) -> float:
        """All."""
        return self.in_groups + self.host

    @property
    def resident(self) -> int:
        """Bytes of each DPU kept between calls."""
        return sum(c.resident for c in self.choices)

    @property
    def scratch(self) -> int:
        """Bytes of each DPU that layers take in turn."""
        return max((c.scratch for c in self.choices), default=0)

    def __str__(self) -> str:
        lines = [
            f"{self.in_groups * 1e3:.1f} ms on DPUs in {self.groups} groups "
            f"({self.one_after_the_other * 1e3:.1f} one after the other), host "
            f"{self.host * 1e3:.1f} ms; MRAM {self.resident:,} + {self.scratch:,} of {self.mram:,}"
        ]
        for layer, choice in zip(self.layers, self.choices, strict=True):
            lines.append(
                f"  {layer.name}: {choice.what}, transfers {choice.moved * 1e3:.2f}, kernel "
                f"{choice.kernel * 1e3:.2f}, host {choice.host * 1e3:.2f} ms, "
                f"{choice.resident:,} bytes resident"
                + (f"; {choice.mapping}" if choice.mapping else "")
            )
        return "\n".join(lines)


def table_host_seconds(shape: LutShape, target: UpmemTarget) -> float:
    """The host's part of a layer of tables: search of N·H·K multiply-adds, N·F floats made."""
    macs = PRODUCT_COSTS["search"] * shape.rows * shape.inputs * shape.centroids
    moved = PRODUCT_COSTS["dequantise"] * shape.rows * shape.features
    return macs / target.host_macs_per_second + moved / target.host_weight_bytes_per_second


def host_product(shape: LutShape, target: UpmemTarget) -> Choice:
    """The float32 product on the host: by its arithmetic, or by reading the weights."""
    weights = shape.inputs * shape.features
    seconds = max(
        shape.rows * weights / target.host_macs_per_second,
        4 * weights / target.host_weight_bytes_per_second,
    )
    return Choice("host", 0.0, 0.0, 0.0, seconds, 0, 0)


def product_shape(shape: LutShape) -> LutShape:
    """The int8 product of a layer, with the worst bounds of its sums."""
    return LutShape(
        shape.rows,
        shape.inputs,
        1,
        shape.features,
        in_features=shape.inputs,
        vec=1,
        activation=LIMIT,
    )


def int8_products(shape: LutShape, machine: Machine, groups: int = 1) -> list[Choice]:
    """An int8 product on DPUs by every mapping worth it; none where it does not fit."""
    product, found = product_shape(shape), list[Choice]()
    # The host rounds the inputs and makes floats of the sums.
    moved = PRODUCT_COSTS["round"] * shape.rows * shape.inputs
    moved += PRODUCT_COSTS["dequantise"] * shape.rows * shape.features
    host = moved / machine.target.host_weight_bytes_per_second
    for objective in ("total", "pipelined") if groups > 1 else ("total",):
        try:
            mapped = pareto(product, machine, {"groups": groups}, objective=objective)
        except CompileError:
            return []
        found += [replace(choice, what="int8 product", host=host) for choice in mapped]
    return front(found)


def choices_of(
    layer: Layer, machine: Machine, groups: int = 1, alternatives: bool = True
) -> list[Choice]:
    """
    What a layer may do: tables by every mapping worth it, and with `alternatives` the products on
    DPUs and host. Raises CompileError where nothing of that fits.
    """
    fixed = {"groups": groups, **layer.fixed}
    found: list[Choice] = []
    if alternatives:
        found.append(host_product(layer.shape, machine.target))
        found += int8_products(layer.shape, machine, groups)
    try:
        for objective in ("total", "pipelined") if groups > 1 else ("total",):
            tables = pareto(layer.shape, machine, fixed, objective=objective, name=layer.name)
            host = table_host_seconds(layer.shape, machine.target)
            found += [replace(choice, host=host) for choice in tables]
    except CompileError:
        if not found:
            raise
    return front(found)


def alike(shape: LutShape) -> LutShape:
    """
    The shape with bounds that are the same for all layers that are mapped alike: whether the sums
    fit 16 bits is all that a mapping asks of them.
    """
    narrow = shape.high < 1 << 15 and shape.low >= -(1 << 15)
    if not narrow and max(shape.high, -1 - shape.low) >= 1 << 31:
        return shape
    bound = (1 << 15) - narrow
    return replace(shape, acc_low=-bound, acc_high=bound)


def plan(
    layers: Sequence[Layer],
    machine: Machine,
    *,
    groups: Sequence[int] = (1,),
    alternatives: bool = False,
) -> Plan:
    """
    The fastest choice of all layers together that fits MRAM, over some numbers of rank groups.

    Raises CompileError for a layer that nothing fits, and where the layers do not fit together, by
    how many bytes.
    """
    best: Plan | None = None
    refused: CompileError | None = None
    for count in groups:
        known: dict[tuple[LutShape, str], list[Choice]] = {}
        options: list[list[Choice]] = []
        try:
            for layer in layers:
                shape = alike(layer.shape)
                key = shape, str(layer.fixed)
                if key not in known:
                    try:
                        found = choices_of(
                            replace(layer, shape=shape), machine, count, alternatives
                        )
                    except CompileError:
                        # Once more for the message, which has the layer's own bounds.
                        found = choices_of(layer, machine, count, alternatives)
                    known[key] = found
                options.append(known[key])
            chosen = choose(options, [layer.calls for layer in layers], machine.mram, count)
        except CompileError as error:
            refused = refused or error
            continue
        tried = Plan(tuple(layers), tuple(chosen), count, machine.mram)
        if best is None or tried.seconds < best.seconds:
            best = tried
    if best is None:
        raise refused or CompileError("a plan needs at least one number of rank groups")
    return best


def schedule(chain: Sequence[tuple[float, float, float]], groups: int) -> float:
    """
    When the last of G groups ends a chain of layers, each (sent, kernel, received) seconds for
    all groups together: a group needs 1/G of a transfer's time, and its own DPUs for the kernel.
    The bus serves one at a time: what can start first; indices before sums, then who asked first.

    `in_turn` is the estimate of this that a mapping is chosen by. It leaves out the fill at the
    start and what is lost where several groups ask at once.
    """
    # Transfers of a group in order, and the kernel between one and the next.
    steps = [s for sent, kernel, received in chain for s in ((sent, kernel), (received, 0.0))]
    asking = [(0.0, group, 0) for group in range(groups if steps else 0)]
    heapq.heapify(asking)
    waiting: list[tuple[int, float, int, int]] = []
    bus = end = 0.0
    while asking or waiting:
        if not waiting:
            bus = max(bus, asking[0][0])
        while asking and asking[0][0] <= bus:
            at, group, step = heapq.heappop(asking)
            heapq.heappush(waiting, (step % 2, at, group, step))
        _, _, group, step = heapq.heappop(waiting)
        moved, kernel = steps[step]
        bus += moved / groups
        if step + 1 < len(steps):
            heapq.heappush(asking, (bus + kernel, group, step + 1))
        end = max(end, bus)
    return end


def choose(
    options: Sequence[Sequence[Choice]], calls: Sequence[int], mram: int, groups: int = 1
) -> list[Choice]:
    """
    One choice a layer: least (moved + kernel)/G + (G-1)/G·max(moved, kernel) + host over all
    layers, with Σ resident + max scratch within `mram` bytes. Exact.

    Raises CompileError where no selection fits.
    """
    if not options:
        return []
    flat = [(i, choice) for i, layer in enumerate(options) for choice in layer]
    count = len(flat)
    times = np.array([calls[i] for i, _ in flat], dtype=np.float64)
    moved, kernel, host = (
        times * np.array([getattr(c, name) for _, c in flat])
        for name in ("moved", "kernel", "host")
    )
    # In units of 8 bytes, rounded up: whole numbers far above the solver's tolerance.
    resident = np.array([ceil(c.resident / 8) for _, c in flat], dtype=np.float64)
    scratch = np.array([ceil(c.scratch / 8) for _, c in flat], dtype=np.float64)
    unit = max(float(np.max(moved + kernel + host)), 1e-12)
    # Variables: a choice each, the largest scratch, the longer of transfers and kernels.
    costs = np.concatenate([(moved + kernel) / groups + host, [0.0, 0.0]]) / unit
    costs[-1] = (groups - 1) / groups
    rows: list[Any] = []
    low: list[float] = []
    high: list[float] = []

    def constrain(row: Any, least: float, most: float) -> None:
        rows.append(row)
        low.append(least)
        high.append(most)

    layer_of = np.array([i for i, _ in flat])
    for i in range(len(options)):
        mine = (layer_of == i).astype(np.float64)
        constrain(np.concatenate([mine, [0, 0]]), 1, 1)
        constrain(np.concatenate([mine * scratch, [-1, 0]]), -np.inf, 0)
    memory = np.concatenate([resident, [1, 0]])
    constrain(memory, -np.inf, mram // 8)
    constrain(np.concatenate([moved / unit, [0, -1]]), -np.inf, 0)
    constrain(np.concatenate([kernel / unit, [0, -1]]), -np.inf, 0)
    x = _solve(costs, rows, low, high, count)
    if x is None:
        # What the least of all selections would take.
        sizes = np.concatenate([resident, [1.0, 0.0]])
        high[2 * len(options)] = np.inf
        x = _solve(sizes, rows, low, high, count)
        least = 8 * round(float(sizes @ x))
        raise CompileError(
            f"{len(options)} layers do not fit MRAM together: they take at least {least:,} bytes "
            f"of each DPU, and {mram:,} are free, {least - mram:,} too few; more DPUs, fewer rows "
            "a call, or some layers on the host"
        )
    picked = np.flatnonzero(x[:count] > 0.5)
    chosen = [flat[int(i)][1] for i in picked]
    if len(chosen) != len(options) or sum(c.resident for c in chosen) + max(
        c.scratch for c in chosen
    ) > up_to_multiple(mram, 8):
        raise RuntimeError("the integer program's answer breaks its own constraints")
    return chosen


def _solve(costs: Any, rows: list[Any], low: list[float], high: list[float], choices: int) -> Any:
    """The least of costs·x within the rows, `choices` variables of 0 or 1 and two free; or None."""
    ends = np.concatenate([np.ones(choices), [np.inf, np.inf]])
    return _solver.milp(
        costs,
        constraints=_solver.LinearConstraint(np.array(rows), np.array(low), np.array(high)),
        bounds=_solver.Bounds(np.zeros(choices + 2), ends),
        integrality=np.concatenate([np.ones(choices), [0, 0]]),
        options={"mip_rel_gap": 0.0},
    ).x
