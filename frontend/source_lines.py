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
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_LIBRARIES = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent),
    str(Path(__file__).parent.with_name("lut")),
    "<",
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')

# Text without a file in it: the importer reads it as an unknown location, where a missing
# one would make it repeat the location of the operation before.
_UNKNOWN = " "


class _ForwardLines(TorchFunctionMode):
    """
    Says which line calls a function of PyTorch.

    This is above autograd, so that the node which autograd makes for the call keeps the line:
    under `preserve_node_meta`, anomaly detection stores the label that is set at the time.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        fx_traceback.set_stack_trace([_line_of_frame(sys._getframe(1))])
        return func(*args, **(kwargs or {}))


class _BackwardLines(TorchDispatchMode):
    """Gives the operators of a backward pass the lines of the forward pass."""

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if (node := torch._C._current_autograd_node()) is not None:
            fx_traceback.set_stack_trace([_line_of_node(node)])
        return func(*args, **(kwargs or {}))


@contextmanager
def recorded_lines() -> Iterator[None]:
    """Within it, autograd remembers where each step of the forward pass was called."""
    with (
        warnings.catch_warnings(),
        fx_traceback.preserve_node_meta(),
    ):
        # It warns that it is slow, which it is not when all it stores is a label.
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=False):
            yield


def call_labelled(fn: Callable[..., Any], *args: Any) -> Any:
    """Calls `fn` inside a trace; frames outside of this call are not the user's."""
    with _ForwardLines(), _BackwardLines():
        return fn(*args)


def _line_of_node(node: torch.autograd.graph.Node) -> str:
    # A node made during a backward pass has the node that made it as its parent; the first
    # of the line stands for a call in the forward pass, which is what the user wrote.
    metadata = _metadata(node)
    while (parent := metadata.get("parent_")) is not None:
        metadata = _metadata(parent)
    label = "".join(metadata.get("traceback_") or [])
    return label if _FRAME.search(label) else _UNKNOWN


def _metadata(node: torch.autograd.graph.Node) -> dict[str, Any]:
    # A property; PyTorch's stubs call it a method.
    return cast(dict[str, Any], node.metadata)


def _line_of_frame(frame: FrameType | None) -> str:
    while frame is not None and frame.f_code is not call_labelled.__code__:
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            code = frame.f_code
            return f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n'
        frame = frame.f_back
    return _UNKNOWN


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
