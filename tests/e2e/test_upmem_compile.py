"""
`inr-compile --target upmem`: a folder that builds and checks itself, a report that holds what ran,
and what a user can get wrong: one message, status 1, nothing written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from inr.errors import CompileError  # noqa: E402
from inr.runtime.upmem_build import find_dpu_toolchain  # noqa: E402
from inr.tools import inr_compile, inr_lut, inr_opt  # noqa: E402

try:
    find_dpu_toolchain()
except CompileError as error:
    pytest.skip(str(error), allow_module_level=True)

SPEC = """
import warnings
import numpy as np
import torch
from torch import nn
from inr import lut

class Net(nn.Module):
    def __init__(self, inputs=24, width=32, outputs=5):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(inputs, width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, outputs, bias=False)
    def forward(self, x):
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))

def batches():
    torch.manual_seed(1)
    return [torch.randn(64, 24) for _ in range(4)]

def plain():
    return Net().eval(), (torch.randn(12, 24),)

def made(vec=4, centroids=16):
    model, inputs = plain()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lut.convert(model, batches(), lut.Policy(vec=vec, centroids=centroids)), inputs

def converted():
    return made()

def function():
    return (lambda x: x + 1), (torch.randn(3),)

def wrong_inputs():
    return made()[0], (torch.randn(12, 7),)

def many_centroids():
    return made(centroids=64)

def long_codebooks():
    layer = lut.LutLayer("layer", 400, np.zeros((1, 2, 400), np.int16), np.ones(1, np.float32),
                         np.zeros((1, 2, 8), np.int8), np.ones(8, np.float32))
    return nn.Sequential(lut.LutLinear.from_layer(layer)), (torch.randn(2, 400),)
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spec") / "net.py"
    path.write_text(SPEC)
    return path


def compile_(spec: Path, factory: str, *arguments: str) -> int:
    return inr_compile.main([f"{spec}:{factory}", "--target", "upmem", "--quiet", *arguments])


