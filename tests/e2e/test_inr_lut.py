"""`inr-lut` from the command line: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from inr import lut  # noqa: E402
from inr.analysis.lut_codebooks import LutSettings  # noqa: E402
from inr.analysis.lut_cost import layer_cost  # noqa: E402
from inr.analysis.lut_storage import read_layers  # noqa: E402
from inr.errors import CompileError  # noqa: E402
from inr.frontend.spec import load_spec  # noqa: E402
from inr.lowering.lut_report import readable_seconds, render_lut_report  # noqa: E402
from inr.tools import inr_lut  # noqa: E402
from inr.tools.lut_policy import parse_policy, spell  # noqa: E402

SPEC = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(10, 24)
        self.wide = nn.Linear(24, 16)
        self.head = nn.Linear(16, 3)
    def forward(self, x):
        return self.head(torch.tanh(self.wide(torch.relu(self.first(x)))))

def model():
    return Net().eval(), (torch.zeros(2, 10),)

def training():
    return nn.Sequential(nn.Linear(10, 4), nn.Dropout(0.5)).train(), (torch.zeros(2, 10),)

def function():
    return torch.sin, (torch.zeros(2, 10),)

def big():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 1024), nn.ReLU(), nn.Linear(1024, 64)).eval(), (
        torch.zeros(2, 6),
    )

def rows(count, width=10):
    # Some structure: rows on a plane of three dimensions, and noise.
    generator = torch.Generator().manual_seed(1)
    plane = torch.randn(3, width, generator=generator)
    noise = 0.1 * torch.randn(count, width, generator=generator)
    return torch.randn(count, 3, generator=generator) @ plane + noise

def batches():
    return list(rows(480).split(60))

def many():
    return list(rows(2400).split(60))

def pair():
    x = rows(480)
    return list(x[:360].split(60)), [{"x": part} for part in x[360:].split(60)]

def narrow():
    return list(rows(480, 6).split(60))

def few():
    return list(rows(12).split(6))

def nothing():
    return []

def one():
    return [rows(60)]

def words():
    return ["a", "b"]

def number():
    return 3

def broken():
    x = rows(480)
    x[7, 3] = float("nan")
    return list(x.split(60))
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the tool on factories of SPEC; the exit status and stderr."""
    spec = tmp_path / "spec.py"
    spec.write_text(SPEC)

    def call(*arguments: str, model: str = "model", data: str = "batches") -> tuple[int, str]:
        before = {p.name for p in tmp_path.iterdir()} | {"__pycache__"}
        given = [model if ":" in model else f"{spec}:{model}", "--calibration", f"{spec}:{data}"]
        status = inr_lut.main([*given, "--out", str(tmp_path / "out"), *arguments])
        errors = capsys.readouterr().err
        if status:
            assert status == 1
            assert "Traceback" not in errors
            assert errors.startswith("inr-lut: error: ")
            assert errors.count("\n") == 1
            # Nothing half-written: neither the folder nor the temporary one beside it.
            assert {p.name for p in tmp_path.iterdir()} <= before
        return status, errors

    return call


def report_of(folder: Path) -> dict:
    return json.loads((folder / "report.json").read_text())


def test_a_conversion_is_written_and_loads(run: Run, tmp_path: Path) -> None:
    status, errors = run("--policy", "v2k16,head=dense", data="pair")
    assert status == 0
    out = tmp_path / "out"
    assert {p.name for p in out.iterdir()} == {"tables", "report.json", "report.html"}
    assert {p.name for p in tmp_path.iterdir()} - {"__pycache__"} == {"spec.py", "out"}
    report = report_of(out)
    assert [x["name"] for x in report["layers"]] == ["first", "wide"]
    assert [x["name"] for x in report["dense"]] == ["head"]

    # The figures are those of the model that is loaded from what was written.
    model = load_spec(f"{tmp_path / 'spec.py'}:model").callable
    loaded = lut.load(out / "tables", model)
    held_out = torch.cat([batch["x"] for batch in _factory(tmp_path, "pair")[1]])
    with torch.no_grad():
        real, found = model(held_out).double(), loaded(held_out).double()
    error = float((real - found).square().sum() / real.square().sum())
    assert report["model"]["error"] == pytest.approx(error, rel=1e-6)
    assert 0 < error < 0.5
    for layer, entry in zip(read_layers(out / "tables"), report["layers"], strict=True):
        assert entry["setting"] == "v2k16"
        assert (entry["acc_low"], entry["acc_high"]) == layer.range
        assert entry["table_bytes"] == layer.table.size
        assert -(2 ** (entry["acc_bits"] - 1)) <= entry["acc_low"]
        assert entry["acc_high"] < 2 ** (entry["acc_bits"] - 1)
        h, f = entry["in_features"], entry["out_features"]
        assert entry["cost_seconds"] == layer_cost(4096, h, f, LutSettings(2, 16))
        assert entry["name"] in errors
    assert "relative error of the model's output" in errors


