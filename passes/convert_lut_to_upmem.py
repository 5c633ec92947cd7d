"""
Lookups to programs for UPMEM: PIM tiling.

Before:

```mlir
func.func @main(%x: tensor<100x192xf64>) -> tensor<100x40xf64> {
  …
  %i = lut.encode %x by %centroids steps %steps … -> tensor<100x48xui8>
  %s = lut.lookup %i in %table quant <bits = 8, …> : … -> tensor<100x40xi32>
  %y = lut.dequant %s … -> tensor<100x40xf64>
```

After:

```mlir
upmem.symbol @index : memref<…xi8, #upmem.mram>
upmem.symbol @fc1_table resident : memref<…xi8, #upmem.mram>
upmem.kernel @fc1(%index = @index : …, …) target #upmem.target<"v1A"> mapping #upmem.mapping<…>
    shape #upmem.shape<…> { loops, DMA, barriers, upmem.lut_accumulate }
func.func @upmem_open() -> !upmem.grid<…> { allocates DPUs, sends the resident tables }
func.func @upmem_close(%grid: !upmem.grid<…>) { … }
func.func @main(%grid: !upmem.grid<…>, %x: tensor<100x192xf64>) -> tensor<100x40xf64> {
  …
  %i = lut.encode …
  %p = upmem.pack_indices %i rows %rows for @fc1 …
  upmem.scatter %p … upmem.launch @fc1 … upmem.wait … upmem.gather …
  %s = upmem.unpack_sums …
  %y = lut.dequant %s …
```

Every `lut.lookup` of integers (and that of every `lut.linear`, which is taken apart) becomes one
kernel, and so does the product of every `lut.int8_linear`. The search, or the rounding to bytes,
and the scaling stay on the host. A mapping that an operation carries as `upmem.mapping` is kept,
then the fields of the option `mapping`; the tuner chooses the rest. Tables that stay in MRAM are
sent by `@upmem_open`. The types of the function hold the largest batch; `upmem.batch` is the number
of rows of a call.

Everything is refused before anything is changed. Run again, there is nothing left to convert.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    i8,
    i32,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.transforms.common_subexpression_elimination import cse

from ..analysis import upmem_joint as joint
from ..analysis.int8_layer import LIMIT, product_range
from ..analysis.lut_layer import accumulator_range
from ..analysis.upmem_legality import Machine, check
from ..analysis.upmem_mapping import FIELDS, Geometry, LutShape, Mapping, parse_fields
from ..analysis.upmem_target import find_target
from ..dialects import upmem
from ..dialects.lut import (
    DequantOp,
    EncodeOp,
    Int8LinearOp,
    LinearOp,
    LookupOp,
    ToInt8Op,
    element_of,
    is_integer,
    shape_of,
)
from ..dialects.lut_constants import constant_array
from ..dialects.lut_patterns import expand
from ..errors import CompileError, reject
from .upmem_emitter import Emitter
from .upmem_host import Layer, run_layer, send_table
from .upmem_kernel import KernelBuilder, Symbols

Layered = LookupOp | LinearOp | Int8LinearOp
"""What becomes a kernel."""

MAPPING = "upmem.mapping"
"""The attribute of a `lut` operation with the fields that the user has fixed."""

OPEN, CLOSE = "upmem_open", "upmem_close"
"""The functions that make and end what the others need."""


@dataclass(frozen=True)
class Plan:
    """A lookup and what has been decided about it."""

    op: Layered
    name: str
    geometry: Geometry

    @property
    def resident(self) -> bool:
        """Whether the table stays in MRAM."""
        return self.geometry.mapping.residency == "resident"


def shape_to_map(op: Layered) -> LutShape:
    """The sizes of a lookup or an int8 product; raises CompileError for a table of floats."""
    if isinstance(op, Int8LinearOp):
        rows, inputs = shape_of(op.x)
        weight = constant_array(op.weight)
        low, high = (None, None) if weight is None else product_range(weight)
        columns = shape_of(op.weight)[1]
        return LutShape(rows, inputs, 1, columns, 8, low, high, inputs, 1, LIMIT)
    if not is_integer(op.table) or op.quant is None:
        raise reject(op, "the table is of floats; lut-quantize makes it one of integers")
    blocks, count, features = shape_of(op.table)
    table = constant_array(op.table)
    low, high = (None, None) if table is None else accumulator_range(table)
    search = op if isinstance(op, LinearOp) else op.indices.owner
    rows, width, vec = shape_of(op.result)[0], None, None
    if isinstance(search, LinearOp | EncodeOp):
        width, vec = shape_of(search.x)[1], search.spec.vec.data
    return LutShape(rows, blocks, count, features, op.quant.bits.data, low, high, width, vec)


def data_of(op: Layered) -> SSAValue:
    """The table, or the weights."""
    return op.weight if isinstance(op, Int8LinearOp) else op.table


def symbol_name(layer: str, taken: set[str]) -> str:
    """A name for C from that of a layer, one that is not taken; it is taken afterwards."""
    stem = re.sub(r"\W+", "_", layer, flags=re.ASCII).strip("_") or "layer"
    stem = f"layer_{stem}" if stem[0].isdigit() else stem
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name


def functions_with_layers(module: ModuleOp) -> list[FuncOp]:
    """The functions that have a layer; raises CompileError for one that is called."""
    found: list[FuncOp] = []
    for op in module.walk():
        if isinstance(op, Layered):
            function = op.parent_op()
            if not isinstance(function, FuncOp):
                raise reject(op, "a layer of tables lies at the top of a function")
            if function not in found:
                found.append(function)
    names = {f.sym_name.data for f in found}
    for op in module.walk():
        if isinstance(op, CallOp) and op.callee.root_reference.data in names:
            raise reject(
                op,
                f"@{op.callee.root_reference.data} has layers of tables and would get a grid of "
                "DPUs as an argument; inline it first",
            )
    return found


def groups_of(ops: Sequence[Layered], layers: Sequence[joint.Layer]) -> tuple[int, ...]:
    """The number of groups that mappings ask for, none where they do not; it is one for a grid."""
    asked = {layer.fixed["groups"]: i for i, layer in enumerate(layers) if "groups" in layer.fixed}
    if len(asked) > 1:
        (a, first), (b, second), *_ = sorted(asked.items())
        raise reject(
            ops[second],
            f"{layers[second].name} wants {b} groups of ranks and {layers[first].name} {a}; "
            "layers of one program have the same number",
        )
    return tuple(asked)


def mram_needed(geometries: Sequence[Geometry]) -> int:
    """Bytes of MRAM for all layers: those in turn use the same indices, sums and loose tables."""

    def largest(sizes: Iterable[int]) -> int:
        return max(sizes, default=0)

    stays = [g for g in geometries if g.mapping.residency == "resident"]
    sent = [g for g in geometries if g.mapping.residency != "resident"]
    return (
        sum(g.table_bytes for g in stays)
        + largest(g.table_bytes for g in sent)
        + largest(g.index_bytes for g in geometries)
        + largest(g.output_bytes for g in geometries)
    )


def tuned(layers: Sequence[joint.Layer], machine: Machine, groups: Sequence[int]) -> list[Mapping]:
    """
    The fastest mappings that fit MRAM together.

    The plan counts the largest scratch of one layer, while indices and sums here are each as large
    as those of any layer: what that takes more is kept free in another try.
    """
    free = machine.mram
    while True:
        found = joint.plan(layers, replace(machine, mram=free), groups=groups)
        mappings = [choice.mapping for choice in found.choices]
        assert all(mapping is not None for mapping in mappings)
        chosen = cast(list[Mapping], mappings)
        pairs = zip(layers, chosen, strict=True)
        need = mram_needed([Geometry(layer.shape, mapping) for layer, mapping in pairs])
        if need <= machine.mram:
            return chosen
        free -= need - machine.mram


class Converter:
    """The conversion of one module."""

    def __init__(self, module: ModuleOp, target: str, plans: Sequence[Plan]):
        self.module = module
        self.target = upmem.TargetAttr(target)
        self.plans = plans
        mappings = [plan.geometry.mapping for plan in plans]
        self.grid = upmem.GridType(
            max(m.dpus for m in mappings),
            mappings[0].groups,
            max(m.tasklets for m in mappings),
        )
        self.new: list[Operation] = []
        self.layers: dict[int, Layer] = {}

    def symbol(
        self, name: str, element: IntegerType, size: int, where: Attribute, resident: bool = False
    ) -> upmem.SymbolOp:
        """A new symbol of so many bytes."""
        type_ = MemRefType(element, [size * 8 // element.width.data], memory_space=where)
        op = upmem.SymbolOp(name, type_, resident)
        self.new.append(op)
        return op

    def build(self) -> None:
        """Symbols, kernels, the functions around them, and the calls."""
        taken = {
            op.sym_name.data
            for op in self.module.walk()
            if isinstance(op, FuncOp | upmem.SymbolOp | upmem.KernelOp)
        }
        mram, wram = upmem.MramAttr(), upmem.WramAttr()
        geometries = [plan.geometry for plan in self.plans]
        index = self.symbol(
            symbol_name("index", taken), i8, max(g.index_bytes for g in geometries), mram
        )
        sums = self.symbol(
            symbol_name("sums", taken), i8, max(g.output_bytes for g in geometries), mram
        )
        batch = self.symbol(symbol_name("batch", taken), i32, 8, wram)
        loose = [
            g.table_bytes for g, p in zip(geometries, self.plans, strict=True) if not p.resident
        ]
        shared = self.symbol(symbol_name("table", taken), i8, max(loose), mram) if loose else None
        for number, plan in enumerate(self.plans):
            kernel = symbol_name(plan.name, taken)
            table = shared
            if plan.resident:
                name = symbol_name(f"{kernel}_table", taken)
                table = self.symbol(name, i8, plan.geometry.table_bytes, mram, True)
            assert table is not None
            symbols = Symbols(index, table, sums, batch)
            self.layers[number] = Layer(kernel, plan.geometry, symbols)
            op = upmem.KernelOp(
                kernel,
                [index, table, sums, batch],
                self.target,
                upmem.MappingAttr.of(asdict(plan.geometry.mapping)),
                upmem.ShapeAttr.of(asdict(plan.geometry.shape)),
            )
            op.attributes["layer"] = StringAttr(plan.name)
            op.location = plan.op.location
            KernelBuilder(op).build()
            cse(op.body)
            self.new.append(op)
        self.new += [self.open_function(), self.close_function()]
        self.module.body.block.insert_ops_before(
            self.new, cast(Operation, self.module.body.block.first_op)
        )

    def open_function(self) -> FuncOp:
        """Allocates the grid and sends what stays."""
        block = Block()
        emit = Emitter(block)
        grid = emit.op(upmem.AllocGridOp(self.target, self.grid), "grid").grid
        for number, plan in enumerate(self.plans):
            if not plan.resident:
                continue
            layer = self.layers[number]
            data = data_of(plan.op)
            constant = data.owner
            assert isinstance(constant, ConstantOp)
            table = emit.op(constant.clone(), data.name_hint).result
            packed = upmem.PackTableOp(table, layer.kernel, plan.geometry)
            emit.op(packed, "packed_table")
            with emit.loop(0, self.grid.groups.data, 1, "group") as group:
                send_table(emit, layer, grid, emit.value(group), packed.result)
        emit.op(ReturnOp(grid))
        return FuncOp(OPEN, ([], [self.grid]), Region(block))

    def close_function(self) -> FuncOp:
        """Frees the grid."""
        block = Block(arg_types=[self.grid])
        block.args[0].name_hint = "grid"
        block.add_ops([upmem.FreeOp(block.args[0]), ReturnOp()])
        return FuncOp(CLOSE, ([self.grid], []), Region(block))

    def convert(self, functions: Sequence[FuncOp]) -> None:
        """A grid for each function and calls of kernels in place of lookups."""
        self.build()
        grids: dict[FuncOp, SSAValue] = {}
        for function in functions:
            grid = function.body.block.insert_arg(self.grid, 0)
            grid.name_hint = "grid"
            grids[function] = grid
            inputs, outputs = function.function_type.inputs, function.function_type.outputs
            function.function_type = FunctionType.from_lists([self.grid, *inputs], [*outputs])
            if function.arg_attrs is not None:
                function.arg_attrs = ArrayAttr([DictionaryAttr({}), *function.arg_attrs])
        for number, plan in enumerate(self.plans):
            lookup = plan.op
            if isinstance(lookup, LinearOp):
                parts = expand(lookup)
                Rewriter.replace_op(lookup, parts)
                lookup = next(p for p in parts if isinstance(p, LookupOp))
            function = lookup.parent_op()
            assert isinstance(function, FuncOp)
            around, table = Block(), data_of(lookup)
            emit = Emitter(around)
            if isinstance(lookup, Int8LinearOp):
                given = emit.op(ToInt8Op(lookup.x, lookup.step), "activations").result
                type_ = TensorType(i32, shape_of(lookup.result))
            else:
                given = lookup.indices
                type_ = cast(TensorType[IntegerType], lookup.result.type)
            layer = self.layers[number]
            found = run_layer(emit, layer, grids[function], given, table, type_)
            if isinstance(lookup, Int8LinearOp):
                element = cast(AnyFloat, element_of(lookup.result))
                scaled = DequantOp(found, lookup.scale, lookup.bias, element)
                found = emit.op(scaled, lookup.result.name_hint).result
            for op in tuple(around.ops):
                op.detach()
                op.location = plan.op.location
                cast(Block, lookup.parent).insert_op_before(op, lookup)
            lookup.result.replace_all_uses_with(found)
            Rewriter.erase_op(lookup)
            if isinstance(table.owner, ConstantOp) and not table.uses:
                # What stays in MRAM is sent from `@upmem_open`.
                Rewriter.erase_op(table.owner)


@dataclass(frozen=True)
class ConvertLutToUpmemPass(ModulePass):
    """Each lookup to a kernel, its tiling, and the host code around it."""

    name = "convert-lut-to-upmem"

    target: str = "v1A"
    """A generation, or the path of a `.toml` file."""
    dpus: int | None = None
    """Working DPUs; all of the target's where it is not said."""
    mapping: str = ""
    """Fields of the mapping that hold for all layers: `"ip=4 order=nfc"`."""

    groups: tuple[int, ...] = (1,)
    """Numbers of rank groups that the tuner compares, where no mapping says how many."""

    def wanted(self, op: Layered, name: str) -> joint.Layer:
        """The shape of a layer and the fields of its mapping that are given."""
        shape = shape_to_map(op)
        fixed: dict[str, Any] = parse_fields(self.mapping)
        own = op.attributes.get(MAPPING)
        if own is not None:
            if not isinstance(own, upmem.MappingAttr):
                raise reject(op, f"{MAPPING} is a #upmem.mapping<…>, not {own}")
            fixed |= own.values
        if constant_array(data_of(op)) is None:
            if fixed.get("residency") == "resident":
                what = "a weight" if isinstance(op, Int8LinearOp) else "a table"
                raise reject(op, f"{what} that is no constant cannot be resident: per_call")
            fixed["residency"] = "per_call"
        return joint.Layer(name, shape, fixed)

    def plans(self, ops: Sequence[Layered], machine: Machine) -> list[Plan]:
        """The mapping of each layer: the fields that are given, the rest by the tuner."""
        layers: list[joint.Layer] = []
        for op in ops:
            name = f"layer{len(layers)}" if op.layer is None else op.layer.data
            layers.append(self.wanted(op, name))
        groups = groups_of(ops, layers) or self.groups
        if any(field not in layer.fixed for layer in layers for field in FIELDS):
            mappings = tuned(layers, machine, groups)
        else:
            mappings = [Mapping(**layer.fixed) for layer in layers]
        found: list[Plan] = []
        for op, layer, mapping in zip(ops, layers, mappings, strict=True):
            check(layer.shape, mapping, machine, layer.name)
            found.append(Plan(op, layer.name, Geometry(layer.shape, mapping)))
        if (need := mram_needed([plan.geometry for plan in found])) > machine.mram:
            raise CompileError(
                f"R1: the tables of {len(found)} layers with the largest indices and sums take "
                f"{need:,} bytes of the MRAM of a DPU, {need - machine.mram:,} more than the "
                f"{machine.mram:,} that there are; more DPUs, or residency=per_call for some"
            )
        return found

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = functions_with_layers(op)
        if not functions:
            return
        for function in op.walk():
            if isinstance(function, FuncOp) and function.sym_name.data in (OPEN, CLOSE):
                raise reject(function, f"@{function.sym_name.data} is a name the conversion needs")
        target = find_target(self.target)
        if self.dpus is not None and self.dpus > target.dpus:
            raise CompileError(
                f"dpus={self.dpus}: {target.name} has {target.dpus} in {target.ranks} ranks; a "
                "target file of your own can have more"
            )
        machine = Machine.of(target, self.dpus)
        layers = [layer for layer in op.walk() if isinstance(layer, Layered)]
        plans = self.plans(layers, machine)
        Converter(op, self.target, plans).convert(functions)
