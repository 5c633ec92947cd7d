"""What a conversion costs: the error of each layer and of the whole model on held-out data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from torch import nn

from ..errors import CompileError
from .linear import LutLinear, layers
from .measure import compare, layer_errors
from .policy import LutWarning
from .progress import Tell, following
from .sites import as_batches, copied, open_up, sites

WARN_ABOVE = 0.1
"""A relative squared error of the model's output that nobody would take for rounding."""


@dataclass(frozen=True)
class LayerReport:
    """One layer of tables."""

    name: str
    in_features: int
    out_features: int
    vec: int
    centroids: int
    bits: int
    residual: int
    """Channels multiplied exactly."""
    rel_mse: float | None
    """‖y - ŷ‖²/‖y‖² of the product x·W, x being the layer's input in the original model; None where
    no batch reached the layer."""
    quant_bound: float
    """The most by which rounding entries can move an output, CB·scale: half a unit of every entry,
    and as much of their mean that the bias takes back. An entry that the fit clipped to the table's
    range is off by more; `rel_mse` has both."""
    acc_low: int
    acc_high: int
    """The least and the largest sum of entries that any indices give."""
    table_bytes: int
    dense_bytes: int
    """The layer's weight in float32."""
    refit: bool | None
    """Whether the refitted table was kept; None where the fit is not known (loaded tables)."""
    fitted_rel_mse: float | None
    """The error that the fit measured on calibration rows it had held out."""


@dataclass(frozen=True)
class LutReport:
    """A converted model against the original."""

    layers: list[LayerReport]
    error: float
    """‖y - ŷ‖²/‖y‖² of the model's floating outputs together."""
    outputs: dict[str, float]
    """The same of each output."""
    metric: float | None
    """The mean of the caller's metric."""
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; numbers that are not finite become None."""
        return _plain(asdict(self))

    def table(self) -> Table:
        """The layers as a table for a terminal."""
        title = f"error of the model {self.error:.3g}"
        if self.metric is not None:
            title += f", metric {self.metric:.4g}"
        table = Table(title=title)
        for heading in ("layer", "H×F", "V/K/bits"):
            table.add_column(heading)
        for heading in ("rel. MSE", "rounding ≤", "sums", "bytes", "refit"):
            table.add_column(heading, justify="right")
        for x in self.layers:
            settings = f"{x.vec}/{x.centroids}/{x.bits}" + (f"+{x.residual}" if x.residual else "")
            table.add_row(
                x.name,
                f"{x.in_features}×{x.out_features}",
                settings,
                "-" if x.rel_mse is None else f"{x.rel_mse:.3g}",
                f"{x.quant_bound:.2g}",
                f"{x.acc_low}..{x.acc_high}",
                str(x.table_bytes),
                "-" if x.refit is None else "yes" if x.refit else "no",
            )
        return table


def report(
    converted: nn.Module,
    held_out: Any,
    reference: nn.Module,
    *,
    metric: Callable[[Any, Any], float] | None = None,
    progress: bool | Tell = True,
) -> LutReport:
    """
    Measures `converted` against `reference`, the original model, on held-out batches.

    Each layer is measured by itself, with the input that it has in the original. `metric(output,
    reference_output)` is one more number for the whole model, averaged over batches. Warns
    (LutWarning) when the model's error is above a tenth, and names the worst layers.

    Raises CompileError for no batches, a model without tables, and one that is not made from
    `reference`.
    """
    luts = layers(converted)
    if not luts:
        raise CompileError("report: the model has no layer of tables; convert it first")
    batches = as_batches(held_out, "report")
    original = copied(reference)
    known = {site.name: (site.in_features, site.out_features) for site in sites(original)}
    for name, lut in luts.items():
        if known.get(name) != (lut.in_features, lut.out_features):
            raise CompileError(
                f"report: the reference has no linear layer {name} of {lut.in_features} inputs and "
                f"{lut.out_features} outputs"
            )
    with following(progress, "measuring") as tell:
        whole = compare(
            converted, original, batches, metric, lambda share: tell(share / 2, "the model")
        )
        opened = open_up(original, luts)
        errors = layer_errors(
            luts, opened, batches, lambda share: tell(0.5 + share / 2, "each layer")
        )
    found = [_layer(name, lut, errors[name].ratio) for name, lut in luts.items()]
    said = warning(whole.total.ratio, {x.name: x.rel_mse for x in found}, "held-out data")
    if said is not None:
        warnings.warn(said, LutWarning, stacklevel=2)
    return LutReport(
        layers=found,
        error=whole.total.ratio,
        outputs={name: energy.ratio for name, energy in whole.parts.items()},
        metric=None if metric is None else whole.value,
        warnings=[] if said is None else [said],
    )


def warning(error: float, layer_errors: dict[str, float | None], where: str) -> str | None:
    """What to say of a model's relative error, None if it is small."""
    if not error > WARN_ABOVE:
        return None
    known = {name: e for name, e in layer_errors.items() if e is not None}
    worst = sorted(known, key=lambda name: -known[name])[:3]
    return (
        f"the converted model's output is off by {error:.3g} of its energy on {where}; the worst "
        f"layers are {', '.join(f'{name} ({known[name]:.3g})' for name in worst)}. Leave some as "
        "they are (exclude), use smaller sub-vectors or more centroids (vec=2, centroids=64), let "
        "an error budget choose (lut.Auto), or train the tables (lut.calibrate)"
    )


def _layer(name: str, lut: LutLinear, error: float) -> LayerReport:
    layer = lut.layer
    low, high = layer.range
    return LayerReport(
        name=name,
        in_features=layer.in_features,
        out_features=layer.out_features,
        vec=layer.vec,
        centroids=layer.centroids_per_codebook,
        bits=layer.bits,
        residual=0 if layer.channels is None else len(layer.channels),
        rel_mse=None if math.isnan(error) else error,
        quant_bound=layer.codebooks * float(layer.scale.max()),
        acc_low=low,
        acc_high=high,
        table_bytes=layer.table.size,
        dense_bytes=4 * layer.in_features * layer.out_features,
        refit=None if lut.fitted is None else lut.fitted.refit_used,
        fitted_rel_mse=None if lut.fitted is None else lut.fitted.rel_mse,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
