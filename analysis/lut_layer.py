"""
One linear layer as lookup tables: its data, and its exact meaning in NumPy.

    y = x·W + b   becomes   idx = encode(x), acc = Σ_cb table[cb, idx[:, cb], :], y = acc·scale + b

with x cut into CB sub-vectors of V channels. Every other place that computes a layer of tables (the
PyTorch module, the interpreter, the host's search in C, the programs on DPUs) is compared with
the functions here.

The search is made of integers so that the order of evaluation cannot matter. Each sub-vector is
rounded to a grid of its codebook's own step, |q| <= 2047, centroids stand on the same grid, and
the nearest one is argmin_k (half_norm_k - q·c_k), the lowest index where several are. With 12-bit
coordinates a score times 16 plus an index of 4 bits fits 32 bits, and 16·c fits 16: the vector form
of the search needs one minimum a centroid for both the distance and the index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import CompileError

GRID = 2047
"""The largest coordinate on the grid of the search, 12 bits with its sign."""

MAX_CENTROIDS = 256
"""An index is one byte."""


def table_limit(bits: int) -> int:
    """The largest magnitude of a symmetric table entry of `bits` bits: 127 for 8."""
    return 2 ** (bits - 1) - 1


def on_grid(x: NDArray[np.float32], steps: NDArray[np.float32], vec: int) -> NDArray[np.int32]:
    """
    The coordinates of N×H activations on the grids of their codebooks, N×CB×V.

    `steps` (CB) is the width of one grid unit. The product x·(1/step) is rounded to float32, then
    to the nearest integer, halves to even, then clipped to ±2047. Channels past H are 0, and so
    is NaN, which has no nearest centroid.
    """
    rows, width = x.shape
    blocks = steps.shape[0]
    padded = np.zeros((rows, blocks * vec), dtype=np.float32)
    padded[:, :width] = x
    inverse = (np.float32(1) / steps.astype(np.float32)).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = padded.reshape(rows, blocks, vec) * inverse[None, :, None]
    grid = np.clip(np.rint(np.nan_to_num(scaled, nan=0.0)), -GRID, GRID)
    return grid.astype(np.int32)


def half_norms(centroids: NDArray[np.integer]) -> NDArray[np.int32]:
    """⌈|c|²/2⌉ for centroids CB×K×V on the grid: CB×K."""
    squares = np.sum(centroids.astype(np.int64) ** 2, axis=-1)
    return ((squares + 1) >> 1).astype(np.int32)


def encode(
    x: NDArray[np.float32], centroids: NDArray[np.integer], steps: NDArray[np.float32]
) -> NDArray[np.uint8]:
    """
    The index of the nearest centroid of each sub-vector, N×CB.

    `x` is N×H, `centroids` CB×K×V on the grid with CB·V >= H, `steps` CB. Exact: a product of two
    12-bit coordinates, summed over V, is an integer that float64 holds.
    """
    blocks, _, vec = centroids.shape
    norms = half_norms(centroids).astype(np.float64)
    real = centroids.astype(np.float64)
    indices = np.empty((x.shape[0], blocks), dtype=np.uint8)
    # In pieces: the scores of all rows at once would be K times as large as the input.
    step = max(1, 2**22 // max(1, blocks * centroids.shape[1]))
    for start in range(0, x.shape[0], step):
        grid = on_grid(x[start : start + step], steps, vec).astype(np.float64)
        products = np.einsum("ncv,ckv->nck", grid, real, optimize=True)
        # argmin takes the first of equal ones.
        indices[start : start + step] = np.argmin(norms[None] - products, axis=-1)
    return indices


def lookup(indices: NDArray[np.uint8], table: NDArray[np.integer]) -> NDArray[np.int64]:
    """Σ_cb table[cb, indices[:, cb], :]: N×CB indices and a CB×K×F table to N×F sums."""
    total = np.zeros((indices.shape[0], table.shape[2]), dtype=np.int64)
    for block in range(table.shape[0]):
        total += table[block, indices[:, block], :]
    return total


def accumulator_range(table: NDArray[np.integer]) -> tuple[int, int]:
    """
    The least and the largest sum that any indices can give, over all columns; 0 is included.

    Tight: choosing the extreme entry of each codebook in the extreme column attains it.
    """
    wide = table.astype(np.int64)
    low, high = wide.min(axis=1).sum(axis=0).min(), wide.max(axis=1).sum(axis=0).max()
    return min(0, int(low)), max(0, int(high))


@dataclass(frozen=True, eq=False)
class LutLayer:
    """
    The tables of one linear layer of H inputs and F outputs.

    Raises CompileError when the parts do not fit together.
    """

    name: str
    """The layer's name in the model, `encoder.layer.0.attention.self.query`."""
    in_features: int
    centroids: NDArray[np.int16]
    """CB×K×V on the grid of the search."""
    steps: NDArray[np.float32]
    """CB: the width of a grid unit of each codebook, positive."""
    table: NDArray[np.int8]
    """CB×K×F."""
    scale: NDArray[np.float32]
    """F: what one unit of the table is worth in each column."""
    bias: NDArray[np.float32] | None = None
    """F."""
    bits: int = 8
    """Entries lie within ±(2^(bits-1) - 1)."""
    channels: NDArray[np.int32] | None = None
    """R input channels that are multiplied exactly; their centroid coordinates are 0."""
    residual: NDArray[np.float32] | None = None
    """R×F: the weights of those channels."""

    def __post_init__(self) -> None:
        blocks, count, vec = self.centroids.shape
        if not 1 <= count <= MAX_CENTROIDS:
            raise CompileError(f"{self.name}: {count} centroids; an index is one byte, 1 to 256")
        if not (blocks - 1) * vec < self.in_features <= blocks * vec:
            raise CompileError(
                f"{self.name}: {blocks} codebooks of {vec} channels for {self.in_features} inputs"
            )
        if self.table.shape[:2] != (blocks, count):
            raise CompileError(
                f"{self.name}: a table of {self.table.shape[0]}×{self.table.shape[1]} rows for "
                f"{blocks} codebooks of {count} centroids"
            )
        if self.steps.shape != (blocks,) or self.scale.shape != (self.out_features,):
            raise CompileError(f"{self.name}: one step a codebook and one scale a column")
        if not (np.all(np.isfinite(self.steps)) and np.all(self.steps > 0)):
            raise CompileError(f"{self.name}: grid steps must be positive numbers")
        if np.abs(self.centroids.astype(np.int32)).max(initial=0) > GRID:
            raise CompileError(f"{self.name}: a centroid lies outside ±{GRID}")
        if np.abs(self.table.astype(np.int32)).max(initial=0) > table_limit(self.bits):
            raise CompileError(f"{self.name}: an entry needs more than {self.bits} bits")
        if self.bias is not None and self.bias.shape != (self.out_features,):
            raise CompileError(
                f"{self.name}: a bias of {self.bias.shape[0]} for {self.out_features}"
            )
        if (self.channels is None) != (self.residual is None):
            raise CompileError(f"{self.name}: residual channels and weights go together")
        if self.channels is not None and self.residual is not None:
            if self.residual.shape != (len(self.channels), self.out_features):
                raise CompileError(f"{self.name}: one row of residual weights a channel")
            if np.any(self.channels < 0) or np.any(self.channels >= self.in_features):
                raise CompileError(f"{self.name}: a residual channel outside the input")

    @property
    def codebooks(self) -> int:
        """CB."""
        return self.centroids.shape[0]

    @property
    def centroids_per_codebook(self) -> int:
        """K."""
        return self.centroids.shape[1]

    @property
    def vec(self) -> int:
        """V: channels a codebook."""
        return self.centroids.shape[2]

    @property
    def out_features(self) -> int:
        """F."""
        return self.table.shape[2]

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest sum that a lookup can give."""
        return accumulator_range(self.table)

    def points(self) -> NDArray[np.float32]:
        """The centroids as numbers, CB×K×V."""
        return self.centroids.astype(np.float32) * self.steps[:, None, None]

    def encode(self, x: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Indices N×CB of activations N×H."""
        return encode(x, self.centroids, self.steps)

    def dequantise(
        self, sums: NDArray[np.integer], x: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """
        Outputs N×F of sums N×F: float32(sum)·scale, plus the bias, each rounded to float32; then
        the residual product of `x` (N×H), which a layer with residual channels needs.
        """
        out = sums.astype(np.float32) * self.scale
        if self.bias is not None:
            out = out + self.bias
        if self.channels is not None and self.residual is not None:
            if x is None:
                raise CompileError(f"{self.name}: a layer with residual channels needs its input")
            out = out + x[:, self.channels] @ self.residual
        return out.astype(np.float32)

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Outputs N×F of activations N×H."""
        return self.dequantise(lookup(self.encode(x), self.table), x)
