"""Values of `lut` operations in the interpreter, against formulas written out for one number."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.lut_values import requantise
from inr.dialects.lut import BuildTableOp, EncodeOp, EncodeTreeOp, LookupOp, QuantAttr, RequantOp
from inr.dialects.lut_constants import element_type
from inr.errors import CompileError
from inr.interpreters.graph import run_graph
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, i8, i16, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue


def run(build: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of one operation, built from values, on arrays that reach it as arguments."""
    types = [TensorType(element_type(a.dtype), a.shape) for a in arrays]
    block = Block(arg_types=types)
    op: Operation = build(*block.args)
    block.add_ops([op, ReturnOp(*op.results)])
    module = ModuleOp([FuncOp("main", (types, [r.type for r in op.results]), Region(block))])
    module.verify()
    return run_graph(module, list(arrays))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_search_is_the_nearest_point_of_the_grid_lowest_of_equal_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, width, vec = 4, int(rng.integers(1, 9)), int(rng.integers(1, 4))
    blocks, count = -(-width // vec), int(rng.integers(1, 9))
    # Few distinct coordinates, so that several centroids are equally near, and twice the same.
    centroids = rng.integers(-3, 4, (blocks, count, vec)).astype(np.int16)
    steps = np.float32(2.0) ** rng.integers(-3, 3, blocks).astype(np.float32)
    x = rng.integers(-9, 10, (rows, width)) / 4
    (found,) = run(EncodeOp, x.astype(np.float64), centroids, steps)
    assert found.dtype == np.uint8
    padded = np.zeros((rows, blocks * vec))
    padded[:, :width] = x
    for n in range(rows):
        for b in range(blocks):
            part = padded[n, b * vec : (b + 1) * vec]
            q = [round(Fraction(float(v)) / Fraction(float(steps[b]))) for v in part]
            scores = [
                (sum(int(c) ** 2 for c in row) + 1) // 2
                - sum(int(c) * p for c, p in zip(row, q, strict=True))
                for row in centroids[b]
            ]
            assert found[n, b] == scores.index(min(scores))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_tree_goes_from_node_to_node(seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels, vec, width = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 9))
    blocks = -(-width // vec)
    channels = rng.integers(0, vec, (blocks, levels)).astype(np.int32)
    thresholds = rng.integers(-2, 3, (blocks, 2**levels - 1)).astype(np.float32)
    x = rng.integers(-2, 3, (5, width)).astype(np.float64)
    x[0, 0] = np.nan

    def build(x: SSAValue, c: SSAValue, t: SSAValue) -> EncodeTreeOp:
        return EncodeTreeOp(x, c, t, vec)

    (found,) = run(build, x, channels, thresholds)
    padded = np.zeros((5, blocks * vec))
    padded[:, :width] = x
    for n in range(5):
        for b in range(blocks):
            # As a heap: the children of node i are 2i + 1 and 2i + 2.
            node = 0
            for level in range(levels):
                value = padded[n, b * vec + channels[b, level]]
                node = 2 * node + (2 if value >= thresholds[b, node] else 1)
            assert found[n, b] == node - (2**levels - 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([i16, i32]))
def test_a_lookup_is_the_sum_of_rows(seed: int, element: IntegerType) -> None:
    rng = np.random.default_rng(seed)
    rows, blocks, count, columns = rng.integers(1, 9, 4)
    table = rng.integers(-127, 128, (blocks, count, columns)).astype(np.int8)
    indices = rng.integers(0, count, (rows, blocks)).astype(np.uint8)
    (found,) = run(lambda i, t: LookupOp(i, t, QuantAttr(8), element), indices, table)
    assert found.dtype == np.dtype(f"i{element.width.data // 8}")
    for n in range(rows):
        for f in range(columns):
            assert found[n, f] == sum(int(table[b, indices[n, b], f]) for b in range(blocks))


def test_a_lookup_refuses_what_its_verifier_could_not_see() -> None:
    table = np.zeros((2, 3, 1), dtype=np.int8)
    indices = np.uint8([[0, 3]])
    with pytest.raises(CompileError, match="index 3 in a table of 3 rows a codebook"):
        run(lambda i, t: LookupOp(i, t, QuantAttr(8)), indices, table)
    table[1, 2, 0] = -9
    with pytest.raises(CompileError, match="an entry of magnitude 9; 4 bits hold 7"):
        run(lambda i, t: LookupOp(i, t, QuantAttr(4)), np.uint8([[0, 0]]), table)


def exact_rounding(value: Fraction, rounding: str) -> int:
    floor = value.numerator // value.denominator
    rest = value - floor
    if rest != Fraction(1, 2):
        return floor + (rest > Fraction(1, 2))
    match rounding:
        case "half_up":
            return floor + 1
        case "half_even":
            return floor + floor % 2
        case _:
            return floor + (value > 0)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-(2**31), 2**31 - 1) | st.integers(-20, 20),
    st.integers(0, 2**31 - 1) | st.integers(0, 5),
    st.integers(0, 62) | st.integers(0, 3),
    st.sampled_from(["half_up", "half_even", "half_away"]),
)
def test_requantisation_rounds_the_exact_quotient(
    total: int, multiplier: int, shift: int, rounding: str
) -> None:
    exact = exact_rounding(Fraction(total * multiplier, 2**shift), rounding)
    wide = requantise(
        np.int32([[total]]), np.int32([multiplier]), np.int8([shift]), rounding, -(2**62), 2**62
    )
    assert wide[0, 0] == exact

    def build(a: SSAValue, m: SSAValue, s: SSAValue) -> RequantOp:
        return RequantOp(rounding, a, m, s, i8)

    (found,) = run(build, np.int32([[total]]), np.int32([multiplier]), np.int8([shift]))
    assert found[0, 0] == min(max(exact, -128), 127)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["per_column", "per_tensor"]))
def test_a_table_is_centroids_times_weight_within_half_a_step(seed: int, scheme: str) -> None:
    rng = np.random.default_rng(seed)
    vec, width, count, columns = (int(n) for n in rng.integers(1, 7, 4))
    blocks = -(-width // vec)
    centroids = rng.integers(-50, 51, (blocks, count, vec)).astype(np.int16)
    steps = rng.uniform(0.1, 2, blocks).astype(np.float32)
    weight = rng.normal(size=(width, columns))
    (exact,) = run(BuildTableOp, centroids, steps, weight)
    for b in range(blocks):
        for k in range(count):
            row = np.zeros(columns)
            for v in range(min(vec, width - b * vec)):
                row += float(centroids[b, k, v]) * float(steps[b]) * weight[b * vec + v]
            assert np.allclose(exact[b, k], row, rtol=1e-6, atol=1e-6)
    bits = int(rng.integers(2, 9))

    def build(c: SSAValue, s: SSAValue, w: SSAValue) -> BuildTableOp:
        return BuildTableOp(c, s, w, QuantAttr(bits, scheme))

    entries, scale = run(build, centroids, steps, weight)
    assert entries.dtype == np.int8
    assert scale.shape == ((1,) if scheme == "per_tensor" else (columns,))
    limit = 2 ** (bits - 1) - 1
    assert np.abs(entries.astype(int)).max() == (limit if exact.any() else 0)
    assert np.all(np.abs(entries * scale - exact) <= scale * 0.5001 + 1e-6)
