"""
A sentence encoder on emulated DPUs: MiniLM-L6 with all 36 linear layers as tables.

    python benchmarks/upmem_minilm.py [--dpus 64] [--rows 256] [--sentences 12] [--machine v1A]
        [--setting v4k16] [--json]

Converts the encoder (k-means and refit on 64 sentences; kept in the cache folder, `INR_CACHE`),
deploys it, and embeds held-out sentences with the layers on DPUs and with the converted model in
PyTorch. Prints the largest difference of the embeddings, the cosine to the original's, and for
each kind of layer the modelled time of a launch beside the predicted one, slots an addition and
what the emulator does in a second.

Exits with 1 where the embeddings differ by more than float32 rounding of the largest value, or a
kernel's modelled time is more than a quarter away from the predicted one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from inr import lut
from inr.analysis.upmem_target import find_target
from inr.runtime.deployment import UpmemOptions, layers_of, place_on_dpus, upmem_program
from inr.runtime.toolchain import cache_folder
from inr.runtime.upmem_compiler import activations_of, distance, kind_of, timed_launch
from inr.runtime.upmem_model import UpmemModel
from rich.console import Console
from rich.table import Table
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "minilm"))
from model import Tokens, by_length, load
from sentences import calibration_sentences, held_out_sentences

CALIBRATION = 64
ROUNDING = 1e-6
"""Of embeddings of length 1; float32 has 6e-8, and a sentence goes through 6 layers."""
RATIO = 1.25


def main() -> int:
    """The benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--dpus", type=int, default=64)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--sentences", type=int, default=12)
    parser.add_argument("--machine", default="v1A")
    parser.add_argument("--setting", default="v4k16")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    console = Console(stderr=True, quiet=options.json)
    found = run(options, console)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found, console)
    wrong = found["difference"]["max_abs"] > ROUNDING
    off = [x for x in found["kinds"] if not 1 / RATIO <= x["ratio"] <= RATIO]
    return int(wrong or bool(off))


def converted(original: nn.Module, tokens: Tokens, setting: str, console: Console) -> nn.Module:
    """The encoder with its linear layers as tables, from the cache where it is there."""
    folder = cache_folder() / "upmem-minilm" / f"{setting}-{CALIBRATION}"
    if folder.exists():
        return lut.load(folder, original)
    console.print(f"converting to {setting}, kept in {folder}")
    vec, centroids = map(int, setting.removeprefix("v").split("k"))
    batches = tokens.batches(by_length(calibration_sentences(CALIBRATION)), 32)
    with warnings.catch_warnings():
        # That k-means alone is poor is not what is judged here.
        warnings.simplefilter("ignore", lut.LutWarning)
        model = lut.convert(original, batches, lut.Policy(vec=vec, centroids=centroids))
    folder.parent.mkdir(parents=True, exist_ok=True)
    lut.save(model, folder)
    return model


def run(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """All figures."""
    original, tokens = load(), Tokens()
    model = converted(original, tokens, options.setting, console)
    sentences = by_length(held_out_sentences(options.sentences))
    batches = [tuple(b.values()) for b in tokens.batches(sentences, 6)]
    layers = layers_of(model)
    settings = UpmemOptions(options.machine, options.dpus, options.rows)
    start = time.process_time()
    host = upmem_program(list(layers.values()), "minilm", settings)
    mapped = time.process_time() - start
    target = find_target(options.machine)
    dpus = UpmemModel(host)
    with dpus, torch.no_grad():
        deployed = place_on_dpus(model, dpus, layers)
        resident = dpus.bytes_sent
        start = time.perf_counter()
        got = torch.cat([deployed(*batch) for batch in batches])
        seconds = time.perf_counter() - start
        moved = {"sent": dpus.bytes_sent - resident, "received": dpus.bytes_received}
        cycles = dpus.cycles
        wanted = torch.cat([model(*batch) for batch in batches])
        real = torch.cat([original(*batch) for batch in batches])
        activations, _ = activations_of(model, batches[-1], list(layers))
        kinds: dict[Any, dict[str, Any]] = {}
        for layer in host.layers:
            key = kind_of(layer)
            if key not in kinds:
                entry = timed_launch(dpus, layer, target, layers[layer.name], activations)
                sizes = f"{layer.inputs}→{layer.geometry.shape.features}"
                kinds[key] = {"sizes": sizes, "layers": 0, **entry}
                kinds[key]["mapping"] = str(layer.geometry.mapping)
            kinds[key]["layers"] += 1
    return {
        "layers": len(layers),
        "dpus": host.grid.dpus.data,
        "rows": options.rows,
        "sentences": len(sentences),
        "tokens": sum(int(ids.numel()) for ids, _ in batches),
        "difference": distance(got, wanted),
        "cosine": float((got * real).sum(dim=1).mean()),
        "mapping_cpu_seconds": mapped,
        "resident_bytes_sent": resident,
        "bytes_sent": moved["sent"],
        "bytes_received": moved["received"],
        "kernel_ms": target.seconds(cycles) * 1e3,
        "seconds": seconds,
        "kinds": list(kinds.values()),
    }


def show(found: dict[str, Any], console: Console) -> None:
    """The figures for a person."""
    console.print(
        f"{found['layers']} layers on {found['dpus']} DPUs, {found['sentences']} sentences of "
        f"{found['tokens']} tokens with padding; mapped in {found['mapping_cpu_seconds']:.1f} s "
        "of CPU time"
    )
    console.print(
        f"embeddings: largest difference to the converted model in PyTorch "
        f"{found['difference']['max_abs']:.2e}; mean cosine to the original's "
        f"{found['cosine']:.4f}"
    )
    console.print(
        f"kernels of all launches {found['kernel_ms']:.1f} ms, modelled; tables "
        f"{found['resident_bytes_sent']:,} bytes once, then {found['bytes_sent']:,} to DPUs and "
        f"{found['bytes_received']:,} back; {found['seconds']:.1f} s in the emulator"
    )
    table = Table(title=f"a launch of {found['rows']} rows")
    for heading in (
        "size",
        "layers",
        "kernel ms",
        "predicted",
        "ratio",
        "slots/add",
        "M slots/s",
    ):
        table.add_column(heading, justify="right")
    for kind in found["kinds"]:
        table.add_row(
            kind["sizes"],
            str(kind["layers"]),
            f"{kind['kernel_ms']:.3f}",
            f"{kind['predicted_kernel_ms']:.3f}",
            f"{kind['ratio']:.3f}",
            f"{kind['slots_per_addition']:.3f}",
            f"{kind['total_slots'] / kind['wall_seconds'] / 1e6:.0f}",
        )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
