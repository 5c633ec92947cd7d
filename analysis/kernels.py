"""
Math functions on fixed-point numbers, as integer programs.

Every kernel reduces its argument exactly, looks a piecewise polynomial up
(`tables.py`), undoes the reduction and rounds once, to nearest. The same program
is the interpreter's model (`evaluate`) and the hardware (`cpp`).

Results are rounded to nearest and saturate, whatever the modes of the target
format say: a kernel has no wide result that could be truncated or wrapped.
Outside its domain a function takes the value it tends to: ``log`` of a number
that is not positive (``log1p`` of one not above -1) is the lowest value of the
target, ``reciprocal(0)`` and ``rsqrt`` of a number that is not positive the
highest, and ``sqrt`` of a negative number is 0. Results beyond the target's range, and
infinite ones, count as overflows (`count_overflow`, and the simulation's counter).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CompileError
from .fixed import Format, Mantissas, to_real
from .integer_program import Program, Value
from .real_functions import (
    REAL_FUNCTIONS,
    Reals,
    quarter_cosine,
    quarter_sine,
    reference,
    sincos_reference,
    ulp_error,
)
from .tables import Table, TableSpec, best_table, emit_lookup, emit_polynomial

FUNCTIONS = tuple(REAL_FUNCTIONS)
"""The names `unary_kernel` takes."""

_GUARD = 4
_MAX_WIDTH = 48
_MAX_SOURCE_FRACTION = 60
# Fits and references are float64.
_MAX_TARGET_FRACTION = 48
_EXHAUSTIVE_BITS = 16
_SAMPLES = 1 << 14
_LN2 = math.log(2.0)


@dataclass(frozen=True, eq=False)
class UnaryKernel:
    """
    `function` from `source` to `target` mantissas. `max_ulp` is the largest error
    measured when the kernel was built, in units of the target's last place (0.5 of
    them are the rounding): over every argument up to 16 bits, over samples of all
    magnitudes above (where sweeps of all 24-bit arguments have found up to 0.03 more).
    """

    function: str
    source: Format
    target: Format
    program: Program
    table: Table
    max_ulp: float

    @property
    def multipliers(self) -> list[tuple[int, int]]:
        """Operand widths of the multiplications, sign included."""
        return self.program.multipliers

    @property
    def rom_bits(self) -> int:
        """Bits of the tables."""
        return self.program.rom_bits

    def evaluate(self, mantissas: Mantissas) -> Mantissas:
        """Mantissas of the target for mantissas of the source (int64, any shape)."""
        return self.program.evaluate({"x": np.asarray(mantissas, dtype=np.int64)})[0]

    def error(self, mantissas: Mantissas) -> Reals:
        """The error at each of a flat array of mantissas, in units of the target's last place."""
        exact = reference(self.function, to_real(mantissas, self.source))
        return ulp_error(self.evaluate(mantissas), exact, self.target)

    def count_overflow(self, mantissas: Mantissas) -> int:
        """How many of the results saturate."""
        return self.program.count_overflow({"x": np.asarray(mantissas, dtype=np.int64)})

    def cpp(self, identifier: str) -> str:
        """
        A C++14 struct of this name with ``static target apply(const source& x)``; needs
        ``inr/math.hpp``.
        """
        source, target = self.source.cpp(), self.target.cpp()
        result = self.program.cpp_operand(self.program.outputs[0])
        argument = " argument" if self.program.uses("x") else ""
        return "\n".join(
            [
                f"// {self.function}: <{self.source.width}, {self.source.integer}> to "
                f"<{self.target.width}, {self.target.integer}>, "
                f"error at most {self.max_ulp:.2f} ulp (measured)",
                f"// {_describe(self.table)}",
                f"struct {identifier} {{",
                f"  typedef {source} source;",
                f"  typedef {target} target;",
                f"  static target apply(const source&{argument}) {{",
                "#pragma HLS INLINE",
                self.program.cpp_body("    ", {"x": "inr::raw(argument)"}),
                f"    return inr::from_raw<target>({result});",
                "  }",
                "};",
                "",
            ]
        )


