"""
SIREN: a multi-layer perceptron with sines as activations.

Sitzmann, Martel, Bergman, Lindell, Wetzstein: "Implicit Neural Representations with Periodic
Activation Functions", NeurIPS 2020, arXiv:2006.09661. The initialisation is that of its
section 3.2: the argument of each sine is standard normal.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

OMEGA_0 = 30.0


class Siren(nn.Module):
    """`hidden` sine layers of `width` units, then a linear layer to `channels` outputs."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        sizes = [coordinates, *[width] * hidden]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        self.last = nn.Linear(width, channels)
        with torch.no_grad():
            for layer in (*self.layers[1:], self.last):
                bound = math.sqrt(6 / layer.in_features) / OMEGA_0
                layer.weight.uniform_(-bound, bound)
            self.layers[0].weight.uniform_(-1 / coordinates, 1 / coordinates)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.sin(OMEGA_0 * layer(x))
        return self.last(x)


def _coordinates(batch: int, dimensions: int) -> Tensor:
    return torch.rand(batch, dimensions) * 2 - 1


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8: for tests."""
    torch.manual_seed(0)
    return Siren(2, 8, 2, 1), (_coordinates(8, 2),)


def image() -> tuple[nn.Module, tuple[Tensor]]:
    """2-256x4-3, batch 64: an RGB picture."""
    torch.manual_seed(1)
    return Siren(2, 256, 4, 3), (_coordinates(64, 2),)


def audio() -> tuple[nn.Module, tuple[Tensor]]:
    """1-256x4-1, batch 64: a waveform."""
    torch.manual_seed(2)
    return Siren(1, 256, 4, 1), (_coordinates(64, 1),)


def sdf() -> tuple[nn.Module, tuple[Tensor]]:
    """3-256x3-1, batch 64: a signed distance function."""
    torch.manual_seed(3)
    return Siren(3, 256, 3, 1), (_coordinates(64, 3),)
