"""
Draws a photograph, and the gradient of its brightness, with simulated hardware.

    python examples/photo/demo.py --out out/photo

compiles `model.py:edges` to HLS C++, simulates it over the whole picture and writes to `--out`:
the project, `report.json`, and as PNG what PyTorch in float64 gives, what the hardware gives, and
how they differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from inr.analysis.fixed import to_real
from inr.errors import CompileError
from inr.frontend.importer import import_torch
from inr.lowering.hls_project import refuse_existing, write_project
from inr.runtime.compiler import Compiled, HlsOptions, compile_hls
from model import HEIGHT, LUMINANCE, WIDTH, edges
from photograph import photograph, psnr
from pictures import Drawing, save_pictures
from rich.console import Console
from rich.table import Table

CONSOLE = Console(stderr=True)


def main() -> int:
    """The command line; 1 and one message on stderr for what cannot be done."""
    parser = argparse.ArgumentParser(description="Draws a photograph with simulated hardware.")
    parser.add_argument("--out", type=Path, default=Path("out/photo"), metavar="DIR")
    parser.add_argument("--force", action="store_true", help="replace an existing --out")
    parser.add_argument("--activation", type=int, default=27, metavar="BITS")
    parser.add_argument("--weight", type=int, default=18, metavar="BITS")
    options = parser.parse_args()
    try:
        refuse_existing(options.out, force=options.force)
        draw(options.out, HlsOptions(activation=options.activation, weight=options.weight))
    except CompileError as error:
        print(f"demo: error: {error}", file=sys.stderr)
        return 1
    return 0


def draw(out: Path, options: HlsOptions) -> None:
    """Compile, simulate, compare, write `out` and print the tables."""
    function, (x,) = edges()
    with _stage("import"):
        model = import_torch(function, (x,), name="photo")
    inputs = [x.double().numpy()]
    with _stage("PyTorch in float64"):
        reference = model.reference(inputs)
    compiled = compile_hls(model.module, inputs, reference, options, _stage)
    photo = photograph()
    drawings = {
        "photograph": Drawing(photo, _differences(photo)),
        "PyTorch": _drawing(reference),
        "hardware": _drawing(_simulated(compiled)),
    }
    compiled.report["pictures"] = judged = judge(drawings)
    compiled.texts["report.json"] = json.dumps(compiled.report, indent=2) + "\n"
    write_project(compiled.texts, out, force=True)
    save_pictures(drawings, out)
    _show(compiled, judged)
    CONSOLE.print(f"wrote {out}", style="green")


def _simulated(compiled: Compiled) -> list[np.ndarray]:
    """The words that the simulated hardware wrote, as real numbers."""
    assert compiled.simulation is not None
    return [
        words if port.format is None else to_real(words, port.format)
        for port, words in zip(compiled.design.outputs, compiled.simulation.outputs, strict=True)
    ]


def _drawing(outputs: list[np.ndarray]) -> Drawing:
    red, green, blue, across, down = (np.reshape(y, (HEIGHT, WIDTH)) for y in outputs)
    return Drawing(np.stack((red, green, blue), axis=-1), np.hypot(across, down))


def _differences(photo: np.ndarray) -> np.ndarray:
    """Gradient magnitude of the photograph's brightness from differences between pixels."""
    # A pixel is 2/WIDTH wide and as high.
    down, across = np.gradient(photo @ np.array(LUMINANCE), 2 / WIDTH)
    return np.hypot(across, down)


def judge(drawings: dict[str, Drawing]) -> dict[str, float]:
    """PSNR of the pictures in dB, and the mean error of the gradient of its largest value."""
    photo, torch, hardware = (drawings[k] for k in ("photograph", "PyTorch", "hardware"))
    gradient_error = np.abs(hardware.edges - torch.edges)
    return {
        "pytorch_to_photograph_db": psnr(torch.colours, photo.colours),
        "hardware_to_photograph_db": psnr(hardware.colours, photo.colours),
        "hardware_to_pytorch_db": psnr(hardware.colours, torch.colours),
        "gradient_relative_error": float(gradient_error.mean() / torch.edges.max()),
    }


@contextmanager
def _stage(name: str):
    with CONSOLE.status(name):
        yield


def _show(compiled: Compiled, judged: dict[str, float]) -> None:
    report = compiled.report
    widths, streams = report["widths"], report["streams"]
    table = Table(
        title=f"{WIDTH}×{HEIGHT} pixels, {widths['activation']}-bit streams, "
        f"{widths['weight']}-bit weights"
    )
    table.add_column("picture")
    table.add_column("PSNR", justify="right")
    for key, label in (
        ("pytorch_to_photograph_db", "PyTorch (float64) against the photograph"),
        ("hardware_to_photograph_db", "simulated hardware against the photograph"),
        ("hardware_to_pytorch_db", "simulated hardware against PyTorch"),
    ):
        table.add_row(label, f"{judged[key]:.2f} dB")
    CONSOLE.print(table)
    CONSOLE.print(
        "gradient of the brightness: mean error "
        f"{judged['gradient_relative_error']:.1e} of its largest magnitude"
    )
    CONSOLE.print(f"{streams['processes']} processes, {streams['fifos']} FIFOs")
    for process, count in report["overflows"].get("fixed", {}).items():
        CONSOLE.print(f"note: {count} values did not fit their format in {process}")


if __name__ == "__main__":
    sys.exit(main())
