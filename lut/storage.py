"""Converted models on disk: their layers of tables; all else comes from the original model."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from ..analysis.int8_layer import Int8Layer
from ..analysis.lut_storage import read_all_layers, read_manifest, write_layers
from ..errors import CompileError
from .int8 import Int8Linear, int8_layers
from .linear import LutLinear, layers
from .sites import bias_of, copied, open_up, replace, sites, weight_of


def save(converted: nn.Module, folder: str | Path) -> None:
    """
    Writes the layers of tables and int8 products of a model to a folder (`analysis.lut_storage`
    says how), all or nothing; a folder of an earlier `save` is replaced.

    Raises CompileError for a model without tables and a folder that holds something else.
    """
    luts: dict[str, LutLinear | Int8Linear] = {**layers(converted), **int8_layers(converted)}
    if not luts:
        raise CompileError("save: the model has no layer of tables; convert it first")
    notes: dict[str, dict[str, Any]] = {}
    for name, lut in luts.items():
        notes[name] = {} if lut.original is None else {"weight_sha256": _digest(lut.original)}
    write_layers(Path(folder), [_named(lut, name).layer for name, lut in luts.items()], notes)


def load(folder: str | Path, model: nn.Module) -> nn.Module:
    """
    A copy of `model` with the layers that `save` wrote in place of its linear ones; bit
    for bit the model that was saved.

    Raises CompileError for a folder that is none of `save`'s or is damaged, and for a model whose
    layers are not those that the tables were made from.
    """
    folder = Path(folder)
    saved = read_all_layers(folder)
    digests = {x["name"]: x.get("weight_sha256") for x in read_manifest(folder)["layers"]}
    base = copied(model)
    known = {site.name: (site.in_features, site.out_features) for site in sites(base)}
    for layer in saved:
        if known.get(layer.name) != (layer.in_features, layer.out_features):
            raise CompileError(
                f"{folder} holds tables of {layer.name}, {layer.in_features}×{layer.out_features}; "
                "the model has no such linear layer"
            )
    loaded = open_up(base, [layer.name for layer in saved])
    for layer in saved:
        module = loaded.get_submodule(layer.name)
        weight = weight_of(module)
        if digests[layer.name] not in (None, _digest(weight)):
            raise CompileError(
                f"{folder}: the tables of {layer.name} were made from another weight than the "
                "model's"
            )
        if isinstance(layer, Int8Layer):
            new = Int8Linear(layer, weight)
        else:
            new = LutLinear(layer, weight, bias_of(module))
        loaded = replace(loaded, module, new)
    return loaded


def _named(lut: LutLinear | Int8Linear, name: str) -> LutLinear | Int8Linear:
    lut.name = name
    return lut


def _digest(weight: Tensor) -> str:
    array = np.ascontiguousarray(weight.cpu().numpy())
    return hashlib.sha256(array.tobytes()).hexdigest()
