"""Input that cannot be imported: one readable message each."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from inr.errors import CompileError
from inr.frontend.importer import import_torch
from inr.frontend.spec import load_spec
from inr.tools.inr_import import main
from torch import nn

X = torch.linspace(-0.9, 0.8, 8).reshape(4, 2)


def updates_its_input(x: torch.Tensor) -> torch.Tensor:
    x.add_(1.0)
    return torch.sin(x)


def branches(x: torch.Tensor) -> torch.Tensor:
    return x if x.sum() > 0 else -x


def fails(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("first line\nsecond line")


def complex_wire(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(1j * x).real


def line(fn: Callable[..., object], offset: int) -> str:
    return f"{__file__}:{fn.__code__.co_firstlineno + offset}"


@pytest.mark.parametrize(
    ("fn", "messages"),
    [
        (updates_its_input, ["input 0 is updated in place", line(updates_its_input, 1)]),
        (branches, ["needs the value of a tensor", line(branches, 1), "torch.where"]),
        (fails, ["ValueError: first line", line(fails, 1)]),
        (complex_wire, ["aten.mul.Tensor", "complex64", line(complex_wire, 1)]),
        (lambda x: 3.0, ["output 'out0' is a float"]),
        (lambda x: (), ["returns no tensor"]),
        (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), ["updated in place", "model.eval()"]),
    ],
)
def test_functions(fn: Callable[..., object], messages: list[str]):
    with pytest.raises(CompileError) as error:
        import_torch(fn, [X])
    for message in messages:
        assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite(value: float):
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    net[1].weight.data[0, 1] = value
    with pytest.raises(CompileError, match=r"parameter '1\.weight' has 1 NaN or infinite of 3"):
        import_torch(net, [X])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([torch.arange(8).reshape(4, 2)], "example input 'x' is int64"),
        ([X.to(torch.complex64)], "example input 'x' is complex64"),
        ([3.0], "example input 'x' is a float"),
        ([], "no inputs"),
    ],
)
def test_example_inputs(inputs: list[object], message: str):
    with pytest.raises(CompileError, match=message):
        import_torch(lambda x: x, inputs)


def test_wrong_number_of_names():
    with pytest.raises(CompileError, match="2 input names for 1 example inputs"):
        import_torch(lambda x: x, [X], input_names=["a", "b"])
    with pytest.raises(CompileError, match="2 output names for 1 outputs: out0"):
        import_torch(lambda x: x * 2, [X], output_names=["a", "b"])


def test_reference_checks_its_inputs():
    model = import_torch(lambda x: x * 2, [X])
    with pytest.raises(CompileError, match=r"input 'x' has shape \[3, 2\]"):
        model.reference([X[:3].numpy()])
    with pytest.raises(CompileError, match="2 inputs for x"):
        model.reference([X.numpy(), X.numpy()])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.sort(x, 1)[0],
        lambda x: torch.gather(x, 1, (x > 0).long()),
        lambda x: (x * 3).to(torch.int64) + 1,
    ],
)
def test_unsupported_operators_are_left_to_the_next_stage(fn: Callable[..., object]):
    # They are imported, with their lines, so that all of them can be named at once.
    import_torch(fn, [X]).module.verify()


SPEC = """
import torch

def good():
    return torch.sin, (torch.zeros(2, 3),)

def broken():
    raise RuntimeError("no weights\\nhere")

def number():
    return 3

def no_tensors():
    return torch.sin, (1.0,)

def not_callable():
    return 3, (torch.zeros(2),)

def in_half():
    return torch.nn.Linear(2, 2).half(), torch.zeros(2, 2).half()
"""


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    path = tmp_path / "my-model.py"
    path.write_text(SPEC)
    return path


def test_spec(spec_file: Path):
    spec = load_spec(f"{spec_file}:good")
    assert spec.name == "my_model_good"
    assert spec.callable is torch.sin
    assert [tuple(x.shape) for x in spec.example_inputs] == [(2, 3)]


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("broken", "the factory raised RuntimeError: no weights here"),
        ("number", "the factory must return (callable, example_inputs)"),
        ("no_tensors", "the example inputs must be a tuple of tensors"),
        ("not_callable", "the factory returned int as the function"),
        ("missing", "has no function 'missing'; it has good, broken"),
    ],
)
def test_bad_factories(
    spec_file: Path, factory: str, message: str, capsys: pytest.CaptureFixture[str]
):
    output = spec_file.with_suffix(".mlir")
    assert main([f"{spec_file}:{factory}", "-o", str(output)]) == 1
    out, err = capsys.readouterr()
    assert message in err
    assert err.startswith("inr-import: error: ")
    assert err.count("\n") == 1
    assert out == ""
    assert not output.exists()


def test_bad_files(tmp_path: Path):
    with pytest.raises(CompileError, match="there is no file"):
        load_spec(f"{tmp_path / 'none.py'}:f")
    with pytest.raises(CompileError, match="is not a model spec"):
        load_spec("siren.py")
    broken = tmp_path / "broken.py"
    broken.write_text("import a_module_that_nobody_has\n")
    with pytest.raises(CompileError, match="ModuleNotFoundError: No module named 'a_module"):
        load_spec(f"{broken}:f")
    broken.write_text("def f(:\n")
    with pytest.raises(CompileError, match="SyntaxError"):
        load_spec(f"{broken}:f")
    text = tmp_path / "notes.txt"
    text.write_text("")
    with pytest.raises(CompileError, match="is not a Python file"):
        load_spec(f"{text}:f")


def test_tool_writes_and_notes(spec_file: Path, capsys: pytest.CaptureFixture[str]):
    output = spec_file.with_suffix(".mlir")
    assert main([f"{spec_file}:in_half", "-o", str(output)]) == 0
    assert "func.func @my_model_in_half" in output.read_text()
    assert "note: float16 parameters converted to float32" in capsys.readouterr().err


def test_tool_cannot_write(spec_file: Path, capsys: pytest.CaptureFixture[str]):
    assert main([f"{spec_file}:good", "-o", str(spec_file / "x.mlir")]) == 1
    assert "cannot write" in capsys.readouterr().err
