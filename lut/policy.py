"""Which layers of a model become tables, and how."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, cast

from ..analysis.lut_codebooks import Fit, LutSettings
from ..analysis.lut_cost import Choice
from ..errors import CompileError
from .sites import Site

Patterns = str | Sequence[str]

Converted = LutSettings | Literal["int8"]
"""What a layer becomes: tables of these settings, or a product of bytes."""

_FIELDS = {f.name for f in fields(LutSettings)}


class LutWarning(UserWarning):
    """Something about a conversion that its user should know before anybody else finds out."""


@dataclass(frozen=True)
class Policy:
    """
    The same settings for every selected layer, but for `overrides`.

    `include` and `exclude` are regular expressions (one, or several) searched for in the layers'
    names: `"attention"` selects every layer with that in its name, `r"^encoder\\.layers\\.0\\."`
    the first block. `overrides` maps such a pattern to settings that differ (`{"fc2": {"vec":
    2}}`), to "int8" for layers that become products of bytes (`Int8Linear`), or to None for layers
    that stay as they are; where several match, later ones win.

    Raises CompileError for settings out of range and patterns that are none.
    """

    vec: int = 4
    centroids: int = 16
    bits: int = 8
    fit: Fit = "refit"
    weighted: bool = False
    residual: int | None = None
    include: Patterns = ".*"
    exclude: Patterns = ()
    seed: int = 0
    overrides: Mapping[str, Mapping[str, Any] | Literal["int8"] | None] = field(
        default_factory=dict
    )
    holdout: float = 0.2

    def __post_init__(self) -> None:
        base = self.settings
        for pattern, changes in self.overrides.items():
            compiled(pattern)
            if changes is None or changes == "int8":
                continue
            if isinstance(changes, str):
                raise CompileError(
                    f"override {pattern!r}: {changes!r}; settings, 'int8', or None for a layer as "
                    "it is"
                )
            if unknown := sorted(set(changes) - _FIELDS):
                raise CompileError(
                    f"override {pattern!r}: no setting is named {', '.join(unknown)}; there are "
                    f"{', '.join(sorted(_FIELDS))}"
                )
            replace(base, **changes)
        for pattern in (*listed(self.include), *listed(self.exclude)):
            compiled(pattern)

    @property
    def settings(self) -> LutSettings:
        """The settings of a layer without overrides."""
        return LutSettings(
            self.vec,
            self.centroids,
            self.bits,
            self.fit,
            self.weighted,
            self.residual,
            self.seed,
            self.holdout,
        )

    def settings_of(self, name: str) -> Choice:
        """The settings of a selected layer, "int8", or None if it stays as it is."""
        settings = self.settings
        otherwise: Literal["int8"] | None = None
        tables = True
        for pattern, changes in self.overrides.items():
            if not compiled(pattern).search(name):
                continue
            if tables := isinstance(changes, Mapping):
                settings = replace(settings, **changes)
            else:
                otherwise = cast("Literal['int8'] | None", changes)
        return settings if tables else otherwise

    def choose(self, sites: Sequence[Site]) -> dict[str, Converted]:
        """What each layer that is converted becomes; CompileError if there is none."""
        chosen: dict[str, Converted] = {
            site.name: settings
            for site in select(sites, self.include, self.exclude)
            if (settings := self.settings_of(site.name)) is not None
        }
        if not chosen:
            raise CompileError("the policy's overrides leave every selected layer as it is")
        return chosen


CHOICES = (
    LutSettings(vec=2, centroids=16),
    LutSettings(vec=2, centroids=64),
    LutSettings(vec=4, centroids=16),
    LutSettings(vec=4, centroids=64),
    LutSettings(vec=4, centroids=256),
)
"""What `Auto` chooses from for each layer, besides leaving it as it is."""


@dataclass(frozen=True)
class Auto:
    """
    For each layer one of `choices` (settings, or "int8" for a product of bytes) or the layer as it
    is, by an exact knapsack: the least cost
    with an error of at most `error`, or the least error with a cost of at most `cost`. One of the
    two is given.

    The error is ‖y - ŷ‖²/‖y‖² of the model's output, or what `metric(output, reference_output)`
    says (a number, 0 for equal). It is taken as the sum of the layers' shares, as small errors
    that know nothing of each other add up. A layer's share is the model's error with this layer
    alone converted, measured on calibration batches that its tables are not fitted to.
    `sensitivity` says how often: "measured" for every choice; "proxy" once a layer, with the choice
    of middle error, and in proportion to the layer's own held-out error for the others.

    Costs are seconds by `layer_cost(rows, H, F, choice)`, `choice` being LutSettings, "int8", or
    None for the layer as it is; by default those of `analysis.lut_cost`. `cost` may be a policy or
    settings: what converting every selected layer so would cost. `rows` is the number of rows that
    the model is run on at once.
    """

    choices: Sequence[Converted] = CHOICES
    error: float | None = None
    cost: float | Policy | LutSettings | None = None
    rows: int = 4096
    include: Patterns = ".*"
    exclude: Patterns = ()
    sensitivity: Literal["proxy", "measured"] = "proxy"
    metric: Callable[[Any, Any], float] | None = None
    layer_cost: Callable[[int, int, int, Choice], float] | None = None
    holdout: float = 0.2
    """The share of calibration batches that sensitivities are measured on."""
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.error is None) == (self.cost is None):
            raise CompileError("an automatic policy needs a budget: either error= or cost=")
        if not self.choices:
            raise CompileError("an automatic policy without choices")
        for choice in self.choices:
            if choice != "int8" and not isinstance(choice, LutSettings):
                raise CompileError(f"a choice of {choice!r}; settings of tables, or 'int8'")
        if self.error is not None and not self.error > 0:
            raise CompileError(f"an error budget of {self.error}; more than 0")
        if self.sensitivity not in ("proxy", "measured"):
            raise CompileError(f"sensitivity {self.sensitivity!r}; 'proxy' or 'measured'")
        for pattern in (*listed(self.include), *listed(self.exclude)):
            compiled(pattern)


def select(sites: Sequence[Site], include: Patterns, exclude: Patterns) -> list[Site]:
    """
    The sites whose names match. A layer whose weight is an embedding's table is left out with a
    warning: tables would stand beside that table, not in its place.

    Raises CompileError when nothing is left.
    """
    if not sites:
        raise CompileError(
            "the model has no linear layer (nn.Linear, nn.MultiheadAttention, Conv1D)"
        )
    within = [compiled(p) for p in listed(include)]
    without = [compiled(p) for p in listed(exclude)]
    found = [
        site
        for site in sites
        if any(p.search(site.name) for p in within)
        and not any(p.search(site.name) for p in without)
    ]
    for site in found:
        if site.tied_to is not None:
            warnings.warn(
                f"{site.name} stays as it is: its weight is the embedding {site.tied_to}",
                LutWarning,
                stacklevel=3,
            )
    kept = [site for site in found if site.tied_to is None]
    if not kept:
        names = ", ".join(site.name for site in sites[:8]) + (", ..." if len(sites) > 8 else "")
        why = " but layers tied to an embedding" if found else ""
        raise CompileError(
            f"the policy selects no layer{why}: include {include!r}, exclude {exclude!r}; the "
            f"model has {names}"
        )
    return kept


def listed(patterns: Patterns) -> Sequence[str]:
    """Patterns as a sequence."""
    return (patterns,) if isinstance(patterns, str) else patterns


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of layer names; CompileError for one that is none."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise CompileError(f"pattern {pattern!r} of layer names: {error}") from error