@dataclass(frozen=True, eq=False)
class SinCosKernel:
    """
    Sine and cosine of an angle in quarter turns: sin(pi/2 p) and cos(pi/2 p).
    `max_ulp` as in `UnaryKernel`, over both results.
    """

    phase: Format
    target: Format
    program: Program
    table: Table
    max_ulp: float

    @property
    def multipliers(self) -> list[tuple[int, int]]:
        """Operand widths of the multiplications, sign included."""
        return self.program.multipliers

    @property
    def rom_bits(self) -> int:
        """Bits of the tables."""
        return self.program.rom_bits

    def evaluate(self, mantissas: Mantissas) -> tuple[Mantissas, Mantissas]:
        """Mantissas of (sine, cosine) for mantissas of the phase (int64, any shape)."""
        sine, cosine = self.program.evaluate({"x": np.asarray(mantissas, dtype=np.int64)})
        return sine, cosine

    def error(self, mantissas: Mantissas) -> Reals:
        """The larger error of sine and cosine at each mantissa, as in `UnaryKernel.error`."""
        exact = sincos_reference(to_real(mantissas, self.phase))
        results = self.evaluate(mantissas)
        sine, cosine = (ulp_error(y, e, self.target) for y, e in zip(results, exact, strict=True))
        return np.maximum(sine, cosine)

    def count_overflow(self, mantissas: Mantissas) -> int:
        """How many of the results, sines and cosines, saturate (1 in a format that ends below)."""
        return self.program.count_overflow({"x": np.asarray(mantissas, dtype=np.int64)})

    def cpp(self, identifier: str) -> str:
        """
        A C++14 struct of this name with ``static void apply(const phase& p, target& s,
        target& c)``; needs ``inr/math.hpp``.
        """
        phase, target = self.phase.cpp(), self.target.cpp()
        sine, cosine = (self.program.cpp_operand(v) for v in self.program.outputs)
        argument = " argument" if self.program.uses("x") else ""
        return "\n".join(
            [
                f"// sine and cosine of quarter turns: <{self.phase.width}, "
                f"{self.phase.integer}> to <{self.target.width}, {self.target.integer}>, "
                f"error at most {self.max_ulp:.2f} ulp (measured)",
                f"// {_describe(self.table)}",
                f"struct {identifier} {{",
                f"  typedef {phase} source;",
                f"  typedef {target} target;",
                f"  static void apply(const source&{argument}, target& s, target& c) {{",
                "#pragma HLS INLINE",
                self.program.cpp_body("    ", {"x": "inr::raw(argument)"}),
                f"    s = inr::from_raw<target>({sine});",
                f"    c = inr::from_raw<target>({cosine});",
                "  }",
                "};",
                "",
            ]
        )


def _describe(table: Table) -> str:
    segments = "1 segment" if table.entries == 1 else f"{table.entries} segments"
    return f"piecewise polynomial of degree {table.order} on {segments}"


def _check(what: str, source: Format, target: Format) -> None:
    for f, limit in ((source, _MAX_SOURCE_FRACTION), (target, _MAX_TARGET_FRACTION)):
        if not 2 <= f.width <= _MAX_WIDTH or abs(f.fraction) > limit:
            raise CompileError(
                f"{what}: no kernel from <{source.width}, {source.integer}> to <{target.width}, "
                f"{target.integer}>; widths of 2 to {_MAX_WIDTH} bits work, with at most "
                f"{_MAX_SOURCE_FRACTION} fraction bits in the argument and "
                f"{_MAX_TARGET_FRACTION} in the result"
            )


def _guard(output_fraction: int) -> int:
    """Guard bits: enough that 1 is a whole number of the result's last places."""
    return max(_GUARD, _GUARD - output_fraction)


