"""Each ATen operator at the graph level equals PyTorch; what has no place there is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from inr.dialects.inr import Inr
from inr.dialects.torch import (
    TORCH_OPS,
    ConstantBoolOp,
    ConstantFloatOp,
    ConstantIntOp,
    ConstantNoneOp,
    ConstantStrOp,
    ListConstructOp,
    ListType,
    StrType,
    Torch,
    VTensorType,
)
from inr.errors import CompileError, source_line
from inr.interpreters.arrays import to_array
from inr.interpreters.graph import run_graph
from inr.passes.convert_torch_to_inr import LOWERINGS, ConvertTorchToInrPass
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import (
    Builtin,
    FileLineColLoc,
    IntAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    f64,
    i1,
)
from xdsl.dialects.func import Func, FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.parser import Parser
from xdsl.rewriter import InsertPoint

GENERATOR = np.random.default_rng(7)


def _tensor(*shape: int) -> torch.Tensor:
    return torch.from_numpy(GENERATOR.normal(size=shape))


def _positive(*shape: int) -> torch.Tensor:
    return _tensor(*shape).abs() + 0.1


A, B = _tensor(3, 4), _tensor(3, 4)
ROW, COLUMN = _tensor(4), _tensor(3, 1)
POSITIVE = _positive(3, 4)
MASK, OTHER_MASK = A > 0, B > 0
TIES = torch.tensor([-2.0, -0.5, 0.0, 0.5, 0.5, 25.0], dtype=torch.float64)
MATRIX, SQUARE, BATCH = _tensor(4, 5), _tensor(4, 4), _tensor(2, 4, 5)
BATCHES = _tensor(2, 3, 4)

PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")
_NEW = {"dtype": None, "layout": None, "device": None, "pin_memory": None}
_LIKE = {**_NEW, "memory_format": None}

CASES: list[tuple[str, dict[str, Any]]] = [
    *((f"aten.{f}", {"self": A}) for f in ("sin", "cos", "exp", "expm1", "tanh", "erf", "neg")),
    *((f"aten.{f}", {"self": A}) for f in ("sigmoid", "reciprocal", "square", "exp2", "tan")),
    *((f"aten.{f}", {"self": A}) for f in ("sinh", "cosh", "silu", "t")),
    *((f"aten.{f}", {"self": POSITIVE}) for f in ("log", "log1p", "log2", "log10")),
    *((f"aten.{f}", {"self": POSITIVE}) for f in ("sqrt", "rsqrt")),
    *((f"aten.{f}", {"self": TIES}) for f in ("abs", "sgn", "sign", "relu", "sinh", "t")),
    *(
        (f"aten.add.{k}", {"self": A, "other": v, "alpha": 2})
        for k, v in (("Tensor", ROW), ("Scalar", 1.5))
    ),
    *(
        (f"aten.sub.{k}", {"self": A, "other": v, "alpha": 3})
        for k, v in (("Tensor", COLUMN), ("Scalar", 1.5))
    ),
    ("aten.sub.Tensor", {"self": ROW, "other": A, "alpha": 1}),
    ("aten.rsub.Scalar", {"self": A, "other": 2.5, "alpha": 3}),
    ("aten.mul.Tensor", {"self": A, "other": COLUMN}),
    ("aten.mul.Tensor", {"self": A, "other": torch.tensor(3.0, dtype=torch.float64)}),
    ("aten.mul.Scalar", {"self": A, "other": 30}),
    ("aten.div.Tensor", {"self": A, "other": POSITIVE}),
    ("aten.div.Scalar", {"self": A, "other": 3.0}),
    ("aten.addcmul", {"self": A, "tensor1": B, "tensor2": ROW, "value": 2}),
    ("aten.addcdiv", {"self": A, "tensor1": B, "tensor2": POSITIVE, "value": 2}),
    ("aten.maximum", {"self": A, "other": B}),
    ("aten.minimum", {"self": A, "other": ROW}),
    ("aten.clamp", {"self": A, "min": -0.5, "max": 0.5}),
    ("aten.clamp", {"self": A, "min": None, "max": 0.25}),
    ("aten.clamp", {"self": A, "min": 0.25, "max": None}),
    ("aten.clamp_min", {"self": A, "min": 0.1}),
    ("aten.clamp_max", {"self": A, "max": 0.1}),
    *(
        ("aten.pow.Tensor_Scalar", {"self": POSITIVE, "exponent": e})
        for e in (0, 1, 2, 3, 7, -1, -2, 0.5, -0.5, 1.5, -1.5, 2.5, 1 / 3, -0.7, 100)
    ),
    *(("aten.pow.Tensor_Scalar", {"self": A, "exponent": e}) for e in (2, 3, -3, 5.0)),
    ("aten.threshold_backward", {"grad_output": ROW[:1].expand(6), "self": TIES, "threshold": 0.5}),
    ("aten.leaky_relu", {"self": TIES, "negative_slope": 0.01}),
    (
        "aten.leaky_relu_backward",
        {"grad_output": TIES, "self": TIES, "negative_slope": 0.2, "self_is_result": False},
    ),
    ("aten.tanh_backward", {"grad_output": A, "output": torch.tanh(B)}),
    ("aten.sigmoid_backward", {"grad_output": A, "output": torch.sigmoid(B)}),
    ("aten.softplus", {"self": TIES, "beta": 1, "threshold": 20}),
    ("aten.softplus", {"self": A, "beta": 100.0, "threshold": 20}),
    ("aten.elu", {"self": TIES, "alpha": 1.5, "scale": 2.0, "input_scale": 0.5}),
    ("aten.gelu", {"self": A, "approximate": "none"}),
    ("aten.gelu", {"self": A, "approximate": "tanh"}),
    *((f"aten.{p}.Scalar", {"self": TIES, "other": 0.5}) for p in PREDICATES),
    *((f"aten.{p}.Tensor", {"self": TIES, "other": TIES.flip(0)}) for p in PREDICATES),
    ("aten.logical_not", {"self": TIES}),
    ("aten.bitwise_not", {"self": MASK}),
    ("aten.logical_and", {"self": MASK, "other": A - A}),
    ("aten.logical_or", {"self": MASK, "other": OTHER_MASK}),
    ("aten.add.Tensor", {"self": MASK, "other": OTHER_MASK, "alpha": 1}),
    ("aten.where.self", {"condition": MASK, "self": B, "other": ROW}),
    ("aten.where.ScalarSelf", {"condition": MASK, "self": 2.0, "other": B}),
    ("aten.where.ScalarOther", {"condition": MASK, "self": B, "other": 2.0}),
    ("aten.masked_fill.Scalar", {"self": B, "mask": MASK, "value": -1.0}),
    ("aten.mm", {"self": A, "mat2": MATRIX}),
    ("aten.addmm", {"self": _tensor(5), "mat1": A, "mat2": MATRIX, "beta": 1, "alpha": 1}),
    ("aten.addmm", {"self": _tensor(1, 5), "mat1": A, "mat2": MATRIX, "beta": 1, "alpha": 1}),
    ("aten.addmm", {"self": COLUMN, "mat1": A, "mat2": MATRIX, "beta": 1, "alpha": 1}),
    ("aten.addmm", {"self": _tensor(5), "mat1": A, "mat2": MATRIX, "beta": 2.0, "alpha": 0.5}),
    ("aten.addmm", {"self": _tensor(5), "mat1": A, "mat2": MATRIX, "beta": 0, "alpha": 1}),
    ("aten.mv", {"self": A, "vec": ROW}),
    ("aten.dot", {"self": ROW, "tensor": _tensor(4)}),
    ("aten.bmm", {"self": BATCHES, "mat2": BATCH}),
    ("aten.bmm", {"self": BATCHES[:1], "mat2": BATCH[:1]}),
    (
        "aten.baddbmm",
        {"self": _tensor(5), "batch1": BATCHES, "batch2": BATCH, "beta": 2, "alpha": 3},
    ),
    ("aten.matmul", {"self": BATCHES, "other": MATRIX}),
    ("aten.linear", {"input": BATCHES, "weight": _tensor(5, 4), "bias": _tensor(5)}),
    ("aten.linear", {"input": A, "weight": _tensor(5, 4), "bias": None}),
    ("aten.amax", {"self": BATCHES, "dim": [-1], "keepdim": True}),
    ("aten.amax", {"self": BATCHES, "dim": [0, 2], "keepdim": False}),
    ("aten.amin", {"self": BATCHES, "dim": [1], "keepdim": False}),
    ("aten.amin", {"self": BATCHES, "dim": [], "keepdim": False}),
    ("aten.sum", {"self": A, "dtype": None}),
    ("aten.sum.dim_IntList", {"self": BATCHES, "dim": [-1, 0], "keepdim": False, "dtype": None}),
    ("aten.sum.dim_IntList", {"self": BATCHES, "dim": [1], "keepdim": True, "dtype": None}),
    ("aten.sum.dim_IntList", {"self": BATCHES, "dim": None, "keepdim": False, "dtype": None}),
    ("aten.mean", {"self": A, "dtype": None}),
    ("aten.mean.dim", {"self": BATCHES, "dim": [0, 2], "keepdim": True, "dtype": None}),
    ("aten.t", {"self": ROW}),
    ("aten.transpose.int", {"self": BATCHES, "dim0": 0, "dim1": -1}),
    ("aten.permute", {"self": BATCHES, "dims": [2, 0, -2]}),
    ("aten.expand", {"self": COLUMN, "size": [2, 3, 4], "implicit": False}),
    ("aten.expand", {"self": COLUMN, "size": [-1, 4], "implicit": False}),
    ("aten.broadcast_to", {"self": ROW, "size": [3, 4]}),
    ("aten.view", {"self": A, "size": [2, -1]}),
    ("aten._unsafe_view", {"self": A, "size": [12]}),
    ("aten.reshape", {"self": A, "shape": [4, 3]}),
    ("aten.flatten.using_ints", {"self": BATCHES, "start_dim": 1, "end_dim": 2}),
    ("aten.unsqueeze", {"self": A, "dim": -2}),
    ("aten.squeeze", {"self": COLUMN}),
    ("aten.squeeze.dim", {"self": COLUMN, "dim": 1}),
    ("aten.squeeze.dim", {"self": COLUMN, "dim": 0}),
    ("prims.squeeze", {"a": COLUMN, "dimensions": [1]}),
    ("aten.repeat", {"self": A, "repeats": [2, 1, 3]}),
    ("aten.clone", {"self": A, "memory_format": None}),
    ("aten.detach", {"self": A}),
    ("aten.contiguous", {"self": A, "memory_format": 0}),
    ("aten.select.int", {"self": BATCHES, "dim": 1, "index": -1}),
    ("aten.select.int", {"self": ROW, "dim": 0, "index": 2}),
    ("aten.slice.Tensor", {"self": A, "dim": 1, "start": 1, "end": 9223372036854775807, "step": 2}),
    ("aten.slice.Tensor", {"self": A, "dim": -1, "start": -3, "end": -1, "step": 1}),
    ("aten.slice.Tensor", {"self": A, "dim": 0, "start": None, "end": None, "step": 1}),
    ("aten.select_scatter", {"self": A, "src": _tensor(3), "dim": 1, "index": -2}),
    ("aten.slice_scatter", {"self": A, "src": B[:, :2], "dim": 1, "start": 1, "end": 3, "step": 1}),
    ("aten.slice_scatter", {"self": A, "src": B[:, :0], "dim": 1, "start": 2, "end": 2, "step": 1}),
    ("aten.cat", {"tensors": [A, B, COLUMN], "dim": 1}),
    ("aten.cat", {"tensors": [A, _tensor(0, 4)], "dim": 0}),
    ("aten.stack", {"tensors": [A, B], "dim": -1}),
    ("aten.constant_pad_nd", {"self": A, "pad": [1, 2], "value": 0}),
    ("aten.constant_pad_nd", {"self": A, "pad": [1, -2, 0, 1], "value": 0.0}),
    ("aten.constant_pad_nd", {"self": A, "pad": [1, 0, 2, 0], "value": 1.5}),
    ("aten.full", {"size": [2, 3], "fill_value": 1.5, **_NEW}),
    ("aten.zeros", {"size": [2, 3], **_NEW}),
    ("aten.ones", {"size": [], **_NEW}),
    ("aten.full_like", {"self": A, "fill_value": 2, **_LIKE}),
    ("aten.zeros_like", {"self": A, **_LIKE}),
    ("aten.ones_like", {"self": A, **_LIKE}),
    ("aten.new_zeros", {"self": A, "size": [2], **_NEW}),
    ("aten.new_ones", {"self": A, "size": [2, 1], **_NEW}),
    ("aten.new_full", {"self": A, "size": [2], "fill_value": 0.5, **_NEW}),
    ("aten.scalar_tensor", {"s": 2.5, **_NEW}),
    ("aten.fill.Scalar", {"self": A, "value": 0.5}),
    ("aten.arange", {"end": 5.0, **_NEW}),
    ("aten.where.Scalar", {"condition": MASK, "self": 2.0, "other": 0.5}),
    ("aten._to_copy", {"self": A, **_NEW, "non_blocking": False, "memory_format": None}),
    ("prim.NumToTensor.Scalar", {"a": 1.5}),
    ("prims.convert_element_type", {"a": A, "dtype": 7}),
    ("prims.convert_element_type", {"a": TIES, "dtype": 11}),
]


def _mlir_type(tensor: torch.Tensor) -> VTensorType:
    dtypes = {torch.bool: i1, torch.int64: IntegerType(64, Signedness.SIGNED)}
    return VTensorType(list(tensor.shape), dtypes.get(tensor.dtype, f64))


class Call:
    """A module whose one function calls one operator on its arguments."""

    def __init__(self, name: str, arguments: dict[str, Any]):
        self.inputs: list[torch.Tensor] = []
        self.block = Block()
        self.builder = Builder(InsertPoint.at_end(self.block))
        op_type = TORCH_OPS[name]
        operands = [self._value(arguments[p.name]) for p in op_type.PARAMETERS]
        self.expected = self._evaluate(name, arguments)
        result = _mlir_type(self.expected)
        op = self.builder.insert(op_type.create(operands=operands, result_types=[result]))
        self.builder.insert(ReturnOp(op.results[0]))
        function = FuncOp("main", (self.block.arg_types, [result]), Region(self.block))
        self.module = ModuleOp([function])

    @staticmethod
    def _evaluate(name: str, arguments: dict[str, Any]) -> torch.Tensor:
        namespace, packet, overload = (*name.split("."), "default")[:3]
        operator = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
        arguments = dict(arguments)
        if packet == "contiguous":
            arguments["memory_format"] = torch.contiguous_format
        if packet in ("arange", "full", "zeros", "ones", "scalar_tensor"):
            arguments["dtype"] = torch.float64
        if packet == "convert_element_type":
            arguments["dtype"] = {7: torch.float64, 11: torch.bool}[arguments["dtype"]]
        return operator(**arguments)

    def _value(self, argument: Any) -> SSAValue:
        match argument:
            case torch.Tensor():
                self.inputs.append(argument)
                return self.block.insert_arg(_mlir_type(argument), len(self.block.args))
            case None:
                return self.builder.insert(ConstantNoneOp()).result
            case bool():
                return self.builder.insert(ConstantBoolOp(argument)).result
            case int():
                return self.builder.insert(ConstantIntOp(argument)).result
            case float():
                return self.builder.insert(ConstantFloatOp(argument)).result
            case str():
                op = ConstantStrOp.create(
                    properties={"value": StringAttr(argument)}, result_types=[StrType()]
                )
                return self.builder.insert(op).result
            case list():
                values = [self._value(element) for element in argument]
                element_type = values[0].type if values else ConstantIntOp(0).result.type
                if isinstance(element_type, VTensorType):
                    element_type = VTensorType(None)
                op = ListConstructOp.create(operands=values, result_types=[ListType(element_type)])
                return self.builder.insert(op).result
            case _:
                raise TypeError(f"no constant for {argument!r}")


@pytest.mark.parametrize(
    ("name", "arguments"), CASES, ids=[f"{i}-{name}" for i, (name, _) in enumerate(CASES)]
)
def test_operator_equals_pytorch(name: str, arguments: dict[str, Any]):
    call = Call(name, arguments)
    call.module.verify()
    ConvertTorchToInrPass().apply(Context(), call.module)
    call.module.verify()
    inputs = [x.double().numpy() for x in call.inputs]
    (value,) = run_graph(call.module, inputs)
    expected = call.expected.double().numpy()
    assert value.shape == expected.shape
    np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-15)


def test_every_lowering_has_a_case():
    elsewhere = {
        "aten.empty_like",  # its values are what happens to be there
        "aten.pow.Tensor_Tensor",  # needs a literal, see below
    }
    assert {name for name, _ in CASES} | elsewhere == set(LOWERINGS)


# --- text --------------------------------------------------------------------------------------


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Func, Arith, Torch, Inr):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def convert(text: str) -> ModuleOp:
    module = parse(text)
    ConvertTorchToInrPass().apply(Context(), module)
    module.verify()
    return module


def literal(dense: str, type: str) -> np.ndarray:
    """The values a literal of `dense<…>` has after conversion, as a function's result."""
    shape, dtype = type.rsplit("x", 1)
    torch_type = f"!torch.vtensor<[{shape.replace('x', ',')}],{dtype}>"
    keep = "%1 = torch.aten.eq.Tensor %0, %0 : T, T -> M\n return %1 : M"
    text = f"""func.func @f() -> M {{
      %0 = torch.vtensor.literal(dense<{dense}> : tensor<{shape}x{dtype}>) {{inr.name = "w"}} : T
      {keep} }}"""
    text = text.replace(" T", f" {torch_type}")
    text = text.replace(" M", f" {torch_type.replace(dtype, 'i1')}")
    module = convert(text)
    (constant,) = [op for op in module.walk() if op.name == "arith.constant"]
    assert constant.attributes["inr.name"] == StringAttr("w")
    return to_array(constant.properties["value"])


