"""A PyTorch function to a graph of ATen operators over named inputs and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch.func import functionalize
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_aggregate

from ..errors import CompileError
from .decompositions import decomposition_table
from .names import TensorNames
from .source_lines import call_labelled, line_of, recorded_lines

_aten = torch.ops.aten

_IDENTITIES = {
    _aten.alias.default,
    _aten.clone.default,
    _aten.detach.default,
    _aten.lift_fresh.default,
    _aten.lift_fresh_copy.default,
}
_IDENTITIES_OF_SHAPE = {
    _aten._unsafe_view.default,
    _aten.expand.default,
    _aten.reshape.default,
    _aten.view.default,
}
_HALVES = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
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
        wide = _with_dtypes(self.graph_module, _WIDEN)
        arguments = [_cast(tensor, _WIDEN) for tensor in (*inputs, *self.constants)]
        with torch.no_grad():
            return list(wide(*arguments))


def trace(
    fn: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    output_names: Sequence[str] | None = None,
) -> TracedGraph:
    """
    Traces `fn(*inputs)`, which returns a tensor, or a tuple, list or dictionary of tensors.

    Raises `CompileError` where `fn` fails or returns something else, where it updates an
    input or a buffer in place, and where a constant holds a NaN or an infinity.
    """
    names: list[str] = []

    def flat(*args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # Modes that the user's own code may be run in must not leak into the trace.
        outputs = _flatten(call_labelled(fn, *args))
        names[:] = outputs
        return tuple(outputs.values())

    examples = [tensor.detach().clone() for tensor in inputs]
    try:
        with torch.enable_grad(), recorded_lines():
            first = make_fx(flat, decomposition_table())(*examples)
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(f"tracing the function failed: {_first_line(error)}") from error
    if output_names is not None:
        if len(output_names) != len(names):
            raise CompileError(
                f"{len(output_names)} output names for {len(names)} outputs: {', '.join(names)}"
            )
        names = list(output_names)
    return finish(first, examples, TensorNames(fn), names)


def finish(
    graph_module: GraphModule,
    examples: Sequence[torch.Tensor],
    tensor_names: TensorNames,
    output_names: list[str],
) -> TracedGraph:
    """
    Makes a `TracedGraph` of a graph whose placeholders are the inputs: names its constants,
    widens half precision, and removes in-place updates and operators that do nothing.
    """
    constants, constant_names = _lift_constants(graph_module, tensor_names)
    _check_finite(constants, constant_names)
    notes = _notes_on_halves(constants, examples)
    graph_module = _with_dtypes(graph_module, _HALVES)
    examples = [_cast(tensor, _HALVES) for tensor in examples]
    constants = [_cast(tensor.detach(), _HALVES) for tensor in constants]
    # Functionalisation needs a graph that is already traced: around the user's own function
    # it would refuse `requires_grad_`.
    run = Interpreter(graph_module).run
    with torch.no_grad(), fx_traceback.preserve_node_meta():
        pure = make_fx(functionalize(run), decomposition_table())(*examples, *constants)
    _reject_updates(pure, len(examples), constant_names)
    _remove_identities(pure)
    return TracedGraph(pure, list(examples), constants, constant_names, output_names, notes)


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _flatten(value: Any) -> dict[str, torch.Tensor]:
    match value:
        case torch.Tensor():
            outputs = {"out0": value}
        case Mapping():
            outputs = {str(key): item for key, item in value.items()}
        case list() | tuple():
            outputs = {f"out{index}": item for index, item in enumerate(value)}
        case _:
            outputs = {"out0": value}
    for name, item in outputs.items():
        if not isinstance(item, torch.Tensor):
            raise CompileError(
                f"output '{name}' is a {type(item).__name__}; the function must return a "
                "tensor, or a tuple, list or dictionary of tensors"
            )
    if not outputs:
        raise CompileError("the function returns no tensor")
    return outputs


def _lift_constants(
    graph_module: GraphModule, tensor_names: TensorNames
) -> tuple[list[torch.Tensor], list[str]]:
    """Turns each tensor that the graph refers to into a placeholder after the inputs."""
    graph = graph_module.graph
    first = next(node for node in graph.nodes if node.op != "placeholder")
    constants: list[torch.Tensor] = []
    names: list[str] = []
    placeholders: dict[int, Node] = {}
    for node in list(graph.nodes):
        if node.op != "get_attr":
            continue
        tensor = getattr(graph_module, node.target)
        if not isinstance(tensor, torch.Tensor):
            raise CompileError(f"a {type(tensor).__name__} in the traced function: {node.target}")
        if id(tensor) not in placeholders:
            with graph.inserting_before(first):
                placeholders[id(tensor)] = graph.placeholder(f"constant_{len(constants)}")
            name = tensor_names.get(tensor) or str(node.target).lstrip("_")
            constants.append(tensor)
            names.append(name if name not in names else f"{name}_{len(names)}")
        node.replace_all_uses_with(placeholders[id(tensor)])
        graph.erase_node(node)
    graph_module.recompile()
    return constants, names


def _check_finite(constants: list[torch.Tensor], names: list[str]) -> None:
    for tensor, name in zip(constants, names, strict=True):
        if not tensor.is_floating_point():
            continue
        if (count := int((~torch.isfinite(tensor)).sum())) > 0:
            raise CompileError(
                f"parameter '{name}' has {count} NaN or infinite of {tensor.numel()} values; "
                "the model must be trained to finite weights"
            )


def _notes_on_halves(constants: list[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[str]:
    notes: list[str] = []
    for dtype in _HALVES:
        spelt = str(dtype).removeprefix("torch.")
        if any(tensor.dtype == dtype for tensor in constants):
            notes.append(f"{spelt} parameters converted to float32")
        if any(tensor.dtype == dtype for tensor in inputs):
            notes.append(f"{spelt} inputs converted to float32")
    return notes


def _cast(tensor: torch.Tensor, mapping: Mapping[torch.dtype, torch.dtype]) -> torch.Tensor:
    return tensor.to(mapping.get(tensor.dtype, tensor.dtype))


def _with_dtypes(
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


def _reject_updates(graph_module: GraphModule, inputs: int, constant_names: list[str]) -> None:
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    for node in graph_module.graph.nodes:
        if node.target != _aten.copy_.default:
            continue
        position = placeholders.index(node.args[0])
        what = (
            f"input {position}"
            if position < inputs
            else f"the buffer '{constant_names[position - inputs]}'"
        )
        where = line_of(node.args[1])
        raise CompileError(
            f"{what} is updated in place{f' ({where})' if where else ''}; "
            "a design has no memory between calls: work on a copy"
        )


def _remove_identities(graph_module: GraphModule) -> None:
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or not _is_identity(node):
            continue
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)
    graph.eliminate_dead_code()
    graph_module.recompile()


def _is_identity(node: Node) -> bool:
    if node.target in _IDENTITIES:
        return True
    if not node.args or not isinstance(operand := node.args[0], Node):
        return False
    before, after = operand.meta.get("val"), node.meta.get("val")
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return False
    if node.target in _IDENTITIES_OF_SHAPE:
        return before.shape == after.shape
    return node.target == _aten._to_copy.default and before.dtype == after.dtype
