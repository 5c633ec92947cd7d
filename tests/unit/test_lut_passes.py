"""Passes on layers of tables: what they keep, what they improve, what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from inr.analysis.lut_layer import lookup
from inr.dialects.inr import MatmulOp
from inr.dialects.lut import LinearOp, QuantAttr, SpecAttr
from inr.dialects.lut_constants import named_constant
from inr.dialects.lut_layers import layer_of
from inr.errors import CompileError
from inr.interpreters.graph import run_graph
from inr.passes.convert_matmul_to_lut import ConvertMatmulToLutPass
from inr.passes.graph_builder import GraphBuilder, tensor_of
from inr.passes.inr_cse import InrCsePass
from inr.passes.inr_fold_transpose import InrFoldTransposePass
from inr.passes.inr_simplify import InrSimplifyPass
from inr.passes.lut_expand_linear import LutExpandLinearPass
from inr.passes.lut_fuse_shared_input import LutFuseSharedInputPass
from inr.passes.lut_products import DENSE, QUANT, SPEC, Product, products
from inr.passes.lut_quantize import LutQuantizePass
from inr.passes.lut_refit import LutRefitPass
from inr.passes.lut_select_layers import LutSelectLayersPass, operations, output_error, run_with
from threadpoolctl import threadpool_limits
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

# Loaded here, so that the limit on threads below is one for its library too.
pytest.importorskip("sklearn.cluster")

ROWS, WIDTH, HIDDEN, OUT = 8, 10, 24, 3


def network(seed: int = 0) -> ModuleOp:
    """Two products by one input, a third behind a tanh of their sum; x alone is an argument."""
    rng = np.random.default_rng(seed)
    block = Block(arg_types=[tensor_of((ROWS, WIDTH))])
    (x,) = block.args
    x.name_hint = "x"
    b = GraphBuilder(Builder(InsertPoint.at_end(block)), UnknownLoc())

    def product(value, name: str, columns: int, bias: bool):
        height = value.type.get_shape()[1]
        weight = b.constant(rng.normal(size=(height, columns)) / height**0.5, f"{name}.weight")
        offset = b.constant(rng.normal(size=columns), f"{name}.bias") if bias else None
        return b.matmul(value, weight, offset)

    left, right = product(x, "q", HIDDEN, True), product(x, "k", HIDDEN, False)
    hidden = b.insert(math.TanhOp(b.add(left, right)))
    y = product(hidden, "out", OUT, True)
    b.builder.insert(ReturnOp(y))
    function = FuncOp("main", ([x.type], [y.type]), Region(block))
    module = ModuleOp([function])
    module.verify()
    return module


def inputs(count: int, seed: int = 1) -> np.ndarray:
    """Correlated rows, as activations are."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).normal(size=(3, WIDTH))
    return rng.normal(size=(count, 3)) @ mix + 0.1 * rng.normal(size=(count, WIDTH))


