"""`inr-opt`: the xDSL optimizer driver with this project's dialects, passes and targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.xdsl_opt_main import xDSLOptMain

from .. import __version__
from ..universe import INR_UNIVERSE


class InrOptMain(xDSLOptMain):
    version_format = f"inr-opt {__version__} (xdsl {{xdsl_version}})"

    def __init__(self, args: Sequence[str] | None = None):
        super().__init__("INR optimizer driver", args)

    # Each of these finds ours registered already when the package is installed; from a bare
    # checkout there is no entry point, and they are added here.

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


def main() -> None:
    InrOptMain().run()


if __name__ == "__main__":
    main()
