"""
Logistic activations.

Cybenko: "Approximation by Superpositions of a Sigmoidal Function", Mathematics of Control, Signals
and Systems 2, 1989.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn


def network(coordinates: int, width: int, hidden: int, channels: int) -> nn.Module:
    """`hidden` layers of `width` units, then a linear layer."""
    sizes = [coordinates, *[width] * hidden]
    layers = [
        part for i, o in itertools.pairwise(sizes) for part in (nn.Linear(i, o), nn.Sigmoid())
    ]
    return nn.Sequential(*layers, nn.Linear(width, channels))


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(24)
    return network(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)
