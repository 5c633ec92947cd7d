"""What a model calls its tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

_STORAGE = tuple[int, tuple[int, ...], tuple[int, ...]]


class TensorNames:
    """
    The names of the parameters, buffers and other tensors that `fn` can reach.

    `fn` is a module, or a function whose closure and globals refer to modules and tensors. A
    tensor that has two names (tied weights) keeps the first. With None, nothing has a name.
    """

    def __init__(self, fn: Callable[..., Any] | None):
        # The tensors are kept, so that no id is given to another tensor meanwhile.
        self._tensors: list[torch.Tensor] = []
        self._by_id: dict[int, str] = {}
        self._by_storage: dict[_STORAGE, str] = {}
        for name, tensor in _named_tensors(fn):
            self._tensors.append(tensor)
            self._by_id.setdefault(id(tensor), name)
            self._by_storage.setdefault(_storage(tensor), name)

    def get(self, tensor: torch.Tensor) -> str | None:
        """The name of `tensor`, or of one with the same memory, shape and strides."""
        return self._by_id.get(id(tensor)) or self._by_storage.get(_storage(tensor))


def _storage(tensor: torch.Tensor) -> _STORAGE:
    return (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()))


def _named_tensors(fn: Callable[..., Any] | None) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(fn, torch.nn.Module):
        yield from _of_value("", fn, set())
        return
    captured = dict(_captured(fn, set()))
    modules = [value for value in captured.values() if isinstance(value, torch.nn.Module)]
    for name, value in captured.items():
        # With one module only, its own names are clear enough without the variable's.
        alone = isinstance(value, torch.nn.Module) and len(modules) == 1
        yield from _of_value("" if alone else name, value, set())


def _of_value(prefix: str, value: Any, seen: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    if id(value) in seen:
        return
    seen.add(id(value))
    dot = f"{prefix}." if prefix else ""
    match value:
        case torch.Tensor():
            yield prefix or "tensor", value
        case torch.nn.Module():
            # `state_dict` would leave out what is not persistent, and what is a plain tensor.
            yield from value.named_parameters(prefix, remove_duplicate=False)
            yield from value.named_buffers(prefix, remove_duplicate=False)
            for path, module in value.named_modules(prefix=prefix):
                for name, attribute in vars(module).items():
                    if isinstance(attribute, torch.Tensor):
                        yield f"{path}.{name}" if path else name, attribute
        case dict():
            for key, item in value.items():
                yield from _of_value(f"{dot}{key}", item, seen)
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _of_value(f"{dot}{index}", item, seen)
        case _:
            return


def _captured(fn: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """The variables that a function refers to, through the functions that it calls too."""
    if id(fn) in seen:
        return
    seen.add(id(fn))
    if isinstance(fn, functools.partial):
        yield from _captured(fn.func, seen)
        for index, value in enumerate(fn.args):
            yield f"arg{index}", value
        yield from fn.keywords.items()
        return
    if inspect.ismethod(fn):
        yield "self", fn.__self__
        yield from _captured(fn.__func__, seen)
        return
    if not inspect.isfunction(fn) or "site-packages" in fn.__code__.co_filename:
        return
    if (wrapped := getattr(fn, "__wrapped__", None)) is not None:
        yield from _captured(wrapped, seen)
    try:
        variables = inspect.getclosurevars(fn)
    except ValueError:
        return  # a variable of an enclosing function that has no value yet
    for name, value in (*variables.nonlocals.items(), *variables.globals.items()):
        if inspect.isroutine(value) or isinstance(value, functools.partial):
            yield from _captured(value, seen)
        elif not inspect.ismodule(value) and not inspect.isclass(value):
            yield name, value
