"""The walk over `grad_fn` against the traced function."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from inr.errors import CompileError
from inr.frontend.grad_fn import import_tensors
from inr.frontend.importer import ImportedModel, import_torch
from inr.frontend.spec import load_spec
from torch import nn
from xdsl.transforms.common_subexpression_elimination import cse

ZOO = Path(__file__).parents[2] / "examples" / "zoo"

# With one channel, the seed of the value is a scatter into the whole of a tensor when traced, and
# a tensor of ones when read from memory.
SEEDS = {"torch.aten.full", "torch.aten.select_scatter"}


def gradients(
    fn: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, order: int
) -> list[torch.Tensor]:
    """The value's columns and all partial derivatives, as a user would compute them."""
    y = fn(x)
    level = [y[:, c] for c in range(y.shape[1])]
    outputs = list(level)
    for _ in range(order):
        partials: list[torch.Tensor] = []
        for value in level:
            (g,) = torch.autograd.grad(value, x, torch.ones_like(value), create_graph=True)
            partials += [g[:, d] for d in range(x.shape[1])]
        outputs += partials
        level = partials
    return outputs


def operators(model: ImportedModel) -> Counter[str]:
    module = model.module.clone()
    cse(module)
    return Counter(op.name for op in module.walk() if op.name.startswith("torch.aten."))


def both_ways(family: str, order: int) -> tuple[ImportedModel, ImportedModel]:
    spec = load_spec(str(ZOO / f"{family}.py:tiny"))
    x = spec.example_inputs[0].clone().requires_grad_()
    walked = import_tensors(gradients(spec.callable, x, order), [x], model=spec.callable)
    return import_torch(spec.callable, spec.example_inputs, order=order), walked


def assert_equal_results(traced: ImportedModel, walked: ImportedModel):
    # Not the inputs that the tensors were computed for: they must not be frozen in the graph.
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, tuple(traced.traced.inputs[0].shape))
    for a, b in zip(traced.reference([x]), walked.reference([x]), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12 * np.abs(a).max())


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(
    "family",
    [
        "siren",
        "gaussian",
        "tanh_pinn",
        "wire_real",
        "hosc",
        "gelu",
        "mfn_fourier",
        "residual_siren",
    ],
)
def test_the_zoo_gives_the_same_graph(family: str, order: int):
    traced, walked = both_ways(family, order)
    assert_equal_results(traced, walked)
    difference = operators(traced) - operators(walked) + (operators(walked) - operators(traced))
    assert set(difference) <= SEEDS


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    "family", ["bacon", "elu", "relu_pe", "random_fourier", "softplus_skip", "mfn_gabor"]
)
def test_the_zoo_gives_the_same_results(family: str, order: int):
    # Here derivatives of constants (a slice of a seed, a product with fixed frequencies) have
    # no record of their own: what is read is their value.
    assert_equal_results(*both_ways(family, order))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("activation", [nn.Tanh, nn.GELU])
def test_three_channels_give_the_very_same_operators(activation: type[nn.Module], order: int):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 5), activation(), nn.Linear(5, 3))
    x = torch.rand(4, 2, requires_grad=True)
    walked = import_tensors(gradients(net, x, order), [x], model=net)
    traced = import_torch(net, [x.detach()], order=order)
    assert operators(walked) == operators(traced)


def test_parameters_have_the_names_of_the_model():
    _, walked = both_ways("siren", 1)
    text = str(walked.module)
    for name in ("layers.0.weight", "layers.1.bias", "last.weight"):
        assert text.count(f'inr.name = "{name}"') == 1


def test_argument_order_is_kept():
    a = torch.rand(3, 3, requires_grad=True)
    b = torch.rand(3, 3, requires_grad=True)
    model = import_tensors({"ab": a @ b - a / b, "ba": b @ a - b / a}, [a, b])
    x, y = np.random.default_rng(0).uniform(1, 2, (2, 3, 3))
    ab, ba = model.reference([x, y])
    np.testing.assert_allclose(ab, x @ y - x / y)
    np.testing.assert_allclose(ba, y @ x - y / x)
    assert model.output_names == ["ab", "ba"]


def test_long_chains_do_not_recurse():
    x = torch.rand(2, 2, requires_grad=True)
    y = x
    for _ in range(1500):
        y = torch.sin(y)
    assert operators(import_tensors([y], [x]))["torch.aten.sin"] == 1500


def test_an_input_and_a_zero_may_be_outputs():
    x = torch.rand(4, 2, requires_grad=True)
    model = import_tensors({"x": x, "zero": torch.zeros(4)}, [x])
    value, zero = model.reference([np.ones((4, 2))])
    assert (value == 1).all()
    assert (zero == 0).all()


X = torch.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.sort(X)[0], r"SortBackward0: the walk over grad_fn does not know"),
        (lambda: X + 1.5, r"AddBackward0: operand 1 is a number.*import the function"),
        (lambda: X * torch.sin(X.detach()), r"MulBackward0: operand 1 .* differs from row to row"),
        (lambda: X.detach() * 2, r"output 'out0' has no grad_fn.*create_graph=True"),
        (lambda: "text", r"output 'out0' is a str"),
    ],
)
def test_errors(make: Callable[[], torch.Tensor], message: str):
    with pytest.raises(CompileError, match=message):
        import_tensors(make(), [X])


def test_inputs_must_be_leaves():
    with pytest.raises(CompileError, match="input 'x' must be a leaf that requires a gradient"):
        import_tensors([X * 2], [X * 2])
    with pytest.raises(CompileError, match="input 'x' must be a leaf that requires a gradient"):
        import_tensors([X * 2], [X.detach()])


def test_a_freed_graph():
    x = X.detach().clone().requires_grad_()
    y = torch.sin(x) * 3
    y.sum().backward()
    with pytest.raises(CompileError, match=r"MulBackward0: .* freed.*retain_graph=True"):
        import_tensors([y], [x])


def test_half_precision():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).to(torch.bfloat16)
    x = torch.rand(3, 2, dtype=torch.bfloat16, requires_grad=True)
    model = import_tensors([net(x)], [x], model=net)
    assert "bfloat16 parameters converted to float32" in model.notes
    wide = copy.deepcopy(net).double()
    got = model.reference([x.detach().double().numpy()])[0]
    np.testing.assert_allclose(got, wide(x.double()).detach().numpy(), rtol=1e-12)
