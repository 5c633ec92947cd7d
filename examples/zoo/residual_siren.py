"""
A SIREN of residual blocks.

Lu, Jiang, Levine, Berger: "Compressive Neural Representations of Volumetric Scalar Fields",
EuroVis 2021, arXiv:2104.04523 (neurcomp): the sum of a block's input and two sine layers, halved,
which keeps it between -1 and 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

OMEGA_0 = 30.0


class ResidualSiren(nn.Module):
    """A sine layer, `blocks` residual blocks of two sine layers, a linear layer."""

    def __init__(self, coordinates: int, width: int, blocks: int, channels: int):
        super().__init__()
        self.first = nn.Linear(coordinates, width)
        self.inner = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.outer = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.last = nn.Linear(width, channels)
        with torch.no_grad():
            bound = math.sqrt(6 / width) / OMEGA_0
            for layer in (*self.inner, *self.outer, self.last):
                layer.weight.uniform_(-bound, bound)
            self.first.weight.uniform_(-1 / coordinates, 1 / coordinates)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.sin(OMEGA_0 * self.first(x))
        for inner, outer in zip(self.inner, self.outer, strict=True):
            z = 0.5 * (z + torch.sin(OMEGA_0 * outer(torch.sin(OMEGA_0 * inner(z)))))
        return self.last(z)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8-1 with one block, batch 8."""
    torch.manual_seed(28)
    return ResidualSiren(2, 8, 1, 1), (torch.rand(8, 2) * 2 - 1,)