@pytest.fixture(scope="module")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("calibration") / "inputs.npz"
    np.savez(path, x=inputs(800))
    return str(path)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small products: threads that wait for each other take longer than the work."""
    with threadpool_limits(1):
        yield


def apply(module: ModuleOp, *passes: ModulePass) -> ModuleOp:
    for each in passes:
        each.apply(Context(), module)
        module.verify()
    return module


def linears(module: ModuleOp) -> dict[str, LinearOp]:
    return {op.name_in_model: op for op in module.walk() if isinstance(op, LinearOp)}


def error_of_output(module: ModuleOp) -> float:
    batches = [[inputs(ROWS, seed)] for seed in range(100, 120)]
    exact = [run_graph(network(), batch) for batch in batches]
    return output_error([run_graph(module, batch) for batch in batches], exact)


def error_on(rows: np.ndarray, op: LinearOp, exact: Product) -> float:
    """‖y - ŷ‖²/‖y‖² of a layer of tables and the product that it stands for, without the bias."""
    weight = exact.weight.astype(np.float32)
    target = rows @ weight + (0 if exact.bias is None else exact.bias)
    return float(np.sum((layer_of(op)(rows) - target) ** 2) / np.sum((rows @ weight) ** 2))


def test_what_is_said_of_a_conversion_is_so(calibration: str) -> None:
    module = apply(network(), ConvertMatmulToLutPass(calibration=calibration, vec=2, k=16))
    assert set(linears(module)) == {"q", "k", "out"}
    rows = inputs(4000, 7).astype(np.float32)
    exact = {p.name: p for p in products(_main(network()))}
    for name in ("q", "k"):
        op = linears(module)[name]
        layer, found = layer_of(op), error_on(rows, op, exact[name])
        assert op.error is not None
        stated = op.error.number("rel_mse")
        assert stated is not None
        # Other rows of the same kind: their error is near the one on held-out rows.
        assert 0.6 * stated < found < 1.6 * stated
        sums = lookup(layer.encode(rows), layer.table)
        assert op.error.acc == layer.range
        assert layer.range[0] <= sums.min()
        assert sums.max() <= layer.range[1]


def _main(module: ModuleOp) -> FuncOp:
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    return function


def test_more_centroids_and_shorter_sub_vectors_are_better(calibration: str) -> None:
    errors = [
        error_of_output(
            apply(network(), ConvertMatmulToLutPass(calibration=calibration, vec=v, k=k))
        )
        for v, k in ((5, 2), (5, 16), (1, 64))
    ]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_a_second_run_of_each_pass_is_idle(calibration: str) -> None:
    module = network()
    for each in (
        ConvertMatmulToLutPass(calibration=calibration, quantize=False),
        LutQuantizePass(),
        LutRefitPass(calibration=calibration),
        LutQuantizePass(bits=6),
        LutFuseSharedInputPass(),
        LutExpandLinearPass(),
    ):
        text = str(apply(module, each))
        assert str(apply(module, each)) == text


def test_floats_then_integers_are_integers_at_once(calibration: str) -> None:
    convert = ConvertMatmulToLutPass(calibration=calibration, bits=7)
    at_once = linears(apply(network(), convert))
    floats = apply(network(), replace(convert, quantize=False))
    assert all(op.quant is None for op in linears(floats).values())
    later = linears(apply(floats, LutQuantizePass(bits=7)))
    for name, op in at_once.items():
        a, b = layer_of(op), layer_of(later[name])
        assert np.array_equal(a.table, b.table)
        assert np.array_equal(a.scale, b.scale)
        assert op.error is not None
        error = later[name].error
        assert error is not None
        # At once it is known how often each code is met: the bias takes back what rounding adds.
        assert op.error.acc == error.acc
        assert 0 < error.number("q_bound") < op.error.number("q_bound")


def test_the_stated_bound_of_rounding_holds(calibration: str) -> None:
    floats = apply(
        network(), ConvertMatmulToLutPass(calibration=calibration, quantize=False, layers="^out$")
    )
    before = floats.clone()
    for bits in (8, 6, 4):
        apply(floats, LutQuantizePass(bits=bits))
        op = linears(floats)["out"]
        assert op.error is not None
        bound = op.error.number("q_bound")
        assert bound is not None
        largest = 0.0
        for seed in range(30):
            batch = [inputs(ROWS, seed)]
            apart = run_graph(floats, batch)[0] - run_graph(before, batch)[0]
            largest = max(largest, float(np.abs(apart).max()))
        assert 0 < largest <= bound * 1.00001


def test_refitting_is_better_on_rows_that_it_did_not_see(calibration: str) -> None:
    convert = ConvertMatmulToLutPass(calibration=calibration, vec=5, k=8, fit="kmeans")
    module = apply(network(), convert)
    rows = inputs(4000, 7).astype(np.float32)
    exact = {p.name: p for p in products(_main(network()))}

    def new_rows() -> list[float]:
        return [error_on(rows, linears(module)[name], exact[name]) for name in ("q", "k")]

    before, apart = error_of_output(module), new_rows()
    stated = {n: op.error for n, op in linears(module).items()}
    apply(module, LutRefitPass(calibration=calibration))
    # What reaches the output besides is chance: which code a row near two of them gets.
    assert error_of_output(module) < before
    assert all(now < 0.8 * then for now, then in zip(new_rows(), apart, strict=True))
    for name, op in linears(module).items():
        was = stated[name]
        assert op.error is not None
        assert was is not None
        now, then = op.error.number("rel_mse"), was.number("rel_mse")
        assert now is not None
        assert then is not None
        assert now <= then * 1.0001


def test_refitting_finds_what_the_conversion_finds(calibration: str) -> None:
    convert = ConvertMatmulToLutPass(calibration=calibration, vec=5, k=8, residual=1)
    at_once = linears(apply(network(), convert))
    later = apply(network(), replace(convert, fit="kmeans"), LutRefitPass(calibration=calibration))
    # What reaches the last layer is now what the tables before it make: only the first are as they
    # were.
    for name in ("q", "k"):
        a, b = at_once[name].error, linears(later)[name].error
        assert a is not None
        assert b is not None
        found, wanted = b.number("rel_mse"), a.number("rel_mse")
        assert found is not None
        assert wanted is not None
        assert found == pytest.approx(wanted, rel=1e-3)


def test_fused_layers_have_the_values_of_each(calibration: str) -> None:
    convert = ConvertMatmulToLutPass(calibration=calibration, weighted=False)
    module = apply(network(), convert)
    batch = [inputs(ROWS, 5)]
    before = run_graph(module, batch)[0]
    apply(module, LutFuseSharedInputPass())
    assert set(linears(module)) == {"q+k", "out"}
    fused = linears(module)["q+k"]
    assert layer_of(fused).out_features == 2 * HIDDEN
    assert fused.weight is not None
    assert np.array_equal(run_graph(module, batch)[0], before)
    # The weights went along, so the fused layer can be refitted.
    apply(module, LutRefitPass(calibration=calibration, layers="q"))


def test_weighted_searches_are_not_shared(calibration: str) -> None:
    module = apply(network(), ConvertMatmulToLutPass(calibration=calibration, weighted=True))
    text = str(module)
    assert str(apply(module, LutFuseSharedInputPass())) == text


def test_the_choice_keeps_its_budget_and_is_cheaper(calibration: str) -> None:
    choose = LutSelectLayersPass(
        budget=0.3, calibration=calibration, vec=(1, 2, 5), k=(4, 16), cost="operations"
    )
    module = apply(network(), choose)
    decided = {p.name: p for p in products(_main(module))}
    assert all(p.decided for p in decided.values())
    assert any(not p.dense for p in decided.values())
    text = str(module)
    assert str(apply(module, choose)) == text
    cost = 0
    for p in decided.values():
        spec = p.op.attributes.get(SPEC)
        settings = ConvertMatmulToLutPass().settings()
        if isinstance(spec, SpecAttr):
            settings = replace(settings, vec=spec.vec.data, centroids=spec.k.data)
        cost += operations(ROWS, *p.weight.shape, None if p.dense else settings)
    assert cost < sum(operations(ROWS, *p.weight.shape, None) for p in decided.values())
    apply(module, ConvertMatmulToLutPass(calibration=calibration))
    # Fitted to all rows now, and measured on others.
    assert 0 < error_of_output(module) < 0.35
    kept = [op for op in module.walk() if isinstance(op, MatmulOp)]
    assert all(DENSE in op.attributes for op in kept)


def test_a_budget_of_cost_takes_the_least_error_it_allows(calibration: str) -> None:
    errors = []
    for budget in (0.9, 0.6):
        choose = LutSelectLayersPass(
            budget=budget,
            limit="cost",
            calibration=calibration,
            vec=(1, 2, 5),
            k=(2, 4),
            cost="operations",
        )
        module = apply(network(), choose, ConvertMatmulToLutPass(calibration=calibration))
        errors.append(error_of_output(module))
    assert errors[0] < errors[1]
    with pytest.raises(
        CompileError, match=r"lut-select-layers: no choice of options.*the least is"
    ):
        apply(network(), replace(choose, budget=0.001))


def test_decisions_of_a_person_are_kept(calibration: str) -> None:
    module = network()
    q, k, out = products(_main(module))
    q.op.attributes[SPEC] = SpecAttr(5, 4, 2)
    k.op.attributes[QUANT] = QuantAttr(5)
    out.op.attributes[DENSE] = QuantAttr(8)
    choose = LutSelectLayersPass(budget=1, calibration=calibration, cost="operations")
    text = str(module)
    assert str(apply(module, choose)) == text
    apply(module, ConvertMatmulToLutPass(calibration=calibration, k=8))
    found = linears(module)
    assert (found["q"].spec, layer_of(found["k"]).bits) == (SpecAttr(5, 4, 2), 5)
    assert "out" not in found
    wrong = network()
    products(_main(wrong))[0].op.attributes[SPEC] = SpecAttr(5, 4, 3)
    with pytest.raises(CompileError, match=r"3 codebooks of 5 channels for 10 inputs; cb = 2"):
        apply(wrong, ConvertMatmulToLutPass(calibration=calibration))


def test_graph_passes_leave_tables_alone(calibration: str) -> None:
    module = apply(network(), ConvertMatmulToLutPass(calibration=calibration, vec=5, k=4))
    # A scale and a bias of equal numbers, which a graph pass would write as a broadcast.
    for op in linears(module).values():
        scale = named_constant(np.full(layer_of(op).out_features, 0.25, dtype=np.float32))
        Rewriter.replace_op(op, [scale, op.rebuilt(scale=scale.result)])
    batch = [inputs(ROWS, 5)]
    before = run_graph(module, batch)[0]
    apply(module, InrSimplifyPass(), InrCsePass(), InrFoldTransposePass())
    assert set(linears(module)) == {"q", "k", "out"}
    assert np.array_equal(run_graph(module, batch)[0], before)


def test_arguments_go_by_the_name_that_the_model_gives_them(tmp_path: Path) -> None:
    module = network()
    function = _main(module)
    function.arg_attrs = ArrayAttr([DictionaryAttr({"inr.name": StringAttr("pixels")})])
    products(function)[0].op.rhs.owner.attributes["inr.name"] = StringAttr("q.weight_scaled")
    np.savez(tmp_path / "two.npz", x=inputs(800), other=np.ones(2))
    with pytest.raises(CompileError, match=r"has x: 800x10, other: 2; main takes pixels: 8x10"):
        apply(module, ConvertMatmulToLutPass(calibration=str(tmp_path / "two.npz")))
    np.savez(tmp_path / "three.npz", pixels=inputs(800), other=np.ones(2))
    apply(module, ConvertMatmulToLutPass(calibration=str(tmp_path / "three.npz")))
    assert set(linears(module)) == {"q", "k", "out"}


def test_run_with_changes_nothing_of_its_module(calibration: str) -> None:
    module = network()
    text = str(module)
    batch = [inputs(ROWS, 3)]
    assert np.array_equal(run_with(module, "main", [batch], {})[0][0], run_graph(module, batch)[0])
    assert str(module) == text


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones((8, WIDTH))}, "q: 8 calibration rows, 6 to fit and 2 held out, for 16"),
        ({"x": np.full((40, WIDTH), np.nan)}, "q: 400 of 400 numbers of the calibration rows"),
        ({"x": np.ones((40, 7))}, "has x: 40x7; main takes x: 8x10, rows may be more"),
        ({"x": np.ones((4, WIDTH))}, "has x: 4x10; main takes x: 8x10, rows may be more"),
        ({"y": np.ones((40, WIDTH)), "z": np.ones(3)}, "has y: 40x10, z: 3; main takes x: 8x10"),
        ({}, "has no arrays; main takes x: 8x10"),
    ],
)
def test_unfit_calibration_is_refused_before_anything_changes(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, **arrays)
    module = network()
    text = str(module)
    with pytest.raises(CompileError, match=message):
        apply(module, ConvertMatmulToLutPass(calibration=str(path)))
    assert str(module) == text


def test_rows_by_position_where_names_say_nothing(tmp_path: Path, calibration: str) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, anything=inputs(800))
    a = apply(network(), ConvertMatmulToLutPass(calibration=str(path)))
    b = apply(network(), ConvertMatmulToLutPass(calibration=calibration))
    assert str(a) == str(b)


def test_constant_and_dead_channels_convert(tmp_path: Path) -> None:
    rows = inputs(400)
    rows[:, 4:] = 0.25
    path = tmp_path / "inputs.npz"
    np.savez(path, x=rows)
    module = apply(network(), ConvertMatmulToLutPass(calibration=str(path), vec=2))
    layer = layer_of(linears(module)["q"])
    exact = rows.astype(np.float32) @ products(_main(network()))[0].weight.astype(np.float32)
    bias = products(_main(network()))[0].bias
    assert bias is not None
    found = layer(rows.astype(np.float32)) - bias
    assert np.sum((found - exact) ** 2) < 0.1 * np.sum(exact**2)
