"""
Issue slots of the innermost loops on a DPU: what the emulator counts beside the cost model.

    python benchmarks/upmem_kernel.py [--json]

For each variant, width (f_l) and index width the generated kernel runs with 24 and with 48
codebooks in one sub-tile; the difference is what a row takes for a codebook, free of all that does
not depend on their number. Exits with 1 where the model is more than 15 % below what is counted (a
mapping would look better than it is), or where `swar16` of 16 columns takes more than 1.3 an
addition.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from inr.analysis.lut_layer import GRID, LutLayer, table_limit
from inr.analysis.upmem_cost import slots_per_addition
from inr.analysis.upmem_points import Points
from inr.analysis.upmem_target import find_target
from inr.runtime.deployment import UpmemOptions, upmem_program
from inr.runtime.upmem_compiler import timed_launch
from inr.runtime.upmem_model import UpmemModel
from rich.console import Console
from rich.table import Table

ROWS, VEC, CENTROIDS = 64, 4, 16
SHORT, LONG = 24, 48
"""Codebooks."""

KINDS = [
    *(("scalar32", 8, f_l) for f_l in (4, 8, 16)),
    *(("swar16", 8, f_l) for f_l in (8, 16, 32)),
    *(("swar8", bits, f_l) for bits in (6, 5) for f_l in (8, 16)),
]
"""Variant, bits of an entry, f_l."""


@dataclass(frozen=True)
class Count:
    """Slots of a row for a codebook, counted and by the model."""

    variant: str
    bits: int
    f_l: int
    idx_bits: int
    counted: float
    modelled: float

    @property
    def per_addition(self) -> float:
        """Counted slots an addition."""
        return self.counted / self.f_l


def layer(codebooks: int, features: int, bits: int) -> LutLayer:
    """Random tables."""
    rng = np.random.default_rng(0)
    limit = table_limit(bits)
    points = rng.integers(-GRID, GRID + 1, (codebooks, CENTROIDS, VEC))
    entries = rng.integers(-limit, limit + 1, (codebooks, CENTROIDS, features))
    return LutLayer(
        "layer",
        codebooks * VEC,
        points.astype(np.int16),
        np.full(codebooks, 1e-3, np.float32),
        entries.astype(np.int8),
        np.ones(features, np.float32),
        None,
        bits,
    )


def count(variant: str, bits: int, f_l: int, idx_bits: int) -> Count:
    """Runs one kind of loop twice."""
    slots: list[int] = []
    modelled = 0.0
    for codebooks in (SHORT, LONG):
        made = layer(codebooks, f_l, bits)
        mapping = (
            f"ip=1 lp=1 split_cb=1 groups=1 n_m={ROWS} f_m={f_l} f_l={f_l} c_m={codebooks} "
            f"c_l={codebooks} order=nfc load=coarse tasklets=16 variant={variant} "
            f"idx_bits={idx_bits} out=i32 residency=resident"
        )
        host = upmem_program([made], "kernel", UpmemOptions(dpus=1, rows=ROWS, mapping=mapping))
        with UpmemModel(host) as model:
            run = timed_launch(model, host.layers[0], find_target("v1A"), made, {})
        slots.append(run["slots"])
        geometry = host.layers[0].geometry
        points = Points.of(geometry.shape, [geometry.mapping])
        modelled = float(slots_per_addition(points)[0]) * f_l
    counted = (slots[1] - slots[0]) / ((LONG - SHORT) * ROWS)
    return Count(variant, bits, f_l, idx_bits, counted, modelled)


def wrong(found: Count) -> bool:
    """Whether a requirement is missed."""
    if found.modelled < 0.85 * found.counted:
        return True
    return (found.variant, found.f_l) == ("swar16", 16) and found.per_addition > 1.3


def main() -> int:
    """The benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts = [count(*kind, idx_bits) for kind in KINDS for idx_bits in (4, 8, 16)]
    if options.json:
        rows: list[dict[str, Any]] = [{**vars(c), "per_addition": c.per_addition} for c in counts]
        print(json.dumps(rows, indent=2))
    else:
        table = Table(title="issue slots of a row for a codebook")
        for heading in ("variant", "bits", "f_l", "index", "counted", "model", "an addition", ""):
            table.add_column(heading, justify="right")
        for c in counts:
            table.add_row(
                c.variant,
                str(c.bits),
                str(c.f_l),
                str(c.idx_bits),
                f"{c.counted:.2f}",
                f"{c.modelled:.2f}",
                f"{c.per_addition:.3f}",
                "missed" if wrong(c) else "",
            )
        Console().print(table)
    return int(any(map(wrong, counts)))


if __name__ == "__main__":
    sys.exit(main())
