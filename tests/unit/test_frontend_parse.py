"""MLIR text with weights in it."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
import torch
from inr.dialects.torch import Torch, VTensorLiteralOp
from inr.errors import CompileError
from inr.frontend.parse import parse_module
from torch import nn
from torch_mlir import fx
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, DenseIntOrFPElementsAttr
from xdsl.dialects.func import Func

LITERAL = """
%0 = torch.vtensor.literal(dense_resource<w> : tensor<2xf32>) : !torch.vtensor<[2],f32>
{-# dialect_resources: { builtin: { w: "0x04000000DATA" } } #-}
"""


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, Func, Torch):
        ctx.load_dialect(dialect)
    return ctx


def weights(text: str) -> list[list[float]]:
    module = parse_module(context(), text)
    literals = [op for op in module.walk() if isinstance(op, VTensorLiteralOp)]
    assert all(isinstance(op.value, DenseIntOrFPElementsAttr) for op in literals)
    return [list(op.value.get_values()) for op in literals]


def test_a_key_may_come_again_in_another_module():
    for values in ((1.0, 2.0), (3.0, 4.0), (5.0, 6.0)):
        assert weights(LITERAL.replace("DATA", struct.pack("<2f", *values).hex())) == [list(values)]


def test_missing_data():
    text = LITERAL.splitlines()[1]
    with pytest.raises(
        CompileError, match=r"torch\.vtensor\.literal: dense_resource<w> has no data"
    ):
        parse_module(context(), text)


def test_truncated_data():
    with pytest.raises(CompileError, match=r"holds 4 bytes, its type tensor<2xf32> needs 8"):
        parse_module(context(), LITERAL.replace("DATA", struct.pack("<f", 1).hex()))


@pytest.mark.parametrize("type", ["[?,2],f32", "*,f32"])
def test_dynamic_shapes(type: str):
    text = f"func.func @f(%x: !torch.vtensor<{type}>) {{ func.return }}"
    with pytest.raises(CompileError, match=r"func\.func: .*not known at compile time.*one batch"):
        parse_module(context(), text)


def test_text_that_does_not_parse():
    with pytest.raises(CompileError, match=r"net\.mlir:1:6"):
        parse_module(context(), "what is this", "net.mlir")


def test_text_that_does_not_verify():
    text = """
    func.func @f(%x: !torch.vtensor<[2],f32>) {
      %0 = torch.aten.mm %x : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
      func.return
    }"""
    with pytest.raises(CompileError, match=r"torch\.aten\.mm takes 2 operands"):
        parse_module(context(), text)


@pytest.mark.parametrize("generic", [False, True])
def test_what_torch_mlir_exports(generic: bool):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    exported = fx.export_and_import(net, torch.zeros(4, 2))
    text = exported.operation.get_asm(print_generic_op_form=generic)
    assert "dense_resource" in text
    expected = sorted(p.detach().flatten().tolist() for p in net.parameters())
    assert sorted(weights(text)) == expected


def test_parsing_needs_no_torch():
    program = "import sys, inr.frontend.parse, inr; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
