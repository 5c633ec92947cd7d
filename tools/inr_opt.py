"""`inr-opt`: the xDSL optimizer driver with this project's dialects, passes and targets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.frontend.mlir import MLIRFrontend
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException
from xdsl.xdsl_opt_main import xDSLOptMain

from .. import __version__
from ..universe import INR_UNIVERSE


@dataclass(frozen=True)
class _MlirFrontend(MLIRFrontend):
    """MLIR text; weights in torch-mlir's resource section are brought into the operations."""

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        text = input.read()
        if b"dense_resource" not in text:
            return super().parse(ctx, BytesIO(text), input_name)
        from ..frontend.parse import parse_module

        return parse_module(ctx, text.decode(), input_name)


class InrOptMain(xDSLOptMain):
    version_format = f"inr-opt {__version__} (xdsl {{xdsl_version}})"

    def __init__(self, args: Sequence[str] | None = None):
        super().__init__("INR optimizer driver", args)

    # Each of these finds ours registered already when the package is installed; from a bare
    # checkout there is no entry point, and they are added here.

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        self.available_frontends["mlir"] = lambda: _MlirFrontend

    def register_all_dialects(self) -> None:
        super().register_all_dialects()
        _add(
            INR_UNIVERSE.all_dialects, self.ctx.registered_dialect_names, self.ctx.register_dialect
        )

    def register_all_passes(self) -> None:
        super().register_all_passes()
        _add(INR_UNIVERSE.all_passes, self.available_passes, self.register_pass)

    def register_all_targets(self) -> None:
        super().register_all_targets()
        _add(INR_UNIVERSE.all_targets, self.available_targets, self.available_targets.__setitem__)


def _add(ours: dict[str, Callable[[], Any]], known: Any, register: Callable[..., None]) -> None:
    known = set(known)
    for name, factory in ours.items():
        if name not in known:
            register(name, factory)


def main(arguments: Sequence[str] | None = None) -> int:
    """The tool; returns the exit status: 1, with one message on stderr, for input it rejects."""
    tool = InrOptMain(arguments)
    try:
        tool.run()
    except (DiagnosticException, ParseError, VerifyException) as error:
        print(f"inr-opt: error: {error}", file=sys.stderr)
        if tool.args.output_file:
            # It was opened before the input was read: what is in it is not a result.
            Path(tool.args.output_file).unlink(missing_ok=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
