"""
Fewer processes and fewer streams: what runs in lock step becomes one process.

* A chain of maps becomes one map; a map that only negates is repeated in each of its readers.
* Sine and cosine of one value become one `array_stream.sincos`.
* Products by one weight at the same depth of the network become one process with one weight
  memory.

Before (`!s` short for `!array_stream.stream<64x8xf64>`):

```mlir
%1 = array_stream.map(%0) : (!s) -> !s {
^bb0(%p: f64):
  %a = inr.cosq %p : f64
  array_stream.yield %a : f64
}
%2 = array_stream.map(%1, %g) : (!s, !s) -> !s {
^bb0(%c: f64, %d: f64):
  %b = arith.mulf %c, %d : f64
  array_stream.yield %b : f64
}
```

After:

```mlir
%2 = array_stream.map(%0, %g) : (!s, !s) -> !s {
^bb0(%p: f64, %d: f64):
  %a = inr.cosq %p : f64
  %b = arith.mulf %a, %d : f64
  array_stream.yield %b : f64
}
```

Only what runs on a function at the `value` stage can fuse; a linear function is left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce

from ..dialects import array_stream, inr
from ..dialects.array_stream import FORMAT, STAGE, FixedType, stream_type


def merge_maps(maps: Sequence[array_stream.MapOp], keep: Sequence[SSAValue]) -> array_stream.MapOp:
    """
    One map that computes all of `maps` (in an order in which each stands after those it reads)
    and yields the values of `keep`, some of their results. Bodies are moved, not copied; a
    stream that disappears leaves its format with the operation that made its values.
    """
    inside = {result: (m, i) for m in maps for i, result in enumerate(m.outputs)}
    inputs = list(dict.fromkeys(v for m in maps for v in m.inputs if v not in inside))
    fused = array_stream.MapOp(inputs, [stream_type(v) for v in keep])
    block = fused.body.block
    scalars: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for argument, stream in zip(block.args, inputs, strict=True):
        argument.name_hint = stream.name_hint
    for m in maps:
        body = m.body.block
        yielded = tuple(m.terminator.arguments)
        arguments: dict[SSAValue, SSAValue] = {
            a: scalars[s] for a, s in zip(body.args, m.inputs, strict=True)
        }
        Rewriter.erase_op(m.terminator)
        for result, value in zip(m.outputs, yielded, strict=True):
            scalars[result] = arguments.get(value, value)
            element = stream_type(result).element
            if result in keep or not isinstance(element, FixedType):
                continue
            if isinstance(value.owner, Operation):
                value.owner.attributes.setdefault(FORMAT, element)
        for argument, scalar in arguments.items():
            argument.replace_all_uses_with(scalar)
        for op in tuple(body.ops):
            op.detach()
            block.add_op(op)
    block.add_op(array_stream.YieldOp(*(scalars[v] for v in keep)))
    fused.location = maps[-1].location
    for old, new in zip(keep, fused.outputs, strict=True):
        new.name_hint = old.name_hint
    return fused


def _replace(maps: Sequence[array_stream.MapOp], keep: Sequence[SSAValue]) -> None:
    """Put the merge of `maps` where the last of them stands."""
    before = maps[-1]
    fused = merge_maps(maps, keep)
    assert before.parent is not None
    before.parent.insert_op_before(fused, before)
    for old, new in zip(keep, fused.outputs, strict=True):
        old.replace_all_uses_with(new)
    for m in reversed(maps):
        m.detach()
        m.erase()


def repeat_negations(block: Block) -> None:
    """Give each reader of a map that only negates its own copy: a sign costs less than a FIFO."""
    for op in tuple(block.ops):
        if not isinstance(op, array_stream.MapOp) or not _only_negates(op):
            continue
        uses = tuple(op.outputs[0].uses)
        readers = [u for u in uses if isinstance(u.operation, array_stream.MapOp)]
        if len(readers) != len(uses) or len(uses) < 2:
            continue
        for use in readers[1:]:
            copy = op.clone()
            block.insert_op_before(copy, use.operation)
            use.operation.operands[use.index] = copy.outputs[0]


def _only_negates(op: array_stream.MapOp) -> bool:
    ops = tuple(op.body.block.ops)
    negates = len(ops) == 2 and isinstance(ops[0], arith.NegfOp) and len(op.outputs) == 1
    return negates and _passes_unrounded(op)


def join_sine_and_cosine(block: Block) -> None:
    """Maps that each take one angle's sine or cosine, and nothing else, become one."""
    by_angle: dict[SSAValue, list[array_stream.MapOp]] = defaultdict(list)
    for op in block.ops:
        if isinstance(op, array_stream.MapOp) and isinstance(
            op.body.block.first_op, inr.SinQOp | inr.CosQOp
        ):
            by_angle[op.inputs[0]].append(op)
    for maps in by_angle.values():
        kinds = {type(m.body.block.first_op) for m in maps}
        simple = all(len(m.inputs) == 1 and len(tuple(m.body.block.ops)) == 2 for m in maps)
        if len(kinds) < 2 or not simple:
            continue
        # The merge stands with the first of them, before every reader.
        first = maps[0]
        for other in maps[1:]:
            other.detach()
            block.insert_op_after(other, first)
        _replace(maps, [m.outputs[0] for m in maps])


