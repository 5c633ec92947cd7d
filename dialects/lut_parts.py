"""The parts of a layer of tables: searches, the lookup, what comes after it, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    Float32Type,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    eq,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ..analysis import lut_layer, lut_values
from ..analysis.lut_layer import MAX_CENTROIDS
from .lut_attributes import ErrorAttr, QuantAttr, SpecAttr
from .lut_constants import constant_attribute, dense_attribute, extent, numpy_type, ui8
from .lut_operation import (
    Array,
    ArrayOf,
    F32Tensor,
    FloatTensor,
    Indices,
    Integers,
    LutOperation,
    Sums,
    Table,
    as_f32,
    by,
    check_channels,
    check_grid,
    check_scale,
    check_search,
    check_spec,
    check_table,
    element_of,
    expect_shape,
    expect_width,
    extent_of,
    is_integer,
    shape_of,
    static_shape,
    typed,
)


@irdl_op_definition
class EncodeOp(LutOperation):
    """
    The index of the nearest centroid of each sub-vector, N×H to N×CB:

    `lut.encode %x by %centroids steps %steps spec <vec = 4, k = 16, cb = 3> :
    (tensor<8x12xf64>, tensor<3x16x4xi16>, tensor<3xf32>) -> tensor<8x3xui8>`

    On integers: a sub-vector is divided by the step of its codebook and rounded, halves to even,
    to the grid of ±2047 on which the centroids stand; the index is that of the least
    ⌈|c|²/2⌉ - q·c, the lowest of equal ones.
    """

    name = "lut.encode"

    x = operand_def(FloatTensor)
    """Activations, N×H; float32 is all that is looked at."""
    centroids = operand_def(TensorType.constr(eq(i16)))
    """CB×K×V on the grid."""
    steps = operand_def(F32Tensor)
    """CB: the width of a unit of each codebook's grid."""
    spec = prop_def(SpecAttr)
    result = result_def(Indices)
    traits = traits_def(Pure())
    assembly_format = (
        "$x `by` $centroids `steps` $steps `spec` $spec attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        x: SSAValue | Operation,
        centroids: SSAValue | Operation,
        steps: SSAValue | Operation,
        spec: SpecAttr | None = None,
    ):
        x, centroids = SSAValue.get(x), SSAValue.get(centroids)
        blocks, count, vec = shape_of(centroids)
        super().__init__(
            operands=[x, centroids, steps],
            properties={"spec": spec or SpecAttr(vec, count, blocks)},
            result_types=[TensorType(ui8, (shape_of(x)[0], blocks))],
        )

    def verify_(self) -> None:
        check_search(self.spec, self.x, self.centroids, self.steps)
        expect_shape(self.result, "the indices", (shape_of(self.x)[0], self.spec.cb.data))

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        return (lut_layer.encode(as_f32(of(self.x)), of(self.centroids), as_f32(of(self.steps))),)


@irdl_op_definition
class EncodeTreeOp(LutOperation):
    """
    Indices by comparisons, log₂K for each sub-vector, N×H to N×CB:

    `lut.encode_tree %x by %channels, %thresholds spec <vec = 4, k = 16, cb = 3, encoder = tree> :
    (tensor<8x12xf64>, tensor<3x4xi32>, tensor<3x15xf32>) -> tensor<8x3xui8>`

    From the root, a path goes from node j of a level to node 2j of the next where
    x < threshold, to 2j + 1 where x >= threshold, in float32 (NaN goes low). A level compares one
    channel of the sub-vector; the leaf is the index.
    """

    name = "lut.encode_tree"

    x = operand_def(FloatTensor)
    """Activations, N×H."""
    channels = operand_def(TensorType.constr(eq(i32)))
    """CB×L for K = 2^L: the channel that each level compares, 0 to V-1."""
    thresholds = operand_def(F32Tensor)
    """CB×(K-1): node j of level l is at 2^l - 1 + j."""
    spec = prop_def(SpecAttr)
    result = result_def(Indices)
    traits = traits_def(Pure())
    assembly_format = (
        "$x `by` $channels `,` $thresholds `spec` $spec attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        x: SSAValue | Operation,
        channels: SSAValue | Operation,
        thresholds: SSAValue | Operation,
        vec: int,
    ):
        x, channels = SSAValue.get(x), SSAValue.get(channels)
        blocks, levels = shape_of(channels)
        super().__init__(
            operands=[x, channels, thresholds],
            properties={"spec": SpecAttr(vec, 2**levels, blocks, encoder="tree")},
            result_types=[TensorType(ui8, (shape_of(x)[0], blocks))],
        )

    def verify_(self) -> None:
        spec = self.spec
        if spec.encoder.data != "tree":
            raise VerifyException(f"encoder '{spec.encoder.data}' is not a tree")
        check_spec(spec, self.x, None)
        blocks, leaves = spec.cb.data, spec.k.data
        expect_shape(self.channels, "the channels", (blocks, leaves.bit_length() - 1))
        expect_shape(self.thresholds, "the thresholds", (blocks, leaves - 1))
        expect_shape(self.result, "the indices", (shape_of(self.x)[0], blocks))
        if (found := extent_of(self.channels)) is not None and not (
            0 <= found[0] and found[1] < spec.vec.data
        ):
            outside = found[0] if found[0] < 0 else found[1]
            raise VerifyException(
                f"a level compares channel {outside:.0f} of {spec.vec.data} in a sub-vector"
            )

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        return (
            lut_values.encode_tree(
                as_f32(of(self.x)),
                of(self.channels),
                as_f32(of(self.thresholds)),
                self.spec.vec.data,
            ),
        )


