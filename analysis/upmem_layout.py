"""
How tables, indices and sums lie in the MRAM of DPUs: whole arrays to each DPU's bytes, and back.

The layout is that of `analysis/upmem_mapping.py` (`Mapping`, "In MRAM"). This is its NumPy form:
the host code in C writes the same bytes for indices and reads the same for sums, and tables are
packed here once, when a project is written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .upmem_mapping import SIGNED, Geometry


def dpu_number(geometry: Geometry, i: int, s: int, j: int) -> int:
    """The number of the DPU of row group i, codebook part s, column group j."""
    mapping = geometry.mapping
    return (i * mapping.split_cb + s) * mapping.lp + j


def pack_table(geometry: Geometry, table: NDArray[np.int8]) -> NDArray[np.uint8]:
    """
    The table of each (codebook part, column group), split_cb×lp×bytes, from CB×K×F entries.

    [F_s/f_l][C_s][K][f_l]; entries signed for `scalar32` and `int8` (whose weights may be H×F),
    else biased by 2^(bits-1). Row groups all have the same bytes.
    """
    shape, mapping = geometry.shape, geometry.mapping
    bias = 0 if mapping.variant in SIGNED else shape.bias
    whole = np.zeros(
        (
            mapping.split_cb * geometry.codebooks,
            shape.centroids,
            mapping.lp * geometry.features,
        ),
        dtype=np.int16,
    )
    whole[: shape.codebooks, :, : shape.features] = table.reshape(
        shape.codebooks, shape.centroids, shape.features
    )
    stored = (whole + bias).astype(np.uint8)
    groups = geometry.features // mapping.f_l
    parts = stored.reshape(
        mapping.split_cb, geometry.codebooks, shape.centroids, mapping.lp, groups, mapping.f_l
    ).transpose(0, 3, 4, 1, 2, 5)
    flat = np.zeros((mapping.split_cb, mapping.lp, geometry.table_bytes), dtype=np.uint8)
    used = groups * geometry.codebooks * shape.centroids * mapping.f_l
    flat[:, :, :used] = parts.reshape(mapping.split_cb, mapping.lp, used)
    return flat


def _codebook_tiles(geometry: Geometry) -> list[tuple[int, int]]:
    """(first codebook, codebooks) of each c tile of a DPU."""
    c = geometry.axis("c")
    sizes = [c.tile] * (c.turns - 1) + [c.last]
    return [(turn * c.tile, size) for turn, size in enumerate(sizes)]


def pack_indices(
    geometry: Geometry, indices: NDArray[np.uint8] | NDArray[np.int8]
) -> NDArray[np.uint8]:
    """
    The indices of each (row group, codebook part), ip×split_cb×bytes, from N×CB; the activations
    of an int8 product (N×H) as the bytes they are.

    Tile by tile of codebooks, N_s rows of `pitch` bytes each; 4 bits: the even codebook in the low
    half; 16 bits: index·f_l, little-endian.
    """
    shape, mapping = geometry.shape, geometry.mapping
    whole = np.zeros(
        (mapping.ip * geometry.rows, mapping.split_cb * geometry.codebooks), dtype=np.uint8
    )
    whole[: indices.shape[0], : shape.codebooks] = indices.astype(np.uint8)
    parts = whole.reshape(mapping.ip, geometry.rows, mapping.split_cb, geometry.codebooks)
    packed = np.zeros((mapping.ip, mapping.split_cb, geometry.index_bytes), dtype=np.uint8)
    start = 0
    for first, count in _codebook_tiles(geometry):
        pitch = geometry.pitch(count)
        tile = parts[..., first : first + count].transpose(0, 2, 1, 3)
        rows = np.zeros((mapping.ip, mapping.split_cb, geometry.rows, pitch), dtype=np.uint8)
        match mapping.idx_bits:
            case 4:
                halves = tile[..., 0::2] | (tile[..., 1::2] << 4)
                rows[..., : halves.shape[-1]] = halves
            case 8:
                rows[..., :count] = tile
            case _:
                scaled = (tile.astype(np.uint16) * mapping.f_l).astype("<u2")
                rows[..., : 2 * count] = np.ascontiguousarray(scaled).view(np.uint8)
        size = geometry.rows * pitch
        packed[..., start : start + size] = rows.reshape(mapping.ip, mapping.split_cb, size)
        start += size
    return packed


def unpack_sums(geometry: Geometry, raw: NDArray[np.uint8], rows: int) -> NDArray[np.int32]:
    """
    Sums N×F from what each DPU has, ip×split_cb×lp×bytes; `rows` is the N of this call.

    Tile by tile of columns, N_s rows each; the codebook parts are added and padding is dropped.
    """
    shape, mapping = geometry.shape, geometry.mapping
    kind = "<i4" if mapping.out == "i32" else "<i2"
    whole = np.zeros(
        (mapping.ip, mapping.split_cb, mapping.lp, geometry.rows, geometry.features), dtype=np.int32
    )
    f = geometry.axis("f")
    start = 0
    for turn in range(f.turns):
        width = f.tile if turn < f.turns - 1 else f.last
        size = geometry.rows * width * mapping.out_bytes
        tile = np.ascontiguousarray(raw[..., start : start + size]).view(kind)
        first = turn * f.tile
        whole[..., first : first + width] = tile.reshape(*tile.shape[:-1], geometry.rows, width)
        start += size
    # The codebook parts; those of 16 bits may have wrapped around, and the whole ends right.
    sums = whole.sum(axis=1, dtype=np.int64).astype(kind)
    joined = sums.transpose(0, 2, 1, 3).reshape(
        mapping.ip * geometry.rows, mapping.lp * geometry.features
    )
    return joined[:rows, : shape.features].astype(np.int32)
