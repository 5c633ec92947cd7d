"""
HOSC: a hyperbolic tangent of a sine.

Serrano, Szymkowiak, Musialski: "HOSC: A Periodic Activation Function for Preserving Sharp
Features in Implicit Neural Representations", 2024, arXiv:2401.10967: tanh(β sin z).
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

BETA = 4.0


class Hosc(nn.Module):
    """`hidden` layers of `width` units, then a linear layer."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        sizes = [coordinates, *[width] * hidden]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        self.last = nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.tanh(BETA * torch.sin(layer(x)))
        return self.last(x)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(13)
    return Hosc(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
