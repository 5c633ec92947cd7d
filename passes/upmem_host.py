"""
The host's side of a layer of tables: what is sent, started, waited for and brought back.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf, tensor
from xdsl.dialects.builtin import IndexType, IntegerType, TensorType, i8
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from ..analysis.upmem_mapping import Geometry
from ..dialects import upmem
from .upmem_emitter import Emitter, Index
from .upmem_kernel import Symbols


def map_of(expression: AffineExpr) -> AffineMap:
    """The map from a DPU's number to this."""
    return AffineMap(1, 0, (expression,))


DPU = AffineExpr.dimension(0)


@dataclass(frozen=True)
class Layer:
    """A layer as host code needs it."""

    kernel: str
    geometry: Geometry
    symbols: Symbols

    @property
    def name(self) -> str:
        """The kernel's symbol."""
        return self.kernel

    @property
    def dpus(self) -> int:
        """DPUs in use."""
        return self.geometry.mapping.dpus

    @property
    def sharing(self) -> int:
        """DPUs of one row group."""
        return self.geometry.mapping.lp * self.geometry.mapping.split_cb


def run_layer(
    emit: Emitter,
    layer: Layer,
    grid: SSAValue,
    indices: SSAValue,
    table: SSAValue,
    result: TensorType[IntegerType],
) -> SSAValue:
    """
    One call of a layer: N×CB indices to N×F sums. `table` is sent if it is not resident.
    """
    geometry, mapping, symbols = layer.geometry, layer.geometry.mapping, layer.symbols
    type_ = upmem.grid_type(grid)
    rows = emit.op(upmem.BatchOp(geometry.shape.rows), "rows").rows
    entries = -(-type_.dpus.data // layer.sharing)
    counts = emit.op(upmem.SplitRowsOp(rows, mapping.ip, entries), "counts").result
    packed = emit.op(upmem.PackIndicesOp(indices, rows, layer.kernel, geometry), "packed").result
    stride = emit.ceil_div(rows, mapping.ip, "stride")
    sent = emit.mul(stride, geometry.index_bytes // geometry.rows, "index_bytes")
    back = emit.mul(stride, geometry.features * mapping.out_bytes, "sum_bytes")
    loose = None
    if mapping.residency == "per_call":
        loose = emit.op(upmem.PackTableOp(table, layer.kernel, geometry), "packed_table").result
    groups = type_.groups.data
    with emit.loop(0, groups, 1, "group") as number:
        group = emit.value(number)
        to = map_of(DPU // layer.sharing)
        emit.op(
            upmem.ScatterOp(
                counts, emit.value(8), grid, group, name_of(symbols.batch), to, type_.dpus.data
            )
        )
        to = map_of(DPU // mapping.lp)
        emit.op(
            upmem.ScatterOp(
                packed, emit.value(sent), grid, group, name_of(symbols.index), to, layer.dpus
            )
        )
        if loose is not None:
            send_table(emit, layer, grid, group, loose)
        emit.op(upmem.LaunchOp(layer.kernel, grid, group))
    shape = (layer.dpus, geometry.output_bytes)
    room = emit.op(tensor.EmptyOp([], TensorType(i8, shape)), "room").tensor
    gathered = collect(emit, layer, grid, back, room)
    return emit.op(upmem.UnpackSumsOp(gathered, rows, layer.kernel, result), "sums").result


def collect(emit: Emitter, layer: Layer, grid: SSAValue, size: Index, room: SSAValue) -> SSAValue:
    """Waits for one group after the other and brings its sums back."""

    length, symbol = emit.value(size), name_of(layer.symbols.sums)

    def bring(emit: Emitter, group: SSAValue, into: SSAValue) -> SSAValue:
        emit.op(upmem.WaitOp(grid, group))
        gather = upmem.GatherOp(symbol, length, grid, group, into, map_of(DPU), layer.dpus)
        return emit.op(gather, "gathered").result

    groups = upmem.grid_type(grid).groups.data
    if groups == 1:
        return bring(emit, emit.value(0), room)
    block = Block(arg_types=[IndexType(), room.type])
    block.args[0].name_hint, block.args[1].name_hint = "group", "into"
    first, end, step = (emit.value(v) for v in (0, groups, 1))
    loop = scf.ForOp(first, end, step, [room], Region(block))
    emit.op(loop, "gathered")
    inside = Emitter(block)
    block.add_op(scf.YieldOp(bring(inside, block.args[0], block.args[1])))
    return loop.results[0]


def send_table(
    emit: Emitter, layer: Layer, grid: SSAValue, group: SSAValue, packed: SSAValue
) -> None:
    """A packed table to the DPUs of a group: the same bytes to all where there is one part."""
    symbol = name_of(layer.symbols.table)
    if layer.sharing == 1:
        emit.op(upmem.BroadcastOp(packed, grid, group, symbol))
        return
    size = emit.value(layer.geometry.table_bytes)
    to = map_of(DPU % layer.sharing)
    emit.op(upmem.ScatterOp(packed, size, grid, group, symbol, to, layer.dpus))


def name_of(symbol: upmem.SymbolOp) -> str:
    """The name of a symbol."""
    return symbol.sym_name.data
