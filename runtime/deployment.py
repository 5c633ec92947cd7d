"""`deploy`: a converted PyTorch model whose layers of tables run on DPUs, everything else here."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from ..analysis.int8_layer import LIMIT, Int8Layer, product
from ..analysis.lut_layer import LutLayer, lookup
from ..dialects.lut_layers import lower_int8_layer, lower_layer
from ..errors import CompileError
from ..lowering.upmem_host_c import HostProgram
from ..passes.convert_lut_to_upmem import ConvertLutToUpmemPass
from .upmem_model import UpmemModel


@dataclass(frozen=True)
class UpmemOptions:
    """How layers are put onto DPUs."""

    machine: str = "v1A"
    """A generation (`targets/upmem-*.toml`) or the path of a description of another one."""
    dpus: int | None = None
    """Working DPUs; all of the machine's where it is not said."""
    rows: int = 1024
    """Rows of a launch that the mapping is chosen for; more take several launches."""
    mapping: str = ""
    """Fields of the mapping that hold for all layers: `"order=nfc groups=2"`."""
    profile: str | None = None
    """As for `dpu_alloc`."""

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise CompileError(f"rows={self.rows}: a launch has at least one row")
        if self.dpus is not None and self.dpus < 1:
            raise CompileError(f"dpus={self.dpus}: at least one is needed")


DeviceLayer = LutLayer | Int8Layer
"""What runs on DPUs."""


def tables_module(layers: Sequence[DeviceLayer], rows: int) -> ModuleOp:
    """
    Each layer as `lut.linear` or `lut.int8_linear` in a function of its own, rows×H to rows×F in
    float32.
    """
    functions: list[FuncOp] = []
    for number, layer in enumerate(layers):
        block = Block(arg_types=[TensorType(f32, (rows, layer.in_features))])
        lower = lower_int8_layer if isinstance(layer, Int8Layer) else lower_layer
        ops = lower(layer, block.args[0])  # pyright: ignore[reportArgumentType]
        block.add_ops([*ops, ReturnOp(ops[-1].results[0])])
        types = [block.args[0].type], [ops[-1].results[0].type]
        functions.append(FuncOp(f"layer{number}", types, Region(block)))
    return ModuleOp(functions)


def upmem_program(
    layers: Sequence[DeviceLayer], name: str = "model", options: UpmemOptions | None = None
) -> HostProgram:
    """
    The program of these layers, tiled for the machine.

    Raises CompileError where no mapping fits: which memory, and by how much.
    """
    options = options or UpmemOptions()
    if not layers:
        raise CompileError(
            f"{name} has no layers of tables or int8 products; inr.lut.convert makes them"
        )
    module = tables_module(layers, options.rows)
    module.verify()
    ConvertLutToUpmemPass(target=options.machine, dpus=options.dpus, mapping=options.mapping).apply(
        Context(), module
    )
    module.verify()
    return HostProgram(module, name)


class DpuLinear(nn.Module):
    """
    A layer of tables, or an int8 product, on DPUs: ...×H to ...×F. The search, or the rounding to
    bytes, and the outputs are the host's.
    """

    def __init__(self, model: UpmemModel, name: str, in_features: int, out_features: int):
        super().__init__()
        self.model = model
        self.name = name
        self.in_features = in_features
        self.out_features = out_features

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.in_features:
            raise CompileError(
                f"{self.name}: {x.shape[-1]} channels for a layer of {self.in_features} inputs"
            )
        rows = x.detach().reshape(-1, self.in_features).to("cpu", torch.float32)
        out = torch.from_numpy(self.model.run(self.name, rows.numpy()))
        return out.reshape(*x.shape[:-1], self.out_features).to(x.device, x.dtype)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, on DPUs"


def layers_of(converted: nn.Module) -> dict[str, LutLayer]:
    """The layers of tables of a model by their names in it, which their data bear as well."""
    from ..lut.linear import layers

    return {n: replace(m.layer, name=n) for n, m in layers(converted).items()}


def random_codes(layer: DeviceLayer, rows: int) -> NDArray[Any]:
    """Indices, or the activations of an int8 product, that have nothing to do with a model."""
    rng = np.random.default_rng(0)
    if isinstance(layer, Int8Layer):
        return rng.integers(-LIMIT, LIMIT + 1, (rows, layer.in_features)).astype(np.int8)
    shape = rows, layer.codebooks
    return rng.integers(0, layer.centroids_per_codebook, shape).astype(np.uint8)


def sums_of(layer: DeviceLayer, codes: NDArray[Any]) -> NDArray[np.int64]:
    """The sums N×F that a layer makes of its own `encode`, in NumPy."""
    if isinstance(layer, Int8Layer):
        return product(codes, layer.weight)
    return lookup(codes, layer.table)


def device_layers(converted: nn.Module) -> dict[str, DeviceLayer]:
    """The same with int8 products, in the order of the model's modules."""
    from ..lut.int8 import int8_layers

    products = {n: replace(m.layer, name=n) for n, m in int8_layers(converted).items()}
    found: dict[str, DeviceLayer] = {**layers_of(converted), **products}
    return {n: found[n] for n, _ in converted.named_modules() if n in found}


def deploy(
    converted: nn.Module,
    target: str = "upmem",
    *,
    name: str = "model",
    options: UpmemOptions | None = None,
    layers: Mapping[str, DeviceLayer] | None = None,
) -> nn.Module:
    """
    The same model with each converted layer running on DPUs, emulated or real, for inference.

    `converted` is what `inr.lut.convert` or `inr.lut.load` gives; it is not changed. The program
    of the DPUs is `deployed.dpu_model`, an `UpmemModel`, which has the modelled cycles and the
    bytes moved, and whose `close` gives the DPUs back.

    Raises CompileError for another target, a model with no layers of tables, a mapping that does
    not fit, and a machine with too few DPUs.
    """
    if target != "upmem":
        raise CompileError(f"deploy: target '{target}'; there is upmem")
    options = options or UpmemOptions()
    found = dict(layers) if layers is not None else device_layers(converted)
    host = upmem_program(list(found.values()), name, options)
    return place_on_dpus(converted, UpmemModel(host, options.profile), found)


def place_on_dpus(
    converted: nn.Module, model: UpmemModel, layers: Mapping[str, DeviceLayer]
) -> nn.Module:
    """A copy of a converted model whose layers run on a program that is open on DPUs."""
    deployed = copy.deepcopy(converted)
    for path, layer in layers.items():
        parent, _, leaf = path.rpartition(".")
        place = deployed.get_submodule(parent)
        module = DpuLinear(model, path, layer.in_features, layer.out_features)
        place._modules[leaf] = module
    deployed.dpu_model = model  # pyright: ignore
    return deployed
