"""A traced function: a graph of ATen operators over inputs and named constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.node import map_aggregate

_WIDEN = {dtype: torch.float64 for dtype in (torch.float16, torch.bfloat16, torch.float32)}


@dataclass
class TracedGraph:
    """
    A function as ATen operators, free of in-place updates and views.

    The placeholders of `graph_module` are the inputs, then the constants.
    """

    graph_module: GraphModule
    inputs: list[torch.Tensor]
    constants: list[torch.Tensor]
    constant_names: list[str]
    output_names: list[str]
    notes: list[str]

    def evaluate_float64(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The graph's outputs in float64: constants and data types in it are widened."""
        wide = with_dtypes(self.graph_module, _WIDEN)
        arguments = [cast_tensor(tensor, _WIDEN) for tensor in (*inputs, *self.constants)]
        with torch.no_grad():
            return list(wide(*arguments))


def cast_tensor(tensor: torch.Tensor, mapping: Mapping[torch.dtype, torch.dtype]) -> torch.Tensor:
    """`tensor` in the type that `mapping` has for its own, if it has one."""
    return tensor.to(mapping.get(tensor.dtype, tensor.dtype))


def with_dtypes(
    graph_module: GraphModule, mapping: Mapping[torch.dtype, torch.dtype]
) -> GraphModule:
    """The same graph with the data types among its arguments replaced."""

    def replace(argument: Any) -> Any:
        return mapping.get(argument, argument) if isinstance(argument, torch.dtype) else argument

    graph = torch.fx.Graph()
    result = graph.graph_copy(graph_module.graph, {})
    graph.output(result)
    for node in graph.nodes:
        node.args = map_aggregate(node.args, replace)
        node.kwargs = map_aggregate(node.kwargs, replace)
    return GraphModule(graph_module, graph)