@dataclass
class _Builder:
    """The program of one kernel, and the formats it connects."""

    source: Format
    target: Format
    p: Program
    x: Value

    def table(
        self,
        functions: list[Callable[[Reals], Reals]],
        u: Value,
        fraction: int,
        output_fraction: int,
        dropped: int = 0,
    ) -> Table:
        """The best table over the range of `u`, which lost `dropped` bits before."""
        offset = 0.5 * (1.0 - math.ldexp(1.0, -dropped))
        guard = _guard(output_fraction)
        return best_table(
            TableSpec(functions, u.high + 1, fraction, output_fraction, guard, offset)
        )

    def magnitude(self) -> tuple[Value, Value]:
        """(x < 0, |x|)"""
        negative = self.p.named("negative", self.p.less(self.x, self.p.constant(0)))
        opposite = self.p.named("opposite", self.p.negate(self.x))
        either = self.p.select(negative, opposite, self.x)
        return negative, self.p.named("magnitude", self.p.clamp(either, 0, -self.source.minimum))

    def finish(self, y: Value, right: int) -> None:
        """Round `y` to nearest after a shift by `right`, saturate, and make it the output."""
        self.p.comment("round and saturate")
        rounded = self.p.named("rounded", self.p.round_shift(y, right))
        self.p.outputs.append(self.p.saturate(rounded, self.target.minimum, self.target.maximum))

    def trim(self, u: Value, fraction: int, needed: int) -> tuple[Value, int, int]:
        """`u` without the bits below `needed` fraction bits: (u, its fraction, bits lost)."""
        dropped = max(0, fraction - needed)
        return self.p.shift(u, -dropped), fraction - dropped, dropped

    def shifted(self, y: Value, amount: Value) -> Value:
        """`y` shifted right by all but one bit of `amount`, which is at least 1."""
        last = self.p.subtract(amount, self.p.constant(1))
        return self.p.shift_right_by(y, self.p.clamp(last, 0, 62))

    def normalise(self, a: Value, bits: int) -> tuple[Value, Value]:
        """(a << zeros, zeros): the top one of `bits` bits set, by a binary search."""
        zeros = self.p.constant(0)
        step = 1 << max((bits - 1).bit_length() - 1, 0)
        self.p.comment("normalise: count the leading zeros and shift them out")
        while step and bits > 1:
            if step < bits:
                small = self.p.less(a, self.p.constant(1 << (bits - step)))
                moved = self.p.low_bits(self.p.shift(a, step), bits)
                a = self.p.select(small, moved, a)
                added = self.p.select(small, self.p.constant(step), self.p.constant(0))
                zeros = self.p.add(zeros, added)
            step //= 2
        self.p.named("normalised", a)
        return a, self.p.named("zeros", self.p.clamp(zeros, 0, bits - 1))


def _build_symmetric(b: _Builder, function: str) -> Table:
    """tanh, erf (odd), sigmoid and softplus: a table over |x|, up to where it is constant."""
    fraction = b.target.fraction
    nearly = (fraction + 4) * _LN2
    limit = {"tanh": (nearly + _LN2) / 2, "erf": math.sqrt(max(nearly, 1.0))}.get(function, nearly)
    negative, a = b.magnitude()
    slope = {"tanh": 0, "erf": 1, "sigmoid": -2, "softplus": -1}[function]
    guard = _guard(fraction)
    a, u_fraction, dropped = b.trim(a, b.source.fraction, fraction + guard + slope + 1)
    b.p.comment("beyond the table the function is constant to the last place")
    u = b.p.clamp(a, 0, max(math.ceil(math.ldexp(max(limit, 0.0), u_fraction)), 0))
    f: Callable[[Reals], Reals] = REAL_FUNCTIONS[function]
    if function == "softplus":
        f = _softplus_tail
    table = b.table([f], u, u_fraction, fraction, dropped)
    y = emit_lookup(b.p, table, u)
    working = table.spec.working_fraction
    if function == "softplus":
        b.p.comment("log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))")
        ramp = b.p.shift(b.p.clamp(b.x, 0, b.source.maximum), working - b.source.fraction)
        y = b.p.add(y, ramp)
    elif function == "sigmoid":
        b.p.comment("sigmoid(-x) = 1 - sigmoid(x)")
        y = b.p.select(negative, b.p.subtract(b.p.constant(1 << working), y), y)
    else:
        b.p.comment("odd")
        y = b.p.select(negative, b.p.negate(y), y)
    b.finish(y, table.spec.guard)
    return table


