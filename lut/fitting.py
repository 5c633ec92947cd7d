"""Fitting one module, and keeping what was fitted."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ..analysis.lut_codebooks import LutSettings, SharedCodebooks
from ..analysis.lut_fit import LayerError, fit_layer
from ..analysis.lut_layer import LutLayer
from ..analysis.lut_storage import MANIFEST, read_layers, read_manifest, write_layers
from .capture import Floats
from .sites import bias_of, weight_of

_REVISION = 4
"""Of how layers are fitted: another number, and nothing that was kept is taken."""


@dataclass(frozen=True, eq=False)
class Goal:
    """What a layer's outputs should be, where that is not its product with the rows given."""

    outputs: Floats
    """N×F, the bias with them."""
    groups: np.ndarray
    """N: rows of one number are fitted to, or held out, together."""


class Store:
    """
    Fitted layers in a folder, by everything they were fitted from. The same rows, weight and
    settings give the same layer, so that finding one here is as good as fitting it.

    Codebooks of layers with one input are found once (`shared`), in a folder or not.
    """

    def __init__(self, folder: Path | None):
        self.folder = folder
        self.shared = SharedCodebooks()

    def get(self, key: str) -> tuple[LutLayer, LayerError] | None:
        """A layer that was kept."""
        if self.folder is None or not (self.folder / key / MANIFEST).exists():
            return None
        (layer,) = read_layers(self.folder / key)
        noted: dict[str, Any] = read_manifest(self.folder / key)["layers"][0]["error"]
        values: dict[str, Any] = {k: math.inf if v is None else v for k, v in noted.items()}
        error = LayerError(**values)
        return layer, error

    def layer(self, key: str) -> LutLayer:
        """A layer that is known to be kept."""
        found = self.get(key)
        assert found is not None
        return found[0]

    def put(self, key: str, layer: LutLayer, error: LayerError) -> None:
        """Keeps a layer."""
        if self.folder is not None:
            notes = {k: None if v == math.inf else v for k, v in asdict(error).items()}
            write_layers(self.folder / key, [layer], {layer.name: {"error": notes}})


def fit(
    name: str,
    x: Floats,
    module: nn.Module,
    settings: LutSettings,
    store: Store,
    goal: Goal | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[LutLayer, LayerError, str]:
    """
    The tables of a linear module for rows N×H of its input, towards `goal` where there is one,
    their held-out error, and the key under which `store` has them.
    """
    weight, bias = weight_of(module).cpu().numpy(), bias_of(module)
    offset = None if bias is None else bias.cpu().numpy()
    key = ""
    if store.folder is not None:
        digest = hashlib.sha256(repr((_REVISION, name, astuple(settings), x.shape)).encode())
        outputs, groups = (None, None) if goal is None else (goal.outputs, goal.groups)
        for array in (x, weight, offset, outputs, groups):
            digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        key = digest.hexdigest()[:32]
        if (kept := store.get(key)) is not None:
            return *kept, key
    fitted = fit_layer(
        name,
        x,
        weight,
        offset,
        settings,
        target=None if goal is None else goal.outputs,
        groups=None if goal is None else goal.groups,
        shared=store.shared,
        progress=progress,
    )
    store.put(key, fitted.layer, fitted.error)
    return fitted.layer, fitted.error, key
