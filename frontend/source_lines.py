"""Which line of the user's program each traced operation comes from."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch
import torch.fx.traceback as fx_traceback
from torch.utils._python_dispatch import TorchDispatchMode

_LIBRARIES = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent),
    "<",
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')

# Text without a file in it: the importer reads it as an unknown location, where a missing
# one would make it repeat the location of the operation before.
_UNKNOWN = " "


class _SourceLines(TorchDispatchMode):
    """Labels the node that the tracer is about to record."""

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        fx_traceback.set_stack_trace([_line()])
        return func(*args, **(kwargs or {}))


@contextmanager
def recorded_lines() -> Iterator[None]:
    """Within it, PyTorch remembers where each step of the forward pass was called."""
    with (
        warnings.catch_warnings(),
        fx_traceback.preserve_node_meta(),
    ):
        # Anomaly detection is what stores a stack with every autograd node; it warns that it
        # is slow, and would print a second traceback when the user's backward pass fails.
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=False):
            yield


def call_labelled(fn: Callable[..., Any], *args: Any) -> Any:
    """Calls `fn` inside a trace; frames outside of this call are not the user's."""
    with _SourceLines():
        return fn(*args)


def _line() -> str:
    node = torch._C._current_autograd_node()
    if node is None:
        return _line_of_frame(sys._getframe(1))
    # A node made during a backward pass has the node that made it as its parent; the first
    # of the line stands for a call in the forward pass, which is what the user wrote.
    metadata = _metadata(node)
    while (parent := metadata.get("parent_")) is not None:
        metadata = _metadata(parent)
    return _line_of_traceback(metadata.get("traceback_") or [])


def _metadata(node: torch.autograd.graph.Node) -> dict[str, Any]:
    # A property; PyTorch's stubs call it a method.
    return cast(dict[str, Any], node.metadata)


def _line_of_frame(frame: FrameType | None) -> str:
    while frame is not None and frame.f_code is not call_labelled.__code__:
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            return _spell(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return _UNKNOWN


def _line_of_traceback(entries: list[str]) -> str:
    for entry in reversed(entries):
        if (match := _FRAME.search(entry)) is None:
            continue
        file, line, function = match.groups()
        if file == __file__ and function == call_labelled.__name__:
            break
        if not file.startswith(_LIBRARIES):
            return _spell(file, int(line), function)
    return _UNKNOWN


def _spell(file: str, line: int, function: str) -> str:
    return f'  File "{file}", line {line}, in {function}\n'


def line_of(node: torch.fx.Node) -> str | None:
    """The `file:line` of a traced node, or None where no line of the user's made it."""
    match = _FRAME.search(node.meta.get("stack_trace") or "")
    return f"{match[1]}:{match[2]}" if match else None


def line_of_error(error: BaseException) -> str | None:
    """The `file:line` of the user's program that `error` passed through last."""
    found = None
    traceback = error.__traceback__
    inside = False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if inside and not code.co_filename.startswith(_LIBRARIES):
            found = f"{code.co_filename}:{traceback.tb_lineno}"
        inside = inside or code is call_labelled.__code__
        traceback = traceback.tb_next
    return found
