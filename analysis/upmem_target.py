"""The UPMEM machines that programs can be made for, read from `targets/upmem-*.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from ..errors import CompileError

Numbers = npt.NDArray[np.float64]
Transferred = Literal["index", "table", "output"]
MIB = 1 << 20


@dataclass(frozen=True)
class Piece:
    """A transfer of up to so many MiB takes `seconds + seconds_per_mib · MiB`."""

    up_to_mib: float
    seconds: float
    seconds_per_mib: float


@dataclass(frozen=True)
class Curve:
    """
    Seconds of a transfer by the MiB in all DPUs together. Either pieces, or a rate
    min(base + slope·MiB, cap) in MiB a second. `rank_mib_s` bounds the rate of one rank.
    """

    pieces: tuple[Piece, ...] = ()
    rate: tuple[float, float, float] | None = None
    rank_mib_s: float = inf

    def seconds(self, mib: npt.ArrayLike, ranks: npt.ArrayLike) -> Numbers:
        """Seconds for `mib` MiB, copies counted, in `ranks` ranks; both may be arrays."""
        size = np.asarray(mib, dtype=np.float64)
        if self.rate is not None:
            base, slope, cap = self.rate
            time = size / np.minimum(base + slope * size, cap)
        else:
            ends = np.array([piece.up_to_mib for piece in self.pieces])
            which = np.searchsorted(ends, size, side="left")
            fixed = np.array([piece.seconds for piece in self.pieces])
            each = np.array([piece.seconds_per_mib for piece in self.pieces])
            time = fixed[which] + each[which] * size
        return np.maximum(time, size / (self.rank_mib_s * np.asarray(ranks, dtype=np.float64)))


@dataclass(frozen=True)
class PublishedKernel:
    """Measured cycles of a tasklet for a row of a coarse sub-tile, by (c_l, f_l)."""

    tasklets: int
    cycles: dict[tuple[int, int], float]


@dataclass(frozen=True)
class UpmemTarget:
    """A machine: memories in bytes, times in cycles of a DPU unless they say seconds."""

    name: str
    description: str
    clock_mhz: float
    mram: int
    wram: int
    iram: int
    """Instructions."""
    tasklets: int
    """The most that a program can have."""
    dpus_per_rank: int
    """What a rank has when all its DPUs work; some do not."""
    ranks: int
    launch_seconds: float
    spacing: int
    """Cycles between two instructions of one tasklet."""
    read_latency: float
    write_latency: float
    latency_per_byte: float
    dma_request: float
    """The DMA engine's time for a request, without its bytes."""
    dma_per_byte: float
    curves: dict[str, Curve]
    host_macs_per_second: float
    host_weight_bytes_per_second: float
    published: PublishedKernel | None = None

    @property
    def dpus(self) -> int:
        """All DPUs, if all work."""
        return self.ranks * self.dpus_per_rank

    def seconds(self, cycles: Any) -> Any:
        """Seconds of so many cycles."""
        return cycles / (self.clock_mhz * 1e6)

    def transfer(self, what: Transferred, mib: npt.ArrayLike, ranks: npt.ArrayLike) -> Numbers:
        """
        Seconds to move `mib` MiB in all.

        Raises CompileError where the target says nothing about such transfers.
        """
        curve = self.curves.get(what)
        if curve is None:
            raise CompileError(
                f"target '{self.name}' has no cost of a transfer of kind '{what}'; "
                f"it has {', '.join(self.curves) or 'none'}"
            )
        return curve.seconds(mib, ranks)


DEFAULT_TARGET = "v1A"


def upmem_targets() -> tuple[str, ...]:
    """The names of the targets that come with the package."""
    folder = files("inr") / "targets"
    names = (entry.name for entry in folder.iterdir())
    found = (n.removeprefix("upmem-").removesuffix(".toml") for n in names if "upmem-" in n)
    return tuple(sorted(found))


@cache
def find_target(name: str) -> UpmemTarget:
    """
    A target by its name, or by the path of a file that ends in `.toml`.

    Raises CompileError for a name that is not known, with those that are, and for a file that
    cannot be read or lacks an entry, with the entry.
    """
    if name.endswith(".toml"):
        try:
            return parse_target(Path(name).stem, Path(name).read_text())
        except OSError as error:
            raise CompileError(f"target file '{name}': {error.strerror}") from error
    if name not in upmem_targets():
        raise CompileError(
            f"unknown UPMEM target '{name}'; known: {', '.join(upmem_targets())}, "
            "or the path of a .toml file"
        )
    return parse_target(name, (files("inr") / "targets" / f"upmem-{name}.toml").read_text())


