"""The photograph of `examples/photo`: its weights, and the hardware that draws it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from inr.analysis.fixed import to_real
from inr.frontend.importer import import_torch
from inr.runtime.compiler import Compiled, compile_hls

EXAMPLE = Path(__file__).parents[2] / "examples" / "photo"
FITTED_DB = 44.0
"""What `fit.py` printed, rounded down."""
CROP = (slice(40, 48), slice(60, 76))
"""Rows and columns of a part with strong edges."""


@pytest.fixture(scope="module")
def example() -> Iterator[dict[str, ModuleType]]:
    """The example's modules, which import each other by their plain names."""
    names = ("model", "photograph")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        for name in names:
            patch.delitem(sys.modules, name, raising=False)
        yield {name: importlib.import_module(name) for name in names}
        for name in names:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def drawn(example: dict[str, ModuleType]) -> tuple[Compiled, list[np.ndarray]]:
    """The design for the crop, simulated, and what PyTorch gives in float64."""
    model = example["model"]
    function, (x,) = model.edges()
    x = x.reshape(model.HEIGHT, model.WIDTH, 2)[CROP].reshape(-1, 2)
    imported = import_torch(function, (x,), name="photo")
    inputs = [x.double().numpy()]
    reference = imported.reference(inputs)
    return compile_hls(imported.module, inputs, reference), reference


def test_weights_hold_the_photograph(example: dict[str, ModuleType]) -> None:
    model, photograph = example["model"], example["photograph"]
    siren, (x,) = model.image()
    with torch.no_grad():
        picture = siren.double()(x.double()).numpy()
    photo = photograph.photograph().reshape(-1, 3)
    assert photo.shape == (model.HEIGHT * model.WIDTH, 3)
    assert photograph.psnr(picture, photo) >= FITTED_DB


def test_hardware_draws_the_picture_and_its_edges(
    drawn: tuple[Compiled, list[np.ndarray]],
) -> None:
    compiled, reference = drawn
    assert compiled.simulation is not None
    assert compiled.simulation.overflows == {}
    names = [port.name for port in compiled.design.outputs]
    assert names == ["red", "green", "blue", "across", "down"]
    for port, words, want in zip(
        compiled.design.outputs, compiled.simulation.outputs, reference, strict=True
    ):
        assert port.format is not None
        error = np.abs(to_real(words, port.format) - want.reshape(words.shape))
        assert error.mean() <= 1e-4 * np.abs(want).max()


def test_gradient_is_that_of_the_brightness(
    example: dict[str, ModuleType], drawn: tuple[Compiled, list[np.ndarray]]
) -> None:
    # Central differences of the network itself, which no autograd had a part in.
    model = example["model"]
    siren, (x,) = model.image()
    x = x.reshape(model.HEIGHT, model.WIDTH, 2)[CROP].reshape(-1, 2).double()
    siren = siren.double()
    luminance = torch.tensor(model.LUMINANCE, dtype=torch.float64)
    step = 1e-5
    _, reference = drawn
    for axis, want in enumerate(reference[3:]):
        offset = torch.zeros(2, dtype=torch.float64)
        offset[axis] = step
        with torch.no_grad():
            difference = (siren(x + offset) - siren(x - offset)) @ luminance
        slope = (difference / (2 * step)).numpy()
        assert np.abs(slope - want.ravel()).max() <= 1e-6 * np.abs(slope).max()
