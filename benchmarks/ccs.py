"""
How fast the search of a layer of tables is on this machine, on one core.

    python benchmarks/ccs.py [--rows 4096] [--width 768] [--repeat 30] [--json]

For each setting of V channels and K centroids, the milliseconds for N rows of H activations:

* every compiled route of `runtime/host_search.py`, from float32 rows to packed or whole bytes;
* what it is compared with: three loops over rows, codebooks and centroids in C and float32, at -O2
  without vectorisation and at -O3; and a float32 product of N×H by H×K in NumPy, which has the
  flops of the search, 2·N·H·K.

`best` is the fastest route in its faster form; two indices a byte are what is sent to DPUs where
K is 16. Each figure is the least CPU time of the repetitions. The indices of the loops are
compared with those of the search: they differ only where two centroids are equally near to
within the grid.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable

import numpy as np
from inr.analysis.lut_codebooks import snap
from inr.runtime.host_search import HostSearch, compile_c, routes
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

SETTINGS = ((2, 16), (4, 16), (4, 64), (4, 256))
LOOPS = """\
#include <stddef.h>
#include <stdint.h>

void search(const float *x, const float *c, int rows, int blocks, int count, int vec,
            uint8_t *out) {
  for (int row = 0; row < rows; row++)
    for (int block = 0; block < blocks; block++) {
      const float *part = x + ((size_t)row * blocks + block) * vec;
      float least = 1e38f;
      int best = 0;
      for (int k = 0; k < count; k++) {
        const float *centroid = c + ((size_t)block * count + k) * vec;
        float distance = 0;
        for (int v = 0; v < vec; v++)
          distance += (part[v] - centroid[v]) * (part[v] - centroid[v]);
        if (distance < least) least = distance, best = k;
      }
      out[(size_t)row * blocks + block] = (uint8_t)best;
    }
}
"""
COMPILERS = {
    "loops -O2": ("-O2", "-fno-tree-vectorize"),
    "loops -O3": ("-O3",),
    "loops -O3 native": ("-O3", "-march=native"),
}


def least(run: Callable[[], object], repeat: int) -> float:
    """Milliseconds of CPU of the quickest of some runs."""
    times: list[float] = []
    for _ in range(repeat):
        start = time.process_time_ns()
        run()
        times.append((time.process_time_ns() - start) / 1e6)
    return min(times)


def loops(library: ctypes.CDLL, x: np.ndarray, points: np.ndarray) -> Callable[[], np.ndarray]:
    """The three loops of a compiled library as a function without arguments."""
    blocks, count, vec = points.shape
    out = np.empty((len(x), blocks), dtype=np.uint8)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, points, out)]

    def run() -> np.ndarray:
        library.search(pointers[0], pointers[1], len(x), blocks, count, vec, pointers[2])
        return out

    return run


def measure(rows: int, width: int, vec: int, count: int, repeat: int) -> dict[str, float]:
    """The milliseconds of everything at one setting."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, width)).astype(np.float32)
    points = rng.normal(size=(width // vec, count, vec)).astype(np.float32)
    centroids, steps = snap(points, x)
    weight = rng.normal(size=(width, count)).astype(np.float32)
    result: dict[str, float] = {"V": vec, "K": count}
    expected = HostSearch(centroids, steps).encode(x)
    for name, flags in COMPILERS.items():
        library = compile_c(LOOPS, "-std=c99", "-fPIC", "-shared", *flags)
        if library is None:
            raise SystemExit("no C compiler; set CC")
        run = loops(library, x, points)
        other = np.mean(run() != expected)
        if other > 0.01:
            raise SystemExit(f"{name}: {other:.1%} of the indices differ from the search's")
        result[name] = least(run, max(3, repeat // 10))
    result["product"] = least(lambda: x @ weight, repeat)
    for route in routes()[:-1]:
        search = HostSearch(centroids, steps, route=route)
        result[route] = least(lambda search=search: search.encode(x), repeat)
        if count <= 16:
            result[f"{route} packed"] = least(lambda search=search: search.pack4(x), repeat)
    best = min(value for name, value in result.items() if name.startswith(routes()[0]))
    result["times loops"] = result["loops -O2"] / best
    result["of product"] = best / result["product"]
    result["GFLOP/s"] = 2 * rows * width * count / best / 1e6
    return result


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The search on this machine, one core.")
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--width", type=int, default=768, help="channels; a multiple of 4")
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.width % 4 or options.width < 4 or min(options.rows, options.repeat) < 1:
        parser.error("a width that is a multiple of 4, at least one row and one repetition")
    with threadpool_limits(1):
        found = [measure(options.rows, options.width, *at, options.repeat) for at in SETTINGS]
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    table = Table(title=f"{options.rows} rows of {options.width} channels, CPU ms on one core")
    settings = [f"V{row['V']:.0f}/K{row['K']:.0f}" for row in found]
    table.add_column("")
    for setting in settings:
        table.add_column(setting, justify="right")
    names = dict.fromkeys(name for row in found for name in row if name not in ("V", "K"))
    for name in names:
        label = {"times loops": "loops -O2 / best", "of product": "best / product"}.get(name, name)
        table.add_row(label, *(f"{row[name]:.2f}" if name in row else "" for row in found))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
