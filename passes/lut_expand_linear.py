"""
Layers of tables taken apart, so that their parts can be shared, moved and placed one by one.

Before:

```mlir
%y = lut.linear layer "fc1" %x : tensor<8x12xf64> search %centroids : … steps %steps : …
  table %table : … scale %scale : … spec <vec = 4, k = 16, cb = 3> quant <bits = 8, …>
  -> tensor<8x5xf64>
```

After:

```mlir
%0 = lut.encode %x by %centroids steps %steps spec <vec = 4, k = 16, cb = 3> : …
%1 = lut.lookup layer "fc1" %0 in %table quant <bits = 8, …> : … -> tensor<8x5xi32>
%y = lut.dequant %1 : tensor<8x5xi32> scale %scale : tensor<5xf32> -> tensor<8x5xf64>
```

and a `lut.residual_matmul` where the layer has residual channels. `narrow=true` takes sums in i16
where a constant table proves that they fit. The layer's weight (`of`) is left out.
`canonicalize` puts the parts together again where nobody else reads what is between them, and
where sums are in i32. The values are the same, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..dialects.lut import LinearOp
from ..dialects.lut_patterns import expand


@dataclass(frozen=True)
class LutExpandLinearPass(ModulePass):
    """Each `lut.linear` as a search, a lookup and a scaling."""

    name = "lut-expand-linear"

    narrow: bool = False
    """Sums in i16 where they are proved to fit."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Expand in place."""
        for linear in [o for o in op.walk() if isinstance(o, LinearOp)]:
            Rewriter.replace_op(linear, expand(linear, narrow=self.narrow))
