"""
Building graph-level IR: one method an operation, on float64 tensors.

What is built carries the source location and the name hint of what it is built for, and shapes
are made equal explicitly, by `inr.reshape` and `inr.broadcast`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    LocationAttr,
    StringAttr,
    TensorType,
    f64,
)
from xdsl.ir import Operation, SSAValue

from ..dialects import inr
from ..dialects.inr import shape_of
from ..interpreters.arrays import to_dense

NAME = "inr.name"
"""The attribute that says which parameter of the model a constant is."""


def splat_attribute(value: float, shape: Sequence[int]) -> DenseIntOrFPElementsAttr[AnyFloat]:
    """A float64 tensor attribute of `shape`, every element `value`; equal calls share bytes."""
    return _splat_attribute(float(value).hex(), tuple(shape))


# Keyed by the number's text: 0.0 and -0.0 are equal as keys and differ as values.
@lru_cache(maxsize=256)
def _splat_attribute(value: str, shape: tuple[int, ...]) -> DenseIntOrFPElementsAttr[AnyFloat]:
    return to_dense(np.full(shape, float.fromhex(value)))


def tensor_of(shape: Sequence[int]) -> TensorType[Any]:
    """The float64 tensor type of `shape`."""
    return TensorType(f64, shape)


def name_of(value: SSAValue) -> str | None:
    """The parameter name that a constant carries, else None."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp):
        return None
    name = owner.attributes.get(NAME)
    return name.data if isinstance(name, StringAttr) else None


class GraphBuilder:
    """
    Inserts graph-level operations where `builder` stands, each at `location`.

    Every method returns the value of what it inserted, or an operand where nothing was to do.
    """

    def __init__(self, builder: Builder, location: LocationAttr):
        self.builder = builder
        self.location = location

    def insert(self, op: Operation) -> SSAValue:
        """Insert an operation of one result and return that result."""
        op.location = self.location
        self.builder.insert(op)
        return op.results[0]

    # --- constants ---------------------------------------------------------------------------

    def constant(self, values: np.ndarray, name: str | None = None) -> SSAValue:
        """An `arith.constant` of the array's shape, called `name` where one is given."""
        op = arith.ConstantOp(to_dense(values))
        if name is not None:
            op.attributes[NAME] = StringAttr(name)
        return self.insert(op)

    def splat(self, value: float, shape: Sequence[int]) -> SSAValue:
        """A constant of `shape` whose elements are all `value`."""
        return self.insert(arith.ConstantOp(splat_attribute(value, shape)))

    # --- arithmetic --------------------------------------------------------------------------

    def add(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """The sum of two tensors of one shape."""
        return self.insert(arith.AddfOp(lhs, rhs))

    def sub(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """The difference of two tensors of one shape."""
        return self.insert(arith.SubfOp(lhs, rhs))

    def mul(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """The elementwise product of two tensors of one shape."""
        return self.insert(arith.MulfOp(lhs, rhs))

    def div(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """The elementwise quotient of two tensors of one shape."""
        return self.insert(arith.DivfOp(lhs, rhs))

    def neg(self, value: SSAValue) -> SSAValue:
        """The tensor with its sign changed."""
        return self.insert(arith.NegfOp(value))

    def scale(self, value: SSAValue, factor: float) -> SSAValue:
        """`value` times a number."""
        if factor == 1:
            return value
        return self.mul(value, self.splat(factor, shape_of(value)))

    def offset(self, value: SSAValue, amount: float) -> SSAValue:
        """`value` plus a number."""
        if amount == 0:
            return value
        return self.add(value, self.splat(amount, shape_of(value)))

    def compare(self, predicate: inr.Predicate, lhs: SSAValue, rhs: SSAValue | float) -> SSAValue:
        """The mask of a comparison with a tensor of the same shape or a number."""
        if not isinstance(rhs, SSAValue):
            rhs = self.splat(rhs, shape_of(lhs))
        return self.insert(inr.CompareOp(predicate, lhs, rhs))

    def select(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """`lhs` where `condition` is not zero, else `rhs`; all of one shape."""
        return self.insert(inr.SelectOp(condition, lhs, rhs))

    def matmul(self, lhs: SSAValue, rhs: SSAValue, bias: SSAValue | None = None) -> SSAValue:
        """A matrix product, M×K by K×N, with an optional bias of N."""
        return self.insert(inr.MatmulOp(lhs, rhs, bias))

    def reduce_sum(self, value: SSAValue, dims: Sequence[int]) -> SSAValue:
        """The sum over `dims`, which the result does not have."""
        return self.insert(inr.ReduceSumOp(value, dims)) if dims else value

    def like(self, op: Operation, operands: Sequence[SSAValue], shape: Sequence[int]) -> SSAValue:
        """The elementwise operation `op` on other operands, all of `shape`."""
        return self.insert(
            type(op).create(
                operands=operands,
                result_types=[tensor_of(shape)],
                properties=op.properties,
                attributes=op.attributes,
            )
        )

    # --- shapes ------------------------------------------------------------------------------

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same elements under another shape of as many elements."""
        if shape_of(value) == tuple(shape):
            return value
        return self.insert(inr.ReshapeOp(value, shape))

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """
        `value` broadcast to `shape` by NumPy's rule: axes line up at the right, missing ones
        are new and axes of extent 1 repeat.
        """
        shape = tuple(shape)
        own = shape_of(value)
        if own == shape:
            return value
        aligned = self.reshape(value, (1,) * (len(shape) - len(own)) + own)
        if shape_of(aligned) == shape:
            return aligned
        return self.insert(inr.BroadcastOp(aligned, shape))

    def transpose(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """Axes in the order of `permutation`."""
        if list(permutation) == sorted(permutation):
            return value
        return self.insert(inr.TransposeOp(value, permutation))

    def slice(
        self,
        value: SSAValue,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> SSAValue:
        """
        The window of `sizes` at `offsets`, every `strides`-th element of each axis.

        `shape` is that of the result where axes of extent 1 are dropped, else it is `sizes`.
        """
        strides = [1] * len(sizes) if strides is None else strides
        shape = sizes if shape is None else shape
        if tuple(sizes) == shape_of(value):
            return self.reshape(value, shape)
        return self.insert(tensor.ExtractSliceOp(value, offsets, sizes, strides, tensor_of(shape)))

    def slice_axis(
        self, value: SSAValue, axis: int, start: int, size: int, step: int = 1
    ) -> SSAValue:
        """`size` elements of one axis from `start` on, every `step`-th; all of the others."""
        sizes, offsets = list(shape_of(value)), [0] * len(shape_of(value))
        strides = [1] * len(sizes)
        offsets[axis], sizes[axis], strides[axis] = start, size, step
        return self.slice(value, offsets, sizes, strides)

    def concat(self, values: Sequence[SSAValue], axis: int) -> SSAValue:
        """Tensors one after the other along `axis`; those without elements are left out."""
        parts = [value for value in values if prod(shape_of(value))]
        if not parts:
            return values[0]
        if len(parts) == 1:
            return parts[0]
        shape = list(shape_of(parts[0]))
        shape[axis] = sum(shape_of(part)[axis] for part in parts)
        return self.insert(tensor.ConcatOp(parts, axis, tensor_of(shape)))

    def pad(self, value: SSAValue, low: Sequence[int], high: Sequence[int]) -> SSAValue:
        """Zeros before and after each axis."""
        if not any(low) and not any(high):
            return value
        return self.insert(inr.PadOp(value, low, high))
