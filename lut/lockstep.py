"""
A model and its converted copy, run over many batches at once, a layer at a time.

To fit a layer to what the converted layers before it put out, every batch has to arrive at that
layer before any goes on. Each batch's run of either model is a greenlet, which stops at the next
layer to convert: the copy with the layer's input, the model with its output. When all have arrived
the layer is fitted, and they go on through it. So each model runs once over the batches however
many layers there are; what is alive in a run at the layer is kept for every batch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from greenlet import greenlet
from torch import Tensor, nn

from ..errors import CompileError
from .capture import Floats
from .sites import replace, row_mask, rows_of, run


@dataclass(frozen=True)
class Arrived:
    """A sample of the rows with which the batches have arrived at a layer."""

    name: str
    x: Floats
    """Inputs in the converted copy, N×H."""
    y: Floats
    """Outputs in the model for the same rows, N×F."""
    groups: np.ndarray
    """The number of each row's batch, N."""


class Gate(nn.Module):
    """Stands in for a layer: stops the runs that come to it until the layer is fitted."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        self.then: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.then is None:
            _stop(self.name, x)
        assert self.then is not None
        return self.then(x)


def _stop(name: str, value: Tensor) -> None:
    """Out of a run: the layer that it has come to, and what it has there."""
    hub = greenlet.getcurrent().parent
    assert hub is not None
    hub.switch((name, value))


def _stopping(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
    """A hook that stops a run behind a layer."""
    return lambda _module, _arguments, out: _stop(name, out)


class _Run:
    """One batch's run of a model: where it stands, and with what."""

    def __init__(self, model: nn.Module, batch: Any):
        self._greenlet = greenlet(lambda: run(model, batch))
        self.name: str | None = None
        self.value: Tensor | None = None
        self.advance()

    def advance(self) -> None:
        """On to the next stop; `name` is None when there is none."""
        found = self._greenlet.switch()
        if self._greenlet.dead:
            self.name, self.value = None, None
        else:
            self.name, self.value = found


def convert_in_step(
    model: nn.Module,
    batches: Sequence[Any],
    names: Sequence[str],
    fit: Callable[[Arrived], nn.Module],
    *,
    rows: int,
    seed: int,
) -> nn.Module:
    """
    A copy of `model` in which `fit` has made a new module for each named layer, in the order in
    which they are called; a layer that is called more than once is fitted to its first inputs.

    Of each layer's rows `rows` are handed to `fit`, a uniform sample by `seed`; layers that see
    the same number of rows get the same ones. Rows that a batch's mask leaves out are not counted.

    Raises CompileError for a layer that is never called, and inputs that are not finite.
    """
    # Layers may share a weight, but not a module: a stop has one name.
    converted = copy.deepcopy(model)
    gates = {name: Gate(name) for name in names}
    originals = {name: converted.get_submodule(name) for name in names}
    for name, gate in gates.items():
        converted = replace(converted, originals[name], gate)
    masks = [row_mask(model, batch) for batch in batches]
    hooks = [model.get_submodule(name).register_forward_hook(_stopping(name)) for name in names]
    try:
        with torch.no_grad():
            copies = [_Run(converted, batch) for batch in batches]
            models = [_Run(model, batch) for batch in batches]
            while waiting := [at for at, copied in enumerate(copies) if copied.name is not None]:
                name = copies[waiting[0]].name
                assert name is not None
                here = [at for at in waiting if copies[at].name == name]
                for at in here:
                    _catch_up(models[at], name)
                found = _sample(name, here, copies, models, masks, rows, seed)
                gates[name].then = fit(found)
                for at in here:
                    copies[at].advance()
            for unfinished in models:
                while unfinished.name is not None:
                    unfinished.advance()
    finally:
        for hook in hooks:
            hook.remove()
    if missing := [name for name, gate in gates.items() if gate.then is None]:
        raise CompileError(
            f"never called in calibration: {', '.join(missing)}; exclude them, or give "
            "batches that reach them"
        )
    for gate in gates.values():
        assert gate.then is not None
        converted = replace(converted, gate, gate.then)
    return converted


def _catch_up(behind: _Run, name: str) -> None:
    """Brings the model's run of a batch to the layer at which its copy stands."""
    while behind.name != name:
        if behind.name is None:
            raise CompileError(
                f"{name}: called in the converted model, but not in the original on the same "
                "batch; its layers are not the same for every input, so that they cannot be "
                "fitted in order. Convert without sequential=True"
            )
        behind.advance()


def _sample(
    name: str,
    here: Sequence[int],
    copies: Sequence[_Run],
    models: Sequence[_Run],
    masks: Sequence[Tensor | None],
    rows: int,
    seed: int,
) -> Arrived:
    """Inputs and outputs of at most `rows` rows of the batches `here`."""
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    for at in here:
        x, y = copies[at].value, models[at].value
        assert x is not None
        assert y is not None
        inputs.append(rows_of(x, masks[at]))
        outputs.append(rows_of(y, masks[at]))
        if len(inputs[-1]) and not all(torch.isfinite(torch.stack(torch.aminmax(inputs[-1])))):
            raise CompileError(
                f"{name}: its input in calibration batch {at} holds a NaN or an infinity"
            )
    starts = np.cumsum([0, *(len(x) for x in inputs)])
    chosen = np.arange(starts[-1])
    if len(chosen) > rows:
        chosen = np.random.default_rng(seed).choice(len(chosen), rows, replace=False)
        chosen.sort()
    places = np.searchsorted(starts, chosen, side="right") - 1
    x_rows: list[Floats] = []
    y_rows: list[Floats] = []
    for place, (x, y) in enumerate(zip(inputs, outputs, strict=True)):
        mine = torch.from_numpy(chosen[places == place] - starts[place])
        x_rows.append(x[mine].to(torch.float32).cpu().numpy())
        y_rows.append(y[mine].to(torch.float32).cpu().numpy())
    return Arrived(name, np.concatenate(x_rows), np.concatenate(y_rows), np.array(here)[places])