@irdl_op_definition
class LookupOp(LutOperation):
    """
    The sum of the table rows that indices name, N×CB and CB×K×F to N×F:

    `lut.lookup %indices in %table quant <bits = 8, scheme = per_column> :
    (tensor<8x3xui8>, tensor<3x16x5xi8>) -> tensor<8x5xi32>`

    Of integers the sum is exact, in i32, or in i16 where the table (or its bits) proves that it
    fits. Of floats it is taken in float64 from the first codebook on, then rounded to the
    result's type. `layer` and `error` are what a `lut.linear` said that this is a part of.
    """

    name = "lut.lookup"

    indices = operand_def(Indices)
    table = operand_def(Table)
    quant = opt_prop_def(QuantAttr)
    layer = opt_prop_def(StringAttr)
    error = opt_prop_def(ErrorAttr)
    result = result_def(Sums)
    traits = traits_def(Pure())
    assembly_format = (
        "(`layer` $layer^)? $indices `in` $table (`quant` $quant^)? (`error` $error^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        indices: SSAValue | Operation,
        table: SSAValue | Operation,
        quant: QuantAttr | None = None,
        element: Attribute | None = None,
        *,
        layer: StringAttr | None = None,
        error: ErrorAttr | None = None,
    ):
        indices, table = SSAValue.get(indices), SSAValue.get(table)
        if element is None:
            element = i32 if is_integer(table) else f32
        super().__init__(
            operands=[indices, table],
            properties={"quant": quant, "layer": layer, "error": error},
            result_types=[TensorType(element, (shape_of(indices)[0], shape_of(table)[2]))],
        )

    def verify_(self) -> None:
        expect_width(self.result, "a sum", (i16, i32))
        rows, blocks = static_shape(self.indices, "an array of indices")
        table = static_shape(self.table, "a table", 3)
        if table[0] != blocks:
            raise VerifyException(f"indices of {blocks} codebooks, a table of {table[0]}")
        if not 1 <= table[1] <= MAX_CENTROIDS:
            raise VerifyException(f"a table of {table[1]} rows a codebook; 1 to {MAX_CENTROIDS}")
        expect_shape(self.result, "the sums", (rows, table[2]))
        if is_integer(self.table) != is_integer(self.result):
            raise VerifyException(
                f"entries of {element_of(self.table)} do not add up to {element_of(self.result)}"
            )
        if (found := extent_of(self.indices)) is not None and found[1] >= table[1]:
            raise VerifyException(f"index {found[1]:.0f} in a table of {table[1]} rows a codebook")
        check_table(self.table, self.quant, self.error, element_of(self.result))

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        indices, table = of(self.indices), of(self.table)
        if is_integer(self.table):
            sums: Array = lut_layer.lookup(indices, table)
        else:
            sums = lut_values.sum_numbers(indices, table)
        return (typed(sums, self.result),)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """A constant; 0 where every entry is, whatever the indices are."""
        attribute = constant_attribute(self.table)
        if attribute is not None and extent(attribute) == (0.0, 0.0):
            dtype = numpy_type(element_of(self.result))
            return [dense_attribute(np.zeros(shape_of(self.result), dtype))]
        return super().fold()


