"""
Lanes of products and blocks of streams: as many as the part has room for.

Before, with `part=xcu50 lanes=1100`:

```mlir
%1 = array_stream.matmul %0 by %w … : (!array_stream.stream<64x256x!f>) -> …
```

After:

```mlir
%1 = array_stream.matmul %0 by %w lanes [32, 2] … : (!array_stream.stream<64x256x!f>) -> …
```

The slowest process sets the pace of a streaming design. No process takes more than T cycles for
a batch, each is as cheap as T allows, and T is the least with which everything fits `fill` of
the part's DSPs, block RAMs and LUTs, `dsp` DSPs and `lanes` multiply-accumulate units; the rest of
the part is for FIFOs, which are sized later, and for what place-and-route needs.
`analysis/parallelism.py` is the search.

`clock` is the period in ns. Cycles are counted with latencies of operators that hold down to
3.33 ns; a shorter period, for which nothing is known of them, is refused.

Blocks are those of the stream, so its two ends agree; where the processes at its ends take no
common size, an `array_stream.reblock` stands between them. Lanes that are set are kept, and so
are blocks other than 1 and those of a stream with a depth.

Where no T fits with an operator for each use, elementwise processes use their multipliers in
turn: a map that starts a block every `interval` cycles needs as many times fewer, and the T of
the slowest product leaves it that time. A design that is too large even so is refused, with what
is short. The J streams of a product keep their multipliers: at one lane they are few, and its
weights are stored once already.

The function's attribute `array_stream.parallelism` says what was found: `cycles` (T), `lanes`,
`macs`, and the `lut`, `ff`, `bram18`, `uram` and `dsp` of the processes (FIFOs have no size yet);
`floor`, the cycles below which nothing goes: the larger of MACs over the lanes that the limits
allow and of the longest chain of pipeline depths; `fill`, the cycles by which the end of the
longest chain is behind its beginning: with FIFOs that never fill a batch takes about T + `fill`,
and on no model of the zoo more. A function that has the attribute is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..analysis.operators import SHORTEST_PERIOD
from ..analysis.parallelism import Parallelism, Search, limits_of, set_lanes, with_block
from ..analysis.process_costs import fill_of, longest_chain, pipeline_depth
from ..analysis.targets import DEFAULT_PART, RESOURCES, find_part
from ..dialects import array_stream
from ..dialects.array_stream import STAGE, stream_type
from ..errors import CompileError

PARALLELISM = "array_stream.parallelism"
"""Attribute of a function: what was chosen for it."""


def apply_choice(choice: Parallelism) -> None:
    """Give products their lanes and streams their blocks, with a reblock where ends differ."""
    for op, lanes in choice.lanes.items():
        set_lanes(op, lanes)
    for op, interval in choice.intervals.items():
        op.interval = IntegerAttr(interval, i64)
    again: dict[tuple[SSAValue, int], SSAValue] = {}
    for place in choice.reblocks:
        key = (place.stream, place.block)
        if key not in again:
            again[key] = _reblocked(place.stream, place.block)
        place.reader.operands[place.operand] = again[key]
    for stream, block in choice.blocks.items():
        type_ = stream_type(stream)
        if type_.block.data != block:
            Rewriter.replace_value_with_new_type(stream, with_block(type_, block))


def _reblocked(stream: SSAValue, block: int) -> SSAValue:
    owner = stream.owner
    assert isinstance(owner, array_stream.ProcessOp)
    parent = owner.parent
    assert parent is not None
    op = array_stream.ReblockOp(stream, block)
    op.location = owner.location
    op.result.name_hint = stream.name_hint
    parent.insert_op_after(op, owner)
    return op.result


def select_function(function: FuncOp, search: Search) -> Parallelism:
    """
    Choose and set the lanes and blocks of a function at the value stage.

    Raises CompileError where the limits are too small.
    """
    choice = search.best()
    processes = search.processes
    floor = max(search.floor, longest_chain(processes, pipeline_depth))
    apply_choice(choice)
    ops = function.body.block.ops
    now = [op for op in ops if isinstance(op, array_stream.ProcessOp)]
    numbers = {
        "cycles": choice.cycles,
        "floor": floor,
        "fill": longest_chain(now, fill_of),
        "macs": search.macs,
        "lanes": choice.usage.lanes,
        **{kind: getattr(choice.usage.resources, kind) for kind in RESOURCES},
    }
    function.attributes[PARALLELISM] = DictionaryAttr(
        {name: IntegerAttr(number, i64) for name, number in numbers.items()}
    )
    return choice


@dataclass(frozen=True)
class ArrayStreamSelectParallelismPass(ModulePass):
    """Lanes and blocks: the least cycles that fit a part."""

    name = "array-stream-select-parallelism"

    part: str = DEFAULT_PART
    fill: float | int = 0.8
    lanes: int | None = None
    dsp: int | None = None
    clock: float | int = SHORTEST_PERIOD

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not 0 < self.fill <= 1:
            raise CompileError(f"{self.name}: fill={self.fill} is not a share between 0 and 1")
        for option, number in (("lanes", self.lanes), ("dsp", self.dsp)):
            if (inf if number is None else number) < 1:
                raise CompileError(f"{self.name}: {option}={number}; a design needs at least one")
        if self.clock < SHORTEST_PERIOD:
            raise CompileError(
                f"{self.name}: clock={self.clock:g}: the latencies of operators are known for a "
                f"period of {SHORTEST_PERIOD} ns and longer; ask for that, and let the synthesis "
                "tool try a shorter one"
            )
        part = find_part(self.part)
        limits = limits_of(part, self.fill, self.dsp, self.lanes)
        for function in op.ops:
            if not isinstance(function, FuncOp):
                continue
            open_ = PARALLELISM not in function.attributes
            if open_ and function.attributes.get(STAGE) == StringAttr("value"):
                select_function(function, Search(function, part, limits))
