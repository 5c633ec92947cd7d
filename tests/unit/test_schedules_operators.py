"""Latencies, operators and buffers of processes: known values, and the same numbers in C++."""

from __future__ import annotations

import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from inr.analysis.dsp import dsp_of_product
from inr.analysis.fixed import Format
from inr.analysis.operators import (
    FLOAT_CYCLES,
    MEMORY_CYCLES,
    Operator,
    Product,
    map_latency,
    product_cycles,
    product_of,
    reduce_timing,
)
from inr.analysis.schedules import Buffer, buffers_of, fifos_of, network_of, operators_of
from inr.dialects import array_stream
from inr.dialects.array_stream import FORMAT, STAGE, FixedType, StreamType
from inr.errors import CompileError
from inr.interpreters.arrays import to_dense
from inr.runtime.simulate import FLAGS
from inr.runtime.toolchain import find_toolchain
from xdsl.dialects import arith, math, test
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, TensorType, f32, f64, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

HLS = Path(__file__).parents[2] / "runtime" / "hls"

WIDTHS = (2, 8, 10, 11, 17, 18, 19, 25, 27, 28, 32, 35, 48, 54, 64)
LANES = (1, 2, 3, 4, 16)
STEPS = (1, 5)


def stream(element: Attribute, *shape: int, block: int = 1) -> SSAValue:
    return test.TestOp(result_types=[StreamType(shape, element, block)]).results[0]


def constant(*shape: int) -> SSAValue:
    return arith.ConstantOp(to_dense(np.zeros(shape))).result


def matmul(
    element: Attribute, weight: FixedType | None, lanes: tuple[int, int], streams: int = 1
) -> array_stream.MatmulOp:
    """An 8 x 16 weight with its bias."""
    inputs = [stream(element, 4, 8) for _ in range(streams)]
    op = array_stream.MatmulOp(inputs, constant(8, 16), constant(16))
    op.properties["lanes"] = DenseArrayBase.from_list(i64, lanes)
    if weight is not None:
        op.properties["weight_format"] = op.properties["bias_format"] = weight
    return op


def mapped(
    element: Attribute, ops: list[type[Operation]], block: int = 1, format_: FixedType | None = None
) -> array_stream.MapOp:
    """Operations one after the other; a binary one takes its operand twice."""
    region = Region(Block(arg_types=[f64]))
    value: SSAValue = region.block.args[0]
    for op_type in ops:
        binary = op_type in (arith.AddfOp, arith.MulfOp)
        op = op_type.create(operands=[value] * (1 + binary), result_types=[f64])
        if isinstance(element, FixedType):
            op.attributes[FORMAT] = format_ or element
        region.block.add_op(op)
        value = op.results[0]
    region.block.add_op(array_stream.YieldOp(value))
    source = stream(element, 4, 8, block=block)
    return array_stream.MapOp([source], [StreamType((4, 8), element, block)], region)


def test_products_take_the_stages_of_known_multipliers():
    assert product_cycles(6, 8) == 1  # mul_6ns_8ns_13_1_1
    assert product_cycles(64, 66) == 5  # mul_64ns_66ns_129_5_1
    assert product_cycles(27, 18) == product_cycles(18, 27) == 3
    assert dsp_of_product(27, 18) == 1


