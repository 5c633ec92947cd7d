"""
The real functions that math kernels approximate, in float64.

Accurate to a few units of float64's last place, which is far below that of any
format a kernel is made for, and without a dependency beyond NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .fixed import Format, Mantissas

Reals = npt.NDArray[np.float64]


def _sigmoid(x: Reals) -> Reals:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


def _softplus(x: Reals) -> Reals:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _erf(x: Reals) -> Reals:
    # The standard library's is exact to the last place; NumPy has none.
    return np.fromiter(map(math.erf, x.tolist()), np.float64, x.size)


def _reciprocal(x: Reals) -> Reals:
    return 1.0 / x


def _sqrt(x: Reals) -> Reals:
    return np.sqrt(x)


def _rsqrt(x: Reals) -> Reals:
    return 1.0 / np.sqrt(x)


REAL_FUNCTIONS: dict[str, Callable[[Reals], Reals]] = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "erf": _erf,
    "reciprocal": _reciprocal,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "log": np.log,
    "log1p": np.log1p,
}


def reference(function: str, x: Reals) -> Reals:
    """
    The real function in float64 at a flat array of arguments, with the values that
    kernels give outside the domain as infinities (0 for sqrt).
    """
    match function:
        case "log" | "reciprocal" | "rsqrt" | "log1p" | "sqrt":
            edge = -1.0 if function == "log1p" else 0.0
            outside = x == edge if function == "reciprocal" else x <= edge
            y = REAL_FUNCTIONS[function](np.where(outside, 1.0, x))
            limit = {"log": -math.inf, "log1p": -math.inf, "sqrt": 0.0}.get(function, math.inf)
            return np.where(outside, limit, y)
        case _:
            with np.errstate(over="ignore"):
                return REAL_FUNCTIONS[function](x)


def ulp_error(mantissas: Mantissas, exact: Reals, target: Format) -> Reals:
    """|result - exact| in units of the target's last place; `exact` is clamped to its range."""
    with np.errstate(over="ignore"):
        scaled = np.ldexp(exact, target.fraction)
    clamped = np.clip(scaled, target.minimum, target.maximum)
    return np.abs(mantissas.astype(np.float64) - clamped)


def quarter_sine(u: Reals) -> Reals:
    """sin(pi/2 u) for u in [0, 1]"""
    return np.sin(np.pi / 2 * u)


def quarter_cosine(u: Reals) -> Reals:
    """cos(pi/2 u) for u in [0, 1]"""
    # Exact at u = 1, where the cosine of a rounded pi / 2 is not.
    return np.sin(np.pi / 2 * (1.0 - u))


def sincos_reference(x: Reals) -> tuple[Reals, Reals]:
    """(sin(pi/2 x), cos(pi/2 x)) in float64, for x of any size."""
    quadrant = np.floor(x)
    u = x - quadrant
    s, c = quarter_sine(u), quarter_cosine(u)
    q = np.mod(quadrant, 4.0)
    sine = np.select([q == 0, q == 1, q == 2], [s, c, -s], -c)
    cosine = np.select([q == 0, q == 1, q == 2], [c, -s, -c], s)
    return sine, cosine
