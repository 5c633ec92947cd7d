"""Int8 products of PyTorch models: made by a policy, exact, saved and loaded, on emulated DPUs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from inr import lut  # noqa: E402
from inr.analysis.int8_layer import quantised  # noqa: E402
from inr.analysis.lut_storage import MANIFEST, read_all_layers, read_layers  # noqa: E402
from inr.errors import CompileError  # noqa: E402
from inr.runtime.deployment import UpmemOptions, deploy  # noqa: E402
from inr.runtime.upmem_compiler import compile_upmem  # noqa: E402
from torch import nn  # noqa: E402


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 32, bias=False), nn.Tanh(), nn.Linear(32, 8)
    ).eval()


def batches(count: int = 8) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(64, 24) for _ in range(count)]


BYTES = lut.Policy(vec=2, centroids=16, overrides={"^2$": "int8", "^4$": "int8"})


@pytest.fixture(scope="module")
def converted() -> nn.Module:
    return lut.convert(network(), batches(), BYTES, progress=False)


def test_a_policy_says_which(converted: nn.Module) -> None:
    assert list(lut.layers(converted)) == ["0"]
    assert list(lut.int8_layers(converted)) == ["2", "4"]
    policy = lut.Policy(overrides={"a": "int8", "ab": {"vec": 2}, "abc": None, "abcd": "int8"})
    assert policy.settings_of("a") == "int8"
    tables = policy.settings_of("ab")
    assert isinstance(tables, lut.LutSettings)
    assert tables.vec == 2
    assert policy.settings_of("abc") is None
    assert policy.settings_of("abcd") == "int8"
    with pytest.raises(CompileError, match="'int4'; settings, 'int8', or None"):
        lut.Policy(overrides={"a": "int4"})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("bias", [True, False])
def test_the_module_is_the_layer_to_the_bit(bias: bool) -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(50, 20)).astype(np.float32)
    layer = quantised("fc", weight, rng.normal(size=20) if bias else None, 2.0)
    x = rng.normal(scale=2, size=(3, 7, 50)).astype(np.float32)
    x.reshape(-1)[::9] = np.float32(layer.step) * (rng.integers(-120, 120, 117) + 0.5)
    x[0, 0, :3] = np.nan, np.inf, -np.inf
    module = lut.Int8Linear(layer)
    expected = layer(x.reshape(-1, 50)).reshape(3, 7, 20)
    assert np.array_equal(module(torch.from_numpy(x)).numpy(), expected)
    half = torch.from_numpy(x).half()
    assert module.half()(half).dtype == torch.float16
    assert module.weight.dtype == torch.int8
    again = module.layer
    assert np.array_equal(again.weight, layer.weight)
    assert (again.step, again.name) == (layer.step, layer.name)
    with pytest.raises(CompileError, match="49 channels"):
        module(torch.zeros(2, 49))


def test_gradients_pass_as_if_nothing_were_rounded() -> None:
    rng = np.random.default_rng(3)
    weight = rng.normal(size=(30, 10)).astype(np.float32)
    module = lut.Int8Linear(quantised("fc", weight, None, 3.0))
    x = torch.from_numpy(rng.uniform(-2.9, 2.9, (5, 30)).astype(np.float32))
    x[0, 0] = 4.0  # Clipped: what it is makes no difference.
    wanted = module(x)
    x.requires_grad_()
    out = module(x)
    assert torch.equal(out.detach(), wanted)
    out.sum().backward()
    assert x.grad is not None
    exact = torch.from_numpy(weight.sum(axis=1)).repeat(5, 1)
    exact[0, 0] = 0
    assert float((x.grad - exact).abs().max()) < 0.02 * float(exact.abs().max())


def test_the_error_is_small() -> None:
    only = lut.convert(network(), batches(), lut.Policy(overrides={".*": "int8"}), progress=False)
    x = torch.cat(batches(2))
    with torch.no_grad():
        exact, found = network()(x), only(x)
    assert float(((found - exact) ** 2).sum() / (exact**2).sum()) < 2e-3
    assert not lut.layers(only)


def test_saved_and_loaded(converted: nn.Module, tmp_path: Path) -> None:
    lut.save(converted, tmp_path / "tables")
    loaded = lut.load(tmp_path / "tables", network())
    x = torch.cat(batches(2))
    assert torch.equal(loaded(x), converted(x))
    assert [layer.name for layer in read_layers(tmp_path / "tables")] == ["0"]
    assert len(read_all_layers(tmp_path / "tables")) == 3
    entries = json.loads((tmp_path / "tables" / MANIFEST).read_text())["layers"]
    assert [entry.get("kind") for entry in entries] == [None, "int8", "int8"]
    assert all("weight_sha256" in entry for entry in entries)
    other = network()
    with torch.no_grad():
        other[4].weight += 1
    with pytest.raises(CompileError, match="another weight"):
        lut.load(tmp_path / "tables", other)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "tables", copy)
    manifest = json.loads((copy / MANIFEST).read_text())
    del manifest["layers"][1]["kind"]
    (copy / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(CompileError, match="no array 2/centroids"):
        lut.load(copy, network())


def test_the_automatic_policy_may_choose_bytes() -> None:
    def cost(rows: int, height: int, width: int, choice: object) -> float:
        return {"int8": 2.0, None: 10.0}.get(choice, 1.0)  # pyright: ignore

    plan = lut.Auto((lut.LutSettings(4, 16), "int8"), error=0.01, layer_cost=cost)
    said: list[lut.Chosen] = []
    model = lut.convert(network(), batches(), plan, progress=False, explain=said.append)
    assert set(said[0].settings.values()) == {"int8"}
    assert set(lut.int8_layers(model)) == {"0", "2", "4"}
    assert 0 < said[0].error <= 0.01
    with pytest.raises(CompileError, match="a choice of 'int4'"):
        lut.Auto(("int4",), error=0.1)  # pyright: ignore


def test_deployed_beside_tables(converted: nn.Module) -> None:
    deployed = deploy(converted, options=UpmemOptions(dpus=4, rows=64))
    try:
        x = torch.cat(batches(2))
        assert torch.equal(deployed(x), converted(x))
        assert deployed.dpu_model.cycles > 0
    finally:
        deployed.dpu_model.close()


def test_compiled_to_a_project_with_its_report(converted: nn.Module) -> None:
    made = compile_upmem(
        converted, [batches()[0]], "net", UpmemOptions(dpus=4, rows=64), explained=True
    )
    assert [size["kind"] for size in made.report["layers"].values()] == ["tables", "int8", "int8"]
    assert made.report["mapping"]["2"]["variant"] == "int8"
    for layer in made.report["accuracy"]["layers"].values():
        assert layer["sums_equal"]
        assert layer["reached"]
    assert made.report["accuracy"]["model"]["converted"]["max_abs"] == 0
    for entry in made.report["emulated"]["layers"].values():
        assert 0.5 < entry["ratio"] < 2
