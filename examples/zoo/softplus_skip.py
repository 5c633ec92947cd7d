"""
The geometry network of IGR: softplus activations and a skip connection.

Gropp, Yariv, Haim, Atzmon, Lipman: "Implicit Geometric Regularization for Learning Shapes", ICML
2020, arXiv:2002.10099: softplus with β = 100, the coordinates joined to the hidden features
halfway and the sum divided by √2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

BETA = 100.0


class Igr(nn.Module):
    """`hidden` softplus layers of `width` units; the coordinates join before layer `skip`."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int, skip: int):
        super().__init__()
        self.skip = skip
        inputs = [coordinates, *[width] * (hidden - 1)]
        outputs = [width - coordinates if i + 1 == skip else width for i in range(hidden)]
        self.layers = nn.ModuleList(map(nn.Linear, inputs, outputs))
        self.last = nn.Linear(width, channels)
        self.softplus = nn.Softplus(beta=BETA)

    def forward(self, x: Tensor) -> Tensor:
        z = x
        for index, layer in enumerate(self.layers):
            if index == self.skip:
                z = torch.cat([z, x], dim=-1) / math.sqrt(2)
            z = self.softplus(layer(z))
        return self.last(z)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x3-1 with a skip before the third layer, batch 8."""
    torch.manual_seed(20)
    return Igr(2, 8, 3, 1, skip=2), (torch.rand(8, 2) * 2 - 1,)
