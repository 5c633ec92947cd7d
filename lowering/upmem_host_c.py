"""
The target `upmem-host-c`: what the host of a module's layers has to know, as C.

The work itself (search, packing, transfers, launches, sums) is the same for every model and lies
in `runtime/upmem/model/inr_lut.c`, which goes along with each project. What is printed here are a
model's layers: sizes, mappings, symbols, and where each array lies in the file of weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.target import Target

from ..analysis.int8_layer import Int8Layer
from ..analysis.lut_layer import LutLayer
from ..analysis.upmem_layout import pack_table
from ..analysis.upmem_mapping import Geometry
from ..dialects import upmem
from ..dialects.lut import DequantOp, EncodeOp, ResidualMatmulOp, ToInt8Op
from ..dialects.lut_constants import constant_array
from ..errors import CompileError, reject
from .cpp_names import Names
from .dpu_c import OPERATION, Program, symbol_name

ALIGNMENT = 8
"""Arrays in the file of weights begin at multiples of this: the SDK's transfers ask for 4."""

Array = NDArray[Any]


@dataclass
class HostLayer:
    """A layer as the host runs it."""

    name: str
    """As in the user's model."""
    word: str
    """As a C identifier, unique in the program."""
    kernel: upmem.KernelOp
    table: Array
    """CB×K×F, or the H×F weights of an int8 product."""
    centroids: Array | None = None
    steps: Array | None = None
    """CB; of an int8 product the one step of its activations."""
    scale: Array | None = None
    bias: Array | None = None
    channels: Array | None = None
    residual: Array | None = None

    @property
    def geometry(self) -> Geometry:
        """The sizes that follow from the kernel's mapping."""
        return self.kernel.geometry

    @property
    def inputs(self) -> int:
        """H."""
        return self.geometry.shape.inputs

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """What goes into the file of weights, by the field of `inr_lut_layer`."""
        yield "table", pack_table(self.geometry, self.table)
        for field, values, kind in (
            ("points", self.centroids, "<i2"),
            ("steps", self.steps, "<f4"),
            ("scale", self.scale, "<f4"),
            ("bias", self.bias, "<f4"),
            ("channels", self.channels, "<i4"),
            ("residual", self.residual, "<f4"),
        ):
            if values is not None:
                yield field, np.ascontiguousarray(values, dtype=kind)

    def int8_layer(self) -> Int8Layer:
        """The data of a product, for comparison. CompileError where a part is not in the module."""
        if not self.geometry.shape.is_product or self.steps is None or self.scale is None:
            raise CompileError(f"{self.name}: the module has no step or no scale of a product")
        return Int8Layer(
            self.name,
            self.table.astype(np.int8),
            float(self.steps[0]),
            self.scale.astype(np.float32),
            self.bias,
        )

    def lut_layer(self) -> LutLayer:
        """The layer's data, for comparison. CompileError where the search is not in the module."""
        if self.centroids is None or self.steps is None or self.scale is None:
            raise CompileError(f"{self.name}: the module has no search or no scale of this layer")
        return LutLayer(
            self.name,
            self.inputs,
            self.centroids.astype(np.int16),
            self.steps.astype(np.float32),
            self.table.astype(np.int8),
            self.scale.astype(np.float32),
            self.bias,
            self.geometry.shape.bits,
            self.channels,
            self.residual,
        )


