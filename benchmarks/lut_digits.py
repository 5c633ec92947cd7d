"""
Two classifiers of scikit-learn's digits as lookup tables: what their accuracy loses.

    python benchmarks/lut_digits.py [--networks mlp vit] [--seeds 0 1 2] [--json]

The networks of `examples/digits/model.py`, an MLP and a small transformer, are trained (seconds)
and all their linear layers become tables, at V = 2 and V = 4 with K = 16. Accuracy is that of
the 450 images held out: before, with k-means tables, with refitted ones, with those of layers
refitted in order, and after calibration of the latter against the network's own scores. Fitting
sees the images that were learnt from and distorted copies of them, and no label.

Calibration runs at several learning rates. Which is kept, or none, is decided by the divergence
from the network's scores on the 270 validation images. What is held out is looked at last and
once, and decides nothing. One thread and fixed seeds: figures repeat on the same machine.

Exits with 1 where calibration leaves a drop of more than 2 points at v2k16 or 3 at v4k16.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from inr import lut
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "digits"))
from model import Part, accuracy, calibration, digits, trained_mlp, trained_vit

NETWORKS = {"mlp": trained_mlp, "vit": trained_vit}
ALLOWED = {"v2k16": 0.02, "v4k16": 0.03}
"""How much accuracy each setting may cost after calibration."""
STEPS, BETA = 400, 0.01
RATES = (1e-3, 2e-3, 4e-3)
"""Learning rates of calibration, of which validation images choose."""


@dataclass(frozen=True)
class Outcome:
    """Accuracies of one network at one setting, on the images held out."""

    network: str
    setting: str
    seed: int
    layers: int
    before: float
    kmeans: float
    refit: float
    in_order: float
    calibrated: float
    rate: float
    """The learning rate that was chosen; 0 where no calibration was better than none."""
    validation_drop: float
    """What is lost after calibration on the images that chose it."""
    seconds: float

    @property
    def drop(self) -> float:
        """What is lost after calibration; negative where it is a gain."""
        return self.before - self.calibrated


@functools.cache
def trained(network: str, seed: int) -> nn.Module:
    """A network, trained once for all settings."""
    return NETWORKS[network](seed)


@torch.no_grad()
def divergence(model: nn.Module, teacher: nn.Module, part: Part) -> float:
    """The mean divergence of a model's classes from its teacher's, in nats; no label is needed."""
    scores, goal = (m(part.images).log_softmax(dim=1) for m in (model, teacher))
    return float(nn.functional.kl_div(scores, goal, log_target=True, reduction="batchmean"))


def run(network: str, setting: str, seed: int = 0) -> Outcome:
    """Converts a trained network in four ways and measures each."""
    model, parts, images = trained(network, seed), digits(), calibration(seed)
    start = time.perf_counter()
    vec, centroids = (int(n) for n in setting.removeprefix("v").split("k"))

    def convert(fit: Literal["kmeans", "refit"], sequential: bool = False) -> nn.Module:
        policy = lut.Policy(vec, centroids, fit=fit, seed=seed)
        return lut.convert(model, images, policy, sequential=sequential, progress=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lut.LutWarning)  # the table says it
        plain, refitted, in_order = convert("kmeans"), convert("refit"), convert("refit", True)
    candidates = {0.0: in_order}
    for rate in RATES:
        candidates[rate] = lut.calibrate(
            copy.deepcopy(in_order),
            images,
            teacher=model,
            steps=STEPS,
            lr=rate,
            beta=BETA,
            train_tables=True,
            # Validation images judge the end; batches held out here would be distorted copies of
            # images that are trained on.
            holdout=0,
            seed=seed,
            progress=False,
        )
    rate = min(candidates, key=lambda r: divergence(candidates[r], model, parts.validation))
    best = candidates[rate]
    return Outcome(
        network,
        setting,
        seed,
        len(lut.layers(best)),
        before=accuracy(model, parts.held_out),
        kmeans=accuracy(plain, parts.held_out),
        refit=accuracy(refitted, parts.held_out),
        in_order=accuracy(in_order, parts.held_out),
        calibrated=accuracy(best, parts.held_out),
        rate=rate,
        validation_drop=accuracy(model, parts.validation) - accuracy(best, parts.validation),
        seconds=time.perf_counter() - start,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where calibration leaves too large a drop."""
    parser = argparse.ArgumentParser(description="Classifiers of digits as lookup tables.")
    parser.add_argument("--networks", nargs="+", default=tuple(NETWORKS), choices=tuple(NETWORKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=(0,), metavar="SEED")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    threadpool_limits(1)  # NumPy's and SciPy's, as long as the process is there.
    outcomes = [
        run(network, setting, seed)
        for network in options.networks
        for seed in options.seeds
        for setting in ALLOWED
    ]
    missed = [o for o in outcomes if o.drop > ALLOWED[o.setting]]
    if options.json:
        print(json.dumps([asdict(o) for o in outcomes], indent=2))
        return 1 if missed else 0
    table = Table(title="accuracy on 450 held-out images")
    for heading in ("network", "setting"):
        table.add_column(heading)
    shares = ("before", "k-means", "refit", "in order", "calibrated", "drop")
    for heading in ("seed", "layers", *shares, "rate", "seconds"):
        table.add_column(heading, justify="right")
    for o in outcomes:
        found = (o.before, o.kmeans, o.refit, o.in_order, o.calibrated, o.drop)
        shown = (f"{value:.1%}" for value in found)
        numbers = (str(o.seed), str(o.layers), *shown, f"{o.rate:g}", f"{o.seconds:.0f}")
        table.add_row(o.network, o.setting, *numbers)
    console = Console()
    console.print(table)
    for o in missed:
        console.print(
            f"missed: {o.network} {o.setting} seed {o.seed} loses {o.drop:.1%}, more than "
            f"{ALLOWED[o.setting]:.0%}",
            style="red",
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
