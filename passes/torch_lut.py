"""
Layers of tables among the imported operators: `torch.inr.lut_linear` to `lut.linear`.

A model of `inr.lut` calls one operator of its own a layer (`lut/ops.py`). torch-mlir does not know
it and writes

    %y = torch.operator "torch.inr.lut_linear"(%x, %centroids, %steps, %table, %scale, %bias,
                                               %channels, %residual)

with the parts of the layer as literals, and `none` for those it does not have. They keep their
number types here, as constants of the `lut` dialect: their numbers are what the layer is.
"""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseResourceAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue, Use

from ..analysis.lut_layer import LutLayer, table_limit
from ..dialects.lut_attributes import BITS
from ..dialects.lut_constants import NAME, dense_array
from ..dialects.lut_layers import lower_layer
from ..dialects.torch import ConstantNoneOp, OperatorOp, VTensorLiteralOp, VTensorType
from ..errors import CompileError, reject
from .graph_builder import GraphBuilder

OPERATOR = "torch.inr.lut_linear"
"""What torch-mlir calls the operator `inr::lut_linear`."""

PARTS: dict[str, tuple[type[np.generic], int, bool]] = {
    "centroids": (np.int16, 3, False),
    "steps": (np.float32, 1, False),
    "table": (np.int8, 3, False),
    "scale": (np.float32, 1, False),
    "bias": (np.float32, 1, True),
    "channels": (np.int32, 1, True),
    "residual": (np.float32, 2, True),
}
"""The operands after the activations, in order: number type, rank, whether it may be `none`."""


def is_lut_linear(op: Operation) -> bool:
    """Whether an operation is an imported layer of tables."""
    return isinstance(op, OperatorOp) and op.op_name.data == OPERATOR


def is_table_operand(use: Use) -> bool:
    """Whether a use of a value is as a part of a layer of tables."""
    return use.index > 0 and is_lut_linear(use.operation)


def imported_layer(op: OperatorOp) -> LutLayer:
    """
    The data of an imported layer. The operator does not say of how many bits its entries are; it
    is the least number that holds them.

    Raises CompileError, with the layer's name, for operands of another number, type or shape than
    the operator's, parts that are no literals, and parts that do not fit together.
    """
    if len(op.arguments) != 1 + len(PARTS) or len(op.outputs) != 1:
        raise reject(
            op,
            f"'{OPERATOR}' takes {1 + len(PARTS)} operands (x, {', '.join(PARTS)}) to one result, "
            f"not {len(op.arguments)} to {len(op.outputs)}",
        )
    name = _layer_name(op)
    label = name or "the layer"
    found: dict[str, NDArray[Any] | None] = {
        part: _part(op, label, part, value)
        for part, value in zip(PARTS, op.arguments[1:], strict=True)
    }
    parts = cast(dict[str, Any], found)
    shape = _shape(op, label, op.arguments[0], "the input")
    largest = int(np.abs(parts["table"].astype(np.int16)).max(initial=0))
    bits = next((bits for bits in BITS if largest <= table_limit(bits)), BITS[-1])
    try:
        layer = LutLayer(name, shape[-1] if shape else 0, bits=bits, **parts)
    except CompileError as error:
        raise reject(op, str(error).removeprefix(": ")) from None
    wanted = (*shape[:-1], layer.out_features)
    if (out := _shape(op, label, op.outputs[0], "the output")) != wanted:
        raise reject(op, f"{label}: an output of shape {list(out)}; the tables give {list(wanted)}")
    return layer


def lower_lut_linear(op: OperatorOp, builder: GraphBuilder, x: SSAValue) -> SSAValue:
    """
    The value of an imported layer on the graph level: `lut.linear` of the rows of `x`, which has
    any number of leading axes.
    """
    layer = imported_layer(op)
    shape = cast(VTensorType, op.outputs[0].type).get_shape()
    rows = builder.reshape(x, (prod(shape[:-1]), layer.in_features))
    result: SSAValue | None = None
    for part in lower_layer(layer, rows):
        result = builder.insert(part)
    assert result is not None
    return builder.reshape(result, shape)


def _layer_name(op: OperatorOp) -> str:
    """The layer's name in the model, from that of its table; empty for a model that is one."""
    table = op.arguments[1 + list(PARTS).index("table")].owner
    named = table.attributes.get(NAME) if isinstance(table, VTensorLiteralOp) else None
    name = named.data if isinstance(named, StringAttr) else ""
    return name.removesuffix(".table") if name.endswith(".table") else ""


def _part(op: OperatorOp, name: str, part: str, value: SSAValue) -> NDArray[Any] | None:
    dtype, rank, optional = PARTS[part]
    owner = value.owner
    if optional and isinstance(owner, ConstantNoneOp):
        return None
    if not isinstance(owner, VTensorLiteralOp):
        raise reject(
            op,
            f"{name}: the operand '{part}' ({value.type}) is computed; tables are constants of the "
            "model",
        )
    if isinstance(owner.value, DenseResourceAttr):
        raise reject(
            op,
            f"{name}: the data of '{part}' is not in the module; parse it with its resources "
            "inlined",
        )
    kind = np.dtype(dtype)
    try:
        array = dense_array(cast(Attribute, owner.value))
    except ValueError:
        array = None
    if array is None or array.dtype != kind or array.ndim != rank:
        raise reject(
            op,
            f"{name}: the operand '{part}' is {value.type}; it has {rank} axes of {kind.name}",
        )
    return array


def _shape(op: OperatorOp, name: str, value: SSAValue, what: str) -> tuple[int, ...]:
    type_ = value.type
    if not isinstance(type_, VTensorType) or not type_.has_static_shape():
        raise reject(op, f"{name}: {what} is {type_}; a tensor of known shape")
    return type_.get_shape()
