"""Converting in order: each layer to what the ones before it put out, towards the original."""

import copy

import numpy as np
import pytest
import torch
from inr import lut
from inr.errors import CompileError
from inr.lut.lockstep import Arrived, convert_in_step
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::inr.lut.LutWarning")


class Scaled(nn.Module):
    """A linear layer that is off by a factor: an error that is known."""

    def __init__(self, inner: nn.Module, factor: float):
        super().__init__()
        self.inner, self.factor = inner, factor

    def forward(self, x):
        return self.factor * self.inner(x)


class Branches(nn.Module):
    """Two layers of one input, one that only long batches reach, and one called twice."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(6, 5), nn.Linear(6, 5)
        self.twice = nn.Linear(5, 5)
        self.rare = nn.Linear(5, 3)
        self.unused = nn.Linear(5, 3)

    def forward(self, x, attention_mask=None):
        y = self.twice(torch.tanh(self.left(x) * self.right(x)))
        y = self.twice(y)
        return self.rare(y) if len(x) > 3 else y[..., :3]


def batches(sizes=(2, 5, 3, 7)):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, 4, 6, generator=generator) for size in sizes]


def watched(model, names, x):
    """Inputs and outputs of layers in a plain run, of each the first."""
    seen: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    hooks = [
        model.get_submodule(name).register_forward_hook(
            lambda _, args, out, name=name: seen.setdefault(name, (args[0], out)) and None
        )
        for name in names
    ]
    with torch.no_grad():
        model(*x) if isinstance(x, tuple) else model(x)
    for hook in hooks:
        hook.remove()
    return seen


def test_each_layer_arrives_with_all_batches_and_in_order():
    torch.manual_seed(0)
    model = Branches().eval()
    plain = copy.deepcopy(model)
    names = ["rare", "twice", "right", "left"]  # The order is that of the calls.
    arrived: dict[str, Arrived] = {}

    def fit(found: Arrived) -> nn.Module:
        arrived[found.name] = found
        return Scaled(plain.get_submodule(found.name), 1.25)

    data = batches()
    converted = convert_in_step(model, data, names, fit, rows=10**6, seed=0)
    assert list(arrived) == ["left", "right", "twice", "rare"]
    reached = {
        name: [at for at, b in enumerate(data) if name != "rare" or len(b) > 3] for name in names
    }
    for name, found in arrived.items():
        real = [watched(model, names, data[at])[name] for at in reached[name]]
        mine = [watched(converted, names, data[at])[name] for at in reached[name]]
        np.testing.assert_array_equal(found.y, torch.cat([y.flatten(0, 1) for _, y in real]))
        np.testing.assert_array_equal(found.x, torch.cat([x.flatten(0, 1) for x, _ in mine]))
        counts = np.bincount(found.groups, minlength=len(data))
        assert counts.tolist() == [
            4 * len(b) if at in reached[name] else 0 for at, b in enumerate(data)
        ]
    with torch.no_grad():
        y = torch.tanh(1.25**2 * model.left(data[1]) * model.right(data[1]))
        expected = 1.25 * model.rare(1.25 * model.twice(1.25 * model.twice(y)))
        torch.testing.assert_close(converted(data[1]), expected)
        # The model itself is what it was: nothing stops in it, and it has its layers.
        assert isinstance(model.left, nn.Linear)
        assert model(data[1]).shape == (5, 4, 3)


def test_masked_rows_do_not_count_and_a_sample_is_the_same_for_all_layers():
    model = Branches().eval()
    plain = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(2)
    data = [
        {"x": x, "attention_mask": torch.rand(x.shape[:2], generator=generator) < 0.6}
        for x in batches()
    ]
    arrived: dict[str, Arrived] = {}

    def fit(found: Arrived) -> nn.Module:
        arrived[found.name] = found
        return plain.get_submodule(found.name)

    def converted(rows):
        arrived.clear()
        convert_in_step(model, data, ["left", "right", "twice"], fit, rows=rows, seed=4)
        return dict(arrived)

    every = converted(10**6)["left"]
    kept = torch.cat([b["x"][b["attention_mask"]] for b in data])
    np.testing.assert_array_equal(every.x, kept)
    some = converted(20)
    assert [len(found.x) for found in some.values()] == [20, 20, 20]
    np.testing.assert_array_equal(some["left"].x, some["right"].x)
    rows = {row.tobytes(): group for row, group in zip(every.x, every.groups, strict=True)}
    assert [rows[row.tobytes()] for row in some["left"].x] == some["left"].groups.tolist()


def test_a_layer_that_is_never_called_is_named_and_the_model_left_alone():
    model = Branches().eval()
    with pytest.raises(CompileError, match=r"never called in calibration: unused"):
        convert_in_step(model, batches(), ["left", "unused"], lambda f: model.left, rows=99, seed=0)
    assert not model.left._forward_hooks
    broken = batches()
    broken[2][0, 0, 0] = torch.nan
    with pytest.raises(CompileError, match=r"left: its input in calibration batch 2 holds a NaN"):
        convert_in_step(model, broken, ["left"], lambda f: model.left, rows=99, seed=0)
    assert not model.left._forward_hooks
    assert model(batches()[0]).shape == (2, 4, 3)


def deep(layers=6, width=24):
    torch.manual_seed(3)
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*parts, nn.Linear(width, 8)).eval()


def test_it_takes_back_errors_of_earlier_layers():
    """On inputs that it has not seen, a deep network is nearer to the original."""
    model = deep()
    mix = torch.randn(8, 24, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    data = [torch.randn(128, 8, generator=generator) @ mix for _ in range(24)]
    held = torch.randn(512, 8, generator=generator) @ mix

    def error(sequential: bool) -> float:
        converted = lut.convert(
            model, data, lut.Policy(4, 16), progress=False, sequential=sequential
        )
        assert all(isinstance(m, lut.LutLinear) for m in converted[::2])
        with torch.no_grad():
            return float((converted(held) - model(held)).square().sum())

    assert error(True) < 0.9 * error(False)


def test_products_of_bytes_and_layers_as_they_are_between_tables():
    model = deep(3)
    data = list(torch.randn(6, 64, 24, generator=torch.Generator().manual_seed(0)))
    policy = lut.Policy(2, 16, overrides={"^2$": "int8", "^4$": None})
    converted = lut.convert(model, data, policy, progress=False, sequential=True)
    kinds = [type(m).__name__ for m in converted[::2]]
    assert kinds == ["LutLinear", "Int8Linear", "Linear", "LutLinear"]


def test_one_batch_holds_rows_out():
    model = deep(2)
    x = torch.randn(200, 24, generator=torch.Generator().manual_seed(0))
    converted = lut.convert(model, x, lut.Policy(2, 8), progress=False, sequential=True)
    found = converted[0].fitted
    assert found is not None
    assert 0 < found.rel_mse < 0.5
