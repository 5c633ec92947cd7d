"""A module of torch-mlir's Python bindings to the same module in xDSL, without text."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    LocationAttr,
    ModuleOp,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser

ir: Any = import_module("torch_mlir.ir")
"""MLIR's Python bindings, which have no types that a checker can see."""


class Bridge:
    """
    Builds xDSL operations from those of `torch_mlir.ir`.

    Types, attributes and locations go through their text, each distinct one once; the elements
    of dense attributes are copied as bytes.
    """

    def __init__(self, ctx: Context):
        self._ctx = ctx
        self._types: dict[str, Attribute] = {}
        self._attributes: dict[str, Attribute] = {}
        self._locations: dict[str, LocationAttr | None] = {}

    def module(self, module: Any) -> ModuleOp:
        """The xDSL copy of `module`, a `torch_mlir.ir.Module`, not yet verified."""
        result = self._operation(module.operation, {})
        assert isinstance(result, ModuleOp)
        return result

    def _operation(self, op: Any, values: dict[Any, SSAValue]) -> Operation:
        cls = self._ctx.get_optional_op(op.name) or UnregisteredOp.with_name(op.name)
        regions = [self._region(region, values) for region in op.regions]
        properties: dict[str, Attribute] = {}
        attributes: dict[str, Attribute] = {}
        inherent = (
            cls.get_irdl_definition().properties if issubclass(cls, IRDLOperation) else frozenset()
        )
        for name in op.attributes:
            kind = properties if name in inherent else attributes
            kind[name] = self._attribute(op.attributes[name])
        result = cls.create(
            operands=[values[operand] for operand in op.operands],
            result_types=[self._type(value.type) for value in op.results],
            properties=properties,
            attributes=attributes,
            regions=regions,
            location=self._location(op.location),
        )
        values.update(zip(op.results, result.results, strict=True))
        return result

    def _region(self, region: Any, values: dict[Any, SSAValue]) -> Region:
        result = Region()
        for block in region.blocks:
            copy = Block(arg_types=[self._type(arg.type) for arg in block.arguments])
            values.update(zip(block.arguments, copy.args, strict=True))
            copy.add_ops([self._operation(op.operation, values) for op in block.operations])
            result.add_block(copy)
        return result

    def _type(self, type: Any) -> Attribute:
        text = str(type)
        if (known := self._types.get(text)) is None:
            known = self._types[text] = Parser(self._ctx, text).parse_type()
        return known

    def _attribute(self, attribute: Any) -> Attribute:
        if isinstance(attribute, ir.DenseElementsAttr):
            return self._dense(attribute)
        if isinstance(attribute, ir.StringAttr):
            return StringAttr(attribute.value)
        text = str(attribute)
        if (known := self._attributes.get(text)) is None:
            known = self._attributes[text] = Parser(self._ctx, text).parse_attribute()
        return known

    def _dense(self, attribute: Any) -> Attribute:
        # A splat is a view with strides of zero, hence the copy.
        elements = np.ascontiguousarray(np.asarray(attribute))
        if elements.dtype == bool:
            elements = elements.astype(np.uint8) * 0xFF  # how xDSL keeps `true`
        return DenseIntOrFPElementsAttr(self._type(attribute.type), BytesAttr(elements.tobytes()))  # pyright: ignore

    def _location(self, location: Any) -> LocationAttr | None:
        text = str(location)
        if text not in self._locations:
            self._locations[text] = Parser(self._ctx, text).parse_optional_location()
        return self._locations[text]
