"""
Canonical forms: a search, a lookup and a scaling that nobody else reads are one `lut.linear`.

The pass `lut-expand-linear` takes them apart again.
"""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type, Float64Type, f64, i16, i32
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from .lut import (
    DequantOp,
    EncodeOp,
    LinearOp,
    LookupOp,
    ResidualMatmulOp,
    element_of,
    shape_of,
    sum_range,
)


def join(op: DequantOp) -> LinearOp | None:
    """
    The `lut.linear` that a scaling is the end of, None where its parts have other readers or
    their sums are in another type than a `lut.linear` takes them in.
    """
    lookup = op.sums.owner
    if not isinstance(lookup, LookupOp) or not op.sums.has_one_use():
        return None
    encode = lookup.indices.owner
    if not isinstance(encode, EncodeOp) or not lookup.indices.has_one_use():
        return None
    quant = lookup.quant
    if quant is None:
        if op.scale is not None or not isinstance(element_of(op.sums), Float64Type):
            return None
    elif element_of(op.sums) != i32 or op.scale is None:
        return None
    elif shape_of(op.scale)[0] != (
        1 if quant.scheme.data == "per_tensor" else shape_of(op.result)[1]
    ):
        return None
    if encode.spec.k.data != shape_of(lookup.table)[1]:
        return None
    linear = LinearOp(
        encode.x,
        encode.centroids,
        encode.steps,
        lookup.table,
        scale=op.scale,
        bias=op.bias,
        quant=quant,
        error=lookup.error,
        layer=lookup.layer,
        element=element_of(op.result),
    )
    linear.location = op.location
    linear.result.name_hint = op.result.name_hint
    return linear


class JoinIntoLinear(RewritePattern):
    """`lut.dequant` of a `lut.lookup` of a `lut.encode` becomes a `lut.linear`."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DequantOp, rewriter: PatternRewriter) -> None:
        """Replace the three where nobody else reads what is between them."""
        linear = join(op)
        if linear is None:
            return
        lookup = op.sums.owner
        assert isinstance(lookup, LookupOp)
        encode = lookup.indices.owner
        assert isinstance(encode, Operation)
        rewriter.replace(op, linear)
        rewriter.erase(lookup)
        rewriter.erase(encode)


class JoinResidual(RewritePattern):
    """A `lut.residual_matmul` into a `lut.linear` of the same input becomes a part of it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ResidualMatmulOp, rewriter: PatternRewriter) -> None:
        """Replace the two where nobody else reads the layer without its residual."""
        if op.base is None or not op.base.has_one_use():
            return
        linear = op.base.owner
        if not isinstance(linear, LinearOp) or linear.residual is not None or linear.x != op.x:
            return
        if isinstance(element_of(op.x), Float32Type) and op.base.type != op.result.type:
            return
        channels = op.channels.get_values()
        joined = linear.rebuilt(
            residual=op.weight, channels=channels, element=element_of(op.result)
        )
        joined.result.name_hint = op.result.name_hint
        rewriter.replace(op, joined)
        rewriter.erase(linear)


class DropEmptyResidual(RewritePattern):
    """A layer with no residual channels has no residual."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LinearOp, rewriter: PatternRewriter) -> None:
        """Leave the residual out."""
        if op.channels is not None and not len(op.channels):
            rewriter.replace(op, op.rebuilt(residual=None, channels=None))


def expand(op: LinearOp, *, narrow: bool = False) -> list[Operation]:
    """
    The parts of a layer; the last one's result is the layer's. Sums are in i32, or with `narrow`
    in i16 where a constant table proves that they fit.
    """
    encode = EncodeOp(op.x, op.centroids, op.steps, op.spec)
    sums = None
    if narrow and op.quant is not None:
        low, high, known = sum_range(op.table, op.quant)
        sums = i16 if known and -(2**15) <= low and high < 2**15 else None
    # Sums of floats keep the digits that they are taken with.
    sums = f64 if op.quant is None else sums
    lookup = LookupOp(encode, op.table, op.quant, sums, layer=op.layer, error=op.error)
    parts: list[Operation] = [encode, lookup]
    element = element_of(op.result)
    parts.append(DequantOp(lookup, op.scale, op.bias, element))  # pyright: ignore[reportArgumentType]
    if op.residual is not None and op.channels is not None:
        channels = op.channels.get_values()
        parts.append(ResidualMatmulOp(op.x, channels, op.residual, parts[-1]))
    for part in parts:
        part.location = op.location
    parts[-1].results[0].name_hint = op.result.name_hint
    return parts
