"""
Two classifiers of scikit-learn's digits as lookup tables: what their accuracy loses.

    python benchmarks/lut_digits.py [--networks mlp vit] [--json]

The networks of `examples/digits/model.py`, an MLP and a small transformer, are trained (seconds)
and all their linear layers become tables, at V = 2 and V = 4 with K = 16. Accuracy is that of
the 450 images held out, which neither training nor fitting sees: before, with k-means tables, with
refitted ones, and after calibration against the network's own scores. No label is used in it.

Exits with 1 where calibration leaves a drop of more than 2 points at v2k16 or 3 at v4k16.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from inr import lut
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "digits"))
from model import accuracy, batches, digits, trained_mlp, trained_vit

NETWORKS = {"mlp": trained_mlp, "vit": trained_vit}
ALLOWED = {"v2k16": 0.02, "v4k16": 0.03}
"""How much accuracy each setting may cost after calibration."""
STEPS, LR, BETA = 300, 2e-3, 0.01


@dataclass(frozen=True)
class Outcome:
    """Accuracies of one network at one setting."""

    network: str
    setting: str
    layers: int
    before: float
    kmeans: float
    refit: float
    calibrated: float
    seconds: float

    @property
    def drop(self) -> float:
        """What is lost after calibration; negative where it is a gain."""
        return self.before - self.calibrated


def run(network: str, setting: str) -> Outcome:
    """Trains a network, converts it in three ways and measures each."""
    start = time.perf_counter()
    model, split = NETWORKS[network](), digits()
    calibration, _ = batches()
    vec, centroids = (int(n) for n in setting.removeprefix("v").split("k"))

    def convert(fit: str):
        policy = lut.Policy(vec, centroids, fit=fit)
        return lut.convert(model, calibration, policy, progress=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lut.LutWarning)  # the table says it
        plain, refitted = convert("kmeans"), convert("refit")
    kmeans, refit = accuracy(plain, split), accuracy(refitted, split)
    trained = lut.calibrate(
        refitted,
        calibration,
        teacher=model,
        steps=STEPS,
        lr=LR,
        beta=BETA,
        # All entries, and on all images: there are few of both.
        train_tables=True,
        holdout=0,
        seed=0,
        progress=False,
    )
    return Outcome(
        network,
        setting,
        len(lut.layers(trained)),
        accuracy(model, split),
        kmeans,
        refit,
        accuracy(trained, split),
        time.perf_counter() - start,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where calibration leaves too large a drop."""
    parser = argparse.ArgumentParser(description="Classifiers of digits as lookup tables.")
    parser.add_argument("--networks", nargs="+", default=tuple(NETWORKS), choices=tuple(NETWORKS))
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    outcomes = [run(network, setting) for network in options.networks for setting in ALLOWED]
    missed = [o for o in outcomes if o.drop > ALLOWED[o.setting]]
    if options.json:
        print(json.dumps([asdict(o) for o in outcomes], indent=2))
        return 1 if missed else 0
    table = Table(title="accuracy on 450 held-out images")
    for heading in ("network", "setting"):
        table.add_column(heading)
    for heading in ("layers", "before", "k-means", "refit", "calibrated", "drop", "seconds"):
        table.add_column(heading, justify="right")
    for o in outcomes:
        shares = (f"{value:.1%}" for value in (o.before, o.kmeans, o.refit, o.calibrated, o.drop))
        table.add_row(o.network, o.setting, str(o.layers), *shares, f"{o.seconds:.0f}")
    console = Console()
    console.print(table)
    for o in missed:
        console.print(
            f"missed: {o.network} {o.setting} loses {o.drop:.1%}, more than "
            f"{ALLOWED[o.setting]:.0%}",
            style="red",
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
