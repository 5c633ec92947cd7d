"""
What the operations of the `lut` dialect have in common: a value by arrays, which also folds them,
and what their verifiers ask.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
    f32,
    i8,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AnyOf, IRDLOperation, base, eq
from xdsl.utils.exceptions import VerifyException

from ..analysis.lut_layer import GRID
from .lut_attributes import ErrorAttr, QuantAttr, SpecAttr
from .lut_constants import (
    constant_attribute,
    dense_array,
    dense_attribute,
    extent,
    integer_bits,
    numpy_type,
    table_range,
    ui8,
)

Array = NDArray[Any]
ArrayOf = Callable[[SSAValue], Array]
"""The array that a value is."""

_FloatElement = AnyOf((base(Float32Type), base(Float64Type)))
FloatTensor = TensorType.constr(_FloatElement)
F32Tensor = TensorType.constr(eq(f32))
Indices = TensorType.constr(eq(ui8))
Integers = TensorType.constr(base(IntegerType))
Sums = TensorType.constr(AnyOf((base(IntegerType), base(Float32Type), base(Float64Type))))
Table = TensorType.constr(AnyOf((eq(i8), eq(f32))))


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor value."""
    return cast(TensorType[Attribute], value.type).get_shape()


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor value."""
    return cast(TensorType[Attribute], value.type).get_element_type()


def is_integer(value: SSAValue) -> bool:
    """Whether a tensor holds integers."""
    return isinstance(element_of(value), IntegerType)


class LutOperation(IRDLOperation, HasFolderInterface, abc.ABC):
    """An operation of this dialect: a function of its operands' arrays, folded if known."""

    @abc.abstractmethod
    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        """
        The results, in the number types of their tensors, of the operands that `of` gives. An
        array of floats may have more digits than its tensor's type; it is rounded to it.
        """

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """The results as constants where every operand is one."""
        arrays: dict[SSAValue, Array] = {}
        for operand in self.operands:
            attribute = constant_attribute(operand)
            if attribute is None:
                return None
            arrays[operand] = dense_array(attribute)
        return [dense_attribute(a) for a in self.evaluate(arrays.__getitem__)]


def typed(array: Array, value: SSAValue) -> Array:
    """An array in the number type of a value's tensor."""
    dtype = numpy_type(element_of(value))
    assert dtype is not None
    return array.astype(dtype)


def as_f32(array: Array) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


# --- what verifiers ask --------------------------------------------------------------------------


def by(shape: Sequence[int]) -> str:
    """A shape for people: 8x12."""
    return "x".join("?" if d < 0 else str(d) for d in shape) or "a scalar"


PLURALS = ("the channels", "the indices", "the steps", "the sums", "the thresholds", "the weights")


def expect_shape(value: SSAValue, what: str, shape: Sequence[int]) -> None:
    if shape_of(value) != tuple(shape):
        have = "have" if what.startswith(PLURALS) else "has"
        raise VerifyException(f"{what} {have} shape {by(shape_of(value))}, not {by(shape)}")


def static_shape(value: SSAValue, what: str, rank: int = 2) -> tuple[int, ...]:
    shape = shape_of(value)
    if len(shape) != rank or any(d < 0 for d in shape):
        raise VerifyException(f"{what} has {rank} axes of known extent, not shape {by(shape)}")
    return shape


def expect_width(value: SSAValue, what: str, allowed: Sequence[IntegerType]) -> None:
    """A tensor of integers has one of the types allowed."""
    if is_integer(value) and (element := element_of(value)) not in allowed:
        raise VerifyException(f"{what} is of {' or '.join(map(str, allowed))}, not {element}")


def extent_of(value: SSAValue) -> tuple[float, float] | None:
    attribute = constant_attribute(value)
    return None if attribute is None else extent(attribute)


