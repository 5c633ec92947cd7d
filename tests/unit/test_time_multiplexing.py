"""Elementwise processes that use their multipliers in turn, where a part is too small otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from inr.analysis.event_engine import latency, unbounded  # noqa: E402
from inr.analysis.operators import operators_of  # noqa: E402
from inr.analysis.parallelism import Search, limits_of  # noqa: E402
from inr.analysis.resources import resources_of  # noqa: E402
from inr.analysis.targets import find_part  # noqa: E402
from inr.dialects import array_stream  # noqa: E402
from inr.errors import CompileError  # noqa: E402
from inr.frontend.importer import import_torch  # noqa: E402
from inr.frontend.spec import load_spec  # noqa: E402
from inr.interpreters.fixed_stream import run_fixed  # noqa: E402
from inr.interpreters.graph import find_function  # noqa: E402
from inr.lowering.hls_cpp import build_design  # noqa: E402
from inr.lowering.hls_project import Batch, render  # noqa: E402
from inr.passes.array_stream_assign_formats import ArrayStreamAssignFormatsPass  # noqa: E402
from inr.passes.array_stream_insert_copies import ArrayStreamInsertCopiesPass  # noqa: E402
from inr.passes.array_stream_select_parallelism import (  # noqa: E402
    ArrayStreamSelectParallelismPass,
    select_function,
)
from inr.passes.array_stream_size_fifos import size_by_schedule  # noqa: E402
from inr.passes.inr_hls_pipeline import graph_passes, stream_passes  # noqa: E402
from inr.runtime.simulate import build, run  # noqa: E402
from inr.runtime.toolchain import find_toolchain  # noqa: E402
from xdsl.context import Context  # noqa: E402
from xdsl.dialects.builtin import IntegerAttr, i64  # noqa: E402

SPEC = f"{Path(__file__).parents[2] / 'examples' / 'zoo' / 'siren.py'}:tiny"


@pytest.fixture(scope="module")
def model():
    """The second-order design at the value stage, with inputs and reference."""
    spec = load_spec(SPEC)
    imported = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=2)
    inputs = [x.detach().double().numpy() for x in spec.example_inputs]
    convert, fuse, formats, *_ = stream_passes(
        ArrayStreamAssignFormatsPass(samples=64), ArrayStreamSelectParallelismPass()
    )
    for each in (*graph_passes(), convert, fuse, formats):
        each.apply(Context(), imported.module)
    return imported.module, inputs, imported.reference(inputs)


def test_fewer_multipliers_the_same_numbers_the_predicted_cycles(model) -> None:
    module, inputs, reference = model
    module = module.clone()
    function, part = find_function(module), find_part("xcu50")
    choice = select_function(function, Search(function, part, limits_of(part, 0.8, 40, None)))
    assert choice.intervals
    assert choice.usage.resources.dsp <= 40
    ArrayStreamInsertCopiesPass().apply(Context(), module)
    sizing = size_by_schedule(function)
    module.verify()
    assert resources_of(function, part).total.dsp <= 40
    design = build_design(function)
    expected = run_fixed(module, inputs)
    texts = render(design, Batch(inputs, expected, reference))
    assert "#pragma HLS PIPELINE II = 2 style = flp" in texts["model.cpp"]
    simulation = run(build(texts, find_toolchain()), design, cycles=True)
    assert simulation.status == 0
    assert simulation.cycles == sizing.latency
    for got, want in zip(simulation.outputs, expected, strict=True):
        assert np.array_equal(got.ravel(), np.ravel(want))


def test_nothing_is_shared_where_the_part_is_large_enough(model) -> None:
    module = model[0].clone()
    function, part = find_function(module), find_part("xcu50")
    choice = select_function(function, Search(function, part, limits_of(part, 0.8)))
    assert not choice.intervals


def test_too_small_even_in_turn(model) -> None:
    module = model[0].clone()
    function, part = find_function(module), find_part("xcu50")
    with pytest.raises(CompileError, match="used in turn") as error:
        select_function(function, Search(function, part, limits_of(part, 0.8, 20, None)))
    assert "dsp" in str(error.value)


def test_multipliers_of_a_loop_that_starts_less_often(model) -> None:
    module = model[0].clone()
    maps = [op for op in module.walk() if isinstance(op, array_stream.MapOp)]
    op = max(maps, key=lambda op: max(_multipliers(op).values(), default=0))
    before = _multipliers(op)
    assert max(before.values()) > 1
    op.interval = IntegerAttr(3, i64)
    # Only operands of the same widths go to the same multiplier.
    assert _multipliers(op) == {widths: -(-count // 3) for widths, count in before.items()}


def _multipliers(op: array_stream.MapOp) -> dict[tuple[int, ...], int]:
    return {o.widths: o.count for o in operators_of(op) if o.kind == "mul"}


def test_engine_agrees_with_the_pace_of_a_shared_process(model) -> None:
    from inr.analysis.schedules import network_of

    module = model[0].clone()
    function, part = find_function(module), find_part("xcu50")
    choice = select_function(function, Search(function, part, limits_of(part, 0.8, 40, None)))
    ArrayStreamInsertCopiesPass().apply(Context(), module)
    network, _ = network_of(function)
    assert latency(network, unbounded(network)) >= choice.cycles
