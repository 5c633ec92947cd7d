"""
The ATen operators that mix or move elements, at the graph level: products of matrices, sums,
extremes, views, slices, joins and new tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from ..dialects import inr
from ..dialects.inr import shape_of
from ..errors import reject
from .graph_builder import GraphBuilder
from .torch_lowering import Lowering, Table, entering

TENSORS: Table = {}
lowers = entering(TENSORS)

# --- products --------------------------------------------------------------------------------


def _combine(b: Lowering, product: SSAValue) -> SSAValue:
    """beta·self + alpha·product, as `addmm` and `baddbmm` have it."""
    product = b.scale(product, b.number("alpha"))
    if (beta := b.number("beta")) == 0:
        # PyTorch ignores `self` then, NaN or not.
        return product
    return b.add(b.scale(b.full("self"), beta), product)


@lowers("aten.mm")
def _mm(b: Lowering) -> SSAValue:
    return b.matmul(b.tensor("self"), b.tensor("mat2"))


@lowers("aten.addmm")
def _addmm(b: Lowering) -> SSAValue:
    lhs, rhs, bias = b.tensor("mat1"), b.tensor("mat2"), b.tensor("self")
    is_row = shape_of(bias) in ((b.shape[1],), (1, b.shape[1]))
    if is_row and b.number("alpha") == b.number("beta") == 1:
        return b.matmul(lhs, rhs, b.reshape(bias, b.shape[1:]))
    return _combine(b, b.matmul(lhs, rhs))


@lowers("aten.mv")
def _mv(b: Lowering) -> SSAValue:
    column = b.reshape(b.tensor("vec"), (*shape_of(b.tensor("vec")), 1))
    return b.reshape(b.matmul(b.tensor("self"), column), b.shape)


@lowers("aten.dot")
def _dot(b: Lowering) -> SSAValue:
    return b.reduce_sum(b.mul(b.tensor("self"), b.tensor("tensor")), [0])


def batched_matmul(b: GraphBuilder, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """
    Products of matrices in pairs, B×M×K by B×K×N.

    Where one matrix serves the whole batch it is one product of matrices, else a sum of
    elementwise products.
    """
    (batch, m, k), n = shape_of(lhs), shape_of(rhs)[2]
    shared = rhs.owner
    if batch == 1:
        product = b.matmul(b.reshape(lhs, (m, k)), b.reshape(rhs, (k, n)))
        return b.reshape(product, (1, m, n))
    if isinstance(shared, inr.BroadcastOp) and shape_of(shared.operand) == (1, k, n):
        matrix = b.reshape(shared.operand, (k, n))
        return b.reshape(b.matmul(b.reshape(lhs, (batch * m, k)), matrix), (batch, m, n))
    rows = b.broadcast(b.reshape(lhs, (batch, m, k, 1)), (batch, m, k, n))
    columns = b.broadcast(b.reshape(rhs, (batch, 1, k, n)), (batch, m, k, n))
    return b.reduce_sum(b.mul(rows, columns), [2])


@lowers("aten.bmm")
def _bmm(b: Lowering) -> SSAValue:
    return batched_matmul(b, b.tensor("self"), b.tensor("mat2"))


@lowers("aten.baddbmm")
def _baddbmm(b: Lowering) -> SSAValue:
    return _combine(b, batched_matmul(b, b.tensor("batch1"), b.tensor("batch2")))


@lowers("aten.matmul")
def _matmul(b: Lowering) -> SSAValue:
    lhs, rhs = b.tensor("self"), b.tensor("other")
    if len(shape_of(rhs)) != 2 or len(shape_of(lhs)) < 1:
        raise reject(b.op, "the right operand must be a matrix; use mm or bmm")
    rows = b.reshape(lhs, (prod(shape_of(lhs)[:-1]), shape_of(lhs)[-1]))
    return b.reshape(b.matmul(rows, rhs), b.shape)


@lowers("aten.linear")
def _linear(b: Lowering) -> SSAValue:
    x, weight = b.tensor("input"), b.transpose(b.tensor("weight"), (1, 0))
    bias = b.values.get(b.op.argument("bias"))
    rows = b.reshape(x, (prod(shape_of(x)[:-1]), shape_of(x)[-1]))
    return b.reshape(b.matmul(rows, weight, bias), b.shape)


# --- sums ------------------------------------------------------------------------------------


@lowers("aten.sum", "aten.sum.dim_IntList", "aten.mean", "aten.mean.dim")
def _sum(b: Lowering) -> SSAValue:
    value = b.tensor("self")
    shape = shape_of(value)
    has_dims = any(parameter.name == "dim" for parameter in b.op.PARAMETERS)
    dims = b.axes("dim", len(shape)) if has_dims else list(range(len(shape)))
    result = b.reshape(b.reduce_sum(value, dims), b.shape)
    if b.op.name.startswith("torch.aten.mean"):
        return b.scale(result, 1 / prod(shape[d] for d in dims))
    return result


@lowers("aten.amax", "aten.amin")
def _extreme(b: Lowering) -> SSAValue:
    """Of two halves, again and again: they overlap by one element where the extent is odd."""
    value = b.tensor("self")
    kind = arith.MaximumfOp if b.op.name == "torch.aten.amax" else arith.MinimumfOp
    for axis in b.axes("dim", len(shape_of(value))):
        while (extent := shape_of(value)[axis]) > 1:
            half = (extent + 1) // 2
            first = b.slice_axis(value, axis, 0, half)
            second = b.slice_axis(value, axis, extent - half, half)
            value = b.insert(kind(first, second))
    return b.reshape(value, b.shape)


# --- shapes ----------------------------------------------------------------------------------


@lowers("aten.t")
def _t(b: Lowering) -> SSAValue:
    value = b.tensor("self")
    return b.transpose(value, (1, 0)) if len(shape_of(value)) == 2 else value


@lowers("aten.transpose.int")
def _transpose(b: Lowering) -> SSAValue:
    value = b.tensor("self")
    rank = len(shape_of(value))
    permutation = list(range(rank))
    first, second = b.axis("dim0", rank), b.axis("dim1", rank)
    if rank:
        permutation[first], permutation[second] = second, first
    return b.transpose(value, permutation)


@lowers("aten.permute")
def _permute(b: Lowering) -> SSAValue:
    value = b.tensor("self")
    rank = len(shape_of(value))
    return b.transpose(value, [axis % rank for axis in b.integers("dims")])


@lowers("aten.expand", "aten.broadcast_to")
def _expand(b: Lowering) -> SSAValue:
    return b.full("self")


@lowers("aten.view", "aten._unsafe_view", "aten.reshape", "aten.flatten.using_ints")
@lowers("aten.unsqueeze", "aten.squeeze", "aten.squeeze.dim")
def _reshape(b: Lowering) -> SSAValue:
    return b.reshape(b.tensor("self"), b.shape)


@lowers("prims.squeeze")
def _prims_squeeze(b: Lowering) -> SSAValue:
    return b.reshape(b.tensor("a"), b.shape)


@lowers("aten.repeat")
def _repeat(b: Lowering) -> SSAValue:
    value, repeats = b.tensor("self"), b.integers("repeats")
    shape = (1,) * (len(repeats) - len(shape_of(value))) + shape_of(value)
    apart = [extent for d in shape for extent in (1, d)]
    tiled = [extent for r, d in zip(repeats, shape, strict=True) for extent in (r, d)]
    return b.reshape(b.broadcast(b.reshape(value, apart), tiled), b.shape)


@lowers("aten.clone", "aten.detach", "aten.contiguous", "aten._to_copy")
def _identity(b: Lowering) -> SSAValue:
    return b.truth("self") if b.is_mask else b.tensor("self")


@lowers("prims.convert_element_type")
def _convert_element_type(b: Lowering) -> SSAValue:
    return b.truth("a") if b.is_mask else b.tensor("a")


@lowers("aten.select.int")
def _select(b: Lowering) -> SSAValue:
    value = b.tensor("self")
    sizes, offsets = list(shape_of(value)), [0] * len(shape_of(value))
    axis = b.axis("dim", len(sizes))
    offsets[axis], sizes[axis] = b.integer("index") % sizes[axis], 1
    return b.slice(value, offsets, sizes, shape=b.shape)


def _window(b: Lowering, axis: int, extent: int) -> tuple[int, int, int]:
    """(start, size, step) of the slice that `start`, `end` and `step` describe."""
    picked = range(
        *slice(b.integer("start", 0), b.integer("end", extent), b.integer("step")).indices(extent)
    )
    return picked.start, len(picked), picked.step


@lowers("aten.slice.Tensor")
def _slice(b: Lowering) -> SSAValue:
    value = b.tensor("self")
    axis = b.axis("dim", len(shape_of(value)))
    return b.slice_axis(value, axis, *_window(b, axis, shape_of(value)[axis]))


def _scatter(b: Lowering, axis: int, start: int, source: SSAValue) -> SSAValue:
    """`self` with `source` in place of what stands from `start` on along `axis`."""
    value = b.tensor("self")
    extent, size = shape_of(value)[axis], shape_of(source)[axis]
    after = start + size
    if b.is_zero(value):
        low, high = [0] * len(b.shape), [0] * len(b.shape)
        low[axis], high[axis] = start, extent - after
        return b.pad(source, low, high)
    parts = [source]
    if start:
        parts.insert(0, b.slice_axis(value, axis, 0, start))
    if after < extent:
        parts.append(b.slice_axis(value, axis, after, extent - after))
    return b.concat(parts, axis)


@lowers("aten.select_scatter")
def _select_scatter(b: Lowering) -> SSAValue:
    axis = b.axis("dim", len(b.shape))
    shape = list(b.shape)
    shape[axis] = 1
    return _scatter(b, axis, b.integer("index") % b.shape[axis], b.reshape(b.tensor("src"), shape))


@lowers("aten.slice_scatter")
def _slice_scatter(b: Lowering) -> SSAValue:
    axis = b.axis("dim", len(b.shape))
    start, size, step = _window(b, axis, b.shape[axis])
    if step != 1:
        raise reject(b.op, f"step {step} is not supported; scatter contiguous ranges (step 1)")
    return _scatter(b, axis, start, b.tensor("src")) if size else b.tensor("self")


@lowers("aten.cat")
def _cat(b: Lowering) -> SSAValue:
    return b.concat(b.tensors("tensors"), b.axis("dim", len(b.shape)))


@lowers("aten.stack")
def _stack(b: Lowering) -> SSAValue:
    axis = b.axis("dim", len(b.shape))
    shape = list(b.shape)
    shape[axis] = 1
    return b.concat([b.reshape(value, shape) for value in b.tensors("tensors")], axis)


@lowers("aten.constant_pad_nd")
def _pad(b: Lowering) -> SSAValue:
    value, amounts, fill = b.tensor("self"), b.integers("pad"), b.number("value")
    # PyTorch lists (before, after) from the last axis backwards; negative amounts crop.
    for i, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        axis = len(b.shape) - 1 - i
        value = _pad_axis(b, value, axis, (before, after), fill)
    return value


def _pad_axis(
    b: Lowering, value: SSAValue, axis: int, amounts: tuple[int, int], fill: float
) -> SSAValue:
    crop_low, crop_high = (max(-amount, 0) for amount in amounts)
    low, high = (max(amount, 0) for amount in amounts)
    extent = shape_of(value)[axis] - crop_low - crop_high
    value = b.slice_axis(value, axis, crop_low, extent)

    def of_extent(size: int) -> list[int]:
        return [size if i == axis else d for i, d in enumerate(shape_of(value))]

    if fill == 0:
        zeros = [0] * len(b.shape)
        lows, highs = zeros.copy(), zeros.copy()
        lows[axis], highs[axis] = low, high
        return b.pad(value, lows, highs)
    before = [b.splat(fill, of_extent(low))] if low else []
    after = [b.splat(fill, of_extent(high))] if high else []
    return b.concat([*before, value, *after], axis)


# --- new tensors -----------------------------------------------------------------------------


@lowers("aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.empty_like")
def _zeros(b: Lowering) -> SSAValue:
    return b.splat(0, b.shape)


@lowers("aten.ones", "aten.ones_like", "aten.new_ones")
def _ones(b: Lowering) -> SSAValue:
    return b.splat(1, b.shape)


@lowers("aten.full", "aten.full_like", "aten.new_full")
def _full(b: Lowering) -> SSAValue:
    return b.splat(b.number("fill_value"), b.shape)


@lowers("aten.fill.Scalar")
def _fill(b: Lowering) -> SSAValue:
    return b.splat(b.number("value"), b.shape)


@lowers("aten.scalar_tensor")
def _scalar_tensor(b: Lowering) -> SSAValue:
    return b.splat(b.number("s"), b.shape)


@lowers("prim.NumToTensor.Scalar")
def _number_to_tensor(b: Lowering) -> SSAValue:
    return b.splat(b.number("a"), b.shape)


@lowers("aten.arange")
def _arange(b: Lowering) -> SSAValue:
    return b.constant(np.arange(b.number("end"), dtype=np.float64))


INTEGERS_ALLOWED: Sequence[str] = (
    "aten.arange",
    "aten.clone",
    "aten.detach",
    "aten.empty_like",
    "aten.expand",
    "aten.full",
    "aten.full_like",
    "aten.new_full",
    "aten.new_ones",
    "aten.new_zeros",
    "aten.ones",
    "aten.ones_like",
    "aten.scalar_tensor",
    "aten.select.int",
    "aten.slice.Tensor",
    "aten.squeeze",
    "aten.squeeze.dim",
    "aten.unsqueeze",
    "aten.view",
    "aten.zeros",
    "aten.zeros_like",
    "prim.NumToTensor.Scalar",
    "prims.squeeze",
)
"""Operators that make or move integers without computing: their values are exact in float64."""
