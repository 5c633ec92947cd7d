"""
WIRE with real Gabor wavelets as activations.

Saragadam, LeJeune, Tan, Balakrishnan, Veeraraghavan, Baraniuk: "WIRE: Wavelet Implicit Neural
Representations", CVPR 2023, arXiv:2301.05187, the real variant: cos(ω z) exp(-(s z)²), with a
linear map for the frequency and another for the scale.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

OMEGA, SCALE = 10.0, 5.0


class RealGabor(nn.Module):
    """cos(ω (W x + b)) exp(-(s (V x + c))²)."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.frequency = nn.Linear(inputs, outputs)
        self.scale = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cos(OMEGA * self.frequency(x)) * torch.exp(-((SCALE * self.scale(x)) ** 2))


class Wire(nn.Module):
    """`hidden` wavelet layers of `width` units, then a linear layer."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        sizes = [coordinates, *[width] * hidden]
        self.layers = nn.Sequential(*(RealGabor(i, o) for i, o in itertools.pairwise(sizes)))
        self.last = nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layers(x))


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(11)
    return Wire(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
