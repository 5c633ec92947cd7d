"""Every family of the zoo, at every order, keeps its meaning through every graph pass."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from inr.analysis.graph_size import count_nodes
from inr.dialects.inr import TransposeOp
from inr.frontend.importer import import_torch
from inr.frontend.spec import load_spec
from inr.interpreters.graph import run_graph
from inr.passes.convert_torch_to_inr import ConvertTorchToInrPass
from inr.passes.inr_cse import InrCsePass
from inr.passes.inr_fold_transpose import InrFoldTransposePass
from inr.passes.inr_simplify import InrSimplifyPass
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

ZOO = Path(__file__).parents[2] / "examples" / "zoo"
PASSES = (
    ConvertTorchToInrPass(),
    InrFoldTransposePass(),
    InrCsePass(),
    InrSimplifyPass(),
    InrCsePass(),
)


def _families():
    spec = importlib.util.spec_from_file_location("families", ZOO / "families.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FAMILIES = _families()
CASES = [
    (family, order)
    for family in FAMILIES.FAMILIES
    for order in range(4 if family in FAMILIES.THIRD_ORDER else 3)
]


def relative_error(values: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest error of any output, relative to the largest value of that output."""
    assert [value.shape for value in values] == [value.shape for value in expected]
    return max(
        float(np.abs(value - true).max() / (np.abs(true).max() or 1.0))
        for value, true in zip(values, expected, strict=True)
    )


@pytest.mark.parametrize(("family", "order"), CASES)
def test_every_pass_keeps_the_values(family: str, order: int):
    model = load_spec(FAMILIES.spec(family))
    imported = import_torch(model.callable, model.example_inputs, order=order)
    inputs = [x.detach().double().numpy() for x in model.example_inputs]
    expected = imported.reference(inputs)
    module = imported.module
    for graph_pass in PASSES:
        graph_pass.apply(Context(), module)
        module.verify()
        assert relative_error(run_graph(module, inputs), expected) < 1e-10, graph_pass.name

    text = str(module)
    for graph_pass in PASSES:
        graph_pass.apply(Context(), module)
        assert str(module) == text, f"{graph_pass.name} changes its own result"
    assert not any(isinstance(op, TransposeOp) for op in module.walk())


def _image(order: int) -> ModuleOp:
    model = load_spec(FAMILIES.spec("siren", "image"))
    return import_torch(model.callable, model.example_inputs, order=order).module


# Nodes and products of SIREN 2-256×4-3, before and after simplification.
@pytest.mark.parametrize(
    ("order", "merged", "simplified"),
    [
        (1, (69, 20), (49, 17)),
        (2, (241, 52), (188, 47)),
        (3, (1015, 130), (831, 124)),
    ],
)
def test_sizes_of_the_siren_for_images(
    order: int, merged: tuple[int, int], simplified: tuple[int, int]
):
    module = _image(order)
    for graph_pass in PASSES[:3]:
        graph_pass.apply(Context(), module)
    assert count_nodes(module) == merged
    for graph_pass in PASSES[3:]:
        graph_pass.apply(Context(), module)
    assert count_nodes(module) == simplified
