"""
The part of torch-mlir's `torch` dialect that this compiler takes.

Syntax and meaning are torch-mlir's (https://github.com/llvm/torch-mlir, `TorchOps.td`): the
pretty and the generic form of what it prints both round-trip. Two things differ on purpose:
only value semantics (`!torch.vtensor`) exist here, and every operation is `Pure`, so that CSE
and DCE apply, which upstream does not declare.

Operators from ATen share one syntax and come from the table in `torch_schemas.py`: each is a
class of its own, with named operands, in `TORCH_OPS` under its name without the `torch.`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    I1,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float64Type,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from .torch_schemas import SCHEMAS

DYNAMIC = -1
"""How a dimension that is `?` in the text is kept in `VTensorType.shape`."""


# --- types -----------------------------------------------------------------------------------


@irdl_attr_definition
class VTensorType(ParametrizedAttribute, TypeAttribute):
    """
    `!torch.vtensor<[4,?],f32>`: an immutable tensor. `*` in place of the list is an unknown
    rank, `unk` an unknown element type, and neither is written when both are unknown.
    """

    name = "torch.vtensor"
    shape: ArrayAttr[IntAttr] | NoneAttr
    dtype: Attribute

    def __init__(self, shape: Sequence[int] | None, dtype: Attribute | None = None):
        dims = NoneAttr() if shape is None else ArrayAttr(IntAttr(d) for d in shape)
        super().__init__(dims, NoneAttr() if dtype is None else dtype)

    def has_static_shape(self) -> bool:
        """Whether the rank and every dimension are known."""
        if isinstance(self.shape, NoneAttr):
            return False
        return all(dim.data != DYNAMIC for dim in self.shape)

    def get_shape(self) -> tuple[int, ...]:
        """The dimensions, `DYNAMIC` where unknown; raises `ValueError` on an unknown rank."""
        if isinstance(self.shape, NoneAttr):
            raise ValueError(f"{self} has no rank")
        return tuple(dim.data for dim in self.shape)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        if parser.parse_optional_punctuation("<") is None:
            return (NoneAttr(), NoneAttr())
        shape: ArrayAttr[IntAttr] | NoneAttr = NoneAttr()
        if parser.parse_optional_punctuation("*") is None:
            dims = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _parse_dimension(parser)
            )
            shape = ArrayAttr(dims)
        parser.parse_punctuation(",")
        known = parser.parse_optional_keyword("unk") is None
        dtype = parser.parse_type() if known else NoneAttr()
        parser.parse_punctuation(">")
        return (shape, dtype)

    def print_parameters(self, printer: Printer) -> None:
        if isinstance(self.shape, NoneAttr) and isinstance(self.dtype, NoneAttr):
            return
        printer.print_string("<")
        if isinstance(self.shape, NoneAttr):
            printer.print_string("*")
        else:
            dims = ("?" if d.data == DYNAMIC else str(d.data) for d in self.shape)
            printer.print_string(f"[{','.join(dims)}]")
        printer.print_string(",")
        if isinstance(self.dtype, NoneAttr):
            printer.print_string("unk")
        else:
            printer.print_attribute(self.dtype)
        printer.print_string(">")


def _parse_dimension(parser: AttrParser) -> IntAttr:
    if parser.parse_optional_punctuation("?"):
        return IntAttr(DYNAMIC)
    return IntAttr(parser.parse_integer(allow_negative=False))


@irdl_attr_definition
class IntType(ParametrizedAttribute, TypeAttribute):
    """A Python int."""

    name = "torch.int"


@irdl_attr_definition
class FloatType(ParametrizedAttribute, TypeAttribute):
    """A Python float."""

    name = "torch.float"


@irdl_attr_definition
class BoolType(ParametrizedAttribute, TypeAttribute):
    """A Python bool."""

    name = "torch.bool"


@irdl_attr_definition
class NumberType(ParametrizedAttribute, TypeAttribute):
    """A Python int or float."""

    name = "torch.number"


@irdl_attr_definition
class NoneType(ParametrizedAttribute, TypeAttribute):
    """The type of `None`."""

    name = "torch.none"


@irdl_attr_definition
class StrType(ParametrizedAttribute, TypeAttribute):
    """A Python str."""

    name = "torch.str"


@irdl_attr_definition
class DeviceType(ParametrizedAttribute, TypeAttribute):
    """A `torch.device`."""

    name = "torch.Device"


class _Wrapping(ParametrizedAttribute):
    """A type around another; the inner one drops its `!torch.`: `!torch.list<int>`."""

    element: Attribute

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            mnemonic = parser.parse_identifier()
            if (inner := _TYPES.get(mnemonic)) is None:
                parser.raise_error(f"unknown torch type '{mnemonic}'")
            return (inner.new(inner.parse_parameters(parser)),)

    def print_parameters(self, printer: Printer) -> None:
        element = cast(ParametrizedAttribute, self.element)
        with printer.in_angle_brackets():
            printer.print_string(element.name.removeprefix("torch."))
            element.print_parameters(printer)


@irdl_attr_definition
class ListType(_Wrapping, TypeAttribute):
    """A Python list."""

    name = "torch.list"


@irdl_attr_definition
class OptionalType(_Wrapping, TypeAttribute):
    """A value that may be `None`."""

    name = "torch.optional"


_TYPES: dict[str, type[ParametrizedAttribute]] = {
    cls.name.removeprefix("torch."): cls
    for cls in (
        VTensorType,
        IntType,
        FloatType,
        BoolType,
        NumberType,
        NoneType,
        StrType,
        DeviceType,
        ListType,
        OptionalType,
    )
}


# --- operators from ATen ---------------------------------------------------------------------

_KINDS: dict[str, tuple[type[Attribute], ...]] = {
    "Tensor": (VTensorType,),
    "Scalar": (IntType, FloatType, BoolType, NumberType),
    "int": (IntType,),
    "float": (FloatType,),
    "bool": (BoolType,),
    "str": (StrType,),
    "Device": (DeviceType,),
}


class Parameter:
    """One formal parameter of an ATen schema: its `name` and its `kind`, such as `int[]?`."""

    def __init__(self, kind: str, name: str):
        self.kind = kind
        self.name = name
        self._optional = kind.endswith("?")
        stem = kind.removesuffix("?")
        self._list = stem.endswith("[]")
        self._classes = _KINDS[stem.removesuffix("[]")]

    def accepts(self, type: Attribute) -> bool:
        """Whether a value of `type` may be passed."""
        if self._optional and isinstance(type, NoneType):
            return True
        if self._optional and isinstance(type, OptionalType):
            type = type.element
        if not self._list:
            return isinstance(type, self._classes)
        return isinstance(type, ListType) and isinstance(type.element, self._classes)


class AtenOp(IRDLOperation):
    """
    An operator of ATen: `torch.aten.x %a, %b {attrs} : ta, tb -> tr`.

    Operands are in the order of `PARAMETERS`, every one present: defaults are constants too.
    """

    inputs = var_operand_def()
    outputs = var_result_def()

    PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()
    RESULT_COUNT: ClassVar[int] = 1

    def argument(self, name: str) -> SSAValue:
        """The operand passed for the parameter `name`; `KeyError` where there is none."""
        for parameter, operand in zip(self.PARAMETERS, self.operands, strict=True):
            if parameter.name == name:
                return operand
        raise KeyError(f"{self.name} has no parameter '{name}'")

    def verify_(self) -> None:
        expected = len(self.PARAMETERS)
        if len(self.operands) != expected:
            signature = ", ".join(f"{p.kind} {p.name}" for p in self.PARAMETERS)
            raise VerifyException(
                f"{self.name} takes {expected} operands ({signature}), got {len(self.operands)}"
            )
        for parameter, operand in zip(self.PARAMETERS, self.operands, strict=True):
            if not parameter.accepts(operand.type):
                raise VerifyException(
                    f"{self.name}: '{parameter.name}' must be {parameter.kind}, got {operand.type}"
                )
        if len(self.results) != self.RESULT_COUNT:
            raise VerifyException(
                f"{self.name} has {self.RESULT_COUNT} results, got {len(self.results)}"
            )
        for result in self.results:
            if not isinstance(result.type, VTensorType):
                raise VerifyException(
                    f"{self.name}: the result must be !torch.vtensor, got {result.type}"
                )

    @classmethod
    def parse(cls, parser: Parser) -> AtenOp:
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        operand_types: Sequence[Attribute] = ()
        result_types: Sequence[Attribute] = ()
        if operands:
            parser.parse_punctuation(":")
            operand_types = _parse_types(parser)
        arrow = "->" if operands else ":"
        if parser.parse_optional_punctuation(arrow):
            result_types = _parse_types(parser)
        resolved = parser.resolve_operands(operands or (), operand_types, parser.pos)
        return cls.create(operands=resolved, result_types=result_types, attributes=attributes)

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)
        if self.results:
            printer.print_string(" -> " if self.operands else " : ")
            printer.print_list(self.result_types, printer.print_attribute)


def _parse_types(parser: Parser) -> list[Attribute]:
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)


_SCHEMA = re.compile(r"(?P<name>[\w.]+)\((?P<parameters>.*)\)(?: -> (?P<results>\d+))?")


def _define(schema: str) -> type[AtenOp]:
    """The operation class of one line of `SCHEMAS`."""
    match = cast(re.Match[str], _SCHEMA.fullmatch(schema))
    name = match["name"]
    pairs = (part.split(" ") for part in match["parameters"].split(", "))
    words = re.split(r"[._]+", name.removeprefix("aten."))
    body: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": f"`{schema}`",
        "name": f"torch.{name}",
        "traits": traits_def(Pure()),
    }
    class_name = "".join(word[:1].upper() + word[1:] for word in words) + "Op"
    defined = irdl_op_definition(type(class_name, (AtenOp,), body))
    # Not in the body: PyRDL takes any field it finds there for a part of the operation.
    defined.PARAMETERS = tuple(Parameter(kind, parameter) for kind, parameter in pairs)
    defined.RESULT_COUNT = int(match["results"] or 1)
    return defined


TORCH_OPS: dict[str, type[AtenOp]] = {
    op.name.removeprefix("torch."): op
    for op in (_define(line) for line in SCHEMAS.splitlines() if line)
}
"""The class of each ATen operator we know, by its name without `torch.`: `aten.mul.Tensor`."""


# --- constants and structure -----------------------------------------------------------------


@irdl_op_definition
class ConstantIntOp(IRDLOperation):
    """`torch.constant.int 3`: a Python int."""

    name = "torch.constant.int"
    value = prop_def(IntegerAttr[IntegerType])
    result = result_def(IntType)
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: int):
        super().__init__(properties={"value": IntegerAttr(value, i64)}, result_types=[IntType()])

    @classmethod
    def parse(cls, parser: Parser) -> ConstantIntOp:
        attributes = parser.parse_optional_attr_dict()
        op = cls(parser.parse_integer())
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(f" {self.value.value.data}")


@irdl_op_definition
class ConstantFloatOp(IRDLOperation):
    """`torch.constant.float 3.000000e+01`: a Python float."""

    name = "torch.constant.float"
    value = prop_def(FloatAttr[Float64Type])
    result = result_def(FloatType)
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: float | FloatAttr[Float64Type]):
        attribute = value if isinstance(value, FloatAttr) else FloatAttr(value, f64)
        super().__init__(properties={"value": attribute}, result_types=[FloatType()])

    @classmethod
    def parse(cls, parser: Parser) -> ConstantFloatOp:
        # An infinity or a NaN is spelt as its 64 bits.
        value = parser.parse_optional_number(allow_boolean=False)
        if value is None:
            parser.raise_error("expected a float")
        if isinstance(value, int):
            value = next(iter(f64.iter_unpack(value.to_bytes(8, "little"))))
        op = cls(value)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_float(self.value.value.data, f64)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ConstantBoolOp(IRDLOperation):
    """`torch.constant.bool true`: a Python bool."""

    name = "torch.constant.bool"
    value = prop_def(IntegerAttr[I1])
    result = result_def(BoolType)
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: bool):
        super().__init__(
            properties={"value": IntegerAttr(int(value), i1)}, result_types=[BoolType()]
        )

    @classmethod
    def parse(cls, parser: Parser) -> ConstantBoolOp:
        attributes = parser.parse_optional_attr_dict()
        op = cls(parser.parse_boolean())
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(" true" if self.value.value.data else " false")


@irdl_op_definition
class ConstantStrOp(IRDLOperation):
    """`torch.constant.str "none"`: a Python str."""

    name = "torch.constant.str"
    value = prop_def(StringAttr)
    result = result_def(StrType)
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "$value attr-dict"


@irdl_op_definition
class ConstantDeviceOp(IRDLOperation):
    """`torch.constant.device "cpu"`: a `torch.device`."""

    name = "torch.constant.device"
    value = prop_def(StringAttr)
    result = result_def(DeviceType)
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "$value attr-dict"


@irdl_op_definition
class ConstantNoneOp(IRDLOperation):
    """`torch.constant.none`: Python's `None`."""

    name = "torch.constant.none"
    result = result_def(NoneType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[NoneType()])


