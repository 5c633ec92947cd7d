"""
Piecewise polynomials on uniform segments, with integer coefficients.

The argument is an unsigned integer: its upper bits choose a segment, its lower
bits are the distance z from the segment's centre, and a polynomial of degree 0
to 3 in z is evaluated by Horner's rule, each coefficient and each product no
finer than the result needs. The polynomials interpolate at Chebyshev nodes,
which is within a small factor of the best approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .integer_program import Program, Value

Function = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]

MAX_ENTRIES = 4096
BLOCK_BITS = 18 * 1024
"""One block memory: a table that fits costs the same however small it is."""

_FIT_ERROR = 0.1
"""Approximation error allowed, in units of the last place of the result."""

_CHECKS_PER_SEGMENT = 9


@dataclass(frozen=True)
class TableSpec:
    """
    What to tabulate: `functions` (one per bank, all over the same argument) of
    ``u * 2**-fraction`` for u in [0, count), to a result whose last place weighs
    ``2**-output_fraction``, computed with `guard` bits below it. `offset` (0 to 1) is
    what u has lost on average, in units of its last bit, if it was truncated before.
    """

    functions: Sequence[Function]
    count: int
    fraction: int
    output_fraction: int
    guard: int
    offset: float = 0.0

    @property
    def working_fraction(self) -> int:
        """Fraction bits of the result with its guard bits."""
        return self.output_fraction + self.guard


@dataclass(frozen=True)
class Table:
    """
    A fitted spec: segments of ``2**low`` arguments, `segments` of them per bank, and
    `coefficients[k]`, the integers of degree k at `fractions[k]` fraction bits, of all
    banks one after the other. `dropped[k]` low bits of z are not used to form the
    product that is added to coefficient k.
    """

    spec: TableSpec
    low: int
    segments: int
    coefficients: list[npt.NDArray[np.int64]]
    fractions: list[int]
    dropped: list[int]

    @property
    def order(self) -> int:
        """The degree."""
        return len(self.coefficients) - 1

    @property
    def entries(self) -> int:
        """Coefficient sets, over all banks."""
        return self.segments * len(self.spec.functions)

    @property
    def bits(self) -> int:
        """Size of the tables."""
        widths = (max(int(c.max()), ~int(c.min())).bit_length() + 1 for c in self.coefficients)
        return self.entries * sum(widths)


def best_table(spec: TableSpec) -> Table:
    """
    The cheapest table that meets `spec`: the lowest degree (fewest multipliers) among
    0 to 2 that fits one block memory, else the smallest one, else (a very fine
    result) degree 3. If even that needs more than MAX_ENTRIES, the finest that has no
    more: its error is larger than asked for, and whoever measures it will see.
    """
    smallest: Table | None = None
    for order in range(3):
        low = _coarsest(spec, order)
        if low is None:
            continue
        table = _quantized(spec, order, low)
        if table.bits <= BLOCK_BITS:
            return table
        if smallest is None or table.bits < smallest.bits:
            smallest = table
    if smallest is not None:
        return smallest
    low = _coarsest(spec, 3)
    return _quantized(spec, 3, _finest(spec) if low is None else low)


def _segments(spec: TableSpec, low: int) -> int:
    return -(-spec.count // (1 << low))


def _finest(spec: TableSpec) -> int:
    """The smallest `low` with no more than MAX_ENTRIES entries."""
    low = 0
    while _segments(spec, low) * len(spec.functions) > MAX_ENTRIES:
        low += 1
    return low


def _coarsest(spec: TableSpec, order: int) -> int | None:
    """The largest `low` whose polynomials of this degree are good enough, or None."""
    finest, coarsest = _finest(spec), max((spec.count - 1).bit_length(), 0)
    limit = math.ldexp(_FIT_ERROR, -spec.output_fraction)
    if not _good(spec, order, finest, limit):
        return None
    while finest < coarsest:
        middle = (finest + coarsest + 1) // 2
        if _good(spec, order, middle, limit):
            finest = middle
        else:
            coarsest = middle - 1
    return finest


def _good(spec: TableSpec, order: int, low: int, limit: float) -> bool:
    return low == 0 or _fit_error(spec, order, low) <= limit


def _fit_error(spec: TableSpec, order: int, low: int) -> float:
    """The largest error of the unquantised polynomials, at points that include the ends."""
    t = np.linspace(-1.0, 1.0, _CHECKS_PER_SEGMENT)
    # A lone segment, or the first few, may be sampled more densely at no cost.
    if _segments(spec, low) < 64:
        t = np.linspace(-1.0, 1.0, 8 * _CHECKS_PER_SEGMENT + 1)
    centres, half = _geometry(spec, low)
    powers = np.vander(t, order + 1, increasing=True).T
    worst = 0.0
    for f in spec.functions:
        exact = f((centres[:, None] + half * t[None, :]).ravel()).reshape(len(centres), len(t))
        fitted = _fit(f, centres, half, order) @ powers
        worst = max(worst, float(np.abs(fitted - exact).max()))
    return worst


def _geometry(spec: TableSpec, low: int) -> tuple[npt.NDArray[np.float64], float]:
    """The real centre (z = 0) of each segment, and half a segment's length."""
    half = float(1 << low) / 2 if low else 0.0
    first = np.arange(_segments(spec, low), dtype=np.float64)
    centres = np.asarray(first * float(1 << low) + (half + spec.offset), dtype=np.float64)
    return np.ldexp(centres, -spec.fraction), math.ldexp(half, -spec.fraction)


