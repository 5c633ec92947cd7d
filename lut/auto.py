"""The automatic policy: what each layer's tables do to the model, and the choice under a budget."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..analysis.int8_layer import Int8Layer
from ..analysis.lut_cost import Choice, layer_cost
from ..analysis.lut_select import Candidate, select_layers
from ..errors import CompileError
from .capture import Floats, inputs_of
from .fitting import Store, fit
from .int8 import Int8Linear, int8_error, made_int8
from .linear import LutLinear
from .measure import Metric, OutputError
from .policy import Auto, Converted, Policy, select
from .progress import Tell
from .sites import Site, open_up, replace, row_mask, run, sites

TRIES = 8
"""How often a choice whose measured error is over the budget is made again with less."""

Kept = str | Int8Layer
"""A layer that was made: the key of tables in the store, or a product of bytes."""


@dataclass(frozen=True)
class Option:
    """One way to compute one layer."""

    choice: Choice
    error: float
    """Its share of the model's error."""
    layer_error: float
    """The layer's own relative error on held-out rows."""
    cost: float
    """Seconds."""


@dataclass(frozen=True)
class Chosen:
    """The outcome of an automatic policy, and what it was chosen from."""

    settings: dict[str, Converted]
    """The layers that become tables, or products of bytes."""
    options: dict[str, list[Option]]
    """Of every selected layer, the first being the layer as it is."""
    error: float
    """Measured, of the whole converted model, on batches that the tables are not fitted to."""
    predicted: float
    """The sum of the shares."""
    cost: float
    """Seconds, all selected layers together."""


def split_batches(batches: Sequence[Any], holdout: float) -> tuple[Sequence[Any], Sequence[Any]]:
    """
    Batches to fit to, and every so manieth of them to measure on; a single batch is both.
    """
    if len(batches) == 1:
        return batches, batches
    count = min(len(batches) - 1, max(1, round(len(batches) * holdout)))
    held = {int((i + 0.5) * len(batches) / count) for i in range(count)}
    return (
        [batch for i, batch in enumerate(batches) if i not in held],
        [batch for i, batch in enumerate(batches) if i in held],
    )


def choose(
    base: nn.Module,
    batches: Sequence[Any],
    held: Sequence[Any],
    plan: Auto,
    *,
    rows: int,
    memory: float,
    seed: int,
    store: Store,
    tell: Tell,
) -> Chosen:
    """
    Fits every choice for every selected layer of `base` to `batches` (they are kept in `store`),
    measures their shares on `held`, and chooses. Under an error budget the choice is measured as
    a whole, and made again with a smaller budget while it is over.

    Raises CompileError for a budget below every conversion of a layer.
    """
    places = select(sites(base), plan.include, plan.exclude)
    opened = open_up(copy.deepcopy(base), [site.name for site in places])
    judge = _Judge(opened, held, plan.metric)
    widths = {site.name: site for site in places}
    options: dict[str, list[Option]] = {}
    kept: dict[tuple[str, Choice], Kept] = {}

    def running(share: float) -> None:
        tell((len(options) + share) / (len(places) + 1), "running the model")

    for name, x in inputs_of(
        opened,
        batches,
        {site.name: site.in_features for site in places},
        rows=rows,
        memory=memory,
        seed=seed,
        tell=running,
    ):
        tell((len(options) + 1) / (len(places) + 1), f"{name}: {len(plan.choices)} choices")
        options[name] = _options(opened, name, x, widths[name], plan, judge, store, kept)

    def measured(picked: Sequence[Option], names: Sequence[str]) -> float:
        chosen = {n: kept[n, o.choice] for n, o in zip(names, picked, strict=True) if o.choice}
        return judge.of(store, chosen)

    names = list(options)
    candidates = [options[name] for name in names]
    if plan.error is None:
        picked = _pick(candidates, cost=_cost_limit(plan, places))
        whole = measured(picked, names)
    else:
        picked, whole = _under(candidates, plan.error, lambda found: measured(found, names))
    settings: dict[str, Converted] = {
        n: o.choice for n, o in zip(names, picked, strict=True) if o.choice is not None
    }
    if not settings:
        least = min(o.error for found in candidates for o in found if o.choice is not None)
        why = f"an error of {plan.error}; the tables of one layer alone make {least:.3g} or more"
        if plan.error is None or least <= plan.error:
            why = f"at {plan.rows} rows no tables cost less than the layers themselves"
        raise CompileError(f"the budget leaves every layer as it is: {why}")
    return Chosen(
        settings,
        options,
        error=whole,
        predicted=sum(option.error for option in picked),
        cost=sum(option.cost for option in picked),
    )


