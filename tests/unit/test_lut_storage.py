"""Layers of tables on disk, with and without PyTorch, and the report."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from inr import lut
from inr.analysis.lut_layer import LutLayer
from inr.analysis.lut_storage import MANIFEST, TABLES, read_layers, read_manifest, write_layers
from inr.errors import CompileError
from rich.console import Console
from threadpoolctl import threadpool_limits
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::inr.lut.LutWarning")

FIELDS = ("centroids", "steps", "table", "scale", "bias", "channels", "residual")


def batches(count=3, rows=160, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, 10, generator=generator) for _ in range(count)]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 6, bias=False)).eval()


@pytest.fixture(scope="module")
def converted():
    with threadpool_limits(1):
        policy = lut.Policy(4, 16, overrides={"^0$": {"bits": 6, "residual": 2}})
        return lut.convert(network(), batches(), policy, progress=False)


def same(first: LutLayer, second: LutLayer) -> bool:
    for field in FIELDS:
        a, b = getattr(first, field), getattr(second, field)
        if (a is None) != (b is None):
            return False
        if a is not None and (a.dtype != b.dtype or not np.array_equal(a, b)):
            return False
    names = ("name", "in_features", "bits")
    return all(getattr(first, n) == getattr(second, n) for n in names)


def test_a_model_comes_back_bit_for_bit(converted, tmp_path):
    lut.save(converted, tmp_path / "tables")
    loaded = lut.load(tmp_path / "tables", network())
    for (name, a), (other, b) in zip(
        lut.layers(converted).items(), lut.layers(loaded).items(), strict=True
    ):
        assert name == other
        assert same(a.layer, b.layer)
    x = batches(1, seed=5)[0]
    assert torch.equal(loaded(x), converted(x))
    # What training needs comes back too.
    assert torch.equal(lut.layers(loaded)["0"].original, lut.layers(converted)["0"].original)


def test_folder_is_read_without_torch(converted, tmp_path):
    lut.save(converted, tmp_path / "tables")
    code = (
        "import sys; from pathlib import Path; from inr.analysis.lut_storage import read_layers;"
        f"found = read_layers(Path({str(tmp_path / 'tables')!r}));"
        "print([(x.name, x.table.shape) for x in found]);"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[('0', (3, 16, 8)), ('2', (2, 16, 6))]"


def test_manifest_says_what_there_is(converted, tmp_path):
    lut.save(converted, tmp_path / "tables")
    first, second = read_manifest(tmp_path / "tables")["layers"]
    assert (first["name"], first["vec"], first["bits"], first["residual_channels"]) == (
        "0",
        4,
        6,
        2,
    )
    assert second["sums"] == list(lut.layers(converted)["2"].layer.range)
    # A bias is there even for a layer that had none: it centres the tables.
    assert second["bias"] is (lut.layers(converted)["2"].bias is not None)


def test_attention_comes_back(tmp_path):
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(10, 2, 12, batch_first=True).eval()
    data = [x.reshape(8, 20, 10) for x in batches()]
    with threadpool_limits(1):
        made = lut.convert(model, data, lut.Policy(2, 8, include="v_proj"), progress=False)
    lut.save(made, tmp_path / "tables")
    with torch.no_grad():
        assert torch.equal(lut.load(tmp_path / "tables", model)(data[0]), made(data[0]))


def test_other_weights_are_refused(converted, tmp_path):
    lut.save(converted, tmp_path / "tables")
    other = network()
    with torch.no_grad():
        other[2].weight[0, 0] += 1
    with pytest.raises(CompileError, match="tables of 2 were made from another weight"):
        lut.load(tmp_path / "tables", other)
    with pytest.raises(CompileError, match="tables of 0, 10×8; the model has no such"):
        lut.load(tmp_path / "tables", nn.Sequential(nn.Linear(9, 8)).eval())


def test_damage_is_refused(converted, tmp_path):
    folder = tmp_path / "tables"
    lut.save(converted, folder)

    def damaged(change):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        change(copy)
        with pytest.raises(CompileError) as caught:
            read_layers(copy)
        return str(caught.value)

    def edit(key, value):
        def change(copy):
            manifest = json.loads((copy / MANIFEST).read_text())
            manifest[key] = value
            (copy / MANIFEST).write_text(json.dumps(manifest))

        return change

    def flip(copy):
        data = bytearray((copy / TABLES).read_bytes())
        data[-1] ^= 1
        (copy / TABLES).write_bytes(data)

    assert "is not the file that" in damaged(flip)
    assert "no such file" in damaged(lambda c: (c / TABLES).unlink())
    assert "No such file" in damaged(lambda c: (c / MANIFEST).unlink())
    assert "is not JSON" in damaged(lambda c: (c / MANIFEST).write_text("{"))
    assert "no manifest" in damaged(lambda c: (c / MANIFEST).write_text("[]"))
    assert "no manifest" in damaged(edit("format", "other"))
    assert "reads version 1" in damaged(edit("version", 2))
    assert "a layer without 'bits'" in damaged(edit("layers", [{"name": "0", "in_features": 10}]))
    wrong = {"name": "0", "in_features": 99, "bits": 6}
    assert "for 99 inputs" in damaged(edit("layers", [wrong]))
    assert "no array 7/centroids" in damaged(edit("layers", [{**wrong, "name": "7"}]))


def test_only_own_folders_are_replaced(converted, tmp_path):
    folder = tmp_path / "tables"
    lut.save(converted, folder)
    lut.save(converted, folder)
    assert sorted(p.name for p in folder.iterdir()) == [MANIFEST, TABLES]
    assert [p.name for p in tmp_path.iterdir()] == ["tables"]
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("x")
    with pytest.raises(CompileError, match="holds something else"):
        lut.save(converted, foreign)
    assert [p.name for p in foreign.iterdir()] == ["thesis.txt"]
    layer = lut.layers(converted)["0"].layer
    with pytest.raises(CompileError, match="two layers are named 0"):
        write_layers(tmp_path / "twice", [layer, layer])
    assert not (tmp_path / "twice").exists()


def test_nothing_to_save_or_report():
    for call in (lambda m: lut.save(m, "nowhere"), lambda m: lut.report(m, batches(), m)):
        with pytest.raises(CompileError, match="no layer of tables"):
            call(network())


# --- the report ------------------------------------------------------------------------------


def test_report_measures_each_layer_with_its_true_input(converted):
    model, held = network(), batches(2, seed=9)
    found = lut.report(converted, held, model, metric=lambda y, z: 3.0, progress=False)
    x = torch.cat(held)
    with torch.no_grad():
        hidden = torch.tanh(model[0](x))
        for name, inputs, product in (
            ("0", x, x @ model[0].weight.t()),
            ("2", hidden, model[2](hidden)),
        ):
            layer = lut.layers(converted)[name].layer
            real = product.double().numpy()
            mine = layer(inputs.numpy()) - (model[0].bias.numpy() if name == "0" else 0)
            expected = np.sum((mine - real) ** 2) / np.sum(real**2)
            (entry,) = [e for e in found.layers if e.name == name]
            assert entry.rel_mse == pytest.approx(expected, rel=1e-4)
            assert (entry.acc_low, entry.acc_high) == layer.range
            assert entry.table_bytes == layer.table.size
        whole = (converted(x) - model(x)).square().sum() / model(x).square().sum()
    assert found.error == pytest.approx(float(whole), rel=1e-4)
    assert found.metric == 3.0
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["error"] == found.error
    console = Console(width=120, record=True, file=open("/dev/null", "w"))
    console.print(found.table())
    text = console.export_text()
    assert "10×8" in text
    assert "4/16/6+2" in text


def test_bound_of_rounding_holds(converted):
    # The same codes with entries as numbers and as integers differ by no more than the bound.
    layer = lut.layers(converted)["2"].layer
    (entry,) = [
        e for e in lut.report(converted, batches(1), network(), progress=False).layers
        if e.name == "2"
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    exact = layer.table + rng.uniform(-0.5, 0.5, layer.table.shape)
    indices = rng.integers(0, 16, (2000, layer.codebooks))
    off = np.zeros((2000, layer.out_features))
    for block in range(layer.codebooks):
        off += (exact - layer.table)[block, indices[:, block]]
    assert np.abs(off * layer.scale).max() <= entry.quant_bound


def test_layers_that_no_batch_reaches_and_models_that_differ(converted):
    class Half(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x, both=True):
            return self.inner[0](x) if not both else self.inner(x)

    model = Half(network()).eval()
    with threadpool_limits(1):
        made = lut.convert(model, batches(), lut.Policy(4, 16), progress=False)
    x = batches(1)[0]
    found = lut.report(made, [(x, False)], model, progress=False)
    assert {e.name: e.rel_mse is None for e in found.layers} == {"inner.0": False, "inner.2": True}
    with pytest.raises(CompileError, match=r"the reference has no linear layer inner\.0"):
        lut.report(made, [x], network(), progress=False)
    with pytest.raises(CompileError, match="no batches"):
        lut.report(made, [], model)
