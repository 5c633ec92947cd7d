"""Stream-level operations in generated C++ against the integer model, bit for bit."""

from __future__ import annotations

from random import Random

import numpy as np
from inr.analysis.fixed import Format
from inr.analysis.formats import fixed_type
from inr.dialects import array_stream, inr
from inr.dialects.array_stream import FORMAT, STAGE, FixedType, StreamType
from inr.interpreters.fixed_stream import EXACT, UNARY_KERNELS, run_fixed
from inr.interpreters.measure import measure_ranges
from inr.interpreters.stream import run_streams
from inr.lowering.hls_cpp import build_design
from inr.lowering.hls_project import Batch, render
from inr.passes.array_stream_assign_formats import Widths, assign_fixed
from inr.passes.array_stream_insert_copies import ArrayStreamInsertCopiesPass
from inr.passes.array_stream_size_fifos import ArrayStreamSizeFifosPass
from inr.runtime.simulate import build, run
from inr.runtime.toolchain import find_toolchain
from inr.universe import INR_UNIVERSE
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, FloatAttr, ModuleOp, StringAttr, TensorType, f64
from xdsl.dialects.func import Func, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser

ELEMENTS = 192


def simulate(module: ModuleOp, inputs: list[np.ndarray]) -> None:
    """Build the only function's C++, run it, and compare it with the integer model."""
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    ArrayStreamInsertCopiesPass().apply(Context(), module)
    ArrayStreamSizeFifosPass().apply(Context(), module)
    module.verify()
    design = build_design(function)
    expected = run_fixed(module, inputs)
    # Where the domain of a function ends the truth is no number, and C++ has no literal for it.
    truth = [np.nan_to_num(y) for y in run_streams(module, inputs)]
    batch = Batch(inputs, expected, truth)
    simulation = run(build(render(design, batch), find_toolchain()), design)
    # The reference in double precision may differ by more than the testbench allows.
    assert len(simulation.outputs) == len(expected), simulation.text
    for port, got, want in zip(design.outputs, simulation.outputs, expected, strict=True):
        np.testing.assert_array_equal(got, want, port.name)


class Body:
    """Maps of one operation each, between streams of random formats."""

    def __init__(self, seed: int, inputs: int):
        self.random = Random(seed)
        self.block = Block(arg_types=[TensorType(f64, (ELEMENTS,))] * inputs)
        self.sources: list[SSAValue] = []
        for argument in self.block.args:
            read = array_stream.ReadOp.build(
                operands=[argument], result_types=[StreamType((ELEMENTS,), FixedType(26, 5))]
            )
            self.block.add_op(read)
            self.sources.append(read.stream)
        self.results: list[SSAValue] = []
        self.conversions: dict[SSAValue, list[SSAValue]] = {}

    def format(self) -> FixedType:
        width = self.random.randint(4, 24)
        return fixed_type(
            Format(
                width,
                self.random.randint(-2, 6),
                self.random.choice(["rnd", "trn"]),
                self.random.choice(["sat", "sat", "wrap"]),
            )
        )

    def map(
        self, inputs: list[SSAValue], op_type: type[Operation], **properties: Attribute
    ) -> None:
        """One operation on streams, each in a format of its own."""
        converted = [self.converted(v) for v in inputs]
        op = array_stream.MapOp(converted, [self.stream()])
        body = op.body.block
        inner = op_type.create(operands=list(body.args), result_types=[f64], properties=properties)
        inner.attributes[FORMAT] = self.format()
        body.add_ops([inner, array_stream.YieldOp(inner.results[0])])
        self.add(op)

    def sincos(self) -> None:
        """Both results of one table."""
        op = array_stream.MapOp([self.converted(self.sources[0])], [self.stream(), self.stream()])
        both = array_stream.SinCosOp(op.body.block.args[0])
        both.attributes[FORMAT] = self.format()
        op.body.block.add_ops([both, array_stream.YieldOp(both.sine, both.cosine)])
        self.add(op)

    def constant(self, value: float) -> None:
        """A product with a number."""
        op = array_stream.MapOp([self.converted(self.sources[0])], [self.stream()])
        number = arith.ConstantOp(FloatAttr(value, f64))
        product = arith.MulfOp(op.body.block.args[0], number.result)
        for inner in (number, product):
            inner.attributes[FORMAT] = self.format()
        op.body.block.add_ops([number, product, array_stream.YieldOp(product.result)])
        self.add(op)

    def stream(self) -> StreamType:
        return StreamType((ELEMENTS,), self.format())

    def converted(self, value: SSAValue) -> SSAValue:
        """The same numbers in one of some formats: a map that only yields."""
        known = self.conversions.setdefault(value, [])
        if len(known) == 5:
            return self.random.choice(known)
        known.append(self.convert(value))
        return known[-1]

    def convert(self, value: SSAValue) -> SSAValue:
        op = array_stream.MapOp([value], [self.stream()])
        op.body.block.add_op(array_stream.YieldOp(op.body.block.args[0]))
        self.block.add_op(op)
        return op.outputs[0]

    def add(self, op: array_stream.MapOp) -> None:
        self.block.add_op(op)
        for output in op.outputs:
            write = array_stream.WriteOp(output)
            self.block.add_op(write)
            self.results.append(write.memory)

    def module(self) -> ModuleOp:
        self.block.add_op(ReturnOp(*self.results))
        types = [v.type for v in self.block.args], [v.type for v in self.results]
        function = FuncOp("elementwise", types, Region(self.block))
        function.attributes[STAGE] = StringAttr("value")
        return ModuleOp([function])