def _under(
    candidates: Sequence[Sequence[Option]],
    limit: float,
    measured: Callable[[Sequence[Option]], float],
) -> tuple[list[Option], float]:
    """The cheapest options whose error, measured together, is within `limit`."""
    budget = limit
    whole = math.inf
    for _ in range(TRIES):
        picked = _pick(candidates, error=budget)
        whole = measured(picked)
        if whole <= limit:
            return picked, whole
        # Errors that add up to more than their sum: ask for less of each.
        budget *= min(0.9, limit / whole)
    raise CompileError(
        f"an error budget of {limit:.3g}: chosen for {budget:.3g}, the whole model's error is "
        f"still {whole:.3g}; allow that much"
    )


def _options(
    opened: nn.Module,
    name: str,
    x: Floats,
    site: Site,
    plan: Auto,
    judge: _Judge,
    store: Store,
    kept: dict[tuple[str, Choice], Kept],
) -> list[Option]:
    """
    The options of one layer, the layer as it is first; `kept` gets the keys of their tables, and
    the products of bytes themselves.
    """
    module = opened.get_submodule(name)
    own: dict[Converted, float] = {}
    for choice in dict.fromkeys(plan.choices):
        if choice == "int8":
            kept[name, choice] = layer = made_int8(name, x, module)
            own[choice] = int8_error(layer, x, module)
        else:
            _, error, kept[name, choice] = fit(name, x, module, choice, store)
            own[choice] = error.rel_mse
    shares: dict[Converted, float] = {}
    if plan.sensitivity == "measured":
        shares = {choice: judge.of(store, {name: kept[name, choice]}) for choice in own}
    else:
        middle = sorted(own, key=lambda c: own[c])[len(own) // 2]
        share = judge.of(store, {name: kept[name, middle]})
        for choice, error in own.items():
            shares[choice] = share * error / own[middle] if own[middle] > 0 else share
    h, f, cost = site.in_features, site.out_features, _layer_cost(plan)
    return [
        Option(None, 0.0, 0.0, cost(plan.rows, h, f, None)),
        *(Option(c, shares[c], own[c], cost(plan.rows, h, f, c)) for c in own),
    ]


class _Judge:
    """The model's error on held-out batches with some of its layers as tables."""

    def __init__(self, opened: nn.Module, held: Sequence[Any], metric: Metric | None):
        self._model = opened
        self._held = held
        self._metric = metric
        with torch.no_grad():
            self._outputs = [run(opened, batch) for batch in held]

    def of(self, store: Store, keys: Mapping[str, Kept]) -> float:
        """The error with these layers converted; the model is the original again afterwards."""
        error = OutputError(self._metric)
        tables = {
            name: Int8Linear(key) if isinstance(key, Int8Layer) else LutLinear(store.layer(key))
            for name, key in keys.items()
        }
        originals = {name: self._model.get_submodule(name) for name in tables}
        model = self._model
        for name, lut in tables.items():
            model = replace(model, originals[name], lut)
        try:
            with torch.no_grad():
                for batch, output in zip(self._held, self._outputs, strict=True):
                    error.add(run(model, batch), output, row_mask(model, batch))
        finally:
            for name, lut in tables.items():
                replace(model, lut, originals[name])
        return error.value


def _layer_cost(plan: Auto) -> Callable[[int, int, int, Choice], float]:
    return layer_cost if plan.layer_cost is None else plan.layer_cost


def _cost_limit(plan: Auto, places: Sequence[Site]) -> float:
    """The budget in seconds."""
    if isinstance(plan.cost, float | int):
        return float(plan.cost)
    cost = _layer_cost(plan)
    total = 0.0
    for site in places:
        policy = plan.cost
        choice = policy.settings_of(site.name) if isinstance(policy, Policy) else policy
        total += cost(plan.rows, site.in_features, site.out_features, choice)
    return total


def _pick(
    candidates: Sequence[Sequence[Option]],
    *,
    error: float | None = None,
    cost: float | None = None,
) -> list[Option]:
    """The options of least cost within an error, or of least error within a cost."""
    found = select_layers(
        [[Candidate(option.error, option.cost) for option in options] for options in candidates],
        error=error,
        cost=cost,
    )
    return [options[pick] for options, pick in zip(candidates, found.picks, strict=True)]
