"""
The table that fits a layer's outputs best, the codes given: two ridge regressions.

`refit_weight` keeps a table of centroids × weight and looks for the weight. With X̂ the N×H matrix
of the centroids that the codes stand for, W = W0 + Δ minimises ‖Y - X̂·W - 1·sᵀ‖² + λ‖Δ‖². It has as
many unknowns as the layer has weights, so some thousand rows determine it; where Y are the outputs
of a model whose earlier layers were not yet tables, it takes back part of what these have lost.

`refit_table` looks for every entry by itself. With Z the N×D matrix of one-hot codes, D = CB·K, and
T0 the table of centroids × weight, the table T = T0 + Δ minimises ‖Y - Z·T‖² + λ‖Δ‖²: an entry
whose code is rare stays near T0. Either (ZᵀZ + λ)Δ = ZᵀR or Δ = Zᵀ(Z·Zᵀ + λ)⁻¹R with R = Y - Z·T0,
whichever matrix is the smaller; both are counts of equal codes. Beyond `DIRECT` rows and codes,
conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.linalg  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from .jit import compiled

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Codes = NDArray[np.uint8]

_linear = cast(Any, scipy.linalg)

RIDGES = (3e-3, 3e-2, 3e-1, 3.0)
"""λ as a multiple of N/K, the rows that a code is met in on average."""

WEIGHT_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)
"""λ of `refit_weight` as a multiple of the mean of X̂ᵀX̂'s diagonal."""

DIRECT = 6144
"""The largest system that is factored (300 MB)."""

_PIECE = 16384
"""Rows that are multiplied in float32 before their products are added up in float64."""

STEPS = 24
"""Conjugate gradients, at most; it stops where held-out rows no longer gain."""


@compiled
def sum_rows(indices: Codes, table: Floats) -> Floats:
    """Z·T: Σ_cb table[cb, indices[:, cb], :], N×F, of N×CB indices and a CB×K×F table."""
    total = np.zeros((indices.shape[0], table.shape[2]), dtype=np.float32)
    for row in range(indices.shape[0]):
        out = total[row]
        for block in range(indices.shape[1]):
            out += table[block, indices[row, block]]
    return total


@compiled
def sum_by_code(indices: Codes, y: Floats, count: int) -> Floats:
    """Zᵀ·Y: for each code the sum of the rows of N×F that have it, CB×K×F."""
    total = np.zeros((indices.shape[1], count, y.shape[1]), dtype=np.float32)
    for row in range(indices.shape[0]):
        for block in range(indices.shape[1]):
            total[block, indices[row, block]] += y[row]
    return total


@compiled
def pair_counts(indices: Codes, count: int) -> Doubles:
    """Zᵀ·Z, D×D: in how many rows two codes meet. Only the lower triangle of blocks is filled."""
    rows, blocks = indices.shape
    columns = indices.T.copy()
    total = np.zeros((blocks * count, blocks * count), dtype=np.float64)
    for first in range(blocks):
        for second in range(first + 1):
            for row in range(rows):
                i = first * count + columns[first, row]
                j = second * count + columns[second, row]
                total[i, j] += 1
    return total


@compiled
def agreements(indices: Codes) -> Doubles:
    """Z·Zᵀ, N×N: in how many codebooks two rows have the same code. Only the lower triangle."""
    rows, blocks = indices.shape
    total = np.zeros((rows, rows), dtype=np.float64)
    for first in range(rows):
        for second in range(first + 1):
            equal = 0
            for block in range(blocks):
                equal += indices[first, block] == indices[second, block]
            total[first, second] = equal
    return total


@dataclass(frozen=True)
class WeightRefit:
    """A refitted weight and how it was found."""

    weight: Floats
    """H×F."""
    shift: Floats
    """What is added to the outputs besides, F."""
    ridge: float
    """λ."""
    error: float
    """Squared error on the held-out rows, over all columns."""


def refit_weight(
    values: Floats, y: Floats, prior: Floats, held_values: Floats, held_y: Floats
) -> WeightRefit:
    """
    The weight H×F and shift F for which values·W + shift fits the outputs `y` (N×F) of inputs
    `values` (N×H), drawn towards `prior`; λ is the one of `WEIGHT_RIDGES` with the least error on
    the held-out rows.
    """
    width = prior.shape[0]
    mean = values.mean(axis=0, dtype=np.float64).astype(np.float32)
    rest_mean = np.zeros(prior.shape[1])
    matrix, right = np.zeros((width, width)), np.zeros(prior.shape)
    for start in range(0, len(y), _PIECE):
        piece = values[start : start + _PIECE]
        rest = y[start : start + _PIECE] - piece @ prior
        rest_mean += rest.sum(axis=0, dtype=np.float64)
        centred = piece - mean
        matrix += centred.T @ centred
        # Rows of `centred` add up to 0, so that the mean of the rest need not be known here.
        right += centred.T @ rest
    rest_mean /= len(y)
    held_rest = held_y - held_values @ prior
    diagonal = matrix.diagonal().copy()
    unit = max(float(diagonal.mean()), 1e-30)
    best: WeightRefit | None = None
    for multiple in reversed(WEIGHT_RIDGES):
        np.fill_diagonal(matrix, diagonal + multiple * unit)
        factor = _linear.cho_factor(matrix, lower=True, check_finite=False)
        change: Floats = _linear.cho_solve(factor, right, check_finite=False).astype(
            np.float32, order="C"
        )
        shift = (rest_mean - mean @ change).astype(np.float32)
        missing = (held_rest - held_values @ change - shift).astype(np.float64)
        error = float(np.sum(missing * missing))
        if best is not None and error >= best.error:
            break
        weight = (prior + change).astype(np.float32)
        best = WeightRefit(weight, shift, multiple * unit, error)
    assert best is not None
    return best