def _factory(folder: Path, name: str):
    from inr.frontend.spec import run_factory

    return run_factory(f"{folder / 'spec.py'}:{name}")[1]


def test_the_picture_has_a_point_a_layer(run: Run, tmp_path: Path) -> None:
    assert run("--policy", "v2k16", data="pair")[0] == 0
    report = report_of(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    layers, whole = page.split("<figure>")[1:]
    assert layers.count("<circle") == 3
    for name in ("first", "wide", "head"):
        assert f"<title>{name}\nv2k16, chosen" in layers
    assert whole.count('class="predicted chosen"') == whole.count('class="measured chosen"') == 1
    assert "http" not in page.replace("http-equiv", "")
    # What the front adds up: each layer alone makes a part of the model's error.
    shares = [c["share"] for c in report["candidates"] if c["chosen"]]
    assert all(share > 0 for share in shares)
    assert report["chosen"]["error"] == pytest.approx(sum(shares))
    assert report["front"][0]["cost_seconds"] > 0


def test_training_lowers_the_error(run: Run, tmp_path: Path) -> None:
    same = ("--policy", "v4k16", "--quiet", "--shares", "0", "--force")
    assert run(*same, data="many")[0] == 0
    before = report_of(tmp_path / "out")
    assert run(*same, "--calibrate", "150", "--lr", "3e-3", data="many")[0] == 0
    after = report_of(tmp_path / "out")
    assert after["model"]["error"] < 0.95 * before["model"]["error"]
    assert before["candidates"] == before["front"] == []


def test_in_order_layers_are_fitted_to_what_comes_before(run: Run, tmp_path: Path) -> None:
    same = ("--policy", "v2k8", "--quiet", "--shares", "0", "--force")
    assert run(*same, data="many")[0] == 0
    apart = report_of(tmp_path / "out")["model"]["error"]
    first = {layer.name: layer for layer in read_layers(tmp_path / "out" / "tables")}
    assert run(*same, "--in-order", data="many")[0] == 0
    assert report_of(tmp_path / "out")["model"]["error"] < apart
    second = {layer.name: layer for layer in read_layers(tmp_path / "out" / "tables")}
    assert first.keys() == second.keys()
    assert not np.array_equal(first["head"].table, second["head"].table)


def test_an_automatic_policy_keeps_to_its_budget(run: Run, tmp_path: Path) -> None:
    policy = "auto:error=0.2,choices=v2k16/v4k16"
    status, _ = run("--policy", policy, "--rows", "32768", model="big", data="narrow")
    assert status == 0
    report = report_of(tmp_path / "out")
    # Few inputs and many outputs: sums are as many as products, and tables do not pay.
    assert [x["name"] for x in report["dense"]] == ["0"]
    assert [x["name"] for x in report["layers"]] == ["2"]
    assert report["model"]["error"] <= 0.2
    assert report["chosen"]["cost_seconds"] < report["dense_seconds"]
    assert {c["setting"] for c in report["candidates"]} == {"dense", "v2k16", "v4k16"}
    assert sum(c["chosen"] for c in report["candidates"]) == 2
    costs = [p["cost_seconds"] for p in report["front"]]
    errors = [p["error"] for p in report["front"]]
    assert costs == sorted(costs)
    assert errors == sorted(errors, reverse=True)


def test_a_toml_policy_is_the_same_policy(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(
        'setting = "v2k16"\nbits = 6\nexclude = ["first", "h{1,2}ead"]\n\n'
        "[layers]\nwide = { vec = 4 }\n"
    )
    assert run("--policy", str(path), "--quiet")[0] == 0
    (layer,) = report_of(tmp_path / "out")["layers"]
    assert (layer["name"], layer["vec"], layer["centroids"], layer["bits"]) == ("wide", 4, 16, 6)
    assert max(abs(layer["acc_low"]), layer["acc_high"]) <= 31 * layer["codebooks"]


def test_an_existing_folder_is_replaced_only_on_demand(run: Run, tmp_path: Path) -> None:
    assert run("--policy", "v2k16", "--quiet")[0] == 0
    first = report_of(tmp_path / "out")
    status, errors = run("--policy", "v4k16", "--quiet")
    assert status == 1
    assert "--force" in errors
    assert report_of(tmp_path / "out") == first
    assert run("--policy", "v4k16", "--quiet", "--force")[0] == 0
    assert report_of(tmp_path / "out")["layers"][0]["vec"] == 4


def test_somebody_elses_folder_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    status, errors = run("--policy", "v2k16", "--force")
    assert status == 1
    assert "no conversion of inr-lut" in errors
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("model", "data", "policy", "said"),
    [
        ("nowhere.py:model", "batches", "v4k16", "there is no file nowhere.py"),
        ("modell", "batches", "v4k16", "no function 'modell'"),
        ("function", "batches", "v4k16", "a model is an nn.Module"),
        ("training", "batches", "v4k16", "train mode"),
        ("model", "nothing", "v4k16", "no batches to calibrate with"),
        ("model", "one", "v4k16", "one batch"),
        ("model", "words", "v4k16", "a batch is a tensor"),
        ("model", "number", "v4k16", "must return a list of batches"),
        ("model", "few", "v4k16", "calibration rows"),
        ("model", "broken", "v4k16", "holds a NaN"),
        ("model", "batches", " ", "--policy is empty"),
        ("model", "batches", "k16", "'k16' is no setting"),
        ("model", "batches", "v4k512", "512 centroids"),
        ("model", "batches", "v0k16", "0 channels"),
        ("model", "batches", "v4k16,bits=9", "9 bits"),
        ("model", "batches", "v4k16,bits=six", "a whole number"),
        ("model", "batches", "v4k16,fitt=kmeans", "fitt = kmeans"),
        ("model", "batches", "v4k16,fit=magic", "no fit is named 'magic'"),
        ("model", "batches", "v4k16,bits=6,bits=5", "bits is there twice"),
        ("model", "batches", "v4k16,head", "'head' is no name=value"),
        ("model", "batches", "v4k16,include=decoder", "selects no layer"),
        ("model", "batches", "v4k16,exclude=[", "pattern '['"),
        ("model", "batches", "v4k16,.*=dense", "leave every selected layer as it is"),
        ("model", "batches", "auto", "has no budget"),
        ("model", "batches", "auto:error=much", "a number"),
        ("model", "batches", "auto:error=0", "more than 0"),
        ("model", "batches", "auto:speed=3", "there is no speed"),
        ("model", "batches", "auto:cost=v4", "seconds, or a setting"),
        ("model", "batches", "auto:error=0.1,choices=dense", "among the choices anyway"),
        ("model", "batches", "auto:error=0.1,cost=v4k16", "either error= or cost="),
        ("model", "batches", "auto:cost=1e-9", "least"),
        ("model", "batches", "nowhere.toml", "No such file"),
    ],
)
def test_bad_input_is_one_message(run: Run, model: str, data: str, policy: str, said: str) -> None:
    status, errors = run("--policy", policy, model=model, data=data)
    assert status == 1
    assert said in errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("setting = 4", "setting is text"),
        ("setting = 'v4k16'\nbits = 6.5", "a whole number"),
        ("setting = 'v4k16'\nweighted = 1", "yes or no"),
        ("setting = 'v4k16'\nspeed = 1", "speed = 1"),
        ("[layers]\nhead = 3", "neither a setting nor 'dense'"),
        ("[layers]\nhead = { speed = 3 }", "there is no speed"),
        ("bits = 6\n[auto]\nerror = 0.1", "stands alone"),
        ("[auto]\nerror = 0.1\nchoices = 'v4k16'\ncost = true", "cost"),
        ("setting =", "not TOML"),
    ],
)
def test_bad_toml_is_one_message(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(CompileError, match="policy") as error:
        parse_policy(str(path), rows=1)
    assert said in str(error.value)


@pytest.mark.parametrize("option", ["--rows", "--fit-rows", "--calibrate", "--lr", "--shares"])
def test_numbers_out_of_range_are_refused(run: Run, option: str) -> None:
    status, errors = run("--policy", "v4k16", option, "-1")
    assert status == 1
    assert option in errors


def test_settings_are_spelt_as_they_are_read() -> None:
    for text in ("v4k16", "v2k64,bits=6", "v1k256,fit=kmeans,weighted=yes,residual=3", "dense"):
        policy = parse_policy(f"v8k8,x={text.split(',')[0]}", rows=1)
        assert isinstance(policy, lut.Policy)
        auto = None if text == "dense" else parse_policy(text, rows=1)
        assert spell(None if auto is None else auto.settings) == text


def test_readable_seconds() -> None:
    said = [readable_seconds(x) for x in (0.0, 2.5e-6, 9.994e-4, 0.0123, 1.5)]
    assert said == ["0 µs", "2.5 µs", "999 µs", "12.3 ms", "1.5 s"]


def test_the_page_stands_without_candidates_and_with_layers_that_never_ran() -> None:
    layer = {
        "name": "a<b",
        "in_features": 8,
        "out_features": 4,
        "setting": "v4k16",
        "rel_mse": None,
        "quant_bound": 0.1,
        "acc_low": -3,
        "acc_high": 3,
        "acc_bits": 3,
        "table_bytes": 128,
        "refit": None,
        "cost_seconds": 1e-3,
        "dense_seconds": 1e-4,
    }
    page = render_lut_report(
        {
            "name": "net",
            "policy": "v4k16",
            "rows": 1,
            "model": {"error": 0.0},
            "layers": [layer],
            "dense": [],
            "table_bytes": 128,
            "dense_seconds": 1e-4,
            "candidates": [],
            "chosen": {"error": None, "cost_seconds": 1e-3},
            "front": [],
            "warnings": [],
            "error_note": "",
            "cost_note": "",
        }
    )
    assert "never run" in page
    assert "a&lt;b" in page
    assert "<circle" not in page
    assert np.char.count(page, "<tr>") == 2
