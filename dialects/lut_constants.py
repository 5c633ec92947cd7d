"""Constants of any number type as NumPy arrays and back, byte for byte."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    f32,
    f64,
)
from xdsl.ir import Attribute, SSAValue

from ..analysis.lut_layer import accumulator_range

NAME = "inr.name"
"""The attribute that says which parameter of the model a constant is."""

ui8 = IntegerType(8, Signedness.UNSIGNED)
"""The type of an index."""


_Integer = IntegerType[int, Signedness]


def numpy_type(element: Attribute) -> np.dtype[Any] | None:
    """The NumPy type of an element type: floats of 32 and 64 bits, integers of 8 to 64."""
    if isinstance(element, Float32Type):
        return np.dtype("<f4")
    if isinstance(element, Float64Type):
        return np.dtype("<f8")
    if isinstance(element, IntegerType) and (bits := integer_bits(cast(Attribute, element))) in (
        8,
        16,
        32,
        64,
    ):
        unsigned = cast(_Integer, element).signedness.data == Signedness.UNSIGNED
        return np.dtype(f"<{'u' if unsigned else 'i'}{bits // 8}")
    return None


def integer_bits(element: Attribute) -> int:
    """The width of an integer type."""
    return cast(_Integer, element).width.data


def element_bits(value: SSAValue) -> int:
    """The width of the integers that a tensor holds."""
    return integer_bits(cast(TensorType[Attribute], value.type).get_element_type())


def element_type(dtype: np.dtype[Any]) -> Attribute:
    """
    The element type of arrays of a NumPy type: f32, f64, signless or unsigned integers.

    Raises ValueError for another type.
    """
    if dtype.kind == "f" and dtype.itemsize in (4, 8):
        return f32 if dtype.itemsize == 4 else f64
    if dtype.kind in "iu":
        signedness = Signedness.UNSIGNED if dtype.kind == "u" else Signedness.SIGNLESS
        return IntegerType(8 * dtype.itemsize, signedness)
    raise ValueError(f"no element type for arrays of {dtype}")


def dense_array(attribute: Attribute) -> NDArray[Any]:
    """
    The values of a dense attribute in its own number type and shape; read-only.

    Raises ValueError for any other attribute and for number types without a NumPy one.
    """
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        raise ValueError("no dense array of numbers")
    element = cast(DenseIntOrFPElementsAttr[Any], attribute).get_element_type()
    dtype = numpy_type(element)
    if dtype is None:
        raise ValueError(f"no array of {element}")
    values = np.frombuffer(attribute.data.data, dtype)
    shape = attribute.get_shape()
    # A splat may be held as its one number.
    return np.broadcast_to(values, shape) if values.size == 1 else values.reshape(shape)


def dense_attribute(values: NDArray[Any]) -> DenseIntOrFPElementsAttr[Any]:
    """A dense attribute with the number type, shape and values of an array."""
    type_ = TensorType(element_type(values.dtype), values.shape)
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return DenseIntOrFPElementsAttr(type_, BytesAttr(little.tobytes()))  # pyright: ignore[reportArgumentType]


def named_constant(values: NDArray[Any], name: str | None = None) -> ConstantOp:
    """An `arith.constant` of an array, called `name` where one is given."""
    op = ConstantOp(dense_attribute(values))
    if name is not None:
        op.attributes[NAME] = StringAttr(name)
    return op


def constant_attribute(value: SSAValue) -> DenseIntOrFPElementsAttr[Any] | None:
    """The dense attribute of a value that an `arith.constant` defines, else None."""
    owner = value.owner
    if not isinstance(owner, ConstantOp):
        return None
    attribute = owner.value
    return attribute if isinstance(attribute, DenseIntOrFPElementsAttr) else None


def constant_array(value: SSAValue) -> NDArray[Any] | None:
    """The array of a value that an `arith.constant` defines, in its own number type, else None."""
    attribute = constant_attribute(value)
    return None if attribute is None else dense_array(attribute)


# By value, so that verifying a module before and after each pass reads a table once; the bytes of
# an attribute keep their hash, and equal ones are compared by identity first.
@lru_cache(maxsize=256)
def table_range(attribute: DenseIntOrFPElementsAttr[Any]) -> tuple[int, int]:
    """The least and the largest sum that a lookup in a constant CB×K×F table can give."""
    return accumulator_range(dense_array(attribute))


@lru_cache(maxsize=256)
def extent(attribute: DenseIntOrFPElementsAttr[Any]) -> tuple[float, float]:
    """The least and the largest number of a dense attribute; (0, 0) of an empty one."""
    values = dense_array(attribute)
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
