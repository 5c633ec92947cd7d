"""The families of implicit neural representations in this directory, a file each."""

from __future__ import annotations

from pathlib import Path

FAMILIES = (
    "siren",
    "gaussian",
    "wire_real",
    "finer",
    "hosc",
    "sinc",
    "relu_pe",
    "random_fourier",
    "mfn_fourier",
    "mfn_gabor",
    "bacon",
    "softplus_skip",
    "silu",
    "gelu",
    "elu",
    "sigmoid",
    "tanh_pinn",
    "modified_mlp",
    "film_siren",
    "residual_siren",
)
"""The files, without `.py`; each has at least a factory `tiny`."""

THIRD_ORDER = ("siren", "tanh_pinn", "gaussian")
"""The families that are also tried with third derivatives."""


def spec(family: str, factory: str = "tiny") -> str:
    """The model spec of a family's factory."""
    return f"{Path(__file__).with_name(family)}.py:{factory}"
