"""
Tables of floats, or of more bits, as tables of `bits` bits.

Before:

```mlir
%y = lut.linear %x : … table %table : tensor<3x16x5xf32> bias … spec … -> tensor<8x5xf64>
```

After, with `bits=6`:

```mlir
%y = lut.linear %x : … table %entries : tensor<3x16x5xi8> scale %scale : tensor<5xf32> bias …
  spec … quant <bits = 6, scheme = per_column> error <q_bound = …, acc = […]> -> tensor<8x5xf64>
```

Symmetric: the largest magnitude of a column (or of the table, `scheme=per_tensor`) is the largest
entry, others are rounded, halves to even. A table that has no more than `bits` bits stays. The
largest difference that this can make in an output is added to `q_bound`; a `rel_mse` that was
measured is no longer true and goes (`lut-refit` measures it again).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..dialects.lut import ErrorAttr, LinearOp, QuantAttr
from ..dialects.lut_attributes import BITS, SCHEMES
from ..errors import CompileError
from .lut_calibration import pattern
from .lut_tables import exchange, numbers_of, quantised, range_of, rounding_bound


@dataclass(frozen=True)
class LutQuantizePass(ModulePass):
    """Tables of integers of at most so many bits."""

    name = "lut-quantize"

    bits: int = 8
    scheme: str = "per_column"
    layers: str = ".*"
    """A regular expression, searched for in the names of layers."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Quantise in place; nothing is changed where any table is no constant."""
        if self.bits not in BITS:
            raise CompileError(f"{self.name}: bits={self.bits}; {BITS[0]} to {BITS[-1]}")
        if self.scheme not in SCHEMES:
            raise CompileError(
                f"{self.name}: scheme '{self.scheme}' is not one of {', '.join(SCHEMES)}"
            )
        select = pattern(self.name, "layers", self.layers)
        quant = QuantAttr(self.bits, self.scheme)
        chosen = [
            (o, numbers_of(o))
            for o in op.walk()
            if isinstance(o, LinearOp)
            and select.search(o.name_in_model)
            and (o.quant is None or o.quant.bits.data > self.bits)
        ]
        for linear, table in chosen:
            entries, scale = quantised(table, quant)
            before = ErrorAttr() if linear.error is None else linear.error
            # A table of integers without a stated bound may be any distance from exact.
            known = 0.0 if linear.quant is None else before.number("q_bound")
            bound = None if known is None else known + rounding_bound(table, entries, scale)
            error = ErrorAttr(before.number("vq_rel_mse"), None, bound, range_of(entries, quant))
            exchange(linear, entries, scale, quant, error=error)