@irdl_op_definition
class DequantOp(LutOperation, HasCanonicalizationPatternsInterface):
    """
    Sums to outputs, N×F:

    `lut.dequant %sums : tensor<8x5xi32> scale %scale : tensor<5xf32> bias %bias : tensor<5xf32>
    -> tensor<8x5xf64>`

    The sum rounded to float32, times the scale of its column (or the one scale there is), plus
    the bias; each step is rounded to float32. Sums of floats need no scale.
    """

    name = "lut.dequant"

    sums = operand_def(Sums)
    scale = opt_operand_def(F32Tensor)
    bias = opt_operand_def(F32Tensor)
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$sums `:` type($sums) (`scale` $scale^ `:` type($scale))? "
        "(`bias` $bias^ `:` type($bias))? attr-dict `->` type($result)"
    )

    def __init__(
        self,
        sums: SSAValue | Operation,
        scale: SSAValue | Operation | None = None,
        bias: SSAValue | Operation | None = None,
        element: AnyFloat = f32,
    ):
        sums = SSAValue.get(sums)
        super().__init__(
            operands=[sums, scale, bias],
            result_types=[TensorType(element, shape_of(sums))],
        )

    def verify_(self) -> None:
        expect_width(self.sums, "a sum", (i16, i32))
        rows, columns = static_shape(self.sums, "an array of sums")
        expect_shape(self.result, "the output", (rows, columns))
        if is_integer(self.sums) and self.scale is None:
            raise VerifyException("sums of integers need a scale")
        check_scale(self.scale, None, columns)
        if self.bias is not None:
            expect_shape(self.bias, "the bias", (columns,))

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        scale = None if self.scale is None else as_f32(of(self.scale))
        bias = None if self.bias is None else as_f32(of(self.bias))
        return (typed(lut_values.dequantise(of(self.sums), scale, bias), self.result),)

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .lut_patterns import JoinIntoLinear

        return (JoinIntoLinear(),)


@irdl_op_definition
class RequantOp(LutOperation):
    """
    Sums to integers on another scale without floats, N×F:

    `lut.requant half_up %sums multiplier %m shift %s :
    (tensor<8x5xi32>, tensor<5xi32>, tensor<5xi8>) -> tensor<8x5xi8>`

    (sum · multiplier) / 2^shift, exact in 64 bits, rounded to an integer and held within the
    result's type. Exactly one half goes up (`half_up`), to the even neighbour (`half_even`), or
    away from zero (`half_away`).
    """

    name = "lut.requant"

    rounding = prop_def(StringAttr)
    sums = operand_def(Integers)
    multiplier = operand_def(TensorType.constr(eq(i32)))
    """F, or one for all: not negative."""
    shift = operand_def(TensorType.constr(eq(i8)))
    """F, or one for all: 0 to 62."""
    result = result_def(Integers)
    traits = traits_def(Pure())
    assembly_format = (
        "$rounding $sums `multiplier` $multiplier `shift` $shift attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        rounding: str,
        sums: SSAValue | Operation,
        multiplier: SSAValue | Operation,
        shift: SSAValue | Operation,
        element: IntegerType = i8,
    ):
        sums = SSAValue.get(sums)
        super().__init__(
            operands=[sums, multiplier, shift],
            properties={"rounding": StringAttr(rounding)},
            result_types=[TensorType(element, shape_of(sums))],
        )

    def verify_(self) -> None:
        if self.rounding.data not in lut_values.ROUNDINGS:
            raise VerifyException(
                f"rounding '{self.rounding.data}' is not one of {', '.join(lut_values.ROUNDINGS)}"
            )
        expect_width(self.sums, "a sum", (i16, i32))
        expect_width(self.result, "a requantised sum", (i8, i16, i32))
        rows, columns = static_shape(self.sums, "an array of sums")
        expect_shape(self.result, "the result", (rows, columns))
        for value, what, high in (
            (self.multiplier, "multiplier", 2**31),
            (self.shift, "shift", 63),
        ):
            if shape_of(value) not in ((1,), (columns,)):
                raise VerifyException(
                    f"the {what} has shape {by(shape_of(value))}; one number, or one for each "
                    f"of {columns} columns"
                )
            found = extent_of(value)
            if found is not None and not 0 <= found[0] <= found[1] < high:
                outside = found[0] if found[0] < 0 else found[1]
                raise VerifyException(f"a {what} of {outside:.0f}; 0 to {high - 1}")

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        element = cast(IntegerType, element_of(self.result))
        high = 2 ** (element.width.data - 1) - 1
        found = lut_values.requantise(
            of(self.sums), of(self.multiplier), of(self.shift), self.rounding.data, -high - 1, high
        )
        return (typed(found, self.result),)


