"""Linear layers as products of bytes: the layer, and the rounding of its input."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType, i8
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    eq,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ..analysis import int8_layer, lut_values
from ..analysis.int8_layer import LIMIT, MAX_INPUTS
from .lut_operation import (
    Array,
    ArrayOf,
    F32Tensor,
    FloatTensor,
    LutOperation,
    as_f32,
    element_of,
    expect_shape,
    extent_of,
    shape_of,
    static_shape,
    typed,
)

Bytes = TensorType[IntegerType].constr(eq(i8))


def _check_step(step: SSAValue) -> None:
    """One positive number, if it is known."""
    expect_shape(step, "the step", (1,))
    least = float(np.finfo(np.float32).tiny)
    if (found := extent_of(step)) is not None and not least <= found[0] < np.inf:
        raise VerifyException(f"a step of {found[0]:g}; it is a positive number")


@irdl_op_definition
class ToInt8Op(LutOperation):
    """
    Activations as bytes, N×H:

    `lut.to_int8 %x by %step : (tensor<8x12xf64>, tensor<1xf32>) -> tensor<8x12xi8>`

    x·(1/step) rounded to float32, then to the nearest integer, halves to even, then clipped to
    ±127; NaN becomes 0.
    """

    name = "lut.to_int8"

    x = operand_def(FloatTensor)
    """Activations, N×H; float32 is all that is looked at."""
    step = operand_def(F32Tensor)
    """What one unit is worth: one number."""
    result = result_def(Bytes)
    traits = traits_def(Pure())
    assembly_format = "$x `by` $step attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue | Operation, step: SSAValue | Operation):
        x = SSAValue.get(x)
        super().__init__(operands=[x, step], result_types=[TensorType(i8, shape_of(x))])

    def verify_(self) -> None:
        _check_step(self.step)
        expect_shape(self.result, "the result", static_shape(self.x, "the input"))

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        return (int8_layer.to_int8(as_f32(of(self.x)), as_f32(of(self.step))[0]),)


@irdl_op_definition
class Int8LinearOp(LutOperation):
    """
    A linear layer as a product of bytes, N×H to N×F:

    ```mlir
    %y = lut.int8_linear layer "fc1" %x : tensor<8x12xf64> step %step : tensor<1xf32>
      weight %w : tensor<12x5xi8> scale %scale : tensor<5xf32> bias %bias : tensor<5xf32>
      -> tensor<8x5xf64>
    ```

    The input as `lut.to_int8` makes it, the exact sums of its products with the weight in i32, and
    what `lut.dequant` makes of those. The scale of a column is the step times what one unit of the
    column's weights is worth.
    """

    name = "lut.int8_linear"

    layer = opt_prop_def(StringAttr)
    """The layer's name in the model."""
    x = operand_def(FloatTensor)
    step = operand_def(F32Tensor)
    weight = operand_def(Bytes)
    """H×F, within ±127."""
    scale = operand_def(F32Tensor)
    bias = opt_operand_def(F32Tensor)
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`layer` $layer^)? $x `:` type($x) `step` $step `:` type($step) "
        "`weight` $weight `:` type($weight) `scale` $scale `:` type($scale) "
        "(`bias` $bias^ `:` type($bias))? attr-dict `->` type($result)"
    )

    def __init__(
        self,
        x: SSAValue | Operation,
        step: SSAValue | Operation,
        weight: SSAValue | Operation,
        scale: SSAValue | Operation,
        bias: SSAValue | Operation | None = None,
        *,
        layer: str | StringAttr | None = None,
        element: Attribute | None = None,
    ):
        x, weight = SSAValue.get(x), SSAValue.get(weight)
        super().__init__(
            operands=[x, step, weight, scale, bias],
            properties={"layer": StringAttr(layer) if isinstance(layer, str) else layer},
            result_types=[
                TensorType(element or element_of(x), (shape_of(x)[0], shape_of(weight)[1]))
            ],
        )

    @property
    def name_in_model(self) -> str:
        """The layer's name, or the operation's where it has none."""
        return self.name if self.layer is None else self.layer.data

    def verify_(self) -> None:
        rows, width = static_shape(self.x, "the input")
        _check_step(self.step)
        height, columns = static_shape(self.weight, "the weight")
        if height != width:
            raise VerifyException(f"a weight of {height} rows for {width} inputs")
        if height > MAX_INPUTS:
            raise VerifyException(
                f"products of {height} inputs overflow i32; at most {MAX_INPUTS} do not"
            )
        if (found := extent_of(self.weight)) is not None and found[0] < -LIMIT:
            raise VerifyException(f"a weight is {found[0]:.0f}; they lie within ±{LIMIT}")
        expect_shape(self.scale, "the scale", (columns,))
        if self.bias is not None:
            expect_shape(self.bias, "the bias", (columns,))
        expect_shape(self.result, "the output", (rows, columns))

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        activations = int8_layer.to_int8(as_f32(of(self.x)), as_f32(of(self.step))[0])
        sums = int8_layer.product(activations, of(self.weight))
        bias = None if self.bias is None else as_f32(of(self.bias))
        out = lut_values.dequantise(sums, as_f32(of(self.scale)), bias)
        return (typed(out, self.result),)