@irdl_op_definition
class VTensorLiteralOp(IRDLOperation):
    """
    `torch.vtensor.literal(dense<…> : tensor<2x3xf32>) : !torch.vtensor<[2,3],f32>`: a tensor
    known at compile time. The attribute `inr.name` says which parameter of the model it is.
    """

    name = "torch.vtensor.literal"
    value = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr)
    result = result_def(VTensorType)
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "`(` $value `)` attr-dict `:` type($result)"


@irdl_op_definition
class ListConstructOp(IRDLOperation):
    """`torch.prim.ListConstruct %a, %b : (!torch.int, !torch.int) -> !torch.list<int>`."""

    name = "torch.prim.ListConstruct"
    elements = var_operand_def()
    result = result_def(ListType)
    traits = traits_def(Pure())
    assembly_format = "$elements attr-dict `:` functional-type(operands, results)"


@irdl_op_definition
class OperatorOp(IRDLOperation):
    """`torch.operator "torch.aten.x"(%a) : …`: an operator that torch-mlir does not define."""

    name = "torch.operator"
    op_name = prop_def(StringAttr, prop_name="name")
    arguments = var_operand_def()
    outputs = var_result_def()
    traits = traits_def(Pure())
    assembly_format = "$name `(` $arguments `)` attr-dict `:` functional-type(operands, results)"


Constant = int | float | bool | str | None


def constant_of(value: SSAValue) -> Constant | list[Constant]:
    """
    The Python value of an operand that is a constant or a list of constants.

    Raises `ValueError` where it is neither (a tensor, or a value computed at run time).
    """
    match value.owner:
        case ConstantIntOp() | ConstantFloatOp() as op:
            return op.value.value.data
        case ConstantBoolOp() as op:
            return bool(op.value.value.data)
        case ConstantStrOp() | ConstantDeviceOp() as op:
            return op.value.data
        case ConstantNoneOp():
            return None
        case ListConstructOp() as op:
            return [cast(Constant, constant_of(element)) for element in op.elements]
        case _:
            raise ValueError(f"not a constant: {value}")


_STRUCTURE: tuple[type[Operation], ...] = (
    ConstantIntOp,
    ConstantFloatOp,
    ConstantBoolOp,
    ConstantStrOp,
    ConstantDeviceOp,
    ConstantNoneOp,
    VTensorLiteralOp,
    ListConstructOp,
    OperatorOp,
)

Torch = Dialect("torch", [*TORCH_OPS.values(), *_STRUCTURE], list(_TYPES.values()))