def test_every_elementwise_operation() -> None:
    body = Body(1, 3)
    x, y, z = body.sources
    for op_type in (*UNARY_KERNELS, inr.SinQOp, inr.CosQOp):
        body.map([x], op_type)
    for op_type in EXACT:
        if op_type is inr.CompareOp:
            for predicate in inr.Predicate:
                body.map([x, y], op_type, predicate=inr.PredicateAttr(predicate))
        elif op_type is inr.SelectOp:
            body.map([x, y, z], op_type)
        elif op_type in UNARY_EXACT:
            body.map([x], op_type)
        else:
            body.map([x, y], op_type)
    body.sincos()
    body.constant(-0.7)
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-16, 16, ELEMENTS) * 2.0 ** -rng.integers(0, 12, ELEMENTS) for _ in "xyz"]
    for array in inputs:
        array[:4] = 0, -16, 16, 2.0**-21
    inputs[1][4:40] = inputs[0][4:40]
    simulate(body.module(), inputs)


UNARY_EXACT = {op for op in EXACT if len(op.get_irdl_definition().operands) == 1}


BLOCKS = """
func.func @blocks(%m: tensor<8x4xf64>, %n: tensor<4x8xf64>, %p: tensor<8x1xf64>)
    -> (tensor<8x8xf64>, tensor<8x8xf64>, tensor<8x8xf64>, tensor<8xf64>, tensor<8xf64>,
        tensor<8x4xf64>, tensor<4x4xf64>, tensor<8x8xf64>, tensor<8x8xf64>, tensor<16x2xf64>)
    attributes {array_stream.stage = "value"} {
  %x = array_stream.read %m : tensor<8x4xf64> -> !array_stream.stream<8x4xf64, block = 4>
  %g = array_stream.read %n : tensor<4x8xf64> -> !array_stream.stream<4x8xf64, block = 2>
  %c = array_stream.read %p : tensor<8x1xf64> -> !array_stream.stream<8x1xf64, block = 4>
  %w = arith.constant dense<[[1.0, -2.0, 0.5, 0.25, 3.0, 1.5, -0.5, 0.75],
    [0.5, 1.0, -1.5, 2.25, -3.0, 0.5, 1.5, -0.75], [1.25, -0.5, 2.5, 1.25, 0.0, 1.0, -1.0, 0.5],
    [-1.0, 0.125, 0.5, -0.25, 1.0, -1.5, 2.0, 1.75]]> : tensor<4x8xf64>
  %b = arith.constant dense<[1.0, -0.5, 0.25, 2.0, -1.0, 0.0, 0.5, 1.5]> : tensor<8xf64>
  %row = arith.constant dense<[[1.0, -0.5, 0.25, 2.0]]> : tensor<1x4xf64>
  %s = array_stream.constant %row : tensor<1x4xf64> -> !array_stream.stream<8x4xf64, block = 4>
  %e = array_stream.map(%x, %s) : (!array_stream.stream<8x4xf64, block = 4>, !array_stream.stream<8x4xf64, block = 4>) -> !array_stream.stream<8x4xf64, block = 4> {
  ^bb0(%0: f64, %1: f64):
    %2 = arith.mulf %0, %1 : f64
    array_stream.yield %2 : f64
  }
  %j0, %j1 = array_stream.matmul %x, %e by %w bias %b lanes [2, 4] : (!array_stream.stream<8x4xf64, block = 4>, !array_stream.stream<8x4xf64, block = 4>) -> (!array_stream.stream<8x8xf64, block = 2>, !array_stream.stream<8x8xf64, block = 2>) by tensor<4x8xf64> bias tensor<8xf64>
  %d = array_stream.matmul_dynamic %x, %g : (!array_stream.stream<8x4xf64, block = 4>, !array_stream.stream<4x8xf64, block = 2>) -> !array_stream.stream<8x8xf64, block = 4>
  %r0 = array_stream.reduce_sum %j0 axis 0 : !array_stream.stream<8x8xf64, block = 2> -> !array_stream.stream<8xf64, block = 2>
  %r1 = array_stream.reduce_sum %j1 axis 1 : !array_stream.stream<8x8xf64, block = 2> -> !array_stream.stream<8xf64, block = 4>
  %sl = array_stream.slice %d axis 1 from 4 size 4 step 1 : !array_stream.stream<8x8xf64, block = 4> -> !array_stream.stream<8x4xf64, block = 4>
  %st = array_stream.slice %sl axis 0 from 1 size 4 step 2 : !array_stream.stream<8x4xf64, block = 4> -> !array_stream.stream<4x4xf64, block = 4>
  %pd = array_stream.pad %x axis 1 low 4 high 0 : !array_stream.stream<8x4xf64, block = 4> -> !array_stream.stream<8x8xf64, block = 4>
  %bc = array_stream.broadcast %c axis 1 : !array_stream.stream<8x1xf64, block = 4> -> !array_stream.stream<8x8xf64, block = 4>
  %cc = array_stream.concat %e, %x axis 1 : (!array_stream.stream<8x4xf64, block = 4>, !array_stream.stream<8x4xf64, block = 4>) -> !array_stream.stream<8x8xf64, block = 4>
  %tr = array_stream.transpose %cc [1, 0] : !array_stream.stream<8x8xf64, block = 4> -> !array_stream.stream<8x8xf64, block = 4>
  %rb = array_stream.reblock %x : !array_stream.stream<8x4xf64, block = 4> -> !array_stream.stream<8x4xf64, block = 2>
  %rs = array_stream.reshape %rb : !array_stream.stream<8x4xf64, block = 2> -> !array_stream.stream<16x2xf64, block = 2>
  %y0 = array_stream.write %d : !array_stream.stream<8x8xf64, block = 4> -> tensor<8x8xf64>
  %y1 = array_stream.write %pd : !array_stream.stream<8x8xf64, block = 4> -> tensor<8x8xf64>
  %y2 = array_stream.write %bc : !array_stream.stream<8x8xf64, block = 4> -> tensor<8x8xf64>
  %y3 = array_stream.write %r0 : !array_stream.stream<8xf64, block = 2> -> tensor<8xf64>
  %y4 = array_stream.write %r1 : !array_stream.stream<8xf64, block = 4> -> tensor<8xf64>
  %y5 = array_stream.write %sl : !array_stream.stream<8x4xf64, block = 4> -> tensor<8x4xf64>
  %y6 = array_stream.write %st : !array_stream.stream<4x4xf64, block = 4> -> tensor<4x4xf64>
  %y7 = array_stream.write %tr : !array_stream.stream<8x8xf64, block = 4> -> tensor<8x8xf64>
  %y8 = array_stream.write %j0 : !array_stream.stream<8x8xf64, block = 2> -> tensor<8x8xf64>
  %y9 = array_stream.write %rs : !array_stream.stream<16x2xf64, block = 2> -> tensor<16x2xf64>
  func.return %y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7, %y8, %y9 : tensor<8x8xf64>, tensor<8x8xf64>, tensor<8x8xf64>, tensor<8xf64>, tensor<8xf64>, tensor<8x4xf64>, tensor<4x4xf64>, tensor<8x8xf64>, tensor<8x8xf64>, tensor<16x2xf64>
}
"""  # noqa: E501


def parse(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Arith, Builtin, Func):
        context.load_dialect(dialect)
    for name, factory in INR_UNIVERSE.all_dialects.items():
        context.register_dialect(name, factory)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def test_blocks() -> None:
    module = parse(BLOCKS)
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-1, 1, inr.shape_of(a)) for a in function.body.block.args]
    assign_fixed(function, measure_ranges(module, [inputs]), Widths(20, 12))
    simulate(module, inputs)