@pytest.mark.parametrize(
    ("dense", "type", "expected"),
    [
        ("[1.5, -0.1]", "2xf64", [1.5, -0.1]),
        ("[1.5, -0.1]", "2xf32", [1.5, float(np.float32(-0.1))]),
        ("[1.5, -0.1]", "2xf16", [1.5, float(np.float16(-0.1))]),
        ("[1.5, -3.0]", "2xbf16", [1.5, -3.0]),
        ("2.5", "3xf32", [2.5, 2.5, 2.5]),
        ("[3, -4]", "2xsi64", [3.0, -4.0]),
        ("[true, false]", "2xi1", [1.0, 0.0]),
    ],
)
def test_literals_widen_exactly_and_keep_their_name(dense: str, type: str, expected: list[float]):
    np.testing.assert_array_equal(literal(dense, type), expected)


def test_signature_attributes_locations_and_name_hints_stay():
    module = convert(
        """
        func.func @siren(%x: !torch.vtensor<[2],f32> {inr.name = "x"})
            -> (!torch.vtensor<[2],f32> {inr.name = "y"}) {
          %thirty = torch.constant.float 30.0
          %angle = torch.aten.mul.Scalar %x, %thirty
            : !torch.vtensor<[2],f32>, !torch.float -> !torch.vtensor<[2],f32> loc("model.py":7:3)
          return %angle : !torch.vtensor<[2],f32>
        }
        """
    )
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    assert function.sym_name.data == "siren"
    assert str(function.function_type) == "(tensor<2xf64>) -> tensor<2xf64>"
    assert function.arg_attrs is not None
    assert function.arg_attrs.data[0].data["inr.name"] == StringAttr("x")
    assert function.res_attrs is not None
    assert function.res_attrs.data[0].data["inr.name"] == StringAttr("y")
    constant, product, returned = function.body.block.ops
    assert function.body.block.args[0].name_hint == "x"
    assert product.results[0].name_hint == "angle"
    assert source_line(product) == source_line(constant) == "model.py:7"
    assert product.location == FileLineColLoc(StringAttr("model.py"), IntAttr(7), IntAttr(3))
    assert returned.operands[0] is product.results[0]


