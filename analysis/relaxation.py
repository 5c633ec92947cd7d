"""
The earliest schedule again after a few FIFOs became shallower, from the schedule before.

Less depth and more delay only ever move stages to later cycles, so the old schedule is a lower
bound of the new one, and the inequalities that changed can be repaired from there: a process whose
neighbour moved is gone through again from the first token that moved, and what it moves in turn
makes its own neighbours do the same. Most changes of a depth touch little or nothing, where a
run of the engine goes through every event.

A stage that comes later than it may for the network to end by its bound ends the repair at once,
usually long before the end of the run: that is how most bad depths show. A change that breaks the
bound is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .certificate import write_out
from .event_engine import Engine, Run, most_held
from .jit import compiled
from .network import Network

Ints: TypeAlias = npt.NDArray[np.integer[Any]]

_SEGMENT, _LOOP, _END = 0, 1, 2
_KIND, _COUNT, _FIRST, _GAP, _R0, _W0, _IO_END = range(7)

REPAIRED, BROKEN, EXHAUSTED = 0, 1, 2


@compiled
def _repair(
    code: Ints,
    ends: Ints,
    begin: Ints,
    start: Ints,
    own: Ints,  # FIFOs of each process, from own_begin[p] on: those it reads, then those it writes
    own_begin: Ints,
    own_write: Ints,
    writer: Ints,
    reader: Ints,
    depth: Ints,
    raw: Ints,
    base: Ints,
    written_at: Ints,
    read_at: Ints,
    latest_write: Ints,
    latest_read: Ints,
    moved: Ints,  # by FIFO: writes [0, 1) and reads [2, 3) that the other end has not seen
    saved: Ints,
    saved_written: Ints,
    saved_read: Ints,
    budget: int,
    done: Ints,
) -> int:
    processes = begin.size - 1
    fifos = depth.size
    loops = np.zeros(code.shape[0], np.int64)
    written = np.zeros(fifos, np.int64)
    read = np.zeros(fifos, np.int64)
    # Tokens that this pass of a process has to look at, by FIFO, and those it moves.
    low = np.zeros(fifos, np.int64)
    high = np.zeros(fifos, np.int64)
    queue = np.zeros(processes, np.int64)
    queued = np.zeros(processes, np.uint8)
    head = waiting = 0
    for f in range(fifos):
        if moved[f, 0] < moved[f, 1] and queued[reader[f]] == 0:
            queued[reader[f]] = 1
            queue[waiting] = reader[f]
            waiting += 1
        if moved[f, 2] < moved[f, 3] and queued[writer[f]] == 0:
            queued[writer[f]] = 1
            queue[waiting] = writer[f]
            waiting += 1
    work = 0
    while waiting > 0:
        p = queue[head]
        head = (head + 1) % processes
        waiting -= 1
        queued[p] = 0
        for i in range(own_begin[p], own_write[p]):
            f = own[i]
            read[f] = 0
            low[f], high[f] = moved[f, 0], moved[f, 1]
            moved[f, 0], moved[f, 1] = 1 << 60, 0
        for i in range(own_write[p], own_begin[p + 1]):
            f = own[i]
            written[f] = 0
            low[f], high[f] = moved[f, 2] + depth[f], moved[f, 3] + depth[f]
            if depth[f] == 0:
                high[f] = 0
            moved[f, 2], moved[f, 3] = 1 << 60, 0
        at = begin[p]
        t = start[p]
        later = False  # The stage before is later than it was.
        looped = False
        while True:
            kind = code[at, _KIND]
            if kind == _END:
                break
            if kind == _LOOP:
                looped = True
                loops[at] += 1
                if loops[at] < code[at, _COUNT]:
                    at = code[at, _FIRST]
                else:
                    loops[at] = 0
                    at += 1
                continue
            count = code[at, _COUNT]
            gap = code[at, _GAP]
            r0, w0, end = code[at, _R0], code[at, _W0], code[at, _IO_END]
            if r0 == end:
                t += code[at, _FIRST] + (count - 1) * gap
                at += 1
                continue
            k = 0
            while k < count:
                first, until = count, 0
                for i in range(r0, w0):
                    f = ends[i]
                    if read[f] < high[f] and read[f] + count - k > low[f]:
                        first = min(first, k + max(low[f] - read[f], 0))
                        until = max(until, k + high[f] - read[f])
                for i in range(w0, end):
                    f = ends[i]
                    if written[f] < high[f] and written[f] + count - k > low[f]:
                        first = min(first, k + max(low[f] - written[f], 0))
                        until = max(until, k + high[f] - written[f])
                if later:
                    first = k
                until = min(until, count)
                # Stages up to `first` stay where they are.
                for i in range(r0, w0):
                    read[ends[i]] += first - k
                for i in range(w0, end):
                    written[ends[i]] += first - k
                if first > k:
                    if w0 > r0:
                        f = ends[r0]
                        t = read_at[base[f] + read[f] - 1]
                    else:
                        f = ends[w0]
                        t = written_at[base[f] + written[f] - 1]
                k = first
                if k == count:
                    break
                k_begin = k
                move_begin, move_end = -1, -1
                while k < count:
                    j = k - k_begin
                    if w0 > r0:
                        f = ends[r0]
                        old = read_at[base[f] + read[f] + j]
                        limit = latest_read[base[f] + read[f] + j]
                    else:
                        f = ends[w0]
                        old = written_at[base[f] + written[f] + j]
                        limit = latest_write[base[f] + written[f] + j]
                    new = max(old, t + (gap if k else code[at, _FIRST]))
                    for i in range(r0, w0):
                        f = ends[i]
                        new = max(new, written_at[base[f] + read[f] + j] + raw[f])
                    for i in range(w0, end):
                        f = ends[i]
                        n = written[f] + j - depth[f]
                        if depth[f] > 0 and n >= 0:
                            new = max(new, read_at[base[f] + n] + 1)
                    t = new
                    later = new > old
                    if later:
                        if new > limit:
                            done[0] += work + k - k_begin
                            return BROKEN
                        if move_begin < 0:
                            move_begin = j
                            for i in range(r0, end):
                                f = ends[i]
                                side = 1 if i < w0 else 0
                                if saved[f, side] == 0:
                                    saved[f, side] = 1
                                    if side:
                                        for n in range(base[f], base[f + 1]):
                                            saved_read[n] = read_at[n]
                                    else:
                                        for n in range(base[f], base[f + 1]):
                                            saved_written[n] = written_at[n]
                        move_end = j + 1
                        for i in range(r0, w0):
                            f = ends[i]
                            read_at[base[f] + read[f] + j] = new
                        for i in range(w0, end):
                            f = ends[i]
                            written_at[base[f] + written[f] + j] = new
                    k += 1
                    if not later and k >= until:
                        break
                work += k - k_begin
                for i in range(r0, w0):
                    f = ends[i]
                    if move_begin >= 0 and depth[f] > 0:
                        moved[f, 2] = min(moved[f, 2], read[f] + move_begin)
                        moved[f, 3] = max(moved[f, 3], read[f] + move_end)
                        q = writer[f]
                        if queued[q] == 0:
                            queued[q] = 1
                            queue[(head + waiting) % processes] = q
                            waiting += 1
                    read[f] += k - k_begin
                for i in range(w0, end):
                    f = ends[i]
                    if move_begin >= 0:
                        moved[f, 0] = min(moved[f, 0], written[f] + move_begin)
                        moved[f, 1] = max(moved[f, 1], written[f] + move_end)
                        q = reader[f]
                        if queued[q] == 0:
                            queued[q] = 1
                            queue[(head + waiting) % processes] = q
                            waiting += 1
                    written[f] += k - k_begin
            at += 1
            if later:
                continue
            open_ = False
            for i in range(own_begin[p], own_write[p]):
                if read[own[i]] < high[own[i]]:
                    open_ = True
            for i in range(own_write[p], own_begin[p + 1]):
                if written[own[i]] < high[own[i]]:
                    open_ = True
            if not open_:
                break
        if looped:
            for i in range(begin[p], begin[p + 1]):
                loops[i] = 0
        if work > budget:
            done[0] += work
            return EXHAUSTED
    done[0] += work
    return REPAIRED


def latest(network: Network, bound: int, raw: Ints) -> tuple[Ints, Ints, Ints]:
    """
    The last cycle in which each token can be written and read when everything has to end by
    `bound` and no FIFO is ever full, as two arrays of all tokens in the order of the FIFOs; and
    how far each process can then fall behind its own gaps, shape (processes,).
    """
    tokens = network.tokens
    base = np.concatenate(([0], np.cumsum(tokens)))
    latest_write = np.full(base[-1], bound, dtype=np.int64)
    latest_read = np.full(base[-1], bound, dtype=np.int64)
    lateness = np.full(len(network.processes), bound, dtype=np.int64)
    for p in reversed(network.topological_order):
        stages = write_out(network.processes[p].body)
        cycle = np.full(len(stages.gaps), bound, dtype=np.int64)
        for f, at in stages.writes.items():
            cycle[at] = np.minimum(cycle[at], latest_read[base[f] : base[f + 1]] - raw[f])
        # Every stage leaves time for the gaps up to each later stage.
        elapsed = np.cumsum(stages.gaps)
        cycle = np.minimum.accumulate((cycle - elapsed)[::-1])[::-1] + elapsed
        for f, at in stages.writes.items():
            latest_write[base[f] : base[f + 1]] = cycle[at]
        for f, at in stages.reads.items():
            latest_read[base[f] : base[f + 1]] = cycle[at]
        if len(cycle):
            lateness[p] = cycle[-1] - elapsed[-1]
    return latest_write, latest_read, lateness


class Relaxation:
    """
    The earliest schedule of a network, kept up to date while FIFOs become shallower or slower.

    Starts from `depth` (0 is unbounded) and `raw`, at which the network must not deadlock and must
    end by `bound`; raises ValueError otherwise. `evaluations` counts calls of `tighten`, and
    `lateness` says how far each process can fall behind its own gaps and end by `bound`.
    """

    def __init__(self, engine: Engine, depth: Ints, raw: Ints, bound: int):
        network = engine.network
        self.engine, self.bound, self.evaluations = engine, bound, 0
        self.proven_broken = False
        self.depth, self.raw = depth.astype(np.int64), raw.astype(np.int64)
        everything = range(len(network.fifos))
        self.base = np.concatenate(([0], np.cumsum(network.tokens)))
        self._load(engine.run_arrays(self.depth, self.raw, bound, everything))
        last_write, last_read, self.lateness = latest(network, bound, self.raw)
        self._latest = last_write.astype(self.written.dtype), last_read.astype(self.read.dtype)
        self._saved = np.empty_like(self.written), np.empty_like(self.read)
        own = [[*process.reads, *process.writes] for process in network.processes]
        self._own = np.array([f for ends in own for f in ends], dtype=np.int64)
        self._own_begin = np.concatenate(([0], np.cumsum([len(ends) for ends in own])))
        reads = np.array([len(p.reads) for p in network.processes], dtype=np.int64)
        self._own_write = self._own_begin[:-1] + reads
        self._writer = np.array(network.writers, dtype=np.int64)
        self._reader = np.array(network.readers, dtype=np.int64)
        self.work = np.zeros(1, dtype=np.int64)

    def _load(self, run: Run) -> None:
        if run.latency is None:
            raise ValueError("the network does not end by its bound")
        everything = range(len(self.depth))
        self.written = np.concatenate([run.written_at[f] for f in everything])
        self.read = np.concatenate([run.read_at[f] for f in everything])

    def tighten(
        self, changes: Mapping[int, tuple[int, int]], keep: bool = True, budget: int | None = None
    ) -> bool:
        """
        Give FIFOs a depth and a delay, no deeper and no faster than before. False, and nothing
        has changed, when the network then deadlocks or ends after the bound.

        Without `keep` nothing changes either way. A `budget` of stages gives up after so many
        and then answers False, also where `proven_broken` is False.
        """
        self.evaluations += 1
        before = self.depth.copy(), self.raw.copy()
        moved = np.zeros((len(self.depth), 4), dtype=np.int64)
        moved[:, ::2] = 1 << 60
        for f, (depth, raw) in changes.items():
            tokens = self.base[f + 1] - self.base[f]
            if depth != self.depth[f]:
                moved[f, 2:] = 0, max(tokens - depth, 0)
            if raw != self.raw[f]:
                moved[f, :2] = 0, tokens
            self.depth[f], self.raw[f] = depth, raw
        saved = np.zeros((len(self.depth), 2), dtype=np.uint8)
        program = self.engine.program
        outcome = _repair(
            program.code,
            program.ends,
            program.begin,
            program.start,
            self._own,
            self._own_begin,
            self._own_write,
            self._writer,
            self._reader,
            self.depth,
            self.raw,
            self.base,
            self.written,
            self.read,
            *self._latest,
            moved,
            saved,
            *self._saved,
            self.engine.network.events // 2 if budget is None else budget,
            self.work,
        )
        self.proven_broken = outcome == BROKEN
        if outcome == REPAIRED and keep:
            return True
        for f, side in np.argwhere(saved):
            piece = slice(self.base[f], self.base[f + 1])
            (self.written, self.read)[side][piece] = self._saved[side][piece]
        run = None
        if outcome == EXHAUSTED and budget is None:
            everything = range(len(self.depth)) if keep else ()
            run = self.engine.run_arrays(
                self.depth, self.raw, self.bound, everything, self.lateness
            )
            if run.latency is not None and keep:
                self._load(run)
                return True
            self.proven_broken = run.latency is None
        self.depth, self.raw = before
        return outcome == REPAIRED or (run is not None and run.latency is not None)

    def adopt(self, depths: Mapping[int, int]) -> None:
        """Give FIFOs depths that hold all that they hold in the schedule, which stays."""
        for f, depth in depths.items():
            self.depth[f] = depth

    def extend(self, bound: int) -> None:
        """Allow the network to end later, by `bound`."""
        for last in (*self._latest, self.lateness):
            last += bound - self.bound
        self.bound = bound

    def state(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Depths, delays and schedule, for `restore`."""
        return self.depth.copy(), self.raw.copy(), self.written.copy(), self.read.copy()

    def restore(self, state: tuple[Ints, Ints, Ints, Ints]) -> None:
        """Go back to a state of the same bound, or of an earlier one."""
        self.depth, self.raw, self.written, self.read = (part.copy() for part in state)

    def occupancy(self, fifo: int) -> int:
        """Most tokens that a FIFO holds in the schedule; see `Run.occupancy`."""
        piece = slice(self.base[fifo], self.base[fifo + 1])
        return most_held(self.written[piece], self.read[piece])