class HostProgram:
    """The layers of a module with the program of the DPUs that they run on."""

    def __init__(self, module: ModuleOp, name: str = "model"):
        self.program = Program.of(module, name)
        self.name = self.program.name
        grids = [op for op in module.walk() if isinstance(op, upmem.AllocGridOp)]
        if len(grids) != 1:
            raise CompileError(f"upmem-host-c: one upmem.alloc_grid is needed, not {len(grids)}")
        self.grid = upmem.grid_type(grids[0].grid)
        names = Names()
        found = _Uses(module)
        self.layers = [found.layer(kernel, names) for kernel in self.program.kernels]
        self._place()

    def _place(self) -> None:
        """Where each array lies in the file."""
        self.places: dict[tuple[int, str], tuple[int, int]] = {}
        blocks: list[bytes] = []
        size = 0
        for number, layer in enumerate(self.layers):
            for field, values in layer.arrays():
                data = values.tobytes()
                self.places[number, field] = (size, len(data))
                padding = -len(data) % ALIGNMENT
                blocks += [data, bytes(padding)]
                size += len(data) + padding
        self.weights = b"".join(blocks)

    def symbol(self, suffix: str) -> str:
        """The C name of the symbol that all kernels take in this place."""
        place = ("index", "table", "sums", "batch").index(suffix)
        names = {
            cast(Any, kernel.symbols.data[place]).root_reference.data
            for kernel in self.program.kernels
        }
        if len(names) != 1:
            raise CompileError(f"upmem-host-c: kernels with several {suffix} symbols: {names}")
        return symbol_name(names.pop())

    def header(self) -> str:
        """The C API of the model."""
        name, upper = self.name, self.name.upper()
        lines = [
            f"/* {name}: layers of tables on UPMEM DPUs. */",
            f"#ifndef {upper}_H",
            f"#define {upper}_H",
            "",
            '#include "inr_lut.h"',
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            "/* Numbers of the layers. */",
            f"enum {name}_layer {{",
        ]
        for number, layer in enumerate(self.layers):
            lines.append(f"    {upper}_LAYER_{layer.word.upper()} = {number}, /* {layer.name} */")
        lines += [
            "};",
            "",
            f"extern const inr_lut_program {name}_program;",
            "",
            "/* `binary`: the program of the DPUs; `weights`: the file beside it. */",
            f"static inline inr_lut_model *{name}_open(const char *binary, const char *weights)",
            "{",
            f"    return inr_lut_open(&{name}_program, binary, weights, NULL);",
            "}",
        ]
        for layer in self.layers:
            shape = layer.geometry.shape
            lines += [
                "",
                f"/* {layer.name}: x has {layer.inputs} values a row, y {shape.features}. */",
                f"static inline int {name}_{layer.word}(",
                "    inr_lut_model *model, const float *x, size_t rows, float *y)",
                "{",
                f"    return inr_lut_run(model, {upper}_LAYER_{layer.word.upper()}, x, rows, y);",
                "}",
            ]
        lines += ["", "#ifdef __cplusplus", "}", "#endif", "#endif"]
        return "\n".join(lines) + "\n"

    def source(self) -> str:
        """The descriptors of the layers."""
        name = self.name
        lines = [
            f"/* {name}: its layers, and how each is laid out over DPUs. */",
            f'#include "{name}.h"',
            "",
            f'#include "{name}_program.h"',
            "",
            "static const inr_lut_layer layers[] = {",
        ]
        for number, layer in enumerate(self.layers):
            lines += self._layer(number, layer)
        groups = self.grid.groups.data
        lines += [
            "};",
            "",
            f"const inr_lut_program {name}_program = {{",
            f'    .name = "{name}",',
            f"    .dpus = {self.grid.dpus.data},",
            f"    .groups = {groups},",
            f'    .index_symbol = "{self.symbol("index")}",',
            f'    .sums_symbol = "{self.symbol("sums")}",',
            f'    .batch_symbol = "{self.symbol("batch")}",',
            f'    .operation_symbol = "{OPERATION}",',
            f"    .weights_bytes = {len(self.weights)},",
            "    .layers = layers,",
            "    .layer_count = sizeof layers / sizeof *layers,",
            "};",
        ]
        return "\n".join(lines) + "\n"

    def _layer(self, number: int, layer: HostLayer) -> list[str]:
        geometry = layer.geometry
        shape, mapping = geometry.shape, geometry.mapping
        table = symbol_name(cast(Any, layer.kernel.symbols.data[1]).root_reference.data)
        fields: list[tuple[str, str]] = [
            ("name", f'"{layer.name}"'),
            ("operation", self.program.constant(layer.kernel)),
            ("rows", str(shape.rows)),
            ("inputs", str(layer.inputs)),
            ("vec", str(shape.vec or 1)),
            ("codebooks", str(shape.codebooks)),
            ("centroids", str(shape.centroids)),
            ("features", str(shape.features)),
            ("ip", str(mapping.ip)),
            ("lp", str(mapping.lp)),
            ("split_cb", str(mapping.split_cb)),
            ("dpu_codebooks", str(geometry.codebooks)),
            ("dpu_features", str(geometry.features)),
            ("codebook_tile", str(geometry.axis("c").tile)),
            ("feature_tile", str(geometry.axis("f").tile)),
            ("idx_bits", str(mapping.idx_bits)),
            ("idx_scale", str(mapping.f_l)),
            ("sum_bytes", str(mapping.out_bytes)),
            ("product", str(int(shape.is_product))),
            ("table_symbol", f'"{table}"'),
            ("table_bytes", str(geometry.table_bytes)),
            ("resident", str(int(mapping.residency == "resident"))),
        ]
        for field in ("table", "points", "steps", "scale", "bias", "channels", "residual"):
            if (place := self.places.get((number, field))) is not None:
                fields.append((field, f"{{{place[0]}, {place[1]}}}"))
        return ["    {", *(f"        .{field} = {text}," for field, text in fields), "    },"]


