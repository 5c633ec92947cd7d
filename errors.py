"""The one exception a user's input can cause."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import DiagnosticException


class CompileError(DiagnosticException):
    """
    Input that cannot be compiled: one readable message that names the op, where it
    came from, and what would work. Tools print it to stderr and exit with status 1.
    """


def source_line(op: Operation) -> str | None:
    """The `file:line` an operation came from, or None where the IR does not say."""
    return _file_line(op.location)


def _file_line(location: Attribute) -> str | None:
    match location:
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}"
        case NameLoc():
            return _file_line(location.location)
        case CallSiteLoc():
            return _file_line(location.callee)
        case FusedLoc():
            parts = cast(ArrayAttr[Attribute], location.locations)
            return next((s for part in parts if (s := _file_line(part))), None)
        case _:
            return None


def reject(op: Operation, why: str) -> CompileError:
    """The error to raise about `op`: its name, its source line where known, and `why`."""
    where = source_line(op)
    return CompileError(f"{op.name}{f' ({where})' if where else ''}: {why}")
