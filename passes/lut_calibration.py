"""
What the passes on tables know of their inputs: calibration rows from a file, and the arrays that
reach the operations of a function when they are run through it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ..dialects.lut import shape_of
from ..dialects.lut_constants import NAME
from ..errors import CompileError
from ..interpreters.graph import run_graph

Floats = NDArray[np.float32]
Batch = list[NDArray[Any]]


def pattern(name: str, option: str, text: str) -> re.Pattern[str]:
    """An option as a regular expression. Raises CompileError for one that is none."""
    try:
        return re.compile(text)
    except re.error as error:
        raise CompileError(f"{name}: {option}='{text}' is no regular expression: {error}") from None


def load_batches(name: str, path: str | None, function: FuncOp) -> list[Batch]:
    """
    Batches of a function's inputs from an .npz file, whose rows are cut into batches of the
    function's; what is left over at the end is not used.

    Arrays go by the names of the arguments (`inr.name`, or what the text calls them), or by their
    order where the file has as many and no name of it is one of theirs. Raises CompileError, for
    the pass `name`, without a file, and where its arrays are not those of the inputs.
    """
    title = function.sym_name.data
    arguments = function.body.block.args
    names = [
        _given_name(function, argument.index) or argument.name_hint or f"arg{argument.index}"
        for argument in arguments
    ]
    shapes = [shape_of(argument) for argument in arguments]
    wanted = ", ".join(f"{n}: {_by(s)}" for n, s in zip(names, shapes, strict=True))
    if path is None:
        raise CompileError(
            f"{name}: needs calibration=FILE.npz with inputs of {title}: {wanted}; rows may be more"
        )
    try:
        with np.load(path) as archive:
            arrays = {key: np.asarray(archive[key]) for key in archive.files}
    except (OSError, ValueError) as error:
        raise CompileError(f"{name}: calibration file {path}: {error}") from error
    if not set(names) & set(arrays) and len(arrays) == len(names):
        arrays = dict(zip(names, arrays.values(), strict=True))
    fits = set(names) <= set(arrays) and all(
        arrays[n].ndim == len(s) and arrays[n].shape[1:] == s[1:] and len(arrays[n]) >= s[0]
        for n, s in zip(names, shapes, strict=True)
        if s
    )
    if not fits:
        found = ", ".join(f"{key}: {_by(a.shape)}" for key, a in arrays.items())
        raise CompileError(
            f"{name}: calibration file {path} has {found or 'no arrays'}; {title} takes {wanted}, "
            "rows may be more"
        )
    rows = [len(arrays[n]) // s[0] for n, s in zip(names, shapes, strict=True) if s and s[0]]
    return [
        [
            arrays[n][i * s[0] : (i + 1) * s[0]] if s else arrays[n]
            for n, s in zip(names, shapes, strict=True)
        ]
        for i in range(min(rows, default=1))
    ]


def _given_name(function: FuncOp, index: int) -> str | None:
    """What the model calls an argument."""
    if function.arg_attrs is None:
        return None
    name = function.arg_attrs.data[index].data.get(NAME)
    return name.data if isinstance(name, StringAttr) else None


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "a number"


def observe_inputs(
    module: ModuleOp,
    function: FuncOp,
    batches: Iterable[Batch],
    wanted: Sequence[tuple[Operation, SSAValue]],
) -> dict[Operation, Floats]:
    """
    The rows that reach each of the wanted operations in the operand beside it, N×H in float32,
    all batches one below the other.
    """
    operand = {op: list(op.operands).index(value) for op, value in wanted}
    seen: dict[Operation, list[Floats]] = {op: [] for op in operand}

    def observe(op: Operation, arrays: tuple[Any, ...]) -> None:
        if op in operand:
            with np.errstate(over="ignore"):
                seen[op].append(np.asarray(arrays[operand[op]]).astype(np.float32))

    for batch in batches:
        run_graph(module, batch, function.sym_name.data, observe)
    return {op: np.concatenate(rows) for op, rows in seen.items() if rows}


def functions_with(
    module: ModuleOp, select: Callable[[Operation], bool]
) -> list[tuple[FuncOp, list[Operation]]]:
    """The functions of a module that have selected operations, and those, in order."""
    found: list[tuple[FuncOp, list[Operation]]] = []
    for function in module.ops:
        if not isinstance(function, FuncOp) or len(function.body.blocks) != 1:
            continue
        ops = [op for op in function.body.block.ops if select(op)]
        if ops:
            found.append((function, ops))
    return found
