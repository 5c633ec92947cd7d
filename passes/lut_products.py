"""
The matrix products of a function that can become tables, their names, and what is decided of each.

A decision is an attribute of the `inr.matmul`: `lut.spec` (V and K), `lut.quant` (bits),
`lut.dense` (it stays a product). A person may set them, or `lut-select-layers`;
`convert-matmul-to-lut` obeys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ..analysis.lut_codebooks import LutSettings
from ..analysis.lut_fit import FittedLayer
from ..dialects.inr import MatmulOp
from ..dialects.lut import ErrorAttr, QuantAttr, SpecAttr, shape_of
from ..dialects.lut_constants import NAME, constant_array
from ..errors import CompileError, reject
from .lut_tables import rounding_bound

SPEC = "lut.spec"
"""Attribute of an `inr.matmul`: the cut that its tables are to have."""

QUANT = "lut.quant"
"""Attribute of an `inr.matmul`: the bits of its tables."""

DENSE = "lut.dense"
"""Attribute of an `inr.matmul` that stays one."""


_WEIGHT = re.compile(r"\.weight(_\w+)?$")
"""How the name of a layer's weight ends; passes add what they made of it."""


@dataclass(frozen=True, eq=False)
class Product:
    """A product by a constant weight, with no bias or a constant one."""

    name: str
    op: MatmulOp
    weight: NDArray[Any]
    """H×F."""
    bias: NDArray[Any] | None
    """F."""

    @property
    def dense(self) -> bool:
        """Whether it was decided that it stays a product."""
        return DENSE in self.op.attributes

    @property
    def decided(self) -> bool:
        """Whether anything was decided of it."""
        return any(key in self.op.attributes for key in (SPEC, QUANT, DENSE))


def products(function: FuncOp) -> list[Product]:
    """
    The products of a function by a constant, in order, each under a name of its own.

    A name is that of the weight without `.weight` (or `.weight_scaled`), or
    `<function>.matmul<i>`; a second product by the same weight is called `<name>.2`.
    """
    found: list[Product] = []
    times: dict[str, int] = {}
    for index, op in enumerate(o for o in function.body.block.ops if isinstance(o, MatmulOp)):
        weight = constant_array(op.rhs)
        bias = None if op.bias is None else constant_array(op.bias)
        if weight is None or (op.bias is not None and bias is None):
            continue
        name = _name_of(op.rhs) or f"{function.sym_name.data}.matmul{index}"
        name = _WEIGHT.sub("", name)
        times[name] = times.get(name, 0) + 1
        if times[name] > 1:
            name = f"{name}.{times[name]}"
        found.append(Product(name, op, weight, bias))
    return found


def _name_of(value: SSAValue) -> str | None:
    owner = value.owner
    name = owner.attributes.get(NAME) if isinstance(owner, Operation) else None
    return name.data if isinstance(name, StringAttr) else None


def settings_for(product: Product, base: LutSettings) -> LutSettings:
    """
    `base` with what was decided of a product.

    Raises CompileError for a decision that is none, or that does not fit the product.
    """
    spec: Attribute | None = product.op.attributes.get(SPEC)
    quant: Attribute | None = product.op.attributes.get(QUANT)
    if spec is not None:
        width = shape_of(product.op.lhs)[1]
        if not isinstance(spec, SpecAttr) or spec.encoder.data != "nearest":
            raise reject(product.op, f"{SPEC} of {product.name} is no #lut.spec with a search")
        if not spec.covers(width):
            raise reject(
                product.op,
                f"{SPEC} of {product.name}: {spec.cb.data} codebooks of {spec.vec.data} channels "
                f"for {width} inputs; cb = {-(-width // spec.vec.data)} cover them",
            )
        base = replace(base, vec=spec.vec.data, centroids=spec.k.data)
    if quant is not None:
        if not isinstance(quant, QuantAttr) or quant.scheme.data != "per_column":
            raise reject(product.op, f"{QUANT} of {product.name} is no #lut.quant per column")
        base = replace(base, bits=quant.bits.data)
    return base


def decide(product: Product, settings: LutSettings | None) -> None:
    """Write on a product what was decided of it: its settings, or None for no tables."""
    if settings is None:
        product.op.attributes[DENSE] = UnitAttr()
        return
    width = shape_of(product.op.lhs)[1]
    vec = settings.vec
    product.op.attributes[SPEC] = SpecAttr(vec, settings.centroids, -(-width // vec))
    product.op.attributes[QUANT] = QuantAttr(settings.bits)


def check_names(name: str, option: str, selected: Sequence[Any], names: Sequence[str]) -> None:
    """Raises CompileError, with the names there are, where a selection is empty."""
    if selected:
        return
    there = ", ".join(names) if names else "none at all"
    raise CompileError(
        f"{name}: {option} selects no layer; products by a constant weight are: {there}"
    )


def error_of(fitted: FittedLayer, *, quantised: bool = True) -> ErrorAttr:
    """What is known of a fitted layer, as an attribute; of its table of floats, less."""
    found = fitted.error
    if not quantised:
        return ErrorAttr(_known(found.vq_rel_mse))
    layer = fitted.layer
    bound = rounding_bound(fitted.float_table, layer.table, layer.scale)
    if layer.bias is not None:
        # What the bias takes back on average is too much where nothing was rounded.
        bound += float(np.abs(layer.bias - fitted.float_bias).max(initial=0.0))
    return ErrorAttr(_known(found.vq_rel_mse), _known(found.rel_mse), bound, layer.range)


def _known(value: float) -> float | None:
    # Where the product is 0 on all held-out rows, a relative error says nothing.
    return value if isfinite(value) else None
