"""
Process networks: what the timing of a design depends on, and nothing else.

A process is a chain of *stages* in a fixed order. All reads and writes of one stage happen in
the same cycle, and a stage comes at least a given number of cycles after the one before it. A
FIFO joins one writer to one reader. When it passes its tokens depends on three rules, checked
against RTL that Vitis HLS generated:

* a stage comes at least `gap` cycles after the stage before it in its process;
* token n is read at least `Fifo.raw` cycles after it is written (1 out of shift registers, 2 out
  of a memory);
* token n is written at least 1 cycle after token n - depth is read.

Cycles are numbered from 1, so that the cycle of the last stage is the number of cycles of the run.
Time does not depend on data: one analysis holds for every input.

A *rigid* pipeline, one that stalls as a whole, is one chain whose stages read one token and write
the result of an earlier one. A *flushable* pipeline lets results go while it waits for input: it
is two chains joined by an internal FIFO that stands for the pipeline's registers.
`rigid_pipeline` and `flushable_pipeline` build them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import networkx as nx
import numpy as np
import numpy.typing as npt

from ..errors import CompileError
from .storage import fifo_storage

STORAGES = ("srl", "lutram", "bram", "uram")
"""What a FIFO can be made of: shift registers, or a memory of one of three kinds."""

WAR_DELAY = 1
"""Cycles from a read until the place it frees can be written."""


@dataclass(frozen=True)
class Segment:
    """
    `count` like stages in a row. Each reads one token of every FIFO in `reads` and writes one to
    every FIFO in `writes` (indices into `Network.fifos`). The first comes `first_gap` or more
    cycles after the stage before it, the others `gap` or more after each other; a segment
    without reads and writes only takes time.
    """

    count: int
    first_gap: int
    gap: int
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.count < 1 or self.first_gap < 1 or self.gap < 1:
            raise CompileError(f"a segment has at least one stage and gaps of at least 1: {self}")
        ends = (*self.reads, *self.writes)
        if len(set(ends)) < len(ends):
            raise CompileError(f"a stage uses a FIFO at most once: {self}")


@dataclass(frozen=True)
class Repeat:
    """A body that runs `times` times; its first gap also holds between one run and the next."""

    times: int
    body: tuple[Segment | Repeat, ...]

    def __post_init__(self) -> None:
        if self.times < 1 or not self.body:
            raise CompileError("a repetition has a body and runs at least once")


Body: TypeAlias = tuple[Segment | Repeat, ...]


@dataclass(frozen=True)
class Process:
    """A chain of stages; its first gap counts from cycle `start`."""

    name: str
    body: Body
    start: int = 0

    def __post_init__(self) -> None:
        if self.start < 0:
            raise CompileError(f"process '{self.name}' starts at cycle {self.start}")

    @cached_property
    def stages(self) -> int:
        """The number of stages, repetitions included."""
        return sum(times * segment.count for times, segment in _segments(self.body))

    @cached_property
    def reads(self) -> Mapping[int, int]:
        """Tokens read from each FIFO."""
        return _tokens(self.body, writes=False)

    @cached_property
    def writes(self) -> Mapping[int, int]:
        """Tokens written to each FIFO."""
        return _tokens(self.body, writes=True)


def _segments(body: Body, times: int = 1) -> Iterator[tuple[int, Segment]]:
    """Each segment of a body with the number of times it runs."""
    for part in body:
        if isinstance(part, Segment):
            yield times, part
        else:
            yield from _segments(part.body, times * part.times)


def _tokens(body: Body, writes: bool) -> Mapping[int, int]:
    tokens: Counter[int] = Counter()
    for times, segment in _segments(body):
        for fifo in segment.writes if writes else segment.reads:
            tokens[fifo] += times * segment.count
    return dict(tokens)


@dataclass(frozen=True)
class Fifo:
    """
    `depth` tokens of `width` bits; a depth of None is unbounded.

    `storage` None follows from depth and width by the rule of the synthesis tool. A `latency`
    makes it the registers of a pipeline inside a process: a token can be read `latency` cycles
    after it is written, the depth is given and not to be chosen, and it is no memory.
    """

    name: str
    width: int
    depth: int | None = None
    storage: str | None = None
    latency: int | None = None

    def __post_init__(self) -> None:
        if self.width < 1:
            raise CompileError(f"FIFO '{self.name}' has tokens of {self.width} bits")
        if self.storage is not None and self.storage not in STORAGES:
            raise CompileError(
                f"FIFO '{self.name}': storage '{self.storage}' is not one of {', '.join(STORAGES)}"
            )
        if self.depth is not None and self.depth < 1:
            raise CompileError(f"FIFO '{self.name}' holds at least one token, not {self.depth}")
        if self.internal and (self.depth is None or self.latency is None or self.latency < 1):
            raise CompileError(
                f"pipeline '{self.name}' has a depth and a latency of at least 1 cycle"
            )
        if self.depth == 1 and self.storage not in (None, "srl") and not self.internal:
            raise CompileError(
                f"FIFO '{self.name}': depth 1 in {self.storage} passes a token every third cycle; "
                "a memory needs depth 3 to pass one a cycle, and shift registers need 2"
            )

    @property
    def internal(self) -> bool:
        """True for the registers of a pipeline."""
        return self.latency is not None

    @property
    def storage_kind(self) -> str:
        """What it is made of; while unbounded and open, shift registers, which are fastest."""
        if self.storage is not None:
            return self.storage
        return "srl" if self.depth is None else fifo_storage(self.depth, self.width)

    @property
    def raw(self) -> int:
        """Cycles from a write until the token can be read."""
        if self.latency is not None:
            return self.latency
        return 1 if self.storage_kind == "srl" else 2


@dataclass(frozen=True)
class Network:
    """
    Processes joined by FIFOs.

    Raises CompileError for a FIFO without exactly one writer and one reader, for one whose
    writer and reader disagree on the number of tokens, and for a cycle of processes.
    """

    processes: tuple[Process, ...]
    fifos: tuple[Fifo, ...]

    def __post_init__(self) -> None:
        writers = _ends(self.fifos, [p.writes for p in self.processes], self.processes, "writer")
        readers = _ends(self.fifos, [p.reads for p in self.processes], self.processes, "reader")
        for index, fifo in enumerate(self.fifos):
            writer, reader = self.processes[writers[index]], self.processes[readers[index]]
            if writer.writes[index] != reader.reads[index]:
                raise CompileError(
                    f"FIFO '{fifo.name}': '{writer.name}' writes {writer.writes[index]} tokens "
                    f"and '{reader.name}' reads {reader.reads[index]}"
                )
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_edges_from(zip(writers, readers, strict=True))
        if nx.is_directed_acyclic_graph(graph):
            return
        cycle = next(iter(nx.simple_cycles(graph)))
        names = " -> ".join(f"'{self.processes[p].name}'" for p in [*cycle, cycle[0]])
        raise CompileError(
            f"the processes form a cycle: {names}; a stream cannot feed what it comes from"
        )

    @cached_property
    def writers(self) -> tuple[int, ...]:
        """The process that writes each FIFO."""
        ends = {f: p for p, process in enumerate(self.processes) for f in process.writes}
        return tuple(ends[f] for f in range(len(self.fifos)))

    @cached_property
    def readers(self) -> tuple[int, ...]:
        """The process that reads each FIFO."""
        ends = {f: p for p, process in enumerate(self.processes) for f in process.reads}
        return tuple(ends[f] for f in range(len(self.fifos)))

    @cached_property
    def tokens(self) -> npt.NDArray[np.int64]:
        """Tokens that pass each FIFO, shape (fifos,)."""
        passed = [self.processes[p].writes[f] for f, p in enumerate(self.writers)]
        return np.array(passed, dtype=np.int64)

    @property
    def events(self) -> int:
        """Reads and writes of one run."""
        return 2 * int(self.tokens.sum())

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Processes, each after all that it reads from."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(len(self.processes)))
        graph.add_edges_from(zip(self.writers, self.readers, strict=True))
        return tuple(cast(Iterable[int], nx.lexicographical_topological_sort(graph)))

    @property
    def depths(self) -> tuple[int | None, ...]:
        """The depth of each FIFO, None where it is unbounded."""
        return tuple(fifo.depth for fifo in self.fifos)

    def with_depths(self, depths: Sequence[int | None]) -> Network:
        """The same network at other depths; the depth of a pipeline's registers stays."""
        return replace(
            self,
            fifos=tuple(
                fifo if fifo.internal else replace(fifo, depth=depth)
                for fifo, depth in zip(self.fifos, depths, strict=True)
            ),
        )

    def with_starts(self) -> Network:
        """
        The same network with each process started one cycle after the last of those that it
        reads from, as a dataflow region without start propagation through its FIFOs does.
        """
        start = [0] * len(self.processes)
        for p in self.topological_order:
            sources = (self.writers[f] for f in self.processes[p].reads)
            start[p] = max((start[q] + 1 for q in sources), default=0)
        return replace(
            self,
            processes=tuple(
                replace(p, start=s) for p, s in zip(self.processes, start, strict=True)
            ),
        )

    def to_json(self) -> str:
        """
        The network as JSON: `fifos` with the number of tokens (`elements`) and the width of each,
        `processes` with `segments` of `[count, first_gap, gap, reads, writes]` or, for a
        repetition, `{"times": n, "segments": […]}`. What is None is left out.
        """
        fifos = [
            {"name": f.name, "elements": int(n), "width": f.width}
            | {k: v for k in ("depth", "storage", "latency") if (v := getattr(f, k)) is not None}
            for f, n in zip(self.fifos, self.tokens, strict=True)
        ]
        processes = [
            {"name": p.name, "start": p.start, "segments": [_part_to_json(s) for s in p.body]}
            for p in self.processes
        ]
        return json.dumps({"fifos": fifos, "processes": processes}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Network:
        """
        The network that `to_json` printed. Names may be missing: a FIFO is then `fifo_N`, and a
        process its `kind` and number. Raises CompileError for text that is no network.
        """
        try:
            data = json.loads(text)
            fifos = tuple(_fifo_from_json(n, f) for n, f in enumerate(data["fifos"]))
            processes = tuple(
                Process(
                    p.get("name", f"{p.get('kind', 'process')}_{n}"),
                    tuple(_part_from_json(s) for s in p["segments"]),
                    p.get("start", 0),
                )
                for n, p in enumerate(data["processes"])
            )
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise CompileError(f"not a process network in JSON: {e!r}") from e
        network = cls(processes, fifos)
        for fifo, entry, count in zip(fifos, data["fifos"], network.tokens, strict=True):
            if entry.get("elements", count) != count:
                raise CompileError(
                    f"FIFO '{fifo.name}' should pass {entry['elements']} tokens and passes {count}"
                )
        return network


def _ends(
    fifos: Sequence[Fifo],
    tokens: Sequence[Mapping[int, int]],
    processes: Sequence[Process],
    role: str,
) -> list[int]:
    """The one process with tokens for each FIFO."""
    found: list[list[int]] = [[] for _ in fifos]
    for p, used in enumerate(tokens):
        for f in used:
            if not 0 <= f < len(fifos):
                raise CompileError(f"process '{processes[p].name}' uses FIFO {f} of {len(fifos)}")
            found[f].append(p)
    for fifo, ends in zip(fifos, found, strict=True):
        if len(ends) != 1:
            names = ", ".join(f"'{processes[p].name}'" for p in ends) or "none"
            raise CompileError(f"FIFO '{fifo.name}' needs exactly one {role}, it has {names}")
    return [ends[0] for ends in found]


def _part_to_json(part: Segment | Repeat) -> object:
    if isinstance(part, Segment):
        return [part.count, part.first_gap, part.gap, [*part.reads], [*part.writes]]
    return {"times": part.times, "segments": [_part_to_json(p) for p in part.body]}


def _part_from_json(part: Any) -> Segment | Repeat:
    if isinstance(part, dict):
        body = cast(dict[str, Any], part)
        return Repeat(body["times"], tuple(_part_from_json(p) for p in body["segments"]))
    count, first_gap, gap, reads, writes = part
    return Segment(count, first_gap, gap, tuple(reads), tuple(writes))


def _fifo_from_json(number: int, entry: Mapping[str, Any]) -> Fifo:
    return Fifo(
        entry.get("name", f"fifo_{number}"),
        entry["width"],
        entry.get("depth"),
        entry.get("storage"),
        entry.get("latency"),
    )


def rigid_pipeline(
    name: str,
    count: int,
    latency: int,
    reads: tuple[int, ...],
    writes: tuple[int, ...],
    interval: int = 1,
    first_gap: int = 1,
) -> Process:
    """
    A pipeline that stalls as a whole: `count` iterations, one every `interval` cycles, each
    writing `latency` cycles after it reads. While it waits for input it keeps its results; at
    the end it runs dry.
    """
    held = min(-(-latency // interval), count)
    if held == 0:
        return Process(name, (Segment(count, first_gap, interval, reads, writes),))
    # The iteration that reads in a stage is `held` after the one that writes in it.
    lead = latency - (held - 1) * interval if held == count else interval
    body = [Segment(held, first_gap, interval, reads)]
    if count > held:
        body.append(Segment(count - held, interval, interval, reads, writes))
    body.append(Segment(held, max(lead, 1), interval, (), writes))
    return Process(name, tuple(body))


def flushable_pipeline(
    name: str,
    count: int,
    latency: int,
    reads: tuple[int, ...],
    writes: tuple[int, ...],
    registers: int,
    interval: int = 1,
    first_gap: int = 1,
) -> tuple[tuple[Process, Process], Fifo]:
    """
    A pipeline that lets its results go while it waits for input: the chain that reads, the chain
    that writes, and the internal FIFO between them, which must become FIFO number `registers`.

    It holds as many iterations as are under way at full speed.
    """
    latency = max(latency, 1)
    depth = -(-(latency + WAR_DELAY) // interval)
    head = Process(f"{name}.in", (Segment(count, first_gap, interval, reads, (registers,)),))
    tail = Process(f"{name}.out", (Segment(count, 1, interval, (registers,), writes),))
    return (head, tail), Fifo(f"{name}.pipeline", 1, depth=depth, latency=latency)
