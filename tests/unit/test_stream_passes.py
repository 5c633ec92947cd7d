"""Stream-level passes on graphs that are made to provoke them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import inr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.formats import stream_format
from inr.analysis.intervals import bound_ranges
from inr.dialects import array_stream
from inr.dialects.array_stream import STAGE, FixedType, stream_type
from inr.errors import CompileError
from inr.interpreters.arrays import to_dense
from inr.interpreters.measure import measure_ranges, sample_inputs
from inr.interpreters.stream import run_streams
from inr.passes.array_stream_assign_formats import (
    WIDTHS,
    ArrayStreamAssignFormatsPass,
    load_calibration,
    output_streams,
    relative_errors,
)
from inr.passes.array_stream_fuse import ArrayStreamFusePass, sort_topologically
from inr.passes.convert_inr_to_array_stream import ConvertInrToArrayStreamPass
from inr.passes.inr_hls_pipeline import InrHlsPipelinePass, graph_passes
from inr.universe import INR_UNIVERSE
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import Builtin, ModuleOp, StringAttr, TensorType, f64
from xdsl.dialects.func import Func, FuncOp, ReturnOp
from xdsl.dialects.test import TestOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.rewriter import Rewriter

CONTEXT = Context()
SIREN = Path(inr.__path__[0]) / "tests" / "lit" / "targets" / "Inputs" / "siren_order1.mlir"


def function_of(module: ModuleOp) -> FuncOp:
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def siren() -> ModuleOp:
    """A small SIREN and its gradient at the value stage."""
    context = Context()
    for dialect in (arith.Arith, Builtin, Func):
        context.load_dialect(dialect)
    for name, factory in INR_UNIVERSE.all_dialects.items():
        context.register_dialect(name, factory)
    module = Parser(context, SIREN.read_text()).parse_module()
    for each in (*graph_passes(), ConvertInrToArrayStreamPass(), ArrayStreamFusePass()):
        each.apply(CONTEXT, module)
    return module


def assert_in_order(block: Block) -> None:
    """Every operation stands behind those whose results it reads."""
    done: set[Operation] = set()
    for op in block.ops:
        assert all(not isinstance(v.owner, Operation) or v.owner in done for v in op.operands)
        done.add(op)


def products(random: Random, count: int) -> ModuleOp:
    """Sums and products by three weights, of values at random, most of which are results."""
    block = Block(arg_types=[TensorType(f64, (2, 2))] * 2)
    values: list[SSAValue] = []

    def add(op: Operation) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    values += [add(array_stream.ReadOp(a)) for a in block.args]
    rng = np.random.default_rng(0)
    weights = [add(arith.ConstantOp(to_dense(rng.uniform(-1, 1, (2, 2))))) for _ in range(3)]
    bias = add(arith.ConstantOp(to_dense(rng.uniform(-1, 1, 2))))
    for _ in range(count):
        if random.random() < 0.6:
            op = array_stream.MatmulOp(
                [random.choice(values)], random.choice(weights), random.choice([None, bias])
            )
        else:
            op = array_stream.MapOp(
                [random.choice(values), random.choice(values)], [stream_type(values[0])]
            )
            total = arith.AddfOp(*op.body.block.args)
            op.body.block.add_ops([total, array_stream.YieldOp(total.result)])
        values.append(add(op))
    results = [add(array_stream.WriteOp(v)) for v in values[2:] if random.random() < 0.8]
    results.append(add(array_stream.WriteOp(values[-1])))
    block.add_op(ReturnOp(*results))
    function = FuncOp("f", ([a.type for a in block.args], [v.type for v in results]), Region(block))
    function.attributes[STAGE] = StringAttr("value")
    return ModuleOp([function])


@settings(deadline=None, max_examples=60)
@given(random=st.randoms(use_true_random=False), count=st.integers(1, 25))
def test_shared_weights_make_no_cycle(random: Random, count: int) -> None:
    module = products(random, count)
    inputs = [np.arange(4.0).reshape(2, 2), np.eye(2)]
    want = run_streams(module, inputs)
    ArrayStreamFusePass(chains=False, sincos=False).apply(CONTEXT, module)
    module.verify()
    block = function_of(module).body.block
    assert_in_order(block)
    for got, expected in zip(run_streams(module, inputs), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    # Products of one weight and bias at one depth are one process.
    depth: dict[Operation, int] = {}
    seen: set[tuple[object, ...]] = set()
    for op in block.ops:
        before = [depth[v.owner] for v in op.operands if isinstance(v.owner, Operation)]
        is_product = isinstance(op, array_stream.MatmulOp)
        depth[op] = max(before, default=0) + is_product
        if isinstance(op, array_stream.MatmulOp):
            key = (op.weights, op.bias, depth[op])
            assert key not in seen
            seen.add(key)


def test_shared_weight_takes_the_inputs_in_order() -> None:
    module = products(Random(0), 0)
    function = function_of(module)
    block = function.body.block
    x, y = (op.stream for op in block.ops if isinstance(op, array_stream.ReadOp))
    weights = next(op for op in block.ops if isinstance(op, arith.ConstantOp)).result
    first, second = (array_stream.MatmulOp([v], weights) for v in (y, x))
    last = block.last_op
    assert isinstance(last, ReturnOp)
    writes = [array_stream.WriteOp(op.outputs[0]) for op in (first, second)]
    block.insert_ops_before([first, second, *writes], last)
    Rewriter.replace_op(last, ReturnOp(*(w.memory for w in writes)))
    ArrayStreamFusePass().apply(CONTEXT, module)
    (merged,) = (op for op in block.ops if isinstance(op, array_stream.MatmulOp))
    assert tuple(merged.inputs) == (y, x)
    assert [w.stream for w in writes] == list(merged.outputs)


@settings(deadline=None, max_examples=60)
@given(random=st.randoms(use_true_random=False), count=st.integers(0, 30))
def test_sort_topologically(random: Random, count: int) -> None:
    ops: list[Operation] = []
    for _ in range(count):
        reads = random.sample(ops, min(len(ops), random.randint(0, 3)))
        ops.append(TestOp([op.results[0] for op in reads], [f64]))
    sorted_block = Block(ops)
    sort_topologically(sorted_block)
    assert list(sorted_block.ops) == ops, "what is in order stays where it is"
    for op in ops:
        op.detach()
    shuffled = random.sample(ops, len(ops))
    block = Block(shuffled)
    sort_topologically(block)
    assert_in_order(block)
    assert set(block.ops) == set(ops)


def test_chains_of_a_network_fuse_to_one_map_a_layer() -> None:
    block = function_of(siren()).body.block
    kinds = [type(op) for op in block.ops]
    assert kinds.count(array_stream.MatmulOp) == 5
    assert array_stream.TransposeOp not in kinds
    maps = [op for op in block.ops if isinstance(op, array_stream.MapOp)]
    bodies = [[type(inner).__name__ for inner in op.body.block.ops] for op in maps]
    assert bodies.count(["SinCosOp", "YieldOp"]) == 2
    assert bodies.count(["MulfOp", "YieldOp"]) == 2
    assert len(bodies) == 4


@pytest.mark.parametrize("domain", [(-1.0, 1.0), (0.0, 0.25), (0.5, 0.5000001)])
def test_bounds_of_a_siren_and_its_gradient(domain: tuple[float, float]) -> None:
    module = siren()
    function = function_of(module)
    bounds = bound_ranges(function, domain)
    measured = measure_ranges(module, sample_inputs(function, [domain], 4000))
    assert measured.keys() <= bounds.keys()
    for value, peak in measured.items():
        assert peak <= bounds[value] < np.inf
    if domain[1] - domain[0] < 1e-3:
        # Nearly a point: nearly the value.
        for value, peak in measured.items():
            assert bounds[value] <= 1.01 * peak + 1e-3


def test_interval_formats_never_saturate() -> None:
    module = siren()
    ArrayStreamAssignFormatsPass(mode="interval", activation=30, weight=24).apply(CONTEXT, module)
    function = function_of(module)
    inputs = next(sample_inputs(function, [(-1.0, 1.0)], 8, seed=5))
    reference = run_streams(module, inputs)
    assert max(relative_errors(module, inputs, function, reference)) < 1e-4


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_widths_for_a_tolerance(tolerance: float) -> None:
    module = siren()
    function = function_of(module)
    read = function.body.block.first_op
    assert isinstance(read, array_stream.ReadOp)
    given = FixedType(33, 4)
    Rewriter.replace_value_with_new_type(read.stream, stream_type(read.stream).with_element(given))
    ArrayStreamAssignFormatsPass(tolerance=tolerance).apply(CONTEXT, module)
    assert stream_type(read.stream).element == given, "a format that is there is kept"
    activation, weight = (w.data for w in function.attributes[WIDTHS])
    for stream in output_streams(function):
        assert stream_format(stream).width == activation
    inputs = next(sample_inputs(function, [(-1.0, 1.0)], 512))
    reference = run_streams(module, inputs)
    assert max(relative_errors(module, inputs, function, reference)) <= tolerance
    # Four bits less of either would miss it: the widths are not wider than they need to be.
    for narrow in ({"activation": activation - 4}, {"weight": weight - 4}):
        other = siren()
        widths = {"activation": activation, "weight": weight, **narrow}
        ArrayStreamAssignFormatsPass(**widths).apply(CONTEXT, other)
        assert max(relative_errors(other, inputs, function_of(other), reference)) > tolerance


def test_pipeline_is_idempotent() -> None:
    module = siren()
    InrHlsPipelinePass().apply(CONTEXT, module)
    once = str(module)
    InrHlsPipelinePass().apply(CONTEXT, module)
    assert str(module) == once


@pytest.mark.parametrize(
    ("shape", "message"), [((8, 3), "needs \\(8, 2\\)"), ((7, 2), "needs \\(8, 2\\)")]
)
def test_calibration_that_does_not_fit(
    tmp_path: Path, shape: tuple[int, ...], message: str
) -> None:
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.zeros(shape))
    with pytest.raises(CompileError, match=message):
        load_calibration(str(path), function_of(siren()))


def test_calibration_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    samples = np.arange(40.0).reshape(20, 2)
    np.savez(path, x=samples)
    batches = load_calibration(str(path), function_of(siren()))
    assert len(batches) == 2
    np.testing.assert_array_equal(np.concatenate([b[0] for b in batches]), samples[:16])
