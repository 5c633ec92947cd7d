"""
Between a layer's data (`LutLayer`) and the operation that computes it (`lut.linear`).

The frontend builds operations with it; conversions and printers read them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ..analysis.int8_layer import Int8Layer
from ..analysis.lut_layer import LutLayer
from ..errors import reject
from .lut import Int8LinearOp, LinearOp, shape_of
from .lut_attributes import ErrorAttr, QuantAttr
from .lut_constants import constant_array, named_constant


def lower_layer(
    layer: LutLayer,
    x: SSAValue,
    *,
    weight: SSAValue | None = None,
    weight_bias: SSAValue | None = None,
    error: ErrorAttr | None = None,
    element: Attribute | None = None,
    location: LocationAttr | None = None,
) -> list[Operation]:
    """
    The constants of a layer and, last, the `lut.linear` of `x` (N×H) with them.

    Constants are called by the layer's name: `encoder.query.table`, `.table_bias`. The result (N×F)
    has the element type `element`, by default that of `x`. `weight` and `weight_bias` are the H×F
    weight and the bias that the tables stand for, where a later pass is to solve for other tables.
    The operations are yet to be inserted, in this order.
    """
    ops: list[Operation] = []

    def constant(values: NDArray[Any] | None, what: str) -> SSAValue | None:
        if values is None:
            return None
        op = named_constant(values, f"{layer.name}.{what}" if layer.name else None)
        ops.append(op)
        return op.result

    centroids = constant(layer.centroids.astype(np.int16), "centroids")
    steps = constant(layer.steps.astype(np.float32), "steps")
    table = constant(layer.table.astype(np.int8), "table")
    assert centroids is not None
    assert steps is not None
    assert table is not None
    linear = LinearOp(
        x,
        centroids,
        steps,
        table,
        scale=constant(layer.scale.astype(np.float32), "scale"),
        bias=constant(layer.bias, "table_bias"),
        residual=constant(layer.residual, "residual"),
        channels=None if layer.channels is None else [int(c) for c in layer.channels],
        weight=weight,
        weight_bias=weight_bias,
        quant=QuantAttr(layer.bits),
        error=error,
        layer=layer.name or None,
        element=element,
    )
    ops.append(linear)
    if location is not None:
        for op in ops:
            op.location = location
    return ops


def lower_int8_layer(
    layer: Int8Layer,
    x: SSAValue,
    *,
    element: Attribute | None = None,
    location: LocationAttr | None = None,
) -> list[Operation]:
    """
    The constants of an int8 layer and, last, the `lut.int8_linear` of `x` (N×H) with them; as
    `lower_layer`.
    """
    ops: list[Operation] = []

    def constant(values: NDArray[Any], what: str) -> SSAValue:
        op = named_constant(values, f"{layer.name}.{what}" if layer.name else None)
        ops.append(op)
        return op.result

    step = constant(np.array([layer.step], dtype=np.float32), "step")
    weight = constant(layer.weight, "int8_weight")
    scale = constant(layer.scale.astype(np.float32), "scale")
    bias = None if layer.bias is None else constant(layer.bias.astype(np.float32), "int8_bias")
    ops.append(
        Int8LinearOp(x, step, weight, scale, bias, layer=layer.name or None, element=element)
    )
    if location is not None:
        for op in ops:
            op.location = location
    return ops


def layer_of(op: LinearOp) -> LutLayer:
    """
    The data of a `lut.linear`, its arrays read-only views of the constants.

    Raises CompileError where a part is no constant and where the table has not been quantised.
    """

    def array(value: SSAValue, what: str) -> NDArray[Any]:
        found = constant_array(value)
        if found is None:
            raise reject(
                op, f"the {what} of {op.name_in_model} is no constant; canonicalize may fold it"
            )
        return found

    if op.quant is None or op.scale is None:
        raise reject(
            op,
            f"the table of {op.name_in_model} is of floats; lut-quantize makes it one of integers",
        )
    columns = shape_of(op.table)[2]
    return LutLayer(
        name=op.name_in_model,
        in_features=shape_of(op.x)[1],
        centroids=array(op.centroids, "set of centroids"),
        steps=array(op.steps, "set of grid steps"),
        table=array(op.table, "table"),
        scale=np.broadcast_to(array(op.scale, "scale"), (columns,)),
        bias=None if op.bias is None else array(op.bias, "bias"),
        bits=op.quant.bits.data,
        channels=(
            None if op.channels is None else np.asarray(op.channels.get_values(), dtype=np.int32)
        ),
        residual=None if op.residual is None else array(op.residual, "residual weight"),
    )
