"""
The cycle in which everything happens: the earliest schedule of a process network.

Self-timed execution is the least solution of the inequalities in `network`. The engine
finds it without a graph of events: a process advances through its stages in bulk as far as the
tokens and the space that are known to it reach, then the neighbours that waited for it
do. The order does not matter, because a stage's cycle is the maximum of cycles that no longer
change. When no process can advance and one has not finished, the network deadlocks, and
always does.

Memory is a ring of cycles for every FIFO, its depth at most; an unbounded FIFO and one whose cycles
are asked for keep all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import CompileError
from .jit import compiled
from .network import Body, Network, Segment

Ints: TypeAlias = npt.NDArray[np.integer[Any]]

_SEGMENT, _LOOP, _END = 0, 1, 2
_KIND, _COUNT, _FIRST, _GAP, _R0, _W0, _IO_END = range(7)
_TARGET = _FIRST
"""Columns of an instruction; the end of a loop keeps its first instruction in `_TARGET`."""

FINISHED, DEADLOCKED, EXCEEDED = 0, 1, 2

_RING = 256
"""Least cycles kept of a FIFO: longer rings are cut less often by their end."""


@dataclass(frozen=True)
class Program:
    """The stages of all processes as instructions, repetitions as loops."""

    code: npt.NDArray[np.int64]
    """Shape (instructions, 7)."""
    ends: npt.NDArray[np.int64]
    """FIFO indices that instructions refer to."""
    begin: npt.NDArray[np.int64]
    """First instruction of each process, and one past the last."""
    start: npt.NDArray[np.int64]
    """First cycle of each process, less 1."""
    horizon: int
    """No run that finishes takes longer: all gaps of all processes plus all delays."""


def assemble(network: Network) -> Program:
    """The instructions of a network's processes."""
    code: list[tuple[int, ...]] = []
    ends: list[int] = []
    begin = [0]
    for process in network.processes:
        _assemble_body(process.body, code, ends)
        code.append((_END, 0, 0, 0, 0, 0, 0))
        begin.append(len(code))
    slowest = max((fifo.raw for fifo in network.fifos), default=0) + 1
    horizon = sum(p.start + _longest(p.body) for p in network.processes)
    horizon += (slowest + 1) * network.events + 1
    return Program(
        np.array(code, dtype=np.int64).reshape(-1, 7),
        np.array(ends, dtype=np.int64),
        np.array(begin, dtype=np.int64),
        np.array([p.start for p in network.processes], dtype=np.int64),
        horizon,
    )


def _assemble_body(body: Body, code: list[tuple[int, ...]], ends: list[int]) -> None:
    for part in body:
        if isinstance(part, Segment):
            reads = len(ends)
            writes = reads + len(part.reads)
            ends.extend((*part.reads, *part.writes))
            row = (_SEGMENT, part.count, part.first_gap, part.gap, reads, writes, len(ends))
            code.append(row)
            continue
        target = len(code)
        _assemble_body(part.body, code, ends)
        code.append((_LOOP, part.times, target, 0, 0, 0, 0))


def _longest(body: Body) -> int:
    """Cycles of a body that never waits."""
    return sum(
        part.first_gap + (part.count - 1) * part.gap
        if isinstance(part, Segment)
        else part.times * _longest(part.body)
        for part in body
    )


