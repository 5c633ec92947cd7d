"""The pass that sizes FIFOs by schedule, from IR to IR."""

from __future__ import annotations

import pytest
from inr.analysis.event_engine import latency
from inr.analysis.fifo_cost import METHODS
from inr.analysis.schedules import network_of
from inr.dialects.array_stream import stream_type
from inr.errors import CompileError
from inr.passes.array_stream_size_fifos import (
    ArrayStreamSizeFifosPass,
    fifos_of,
    size_by_schedule,
)
from inr.universe import INR_UNIVERSE
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func, FuncOp
from xdsl.parser import Parser

DIAMOND = """
func.func @diamond(%m: tensor<4x8xf64>) -> tensor<4x8xf64>
    attributes {array_stream.stage = "linear"} {
  %x = array_stream.read %m : tensor<4x8xf64> -> !array_stream.stream<4x8xf32>
  %a, %b = array_stream.copy %x : !array_stream.stream<4x8xf32>
    -> !array_stream.stream<4x8xf32>, !array_stream.stream<4x8xf32DEPTH>
  %0 = array_stream.reduce_sum %a axis 1
    : !array_stream.stream<4x8xf32> -> !array_stream.stream<4xf32>
  %1 = array_stream.reshape %0 : !array_stream.stream<4xf32> -> !array_stream.stream<4x1xf32>
  %2 = array_stream.broadcast %1 axis 1
    : !array_stream.stream<4x1xf32> -> !array_stream.stream<4x8xf32>
  %3 = array_stream.map(%2, %b) : (!array_stream.stream<4x8xf32>,
      !array_stream.stream<4x8xf32DEPTH>) -> !array_stream.stream<4x8xf32> {
  ^bb0(%p: f64, %q: f64):
    %r = arith.addf %p, %q : f64
    array_stream.yield %r : f64
  }
  %y = array_stream.write %3 : !array_stream.stream<4x8xf32> -> tensor<4x8xf64>
  func.return %y : tensor<4x8xf64>
}
"""


def diamond(given: str = "") -> ModuleOp:
    """Two ways that part and meet again; `given` is said of the direct one."""
    context = Context()
    for dialect in (arith.Arith, Builtin, Func):
        context.load_dialect(dialect)
    for name, factory in INR_UNIVERSE.all_dialects.items():
        context.register_dialect(name, factory)
    return Parser(context, DIAMOND.replace("DEPTH", given)).parse_module()


def function_of(module: ModuleOp) -> FuncOp:
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def depths_of(module: ModuleOp) -> list[int | None]:
    return [stream_type(value).capacity for value in fifos_of(function_of(module))]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_sizes_every_fifo(method: str) -> None:
    module = diamond()
    ArrayStreamSizeFifosPass(method, 0.0).apply(Context(), module)
    module.verify()
    network, fifos = network_of(function_of(module))
    assert all(fifo.depth is not None for fifo in network.fifos)
    assert [stream_type(v).storage_kind for v in fifos] == [
        fifo.storage_kind for fifo in network.fifos[: len(fifos)]
    ]
    # A row has to wait until the sum over it is known.
    assert max(d for d in depths_of(module) if d is not None) >= 8
    free = diamond()
    unbounded, _ = network_of(function_of(free))
    assert latency(network) == latency(unbounded)


def test_report_and_types_agree() -> None:
    module = diamond()
    sizing = size_by_schedule(function_of(module), alpha=0.0)
    network, fifos = network_of(function_of(module))
    assert depths_of(module) == list(sizing.depths[: len(fifos)])
    assert latency(network) == sizing.latency
    assert sizing.lower_bound <= sizing.cost
    minimum = diamond()
    ArrayStreamSizeFifosPass("minimum").apply(Context(), minimum)
    with pytest.raises(CompileError, match="deadlock"):
        latency(network_of(function_of(minimum))[0])


def test_a_given_depth_stays() -> None:
    module = diamond(", depth = 30")
    ArrayStreamSizeFifosPass("default").apply(Context(), module)
    assert 30 in depths_of(module)


def test_a_given_depth_that_deadlocks() -> None:
    with pytest.raises(CompileError, match=r"needs depth \d+ or more") as e:
        ArrayStreamSizeFifosPass("default").apply(Context(), diamond(", depth = 2"))
    assert "full at depth 2" in str(e.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("best",), "method 'best' is not one of safe, minimum, default, exact"),
        (("default", -1.0), "alpha is the share of speed"),
        (("default", 0.0, "area"), "objective 'area' is not one of bits"),
    ],
)
def test_bad_parameters(arguments: tuple[str, float, str], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        ArrayStreamSizeFifosPass(*arguments).apply(Context(), diamond())
