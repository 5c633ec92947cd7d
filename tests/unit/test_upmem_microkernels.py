"""The innermost loops as C, run natively against sums in NumPy."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest
from inr.analysis.upmem_mapping import lane_limit
from inr.errors import CompileError
from inr.lowering.upmem_microkernels import MicroKernel

NATIVE = """
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#define __mram_ptr
static void mram_read(const void *from, void *to, unsigned bytes) { memcpy(to, from, bytes); }
"""


def _kinds() -> list[MicroKernel]:
    found = []
    for variant, bits, columns, k, idx_bits, out, load in itertools.product(
        ("scalar32", "swar16", "swar8"),
        (5, 6, 7, 8),
        (8, 16, 24),
        (5, 16, 64),
        (4, 8, 16),
        ("i32", "i16"),
        ("coarse", "fine"),
    ):
        if (variant == "swar8" and bits == 8) or (idx_bits == 4 and k > 16):
            continue
        if columns == 24 and (bits in (6, 7) or load == "fine"):
            continue
        found.append(MicroKernel(variant, columns, k, bits, idx_bits, out, load))
    return found


def _library(folder: Path, kinds: list[MicroKernel]) -> ctypes.CDLL:
    text = [NATIVE]
    for kind in kinds:
        buffer = "buffer, " if kind.load == "fine" else ""
        text.append(kind.text())
        text.append(
            f"void call_{kind.name}({kind.sum_type} *sums, const uint8_t *index, "
            "const uint8_t *table, uint32_t count, int first)\n"
            "{ uint8_t buffer[64] __attribute__((aligned(8))); (void)buffer;\n"
            f"  {kind.name}(sums, index, table, {buffer}count, first); }}\n"
        )
    (folder / "kinds.c").write_text("".join(text))
    flags = ["-std=c11", "-O0", "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unknown-pragmas"]
    subprocess.run(
        ["cc", *flags, "-shared", "-fPIC", "kinds.c", "-o", "kinds.so"], cwd=folder, check=True
    )
    return ctypes.CDLL(str(folder / "kinds.so"))


def test_all_kinds_add_exactly(tmp_path: Path) -> None:
    kinds = _kinds()
    library = _library(tmp_path, kinds)
    rng = np.random.default_rng(1)
    for kind in kinds:
        most = min(lane_limit("swar16", 2**kind.bits - 1), 300) // 4 * 4
        # The longest run that lanes hold with every entry at its largest, and a short ragged one.
        for count, extreme in ((most, True), (most, False), (12, False), (4, True)):
            bias = 0 if kind.variant == "scalar32" else 1 << (kind.bits - 1)
            limit = (1 << (kind.bits - 1)) - 1
            table = rng.integers(-limit, limit + 1, (count, kind.centroids, kind.columns))
            if extreme:
                table[...] = limit
            indices = rng.integers(0, kind.centroids, count)
            expected = table[np.arange(count), indices].sum(axis=0)
            stored = (table + bias).astype(np.uint8).tobytes()
            match kind.idx_bits:
                case 4:
                    packed = (indices[0::2] | indices[1::2] << 4).astype(np.uint8)
                case 8:
                    packed = indices.astype(np.uint8)
                case _:
                    packed = (indices * kind.columns).astype("<u2")
            dtype = np.int32 if kind.out == "i32" else np.int16
            before = rng.integers(-3000, 3000, kind.columns).astype(dtype)
            for first in (0, 1):
                sums = before.copy()
                getattr(library, f"call_{kind.name}")(
                    sums.ctypes.data_as(ctypes.c_void_p),
                    packed.tobytes(),
                    stored,
                    ctypes.c_uint32(count),
                    first,
                )
                wanted = (expected + (0 if first else before.astype(np.int64))).astype(dtype)
                assert np.array_equal(sums, wanted), (kind.name, count, extreme, first)


def test_kinds_that_cannot_be() -> None:
    with pytest.raises(CompileError, match="swar16 works"):
        MicroKernel("swar8", 16, 16, 8, 8, "i32", "coarse")
    with pytest.raises(CompileError, match="multiple of 8"):
        MicroKernel("swar16", 6, 16, 8, 8, "i32", "coarse")
    with pytest.raises(CompileError, match="indices of 4 bits"):
        MicroKernel("swar16", 16, 17, 8, 4, "i32", "coarse")
