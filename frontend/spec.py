"""Where a model comes from: `path/to/file.py:factory`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ..errors import CompileError

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class ModelSpec:
    """A function to compile, with inputs of the shapes and types that it is compiled for."""

    name: str
    """File and factory, `siren_tiny`: a valid identifier in C++ and MLIR."""
    callable: Callable[..., Any]
    example_inputs: tuple[torch.Tensor, ...]

    @property
    def module(self) -> nn.Module | None:
        """The callable where it is an `nn.Module`, whose parts have names and can be replaced."""
        from torch import nn

        return self.callable if isinstance(self.callable, nn.Module) else None


def load_spec(spec: str) -> ModelSpec:
    """
    Runs the factory that `spec` names, `path/to/file.py:factory`.

    The factory takes no arguments and returns `(callable, example_inputs)`. The file is run
    like a script's import: it may import what lies beside it.

    Raises `CompileError` as `run_factory`, and if the factory returns anything else.
    """
    path, result = run_factory(spec)
    return _check(result, spec, _identifier(f"{path.stem}_{spec.rpartition(':')[2]}"))


def run_factory(spec: str) -> tuple[Path, Any]:
    """
    The file that `spec` names, `path/to/file.py:factory`, and what its factory returns.

    Raises `CompileError` if there is no such file or factory, and if either raises.
    """
    path_text, colon, factory_name = spec.rpartition(":")
    if not colon or not path_text or not factory_name:
        raise CompileError(f"'{spec}' is not a model spec; write path/to/file.py:factory")
    path = Path(path_text)
    if not path.is_file():
        raise CompileError(f"{spec}: there is no file {path}")
    module = _run_file(path, spec)
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        found = _factories(module)
        hint = f"; it has {', '.join(found)}" if found else ""
        raise CompileError(f"{spec}: {path} has no function '{factory_name}'{hint}")
    with _directory_on_path(path):
        try:
            result = factory()
        except Exception as error:
            raise CompileError(f"{spec}: the factory raised {_describe(error)}") from error
    return path, result


def _identifier(text: str) -> str:
    safe = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text)
    return f"_{safe}" if safe[:1].isdigit() else safe


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@contextmanager
def _directory_on_path(path: Path) -> Iterator[None]:
    """Lets the file import its neighbours while it runs."""
    entry = str(path.resolve().parent)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


def _run_file(path: Path, spec: str) -> ModuleType:
    # Registered under a name of its own, so that dataclasses and pickling in the file work and
    # nothing importable is shadowed.
    name = f"_inr_spec_{_identifier(path.stem)}"
    loader = importlib.util.spec_from_file_location(name, path.resolve())
    if loader is None or loader.loader is None:
        raise CompileError(f"{spec}: {path} is not a Python file")
    module = importlib.util.module_from_spec(loader)
    sys.modules[name] = module
    with _directory_on_path(path):
        try:
            loader.loader.exec_module(module)
        except Exception as error:
            raise CompileError(f"{spec}: running {path} raised {_describe(error)}") from error
    return module


def _factories(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if callable(value)
        and not isinstance(value, type)
        and not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
    ]


def _check(result: Any, spec: str, name: str) -> ModelSpec:
    import torch

    if not isinstance(result, tuple) or len(cast(tuple[Any, ...], result)) != 2:
        raise CompileError(f"{spec}: the factory must return (callable, example_inputs)")
    fn, inputs = cast(tuple[Any, Any], result)
    if not callable(fn):
        raise CompileError(f"{spec}: the factory returned {type(fn).__name__} as the function")
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)  # what people write first
    if not isinstance(inputs, Sequence) or not all(isinstance(x, torch.Tensor) for x in inputs):
        raise CompileError(f"{spec}: the example inputs must be a tuple of tensors")
    return ModelSpec(name, fn, tuple(cast(Sequence["torch.Tensor"], inputs)))
