"""
A multiplicative filter network with Gabor wavelets as filters (GaborNet).

Fathony, Sahu, Willmott, Kolter: "Multiplicative Filter Networks", ICLR 2021: filters
exp(-γ/2 |x - μ|²) sin(Ω x + φ); the squared distance is expanded, so that it is a product of
matrices.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GaborFilter(nn.Module):
    """[B, D] to [B, width]."""

    def __init__(self, coordinates: int, width: int):
        super().__init__()
        self.linear = nn.Linear(coordinates, width)
        self.centre = nn.Parameter(2 * torch.rand(width, coordinates) - 1)
        self.gamma = nn.Parameter(0.5 + torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        distance = (
            (x**2).sum(-1, keepdim=True) + (self.centre**2).sum(-1)[None, :] - 2 * x @ self.centre.T
        )
        return torch.sin(self.linear(x)) * torch.exp(-0.5 * distance * self.gamma[None, :])


class GaborNet(nn.Module):
    """z₁ = g₁(x), zᵢ₊₁ = (W zᵢ + b) · gᵢ₊₁(x)."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        self.filters = nn.ModuleList(GaborFilter(coordinates, width) for _ in range(hidden + 1))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(hidden))
        self.last = nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        z = self.filters[0](x)
        for layer, filter in zip(self.layers, self.filters[1:], strict=True):
            z = layer(z) * filter(x)
        return self.last(z)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(18)
    return GaborNet(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
