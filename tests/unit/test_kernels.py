"""The integer models of the math kernels against mpmath and float64."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from inr.analysis.fixed import Format, quantize, to_real
from inr.analysis.integer_program import Program, signed_bits
from inr.analysis.kernels import FUNCTIONS, sincos_kernel, unary_kernel
from inr.analysis.real_functions import reference, sincos_reference, ulp_error
from inr.errors import CompileError

EXACT = {
    "exp": mpmath.exp,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "erf": mpmath.erf,
    "reciprocal": lambda x: 1 / x,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "log": mpmath.log,
    "log1p": mpmath.log1p,
}

DOMAINS = ("log", "log1p", "sqrt", "rsqrt", "reciprocal")

# Source and target: equal and unequal widths, fractions longer than the width, whole numbers
# only, targets with 32 fraction bits, and the widths that designs use most.
PAIRS = [
    (Format(8, 4), Format(8, 4)),
    (Format(12, 3), Format(16, 2)),
    (Format(16, 6), Format(16, 6)),
    (Format(16, -2), Format(12, 1)),
    (Format(10, 14), Format(16, 8)),
    (Format(18, 6), Format(27, 9)),
    (Format(27, 9), Format(27, 9)),
    (Format(27, 9), Format(18, 4)),
    (Format(32, 10), Format(32, 10)),
    (Format(32, 6), Format(34, 2)),
    (Format(40, 8), Format(40, 8)),
    (Format(40, 20), Format(9, 3)),
]


def spread(f: Format, count: int, seed: int = 1) -> np.ndarray:
    """Mantissas of every magnitude and of both signs, other than those the builder measures."""
    random = np.random.default_rng(seed)
    exponents = random.uniform(0, f.width - 1, count)
    signs = random.choice([-1.0, 1.0], count)
    m = np.rint(np.exp2(exponents) * signs).astype(np.int64)
    m = np.concatenate([m, random.integers(f.minimum, f.maximum, count, endpoint=True)])
    return np.clip(m, f.minimum, f.maximum)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_error_is_within_one_ulp_of_float64(function: str, pair: tuple[Format, Format]) -> None:
    source, target = pair
    kernel = unary_kernel(function, source, target)
    m = (
        np.arange(source.minimum, source.maximum + 1)
        if source.width <= 12
        else spread(source, 20000)
    )
    error = kernel.error(m).max()
    assert error <= 1.0
    assert kernel.max_ulp <= 1.0
    assert error <= kernel.max_ulp + 0.1


@pytest.mark.parametrize("pair", PAIRS[5:], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_error_is_within_one_ulp_of_mpmath(function: str, pair: tuple[Format, Format]) -> None:
    source, target = pair
    m = spread(source, 60, seed=2)
    if function in ("sqrt", "rsqrt", "log", "reciprocal"):
        m = np.maximum(np.abs(m), 1)
        m = np.minimum(m, source.maximum)
    if function == "log1p":
        m = np.maximum(m, -quantize(1.0, source) + 1)
    result = unary_kernel(function, source, target).evaluate(m)
    with mpmath.workprec(200):
        for x, y in zip(m.tolist(), result.tolist(), strict=True):
            exact = EXACT[function](mpmath.ldexp(x, -source.fraction))
            scaled = mpmath.ldexp(exact, target.fraction)
            clamped = min(max(scaled, target.minimum), target.maximum)
            assert abs(y - clamped) <= 1.0


@pytest.mark.parametrize("width", range(12, 33, 2))
@pytest.mark.parametrize("integer", [-1, 2, 5, 12])
def test_sincos_error(width: int, integer: int) -> None:
    phase = Format(width, integer, "rnd", "wrap")
    for target in (Format(width, 2), Format(width, 1), Format(18, 2)):
        kernel = sincos_kernel(phase, target)
        m = spread(phase, 5000)
        assert kernel.error(m).max() <= 1.0
        assert kernel.max_ulp <= 1.0


def test_sincos_against_mpmath() -> None:
    phase, target = Format(32, 10), Format(34, 2)
    m = spread(phase, 200, seed=3)
    s, c = sincos_kernel(phase, target).evaluate(m)
    with mpmath.workprec(200):
        for x, y, z in zip(m.tolist(), s.tolist(), c.tolist(), strict=True):
            angle = mpmath.ldexp(x, -phase.fraction)
            assert abs(y - mpmath.ldexp(mpmath.sinpi(angle / 2), 32)) <= 1.0
            assert abs(z - mpmath.ldexp(mpmath.cospi(angle / 2), 32)) <= 1.0


@pytest.mark.parametrize(
    ("phase", "target"),
    [
        (Format(16, 4), Format(16, 2)),
        (Format(27, 6), Format(27, 2)),
        (Format(20, 20), Format(9, 2)),
    ],
)
def test_sincos_of_whole_quarter_turns_is_exact(phase: Format, target: Format) -> None:
    quarters = np.arange(-(2 ** (min(phase.integer, 5) - 1)), 2 ** (min(phase.integer, 5) - 1))
    s, c = sincos_kernel(phase, target).evaluate(quantize(quarters.astype(float), phase))
    assert to_real(s, target).tolist() == [[0.0, 1.0, 0.0, -1.0][q % 4] for q in quarters]
    assert to_real(c, target).tolist() == [[1.0, 0.0, -1.0, 0.0][q % 4] for q in quarters]


def test_sincos_ignores_whole_turns() -> None:
    narrow, wide = Format(18, 2), Format(32, 16)
    m = spread(wide, 3000)
    wrapped = ((m - narrow.minimum) & (2**18 - 1)) + narrow.minimum
    for a, b in zip(
        sincos_kernel(wide, Format(16, 2)).evaluate(m),
        sincos_kernel(narrow, Format(16, 2)).evaluate(wrapped),
        strict=True,
    ):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("function", ["exp", "tanh", "log", "reciprocal"])
def test_every_argument_of_twenty_bits(function: str) -> None:
    source, target = Format(20, 5), Format(20, 5)
    m = np.arange(source.minimum, source.maximum + 1)
    assert unary_kernel(function, source, target).error(m).max() <= 0.75


def test_sincos_of_every_angle_of_22_bits() -> None:
    phase, target = Format(22, 2), Format(24, 2)
    kernel = sincos_kernel(phase, target)
    error = kernel.error(np.arange(phase.minimum, phase.maximum + 1)).max()
    assert error <= 0.75
    assert error <= kernel.max_ulp + 0.05


def test_real_functions_agree_with_mpmath() -> None:
    x = np.array([-30.0, -2.5, -0.75, -1e-3, 1e-9, 0.3, 1.0, 7.0, 40.0])
    with mpmath.workprec(200):
        for function, exact in EXACT.items():
            inside = {"log1p": x > -1, "reciprocal": x != 0}.get(function, x > 0)
            v = x[inside] if function in DOMAINS else x
            expected = [float(exact(mpmath.mpf(t))) for t in v]
            assert reference(function, v) == pytest.approx(expected, rel=4e-16, abs=1e-300)
    quarters, exact_turns = np.array([0.1, 1.7, -2.3, 1e6 + 0.25]), []
    with mpmath.workprec(200):
        exact_turns = [float(mpmath.sinpi(mpmath.mpf(t) / 2)) for t in quarters]
    assert sincos_reference(quarters)[0] == pytest.approx(exact_turns, rel=1e-15)


def test_ulp_error_is_in_units_of_the_target() -> None:
    target = Format(8, 4)
    exact = np.array([1.0, 1.0, 100.0, -100.0])
    error = ulp_error(np.array([16, 18, 127, -120]), exact, target)
    assert error.tolist() == [0.0, 2.0, 0.0, 8.0]


def test_outside_the_domain() -> None:
    f = Format(16, 6)
    zero_and_below = np.array([0, -1, f.minimum])
    lowest, highest = [f.minimum] * 3, [f.maximum] * 3
    assert unary_kernel("log", f, f).evaluate(zero_and_below).tolist() == lowest
    assert unary_kernel("log1p", f, f).evaluate(zero_and_below - 1024).tolist() == lowest
    assert unary_kernel("rsqrt", f, f).evaluate(zero_and_below).tolist() == highest
    assert unary_kernel("sqrt", f, f).evaluate(zero_and_below).tolist() == [0, 0, 0]
    assert unary_kernel("reciprocal", f, f).evaluate(np.array([0, 1, -1])).tolist() == [
        f.maximum,
        f.maximum,
        f.minimum,
    ]
    assert unary_kernel("exp", f, f).evaluate(np.array([f.maximum, f.minimum])).tolist() == [
        f.maximum,
        0,
    ]


def test_overflow_is_counted() -> None:
    f = Format(16, 6)
    x = quantize([-40.0, -1.0, 0.0, 1.0, 5.0, 30.0], f)
    counts = {name: unary_kernel(name, f, f).count_overflow(x) for name in FUNCTIONS}
    assert counts == {
        "exp": 2,
        "tanh": 0,
        "sigmoid": 0,
        "softplus": 0,
        "erf": 0,
        "reciprocal": 1,
        "sqrt": 0,
        "rsqrt": 3,
        "log": 3,
        "log1p": 2,
    }
    # One does not fit a format with one integer bit: once a turn for each function.
    quarters = quantize([0.0, 1.0, 2.0, 3.0], Format(16, 4))
    assert sincos_kernel(Format(16, 4), Format(16, 1)).count_overflow(quarters) == 2
    assert sincos_kernel(Format(16, 4), Format(16, 2)).count_overflow(quarters) == 0


def test_values_that_are_exact() -> None:
    f = Format(27, 9)

    def at(function: str, x: float) -> float:
        return float(to_real(unary_kernel(function, f, f).evaluate(quantize([x], f)), f)[0])

    assert [at(name, 0.0) for name in ("exp", "tanh", "erf", "sigmoid", "log1p")] == [
        1.0,
        0.0,
        0.0,
        0.5,
        0.0,
    ]
    assert [at("reciprocal", x) for x in (1.0, -0.5, 64.0)] == [1.0, -2.0, 1 / 64]
    assert [at("sqrt", x) for x in (1.0, 4.0, 0.25)] == [1.0, 2.0, 0.5]
    assert [at("rsqrt", x) for x in (1.0, 4.0, 0.25)] == [1.0, 0.5, 2.0]
    assert (at("log", 1.0), at("tanh", 200.0), at("erf", -200.0)) == (0.0, 1.0, -1.0)


def test_odd_functions_are_odd() -> None:
    f = Format(18, 4)
    m = np.arange(1, 2**17, 7)
    for function in ("tanh", "erf", "reciprocal"):
        kernel = unary_kernel(function, f, f)
        # A half may be rounded upward on both sides.
        difference = kernel.evaluate(m) + kernel.evaluate(-m)
        assert np.abs(difference[kernel.evaluate(m) < f.maximum]).max() <= 1


def test_cost_grows_with_precision() -> None:
    coarse, fine = (unary_kernel("exp", Format(w, 5), Format(w, 5)) for w in (10, 32))
    assert len(coarse.multipliers) < len(fine.multipliers)
    assert coarse.rom_bits < fine.rom_bits
    small = sincos_kernel(Format(27, 4), Format(27, 2))
    assert small.rom_bits <= 18 * 1024
    assert max(min(pair) for pair in small.multipliers) <= 18
    assert max(max(pair) for pair in small.multipliers) <= 27


def test_kernels_are_made_once_and_always_the_same() -> None:
    f = Format(18, 6)
    assert unary_kernel("tanh", f, f) is unary_kernel("tanh", Format(18, 6), f)
    text = unary_kernel("tanh", f, f).cpp("tanh_18_6")
    again = unary_kernel.__wrapped__("tanh", f, f)
    assert again.cpp("tanh_18_6") == text
    assert "struct tanh_18_6 {" in text
    assert max(len(line) for line in text.splitlines()) <= 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sinh", Format(8, 4), Format(8, 4)), "no such kernel; there are exp"),
        (("exp", Format(49, 4), Format(8, 4)), "widths of 2 to 48"),
        (("exp", Format(8, 4), Format(1, 1)), "widths of 2 to 48"),
        (("log", Format(8, -60), Format(8, 4)), "60 fraction bits in the argument"),
        (("log", Format(8, 4), Format(8, -60)), "and 48 in the result"),
    ],
)
def test_kernels_that_do_not_exist(arguments: tuple, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        unary_kernel(*arguments)


def test_program_beyond_63_bits() -> None:
    p = Program()
    x = p.input("x", -(2**50), 2**50)
    square = p.multiply(x, p.add(x, p.constant(3)))
    p.outputs.append(p.clamp(p.round_shift(square, 60), -1000, 1000))
    m = np.array([2**49, -(2**49) + 12345, 7, -(2**50)])
    exact = [(v * (v + 3) + 2**59) >> 60 for v in m.tolist()]
    assert p.evaluate({"x": m})[0].tolist() == [min(v, 1000) for v in exact]


def test_signed_bits() -> None:
    cases = [(0, 0, 1), (-1, 0, 1), (0, 1, 2), (-2, 1, 2), (-128, 127, 8), (-129, 0, 9)]
    assert [signed_bits(low, high) for low, high, _ in cases] == [bits for *_, bits in cases]
