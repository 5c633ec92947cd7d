"""
Generated device programs on the emulated DPU against the lookup in NumPy, bit for bit: every order
of loops with every load scheme, width of an index and way of adding, on ragged shapes.
"""

from __future__ import annotations

import ctypes
import itertools
import random
from dataclasses import asdict

import numpy as np
import pytest
from inr.analysis.int8_layer import product
from inr.analysis.lut_layer import lookup, table_limit
from inr.analysis.upmem_cost import predict
from inr.analysis.upmem_layout import dpu_number, pack_indices, pack_table, unpack_sums
from inr.analysis.upmem_legality import Machine, violations
from inr.analysis.upmem_mapping import (
    INDEX_BITS,
    LOADS,
    ORDERS,
    STACK_BYTES,
    VARIANTS,
    Geometry,
    LutShape,
    Mapping,
)
from inr.analysis.upmem_target import find_target
from inr.dialects import upmem
from inr.lowering.dpu_c import OPERATION, Program, device_source, program_header, symbol_name
from inr.passes.upmem_kernel import KernelBuilder
from inr.runtime.upmem_build import DeviceOptions, device_program
from inr.runtime.upmem_engine import Dpu, default_options, engine_library
from inr.runtime.upmem_engine import Program as Binary
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, SymbolRefAttr, i8, i32

SHARD = 9
"""Kernels in one program; the instruction memory holds no more."""


def draw(
    rng: random.Random, order: str, load: str, idx_bits: int, variant: str, **fixed: int
) -> Geometry:
    """A ragged shape and a legal mapping with these fields."""
    machine = Machine.of(find_target("v1A"))
    while True:
        geometry = attempt(rng, order, load, idx_bits, variant, **fixed)
        if not violations(geometry.shape, geometry.mapping, machine):
            return geometry


def attempt(
    rng: random.Random, order: str, load: str, idx_bits: int, variant: str, **fixed: int
) -> Geometry:
    """A shape and a mapping with these fields, legal or not."""
    f_l = rng.choice([8, 16])
    bits = rng.choice([5, 6]) if variant == "swar8" else rng.choice([6, 8, 8])
    shape = LutShape(
        rows=rng.randint(3, 40),
        codebooks=rng.randint(1, 30),
        centroids=rng.choice([2, 5, 16]),
        features=rng.randint(1, 60),
        bits=bits,
    )
    values = {
        "ip": rng.randint(1, 3),
        "lp": rng.randint(1, 2),
        "n_m": rng.randint(2, 20),
        "f_m": f_l * rng.randint(1, 2),
        "c_m": 4 * rng.randint(1, 4),
        "f_l": f_l,
        "c_l": 4 * rng.randint(1, 3),
        "order": order,
        "load": load,
        "tasklets": rng.choice([1, 3, 8, 11, 16]),
        "variant": variant,
        "idx_bits": idx_bits,
        "out": rng.choice(["i32", "i16"]),
        "split_cb": rng.choice([1, 1, 2]),
    } | fixed
    return Geometry(shape, Mapping(**values))


def build(geometries: list[Geometry]) -> tuple[Program, dict[str, str]]:
    """One program with a kernel for each, and its files."""
    mram, wram = upmem.MramAttr(), upmem.WramAttr()

    def symbol(name: str, size: int) -> upmem.SymbolOp:
        return upmem.SymbolOp(name, MemRefType(i8, [size], memory_space=mram))

    shared = [
        symbol("index", max(g.index_bytes for g in geometries)),
        symbol("table", max(g.table_bytes for g in geometries)),
        symbol("sums", max(g.output_bytes for g in geometries)),
        upmem.SymbolOp("batch", MemRefType(i32, [2], memory_space=wram)),
    ]
    kernels = []
    for number, geometry in enumerate(geometries):
        kernel = upmem.KernelOp(
            f"layer{number}",
            shared,
            upmem.TargetAttr("v1A"),
            upmem.MappingAttr.of(asdict(geometry.mapping)),
            upmem.ShapeAttr.of(asdict(geometry.shape)),
        )
        KernelBuilder(kernel).build()
        kernels.append(kernel)
    module = ModuleOp([*shared, *kernels])
    module.verify()
    program = Program.of(module, "layers")
    return program, {
        "layers_program.h": program_header(program),
        "layers_dpu.c": device_source(program),
    }