def _softplus_tail(a: Reals) -> Reals:
    return np.log1p(np.exp(-a))


def _clamp_real(p: Program, x: Value, fraction: int, low: float, high: float) -> Value:
    """`x` clamped to real bounds (and a last place beyond), within its own range."""
    upper = min(max(math.ceil(math.ldexp(high, fraction)) + 1, x.low), x.high)
    lower = min(max(math.floor(math.ldexp(low, fraction)) - 1, x.low), upper)
    return p.clamp(x, lower, upper)


def _build_exp(b: _Builder) -> Table:
    """2**(x log2 e): the fraction by table, the whole part by a shift."""
    source, target = b.source, b.target
    b.p.comment("beyond these the result saturates or rounds to zero")
    high, low = (target.integer - 1) * _LN2, -(target.fraction + 2) * _LN2
    x = _clamp_real(b.p, b.x, source.fraction, low, high)
    x_fraction = max(source.fraction, 0)
    if source.fraction < 0:
        # The last place of a coarse format is far beyond the ends: clamp to them exactly.
        x = _clamp_real(b.p, b.p.shift(x, -source.fraction), 0, low, high)
    largest = math.ldexp(max(abs(x.low), abs(x.high), 1), -x_fraction)
    top = min(math.floor(math.ldexp(x.high, -x_fraction) / _LN2), target.integer - 1)
    output_fraction = target.fraction + top
    guard = _guard(output_fraction)
    t_fraction = max(output_fraction + guard + 1, 1)
    x, x_fraction, _ = b.trim(x, x_fraction, t_fraction + 2)
    scale_fraction = t_fraction + 1 + max(math.ceil(math.log2(largest)), -t_fraction)
    scale = round(math.ldexp(1.0 / _LN2, scale_fraction))
    b.p.comment("x log2(e)")
    product = b.p.multiply(x, b.p.constant(scale))
    t = b.p.round_shift(product, x_fraction + scale_fraction - t_fraction)
    n = b.p.named("whole", b.p.shift(t, -t_fraction))
    u = b.p.named("fraction", b.p.low_bits(t, t_fraction))
    table = b.table([np.exp2], u, t_fraction, output_fraction)
    y = emit_lookup(b.p, table, u)
    b.p.comment("times two to the whole part")
    amount = b.p.subtract(b.p.constant(table.spec.guard + top), n)
    b.finish(b.shifted(y, b.p.clamp(amount, 1, 63)), 1)
    return table


def _build_reciprocal(b: _Builder) -> Table:
    """1 / (m 2**e), m in [1, 2): 1 / m by table, then a shift."""
    source, target = b.source, b.target
    negative, a = b.magnitude()
    zero = b.p.less(a, b.p.constant(1))
    m, zeros = b.normalise(a, source.width)
    top = min(source.fraction, target.integer - 1)
    table, y = _mantissa_table(b, [lambda u: 1.0 / (1.0 + u)], m, source.width, top, None)
    b.p.comment("shift back and round the magnitude, then the sign")
    position = table.spec.guard + top - source.fraction + source.width - 1
    amount = b.p.subtract(b.p.constant(position), zeros)
    y = b.p.round_shift(b.shifted(y, b.p.clamp(amount, 1, 63)), 1)
    y = b.p.select(negative, b.p.negate(y), y)
    b.finish(b.p.select(zero, b.p.constant(target.maximum + 1), y), 0)
    return table


def _mantissa_table(
    b: _Builder,
    functions: list[Callable[[Reals], Reals]],
    m: Value,
    bits: int,
    top: int,
    bank: Value | None,
) -> tuple[Table, Value]:
    """The table over the fraction of a normalised `m` of `bits` bits, results below 2**top."""
    output_fraction = b.target.fraction + top
    u = b.p.low_bits(m, bits - 1) if bits > 1 else b.p.constant(0)
    needed = output_fraction + _guard(output_fraction) + 1
    u, fraction, dropped = b.trim(u, bits - 1, max(needed, 0))
    table = b.table(functions, u, fraction, output_fraction, dropped)
    return table, emit_lookup(b.p, table, u, bank)


