"""
Random Fourier features before a ReLU network.

Tancik, Srinivasan, Mildenhall, Fridovich-Keil, Raghavan, Singhal, Ramamoorthi, Barron, Ng:
"Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains",
NeurIPS 2020, arXiv:2006.10739: cos and sin of 2π B x with a Gaussian B that is not trained.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn


class FourierFeatures(nn.Module):
    """[B, D] to [B, 2 F]."""

    def __init__(self, coordinates: int, features: int, scale: float):
        super().__init__()
        self.register_buffer("directions", torch.randn(coordinates, features) * scale)

    def forward(self, x: Tensor) -> Tensor:
        angles = 2 * torch.pi * x @ self.directions
        return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)


def network(coordinates: int, features: int, width: int, hidden: int, channels: int) -> nn.Module:
    """The features, `hidden` ReLU layers of `width` units, a linear layer."""
    sizes = [2 * features, *[width] * hidden]
    layers = [part for i, o in itertools.pairwise(sizes) for part in (nn.Linear(i, o), nn.ReLU())]
    features_of = FourierFeatures(coordinates, features, scale=1.0)
    return nn.Sequential(features_of, *layers, nn.Linear(width, channels))


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2 coordinates, 4 features, 8x2-1, batch 8."""
    torch.manual_seed(16)
    return network(2, 4, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
