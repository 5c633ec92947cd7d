"""`LutLinear`: the module that stands where a linear layer was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from ..analysis.lut_fit import LayerError
from ..analysis.lut_layer import LutLayer
from ..errors import CompileError
from . import ops

if TYPE_CHECKING:
    from .training import Trainer


class LutLinear(nn.Module):
    """
    A linear layer as lookup tables: ...×H to ...×F.

    Its forward is the exact integer arithmetic of `LutLayer`, in train mode too: training needs
    floating tables, which `calibrate` puts beside the integer ones as `trainer` for as long as it
    runs. Activations of another floating type than float32 are converted to it and the output
    back.

    `fitted` is what the fit said of its error on held-out rows, where the layer comes from one.
    `original` and `original_bias` are those of the linear layer, H×F and F, which `calibrate`
    needs; they are no part of the state dictionary, and None for a layer made of tables alone.
    """

    centroids: Tensor
    steps: Tensor
    table: Tensor
    scale: Tensor
    bias: Tensor | None
    channels: Tensor | None
    residual: Tensor | None
    original: Tensor | None
    original_bias: Tensor | None
    trainer: Trainer | None

    def __init__(
        self,
        layer: LutLayer,
        original: Tensor | None = None,
        original_bias: Tensor | None = None,
    ):
        super().__init__()
        self.name = layer.name
        self.in_features = layer.in_features
        self.out_features = layer.out_features
        self.bits = layer.bits
        self.trainer = None
        self.fitted: LayerError | None = None
        for field in ("centroids", "steps", "table", "scale", "bias", "channels", "residual"):
            value = getattr(layer, field)
            self.register_buffer(field, None if value is None else _tensor(value))
        if original is not None and tuple(original.shape) != (
            layer.in_features,
            layer.out_features,
        ):
            raise CompileError(
                f"{layer.name}: a weight of {tuple(original.shape)} for tables of "
                f"{layer.in_features} inputs and {layer.out_features} outputs"
            )
        self.register_buffer("original", original, persistent=False)
        self.register_buffer("original_bias", original_bias, persistent=False)

    @classmethod
    def from_layer(cls, layer: LutLayer) -> LutLinear:
        """The module that computes `layer`."""
        return cls(layer)

    @property
    def layer(self) -> LutLayer:
        """The layer's data in NumPy, copied."""

        def array(value: Tensor | None):
            return None if value is None else value.detach().cpu().numpy().copy()

        return LutLayer(
            self.name,
            self.in_features,
            self.centroids.cpu().numpy().copy(),
            self.steps.cpu().numpy().copy(),
            self.table.cpu().numpy().copy(),
            self.scale.cpu().numpy().copy(),
            array(self.bias),
            self.bits,
            array(self.channels),
            array(self.residual),
        )

    def set_layer(self, layer: LutLayer) -> None:
        """Takes over the data of `layer`, which has the shapes of this one."""
        for field in ("centroids", "steps", "table", "scale", "bias", "channels", "residual"):
            mine, value = getattr(self, field), getattr(layer, field)
            if (mine is None) != (value is None) or (
                mine is not None and tuple(mine.shape) != value.shape
            ):
                raise CompileError(f"{self.name}: the new tables have another {field}")
        for field in ("centroids", "steps", "table", "scale", "bias", "channels", "residual"):
            if (mine := getattr(self, field)) is not None:
                mine.copy_(_tensor(getattr(layer, field)))
        self.bits = layer.bits

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.in_features:
            raise CompileError(
                f"{self.name}: {x.shape[-1]} channels for a layer of {self.in_features} inputs"
            )
        if self.trainer is not None:
            return self.trainer(x)
        return ops.apply(
            x,
            self.centroids,
            self.steps,
            self.table,
            self.scale,
            self.bias,
            self.channels,
            self.residual,
        )

    def _apply(self, fn, recurse: bool = True):  # pyright: ignore
        # `model.half()` and `.double()` are about activations; the tables' numbers are what they
        # are, so only a change of device gets through.
        def keep(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        return super()._apply(keep, recurse)

    def extra_repr(self) -> str:
        blocks, count, vec = self.centroids.shape
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"codebooks={blocks}, centroids={count}, vec={vec}, bits={self.bits}"
        )


def _tensor(value: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(value).copy())


def layers(converted: nn.Module) -> dict[str, LutLinear]:
    """The layers of tables in a model, by their names in it."""
    return {name: m for name, m in converted.named_modules() if isinstance(m, LutLinear)}