@pytest.fixture(scope="module")
def project(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with the tables that inr-lut wrote, on 8 DPUs in one group."""
    folder = tmp_path_factory.mktemp("project")
    made = [f"{spec}:plain", "--calibration", f"{spec}:batches", "--policy", "v4k16", "--quiet"]
    assert inr_lut.main([*made, "--out", str(folder / "lut")]) == 0
    arguments = ["--tables", str(folder / "lut"), "--dpus", "8", "--rows", "64"]
    assert compile_(spec, "plain", *arguments, "--out", str(folder / "out")) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def report(project: Path) -> dict[str, Any]:
    return json.loads((project / "report.json").read_text())


def test_every_layer_is_mapped_predicted_and_emulated(report: dict[str, Any]) -> None:
    names = ["first", "second", "last"]
    assert list(report["mapping"]) == list(report["layers"]) == names
    for name in names:
        cost, run = report["predicted"]["layers"][name], report["emulated"]["layers"][name]
        assert 0 < cost["kernel_ms"] < cost["total_ms"]
        assert run["rows"] == report["rows"] == 64
        assert run["ratio"] == pytest.approx(run["kernel_ms"] / cost["kernel_ms"])
        assert run["cycles"] * 1e3 / 350e6 == pytest.approx(run["kernel_ms"])
        mapping, size = report["mapping"][name], report["layers"][name]
        used = mapping["ip"] * mapping["lp"] * mapping["split_cb"]
        assert used <= report["dpus"] <= 8
        # A launch moves the packed indices and the sums of the DPUs in use, and a word or two.
        assert run["bytes_received"] == used * size["mram"]["sums"]
        assert run["bytes_sent"] == used * size["mram"]["index"] + 8 * report["dpus"]
    total = report["predicted"]["total"]
    assert total["kernel_ms"] == pytest.approx(
        sum(cost["kernel_ms"] for cost in report["predicted"]["layers"].values())
    )


def test_accuracy(report: dict[str, Any]) -> None:
    accuracy = report["accuracy"]
    assert accuracy["layers"]["second"] == {"rows": 12, "sums_equal": True, "reached": True}
    # The same integers and the same roundings: what differs is the order of float sums elsewhere.
    assert accuracy["model"]["converted"]["relative"] < 1e-6
    # Tables of four channels are not the model that they come from.
    assert accuracy["model"]["original"]["relative"] > 1e-3
    assert "races" in report["checked"]["checks"]


def test_memories_of_a_dpu(report: dict[str, Any]) -> None:
    memory = report["memory"]
    symbols = memory["mram"]["symbols"]
    for name in report["layers"]:
        assert symbols[f"{name}_table"] == report["layers"][name]["mram"]["table"]
    assert symbols["sums"] == max(x["mram"]["sums"] for x in report["layers"].values())
    wram = memory["wram"]
    assert wram["buffers"] + wram["stacks"] + wram["rest"] < wram["size"] == 65536
    assert 100 < memory["iram"]["used"] < memory["iram"]["size"] == 4096


def test_reasons_for_each_mapping(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # With little left to choose, few alternatives are looked at.
    mapping = "ip=2 lp=2 split_cb=1 variant=swar16 idx_bits=8 out=i32 residency=resident order=nfc"
    arguments = ["--target", "upmem", "--json", "--no-check", "--explain", "--dpus", "4"]
    assert inr_compile.main([f"{spec}:converted", *arguments, "--mapping", mapping]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["explained"]) == {"first", "second", "last"}
    for name, text in found["explained"].items():
        assert f"load={found['mapping'][name]['load']}" in text.splitlines()[1]
        others = {"static", "coarse", "fine"} - {found["mapping"][name]["load"]}
        assert any(line.split()[0] == f"load={x}" for line in text.splitlines()[4:] for x in others)


def test_page_shows_what_the_report_holds(project: Path) -> None:
    page = (project / "report.html").read_text()
    for what in ("MRAM of a DPU", "WRAM of a DPU", "IRAM of a DPU", "Roofline", "second_table"):
        assert what in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_folder_checks_itself(project: Path) -> None:
    folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["make", "check"], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("first", "second", "last"):
        assert any(
            line.startswith(name) and "sums equal" in line for line in done.stdout.splitlines()
        )


def test_tiled_module_prints_the_same_program(project: Path, tmp_path: Path) -> None:
    printed = tmp_path / "dpu.c"
    arguments = [str(project / "design.mlir"), "-t", "dpu-c{model=net_plain}", "-o", str(printed)]
    assert inr_opt.main(arguments) == 0
    program = (project / "net_plain_dpu.c").read_text()
    assert program.count("case NET_PLAIN_") == 3
    assert printed.read_text().endswith(program)


def test_json_and_groups_on_another_machine(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--target", "upmem", "--json", "--rows", "300", "--dpus", "128", "--groups", "2"]
    arguments += ["--machine", "v1B", "--no-check", "--mapping", "load=static variant=swar16"]
    assert inr_compile.main([f"{spec}:converted", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["groups"] == 2
    assert found["machine"]["wram"] == found["memory"]["wram"]["size"] == 63488
    assert found["emulated"] is None
    assert {m["groups"] for m in found["mapping"].values()} == {2}
    assert all(m["tasklets"] <= 16 for m in found["mapping"].values())


# What is refused.


@pytest.fixture
def run(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Compiles; returns stderr, and checks that nothing was written if it failed."""

    def compile_it(factory: str, *arguments: str) -> tuple[int, str]:
        files = set(tmp_path.iterdir())
        status = compile_(spec, factory, "--out", str(tmp_path / "out"), *arguments)
        errors = capsys.readouterr().err
        if status:
            # The conversion in the factory ends its progress with a line of its own.
            assert errors.lstrip().startswith("inr-compile: error: ")
            assert "Traceback" not in errors
            assert set(tmp_path.iterdir()) == files
        return status, errors

    return compile_it


def machine(folder: Path, **changes: object) -> str:
    """The first generation with some of its sizes changed, as a file."""
    from importlib.resources import files

    text = (files("inr") / "targets" / "upmem-v1A.toml").read_text()
    for key, value in changes.items():
        lines = [f"{key} = {value}" if x.startswith(f"{key} =") else x for x in text.splitlines()]
        text = "\n".join(lines)
    path = folder / "own.toml"
    path.write_text(text)
    return str(path)


def test_model_without_tables(run: Run) -> None:
    status, errors = run("plain")
    assert status == 1
    assert "no layers of tables" in errors
    assert "--tables" in errors


def test_function_is_no_model(run: Run) -> None:
    status, errors = run("function")
    assert status == 1
    assert "nn.Module" in errors


def test_tables_that_are_not_there(run: Run, tmp_path: Path) -> None:
    status, errors = run("plain", "--tables", str(tmp_path / "none"))
    assert status == 1
    assert "none" in errors


def test_inputs_that_the_model_does_not_take(run: Run) -> None:
    status, errors = run("wrong_inputs", "--dpus", "4", "--rows", "16")
    assert status == 1
    assert "example inputs" in errors


def test_unknown_machine(run: Run) -> None:
    status, errors = run("converted", "--machine", "v7")
    assert status == 1
    assert "unknown UPMEM target 'v7'" in errors
    assert "v1A" in errors


def test_table_larger_than_mram(run: Run, tmp_path: Path) -> None:
    status, errors = run(
        "converted", "--machine", machine(tmp_path, mram=4096), "--dpus", "1", "--rows", "8"
    )
    assert status == 1
    assert "bytes of MRAM" in errors
    # 8 codebooks of 16 entries in 32 columns are 4096 bytes, without indices and sums.
    assert "table 4,096" in errors
    assert "too many" in errors


def test_layers_that_do_not_fit_together(run: Run, tmp_path: Path) -> None:
    status, errors = run(
        "converted",
        "--machine",
        machine(tmp_path, mram=5400),
        *("--dpus", "1", "--rows", "8", "--mapping", "residency=resident"),
    )
    assert status == 1
    assert "3 layers do not fit MRAM together" in errors
    assert "too few" in errors


def test_shape_that_fits_no_wram(run: Run, tmp_path: Path) -> None:
    status, errors = run("converted", "--machine", machine(tmp_path, wram=2048), "--dpus", "4")
    assert status == 1
    assert "WRAM" in errors
    assert "2,048" in errors


def test_program_larger_than_iram(run: Run, tmp_path: Path) -> None:
    status, errors = run("converted", "--machine", machine(tmp_path, iram=100), "--dpus", "4")
    assert status == 1
    assert "IRAM" in errors


def test_more_tasklets_than_the_generation_has(run: Run) -> None:
    status, errors = run("converted", "--mapping", "tasklets=20", "--machine", "v1B")
    assert status == 1
    assert "tasklets: 20 of at most 16" in errors


def test_more_dpus_than_the_machine_has(run: Run, tmp_path: Path) -> None:
    status, errors = run("converted", "--machine", machine(tmp_path, ranks=1), "--dpus", "65")
    assert status == 1
    assert "64" in errors


def test_mapping_for_more_dpus_than_there_are(run: Run) -> None:
    status, errors = run("converted", "--dpus", "8", "--mapping", "ip=16")
    assert status == 1
    assert "R8" in errors


def test_dpus_that_are_taken_or_broken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INR_DPU_RANKS", "1")
    status, errors = run("converted", "--dpus", "128", "--rows", "256", "--mapping", "ip=128")
    assert status == 1
    assert "128 DPUs" in errors


def test_index_width_that_does_not_hold_k(run: Run) -> None:
    status, errors = run("many_centroids", "--mapping", "idx_bits=4")
    assert status == 1
    assert "R10" in errors


def test_codebooks_wider_than_the_search(run: Run) -> None:
    status, errors = run("long_codebooks")
    assert status == 1
    assert "codebooks of 400 channels" in errors
    assert "340" in errors


def test_tools_that_are_not_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    find_dpu_toolchain.cache_clear()
    try:
        status, errors = run("converted", "--dpus", "4", "--rows", "16")
        assert status == 1
        assert "clang-19" in errors
        assert "--no-check" in errors
        # Writing alone needs none.
        assert run("converted", "--dpus", "4", "--rows", "16", "--no-check")[0] == 0
    finally:
        find_dpu_toolchain.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--target", "upmem", "--clock", "3.33"], "--clock: only with --target hls"),
        (["--target", "upmem", "--order", "1"], "--order: only with --target hls"),
        (["--dpus", "4", "--explain"], "--dpus, --explain: only with --target upmem"),
    ],
)
def test_options_of_the_other_target(
    spec: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    assert inr_compile.main([f"{spec}:converted", *arguments]) == 1
    assert named in capsys.readouterr().err


def test_folder_that_exists(run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    status, errors = run("converted")
    assert status == 1
    assert "--force" in errors
