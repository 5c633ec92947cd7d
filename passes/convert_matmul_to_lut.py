"""
Products by constant weights as layers of tables, fitted to calibration inputs.

Before:

```mlir
%w = arith.constant {inr.name = "fc1.weight"} dense<…> : tensor<12x5xf64>
%y = inr.matmul %x, %w bias %b : (tensor<8x12xf64>, tensor<12x5xf64>, tensor<5xf64>) -> …
```

After, with `vec=4 k=16 bits=8 calibration="inputs.npz"`:

```mlir
%y = lut.linear layer "fc1" %x : tensor<8x12xf64> of %w : … plus %b : …
  search %fc1.centroids : tensor<3x16x4xi16> steps … table … : tensor<3x16x5xi8> scale … bias …
  spec <vec = 4, k = 16, cb = 3> quant <bits = 8, scheme = per_column>
  error <vq_rel_mse = …, rel_mse = …, q_bound = …, acc = […]> -> tensor<8x5xf64>
```

The function is run on the inputs of the calibration file to see what reaches each product; each
layer is fitted to that alone, as if the others stayed exact. `layers` is a regular expression
searched for in the layers' names (that of the weight, without `.weight`). A product with
`lut.dense` stays one, `lut.spec` and `lut.quant` on it are taken instead of the options.

Options: `fit=refit` solves for the table that fits the outputs best and keeps it where that helps
on held-out rows, `fit=kmeans` takes centroids times weight. `weighted=true` looks for
centroids by the error in the output. `residual=N` multiplies N input channels exactly.
`quantize=false` leaves a table of floats for `lut-quantize`. `keep-weights=false` drops the weight
that `lut-refit` needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..analysis.lut_codebooks import LutSettings
from ..analysis.lut_fit import FittedLayer, fit_layer
from ..dialects.inr import MatmulOp
from ..dialects.lut import LinearOp, element_of
from ..dialects.lut_constants import named_constant
from ..dialects.lut_layers import lower_layer
from ..errors import CompileError
from .lut_calibration import functions_with, load_batches, observe_inputs, pattern
from .lut_products import Product, check_names, error_of, products, settings_for
from .lut_tables import erase_unused


@dataclass(frozen=True)
class ConvertMatmulToLutPass(ModulePass):
    """Products by constant weights become layers of tables."""

    name = "convert-matmul-to-lut"

    calibration: str | None = None
    """An .npz file with inputs by the names of the function's arguments."""
    layers: str = ".*"
    """A regular expression, searched for in the names of layers."""
    vec: int = 4
    """Channels a codebook, V."""
    k: int = 16
    """Centroids a codebook, K."""
    bits: int = 8
    """Bits of a table entry."""
    fit: str = "refit"
    weighted: bool = False
    residual: int | None = None
    """Input channels that are multiplied exactly; as few as bytes need where it is not given."""
    seed: int = 0
    quantize: bool = True
    """Tables of integers; else of floats."""
    keep_weights: bool = True
    """Keep the weight beside its tables."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Convert in place; nothing is changed where any layer cannot be fitted."""
        select = pattern(self.name, "layers", self.layers)
        settings = self.settings()
        converted = [o.name_in_model for o in op.walk() if isinstance(o, LinearOp)]
        functions = functions_with(op, lambda o: isinstance(o, MatmulOp))
        names: list[str] = []
        chosen: list[tuple[Product, LutSettings]] = []
        fitted: list[tuple[Product, FittedLayer]] = []
        for function, _ in functions:
            every = products(function)
            names += [p.name for p in every]
            matching = [p for p in every if select.search(p.name) and not p.dense]
            chosen += [(p, settings_for(p, settings)) for p in matching]
        if not chosen and any(select.search(name) for name in converted):
            return
        check_names(self.name, f"layers='{self.layers}'", chosen, names)
        for function, _ in functions:
            own = [(p, s) for p, s in chosen if p.op.parent is function.body.block]
            if not own:
                continue
            batches = load_batches(self.name, self.calibration, function)
            wanted: list[tuple[Operation, SSAValue]] = [(p.op, p.op.lhs) for p, _ in own]
            rows = observe_inputs(op, function, batches, wanted)
            for product, setting in own:
                x, weight, bias = rows[product.op], product.weight, product.bias
                fitted.append((product, fit_layer(product.name, x, weight, bias, setting)))
        for product, layer in fitted:
            replace_product(
                product.op, layer, keep_weights=self.keep_weights, quantize=self.quantize
            )

    def settings(self) -> LutSettings:
        """The options. Raises CompileError, with the pass's name, for one out of its range."""
        try:
            return LutSettings(
                vec=self.vec,
                centroids=self.k,
                bits=self.bits,
                fit=cast(Literal["refit", "kmeans"], self.fit),
                weighted=self.weighted,
                residual=self.residual,
                seed=self.seed,
            )
        except CompileError as error:
            raise CompileError(f"{self.name}: {error}") from None


def replace_product(
    op: MatmulOp, fitted: FittedLayer, *, keep_weights: bool = True, quantize: bool = True
) -> None:
    """
    Put a fitted layer in the place of a product: its table of integers, or with `quantize=False`
    of floats; with the product's weight and bias beside it, or without.
    """
    weight, bias = (op.rhs, op.bias) if keep_weights else (None, None)
    ops = lower_layer(
        fitted.layer,
        op.lhs,
        weight=weight,
        weight_bias=bias,
        error=error_of(fitted, quantised=quantize),
        element=element_of(op.result),
        location=op.location,
    )
    linear = ops[-1]
    assert isinstance(linear, LinearOp)
    linear.result.name_hint = op.result.name_hint
    if not quantize:
        name = None if linear.layer is None else f"{linear.layer.data}.table"
        table = named_constant(fitted.float_table.astype(np.float32), name)
        table.location = op.location
        own = None if linear.layer is None else f"{linear.layer.data}.table_bias"
        offset = named_constant(fitted.float_bias, own)
        offset.location = op.location
        whole = linear.rebuilt(table=table.result, scale=None, quant=None, bias=offset.result)
        dropped = tuple(v.owner for v in (linear.table, linear.scale, linear.bias) if v is not None)
        kept = [o for o in ops[:-1] if o not in dropped]
        linear.erase()
        ops = [*kept, table, offset, whole]
    given = [op.rhs, op.bias]
    Rewriter.replace_op(op, ops)
    erase_unused(given)