def _build_root(b: _Builder, function: str) -> Table:
    """sqrt and rsqrt of m 2**(2k), m in [1, 4): by table (one bank an octave), then a shift."""
    source, target = b.source, b.target
    bits = source.width - 1
    a = b.p.clamp(b.x, 0, source.maximum)
    none = b.p.less(a, b.p.constant(1))
    m, zeros = b.normalise(a, bits)
    exponent = b.p.named("exponent", b.p.subtract(b.p.constant(bits - 1 - source.fraction), zeros))
    b.p.comment("an even exponent, the odd bit to the table")
    odd = b.p.low_bits(exponent, 1)
    half = b.p.shift(exponent, -1)
    inverse = function == "rsqrt"
    k = b.p.negate(half) if inverse else half
    top = min(k.high, target.integer - 1)
    functions = [_inverse_root, _inverse_root_odd] if inverse else [_root, _root_odd]
    table, y = _mantissa_table(b, functions, m, bits, top, odd)
    b.p.comment("shift back")
    amount = b.p.subtract(b.p.constant(table.spec.guard + top), k)
    y = b.shifted(y, b.p.clamp(amount, 1, 63))
    outside = b.p.constant(((target.maximum + 1) << 1) if inverse else 0)
    b.finish(b.p.select(none, outside, y), 1)
    return table


def _root(u: Reals) -> Reals:
    return np.sqrt(1.0 + u)


def _root_odd(u: Reals) -> Reals:
    return np.sqrt(2.0 + 2.0 * u)


def _inverse_root(u: Reals) -> Reals:
    return 1.0 / np.sqrt(1.0 + u)


def _inverse_root_odd(u: Reals) -> Reals:
    return 1.0 / np.sqrt(2.0 + 2.0 * u)


def _build_log(b: _Builder, function: str) -> Table:
    """log(m 2**e) = log(m) + e log(2), both by table."""
    source, target = b.source, b.target
    argument, fraction = b.x, source.fraction
    if function == "log1p":
        fraction = max(source.fraction, 0)
        argument = b.p.add(b.p.shift(b.x, fraction - source.fraction), b.p.constant(1 << fraction))
    a = b.p.clamp(argument, 0, max(argument.high, 0))
    bits = max(a.high.bit_length(), 1)
    none = b.p.less(a, b.p.constant(1))
    m, zeros = b.normalise(a, bits)
    table, y = _mantissa_table(b, [np.log1p], m, bits, 0, None)
    exponents = (bits - 1 - fraction) - np.arange(zeros.high + 1)
    working = table.spec.working_fraction
    whole = np.rint(np.ldexp(exponents * _LN2, working)).astype(np.int64)
    b.p.comment("the exponent times log(2)")
    y = b.p.add(y, b.p.lookup("exponents", whole, zeros))
    lowest = b.p.constant((target.minimum - 1) << table.spec.guard)
    b.finish(b.p.select(none, lowest, y), table.spec.guard)
    return table


def _build(b: _Builder, function: str) -> Table:
    match function:
        case "exp":
            return _build_exp(b)
        case "reciprocal":
            return _build_reciprocal(b)
        case "sqrt" | "rsqrt":
            return _build_root(b, function)
        case "log" | "log1p":
            return _build_log(b, function)
        case _:
            return _build_symmetric(b, function)


def samples(f: Format) -> npt.NDArray[np.int64]:
    """
    Mantissas to measure a kernel with: all of them up to 16 bits; above, the ends, the
    neighbourhood of powers of two, and random ones of every magnitude (always the same).
    """
    if f.width <= _EXHAUSTIVE_BITS:
        return np.arange(f.minimum, f.maximum + 1, dtype=np.int64)
    random = np.random.default_rng(f.width)
    even = random.integers(f.minimum, f.maximum, _SAMPLES, endpoint=True)
    exponents = random.uniform(0.0, f.width - 1.0, 2 * _SAMPLES)
    signs = random.choice(np.array([-1.0, 1.0]), exponents.size)
    scaled = np.rint(np.exp2(exponents) * signs).astype(np.int64)
    powers = np.int64(1) << np.arange(f.width - 1, dtype=np.int64)
    near = (powers[:, None] + np.arange(-2, 3)[None, :]).ravel()
    every: npt.NDArray[Any] = np.concatenate([even, scaled, near, -near, [f.minimum, f.maximum, 0]])
    return np.unique(np.clip(every, f.minimum, f.maximum))


