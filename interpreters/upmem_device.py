"""
The meaning of a kernel, tasklet by tasklet, and what it must not do.

A tasklet runs until its next barrier, then the next one does, in an order that a seed shuffles.
Every byte remembers whether it has been defined and who touched it since the last barrier: what the
hardware would get wrong now and then (a barrier that is missing, a DMA past a buffer, a lane that
overflows) is a `KernelFault` here. Nothing of the tiling is known to this module.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, i1
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import upmem
from ..dialects.upmem_attributes import bits_of

POISON = 0xA5
"""What a byte holds that nobody has written."""

Bytes = NDArray[np.uint8]


class KernelFault(RuntimeError):
    """What a DPU would have done wrong: the operation, the tasklet, the bytes."""


class Buffer:
    """Bytes of one DPU, and what is known of each."""

    def __init__(self, name: str, size: int):
        self.name = name
        self.data: Bytes = np.full(size, POISON, dtype=np.uint8)
        self.defined = np.zeros(size, dtype=bool)
        # Who wrote, and who read, since the barrier with this number; -2 stands for several.
        self._written = np.full((2, size), -1, dtype=np.int64)
        self._read = np.full((2, size), -1, dtype=np.int64)

    def span(self, what: str, start: int, size: int) -> slice:
        """The bytes from `start` on; raises KernelFault where they are not all there."""
        if start < 0 or size < 0 or start + size > len(self.data):
            raise KernelFault(
                f"{what}: {size} bytes at {start} of {self.name}, which has {len(self.data)}"
            )
        return slice(start, start + size)

    def touch(self, what: str, span: slice, tasklet: int, epoch: int, write: bool) -> None:
        """Notes an access; raises KernelFault where another tasklet's is not ordered with it."""
        for since, who in (self._written, self._read) if write else (self._written,):
            clash = (since[span] == epoch) & (who[span] != tasklet)
            if clash.any():
                at = span.start + int(np.argmax(clash))
                raise KernelFault(
                    f"{what}: byte {at} of {self.name} is {'written' if write else 'read'} by "
                    f"tasklet {tasklet} and used by another one with no barrier between them"
                )
        since, who = self._written if write else self._read
        several = (since[span] == epoch) & (who[span] != tasklet)
        who[span] = np.where(several, -2, tasklet)
        since[span] = epoch

    def settle(self) -> None:
        """A launch begins: what was touched before lies before it."""
        self._written[:] = -1
        self._read[:] = -1


class Launch:
    """One launch of a kernel on one DPU."""

    def __init__(self, kernel: upmem.KernelOp, symbols: dict[str, Buffer], seed: int = 0):
        self.kernel = kernel
        self.seed = seed
        self.epoch = 0
        self.buffers: dict[SSAValue, Buffer] = {}
        for argument, ref in zip(kernel.body.block.args, kernel.symbols, strict=True):
            self.buffers[argument] = symbols[ref.root_reference.data]
            self.buffers[argument].settle()
        for op in kernel.buffers:
            self.buffers[op.buffer] = Buffer(
                op.buffer.name_hint or "a buffer", upmem.buffer_bytes(op.buffer.type)
            )

    def run(self) -> None:
        """Runs all tasklets to their ends; raises KernelFault."""
        count = self.kernel.mapping.number("tasklets")
        shuffle = random.Random(self.seed)
        waiting = [(n, Tasklet(self, n).run(self.kernel.body.block)) for n in range(count)]
        while waiting:
            if self.seed:
                shuffle.shuffle(waiting)
            still = [(n, steps) for n, steps in waiting if next(steps, "end") == "barrier"]
            if still and len(still) < len(waiting):
                raise KernelFault(
                    f"@{self.kernel.sym_name.data}: {len(still)} of {len(waiting)} tasklets wait "
                    "at a barrier, the others have ended"
                )
            waiting = still
            self.epoch += 1


_Step = Generator[str, None, None]

_INTEGERS: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.MinUIOp: min,
    arith.CeilDivUIOp: lambda a, b: -(-a // b),
    arith.ShRUIOp: lambda a, b: a >> b,
}

_COMPARISONS: dict[int, Callable[[int, int], bool]] = {
    0: lambda a, b: a == b,
    1: lambda a, b: a != b,
}
"""`arith.cmpi` by the number of its predicate."""