def _fit(
    f: Function, centres: npt.NDArray[np.float64], half: float, order: int
) -> npt.NDArray[np.float64]:
    """Coefficients (segments, order + 1) of polynomials in t = z / half, t in [-1, 1]."""
    nodes = np.cos(np.pi * (np.arange(order + 1) + 0.5) / (order + 1))
    values = f((centres[:, None] + half * nodes[None, :]).ravel())
    inverse = np.linalg.inv(np.vander(nodes, order + 1, increasing=True))
    return values.reshape(len(centres), order + 1) @ inverse.T


def _quantized(spec: TableSpec, order: int, low: int) -> Table:
    order = order if low else 0
    centres, half = _geometry(spec, low)
    fits = np.concatenate([_fit(f, centres, half, order) for f in spec.functions])
    fractions = [spec.working_fraction]
    for _ in range(order):
        # One unit of coefficient k + 1, times the largest z, is half a unit of coefficient k.
        fractions.append(fractions[-1] + low - spec.fraction)
    dropped: list[int] = []
    for k in range(order):
        # The bits of z that move the product by less than half a unit of coefficient k.
        largest = sum(float(np.abs(fits[:, j]).max()) for j in range(k + 1, order + 1))
        largest *= half ** -(k + 1)
        spare = spec.fraction - fractions[k] - 1 - float(np.log2(max(largest, 1e-300)))
        dropped.append(int(np.clip(np.floor(spare), 0, low - 1)))
    coefficients: list[npt.NDArray[np.int64]] = []
    for k in range(order + 1):
        scaled = np.ldexp(fits[:, k] * (half**-k if k else 1.0), fractions[k])
        # Truncating the product that will be added loses half a unit on average.
        lost = 0.5 if k < order and _product_shift(spec, fractions, dropped, k) < 0 else 0.0
        coefficients.append(np.rint(scaled + lost).astype(np.int64))
    return Table(spec, low, _segments(spec, low), coefficients, fractions, dropped)


def _product_shift(spec: TableSpec, fractions: list[int], dropped: list[int], k: int) -> int:
    """The shift to the left that takes (coefficient k + 1) * z to the fraction of k."""
    return fractions[k] - (fractions[k + 1] + spec.fraction - dropped[k])


def emit_lookup(
    program: Program, table: Table, u: Value, bank: Value | None = None, name: str = "c"
) -> Value:
    """
    Append the evaluation of `table` at `u` (in [0, count)) and in a bank (0 or 1;
    None if there is one), and return the result, at `working_fraction` fraction bits.
    """
    index = program.shift(u, -table.low) if table.low < u.bits - 1 else program.constant(0)
    program.named("segment", index)
    if bank is not None:
        start = program.select(bank, program.constant(table.segments), program.constant(0))
        index = program.add(index, start)
    if table.order == 0:
        program.comment("the nearest entry of the table")
        return program.lookup(f"{name}0", table.coefficients[0], index)
    program.comment("distance from the centre of the segment")
    low = program.low_bits(u, table.low)
    z = program.named("z", program.subtract(low, program.constant(1 << (table.low - 1))))
    return emit_polynomial(program, table, index, z, name)


def emit_polynomial(
    program: Program, table: Table, index: Value, z: Value, name: str = "c"
) -> Value:
    """Append the polynomial of segment `index` at the distance `z` from its centre."""
    program.comment(f"polynomial of degree {table.order}")
    result = program.lookup(f"{name}{table.order}", table.coefficients[table.order], index)
    for k in reversed(range(table.order)):
        product = program.multiply(result, program.shift(z, -table.dropped[k]))
        shift = _product_shift(table.spec, table.fractions, table.dropped, k)
        coefficient = program.lookup(f"{name}{k}", table.coefficients[k], index)
        result = program.add(coefficient, program.shift(product, shift))
    return result
