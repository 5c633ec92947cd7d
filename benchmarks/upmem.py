"""
A BERT-base layer as tables on the published PIM-DL server: its own mapping by the cost model, what
each change gains, what the tuner finds, and where tables, int8 products and the host win.

    python benchmarks/upmem.py [--explain] [--json]

All times are predictions of `analysis/upmem_cost.py` with the constants of
`targets/upmem-pim-dl.toml`: 1024 DPUs, 64 sequences of 512 (N = 32768), V = 4, K = 16, int8. The
sums of FFN2 (768 codebooks) are taken to fit 16 bits, as the bounds of its table have to show;
those of the other layers always do.

Exits with 1 where a published figure is missed by more than 5 %, or a bound of ours.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import Any

from inr.analysis.upmem_cost import Breakdown, predict, published_prediction
from inr.analysis.upmem_explain import explain
from inr.analysis.upmem_joint import (
    Layer,
    host_product,
    int8_products,
    plan,
    table_host_seconds,
)
from inr.analysis.upmem_legality import Machine, violations
from inr.analysis.upmem_mapping import LutShape, Mapping
from inr.analysis.upmem_target import find_target
from inr.analysis.upmem_tuner import tune
from rich.console import Console
from rich.table import Table

ROWS = 64 * 512
THEIRS = Mapping(
    128, 8, 128, 16, 64, 16, 64, "nfc", "coarse", 16, "scalar32", 16, "i32", "per_call"
)
LAYERS = {
    "QKV": (LutShape(ROWS, 192, 16, 2304, vec=4), THEIRS),
    "O": (LutShape(ROWS, 192, 16, 768, vec=4), THEIRS),
    "FFN1": (LutShape(ROWS, 192, 16, 3072, vec=4), THEIRS.with_(ip=64, lp=16)),
    "FFN2": (
        LutShape(ROWS, 768, 16, 768, 8, -(2**15), 2**15 - 1, vec=4),
        THEIRS.with_(n_m=64, f_m=32, c_m=128, f_l=8, c_l=128),
    ),
}
"""Shapes and the mapping that PIM-DL's tuner gives each."""

PUBLISHED = {"index": 104, "table": 262, "output": 185, "slots": 490, "dma": 16}
"""Milliseconds of all four layers."""

GROUPS = 16
PARTS = ("index", "table", "kernel", "output", "launch")


def total(costs: list[Breakdown]) -> dict[str, float]:
    """Milliseconds of all layers, by part."""
    return {
        name: 1e3 * sum(getattr(c, name) for c in costs)
        for name in (*PARTS, "slots", "dma", "total")
    }


def steps(machine: Machine) -> list[tuple[str, dict[str, float]]]:
    """Each change on top of those before it."""
    target = machine.target
    pairs = list(LAYERS.values())
    found = [("PIM-DL", total([published_prediction(s, m, target) for s, m in pairs]))]
    resident = [(s, m.with_(residency="resident")) for s, m in pairs]
    found.append(
        ("tables stay in MRAM", total([published_prediction(s, m, target) for s, m in resident]))
    )
    found.append(("our plain kernel", total([predict(s, m, target) for s, m in resident])))
    changes: list[tuple[str, dict[str, Any]]] = [
        ("SWAR: two words of lanes for four sums", {"variant": "swar16"}),
        ("indices of one byte", {"idx_bits": 8}),
        ("sums of 16 bits", {"out": "i16"}),
    ]
    now = resident
    for name, change in changes:
        now = [(s, m.with_(**change)) for s, m in now]
        for shape, mapping in now:
            assert not violations(shape, mapping, machine), mapping
        found.append((name, total([predict(s, m, target) for s, m in now])))
    tuned = [tune(s, machine, name=name) for name, (s, _) in LAYERS.items()]
    found.append(("tiles, order, indices by the tuner", total([t.cost for t in tuned])))
    return found


def batches(machine: Machine) -> list[dict[str, Any]]:
    """One layer (QKV) by batch: seconds of each way, the host's work included."""
    rows: list[dict[str, Any]] = []
    for count in (1, 32, 512, 4096, 16384, 32768):
        shape = replace(LAYERS["QKV"][0], rows=count)
        product = min(int8_products(shape, machine), key=lambda c: c.seconds)
        ways = {
            "tables": tune(shape, machine).cost.total + table_host_seconds(shape, machine.target),
            "int8 product": product.seconds,
            "host": host_product(shape, machine.target).seconds,
        }
        rows.append({"rows": count, **ways, "fastest": min(ways, key=lambda w: ways[w])})
    return rows


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Predicted times on the PIM-DL server.")
    parser.add_argument("--explain", action="store_true", help="why each layer's mapping won")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON only")
    options = parser.parse_args()
    machine = Machine.of(find_target("pim-dl"))
    console = Console(stderr=options.json)

    found = steps(machine)
    failed = [
        f"published {name}: {found[0][1][name]:.1f} ms, not {ms}"
        for name, ms in PUBLISHED.items()
        if abs(found[0][1][name] / ms - 1) > 0.05
    ]
    table = Table(title="Milliseconds of the four layers, one thing after another")
    table.add_column("with")
    for name in (*PARTS, "total", "gain"):
        table.add_column(name, justify="right")
    before = found[0][1]["total"]
    for name, ms in found:
        cells = [f"{ms[part]:.1f}" for part in (*PARTS, "total")]
        table.add_row(name, *cells, f"{before - ms['total']:.1f}")
        before = ms["total"]
    console.print(table)

    layers = [Layer(name, shape) for name, (shape, _) in LAYERS.items()]
    start = time.process_time()
    turns = plan(layers, machine, groups=(GROUPS,))
    seconds = time.process_time() - start
    steady = (turns.scheduled(120) - turns.scheduled(60)) / 60
    console.print(
        f"{GROUPS} groups of ranks in turn: {turns.in_groups * 1e3:.1f} ms by the closed form; "
        f"scheduled on one bus {steady * 1e3:.1f} in the long run, "
        f"{turns.scheduled(12) / 12 * 1e3:.1f} over 12 layers with start and end; planned in "
        f"{seconds:.1f} s of CPU\n{turns}"
    )
    for name, limit, value in (
        ("one after another", 350, found[-1][1]["total"]),
        ("groups in turn", 200, turns.in_groups * 1e3),
        ("groups in turn, scheduled", 200, steady * 1e3),
    ):
        if value > limit:
            failed.append(f"{name}: {value:.1f} ms, above {limit}")

    by_batch = batches(machine)
    table = Table(title="QKV by rows: milliseconds, the host's work included")
    for name in by_batch[0]:
        table.add_column(name, justify="right")
    for row in by_batch:
        table.add_row(*(f"{1e3 * v:.2f}" if isinstance(v, float) else str(v) for v in row.values()))
    console.print(table)
    if options.explain:
        for name, (shape, _) in LAYERS.items():
            console.print(explain(tune(shape, machine), name), highlight=False, soft_wrap=True)
    if options.json:
        figures = {
            "steps": dict(found),
            "groups": {"closed_form": turns.in_groups, "scheduled": steady},
            "batches": by_batch,
        }
        print(json.dumps(figures, indent=2))
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
