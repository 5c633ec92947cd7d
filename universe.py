"""
What this project adds to xDSL; found through the `xdsl.universe` entry point.

Every value is a function that imports on call, so that neither `xdsl-opt` nor
`inr-opt --help` pays for what it does not use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from xdsl.universe import Universe


def _lazy(module: str, attribute: str) -> Callable[[], Any]:
    """A getter of `attribute` in the submodule `module` of this package."""

    def get() -> Any:
        return getattr(import_module(f".{module}", __package__), attribute)

    return get


INR_UNIVERSE = Universe(
    all_dialects={
        "array_stream": _lazy("dialects.array_stream", "ArrayStream"),
        "inr": _lazy("dialects.inr", "Inr"),
        "torch": _lazy("dialects.torch", "Torch"),
    },
    all_passes={
        "convert-torch-to-inr": _lazy("passes.convert_torch_to_inr", "ConvertTorchToInrPass"),
        "inr-cse": _lazy("passes.inr_cse", "InrCsePass"),
        "inr-fold-transpose": _lazy("passes.inr_fold_transpose", "InrFoldTransposePass"),
        "inr-simplify": _lazy("passes.inr_simplify", "InrSimplifyPass"),
    },
    all_targets={},
)
