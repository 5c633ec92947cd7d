"""What a user can get wrong: one readable message on stderr, status 1, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from inr.tools import inr_compile, inr_import, inr_opt  # noqa: E402

ZOO = Path(__file__).parents[2] / "examples" / "zoo"

PRELUDE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(2, 4)
        self.last = nn.Linear(4, 1)
        self.function = function
    def forward(self, x):
        return self.last(self.function(self.layer(x)))

x = torch.linspace(-1, 1, 8).reshape(4, 2)
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Compiles a factory's body; returns the exit status and stderr, and checks the folder."""

    def compile_(body: str, *arguments: str, out: str = "out") -> tuple[int, str]:
        spec = tmp_path / "model.py"
        spec.write_text(PRELUDE + body)
        status = inr_compile.main(
            [f"{spec}:model", "--out", str(tmp_path / out), "--quiet", *arguments]
        )
        errors = capsys.readouterr().err
        if status:
            assert "Traceback" not in errors
            assert errors.startswith("inr-compile: error: ")
            # Nothing half-written: neither the folder nor the temporary one beside it.
            assert {p.name for p in tmp_path.iterdir()} <= {"model.py", "__pycache__"}
        return status, errors

    return compile_


def model(expression: str, inputs: str = "(x,)") -> str:
    return f"def model():\n    return {expression}, {inputs}\n"


def test_unsupported_op_is_named_with_its_source_line(run: Run) -> None:
    status, errors = run(model("Net(lambda h: torch.sort(h, dim=1).values)"))
    assert status == 1
    assert "aten.sort" in errors
    assert "model.py:" in errors


def test_complex_numbers(run: Run) -> None:
    status, errors = run(model("Net(lambda h: torch.exp(1j * h).real)"))
    assert status == 1
    assert "complex" in errors


def test_integer_arithmetic(run: Run) -> None:
    status, errors = run(model("Net(lambda h: h * (h.long() + 1))"))
    assert status == 1
    assert "int" in errors.lower()


def test_in_place_update_of_an_input(run: Run) -> None:
    body = "def f(x):\n    x.mul_(2)\n    return torch.sin(x)\n"
    status, errors = run(body + model("f"))
    assert status == 1
    assert "in place" in errors or "in-place" in errors


def test_output_that_does_not_depend_on_the_coordinates(run: Run, tmp_path: Path) -> None:
    body = (
        "class Constant(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.cat([torch.sin(x[:, :1]), torch.ones(4, 1)], dim=1)\n"
    )
    status, errors = run(body + model("Constant()"), "--order", "1")
    assert status == 0, errors
    assert (tmp_path / "out" / "report.json").exists()


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_weights_that_are_not_finite(run: Run, value: str) -> None:
    body = (
        "net = Net(torch.sin)\n"
        f"with torch.no_grad():\n    net.layer.weight[1, 0] = float('{value}')\n"
    )
    status, errors = run(body + model("net"))
    assert status == 1
    assert "layer.weight" in errors


@pytest.mark.parametrize("dtype", ["half", "bfloat16"])
def test_half_precision_is_converted_and_said(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: str
) -> None:
    spec = tmp_path / "model.py"
    spec.write_text(PRELUDE + model(f"Net(torch.sin).{dtype}()", f"(x.{dtype}(),)"))
    status = inr_compile.main([f"{spec}:model", "--out", str(tmp_path / "out")])
    errors = capsys.readouterr().err
    assert status == 0, errors
    assert "float32" in errors


def test_factory_that_raises(run: Run) -> None:
    status, errors = run("def model():\n    raise RuntimeError('no checkpoint here')\n")
    assert status == 1
    assert "no checkpoint here" in errors


def test_factory_that_is_not_there(run: Run) -> None:
    status, errors = run("def other():\n    pass\n")
    assert status == 1
    assert "other" in errors


def test_function_without_an_output(run: Run) -> None:
    status, errors = run("def f(x):\n    return ()\n" + model("f"))
    assert status == 1
    assert "returns no" in errors


def test_zero_size_array(run: Run) -> None:
    status, errors = run(model("Net(torch.sin)", "(torch.zeros(0, 2),)"))
    assert status == 1
    assert "[0, 2]" in errors


