"""
A multiplicative filter network with sines as filters (FourierNet).

Fathony, Sahu, Willmott, Kolter: "Multiplicative Filter Networks", ICLR 2021: no activation
functions; a linear layer after each product of the filters of the coordinates.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FourierNet(nn.Module):
    """z₁ = g₁(x), zᵢ₊₁ = (W zᵢ + b) · gᵢ₊₁(x), with gᵢ(x) = sin(Ωᵢ x + φᵢ)."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        self.filters = nn.ModuleList(nn.Linear(coordinates, width) for _ in range(hidden + 1))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(hidden))
        self.last = nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.sin(self.filters[0](x))
        for layer, filter in zip(self.layers, self.filters[1:], strict=True):
            z = layer(z) * torch.sin(filter(x))
        return self.last(z)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(17)
    return FourierNet(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
