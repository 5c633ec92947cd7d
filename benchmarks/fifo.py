"""
FIFO sizing: what each method needs, and how fast the engine is.

    python benchmarks/fifo.py [--engine] [--published] [--ours 1 2 3] [--scaled 2 5 10]
                              [--alpha 0.01] [--json]

Without a choice, everything but the scaled copies.

`--engine` times runs of the event engine on the published INR-Arch first-order network (215
processes, 238 FIFOs, 7.5 million reads and writes): with unbounded FIFOs, and at the depths that
`default` chooses. `--published` sizes it with every method but `exact`; its FIFOs all have the
delay of shift registers, as in the engine it comes from. `--ours` sizes
`examples/zoo/siren.py:image` and its derivatives up to an order as this compiler builds them.
`--scaled` sizes the published network with N times the tokens, up to 75 million reads and writes
for 10.

Tokens, which are blocks of elements, and bits add up the depths of all FIFOs and those times their
widths; block RAM is in 18 Kb halves, by the rule for storage that nobody chose. The gap is that to
a lower bound of the bits.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from inr.analysis.event_engine import Engine, unbounded
from inr.analysis.fifo_cost import METHODS, total
from inr.analysis.fifo_sizing import size_fifos
from inr.analysis.network import Body, Network, Repeat
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "tests" / "data" / "inr_arch_order1_network.json"
SIREN = ROOT / "examples" / "zoo" / "siren.py"
OURS = ("default", "inr-arch", "max-occupancy", "tensor-size")
QUICK = tuple(method for method in METHODS if method != "exact")


@dataclass(frozen=True)
class Row:
    """One sizing."""

    network: str
    method: str
    tokens: int
    above_2: int
    bits: int
    bram18: int
    cycles: int
    slower: float
    gap: float
    evaluations: int
    seconds: float
    bound_seconds: float


def published() -> Network:
    """The published network with the delays of shift registers."""
    network = Network.from_json(PUBLISHED.read_text())
    return replace(network, fifos=tuple(replace(f, storage="srl") for f in network.fifos))


def scaled(network: Network, times: int) -> Network:
    """The same network run `times` times without a pause."""

    def again(body: Body) -> Body:
        return (Repeat(times, body),) if body else ()

    processes = tuple(replace(p, body=again(p.body)) for p in network.processes)
    return Network(processes, network.fifos)


def ours(order: int) -> Network:
    """The network of `siren.py:image` with derivatives, depths open."""
    from inr.analysis.schedules import network_of
    from inr.frontend.importer import import_torch
    from inr.frontend.spec import load_spec
    from inr.runtime.compiler import HlsOptions, compile_hls, find_function

    spec = load_spec(f"{SIREN}:image")
    model = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=order)
    inputs = [x.double().numpy() for x in spec.example_inputs]
    compiled = compile_hls(model.module, inputs, model.reference(inputs), HlsOptions(check=False))
    network, _ = network_of(find_function(compiled.module))
    fifos = (f if f.internal else replace(f, depth=None, storage=None) for f in network.fifos)
    return replace(network, fifos=tuple(fifos))


def measure(name: str, network: Network, method: str, alpha: float) -> Row:
    """Size a network and count."""
    begun = time.perf_counter()
    sizing = size_fifos(network, alpha, method=method)
    whole = time.perf_counter() - begun
    depths = [d for d, f in zip(sizing.depths, network.fifos, strict=True) if not f.internal]
    return Row(
        name,
        method,
        sum(depths),
        sum(d > 2 for d in depths),
        int(sizing.cost),
        int(total([replace(f, storage=None) for f in network.fifos], sizing.depths, "bram")),
        sizing.latency,
        sizing.latency / sizing.latency_unbounded - 1,
        sizing.gap,
        sizing.evaluations,
        sizing.seconds,
        whole - sizing.seconds,
    )


def time_engine(network: Network, runs: int = 7) -> dict[str, float]:
    """Nanoseconds a read or write, processor time, median of some runs."""
    depths = size_fifos(network, bound_below=False).depths
    cases = {
        "unbounded": (unbounded(network), False),
        "unbounded, every cycle kept": (unbounded(network), True),
        "sized": (depths, False),
        "sized, every cycle kept": (depths, True),
    }
    engine = Engine(network)
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(runs):
        for name, (chosen, keep) in cases.items():
            begun = time.process_time()
            engine.run(chosen, record=range(len(network.fifos)) if keep else ())
            seconds[name].append(time.process_time() - begun)
    return {name: statistics.median(s) / network.events * 1e9 for name, s in seconds.items()}


def show(console: Console, rows: list[Row], alpha: float) -> None:
    """The rows as a table."""
    table = Table(title=f"FIFO sizing, alpha = {alpha:.2%}")
    table.add_column("network")
    table.add_column("method")
    for name in (
        "tokens",
        "above 2",
        "bits",
        "BRAM18",
        "cycles",
        "slower",
        "gap",
        "evaluations",
        "seconds",
        "lower bound, s",
    ):
        table.add_column(name, justify="right")
    for r in rows:
        table.add_row(
            r.network,
            r.method,
            f"{r.tokens:,}",
            str(r.above_2),
            f"{r.bits:,}",
            f"{r.bram18:,}",
            f"{r.cycles:,}",
            f"{r.slower:.2%}",
            f"{r.gap:.1%}",
            f"{r.evaluations:,}",
            f"{r.seconds:.2f}",
            f"{r.bound_seconds:.2f}",
        )
    console.print(table)


def main() -> None:
    """Run what was asked for and print tables, or JSON."""
    parser = argparse.ArgumentParser(description="FIFO sizing by every method.")
    parser.add_argument("--engine", action="store_true", help="time the event engine")
    parser.add_argument("--published", action="store_true", help="size the published network")
    parser.add_argument("--ours", type=int, nargs="*", default=[], metavar="ORDER")
    parser.add_argument("--scaled", type=int, nargs="*", default=[], metavar="TIMES")
    parser.add_argument("--alpha", type=float, default=0.01)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if not (asked.engine or asked.published or asked.ours or asked.scaled):
        asked.engine = asked.published = True
        asked.ours = [1, 2, 3]
        asked.scaled = [2, 10]
    console = Console(width=150)
    # The compiled loops are loaded, or compiled once for this machine, before anything is timed.
    measure("warm up", published(), "inr-arch", 0.0)
    speeds = time_engine(published()) if asked.engine else {}
    rows: list[Row] = []
    if asked.published:
        rows += [measure("published", published(), m, asked.alpha) for m in QUICK]
    for order in asked.ours:
        network = ours(order)
        rows += [measure(f"ours, order {order}", network, m, asked.alpha) for m in OURS]
    for times in asked.scaled:
        network = scaled(published(), times)
        rows.append(measure(f"published x {times}", network, "default", asked.alpha))
    if asked.json:
        print(json.dumps({"ns_per_event": speeds, "rows": [asdict(row) for row in rows]}))
        return
    if speeds:
        table = Table(title=f"event engine, {published().events:,} reads and writes")
        table.add_column("run")
        table.add_column("ns an event", justify="right")
        for name, value in speeds.items():
            table.add_row(name, f"{value:.1f}")
        console.print(table)
    if rows:
        show(console, rows, asked.alpha)


if __name__ == "__main__":
    main()
