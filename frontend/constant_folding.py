"""Tables that a model computes anew at each call become constants."""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.fx import Node

from .traced_graph import Run, TracedGraph

_aten = torch.ops.aten

# What makes a tensor that is not the same number everywhere. `full` is not here, nor what scatters
# into it: those are the seeds of derivatives, which stay operations. They are told by their form,
# and evaluating what follows from them would round it once more than the model does.
_MAKES_TABLE = {
    _aten.arange.default,
    _aten.arange.start,
    _aten.arange.start_step,
    _aten.as_strided_scatter.default,
    _aten.diagonal_scatter.default,
    _aten.eye.default,
    _aten.eye.m,
    _aten.index_put.default,
    _aten.linspace.default,
    _aten.logspace.default,
    _aten.tril.default,
    _aten.triu.default,
}


def fold_constants(traced: TracedGraph) -> None:
    """
    Evaluates what depends on no input and no parameter, `2 ** torch.arange(8)` for example, in
    the precision of the model, and makes a named constant of it. Buffers of integers, the
    positions of an embedding for example, are no parameters.
    """
    graph = traced.graph_module.graph
    tables = _tables(list(graph.nodes), _integers(traced))
    wanted = [
        node
        for node in tables
        if node.op != "placeholder" and any(user not in tables for user in node.users)
    ]
    if not wanted:
        return
    values = _evaluate(traced, wanted)
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in wanted:
        name = f"table_{len(traced.constants)}"
        with graph.inserting_before(first):
            placeholder = graph.placeholder(name)
        placeholder.meta.update(node.meta)
        users = [user for user in node.users if user not in tables]
        for user in users:
            user.replace_input_with(node, placeholder)
        traced.constants.append(values[node])
        traced.constant_names.append(name)
    graph.eliminate_dead_code()
    traced.graph_module.recompile()


def _integers(traced: TracedGraph) -> set[Node]:
    """The placeholders of constants that hold integers or bools."""
    placeholders = [n for n in traced.graph_module.graph.nodes if n.op == "placeholder"]
    pairs = zip(placeholders[len(traced.inputs) :], traced.constants, strict=True)
    return {node for node, tensor in pairs if not tensor.is_floating_point()}


def _tables(nodes: list[Node], integers: set[Node]) -> set[Node]:
    """The nodes that come from a table and from no input or parameter, `integers` included."""
    constant = set(integers)
    tables = set(integers)
    for node in nodes:
        if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        sources = set(node.all_input_nodes)
        if not sources <= constant or _is_random(node):
            continue
        constant.add(node)
        if node.target in _MAKES_TABLE or sources & tables:
            tables.add(node)
    return tables


def _is_random(node: Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def _evaluate(traced: TracedGraph, wanted: list[Node]) -> dict[Node, torch.Tensor]:
    run = Run(traced.graph_module, garbage_collect_values=False)
    with torch.no_grad():
        run.run(*traced.inputs, *traced.constants)
    return {node: run.env[node].detach().clone() for node in wanted}
