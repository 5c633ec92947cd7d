"""The integer model and `inr/fixed.hpp` against the real `ap_fixed`, bit for bit."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import subprocess
from pathlib import Path

import inr
import numpy as np
import pytest
from inr.analysis.fixed import (
    Format,
    count_overflow,
    dot_narrow,
    multiply,
    quantize,
    rescale,
)
from inr.runtime.toolchain import compile_program

HLS4ML = importlib.util.find_spec("hls4ml")
pytestmark = pytest.mark.skipif(
    HLS4ML is None or shutil.which("g++") is None, reason="needs g++ and the ap_types of hls4ml"
)
INCLUDE = Path(inr.__file__).parent / "runtime" / "hls" / "include"

MODES = list(itertools.product(["rnd", "trn"], ["sat", "wrap"]))
SOURCES = [(8, 4), (18, 20), (27, 9), (63, 30)]
TARGETS = [(8, 4), (12, -3), (27, 9), (32, 40), (18, 2), (60, 5), (64, -40)]
CONVERSIONS = [
    (Format(*source), Format(*target, *mode))
    for source in SOURCES
    for target in TARGETS
    for mode in MODES
]
WIDE = [Format(*target, *mode) for target in TARGETS[:-1] for mode in MODES]
COUNT = 400

PRELUDE = """
#include <cstdio>
#include "inr/math.hpp"

static long long overflows = 0;
void inr::sim::count_overflow() { ++overflows; }

template <typename T>
static T get() {
  T value;
  if (std::fread(&value, sizeof value, 1, stdin) != 1) throw 1;
  return value;
}
static void put(long long value) { std::fwrite(&value, sizeof value, 1, stdout); }
"""

# Each case reads COUNT values and writes, for each, what the vendor's type and what inr makes of
# it, and how many overflows have been counted so far.
CONVERT = """
template <typename From, typename Via, typename To>
static void convert() {
  for (int i = 0; i < %d; ++i) {
    const From x = inr::from_raw<From>(get<long long>());
    put(inr::raw(To(Via(x))));
    put(inr::raw(inr::narrow<To>(x)));
    put(overflows);
  }
}
// 72 bits: the matrix products of 27 by 32 bits, from two words.
template <typename To>
static void convert_wide() {
  for (int i = 0; i < %d; ++i) {
    const long long high = get<long long>();
    const long long low = get<long long>();
    const inr::integer<72>::type m = inr::add<72>(inr::shift_left<72, 32>(high), low);
    const ap_fixed<72, 30> x = inr::from_raw<ap_fixed<72, 30> >(m);
    put(inr::raw(To(x)));
    put(inr::raw(inr::narrow<To, 42, 72>(inr::raw(x))));
    put(overflows);
  }
}
// 116 bits, times a power of two that gains fraction bits, and more bits than are native.
template <typename To>
static void convert_long() {
  for (int i = 0; i < %d; ++i) {
    const ap_fixed<58, 20> a = inr::from_raw<ap_fixed<58, 20> >(get<long long>());
    const ap_fixed<58, 30> b = inr::from_raw<ap_fixed<58, 30> >(get<long long>());
    put(inr::raw(inr::narrow<To>(a * b)));
    put(inr::raw(inr::narrow<To>(a * b * a)));
    put(overflows);
  }
}
template <typename To>
static void quantize() {
  for (int i = 0; i < %d; ++i) put(inr::raw(To(get<double>())));
}
template <typename Accumulator>
static void accumulate() {
  ap_fixed<18, 6> a[5], w[5];
  for (int k = 0; k < 5; ++k) a[k] = inr::from_raw<ap_fixed<18, 6> >(get<long long>());
  for (int k = 0; k < 5; ++k) w[k] = inr::from_raw<ap_fixed<18, 6> >(get<long long>());
  Accumulator sum = 0;
  for (int k = 0; k < 5; ++k) sum += Accumulator(a[k] * w[k]);
  put(inr::raw(sum));
}
"""

FLOATS = """
static void floats() {
  for (int i = 0; i < FLOATS; ++i) {
    float s, c;
    inr::sincos_quarter(get<float>(), s, c);
    std::fwrite(&s, sizeof s, 1, stdout);
    std::fwrite(&c, sizeof c, 1, stdout);
  }
}
static void unary() {
  for (int i = 0; i < 100; ++i) {
    const float x = get<float>();
    const float results[] = {inr::exp(x),  inr::log(x),   inr::log1p(x),      inr::tanh(x),
                             inr::erf(x),  inr::sqrt(x),  inr::rsqrt(x),      inr::reciprocal(x),
                             inr::sigmoid(x), inr::softplus(x)};
    std::fwrite(results, sizeof results, 1, stdout);
  }
}
"""

FLOAT_COUNT = 200_000
ACCUMULATORS = [Format(w, i, *mode) for w, i in [(18, 6), (24, 4), (32, 12)] for mode in MODES]


def via(source: Format, target: Format) -> Format:
    """A sign extension where a conversion drops all bits: the vendor's asserts against that."""
    longer = max(0, source.fraction - target.fraction - source.width + 2)
    return Format(source.width + longer, source.integer + longer)


