"""Pictures and gradients as PNG files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import image
from matplotlib.axes import Axes
from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A picture [height, width, 3] between −1 and 1, and a gradient magnitude [height, width]."""

    colours: np.ndarray
    edges: np.ndarray


GRADIENTS = "magma"
DIFFERENCES = "RdBu_r"


def save_pictures(drawings: dict[str, Drawing], folder: Path) -> None:
    """
    One PNG a picture at its own size, and `photo.png`, all of them side by side.

    `drawings` has the keys `photograph`, `PyTorch` and `hardware`.
    """
    brightest = _brightest(drawings)
    for name, drawing in drawings.items():
        stem = name.lower()
        image.imsave(folder / f"{stem}.png", _visible(drawing.colours))
        image.imsave(
            folder / f"{stem}_gradient.png", drawing.edges, vmin=0, vmax=brightest, cmap=GRADIENTS
        )
    side_by_side(drawings).savefig(folder / "photo.png", dpi=80)


def side_by_side(drawings: dict[str, Drawing]) -> Figure:
    """The photograph, PyTorch, the hardware, and hardware minus PyTorch on a scale of its own."""
    figure = Figure(figsize=(15, 5.4), layout="constrained")
    rows = figure.subplots(2, 4)
    titles = {
        "photograph": "the photograph",
        "PyTorch": "the network, PyTorch in float64",
        "hardware": "the network, simulated hardware",
    }
    brightest = _brightest(drawings)
    for column, (name, title) in enumerate(titles.items()):
        rows[0, column].imshow(_visible(drawings[name].colours))
        rows[0, column].set_title(title)
        rows[1, column].imshow(drawings[name].edges, vmin=0, vmax=brightest, cmap=GRADIENTS)
    rows[1, 0].set_title(f"its gradient (0 to {brightest:.0f}), by differences")
    rows[1, 1].set_title("its gradient, torch.autograd.grad")
    rows[1, 2].set_title("its gradient, the same hardware")
    torch, hardware = drawings["PyTorch"], drawings["hardware"]
    brightness = (hardware.colours - torch.colours).mean(axis=-1)
    _difference(figure, rows[0, 3], brightness, "difference (mean of the colours)")
    _difference(figure, rows[1, 3], hardware.edges - torch.edges, "difference of the gradients")
    for axes in rows.flat:
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def _difference(figure: Figure, axes: Axes, values: np.ndarray, title: str) -> None:
    largest = float(np.abs(values).max()) or 1.0
    shown = axes.imshow(values, vmin=-largest, vmax=largest, cmap=DIFFERENCES)
    axes.set_title(title)
    figure.colorbar(shown, ax=axes, shrink=0.85, format="%.1e")


def _brightest(drawings: dict[str, Drawing]) -> float:
    """Where the scale of gradients ends: a few pixels beyond it would leave the rest dark."""
    return float(np.quantile(drawings["PyTorch"].edges, 0.995))


def _visible(colours: np.ndarray) -> np.ndarray:
    return np.clip((colours + 1) / 2, 0, 1)