@irdl_op_definition
class ResidualMatmulOp(LutOperation, HasCanonicalizationPatternsInterface):
    """
    A few input channels multiplied exactly, N×H and R×F to N×F:

    `lut.residual_matmul %x channels [3, 7] by %rows into %base :
    (tensor<8x12xf64>, tensor<2x5xf32>, tensor<8x5xf64>) -> tensor<8x5xf64>`

    %base + x[:, channels]·rows in float32.
    """

    name = "lut.residual_matmul"

    x = operand_def(FloatTensor)
    channels = prop_def(DenseArrayBase.constr(i64))
    weight = operand_def(F32Tensor)
    """R×F: the rows of the weight for these channels."""
    base = opt_operand_def(FloatTensor)
    """N×F, what the product is added to."""
    result = result_def(FloatTensor)
    traits = traits_def(Pure())
    assembly_format = (
        "$x `channels` $channels `by` $weight (`into` $base^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        x: SSAValue | Operation,
        channels: Sequence[int],
        weight: SSAValue | Operation,
        base: SSAValue | Operation | None = None,
    ):
        x, weight = SSAValue.get(x), SSAValue.get(weight)
        base = None if base is None else SSAValue.get(base)
        element = element_of(x if base is None else base)
        super().__init__(
            operands=[x, weight, base],
            properties={"channels": DenseArrayBase.from_list(i64, channels)},
            result_types=[TensorType(element, (shape_of(x)[0], shape_of(weight)[1]))],
        )

    def verify_(self) -> None:
        rows, width = static_shape(self.x, "the input")
        columns = static_shape(self.weight, "an array of residual weights")[1]
        check_channels(self.channels, self.weight, width, columns)
        expect_shape(self.result, "the output", (rows, columns))
        if self.base is not None:
            expect_shape(self.base, "what is added to", (rows, columns))

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        base = None if self.base is None else as_f32(of(self.base))
        channels = np.asarray(self.channels.get_values(), dtype=np.int64)
        found = lut_values.add_residual(as_f32(of(self.x)), channels, as_f32(of(self.weight)), base)
        return (typed(found, self.result),)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """%base itself where there are no channels and it has the result's type."""
        if self.base is not None and not len(self.channels) and self.base.type == self.result.type:
            return [self.base] if isinstance(element_of(self.base), Float32Type) else None
        return super().fold()

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from .lut_patterns import JoinResidual

        return (JoinResidual(),)


@irdl_op_definition
class BuildTableOp(LutOperation):
    """
    The table of centroids times a weight, CB×K×V and H×F to CB×K×F:

    `%table, %scale = lut.build_table %centroids steps %steps by %weight
    quant <bits = 8, scheme = per_column> : (…) -> (tensor<3x16x5xi8>, tensor<5xf32>)`

    Without `quant` there is one result, of f32: a sum over V in float64, rounded. With it entries
    are divided by the scale and rounded, halves to even; the largest magnitude of a column, or
    of the table, becomes the largest entry, and the scale of nothing but zeros is 1.
    """

    name = "lut.build_table"

    centroids = operand_def(TensorType.constr(eq(i16)))
    steps = operand_def(F32Tensor)
    weight = operand_def(FloatTensor)
    """H×F."""
    quant = opt_prop_def(QuantAttr)
    table = result_def(Table)
    scale = opt_result_def(F32Tensor)
    traits = traits_def(Pure())
    assembly_format = (
        "$centroids `steps` $steps `by` $weight (`quant` $quant^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        centroids: SSAValue | Operation,
        steps: SSAValue | Operation,
        weight: SSAValue | Operation,
        quant: QuantAttr | None = None,
    ):
        centroids, weight = SSAValue.get(centroids), SSAValue.get(weight)
        blocks, count, _ = shape_of(centroids)
        columns = shape_of(weight)[1]
        scales = columns if quant and quant.scheme.data == "per_column" else 1
        super().__init__(
            operands=[centroids, steps, weight],
            properties={"quant": quant},
            result_types=[
                TensorType(f32 if quant is None else i8, (blocks, count, columns)),
                None if quant is None else TensorType(f32, (scales,)),
            ],
        )

    def verify_(self) -> None:
        blocks, count, vec = static_shape(self.centroids, "a set of centroids", 3)
        height, columns = static_shape(self.weight, "the weight")
        if not 1 <= count <= MAX_CENTROIDS:
            raise VerifyException(f"{count} centroids a codebook; 1 to {MAX_CENTROIDS}")
        if not (blocks - 1) * vec < height <= blocks * vec:
            raise VerifyException(
                f"{blocks} codebooks of {vec} channels for a weight of {height} rows"
            )
        check_grid(self.centroids, self.steps)
        expect_shape(self.table, "the table", (blocks, count, columns))
        quantised = self.quant is not None
        if is_integer(self.table) != quantised or (self.scale is not None) != quantised:
            raise VerifyException(
                "a quantised table (quant <bits = 8>) is of i8 and comes with its scale; "
                "one of f32 is not and does not"
            )
        check_scale(self.scale, self.quant, columns)

    def evaluate(self, of: ArrayOf) -> tuple[Array, ...]:
        table = lut_values.build_table(of(self.centroids), as_f32(of(self.steps)), of(self.weight))
        if self.quant is None:
            return (table,)
        from ..analysis.lut_fit import quantise_table

        one = self.quant.scheme.data == "per_tensor"
        entries, scale = quantise_table(table, self.quant.bits.data, per_tensor=one)
        return entries, scale[:1] if one else scale