def compile_and_link(source: str, *flags: str) -> Path:
    """The program built as designs are, with warnings as errors."""
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    # The vendor's headers read members before they are set, and clear them.
    warnings += ["-Wno-uninitialized", "-Wno-maybe-uninitialized"]
    return compile_program({"test.cpp": source}, "-O1", *warnings, *flags)


def run(program: Path, data: bytes, *arguments: str) -> bytes:
    """What the program writes for this input."""
    return subprocess.run(
        [program, *arguments], input=data, capture_output=True, check=True, timeout=60
    ).stdout


def mantissas(f: Format, seed: int, count: int = COUNT) -> np.ndarray:
    """Of every magnitude, the ends and multiples of large powers of two (halves) among them."""
    random = np.random.default_rng(seed)
    m = random.integers(f.minimum, f.maximum, count, endpoint=True)
    m >>= random.integers(0, f.width, count)
    m[::3] <<= random.integers(0, 3, m[::3].size)
    m[:5] = f.minimum, f.maximum, 0, -1, 1
    return np.clip(m, f.minimum, f.maximum)


@pytest.fixture(scope="module")
def program() -> Path:
    """One program with all cases; the argument says which to run."""
    calls = {
        "convert": [
            f"convert<{a.cpp()}, {via(a, b).cpp()}, {b.cpp()} >();" for a, b in CONVERSIONS
        ],
        "wide": [f"convert_wide<{f.cpp()} >();" for f in WIDE],
        "quantize": [f"quantize<{f.cpp()} >();" for f in WIDE],
        "accumulate": [f"accumulate<{f.cpp()} >();" for f in ACCUMULATORS],
        "floats": ["floats();"],
        "unary": ["unary();"],
        "long": [f"convert_long<{f.cpp()} >();" for f in WIDE],
    }
    cases = [f"    case {i}: {' '.join(lines)} break;" for i, lines in enumerate(calls.values())]
    main = ["int main(int, char** argv) {", "  switch (argv[1][0] - '0') {", *cases, "  }", "}", ""]
    source = PRELUDE + CONVERT % ((COUNT,) * 4) + FLOATS + "\n".join(main)
    return compile_and_link(source, "-DINR_SIM", f"-DFLOATS={FLOAT_COUNT}")


def test_conversions_are_those_of_ap_fixed(program: Path) -> None:
    inputs = [mantissas(source, i) for i, (source, _) in enumerate(CONVERSIONS)]
    output = run(program, np.concatenate(inputs).tobytes(), "0")
    results = np.frombuffer(output, np.int64).reshape(len(CONVERSIONS), COUNT, 3)
    counted = 0
    for (source, target), m, result in zip(CONVERSIONS, inputs, results, strict=True):
        model = rescale(m, source.fraction, target)
        assert np.array_equal(result[:, 0], model), (source, target)
        assert np.array_equal(result[:, 1], model), (source, target)
        counted += count_overflow(m, source.fraction, target) * (target.overflow == "sat")
        assert result[-1, 2] == counted, (source, target)
    assert counted > 1000


def test_conversions_as_synthesised() -> None:
    # The code for hardware, which has no counter and leaves the conversion to ap_fixed.
    chosen = [pair for pair in CONVERSIONS if via(*pair).width == pair[0].width][::7]
    calls = [f"convert<{a.cpp()}, {a.cpp()}, {b.cpp()} >();" for a, b in chosen]
    source = PRELUDE + CONVERT % ((COUNT,) * 4) + f"int main() {{ {' '.join(calls)} }}"
    flags = ["-DINR_SIM", "-DINR_EXACT_WIDTHS", "-O0", "-Wno-unused-function"]
    inputs = [mantissas(source, i) for i, (source, _) in enumerate(chosen)]
    output = run(compile_and_link(source, *flags), np.concatenate(inputs).tobytes())
    results = np.frombuffer(output, np.int64).reshape(len(chosen), COUNT, 3)
    for (source_format, target), m, result in zip(chosen, inputs, results, strict=True):
        model = rescale(m, source_format.fraction, target)
        assert np.array_equal(result[:, 1], model), (source_format, target)


def test_conversions_from_72_bits(program: Path) -> None:
    random = np.random.default_rng(7)
    high = random.integers(-(2**39), 2**39, (len(WIDE), COUNT))
    high >>= random.integers(0, 40, high.shape)
    low = random.integers(0, 2**32, high.shape) >> random.integers(0, 33, high.shape)
    output = run(program, np.stack([high, low], axis=-1).tobytes(), "1")
    results = np.frombuffer(output, np.int64).reshape(len(WIDE), COUNT, 3)
    m = (high.astype(object) << 32) + low
    counted = 0
    for i, target in enumerate(WIDE):
        model = rescale(m[i], 42, target)
        assert np.array_equal(results[i, :, 0], model), target
        assert np.array_equal(results[i, :, 1], model), target
        counted += count_overflow(m[i], 42, target) * (target.overflow == "sat")
        assert results[i, -1, 2] == counted, target


