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
result nobody reads of a map that has others is no longer yielded. A stream with one reader gets
no copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import region_dce

from ..dialects import array_stream
from ..dialects.array_stream import STAGE
from .array_stream_fuse import merge_maps


def drop_unread_results(block: Block) -> None:
    """Maps and products with a result that nobody reads lose that result."""
    for op in tuple(block.ops):
        if isinstance(op, array_stream.MapOp):
            keep = [v for v in op.outputs if v.uses]
            if 0 < len(keep) < len(op.outputs):
                _swap(block, op, merge_maps([op], keep), keep)
        elif isinstance(op, array_stream.MatmulOp):
            pairs = [(i, o) for i, o in zip(op.inputs, op.outputs, strict=True) if o.uses]
            if 0 < len(pairs) < len(op.outputs):
                replacement = array_stream.MatmulOp.build(
                    operands=[[i for i, _ in pairs], op.weights, op.bias],
                    result_types=[[o.type for _, o in pairs]],
                    properties={
                        k: v for k, v in op.properties.items() if k != "operandSegmentSizes"
                    },
                    attributes=op.attributes,
                )
                for (_, old), new in zip(pairs, replacement.outputs, strict=True):
                    new.name_hint = old.name_hint
                replacement.location = op.location
                _swap(block, op, replacement, [o for _, o in pairs])


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
            region_dce(function.body)
            drop_unread_results(function.body.block)
            region_dce(function.body)
            insert_copies(function.body.block)
            function.attributes[STAGE] = StringAttr("linear")
