"""The `lut` dialect: layers to operations and back, parts and whole, bounds, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.lut_layer import GRID, LutLayer, accumulator_range, lookup, table_limit
from inr.dialects.lut import (
    ErrorAttr,
    LinearOp,
    LookupOp,
    Lut,
    QuantAttr,
    SpecAttr,
    sum_range,
)
from inr.dialects.lut_constants import (
    constant_array,
    dense_array,
    dense_attribute,
    named_constant,
)
from inr.dialects.lut_layers import layer_of, lower_layer
from inr.dialects.lut_patterns import expand
from inr.errors import CompileError
from inr.interpreters.graph import run_graph
from inr.universe import INR_UNIVERSE
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp, TensorType, f32, f64, i16, i32
from xdsl.dialects.func import Func, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.utils.exceptions import VerifyException


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, Func, Lut):
        ctx.load_dialect(dialect)
    for name in ("arith", "tensor", "inr"):
        ctx.register_dialect(name, _all_dialects()[name])
    return ctx


def _all_dialects() -> dict[str, Any]:
    from xdsl.universe import Universe

    return {**Universe.get_multiverse().all_dialects, **INR_UNIVERSE.all_dialects}


def random_layer(rng: np.random.Generator, residual: int = 0, **given: Any) -> LutLayer:
    width = given.get("width", int(rng.integers(1, 20)))
    vec = given.get("vec", int(rng.integers(1, 6)))
    count, columns = int(rng.integers(1, 20)), int(rng.integers(1, 9))
    bits = given.get("bits", int(rng.integers(2, 9)))
    blocks = -(-width // vec)
    limit = table_limit(bits)
    channels = np.sort(rng.permutation(width)[:residual]).astype(np.int32) if residual else None
    return LutLayer(
        name="block.fc1",
        in_features=width,
        centroids=rng.integers(-GRID, GRID + 1, (blocks, count, vec)).astype(np.int16),
        steps=rng.uniform(1e-3, 2, blocks).astype(np.float32),
        table=rng.integers(-limit, limit + 1, (blocks, count, columns)).astype(np.int8),
        scale=rng.uniform(1e-3, 1, columns).astype(np.float32),
        bias=rng.normal(size=columns).astype(np.float32) if rng.random() < 0.5 else None,
        bits=bits,
        channels=channels,
        residual=None
        if channels is None
        else rng.normal(size=(len(channels), columns)).astype("f4"),
    )


def module_of(layer: LutLayer, rows: int, element: Any = f64) -> tuple[ModuleOp, LinearOp]:
    block = Block(arg_types=[TensorType(element, (rows, layer.in_features))])
    ops = lower_layer(layer, block.args[0])
    block.add_ops([*ops, ReturnOp(ops[-1])])
    linear = ops[-1]
    assert isinstance(linear, LinearOp)
    function = FuncOp("main", ([block.args[0].type], [linear.result.type]), Region(block))
    module = ModuleOp([function])
    module.verify()
    return module, linear


def same(a: LutLayer, b: LutLayer) -> bool:
    def equal(x: Any, y: Any) -> bool:
        if x is None or y is None:
            return x is y
        return x.dtype == y.dtype and np.array_equal(x, y)

    arrays = ("centroids", "steps", "table", "scale", "bias", "channels", "residual")
    return (a.name, a.in_features, a.bits) == (b.name, b.in_features, b.bits) and all(
        equal(getattr(a, key), getattr(b, key)) for key in arrays
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_a_layer_is_its_operation_and_back(seed: int, residual: int) -> None:
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, residual=residual)
    module, linear = module_of(layer, 5)
    assert same(layer, layer_of(linear))
    again = Parser(context(), str(module)).parse_module()
    parsed = next(op for op in again.walk() if isinstance(op, LinearOp))
    assert same(layer, layer_of(parsed))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2), st.booleans())
def test_parts_have_the_value_of_the_whole_and_join_again(
    seed: int, residual: int, narrow: bool
) -> None:
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, residual=residual)
    element = f32 if rng.random() < 0.5 else f64
    module, linear = module_of(layer, 7, element)
    x = rng.normal(0, 500, (7, layer.in_features))
    (whole,) = run_graph(module, [x])
    assert np.array_equal(whole, layer(x.astype(np.float32)))
    parts = expand(linear, narrow=narrow)
    block = linear.parent
    assert block is not None
    block.insert_ops_before(parts, linear)
    linear.result.replace_all_uses_with(parts[-1].results[0])
    block.erase_op(linear)
    module.verify()
    (apart,) = run_graph(module, [x])
    assert np.array_equal(whole, apart)
    CanonicalizePass().apply(context(), module)
    joined = [op for op in module.walk() if isinstance(op, LinearOp)]
    # Sums in i16 stay apart, and a lookup in nothing but zeros is folded before.
    if layer.table.any() and not (narrow and layer.range[0] >= -(2**15) and layer.range[1] < 2**15):
        assert same(layer_of(joined[0]), layer)
    (after,) = run_graph(module, [x])
    assert np.array_equal(whole, after)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_verifiers_bound_is_attained_and_one_less_is_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layer = random_layer(rng)
    table = named_constant(layer.table)
    low, high, known = sum_range(table.result, QuantAttr(layer.bits))
    assert known
    column = np.argmax(layer.table.astype(int).max(axis=1).sum(axis=0))
    best = np.argmax(layer.table[:, :, column], axis=1).astype(np.uint8)[None]
    assert max(0, lookup(best, layer.table).max()) == high
    column = np.argmin(layer.table.astype(int).min(axis=1).sum(axis=0))
    worst = np.argmin(layer.table[:, :, column], axis=1).astype(np.uint8)[None]
    assert min(0, lookup(worst, layer.table).min()) == low
    indices = named_constant(best)
    stated = ErrorAttr(acc=(low, high))
    LookupOp(indices, table, QuantAttr(layer.bits), error=stated).verify()
    if high > 0:
        short = ErrorAttr(acc=(low, high - 1))
        with pytest.raises(VerifyException, match=rf"sums reach \[{low}, {high}\], outside acc"):
            LookupOp(indices, table, QuantAttr(layer.bits), error=short).verify()


def test_a_million_lookups_stay_within_the_stated_range() -> None:
    rng = np.random.default_rng(6)
    blocks, count, columns = 6, 16, 3
    # Lopsided columns, so that the two ends of the range differ.
    table = rng.integers(-127, 40, (blocks, count, columns)).astype(np.int8)
    low, high, _ = sum_range(named_constant(table).result, QuantAttr(8))
    sums = lookup(rng.integers(0, count, (10**6, blocks)).astype(np.uint8), table)
    assert low <= sums.min() < 0 < sums.max() <= high
    # So many draws of six entries come near the low end.
    assert sums.min() < 0.8 * low


def test_sixteen_bits_where_the_table_proves_them() -> None:
    blocks = 300
    table = np.full((blocks, 2, 1), 127, dtype=np.int8)
    indices = named_constant(np.zeros((1, blocks), dtype=np.uint8))
    too_much = named_constant(table)
    with pytest.raises(VerifyException, match=r"sums reach \[0, 38100\]; i16 holds"):
        LookupOp(indices, too_much, QuantAttr(8), i16).verify()
    table[42:] = 0
    proved = named_constant(table)
    op = LookupOp(indices, proved, QuantAttr(8), i16)
    op.verify()
    assert op.evaluate(lambda v: _constant(v))[0].tolist() == [[127 * 42]]
    assert op.evaluate(lambda v: _constant(v))[0].dtype == np.int16


def _constant(value: SSAValue) -> np.ndarray:
    array = constant_array(value)
    assert array is not None
    return array


@pytest.mark.parametrize("dtype", ["<u1", "<i1", "<i2", "<i4", "<i8", "<f4", "<f8"])
def test_arrays_and_attributes_are_the_same_bytes(dtype: str) -> None:
    rng = np.random.default_rng(3)
    raw = rng.integers(0, 256, 96 * np.dtype(dtype).itemsize, dtype=np.uint8)
    values = np.nan_to_num(raw.tobytes() and np.frombuffer(raw.tobytes(), dtype)).reshape(4, 6, 4)
    attribute = dense_attribute(values)
    assert dense_array(attribute).dtype == np.dtype(dtype)
    assert np.array_equal(dense_array(attribute), values)
    # A transposed array is not contiguous, and a hundred numbers and more are printed as bytes.
    wide = np.concatenate([values, values], axis=0).T
    module = ModuleOp([named_constant(wide, "w")])
    again = Parser(context(), str(module)).parse_module()
    (op,) = again.ops
    assert np.array_equal(_constant(op.results[0]), wide)


def test_an_empty_input_has_an_empty_output() -> None:
    layer = random_layer(np.random.default_rng(1), width=6, vec=4)
    module, _ = module_of(layer, 0)
    (found,) = run_graph(module, [np.zeros((0, 6))])
    assert found.shape == (0, layer.out_features)


def test_a_layer_of_floats_or_of_computed_parts_has_no_data() -> None:
    layer = random_layer(np.random.default_rng(2), width=6, vec=4)
    _, linear = module_of(layer, 3)
    numbers = named_constant(layer.table.astype(np.float32))
    floats = linear.rebuilt(table=numbers.result, scale=None, quant=None)
    floats.verify()
    with pytest.raises(CompileError, match=r"block\.fc1 is of floats; lut-quantize"):
        layer_of(floats)
    block = Block(arg_types=[linear.table.type])
    computed = linear.rebuilt(table=block.args[0])
    with pytest.raises(CompileError, match=r"the table of block\.fc1 is no constant"):
        layer_of(computed)


def test_one_scale_for_a_table_is_one_a_column() -> None:
    layer = random_layer(np.random.default_rng(4), width=6, vec=4)
    _, linear = module_of(layer, 3)
    scale = named_constant(np.float32([0.25]))
    one = linear.rebuilt(scale=scale.result, quant=QuantAttr(layer.bits, "per_tensor"))
    one.verify()
    assert layer_of(one).scale.tolist() == [0.25] * layer.out_features
    assert accumulator_range(layer_of(one).table) == layer.range


def test_attributes_keep_what_they_were_given() -> None:
    error = ErrorAttr(0.123456789, None, 1e-7, (-3, 4))
    assert (error.number("vq_rel_mse"), error.number("rel_mse")) == (0.123457, None)
    for attribute in (error, ErrorAttr(), QuantAttr(6, "per_tensor"), SpecAttr(4, 16, 3)):
        assert Parser(context(), str(attribute)).parse_attribute() == attribute
    with pytest.raises(VerifyException, match="rel_mse = inf"):
        ErrorAttr(rel_mse=float("inf"))


def test_the_sum_type_of_a_table_of_integers_is_checked() -> None:
    layer = random_layer(np.random.default_rng(5), width=6, vec=4)
    operations: list[Operation] = lower_layer(
        layer, Block(arg_types=[TensorType(f64, (2, 6))]).args[0]
    )
    table = operations[2].results[0]
    indices = named_constant(np.zeros((2, 2), dtype=np.uint8))
    LookupOp(indices, table, QuantAttr(layer.bits), i32).verify()
    with pytest.raises(VerifyException, match="entries of i8 do not add up to f32"):
        LookupOp(indices, table, QuantAttr(layer.bits), f32).verify()
