"""What `import_torch` makes of functions and modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from inr.dialects.torch import Torch, VTensorLiteralOp
from inr.errors import source_line
from inr.frontend.importer import ImportedModel, import_torch
from inr.frontend.parse import parse_module
from torch import nn
from torch.func import jacrev, vmap
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, StringAttr
from xdsl.dialects.func import Func

BATCH = torch.linspace(-0.9, 0.8, 8).reshape(4, 2)


def context() -> Context:
    ctx = Context()
    for dialect in (Builtin, Func, Torch):
        ctx.load_dialect(dialect)
    return ctx


def mlp(width: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 3))


def literals(model: ImportedModel) -> dict[str, VTensorLiteralOp]:
    ops = [op for op in model.module.walk() if isinstance(op, VTensorLiteralOp)]
    return {name(op.attributes["inr.name"]): op for op in ops}


def name(attribute: object) -> str:
    assert isinstance(attribute, StringAttr)
    return attribute.data


def op_names(model: ImportedModel) -> list[str]:
    return [op.name.removeprefix("torch.") for op in model.module.walk()]


def test_weights_keep_their_names_and_bytes():
    net = mlp()
    found = literals(import_torch(net, [BATCH]))
    assert found.keys() == {"0.weight", "0.bias", "2.weight", "2.bias"}
    for key, tensor in net.state_dict().items():
        assert found[key].value.data.data == tensor.numpy().tobytes()


def test_names_through_closures():
    net, other, scale = mlp(), mlp(5), torch.tensor([1.0, 2.0, 3.0])

    def one(x: torch.Tensor) -> torch.Tensor:
        return net(x) * scale

    def calls_one(x: torch.Tensor) -> torch.Tensor:
        return one(x) + other(x)

    assert literals(import_torch(one, [BATCH])).keys() == {*net.state_dict(), "scale"}
    assert literals(import_torch(calls_one, [BATCH])).keys() == {
        "scale",
        *(f"net.{key}" for key in net.state_dict()),
        *(f"other.{key}" for key in other.state_dict()),
    }


def test_tied_weights_are_one_literal():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    net[2].weight = net[0].weight
    found = literals(import_torch(net, [BATCH]))
    assert found.keys() == {"0.weight", "0.bias", "2.bias"}


def test_a_weight_and_its_row_are_told_apart():
    # They begin at the same address.
    weight = torch.arange(6.0).reshape(3, 2)
    row = weight[0]
    model = import_torch(lambda x: x @ weight.T + (x * row).sum(1, keepdim=True), [BATCH])
    found = literals(model)
    assert found["weight"].value.get_shape() == (3, 2)
    assert found["row"].value.get_shape() == (2,)


def test_inputs_and_outputs_have_names():
    def fn(position: torch.Tensor, time: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"density": position * time, "speed": time}

    model = import_torch(fn, [BATCH, BATCH], name="flow")
    assert model.input_names == ["position", "time"]
    assert model.output_names == ["density", "speed"]
    assert 'func.func @flow(%position: !torch.vtensor<[4,2],f32> {inr.name = "position"}' in str(
        model.module
    )
    renamed = import_torch(fn, [BATCH, BATCH], input_names=["a", "b"], output_names=["c", "d"])
    assert '!torch.vtensor<[4,2],f32> {inr.name = "d"}) {' in str(renamed.module)


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("locations", [False, True])
def test_text_and_memory_give_the_same_module(generic: bool, locations: bool):
    # 64 x 2 elements are past the hundred at which MLIR changes to hexadecimal.
    model = import_torch(mlp(64), [BATCH], order=2)
    text = model.to_text(generic=generic, locations=locations)
    parsed = parse_module(context(), text)
    assert parsed.is_structurally_equivalent(model.module)
    if locations:
        pairs = zip(parsed.walk(), model.module.walk(), strict=True)
        assert all(a.location == b.location for a, b in pairs)


def test_boolean_constants():
    model = import_torch(lambda x: torch.where(torch.tensor([True, False]), x, -x), [BATCH])
    assert parse_module(context(), model.text).is_structurally_equivalent(model.module)


def test_every_step_has_the_line_of_the_forward_pass():
    net = mlp()

    def fn(x: torch.Tensor) -> torch.Tensor:
        z = net(x)
        return torch.sin(z)

    first = fn.__code__.co_firstlineno
    model = import_torch(fn, [BATCH], order=1)
    lines = {op.name: source_line(op) for op in model.module.walk()}
    assert lines["torch.aten.addmm"] == f"{__file__}:{first + 1}"
    assert lines["torch.aten.tanh_backward"] == f"{__file__}:{first + 1}"
    assert lines["torch.aten.sin"] == f"{__file__}:{first + 2}"
    assert lines["torch.aten.cos"] == f"{__file__}:{first + 2}"


def test_a_function_may_differentiate_itself():
    net = mlp().double()

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.requires_grad_(True)
        y = net(x)
        (gradient,) = torch.autograd.grad(y[:, 0].sum(), x, create_graph=True)
        return y, gradient

    x = BATCH.double()
    model = import_torch(fn, [x])
    assert model.output_names == ["out0", "out1"]
    for got, want in zip(model.reference([x.numpy()]), fn(x.clone()), strict=True):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-12)


def test_function_transforms():
    net = mlp().double()
    x = BATCH.double()
    model = import_torch(lambda x: vmap(jacrev(net))(x), [x])
    np.testing.assert_allclose(
        model.reference([x.numpy()])[0], vmap(jacrev(net))(x).detach().numpy(), rtol=1e-12
    )
    # The basis of the Jacobian is a table, not the operations that would make it.
    assert "aten.diagonal_scatter" not in op_names(model)


def test_tables_become_constants():
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x[:, :, None] * 2 ** torch.arange(3)).reshape(len(x), -1)

    model = import_torch(fn, [BATCH])
    (table,) = literals(model).values()
    assert list(table.value.get_values()) == [1, 2, 4]
    x = BATCH.double()
    np.testing.assert_allclose(model.reference([x.numpy()])[0], fn(x).numpy(), rtol=1e-12)


def test_in_place_updates_inside_are_removed():
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y += 1
        y[:, 0] = 0
        return y

    model = import_torch(fn, [BATCH])
    assert not any(name.endswith("_") for name in op_names(model))
    np.testing.assert_array_equal(model.reference([BATCH.numpy()])[0], fn(BATCH.double()).numpy())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_single(dtype: torch.dtype):
    net = mlp().to(dtype)
    model = import_torch(net, [BATCH.to(dtype)], order=1)
    spelt = str(dtype).removeprefix("torch.")
    assert model.notes == [
        f"{spelt} parameters converted to float32",
        f"{spelt} inputs converted to float32",
    ]
    text = str(model.module)
    assert "f16" not in text
    weight = literals(model)["0.weight"].value
    np.testing.assert_array_equal(
        np.array(weight.get_values()).reshape(4, 2), net[0].weight.detach().float().numpy()
    )
    x = BATCH.to(dtype).double()
    want = net.double()(x).detach().numpy()
    np.testing.assert_allclose(model.reference([x.numpy()])[0], want[:, 0], rtol=1e-12)


def test_seeds_of_different_channels_are_equal():
    # What lets CSE share the tangents of all channels.
    names = op_names(import_torch(mlp(), [BATCH], order=2))
    assert "aten.ones_like" not in names
    assert "aten.new_zeros" not in names


def test_layer_norm_and_batch_norm():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.LayerNorm(6), nn.BatchNorm1d(6), nn.Linear(6, 1))
    net = net.double().eval()
    x = BATCH.double()
    model = import_torch(net, [x], order=2)
    np.testing.assert_allclose(
        model.reference([x.numpy()])[0], net(x)[:, 0].detach().numpy(), rtol=1e-12
    )
    assert "operator" not in op_names(model)
