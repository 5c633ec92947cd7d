"""
A ReLU network behind the positional encoding of NeRF.

Mildenhall, Srinivasan, Tancik, Barron, Ramamoorthi, Ng: "NeRF: Representing Scenes as Neural
Radiance Fields for View Synthesis", ECCV 2020, arXiv:2003.08934: the coordinates, and sine and
cosine of them times 2^l π.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn


class PositionalEncoding(nn.Module):
    """[B, D] to [B, D (1 + 2 L)]."""

    def __init__(self, octaves: int):
        super().__init__()
        self.register_buffer("frequencies", torch.pi * 2.0 ** torch.arange(octaves))

    def forward(self, x: Tensor) -> Tensor:
        angles = (x[:, :, None] * self.frequencies).reshape(len(x), -1)
        return torch.cat([x, torch.sin(angles), torch.cos(angles)], dim=1)


def network(coordinates: int, octaves: int, width: int, hidden: int, channels: int) -> nn.Module:
    """The encoding, `hidden` ReLU layers of `width` units, a linear layer."""
    sizes = [coordinates * (1 + 2 * octaves), *[width] * hidden]
    layers = [part for i, o in itertools.pairwise(sizes) for part in (nn.Linear(i, o), nn.ReLU())]
    return nn.Sequential(PositionalEncoding(octaves), *layers, nn.Linear(width, channels))


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2 coordinates, 3 octaves, 8x2-1, batch 8."""
    torch.manual_seed(15)
    return network(2, 3, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
