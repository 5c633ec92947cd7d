"""
The search of a layer of tables on this machine: `upmem/host/inr_search.h`, compiled once.

Every path gives the bytes of `analysis.lut_layer.encode`: AVX-512 (with VNNI, products and a sum
in one instruction), AVX2 and plain C, chosen by what the processor has, and NumPy where there is no
C compiler.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..analysis.lut_layer import GRID, MAX_CENTROIDS, LutLayer, encode
from ..errors import CompileError
from .toolchain import cache_folder, fingerprint

Route = Literal["c", "avx2", "avx512", "vnni", "numpy"]
"""How the search is computed."""

HEADERS = Path(__file__).with_name("upmem") / "host"
FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-fPIC", "-shared")
MOST_CHANNELS = 340
"""V up to which a score fits 32 bits; NumPy beyond."""

SOURCE = """\
#include "inr_search.h"

inr_search *inr_search_open(int width, int blocks, int count, int vec, const int16_t *centroids,
                            const float *steps) {
  inr_search *s = malloc(sizeof *s);
  if (s && inr_search_prepare(s, width, blocks, count, vec, centroids, steps)) {
    free(s);
    s = NULL;
  }
  return s;
}

void inr_search_close(inr_search *s) {
  inr_search_free(s);
  free(s);
}

int inr_search_run(const inr_search *s, const float *x, size_t rows, uint8_t *out, int packed,
                   int level) {
  return inr_search_rows(s, x, rows, out, packed, level);
}

