"""
Random graph-level functions, taken down to hardware: every step computes the same arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inr.analysis.fixed import to_real
from inr.analysis.formats import stream_format
from inr.analysis.intervals import bound_ranges
from inr.dialects import array_stream
from inr.dialects import inr as graph
from inr.interpreters.arrays import to_dense
from inr.interpreters.fixed_stream import Saturation, run_fixed
from inr.interpreters.graph import run_graph
from inr.interpreters.measure import measure_ranges
from inr.interpreters.stream import run_streams
from inr.lowering.hls_cpp import build_design
from inr.lowering.hls_project import Batch, render
from inr.passes.array_stream_assign_formats import (
    ArrayStreamAssignFormatsPass,
    Widths,
    assign_fixed,
    output_streams,
)
from inr.passes.array_stream_fuse import ArrayStreamFusePass
from inr.passes.array_stream_insert_copies import ArrayStreamInsertCopiesPass
from inr.passes.array_stream_size_fifos import ArrayStreamSizeFifosPass
from inr.passes.convert_inr_to_array_stream import ConvertInrToArrayStreamPass
from inr.runtime.simulate import build, run
from inr.runtime.toolchain import find_toolchain
from xdsl.context import Context
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, TensorType, f64, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

CONTEXT = Context()

UNARY: list[type[Operation]] = [
    arith.NegfOp,
    math.AbsFOp,
    math.SinOp,
    math.CosOp,
    graph.SinQOp,
    graph.CosQOp,
    math.TanhOp,
    math.ErfOp,
    graph.SigmoidOp,
    graph.SoftplusOp,
]
BOUNDED: list[type[Operation]] = [math.ExpOp, math.ExpM1Op]
"""Applied to what a minimum has cut, so that a chain of them stays small."""
POSITIVE: list[type[Operation]] = [
    math.LogOp,
    math.Log1pOp,
    math.SqrtOp,
    math.RsqrtOp,
    graph.ReciprocalOp,
]
"""Applied to |x| + 1/2."""
BINARY: list[type[Operation]] = [
    arith.AddfOp,
    arith.SubfOp,
    arith.MulfOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
]
JUMPS = (graph.SignOp, graph.CompareOp, graph.SelectOp)
"""Functions with a jump: an error of one bit before them can be one of any size behind."""


@dataclass
class Generator:
    """Appends random operations to a block; the values made so far are in `values`."""

    random: Random
    block: Block
    values: list[SSAValue] = field(default_factory=list[SSAValue])

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def unary(self, op_type: type[Operation], x: SSAValue) -> SSAValue:
        return self.add(op_type.create(operands=[x], result_types=[x.type]))

    def binary(self, op_type: type[Operation], a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add(op_type.create(operands=[a, b], result_types=[a.type]))

    def pick(self, rank: int | None = None) -> SSAValue:
        found = [v for v in self.values if rank in (None, len(graph.shape_of(v)))]
        return self.random.choice(found) if found else self.constant(*[2, 3, 2][: rank or 2])

    def like(self, x: SSAValue) -> SSAValue:
        """Another value of the shape of `x`: one that is there, or a constant."""
        found = [v for v in self.values if v.type == x.type]
        if self.random.random() < 0.7:
            return self.random.choice(found)
        return self.constant(*graph.shape_of(x))

    def number(self, x: SSAValue, value: float) -> SSAValue:
        return self.add(arith.ConstantOp(to_dense(np.full(graph.shape_of(x), value))))

    def constant(self, *shape: int) -> SSAValue:
        rng = np.random.default_rng(self.random.randrange(1000))
        kind = self.random.randrange(3)
        if kind == 0:
            values = np.full(shape, rng.uniform(-2, 2))
        elif kind == 1 and len(shape) > 1:
            values = np.broadcast_to(rng.uniform(-2, 2, shape[1:]), shape)
        else:
            values = rng.uniform(-2, 2, shape)
        return self.add(arith.ConstantOp(to_dense(values)))

    def offset_magnitude(self, x: SSAValue) -> SSAValue:
        return self.binary(arith.AddfOp, self.unary(math.AbsFOp, x), self.number(x, 0.5))

    # One method a kind of operation.

    def apply(self) -> SSAValue:
        return self.unary(self.random.choice(UNARY), self.pick())

    def apply_bounded(self) -> SSAValue:
        x = self.pick()
        cut = self.binary(arith.MinimumfOp, x, self.number(x, 1.0))
        return self.unary(self.random.choice(BOUNDED), cut)

    def apply_positive(self) -> SSAValue:
        return self.unary(self.random.choice(POSITIVE), self.offset_magnitude(self.pick()))

    def combine(self) -> SSAValue:
        x = self.pick()
        operands = [x, self.like(x)]
        self.random.shuffle(operands)
        return self.binary(self.random.choice(BINARY), *operands)

    def divide(self) -> SSAValue:
        x = self.pick()
        return self.binary(arith.DivfOp, x, self.offset_magnitude(self.like(x)))

    def jump(self) -> SSAValue:
        x = self.pick()
        kind = self.random.randrange(3)
        if kind == 0:
            return self.unary(graph.SignOp, x)
        predicate = self.random.choice(list(graph.Predicate))
        mask = self.add(graph.CompareOp(predicate, x, self.like(x)))
        if kind == 1:
            return mask
        return self.add(graph.SelectOp(mask, self.like(x), self.like(x)))

    def matmul(self) -> SSAValue:
        x = self.pick(2)
        n = self.random.randint(1, 4)
        weights = self.constant(graph.shape_of(x)[1], n)
        bias = self.random.choice([None, self.constant(n)])
        return self.add(graph.MatmulOp(x, weights, bias))

    def same_weight(self) -> SSAValue:
        """The sum of two products by one weight: what shares a process."""
        x = self.pick(2)
        weights = self.constant(graph.shape_of(x)[1], 2)
        a, b = (self.add(graph.MatmulOp(v, weights)) for v in (x, self.like(x)))
        return self.binary(arith.AddfOp, a, b)

    def matmul_dynamic(self) -> SSAValue:
        a, b = self.pick(2), self.pick(2)
        k = graph.shape_of(a)[1]
        if graph.shape_of(b)[0] != k:
            b = self.add(graph.TransposeOp(a))
        rows = [v for v in self.values if graph.shape_of(v) == (graph.shape_of(b)[1],)]
        bias = self.random.choice(rows) if rows else None
        return self.add(graph.MatmulOp(a, b, bias))

    def transpose(self) -> SSAValue:
        x = self.pick()
        order = list(range(len(graph.shape_of(x))))
        self.random.shuffle(order)
        return self.add(graph.TransposeOp(x, order))

    def reshape(self) -> SSAValue:
        x = self.pick()
        shape = graph.shape_of(x)
        at = self.random.randint(0, len(shape))
        flat = int(np.prod(shape))
        choices = [(*shape[:at], 1, *shape[at:]), (flat,), (1, flat)]
        if flat % 2 == 0:
            choices.append((2, flat // 2))
        fitting = [c for c in choices if len(c) <= 3]
        return self.add(graph.ReshapeOp(x, self.random.choice(fitting)))

    def broadcast(self) -> SSAValue:
        x = self.pick()
        shape = [d if d > 1 else self.random.randint(1, 3) for d in graph.shape_of(x)]
        return self.add(graph.BroadcastOp(x, shape))

    def reduce(self) -> SSAValue:
        x = self.pick()
        rank = len(graph.shape_of(x))
        return self.add(
            graph.ReduceSumOp(x, self.random.sample(range(rank), self.random.randint(0, rank)))
        )

    def pad(self) -> SSAValue:
        x = self.pick()
        if not graph.shape_of(x):
            return x
        amounts = [[self.random.randint(0, 1) for _ in graph.shape_of(x)] for _ in ("low", "high")]
        return self.add(graph.PadOp(x, *amounts))

    def slice(self) -> SSAValue:
        x = self.pick()
        starts, sizes, steps = [], [], []
        for extent in graph.shape_of(x):
            start = self.random.randrange(extent)
            step = self.random.randint(1, 2)
            starts.append(start)
            steps.append(step)
            sizes.append(self.random.randint(1, (extent - start - 1) // step + 1))
        shape = [size for i, size in enumerate(sizes) if size != 1 or len(sizes) < 3 or i != 0]
        return self.add(
            tensor.ExtractSliceOp.build(
                operands=[x, [], [], []],
                properties={
                    "static_offsets": DenseArrayBase.from_list(i64, starts),
                    "static_sizes": DenseArrayBase.from_list(i64, sizes),
                    "static_strides": DenseArrayBase.from_list(i64, steps),
                },
                result_types=[TensorType(f64, shape)],
            )
        )

    def concat(self) -> SSAValue:
        x = self.pick()
        if not graph.shape_of(x):
            return x
        axis = self.random.randrange(len(graph.shape_of(x)))
        parts = [x, self.like(x)]
        shape = list(graph.shape_of(x))
        shape[axis] *= 2
        return self.add(
            tensor.ConcatOp.build(
                operands=[parts],
                properties={"dim": graph_index(axis)},
                result_types=[TensorType(f64, shape)],
            )
        )


def graph_index(value: int) -> Attribute:
    return array_stream.IntegerAttr(value, i64)


SMOOTH = (
    Generator.apply,
    Generator.apply,
    Generator.apply_bounded,
    Generator.apply_positive,
    Generator.combine,
    Generator.combine,
    Generator.divide,
    Generator.matmul,
    Generator.same_weight,
    Generator.matmul_dynamic,
    Generator.transpose,
    Generator.reshape,
    Generator.broadcast,
    Generator.reduce,
    Generator.pad,
    Generator.slice,
    Generator.concat,
)


def random_function(
    random: Random, most: int = 10, *, jumps: bool = True, whole: bool = False
) -> ModuleOp:
    """
    A function of three inputs, one of which nothing reads. Its results are the last value, and
    some of the others, an input, a constant and one of them twice among them, as they are drawn;
    with `whole` also every value that nothing reads.
    """
    shapes = [
        tuple(random.randint(1, 4) for _ in range(rank)) for rank in (2, random.randint(0, 3), 1)
    ]
    block = Block(arg_types=[TensorType(f64, s) for s in shapes])
    generator = Generator(random, block, list(block.args[:2]))
    kinds = (*SMOOTH, Generator.jump) if jumps else SMOOTH
    for _ in range(random.randint(1, most)):
        value = random.choice(kinds)(generator)
        if int(np.prod(graph.shape_of(value))) <= 64:
            generator.values.append(value)
    results = [generator.values[-1]]
    results += random.sample(generator.values, random.randint(0, min(3, len(generator.values))))
    if whole:
        results += [v for v in generator.values if not v.uses and v not in results]
    if random.random() < 0.3:
        results.append(generator.constant(2, 3))
    block.add_op(ReturnOp(*results))
    function = FuncOp("f", ([a.type for a in block.args], [v.type for v in results]), Region(block))
    module = ModuleOp([function])
    module.verify()
    return module


def inputs_of(module: ModuleOp, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, graph.shape_of(a)) for a in function_of(module).body.block.args]


def function_of(module: ModuleOp) -> FuncOp:
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def apply(module: ModuleOp, *passes: ModulePass) -> None:
    for each in passes:
        each.apply(CONTEXT, module)
        module.verify()


def assert_same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * max(1, np.max(np.abs(b))))


PROCESS = array_stream.ProcessOp

DESIGNS = [
    (1, Widths(27, 18)),
    (5, Widths(32, 32)),
    (13, Widths(9, 8, guard=0)),
    (16, Widths(27, 18, guard=-2)),
    (17, Widths(40, 25)),
]
"""Seeds, and widths of which some saturate: the hardware saturates alike."""

FLOAT_SEED = 24

RANDOM = st.randoms(use_true_random=False)
SLOW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@settings(SLOW, max_examples=100)
@given(random=RANDOM)
def test_every_step_computes_the_same(random: Random) -> None:
    module = random_function(random)
    inputs = inputs_of(module)
    want = run_graph(module, inputs)
    for step in (
        ConvertInrToArrayStreamPass(),
        ArrayStreamFusePass(),
        ArrayStreamInsertCopiesPass(),
        ArrayStreamSizeFifosPass(),
    ):
        apply(module, step)
        assert_same(run_streams(module, inputs), want)
        once = str(module)
        apply(module, step)
        assert str(module) == once, f"{step.name} again changes its result"
    assert sizes_are_safe(function_of(module))


def sizes_are_safe(function: FuncOp) -> bool:
    """Whether every FIFO has room for two blocks or the whole array."""
    return all(
        stream.capacity in (2, max(2, stream.blocks))
        for op in function.body.block.ops
        if isinstance(op, array_stream.ProcessOp)
        for stream in map(array_stream.stream_type, op.output_streams)
    )


@settings(SLOW, max_examples=40)
@given(random=RANDOM)
def test_bounds_hold(random: Random) -> None:
    module = random_function(random)
    apply(module, ConvertInrToArrayStreamPass(), ArrayStreamFusePass())
    bounds = bound_ranges(function_of(module), (-1, 1))
    measured = measure_ranges(module, (inputs_of(module, seed) for seed in range(8)))
    assert measured.keys() <= bounds.keys()
    for value, peak in measured.items():
        assert peak <= bounds[value], f"{value.owner} reaches {peak}, bound {bounds[value]}"


@settings(SLOW, max_examples=40)
@given(random=RANDOM)
def test_fixed_point_is_close(random: Random) -> None:
    module = random_function(random, jumps=False)
    inputs = inputs_of(module)
    want = run_graph(module, inputs)
    apply(module, ConvertInrToArrayStreamPass(), ArrayStreamFusePass())
    function = function_of(module)
    ranges = measure_ranges(module, [inputs])
    assign_fixed(function, ranges, Widths(36, 30))
    apply(module, ArrayStreamInsertCopiesPass())
    saturation = Saturation()
    mantissas = run_fixed(module, inputs, saturation=saturation)
    assert not saturation
    for got, reference, stream in zip(mantissas, want, output_streams(function), strict=True):
        error = np.max(np.abs(to_real(got, stream_format(stream)) - reference), initial=0)
        assert error <= 1e-4 * max(1, np.max(np.abs(reference)))


def simulate(function: FuncOp, batch: Batch) -> list[np.ndarray]:
    """The outputs of the generated C++ at the depths that its FIFOs have."""
    design = build_design(function)
    simulation = run(build(render(design, batch), find_toolchain()), design)
    assert simulation.status == 0, simulation.text
    return simulation.outputs


@pytest.mark.parametrize(("seed", "widths"), DESIGNS)
def test_cpp_is_bit_equal(seed: int, widths: Widths) -> None:
    module = random_function(Random(seed), 30, whole=True)
    inputs = inputs_of(module)
    reference = run_graph(module, inputs)
    apply(module, ConvertInrToArrayStreamPass(), ArrayStreamFusePass())
    function = function_of(module)
    assign_fixed(function, measure_ranges(module, [inputs]), widths)
    apply(module, ArrayStreamInsertCopiesPass(), ArrayStreamSizeFifosPass())
    expected = run_fixed(module, inputs)
    for got, want in zip(
        simulate(function, Batch(inputs, expected, reference)), expected, strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_designs_have_every_process() -> None:
    found: set[type[Operation]] = set()
    for seed, _ in DESIGNS:
        module = random_function(Random(seed), 30, whole=True)
        apply(module, ConvertInrToArrayStreamPass(), ArrayStreamFusePass())
        apply(module, ArrayStreamInsertCopiesPass())
        found |= {type(op) for op in module.walk()}
    processes = {o for o in array_stream.ArrayStream.operations if issubclass(o, PROCESS)}
    assert processes - found == {array_stream.ReblockOp}


def test_cpp_in_float_is_close() -> None:
    module = random_function(Random(FLOAT_SEED), 25, jumps=False, whole=True)
    inputs = inputs_of(module)
    reference = run_graph(module, inputs)
    apply(
        module,
        ConvertInrToArrayStreamPass(),
        ArrayStreamFusePass(),
        ArrayStreamAssignFormatsPass(mode="float"),
        ArrayStreamInsertCopiesPass(),
        ArrayStreamSizeFifosPass(),
    )
    outputs = simulate(function_of(module), Batch(inputs, reference, reference))
    for got, want in zip(outputs, reference, strict=True):
        assert np.max(np.abs(got - want), initial=0) <= 1e-5 * max(1, np.max(np.abs(want)))
