"""
Fitting the tables of one linear layer to calibration rows.

    split rows -> k-means -> grid -> codes -> table -> weight, table refitted -> integers -> errors

All errors are relative squared errors of the product x·W on the held-out rows, ‖y - ŷ‖²/‖y‖²
without the bias: 0 is exact, 1 is as good as an output of zeros. Where outputs to reach are given,
these less the bias take the place of x·W.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CompileError
from .lut_codebooks import (
    LutSettings,
    SharedCodebooks,
    codebook_count,
    codebooks,
    snap,
    sub_vectors,
    sub_weights,
)
from .lut_layer import LutLayer, encode, lookup, table_limit
from .lut_refit import refit_table, refit_weight, sum_rows

__all__ = [
    "FittedLayer",
    "LayerError",
    "LutSettings",
    "centre_table",
    "codebooks",
    "fit_layer",
    "mean_rounding",
    "quantise_table",
    "relative_error",
    "snap",
    "split_rows",
    "table_of",
]

Floats = NDArray[np.float32]

TABLE_ROWS = 16384
"""Rows that single table entries are fitted to, at most: a regression of CB·K unknowns a column."""

INTEGERS_ADD = 1e-3
"""What the integers of a table of 8 bits may add to the relative error of a layer: past it, and
where `LutSettings.residual` leaves it open, input channels are multiplied exactly."""

RESIDUALS = (1, 2, 4, 8, 16)
"""How many these may be. A few channels that are far larger than all others set the unit of the
outputs that they reach, and all other entries are then rounded by it."""

CLIPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""What the largest magnitude of a column may be clipped to."""


@dataclass(frozen=True)
class LayerError:
    """What tables cost a layer. Errors are ‖y - ŷ‖²/‖y‖² on held-out rows, without the bias."""

    vq_rel_mse: float
    """The table of centroids × weight, as numbers."""
    rel_mse: float
    """The layer as it runs: refitted where that helps, in integers."""
    quant_rel_mse: float
    """What integers add: the difference between the table in integers and as numbers."""
    refit_used: bool
    """Whether the refitted table was better on held-out rows, and so is the layer's."""
    acc_low: int
    acc_high: int
    """The least and the largest sum of table entries that any indices can give."""
    table_bytes: int
    """CB·K·F, one byte an entry."""


@dataclass(frozen=True, eq=False)
class FittedLayer:
    """A layer of tables, its table as numbers, and its error."""

    layer: LutLayer
    float_table: Floats
    """CB×K×F: what the integers stand for. It goes with `float_bias`, not with the bias that was
    given: each codebook's rows are moved to lie around 0, and the bias takes the difference."""
    float_bias: Floats
    """F. The layer's own bias takes back besides what rounding the entries adds on average."""
    error: LayerError


def fit_layer(
    name: str,
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None,
    settings: LutSettings,
    *,
    target: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    shared: SharedCodebooks | None = None,
    progress: Callable[[float], None] | None = None,
) -> FittedLayer:
    """
    Tables for y = x·W + b from calibration rows: `x` N×H, `weight` H×F, `bias` F.

    `target` N×F is what the outputs should be, where that is not x·W + b: those of a layer whose
    input has no error yet. Any real dtype is taken and computed in float32 (half precision is
    widened, float64 rounded).

    A share `settings.holdout` of the rows, drawn by `settings.seed`, is kept from all fitting but
    for the choice of ridges and whether a refit is used, and gives the errors. Rows with the same
    number in `groups` (N) are kept or fitted to together: tokens of one text are alike, and a fit
    to some of them knows too much of the others. `shared` finds codebooks that layers have in
    common. `progress` is told the finished share, 0 to 1.

    Raises CompileError, with the layer's name, where shapes disagree, a number is not finite, there
    are more residual channels than inputs, or fewer rows to fit than centroids.
    """
    tell = progress or _nothing
    rows, matrix, offset, wanted = _checked(name, x, weight, bias, target, settings)
    fit, held = split_rows(len(rows), settings, groups)
    if len(fit) < settings.centroids or not len(held):
        raise CompileError(
            f"{name}: {len(rows)} calibration rows, {len(fit)} to fit and {len(held)} held out, "
            f"for {settings.centroids} centroids; give at least one row to fit a centroid and one "
            "held out, some hundred times as many to fit well"
        )
    find = shared or SharedCodebooks()

    def fitted(residual: int | None, wide: int = 0) -> FittedLayer:
        asked = replace(settings, residual=residual)
        return _fitted(name, rows, matrix, offset, wanted, fit, held, asked, wide, find, tell)

    first = found = fitted(settings.residual)
    if settings.residual is not None or settings.bits < 8:
        return first
    for count in RESIDUALS:
        if found.error.quant_rel_mse <= INTEGERS_ADD:
            return found
        if count <= matrix.shape[0] // 4:
            found = fitted(None, count)
    return found if found.error.quant_rel_mse <= INTEGERS_ADD else first


