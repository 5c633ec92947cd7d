"""`Int8Linear`: a linear layer as a product of bytes, for layers that tables do not suit."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ..analysis.int8_layer import LIMIT, Int8Layer, quantised
from ..errors import CompileError
from .capture import Floats
from .sites import bias_of, weight_of


class Int8Linear(nn.Module):
    """
    A linear layer as an exact product of bytes: ...×H to ...×F, the arithmetic of `Int8Layer`.

    Activations of another floating type than float32 are converted to it and the output back. The
    gradient of the input is that of the product without its roundings, so that `calibrate` can
    train layers of tables before this one. `original` is the linear layer's weight, H×F, by which a
    saved layer knows its model; it is no part of the state dictionary.
    """

    weight: Tensor
    step: Tensor
    scale: Tensor
    bias: Tensor | None

    original: Tensor | None

    def __init__(self, layer: Int8Layer, original: Tensor | None = None):
        super().__init__()
        self.name = layer.name
        self.in_features = layer.in_features
        self.out_features = layer.out_features
        self.register_buffer("weight", torch.from_numpy(layer.weight.copy()))
        self.register_buffer("step", torch.tensor([layer.step], dtype=torch.float32))
        self.register_buffer("scale", torch.from_numpy(layer.scale.astype(np.float32)))
        bias = None if layer.bias is None else torch.from_numpy(layer.bias.astype(np.float32))
        self.register_buffer("bias", bias)
        self.register_buffer("original", original, persistent=False)

    @property
    def layer(self) -> Int8Layer:
        """The layer's data in NumPy, copied."""
        return Int8Layer(
            self.name,
            self.weight.cpu().numpy().copy(),
            float(self.step),
            self.scale.cpu().numpy().copy(),
            None if self.bias is None else self.bias.cpu().numpy().copy(),
        )

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.in_features:
            raise CompileError(
                f"{self.name}: {x.shape[-1]} channels for a layer of {self.in_features} inputs"
            )
        units = torch.nan_to_num(x.to(torch.float32) * (1 / self.step), nan=0.0)
        activations = torch.round(units).clamp(-LIMIT, LIMIT)
        # Whole numbers below 2^53 that float64 adds exactly, in any order.
        sums = activations.to(torch.float64) @ self.weight.to(torch.float64)
        out = sums.to(torch.float32) * self.scale
        out = out if self.bias is None else out + self.bias
        if torch.is_grad_enabled() and x.requires_grad:
            # Nothing is added but a gradient, that of the product without its roundings.
            straight = units.clamp(-LIMIT, LIMIT) @ (self.weight.to(torch.float32) * self.scale)
            out = out + (straight - straight.detach())
        return out.to(x.dtype)

    def _apply(self, fn, recurse: bool = True):  # pyright: ignore
        # As for tables: `model.half()` is about activations, only a change of device gets through.
        def keep(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        return super()._apply(keep, recurse)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, int8"


def int8_layers(converted: nn.Module) -> dict[str, Int8Linear]:
    """The int8 products in a model, by their names in it."""
    return {name: m for name, m in converted.named_modules() if isinstance(m, Int8Linear)}


def made_int8(name: str, x: Floats, module: nn.Module) -> Int8Layer:
    """The int8 product of a linear module whose inputs are rows like `x` (N×H)."""
    bias = bias_of(module)
    return quantised(
        name,
        weight_of(module).cpu().numpy(),
        None if bias is None else bias.cpu().numpy(),
        float(np.abs(x).max(initial=0.0)),
    )


def int8_error(layer: Int8Layer, x: Floats, module: nn.Module) -> float:
    """‖y - ŷ‖²/‖y‖² of the product x·W on these rows, as for tables; 0 where y is 0."""
    exact = x @ weight_of(module).cpu().numpy()
    found = layer(x) - (0 if layer.bias is None else layer.bias)
    energy = float(np.square(exact, dtype=np.float64).sum())
    off = float(np.square(exact - found, dtype=np.float64).sum())
    return off / energy if energy > 0 else 0.0