class Dpus:
    """DPUs with a program, driven as a host would."""

    def __init__(self, program: Program, files: dict[str, str], checks: bool) -> None:
        options = DeviceOptions(
            tasklets=program.tasklets, stack=STACK_BYTES, flags=("-Wall", "-Werror")
        )
        elf = device_program(files, options).read_bytes()
        self.options = default_options()
        for name in ("check_races", "check_uninitialised", "check_dma_window", "check_mram_reads"):
            setattr(self.options, name, checks)
        self.binary = Binary(elf, self.options)
        library = engine_library()
        find = library.engine_program_symbol
        find.restype = ctypes.POINTER(Symbol)
        self.address = {
            name: find(self.binary.handle, name.encode()).contents.address
            for name in [OPERATION, *(symbol_name(s) for s in program.symbols)]
        }

    def run(self, number: int, geometry: Geometry, indices: np.ndarray, table: np.ndarray):
        """Sums N×F and the statistics of the slowest DPU."""
        m, rows = geometry.mapping, indices.shape[0]
        # The layout is that of the rows of this call.
        call = Geometry(LutShape(**(asdict(geometry.shape) | {"rows": rows})), m)
        packed, tables = pack_indices(call, indices), pack_table(geometry, table)
        raw = np.zeros((m.ip, m.split_cb, m.lp, call.output_bytes), dtype=np.uint8)
        slowest = None
        for i, s, j in np.ndindex(m.ip, m.split_cb, m.lp):
            mine = max(0, min(call.rows, rows - i * call.rows))
            dpu = Dpu(self.options, dpu_number(geometry, i, s, j))
            dpu.load(self.binary)
            dpu.write(self.address["dpu_index"], packed[i, s].tobytes())
            dpu.write(self.address["dpu_table"], tables[s, j].tobytes())
            dpu.write(self.address["dpu_batch"], np.array([mine, call.rows], "<i4").tobytes())
            dpu.write(self.address[OPERATION], np.array([number], "<u4").tobytes())
            fault = dpu.run()
            assert fault is None, (fault.message, m)
            out = dpu.read(self.address["dpu_sums"], call.output_bytes)
            raw[i, s, j] = np.frombuffer(out, dtype=np.uint8)
            if slowest is None or dpu.statistics.cycles > slowest.cycles:
                slowest = dpu.statistics
        return unpack_sums(call, raw, rows), slowest


