"""The `torch` dialect against PyTorch's schemas and torch-mlir's printer and parser."""

from __future__ import annotations

from io import StringIO

import pytest
import torch
from inr.dialects.torch import (
    TORCH_OPS,
    ConstantFloatOp,
    ConstantIntOp,
    ConstantNoneOp,
    IntType,
    ListConstructOp,
    ListType,
    Torch,
    VTensorType,
    constant_of,
)
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_mlir_dialect
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.test_value import create_ssa_value

# What torch-mlir writes as an integer.
ENUMERATIONS = {"ScalarType", "MemoryFormat", "Layout", "SymInt"}

MODULE = """
module {
  func.func @f(%arg0: !torch.vtensor<[4,2],f32> {inr.name = "x"}, %arg1: !torch.vtensor) -> \
!torch.vtensor<[4,3],f32> {
    %int-1 = torch.constant.int -1
    %float = torch.constant.float 3.000000e+01
    %inf = torch.constant.float 0x7FF0000000000000
    %none = torch.constant.none
    %true = torch.constant.bool true
    %str = torch.constant.str "tanh"
    %cpu = torch.constant.device "cpu"
    %0 = torch.vtensor.literal(dense<[[1.5, -2.0, 0.1], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>) \
{inr.name = "layers.0.weight"} : !torch.vtensor<[2,3],f32>
    %1 = torch.aten.mm %arg0, %0 {inr.note = 1 : i64} : !torch.vtensor<[4,2],f32>, \
!torch.vtensor<[2,3],f32> -> !torch.vtensor<[4,3],f32>
    %2 = torch.prim.ListConstruct %int-1 : (!torch.int) -> !torch.list<int>
    %3 = torch.prim.ListConstruct  : () -> !torch.list<optional<vtensor>>
    %4 = torch.aten.sum.dim_IntList %1, %2, %true, %none : !torch.vtensor<[4,3],f32>, \
!torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[4,1],f32>
    %5 = torch.operator "torch.aten.made_up"(%4, %str) : (!torch.vtensor<[4,1],f32>, !torch.str) \
-> !torch.vtensor<*,f32>
    %6:2 = torch.aten.sort %1, %int-1, %true : !torch.vtensor<[4,3],f32>, !torch.int, !torch.bool \
-> !torch.vtensor<[4,3],f32>, !torch.vtensor<[4,3],si64>
    %7 = torch.aten.mul.Scalar %6#0, %float : !torch.vtensor<[4,3],f32>, !torch.float -> \
!torch.vtensor<[4,3],f32>
    return %7 : !torch.vtensor<[4,3],f32>
  }
}
"""


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, Func, Torch):
        ctx.load_dialect(dialect)
    return ctx


def printed(module: object, **options: bool) -> str:
    stream = StringIO()
    Printer(stream, **options).print_op(module)
    return stream.getvalue()


def upstream(text: str, **options: bool) -> str:
    """What torch-mlir prints for `text`."""
    with ir.Context() as ctx:
        ctx.allow_unregistered_dialects = True
        torch_mlir_dialect.register_dialect(ctx)
        return ir.Module.parse(text).operation.get_asm(**options)


# `prim` is torch-mlir's own namespace: PyTorch's dispatcher has no schema for it.
@pytest.mark.parametrize("name", [name for name in TORCH_OPS if not name.startswith("prim.")])
def test_the_table_agrees_with_pytorch(name: str):
    namespace, _, rest = name.partition(".")
    base, _, overload = rest.partition(".")
    schema = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")._schema
    op = TORCH_OPS[name]
    assert [p.name for p in op.PARAMETERS] == [a.name for a in schema.arguments]
    assert op.RESULT_COUNT == len(schema.returns)
    for parameter, argument in zip(op.PARAMETERS, schema.arguments, strict=True):
        assert parameter.kind == kind(str(argument.real_type), argument.default_value)


def kind(jit: str, default: object) -> str:
    """A type of TorchScript in the spelling of the table."""
    if jit.startswith("Optional["):
        return f"{kind(jit[9:-1], default)}?"
    if jit.startswith("List["):
        return f"{kind(jit[5:-1], default)}[]"
    if jit in ENUMERATIONS:
        return "int"
    return {"number": "Scalar"}.get(jit, jit)


@pytest.mark.parametrize("upstream_generic", [False, True])
@pytest.mark.parametrize("our_generic", [False, True])
def test_what_torch_mlir_prints_round_trips(upstream_generic: bool, our_generic: bool):
    text = upstream(MODULE, print_generic_op_form=upstream_generic)
    module = Parser(context(), text).parse_module()
    module.verify()
    ours = printed(module, print_generic_format=our_generic)
    assert upstream(ours) == upstream(MODULE)


def test_locations_survive():
    text = upstream(
        'module { func.func @f() { %0 = torch.constant.int 3 loc("net.py":12:0) return } }',
        enable_debug_info=True,
        use_local_scope=True,
    )
    module = Parser(context(), text).parse_module()
    assert 'torch.constant.int 3 loc("net.py":12:0)' in printed(module, print_debuginfo=True)


def test_constant_of():
    three, none = ConstantIntOp(3), ConstantNoneOp()
    items = ListConstructOp.create(
        operands=[three.result, three.result], result_types=[ListType(IntType())]
    )
    assert constant_of(three.result) == 3
    assert constant_of(ConstantFloatOp(0.1).result) == 0.1
    assert constant_of(none.result) is None
    assert constant_of(items.result) == [3, 3]
    with pytest.raises(ValueError, match="not a constant"):
        constant_of(create_ssa_value(VTensorType([4], None)))


def test_arguments_have_names():
    a, b = (create_ssa_value(VTensorType([2, 2], None)) for _ in range(2))
    op = TORCH_OPS["aten.mm"].create(operands=[a, b], result_types=[a.type])
    assert op.argument("self") is a
    assert op.argument("mat2") is b
    with pytest.raises(KeyError, match="no parameter 'mat1'"):
        op.argument("mat1")
