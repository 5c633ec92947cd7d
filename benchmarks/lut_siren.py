"""
A SIREN as lookup tables: the PSNR of its picture before and after.

    python benchmarks/lut_siren.py [--policies v2k16 v2k256 ...] [--json]

The network is the one of `examples/zoo/siren.py` at 2-128×3-3, sines of 30·(W·x + b), with the
weights of `examples/photo`, fitted to a photograph of 144 x 96 pixels. Its pixels are all the
inputs it will ever see, so it is fitted, trained and judged on the same ones: what is measured is
how well tables can hold the picture, not whether they do for others. The figures are poor at few
centroids, and are shown as they are: a sine of a sum that is 30 times as large turns an error of
a hundredth into one of a third.

Tables are k-means ones, refitted ones, ones refitted layer by layer in order, and the latter
trained against the network, at the rate that comes nearest to it (or not at all). One thread.

`inner` in a policy's name leaves the first layer, whose two inputs are coordinates, and the last
one as they are.
"""

from __future__ import annotations

import argparse
import copy
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
from threadpoolctl import threadpool_limits
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
STEPS, BETA = 200, 1e-3
RATES = (1e-3, 2e-4)
"""Learning rates of calibration: few centroids take large steps, many only small ones."""
BATCH = 1536


@dataclass(frozen=True)
class Outcome:
    """PSNR against the photograph in dB."""

    policy: str
    layers: int
    kmeans: float
    refit: float
    in_order: float
    calibrated: float
    rate: float
    """The learning rate that was chosen; 0 where training at none of them came nearer."""
    seconds: float


def draw(model: nn.Module) -> np.ndarray:
    """The picture that a network holds, [HEIGHT, WIDTH, 3]."""
    with torch.no_grad():
        return model(pixels()).double().numpy().reshape(HEIGHT, WIDTH, 3)


def run(policy: str, truth: np.ndarray) -> Outcome:
    """Converts the network in four ways and measures each."""
    start = time.perf_counter()
    model = fitted().eval()
    goal = draw(model)
    # Batches of pixels from all over the picture: strips of it are unlike each other, and training
    # on one would undo what the last one taught.
    order = torch.randperm(WIDTH * HEIGHT, generator=torch.Generator().manual_seed(0))
    calibration = list(pixels()[order].split(BATCH))

    def convert(text: str, sequential: bool = False) -> nn.Module:
        plan = parse_policy(text, rows=WIDTH * HEIGHT)
        return lut.convert(model, calibration, plan, sequential=sequential, progress=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lut.LutWarning)  # the table says it
        plain, refitted = convert(f"{policy},fit=kmeans"), convert(policy)
        in_order = convert(policy, sequential=True)
    candidates = {0.0: in_order}
    for rate in RATES:
        candidates[rate] = lut.calibrate(
            copy.deepcopy(in_order),
            calibration,
            teacher=model,
            steps=STEPS,
            lr=rate,
            beta=BETA,
            train_tables=True,
            seed=0,
            progress=False,
        )
    rate = max(candidates, key=lambda r: psnr(draw(candidates[r]), goal))
    return Outcome(
        policy,
        layers=len(lut.layers(in_order)),
        kmeans=psnr(draw(plain), truth),
        refit=psnr(draw(refitted), truth),
        in_order=psnr(draw(in_order), truth),
        calibrated=psnr(draw(candidates[rate]), truth),
        rate=rate,
        seconds=time.perf_counter() - start,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="A SIREN as lookup tables.")
    parser.add_argument("--policies", nargs="+", default=POLICIES, metavar="POLICY")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    threadpool_limits(1)  # NumPy's and SciPy's, as long as the process is there.
    truth = photograph()
    before = psnr(draw(fitted()), truth)
    outcomes = [run(policy, truth) for policy in options.policies]
    if options.json:
        print(json.dumps({"before": before, "outcomes": [asdict(o) for o in outcomes]}, indent=2))
        return 0
    table = Table(title=f"PSNR against the photograph in dB; {before:.2f} before")
    table.add_column("policy")
    for heading in ("layers", "k-means", "refit", "in order", "calibrated", "rate", "seconds"):
        table.add_column(heading, justify="right")
    for o in outcomes:
        figures = (o.kmeans, o.refit, o.in_order, o.calibrated)
        shown = (*(f"{value:.2f}" for value in figures), f"{o.rate:g}", f"{o.seconds:.0f}")
        table.add_row(o.policy.replace(INNER, "inner"), str(o.layers), *shown)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