def check_spec(spec: SpecAttr, x: SSAValue, centroids: tuple[int, ...] | None) -> None:
    """The cut covers the input and is that of the centroids."""
    _, width = static_shape(x, "the input")
    if not spec.covers(width):
        raise VerifyException(
            f"{spec.cb.data} codebooks of {spec.vec.data} channels for {width} inputs; "
            f"{-(-width // spec.vec.data)} cover them"
        )
    wanted = (spec.cb.data, spec.k.data, spec.vec.data)
    if centroids is not None and centroids != wanted:
        raise VerifyException(
            f"centroids of shape {by(centroids)} for a spec of {spec.cb.data} codebooks, "
            f"{spec.k.data} centroids and {spec.vec.data} channels"
        )


def check_search(spec: SpecAttr, x: SSAValue, centroids: SSAValue, steps: SSAValue) -> None:
    if spec.encoder.data != "nearest":
        raise VerifyException(f"encoder '{spec.encoder.data}' has no centroids to search")
    check_spec(spec, x, static_shape(centroids, "a set of centroids", 3))
    check_grid(centroids, steps)


def check_grid(centroids: SSAValue, steps: SSAValue) -> None:
    """One step a codebook; constant centroids stand on the grid, constant steps are positive."""
    expect_shape(steps, "the steps", shape_of(centroids)[:1])
    if (found := extent_of(centroids)) is not None and max(-found[0], found[1]) > GRID:
        outside = found[1] if found[1] > GRID else found[0]
        raise VerifyException(f"a centroid has the coordinate {outside:.0f}, outside ±{GRID}")
    if (found := extent_of(steps)) is not None and not 0 < found[0] <= found[1] < np.inf:
        raise VerifyException(
            f"grid steps lie in [{found[0]:g}, {found[1]:g}]; they are positive numbers"
        )


def check_table(
    table: SSAValue, quant: QuantAttr | None, error: ErrorAttr | None, sums: Attribute
) -> None:
    """Entries fit their bits, the sums their type, and what is stated of the sums is so."""
    if is_integer(table) != (quant is not None):
        raise VerifyException(
            "a table of integers has a quantisation (quant <bits = 8>), one of floats has none"
        )
    if quant is None:
        return
    if (found := extent_of(table)) is not None and max(-found[0], found[1]) > quant.limit:
        outside = found[1] if found[1] > quant.limit else found[0]
        raise VerifyException(
            f"a table entry is {outside:.0f}; {quant.bits.data} bits hold ±{quant.limit}"
        )
    low, high, known = sum_range(table, quant)
    if isinstance(sums, IntegerType):
        bits = integer_bits(cast(Attribute, sums))
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if low < least or high > most:
            raise VerifyException(
                f"sums reach [{low}, {high}]{'' if known else ' (the table is no constant)'}; "
                f"i{bits} holds [{least}, {most}]"
            )
    if error is None or error.acc is None or not known:
        return
    if low < error.acc[0] or high > error.acc[1]:
        raise VerifyException(
            f"sums reach [{low}, {high}], outside acc = [{error.acc[0]}, {error.acc[1]}]"
        )


def sum_range(table: SSAValue, quant: QuantAttr) -> tuple[int, int, bool]:
    """
    The least and the largest sum of a lookup in a table of integers, and whether they are
    attained: for a constant table, else what entries of that many bits allow.
    """
    attribute = constant_attribute(table)
    if attribute is not None:
        return (*table_range(attribute), True)
    bound = shape_of(table)[0] * quant.limit
    return -bound, bound, False


def check_scale(scale: SSAValue | None, quant: QuantAttr | None, columns: int) -> None:
    if scale is None:
        return
    one = quant is not None and quant.scheme.data == "per_tensor"
    if quant is None:
        if shape_of(scale) not in ((1,), (columns,)):
            raise VerifyException(
                f"the scale has shape {by(shape_of(scale))}; one number, or one for each of "
                f"{columns} columns"
            )
        return
    expect_shape(scale, f"the scale of a {quant.scheme.data} table", (1 if one else columns,))


def check_channels(
    channels: DenseArrayBase[Any], weight: SSAValue, width: int, columns: int
) -> None:
    picked: tuple[int, ...] = channels.get_values()
    if len(set(picked)) != len(picked) or any(not 0 <= c < width for c in picked):
        raise VerifyException(f"channels {list(picked)} are not distinct ones of {width} inputs")
    expect_shape(weight, "the weights of residual channels", (len(picked), columns))
