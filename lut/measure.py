"""How far a converted model is from the original, layer by layer and as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import CompileError
from .capture import watching
from .linear import LutLinear
from .sites import row_mask, rows_of, run, tensors

Metric = Callable[[Any, Any], float]
"""A number for how far an output (first) is from the original model's (second)."""


class Energy:
    """‖y - ŷ‖²/‖y‖², summed over many pieces in float64."""

    def __init__(self) -> None:
        self.error = 0.0
        self.energy = 0.0
        self.pieces = 0

    def add(self, found: Tensor, reference: Tensor) -> None:
        """Adds a piece."""
        self.pieces += 1
        real = reference.to(torch.float64)
        self.error += float((found.to(torch.float64) - real).square().sum())
        self.energy += float(real.square().sum())

    @property
    def ratio(self) -> float:
        """0 for equal, 1 for as good as zeros, NaN where nothing was added."""
        if not self.pieces:
            return math.nan
        if self.energy > 0:
            return self.error / self.energy
        return 0.0 if self.error == 0 else math.inf


class OutputError:
    """The error of a model's floating outputs, each and all together."""

    def __init__(self, metric: Metric | None = None) -> None:
        self.total = Energy()
        self.parts: dict[str, Energy] = {}
        self._metric = metric
        self._values: list[float] = []

    def add(self, output: Any, reference: Any, mask: Tensor | None = None) -> None:
        """Adds the outputs of a batch; positions B×L that a mask leaves out do not count."""
        real = dict(tensors(reference))
        if not real:
            raise CompileError("the model's output holds no floating tensor to compare")
        for name, tensor in tensors(output):
            if name not in real:
                continue
            piece = tuple(
                rows_of(t, mask) if mask is not None and t.shape[:2] == mask.shape else t
                for t in (tensor, real[name])
            )
            self.total.add(*piece)
            self.parts.setdefault(name, Energy()).add(*piece)
        if self._metric is not None:
            self._values.append(float(self._metric(output, reference)))

    @property
    def value(self) -> float:
        """The mean of the metric, or the relative squared error of all outputs together."""
        if self._metric is not None:
            return sum(self._values) / max(1, len(self._values))
        return self.total.ratio


def compare(
    converted: nn.Module,
    reference: nn.Module,
    batches: Sequence[Any],
    metric: Metric | None = None,
    tell: Callable[[float], None] | None = None,
) -> OutputError:
    """The error of `converted` against `reference` on batches."""
    error = OutputError(metric)
    with torch.no_grad():
        for number, batch in enumerate(batches):
            mask = row_mask(reference, batch)
            error.add(run(converted, batch), run(reference, batch), mask)
            if tell is not None:
                tell((number + 1) / len(batches))
    return error


def layer_errors(
    layers: dict[str, LutLinear],
    opened: nn.Module,
    batches: Sequence[Any],
    tell: Callable[[float], None],
) -> dict[str, Energy]:
    """
    The error of each layer's product x·W with its true input, as the original model has it.

    `opened` is the original with every layer a module (`sites.open_up`); the bias is left out of
    the energy, and of the difference on both sides.
    """
    found = {name: Energy() for name in layers}
    mask: Tensor | None = None

    def see(name: str, x: Tensor, out: Tensor) -> None:
        rows, real = (rows_of(t, mask).to(torch.float32) for t in (x, out))
        mine = layers[name](rows)
        bias = getattr(opened.get_submodule(name), "bias", None)
        if bias is not None:
            mine, real = mine - bias, real - bias
        found[name].add(mine, real)

    with watching(opened, list(layers), see), torch.no_grad():
        for number, batch in enumerate(batches):
            mask = row_mask(opened, batch)
            run(opened, batch)
            tell((number + 1) / len(batches))
    return found