def test_a_literal_exponent():
    module = convert(
        """
        func.func @f(%x: !torch.vtensor<[2],f64>) -> !torch.vtensor<[2],f64> {
          %e = torch.vtensor.literal(dense<3.0> : tensor<f64>) : !torch.vtensor<[],f64>
          %y = torch.aten.pow.Tensor_Tensor %x, %e
            : !torch.vtensor<[2],f64>, !torch.vtensor<[],f64> -> !torch.vtensor<[2],f64>
          return %y : !torch.vtensor<[2],f64>
        }
        """
    )
    (value,) = run_graph(module, [np.array([2.0, -3.0])])
    np.testing.assert_array_equal(value, [8.0, -27.0])


def test_a_graph_level_function_stays():
    text = """
        func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
          %y = arith.negf %x : tensor<2xf32>
          return %y : tensor<2xf32>
        }
        """
    assert str(convert(text)) == str(parse(text))


# --- refused -----------------------------------------------------------------------------------

REFUSED = {
    "sort": (
        """
        func.func @f(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
          %d = torch.constant.int 0
          %b = torch.constant.bool false
          %y, %i = torch.aten.sort %x, %d, %b : !torch.vtensor<[4],f32>, !torch.int, !torch.bool
            -> !torch.vtensor<[4],f32>, !torch.vtensor<[4],si64> loc("net.py":12:0)
          return %y : !torch.vtensor<[4],f32>
        }
        """,
        r"torch\.aten\.sort \(net\.py:12\): on \(!torch\.vtensor<\[4\],f32>.*not supported",
    ),
    "operator": (
        """
        func.func @f(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
          %y = torch.operator "torch.aten.lgamma"(%x)
            : (!torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32>
          return %y : !torch.vtensor<[4],f32>
        }
        """,
        r"'torch\.aten\.lgamma' on \(!torch\.vtensor<\[4\],f32>\) is not supported",
    ),
    "complex": (
        """
        func.func @f(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
          %w = torch.vtensor.literal(dense<(1.0, 2.0)> : tensor<4xcomplex<f32>>)
            : !torch.vtensor<[4],complex<f32>>
          return %x : !torch.vtensor<[4],f32>
        }
        """,
        r"complex numbers are not supported",
    ),
    "integers": (
        """
        func.func @f(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
          %w = torch.vtensor.literal(dense<[1, 2, 3, 4]> : tensor<4xsi64>)
            : !torch.vtensor<[4],si64>
          %v = torch.aten.mul.Tensor %w, %w
            : !torch.vtensor<[4],si64>, !torch.vtensor<[4],si64> -> !torch.vtensor<[4],si64>
          return %x : !torch.vtensor<[4],f32>
        }
        """,
        r"torch\.aten\.mul\.Tensor.*integer arithmetic is not supported",
    ),
    "large integers": (
        """
        func.func @f(%x: !torch.vtensor<[1],f32>) -> !torch.vtensor<[1],f32> {
          %w = torch.vtensor.literal(dense<9007199254740993> : tensor<1xsi64>)
            : !torch.vtensor<[1],si64>
          return %x : !torch.vtensor<[1],f32>
        }
        """,
        r"beyond 2\^53",
    ),
    "integer input": (
        """
        func.func @f(%x: !torch.vtensor<[4],si64>) -> !torch.vtensor<[4],si64> {
          return %x : !torch.vtensor<[4],si64>
        }
        """,
        r"@f takes or returns .*si64.*integer arithmetic",
    ),
    "dynamic": (
        """
        func.func @f(%x: !torch.vtensor<[?,2],f32>) -> !torch.vtensor<[?,2],f32> {
          return %x : !torch.vtensor<[?,2],f32>
        }
        """,
        r"@f takes or returns .*the shape must be static",
    ),
    "computed number": (
        """
        func.func @f(%x: !torch.vtensor<[4],f32>, %c: !torch.float) -> !torch.vtensor<[4],f32> {
          %y = torch.aten.mul.Scalar %x, %c
            : !torch.vtensor<[4],f32>, !torch.float -> !torch.vtensor<[4],f32>
          return %y : !torch.vtensor<[4],f32>
        }
        """,
        r"@f takes or returns !torch\.float: only tensors",
    ),
    "wrong shape": (
        """
        func.func @f(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[5],f32> {
          %y = torch.aten.neg %x : !torch.vtensor<[4],f32> -> !torch.vtensor<[5],f32>
          return %y : !torch.vtensor<[5],f32>
        }
        """,
        r"the operands give tensor<4xf64>, but the result is tensor<5xf64>",
    ),
    "strided scatter": (
        """
        func.func @f(%x: !torch.vtensor<[4],f32>, %s: !torch.vtensor<[2],f32>)
            -> !torch.vtensor<[4],f32> {
          %0 = torch.constant.int 0
          %4 = torch.constant.int 4
          %2 = torch.constant.int 2
          %y = torch.aten.slice_scatter %x, %s, %0, %0, %4, %2
            : !torch.vtensor<[4],f32>, !torch.vtensor<[2],f32>, !torch.int, !torch.int, !torch.int,
              !torch.int -> !torch.vtensor<[4],f32>
          return %y : !torch.vtensor<[4],f32>
        }
        """,
        r"step 2 is not supported",
    ),
    "exponent": (
        """
        func.func @f(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
          %y = torch.aten.pow.Tensor_Tensor %x, %x
            : !torch.vtensor<[4],f32>, !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
          return %y : !torch.vtensor<[4],f32>
        }
        """,
        r"the exponent must be a constant",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_nothing_changed(case: str):
    text, message = REFUSED[case]
    module = parse(text)
    before = str(module)
    with pytest.raises(CompileError, match=message):
        ConvertTorchToInrPass().apply(Context(), module)
    assert str(module) == before
