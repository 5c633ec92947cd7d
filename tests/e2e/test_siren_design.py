"""The reference network, a SIREN of 2-256x4-3 on 64 points: size of its graphs and accuracy."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from inr.analysis.graph_size import count_nodes  # noqa: E402
from inr.analysis.schedules import fifos_of  # noqa: E402
from inr.dialects import array_stream  # noqa: E402
from inr.errors import CompileError  # noqa: E402
from inr.frontend.importer import import_torch  # noqa: E402
from inr.frontend.spec import load_spec  # noqa: E402
from inr.interpreters.graph import find_function  # noqa: E402
from inr.interpreters.measure import measure_ranges  # noqa: E402
from inr.passes.array_stream_assign_formats import (  # noqa: E402
    Widths,
    assign_fixed,
    relative_errors,
    search_widths,
)
from inr.passes.array_stream_fuse import ArrayStreamFusePass  # noqa: E402
from inr.passes.array_stream_insert_copies import ArrayStreamInsertCopiesPass  # noqa: E402
from inr.passes.array_stream_size_fifos import set_depth  # noqa: E402
from inr.passes.convert_inr_to_array_stream import ConvertInrToArrayStreamPass  # noqa: E402
from inr.passes.inr_hls_pipeline import graph_passes  # noqa: E402
from inr.runtime.compiler import HlsOptions, check_certificate, compile_hls  # noqa: E402
from inr.runtime.simulate import build, run  # noqa: E402
from inr.runtime.toolchain import find_toolchain  # noqa: E402
from xdsl.context import Context  # noqa: E402

ZOO = Path(__file__).parents[2] / "examples" / "zoo"

LIMITS = {1: (80, 20), 2: (250, 52), 3: (1024, 130)}
"""Nodes and matrix products after common subexpressions are gone: at most these."""


@cache
def streams(order: int):
    """The design of an order at the value stage, its sizes on the way, inputs and reference."""
    spec = load_spec(f"{ZOO / 'siren.py'}:image")
    imported = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=order)
    inputs = [x.detach().double().numpy() for x in spec.example_inputs]
    module, sizes = imported.module, {}
    for each in graph_passes():
        each.apply(Context(), module)
        sizes.setdefault(each.name, count_nodes(module))
        sizes["last"] = count_nodes(module)
    for each in (ConvertInrToArrayStreamPass(), ArrayStreamFusePass()):
        each.apply(Context(), module)
    return module, sizes, inputs, imported.reference(inputs)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_graph_sizes(order: int) -> None:
    _, sizes, _, reference = streams(order)
    nodes, matmuls = sizes["inr-cse"]
    assert nodes <= LIMITS[order][0]
    assert matmuls <= LIMITS[order][1]
    assert sizes["last"][0] < nodes
    assert sizes["last"][1] < matmuls
    assert len(reference) == {1: 9, 2: 21, 3: 45}[order]


@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_transposes_and_no_copies_without_need(order: int) -> None:
    module = streams(order)[0].clone()
    ArrayStreamInsertCopiesPass().apply(Context(), module)
    module.verify()
    for op in find_function(module).body.block.ops:
        assert not isinstance(op, array_stream.TransposeOp)
        if isinstance(op, array_stream.CopyOp):
            assert len(op.outputs) >= 2
    # Weights are operands of products and of nothing else: none of them travels.
    weights = [
        use.operation
        for op in find_function(module).body.block.ops
        if op.name == "arith.constant" and np.prod(op.results[0].type.get_shape()) > 1024
        for use in op.results[0].uses
    ]
    assert weights
    assert all(isinstance(reader, array_stream.MatmulOp) for reader in weights)


@pytest.mark.parametrize(("activation", "weight", "bound"), [(32, 32, 5e-5), (27, 18, 5e-3)])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_accuracy(order: int, activation: int, weight: int, bound: float) -> None:
    module, _, inputs, reference = streams(order)
    module = module.clone()
    function = find_function(module)
    ranges = measure_ranges(module, [inputs])
    assign_fixed(function, ranges, Widths(activation, weight))
    errors = relative_errors(module, inputs, function, reference)
    assert max(errors) <= bound


def test_widths_for_a_tolerance() -> None:
    module, _, inputs, reference = streams(1)
    module = module.clone()
    function = find_function(module)
    ranges = measure_ranges(module, [inputs])
    found = search_widths(module, function, ranges, inputs, 1e-3)
    assign_fixed(function, ranges, found)
    assert max(relative_errors(module, inputs, function, reference)) <= 1e-3
    assert (found.activation, found.weight) < (27, 18)


def test_one_unit_of_one_weight_fails_the_testbench() -> None:
    spec = load_spec(f"{ZOO / 'siren.py'}:tiny")
    imported = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=1)
    inputs = [x.detach().double().numpy() for x in spec.example_inputs]
    compiled = compile_hls(
        imported.module, inputs, imported.reference(inputs), HlsOptions(samples=64)
    )
    assert compiled.simulation is not None
    assert compiled.simulation.status == 0
    texts = dict(compiled.texts)
    start = texts["weights.hpp"].index("layers_1_weight")
    value = re.compile(r"(?<=[ \n])-?\d{3,}(?=,)").search(texts["weights.hpp"], start)
    assert value is not None
    changed = str(int(value[0]) + 1)
    texts["weights.hpp"] = (
        texts["weights.hpp"][: value.start()] + changed + texts["weights.hpp"][value.end() :]
    )
    simulation = run(build(texts, find_toolchain()), compiled.design)
    assert simulation.status == 1
    assert "FAIL" in simulation.text
    assert "expected" in simulation.text


def test_certificate_is_held_against_the_depths_of_the_design() -> None:
    spec = load_spec(f"{ZOO / 'siren.py'}:tiny")
    imported = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=1)
    inputs = [x.detach().double().numpy() for x in spec.example_inputs]
    options = HlsOptions(samples=64, lanes=20, check=False)
    compiled = compile_hls(imported.module, inputs, imported.reference(inputs), options)
    function = find_function(compiled.module)
    check_certificate(function, compiled.sizing)
    deepest = max(fifos_of(function), key=lambda v: v.type.capacity)
    set_depth(deepest, deepest.type.capacity - 1)
    with pytest.raises(CompileError, match="certificate"):
        check_certificate(function, compiled.sizing)