def test_the_headers_have_the_same_numbers(tmp_path: Path):
    """Products of all widths, and every kind of sum."""
    lines: list[str] = []
    expected: list[int] = []

    def both(expression: str, value: int) -> None:
        lines.append(f'  std::printf("%d\\n", int({expression}));')
        expected.append(value)

    for a, b in product(WIDTHS, WIDTHS):
        both(f"inr::timing::product({a}, {b})", product_cycles(a, b))
    both("inr::timing::memory", MEMORY_CYCLES)
    both("inr::timing::float_adder", FLOAT_CYCLES["fadd"])
    both("inr::timing::float_multiplier", FLOAT_CYCLES["fmul"])
    for lanes, steps in product(LANES, STEPS):
        kinds: list[tuple[str, str, int, Product]] = [
            ("float", "inr::exact", 0, Product((lanes, 1), steps, None, None, None))
        ]
        for row, weight in ((8, 8), (27, 18), (32, 32)):
            formats = Format(row, 2), Format(weight, 1)
            fixed, narrow = f"ap_fixed<{weight}, 1>", "ap_fixed<32, 8>"
            kinds += [
                (fixed, "inr::exact", row, Product((lanes, 1), steps, *formats, None)),
                (fixed, narrow, row, Product((lanes, 1), steps, *formats, Format(32, 8))),
            ]
        for weight, accumulator, row, expected_sum in kinds:
            name = f"inr::detail::sum_timing<{weight}, {accumulator}, {lanes}, {steps}, {row}>"
            both(f"({name}::interval)", expected_sum.interval)
            both(f"({name}::latency)", expected_sum.latency)
    body = "\n".join(lines)
    source = tmp_path / "numbers.cpp"
    source.write_text(
        f'#include <hls_stream.h>\n#include "inr/kernels.hpp"\n#include <cstdio>\n'
        f"int main() {{\n{body}\n}}\n"
    )
    toolchain = find_toolchain()
    command = [toolchain.compiler, *FLAGS, "-I", str(HLS / "sim"), "-I", str(HLS / "include")]
    command += ["-isystem", str(toolchain.headers), str(source), "-o", str(tmp_path / "numbers")]
    subprocess.run(command, check=True)
    printed = subprocess.run(
        [str(tmp_path / "numbers")], check=True, capture_output=True, text=True
    ).stdout
    assert [int(line) for line in printed.split()] == expected


def test_the_depth_of_a_map_is_its_longest_path():
    wide, narrow = FixedType(27, 3), FixedType(18, 3)
    assert map_latency(mapped(wide, [])) == 1
    # A read, a product in two slices or in one, a rounding; a sum and its rounding.
    assert map_latency(mapped(wide, [arith.MulfOp])) == 1 + product_cycles(27, 27) + 1
    assert map_latency(mapped(narrow, [arith.MulfOp, arith.AddfOp])) == 1 + (3 + 1) + 2
    # Another format is one more rounding.
    assert map_latency(mapped(narrow, [arith.AddfOp], format_=wide)) == 1 + 2 + 1
    assert map_latency(mapped(f32, [arith.MulfOp, arith.AddfOp, math.ExpOp])) == 1 + 4 + 7 + 14
    assert map_latency(mapped(f32, [arith.NegfOp])) == 1


def test_every_path_of_a_table_is_counted():
    shallow = map_latency(mapped(FixedType(8, 2), [math.TanhOp]))
    deep = map_latency(mapped(FixedType(27, 2), [math.TanhOp]))
    assert 3 < shallow < deep < 40


def test_sums_wait_for_their_adder():
    fixed = FixedType(18, 4)
    assert reduce_timing(array_stream.ReduceSumOp(stream(fixed, 4, 8, block=4), 1))[1] == 1
    assert reduce_timing(array_stream.ReduceSumOp(stream(f32, 4, 8, block=4), 1)) == (29, 28)
    assert reduce_timing(array_stream.ReduceSumOp(stream(f32, 4, 8, block=4), 0)) == (8, 4)
    assert reduce_timing(array_stream.ReduceSumOp(stream(f32, 4, 64, block=4), 0)) == (8, 1)
    assert product_of(matmul(f32, None, (2, 1))).interval == 7
    assert product_of(matmul(f32, None, (8, 1))).interval == 1
    assert product_of(matmul(fixed, fixed, (2, 1))).interval == 1