def _fitted(
    name: str,
    rows: Floats,
    matrix: Floats,
    offset: Floats | None,
    wanted: Floats | None,
    fit: NDArray[np.intp],
    held: NDArray[np.intp],
    settings: LutSettings,
    wide: int,
    find: SharedCodebooks,
    tell: Callable[[float], None],
) -> FittedLayer:
    """
    `fit_layer` where it is known how many channels are multiplied exactly: those of
    `settings.residual` for the error of their centroids, or else `wide` for their reach.
    """
    width, outputs = matrix.shape
    x_fit = rows[fit]
    points = find.of(x_fit, settings, matrix, progress=lambda share: tell(0.5 * share))
    if settings.residual is None:
        channels = _widest_channels(matrix, points, wide)
    else:
        channels = _exact_channels(x_fit, matrix, points, settings)
    x_table, w_table = rows, matrix
    if len(channels):
        x_table, w_table = rows.copy(), matrix.copy()
        x_table[:, channels], w_table[channels] = 0, 0
        changed = np.unique(channels // settings.vec)
        again = codebooks(x_table[fit], settings, w_table, only=changed)
        points[changed] = again[changed]
    tell(0.6)

    grid, steps = snap(points, x_table[fit])
    codes = encode(x_table, grid, steps)
    held_codes = codes[held]
    goals = x_table @ w_table
    if wanted is not None:
        goals = wanted - x_table[:, channels] @ matrix[channels] if len(channels) else wanted
        goals = goals if offset is None else goals - offset
    goal = goals[held]
    on_grid = grid.astype(np.float32) * steps[:, None, None]
    table = table_of(on_grid, w_table)
    vq = least = _squares(goal - sum_rows(held_codes, table))
    tell(0.7)

    shift = np.zeros(outputs, dtype=np.float32)
    if settings.fit == "refit":
        values = _values(on_grid, codes, width)
        line = refit_weight(values[fit], goals[fit], w_table, values[held], goal)
        if line.error < least:
            table, shift, least = table_of(on_grid, line.weight), line.shift, line.error
        some = fit[:: -(-len(fit) // TABLE_ROWS)]
        found = refit_table(codes[some], goals[some] - shift, table, held_codes, goal - shift)
        if found.error < least:
            table, least = found.table, found.error
    tell(0.95)

    table, moved = centre_table(table)
    moved = moved + shift
    counts = np.stack([np.bincount(column, minlength=table.shape[1]) for column in codes[fit].T])
    entries, scale = quantise_table(table, settings.bits, counts=counts)
    # A rounding error that every input has is no error of the layer: the bias takes it back. Where
    # most sub-vectors are near one centroid, as after GELU, that is nearly all of it.
    float_bias = moved if offset is None else (offset + moved).astype(np.float32)
    settled = mean_rounding(table, entries, scale, counts)
    layer = LutLayer(
        name=name,
        in_features=width,
        centroids=grid,
        steps=steps,
        table=entries,
        scale=scale,
        bias=(float_bias + settled).astype(np.float32),
        bits=settings.bits,
        channels=channels if len(channels) else None,
        residual=matrix[channels] if len(channels) else None,
    )
    as_numbers = sum_rows(held_codes, table) + moved
    as_integers = lookup(held_codes, entries).astype(np.float32) * scale + (moved + settled)
    low, high = layer.range
    whole = rows[held] @ matrix
    if wanted is not None:
        whole = wanted[held] if offset is None else wanted[held] - offset
    energy = _squares(whole)
    error = LayerError(
        vq_rel_mse=_ratio(vq, energy),
        rel_mse=_ratio(_squares(goal - as_integers), energy),
        quant_rel_mse=_ratio(_squares(as_numbers - as_integers), energy),
        refit_used=least < vq,
        acc_low=low,
        acc_high=high,
        table_bytes=codebook_count(width, settings.vec) * settings.centroids * outputs,
    )
    tell(1.0)
    return FittedLayer(layer, table, float_bias, error)


def mean_rounding(
    table: Floats, entries: NDArray[np.int8], scale: Floats, counts: NDArray[np.integer]
) -> Floats:
    """
    By how much sums of numbers (CB×K×F) exceed those of integers times scale (F), on average over
    codes as they are met (CB×K).
    """
    total = np.zeros(table.shape[2])
    for rows, units, met in zip(table, entries, counts, strict=True):
        total += (met / max(1, met.sum())) @ (rows - units * scale)
    return total.astype(np.float32)


def _values(points: Floats, codes: NDArray[np.uint8], width: int) -> Floats:
    """The centroids CB×K×V that codes N×CB stand for, N×H."""
    chosen = points[np.arange(len(points)), codes]
    return np.ascontiguousarray(chosen.reshape(len(codes), -1)[:, :width])


def _nothing(share: float) -> None:
    """Progress that nobody follows."""


def _checked(
    name: str,
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None,
    target: ArrayLike | None,
    settings: LutSettings,
) -> tuple[Floats, Floats, Floats | None, Floats | None]:
    """The arrays as float32, refused where they do not fit together."""
    arrays: list[Floats | None] = []
    given_arrays = (x, weight, bias, target)
    names = ("calibration rows", "weight", "bias", "outputs to reach")
    for what, given in zip(names, given_arrays, strict=True):
        if given is None:
            arrays.append(None)
            continue
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(given, dtype=np.float32)
        if bad := int(np.sum(~np.isfinite(array))):
            raise CompileError(
                f"{name}: {bad} of {array.size} numbers of the {what} are not finite in float32"
            )
        arrays.append(array)
    rows, matrix, offset, wanted = arrays
    assert rows is not None
    assert matrix is not None
    if rows.ndim != 2 or matrix.ndim != 2 or rows.shape[1] != matrix.shape[0]:
        raise CompileError(
            f"{name}: rows of shape {rows.shape} and a weight of shape {matrix.shape}; N×H and H×F"
        )
    if not matrix.size:
        raise CompileError(f"{name}: a weight of shape {matrix.shape} has no table")
    if offset is not None and offset.shape != (matrix.shape[1],):
        raise CompileError(f"{name}: a bias of shape {offset.shape} for {matrix.shape[1]} outputs")
    if wanted is not None and wanted.shape != (len(rows), matrix.shape[1]):
        raise CompileError(
            f"{name}: outputs to reach of shape {wanted.shape} for {len(rows)} rows and "
            f"{matrix.shape[1]} outputs"
        )
    if (settings.residual or 0) > matrix.shape[0]:
        raise CompileError(
            f"{name}: {settings.residual} residual channels of {matrix.shape[0]} inputs"
        )
    return rows, matrix, offset, wanted


def split_rows(
    rows: int, settings: LutSettings, groups: ArrayLike | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """
    The rows to fit and the rows held out, each in order: a permutation by the seed is cut. With
    `groups` (one number a row; no groups if all are equal) whole groups are held out, at least
    one.
    """
    labels = np.arange(rows) if groups is None else np.asarray(groups)
    kinds, kind_of = np.unique(labels, return_inverse=True)
    if len(kinds) < 2:
        kinds, kind_of = np.arange(rows), np.arange(rows)
    order = np.random.default_rng(settings.seed).permutation(len(kinds))
    count = max(1, round(len(kinds) * settings.holdout)) if rows else 0
    held = np.zeros(len(kinds), dtype=bool)
    held[order[:count]] = True
    mine = held[kind_of] if rows else np.zeros(0, dtype=bool)
    return np.flatnonzero(~mine), np.flatnonzero(mine)


def table_of(points: Floats, weight: Floats) -> Floats:
    """The table of centroids CB×K×V times an H×F weight: CB×K×F."""
    return (points @ sub_weights(weight, points.shape[2])).astype(np.float32)


def centre_table(table: Floats) -> tuple[Floats, Floats]:
    """
    The table with each codebook's column moved to lie evenly around 0, and the sum of the moves
    (F), which belongs into the bias. Entries become smaller, so that their grid is finer and
    their sums narrower; inputs with a mean, as after GELU, gain the most.
    """
    middle = (table.max(axis=1) + table.min(axis=1)) / 2
    return table - middle[:, None, :], middle.sum(axis=0, dtype=np.float64).astype(np.float32)


def quantise_table(
    table: Floats,
    bits: int,
    *,
    per_tensor: bool = False,
    counts: NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.int8], Floats]:
    """
    A CB×K×F table as integers of `bits` bits, and their scales (F): symmetric, the largest
    magnitude of a column, or of the table, is the largest entry. A column of zeros has scale 1.

    With `counts` (CB×K: how often each code is met) that magnitude may be clipped to one of `CLIPS`
    of itself, whichever has the least squared error of the entries that are met: few and rare
    entries are as large as the largest, and all others gain a finer unit.
    """
    limit = table_limit(bits)
    largest = np.abs(table).max(axis=(0, 1)).astype(np.float64)
    if per_tensor:
        largest = np.full_like(largest, largest.max())
    if counts is not None:
        errors = np.array([_rounding(table, largest * clip, limit, counts) for clip in CLIPS])
        if per_tensor:
            errors = errors.sum(axis=1, keepdims=True)
        largest = largest * np.array(CLIPS)[np.argmin(errors, axis=0)]
    scale = _scale(largest, limit)
    entries = np.empty(table.shape, dtype=np.int8)
    for out, rows in zip(entries, table, strict=True):  # A codebook at a time: little memory.
        out[...] = np.clip(np.rint(rows / scale), -limit, limit)
    return entries, scale


def _scale(largest: NDArray[np.float64], limit: int) -> Floats:
    scale = np.where(largest > 0, largest / limit, 1.0).astype(np.float32)
    # A column of subnormal numbers may have a scale that float32 rounds to 0.
    return np.where(scale > 0, scale, np.float32(1))


def _rounding(
    table: Floats, largest: NDArray[np.float64], limit: int, counts: NDArray[np.integer]
) -> NDArray[np.float64]:
    """The squared error of each column's entries in integers, each as often as it is met."""
    scale = _scale(largest, limit)
    total = np.zeros(len(scale))
    for rows, times in zip(table, counts, strict=True):
        units = rows / scale
        off = units - np.clip(np.rint(units), -limit, limit)
        # Once more than it was met: what was not met may be.
        total += (times + 1.0) @ (off * off)
    return total * scale.astype(np.float64) ** 2


def relative_error(y: Floats, found: Floats) -> float:
    """‖y - ŷ‖²/‖y‖²; 0 where both are 0."""
    return _ratio(_squares(y - found), _squares(y))


def _squares(values: NDArray[np.floating]) -> float:
    return float(np.sum(values.astype(np.float64) ** 2))


def _ratio(error: float, energy: float) -> float:
    if energy > 0:
        return error / energy
    return 0.0 if error == 0 else float("inf")


def _widest_channels(weight: Floats, points: Floats, count: int) -> NDArray[np.int32]:
    """The channels whose centroids span most of the outputs, max |c_h - c'_h|·|W_h|, in order."""
    spans = (points.max(axis=1) - points.min(axis=1)).reshape(-1)[: len(weight)]
    reach = spans * np.linalg.norm(weight, axis=1)
    return np.sort(np.argsort(-reach, kind="stable")[:count]).astype(np.int32)


def _exact_channels(
    x: Floats, weight: Floats, points: Floats, settings: LutSettings
) -> NDArray[np.int32]:
    """
    The channels with the largest share of the output error, in order: the error of channel h is
    E[(x_h - c_h)²]·|W_h|², which leaves out what errors of two channels have in common.
    """
    if not settings.residual:
        return np.empty(0, dtype=np.int32)
    grid, steps = snap(points, x)
    found = points[np.arange(len(points))[None], encode(x, grid, steps)]
    missing = (sub_vectors(x, settings.vec) - found).reshape(len(x), -1)[:, : x.shape[1]]
    share = np.mean(missing.astype(np.float64) ** 2, axis=0)
    share *= np.sum(weight.astype(np.float64) ** 2, axis=1)
    order = np.argsort(-share, kind="stable")[: settings.residual]
    return np.sort(order).astype(np.int32)