@compiled
def _run(
    code: Ints,
    ends: Ints,
    begin: Ints,
    depth: Ints,  # 0 is unbounded
    raw: Ints,
    base: Ints,
    mask: Ints,
    written_at: Ints,
    read_at: Ints,
    bound: int,
    lateness: Ints,  # of each process: most cycles behind its gaps with which it ends by the bound
    pc: Ints,
    stage: Ints,
    loops: Ints,
    last: Ints,
    written: Ints,
    read: Ints,
) -> int:
    processes = begin.size - 1
    queue = np.arange(processes)
    queued = np.ones(processes, np.uint8)
    head, waiting = 0, processes
    reader_waits = np.full(depth.size, -1, np.int64)
    writer_waits = np.full(depth.size, -1, np.int64)
    # Of every FIFO of a stage: where its token is, where the one whose place it takes is, and
    # the first stage of the piece that takes the place of another token.
    place = np.empty(ends.size, np.int64)
    freed_place = np.empty(ends.size, np.int64)
    first_bound = np.empty(ends.size, np.int64)
    elapsed = np.zeros(processes, np.int64)
    unfinished = processes
    while waiting > 0:
        p = queue[head]
        head += 1
        if head == processes:
            head = 0
        waiting -= 1
        queued[p] = 0
        at = pc[p]
        k = stage[p]
        t = last[p]
        while True:
            kind = code[at, _KIND]
            if kind == _END:
                unfinished -= 1
                break
            if kind == _LOOP:
                loops[at] += 1
                if loops[at] < code[at, _COUNT]:
                    at = code[at, _TARGET]
                else:
                    loops[at] = 0
                    at += 1
                continue
            count = code[at, _COUNT]
            r0, w0, end = code[at, _R0], code[at, _W0], code[at, _IO_END]
            m = count - k
            for i in range(r0, w0):
                f = ends[i]
                m = min(m, written[f] - read[f], mask[f] + 1 - (read[f] & mask[f]))
            for i in range(w0, end):
                f = ends[i]
                m = min(m, mask[f] + 1 - (written[f] & mask[f]))
                if depth[f] > 0:
                    m = min(m, read[f] + depth[f] - written[f])
                    freed = written[f] - depth[f]
                    m = min(m, mask[f] + 1 - (freed & mask[f]))
            if m <= 0:
                for i in range(r0, w0):
                    f = ends[i]
                    if written[f] == read[f]:
                        reader_waits[f] = p
                for i in range(w0, end):
                    f = ends[i]
                    if depth[f] > 0 and written[f] - read[f] == depth[f]:
                        writer_waits[f] = p
                break
            gap = code[at, _GAP]
            # One gap late or early: the loops below add the same gap to every stage.
            if k == 0:
                t += code[at, _FIRST] - gap
                elapsed[p] += code[at, _FIRST] - gap
            elapsed[p] += m * gap
            if w0 - r0 == 1 and end == w0:
                f = ends[r0]
                x = base[f] + (read[f] & mask[f])
                delay = raw[f]
                for j in range(x, x + m):
                    t = max(t + gap, written_at[j] + delay)
                    read_at[j] = t
            elif w0 == r0 and end - w0 == 1:
                f = ends[w0]
                x = base[f] + (written[f] & mask[f])
                z = base[f] + ((written[f] - depth[f]) & mask[f])
                free = m
                if depth[f] > 0:
                    free = min(m, max(depth[f] - written[f], 0))
                for j in range(free):
                    t += gap
                    written_at[x + j] = t
                for j in range(free, m):
                    t = max(t + gap, read_at[z + j] + 1)
                    written_at[x + j] = t
            elif w0 - r0 == 1 and end - w0 == 1:
                f, o = ends[r0], ends[w0]
                x = base[f] + (read[f] & mask[f])
                y = base[o] + (written[o] & mask[o])
                delay = raw[f]
                free = m
                if depth[o] > 0:
                    free = min(m, max(depth[o] - written[o], 0))
                for j in range(free):
                    t = max(t + gap, written_at[x + j] + delay)
                    read_at[x + j] = t
                    written_at[y + j] = t
                z = base[o] + ((written[o] - depth[o]) & mask[o])
                for j in range(free, m):
                    t = max(t + gap, written_at[x + j] + delay, read_at[z + j] + 1)
                    read_at[x + j] = t
                    written_at[y + j] = t
            else:
                for i in range(r0, w0):
                    place[i - r0] = base[ends[i]] + (read[ends[i]] & mask[ends[i]])
                for i in range(w0, end):
                    f = ends[i]
                    place[i - r0] = base[f] + (written[f] & mask[f])
                    freed_place[i - r0] = base[f] + ((written[f] - depth[f]) & mask[f])
                    first_bound[i - r0] = m
                    if depth[f] > 0:
                        first_bound[i - r0] = depth[f] - written[f]
                for j in range(m):
                    t += gap
                    for i in range(w0 - r0):
                        t = max(t, written_at[place[i] + j] + raw[ends[r0 + i]])
                    for i in range(w0 - r0, end - r0):
                        if j >= first_bound[i]:
                            t = max(t, read_at[freed_place[i] + j] + 1)
                    for i in range(w0 - r0):
                        read_at[place[i] + j] = t
                    for i in range(w0 - r0, end - r0):
                        written_at[place[i] + j] = t
            for i in range(r0, w0):
                f = ends[i]
                read[f] += m
                q = writer_waits[f]
                if q >= 0:
                    writer_waits[f] = -1
                    if queued[q] == 0:
                        queued[q] = 1
                        queue[(head + waiting) % processes] = q
                        waiting += 1
            for i in range(w0, end):
                f = ends[i]
                written[f] += m
                q = reader_waits[f]
                if q >= 0:
                    reader_waits[f] = -1
                    if queued[q] == 0:
                        queued[q] = 1
                        queue[(head + waiting) % processes] = q
                        waiting += 1
            k += m
            if k == count:
                k = 0
                at += 1
            if bound > 0 and (t > bound or t - elapsed[p] > lateness[p]):
                pc[p], stage[p], last[p] = at, k, t
                return EXCEEDED
        pc[p], stage[p], last[p] = at, k, t
    return FINISHED if unfinished == 0 else DEADLOCKED


