"""
Sinc activations.

Saratchandran, Ramasinghe, Shevchenko, Long, Lucey: "A Sampling Theory Perspective on Activations
for Implicit Neural Representations", ICML 2024, arXiv:2402.05427: sin(ω z) / (ω z).

Near zero the quotient's derivatives are small differences of large numbers: in float32 PyTorch's
own second derivative of `torch.sinc` is right to three digits there. `tiny` takes the power series
near zero, whose derivatives are as good as its values; `plain` is `torch.sinc` as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn

OMEGA = 3.0


def careful_sinc(t: Tensor) -> Tensor:
    """sin(t) / t; within |t| < 1 by its power series up to t¹⁴, exact to 3e-15 there."""
    near = t.abs() < 1
    square = torch.where(near, t, 0.0).square()
    series = torch.ones_like(t)
    for k in range(14, 0, -2):
        series = 1 - square * series / (k * (k + 1))
    far = torch.where(near, 1.0, t)
    return torch.where(near, series, torch.sin(far) / far)


def plain_sinc(t: Tensor) -> Tensor:
    """sin(t) / t by PyTorch, whose sinc is of π times its argument."""
    return torch.sinc(t / torch.pi)


class SincNet(nn.Module):
    """`hidden` sinc layers of `width` units, then a linear layer."""

    def __init__(
        self,
        coordinates: int,
        width: int,
        hidden: int,
        channels: int,
        sinc: Callable[[Tensor], Tensor] = careful_sinc,
    ):
        super().__init__()
        self.sinc = sinc
        sizes = [coordinates, *[width] * hidden]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(sizes))
        self.last = nn.Linear(width, channels)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.sinc(layer(x) * OMEGA)
        return self.last(x)


def tiny() -> tuple[nn.Module, tuple[Tensor]]:
    """2-8x2-1, batch 8."""
    torch.manual_seed(14)
    return SincNet(2, 8, 2, 1), (torch.rand(8, 2) * 2 - 1,)


def plain() -> tuple[nn.Module, tuple[Tensor]]:
    """The same network with `torch.sinc`."""
    torch.manual_seed(14)
    return SincNet(2, 8, 2, 1, plain_sinc), (torch.rand(8, 2) * 2 - 1,)
