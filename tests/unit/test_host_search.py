"""The compiled search against its definition, on every route of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.lut_layer import GRID, LutLayer, encode
from inr.errors import CompileError
from inr.runtime import host_search
from inr.runtime.host_search import HEADERS, HostSearch, pack4, routes

STRANGE = np.array(
    [np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -0.0, 0.5, -0.5, 1.5], dtype=np.float32
)


@st.composite
def searches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, centroids and steps; small coordinates make ties, large ones the longest keys."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    vec = draw(st.one_of(st.integers(1, 8), st.integers(1, 48)))
    blocks = draw(st.integers(1, 40))
    count = draw(st.one_of(st.sampled_from([1, 15, 16, 17, 64, 255, 256]), st.integers(1, 256)))
    width = (blocks - 1) * vec + draw(st.integers(1, vec))
    rows = draw(st.integers(0, 70))
    reach = draw(st.sampled_from([1, 3, 60, GRID]))
    centroids = rng.integers(-reach, reach + 1, size=(blocks, count, vec)).astype(np.int16)
    if draw(st.booleans()):
        centroids = np.where(centroids > 0, reach, -reach).astype(np.int16)
    steps = rng.choice(np.array([2.0**-130, 1e-3, 0.25, 1.0, 7.3], dtype=np.float32), size=blocks)
    scale = reach * np.repeat(steps, vec)[:width]
    x = rng.normal(size=(rows, width)).astype(np.float32) * scale
    if draw(st.booleans()):
        # Halfway between two units of the grid.
        x = (np.floor(x / scale * reach) + np.float32(0.5)) * scale / reach
    strange = rng.random(x.shape) < draw(st.sampled_from([0.0, 0.1, 1.0]))
    x = np.where(strange, rng.choice(STRANGE, size=x.shape), x).astype(np.float32)
    return x, centroids, steps


@settings(deadline=None, max_examples=150)
@given(searches(), st.integers(1, 3))
def test_every_route_is_the_definition(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], threads: int
) -> None:
    x, centroids, steps = case
    with np.errstate(over="ignore"):  # 1/step of a subnormal step is infinite.
        expected = encode(x, centroids, steps)
    for route in routes():
        search = HostSearch(centroids, steps, x.shape[1], route=route, threads=threads)
        if route == "numpy":
            continue
        np.testing.assert_array_equal(search.encode(x), expected, err_msg=route)
        if centroids.shape[1] <= 16:
            np.testing.assert_array_equal(search.pack4(x), pack4(expected), err_msg=route)


def test_this_machine_has_a_compiled_route() -> None:
    # The environment of the project has a C compiler: NumPy alone would test nothing here.
    assert "c" in routes()


@pytest.mark.parametrize("vec", [1, 2, 3, 19, 20, 21, 22, 340, 341, 500])
def test_the_longest_keys_do_not_overflow(vec: int) -> None:
    corners = np.array([[GRID] * vec, [-GRID] * vec, [0] * vec], dtype=np.int16)[None]
    steps = np.ones(1, dtype=np.float32)
    x = np.array([[1e30] * vec, [-1e30] * vec, [0.0] * vec], dtype=np.float32)
    for route in routes():
        found = HostSearch(corners, steps, route=route).encode(x)
        assert found.ravel().tolist() == [0, 1, 2], (route, vec)


def test_the_lowest_of_equal_centroids() -> None:
    # 40 equal centroids lie in three groups of 16; a better one in the last group wins.
    centroids = np.full((1, 48, 4), 100, dtype=np.int16)
    steps = np.ones(1, dtype=np.float32)
    x = np.full((33, 4), 100, dtype=np.float32)
    x[5] = -7
    for route in routes():
        assert not HostSearch(centroids, steps, route=route).encode(x).any()
    centroids[0, 40:] = -7
    for route in routes():
        found = HostSearch(centroids, steps, route=route).encode(x).ravel()
        assert found[5] == 40
        assert not np.delete(found, 5).any()


def test_packing() -> None:
    indices = np.array([[1, 2, 3], [15, 0, 9]], dtype=np.uint8)
    assert pack4(indices).tolist() == [[0x21, 0x03], [0x0F, 0x09]]
    assert indices.tolist() == [[1, 2, 3], [15, 0, 9]]
    with pytest.raises(CompileError, match="an index of 16 does not fit 4 bits"):
        pack4(np.array([[16]], dtype=np.uint8))


def test_rows_need_not_be_contiguous_or_float32() -> None:
    rng = np.random.default_rng(0)
    centroids = rng.integers(-500, 500, size=(6, 16, 4)).astype(np.int16)
    steps = np.full(6, 0.01, dtype=np.float32)
    x = rng.normal(size=(24, 50))
    search = HostSearch(centroids, steps)
    expected = encode(np.ascontiguousarray(x.T, dtype=np.float32), centroids, steps)
    np.testing.assert_array_equal(search.encode(x.T), expected)


def test_of_a_layer() -> None:
    rng = np.random.default_rng(1)
    layer = LutLayer(
        name="fc",
        in_features=7,
        centroids=rng.integers(-50, 50, size=(2, 5, 4)).astype(np.int16),
        steps=np.array([0.1, 0.2], dtype=np.float32),
        table=np.zeros((2, 5, 3), dtype=np.int8),
        scale=np.ones(3, dtype=np.float32),
    )
    x = rng.normal(size=(9, 7)).astype(np.float32)
    np.testing.assert_array_equal(HostSearch(layer).encode(x), layer.encode(x))
    with pytest.raises(CompileError, match=r"fc: rows of shape \(9, 8\); N×7"):
        HostSearch(layer).encode(np.zeros((9, 8)))


def test_without_a_compiler_numpy_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    centroids = rng.integers(-50, 50, size=(3, 16, 2)).astype(np.int16)
    steps = np.full(3, 0.02, dtype=np.float32)
    x = rng.normal(size=(5, 6)).astype(np.float32)
    monkeypatch.setenv("CC", "no-such-compiler")
    host_search._library.cache_clear()
    try:
        assert routes() == ("numpy",)
        search = HostSearch(centroids, steps)
        assert search.route == "numpy"
        np.testing.assert_array_equal(search.pack4(x), pack4(encode(x, centroids, steps)))
        with pytest.raises(CompileError, match="no route 'c' here; this machine has numpy"):
            HostSearch(centroids, steps, route="c")
    finally:
        host_search._library.cache_clear()


def test_refusals() -> None:
    steps = np.ones(2, dtype=np.float32)
    good = np.zeros((2, 4, 4), dtype=np.int16)
    with pytest.raises(CompileError, match="centroids come with the steps"):
        HostSearch(good)
    with pytest.raises(CompileError, match="257 centroids; an index is one byte"):
        HostSearch(np.zeros((2, 257, 4), dtype=np.int16), steps)
    with pytest.raises(CompileError, match="a centroid lies outside ±2047"):
        HostSearch(good + 2048, steps)
    with pytest.raises(CompileError, match="2 codebooks of 4 channels for 4 inputs"):
        HostSearch(good, steps, 4)
    with pytest.raises(CompileError, match=r"centroids \(2, 4, 4\) and steps \(3,\)"):
        HostSearch(good, np.ones(3, dtype=np.float32))
    with pytest.raises(CompileError, match="indices of 17 centroids do not fit 4 bits"):
        HostSearch(np.zeros((2, 17, 4), dtype=np.int16), steps).pack4(np.zeros((1, 8)))


@pytest.mark.parametrize(
    "flags",
    [
        ["-std=c99", "-O1", "-pedantic"],
        ["-std=c99", "-O2", "-DINR_SEARCH_PORTABLE"],
        ["-std=gnu11", "-O2", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    ],
)
def test_header_alone(tmp_path: Path, flags: list[str]) -> None:
    """
    The header in a program of its own, as generated host programs have it: no warning, no
    access outside its memory, and the same indices from every path.
    """
    program = r"""
