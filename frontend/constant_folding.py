"""Tables that a model computes anew at each call become constants."""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.fx import Interpreter, Node

from .traced_graph import TracedGraph

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
}


def fold_constants(traced: TracedGraph) -> None:
    """
    Evaluates what depends on no input and no parameter, `2 ** torch.arange(8)` for example, in
    the precision of the model, and makes a named constant of it.
    """
    graph = traced.graph_module.graph
    tables = _tables(list(graph.nodes))
    wanted = [node for node in tables if any(user not in tables for user in node.users)]
    if not wanted:
        return
    values = _evaluate(traced, tables)
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


def _tables(nodes: list[Node]) -> set[Node]:
    """The nodes that come from a table and from no input or parameter."""
    constant: set[Node] = set()
    tables: set[Node] = set()
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


def _evaluate(traced: TracedGraph, tables: set[Node]) -> dict[Node, torch.Tensor]:
    run = Interpreter(traced.graph_module, garbage_collect_values=False)
    with torch.no_grad():
        run.run(*traced.inputs, *traced.constants)
    return {node: run.env[node].detach().clone() for node in tables}
