"""The C++ of the math kernels against their integer models, bit for bit."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import inr
import numpy as np
import pytest
from inr.analysis.fixed import Format
from inr.analysis.kernels import (
    FUNCTIONS,
    SinCosKernel,
    UnaryKernel,
    samples,
    sincos_kernel,
    unary_kernel,
)
from inr.runtime.toolchain import compile_program

HLS4ML = importlib.util.find_spec("hls4ml")
pytestmark = pytest.mark.skipif(
    HLS4ML is None or shutil.which("g++") is None, reason="needs g++ and the ap_types of hls4ml"
)
INCLUDE = Path(inr.__file__).parent / "runtime" / "hls" / "include"

PAIRS = [
    (Format(8, 4), Format(8, 4)),
    (Format(16, 6), Format(16, 6)),
    (Format(12, -2), Format(18, 4, "trn", "wrap")),
    (Format(10, 14), Format(16, 8)),
    (Format(27, 9), Format(27, 9)),
    (Format(32, 10), Format(32, 10)),
    (Format(40, 8), Format(40, 8)),
    (Format(48, 20), Format(24, 12)),
]
ANGLES = [
    *((Format(w, i, "rnd", "wrap"), Format(w, 2)) for w in (12, 16, 27, 32) for i in (1, 2, 10)),
    (Format(40, 6), Format(34, 2)),
    (Format(10, 12), Format(12, 1)),
    (Format(27, 4), Format(18, 2)),
]

PRELUDE = """
#include <cstdio>
#include "inr/math.hpp"

static long long overflows = 0;
void inr::sim::count_overflow() { ++overflows; }

static long long get() {
  long long value;
  if (std::fread(&value, sizeof value, 1, stdin) != 1) throw 1;
  return value;
}
static void put(long long value) { std::fwrite(&value, sizeof value, 1, stdout); }

template <typename Kernel>
static void unary() {
  for (long long n = get(); n > 0; --n)
    put(inr::raw(Kernel::apply(inr::from_raw<typename Kernel::source>(get()))));
  put(overflows);
}
template <typename Kernel>
static void sincos() {
  for (long long n = get(); n > 0; --n) {
    typename Kernel::target s, c;
    Kernel::apply(inr::from_raw<typename Kernel::source>(get()), s, c);
    put(inr::raw(s));
    put(inr::raw(c));
  }
  put(overflows);
}
"""


def kernels() -> list[UnaryKernel | SinCosKernel]:
    unary = [unary_kernel(name, *pair) for name in FUNCTIONS for pair in PAIRS]
    return [*unary, *(sincos_kernel(*pair) for pair in ANGLES)]


def build(chosen: list[UnaryKernel | SinCosKernel], *flags: str) -> Path:
    """A program that runs one kernel after the other."""
    code = [PRELUDE, *(kernel.cpp(f"kernel_{i}") for i, kernel in enumerate(chosen))]
    code.append("int main() {")
    for i, kernel in enumerate(chosen):
        form = "sincos" if isinstance(kernel, SinCosKernel) else "unary"
        code.append(f"  {form}<kernel_{i}>();")
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    # The vendor's headers read members before they are set, and clear them.
    warnings += ["-Wno-maybe-uninitialized"]
    source = {"test.cpp": "\n".join([*code, "}", ""])}
    return compile_program(source, "-O1", "-DINR_SIM", *warnings, *flags)


def check(
    program: Path, chosen: list[UnaryKernel | SinCosKernel], inputs: list[np.ndarray]
) -> None:
    """Every kernel on its inputs: C++ and model agree, and on how often results saturate."""
    data = b"".join(np.int64(m.size).tobytes() + m.tobytes() for m in inputs)
    output = subprocess.run([program], input=data, capture_output=True, check=True, timeout=120)
    results = np.frombuffer(output.stdout, np.int64)
    overflows = 0
    for kernel, m in zip(chosen, inputs, strict=True):
        model = kernel.evaluate(m)
        expected = np.stack(model, axis=-1).ravel() if isinstance(model, tuple) else model
        overflows += kernel.count_overflow(m)
        got, results = results[: expected.size + 1], results[expected.size + 1 :]
        assert np.array_equal(got[:-1], expected), kernel
        assert got[-1] == overflows, kernel
    assert results.size == 0


def source_of(kernel: UnaryKernel | SinCosKernel) -> Format:
    return kernel.phase if isinstance(kernel, SinCosKernel) else kernel.source


def test_every_kernel_is_bit_identical() -> None:
    # All arguments up to 16 bits, samples of every magnitude above.
    chosen = kernels()
    check(build(chosen), chosen, [samples(source_of(k)) for k in chosen])


def test_a_million_arguments() -> None:
    f = Format(27, 9)
    chosen: list[UnaryKernel | SinCosKernel] = [unary_kernel(name, f, f) for name in FUNCTIONS]
    chosen.append(sincos_kernel(f, Format(27, 2)))
    random = np.random.default_rng(4)
    m = random.integers(f.minimum, f.maximum, 1_000_000, endpoint=True)
    m >>= random.integers(0, 20, m.size)
    check(build(chosen), chosen, [m] * len(chosen))


def test_widths_of_the_hardware_suffice() -> None:
    # The code as it is synthesised, every variable exactly as wide as declared.
    every: list[UnaryKernel | SinCosKernel] = [
        unary_kernel(name, *PAIRS[i])
        for name, i in zip(FUNCTIONS, [4, 2, 4, 1, 3] * 2, strict=True)
    ]
    every += [sincos_kernel(*pair) for pair in (ANGLES[6], ANGLES[12])]
    inputs = [samples(source_of(k)) for k in every]
    program = build(every, "-DINR_EXACT_WIDTHS", "-O0")
    check(program, every, [m[:: max(1, m.size // 3000)] for m in inputs])
