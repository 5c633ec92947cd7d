"""`inr-import`: a PyTorch model, or its derivatives, as MLIR text."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import CompileError


def main(arguments: Sequence[str] | None = None) -> int:
    """The tool; returns the exit status: 1, with a message on stderr, for input it rejects."""
    options = _parser().parse_args(arguments)
    try:
        text = _import(options)
        if options.output is None:
            print(text)
        else:
            _write(options.output, text)
    except CompileError as error:
        print(f"inr-import: error: {error}", file=sys.stderr)
        return 1
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(f"{text}\n")
    except OSError as error:
        raise CompileError(f"cannot write {path}: {error.strerror}") from error


def _import(options: argparse.Namespace) -> str:
    # Here and not above: `inr-import --help` must not wait for torch.
    from ..frontend.importer import import_torch
    from ..frontend.spec import load_spec

    spec = load_spec(options.spec)
    model = import_torch(
        spec.callable,
        spec.example_inputs,
        name=spec.name,
        order=options.order,
        outputs=options.outputs,
    )
    for note in model.notes:
        print(f"inr-import: note: {note}", file=sys.stderr)
    return model.to_text(generic=options.generic, locations=options.locations).rstrip("\n")


def add_model_arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What says which function to take; and which of its derivatives, which are returned."""
    parser.add_argument(
        "spec",
        metavar="FILE.py:FACTORY",
        help="a function without parameters that returns (callable, example_inputs)",
    )
    order = parser.add_argument(
        "--order",
        type=int,
        metavar="K",
        help="differentiate with respect to the coordinates up to this order; without it the "
        "function is taken as it is",
    )
    outputs = parser.add_argument(
        "--outputs",
        choices=("all", "jacobian", "hessian", "laplacian"),
        default="all",
        help="which derivatives to compute (default: the value and all partial derivatives)",
    )
    return [order, outputs]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="inr-import",
        description="Imports a PyTorch function and prints it as MLIR in the torch dialect, "
        "weights included.",
    )
    add_model_arguments(parser)
    parser.add_argument(
        "--generic", action="store_true", help="print operations in MLIR's generic form"
    )
    parser.add_argument(
        "--locations", action="store_true", help="print the PyTorch source line of each operation"
    )
    parser.add_argument(
        "-o", dest="output", type=Path, metavar="FILE", help="write to FILE, not to stdout"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