int inr_search_best(void) { return inr_search_level(); }
"""


def compile_c(source: str, *flags: str, headers: Path = HEADERS) -> ctypes.CDLL | None:
    """
    A C text as a loaded library, or None where this machine has no C compiler (`CC` where set,
    else cc). Libraries are kept in the cache by everything that went into them.

    Raises CompileError with the compiler's words where it does not take the text.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    asked = [compiler, "--version"]
    version = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    parts = [version, platform.machine(), "\0".join(flags), source]
    texts = [path.read_bytes() for path in sorted(headers.glob("*.h"))]
    key = fingerprint([*(part.encode() for part in parts), *texts])
    library = cache_folder() / "programs" / f"{key}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="inr-", dir=library.parent) as name:
            staged = Path(name, "library.so")
            Path(name, "library.c").write_text(source)
            command = [compiler, *flags, f"-I{headers}", str(Path(name, "library.c"))]
            command += ["-o", str(staged), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise CompileError(f"{compiler} does not take the search:\n{done.stderr}")
            staged.rename(library)
    return ctypes.CDLL(str(library))


@cache
def _library() -> ctypes.CDLL | None:
    library = compile_c(SOURCE, *FLAGS)
    if library is not None:
        library.inr_search_open.restype = ctypes.c_void_p
        library.inr_search_open.argtypes = [ctypes.c_int] * 4 + [ctypes.c_void_p] * 2
        library.inr_search_close.restype = None
        library.inr_search_close.argtypes = [ctypes.c_void_p]
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        library.inr_search_run.argtypes = [pointer, pointer, size, pointer] + [ctypes.c_int] * 2
    return library


def routes() -> tuple[Route, ...]:
    """The routes that this machine has, the fastest first; `numpy` always."""
    library = _library()
    if library is None:
        return ("numpy",)
    compiled: tuple[Route, ...] = ("c", "avx2", "avx512", "vnni")
    return (*reversed(compiled[: library.inr_search_best() + 1]), "numpy")


def pack4(indices: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """
    Two 4-bit indices a byte, N×CB to N×⌈CB/2⌉: the even codebook's in the lower half.

    Raises CompileError for an index above 15.
    """
    if indices.size and indices.max() > 15:
        raise CompileError(f"an index of {indices.max()} does not fit 4 bits; K is at most 16")
    even, odd = indices[:, ::2], indices[:, 1::2]
    packed = even.copy()
    packed[:, : odd.shape[1]] |= odd << 4
    return packed


class HostSearch:
    """
    The search of one layer, ready to run.

        search = HostSearch(layer)            # or HostSearch(centroids, steps, in_features)
        indices = search.encode(x)            # N×H float32 to N×CB bytes
        packed = search.pack4(x)              # N×⌈CB/2⌉ bytes, K <= 16

    `route` is one of `routes()`, by default the fastest. Rows are shared out over `threads`.

    Raises CompileError for centroids off the grid, sizes that do not fit together, or a route that
    this machine does not have.
    """

    def __init__(
        self,
        source: LutLayer | NDArray[np.integer],
        steps: NDArray[np.float32] | None = None,
        in_features: int | None = None,
        *,
        route: Route | None = None,
        threads: int = 1,
    ) -> None:
        if isinstance(source, LutLayer):
            centroids, steps, in_features = source.centroids, source.steps, source.in_features
            self.name = source.name
        else:
            centroids = source
            self.name = "search"
        if steps is None:
            raise CompileError(f"{self.name}: centroids come with the steps of their grids")
        if centroids.ndim != 3 or steps.shape != centroids.shape[:1] or not centroids.size:
            raise CompileError(
                f"{self.name}: centroids {centroids.shape} and steps {steps.shape}; CB×K×V and CB"
            )
        blocks, count, vec = centroids.shape
        self.width = blocks * vec if in_features is None else in_features
        if not (blocks - 1) * vec < self.width <= blocks * vec:
            raise CompileError(
                f"{self.name}: {blocks} codebooks of {vec} channels for {self.width} inputs"
            )
        if count > MAX_CENTROIDS:
            raise CompileError(f"{self.name}: {count} centroids; an index is one byte")
        if np.abs(centroids.astype(np.int64)).max() > GRID:
            raise CompileError(f"{self.name}: a centroid lies outside ±{GRID}")
        if route is not None and route not in routes():
            raise CompileError(
                f"{self.name}: no route {route!r} here; this machine has {', '.join(routes())}"
            )
        if threads < 1:
            raise CompileError(f"{self.name}: {threads} threads; at least 1")
        self.route: Route = route or routes()[0]
        self.threads = threads
        self._centroids = np.ascontiguousarray(centroids, dtype=np.int16)
        self._steps = np.ascontiguousarray(steps, dtype=np.float32)
        if vec > MOST_CHANNELS:
            self.route = "numpy"
        self._handle: int | None = None
        library = _library()
        if self.route != "numpy" and library is not None:
            self._handle = library.inr_search_open(
                self.width, blocks, count, vec, self._centroids.ctypes.data, self._steps.ctypes.data
            )
            if not self._handle:
                raise MemoryError(f"{self.name}: no memory for the search")
            weakref.finalize(self, library.inr_search_close, self._handle)

    def encode(self, x: ArrayLike) -> NDArray[np.uint8]:
        """Indices N×CB of activations N×H."""
        return self._run(x, packed=False)

    def pack4(self, x: ArrayLike) -> NDArray[np.uint8]:
        """Indices of activations N×H, two a byte: N×⌈CB/2⌉. Raises CompileError for K > 16."""
        if self._centroids.shape[1] > 16:
            raise CompileError(
                f"{self.name}: indices of {self._centroids.shape[1]} centroids do not fit 4 bits"
            )
        return self._run(x, packed=True)

    def _run(self, x: ArrayLike, *, packed: bool) -> NDArray[np.uint8]:
        rows = np.ascontiguousarray(x, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise CompileError(f"{self.name}: rows of shape {rows.shape}; N×{self.width}")
        library = _library()
        if self._handle is None or library is None:
            indices = encode(rows, self._centroids, self._steps)
            return pack4(indices) if packed else indices
        blocks = len(self._centroids)
        columns = (blocks + 1) // 2 if packed else blocks
        out = np.empty((len(rows), columns), dtype=np.uint8)
        level = get_args(Route).index(self.route)

        def part(first: int, last: int) -> int:
            source, target = rows[first:last], out[first:last]
            return library.inr_search_run(
                self._handle,
                source.ctypes.data,
                len(source),
                target.ctypes.data,
                int(packed),
                level,
            )

        # Whole tiles of 32 rows a thread.
        share = -(-len(rows) // (32 * self.threads)) * 32 or 32
        pieces = [(first, first + share) for first in range(0, len(rows), share)]
        if len(pieces) <= 1:
            failed = part(0, len(rows))
        else:
            with ThreadPoolExecutor(len(pieces)) as pool:
                failed = any(pool.map(lambda piece: part(*piece), pieces))
        if failed:
            raise MemoryError(f"{self.name}: no memory for {len(rows)} rows")
        return out
