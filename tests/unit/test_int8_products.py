"""
Int8 products: the contract in NumPy, the operations, tiled programs in the interpreter, and whole
generated programs on emulated DPUs, all equal to the bit.
"""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.int8_layer import (
    LIMIT,
    MAX_INPUTS,
    Int8Layer,
    product,
    product_range,
    quantised,
    to_int8,
)
from inr.analysis.lut_layer import GRID, LutLayer
from inr.dialects import upmem
from inr.dialects.lut import DequantOp, Int8LinearOp, Lut, ToInt8Op
from inr.dialects.lut_constants import named_constant
from inr.dialects.lut_layers import lower_int8_layer
from inr.errors import CompileError
from inr.interpreters.lut import evaluate_lut
from inr.interpreters.upmem import run_upmem
from inr.lowering.hls_project import write_project
from inr.lowering.upmem_project import project_files
from inr.passes.convert_lut_to_upmem import ConvertLutToUpmemPass
from inr.runtime.deployment import UpmemOptions, tables_module, upmem_program
from inr.runtime.upmem_model import UpmemModel
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, TensorType, f32
from xdsl.dialects.func import Func
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.dialects.tensor import Tensor
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value


def random_layer(name: str, inputs: int, outputs: int, seed: int = 0, bias: bool = True):
    """A layer of random weights, some of them as large as they can be."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(inputs, outputs)).astype(np.float32)
    return quantised(name, weight, rng.normal(size=outputs) if bias else None, 3.0)


def inputs_of(layer: Int8Layer, rows: int) -> np.ndarray:
    """Activations of which some are clipped, some lie halfway, and one is no number."""
    rng = np.random.default_rng(rows)
    x = rng.normal(scale=2.0, size=(rows, layer.in_features)).astype(np.float32)
    flat = x.reshape(-1)
    flat[::5] = np.float32(layer.step) * (rng.integers(-130, 130, flat[::5].shape) + 0.5)
    flat[0] = np.nan
    flat[-1] = np.inf
    return x


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=20),
    st.floats(0.0009765625, 1024.0, width=32),
)
def test_rounding_is_the_nearest_byte(values: list[float], step: float) -> None:
    x = np.array([values], dtype=np.float32)
    found = to_int8(x, step)
    for value, byte in zip(x[0], found[0], strict=True):
        scaled = float(np.float32(value) * (np.float32(1) / np.float32(step)))
        assert abs(byte) <= LIMIT
        if abs(scaled) < LIMIT:
            assert byte == round(scaled)  # Python rounds halves to even as well.
        else:
            assert byte == (LIMIT if scaled > 0 else -LIMIT)


def test_halves_extremes_and_what_is_no_number() -> None:
    x = np.array([[0.5, 1.5, -0.5, -2.5, 126.5, 200, -200, np.nan, np.inf, -np.inf]], np.float32)
    assert to_int8(x, 1.0).tolist() == [[0, 2, 0, -2, 126, 127, -127, 0, 127, -127]]


def test_bounds_are_attained() -> None:
    weight = np.random.default_rng(0).integers(-127, 128, (50, 7)).astype(np.int8)
    low, high = product_range(weight)
    worst = np.abs(weight.astype(int)).sum(axis=0).argmax()
    a = (np.sign(weight[:, worst].astype(int)) * LIMIT).astype(np.int8)[None]
    assert product(a, weight).max() == high
    assert product(-a, weight).min() == low


def test_the_error_is_that_of_two_roundings() -> None:
    rng = np.random.default_rng(1)
    weight = rng.normal(size=(200, 30)).astype(np.float32)
    weight[:, 4] = 0
    bias = rng.normal(size=30).astype(np.float32)
    x = rng.normal(size=(100, 200)).astype(np.float32)
    layer = quantised("fc", weight, bias, float(np.abs(x).max()))
    exact = x @ weight + bias
    error = np.square(layer(x) - exact).sum() / np.square(exact).sum()
    assert error < 1e-3
    assert np.array_equal(layer(x)[:, 4], np.broadcast_to(bias[4], 100))


def test_layers_that_cannot_be() -> None:
    weight, scale = np.ones((3, 2), np.int8), np.ones(2, np.float32)
    for arguments, message in (
        ((weight[0], 1.0, scale), "H×F is needed"),
        ((weight.astype(np.int16), 1.0, scale), "bytes within"),
        ((np.full((3, 2), -128, np.int8), 1.0, scale), "bytes within"),
        ((weight, 0.0, scale), "a step of 0"),
        ((weight, float("nan"), scale), "a step of nan"),
        ((weight, 1.0, scale[:1]), "1 scales for 2 outputs"),
        ((weight, 1.0, scale, np.ones(3, np.float32)), "a bias of 3 for 2"),
        ((np.ones((MAX_INPUTS + 1, 1), np.int8), 1.0, scale[:1]), "overflow a sum of 32 bits"),
    ):
        with pytest.raises(CompileError, match=message):
            Int8Layer("fc", *arguments)
    with pytest.raises(CompileError, match="finite"):
        quantised("fc", np.full((2, 2), np.nan), None, 1.0)
    with pytest.raises(CompileError, match="finite"):
        quantised("fc", np.ones((2, 2)), None, float("inf"))


def test_the_operation_is_the_layer() -> None:
    layer = random_layer("fc", 20, 6)
    x = inputs_of(layer, 9)
    value = create_ssa_value(TensorType(f32, x.shape))
    *constants, op = lower_int8_layer(layer, value)
    assert isinstance(op, Int8LinearOp)
    op.verify()
    arrays = [layer.weight, layer.scale, layer.bias]
    step = np.array([layer.step], np.float32)
    (found,) = evaluate_lut(op, (x, step, *arrays))
    assert np.array_equal(found, layer(x).astype(np.float64))
    rounded = ToInt8Op(value, constants[0])
    rounded.verify()
    (codes,) = evaluate_lut(rounded, (x, step))
    assert np.array_equal(codes, layer.encode(x))
    # All constants: folded.
    known = named_constant(x)
    folded = Int8LinearOp(known, *constants).fold()
    assert folded is not None
    assert len(folded) == 1


def test_operations_that_cannot_be() -> None:
    layer = random_layer("fc", 20, 6)
    x = create_ssa_value(TensorType(f32, (4, 20)))
    step, weight, scale, bias = (op.results[0] for op in lower_int8_layer(layer, x)[:-1])
    other = create_ssa_value(TensorType(f32, (4, 21)))
    outside = named_constant(np.full((20, 6), -128, np.int8))
    none = named_constant(np.zeros(1, np.float32))
    for op, message in (
        (Int8LinearOp(other, step, weight, scale), "a weight of 20 rows for 21 inputs"),
        (Int8LinearOp(x, step, outside, scale), "a weight is -128"),
        (Int8LinearOp(x, none, weight, scale), "a step of 0"),
        (Int8LinearOp(x, scale, weight, scale), "the step has shape 6, not 1"),
        (Int8LinearOp(x, step, weight, step), "the scale has shape 1, not 6"),
        (Int8LinearOp(x, step, weight, scale, step), "the bias has shape 1, not 6"),
        (ToInt8Op(x, none), "a step of 0"),
    ):
        with pytest.raises(VerifyException, match=message):
            op.verify()
    assert bias is not None


LAYERS = [random_layer("query", 30, 50), random_layer("output", 50, 30, 1, bias=False)]
MAPPINGS = [
    "ip=1 lp=1",
    "ip=6 lp=2 groups=2",
    "ip=3 lp=1 split_cb=2 groups=3 residency=per_call",
    "ip=2 lp=2 residency=per_call load=static order=cfn",
    "ip=2 lp=2 n_m=5 f_m=8 c_m=8 f_l=8 c_l=4 order=fcn tasklets=4",
]


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_tiled_programs_mean_the_same(mapping: str) -> None:
    module = tables_module(LAYERS[:1], 23)
    ConvertLutToUpmemPass(mapping=mapping).apply(Context(), module)
    module.verify()
    assert any(isinstance(op, ToInt8Op) for op in module.walk())
    assert any(isinstance(op, DequantOp) for op in module.walk())
    assert any(isinstance(op, upmem.Int8AccumulateOp) for op in module.walk())
    for rows in (1, 22, 23):
        x = np.zeros((23, 30), np.float32)
        x[:rows] = inputs_of(LAYERS[0], rows)
        (found,) = run_upmem(module, [x], "layer0", rows)
        assert np.array_equal(found[:rows], LAYERS[0](x[:rows]))


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INR_DPU_CHECK", "all")


def check(model: UpmemModel, layer: Int8Layer, rows: int) -> None:
    """Sums and outputs to the bit."""
    x = inputs_of(layer, rows)
    codes = layer.encode(x)
    assert np.array_equal(model.sums(layer.name, codes), product(codes, layer.weight))
    assert np.array_equal(model.run(layer.name, x), layer(x))


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_programs_on_dpus(mapping: str) -> None:
    options = UpmemOptions(rows=23, mapping=mapping)
    with UpmemModel(upmem_program(LAYERS[:1], "net", options)) as model:
        for rows in (1, 22, 23, 50):
            check(model, LAYERS[0], rows)


def tables(inputs: int, outputs: int) -> LutLayer:
    """A layer of random tables."""
    rng = np.random.default_rng(5)
    blocks = -(-inputs // 4)
    return LutLayer(
        "tables",
        inputs,
        rng.integers(-GRID, GRID + 1, (blocks, 16, 4)).astype(np.int16),
        rng.uniform(1e-3, 2e-3, blocks).astype(np.float32),
        rng.integers(-127, 128, (blocks, 16, outputs)).astype(np.int8),
        rng.uniform(1e-3, 1e-2, outputs).astype(np.float32),
    )


def test_products_and_tables_in_one_program_by_the_tuner(tmp_path: Path) -> None:
    both = [*LAYERS, tables(30, 20)]
    host = upmem_program(both, "net", UpmemOptions(dpus=8, rows=40))
    rebuilt = host.layers[0].int8_layer()
    assert np.array_equal(rebuilt.weight, LAYERS[0].weight)
    assert rebuilt.step == LAYERS[0].step
    with UpmemModel(host) as model:
        for rows in (1, 7, 40, 93):
            for layer in LAYERS:
                check(model, layer, rows)
            x = np.random.default_rng(rows).normal(size=(rows, 30)).astype(np.float32)
            assert np.array_equal(model.run("tables", x), both[2](x))
        with pytest.raises(CompileError, match="an activation of -128"):
            model.sums("query", np.full((1, 30), -128))
        with pytest.raises(CompileError, match="activations of N×30"):
            model.sums("query", np.zeros((1, 31)))
    folder = tmp_path / "net"
    write_project(project_files(host), folder, headers=False)
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "INR_DPU_CHECK": "all"}
    done = subprocess.run(
        ["make", "check"], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sums equal") == 3


def test_mappings_that_do_not_fit() -> None:
    for mapping, message in (
        ("variant=swar16", "variant"),
        ("load=fine", "load"),
        ("out=i16", "sum"),
        ("f_l=16", "f_l"),
    ):
        with pytest.raises(CompileError, match=message):
            upmem_program(LAYERS[:1], "net", UpmemOptions(dpus=2, rows=8, mapping=mapping))


def test_the_text_of_a_program_can_be_read_again() -> None:
    module = tables_module(LAYERS, 8)
    ConvertLutToUpmemPass(dpus=2).apply(Context(), module)
    text = StringIO()
    Printer(text).print_op(module)
    context = Context()
    for dialect in (Arith, Builtin, Func, MemRef, Scf, Tensor, Lut, upmem.Upmem):
        context.load_dialect(dialect)
    again = Parser(context, text.getvalue()).parse_module()
    again.verify()
    assert again.is_structurally_equivalent(module)
