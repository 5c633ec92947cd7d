"""Every family of the zoo, imported, against autograd in float64."""

from __future__ import annotations

import copy
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from inr.frontend.derivatives import nested_gradients
from inr.frontend.importer import import_torch
from inr.frontend.spec import load_spec

ZOO = Path(__file__).parents[2] / "examples" / "zoo"
_families = runpy.run_path(str(ZOO / "families.py"))
FAMILIES: tuple[str, ...] = _families["FAMILIES"]
CASES = [
    (family, order)
    for family in FAMILIES
    for order in range(4 if family in _families["THIRD_ORDER"] else 3)
]

# What the next stage takes.
OPERATORS = {
    *"mm addmm bmm mv t transpose.int permute add.Tensor add.Scalar sub.Tensor sub.Scalar".split(),
    *"rsub.Scalar mul.Tensor mul.Scalar div.Tensor div.Scalar neg reciprocal sin cos exp".split(),
    *"log log1p expm1 tanh tanh_backward sigmoid sigmoid_backward softplus erf sqrt rsqrt".split(),
    *"abs sgn sign relu threshold_backward leaky_relu pow.Tensor_Scalar maximum minimum".split(),
    *"clamp where.self sum sum.dim_IntList mean.dim select.int slice.Tensor cat stack".split(),
    *"select_scatter slice_scatter expand broadcast_to view _unsafe_view reshape".split(),
    *"unsqueeze squeeze.dim squeeze _to_copy full constant_pad_nd".split(),
    *(f"{c}.{kind}" for c in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Scalar", "Tensor")),
}


def test_every_file_is_listed():
    assert {path.stem for path in ZOO.glob("*.py")} == {*FAMILIES, "families"}


@pytest.mark.parametrize(("family", "order"), CASES)
def test_import_equals_autograd(family: str, order: int):
    spec = load_spec(str(ZOO / f"{family}.py:tiny"))
    model = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=order)
    wide = copy.deepcopy(spec.callable).double()
    expected = nested_gradients(wide, order)(*(x.double() for x in spec.example_inputs))
    assert model.output_names == list(expected)
    results = model.reference([x.numpy() for x in spec.example_inputs])
    for got, want in zip(results, expected.values(), strict=True):
        scale = want.abs().max().item()
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-10, atol=1e-10 * scale)
    used = {op.name for op in model.module.walk() if op.name.startswith("torch.aten.")}
    assert {name.removeprefix("torch.aten.") for name in used} <= OPERATORS
    assert not any(op.name == "torch.operator" for op in model.module.walk())


@pytest.mark.parametrize("family", FAMILIES)
def test_factories_are_seeded(family: str):
    first, second = (load_spec(str(ZOO / f"{family}.py:tiny")) for _ in range(2))
    assert all(
        torch.equal(a, b) for a, b in zip(first.example_inputs, second.example_inputs, strict=True)
    )
    pairs = zip(
        first.callable.state_dict().items(), second.callable.state_dict().items(), strict=True
    )
    assert all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


@pytest.mark.parametrize(
    ("factory", "inputs", "outputs", "parameters"),
    [("image", 2, 3, 198_915), ("audio", 1, 1, 198_145), ("sdf", 3, 1, 132_865)],
)
def test_siren_sizes(factory: str, inputs: int, outputs: int, parameters: int):
    spec = load_spec(str(ZOO / f"siren.py:{factory}"))
    (x,) = spec.example_inputs
    assert x.shape == (64, inputs)
    assert spec.callable(x).shape == (64, outputs)
    assert sum(p.numel() for p in spec.callable.parameters()) == parameters