def join_sincos_in_body(op: array_stream.MapOp) -> None:
    """In a map's body, sine and cosine of one value by one table."""
    pairs: dict[SSAValue, dict[type[Operation], Operation]] = defaultdict(dict)
    for inner in op.body.block.ops:
        if isinstance(inner, inr.SinQOp | inr.CosQOp):
            pairs[inner.operand].setdefault(type(inner), inner)
    for angle, found in pairs.items():
        if len(found) < 2:
            continue
        sine, cosine = found[inr.SinQOp], found[inr.CosQOp]
        if sine.attributes != cosine.attributes:
            # One table has one format.
            continue
        both = array_stream.SinCosOp(angle)
        both.attributes.update(sine.attributes)
        both.location = sine.location
        owner = angle.owner
        if isinstance(owner, Operation):
            op.body.block.insert_op_after(both, owner)
        else:
            first = op.body.block.first_op
            assert first is not None
            op.body.block.insert_op_before(both, first)
        Rewriter.replace_op(sine, [], [both.sine])
        Rewriter.replace_op(cosine, [], [both.cosine])


def fuse_chains(block: Block) -> None:
    """
    Merge each map into the map that alone reads it.

    One walk from the end: a reader has absorbed what it can before its producers are asked.
    """
    op = block.last_op
    while op is not None:
        if not isinstance(op, array_stream.MapOp):
            op = op.prev_op
            continue
        producer = _sole_producer(op)
        if producer is None:
            op = op.prev_op
            continue
        after = op.next_op
        _replace([producer, op], list(op.outputs))
        op = after.prev_op if after is not None else block.last_op


def _sole_producer(op: array_stream.MapOp) -> array_stream.MapOp | None:
    """A map whose every result is read by `op` and by nothing else."""
    for value in op.inputs:
        owner = value.owner
        if not isinstance(owner, array_stream.MapOp):
            continue
        alone = all(use.operation is op for r in owner.outputs for use in r.uses)
        if alone and _passes_unrounded(owner):
            return owner
    return None


def _passes_unrounded(op: array_stream.MapOp) -> bool:
    """
    Whether what a map yields is what its streams carry: each value has its stream's format, or
    none and takes it. A stream that rounds again, or that somebody gave a depth, stays.
    """
    formats: dict[SSAValue, Attribute] = {}
    for stream, value in zip(op.outputs, op.terminator.arguments, strict=True):
        type_ = stream_type(stream)
        if type_.capacity is not None or type_.storage_kind is not None:
            return False
        if not isinstance(type_.element, FixedType):
            continue
        if isinstance(value, BlockArgument):
            given = stream_type(op.inputs[value.index]).element
        else:
            assert isinstance(value.owner, Operation)
            given = value.owner.attributes.get(FORMAT, type_.element)
        if formats.setdefault(value, given) != type_.element:
            return False
    return True


