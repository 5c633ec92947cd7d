"""
The event engine against the token RTL, on whole designs.

    python benchmarks/rtl.py [--order 0 1] [--lanes 1100] [--no-published] [--json]

For `examples/zoo/siren.py:image` and its derivatives, and for the first-order design that
INR-Arch publishes, as a process network: cycles by the engine and by the RTL, which Verilator
compiles and runs, and the seconds that each takes. Twice each: at depths that keep the speed (of
the published design: its own), and with every FIFO at its least depth, where most designs
deadlock; then the RTL must say so too. Exits with 1 where the two differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from inr.analysis.event_engine import Engine
from inr.analysis.fifo_sizing import size_fifos
from inr.analysis.network import Network
from inr.analysis.schedules import network_of
from inr.frontend.importer import import_torch
from inr.frontend.spec import load_spec
from inr.interpreters.graph import find_function
from inr.passes.array_stream_assign_formats import ArrayStreamAssignFormatsPass
from inr.passes.array_stream_select_parallelism import ArrayStreamSelectParallelismPass
from inr.passes.inr_hls_pipeline import graph_passes, stream_passes
from inr.runtime.verilator import simulate
from rich.console import Console
from rich.table import Table
from xdsl.context import Context

ROOT = Path(__file__).parents[1]
SIREN = ROOT / "examples" / "zoo" / "siren.py"
PUBLISHED = ROOT / "tests" / "data" / "inr_arch_order1_network.json"


@dataclass(frozen=True)
class Row:
    """One network at one choice of depths; cycles are None for a deadlock."""

    design: str
    depths: str
    processes: int
    fifos: int
    engine_cycles: int | None
    rtl_cycles: int | None
    engine_seconds: float
    rtl_build_seconds: float
    """Nearly nothing where the build was in the cache."""
    rtl_run_seconds: float

    @property
    def agree(self) -> bool:
        """Whether both say the same."""
        return self.engine_cycles == self.rtl_cycles


def siren(order: int, lanes: int) -> Network:
    """The SIREN of the image at its chosen depths, at most so many lanes, on a U50."""
    model = load_spec(f"{SIREN}:image")
    module = import_torch(model.callable, model.example_inputs, order=order).module
    formats = ArrayStreamAssignFormatsPass(mode="measured")
    streams = stream_passes(formats, ArrayStreamSelectParallelismPass(lanes=lanes))
    for each in (*graph_passes(), *streams):
        each.apply(Context(), module)
    network, _ = network_of(find_function(module))
    return network.with_depths(list(size_fifos(network, bound_below=False).depths))


def published() -> Network:
    """The published design at its published depths."""
    text = PUBLISHED.read_text()
    return Network.from_json(text).with_depths(json.loads(text)["published_depths"])


def shallow(network: Network) -> Network:
    """Every FIFO at depth 2."""
    return network.with_depths([2] * len(network.fifos))


def measure(design: str, depths: str, network: Network) -> Row:
    """Both, timed."""
    engine = Engine(network)
    engine.run(bound=1)  # The first call compiles.
    start = time.perf_counter()
    cycles = engine.run().latency
    middle = time.perf_counter()
    simulate([network], long=True)
    built = time.perf_counter()
    (run,) = simulate([network], long=True)
    end = time.perf_counter()
    return Row(
        design,
        depths,
        len(network.processes),
        len(network.fifos),
        cycles,
        run.cycles,
        middle - start,
        max(0.0, (built - middle) - (end - built)),
        end - built,
    )


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """All measurements."""
    for order in options.order:
        network = siren(order, options.lanes)
        yield measure(f"siren.py:image, order {order}", "chosen", network)
        yield measure(f"siren.py:image, order {order}", "2", shallow(network))
    if options.published:
        yield measure("INR-Arch, order 1", "published", published())
        yield measure("INR-Arch, order 1", "2", shallow(published()))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Cycles by the engine and by the token RTL.")
    parser.add_argument("--order", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--lanes", type=int, default=1100, help="multiply-accumulate units")
    parser.add_argument("--no-published", dest="published", action="store_false")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON only")
    options = parser.parse_args()
    found = list(rows(options))
    if options.json:
        print(json.dumps([asdict(row) for row in found], indent=2))
    else:
        Console().print(table_of(found))
    return 0 if all(row.agree for row in found) else 1


def table_of(found: list[Row]) -> Table:
    """The measurements as a table."""
    table = Table(title="Event engine and token RTL")
    for name in ("design", "depths"):
        table.add_column(name)
    for name in ("processes", "FIFOs", "engine", "RTL", "engine s", "build s", "RTL s", "Mcycle/s"):
        table.add_column(name, justify="right")
    for row in found:
        cycles = [
            "deadlock" if c is None else f"{c:,}" for c in (row.engine_cycles, row.rtl_cycles)
        ]
        rate = (row.rtl_cycles or 0) / 1e6 / row.rtl_run_seconds
        table.add_row(
            row.design,
            row.depths,
            str(row.processes),
            str(row.fifos),
            *cycles,
            f"{row.engine_seconds:.3f}",
            f"{row.rtl_build_seconds:.1f}",
            f"{row.rtl_run_seconds:.2f}",
            f"{rate:.2f}" if row.rtl_cycles else "",
            style=None if row.agree else "red",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
