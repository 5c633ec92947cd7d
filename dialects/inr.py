"""
The graph level: what `arith`, `math` and `tensor` lack for networks and their derivatives.

Value semantics on ranked static tensors, attributes instead of constant operands, every op
`Pure`. Elementwise ops take a float scalar or a tensor, as those of `math` do, so the same op
stands in a graph and in the body of an `array_stream.map`. A condition is a number, 1 or 0, of
the type of what it was computed from: a mask can be multiplied, summed and streamed like any
other array.

`docs/dialects/inr.md` says why each op is here and why others are not.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from math import prod
from typing import ClassVar, cast

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    TensorType,
    container_of,
    i64,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

FloatTensor = TensorType[AnyFloat]


def as_tensor(value: SSAValue) -> TensorType[AnyFloat] | None:
    """The type of a value that is a tensor of floats, None for any other value."""
    # Two checks of classes: `isa` builds the constraint anew, half a millisecond each time.
    type_ = value.type
    if not isinstance(type_, TensorType):
        return None
    tensor = cast(TensorType[Attribute], type_)
    if not isinstance(tensor.element_type, AnyFloat):
        return None
    return cast(TensorType[AnyFloat], tensor)


def tensor_type(value: SSAValue) -> TensorType[AnyFloat]:
    """The type of a tensor value; any other value is a mistake of the caller."""
    type_ = as_tensor(value)
    assert type_ is not None
    return type_


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The static shape of a tensor value."""
    return tensor_type(value).get_shape()


class ElementwiseUnary(IRDLOperation, abc.ABC):
    """`inr.f %x : type`, applied to each element."""

    T: ClassVar = VarConstraint("T", container_of(AnyFloat))

    operand = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($result)"

    def __init__(self, operand: SSAValue | Operation):
        value = SSAValue.get(operand)
        super().__init__(operands=[value], result_types=[value.type])


@irdl_op_definition
class SinQOp(ElementwiseUnary):
    """
    The sine of an angle in quarter-turns, sin(π/2 · x).

    In fixed point the two integer bits below the point's left are the quadrant and the rest of
    the integer part is irrelevant: range reduction is a selection of bits.
    """

    name = "inr.sinq"


@irdl_op_definition
class CosQOp(ElementwiseUnary):
    """The cosine of an angle in quarter-turns, cos(π/2 · x)."""

    name = "inr.cosq"


@irdl_op_definition
class SigmoidOp(ElementwiseUnary):
    """1 / (1 + e⁻ˣ)."""

    name = "inr.sigmoid"


@irdl_op_definition
class SoftplusOp(ElementwiseUnary):
    """log(1 + eˣ)."""

    name = "inr.softplus"


@irdl_op_definition
class SignOp(ElementwiseUnary):
    """−1, 0 or 1, as `torch.sign`; the sign of zero is 0."""

    name = "inr.sign"


@irdl_op_definition
class ReciprocalOp(ElementwiseUnary):
    """1 / x."""

    name = "inr.reciprocal"


