"""
The meaning of a tiled module: grids of DPUs in NumPy, the host's commands on them, and kernels.

Packing and unpacking are `analysis.upmem_layout`; kernels run operation by operation
(`interpreters.upmem_device`). What comes out must be what `lut.lookup` says, which is how the
tiling is checked without any generated C.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_terminator,
    register_impls,
)
from xdsl.interpreters.func import FuncFunctions
from xdsl.ir import Attribute
from xdsl.traits import SymbolTable

from ..analysis.upmem_layout import pack_indices, pack_table, unpack_sums
from ..analysis.upmem_mapping import Geometry
from ..dialects import upmem
from ..dialects.lut_constants import dense_array
from .arrays import to_array
from .graph import GraphFunctions, find_function
from .lut import LutFunctions
from .upmem_device import POISON, Buffer, KernelFault, Launch


@dataclass
class Grid:
    """DPUs as the host sees them: their symbols, and which of them run."""

    type: upmem.GridType
    symbols: list[dict[str, Buffer]]
    running: list[bool] = field(default_factory=list[bool])
    freed: bool = False

    def group(self, number: int, what: str) -> range:
        """The DPUs of a group; raises KernelFault for one that does not exist or is freed."""
        if self.freed or not 0 <= number < self.type.groups.data:
            raise KernelFault(f"{what}: there is no group {number}")
        size = self.type.group_size
        return range(number * size, min((number + 1) * size, self.type.dpus.data))

    def idle(self, number: int, what: str) -> range:
        """The DPUs of a group that does not run (rule R7)."""
        dpus = self.group(number, what)
        if self.running[number]:
            raise KernelFault(f"{what}: group {number} runs (R7)")
        return dpus


def _matrix(array: Any) -> NDArray[np.uint8]:
    """The bytes of an array, a row for each of its first axis."""
    rows = np.ascontiguousarray(array)
    return rows.reshape(rows.shape[0], -1).view(np.uint8)


def _tile(attribute: AffineMapAttr, dpu: int) -> int:
    (tile,) = attribute.data.eval((dpu,), ())
    return tile


def _dpus(op: upmem.ScatterOp | upmem.GatherOp, dpus: range) -> range:
    """The DPUs that take part."""
    return range(dpus.start, max(dpus.start, min(dpus.stop, op.dpus.value.data)))


@register_impls
class UpmemFunctions(InterpreterFunctions):
    """
    The host's side of the `upmem` dialect. `rows` is the number of rows of every call; None is as
    many as there can be. `seed` shuffles the order of tasklets, 0 does not.
    """

    def __init__(self, rows: int | None = None, seed: int = 0):
        self.rows = rows
        self.seed = seed

    def geometry(self, op: Any, rows: int) -> Geometry:
        """The sizes of this call of a kernel."""
        whole: Geometry = op.geometry
        return replace(whole, shape=replace(whole.shape, rows=rows))

    # Numbers and loops

    @impl(arith.ConstantOp)
    def run_constant(
        self, interpreter: Interpreter, op: arith.ConstantOp, args: PythonValues
    ) -> PythonValues:
        if isinstance(op.result.type, IndexType):
            return (cast(IntegerAttr[Any], op.value).value.data,)
        element = cast(TensorType[Attribute], op.result.type).element_type
        return (dense_array(op.value) if isinstance(element, IntegerType) else to_array(op.value),)

    @impl(arith.MuliOp)
    def run_multiply(
        self, interpreter: Interpreter, op: arith.MuliOp, args: PythonValues
    ) -> PythonValues:
        return (args[0] * args[1],)

    @impl(arith.CeilDivUIOp)
    def run_ceil_div(
        self, interpreter: Interpreter, op: arith.CeilDivUIOp, args: PythonValues
    ) -> PythonValues:
        return (-(-args[0] // args[1]),)

    @impl(scf.ForOp)
    def run_for(self, interpreter: Interpreter, op: scf.ForOp, args: PythonValues) -> PythonValues:
        first, end, step, *carried = args
        for number in range(first, end, step):
            carried = interpreter.run_ssacfg_region(op.body, (number, *carried), "loop")
        return tuple(carried)

    @impl_terminator(scf.YieldOp)
    def run_yield(
        self, interpreter: Interpreter, op: scf.YieldOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()

    @impl(tensor.EmptyOp)
    def run_empty(
        self, interpreter: Interpreter, op: tensor.EmptyOp, args: PythonValues
    ) -> PythonValues:
        type_ = cast(TensorType[IntegerType], op.tensor.type)
        size = type_.element_type.width.data // 8
        shape = type_.get_shape()
        raw = np.full((*shape[:-1], shape[-1] * size), POISON, dtype=np.uint8)
        return (raw.view(f"<i{size}"),)

    # Values

    @impl(upmem.BatchOp)
    def run_batch(
        self, interpreter: Interpreter, op: upmem.BatchOp, args: PythonValues
    ) -> PythonValues:
        most = op.max.value.data
        rows = most if self.rows is None else self.rows
        if not 1 <= rows <= most:
            raise KernelFault(f"{op.name}: {rows} rows of at most {most}")
        return (rows,)

    @impl(upmem.SplitRowsOp)
    def run_split(
        self, interpreter: Interpreter, op: upmem.SplitRowsOp, args: PythonValues
    ) -> PythonValues:
        (rows,), parts = args, op.parts.value.data
        stride = -(-rows // parts)
        counts = np.zeros(upmem.shape_of(op.result), dtype=np.int32)
        counts[:, 1] = stride
        counts[:parts, 0] = np.clip(rows - np.arange(parts) * stride, 0, stride)
        return (counts,)

    @impl(upmem.PackIndicesOp)
    def run_pack_indices(
        self, interpreter: Interpreter, op: upmem.PackIndicesOp, args: PythonValues
    ) -> PythonValues:
        indices, rows = args
        result = np.full(upmem.shape_of(op.result), POISON, dtype=np.uint8)
        packed = pack_indices(self.geometry(op, rows), np.asarray(indices[:rows], dtype=np.uint8))
        result[:, : packed.shape[-1]] = packed.reshape(len(result), -1)
        return (result,)

    @impl(upmem.PackTableOp)
    def run_pack_table(
        self, interpreter: Interpreter, op: upmem.PackTableOp, args: PythonValues
    ) -> PythonValues:
        packed = pack_table(op.geometry, np.asarray(args[0], dtype=np.int8))
        return (packed.reshape(upmem.shape_of(op.result)),)

    @impl(upmem.UnpackSumsOp)
    def run_unpack(
        self, interpreter: Interpreter, op: upmem.UnpackSumsOp, args: PythonValues
    ) -> PythonValues:
        raw, rows = args
        geometry = self.geometry(op, rows)
        m = geometry.mapping
        used = _matrix(raw)[:, : geometry.output_bytes].reshape(m.ip, m.split_cb, m.lp, -1)
        sums = np.zeros(upmem.shape_of(op.result), dtype=f"<i{upmem.bits_of(op.result) // 8}")
        found = unpack_sums(geometry, used, rows)
        sums[:rows] = found.astype(np.int16) if m.out == "i16" else found
        return (sums,)

    # Commands

    @impl(upmem.AllocGridOp)
    def run_alloc(
        self, interpreter: Interpreter, op: upmem.AllocGridOp, args: PythonValues
    ) -> PythonValues:
        module = op.get_toplevel_object()
        symbols = [o for o in module.walk() if isinstance(o, upmem.SymbolOp)]
        type_ = upmem.grid_type(op.grid)
        dpus = [
            {s.sym_name.data: Buffer(s.sym_name.data, s.bytes) for s in symbols}
            for _ in range(type_.dpus.data)
        ]
        return (Grid(type_, dpus, [False] * type_.groups.data),)

    @impl(upmem.FreeOp)
    def run_free(
        self, interpreter: Interpreter, op: upmem.FreeOp, args: PythonValues
    ) -> PythonValues:
        grid: Grid = args[0]
        for group in range(grid.type.groups.data):
            grid.idle(group, op.name)
        grid.freed = True
        return ()

    def put(self, grid: Grid, dpu: int, symbol: str, data: NDArray[np.uint8]) -> None:
        """Bytes to the start of a symbol of one DPU; raises KernelFault (rule R6)."""
        if len(data) % 8:
            raise KernelFault(f"{len(data)} bytes to @{symbol}: no multiple of 8 (R6)")
        buffer = grid.symbols[dpu][symbol]
        span = buffer.span("transfer", 0, len(data))
        buffer.data[span], buffer.defined[span] = data, True

    @impl(upmem.ScatterOp)
    def run_scatter(
        self, interpreter: Interpreter, op: upmem.ScatterOp, args: PythonValues
    ) -> PythonValues:
        source, size, grid, group = args
        rows = _matrix(source)
        for dpu in _dpus(op, grid.idle(group, op.name)):
            if size > rows.shape[1]:
                raise KernelFault(f"{op.name}: {size} bytes of rows of {rows.shape[1]}")
            row = rows[_tile(op.map, dpu), :size]
            self.put(grid, dpu, op.symbol.root_reference.data, row)
        return ()

    @impl(upmem.BroadcastOp)
    def run_broadcast(
        self, interpreter: Interpreter, op: upmem.BroadcastOp, args: PythonValues
    ) -> PythonValues:
        source, grid, group = args
        for dpu in grid.idle(group, op.name):
            self.put(grid, dpu, op.symbol.root_reference.data, _matrix(source).reshape(-1))
        return ()

    @impl(upmem.GatherOp)
    def run_gather(
        self, interpreter: Interpreter, op: upmem.GatherOp, args: PythonValues
    ) -> PythonValues:
        size, grid, group, into = args
        result = np.array(into)
        rows = result.view(np.uint8)
        if size % 8 or size > rows.shape[1]:
            raise KernelFault(f"{op.name}: {size} bytes into rows of {rows.shape[1]} (R6)")
        for dpu in _dpus(op, grid.idle(group, op.name)):
            buffer = grid.symbols[dpu][op.symbol.root_reference.data]
            rows[_tile(op.map, dpu), :size] = buffer.data[buffer.span(op.name, 0, size)]
        return (result,)

    @impl(upmem.LaunchOp)
    def run_launch(
        self, interpreter: Interpreter, op: upmem.LaunchOp, args: PythonValues
    ) -> PythonValues:
        grid, group = args
        kernel = SymbolTable.lookup_symbol(op, op.kernel)
        assert isinstance(kernel, upmem.KernelOp)
        for dpu in grid.idle(group, op.name):
            Launch(kernel, grid.symbols[dpu], self.seed).run()
        grid.running[group] = True
        return ()

    @impl(upmem.WaitOp)
    def run_wait(
        self, interpreter: Interpreter, op: upmem.WaitOp, args: PythonValues
    ) -> PythonValues:
        grid, group = args
        grid.group(group, op.name)
        grid.running[group] = False
        return ()


def run_upmem(
    module: ModuleOp,
    inputs: list[np.ndarray],
    function: str = "main",
    rows: int | None = None,
    seed: int = 0,
) -> list[np.ndarray]:
    """
    Opens a grid, calls a function with it and these inputs, and closes it.

    Arrays are as large as the function's types say; results past `rows` (all of them where it is
    None) are not defined. Raises KernelFault where a kernel or a transfer does what a DPU may not.
    """
    interpreter = Interpreter(module)
    interpreter.register_implementations(GraphFunctions())
    interpreter.register_implementations(LutFunctions())
    interpreter.register_implementations(FuncFunctions())
    interpreter.register_implementations(UpmemFunctions(rows, seed), override=True)
    (grid,) = interpreter.call_op(find_function(module, "upmem_open"), ())
    op: FuncOp = find_function(module, function)
    results = interpreter.call_op(op, (grid, *inputs))
    interpreter.call_op(find_function(module, "upmem_close"), (grid,))
    return list(results)
