"""
Lowering one ATen operator to the graph level: what the functions in `torch_elementwise.py` and
`torch_tensors.py` are given.

A lowering takes the operator and builds its value from the values of its operands. Numbers and
lists are constants of the IR; tensors are float64, masks are 0 and 1. The formulas are those of
PyTorch's documentation, thresholds included, so that every value can be compared with PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects.builtin import LocationAttr, i1
from xdsl.ir import Attribute, SSAValue

from ..dialects import inr
from ..dialects.torch import AtenOp, ListConstructOp, VTensorType, constant_of
from ..errors import reject
from ..interpreters.arrays import splat_value
from .graph_builder import GraphBuilder


def is_mask_type(type: Attribute) -> bool:
    """Whether a type is a tensor of bools."""
    dtype = type.dtype if isinstance(type, VTensorType) else None
    return dtype == i1


class Lowering(GraphBuilder):
    """Builds the value of one ATen operator, `op`, from the values its operands became."""

    def __init__(
        self,
        builder: GraphBuilder,
        op: AtenOp,
        values: dict[SSAValue, SSAValue],
        location: LocationAttr,
    ):
        super().__init__(builder.builder, location)
        self.op = op
        self.values = values

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the operator's result."""
        return cast(VTensorType, self.op.results[0].type).get_shape()

    @property
    def is_mask(self) -> bool:
        """Whether the result is a tensor of bools."""
        return is_mask_type(self.op.results[0].type)

    def tensor(self, parameter: str) -> SSAValue:
        """The graph-level value of a tensor operand."""
        return self.values[self.op.argument(parameter)]

    def tensors(self, parameter: str) -> list[SSAValue]:
        """The graph-level values of a list of tensors."""
        owner = self.op.argument(parameter).owner
        if not isinstance(owner, ListConstructOp):
            raise reject(self.op, f"'{parameter}' must be a list built in the graph")
        return [self.values[element] for element in owner.elements]

    def full(self, parameter: str) -> SSAValue:
        """A tensor operand broadcast to the shape of the result."""
        return self.broadcast(self.tensor(parameter), self.shape)

    def truth(self, parameter: str) -> SSAValue:
        """A tensor operand, broadcast, as a mask: any number but 0 is true."""
        value = self.full(parameter)
        if is_mask_type(self.op.argument(parameter).type):
            return value
        return self.compare(inr.Predicate.NE, value, 0)

    def is_none(self, parameter: str) -> bool:
        """Whether None was passed."""
        return self._constant(parameter) is None

    def number(self, parameter: str, default: float | None = None) -> float:
        """A number, `default` where None was passed."""
        value = self._constant(parameter)
        value = default if value is None else value
        if not isinstance(value, int | float):
            raise reject(self.op, f"'{parameter}' must be a number known at compile time")
        return float(value)

    def integer(self, parameter: str, default: int | None = None) -> int:
        """An integer, `default` where None was passed."""
        return int(self.number(parameter, default))

    def integers(self, parameter: str) -> list[int]:
        """A list of integers; None is an empty list."""
        value = self._constant(parameter) or []
        if not isinstance(value, list):
            raise reject(self.op, f"'{parameter}' must be a list known at compile time")
        return [int(cast(int, element)) for element in value]

    def flag(self, parameter: str) -> bool:
        """A bool."""
        return bool(self._constant(parameter))

    def axis(self, parameter: str, rank: int) -> int:
        """An axis of a tensor of `rank`, counted from the front."""
        return self.integer(parameter) % max(rank, 1)

    def axes(self, parameter: str, rank: int) -> list[int]:
        """Axes of a tensor of `rank`, counted from the front; all of them for None or []."""
        return sorted(axis % max(rank, 1) for axis in self.integers(parameter)) or list(range(rank))

    def is_zero(self, value: SSAValue) -> bool:
        """Whether every element is known to be zero."""
        return splat_value(value) == 0

    def _constant(self, parameter: str):
        try:
            return constant_of(self.op.argument(parameter))
        except ValueError:
            raise reject(
                self.op, f"'{parameter}' must be known at compile time, not computed"
            ) from None


Entry = Callable[[Lowering], SSAValue]
Table = dict[str, Entry]
"""Lowerings by the operator's name without `torch.`."""


def entering(table: Table) -> Callable[..., Callable[[Entry], Entry]]:
    """A decorator `lowers(*names)` that enters a function in `table` for these operators."""

    def lowers(*names: str) -> Callable[[Entry], Entry]:
        def enter(function: Entry) -> Entry:
            table.update(dict.fromkeys(names, function))
            return function

        return enter

    return lowers
