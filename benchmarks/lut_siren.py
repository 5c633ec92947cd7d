"""
A SIREN as lookup tables: the PSNR of its picture before and after.

    python benchmarks/lut_siren.py [--policies v2k16 v2k256 ...] [--json]

The network is the one of `examples/photo`, 2-128×3-3 with sines of 30·(W·x + b), fitted to a
photograph of 144 x 96 pixels. Its pixels are all the inputs it will ever see, so it is fitted,
trained and judged on the same ones: what is measured is how well tables can hold the picture, not
whether they do for others. The figures are poor at few centroids, and are shown as they are:
a sine of a sum that is 30 times as large turns an error of a hundredth into one of a third.

`inner` in a policy's name leaves the first layer, whose two inputs are coordinates, and the last
one as they are.
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

import numpy as np
import torch
from inr import lut
from inr.tools.lut_policy import parse_policy
from rich.console import Console
from rich.table import Table
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "photo"))
from model import HEIGHT, WIDTH, fitted, pixels
from photograph import photograph, psnr

INNER = "exclude=layers.0$|last"
POLICIES = (
    "v2k16",
    f"v4k16,{INNER}",
    f"v2k16,{INNER}",
    f"v2k64,{INNER}",
    f"v2k256,{INNER}",
    f"v1k256,{INNER}",
)
STEPS, LR, BETA = 200, 1e-3, 1e-3


@dataclass(frozen=True)
class Outcome:
    """PSNR against the photograph in dB."""

    policy: str
    layers: int
    kmeans: float
    refit: float
    calibrated: float
    seconds: float


def draw(model: nn.Module) -> np.ndarray:
    """The picture that a network holds, [HEIGHT, WIDTH, 3]."""
    with torch.no_grad():
        return model(pixels()).double().numpy().reshape(HEIGHT, WIDTH, 3)


def run(policy: str, truth: np.ndarray) -> Outcome:
    """Converts the network in three ways and measures each."""
    start = time.perf_counter()
    model = fitted().eval()
    calibration = list(pixels().split(1536))

    def convert(text: str) -> nn.Module:
        plan = parse_policy(text, rows=WIDTH * HEIGHT)
        return lut.convert(model, calibration, plan, progress=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lut.LutWarning)  # the table says it
        plain, refitted = convert(f"{policy},fit=kmeans"), convert(policy)
    kmeans, refit = psnr(draw(plain), truth), psnr(draw(refitted), truth)
    trained = lut.calibrate(
        refitted,
        calibration,
        teacher=model,
        steps=STEPS,
        lr=LR,
        beta=BETA,
        seed=0,
        progress=False,
    )
    return Outcome(
        policy,
        len(lut.layers(trained)),
        kmeans,
        refit,
        psnr(draw(trained), truth),
        time.perf_counter() - start,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="A SIREN as lookup tables.")
    parser.add_argument("--policies", nargs="+", default=POLICIES, metavar="POLICY")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    truth = photograph()
    before = psnr(draw(fitted()), truth)
    outcomes = [run(policy, truth) for policy in options.policies]
    if options.json:
        print(json.dumps({"before": before, "outcomes": [asdict(o) for o in outcomes]}, indent=2))
        return 0
    table = Table(title=f"PSNR against the photograph in dB; {before:.2f} before")
    table.add_column("policy")
    for heading in ("layers", "k-means", "refit", "calibrated", "seconds"):
        table.add_column(heading, justify="right")
    for o in outcomes:
        shown = (f"{value:.2f}" for value in (o.kmeans, o.refit, o.calibrated))
        table.add_row(o.policy.replace(INNER, "inner"), str(o.layers), *shown, f"{o.seconds:.0f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