#include <stdio.h>
#include "inr_search.h"
static int16_t c[7 * 256 * 24];
static float steps[7], x[70 * 7 * 24];
static uint8_t out[70 * 7], first[70 * 7];
int main(void) {
  const int shapes[][3] = {{7, 16, 4}, {7, 16, 2}, {5, 256, 3}, {3, 17, 24}, {7, 1, 1}, {2, 9, 9}};
  uint32_t seed = 1;
  for (int i = 0; i < 7 * 256 * 24; i++)
    c[i] = (int16_t)((seed = seed * 1664525u + 1013904223u) >> 20) % 2048;
  for (int i = 0; i < 7; i++) steps[i] = 0.5f;
  for (int i = 0; i < 70 * 7 * 24; i++)
    x[i] = (float)(int16_t)((seed = seed * 1664525u + 1013904223u) >> 16) / 32.0f;
  for (int i = 0; i < 6; i++) {
    inr_search s;
    const int cb = shapes[i][0], k = shapes[i][1], v = shapes[i][2], h = cb * v - v / 2;
    if (inr_search_prepare(&s, h, cb, k, v, c, steps)) return 1;
    for (int level = 0; level <= inr_search_level(); level++)
      for (size_t rows = 0; rows <= 70; rows += 35) {
        memset(out, 255, sizeof out);
        if (inr_search_rows(&s, x, rows, out, 0, level)) return 2;
        inr_search_rows(&s, x, rows, first, 0, 0);
        if (memcmp(out, first, rows * cb)) return 3;
        if (k <= 16 && inr_search_rows(&s, x, rows, out, 1, level)) return 4;
        if (k > 16 && !inr_search_rows(&s, x, rows, out, 1, level)) return 5;
      }
    inr_search_free(&s);
  }
  printf("%d\n", inr_search_level());
  return 0;
}
"""
    (tmp_path / "program.c").write_text(program)
    command = ["cc", *flags, "-Wall", "-Wextra", "-Werror", f"-I{HEADERS}"]
    command += [str(tmp_path / "program.c"), "-o", str(tmp_path / "program")]
    subprocess.run(command, check=True)
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == (0 if "-DINR_SEARCH_PORTABLE" in flags else len(routes()) - 2)