def with_ports(
    op: array_stream.MatmulOp, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]
) -> array_stream.MatmulOp:
    """The product of other inputs by the weight of `op`, its results of the types of `outputs`."""
    result = array_stream.MatmulOp.build(
        operands=[inputs, op.weights, op.bias],
        result_types=[[v.type for v in outputs]],
        properties={k: v for k, v in op.properties.items() if k != _SEGMENTS},
        attributes=op.attributes,
    )
    result.location = op.location
    return result


_SEGMENTS = "operandSegmentSizes"


def share_weights(block: Block) -> None:
    """
    Products by the same weight and bias at the same depth become one process.

    The depth of a product is the largest number of products on a way to it. Two of equal depth
    cannot depend on each other, however many others are merged meanwhile.
    """
    depth: dict[Operation, int] = {}
    groups: dict[tuple[object, ...], list[array_stream.MatmulOp]] = defaultdict(list)
    for op in block.ops:
        sources = (v.owner for v in op.operands if isinstance(v.owner, Operation))
        before = max((depth[source] for source in sources), default=0)
        is_product = isinstance(op, array_stream.MatmulOp | array_stream.MatmulDynamicOp)
        depth[op] = before + is_product
        if isinstance(op, array_stream.MatmulOp):
            key = (
                depth[op],
                op.weights,
                op.bias,
                *((k, v) for k, v in op.properties.items() if k != _SEGMENTS),
                *(frozenset(stream_type(v) for v in s) for s in (op.inputs, op.outputs)),
            )
            groups[key].append(op)
    for group in groups.values():
        if len(group) < 2:
            continue
        inputs = [v for op in group for v in op.inputs]
        outputs = [v for op in group for v in op.outputs]
        merged = with_ports(group[0], inputs, outputs)
        block.insert_op_after(merged, group[-1])
        for old, new in zip(outputs, merged.outputs, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        for op in group:
            op.detach()
            op.erase()
    sort_topologically(block)


def sort_topologically(block: Block) -> None:
    """Put each operation after those it reads, otherwise in the order in which they stand."""
    ops = list(block.ops)
    place = {op: i for i, op in enumerate(ops)}
    done: set[Operation] = set()
    ordered: list[Operation] = []
    for root in ops:
        stack = [root]
        while stack:
            op = stack[-1]
            if op in done:
                stack.pop()
                continue
            waits = [
                v.owner
                for v in op.operands
                if isinstance(v.owner, Operation) and v.owner in place and v.owner not in done
            ]
            if waits:
                stack.extend(sorted(waits, key=place.__getitem__, reverse=True))
                continue
            done.add(op)
            ordered.append(op)
            stack.pop()
    if ordered == ops:
        return
    for op in ops:
        op.detach()
    block.add_ops(ordered)


def fuse_function(function: FuncOp, *, chains: bool, sincos: bool, weights: bool) -> None:
    """Run the chosen fusions on one function at the value stage."""
    block = function.body.block
    region_dce(function.body)
    if sincos:
        join_sine_and_cosine(block)
    if weights:
        share_weights(block)
    if chains:
        repeat_negations(block)
        fuse_chains(block)
    for op in block.ops:
        if not isinstance(op, array_stream.MapOp):
            continue
        if chains:
            cse(op.body.block)
        if sincos:
            join_sincos_in_body(op)
    region_dce(function.body)


@dataclass(frozen=True)
class ArrayStreamFusePass(ModulePass):
    """Chains of maps, sine with cosine, products by one weight: each becomes one process."""

    name = "array-stream-fuse"

    chains: bool = True
    sincos: bool = True
    weights: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if not isinstance(function, FuncOp):
                continue
            if function.attributes.get(STAGE) == StringAttr("value"):
                fuse_function(
                    function, chains=self.chains, sincos=self.sincos, weights=self.weights
                )