@compiled
def most_held(written_at: Ints, read_at: Ints) -> int:
    """Most tokens in a FIFO: at a write, those written and not read in an earlier cycle."""
    most = done = 0
    for k in range(written_at.size):
        while done < k and read_at[done] < written_at[k]:
            done += 1
        most = max(most, k + 1 - done)
    return most


@dataclass(frozen=True)
class Wait:
    """A process that waits for another over a FIFO: to write a full one or read an empty one."""

    process: int
    fifo: int
    full: bool
    other: int


@dataclass(frozen=True)
class Deadlock:
    """Processes that wait for each other in a cycle, each for the next."""

    cycle: tuple[Wait, ...]

    @property
    def full(self) -> tuple[int, ...]:
        """The full FIFOs of the cycle: it goes away when one of them grows enough."""
        return tuple(wait.fifo for wait in self.cycle if wait.full)

    def describe(self, network: Network, depths: Sequence[int | None]) -> str:
        """One line an element of the cycle, in the words of the network."""
        lines: list[str] = []
        for wait in self.cycle:
            name = network.processes[wait.process].name
            other = network.processes[wait.other].name
            fifo = network.fifos[wait.fifo].name
            lines.append(
                f"  '{name}' waits to write '{fifo}', full at depth {depths[wait.fifo]}, "
                f"until '{other}' reads it"
                if wait.full
                else f"  '{name}' waits to read '{fifo}', empty, until '{other}' writes it"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Run:
    """
    What a run came to. `latency` is the cycle of the last stage, None when the run deadlocked
    or went beyond its bound. `written_at` and `read_at` hold, for every recorded FIFO, the
    cycle in which each token was written and read.
    """

    latency: int | None
    deadlock: Deadlock | None
    written_at: Mapping[int, Ints]
    read_at: Mapping[int, Ints]

    def occupancy(self, fifo: int) -> int:
        """
        Most tokens that a recorded FIFO held: at every write, those written and not read in an
        earlier cycle. At this depth no write of the same run waits.
        """
        return int(most_held(self.written_at[fifo], self.read_at[fifo]))


class Engine:
    """Runs one network at any depths; the network's own are the default."""

    def __init__(self, network: Network):
        self.network = network
        self.program = assemble(network)
        # A process without stages takes part in nothing, also not in the latency.
        self._works = np.array([p.stages > 0 for p in network.processes], dtype=np.bool_)
        # 32 bits where no cycle can overflow them: half the memory traffic.
        fits = self.program.horizon < 2**31
        self._dtype: type[np.int32 | np.int64] = np.int32 if fits else np.int64

    def run(
        self,
        depths: Sequence[int | None] | None = None,
        bound: int | None = None,
        record: Collection[int] = (),
        raw: Sequence[int] | None = None,
    ) -> Run:
        """
        The earliest schedule at `depths` (None in it: unbounded), given up once a stage comes
        after cycle `bound`. `raw` overrides the delay from write to read of every FIFO, which
        otherwise follows from its depth and storage.
        """
        network = self.network
        sized = network if depths is None else network.with_depths(depths)
        delays = np.array([f.raw for f in sized.fifos] if raw is None else raw, dtype=np.int64)
        return self.run_arrays(
            np.array([d or 0 for d in sized.depths], dtype=np.int64), delays, bound, record
        )

    def run_arrays(
        self,
        depth: Ints,
        raw: Ints,
        bound: int | None = None,
        record: Collection[int] = (),
        lateness: Ints | None = None,
    ) -> Run:
        """
        `run` without any check, for many runs: depths (0 is unbounded) and delays by FIFO.

        `lateness` of each process, shape (processes,), may say how far it can fall behind its
        own gaps and still end in time; it lets a run that goes beyond its bound end early.
        """
        network, program = self.network, self.program
        tokens = network.tokens
        kept = np.where(depth > 0, np.minimum(depth, tokens), tokens)
        kept[list(record)] = tokens[list(record)]
        size = 2 ** np.ceil(np.log2(np.maximum(kept, _RING))).astype(np.int64)
        base = np.concatenate(([0], np.cumsum(size)))
        written_at = np.empty(base[-1], dtype=self._dtype)
        read_at = np.empty(base[-1], dtype=self._dtype)
        processes = len(network.processes)
        pc, stage = program.begin[:-1].copy(), np.zeros(processes, dtype=np.int64)
        last = program.start.copy()
        written = np.zeros(len(network.fifos), dtype=np.int64)
        read = np.zeros(len(network.fifos), dtype=np.int64)
        outcome = _run(
            program.code,
            program.ends,
            program.begin,
            depth,
            raw,
            base[:-1],
            size - 1,
            written_at,
            read_at,
            bound or 0,
            np.full(processes, program.horizon) if lateness is None else lateness,
            pc,
            stage,
            np.zeros(len(program.code), dtype=np.int64),
            last,
            written,
            read,
        )
        deadlock = None
        if outcome == DEADLOCKED:
            deadlock = self._wait_for_cycle(depth, pc, written, read)
        return Run(
            int(last[self._works].max(initial=0)) if outcome == FINISHED else None,
            deadlock,
            {f: written_at[base[f] : base[f] + written[f]] for f in record},
            {f: read_at[base[f] : base[f] + read[f]] for f in record},
        )

    def _wait_for_cycle(self, depth: Ints, pc: Ints, written: Ints, read: Ints) -> Deadlock:
        """The first cycle that following each process's first reason to wait leads to."""
        network, program = self.network, self.program
        waits: dict[int, Wait] = {}
        for p in range(len(network.processes)):
            kind, _, _, _, r0, w0, end = (int(x) for x in program.code[pc[p]])
            if kind == _END:
                continue
            reasons = [
                Wait(p, f, False, network.writers[f])
                for f in map(int, program.ends[r0:w0])
                if written[f] == read[f]
            ]
            reasons += [
                Wait(p, f, True, network.readers[f])
                for f in map(int, program.ends[w0:end])
                if depth[f] and written[f] - read[f] == depth[f]
            ]
            waits[p] = reasons[0]
        path: list[int] = [next(iter(waits))]
        while (other := waits[path[-1]].other) not in path:
            path.append(other)
        return Deadlock(tuple(waits[p] for p in path[path.index(other) :]))


def unbounded(network: Network) -> list[int | None]:
    """Depths that bound nothing but the registers of pipelines."""
    return [fifo.depth if fifo.internal else None for fifo in network.fifos]


def latency(network: Network, depths: Sequence[int | None] | None = None) -> int:
    """
    Cycles of a run at `depths`, or at the network's own. Raises CompileError, with the
    cycle of processes that wait for each other, when it deadlocks.
    """
    run = Engine(network).run(depths)
    if run.latency is not None:
        return run.latency
    assert run.deadlock is not None
    used = network.depths if depths is None else depths
    raise CompileError(
        "these FIFO depths deadlock:\n"
        f"{run.deadlock.describe(network, used)}\n"
        "a deeper FIFO among the full ones resolves it"
    )
