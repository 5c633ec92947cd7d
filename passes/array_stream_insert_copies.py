"""
One producer, one consumer: a stream with several readers goes through a copy.

Before:

```mlir
%1 = array_stream.map(%0) …
%2 = array_stream.matmul %1 by %w …
%3 = array_stream.map(%1, %2) …
```

After:

```mlir
%1 = array_stream.map(%0) …
%a, %b = array_stream.copy %1 : !s -> !s, !s
%2 = array_stream.matmul %a by %w …
%3 = array_stream.map(%b, %2) …
```

The function's stage becomes `linear`. A process whose results nobody reads is removed first, a
result nobody reads of a map that has others is no longer yielded, an input that its body does
not use no longer read. A stream with one reader gets no copy; two results that are the same
array are written twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriteWalker
from xdsl.transforms.dead_code_elimination import region_dce

from ..dialects import array_stream
from ..dialects.array_stream import STAGE
from ..dialects.stream_patterns import ReadOnlyWhatIsUsed
from .array_stream_fuse import merge_maps, with_ports


def drop_unread_results(block: Block) -> bool:
    """Maps and products with a result that nobody reads lose that result; whether any did."""
    changed = False
    for op in tuple(block.ops):
        if isinstance(op, array_stream.MapOp):
            keep = [v for v in op.outputs if v.uses]
            if 0 < len(keep) < len(op.outputs):
                _swap(block, op, merge_maps([op], keep), keep)
                changed = True
        elif isinstance(op, array_stream.MatmulOp):
            pairs = [(i, o) for i, o in zip(op.inputs, op.outputs, strict=True) if o.uses]
            if 0 < len(pairs) < len(op.outputs):
                kept = [o for _, o in pairs]
                replacement = with_ports(op, [i for i, _ in pairs], kept)
                for old, new in zip(kept, replacement.outputs, strict=True):
                    new.name_hint = old.name_hint
                _swap(block, op, replacement, kept)
                changed = True
    return changed


def drop_dead(function: FuncOp) -> None:
    """Remove what no result needs: processes, results of processes, inputs of maps."""
    walker = PatternRewriteWalker(ReadOnlyWhatIsUsed())
    changed = True
    while changed:
        region_dce(function.body)
        changed = drop_unread_results(function.body.block)
        region_dce(function.body)
        changed |= walker.rewrite_region(function.body)


def _swap(
    block: Block,
    old: array_stream.MapOp | array_stream.MatmulOp,
    new: array_stream.MapOp | array_stream.MatmulOp,
    kept: Sequence[SSAValue],
) -> None:
    block.insert_op_before(new, old)
    for before, after in zip(kept, new.outputs, strict=True):
        before.replace_all_uses_with(after)
    old.detach()
    old.erase()


def dissolve_copies(block: Block) -> None:
    """At the value stage a copy says nothing: its readers read what it copies."""
    for op in tuple(block.ops):
        if isinstance(op, array_stream.CopyOp):
            for output in op.outputs:
                output.replace_all_uses_with(op.stream)
            op.detach()
            op.erase()


def write_each_result(block: Block) -> None:
    """A result of the function that is another one's array gets a write of its own."""
    last = block.last_op
    assert isinstance(last, ReturnOp)
    seen: set[SSAValue] = set()
    for index, value in enumerate(last.operands):
        if value in seen and isinstance(value.owner, array_stream.WriteOp):
            again = value.owner.clone()
            block.insert_op_after(again, value.owner)
            last.operands[index] = again.memory
        seen.add(value)


def insert_copies(block: Block) -> None:
    """A copy behind every stream that is read more than once."""
    position = {op: i for i, op in enumerate(block.ops)}
    for op in tuple(position):
        if not isinstance(op, array_stream.ProcessOp) or isinstance(op, array_stream.CopyOp):
            continue
        for value in op.output_streams:
            uses = sorted(value.uses, key=lambda use: (position[use.operation], use.index))
            if len(uses) < 2:
                continue
            copy = array_stream.CopyOp(value, len(uses))
            copy.location = op.location
            block.insert_op_after(copy, op)
            for use, output in zip(uses, copy.outputs, strict=True):
                use.operation.operands[use.index] = output
                output.name_hint = value.name_hint


@dataclass(frozen=True)
class ArrayStreamInsertCopiesPass(ModulePass):
    """From the value stage to the linear stage."""

    name = "array-stream-insert-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if not isinstance(function, FuncOp):
                continue
            if function.attributes.get(STAGE) != StringAttr("value"):
                continue
            dissolve_copies(function.body.block)
            drop_dead(function)
            write_each_result(function.body.block)
            insert_copies(function.body.block)
            function.attributes[STAGE] = StringAttr("linear")
