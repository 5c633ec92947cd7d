"""
Fixed-point numbers as exact integers.

A value is a *mantissa* (a signed integer) and a number of *fraction* bits:
``value = mantissa * 2**-fraction``. Rounding and overflow are those of
``ap_fixed`` in AMD's UG1399 (quantisation modes ``AP_RND`` and ``AP_TRN``,
overflow modes ``AP_SAT`` and ``AP_WRAP``), bit for bit.

Arrays of mantissas are ``int64`` where a bound on the values proves that this
is enough, and arrays of Python integers (dtype ``object``) otherwise: no
operation here overflows silently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import CompileError

Mantissas: TypeAlias = npt.NDArray[Any]
"""Integers: dtype int64, or object where they may need more than 63 bits."""

Rounding = Literal["rnd", "trn"]
Overflow = Literal["sat", "wrap"]

_INT64_BITS = 63
_FLOAT64_EXACT_BITS = 53
_WORD = 32


@dataclass(frozen=True)
class Format:
    """
    A signed two's complement format of `width` bits, `integer` of them left of the
    binary point (the sign included), as in ``ap_fixed<width, integer>``. `integer`
    may be negative or larger than `width`.

    `rounding` is "rnd" (to nearest, halves toward plus infinity) or "trn" (toward
    minus infinity); `overflow` is "sat" (clamp) or "wrap" (drop the upper bits).

    Raises CompileError if the width is not positive or a mode is unknown.
    """

    width: int
    integer: int
    rounding: Rounding = "rnd"
    overflow: Overflow = "sat"

    def __post_init__(self) -> None:
        if self.width < 1:
            raise CompileError(
                f"fixed-point format <{self.width}, {self.integer}>: the width must be at least 1"
            )
        if self.rounding not in ("rnd", "trn") or self.overflow not in ("sat", "wrap"):
            raise CompileError(
                f"fixed-point format <{self.width}, {self.integer}>: rounding is rnd or trn, "
                f"overflow is sat or wrap, not {self.rounding!r} and {self.overflow!r}"
            )

    @property
    def fraction(self) -> int:
        """Bits right of the binary point; negative if the last bit weighs more than 1."""
        return self.width - self.integer

    @property
    def minimum(self) -> int:
        """The lowest mantissa."""
        return -(1 << (self.width - 1))

    @property
    def maximum(self) -> int:
        """The highest mantissa."""
        return (1 << (self.width - 1)) - 1

    @property
    def ulp(self) -> float:
        """The weight of the last bit."""
        return math.ldexp(1.0, -self.fraction)

    @property
    def lowest(self) -> float:
        """The lowest value."""
        return math.ldexp(float(self.minimum), -self.fraction)

    @property
    def highest(self) -> float:
        """The highest value (rounded to float64 in formats wider than 53 bits)."""
        return math.ldexp(float(self.maximum), -self.fraction)

    def cpp(self) -> str:
        """The C++ type, for example ``ap_fixed<27, 9, AP_RND, AP_SAT>``."""
        modes = f"AP_{self.rounding.upper()}, AP_{self.overflow.upper()}"
        return f"ap_fixed<{self.width}, {self.integer}, {modes}>"


def magnitude(mantissas: Mantissas) -> int:
    """The largest absolute value in an array of integers; 0 if it is empty."""
    if mantissas.size == 0:
        return 0
    return max(int(mantissas.max()), -int(mantissas.min()))


def pack(mantissas: Mantissas) -> Mantissas:
    """The same integers as int64 where all of them fit, else as Python integers."""
    if mantissas.dtype == np.int64:
        return mantissas
    if mantissas.dtype != object:
        return mantissas.astype(np.int64)
    fits = magnitude(mantissas).bit_length() <= _INT64_BITS
    return mantissas.astype(np.int64) if fits else mantissas


def _carrier(bound: int, *arrays: Mantissas) -> tuple[Mantissas, ...]:
    """The arrays in a dtype whose arithmetic is exact for results up to `bound`."""
    dtype: Any = np.int64 if bound.bit_length() <= _INT64_BITS else object
    return tuple(a.astype(dtype, copy=False) for a in arrays)


def quantize(values: npt.ArrayLike, f: Format) -> Mantissas:
    """
    Mantissas of real values (float64, any shape) in the format `f`: exact, with
    the rounding and overflow of `f`. Infinity saturates.

    Raises CompileError on NaN, and on infinity if `f` wraps.
    """
    x = np.asarray(values, dtype=np.float64)
    if np.isnan(x).any():
        raise CompileError(f"a NaN has no value in {f.cpp()}")
    if f.overflow == "wrap" and np.isinf(x).any():
        raise CompileError(f"infinity has no value in {f.cpp()}; AP_SAT would clamp it")
    # The scaling is exact: float64 can only overflow here (and then the format has
    # overflowed long before) or lose bits far below a half of the last place.
    with np.errstate(over="ignore"):
        scaled = np.ldexp(x, f.fraction)
    if f.overflow == "wrap" and np.isinf(scaled).any():
        return _quantize_one_by_one(x, f)
    whole = np.floor(scaled)
    if f.rounding == "rnd":
        with np.errstate(invalid="ignore"):
            whole = whole + (scaled - whole >= 0.5)
    if f.width > _INT64_BITS:
        return _quantize_one_by_one(x, f)
    span = math.ldexp(1.0, f.width)
    if f.overflow == "wrap":
        return _wrap(np.fmod(whole, span).astype(np.int64), f)
    over, under = whole >= span / 2, whole < -span / 2
    inside = np.where(over | under, 0.0, whole).astype(np.int64)
    return np.where(over, f.maximum, np.where(under, f.minimum, inside))


def _quantize_one_by_one(x: npt.NDArray[np.float64], f: Format) -> Mantissas:
    """`quantize` in Python integers, for formats and values beyond 63 bits."""
    out = np.empty(x.shape, dtype=object)
    for i, v in np.ndenumerate(x):
        if math.isinf(v):
            out[i] = f.maximum if v > 0 else f.minimum
            continue
        numerator, denominator = float(v).as_integer_ratio()
        fraction = denominator.bit_length() - 1
        one = np.array([numerator], dtype=object)
        out[i] = int(rescale(one, fraction, f)[0])
    return out.astype(np.int64) if f.width <= _INT64_BITS else out


def to_real(mantissas: Mantissas, f: Format) -> npt.NDArray[np.float64]:
    """The values of mantissas of the format `f` (rounded to float64 beyond 53 bits)."""
    return real(mantissas, f.fraction)


def real(mantissas: Mantissas, fraction: int) -> npt.NDArray[np.float64]:
    """``mantissas * 2**-fraction`` in float64 (rounded beyond 53 bits)."""
    return np.ldexp(np.asarray(mantissas).astype(np.float64), -fraction)


def _round_to(mantissas: Mantissas, fraction: int, f: Format) -> Mantissas:
    """`mantissas` at the fraction bits and with the rounding of `f`, of any size."""
    m = np.asarray(mantissas)
    if m.dtype != object:
        m = m.astype(np.int64, copy=False)
    shift = f.fraction - fraction
    if shift >= 0:
        (m,) = _carrier(magnitude(m) << shift, m)
        return m << shift
    drop = -shift
    if m.dtype == np.int64:
        # A shift by 63 already leaves only the sign, and so does any longer one.
        whole = m >> min(drop, 63)
        return whole + ((m >> min(drop - 1, 63)) & 1) if f.rounding == "rnd" else whole
    return (m + (1 << (drop - 1))) >> drop if f.rounding == "rnd" else m >> drop


def _wrap(mantissas: Mantissas, f: Format) -> Mantissas:
    """The low `f.width` bits, as a signed number. In int64 the sums may wrap: harmless."""
    if f.width > _INT64_BITS and mantissas.dtype != object:
        return mantissas
    mask = (1 << f.width) - 1
    return ((mantissas - f.minimum) & mask) + f.minimum


def fit(mantissas: Mantissas, f: Format) -> Mantissas:
    """Integers of any size, in units of the last place of `f`, saturated or wrapped to `f`."""
    if magnitude(mantissas) <= f.maximum:
        return pack(mantissas)
    if f.overflow == "wrap":
        return pack(_wrap(mantissas, f))
    return pack(np.minimum(np.maximum(mantissas, f.minimum), f.maximum))


def rescale(mantissas: Mantissas, fraction: int, f: Format) -> Mantissas:
    """
    Exact integers with `fraction` fraction bits, converted to the format `f` with its
    rounding and overflow. The result is int64 if `f` has at most 63 bits.
    """
    return fit(_round_to(mantissas, fraction, f), f)


def count_overflow(mantissas: Mantissas, fraction: int, f: Format) -> int:
    """
    How many elements `rescale` with the same arguments saturates or wraps. (In C++ only
    saturations are counted: a type that wraps is meant to.)
    """
    rounded = _round_to(mantissas, fraction, f)
    if rounded.dtype == np.int64 and f.width > _INT64_BITS:
        return 0
    return int(np.count_nonzero((rounded > f.maximum) | (rounded < f.minimum)))


def count_quantize_overflow(values: npt.ArrayLike, f: Format) -> int:
    """How many elements `quantize` with the same arguments saturates or wraps."""
    saturating = Format(f.width + 1, f.integer + 1, f.rounding, "sat")
    wider = quantize(values, saturating)
    return int(np.count_nonzero((wider > f.maximum) | (wider < f.minimum)))


def align(
    a: Mantissas, a_fraction: int, b: Mantissas, b_fraction: int
) -> tuple[Mantissas, Mantissas, int]:
    """Both operands at the larger of the two fractions, which is returned third."""
    fraction = max(a_fraction, b_fraction)
    up_a, up_b = fraction - a_fraction, fraction - b_fraction
    (a,) = _carrier(magnitude(a) << up_a, a)
    (b,) = _carrier(magnitude(b) << up_b, b)
    return a << up_a, b << up_b, fraction


def add(a: Mantissas, a_fraction: int, b: Mantissas, b_fraction: int) -> tuple[Mantissas, int]:
    """The exact sum (NumPy broadcasting) and its fraction bits."""
    a, b, fraction = align(a, a_fraction, b, b_fraction)
    a, b = _carrier(magnitude(a) + magnitude(b), a, b)
    return a + b, fraction


def subtract(a: Mantissas, a_fraction: int, b: Mantissas, b_fraction: int) -> tuple[Mantissas, int]:
    """The exact difference (NumPy broadcasting) and its fraction bits."""
    a, b, fraction = align(a, a_fraction, b, b_fraction)
    a, b = _carrier(magnitude(a) + magnitude(b), a, b)
    return a - b, fraction


def multiply(a: Mantissas, a_fraction: int, b: Mantissas, b_fraction: int) -> tuple[Mantissas, int]:
    """The exact product (NumPy broadcasting) and its fraction bits."""
    a, b = _carrier(magnitude(a) * magnitude(b), a, b)
    return a * b, a_fraction + b_fraction


def negate(a: Mantissas, fraction: int) -> tuple[Mantissas, int]:
    """The exact negative and its fraction bits."""
    (a,) = _carrier(magnitude(a), a)
    return -a, fraction


def absolute(a: Mantissas, fraction: int) -> tuple[Mantissas, int]:
    """The exact magnitude and its fraction bits."""
    (a,) = _carrier(magnitude(a), a)
    return np.abs(a), fraction


def total(a: Mantissas, fraction: int, axis: int) -> tuple[Mantissas, int]:
    """The exact sum along `axis` and its fraction bits."""
    (a,) = _carrier(magnitude(a) * max(a.shape[axis], 1), a)
    return np.asarray(a.sum(axis=axis)), fraction


def _limbs(m: npt.NDArray[np.int64], count: int, bits: int) -> list[npt.NDArray[np.float64]]:
    """`m` as `count` digits of `bits` bits, the low ones unsigned, the last one signed."""
    digits = [(m >> (bits * i)) & ((1 << bits) - 1) for i in range(count - 1)]
    digits.append(m >> (bits * (count - 1)))
    return [d.astype(np.float64) for d in digits]


def _limb_counts(a_bits: int, b_bits: int, k_bits: int) -> tuple[int, int]:
    """The fewest limb products whose sums over k are exact in float64."""
    candidates = (
        (i * j, i, j)
        for i in range(1, 9)
        for j in range(1, 9)
        if -(-a_bits // i) + -(-b_bits // j) + k_bits <= _FLOAT64_EXACT_BITS
    )
    _, i, j = min(candidates)
    return i, j


def dot(a: Mantissas, b: Mantissas) -> Mantissas:
    """
    The exact matrix product of integers, (..., M, K) by (K, N) or as `numpy.matmul`
    broadcasts; fraction bits add. Operands are split into limbs small enough that
    float64 BLAS sums them without rounding. The result is int64 where a bound
    proves that it fits, Python integers otherwise; `rescale` takes both.
    """
    k = a.shape[-1]
    size_a, size_b = magnitude(a), magnitude(b)
    if max(size_a, size_b).bit_length() > _INT64_BITS:
        return pack(np.matmul(a.astype(object), b.astype(object)))
    a, b = a.astype(np.int64, copy=False), b.astype(np.int64, copy=False)
    # One bit more than the magnitude: the top limb of a negative number is floored.
    a_bits, b_bits = size_a.bit_length() + 1, size_b.bit_length() + 1
    if a_bits + b_bits - 2 + k.bit_length() <= _FLOAT64_EXACT_BITS:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    count_a, count_b = _limb_counts(a_bits, b_bits, k.bit_length())
    step_a, step_b = -(-a_bits // count_a), -(-b_bits // count_b)
    limbs_b = _limbs(b, count_b, step_b)
    terms: dict[int, npt.NDArray[np.int64]] = {}
    for i, limb_a in enumerate(_limbs(a, count_a, step_a)):
        for j, limb_b in enumerate(limbs_b):
            partial = np.matmul(limb_a, limb_b).astype(np.int64)
            shift = i * step_a + j * step_b
            terms[shift] = terms[shift] + partial if shift in terms else partial
    return _sum_of_limbs(terms, size_a * size_b * k)


def _sum_of_limbs(terms: dict[int, npt.NDArray[np.int64]], bound: int) -> Mantissas:
    """The sum of ``term << shift`` over {shift: term}, which is at most `bound`."""
    # In int64 the partial sums may wrap, but a total that fits is right all the same.
    if bound.bit_length() <= _INT64_BITS:
        parts = [term << shift for shift, term in terms.items()]
        return sum(parts[1:], start=parts[0])
    if bound.bit_length() > _INT64_BITS + _WORD:
        parts = [term.astype(object) << shift for shift, term in terms.items()]
        return sum(parts[1:], start=parts[0])
    # Python integers are slow: two words in int64 first, then one combination.
    low, high = (np.zeros_like(next(iter(terms.values()))) for _ in range(2))
    for shift, term in terms.items():
        if shift >= _WORD:
            high += term << (shift - _WORD)
            continue
        low += (term & ((1 << (_WORD - shift)) - 1)) << shift
        high += term >> (_WORD - shift)
    return (high.astype(object) << _WORD) + low.astype(object)


def dot_narrow(
    a: Mantissas,
    a_fraction: int,
    w: Mantissas,
    w_fraction: int,
    accumulator: Format,
    bias: Mantissas | None = None,
    bias_fraction: int = 0,
) -> Mantissas:
    """
    The matrix product (M, K) by (K, N) as a narrow accumulator computes it: every
    product is converted to the format `accumulator`, and so is the running sum after
    each of the K additions, in order of k, starting from `bias` (broadcast to (M, N))
    or zero. Mantissas of `accumulator`.

    It exists to show what truncation and narrow accumulators cost; designs use `dot`.
    """
    shape = (a.shape[0], w.shape[1])
    start = np.zeros(shape, np.int64)
    if bias is not None:
        start = np.broadcast_to(rescale(bias, bias_fraction, accumulator), shape)
    sums: Mantissas = start
    for k in range(a.shape[1]):
        product, fraction = multiply(a[:, k, None], a_fraction, w[None, k, :], w_fraction)
        term = rescale(product, fraction, accumulator)
        exact, _ = add(sums, 0, term, 0)
        sums = fit(exact, accumulator)
    return sums
