"""
Sinc activations.

Saratchandran, Ramasinghe, Shevchenko, Long, Lucey: "A Sampling Theory Perspective on Activations
for Implicit Neural Representations", ICML 2024, arXiv:2402.05427: sin(ω z) / (ω z).
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

OMEGA = 3.0


class SincNet(nn.Module):
    """`hidden` sinc layers of `width` units, then a linear layer."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        sizes = [coordinates, *[width] * hidden]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        self.last = nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.sinc(layer(x) * (OMEGA / torch.pi))  # PyTorch's is of pi times its argument
        return self.last(x)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(14)
    return SincNet(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
