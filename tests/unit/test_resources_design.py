"""The estimate for a whole design: what its parts take, counted here by hand, and their sum."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
from inr.analysis.memories import array_resources, fifo_printed, fifo_resources
from inr.analysis.resources import resources_of
from inr.analysis.targets import Resources, find_part
from inr.dialects import array_stream
from inr.dialects.array_stream import stream_type
from inr.dialects.inr import shape_of
from inr.errors import CompileError
from inr.frontend.importer import import_torch
from inr.frontend.spec import load_spec
from inr.interpreters.graph import find_function
from inr.passes.array_stream_size_fifos import fifos_of, set_depth
from inr.passes.inr_hls_pipeline import InrHlsPipelinePass
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.dialects.func import FuncOp

SIREN = Path(__file__).parents[2] / "examples" / "zoo" / "siren.py"

U50 = find_part("xcu50")


def linear(mode: str) -> FuncOp:
    """A SIREN 2-8x2-1 with its gradient at the linear stage, 27-bit streams, 18-bit weights."""
    model = load_spec(f"{SIREN}:tiny")
    module: ModuleOp = import_torch(model.callable, model.example_inputs, order=1).module
    InrHlsPipelinePass(mode=mode).apply(Context(), module)
    return find_function(module)


@pytest.fixture(scope="module")
def function() -> FuncOp:
    return linear("measured")


def hidden_layer(function: FuncOp) -> array_stream.MatmulOp:
    """The first matrix product by a square weight."""
    return next(
        op
        for op in function.body.block.ops
        if isinstance(op, array_stream.MatmulOp) and op.weight_shape[0] == op.weight_shape[1]
    )


def test_a_matrix_product_at_its_lanes(function: FuncOp):
    op = hidden_layer(function)
    k, n = op.weight_shape
    streams = len(op.inputs)
    assert op.bias is not None
    assert op.bias_format is not None
    bias = array_resources(prod(shape_of(op.bias)), op.bias_format.width.data)
    chosen = op.lanes
    for lanes_k, lanes_n in ((1, 1), (2, 4)):
        op.lanes = DenseArrayBase.from_list(i64, [lanes_k, lanes_n])
        lanes = lanes_k * lanes_n
        found = resources_of(function, U50, {op: "layer"}).processes["layer"]
        # One DSP for each 27 by 18-bit product, one accumulator behind it.
        assert found.operators.dsp == streams * lanes
        rows = array_resources(k // lanes_k, 27, pingpong=True) * (streams * lanes_k)
        weights = array_resources(k * n // lanes, 18) * lanes
        assert found.buffers == rows + weights + bias
    op.lanes = chosen


def test_fifos_count_with_the_process_that_writes_them(function: FuncOp):
    value = fifos_of(function)[0]
    type_ = stream_type(value)
    kept = type_.capacity
    assert kept is not None
    bits = type_.block.data * 27
    before = resources_of(function, U50)
    set_depth(value, 3000)
    deep = resources_of(function, U50)
    storage = stream_type(fifos_of(function)[0]).storage_kind
    assert storage is not None
    name = next(iter(deep.processes))
    assert deep.processes[name].fifos == fifo_resources(3000, bits, storage)
    assert deep.processes[name].fifos_printed == fifo_printed(3000, bits)
    assert {n: p for n, p in deep.processes.items() if n != name} == {
        n: p for n, p in before.processes.items() if n != name
    }
    set_depth(fifos_of(function)[0], kept)
    assert resources_of(function, U50) == before


def test_the_total_is_the_sum_of_all_processes(function: FuncOp):
    design = resources_of(function, U50)
    assert len(design.processes) == sum(
        isinstance(op, array_stream.ProcessOp) and not isinstance(op, array_stream.ReshapeOp)
        for op in function.body.block.ops
    )
    parts = [r for p in design.processes.values() for r in (p.operators, p.buffers, p.fifos)]
    assert design.total == sum(parts, Resources())
    assert design.total.dsp > 0
    assert design.fifos_printed.ff == design.fifos.ff
    assert design.fractions["dsp"] == design.total.dsp / 5952
    assert design.short() == ()
    design.require_fit()
    report = json.loads(json.dumps(design.report()))
    assert report["total"]["dsp"] == design.total.dsp
    assert report["share"]["dsp"] == design.fractions["dsp"]
    assert sum(p["lut"] for p in report["processes"].values()) == design.total.lut


def test_a_part_that_is_too_small(function: FuncOp):
    small = replace(find_part("xc7z020"), dsp=5)
    design = resources_of(function, small)
    assert design.fractions["dsp"] > 1
    assert design.short() == ("dsp",)
    with pytest.raises(CompileError, match=r"does not fit xc7z020 filled to 80%:\n") as error:
        design.require_fit(0.8)
    assert re.search(rf"\ndsp +{design.total.dsp} +4 +5\n", str(error.value))
    # Its multipliers are narrower: two DSPs for a product that takes one on UltraScale+.
    assert design.total.dsp > resources_of(function, U50).total.dsp


def test_floats_take_cores():
    function = linear("float")
    op = hidden_layer(function)
    op.lanes = DenseArrayBase.from_list(i64, [1, 1])
    found = resources_of(function, U50, {op: "layer"}).processes["layer"]
    streams = len(op.inputs)
    assert found.operators.dsp == streams * (3 + 2)
    assert found.operators.ff == streams * (143 + 318)


def test_a_function_at_another_stage_is_refused():
    model = load_spec(f"{SIREN}:tiny")
    module = import_torch(model.callable, model.example_inputs, order=0).module
    with pytest.raises(CompileError, match="not at the linear stage"):
        resources_of(find_function(module), U50)
