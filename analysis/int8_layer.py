"""
One linear layer as a product of bytes: its data, and its exact meaning in NumPy.

    y = x·W + b   becomes   a = to_int8(x), acc = Σ_h a[h]·w[h, :], y = acc·scale + b

Activations share one step, which calibration chooses; weights have one a column. Every other place
that computes such a layer (the PyTorch module, the interpreter, the host and the DPUs in C) is
compared with the functions here. Sums are exact integers, so their order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import CompileError

LIMIT = 127
"""The largest magnitude of an activation and of a weight: symmetric, -128 is not used."""

MAX_INPUTS = (2**31 - 1) // LIMIT**2
"""Inputs whose products fit a sum of 32 bits, whatever they are."""


def to_int8(x: NDArray[np.float32], step: float | np.floating) -> NDArray[np.int8]:
    """
    Activations in units of `step`: x·(1/step) rounded to float32, then to the nearest integer,
    halves to even, then clipped to ±127. NaN becomes 0.
    """
    inverse = np.float32(1) / np.float32(step)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.nan_to_num(x.astype(np.float32) * inverse, nan=0.0)
    return np.clip(np.rint(scaled), -LIMIT, LIMIT).astype(np.int8)


def product(activations: NDArray[np.int8], weight: NDArray[np.int8]) -> NDArray[np.int64]:
    """Σ_h activations[:, h]·weight[h, :]: N×H and H×F bytes to N×F sums, exact."""
    # Products of bytes are whole numbers that float64 adds without rounding up to 2^53.
    return (activations.astype(np.float64) @ weight.astype(np.float64)).astype(np.int64)


def product_range(weight: NDArray[np.integer]) -> tuple[int, int]:
    """
    The least and the largest sum that any activations can give, over all columns. Tight: 127 with
    the signs of the column with the largest Σ|w| attains it.
    """
    wide = np.abs(weight.astype(np.int64)).sum(axis=0)
    most = LIMIT * int(wide.max(initial=0))
    return -most, most


@dataclass(frozen=True, eq=False)
class Int8Layer:
    """
    The bytes of one linear layer of H inputs and F outputs.

    Raises CompileError when the parts do not fit together.
    """

    name: str
    """The layer's name in the model."""
    weight: NDArray[np.int8]
    """H×F, within ±127."""
    step: float
    """What one unit of an activation is worth, positive; rounded to float32."""
    scale: NDArray[np.float32]
    """F: what one unit of a sum is worth in each column, the step times the weight's own."""
    bias: NDArray[np.float32] | None = None
    """F."""

    def __post_init__(self) -> None:
        if self.weight.ndim != 2 or 0 in self.weight.shape:
            raise CompileError(f"{self.name}: a weight of shape {self.weight.shape}; H×F is needed")
        if self.weight.dtype != np.int8 or int(self.weight.min()) < -LIMIT:
            raise CompileError(f"{self.name}: weights are bytes within ±{LIMIT}")
        if self.in_features > MAX_INPUTS:
            raise CompileError(
                f"{self.name}: products of {self.in_features} inputs overflow a sum of 32 bits; "
                f"at most {MAX_INPUTS}"
            )
        object.__setattr__(self, "step", float(np.float32(self.step)))
        # Half of the least normal float32 has an inverse that is still finite.
        if not np.isfinite(self.step) or self.step < float(np.finfo(np.float32).tiny):
            raise CompileError(f"{self.name}: a step of {self.step:g}; a positive number is needed")
        if self.scale.shape != (self.out_features,):
            raise CompileError(
                f"{self.name}: {self.scale.size} scales for {self.out_features} outputs"
            )
        if self.bias is not None and self.bias.shape != (self.out_features,):
            raise CompileError(
                f"{self.name}: a bias of {self.bias.size} for {self.out_features} outputs"
            )

    @property
    def in_features(self) -> int:
        """H."""
        return self.weight.shape[0]

    @property
    def out_features(self) -> int:
        """F."""
        return self.weight.shape[1]

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest sum."""
        return product_range(self.weight)

    def encode(self, x: NDArray[np.float32]) -> NDArray[np.int8]:
        """Activations N×H as bytes."""
        return to_int8(x, self.step)

    def dequantise(self, sums: NDArray[np.integer]) -> NDArray[np.float32]:
        """Outputs N×F: float32(sum)·scale, plus the bias, each rounded to float32."""
        out = sums.astype(np.float32) * self.scale
        return out if self.bias is None else out + self.bias

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Outputs N×F of activations N×H."""
        return self.dequantise(product(self.encode(x), self.weight))


def quantised(
    name: str,
    weight: NDArray[np.floating],
    bias: NDArray[np.floating] | None,
    largest: float,
) -> Int8Layer:
    """
    The layer of an H×F weight whose inputs reach ±`largest`: one step for activations, one for each
    column of the weight, both symmetric. A column of zeros has a scale of 0.

    Raises CompileError for weights or a `largest` that are not finite.
    """
    if not np.isfinite(largest) or largest < 0 or not np.all(np.isfinite(weight)):
        raise CompileError(f"{name}: weights and inputs of an int8 product are finite numbers")
    step = np.float32(max(largest / LIMIT, float(np.finfo(np.float32).tiny)))
    widths = np.abs(weight).max(axis=0).astype(np.float64) / LIMIT
    safe = np.where(widths > 0, widths, 1.0)
    entries = np.clip(np.rint(weight / safe), -LIMIT, LIMIT).astype(np.int8)
    return Int8Layer(
        name,
        entries,
        float(step),
        (widths * np.float64(step)).astype(np.float32),
        None if bias is None else bias.astype(np.float32),
    )
