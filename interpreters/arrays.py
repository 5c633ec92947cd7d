"""Tensors of the IR as NumPy arrays and back, bytes for bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    BFloat16Type,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    TensorType,
    f64,
)
from xdsl.ir import Attribute, SSAValue

_DTYPES: dict[type[Attribute], str] = {Float16Type: "<f2", Float32Type: "<f4", Float64Type: "<f8"}


def to_array(attribute: Attribute) -> np.ndarray:
    """
    The values of a dense or scalar float attribute as float64, in the attribute's shape.

    Raises ValueError for an attribute that holds no floats.
    """
    if isinstance(attribute, FloatAttr):
        return np.asarray(attribute.value.data, dtype=np.float64)
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        raise ValueError(f"no array of floats: {attribute}")
    element = attribute.get_element_type()
    raw: bytes = attribute.data.data
    if isinstance(element, BFloat16Type):
        # bfloat16 is the upper half of a float32.
        halves = np.frombuffer(raw, "<u2").astype("<u4") << 16
        values = halves.view("<f4")
    elif (dtype := _DTYPES.get(type(element))) is not None:
        values = np.frombuffer(raw, dtype)
    else:
        raise ValueError(f"no array of floats: {attribute.type}")
    shape = attribute.get_shape()
    if len(values) == 1:
        return np.full(shape, values[0], dtype=np.float64)
    return values.astype(np.float64).reshape(shape)


def to_dense(values: np.ndarray | Sequence[float] | float) -> DenseIntOrFPElementsAttr[Any]:
    """A dense f64 attribute with the shape and values of an array."""
    array = np.ascontiguousarray(values, dtype="<f8")
    return DenseIntOrFPElementsAttr(TensorType(f64, np.shape(values)), BytesAttr(array.tobytes()))


def constant_value(value: SSAValue) -> np.ndarray | None:
    """The array of a value that an `arith.constant` defines, else None."""
    owner = value.owner
    if not isinstance(owner, ConstantOp):
        return None
    return to_array(owner.value)


def splat_value(value: SSAValue) -> float | None:
    """The number that every element of a constant value has, else None."""
    array = constant_value(value)
    if array is None or array.size == 0 or not (array == array.flat[0]).all():
        return None
    return float(array.flat[0])
