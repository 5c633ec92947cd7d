"""Packing and unpacking, held against a DPU that reads the bytes one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.lut_layer import lookup, table_limit
from inr.analysis.upmem_layout import dpu_number, pack_indices, pack_table, unpack_sums
from inr.analysis.upmem_mapping import Geometry, LutShape, Mapping


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    f_l = draw(st.sampled_from([8, 16]))
    shape = LutShape(
        rows=draw(st.integers(1, 23)),
        codebooks=draw(st.integers(1, 19)),
        centroids=draw(st.sampled_from([2, 5, 16])),
        features=draw(st.integers(1, 70)),
        bits=draw(st.sampled_from([5, 6, 8])),
    )
    mapping = Mapping(
        ip=draw(st.integers(1, 4)),
        lp=draw(st.integers(1, 3)),
        n_m=draw(st.integers(1, 9)),
        f_m=f_l * draw(st.integers(1, 3)),
        c_m=4 * draw(st.integers(1, 3)),
        f_l=f_l,
        c_l=4,
        variant=draw(st.sampled_from(["scalar32", "swar16", "swar8"])),
        idx_bits=draw(st.sampled_from([4, 8, 16])),
        out=draw(st.sampled_from(["i32", "i16"])),
        split_cb=draw(st.integers(1, 3)),
    )
    return Geometry(shape, mapping)


def _index(geometry: Geometry, raw: np.ndarray, row: int, codebook: int) -> int:
    """What the bytes of a DPU say of one index, by the text of `Mapping`."""
    bits, c_m = geometry.mapping.idx_bits, geometry.axis("c").tile
    tile, inside = divmod(codebook, c_m)
    width = min(c_m, geometry.codebooks - tile * c_m)
    pitch = -(-width * bits // 64) * 8
    start = tile * geometry.rows * (-(-c_m * bits // 64) * 8) + row * pitch
    if bits == 4:
        return int(raw[start + inside // 2]) >> (4 * (inside % 2)) & 15
    if bits == 8:
        return int(raw[start + inside])
    offset = int(raw[start + 2 * inside]) + 256 * int(raw[start + 2 * inside + 1])
    assert offset % geometry.mapping.f_l == 0
    return offset // geometry.mapping.f_l


def _run(geometry: Geometry, raw: np.ndarray, table: np.ndarray) -> bytes:
    """The output bytes of one DPU, in plain loops."""
    m, shape = geometry.mapping, geometry.shape
    bias = 0 if m.variant == "scalar32" else shape.bias
    sums = np.zeros((geometry.rows, geometry.features), dtype=np.int64)
    for row in range(geometry.rows):
        for codebook in range(geometry.codebooks):
            k = _index(geometry, raw, row, codebook)
            for group in range(geometry.features // m.f_l):
                at = ((group * geometry.codebooks + codebook) * shape.centroids + k) * m.f_l
                entries = table[at : at + m.f_l]
                signed = entries.view(np.int8) if bias == 0 else entries.astype(np.int64) - bias
                sums[row, group * m.f_l : (group + 1) * m.f_l] += signed
    out = bytearray(geometry.output_bytes)
    position, f_m = 0, geometry.axis("f").tile
    for first in range(0, geometry.features, f_m):
        part = sums[:, first : first + f_m].astype("<i4" if m.out == "i32" else "<i2").tobytes()
        out[position : position + len(part)] = part
        position += len(part)
    return bytes(out)


@given(geometries(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_dpus_reading_the_bytes_compute_the_lookup(geometry: Geometry, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, m = geometry.shape, geometry.mapping
    limit = table_limit(shape.bits)
    table = rng.integers(
        -limit, limit + 1, (shape.codebooks, shape.centroids, shape.features)
    ).astype(np.int8)
    rows = int(rng.integers(1, shape.rows + 1))
    indices = rng.integers(0, shape.centroids, (rows, shape.codebooks)).astype(np.uint8)
    tables, packed = pack_table(geometry, table), pack_indices(geometry, indices)
    raw = np.zeros((m.ip, m.split_cb, m.lp, geometry.output_bytes), dtype=np.uint8)
    numbers = set()
    for i, s, j in np.ndindex(m.ip, m.split_cb, m.lp):
        numbers.add(dpu_number(geometry, i, s, j))
        out = _run(geometry, packed[i, s], tables[s, j])
        raw[i, s, j] = np.frombuffer(out, dtype=np.uint8)
    assert numbers == set(range(m.dpus))
    assert np.array_equal(unpack_sums(geometry, raw, rows), lookup(indices, table))
