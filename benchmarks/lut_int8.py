"""
What integers add to the error of a layer of tables: the 36 linear layers of MiniLM-L6.

    python benchmarks/lut_int8.py [--settings v2k16 v4k16] [--rows 4096] [--layers REGEX]
        [--residual 0] [--json]

Each layer is fitted to rows of its true input, tokens of calibration sentences, by itself. Printed
are ‖y - ŷ‖²/‖y‖² on rows of sentences that were held out: of the difference between the table in
8 bits and as numbers (`integers`), and of the layer as it runs (`layer`); and how many input
channels the fit multiplies exactly, because integers would have added too much (`exact`), or as
many as are asked for: with `--residual 0` none, so that tables stand alone.

Exits with 1 where integers add 1e-3 or more to a layer.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from inr.analysis.lut_codebooks import LutSettings, SharedCodebooks
from inr.analysis.lut_fit import fit_layer
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "minilm"))
from model import Encoder, Tokens, load
from sentences import calibration_sentences

LIMIT = 1e-3
SETTINGS = ("v2k16", "v4k16")


@dataclass(frozen=True)
class Outcome:
    """One layer at one setting."""

    setting: str
    layer: str
    integers: float
    """What integers add."""
    rel_mse: float
    exact: int
    """Channels that are multiplied exactly."""
    seconds: float


@torch.no_grad()
def inputs(
    model: Encoder, names: Sequence[str], sentences: Sequence[str], rows: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Of each named layer `rows` rows of its input, N×H, and the sentence that each is from, N."""
    batches = Tokens().batches(sentences, 32)
    masks = [batch["attention_mask"].bool() for batch in batches]
    owner = np.repeat(np.arange(len(sentences)), torch.cat([m.sum(dim=1) for m in masks]).numpy())
    if len(owner) < rows:
        raise SystemExit(f"{len(sentences)} sentences have {len(owner)} tokens, not {rows}")
    taken = np.sort(np.random.default_rng(0).choice(len(owner), rows, replace=False))
    found: dict[str, list[np.ndarray]] = {name: [] for name in names}
    mine, mask = taken, masks[0]

    def keep(name: str, x: Tensor) -> None:
        found[name].append(x[mask].numpy()[mine])

    hooks = [
        model.get_submodule(name).register_forward_pre_hook(
            lambda _, given, name=name: keep(name, given[0])
        )
        for name in names
    ]
    start = 0
    for batch, mask in zip(batches, masks, strict=True):
        stop = start + int(mask.sum())
        mine = taken[(taken >= start) & (taken < stop)] - start
        model(**batch)
        start = stop
    for hook in hooks:
        hook.remove()
    return {name: np.concatenate(parts) for name, parts in found.items()}, owner[taken]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 where integers add too much."""
    parser = argparse.ArgumentParser(description="What integers add to a layer of tables.")
    parser.add_argument("--settings", nargs="+", default=SETTINGS, metavar="vVkK")
    parser.add_argument("--rows", type=int, default=4096, help="of each layer's input")
    parser.add_argument("--sentences", type=int, default=512, help="that the rows are from")
    parser.add_argument("--layers", default=".*", metavar="REGEX", help="searched for in names")
    parser.add_argument(
        "--residual", type=int, metavar="CHANNELS", help="multiplied exactly; 0: tables alone"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    model = load()
    linear = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}
    names = [name for name in linear if re.search(options.layers, name)]
    if not names:
        parser.error(f"no layer's name has {options.layers!r} in it; they are {', '.join(linear)}")
    sentences = calibration_sentences(options.sentences)
    rows, groups = inputs(model, names, sentences, options.rows)
    shared, outcomes = SharedCodebooks(), list[Outcome]()
    for setting in options.settings:
        vec, centroids = setting.removeprefix("v").split("k")
        chosen = LutSettings(int(vec), int(centroids), residual=options.residual, seed=options.seed)
        for name in names:
            weight, bias = (
                p.detach().numpy() for p in (linear[name].weight.t(), linear[name].bias)
            )
            start = time.perf_counter()
            fitted = fit_layer(name, rows[name], weight, bias, chosen, groups=groups, shared=shared)
            channels = fitted.layer.channels
            outcomes.append(
                Outcome(
                    setting,
                    name.removeprefix("bert.encoder."),
                    fitted.error.quant_rel_mse,
                    fitted.error.rel_mse,
                    0 if channels is None else len(channels),
                    time.perf_counter() - start,
                )
            )
    missed = [o for o in outcomes if o.integers >= LIMIT]
    if options.json:
        print(json.dumps([asdict(o) for o in outcomes], indent=2))
        return 1 if missed else 0
    for setting in options.settings:
        some = [o for o in outcomes if o.setting == setting]
        table = Table(title=f"{setting}: relative squared errors on held-out rows")
        table.add_column("layer", no_wrap=True)
        for heading in ("integers", "layer", "exact", "seconds"):
            table.add_column(heading, justify="right")
        for o in some:
            figures = (f"{o.integers:.2e}", f"{o.rel_mse:.4f}", f"{o.exact or ''}")
            style = "red" if o in missed else ""
            table.add_row(o.layer, *figures, f"{o.seconds:.1f}", style=style)
        worst = max(some, key=lambda o: o.integers)
        table.add_row(f"most: {worst.layer}", f"{worst.integers:.2e}", "", "", "")
        Console().print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
