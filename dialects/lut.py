"""
Linear layers as lookup tables, on tensors.

    y = x·W + b   becomes   %y = lut.linear %x search %centroids steps %steps table %table …

An input of N rows and H channels is cut into CB = ⌈H/V⌉ sub-vectors; each is replaced by the
index of one of K centroids (`lut.encode`), and the rows of a table that the indices name are
added (`lut.lookup`), an exact sum of integers, and scaled (`lut.dequant`). `lut.linear` is the
three in one operation. Value semantics, every op `Pure`.

The values are those of `analysis/lut_layer.py` and `analysis/lut_values.py`, which know nothing
of the IR; `docs/dialects/lut.md` says why the operations are as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    StringAttr,
    TensorType,
    i16,
    i32,
    i64,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    eq,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ..analysis import lut_layer, lut_values
from .lut_attributes import ErrorAttr, QuantAttr, SpecAttr
from .lut_int8 import Int8LinearOp, ToInt8Op
from .lut_operation import (
    Array,
    ArrayOf,
    F32Tensor,
    FloatTensor,
    LutOperation,
    Table,
    as_f32,
    check_channels,
    check_scale,
    check_search,
    check_table,
    element_of,
    expect_shape,
    is_integer,
    shape_of,
    static_shape,
    sum_range,
    typed,
)
from .lut_parts import (
    BuildTableOp,
    DequantOp,
    EncodeOp,
    EncodeTreeOp,
    LookupOp,
    RequantOp,
    ResidualMatmulOp,
)

__all__ = [
    "BuildTableOp",
    "DequantOp",
    "EncodeOp",
    "EncodeTreeOp",
    "ErrorAttr",
    "Int8LinearOp",
    "LinearOp",
    "LookupOp",
    "Lut",
    "LutOperation",
    "QuantAttr",
    "RequantOp",
    "ResidualMatmulOp",
    "SpecAttr",
    "ToInt8Op",
    "element_of",
    "is_integer",
    "shape_of",
    "sum_range",
]


@irdl_op_definition
class LinearOp(LutOperation, HasCanonicalizationPatternsInterface):
    """
    A linear layer of tables, N×H to N×F:

    ```mlir
    %y = lut.linear layer "fc1" %x : tensor<8x12xf64>
      search %centroids : tensor<3x16x4xi16> steps %steps : tensor<3xf32>
      table %table : tensor<3x16x5xi8> scale %scale : tensor<5xf32> bias %bias : tensor<5xf32>
      residual %rows : tensor<2x5xf32> channels [3, 7]
      spec <vec = 4, k = 16, cb = 3> quant <bits = 8, scheme = per_column>
      error <vq_rel_mse = 0.2, rel_mse = 0.18, q_bound = 0.01, acc = [-210, 188]>
      -> tensor<8x5xf64>
    ```

    `lut.encode`, `lut.lookup` (in i32, or float64 of a table of floats), `lut.dequant` and
    `lut.residual_matmul` in one; float32 is what leaves it. `of %weight : … plus %bias : …` are
    the H×F weight and the bias that the tables stand for: passes that solve for other tables
    read them, the value does not depend on them.
    """

    name = "lut.linear"

    layer = opt_prop_def(StringAttr)
    """The layer's name in the model."""
    x = operand_def(FloatTensor)
    weight = opt_operand_def(FloatTensor)
    centroids = operand_def(TensorType.constr(eq(i16)))
    steps = operand_def(F32Tensor)
    table = operand_def(Table)
    scale = opt_operand_def(F32Tensor)
    bias = opt_operand_def(F32Tensor)
    residual = opt_operand_def(F32Tensor)
    """R×F: the weight of the channels that are multiplied exactly."""
    weight_bias = opt_operand_def(FloatTensor)
    """F: the bias that goes with `weight`; that of the tables may take up what they leave."""
    channels = opt_prop_def(DenseArrayBase.constr(i64))
    spec = prop_def(SpecAttr)
    quant = opt_prop_def(QuantAttr)
    error = opt_prop_def(ErrorAttr)
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`layer` $layer^)? $x `:` type($x) (`of` $weight^ `:` type($weight))? "
        "(`plus` $weight_bias^ `:` type($weight_bias))? "
        "`search` $centroids `:` type($centroids) `steps` $steps `:` type($steps) "
        "`table` $table `:` type($table) (`scale` $scale^ `:` type($scale))? "
        "(`bias` $bias^ `:` type($bias))? "
        "(`residual` $residual^ `:` type($residual) `channels` $channels)? "
        "`spec` $spec (`quant` $quant^)? (`error` $error^)? attr-dict `->` type($result)"
    )

    def __init__(
        self,
        x: SSAValue | Operation,
        centroids: SSAValue | Operation,
        steps: SSAValue | Operation,
        table: SSAValue | Operation,
        *,
        scale: SSAValue | Operation | None = None,
        bias: SSAValue | Operation | None = None,
        residual: SSAValue | Operation | None = None,
        channels: Sequence[int] | None = None,
        weight: SSAValue | Operation | None = None,
        weight_bias: SSAValue | Operation | None = None,
        quant: QuantAttr | None = None,
        error: ErrorAttr | None = None,
        layer: str | StringAttr | None = None,
        element: Attribute | None = None,
    ):
        x, centroids, table = SSAValue.get(x), SSAValue.get(centroids), SSAValue.get(table)
        blocks, count, vec = shape_of(centroids)
        super().__init__(
            operands=[x, weight, centroids, steps, table, scale, bias, residual, weight_bias],
            properties={
                "spec": SpecAttr(vec, count, blocks),
                "channels": None if channels is None else DenseArrayBase.from_list(i64, channels),
                "quant": quant,
                "error": error,
                "layer": StringAttr(layer) if isinstance(layer, str) else layer,
            },
            result_types=[
                TensorType(element or element_of(x), (shape_of(x)[0], shape_of(table)[2]))
            ],
        )

    def verify_(self) -> None:
        check_search(self.spec, self.x, self.centroids, self.steps)
        rows, width = shape_of(self.x)
        table = static_shape(self.table, "a table", 3)
        if table[:2] != (wanted := (self.spec.cb.data, self.spec.k.data)):
            raise VerifyException(
                f"a table of {table[0]}x{table[1]} rows for {wanted[0]} codebooks of "
                f"{wanted[1]} centroids"
            )
        columns = table[2]
        expect_shape(self.result, "the output", (rows, columns))
        check_table(self.table, self.quant, self.error, i32)
        if (self.scale is not None) != (self.quant is not None):
            raise VerifyException("a table of integers has a scale, one of floats has none")
        check_scale(self.scale, self.quant, columns)
        if self.bias is not None:
            expect_shape(self.bias, "the bias", (columns,))
        if self.weight is not None:
            expect_shape(self.weight, "the weight", (width, columns))
        if self.weight_bias is not None:
            expect_shape(self.weight_bias, "the bias of the weight", (columns,))
            if self.weight is None:
                raise VerifyException("the bias of a weight (plus) goes with a weight (of)")
        if (self.residual is None) != (self.channels is None):
            raise VerifyException("residual weights and their channels go together")
        if self.residual is not None and self.channels is not None:
            check_channels(self.channels, self.residual, width, columns)

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        x, table = as_f32(of(self.x)), of(self.table)
        indices = lut_layer.encode(x, of(self.centroids), as_f32(of(self.steps)))
        if is_integer(self.table):
            sums: Array = lut_layer.lookup(indices, table)
        else:
            sums = lut_values.sum_numbers(indices, table)
        scale = None if self.scale is None else as_f32(of(self.scale))
        bias = None if self.bias is None else as_f32(of(self.bias))
        out = lut_values.dequantise(sums, scale, bias)
        if self.residual is not None and self.channels is not None:
            channels = np.asarray(self.channels.get_values(), dtype=np.int64)
            out = lut_values.add_residual(x, channels, as_f32(of(self.residual)), out)
        return (typed(out, self.result),)

    @property
    def name_in_model(self) -> str:
        """The layer's name, or the operation's where it has none."""
        return self.name if self.layer is None else self.layer.data

    def rebuilt(self, **changes: Any) -> LinearOp:
        """
        The same layer with other arguments of the constructor, at the same place in the source.
        The result keeps its element type.
        """
        channels = None if self.channels is None else self.channels.get_values()
        arguments: dict[str, Any] = {
            "x": self.x,
            "centroids": self.centroids,
            "steps": self.steps,
            "table": self.table,
            "scale": self.scale,
            "bias": self.bias,
            "residual": self.residual,
            "channels": channels,
            "weight": self.weight,
            "weight_bias": self.weight_bias,
            "quant": self.quant,
            "error": self.error,
            "layer": self.layer,
            "element": element_of(self.result),
        }
        new = LinearOp(**(arguments | changes))
        new.attributes.update(self.attributes)
        new.location = self.location
        new.result.name_hint = self.result.name_hint
        return new

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .lut_patterns import DropEmptyResidual

        return (DropEmptyResidual(),)


class ConstantMaterialization(ConstantMaterializationInterface):
    """A folded value becomes an `arith.constant`."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        if not isinstance(value, DenseIntOrFPElementsAttr):
            return None
        return ConstantOp(cast(DenseIntOrFPElementsAttr[AnyFloat], value), type)


Lut = Dialect(
    "lut",
    [
        BuildTableOp,
        DequantOp,
        EncodeOp,
        EncodeTreeOp,
        Int8LinearOp,
        LinearOp,
        LookupOp,
        RequantOp,
        ResidualMatmulOp,
        ToInt8Op,
    ],
    [ErrorAttr, QuantAttr, SpecAttr],
    [ConstantMaterialization()],
)
