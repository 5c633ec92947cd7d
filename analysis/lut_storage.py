"""
Layers of tables on disk: a folder with the arrays as safetensors and a manifest in JSON.

    manifest.json       format, version, the arrays' file and digest; for each layer its name, its
                        shape, what its sums span, and notes that nothing here reads
    tables.safetensors  `<layer>/centroids`, `/steps`, `/table`, `/scale`, `/bias`, `/channels`,
                        `/residual`, as in `LutLayer`; of an int8 product (`"kind": "int8"` in its
                        entry) `/weight`, `/step`, `/scale`, `/bias`, as in `Int8Layer`

Floats in the manifest are for people; every number that a layer computes with is in the arrays.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import CompileError
from .int8_layer import Int8Layer
from .lut_layer import LutLayer

FORMAT = "inr-lut"
VERSION = 1
MANIFEST = "manifest.json"
TABLES = "tables.safetensors"

_NEEDED = {
    "centroids": np.int16,
    "steps": np.float32,
    "table": np.int8,
    "scale": np.float32,
}
_OPTIONAL = {"bias": np.float32, "channels": np.int32, "residual": np.float32}
_PRODUCT = {"weight": np.int8, "step": np.float32, "scale": np.float32}


def write_layers(
    folder: Path,
    layers: Sequence[LutLayer | Int8Layer],
    notes: Mapping[str, Mapping[str, Any]] | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """
    Writes layers, all or nothing: files go to a temporary folder beside `folder` first. A folder
    that was written by this function is replaced.

    `notes` are added to the layers' entries in the manifest, `about` to the manifest.

    Raises CompileError for layers of one name, and for a folder that holds something else.
    """
    names = [layer.name for layer in layers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CompileError(f"two layers are named {', '.join(twice)}")
    if folder.exists() and not (folder / MANIFEST).exists() and any(folder.iterdir()):
        raise CompileError(f"{folder} exists and holds something else than layers of tables")
    arrays = {
        f"{layer.name}/{field}": np.ascontiguousarray(value)
        for layer in layers
        for field, value in _arrays(layer).items()
        if value is not None
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        staging.chmod(0o755)
        _library("save_file")(arrays, staging / TABLES)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "tables": TABLES,
            "sha256": _digest(staging / TABLES),
            **(about or {}),
            "layers": [{**(notes or {}).get(x.name, {}), **_described(x)} for x in layers],
        }
        (staging / MANIFEST).write_text(json.dumps(manifest, indent=1, allow_nan=False) + "\n")
        if folder.exists():
            shutil.rmtree(folder)
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; CompileError where there is none or it is not ours."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except OSError as error:
        raise CompileError(f"{path}: {error.strerror}; a saved conversion has one") from error
    except ValueError as error:
        raise CompileError(f"{path} is not JSON: {error}") from error
    if not isinstance(manifest, dict):
        raise CompileError(f"{path} is no manifest of layers of tables")
    found = cast(dict[str, Any], manifest)
    if found.get("format") != FORMAT or not isinstance(found.get("layers"), list):
        raise CompileError(f"{path} is no manifest of layers of tables")
    if found.get("version") != VERSION:
        raise CompileError(
            f"{path} has version {found.get('version')}; this release reads version {VERSION}"
        )
    return found


def read_layers(folder: Path) -> list[LutLayer]:
    """
    The layers of tables of a folder, bit for bit what was written.

    Raises CompileError where files are missing, damaged, or do not fit together.
    """
    return [layer for layer in read_all_layers(folder) if isinstance(layer, LutLayer)]


def read_all_layers(folder: Path) -> list[LutLayer | Int8Layer]:
    """As `read_layers`, with int8 products, in the order in which they were written."""
    manifest = read_manifest(folder)
    path = folder / TABLES
    if not path.exists():
        raise CompileError(f"{path}: no such file; {MANIFEST} names it")
    if manifest.get("sha256") != _digest(path):
        raise CompileError(f"{path} is not the file that {MANIFEST} was written with")
    arrays = cast(dict[str, NDArray[Any]], _library("load_file")(path))
    layers: list[LutLayer | Int8Layer] = []
    for entry in cast(list[dict[str, Any]], manifest["layers"]):
        try:
            name, width, bits = str(entry["name"]), int(entry["in_features"]), int(entry["bits"])
        except (KeyError, TypeError, ValueError) as error:
            raise CompileError(f"{folder / MANIFEST}: a layer without {error}") from error
        product = entry.get("kind") == "int8"
        needed: dict[str, Any] = _PRODUCT if product else _NEEDED
        optional: dict[str, Any] = {"bias": np.float32} if product else _OPTIONAL
        parts: dict[str, Any] = {}
        for field, kind in {**needed, **optional}.items():
            array = arrays.get(f"{name}/{field}")
            if array is None and field in needed:
                raise CompileError(f"{path}: no array {name}/{field}")
            if array is not None and array.dtype != kind:
                raise CompileError(
                    f"{path}: {name}/{field} is {array.dtype}, not {np.dtype(kind).name}"
                )
            parts[field] = array
        if product:
            if parts["step"].shape != (1,):
                raise CompileError(f"{path}: {name}/step is one number")
            parts["step"] = float(parts["step"][0])
            layers.append(Int8Layer(name, **parts))
        else:
            layers.append(LutLayer(name, width, bits=bits, **parts))
    return layers


def _arrays(layer: LutLayer | Int8Layer) -> dict[str, NDArray[Any] | None]:
    """The arrays of a layer by their names in the file."""
    if isinstance(layer, Int8Layer):
        return {
            "weight": layer.weight,
            "step": np.array([layer.step], dtype=np.float32),
            "scale": layer.scale,
            "bias": layer.bias,
        }
    return {field: getattr(layer, field) for field in (*_NEEDED, *_OPTIONAL)}


def _described(layer: LutLayer | Int8Layer) -> dict[str, Any]:
    low, high = layer.range
    if isinstance(layer, Int8Layer):
        return {
            "name": layer.name,
            "kind": "int8",
            "in_features": layer.in_features,
            "out_features": layer.out_features,
            "bits": 8,
            "bias": layer.bias is not None,
            "sums": [low, high],
        }
    return {
        "name": layer.name,
        "in_features": layer.in_features,
        "out_features": layer.out_features,
        "vec": layer.vec,
        "codebooks": layer.codebooks,
        "centroids": layer.centroids_per_codebook,
        "bits": layer.bits,
        "bias": layer.bias is not None,
        "residual_channels": 0 if layer.channels is None else len(layer.channels),
        "sums": [low, high],
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _library(name: str) -> Callable[..., Any]:
    """A function of safetensors for NumPy."""
    try:
        return getattr(import_module("safetensors.numpy"), name)
    except ImportError:
        raise CompileError(
            "layers of tables are kept as safetensors: pip install 'inr-opt[lut]'"
        ) from None
