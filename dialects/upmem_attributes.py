"""
Attributes and types of the `upmem` dialect: the target, its two memories, the grid of DPUs, the
shape of a layer of tables and how it is mapped onto the grid.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import DictionaryAttr, IntAttr, IntegerType, MemRefType, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

INT = "an integer"

Choices = tuple[str, ...]


@irdl_attr_definition
class TargetAttr(ParametrizedAttribute):
    """A generation of the hardware: `#upmem.target<"v1A">`, its numbers in `targets/`."""

    name = "upmem.target"

    target: StringAttr

    def __init__(self, target: str | StringAttr):
        super().__init__(StringAttr(target) if isinstance(target, str) else target)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (StringAttr(parser.parse_str_literal()),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.target.data)


@irdl_attr_definition
class MramAttr(ParametrizedAttribute):
    """The space of a buffer in a DPU's 64 MB, which the host and the DMA engine reach."""

    name = "upmem.mram"


@irdl_attr_definition
class WramAttr(ParametrizedAttribute):
    """The space of a buffer in a DPU's 64 KB, which loads and stores reach."""

    name = "upmem.wram"


def space_of(value: SSAValue | Attribute) -> Attribute | None:
    """The memory space of a memref value or type, None for anything else."""
    type_ = value.type if isinstance(value, SSAValue) else value
    return type_.memory_space if isinstance(type_, MemRefType) else None


def bits_of(value: SSAValue | Attribute) -> int:
    """The width of the integers of a buffer or tensor; VerifyException where it has others."""
    type_ = cast(MemRefType[Attribute], value.type if isinstance(value, SSAValue) else value)
    element = type_.element_type
    if not isinstance(element, IntegerType):
        raise VerifyException(f"integers are needed, not {type_}")
    return cast(IntegerType, element).width.data


