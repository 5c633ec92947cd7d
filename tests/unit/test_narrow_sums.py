"""A product whose sum is narrow, with a bias: the integer model and the C++ give the same words."""

from __future__ import annotations

import numpy as np
from inr.dialects.array_stream import ArrayStream
from inr.interpreters.fixed_stream import run_fixed
from inr.interpreters.graph import find_function
from inr.lowering.hls_cpp import build_design
from inr.lowering.hls_project import Batch, render
from inr.runtime.simulate import build, run
from inr.runtime.toolchain import find_toolchain
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.parser import Parser

STREAM = "!array_stream.stream<{}x!array_stream.fixed<16, 4>, depth = 8, storage = srl>"

MODULE = f"""
func.func @narrow(%x: tensor<4x3xf64>) -> tensor<4x2xf64>
    attributes {{array_stream.stage = "linear"}} {{
  %w = arith.constant dense<[[1.3, -2.7], [0.9, 3.1], [-1.7, 2.2]]> : tensor<3x2xf64>
  %b = arith.constant dense<[0.37, -1.21]> : tensor<2xf64>
  %0 = array_stream.read %x : tensor<4x3xf64> -> {STREAM.format("4x3")}
  %1 = array_stream.matmul %0 by %w bias %b weight_format <12, 3> bias_format <14, 3>
      accumulator <12, 4, trn, wrap> : ({STREAM.format("4x3")}) -> {STREAM.format("4x2")}
      by tensor<3x2xf64> bias tensor<2xf64>
  %2 = array_stream.write %1 : {STREAM.format("4x2")} -> tensor<4x2xf64>
  func.return %2 : tensor<4x2xf64>
}}
"""


def test_narrow_sum_with_a_bias() -> None:
    context = Context()
    for dialect in (ArrayStream, Arith, Builtin, Func):
        context.load_dialect(dialect)
    module = Parser(context, MODULE).parse_module()
    module.verify()
    x = np.random.default_rng(7).uniform(-2, 2, (4, 3))
    expected = run_fixed(module, [x])
    design = build_design(find_function(module))
    # What exact sums would give, to see that these are narrow and yet not nonsense.
    exact = x @ [[1.3, -2.7], [0.9, 3.1], [-1.7, 2.2]] + [0.37, -1.21]
    simulation = run(build(render(design, Batch([x], expected, [exact])), find_toolchain()), design)
    assert simulation.status == 0
    assert np.array_equal(simulation.outputs[0], expected[0])
    real = expected[0] / 2**12
    distance = np.abs((real - exact + 8) % 16 - 8)
    assert 2**-12 < distance.max() < 0.1
