"""
Where the time of a compilation goes.

    python benchmarks/compile_time.py [--order 1 2 3] [--json]

For `examples/zoo/siren.py:image`: seconds of each stage from the PyTorch function to the C++
text (without a check), and then those of g++ and of the simulation, which a check adds. g++
starts from an empty cache, the precompiled header of the kernels included. The first import of
PyTorch and torch-mlir is a row of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

SIREN = Path(__file__).parents[1] / "examples" / "zoo" / "siren.py"
TO_TEXT = "PyTorch to C++ text"
PROCESSOR = "the same, processor time"
"""What a machine with nothing else to do would take, about: threads add up."""


class Stopwatch(dict[str, float]):
    """Seconds by name; a name that comes twice adds up."""

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time what runs inside."""
        start = time.perf_counter()
        yield
        self[name] = self.get(name, 0.0) + time.perf_counter() - start


def compile_image(order: int, watch: Stopwatch, *, check: bool) -> dict[str, float]:
    """Import and compile; the seconds that the report of the compiler gives."""
    from inr.frontend.importer import import_torch
    from inr.frontend.spec import load_spec
    from inr.runtime.compiler import HlsOptions, compile_hls

    with watch.time("import"):
        spec = load_spec(f"{SIREN}:image")
        model = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=order)
    inputs = [x.double().numpy() for x in spec.example_inputs]
    with watch.time("PyTorch in float64"):
        reference = model.reference(inputs)
    return compile_hls(model.module, inputs, reference, HlsOptions(check=check)).report["seconds"]


def measure_to_text(order: int) -> Stopwatch:
    """Import to C++ text, no check."""
    watch = Stopwatch()
    start, start_cpu = time.perf_counter(), time.process_time()
    watch.update(compile_image(order, watch, check=False))
    watch[TO_TEXT] = time.perf_counter() - start
    watch[PROCESSOR] = time.process_time() - start_cpu
    return watch


def measure_check(order: int) -> dict[str, float]:
    """What a check adds, with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="inr-") as cache:
        os.environ["INR_CACHE"] = cache
        seconds = compile_image(order, Stopwatch(), check=True)
    return {k: v for k, v in seconds.items() if k.startswith(("g++", "simulate", "compare"))}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Seconds per stage of a compilation.")
    parser.add_argument("--order", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--no-check", dest="check", action="store_false")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON only")
    options = parser.parse_args()
    start = time.perf_counter()
    for module in ("inr.frontend.importer", "inr.runtime.compiler"):
        import_module(module)
    loading = time.perf_counter() - start
    columns: dict[int, dict[str, float]] = {}
    for order in options.order:
        columns[order] = {"loading PyTorch and torch-mlir": loading, **measure_to_text(order)}
        if options.check:
            columns[order] |= measure_check(order)
    if options.json:
        print(json.dumps(columns, indent=2))
        return 0
    table = Table(title="siren.py:image: seconds by stage")
    table.add_column("stage")
    for order in columns:
        table.add_column(f"order {order}", justify="right")
    # Every order goes through the same stages.
    for stage in columns[options.order[0]]:
        cells = [f"{column.get(stage, 0.0):.2f}" for column in columns.values()]
        table.add_row(stage, *cells, end_section=stage == PROCESSOR)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
