"""
A SIREN whose layers are modulated by a second input (FiLM).

Chan, Monteiro, Kellnhofer, Wu, Wetzstein: "pi-GAN: Periodic Implicit Generative Adversarial
Networks for 3D-Aware Image Synthesis", CVPR 2021, arXiv:2012.00926: sin(γ (W x + b) + β), with
γ and β for each unit from a mapping network, whose output is an input here.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

OMEGA_0 = 30.0


class FilmSiren(nn.Module):
    """Coordinates [B, D] and modulation [B, 2 hidden width], γ and β layer by layer."""

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

    def forward(self, x: Tensor, modulation: Tensor) -> Tensor:
        parts = iter(modulation.chunk(2 * len(self.layers), dim=-1))
        for layer in self.layers:
            gamma, beta = next(parts), next(parts)
            x = torch.sin((OMEGA_0 / 2 * gamma + OMEGA_0) * layer(x) + beta)
        return self.last(x)


def tiny() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """2-8x2-1, batch 8, a modulation for each row."""
    torch.manual_seed(27)
    return FilmSiren(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1, 0.5 * torch.randn(8, 32))