@cache
def unary_kernel(function: str, source: Format, target: Format) -> UnaryKernel:
    """
    The kernel of a function in `FUNCTIONS` between two formats of 2 to 48 bits. Up to 32
    fraction bits the result is within 1 ulp; beyond, tables may not get larger, and
    `max_ulp` tells how far it is off.

    Raises CompileError for an unknown function or a format outside these.
    """
    if function not in REAL_FUNCTIONS:
        raise CompileError(f"{function}: no such kernel; there are {', '.join(FUNCTIONS)}")
    _check(function, source, target)
    program = Program()
    x = program.input("x", source.minimum, source.maximum)
    table = _build(_Builder(source, target, program, x), function)
    kernel = UnaryKernel(function, source, target, program, table, math.nan)
    return replace(kernel, max_ulp=float(kernel.error(samples(source)).max()))


@cache
def sincos_kernel(phase: Format, target: Format) -> SinCosKernel:
    """
    Sine and cosine of an angle in quarter turns, between formats of 2 to 48 bits. Only
    the fraction bits of the phase and its two lowest integer bits matter: the rest are
    whole turns, and a phase may as well wrap.

    The polynomials are those of the sine on the first quadrant; the cosine reads the
    same table from its other end. Raises CompileError for a format outside the above.
    """
    _check("sincos", phase, target)
    program = Program()
    x = program.input("x", phase.minimum, phase.maximum)
    table = _build_sincos(_Builder(phase, target, program, x))
    kernel = SinCosKernel(phase, target, program, table, math.nan)
    return replace(kernel, max_ulp=float(kernel.error(samples(phase)).max()))


def _build_sincos(b: _Builder) -> Table:
    p, fraction = b.p, b.target.fraction
    x, x_fraction = b.x, b.source.fraction
    if x_fraction < 1:
        # Whole numbers of quarter turns: one fraction bit keeps the table from being empty.
        x, x_fraction = p.shift(p.low_bits(x, 2), 1 - x_fraction), 1
    p.comment("quadrant, and the angle within it")
    q = p.named("quadrant", p.low_bits(p.shift(x, -x_fraction), 2))
    u = p.named("angle", p.low_bits(x, x_fraction))
    u, u_fraction, dropped = b.trim(u, x_fraction, fraction + _guard(fraction) + 2)
    table = b.table([quarter_sine], u, u_fraction, fraction, dropped)
    if table.order == 0:
        s = emit_lookup(p, table, u, name="sines")
        both = b.table([quarter_cosine], u, u_fraction, fraction, dropped)
        c = emit_lookup(p, both, u, name="cosines")
    else:
        s, c = _emit_quadrant(p, table, u)
    p.comment("fold the quadrant")
    odd = p.named("odd", p.low_bits(q, 1))
    second = p.named("negative_sine", p.less(p.constant(1), q))
    middle = p.low_bits(p.shift(p.add(q, p.constant(1)), -1), 1)
    p.named("negative_cosine", middle)
    sine = p.named("sine", p.select(odd, c, s))
    cosine = p.named("cosine", p.select(odd, s, c))
    b.finish(p.select(second, p.negate(sine), sine), table.spec.guard)
    b.finish(p.select(middle, p.negate(cosine), cosine), table.spec.guard)
    return table


def _emit_quadrant(p: Program, table: Table, u: Value) -> tuple[Value, Value]:
    """Sine at u and cosine at u, which is the sine at 1 - u: the last segment first, z negated."""
    index = p.shift(u, -table.low) if table.low < u.bits - 1 else p.constant(0)
    low = p.low_bits(u, table.low)
    z = p.subtract(low, p.constant(1 << (table.low - 1)))
    s = emit_polynomial(p, table, index, z)
    mirrored = p.subtract(p.constant(table.segments - 1), index)
    c = emit_polynomial(p, table, mirrored, p.negate(z))
    return s, c
