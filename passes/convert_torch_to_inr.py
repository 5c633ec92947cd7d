"""
Convert the imported operators of ATen to the graph level.

    func.func @main(%x: !torch.vtensor<[64,2],f32>) -> !torch.vtensor<[64,8],f32> {
      %w = torch.vtensor.literal(dense<…> : tensor<2x8xf32>) {inr.name = "w"} : …
      %c = torch.constant.float 3.000000e+01
      %0 = torch.aten.mm %x, %w : …
      %1 = torch.aten.mul.Scalar %0, %c : …
      return %1 : !torch.vtensor<[64,8],f32>
    }

becomes

    func.func @main(%x: tensor<64x2xf64>) -> tensor<64x8xf64> {
      %w = arith.constant {inr.name = "w"} dense<…> : tensor<2x8xf64>
      %0 = inr.matmul %x, %w : …
      %c = arith.constant dense<3.000000e+01> : tensor<64x8xf64>
      %1 = arith.mulf %0, %c : tensor<64x8xf64>
      return %1 : tensor<64x8xf64>
    }

Every float becomes float64, which holds each value exactly: number formats are decided later,
on streams. A layer of tables (`torch_lut.py`) keeps the number types of its tables. The whole
function is looked at before anything is changed; the first operator that has no place here stops
the compilation with its name, source line and operand types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, cast

import numpy as np
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FunctionType,
    IntegerType,
    ModuleOp,
    NoneAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from ..dialects import torch
from ..dialects.torch import AtenOp, OperatorOp, VTensorLiteralOp, VTensorType
from ..errors import reject
from ..interpreters.arrays import to_array, to_dense
from .graph_builder import GraphBuilder, tensor_of
from .torch_elementwise import ELEMENTWISE
from .torch_lowering import Lowering, Table, is_mask_type
from .torch_lut import imported_layer, is_lut_linear, is_table_operand, lower_lut_linear
from .torch_tensors import INTEGERS_ALLOWED, TENSORS

LOWERINGS: Table = ELEMENTWISE | TENSORS
"""Every operator that has a place at the graph level, by its name without `torch.`."""

_CONSTANTS = (
    torch.ConstantIntOp,
    torch.ConstantFloatOp,
    torch.ConstantBoolOp,
    torch.ConstantStrOp,
    torch.ConstantDeviceOp,
    torch.ConstantNoneOp,
    torch.ListConstructOp,
)

_LARGEST_EXACT_INTEGER = 2**53


# --- the check -------------------------------------------------------------------------------


def check(function: FuncOp) -> None:
    """
    Raise CompileError about the first thing in `function` that has no place at the graph level.
    """
    if len(function.body.blocks) != 1:
        raise reject(function, f"@{function.sym_name.data} must be one block without branches")
    for type in (*function.function_type.inputs, *function.function_type.outputs):
        if (why := _unfit(type, integers=False)) is not None:
            raise reject(function, f"@{function.sym_name.data} takes or returns {type}: {why}")
    for op in function.body.block.ops:
        _check_op(op)


def _check_op(op: Operation) -> None:
    if isinstance(op, (*_CONSTANTS, ReturnOp)):
        return
    if isinstance(op, VTensorLiteralOp):
        if isinstance(op.value, DenseResourceAttr):
            raise reject(op, "the data is not in the module; parse it with its resources inlined")
        _check_types(op, integers=True)
        return
    if isinstance(op, OperatorOp) and is_lut_linear(op):
        imported_layer(op)
        _check_types(op, integers=False)
        return
    if not isinstance(op, AtenOp) or _short_name(op) not in LOWERINGS:
        _unsupported(op)
    _check_types(op, integers=_short_name(op) in INTEGERS_ALLOWED)


def _short_name(op: Operation) -> str:
    return op.name.removeprefix("torch.")


def _unsupported(op: Operation) -> NoReturn:
    operands = ", ".join(str(operand.type) for operand in op.operands) or "no operands"
    match op:
        case OperatorOp():
            name = f"'{op.op_name.data}' "
        case UnregisteredOp():
            name = f"'{op.op_name.data}' "
        case _:
            name = ""
    raise reject(
        op,
        f"{name}on ({operands}) is not supported; write the model with elementwise functions, "
        "products of matrices, sums, slices and joins, or add a lowering for this operator",
    )


def _check_types(op: Operation, *, integers: bool) -> None:
    for type in op.result_types:
        if (why := _unfit(type, integers=integers)) is not None:
            operands = ", ".join(str(operand.type) for operand in op.operands)
            raise reject(op, f"({operands}) -> {type}: {why}")


def _unfit(type: Attribute, *, integers: bool) -> str | None:
    """Why a type has no place at the graph level, or None."""
    if not isinstance(type, VTensorType):
        return "only tensors can be computed with"
    if not type.has_static_shape():
        return "the shape must be static; import with example inputs of the final shape"
    dtype = type.dtype
    if isinstance(dtype, ComplexType):
        return "complex numbers are not supported; use the real-valued form of the model"
    if isinstance(dtype, IntegerType) and not integers and not is_mask_type(type):
        return "integer arithmetic is not supported; convert to float first"
    if isinstance(dtype, NoneAttr):
        return "the element type must be known"
    return None


# --- the conversion --------------------------------------------------------------------------


def literal_array(op: VTensorLiteralOp) -> np.ndarray:
    """
    The values of a literal as float64, in its shape; bools are 0 and 1.

    Raises CompileError where an integer has no exact float64.
    """
    attribute = cast(DenseIntOrFPElementsAttr[AnyFloat | IntegerType], op.value)
    element = attribute.get_element_type()
    if not isinstance(element, IntegerType):
        return to_array(attribute)
    values = np.array(attribute.get_values(), dtype=object)
    if any(abs(value) > _LARGEST_EXACT_INTEGER for value in values):
        raise reject(op, "an integer beyond 2^53 has no exact float64")
    if element.width.data == 1:
        values = values != 0
    # A splat may be stored as its one value.
    return np.broadcast_to(
        values.astype(np.float64), (np.prod(attribute.get_shape(), dtype=int),)
    ).reshape(attribute.get_shape())


def _graph_type(type: Attribute) -> TensorType[AnyFloat]:
    return tensor_of(cast(VTensorType, type).get_shape())


def _convert_literal(op: VTensorLiteralOp, builder: GraphBuilder) -> SSAValue:
    constant = ConstantOp(to_dense(literal_array(op)))
    constant.attributes.update(op.attributes)
    return builder.insert(constant)


def convert_function(function: FuncOp) -> None:
    """
    Put graph-level operations in place of the `torch` ones of a function, and float64 tensors in
    its signature.

    Raises CompileError, the function unchanged, where an operator cannot be converted.
    """
    check(function)
    old = function.body.block
    inputs = [_graph_type(type) for type in function.function_type.inputs]
    outputs = [_graph_type(type) for type in function.function_type.outputs]
    new = Block(arg_types=inputs)
    builder = GraphBuilder(Builder(InsertPoint.at_end(new)), function.location)
    values: dict[SSAValue, SSAValue] = dict(zip(old.args, new.args, strict=True))
    for before, after in values.items():
        after.name_hint = before.name_hint
    for old_argument, argument in zip(old.args, new.args, strict=True):
        argument.location = old_argument.location

    for op in old.ops:
        builder.location = op.location
        match op:
            case VTensorLiteralOp():
                if (uses := list(op.result.uses)) and all(is_table_operand(use) for use in uses):
                    continue  # a part of a layer of tables, which makes its own constants
                builder.builder.name_hint = op.result.name_hint
                values[op.result] = _convert_literal(op, builder)
            case AtenOp():
                builder.builder.name_hint = op.results[0].name_hint
                values[op.results[0]] = _lower(op, builder, values)
            case OperatorOp():
                builder.builder.name_hint = None
                values[op.outputs[0]] = lower_lut_linear(op, builder, values[op.arguments[0]])
            case ReturnOp():
                builder.builder.name_hint = None
                returned = ReturnOp(*(values[operand] for operand in op.arguments))
                returned.location = op.location
                builder.builder.insert(returned)
            case _:
                # Numbers and lists are read where they are used.
                pass

    region = Region(new)
    function.detach_region(function.body).erase()
    function.add_region(region)
    function.function_type = FunctionType.from_lists(inputs, outputs)


def _lower(op: AtenOp, builder: GraphBuilder, values: dict[SSAValue, SSAValue]) -> SSAValue:
    value = LOWERINGS[_short_name(op)](Lowering(builder, op, values, op.location))
    expected = _graph_type(op.results[0].type)
    if value.type != expected:
        raise reject(op, f"the operands give {value.type}, but the result is {expected}")
    return value


def _is_imported(function: FuncOp) -> bool:
    """Whether a function has anything of the `torch` dialect."""
    types = (*function.function_type.inputs, *function.function_type.outputs)
    return any(isinstance(type, VTensorType) for type in types)


@dataclass(frozen=True)
class ConvertTorchToInrPass(ModulePass):
    """Convert every imported function of a module; functions of the graph level stay."""

    name = "convert-torch-to-inr"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Convert in place; raises CompileError, nothing changed, on the first unfit operator."""
        functions = [
            function
            for function in op.ops
            if isinstance(function, FuncOp) and _is_imported(function)
        ]
        for function in functions:
            check(function)
        for function in functions:
            convert_function(function)