@dataclass(frozen=True)
class Refit:
    """A refitted table and how it was found."""

    table: Floats
    """CB×K×F."""
    ridge: float
    """λ, in rows."""
    error: float
    """Squared error on the held-out rows, over all columns."""


def refit_table(
    indices: Codes, y: Floats, prior: Floats, held_indices: Codes, held_y: Floats
) -> Refit:
    """
    The table CB×K×F that fits the outputs `y` (N×F) of rows with codes `indices` (N×CB), drawn
    towards `prior`; λ is the one of `RIDGES` with the least error on the held-out rows.
    """
    count = prior.shape[1]
    rest = y - sum_rows(indices, prior)
    held_rest = held_y - sum_rows(held_indices, prior)
    unit = max(1.0, len(y) / count)
    size = min(len(y), indices.shape[1] * count)
    candidates = (
        _direct(indices, rest, count, unit)
        if size <= DIRECT
        else _gradients(indices, rest, count, RIDGES[1] * unit)
    )
    best: Refit | None = None
    for ridge, change in candidates:
        missing = (held_rest - sum_rows(held_indices, change)).astype(np.float64)
        error = float(np.sum(missing * missing))
        if best is not None and error >= best.error:
            # The error falls and then rises, along λ as along the steps of the gradients.
            break
        best = Refit(change, ridge, error)
    assert best is not None
    return Refit((prior + best.table).astype(np.float32), best.ridge, best.error)


def _direct(
    indices: Codes, rest: Floats, count: int, unit: float
) -> Iterator[tuple[float, Floats]]:
    """Δ for each λ, from the largest, by Cholesky's factors of the smaller matrix."""
    rows, blocks = indices.shape
    shape = (blocks, count, rest.shape[1])
    by_rows = rows < blocks * count
    matrix = agreements(indices) if by_rows else pair_counts(indices, count)
    right = rest if by_rows else sum_by_code(indices, rest, count).reshape(-1, shape[2])
    right = right.astype(np.float64)
    diagonal = matrix.diagonal().copy()
    for multiple in reversed(RIDGES):
        ridge = multiple * unit
        np.fill_diagonal(matrix, diagonal + ridge)
        factor = _linear.cho_factor(matrix, lower=True, check_finite=False)
        # The solver's columns are contiguous; every sum below reads rows.
        found: Floats = _linear.cho_solve(factor, right, check_finite=False).astype(
            np.float32, order="C"
        )
        yield ridge, sum_by_code(indices, found, count) if by_rows else found.reshape(shape)


def _gradients(
    indices: Codes, rest: Floats, count: int, ridge: float
) -> Iterator[tuple[float, Floats]]:
    """Δ after each step of conjugate gradients, every column by itself, scaled by the counts."""
    shape = (indices.shape[1], count, rest.shape[1])
    times = np.stack([np.bincount(column, minlength=count) for column in indices.T])
    scale = (1 / (times + ridge)).astype(np.float32)[:, :, None]
    change: Floats = np.zeros(shape, dtype=np.float32)
    residual = sum_by_code(indices, rest, count)
    scaled = residual * scale
    direction = scaled.copy()
    power = np.sum(residual * scaled, axis=(0, 1), dtype=np.float64)
    for _ in range(STEPS):
        image = sum_by_code(indices, sum_rows(indices, direction), count)
        image += np.float32(ridge) * direction
        along = np.sum(direction * image, axis=(0, 1), dtype=np.float64)
        length = np.divide(power, along, out=np.zeros_like(power), where=along > 0)
        length = length.astype(np.float32)
        change = np.add(change, length * direction, dtype=np.float32)
        yield ridge, change
        residual -= length * image
        scaled = residual * scale
        before, power = power, np.sum(residual * scaled, axis=(0, 1), dtype=np.float64)
        turn = np.divide(power, before, out=np.zeros_like(power), where=before > 0)
        direction = scaled + turn.astype(np.float32) * direction