@irdl_attr_definition
class GridType(ParametrizedAttribute, TypeAttribute):
    """
    Allocated DPUs: `!upmem.grid<dpus = 128, groups = 4, tasklets = 16>`.

    DPU d belongs to group d floordiv ⌈dpus/groups⌉. Groups are sets of whole ranks: one transfers
    while another runs. How many DPUs of a rank work is not known before allocation (rule R8), so
    the type counts DPUs and not ranks.
    """

    name = "upmem.grid"

    dpus: IntAttr
    groups: IntAttr
    tasklets: IntAttr

    def __init__(self, dpus: int, groups: int, tasklets: int):
        super().__init__(IntAttr(dpus), IntAttr(groups), IntAttr(tasklets))

    @property
    def group_size(self) -> int:
        """DPUs in each group but perhaps the last."""
        return -(-self.dpus.data // self.groups.data)

    def verify(self) -> None:
        for name in ("dpus", "groups", "tasklets"):
            if (count := getattr(self, name).data) < 1:
                raise VerifyException(f"a grid has at least one of {name}, not {count}")
        dpus, groups = self.dpus.data, self.groups.data
        if (groups - 1) * self.group_size >= dpus:
            raise VerifyException(
                f"{dpus} DPUs in groups of {self.group_size} are fewer than {groups} groups"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        numbers: list[Attribute] = []
        with parser.in_angle_brackets():
            for name in ("dpus", "groups", "tasklets"):
                if numbers:
                    parser.parse_punctuation(",")
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                numbers.append(IntAttr(parser.parse_integer()))
        return numbers

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(
                f"dpus = {self.dpus.data}, groups = {self.groups.data}, "
                f"tasklets = {self.tasklets.data}"
            )


class FieldsAttr(ParametrizedAttribute, abc.ABC):
    """
    Named integers and words: `<ip = 4, order = nfc>`, printed in the order of `FIELDS`.

    Subclasses have the one parameter `fields`. A field that is absent has not been chosen yet.
    """

    FIELDS: ClassVar[Dict[str, str | Choices]] = {}
    """Each field: `INT`, or the words it can be."""

    fields: DictionaryAttr

    @classmethod
    def of(cls, values: Dict[str, int | str | None]) -> Self:
        """The attribute with these values; None leaves a field out."""
        fields: dict[str, Attribute] = {
            k: StringAttr(v) if isinstance(v, str) else IntAttr(v)
            for k, v in values.items()
            if v is not None
        }
        return cls.new([DictionaryAttr(fields)])

    @property
    def values(self) -> dict[str, int | str]:
        """The fields that are there, in the order of `FIELDS`."""
        found: dict[str, int | str] = {}
        for name in self.FIELDS:
            match self.fields.data.get(name):
                case IntAttr(data=data) | StringAttr(data=data):
                    found[name] = data
                case _:
                    pass
        return found

    @property
    def missing(self) -> tuple[str, ...]:
        """The fields that have not been chosen."""
        return tuple(name for name in self.FIELDS if name not in self.fields.data)

    def number(self, name: str) -> int:
        """An integer field, which must be there."""
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def word(self, name: str) -> str:
        """A field that is a word, which must be there."""
        value = self.values[name]
        assert isinstance(value, str)
        return value

    def verify(self) -> None:
        for name, value in self.fields.data.items():
            kind = self.FIELDS.get(name)
            if kind is None:
                raise VerifyException(f"{self.name} has no field {name}: {', '.join(self.FIELDS)}")
            if isinstance(kind, tuple):
                if not isinstance(value, StringAttr) or value.data not in kind:
                    raise VerifyException(f"{name} is one of {', '.join(kind)}, not {_show(value)}")
            elif not isinstance(value, IntAttr):
                raise VerifyException(f"{name} is {kind}, not {_show(value)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def field() -> tuple[str, Attribute]:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            if (number := parser.parse_optional_integer(allow_boolean=False)) is not None:
                return name, IntAttr(number)
            return name, StringAttr(parser.parse_identifier())

        pairs = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, field)
        if len({name for name, _ in pairs}) != len(pairs):
            parser.raise_error("a field is given twice")
        return (DictionaryAttr(dict(pairs)),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(f"{k} = {v}" for k, v in self.values.items()))


def _show(value: Attribute) -> str:
    match value:
        case IntAttr() | StringAttr():
            return str(value.data)
        case _:
            return str(value)


@irdl_attr_definition
class MappingAttr(FieldsAttr):
    """
    How a layer of tables is mapped onto DPUs, `analysis.upmem_mapping.Mapping` in the IR:
    `#upmem.mapping<ip = 4, lp = 2, n_m = 128, …, order = nfc, load = coarse, …>`.

    On an op that is to be tiled the fields that are given are kept and the tuner chooses the
    others; on a kernel all are there.
    """

    name = "upmem.mapping"

    fields: DictionaryAttr

    FIELDS: ClassVar[Dict[str, str | Choices]] = {
        "ip": INT,
        "lp": INT,
        "n_m": INT,
        "f_m": INT,
        "c_m": INT,
        "f_l": INT,
        "c_l": INT,
        "order": ("nfc", "ncf", "fnc", "fcn", "cnf", "cfn"),
        "load": ("static", "coarse", "fine"),
        "tasklets": INT,
        "variant": ("scalar32", "swar16", "swar8", "int8"),
        "idx_bits": INT,
        "out": ("i32", "i16"),
        "residency": ("resident", "per_call"),
        "groups": INT,
        "split_cb": INT,
    }

    def verify(self) -> None:
        super().verify()
        for name, value in self.values.items():
            if isinstance(value, int) and value < 1:
                raise VerifyException(f"{name} is at least 1, not {value}")
        if self.values.get("idx_bits", 8) not in (4, 8, 16):
            raise VerifyException(f"idx_bits is 4, 8 or 16, not {self.number('idx_bits')}")


@irdl_attr_definition
class ShapeAttr(FieldsAttr):
    """
    The shape of a layer of tables, `analysis.upmem_mapping.LutShape` in the IR: rows is the
    largest batch, `acc_low` and `acc_high` are the least and the largest sum; an int8 product has
    `activation`, the largest magnitude of its activations.
    """

    name = "upmem.shape"

    fields: DictionaryAttr

    FIELDS: ClassVar[Dict[str, str | Choices]] = {
        "rows": INT,
        "codebooks": INT,
        "centroids": INT,
        "features": INT,
        "bits": INT,
        "acc_low": INT,
        "acc_high": INT,
        "in_features": INT,
        "vec": INT,
        "activation": INT,
    }

    def verify(self) -> None:
        super().verify()
        needed = [name for name in ("rows", "codebooks", "centroids", "features", "bits")]
        if missing := [name for name in needed if name in self.missing]:
            raise VerifyException(f"a shape needs {', '.join(missing)}")