def parse_target(name: str, text: str) -> UpmemTarget:
    """
    A target from the text of its file.

    Raises CompileError for text that is no TOML, a missing entry, or one that is not positive.
    """
    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CompileError(f"target '{name}': {error}") from error

    def value(path: str, kind: type = float, zero: bool = False) -> Any:
        found: Any = entries
        for key in path.split("."):
            found = cast(dict[str, Any], found).get(key) if isinstance(found, dict) else None
        if found is None:
            raise CompileError(f"target '{name}': no entry '{path}'")
        return _number(f"target '{name}': {path}", found, kind, zero)

    return UpmemTarget(
        name=name,
        description=str(entries.get("description", name)),
        clock_mhz=value("clock_mhz"),
        mram=value("mram", int),
        wram=value("wram", int),
        iram=value("iram", int),
        tasklets=value("tasklets", int),
        dpus_per_rank=value("dpus_per_rank", int),
        ranks=value("ranks", int),
        launch_seconds=value("launch_seconds"),
        spacing=value("pipeline.spacing", int),
        read_latency=value("dma.read_latency"),
        write_latency=value("dma.write_latency"),
        latency_per_byte=value("dma.latency_per_byte"),
        dma_request=value("dma.request"),
        dma_per_byte=value("dma.per_byte"),
        curves={
            kind: _curve(f"target '{name}': transfer.{kind}", entry)
            for kind, entry in entries.get("transfer", {}).items()
        },
        host_macs_per_second=value("host.macs_per_second"),
        host_weight_bytes_per_second=value("host.weight_bytes_per_second"),
        published=_published(entries),
    )


def _number(what: str, found: Any, kind: type, zero: bool = False) -> Any:
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise CompileError(f"{what} = {found!r}; a number is needed")
    if not (0 < found < inf or (zero and found == 0)) or kind(found) != found:
        needed = "whole" if kind is int else "finite"
        raise CompileError(f"{what} = {found}; a {needed} number above 0 is needed")
    return kind(found)


def _curve(what: str, entry: dict[str, Any]) -> Curve:
    rank = (
        _number(f"{what}.rank_mib_s", entry["rank_mib_s"], float) if "rank_mib_s" in entry else inf
    )
    if "rate" in entry:
        rate = entry["rate"]
        if missing := [key for key in ("base", "slope", "cap") if key not in rate]:
            raise CompileError(f"{what}.rate has no '{missing[0]}'")
        return Curve(
            rate=(
                _number(f"{what}.rate.base", rate["base"], float),
                _number(f"{what}.rate.slope", rate["slope"], float, zero=True),
                _number(f"{what}.rate.cap", rate["cap"], float),
            ),
            rank_mib_s=rank,
        )
    pieces: list[Piece] = []
    for piece in entry.get("pieces", []):
        for key in ("seconds", "seconds_per_mib"):
            if key not in piece:
                raise CompileError(f"{what}.pieces: one has no '{key}'")
        fixed = _number(f"{what}.seconds", piece["seconds"], float, zero=True)
        each = _number(f"{what}.seconds_per_mib", piece["seconds_per_mib"], float, zero=True)
        if fixed == 0 and each == 0:
            raise CompileError(f"{what}: a piece that costs nothing")
        pieces.append(Piece(float(piece.get("up_to_mib", inf)), fixed, each))
    ends = [piece.up_to_mib for piece in pieces]
    if not pieces or ends != sorted(set(ends)) or ends[-1] != inf:
        raise CompileError(
            f"{what} needs `rate`, or `pieces` of rising `up_to_mib` with a last one that has none"
        )
    return Curve(tuple(pieces), None, rank)


def _published(entries: dict[str, Any]) -> PublishedKernel | None:
    entry = entries.get("published_kernel", {}).get("coarse")
    if entry is None:
        return None
    cycles = {
        (int(c_l), int(f_l)): float(value)
        for c_l, row in entry["cycles"].items()
        for f_l, value in row.items()
    }
    return PublishedKernel(int(entry["tasklets"]), cycles)
