"""The integer model of fixed-point numbers against Python's own integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.fixed import (
    Format,
    absolute,
    add,
    count_overflow,
    count_quantize_overflow,
    dot,
    dot_narrow,
    multiply,
    negate,
    quantize,
    rescale,
    subtract,
    to_real,
    total,
)
from inr.errors import CompileError

formats = st.builds(
    Format,
    st.integers(1, 70),
    st.integers(-20, 40),
    st.sampled_from(["rnd", "trn"]),
    st.sampled_from(["sat", "wrap"]),
)
int64s = st.integers(-(2**63) + 1, 2**63 - 1)
small = st.integers(-(2**31), 2**31)
wide = st.one_of(small, int64s, st.integers(-(2**100), 2**100))
fractions = st.integers(-10, 80)


def array(values: list[int]) -> np.ndarray:
    """int64 where the values fit, as callers hold them, else Python integers."""
    fits = all(abs(v) < 2**63 for v in values)
    return np.array(values, dtype=np.int64 if fits else object)


def unlimited(value: Fraction, f: Format) -> int:
    """The rounded value in units of the last place of `f`, before overflow."""
    scaled = value * Fraction(2) ** f.fraction
    return math.floor(scaled + (Fraction(1, 2) if f.rounding == "rnd" else 0))


def expected(value: Fraction, f: Format) -> int:
    """The definition of the conversion, in rational arithmetic."""
    m = unlimited(value, f)
    if f.overflow == "sat":
        return min(max(m, f.minimum), f.maximum)
    return (m - f.minimum) % (1 << f.width) + f.minimum


def test_format_properties() -> None:
    f = Format(27, 9)
    assert (f.fraction, f.minimum, f.maximum) == (18, -(2**26), 2**26 - 1)
    assert (f.ulp, f.lowest, f.highest) == (2.0**-18, -256.0, 256.0 - 2.0**-18)
    assert f.cpp() == "ap_fixed<27, 9, AP_RND, AP_SAT>"
    assert Format(8, -3, "trn", "wrap").cpp() == "ap_fixed<8, -3, AP_TRN, AP_WRAP>"
    assert Format(8, -3).fraction == 11
    assert Format(8, 12).ulp == 16.0


@pytest.mark.parametrize("arguments", [(0, 0), (8, 4, "even"), (8, 4, "rnd", "zero")])
def test_format_that_does_not_exist(arguments: tuple) -> None:
    with pytest.raises(CompileError, match="fixed-point format"):
        Format(*arguments)


@given(st.lists(wide, min_size=1, max_size=5), fractions, formats)
def test_rescale_rounds_and_overflows_by_definition(
    values: list[int], fraction: int, f: Format
) -> None:
    exact = [Fraction(v) / Fraction(2) ** fraction for v in values]
    result = rescale(array(values), fraction, f)
    assert result.tolist() == [expected(v, f) for v in exact]
    assert f.width > 63 or result.dtype == np.int64
    outside = [not f.minimum <= unlimited(v, f) <= f.maximum for v in exact]
    assert count_overflow(array(values), fraction, f) == sum(outside)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5), formats)
def test_quantize_is_exact_for_every_float(values: list[float], f: Format) -> None:
    assert quantize(values, f).tolist() == [expected(Fraction(v), f) for v in values]


@given(st.lists(st.integers(-(2**12), 2**12), min_size=1, max_size=5), formats)
def test_quantize_rounds_halves_upward(eighths: list[int], f: Format) -> None:
    values = [math.ldexp(e, -3 - f.fraction) for e in eighths]
    assert quantize(values, f).tolist() == [expected(Fraction(v), f) for v in values]
    outside = [not f.minimum <= unlimited(Fraction(v), f) <= f.maximum for v in values]
    assert count_quantize_overflow(values, f) == sum(outside)


def test_quantize_just_below_a_half() -> None:
    # Adding 0.5 first would round to 1 in float64.
    assert quantize([0.49999999999999994, -0.5, -0.50000000000000011], Format(8, 8)).tolist() == [
        0,
        0,
        -1,
    ]


def test_quantize_of_what_has_no_value() -> None:
    with pytest.raises(CompileError, match="NaN"):
        quantize([1.0, math.nan], Format(8, 4))
    with pytest.raises(CompileError, match="infinity"):
        quantize([math.inf], Format(8, 4, "rnd", "wrap"))
    assert quantize([math.inf, -math.inf], Format(8, 4)).tolist() == [127, -128]


@given(st.lists(st.integers(-(2**26), 2**26 - 1), max_size=5), st.integers(-10, 40))
def test_real_values_come_back(mantissas: list[int], integer: int) -> None:
    f = Format(27, integer)
    m = np.array(mantissas, dtype=np.int64)
    assert quantize(to_real(m, f), f).tolist() == mantissas
    assert [Fraction(v) for v in to_real(m, f)] == [
        Fraction(v) / Fraction(2) ** f.fraction for v in mantissas
    ]


pairs = st.lists(st.tuples(wide, wide), min_size=1, max_size=4)


@given(pairs, st.integers(-5, 40), st.integers(-5, 40))
def test_arithmetic_is_exact(values: list[tuple[int, int]], fa: int, fb: int) -> None:
    a, b = array([x for x, _ in values]), array([y for _, y in values])
    scale_a, scale_b = Fraction(2) ** -fa, Fraction(2) ** -fb
    for function, operate in (
        (add, lambda x, y: x + y),
        (subtract, lambda x, y: x - y),
        (multiply, lambda x, y: x * y),
    ):
        m, fraction = function(a, fa, b, fb)
        exact = [operate(x * scale_a, y * scale_b) for x, y in values]
        assert [v * Fraction(2) ** -fraction for v in m.tolist()] == exact
    assert negate(a, fa)[0].tolist() == [-x for x, _ in values]
    assert absolute(a, fa)[0].tolist() == [abs(x) for x, _ in values]
    assert int(total(a, fa, 0)[0]) == sum(x for x, _ in values)


@given(
    st.integers(1, 48),
    st.integers(1, 48),
    st.integers(1, 40),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
@settings(max_examples=60)
def test_dot_is_exact(a_bits: int, b_bits: int, k: int, seed: int, extreme: bool) -> None:
    random = np.random.default_rng(seed)
    ends = [-(2 ** (a_bits - 1)), 2 ** (a_bits - 1) - 1], [-(2 ** (b_bits - 1))]
    if extreme:
        a, b = random.choice(ends[0], (3, k)), random.choice(ends[1], (k, 2))
    else:
        a = random.integers(*ends[0], (3, k), endpoint=True)
        b = random.integers(ends[1][0], -ends[1][0], (k, 2))
    exact = np.matmul(a.astype(object), b.astype(object))
    result = dot(a, b)
    assert result.tolist() == exact.tolist()
    f = Format(32, 10)
    assert rescale(result, 40, f).tolist() == rescale(exact, 40, f).tolist()


@pytest.mark.parametrize(("a_bits", "b_bits", "k"), [(48, 32, 4096), (27, 18, 4096), (32, 32, 256)])
def test_dot_at_the_largest_sizes(a_bits: int, b_bits: int, k: int) -> None:
    low_a, low_b = -(2 ** (a_bits - 1)), -(2 ** (b_bits - 1))
    a = np.full((2, k), low_a)
    a[1] = np.arange(k) - low_a - k
    b = np.full((k, 2), low_b)
    b[:, 1] = np.arange(k) * 7919 % (-low_b)
    exact = np.matmul(a.astype(object), b.astype(object))
    assert dot(a, b).tolist() == exact.tolist()
    batched = dot(np.stack([a, a]), b)
    assert batched.tolist() == [exact.tolist()] * 2


def test_dot_is_int64_where_it_fits() -> None:
    assert dot(np.full((1, 4), 2**26), np.full((4, 1), 2**17)).dtype == np.int64
    assert dot(np.full((1, 4), 2**40), np.full((4, 1), 2**30)).dtype == object
    assert dot(np.zeros((2, 0), np.int64), np.zeros((0, 3), np.int64)).tolist() == [[0] * 3] * 2


@given(
    st.builds(
        Format,
        st.integers(6, 24),
        st.integers(2, 8),
        st.sampled_from(["rnd", "trn"]),
        st.sampled_from(["sat", "wrap"]),
    ),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=30)
def test_narrow_accumulator_step_by_step(f: Format, seed: int) -> None:
    random = np.random.default_rng(seed)
    a, w = random.integers(-999, 999, (2, 5)), random.integers(-999, 999, (5, 3))
    bias = random.integers(-9999, 9999, 3)
    result = dot_narrow(a, 8, w, 9, f, bias, 12)
    for i in range(2):
        for j in range(3):
            total = expected(Fraction(int(bias[j]), 2**12), f)
            for k in range(5):
                term = expected(Fraction(int(a[i, k] * w[k, j]), 2**17), f)
                total = expected(Fraction(total + term) * Fraction(2) ** -f.fraction, f)
            assert result[i, j] == total
    wide_enough = Format(60, 30)
    exact = add(dot(a, w), 17, np.broadcast_to(bias, (2, 3)), 12)
    assert np.array_equal(
        dot_narrow(a, 8, w, 9, wide_enough, bias, 12), rescale(*exact, wide_enough)
    )
