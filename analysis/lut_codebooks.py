"""
Codebooks of a layer of tables: the settings of a conversion, k-means of each sub-vector, and the
grid of the search.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import CompileError
from .lut_layer import GRID, MAX_CENTROIDS

Floats = NDArray[np.float32]

Fit = Literal["refit", "kmeans"]

ROWS_OF_KMEANS = 16384
"""k-means sees at most so many rows: a thousand a centroid for 16, 64 for 256."""

ITERATIONS = 25
"""Lloyd's iterations at most; past this the distortion moves in its fourth digit."""

TAIL = 1e-3
"""The share of coordinates that may lie off the grid of their codebook."""


@dataclass(frozen=True)
class LutSettings:
    """
    How a linear layer becomes tables.

    Raises CompileError for a value out of its range.
    """

    vec: int = 4
    """V: channels a codebook."""
    centroids: int = 16
    """K: centroids a codebook, 1 to 256."""
    bits: int = 8
    """Bits of a table entry, 4 to 8."""
    fit: Fit = "refit"
    """`kmeans`: the table is centroids × weight. `refit`: a ridge regression of the layer's
    output on the codes, kept where it is better on held-out rows."""
    weighted: bool = False
    """k-means in the metric of the output error, W_cb·W_cbᵀ."""
    residual: int | None = None
    """Input channels that are multiplied exactly. None: none, or, in a table of 8 bits, the few
    without which its integers would add more than `fit_layer` allows them to."""
    seed: int = 0
    holdout: float = 0.2
    """The share of calibration rows that are kept from fitting and on which errors are measured."""

    def __post_init__(self) -> None:
        if self.vec < 1:
            raise CompileError(f"{self.vec} channels a codebook; at least 1")
        if not 1 <= self.centroids <= MAX_CENTROIDS:
            raise CompileError(
                f"{self.centroids} centroids a codebook; an index is one byte, 1 to {MAX_CENTROIDS}"
            )
        if not 4 <= self.bits <= 8:
            raise CompileError(f"table entries of {self.bits} bits; 4 to 8")
        if self.fit not in ("refit", "kmeans"):
            raise CompileError(f"no fit is named {self.fit!r}; 'refit' or 'kmeans'")
        if self.residual is not None and self.residual < 0:
            raise CompileError(f"{self.residual} residual channels; 0 or more")
        if not 0 <= self.seed < 2**32:
            raise CompileError(f"a seed of {self.seed}; 0 to 4294967295")
        if not 0 < self.holdout < 1:
            raise CompileError(f"{self.holdout} of the rows held out; more than 0, less than 1")