def test_conversions_of_long_products(program: Path) -> None:
    f, g = Format(58, 20), Format(58, 30)
    a = np.stack([mantissas(f, 20 + i) >> 20 for i in range(len(WIDE))])
    b = np.stack([mantissas(g, 60 + i)[::-1] for i in range(len(WIDE))])
    output = run(program, np.stack([a, b], axis=-1).tobytes(), "6")
    results = np.frombuffer(output, np.int64).reshape(len(WIDE), COUNT, 3)
    counted = 0
    for i, target in enumerate(WIDE):
        two, fraction = multiply(a[i], f.fraction, b[i], g.fraction)
        three, more = multiply(two, fraction, a[i], f.fraction)
        for column, (m, bits) in enumerate([(two, fraction), (three, more)]):
            assert np.array_equal(results[i, :, column], rescale(m, bits, target)), target
            counted += count_overflow(m, bits, target) * (target.overflow == "sat")
        assert results[i, -1, 2] == counted, target


def test_quantize_is_that_of_ap_fixed(program: Path) -> None:
    random = np.random.default_rng(8)
    values = random.normal(size=(len(WIDE), COUNT)) * np.exp2(random.integers(-30, 30, COUNT))
    for i, f in enumerate(WIDE):
        # Halves of the last place, and values around the ends of the range.
        values[i, :40] = np.ldexp(random.integers(-99, 99, 40) / 2.0, -f.fraction)
        values[i, 40:44] = f.lowest, f.highest, 2 * f.lowest, 2 * f.highest
    output = run(program, values.tobytes(), "2")
    results = np.frombuffer(output, np.int64).reshape(len(WIDE), COUNT)
    for i, f in enumerate(WIDE):
        assert np.array_equal(results[i], quantize(values[i], f)), f


def test_narrow_accumulators_are_those_of_ap_fixed(program: Path) -> None:
    operand = Format(18, 6)
    a = np.stack([mantissas(operand, i, 5) for i in range(len(ACCUMULATORS))])
    w = np.stack([mantissas(operand, 99 + i, 10)[5:] for i in range(len(ACCUMULATORS))])
    output = run(program, np.stack([a, w], axis=1).tobytes(), "3")
    for i, f in enumerate(ACCUMULATORS):
        model = dot_narrow(a[i, None, :], 12, w[i, :, None], 12, f)
        assert np.frombuffer(output, np.int64)[i] == model[0, 0], f


def test_float_sincos_is_within_two_ulp(program: Path) -> None:
    random = np.random.default_rng(9)
    exponents = random.integers(-20, 23, FLOAT_COUNT)
    p = (random.uniform(-1, 1, FLOAT_COUNT) * np.exp2(exponents)).astype(np.float32)
    p[:12] = 0.5, -0.5, 0.49999997, 1.5, 2.5, -3, 4, 8388609, 16777218, 2**26, 3e38, -1e30
    output = run(program, p.tobytes(), "4")
    s, c = np.frombuffer(output, np.float32).astype(np.float64).reshape(-1, 2).T
    turns = np.fmod(p.astype(np.float64), 4.0)
    nearest = np.rint(turns)
    r, q = turns - nearest, nearest.astype(int) & 3
    sine, cosine = np.sin(np.pi / 2 * r), np.cos(np.pi / 2 * r)
    exact_s = np.choose(q, [sine, cosine, -sine, -cosine])
    exact_c = np.choose(q, [cosine, -sine, -cosine, sine])
    for value, exact in ((s, exact_s), (c, exact_c)):
        ulp = np.spacing(np.maximum(np.abs(exact), 1e-30).astype(np.float32)).astype(np.float64)
        # Where the sine is exactly zero, so is the result.
        assert (np.abs(value - exact) / ulp).max() <= 2.0


def test_float_sincos_of_what_has_none(program: Path) -> None:
    p = np.zeros(FLOAT_COUNT, np.float32)
    p[:3] = np.inf, -np.inf, np.nan
    results = np.frombuffer(run(program, p.tobytes(), "4"), np.float32).reshape(-1, 2)
    assert np.isnan(results[:3]).all()
    assert (results[3:] == [0.0, 1.0]).all()


def test_float_functions(program: Path) -> None:
    x = np.linspace(0.01, 80, 100).astype(np.float32)
    y = np.frombuffer(run(program, x.tobytes(), "5"), np.float32).reshape(100, 10).T
    v = x.astype(np.float64)
    exact = [np.exp(v), np.log(v), np.log1p(v), np.tanh(v), None, np.sqrt(v), 1 / np.sqrt(v)]
    exact += [1 / v, 1 / (1 + np.exp(-v)), v + np.log1p(np.exp(-v))]
    for value, e in zip(y, exact, strict=True):
        assert e is None or np.allclose(value, e, rtol=3e-7, atol=0)
    assert np.allclose(y[4, :2], [0.01128341555, 0.7541500], rtol=1e-2)