def test_existing_folder_is_kept_unless_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious.txt").write_text("mine")
    arguments = [f"{ZOO / 'siren.py'}:tiny", "--out", str(out), "--no-check", "--quiet"]
    assert inr_compile.main(arguments) == 1
    assert "--force" in capsys.readouterr().err
    assert (out / "precious.txt").read_text() == "mine"
    assert inr_compile.main([*arguments, "--force"]) == 0
    assert not (out / "precious.txt").exists()
    assert (out / "model.cpp").exists()


def test_without_a_compiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    out = tmp_path / "out"
    arguments = [f"{ZOO / 'siren.py'}:tiny", "--out", str(out), "--quiet"]
    assert inr_compile.main(arguments) == 1
    assert "--no-check" in capsys.readouterr().err
    assert not out.exists()
    assert inr_compile.main([*arguments, "--no-check"]) == 0
    assert (out / "testbench.cpp").exists()


def test_unknown_part(run: Run) -> None:
    status, errors = run(model("Net(torch.sin)"), "--part", "xc6slx9")
    assert status == 1
    assert "xcu50" in errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--clock", "0"), "--clock"),
        (("--clock", "2"), "3.33"),
        (("--alpha", "-0.1"), "--alpha"),
        (("--fill", "1.5"), "--fill"),
        (("--lanes", "0"), "--lanes"),
        (("--domain", "1", "-1"), "--domain"),
        (("--mode", "float", "--tolerance", "1e-3"), "--tolerance"),
        (("--calibration", "missing.npz"), "missing.npz"),
    ],
)
def test_options_that_make_no_sense(run: Run, arguments: tuple[str, ...], words: str) -> None:
    status, errors = run(model("Net(torch.sin)"), *arguments)
    assert status == 1
    assert words in errors


def test_tolerance_out_of_reach(run: Run) -> None:
    status, errors = run(model("Net(torch.sin)"), "--tolerance", "1e-15")
    assert status == 1
    assert "tolerance" in errors


def optimise(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    """`inr-opt` on a text; its status and stderr, no output file left behind on failure."""
    path, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    path.write_text(text)
    status = inr_opt.main([str(path), "-o", str(out), *arguments])
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    assert out.exists() == (status == 0)
    return status, errors


def test_mlir_that_does_not_parse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, errors = optimise("func.func @f(", tmp_path, capsys)
    assert status == 1
    assert "in.mlir" in errors


def test_missing_resource(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "func.func @f() -> !torch.vtensor<[2],f32> {\n"
        "  %0 = torch.vtensor.literal(dense_resource<w> : tensor<2xf32>)"
        " : !torch.vtensor<[2],f32>\n"
        "  func.return %0 : !torch.vtensor<[2],f32>\n}\n"
    )
    status, errors = optimise(text, tmp_path, capsys)
    assert status == 1
    assert "w" in errors
    assert "resource" in errors


def test_dynamic_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "func.func @f(%x: !torch.vtensor<[?,2],f32>) -> !torch.vtensor<[?,2],f32> {\n"
        "  %0 = torch.aten.sin %x : !torch.vtensor<[?,2],f32> -> !torch.vtensor<[?,2],f32>\n"
        "  func.return %0 : !torch.vtensor<[?,2],f32>\n}\n"
    )
    status, errors = optimise(text, tmp_path, capsys, "-p", "convert-torch-to-inr")
    assert status == 1
    assert "?" in errors or "dynamic" in errors


def test_weights_that_overflow_their_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = "!array_stream.stream<{}xf64>"
    text = (
        "func.func @f(%x: tensor<4x2xf64>) -> tensor<4x2xf64>"
        ' attributes {array_stream.stage = "value"} {\n'
        "  %w = arith.constant dense<[[1.0, 9.5], [0.5, 0.25]]> : tensor<2x2xf64>\n"
        f"  %0 = array_stream.read %x : tensor<4x2xf64> -> {stream.format('4x2')}\n"
        f"  %1 = array_stream.matmul %0 by %w weight_format <18, 3> : ({stream.format('4x2')})"
        f" -> {stream.format('4x2')} by tensor<2x2xf64>\n"
        f"  %2 = array_stream.write %1 : {stream.format('4x2')} -> tensor<4x2xf64>\n"
        "  func.return %2 : tensor<4x2xf64>\n}\n"
    )
    status, errors = optimise(text, tmp_path, capsys, "-p", "array-stream-assign-formats")
    assert status == 1
    assert "9.5" in errors
    assert "5 integer bits" in errors


def test_import_of_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert inr_import.main(["nowhere.py:model"]) == 1
    assert "nowhere.py" in capsys.readouterr().err
