"""
The kernel of one layer of tables: loops, moves and the micro-kernel as its mapping says.

What a DPU executes is the text of `analysis.upmem_mapping.Mapping`; sizes are those of `Geometry`.
The number of rows is known when the kernel runs: the host sends [rows of this DPU, rows between
tiles in MRAM], so that indices and sums of a smaller batch lie close together and move at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, i8, i16, i32
from xdsl.ir import SSAValue

from ..analysis.upmem_cost import swar8_run
from ..analysis.upmem_mapping import DMA_MAX, Geometry, Loop, up_to_multiple
from ..dialects import upmem
from .upmem_emitter import Emitter, Index

WRAM = upmem.WramAttr()


@dataclass(frozen=True)
class Symbols:
    """The buffers that the host knows, as a kernel of one layer has them."""

    index: upmem.SymbolOp
    table: upmem.SymbolOp
    sums: upmem.SymbolOp
    batch: upmem.SymbolOp
    """Two i32: rows of this DPU, and ⌈rows of the call/ip⌉."""


@dataclass
class Tile:
    """Where a tile begins along an axis and how much of the axis it has."""

    turn: Index = 0
    first: Index = 0
    size: Index = 0


class KernelBuilder:
    """Builds one kernel; `build` is all there is to call."""

    def __init__(self, kernel: upmem.KernelOp):
        self.kernel = kernel
        self.geometry: Geometry = kernel.geometry
        self.mapping = self.geometry.mapping
        self.emit = Emitter(kernel.body.block)
        self.index, self.table, self.sums, self.batch = kernel.body.block.args
        for argument, name in zip(
            kernel.body.block.args, ("index", "table", "sums", "batch"), strict=True
        ):
            argument.name_hint = name
        self.tiles = {axis: Tile() for axis in "nfc"}
        self.run_first: Index = 0
        """The tasklet's first row in the tile."""
        self.run_rows: Index = 0
        """How many rows are the tasklet's own."""
        self.index_pitch: Index = 0

    # Sizes

    @property
    def width(self) -> int:
        """Bytes of a sum."""
        return self.mapping.out_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of the entries of one codebook in f_l columns."""
        return self.geometry.shape.centroids * self.mapping.f_l

    @property
    def index_room(self) -> int:
        """Bytes of a tasklet's own part of the index tile in WRAM."""
        return self.geometry.rows_per_tasklet * self.geometry.pitch(self.axis("c").tile)

    @property
    def sums_room(self) -> int:
        """Bytes of a tasklet's own part of the output tile in WRAM."""
        return self.geometry.rows_per_tasklet * self.axis("f").tile * self.width

    def axis(self, name: str) -> Loop:
        """The tiles along an axis."""
        return self.geometry.axis(name)

    # The program

    def build(self) -> None:
        """Fills the kernel's region."""
        emit = self.emit
        self.rows = self._load(0, "rows")
        self.stride = self._load(1, "stride")
        self.me = emit.op(upmem.TaskletIdOp(), "me").result
        self._buffers()
        index_tile = self.axis("c")
        self.index_stride = emit.mul(
            self.stride, self.geometry.pitch(index_tile.tile) if index_tile.turns > 1 else 0
        )
        self.sums_stride = emit.mul(
            self.stride, self.axis("f").tile * self.width if self.axis("f").turns > 1 else 0
        )
        # A tasklet's rows lie at its own place in the tiles, whatever their number: were the last
        # tile's dealt over the same place in another way, one would overwrite what another reads.
        self.own_indices = emit.mul(self.me, self.index_room, "own_indices")
        self.own_sums = emit.mul(self.me, self.sums_room, "own_sums")
        if self.mapping.load == "static":
            self._move_together(0, self.geometry.table_bytes, self.geometry.table_bytes)
            emit.op(upmem.BarrierOp())
        for axis in "nfc":
            if self.axis(axis).turns == 1:
                self._enter(axis, 0)
        self._level(0)

    def _load(self, position: int, name: str) -> SSAValue:
        load = memref.LoadOp.get(self.batch, [self.emit.value(position)])
        return self.emit.op(arith.IndexCastOp(self.emit.op(load).res, IndexType()), name).result

    def _buffers(self) -> None:
        """Static buffers one behind the other."""
        elements = {
            "index tile": i8,
            "output tile": i32 if self.width == 4 else i16,
            "table": i8,
        }
        names = {"index tile": "indices", "output tile": "accumulators", "table": "entries"}
        found: dict[str, SSAValue] = {}
        offset = 0
        for what, size in self.geometry.wram_buffers.items():
            element: IntegerType = elements[what]
            size = up_to_multiple(size, 8)
            type_ = MemRefType(element, [size * 8 // element.width.data], memory_space=WRAM)
            found[what] = self.emit.op(upmem.WramBufferOp(offset, type_), names[what]).buffer
            offset += size
        self.index_tile = found["index tile"]
        self.sums_tile = found["output tile"]
        self.entries = found["table"]

    # Loops over tiles

    def _level(self, depth: int) -> None:
        """What happens inside `depth` loops: moves that belong here, the next loop, or a tile."""
        geometry, emit = self.geometry, self.emit
        if depth == geometry.index_depth:
            self._read_indices()
        if depth == geometry.output_depth and geometry.partial:
            # What earlier codebooks have given; there is nothing for the first ones.
            with emit.when(emit.differ(self.tiles["c"].turn, 0, "again")):
                self._move_sums(write=False)
        if self.mapping.load == "coarse" and geometry.table_hoisted:
            if depth == geometry.table_depth:
                self._load_subtile(0, 0, self.tiles["c"].size)
        if depth == len(geometry.loops):
            self._tile()
        else:
            axis = geometry.loops[depth]
            if axis.axis == "n":
                bounds = (0, self.rows, axis.tile)
            else:
                bounds = (0, axis.turns, 1)
            with emit.loop(*bounds, axis.axis) as turn:
                self._enter(axis.axis, turn)
                self._level(depth + 1)
        if depth == geometry.output_depth:
            self._move_sums(write=True)

    def _enter(self, axis: str, turn: Index) -> None:
        """A tile of an axis: its first element, its size, and what follows from them."""
        emit, loop = self.emit, self.axis(axis)
        if axis == "n":
            # The variable counts rows: how many there are is not known before.
            rest = emit.sub(self.rows, turn)
            size = emit.least(rest, loop.tile, "n_rows") if loop.turns > 1 else self.rows
            self.tiles["n"] = Tile(turn, turn, size)
            run = emit.ceil_div(size, self.mapping.tasklets, "run")
            self.run_first = emit.least(emit.mul(self.me, run), size, "first")
            end = emit.least(emit.add(self.run_first, run), size, "end")
            self.run_rows = emit.sub(end, self.run_first, "own_rows")
            return
        last = loop.turns > 1 and loop.last != loop.tile and emit.equal(turn, loop.turns - 1)
        size = emit.select(last, loop.last, loop.tile, f"{axis}_size")
        if loop.turns == 1:
            size = loop.last
        self.tiles[axis] = Tile(turn, emit.mul(turn, loop.tile, f"{axis}_first"), size)
        if axis == "c":
            pitches = self.geometry.pitch(loop.last), self.geometry.pitch(loop.tile)
            self.index_pitch = emit.select(last, *pitches, "pitch")

    # Moves

    def _read_indices(self) -> None:
        """The indices of the tasklet's own rows."""
        emit = self.emit
        row = emit.add(self.tiles["n"].first, self.run_first)
        start = emit.add(
            emit.mul(self.tiles["c"].turn, self.index_stride), emit.mul(row, self.index_pitch)
        )
        most = self.index_room

        def move(done: Index, size: int, rest: Index | None) -> None:
            emit.op(
                upmem.DmaReadOp(
                    self.index,
                    emit.value(emit.add(start, done)),
                    self.index_tile,
                    emit.value(emit.add(here, done)),
                    size,
                    None if rest is None else emit.value(rest),
                )
            )

        here = self.own_indices
        self._move_run(emit.mul(self.run_rows, self.index_pitch, "index_bytes"), most, move)

    def _move_sums(self, write: bool) -> None:
        """The sums of the tasklet's own rows."""
        emit = self.emit
        pitch = emit.mul(self.tiles["f"].size, self.width)
        row = emit.add(self.tiles["n"].first, self.run_first)
        start = emit.add(emit.mul(self.tiles["f"].turn, self.sums_stride), emit.mul(row, pitch))
        most, here = self.sums_room, self.own_sums

        def move(done: Index, size: int, rest: Index | None) -> None:
            outside = self.sums, emit.value(emit.add(start, done))
            inside = self.sums_tile, emit.value(emit.add(here, done))
            ends = (*inside, *outside) if write else (*outside, *inside)
            last = None if rest is None else emit.value(rest)
            emit.op((upmem.DmaWriteOp if write else upmem.DmaReadOp)(*ends, size, last))

        self._move_run(emit.mul(self.run_rows, pitch, "sum_bytes"), most, move)

    def _move_run(
        self, size: Index, most: int, move: Callable[[Index, int, Index | None], None]
    ) -> None:
        """A tasklet's own run of bytes, which may be none, in requests as long as there are."""
        emit = self.emit
        if most <= DMA_MAX:
            with emit.when(emit.differ(size, 0)):
                move(0, most, size)
            return
        with emit.loop(0, size, DMA_MAX, "done") as done:
            move(done, DMA_MAX, emit.sub(size, done, "rest"))

    def _move_together(self, start: Index, size: Index, most: int) -> None:
        """A run of table entries to the start of their buffer, dealt to all tasklets in turn."""
        emit, tasklets = self.emit, self.mapping.tasklets
        chunk = min(DMA_MAX, up_to_multiple(most, 8))
        with emit.loop(emit.mul(self.me, chunk), size, tasklets * chunk, "done") as done:
            whole = isinstance(size, int) and size % chunk == 0
            emit.op(
                upmem.DmaReadOp(
                    self.table,
                    emit.value(emit.add(start, done)),
                    self.entries,
                    emit.value(done),
                    chunk,
                    None if whole else emit.value(emit.sub(size, done, "rest")),
                )
            )

    def _table_offset(self, column: Index, codebook: Index) -> Index:
        """Where the entries of a column and codebook of the DPU begin, in its whole table."""
        emit = self.emit
        per_column = self.geometry.codebooks * self.geometry.shape.centroids
        return emit.add(emit.mul(column, per_column), emit.mul(codebook, self.row_bytes))

    def _load_subtile(self, column: Index, codebook: Index, codebooks: Index) -> None:
        """A sub-tile of the tile, for all tasklets; none still reads the one before."""
        emit = self.emit
        start = self._table_offset(
            emit.add(self.tiles["f"].first, column), emit.add(self.tiles["c"].first, codebook)
        )
        most = min(self.mapping.c_l, self.axis("c").tile) * self.row_bytes
        emit.op(upmem.BarrierOp())
        self._move_together(start, emit.mul(codebooks, self.row_bytes), most)
        emit.op(upmem.BarrierOp())

    # A tile

    def _tile(self) -> None:
        """Sub-tiles of columns, in them sub-tiles of codebooks, in them the tasklet's rows."""
        emit, mapping = self.emit, self.mapping
        columns, codebooks = self.tiles["f"].size, self.tiles["c"].size
        with emit.loop(0, columns, mapping.f_l, "fl") as column:
            with emit.loop(0, codebooks, mapping.c_l, "cl") as codebook:
                whole = isinstance(codebooks, int) and codebooks % mapping.c_l == 0
                count = (
                    mapping.c_l
                    if whole
                    else emit.least(mapping.c_l, emit.sub(codebooks, codebook), "count")
                )
                if mapping.load == "coarse" and not self.geometry.table_hoisted:
                    self._load_subtile(column, codebook, count)
                self._rows(column, codebook, count)

    def _rows(self, column: Index, codebook: Index, count: Index) -> None:
        """The micro-kernel for each of the tasklet's rows, or for all of them."""
        emit, mapping, shape = self.emit, self.mapping, self.geometry.shape
        before = emit.add(self.tiles["c"].first, codebook)
        fresh = emit.flag(emit.equal(before, 0, "fresh"))
        if shape.is_product:
            self._products(column, codebook, count, fresh)
            return
        table, offset, buffer = self.entries, 0, None
        if mapping.load != "coarse":
            offset = self._table_offset(emit.add(self.tiles["f"].first, column), before)
        if mapping.load == "fine":
            place = emit.mul(self.me, up_to_multiple(mapping.f_l, 8))
            table, buffer = self.table, (self.entries, emit.value(place))
        bits = mapping.idx_bits
        skip = emit.half(codebook) if bits == 4 else emit.mul(codebook, bits // 8)
        pitch = emit.mul(self.tiles["f"].size, self.width)
        first_sum = emit.mul(column, self.width)
        flush = swar8_run(shape.max_entry) if mapping.variant == "swar8" else None
        most = min(mapping.c_l, self.axis("c").tile)
        index_start = emit.add(self.own_indices, skip)
        sums_start = emit.add(self.own_sums, first_sum)
        with emit.loop(0, self.run_rows, 1, "row") as row:
            index = emit.add(index_start, emit.mul(row, self.index_pitch))
            sums = emit.add(sums_start, emit.mul(row, pitch))
            emit.op(
                upmem.LutAccumulateOp(
                    mapping.variant,
                    (self.index_tile, emit.value(index)),
                    emit.value(count),
                    (table, emit.value(offset)),
                    (self.sums_tile, emit.value(sums)),
                    fresh,
                    buffer,
                    codebooks=most,
                    columns=mapping.f_l,
                    centroids=shape.centroids,
                    idx_bits=bits,
                    bias=0 if mapping.variant == "scalar32" else shape.bias,
                    flush=flush,
                )
            )

    def _products(self, column: Index, codebook: Index, count: Index, fresh: SSAValue) -> None:
        """The micro-kernel of an int8 product, which takes the tasklet's rows together."""
        emit, mapping = self.emit, self.mapping
        offset: Index = 0
        if mapping.load != "coarse":
            first = emit.add(self.tiles["f"].first, column)
            offset = self._table_offset(first, emit.add(self.tiles["c"].first, codebook))
        activations = emit.add(self.own_indices, codebook)
        sums = emit.add(self.own_sums, emit.mul(column, self.width))
        pitch = emit.mul(self.tiles["f"].size, self.width)
        emit.op(
            upmem.Int8AccumulateOp(
                (self.index_tile, emit.value(activations), emit.value(self.index_pitch)),
                emit.value(self.run_rows),
                emit.value(count),
                (self.entries, emit.value(offset)),
                (self.sums_tile, emit.value(sums), emit.value(pitch)),
                fresh,
                inputs=min(mapping.c_l, self.axis("c").tile),
                columns=mapping.f_l,
            )
        )
