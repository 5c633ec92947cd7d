"""
The operations of the host: what moves to and from DPUs, and when they run.
"""

from __future__ import annotations

import abc
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    I64,
    AffineMapAttr,
    FlatSymbolRefAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    SymbolRefAttr,
    TensorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import (
    EffectInstance,
    MemoryEffect,
    MemoryEffectKind,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from ..analysis.upmem_mapping import Geometry
from ..analysis.upmem_target import find_target
from .upmem_attributes import (
    GridType,
    MramAttr,
    TargetAttr,
    bits_of,
    space_of,
)
from .upmem_program import SymbolOp, kernel_of, symbol_of


def grid_type(value: SSAValue) -> GridType:
    """The type of a grid value; any other value is a mistake of the caller."""
    assert isinstance(value.type, GridType)
    return value.type


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The static shape of a tensor of integers."""
    return cast(TensorType[Attribute], value.type).get_shape()


def require_shape(what: str, value: SSAValue, expected: tuple[int, ...]) -> None:
    """Raises VerifyException unless a tensor has this shape."""
    if shape_of(value) != expected:
        raise VerifyException(f"{what} {_by(expected)}, not {_by(shape_of(value))}")


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


class CreatesGrid(MemoryEffect):
    """Two allocations are two grids; one that nobody uses goes away."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.ALLOC, r) for r in op.results}


class ReadsGrid(MemoryEffect):
    """What comes from a grid depends on what was done to it before."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.READ, v) for v in _grids(op)}


class ChangesGrid(MemoryEffect):
    """Reads and writes the state of a grid: stays, and stays in order."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        kinds = (MemoryEffectKind.READ, MemoryEffectKind.WRITE)
        return {EffectInstance(kind, v) for v in _grids(op) for kind in kinds}


class FreesGrid(MemoryEffect):
    """Ends a grid."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.FREE, v) for v in _grids(op)}


def _grids(op: Operation) -> list[SSAValue]:
    return [v for v in op.operands if isinstance(v.type, GridType)]


# Host: values


@irdl_op_definition
class BatchOp(IRDLOperation):
    """
    The number of rows of this call, 1 to `max`: known when the host program runs.

    The tensors of the function are as large as the largest batch; rows past the number are not
    transferred and not computed.
    """

    name = "upmem.batch"

    max = prop_def(IntegerAttr[I64])
    rows = result_def(IndexType())
    traits = traits_def(Pure())
    assembly_format = "`max` $max attr-dict"

    def __init__(self, max: int):
        super().__init__(properties={"max": IntegerAttr(max, i64)}, result_types=[IndexType()])

    def verify_(self) -> None:
        if self.max.value.data < 1:
            raise VerifyException(f"a batch has at least one row, not {self.max.value.data}")


@irdl_op_definition
class SplitRowsOp(IRDLOperation):
    """
    Rows dealt to parts: with s = ⌈rows/parts⌉, part i has the rows from i·s on, at most s of them.

    The result has a row [count, s] for each part, and [0, s] for the entries behind the last part.
    """

    name = "upmem.split_rows"

    rows = operand_def(IndexType())
    parts = prop_def(IntegerAttr[I64])
    result = result_def(TensorType[IntegerType])
    traits = traits_def(Pure())
    assembly_format = "$rows `over` $parts attr-dict `:` type($result)"

    def __init__(self, rows: SSAValue | Operation, parts: int, entries: int):
        super().__init__(
            operands=[rows],
            properties={"parts": IntegerAttr(parts, i64)},
            result_types=[TensorType(i32, (entries, 2))],
        )

    def verify_(self) -> None:
        shape, parts = shape_of(self.result), self.parts.value.data
        if parts < 1 or len(shape) != 2 or shape[0] < parts or shape[1] != 2:
            raise VerifyException(
                f"{parts} parts, at least one, need as many rows of 2, not {_by(shape)}"
            )


class _OfKernel(IRDLOperation, abc.ABC):
    """An op on the data of a kernel: sizes and layout follow from its mapping and shape."""

    kernel = prop_def(FlatSymbolRefAttr)

    @property
    def geometry(self) -> Geometry:
        """What follows from the kernel's mapping."""
        return kernel_of(self, self.kernel).geometry


@irdl_op_definition
class PackIndicesOp(_OfKernel):
    """
    Indices as the DPUs of a kernel read them: N×CB become ip·split_cb rows of bytes. So do the
    N×H activations of an int8 product.

    Row i·split_cb + s holds the rows of row group i (`upmem.split_rows`) and the codebooks of part
    s in the layout of `analysis.upmem_mapping.Mapping`, where N is the number of rows of this call.
    Bytes behind the last row are not defined.
    """

    name = "upmem.pack_indices"

    indices = operand_def(TensorType[IntegerType])
    rows = operand_def(IndexType())
    result = result_def(TensorType[IntegerType])
    traits = traits_def(Pure())
    assembly_format = (
        "$indices `rows` $rows `for` $kernel attr-dict `:` type($indices) `->` type($result)"
    )

    def __init__(
        self,
        indices: SSAValue | Operation,
        rows: SSAValue | Operation,
        kernel: str,
        geometry: Geometry,
    ):
        parts = geometry.mapping.ip * geometry.mapping.split_cb
        super().__init__(
            operands=[indices, rows],
            properties={"kernel": SymbolRefAttr(kernel)},
            result_types=[TensorType(i8, (parts, geometry.index_bytes))],
        )

    def verify_(self) -> None:
        g = self.geometry
        require_shape("indices", self.indices, (g.shape.rows, g.shape.codebooks))
        parts = g.mapping.ip * g.mapping.split_cb
        require_shape("packed indices", self.result, (parts, g.index_bytes))


@irdl_op_definition
class PackTableOp(_OfKernel):
    """
    A table as the DPUs of a kernel read it: CB×K×F entries, or the H×F weights of an int8 product,
    become split_cb·lp rows of bytes.

    Row s·lp + j holds the codebooks of part s and the columns of group j in the layout of
    `analysis.upmem_mapping.Mapping`.
    """

    name = "upmem.pack_table"

    table = operand_def(TensorType[IntegerType])
    result = result_def(TensorType[IntegerType])
    traits = traits_def(Pure())
    assembly_format = "$table `for` $kernel attr-dict `:` type($table) `->` type($result)"

    def __init__(self, table: SSAValue | Operation, kernel: str, geometry: Geometry):
        parts = geometry.mapping.split_cb * geometry.mapping.lp
        super().__init__(
            operands=[table],
            properties={"kernel": SymbolRefAttr(kernel)},
            result_types=[TensorType(i8, (parts, geometry.table_bytes))],
        )

    def verify_(self) -> None:
        g = self.geometry
        shape = (g.shape.codebooks, g.shape.centroids, g.shape.features)
        if g.shape.is_product:
            require_shape("the weight", self.table, (g.shape.inputs, g.shape.features))
        else:
            require_shape("the table", self.table, shape)
        parts = g.mapping.split_cb * g.mapping.lp
        require_shape("the packed table", self.result, (parts, g.table_bytes))


@irdl_op_definition
class UnpackSumsOp(_OfKernel):
    """
    The bytes that the DPUs of a kernel wrote, a row a DPU, as N×F sums; rows past the batch are 0.

    The partial sums of split codebooks are added modulo 2^w for sums of w bits, which hold the
    whole sum.
    """

    name = "upmem.unpack_sums"

    bytes = operand_def(TensorType[IntegerType])
    rows = operand_def(IndexType())
    result = result_def(TensorType[IntegerType])
    traits = traits_def(Pure())
    assembly_format = (
        "$bytes `rows` $rows `for` $kernel attr-dict `:` type($bytes) `->` type($result)"
    )

    def __init__(
        self,
        bytes: SSAValue | Operation,
        rows: SSAValue | Operation,
        kernel: str,
        result_type: TensorType[IntegerType],
    ):
        super().__init__(
            operands=[bytes, rows],
            properties={"kernel": SymbolRefAttr(kernel)},
            result_types=[result_type],
        )

    def verify_(self) -> None:
        g = self.geometry
        require_shape("packed sums", self.bytes, (g.mapping.dpus, g.output_bytes))
        require_shape("sums", self.result, (g.shape.rows, g.shape.features))
        width, needed = bits_of(self.result), 8 * g.mapping.out_bytes
        fits = -(2 ** (width - 1)) <= g.shape.low and g.shape.high < 2 ** (width - 1)
        if width not in (16, 32) or (width < needed and not fits):
            raise VerifyException(
                f"sums of {g.mapping.out} from {g.shape.low} to {g.shape.high} do not go into "
                f"i{width}"
            )


# Host: commands


@irdl_op_definition
class AllocGridOp(IRDLOperation):
    """DPUs allocated, with the module's program loaded; fewer working ones are an error."""

    name = "upmem.alloc_grid"

    target = prop_def(TargetAttr)
    grid = result_def(GridType)
    traits = traits_def(CreatesGrid())
    assembly_format = "`target` $target attr-dict `:` type($grid)"

    def __init__(self, target: TargetAttr, type: GridType):
        super().__init__(properties={"target": target}, result_types=[type])

    def verify_(self) -> None:
        target, grid = find_target(self.target.target.data), grid_type(self.grid)
        if grid.dpus.data > target.dpus:
            raise VerifyException(
                f"R8: {grid.dpus.data} DPUs of {target.dpus} that {target.name} has"
            )
        if grid.tasklets.data > target.tasklets:
            raise VerifyException(
                f"R4: {grid.tasklets.data} tasklets of {target.tasklets} that {target.name} has"
            )
        module = self.get_toplevel_object()
        symbols = [op for op in module.walk() if isinstance(op, SymbolOp)]
        need = sum(op.bytes for op in symbols if isinstance(space_of(op.type), MramAttr))
        if need > target.mram:
            raise VerifyException(
                f"R1: the symbols take {need:,} bytes of MRAM, {need - target.mram:,} more than "
                f"{target.mram:,}"
            )


@irdl_op_definition
class FreeOp(IRDLOperation):
    """DPUs given back."""

    name = "upmem.free"

    grid = operand_def(GridType)
    traits = traits_def(FreesGrid())
    assembly_format = "$grid attr-dict `:` type($grid)"

    def __init__(self, grid: SSAValue):
        super().__init__(operands=[grid])


def _require_map(map_: AffineMap, tiles: int, dpus: int, what: str) -> None:
    """A map from every DPU to one of `tiles` rows."""
    if map_.num_dims != 1 or map_.num_symbols or len(map_.results) != 1:
        raise VerifyException(f"a map from a DPU to a row, not {map_}")
    # `eval` only adds, multiplies and divides: an array of all DPUs is as good as a number.
    (found,) = map_.eval(cast(Any, (np.arange(dpus),)), ())
    rows = np.broadcast_to(np.asarray(found), (dpus,))
    outside = (rows < 0) | (rows >= tiles)
    if outside.any():
        dpu = int(np.argmax(outside))
        raise VerifyException(f"DPU {dpu} {what} row {int(rows[dpu])} of {tiles}")


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """
    To each DPU d of a group the first `bytes` bytes of row map(d) of a tensor, at the start of a
    symbol: one transfer of one length (rule R6). DPUs from `dpus` on get nothing.
    """

    name = "upmem.scatter"

    source = operand_def(TensorType[IntegerType])
    bytes = operand_def(IndexType())
    grid = operand_def(GridType)
    group = operand_def(IndexType())
    symbol = prop_def(FlatSymbolRefAttr)
    map = prop_def(AffineMapAttr)
    dpus = prop_def(IntegerAttr[I64])
    traits = traits_def(ChangesGrid())
    assembly_format = (
        "$source `bytes` $bytes `to` $symbol `of` $grid `[` $group `]` `map` $map `dpus` $dpus "
        "attr-dict `:` type($source) `,` type($grid)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        bytes: SSAValue | Operation,
        grid: SSAValue,
        group: SSAValue | Operation,
        symbol: str,
        map: AffineMap,
        dpus: int,
    ):
        super().__init__(
            operands=[source, bytes, grid, group],
            properties={
                "symbol": SymbolRefAttr(symbol),
                "map": AffineMapAttr(map),
                "dpus": IntegerAttr(dpus, i64),
            },
        )

    def verify_(self) -> None:
        dpus = self.dpus.value.data
        if not 1 <= dpus <= grid_type(self.grid).dpus.data:
            raise VerifyException(f"{dpus} DPUs of {grid_type(self.grid).dpus.data}")
        shape = shape_of(self.source)
        _require_map(self.map.data, shape[0], dpus, "takes")
        row = _row_bytes(self.source)
        symbol = symbol_of(self, self.symbol)
        if row > symbol.bytes:
            raise VerifyException(
                f"rows of {row} bytes do not fit @{symbol.sym_name.data} of {symbol.bytes}"
            )


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """To every DPU of a group the same bytes, a whole tensor, at the start of a symbol."""

    name = "upmem.broadcast"

    source = operand_def(TensorType[IntegerType])
    grid = operand_def(GridType)
    group = operand_def(IndexType())
    symbol = prop_def(FlatSymbolRefAttr)
    traits = traits_def(ChangesGrid())
    assembly_format = (
        "$source `to` $symbol `of` $grid `[` $group `]` attr-dict `:` type($source) `,` type($grid)"
    )

    def __init__(
        self, source: SSAValue | Operation, grid: SSAValue, group: SSAValue | Operation, symbol: str
    ):
        super().__init__(
            operands=[source, grid, group], properties={"symbol": SymbolRefAttr(symbol)}
        )

    def verify_(self) -> None:
        size = _row_bytes(self.source) * shape_of(self.source)[0]
        symbol = symbol_of(self, self.symbol)
        if size > symbol.bytes or size % 8:
            raise VerifyException(
                f"{size} bytes are no multiple of 8 that fits @{symbol.sym_name.data} of "
                f"{symbol.bytes}"
            )


@irdl_op_definition
class GatherOp(IRDLOperation):
    """
    From each DPU d of a group, below `dpus`, the first `bytes` bytes of a symbol into row map(d)
    of a tensor: one transfer of one length. The result is `into` with these bytes replaced.
    """

    name = "upmem.gather"

    bytes = operand_def(IndexType())
    grid = operand_def(GridType)
    group = operand_def(IndexType())
    into = operand_def(TensorType[IntegerType])
    symbol = prop_def(FlatSymbolRefAttr)
    map = prop_def(AffineMapAttr)
    dpus = prop_def(IntegerAttr[I64])
    result = result_def(TensorType[IntegerType])
    traits = traits_def(ReadsGrid())
    assembly_format = (
        "$symbol `bytes` $bytes `of` $grid `[` $group `]` `map` $map `dpus` $dpus `into` $into "
        "attr-dict `:` type($grid) `,` type($into) `->` type($result)"
    )

    def __init__(
        self,
        symbol: str,
        bytes: SSAValue | Operation,
        grid: SSAValue,
        group: SSAValue | Operation,
        into: SSAValue | Operation,
        map: AffineMap,
        dpus: int,
    ):
        super().__init__(
            operands=[bytes, grid, group, into],
            properties={
                "symbol": SymbolRefAttr(symbol),
                "map": AffineMapAttr(map),
                "dpus": IntegerAttr(dpus, i64),
            },
            result_types=[SSAValue.get(into).type],
        )

    def verify_(self) -> None:
        if self.result.type != self.into.type:
            raise VerifyException(f"{self.into.type} does not become {self.result.type}")
        dpus = self.dpus.value.data
        if not 1 <= dpus <= grid_type(self.grid).dpus.data:
            raise VerifyException(f"{dpus} DPUs of {grid_type(self.grid).dpus.data}")
        _require_map(self.map.data, shape_of(self.into)[0], dpus, "fills")
        symbol = symbol_of(self, self.symbol)
        if _row_bytes(self.into) > symbol.bytes:
            raise VerifyException(
                f"rows of {_row_bytes(self.into)} bytes are longer than @{symbol.sym_name.data} "
                f"of {symbol.bytes}"
            )


def _row_bytes(value: SSAValue) -> int:
    """Bytes of one row of a tensor, the elements of its last dimensions together."""
    return prod(shape_of(value)[1:]) * bits_of(value) // 8


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """A kernel started on the DPUs of a group; the host goes on. `upmem.wait` ends it."""

    name = "upmem.launch"

    grid = operand_def(GridType)
    group = operand_def(IndexType())
    kernel = prop_def(FlatSymbolRefAttr)
    traits = traits_def(ChangesGrid())
    assembly_format = "$kernel `on` $grid `[` $group `]` attr-dict `:` type($grid)"

    def __init__(self, kernel: str, grid: SSAValue, group: SSAValue | Operation):
        super().__init__(operands=[grid, group], properties={"kernel": SymbolRefAttr(kernel)})

    def verify_(self) -> None:
        kernel = kernel_of(self, self.kernel)
        tasklets = kernel.mapping.number("tasklets")
        if tasklets > grid_type(self.grid).tasklets.data:
            raise VerifyException(
                f"@{kernel.sym_name.data} runs {tasklets} tasklets, the grid has "
                f"{grid_type(self.grid).tasklets.data}"
            )


@irdl_op_definition
class WaitOp(IRDLOperation):
    """The host waits for the DPUs of a group; a fault of one of them is an error here."""

    name = "upmem.wait"

    grid = operand_def(GridType)
    group = operand_def(IndexType())
    traits = traits_def(ChangesGrid())
    assembly_format = "$grid `[` $group `]` attr-dict `:` type($grid)"

    def __init__(self, grid: SSAValue, group: SSAValue | Operation):
        super().__init__(operands=[grid, group])