def codebook_count(width: int, vec: int) -> int:
    """CB = ⌈H/V⌉."""
    return -(-width // vec)


def sub_vectors(x: Floats, vec: int) -> Floats:
    """N×H activations as N×CB×V; channels past H are 0."""
    blocks = codebook_count(x.shape[1], vec)
    if blocks * vec == x.shape[1]:
        return x.reshape(len(x), blocks, vec)
    padded = np.zeros((len(x), blocks * vec), dtype=x.dtype)
    padded[:, : x.shape[1]] = x
    return padded.reshape(len(x), blocks, vec)


def sub_weights(weight: Floats, vec: int) -> Floats:
    """An H×F weight as CB×V×F; rows past H are 0."""
    return np.ascontiguousarray(sub_vectors(weight.T, vec).transpose(1, 2, 0))


def codebooks(
    x: Floats,
    settings: LutSettings,
    weight: Floats | None = None,
    *,
    only: NDArray[np.integer] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Floats:
    """
    Centroids CB×K×V of activations N×H by k-means, with a k-means++ start.

    With `settings.weighted`, distances are |(x - c)·W_cb| for the H×F `weight`: k-means runs on
    x·L with L·Lᵀ = W_cb·W_cbᵀ, and a mean of x·L is the mean of x, times L. `only` lists the
    codebooks to fit; the rest are 0. Where a codebook has fewer distinct sub-vectors than K,
    some centroids are equal. `progress` is told the finished share.

    Raises CompileError where there are fewer rows than centroids, and without scikit-learn.
    """
    count = settings.centroids
    if len(x) < count:
        raise CompileError(f"{len(x)} rows for {count} centroids; k-means needs one a centroid")
    generator = cast(Any, np.random.default_rng(settings.seed))
    if len(x) > ROWS_OF_KMEANS:
        x = x[np.sort(generator.choice(len(x), ROWS_OF_KMEANS, replace=False))]
    parts = sub_vectors(x, settings.vec)
    factors = _metrics(weight, settings.vec) if settings.weighted and weight is not None else None
    blocks = parts.shape[1]
    seeds: list[int] = generator.integers(2**31, size=blocks).tolist()
    points = np.zeros((blocks, count, settings.vec), dtype=np.float32)
    chosen = range(blocks) if only is None else [int(block) for block in only]
    k_means, one_thread = _k_means()

    def found(block: int) -> Floats:
        part = parts[:, block].astype(np.float64)
        # In units of the largest: squares of huge or tiny activations stay numbers.
        largest = np.abs(part).max()
        if not largest > 0:
            return np.zeros((count, settings.vec), dtype=np.float32)
        part = part / largest
        factor = np.eye(settings.vec) if factors is None else factors[block]
        centres = k_means(part @ factor, count, seeds[block])
        return (np.linalg.solve(factor.T, centres.T).T * largest).astype(np.float32)

    # A codebook a thread: most of k-means runs outside the interpreter's lock.
    with one_thread, ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, (block, centres) in enumerate(zip(chosen, pool.map(found, chosen), strict=True)):
            points[block] = centres
            if progress is not None:
                progress((done + 1) / len(chosen))
    return points


class SharedCodebooks:
    """
    Codebooks of the last few inputs. Layers with one input, such as the projections of an
    attention, have the same codebooks, which are then found once.
    """

    def __init__(self, kept: int = 4):
        self._kept = kept
        self._found: dict[str, Floats] = {}

    def of(
        self,
        x: Floats,
        settings: LutSettings,
        weight: Floats,
        progress: Callable[[float], None] | None = None,
    ) -> Floats:
        """As `codebooks`; the array is the caller's own."""
        if settings.weighted:
            return codebooks(x, settings, weight, progress=progress)
        asked = (settings.vec, settings.centroids, settings.seed, x.shape)
        key = hashlib.sha256(x.tobytes()).hexdigest() + repr(asked)
        if key not in self._found:
            while len(self._found) >= self._kept:
                del self._found[next(iter(self._found))]
            self._found[key] = codebooks(x, settings, progress=progress)
        return self._found[key].copy()


def _metrics(weight: Floats, vec: int) -> NDArray[np.float64]:
    """L of each codebook, CB×V×V, lower triangular: L·Lᵀ is W_cb·W_cbᵀ up to a small ridge."""
    rows = sub_weights(weight, vec).astype(np.float64)
    gram = rows @ rows.transpose(0, 2, 1)
    trace = np.trace(gram, axis1=1, axis2=2) / vec
    # No weights, no preference: the Euclidean metric.
    gram[trace == 0] = np.eye(vec)
    trace[trace == 0] = 1
    gram /= trace[:, None, None]
    # Near 0 the factor is hard to divide by, and its direction does not matter.
    return np.asarray(np.linalg.cholesky(gram + 1e-4 * np.eye(vec)), dtype=np.float64)


def _k_means() -> tuple[
    Callable[[NDArray[np.float64], int, int], NDArray[np.float64]], AbstractContextManager[Any]
]:
    """
    k-means of rows into a number of clusters from a seed, which gives the clusters' means, and a
    context in which it runs on one thread: a codebook is too small to share, and threads that wait
    for each other take several times as long.
    """
    try:
        cluster: Any = import_module("sklearn.cluster")
        exceptions: Any = import_module("sklearn.exceptions")
        threads: Any = import_module("threadpoolctl")
    except ImportError:
        raise CompileError(
            "fitting codebooks needs scikit-learn: pip install 'inr-opt[lut]'"
        ) from None

    def run(rows: NDArray[np.float64], count: int, seed: int) -> NDArray[np.float64]:
        model = cluster.KMeans(count, n_init=1, max_iter=ITERATIONS, random_state=seed)
        with warnings.catch_warnings():
            # Fewer distinct rows than clusters: equal centroids, which do no harm.
            warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
            return model.fit(rows).cluster_centers_

    return run, threads.threadpool_limits(1)


def snap(points: Floats, x: Floats | None = None) -> tuple[NDArray[np.int16], Floats]:
    """
    Centroids CB×K×V on the grid of the search, and the grids' steps (CB).

    A grid reaches the largest magnitude of its codebook's centroids, so that none is moved by
    clipping, and all but `TAIL` of the calibration coordinates `x` (N×H). The largest coordinate
    of all would let one outlier in a million coarsen the grid of every row. What lies past the
    grid is clipped to its edge, beyond all centroids.

    The half step with which a coordinate is off its grid moves no index unless two centroids are
    as near to each other as that: with 4094 steps across, this costs about 1e-6 of the error.
    """
    reach = np.abs(points).max(axis=(1, 2)).astype(np.float64)
    if x is not None:
        parts = np.abs(sub_vectors(x, points.shape[2]))
        for block in range(len(points)):
            reach[block] = max(reach[block], np.quantile(parts[:, block], 1 - TAIL))
    # A codebook of zeros has any step; 1/step must be a float32.
    steps = np.maximum(np.where(reach > 0, reach / GRID, 1.0), 2.0**-120).astype(np.float32)
    grid = np.rint(points.astype(np.float64) / steps.astype(np.float64)[:, None, None])
    return np.clip(grid, -GRID, GRID).astype(np.int16), steps
