"""
What the operations around a lookup mean, in NumPy: the tree encoder, requantisation, tables of
numbers, residual channels. The search, the lookup and the scaling are in `lut_layer.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDINGS = ("half_up", "half_even", "half_away")
"""Where a shift drops exactly one half: up, to the even neighbour, or away from zero."""


def encode_tree(
    x: NDArray[np.float32],
    channels: NDArray[np.integer],
    thresholds: NDArray[np.float32],
    vec: int,
) -> NDArray[np.uint8]:
    """
    Indices N×CB of activations N×H by CB binary trees of L levels and 2^L leaves.

    All nodes of level l of a tree compare the channel `channels[cb, l]` of the sub-vector (0 to
    V-1); `thresholds[cb]` has the 2^L - 1 nodes level by level, node j of level l at
    2^l - 1 + j. At threshold t the path goes on to node 2j + (x >= t), in float32: NaN goes low,
    and channels past H are 0. (A hash tree as in MADDNESS, Blalock and Guttag 2021.)
    """
    rows, width = x.shape
    blocks, levels = channels.shape
    padded = np.zeros((rows, blocks * vec), dtype=np.float32)
    padded[:, :width] = x
    node = np.zeros((rows, blocks), dtype=np.int64)
    block = np.arange(blocks, dtype=np.int64)
    for level in range(levels):
        values = padded[:, block * vec + channels[:, level].astype(np.int64)]
        limits = thresholds[block[None], 2**level - 1 + node]
        node = 2 * node + (values >= limits)
    return node.astype(np.uint8)


def sum_numbers(indices: NDArray[np.uint8], table: NDArray[np.floating]) -> NDArray[np.float64]:
    """Σ_cb table[cb, indices[:, cb], :] of floats, in float64 from the first codebook on."""
    total = np.zeros((indices.shape[0], table.shape[2]), dtype=np.float64)
    for block in range(table.shape[0]):
        total += table[block, indices[:, block], :]
    return total


def dequantise(
    sums: NDArray[Any], scale: NDArray[np.float32] | None, bias: NDArray[np.float32] | None
) -> NDArray[np.float32]:
    """float32(sum)·scale + bias, each step rounded to float32; either may be left out."""
    out = sums.astype(np.float32)
    if scale is not None:
        out = (out * scale.astype(np.float32)).astype(np.float32)
    if bias is not None:
        out = (out + bias.astype(np.float32)).astype(np.float32)
    return out


def add_residual(
    x: NDArray[np.float32],
    channels: NDArray[np.integer],
    weight: NDArray[np.float32],
    base: NDArray[np.float32] | None,
) -> NDArray[np.float32]:
    """base + x[:, channels]·weight in float32."""
    product = x.astype(np.float32)[:, channels] @ weight.astype(np.float32)
    return product if base is None else (base.astype(np.float32) + product).astype(np.float32)


def requantise(
    sums: NDArray[np.integer],
    multiplier: NDArray[np.integer],
    shift: NDArray[np.integer],
    rounding: str,
    low: int,
    high: int,
) -> NDArray[np.int64]:
    """
    round(sum·multiplier / 2^shift), held within [low, high].

    Sums and multipliers have 32 bits, so that the product and the half that is added fit 64; one
    multiplier and one shift (0 to 62) a column.
    """
    product = sums.astype(np.int64) * multiplier.astype(np.int64)
    places = shift.astype(np.int64)
    # The floor and what it drops; the half is 2^(shift-1), and there is none for shift 0.
    floor = product >> places
    rest = product - (floor << places)
    twice = 2 * rest - (np.int64(1) << places)
    exact_half = twice == 0
    match rounding:
        case "half_up":
            up = twice >= 0
        case "half_even":
            up = (twice > 0) | (exact_half & (floor & 1 == 1))
        case "half_away":
            up = (twice > 0) | (exact_half & (product > 0))
        case _:
            raise ValueError(f"rounding '{rounding}'")
    return np.clip(floor + up, low, high)


def build_table(
    centroids: NDArray[np.integer], steps: NDArray[np.float32], weight: NDArray[np.floating]
) -> NDArray[np.float32]:
    """
    The table CB×K×F of centroids CB×K×V on their grids times an H×F weight: each entry a sum
    over V in float64, rounded to float32. Rows past H are 0.
    """
    blocks, _, vec = centroids.shape
    padded = np.zeros((blocks * vec, weight.shape[1]), dtype=np.float64)
    padded[: weight.shape[0]] = weight
    points = centroids.astype(np.float64) * steps.astype(np.float64)[:, None, None]
    return (points @ padded.reshape(blocks, vec, -1)).astype(np.float32)
