"""
Rules of `inr-simplify` about broadcasts, slices, padding and reshapes.

Broadcasts move towards the results, so that what is equal in every row is computed once; slices
move towards the operands, so that only what is used is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.arith import AddfOp, ConstantOp, MulfOp
from xdsl.dialects.tensor import ConcatOp, ExtractSliceOp
from xdsl.ir import Operation, SSAValue

from ..dialects.inr import (
    BroadcastOp,
    PadOp,
    ReduceSumOp,
    ReshapeOp,
    TransposeOp,
    shape_of,
)
from ..interpreters.arrays import constant_value
from ..interpreters.graph import slices
from .coefficients import (
    coefficient,
    coefficient_name,
    derived_name,
    is_zero,
    materialize,
    number,
    scaled_operand,
)
from .graph_builder import GraphBuilder, name_of
from .rules import ELEMENTWISE_OPS, RuleTable, entering, is_elementwise

RULES: RuleTable = {}
rule = entering(RULES)


# --- broadcasts ------------------------------------------------------------------------------


@rule(BroadcastOp)
def broadcast_twice(op: BroadcastOp, b: GraphBuilder) -> SSAValue | None:
    """A broadcast of a broadcast is one, of one number a splat, to the same shape nothing."""
    shape = shape_of(op.result)
    if shape_of(op.operand) == shape:
        return op.operand
    if isinstance(op.operand.owner, BroadcastOp):
        return b.broadcast(op.operand.owner.operand, shape)
    value = number(op.operand)
    return None if value is None else b.splat(value, shape)


@rule(*ELEMENTWISE_OPS)
def elementwise_of_broadcasts(op: Operation, b: GraphBuilder) -> SSAValue | None:
    """f(broadcast(x), broadcast(y)) = broadcast(f(x, y)), where x and y have one shape."""
    small: set[tuple[int, ...]] = set()
    for operand in op.operands:
        if isinstance(operand.owner, BroadcastOp):
            small.add(shape_of(operand.owner.operand))
        elif number(operand) is None:
            return None
    if len(small) != 1:
        return None
    shape = small.pop()
    operands = [
        operand.owner.operand
        if isinstance(operand.owner, BroadcastOp)
        else b.splat(cast(float, number(operand)), shape)
        for operand in op.operands
    ]
    return b.broadcast(b.like(op, operands, shape), shape_of(op.results[0]))


@rule(ReduceSumOp)
def sum_of_broadcast(op: ReduceSumOp, b: GraphBuilder) -> SSAValue | None:
    """A sum over repeated elements is a product with their number."""
    inner = op.operand.owner
    if not isinstance(inner, BroadcastOp):
        return None
    before, after = shape_of(inner.operand), shape_of(inner.result)
    times = prod(after[axis] // before[axis] for axis in op.axes if before[axis])
    total = b.scale(b.reduce_sum(inner.operand, op.axes), times)
    return b.broadcast(total, shape_of(op.result))


@rule(ReduceSumOp)
def sum_of_constant(op: ReduceSumOp, b: GraphBuilder) -> SSAValue | None:
    """The sum of a constant is a constant, over axes of extent 1 a reshape."""
    if all(shape_of(op.operand)[axis] == 1 for axis in op.axes):
        return b.reshape(op.operand, shape_of(op.result))
    array = constant_value(op.operand)
    return None if array is None else b.constant(array.sum(axis=op.axes))


@rule(ReduceSumOp)
def sum_twice(op: ReduceSumOp, b: GraphBuilder) -> SSAValue | None:
    """A sum of a sum is one sum."""
    inner = op.operand.owner
    if not isinstance(inner, ReduceSumOp) or not op.operand.has_one_use():
        return None
    left = [axis for axis in range(len(shape_of(inner.operand))) if axis not in inner.axes]
    return b.reduce_sum(inner.operand, [*inner.axes, *(left[axis] for axis in op.axes)])


# --- reshapes --------------------------------------------------------------------------------


@rule(ReshapeOp)
def reshape_known(op: ReshapeOp, b: GraphBuilder) -> SSAValue | None:
    """A reshape of a reshape is one, to the same shape nothing, of a constant a constant."""
    shape = shape_of(op.result)
    if shape_of(op.operand) == shape:
        return op.operand
    owner = op.operand.owner
    if isinstance(owner, ReshapeOp):
        return b.reshape(owner.operand, shape)
    array = constant_value(op.operand)
    return None if array is None else b.constant(array.reshape(shape), name_of(op.operand))


@rule(ReshapeOp)
def reshape_of_broadcast(op: ReshapeOp, b: GraphBuilder) -> SSAValue | None:
    """A reshape that only adds or drops axes of extent 1 does so before a broadcast."""
    inner = op.operand.owner
    if not isinstance(inner, BroadcastOp):
        return None
    shape = shape_of(op.result)
    source = _without_unit_axes(shape_of(inner.operand), shape_of(inner.result))
    target = [extent for extent in shape if extent != 1]
    if [after for _, after in source] != target:
        return None
    extents = iter(before for before, _ in source)
    return b.broadcast(
        b.reshape(inner.operand, [1 if extent == 1 else next(extents) for extent in shape]), shape
    )


def _without_unit_axes(before: Sequence[int], after: Sequence[int]) -> list[tuple[int, int]]:
    return [(x, y) for x, y in zip(before, after, strict=True) if y != 1]


@rule(ReshapeOp)
def reshape_of_slice(op: ReshapeOp, b: GraphBuilder) -> SSAValue | None:
    """A slice gives its result without or with axes of extent 1 by itself."""
    inner = op.operand.owner
    if not isinstance(inner, ExtractSliceOp) or not op.operand.has_one_use():
        return None
    sizes = inner.static_sizes.get_values()
    kept = [size for size in sizes if size != 1]
    shape = shape_of(op.result)
    if [extent for extent in shape if extent != 1] != kept or len(shape) > len(sizes):
        return None
    return _slice_like(b, inner, inner.source, shape)


# --- slices ----------------------------------------------------------------------------------


def _slice_like(
    b: GraphBuilder, op: ExtractSliceOp, source: SSAValue, shape: Sequence[int] | None = None
) -> SSAValue:
    """The window of a slice on another source of the same shape."""
    return b.slice(
        source,
        op.static_offsets.get_values(),
        op.static_sizes.get_values(),
        op.static_strides.get_values(),
        shape_of(op.result) if shape is None else shape,
    )


def _kept_axes(op: ExtractSliceOp) -> list[int] | None:
    """The axes of the source that the result of a slice still has, or None where unclear."""
    sizes, shape = op.static_sizes.get_values(), shape_of(op.result)
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        if len(kept) < len(shape) and shape[len(kept)] == size:
            kept.append(axis)
        elif size != 1:
            return None
    return kept if len(kept) == len(shape) else None


@rule(ExtractSliceOp)
def slice_known(op: ExtractSliceOp, b: GraphBuilder) -> SSAValue | None:
    """A slice of everything is a reshape, of a constant a constant, of a broadcast a broadcast."""
    shape = shape_of(op.result)
    if tuple(op.static_sizes.get_values()) == shape_of(op.source):
        return b.reshape(op.source, shape)
    array = coefficient(op.source)
    if array is not None and array.ndim == 0:
        return b.splat(float(array), shape)
    array = constant_value(op.source)
    if array is None:
        return None
    name = derived_name(name_of(op.source), "slice")
    return b.constant(array[slices(op)].reshape(shape), name)


@rule(ExtractSliceOp)
def slice_of_broadcast(op: ExtractSliceOp, b: GraphBuilder) -> SSAValue | None:
    """slice(broadcast(x)) = broadcast(slice(x))."""
    inner = op.source.owner
    if not isinstance(inner, BroadcastOp):
        return None
    extents = shape_of(inner.operand)
    sizes = op.static_sizes.get_values()
    window = [
        (0, 1, 1) if extent == 1 else (offset, size, stride)
        for extent, offset, size, stride in zip(
            extents,
            op.static_offsets.get_values(),
            sizes,
            op.static_strides.get_values(),
            strict=True,
        )
    ]
    offsets, small, strides = zip(*window, strict=True)
    picked = b.slice(inner.operand, offsets, small, strides)
    return b.reshape(b.broadcast(picked, sizes), shape_of(op.result))


@rule(ExtractSliceOp)
def slice_of_slice(op: ExtractSliceOp, b: GraphBuilder) -> SSAValue | None:
    """A window of a window is one window."""
    inner = op.source.owner
    if not isinstance(inner, ExtractSliceOp) or (kept := _kept_axes(inner)) is None:
        return None
    offsets = list(inner.static_offsets.get_values())
    sizes, strides = [1] * len(offsets), list(inner.static_strides.get_values())
    for position, axis in enumerate(kept):
        offsets[axis] += op.static_offsets.get_values()[position] * strides[axis]
        strides[axis] *= op.static_strides.get_values()[position]
        sizes[axis] = op.static_sizes.get_values()[position]
    return b.slice(inner.source, offsets, sizes, strides, shape_of(op.result))


@rule(ExtractSliceOp)
def slice_of_concat(op: ExtractSliceOp, b: GraphBuilder) -> SSAValue | None:
    """A window within one of the joined parts is a window of that part."""
    inner = op.source.owner
    if not isinstance(inner, ConcatOp):
        return None
    axis = inner.dim.value.data
    offsets = list(op.static_offsets.get_values())
    window = slices(op)[axis]
    start = 0
    for part in inner.inputs:
        extent = shape_of(part)[axis]
        if start <= window.start and window.stop <= start + extent:
            offsets[axis] -= start
            sizes, strides = op.static_sizes.get_values(), op.static_strides.get_values()
            return b.slice(part, offsets, sizes, strides, shape_of(op.result))
        start += extent
    return None


@rule(ExtractSliceOp)
def slice_of_pad(op: ExtractSliceOp, b: GraphBuilder) -> SSAValue | None:
    """A window of the padded array is one of the array, or zeros, where it meets one of them."""
    inner = op.source.owner
    if not isinstance(inner, PadOp):
        return None
    offsets = list(op.static_offsets.get_values())
    inside = True
    for axis, (window, extent) in enumerate(zip(slices(op), shape_of(inner.operand), strict=True)):
        low = inner.amounts[axis][0]
        if window.stop <= low or window.start >= low + extent:
            return b.splat(0, shape_of(op.result))
        inside &= low <= window.start and window.stop <= low + extent
        offsets[axis] -= low
    if not inside:
        return None
    sizes, strides = op.static_sizes.get_values(), op.static_strides.get_values()
    return b.slice(inner.operand, offsets, sizes, strides, shape_of(op.result))


@rule(ExtractSliceOp)
def slice_of_elementwise(op: ExtractSliceOp, b: GraphBuilder) -> SSAValue | None:
    """slice(f(x, k)) = f(slice(x), slice(k)), for coefficients k and no other use of f."""
    inner = op.source.owner
    if not isinstance(inner, Operation) or not is_elementwise(inner):
        return None
    if not op.source.has_one_use():
        return None
    if sum(coefficient(operand) is None for operand in inner.operands) != 1:
        return None
    operands = [_slice_like(b, op, operand) for operand in inner.operands]
    return b.like(inner, operands, shape_of(op.result))


# --- padding ---------------------------------------------------------------------------------


@rule(PadOp)
def pad_known(op: PadOp, b: GraphBuilder) -> SSAValue | None:
    """Zeros padded are zeros; padding by nothing is nothing; twice is once."""
    if is_zero(op.operand):
        return b.splat(0, shape_of(op.result))
    if not any(low or high for low, high in op.amounts):
        return op.operand
    inner = op.operand.owner
    if not isinstance(inner, PadOp):
        return None
    low, high = (
        [x + y for x, y in zip(ours.get_values(), theirs.get_values(), strict=True)]
        for ours, theirs in ((op.low, inner.low), (op.high, inner.high))
    )
    return b.pad(inner.operand, low, high)


@rule(PadOp)
def pad_coefficient(op: PadOp, b: GraphBuilder) -> SSAValue | None:
    """A coefficient padded along an axis needs its values along that axis only."""
    array = coefficient(op.operand)
    if array is None:
        return None
    extents = shape_of(op.operand)
    if array.ndim == 0:
        array = array.reshape((1,) * len(extents))
    padded = [low + high > 0 for low, high in op.amounts]
    full = [
        extent if needed else own
        for extent, own, needed in zip(extents, array.shape, padded, strict=True)
    ]
    result = np.pad(np.broadcast_to(array, full), op.amounts)
    name = derived_name(coefficient_name(op.operand), "padded")
    return materialize(b, result, shape_of(op.result), name)


@rule(PadOp)
def pad_of_broadcast(op: PadOp, b: GraphBuilder) -> SSAValue | None:
    """pad(broadcast(x)) = broadcast(pad(x)), along axes that are not repeated."""
    inner = op.operand.owner
    if not isinstance(inner, BroadcastOp):
        return None
    before, after = shape_of(inner.operand), shape_of(inner.result)
    for axis, amounts in enumerate(op.amounts):
        if any(amounts) and before[axis] != after[axis]:
            return None
    padded = b.pad(inner.operand, op.low.get_values(), op.high.get_values())
    return b.broadcast(padded, shape_of(op.result))


def _pads_with_one_use(op: AddfOp) -> tuple[PadOp, PadOp] | None:
    lhs, rhs = op.lhs.owner, op.rhs.owner
    if not isinstance(lhs, PadOp) or not isinstance(rhs, PadOp) or lhs is rhs:
        return None
    return (lhs, rhs) if op.lhs.has_one_use() and op.rhs.has_one_use() else None


@rule(AddfOp)
def add_pads(op: AddfOp, b: GraphBuilder) -> SSAValue | None:
    """
    pad(x) + pad(y) = pad(x + y), where they lie on each other, and a padded join of x and y
    where they lie side by side.
    """
    if (pads := _pads_with_one_use(op)) is None:
        return None
    first, second = pads
    if first.amounts == second.amounts:
        total = b.add(first.operand, second.operand)
        return b.pad(total, first.low.get_values(), first.high.get_values())
    differing = [
        axis
        for axis, (x, y) in enumerate(zip(first.amounts, second.amounts, strict=True))
        if x != y
    ]
    if len(differing) != 1:
        return None
    axis = differing[0]
    if first.amounts[axis] > second.amounts[axis]:
        first, second = second, first
    if first.amounts[axis][0] + shape_of(first.operand)[axis] != second.amounts[axis][0]:
        return None
    low, high = first.low.get_values(), second.high.get_values()
    return b.pad(b.concat([first.operand, second.operand], axis), low, high)


@rule(MulfOp)
def multiply_pad(op: MulfOp, b: GraphBuilder) -> SSAValue | None:
    """pad(x)·y = pad(x·slice(y)): zeros stay zeros. A number y goes the other way, outwards."""
    if scaled_operand(op.result) is not None:
        return None
    for padded, y in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        pad = padded.owner
        if not isinstance(pad, PadOp) or not padded.has_one_use():
            continue
        window = b.slice(y, pad.low.get_values(), shape_of(pad.operand))
        return b.pad(b.mul(pad.operand, window), pad.low.get_values(), pad.high.get_values())
    return None


# --- joins -----------------------------------------------------------------------------------


@rule(ConcatOp)
def join_known(op: ConcatOp, b: GraphBuilder) -> SSAValue | None:
    """A join of one is that one, of joins one join, of constants a constant."""
    axis = op.dim.value.data
    if len(op.inputs) == 1:
        return op.inputs[0]
    parts = [inner for part in op.inputs for inner in _parts(part, axis)]
    if len(parts) > len(op.inputs):
        return b.concat(parts, axis)
    if not all(isinstance(part.owner, ConstantOp) for part in op.inputs):
        return None
    arrays = [cast(np.ndarray, constant_value(part)) for part in op.inputs]
    return b.constant(np.concatenate(arrays, axis))


def _parts(value: SSAValue, axis: int) -> Sequence[SSAValue]:
    """What a value that nothing else uses joins along `axis`, or the value alone."""
    owner = value.owner
    if isinstance(owner, ConcatOp) and owner.dim.value.data == axis and value.has_one_use():
        return owner.inputs
    return (value,)


# --- numbers and signs through what only moves or adds elements --------------------------------


@rule(ReduceSumOp, ReshapeOp, PadOp, TransposeOp)
def move_number_out(
    op: ReduceSumOp | ReshapeOp | PadOp | TransposeOp, b: GraphBuilder
) -> SSAValue | None:
    """f(x·c) = f(x)·c for a linear f, where nothing else uses x·c."""
    if not op.operand.has_one_use() or (split := scaled_operand(op.operand)) is None:
        return None
    x, c = split
    moved = b.insert(
        type(op).create(
            operands=[x],
            result_types=op.result_types,
            properties=op.properties,
            attributes=op.attributes,
        )
    )
    return b.neg(moved) if c == -1 else b.scale(moved, c)
