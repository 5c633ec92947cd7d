"""What ships with the output, and the drivers that build, run and compare it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .deployment import UpmemOptions, deploy

__all__ = ["UpmemOptions", "deploy"]


def __getattr__(name: str) -> Any:
    # On use: `deploy` needs torch, and most of this package does not.
    if name in __all__:
        from . import deployment

        return getattr(deployment, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