class Tasklet:
    """The values of one tasklet."""

    def __init__(self, launch: Launch, number: int):
        self.launch = launch
        self.number = number
        self.values: dict[SSAValue, int] = {}

    def _of(self, value: SSAValue) -> int:
        return self.values[value]

    def run(self, block: Block) -> _Step:
        """The steps of a block, one at each barrier."""
        values = self.values
        for op in block.ops:
            if (function := _INTEGERS.get(type(op))) is not None:
                left, right = op.operands
                values[op.results[0]] = found = function(values[left], values[right])
                if not 0 <= found < 2**32:
                    raise KernelFault(f"{op.name}: {found} is no unsigned number of 32 bits")
                continue
            match op:
                case upmem.BarrierOp():
                    yield "barrier"
                case scf.ForOp():
                    first, end, step = (values[v] for v in (op.lb, op.ub, op.step))
                    for number in range(first, end, step):
                        values[op.body.block.args[0]] = number
                        yield from self.run(op.body.block)
                case scf.IfOp():
                    if values[op.cond]:
                        yield from self.run(op.true_region.block)
                case _:
                    self._simple(op)

    def _simple(self, op: Operation) -> None:
        """An operation that does not wait."""
        values = self.values
        match op:
            case arith.ConstantOp():
                number = cast(IntegerAttr[Any], op.value).value.data
                values[op.result] = abs(number) if op.result.type == i1 else number
            case arith.CmpiOp():
                compare = _COMPARISONS[op.predicate.value.data]
                values[op.result] = int(compare(values[op.lhs], values[op.rhs]))
            case arith.SelectOp():
                values[op.result] = values[op.lhs if values[op.cond] else op.rhs]
            case arith.IndexCastOp():
                values[op.result] = values[op.input]
            case memref.LoadOp():
                values[op.res] = self._load(op)
            case upmem.TaskletIdOp():
                values[op.result] = self.number
            case upmem.DmaReadOp() | upmem.DmaWriteOp():
                self._dma(op)
            case upmem.LutAccumulateOp():
                self._accumulate(op)
            case upmem.Int8AccumulateOp():
                self._multiply(op)
            case upmem.WramBufferOp() | scf.YieldOp():
                pass
            case _:
                raise KernelFault(f"{op.name} means nothing in a kernel")

    def access(
        self, op: Operation, value: SSAValue, start: int, size: int, *, write: bool, defined: bool
    ) -> tuple[Buffer, slice]:
        """A part of a buffer that this tasklet reads or writes; `defined`: it has to be."""
        buffer = self.launch.buffers[value]
        span = buffer.span(op.name, start, size)
        buffer.touch(op.name, span, self.number, self.launch.epoch, write)
        if defined and not buffer.defined[span].all():
            at = start + int(np.argmin(buffer.defined[span]))
            raise KernelFault(f"{op.name}: byte {at} of {buffer.name} was never written")
        return buffer, span

    def _load(self, op: memref.LoadOp) -> int:
        type_ = cast(MemRefType[IntegerType], op.memref.type)
        size = type_.element_type.width.data // 8
        (position,) = op.indices
        buffer, span = self.access(
            op, op.memref, self._of(position) * size, size, write=False, defined=True
        )
        return int.from_bytes(buffer.data[span].tobytes(), "little", signed=True)

    def _dma(self, op: upmem.DmaReadOp | upmem.DmaWriteOp) -> None:
        size = op.size.value.data
        if op.rest is not None:
            size = min(size, self._of(op.rest))
        offsets = self._of(op.source_offset), self._of(op.destination_offset)
        if not 8 <= size <= 2048 or size % 8 or any(offset % 8 for offset in offsets):
            raise KernelFault(f"{op.name}: {size} bytes from {offsets[0]} to {offsets[1]} (R5)")
        source, a = self.access(op, op.source, offsets[0], size, write=False, defined=False)
        target, b = self.access(op, op.destination, offsets[1], size, write=True, defined=False)
        target.data[b], target.defined[b] = source.data[a], source.defined[a]

    def _indices(self, op: upmem.LutAccumulateOp, count: int) -> NDArray[np.int64]:
        """The indices of a row, as rows of the table."""
        bits, start = op.idx_bits.value.data, self._of(op.index_offset)
        buffer, span = self.access(
            op, op.index, start, -(-count * bits // 8), write=False, defined=True
        )
        raw = buffer.data[span]
        if bits == 4:
            return np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)[:count].astype(np.int64)
        if bits == 8:
            return raw.astype(np.int64)
        scaled, columns = raw.view("<u2").astype(np.int64), op.columns.value.data
        if (scaled % columns).any():
            raise KernelFault(f"{op.name}: an index that is no multiple of {columns}")
        return scaled // columns

    def _accumulate(self, op: upmem.LutAccumulateOp) -> None:
        columns, centroids = op.columns.value.data, op.centroids.value.data
        count, bias = self._of(op.count), op.bias.value.data
        if not 0 < count <= op.codebooks.value.data or count % 4:
            raise KernelFault(f"{op.name}: {count} codebooks of {op.codebooks.value.data}")
        indices = self._indices(op, count)
        if (indices >= centroids).any():
            raise KernelFault(f"{op.name}: index {indices.max()} of {centroids} rows (R10)")
        entries = np.empty((count, columns), dtype=np.int64)
        for codebook, index in enumerate(indices.tolist()):
            start = self._of(op.table_offset) + (codebook * centroids + index) * columns
            buffer, span = self.access(op, op.table, start, columns, write=False, defined=True)
            if op.buffer is not None and op.buffer_offset is not None:
                if start % 8:
                    raise KernelFault(f"{op.name}: a row at {start} is no DMA (R5)")
                place = self._of(op.buffer_offset)
                through, inside = self.access(
                    op, op.buffer, place, columns, write=True, defined=False
                )
                through.data[inside], through.defined[inside] = buffer.data[span], True
            row = buffer.data[span]
            entries[codebook] = row if bias else row.view(np.int8)
        self._check_lanes(op, entries)
        width = bits_of(op.sums) // 8
        fresh = bool(self._of(op.fresh))
        sums, span = self.access(
            op,
            op.sums,
            self._of(op.sums_offset),
            columns * width,
            write=True,
            defined=not fresh,
        )
        if self._of(op.sums_offset) % width:
            raise KernelFault(f"{op.name}: sums of {width} bytes at {self._of(op.sums_offset)}")
        total = entries.sum(axis=0) - count * bias
        if not fresh:
            total += sums.data[span].view(f"<i{width}")
        sums.data[span] = total.astype(f"<i{width}").view(np.uint8)
        sums.defined[span] = True

    def _multiply(self, op: upmem.Int8AccumulateOp) -> None:
        columns, count = op.columns.value.data, self._of(op.count)
        if not 0 < count <= op.inputs.value.data or count % 4:
            raise KernelFault(f"{op.name}: {count} inputs of {op.inputs.value.data}")
        width, fresh = bits_of(op.sums) // 8, bool(self._of(op.fresh))
        start, pitch = self._of(op.sums_offset), self._of(op.sums_pitch)
        if start % width or pitch % width:
            raise KernelFault(f"{op.name}: sums of {width} bytes at {start}, rows of {pitch}")
        for row in range(self._of(op.rows)):
            weights, inside = self.access(
                op,
                op.weights,
                self._of(op.weights_offset),
                count * columns,
                write=False,
                defined=True,
            )
            at = self._of(op.activations_offset) + row * self._of(op.activations_pitch)
            activations, span = self.access(
                op, op.activations, at, count, write=False, defined=True
            )
            factors = activations.data[span].view(np.int8).astype(np.int64)
            matrix = weights.data[inside].view(np.int8).reshape(count, columns)
            total = factors @ matrix.astype(np.int64)
            sums, place = self.access(
                op,
                op.sums,
                start + row * pitch,
                columns * width,
                write=True,
                defined=not fresh,
            )
            if not fresh:
                total += sums.data[place].view(f"<i{width}")
            sums.data[place] = total.astype(f"<i{width}").view(np.uint8)
            sums.defined[place] = True

    def _check_lanes(self, op: upmem.LutAccumulateOp, entries: NDArray[np.int64]) -> None:
        if not op.bias.value.data:
            return
        most = int(entries.sum(axis=0).max())
        if most > 65535:
            raise KernelFault(f"{op.name}: a lane of 16 bits would hold {most} (R9)")
        if op.flush is not None:
            step = op.flush.value.data
            parts = [entries[i : i + step].sum(axis=0).max() for i in range(0, len(entries), step)]
            if max(parts) > 255:
                raise KernelFault(f"{op.name}: a lane of 8 bits would hold {max(parts)} (R9)")
