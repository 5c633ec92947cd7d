"""
Gaussian activations.

Ramasinghe, Lucey: "Beyond Periodicity: Towards a Unifying Framework for Activations in
Coordinate-MLPs", ECCV 2022, arXiv:2111.15135: exp(-z² / (2 s²)).
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

SIGMA = 0.5


class GaussianNet(nn.Module):
    """`hidden` Gaussian layers of `width` units, then a linear layer."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        sizes = [coordinates, *[width] * hidden]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        self.last = nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            z = layer(x)
            x = torch.exp(-0.5 * (z / SIGMA) ** 2)
        return self.last(x)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(10)
    return GaussianNet(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
