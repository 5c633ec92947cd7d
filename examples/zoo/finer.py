"""
FINER: sines whose frequency grows with their argument.

Liu, Zhu, Zhang, Fu, Deng, Ma, Guo, Cao: "FINER: Flexible Spectral-bias Tuning in Implicit NEural
Representation by Variable-periodic Activation Functions", CVPR 2024, arXiv:2312.02434:
sin(ω (|z| + 1) z), biases of the first layer from a wide uniform distribution.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

OMEGA, FIRST_BIAS = 30.0, 1.0


class Finer(nn.Module):
    """`hidden` variable-periodic layers of `width` units, then a linear layer."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        sizes = [coordinates, *[width] * hidden]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        self.last = nn.Linear(width, channels)
        with torch.no_grad():
            for layer in (*self.layers[1:], self.last):
                bound = math.sqrt(6 / layer.in_features) / OMEGA
                layer.weight.uniform_(-bound, bound)
            self.layers[0].weight.uniform_(-1 / coordinates, 1 / coordinates)
            self.layers[0].bias.uniform_(-FIRST_BIAS, FIRST_BIAS)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            z = layer(x)
            x = torch.sin(OMEGA * (torch.abs(z) + 1) * z)
        return self.last(x)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(12)
    return Finer(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
