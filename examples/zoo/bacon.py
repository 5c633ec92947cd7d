"""
BACON: a multiplicative filter network that is band-limited at each layer.

Lindell, Van Veen, Park, Wetzstein: "BACON: Band-limited Coordinate Networks for Multiscale Scene
Representation", CVPR 2022, arXiv:2112.04645: frequencies are fixed multiples of 2π, drawn below
the bandwidth of their layer, and every layer has an output of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Bacon(nn.Module):
    """Returns the outputs of all scales, coarse first: [B, (hidden + 1) channels]."""

    def __init__(self, coordinates: int, width: int, hidden: int, channels: int):
        super().__init__()
        self.filters = nn.ModuleList(nn.Linear(coordinates, width) for _ in range(hidden + 1))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(hidden))
        self.outputs = nn.ModuleList(nn.Linear(width, channels) for _ in range(hidden + 1))
        with torch.no_grad():
            for filter in self.filters:
                filter.weight.copy_(torch.randint(-1, 2, filter.weight.shape) * torch.pi)
                filter.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.sin(self.filters[0](x))
        scales = [self.outputs[0](z)]
        for layer, filter, output in zip(
            self.layers, self.filters[1:], self.outputs[1:], strict=True
        ):
            z = layer(z) * torch.sin(filter(x))
            scales.append(output(z))
        return torch.cat(scales, dim=-1)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2, three scales of one channel, batch 8."""
    torch.manual_seed(19)
    return Bacon(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