class _Uses:
    """What the host code of a module does with each kernel."""

    def __init__(self, module: ModuleOp):
        self.tables: dict[str, upmem.PackTableOp] = {}
        self.indices: dict[str, upmem.PackIndicesOp] = {}
        self.sums: dict[str, upmem.UnpackSumsOp] = {}
        for op in module.walk():
            match op:
                case upmem.PackTableOp():
                    self._add(self.tables, op)
                case upmem.PackIndicesOp():
                    self._add(self.indices, op)
                case upmem.UnpackSumsOp():
                    self._add(self.sums, op)
                case upmem.ScatterOp() | upmem.GatherOp():
                    self._check_map(op)
                case _:
                    pass

    @staticmethod
    def _add(found: dict[str, Any], op: Any) -> None:
        kernel = cast(SymbolRefAttr, op.kernel).root_reference.data
        if kernel in found:
            raise reject(op, f"@{kernel} is run in two places; a layer is one place")
        found[kernel] = op

    @staticmethod
    def _check_map(op: upmem.ScatterOp | upmem.GatherOp) -> None:
        """The runtime knows one way to number DPUs: the one of `analysis.upmem_mapping`."""
        source = op.source.owner if isinstance(op, upmem.ScatterOp) else None
        if not isinstance(source, upmem.PackIndicesOp | upmem.PackTableOp):
            return
        mapping = source.geometry.mapping
        sharing = mapping.lp * mapping.split_cb
        for dpu in range(op.dpus.value.data):
            (row,) = op.map.data.eval((dpu,), ())
            wanted = dpu // mapping.lp if isinstance(source, upmem.PackIndicesOp) else dpu % sharing
            if row != wanted:
                raise reject(op, f"DPU {dpu} takes row {row}; upmem-host-c sends it row {wanted}")

    def layer(self, kernel: upmem.KernelOp, names: Names) -> HostLayer:
        """A kernel with all that is known around it."""
        symbol = kernel.sym_name.data
        said = kernel.attributes.get("layer")
        name = said.data if isinstance(said, StringAttr) else symbol
        packed = self.tables.get(symbol)
        if packed is None:
            raise reject(kernel, f"upmem-host-c: no upmem.pack_table for @{symbol}")
        table = _constant(packed, packed.table, "table")
        layer = HostLayer(name, names.unique(symbol), kernel, table)
        indices = self.indices.get(symbol)
        encode = None if indices is None else indices.indices.owner
        if isinstance(encode, EncodeOp):
            layer.centroids = _constant(encode, encode.centroids, "set of centroids")
            layer.steps = _constant(encode, encode.steps, "set of steps")
        elif isinstance(encode, ToInt8Op):
            layer.steps = _constant(encode, encode.step, "step")
        sums = self.sums.get(symbol)
        users = [] if sums is None else [use.operation for use in sums.result.uses]
        for op in users:
            if isinstance(op, DequantOp) and op.scale is not None:
                self._outputs(layer, op)
        return layer

    @staticmethod
    def _outputs(layer: HostLayer, op: DequantOp) -> None:
        assert op.scale is not None
        columns = layer.geometry.shape.features
        layer.scale = np.broadcast_to(_constant(op, op.scale, "scale"), (columns,))
        if op.bias is not None:
            layer.bias = _constant(op, op.bias, "bias").astype(np.float32)
        for use in op.result.uses:
            product = use.operation
            if isinstance(product, ResidualMatmulOp) and product.base is op.result:
                channels = product.channels.get_values()
                layer.channels = np.asarray(channels, dtype=np.int32)
                layer.residual = _constant(product, product.weight, "residual weight")


def _constant(op: Operation, value: SSAValue, what: str) -> Array:
    found = constant_array(value)
    if found is None:
        raise reject(op, f"upmem-host-c: the {what} is no constant")
    return found


@dataclass(frozen=True)
class UpmemHostCTarget(Target):
    """Header and descriptors in one text, for reading; `upmem_project` writes files."""

    name = "upmem-host-c"

    model: str = "model"
    """What names in the text begin with."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        host = HostProgram(module, self.model)
        output.write(f"/* ---- {host.name}.h ---- */\n")
        output.write(host.header())
        output.write(f"\n/* ---- {host.name}.c ---- */\n")
        output.write(host.source())
