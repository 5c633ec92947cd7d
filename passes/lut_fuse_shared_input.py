"""
Layers of one input with one search as one layer: queries, keys and values of attention.

Before:

```mlir
%q = lut.linear layer "q" %x : … search %c : … steps %s : … table %tq : tensor<3x16x5xi8> … -> …
%k = lut.linear layer "k" %x : … search %c : … steps %s : … table %tk : tensor<3x16x7xi8> … -> …
```

After:

```mlir
%0 = lut.linear layer "q+k" %x : … search %c : … steps %s : … table %both : tensor<3x16x12xi8> …
  -> tensor<8x12xf64>
%q = tensor.extract_slice %0[0, 0] [8, 5] [1, 1] : tensor<8x12xf64> to tensor<8x5xf64>
%k = tensor.extract_slice %0[0, 5] [8, 7] [1, 1] : tensor<8x12xf64> to tensor<8x7xf64>
```

Layers share a search where centroids and grid steps are equal: k-means that is not weighted by the
layer's weight (`weighted=false`, no residual channels) gives equal ones for equal inputs, and
a search that was trained for one layer is not taken for another. They must agree in their residual
channels, and in being of integers or of floats; entries of fewer bits stand among those of more.
Scales become one a column. The values are the same; of residual channels, to the rounding of
float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ..dialects.lut import ErrorAttr, LinearOp, QuantAttr, element_of, shape_of
from ..dialects.lut_constants import constant_array, constant_attribute, named_constant
from .lut_tables import erase_unused, range_of


def _key(op: LinearOp) -> tuple[Any, ...] | None:
    """What layers that can be one have in common; None for one whose parts are computed."""
    parts = (op.table, op.scale, op.bias, op.residual, op.weight, op.weight_bias)
    if any(part is not None and constant_array(part) is None for part in parts):
        return None
    search: list[Attribute | SSAValue] = []
    for value in (op.centroids, op.steps):
        attribute = constant_attribute(value)
        search.append(value if attribute is None else attribute)
    return (op.x, *search, op.channels, op.quant is None, element_of(op.result))


def _side_by_side(values: Sequence[SSAValue | None], widths: Sequence[int]) -> NDArray[Any] | None:
    """Constants joined along their columns; None where there are none, 0 for a missing one."""
    arrays = [None if value is None else constant_array(value) for value in values]
    present = next((a for a in arrays if a is not None), None)
    if present is None:
        return None
    joined: list[NDArray[Any]] = []
    for array, width in zip(arrays, widths, strict=True):
        if array is None:
            joined.append(np.zeros((*present.shape[:-1], width), dtype=present.dtype))
        else:
            joined.append(np.broadcast_to(array, (*array.shape[:-1], width)))
    return np.concatenate(joined, axis=-1)


def fuse(ops: Sequence[LinearOp]) -> None:
    """Put one layer, and slices of its result, in the place of several with one search."""
    first = ops[0]
    widths = [shape_of(op.result)[1] for op in ops]
    layers = [op.layer.data for op in ops if op.layer is not None]
    name = "+".join(layers) if len(layers) == len(ops) else None
    builder = Builder(InsertPoint.before(first))

    def constant(values: Sequence[SSAValue | None], what: str) -> SSAValue | None:
        array = _side_by_side(values, widths)
        if array is None:
            return None
        made = named_constant(array, None if name is None else f"{name}.{what}")
        made.location = first.location
        return builder.insert(made).result

    quant = None
    if first.quant is not None:
        quant = QuantAttr(max(op.quant.bits.data for op in ops if op.quant is not None))
    weight = None
    if all(op.weight is not None for op in ops):
        weight = constant([op.weight for op in ops], "weight")
    plus = None if weight is None else constant([op.weight_bias for op in ops], "bias")
    table = constant([op.table for op in ops], "table")
    assert table is not None
    entries = constant_array(table)
    assert entries is not None
    bounds = [None if op.error is None else op.error.number("q_bound") for op in ops]
    known = [bound for bound in bounds if bound is not None]
    whole = first.rebuilt(
        table=table,
        scale=constant([op.scale for op in ops], "scale"),
        bias=constant([op.bias for op in ops], "table_bias"),
        residual=constant([op.residual for op in ops], "residual"),
        weight=weight,
        weight_bias=plus,
        quant=quant,
        layer=name,
        error=ErrorAttr(
            q_bound=max(known) if len(known) == len(ops) else None, acc=range_of(entries, quant)
        ),
    )
    whole.result.name_hint = None
    builder.insert(whole)
    parts: list[SSAValue] = []
    start = 0
    for op, width in zip(ops, widths, strict=True):
        rows = shape_of(op.result)[0]
        part = tensor.ExtractSliceOp(
            whole.result,
            [0, start],
            [rows, width],
            [1, 1],
            TensorType(element_of(op.result), (rows, width)),
        )
        part.location = op.location
        part.result.name_hint = op.result.name_hint
        start += width
        parts.append(builder.insert(part).result)
    given: list[SSAValue | None] = [operand for op in ops for operand in op.operands]
    for op, part in zip(ops, parts, strict=True):
        op.result.replace_all_uses_with(part)
        Rewriter.erase_op(op)
    erase_unused(given)


@dataclass(frozen=True)
class LutFuseSharedInputPass(ModulePass):
    """Layers of one input with one search become one layer."""

    name = "lut-fuse-shared-input"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fuse in place."""
        groups: dict[tuple[Block | None, Any], list[LinearOp]] = {}
        for linear in (o for o in op.walk() if isinstance(o, LinearOp)):
            key = _key(linear)
            if key is not None:
                groups.setdefault((linear.parent, key), []).append(linear)
        for group in groups.values():
            if len(group) > 1:
                fuse(group)