class Symbol(ctypes.Structure):
    """`engine_symbol_t`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
    )


TABLES = [variant for variant in VARIANTS if variant != "int8"]
COMBINATIONS = list(itertools.product(ORDERS, LOADS, INDEX_BITS, TABLES))
SHARDS = [COMBINATIONS[i::18] for i in range(18)]


def data(rng: np.random.Generator, geometry: Geometry) -> tuple[np.ndarray, np.ndarray]:
    """Random indices for a random number of rows, and a table."""
    shape = geometry.shape
    limit = table_limit(shape.bits)
    table = rng.integers(
        -limit, limit + 1, (shape.codebooks, shape.centroids, shape.features)
    ).astype(np.int8)
    rows = int(rng.integers(1, shape.rows + 1))
    return rng.integers(0, shape.centroids, (rows, shape.codebooks)).astype(np.uint8), table


@pytest.mark.parametrize("shard", range(len(SHARDS)))
def test_every_kind_of_kernel_computes_the_lookup(shard: int) -> None:
    choose = random.Random(shard)
    geometries = [draw(choose, *combination) for combination in SHARDS[shard]]
    program, files = build(geometries)
    dpus = Dpus(program, files, checks=True)
    rng = np.random.default_rng(shard)
    for number, geometry in enumerate(geometries):
        for _ in range(2):
            indices, table = data(rng, geometry)
            sums, _ = dpus.run(1 + number, geometry, indices, table)
            assert np.array_equal(sums, lookup(indices, table)), geometry


def test_instructions_an_addition() -> None:
    shape = LutShape(rows=64, codebooks=192, centroids=16, features=32)
    common = dict(ip=1, lp=1, n_m=64, f_m=32, c_m=192, f_l=16, c_l=64, tasklets=16)
    geometries = [Geometry(shape, Mapping(**common, variant=v)) for v in ("swar16", "scalar32")]
    program, files = build(geometries)
    dpus = Dpus(program, files, checks=False)
    rng = np.random.default_rng(0)
    table = rng.integers(-127, 128, (192, 16, 32)).astype(np.int8)
    indices = rng.integers(0, 16, (64, 192)).astype(np.uint8)
    slots = []
    for number, geometry in enumerate(geometries):
        sums, statistics = dpus.run(1 + number, geometry, indices, table)
        assert np.array_equal(sums, lookup(indices, table))
        slots.append(statistics.slots / (64 * 192 * 32))
    assert slots[0] <= 1.3, slots
    assert slots[1] >= 2.4, slots


PRODUCTS = list(itertools.product(ORDERS, ("static", "coarse"), ("i32", "i16"), range(2)))


def draw_product(rng: random.Random, order: str, load: str, out: str) -> Geometry:
    """A ragged shape of an int8 product and a legal mapping with these fields."""
    machine, f_l = Machine.of(find_target("v1A")), 8
    while True:
        inputs = rng.randint(1, 70)
        # With sums of 16 bits, weights small enough; else as large as bytes are.
        bound = 2**15 - 1 if out == "i16" else 127 * 127 * inputs
        shape = LutShape(
            rng.randint(3, 40), inputs, 1, rng.randint(1, 60), 8, -bound, bound, inputs, 1, 127
        )
        mapping = Mapping(
            ip=rng.randint(1, 3),
            lp=rng.randint(1, 2),
            n_m=rng.randint(2, 20),
            f_m=f_l * rng.randint(1, 2),
            c_m=4 * rng.randint(1, 10),
            f_l=f_l,
            c_l=4 * rng.randint(1, 5),
            order=order,
            load=load,
            tasklets=rng.choice([1, 3, 8, 11, 16]),
            variant="int8",
            out=out,
            split_cb=1 if out == "i16" else rng.choice([1, 1, 2]),
        )
        if not violations(shape, mapping, machine):
            return Geometry(shape, mapping)


@pytest.mark.parametrize("shard", range(4))
def test_every_kind_of_kernel_computes_the_product(shard: int) -> None:
    choose = random.Random(shard)
    geometries = [draw_product(choose, *combination[:3]) for combination in PRODUCTS[shard::4]]
    program, files = build(geometries)
    dpus = Dpus(program, files, checks=True)
    rng = np.random.default_rng(shard)
    for number, geometry in enumerate(geometries):
        shape = geometry.shape
        most = 127 if geometry.mapping.out == "i32" else min(127, shape.high // 127 // shape.inputs)
        for extreme in (False, True):
            rows = int(rng.integers(1, shape.rows + 1))
            x = rng.integers(-127, 128, (rows, shape.inputs))
            w = rng.integers(-most, most + 1, (shape.inputs, shape.features))
            if extreme:
                x, w = np.where(x < 0, -127, 127), np.where(w < 0, -most, most)
            a, b = x.astype(np.int8), w.astype(np.int8)
            sums, _ = dpus.run(1 + number, geometry, a, b)
            assert np.array_equal(sums, product(a, b)), geometry


@pytest.mark.parametrize(("rows", "most"), [(64, 2.8), (48, 3.0)])
def test_instructions_a_multiply_add(rows: int, most: float) -> None:
    # Of three rows a tasklet (48 in all) one goes alone.
    shape = LutShape(rows, 256, 1, 32, activation=127, vec=1)
    mapping = Mapping(1, 1, rows, 32, 256, 8, 256, tasklets=16, variant="int8")
    geometry = Geometry(shape, mapping)
    program, files = build([geometry])
    rng = np.random.default_rng(0)
    a = rng.integers(-127, 128, (rows, 256)).astype(np.int8)
    w = rng.integers(-127, 128, (256, 32)).astype(np.int8)
    sums, statistics = Dpus(program, files, checks=False).run(1, geometry, a, w)
    assert np.array_equal(sums, product(a, w))
    assert statistics.slots / (rows * 256 * 32) <= most
    target = find_target("v1A")
    predicted = predict(shape, mapping, target)
    assert abs(predicted.slots / target.seconds(statistics.slots) - 1) < 0.05
    assert abs(predicted.kernel / target.seconds(statistics.cycles) - 1) < 0.05


def test_layers_of_one_shape_share_a_function() -> None:
    shape = LutShape(rows=16, codebooks=8, centroids=16, features=16)
    mapping = Mapping(ip=1, lp=1, n_m=16, f_m=16, c_m=8, f_l=16, c_l=8, tasklets=4)
    geometry = Geometry(shape, mapping)
    program, _ = build([geometry, geometry])
    other = upmem.SymbolOp("other", program.symbols[1].type)
    kernel = program.kernels[1]
    names = [s.root_reference.data for s in kernel.symbols]
    names[1] = "other"
    kernel.properties["symbols"] = ArrayAttr([SymbolRefAttr(name) for name in names])
    program.symbols.append(other)
    files = {
        "layers_program.h": program_header(program),
        "layers_dpu.c": device_source(program),
    }
    text = files["layers_dpu.c"]
    assert text.count("static __noinline void") == 1
    assert "layer0(dpu_table);" in text
    assert "layer0(dpu_other);" in text
    device_program(files, DeviceOptions(tasklets=4, stack=STACK_BYTES, flags=("-Werror",)))
