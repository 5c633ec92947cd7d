"""
Which products become tables, and how they are cut, under a budget for the whole function.

Before:

```mlir
%0 = inr.matmul %x, %w1 : …
%1 = inr.matmul %0, %w2 : …
```

After, with `budget=0.01 calibration="inputs.npz"`:

```mlir
%0 = inr.matmul %x, %w1 {lut.spec = #lut.spec<vec = 2, k = 16, cb = 384>, lut.quant = …} : …
%1 = inr.matmul %0, %w2 {lut.dense} : …
```

which `convert-matmul-to-lut` obeys. Each product is fitted with each of the settings
`vec`×`k`×`bits` on the first part of the calibration batches; the function is run on the others
with that one layer as tables, and the squared error of its outputs relative to their square (the
worst output) is the share of the option. Costs are seconds on a machine with DPUs for `rows` rows
(`analysis/lut_cost.py`), a product being computed by the host; `cost=operations` counts
multiplications and additions instead, wherever they are made. `limit=error` looks for the least
cost whose shares add up to at most `budget`; the choice is then measured as a whole, and made again
with less where it is over. `limit=cost` looks for the least error at no more than `budget` times
the cost of all products. What was decided of a product before is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ..analysis.lut_codebooks import LutSettings, codebook_count
from ..analysis.lut_cost import LayerMachine, layer_cost
from ..analysis.lut_fit import FittedLayer, fit_layer
from ..analysis.lut_select import Candidate, select_layers
from ..analysis.upmem_target import DEFAULT_TARGET
from ..dialects.inr import MatmulOp, shape_of
from ..errors import CompileError
from ..interpreters.graph import find_function, run_graph
from .convert_matmul_to_lut import replace_product
from .lut_calibration import Batch, functions_with, load_batches, observe_inputs, pattern
from .lut_products import Product, check_names, decide, products, settings_for

HELD = 0.25
"""The share of the batches on which errors are measured and no layer is fitted."""

TRIES = 8
"""How often a choice that is over its budget as a whole is made again with a smaller one."""

LIMITS = ("error", "cost")
COSTS = ("seconds", "operations")


@dataclass(frozen=True, eq=False)
class Option:
    """One way to compute a product: a fitted layer, or as it is."""

    settings: LutSettings | None
    fitted: FittedLayer | None
    share: float
    cost: float


def output_error(
    outputs: Sequence[Sequence[NDArray[np.float64]]],
    exact: Sequence[Sequence[NDArray[np.float64]]],
) -> float:
    """
    ‖y - ŷ‖²/‖y‖² over all batches of the output for which it is the largest; an output that is 0
    and stays 0 has no error.
    """
    worst = 0.0
    for index in range(len(exact[0])):
        pairs = [(e[index], o[index]) for e, o in zip(exact, outputs, strict=True)]
        energy = sum(float(np.sum(e**2)) for e, _ in pairs)
        error = sum(float(np.sum((e - o) ** 2)) for e, o in pairs)
        if error:
            worst = max(worst, error / energy if energy else float("inf"))
    return worst


@dataclass(frozen=True)
class LutSelectLayersPass(ModulePass):
    """Decide which products become tables."""

    name = "lut-select-layers"

    budget: float | int | None = None
    limit: str = "error"
    """What the budget is of: `error` of the outputs, or `cost` as a share of that of products."""
    calibration: str | None = None
    """An .npz file with inputs by the names of the function's arguments."""
    layers: str = ".*"
    """A regular expression, searched for in the names of layers."""
    vec: tuple[int, ...] = (2, 4)
    k: tuple[int, ...] = (16,)
    bits: tuple[int, ...] = (8,)
    rows: int | None = None
    """Rows for which a layer's cost is taken; by default those of its input."""
    cost: str = "seconds"
    """`seconds` on the target, or `operations`."""
    target: str = DEFAULT_TARGET
    """A machine with DPUs."""
    seed: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Decide in place; nothing is changed where the budget is out of reach."""
        if self.limit not in LIMITS:
            raise CompileError(
                f"{self.name}: limit '{self.limit}' is not one of {', '.join(LIMITS)}"
            )
        if self.cost not in COSTS:
            raise CompileError(f"{self.name}: cost '{self.cost}' is not one of {', '.join(COSTS)}")
        if self.budget is None or not (isfinite(self.budget) and self.budget >= 0):
            raise CompileError(
                f"{self.name}: needs budget=NUMBER, the {self.limit} allowed; 0 or more"
            )
        select = pattern(self.name, "layers", self.layers)
        names: list[str] = []
        matching: list[Product] = []
        decisions: list[tuple[Product, LutSettings | None]] = []
        for function, _ in functions_with(op, lambda o: isinstance(o, MatmulOp)):
            every = products(function)
            names += [p.name for p in every]
            own = [p for p in every if select.search(p.name)]
            matching += own
            if any(not p.decided for p in own):
                decisions += self.choose(op, function, [p for p in own if not p.dense])
        check_names(self.name, f"layers='{self.layers}'", matching, names)
        for product, settings in decisions:
            decide(product, settings)

    def choices(self, product: Product) -> list[LutSettings]:
        """The settings to try for a product: what was decided of it, else every combination."""
        try:
            every = [
                LutSettings(vec=v, centroids=k, bits=b, seed=self.seed)
                for v, k, b in combinations(self.vec, self.k, self.bits)
            ]
        except CompileError as error:
            raise CompileError(f"{self.name}: {error}") from None
        found = [settings_for(product, settings) for settings in every]
        return list(dict.fromkeys(found))

    def choose(
        self, module: ModuleOp, function: FuncOp, own: Sequence[Product]
    ) -> list[tuple[Product, LutSettings | None]]:
        """What to do with the products of one function that nothing was decided of."""
        assert self.budget is not None
        batches = load_batches(self.name, self.calibration, function)
        held = max(1, round(len(batches) * HELD))
        if len(batches) < 2:
            raise CompileError(
                f"{self.name}: {len(batches)} batches of {function.sym_name.data}'s rows in the "
                "calibration file; at least 2, to fit layers and to measure them"
            )
        fit, measure = batches[:-held], batches[-held:]
        rows = observe_inputs(module, function, fit, [(p.op, p.op.lhs) for p in own])
        title = function.sym_name.data
        exact = [run_graph(module, batch, title) for batch in measure]

        def error_with(layers: Mapping[str, FittedLayer]) -> float:
            return output_error(run_with(module, title, measure, layers), exact)

        options: list[list[Option]] = []
        for p in own:
            found: list[Option] = []
            if not p.decided:
                found.append(Option(None, None, 0.0, self.cost_of(p, None)))
            for settings in self.choices(p):
                fitted = fit_layer(p.name, rows[p.op], p.weight, p.bias, settings)
                share = error_with({p.name: fitted})
                found.append(Option(settings, fitted, share, self.cost_of(p, settings)))
            options.append(found)
        picked = self.pick(own, options, error_with)
        return [
            (p, option.settings) for p, option in zip(own, picked, strict=True) if not p.decided
        ]

    def pick(
        self,
        own: Sequence[Product],
        options: Sequence[Sequence[Option]],
        error_with: Callable[[Mapping[str, FittedLayer]], float],
    ) -> list[Option]:
        """The option of each product under the budget, measured together where it is of error."""
        assert self.budget is not None
        candidates = [[Candidate(o.share, o.cost) for o in found] for found in options]

        def taken(picks: Sequence[int]) -> list[Option]:
            return [found[pick] for found, pick in zip(options, picks, strict=True)]

        try:
            if self.limit == "cost":
                dense = sum(self.cost_of(p, None) for p in own)
                return taken(select_layers(candidates, cost=self.budget * dense).picks)
            allowed, whole = self.budget, 0.0
            for _ in range(TRIES):
                picked = taken(select_layers(candidates, error=allowed).picks)
                whole = error_with(
                    {
                        p.name: o.fitted
                        for p, o in zip(own, picked, strict=True)
                        if o.fitted is not None
                    }
                )
                if whole <= self.budget:
                    return picked
                # Shares do not add up exactly: allow as much less as they were over.
                allowed = min(sum(o.share for o in picked), allowed) * self.budget / whole * 0.95
        except CompileError as error:
            raise CompileError(f"{self.name}: {error}") from None
        raise CompileError(
            f"{self.name}: no choice with an error of {self.budget:g} or less was found in {TRIES} "
            f"tries, the last has {whole:.3g}; allow more, or give smaller vec or larger k"
        )

    def cost_of(self, product: Product, settings: LutSettings | None) -> float:
        """What a product costs as tables, or with None as it is."""
        rows = self.rows or shape_of(product.op.lhs)[0]
        height, width = product.weight.shape
        if self.cost == "seconds":
            return layer_cost(rows, height, width, settings, LayerMachine.of(self.target))
        return float(operations(rows, height, width, settings))


def operations(rows: int, height: int, width: int, settings: LutSettings | None) -> int:
    """
    Multiplications and additions: 2·N·H·F of a product; of tables 2·N·H·K for the search, one
    comparison a centroid, and N·CB·F for the sum.
    """
    if settings is None:
        return 2 * rows * height * width
    blocks = codebook_count(height, settings.vec)
    search = 2 * height * settings.centroids + blocks * settings.centroids
    return rows * (search + blocks * width + 2 * (settings.residual or 0) * width)


def run_with(
    module: ModuleOp, function: str, batches: Sequence[Batch], layers: Mapping[str, FittedLayer]
) -> list[list[NDArray[np.float64]]]:
    """The outputs of a function with some of its products, by name, as layers of tables."""
    trial = module.clone()
    for product in products(find_function(trial, function)):
        if (fitted := layers.get(product.name)) is not None:
            replace_product(product.op, fitted)
    return [run_graph(trial, batch, function) for batch in batches]
