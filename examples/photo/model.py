"""
A SIREN fitted to a photograph: flower.jpg, which scikit-learn carries ("Some rights reserved by
vultilion", Creative Commons BY 2.0, https://www.flickr.com/photos/vultilion/6056698931).

`fit.py` makes the weights. Both factories take one batch of all the picture's pixels: a call of
the hardware draws the whole picture.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

WEIGHTS = Path(__file__).with_name("flower.safetensors")
WIDTH, HEIGHT = 144, 96
OMEGA_0 = 30.0
LUMINANCE = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in the brightness of a pixel (ITU-R BT.601)."""


class Siren(nn.Module):
    """Coordinates [batch, 2] to red, green and blue [batch, 3], black at −1 and white at 1."""

    def __init__(self, width: int = 128, hidden: int = 3):
        super().__init__()
        sizes = [2, *[width] * hidden]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        self.last = nn.Linear(width, 3)

    def initialise(self) -> None:
        """The uniform distributions of section 3.2 of the SIREN paper, arXiv:2006.09661."""
        first, *others = (m for m in self.modules() if isinstance(m, nn.Linear))
        for layer in others:
            bound = math.sqrt(6 / layer.in_features) / OMEGA_0
            nn.init.uniform_(layer.weight, -bound, bound)
        nn.init.uniform_(first.weight, -1 / 2, 1 / 2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.sin(OMEGA_0 * layer(x))
        return self.last(x)


def pixels() -> Tensor:
    """
    Coordinates (across, down) of the pixels' centres, row by row, [HEIGHT·WIDTH, 2].

    Pixels are square: the picture is 2 wide, from −1 to 1, and 2·HEIGHT/WIDTH high.
    """
    across = (torch.arange(WIDTH) + 0.5) * 2 / WIDTH - 1
    down = ((torch.arange(HEIGHT) + 0.5) * 2 - HEIGHT) / WIDTH
    grid = torch.meshgrid(down, across, indexing="ij")
    return torch.stack((grid[1].flatten(), grid[0].flatten()), dim=-1)


def fitted() -> Siren:
    """The network with the weights of `fit.py`, which are stored as float32."""
    siren = Siren()
    siren.load_state_dict(load_file(WEIGHTS))
    return siren


def image() -> tuple[nn.Module, tuple[Tensor]]:
    """The picture: red, green and blue of every pixel."""
    return fitted(), (pixels(),)


def edges() -> tuple[nn.Module, tuple[Tensor]]:
    """The picture and the gradient of its brightness, which is large where there are edges."""
    return PictureAndEdges(fitted()), (pixels(),)


class PictureAndEdges(nn.Module):
    """A function that takes its own derivative: it is compiled as it is, without an order."""

    def __init__(self, siren: Siren):
        super().__init__()
        self.siren = siren

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = x.detach().requires_grad_()
        colours = self.siren(x)
        red, green, blue = colours.unbind(dim=1)
        r, g, b = LUMINANCE
        brightness = r * red + g * green + b * blue
        (gradient,) = torch.autograd.grad(brightness.sum(), x)
        return {
            "red": red,
            "green": green,
            "blue": blue,
            "across": gradient[:, 0],
            "down": gradient[:, 1],
        }