def test_operators_are_counted_by_kind_width_and_lane():
    activation, weight = FixedType(27, 3), FixedType(18, 1)
    found = operators_of(matmul(activation, weight, (2, 4), streams=3))
    assert found[0] == Operator("mul", (27, 18), 3 * 2 * 4)
    # 27 + 18 bits, 3 more for a sum of 8, one for the bias.
    assert found[1] == Operator("add", (49, 49), 24)
    assert [op for op in found if op.kind == "narrow"] == [Operator("narrow", (49, 27), 1)] * 3
    assert operators_of(matmul(f32, None, (2, 4))) == [
        Operator("fmul", (32, 32), 8),
        Operator("fadd", (32, 32), 9),
    ]
    assert operators_of(mapped(activation, [arith.MulfOp], block=4)) == [
        Operator("mul", (27, 27), 4),
        Operator("narrow", (54, 27), 4),
    ]
    table = operators_of(mapped(activation, [math.TanhOp], block=2))
    assert all(op.count % 2 == 0 for op in table)
    assert {"mul", "add", "narrow"} <= {op.kind for op in table}
    assert operators_of(array_stream.CopyOp(stream(activation, 4), 2)) == []


def test_buffers_are_cut_into_banks():
    activation, weight = FixedType(27, 3), FixedType(18, 1)
    row, rom, bias = buffers_of(matmul(activation, weight, (2, 4), streams=3))
    assert row == Buffer(4, 27, pingpong=True, count=6)
    assert rom == Buffer(8 * 16 // 8, 18, rom=True, count=8)
    assert bias == Buffer(16, 18, rom=True)
    transpose = array_stream.TransposeOp(stream(activation, 4, 8, block=2), [1, 0])
    assert buffers_of(transpose) == [Buffer(8, 27, count=4)]
    whole = array_stream.TransposeOp(stream(activation, 3, 4, 8, block=2), [1, 0, 2])
    assert buffers_of(whole) == [Buffer(48, 54)]
    sums = array_stream.ReduceSumOp(stream(activation, 5, 8, block=2), 0)
    assert buffers_of(sums) == [Buffer(4, 30, count=2)]
    assert buffers_of(mapped(activation, [arith.MulfOp])) == []
    assert all(buffer.rom for buffer in buffers_of(mapped(activation, [math.TanhOp])))


def linear(element: Attribute, stage: str = "linear") -> FuncOp:
    """Memory to memory over a reshape."""
    block = Block(arg_types=[TensorType(f64, [4, 2])])
    read = array_stream.ReadOp.build(
        operands=[block.args[0]], result_types=[StreamType((4, 2), element, depth=5)]
    )
    reshape = array_stream.ReshapeOp(read.stream, (8,))
    write = array_stream.WriteOp(reshape.result)
    block.add_ops([read, reshape, write, ReturnOp(write.memory)])
    function = FuncOp("f", ([TensorType(f64, [4, 2])], [write.memory.type]), Region(block))
    function.attributes[STAGE] = StringAttr(stage)
    ModuleOp([function])
    return function


def test_a_reshape_shares_the_fifo_of_its_operand():
    function = linear(FixedType(12, 4))
    network, fifos = network_of(function)
    assert fifos == fifos_of(function)
    assert [(f.width, f.depth) for f in network.fifos] == [(12, 5)]
    assert [p.name for p in network.processes] == ["read_0", "write_1"]
    assert network.tokens.tolist() == [8]


def test_names_are_those_given():
    function = linear(FixedType(12, 4))
    (value,) = fifos_of(function)
    assert isinstance(value.owner, Operation)
    network, _ = network_of(function, {value: "x", value.owner: "load_x"})
    assert network.fifos[0].name == "x"
    assert network.processes[0].name == "load_x"


def test_a_function_at_the_value_stage_is_refused():
    with pytest.raises(CompileError, match="run array-stream-insert-copies"):
        network_of(linear(FixedType(12, 4), "value"))


def test_numbers_without_a_format_are_refused():
    with pytest.raises(CompileError, match="run array-stream-assign-formats"):
        map_latency(mapped(f64, [arith.NegfOp]))
    with pytest.raises(CompileError, match="no weight format"):
        product_of(matmul(FixedType(18, 4), None, (1, 1)))
