"""Converting the linear layers of a model to tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from ..errors import CompileError
from .auto import Chosen, choose, split_batches
from .capture import Floats, inputs_of
from .fitting import Goal, Store, fit
from .int8 import Int8Linear, made_int8
from .linear import LutLinear, layers
from .lockstep import convert_in_step
from .measure import compare
from .policy import Auto, Converted, LutWarning, Policy
from .progress import Tell, following
from .report import warning
from .sites import as_batches, bias_of, copied, open_up, replace, sites, weight_of

ROWS = 8192
"""Rows of its input that each layer is fitted to, unless told otherwise."""

MEMORY = 2 * 2**30
"""Bytes of captured rows at once, unless told otherwise."""

WARN_BATCHES = 4
"""Calibration batches that this error is measured on, at most."""


def convert(
    model: nn.Module,
    calibration: Any,
    policy: Policy | Auto | str | None = None,
    *,
    progress: bool | Tell = True,
    seed: int | None = None,
    checkpoint: str | Path | None = None,
    rows: int = ROWS,
    memory: float = MEMORY,
    sequential: bool = False,
    error: float | None = None,
    cost: float | None = None,
    explain: Callable[[Chosen], None] | None = None,
) -> nn.Module:
    """
    A copy of `model`, in eval mode and with the same forward signature, whose selected linear
    layers are `LutLinear`, or `Int8Linear` where the policy says "int8". The model itself is left
    alone.

    `calibration` is an iterable of batches, a batch being a tensor, a tuple of positional or a
    mapping of keyword arguments. Of each layer's inputs `rows` rows are kept, a uniform sample
    by the policy's seed or by `seed`; layers are captured in several runs where the rows would
    take more than `memory` bytes. With `sequential` the layers are fitted in the order in which
    they are called, each to what the converted ones before it put out and towards what the original
    makes of the same inputs, so that it takes back part of their errors; errors are then those on
    batches held out, and all batches are in work at once (`lut/lockstep.py`).

    `policy` is a `Policy` (None: every layer, the default settings), an `Auto`, or "auto" with a
    budget `error` or `cost`. `checkpoint` is a folder that keeps each fitted layer; a conversion
    that was interrupted, or another with layers in common, takes them from there. `explain` is told
    what an automatic policy chose, and from what.

    Warns (LutWarning) when the converted model's output on calibration batches is off by more
    than a tenth of its energy, and names the worst layers.

    Raises CompileError for a policy that selects nothing or has an unreachable budget, a model in
    train mode with dropout or batch statistics, and calibration data that is empty, not finite,
    misses a layer or has fewer rows than centroids.
    """
    plan = _plan(policy, error, cost)
    batches = as_batches(calibration, "calibration")
    base = copied(model)
    places = sites(base)
    seed = plan.seed if seed is None else seed
    with ExitStack() as stack:
        tell = stack.enter_context(following(progress, "tables"))
        folder = None if checkpoint is None else Path(checkpoint)
        if folder is None and isinstance(plan, Auto):
            # Many more layers are fitted than are used: too many to hold in memory.
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="inr-lut-")))
        store = Store(folder)
        if isinstance(plan, Auto):
            batches, held = split_batches(batches, plan.holdout)
            chosen = choose(
                base,
                batches,
                held,
                plan,
                rows=rows,
                memory=memory,
                seed=seed,
                store=store,
                tell=tell,
            )
            settings = chosen.settings
            if explain is not None:
                explain(chosen)
        else:
            settings = plan.choose(places)
        opened = open_up(base, settings)
        widths = {site.name: site.in_features for site in places if site.name in settings}
        converted = _fitted(
            opened, batches, widths, settings, store, tell, rows, memory, seed, sequential
        )
    _warn(converted, model, batches)
    return converted


def _plan(policy: Policy | Auto | str | None, error: float | None, cost: float | None):
    if policy == "auto":
        return Auto(error=error, cost=cost)
    if error is not None or cost is not None:
        raise CompileError("error= and cost= go with policy='auto'; an Auto has its own")
    if policy is None:
        return Policy()
    if not isinstance(policy, Policy | Auto):
        raise CompileError(f"policy {policy!r}: a lut.Policy, a lut.Auto or 'auto'")
    return policy


def _fitted(
    model: nn.Module,
    batches: Sequence[Any],
    widths: dict[str, int],
    settings: Mapping[str, Converted],
    store: Store,
    tell: Tell,
    rows: int,
    memory: float,
    seed: int,
    sequential: bool,
) -> nn.Module:
    """`model`, opened up, with its layers replaced by tables or products of bytes."""
    made: list[tuple[nn.Module, nn.Module]] = []

    def running(share: float) -> None:
        tell((len(made) + share) / (len(widths) + 1), "running the model")

    def new(name: str, x: Floats, goal: Goal | None = None) -> nn.Module:
        tell((len(made) + 1) / (len(widths) + 1), name)
        module = model.get_submodule(name)
        choice = settings[name]
        if choice == "int8":
            found: nn.Module = Int8Linear(made_int8(name, x, module), weight_of(module))
        else:
            layer, error, _ = fit(name, x, module, choice, store, goal)
            found = LutLinear(layer, weight_of(module), bias_of(module))
            found.fitted = error
        made.append((module, found))
        return found

    if sequential:
        return convert_in_step(
            model,
            batches,
            list(widths),
            lambda here: new(here.name, here.x, Goal(here.y, here.groups)),
            rows=rows,
            seed=seed,
        )
    source = inputs_of(model, batches, widths, rows=rows, memory=memory, seed=seed, tell=running)
    for name, x in source:
        new(name, x)
    # Not before all inputs are known: later layers are to see the original's.
    for module, found in made:
        model = replace(model, module, found)
    return model


def _warn(converted: nn.Module, model: nn.Module, batches: Sequence[Any]) -> None:
    training = {m: m.training for m in model.modules()}
    model.eval()
    try:
        error = compare(converted, model, batches[:: -(-len(batches) // WARN_BATCHES)]).total.ratio
    finally:
        for module, mode in training.items():
            module.training = mode
    errors = {name: m.fitted.rel_mse if m.fitted else None for name, m in layers(converted).items()}
    if (said := warning(error, errors, "calibration data")) is not None:
        warnings.warn(said, LutWarning, stacklevel=3)