class Predicate(StrEnum):
    """An ordered comparison of two numbers."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"


@irdl_attr_definition
class PredicateAttr(EnumAttribute[Predicate], SpacedOpaqueSyntaxAttribute):
    """The predicate of a comparison, printed as its bare name."""

    name = "inr.predicate"


@irdl_op_definition
class CompareOp(IRDLOperation):
    """
    1 where the comparison holds and 0 where it does not: `inr.compare lt %a, %b : tensor<4xf64>`.
    """

    name = "inr.compare"
    T: ClassVar = VarConstraint("T", container_of(AnyFloat))

    predicate = prop_def(PredicateAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$predicate $lhs `,` $rhs attr-dict `:` type($result)"

    def __init__(self, predicate: Predicate, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        lhs = SSAValue.get(lhs)
        super().__init__(
            operands=[lhs, rhs],
            properties={"predicate": PredicateAttr(predicate)},
            result_types=[lhs.type],
        )


@irdl_op_definition
class SelectOp(IRDLOperation):
    """`%lhs` where `%condition` is not zero, else `%rhs`, element by element."""

    name = "inr.select"
    T: ClassVar = VarConstraint("T", container_of(AnyFloat))

    condition = operand_def(T)
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$condition `,` $lhs `,` $rhs attr-dict `:` type($result)"

    def __init__(
        self,
        condition: SSAValue | Operation,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
    ):
        condition = SSAValue.get(condition)
        super().__init__(operands=[condition, lhs, rhs], result_types=[condition.type])


@irdl_op_definition
class MatmulOp(IRDLOperation):
    """
    A matrix product with an optional bias row:
    `inr.matmul %x, %w bias %b : (tensor<64x2xf64>, tensor<2x8xf64>, tensor<8xf64>) -> …`.
    """

    name = "inr.matmul"

    lhs = operand_def(FloatTensor)
    """Activations, M×K."""
    rhs = operand_def(FloatTensor)
    """Weights, K×N."""
    bias = opt_operand_def(FloatTensor)
    """Added to each row, N."""
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs (`bias` $bias^)? attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        bias: SSAValue | Operation | None = None,
    ):
        lhs, rhs = SSAValue.get(lhs), SSAValue.get(rhs)
        shape = (shape_of(lhs)[0], shape_of(rhs)[1])
        super().__init__(
            operands=[lhs, rhs, [bias] if bias is not None else []],
            result_types=[TensorType(tensor_type(lhs).element_type, shape)],
        )

    def verify_(self) -> None:
        a, b, c = shape_of(self.lhs), shape_of(self.rhs), shape_of(self.result)
        if len(a) != 2 or len(b) != 2 or a[1] != b[0] or c != (a[0], b[1]):
            raise VerifyException(f"cannot multiply {_by(a)} with {_by(b)} into {_by(c)}")
        if self.bias is not None and shape_of(self.bias) != (b[1],):
            raise VerifyException(
                f"the bias of {b[1]} columns has shape {_by(shape_of(self.bias))}"
            )


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """Axes in another order: axis i of the result is axis `permutation[i]` of the operand."""

    name = "inr.transpose"

    operand = operand_def(FloatTensor)
    permutation = prop_def(DenseArrayBase.constr(i64))
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    assembly_format = "$operand $permutation attr-dict `:` type($operand) `to` type($result)"

    def __init__(self, operand: SSAValue | Operation, permutation: Sequence[int] = (1, 0)):
        operand = SSAValue.get(operand)
        shape = shape_of(operand)
        super().__init__(
            operands=[operand],
            properties={"permutation": DenseArrayBase.from_list(i64, permutation)},
            result_types=[
                TensorType(tensor_type(operand).element_type, [shape[p] for p in permutation])
            ],
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """The permutation as integers."""
        return tuple(self.permutation.get_values())

    def verify_(self) -> None:
        shape = shape_of(self.operand)
        if sorted(self.axes) != list(range(len(shape))):
            raise VerifyException(f"{list(self.axes)} is no permutation of {len(shape)} axes")
        if shape_of(self.result) != tuple(shape[p] for p in self.axes):
            raise VerifyException(
                f"{_by(shape)} permuted by {list(self.axes)} is not {_by(shape_of(self.result))}"
            )


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """
    Axes of extent 1 repeated: `inr.broadcast %x : tensor<1x8xf64> to tensor<64x8xf64>`.

    Operand and result have the same rank; new axes come from `inr.reshape` first.
    """

    name = "inr.broadcast"

    operand = operand_def(FloatTensor)
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"

    def __init__(self, operand: SSAValue | Operation, shape: Sequence[int]):
        operand = SSAValue.get(operand)
        super().__init__(
            operands=[operand],
            result_types=[TensorType(tensor_type(operand).element_type, shape)],
        )

    def verify_(self) -> None:
        a, b = shape_of(self.operand), shape_of(self.result)
        if len(a) != len(b) or any(p not in (1, q) for p, q in zip(a, b, strict=True)):
            raise VerifyException(f"{_by(a)} does not broadcast to {_by(b)}")


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """
    The same elements in the same row-major order under another shape: nothing moves.
    """

    name = "inr.reshape"

    operand = operand_def(FloatTensor)
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"

    def __init__(self, operand: SSAValue | Operation, shape: Sequence[int]):
        operand = SSAValue.get(operand)
        super().__init__(
            operands=[operand],
            result_types=[TensorType(tensor_type(operand).element_type, shape)],
        )

    def verify_(self) -> None:
        a, b = shape_of(self.operand), shape_of(self.result)
        if prod(a) != prod(b):
            raise VerifyException(f"{_by(a)} and {_by(b)} differ in their number of elements")


@irdl_op_definition
class ReduceSumOp(IRDLOperation):
    """The sum over `dims`, which the result does not have."""

    name = "inr.reduce_sum"

    operand = operand_def(FloatTensor)
    dims = prop_def(DenseArrayBase.constr(i64))
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    assembly_format = "$operand `over` $dims attr-dict `:` type($operand) `to` type($result)"

    def __init__(self, operand: SSAValue | Operation, dims: Sequence[int]):
        operand = SSAValue.get(operand)
        shape = [d for i, d in enumerate(shape_of(operand)) if i not in dims]
        super().__init__(
            operands=[operand],
            properties={"dims": DenseArrayBase.from_list(i64, sorted(dims))},
            result_types=[TensorType(tensor_type(operand).element_type, shape)],
        )

    @property
    def axes(self) -> tuple[int, ...]:
        """The summed axes as integers."""
        return tuple(self.dims.get_values())

    def verify_(self) -> None:
        shape = shape_of(self.operand)
        if len(set(self.axes)) != len(self.axes) or any(not 0 <= d < len(shape) for d in self.axes):
            raise VerifyException(f"dims {list(self.axes)} are not axes of {_by(shape)}")
        kept = tuple(d for i, d in enumerate(shape) if i not in self.axes)
        if shape_of(self.result) != kept:
            raise VerifyException(
                f"{_by(shape)} summed over {list(self.axes)} is not {_by(shape_of(self.result))}"
            )


@irdl_op_definition
class PadOp(IRDLOperation):
    """Zeros before and after each axis: `inr.pad %x low [0, 1] high [0, 0] : …`."""

    name = "inr.pad"

    operand = operand_def(FloatTensor)
    low = prop_def(DenseArrayBase.constr(i64))
    high = prop_def(DenseArrayBase.constr(i64))
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    assembly_format = (
        "$operand `low` $low `high` $high attr-dict `:` type($operand) `to` type($result)"
    )

    def __init__(self, operand: SSAValue | Operation, low: Sequence[int], high: Sequence[int]):
        operand = SSAValue.get(operand)
        shape = [a + b + c for a, b, c in zip(low, shape_of(operand), high, strict=True)]
        super().__init__(
            operands=[operand],
            properties={
                "low": DenseArrayBase.from_list(i64, low),
                "high": DenseArrayBase.from_list(i64, high),
            },
            result_types=[TensorType(tensor_type(operand).element_type, shape)],
        )

    @property
    def amounts(self) -> tuple[tuple[int, int], ...]:
        """(before, after) for each axis."""
        return tuple(zip(self.low.get_values(), self.high.get_values(), strict=True))

    def verify_(self) -> None:
        shape = shape_of(self.operand)
        if len(self.low) != len(shape) or len(self.high) != len(shape):
            raise VerifyException(f"{_by(shape)} needs {len(shape)} amounts on either side")
        padded = tuple(d + a + b for d, (a, b) in zip(shape, self.amounts, strict=True))
        if shape_of(self.result) != padded or any(a < 0 or b < 0 for a, b in self.amounts):
            raise VerifyException(f"{_by(shape)} is not padded to {_by(shape_of(self.result))}")


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


class ConstantMaterialization(ConstantMaterializationInterface):
    """A folded value becomes an `arith.constant`."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        if not isinstance(value, DenseIntOrFPElementsAttr):
            return None
        return ConstantOp(cast(DenseIntOrFPElementsAttr[AnyFloat], value), type)


Inr = Dialect(
    "inr",
    [
        BroadcastOp,
        CompareOp,
        CosQOp,
        MatmulOp,
        PadOp,
        ReciprocalOp,
        ReduceSumOp,
        ReshapeOp,
        SelectOp,
        SigmoidOp,
        SignOp,
        SinQOp,
        SoftplusOp,
        TransposeOp,
    ],
    [PredicateAttr],
    [ConstantMaterialization()],
)
