"""
Tables solved for anew, the search as it is: the ones that fit the layer's outputs best on
calibration inputs.

Before:

```mlir
%y = lut.linear layer "fc1" %x : … of %w : … table %table : … error <rel_mse = 0.319, …> -> …
```

After, with `calibration="inputs.npz"`:

```mlir
%y = lut.linear layer "fc1" %x : … of %w : … table %refitted : … error <rel_mse = 0.24, …> -> …
```

The indices of the calibration rows are a matrix of ones and zeros; the table is the ridge
regression of the layer's exact output on it, drawn towards centroids times weight
(`analysis/lut_refit.py`). Entries keep their bits. The table that is there stays where it is as
good on held-out rows, so that a second run changes nothing; its measured error is written down
either way. Inputs are those that reach the layer in the function as it is, behind other layers
of tables. A layer needs the weight that it stands for (`of`, and `plus` its bias).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..analysis.lut_codebooks import LutSettings
from ..analysis.lut_fit import centre_table, split_rows
from ..analysis.lut_layer import encode, lookup
from ..analysis.lut_refit import refit_table, refit_weight
from ..analysis.lut_values import build_table, sum_numbers
from ..dialects.lut import ErrorAttr, LinearOp, QuantAttr
from ..errors import CompileError, reject
from .lut_calibration import functions_with, load_batches, observe_inputs, pattern
from .lut_tables import (
    exchange,
    part_of,
    quantised,
    range_of,
    rounding_bound,
)

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Table:
    """A table with what goes with it, and its squared error on held-out rows."""

    entries: NDArray[Any]
    scale: Floats | None
    bias: Floats
    q_bound: float | None
    squares: float


def outputs(codes: NDArray[np.uint8], entries: NDArray[Any], scale: Floats | None) -> Floats:
    """The products N×F that a table gives for indices N×CB, without the bias."""
    if scale is None:
        return sum_numbers(codes, entries).astype(np.float32)
    return lookup(codes, entries).astype(np.float32) * scale


@dataclass(frozen=True)
class LutRefitPass(ModulePass):
    """Tables by regression on calibration inputs."""

    name = "lut-refit"

    calibration: str | None = None
    """An .npz file with inputs by the names of the function's arguments."""
    layers: str = ".*"
    """A regular expression, searched for in the names of layers."""
    seed: int = 0
    """Which rows are held out, as in `convert-matmul-to-lut`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Exchange tables in place; nothing is changed where any layer cannot be refitted."""
        select = pattern(self.name, "layers", self.layers)
        functions = functions_with(
            op, lambda o: isinstance(o, LinearOp) and bool(select.search(o.name_in_model))
        )
        if not functions:
            names = [o.name_in_model for o in op.walk() if isinstance(o, LinearOp)]
            raise CompileError(
                f"{self.name}: layers='{self.layers}' selects no layer of tables; there are: "
                f"{', '.join(names) or 'none at all'}"
            )
        todo: list[tuple[LinearOp, Table, float, float]] = []
        for function, ops in functions:
            linears = [o for o in ops if isinstance(o, LinearOp)]
            for linear in linears:
                if linear.weight is None:
                    raise reject(
                        linear,
                        f"{linear.name_in_model} has no weight beside its tables (of); convert it "
                        "with keep-weights=true",
                    )
            batches = load_batches(self.name, self.calibration, function)
            rows = observe_inputs(op, function, batches, [(o, o.x) for o in linears])
            todo += [(o, *self.refit(o, rows[o])) for o in linears]
        for linear, table, vq, rel in todo:
            acc = range_of(table.entries, linear.quant)
            error = ErrorAttr(_known(vq), _known(rel), table.q_bound, acc)
            exchange(linear, table.entries, table.scale, linear.quant, bias=table.bias, error=error)

    def refit(self, op: LinearOp, x: Floats) -> tuple[Table, float, float]:
        """
        The better of a layer's table and the refitted one, and relative squared errors on
        held-out rows: of centroids times weight, and of that table.
        """
        assert op.weight is not None
        centroids = part_of(op, op.centroids, "set of centroids")
        steps = part_of(op, op.steps, "set of grid steps")
        weight = part_of(op, op.weight, "weight").astype(np.float32)
        fit, held = split_rows(len(x), LutSettings(seed=self.seed))
        if len(fit) < centroids.shape[1]:
            raise reject(
                op,
                f"{op.name_in_model}: {len(x)} calibration rows, {len(fit)} to fit, for "
                f"{centroids.shape[1]} centroids; give at least one row a centroid",
            )
        if not np.isfinite(x).all():
            raise reject(op, f"{op.name_in_model}: calibration rows are not finite in float32")
        offset = np.zeros(weight.shape[1], dtype=np.float32)
        if op.weight_bias is not None:
            offset = part_of(op, op.weight_bias, "bias of the weight").astype(np.float32)
        energy = float(np.sum((x[held] @ weight).astype(np.float64) ** 2))
        if op.channels is not None:
            # These are multiplied exactly; their part is none of the table's.
            weight = weight.copy()
            weight[list(op.channels.get_values())] = 0
        goal = x @ weight
        codes = encode(x, centroids, steps)
        prior = build_table(centroids, steps, weight)

        def squares(entries: NDArray[Any], scale: Floats | None, bias: Floats) -> float:
            given = outputs(codes[held], entries, scale) + bias
            return float(np.sum((goal[held] + offset - given).astype(np.float64) ** 2))

        present = offset * 0 if op.bias is None else part_of(op, op.bias, "bias")
        entries = part_of(op, op.table, "table")
        scale = None if op.scale is None else part_of(op, op.scale, "scale")
        bound = None if op.error is None else op.error.number("q_bound")
        best = Table(entries, scale, present, bound, squares(entries, scale, present))
        vq = float(np.sum((goal[held] - outputs(codes[held], prior, None)).astype(float) ** 2))
        points = centroids.astype(np.float32) * steps[:, None, None]
        values = points[np.arange(len(points)), codes].reshape(len(codes), -1)[:, : len(weight)]
        line = refit_weight(values[fit], goal[fit], weight, values[held], goal[held])
        start, shift = prior, offset * 0
        if line.error < vq:
            start, shift = build_table(centroids, steps, line.weight), line.shift
        found = refit_table(codes[fit], goal[fit] - shift, start, codes[held], goal[held] - shift)
        for candidate, moved in ((found.table, shift), (start, shift), (prior, offset * 0)):
            fitted = self.finish(candidate, offset + moved, op.quant)
            error = squares(fitted.entries, fitted.scale, fitted.bias)
            # By more than the rounding of sums, so that a second run finds nothing to do.
            if error < best.squares * (1 - 1e-5):
                best = Table(fitted.entries, fitted.scale, fitted.bias, fitted.q_bound, error)
        return best, _ratio(vq, energy), _ratio(best.squares, energy)

    @staticmethod
    def finish(table: Floats, offset: Floats, quant: QuantAttr | None) -> Table:
        """A table of numbers centred, its moves in the bias, and in integers where it is to be."""
        centred, moved = centre_table(table)
        bias = (offset + moved).astype(np.float32)
        if quant is None:
            return Table(centred, None, bias, None, 0.0)
        entries, scale = quantised(centred, quant)
        return Table(entries, scale, bias, rounding_bound(centred, entries, scale), 0.0)


def _ratio(error: float, energy: float) -> float:
    return error / energy if energy > 0 else (0.0 if error == 0 else float("inf"))


def _known(value: float) -> float | None:
    return value if isfinite(value) else None
