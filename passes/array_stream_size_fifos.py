"""
A depth for every FIFO that has none.

Before:

```mlir
%1 = array_stream.map(%0) … -> !array_stream.stream<64x8xf32>
```

After:

```mlir
%1 = array_stream.map(%0) … -> !array_stream.stream<64x8xf32, depth = 2, storage = srl>
```

`method=safe` is free from deadlock by construction. A blocked network has a cycle of processes
that wait for each other over full and empty FIFOs, so every FIFO of that cycle lies on a cycle
of the network's undirected graph. A FIFO that lies on none can never take part: two blocks keep
both sides busy. A FIFO on one gets room for the whole array, so that its writer never waits.
`method=minimum` makes every FIFO two blocks deep, the start of a search by simulation, which
`inr-compile` does.

The other methods go by the schedule of every process (`analysis.schedules`): `default`, `exact`,
`inr-arch`, `max-occupancy` and `tensor-size` of `analysis.fifo_sizing` keep the design within a
fraction `alpha` of the speed it has with unbounded FIFOs, at the least `objective`: `bits`,
`bram` or `weighted`. They need number formats, because a schedule depends on them.

A depth or a storage that is already there is kept. A storage follows from depth and width by
the rule of the synthesis tool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import networkx as nx
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..analysis.fifo_cost import METHODS as SCHEDULE_METHODS
from ..analysis.schedules import element_bits, fifos_of, network_of
from ..analysis.storage import fifo_storage
from ..dialects import array_stream
from ..dialects.array_stream import STAGE, stream_type
from ..errors import CompileError

if TYPE_CHECKING:
    from ..analysis.fifo_sizing import Sizing

METHODS = ("safe", "minimum", *SCHEDULE_METHODS)

LEAST_DEPTH = 2
"""Blocks a FIFO needs to pass one a cycle: one is written while the other is read."""


def ends_of(value: SSAValue) -> tuple[Operation, Operation]:
    """The process that writes a FIFO and the one that reads it, through reshapes."""
    owner = value.owner
    assert isinstance(owner, Operation)
    reader = next(iter(value.uses)).operation
    while isinstance(reader, array_stream.ReshapeOp):
        reader = next(iter(reader.result.uses)).operation
    return owner, reader


def set_depth(value: SSAValue, depth: int, storage: str | None = None) -> None:
    """
    Give a FIFO a depth, and a storage: the one that follows from depth and width where none is
    said. Its reshapes get the same.
    """
    type_ = stream_type(value)
    storage = storage or fifo_storage(depth, element_bits(type_.element) * type_.block.data)
    value = Rewriter.replace_value_with_new_type(value, type_.with_depth(depth, storage))
    for use in tuple(value.uses):
        if isinstance(use.operation, array_stream.ReshapeOp):
            set_depth(use.operation.result, depth, storage)


def safe_depths(function: FuncOp) -> dict[SSAValue, int]:
    """A depth for each FIFO with which no deadlock exists, whatever the order of execution."""
    fifos = fifos_of(function)
    network: nx.MultiGraph[Operation] = nx.MultiGraph()
    for value in fifos:
        network.add_edge(*ends_of(value))
    # bridges() wants a simple graph: parallel edges are cycles, so they are not bridges.
    simple: nx.Graph[Operation] = nx.Graph(network)
    edges = cast(Iterable[tuple[Operation, Operation]], nx.bridges(simple))
    bridges = {frozenset((a, b)) for a, b in edges if network.number_of_edges(a, b) == 1}
    return {
        value: LEAST_DEPTH
        if frozenset(ends_of(value)) in bridges
        else max(LEAST_DEPTH, stream_type(value).blocks)
        for value in fifos
    }


def size_function(function: FuncOp, method: str) -> None:
    """Give every FIFO of a linear function that has no depth one."""
    depths = (
        safe_depths(function)
        if method == "safe"
        else dict.fromkeys(fifos_of(function), LEAST_DEPTH)
    )
    for value, depth in depths.items():
        given = stream_type(value)
        set_depth(value, depth if given.capacity is None else given.capacity, given.storage_kind)


def size_by_schedule(
    function: FuncOp, method: str = "default", alpha: float = 0.01, objective: str = "bits"
) -> Sizing:
    """
    Give every FIFO of a linear function that has no depth one, by the schedule of its processes,
    and say what came of it. The FIFOs of the answer are those of `network_of`.

    Raises CompileError for given depths that deadlock and for bad values of the parameters.
    """
    # numba is only loaded where it is used.
    from ..analysis.fifo_sizing import size_fifos

    network, fifos = network_of(function)
    fixed = {
        index: depth
        for index, value in enumerate(fifos)
        if (depth := stream_type(value).capacity) is not None
    }
    sizing = size_fifos(network, alpha, objective, method, fixed)
    for value, depth, storage in zip(fifos, sizing.depths, sizing.storage, strict=False):
        set_depth(value, depth, storage)
    return sizing


@dataclass(frozen=True)
class ArrayStreamSizeFifosPass(ModulePass):
    """A depth and a storage for every FIFO, free from deadlock by construction."""

    name = "array-stream-size-fifos"

    method: str = "safe"
    alpha: float | int = 0.01
    objective: str = "bits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.method not in METHODS:
            raise CompileError(
                f"{self.name}: method '{self.method}' is not one of {', '.join(METHODS)}"
            )
        for function in op.ops:
            if not isinstance(function, FuncOp):
                continue
            if function.attributes.get(STAGE) != StringAttr("linear"):
                continue
            if self.method in SCHEDULE_METHODS:
                size_by_schedule(function, self.method, self.alpha, self.objective)
            else:
                size_function(function, self.method)
