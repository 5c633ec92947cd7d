"""A traced function: a graph of ATen operators over inputs and named constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Interpreter
from torch.fx.node import map_aggregate

_aten = torch.ops.aten

_VIEWS = {_aten.view.default, _aten._unsafe_view.default}

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
        """
        The graph's outputs in float64: constants and data types in it are widened. A layer of
        tables is computed in float32 all the same, as its definition says.
        """
        wide = with_dtypes(self.graph_module, _WIDEN)
        arguments = [cast_tensor(tensor, _WIDEN) for tensor in (*inputs, *self.constants)]
        with torch.no_grad():
            return list(_Wide(wide).run(*arguments))


class Run(Interpreter):
    """
    Runs a graph. Copies that made a tensor contiguous are gone from it, so that a view of such a
    tensor is one of another memory layout, which `reshape` takes.
    """

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target = _aten.reshape.default if target in _VIEWS else target
        return super().call_function(target, args, kwargs)


class _Wide(Run):
    """Runs a graph in float64 but for operators of `inr`, which have number types of their own."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(target, OpOverload) or target.namespace != "inr":
            return super().call_function(target, args, kwargs)
        narrow = map_aggregate((args, kwargs), _narrowed)
        return super().call_function(target, *narrow).to(torch.float64)


def _narrowed(argument: Any) -> Any:
    is_wide = isinstance(argument, torch.Tensor) and argument.dtype == torch.float64
    return argument.to(torch.float32) if is_wide else argument


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
