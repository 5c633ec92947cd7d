"""Random small graphs keep their values through every graph pass, and a second run is idle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.graph_size import count_nodes
from inr.dialects import inr
from inr.dialects.inr import shape_of
from inr.interpreters.graph import run_graph
from inr.passes.graph_builder import GraphBuilder, tensor_of
from inr.passes.inr_cse import InrCsePass
from inr.passes.inr_fold_transpose import InrFoldTransposePass
from inr.passes.inr_simplify import InrSimplifyPass
from inr.passes.rules import apply_rules
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import math
from xdsl.dialects.arith import MaximumfOp, MinimumfOp, NegfOp
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

PASSES: list[ModulePass] = [
    InrCsePass(),
    InrFoldTransposePass(),
    InrSimplifyPass(),
    InrSimplifyPass(quarter_turns=False),
    InrSimplifyPass(fold_scales=False),
]
NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 2.0, -0.5, 0.25, 3.0])
INPUT_SHAPES = [(3, 4), (4, 3), (1, 4), (3, 1), (4,)]

Step = Callable[[st.DataObject, GraphBuilder, list[SSAValue]], SSAValue | None]


def _draw(data: st.DataObject, values: list[SSAValue]) -> SSAValue:
    # Late values more often, so that graphs are deep.
    return values[max(data.draw(st.integers(0, len(values) - 1)) for _ in range(2))]


def _like(data: st.DataObject, b: GraphBuilder, values: list[SSAValue], x: SSAValue) -> SSAValue:
    """A value of the shape of x: another of the graph, a splat, or a broadcast constant."""
    shape = shape_of(x)
    match data.draw(st.integers(0, 3)):
        case 0:
            return b.splat(data.draw(NUMBERS), shape)
        case 1:
            small = [data.draw(st.sampled_from([1, extent])) for extent in shape]
            return b.broadcast(_constant(data, b, small), shape)
        case _:
            return _draw(data, [value for value in values if shape_of(value) == shape])


def _constant(data: st.DataObject, b: GraphBuilder, shape: list[int]) -> SSAValue:
    seed = data.draw(st.integers(0, 5))
    values = np.random.default_rng(seed).integers(-4, 5, shape) / 4
    name = data.draw(st.sampled_from([None, "w"]))
    return b.constant(values, name)


def _binary(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue:
    x = _draw(data, values)
    y = _like(data, b, values, x)
    if data.draw(st.booleans()):
        x, y = y, x
    match data.draw(st.integers(0, 6)):
        case 0 | 1 | 2:
            return b.mul(x, y)
        case 3:
            return b.add(x, y)
        case 4:
            return b.sub(x, y)
        case 5:
            op_type = data.draw(st.sampled_from([MaximumfOp, MinimumfOp]))
            return b.insert(op_type(x, y))
        case _:
            # Never a division by zero, so that all values are finite.
            return b.div(x, b.offset(b.mul(y, y), 1))


def _unary(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue:
    x = _draw(data, values)
    if data.draw(st.booleans()):
        return b.neg(x)
    functions = [math.SinOp, math.CosOp, math.TanhOp, math.AbsFOp, inr.SigmoidOp]
    return b.insert(data.draw(st.sampled_from(functions))(x))


def _choice(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue:
    x = _draw(data, values)
    y = _like(data, b, values, x)
    mask = b.compare(data.draw(st.sampled_from(list(inr.Predicate))), x, y)
    return b.select(mask, x, _like(data, b, values, x))


def _product(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue | None:
    matrices = [value for value in values if len(shape_of(value)) == 2]
    x = _draw(data, matrices)
    inner, columns = shape_of(x)[1], data.draw(st.integers(1, 4))
    partners = [value for value in matrices if shape_of(value)[0] == inner]
    if partners and data.draw(st.booleans()):
        weights = _draw(data, partners)
    else:
        weights = _constant(data, b, [inner, columns])
    bias = None
    if data.draw(st.booleans()):
        bias = _constant(data, b, [shape_of(weights)[1]])
    return b.matmul(x, weights, bias)


def _left_product(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue | None:
    matrices = [value for value in values if len(shape_of(value)) == 2]
    x = _draw(data, matrices)
    return b.matmul(_constant(data, b, [data.draw(st.integers(1, 4)), shape_of(x)[0]]), x)


def _transpose(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue:
    x = _draw(data, values)
    return b.transpose(x, data.draw(st.permutations(range(len(shape_of(x))))))


def _slice(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue:
    x = _draw(data, values)
    offsets, sizes, strides = [], [], []
    for extent in shape_of(x):
        start = data.draw(st.integers(0, extent - 1))
        step = data.draw(st.integers(1, 2))
        sizes.append(data.draw(st.integers(1, (extent - start + step - 1) // step)))
        offsets.append(start)
        strides.append(step)
    kept = sizes
    if data.draw(st.booleans()) and any(size > 1 for size in sizes):
        kept = [size for size in sizes if size != 1]
    return b.slice(x, offsets, sizes, strides, kept)


def _pad(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue:
    x = _draw(data, values)
    amounts = [[data.draw(st.integers(0, 1)) for _ in shape_of(x)] for _ in range(2)]
    return b.pad(x, *amounts)


def _concat(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue:
    x = _draw(data, values)
    parts = [x, _like(data, b, values, x)]
    return b.concat(parts, data.draw(st.integers(0, len(shape_of(x)) - 1)))


def _broadcast(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue:
    x = _draw(data, values)
    shape = [data.draw(st.integers(2, 3)) if d == 1 else d for d in shape_of(x)]
    return b.broadcast(x, shape)


def _reshape(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue:
    x = _draw(data, values)
    shape = [extent for extent in shape_of(x) if extent != 1] or [1]
    shape.insert(data.draw(st.integers(0, len(shape))), 1)
    return b.reshape(x, shape)


def _sum(data: st.DataObject, b: GraphBuilder, values: list[SSAValue]) -> SSAValue | None:
    x = _draw(data, values)
    if len(shape_of(x)) < 2:
        return None
    return b.reduce_sum(x, [data.draw(st.integers(0, len(shape_of(x)) - 1))])


STEPS: list[Step] = [
    _binary,
    _binary,
    _binary,
    _unary,
    _unary,
    _choice,
    _product,
    _product,
    _left_product,
    _transpose,
    _transpose,
    _slice,
    _pad,
    _concat,
    _broadcast,
    _reshape,
    _sum,
]


def _graph(data: st.DataObject) -> ModuleOp:
    """A random graph; the last values and some others are results."""
    block = Block(arg_types=[tensor_of(shape) for shape in INPUT_SHAPES])
    b = GraphBuilder(Builder(InsertPoint.at_end(block)), UnknownLoc())
    values: list[SSAValue] = list(block.args)
    for _ in range(data.draw(st.integers(2, 14))):
        value = data.draw(st.sampled_from(STEPS))(data, b, values)
        if value is not None and np.prod(shape_of(value)) <= 200:
            values.append(value)
    results = [*values[-2:], _draw(data, values)]
    b.builder.insert(ReturnOp(*results))
    types = [value.type for value in results]
    return ModuleOp([FuncOp("main", (block.arg_types, types), Region(block))])


@pytest.mark.parametrize("graph_pass", PASSES, ids=str)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_random_graphs_keep_their_values(graph_pass: ModulePass, data: st.DataObject):
    module = _graph(data)
    module.verify()
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    inputs = [generator.normal(size=shape) for shape in INPUT_SHAPES]
    expected = run_graph(module, inputs)
    before = count_nodes(module)

    graph_pass.apply(Context(), module)
    module.verify()
    for value, true in zip(run_graph(module, inputs), expected, strict=True):
        scale = np.abs(true).max(initial=1.0)
        np.testing.assert_allclose(value, true, rtol=1e-9, atol=1e-9 * scale)
    if isinstance(graph_pass, InrCsePass):
        assert count_nodes(module) <= before

    once = str(module)
    graph_pass.apply(Context(), module)
    assert str(module) == once


def test_rules_that_undo_each_other_are_an_error():
    block = Block(arg_types=[tensor_of((2,))])
    b = GraphBuilder(Builder(InsertPoint.at_end(block)), UnknownLoc())
    value = b.neg(block.args[0])
    b.builder.insert(ReturnOp(value))
    module = ModuleOp([FuncOp("main", (block.arg_types, [value.type]), Region(block))])

    def again(op: NegfOp, b: GraphBuilder) -> SSAValue:
        return b.neg(op.operand)

    with pytest.raises(RuntimeError, match="do not settle; the last was again"):
        apply_rules(module, {NegfOp: [again]})
