"""
The modified multi-layer perceptron of physics-informed learning.

Wang, Teng, Perdikaris: "Understanding and Mitigating Gradient Flow Pathologies in Physics-Informed
Neural Networks", SIAM Journal on Scientific Computing 43, 2021, arXiv:2001.04536: two encodings of
the coordinates are mixed at each layer, with the layer as the gate.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn


class ModifiedMlp(nn.Module):
    """z ← (1 - h) u + h v, with h = tanh(W z + b) and encodings u and v."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        self.u = nn.Linear(coordinates, width)
        self.v = nn.Linear(coordinates, width)
        sizes = [coordinates, *[width] * hidden]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        self.last = nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        u, v = torch.tanh(self.u(x)), torch.tanh(self.v(x))
        z = x
        for layer in self.layers:
            h = torch.tanh(layer(z))
            z = (1 - h) * u + h * v
        return self.last(z)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(26)
    return ModifiedMlp(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
