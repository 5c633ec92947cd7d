"""A PyTorch function to a graph of ATen operators over named inputs and constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch._guards import TracingContext, tracing
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.func import functionalize
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx

from ..errors import CompileError
from .constant_folding import fold_constants
from .decompositions import decomposition_table
from .names import TensorNames
from .source_lines import call_labelled, line_of, line_of_error, recorded_lines
from .traced_graph import TracedGraph, cast_tensor, with_dtypes

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
        outputs = flatten_outputs(call_labelled(fn, *args))
        names[:] = outputs
        return tuple(outputs.values())

    examples = [tensor.detach().clone() for tensor in inputs]
    try:
        with torch.enable_grad(), recorded_lines():
            first = record_operators(flat, examples)
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(_explain(error)) from error
    if output_names is not None:
        if len(output_names) != len(names):
            raise CompileError(
                f"{len(output_names)} output names for {len(names)} outputs: {', '.join(names)}"
            )
        names = list(output_names)
    return finish(first, examples, TensorNames(fn), names)


def record_operators(fn: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> GraphModule:
    """The ATen operators that `fn(*arguments)` runs, decomposed, as a graph."""
    # Else PyTorch makes a mode anew to hold the shape of each value: half of the time of a trace.
    shapes = TracingContext(FakeTensorMode(allow_fallback_kernels=True))
    with tracing(shapes):
        return make_fx(fn, decomposition_table())(*arguments)


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
    graph_module = with_dtypes(graph_module, _HALVES)
    examples = [cast_tensor(tensor, _HALVES) for tensor in examples]
    constants = [cast_tensor(tensor.detach(), _HALVES) for tensor in constants]
    if notes or _has_updates(graph_module):
        graph_module = _functional(graph_module, [*examples, *constants])
        _reject_updates(graph_module, len(examples), constant_names)
    _remove_identities(graph_module)
    traced = TracedGraph(
        graph_module, list(examples), constants, constant_names, output_names, notes
    )
    fold_constants(traced)
    return traced


def _has_updates(graph_module: GraphModule) -> bool:
    return any(
        isinstance(node.target, OpOverload) and node.target._schema.is_mutable
        for node in graph_module.graph.nodes
    )


def _functional(graph_module: GraphModule, arguments: list[torch.Tensor]) -> GraphModule:
    """
    The graph traced once more, without in-place updates.

    Around the user's own function, functionalisation would refuse `requires_grad_`.
    """
    run = Interpreter(graph_module).run
    try:
        with torch.no_grad(), fx_traceback.preserve_node_meta():
            return record_operators(functionalize(run), arguments)
    except Exception as error:
        raise CompileError(f"removing in-place updates failed: {_first_line(error)}") from error


def _explain(error: Exception) -> str:
    where = line_of_error(error)
    at = f" at {where}" if where else ""
    if "_local_scalar_dense" in str(error):
        return (
            f"the function needs the value of a tensor{at}; what it computes must not depend on "
            "the data other than through tensor operations such as torch.where"
        )
    if "inr.lut_linear" in str(error) and "autograd" in str(error):
        return (
            f"a layer of tables is differentiated{at}; its output is constant between jumps. "
            "Import the values of a converted model, and the derivatives of the original one"
        )
    return f"tracing the function failed{at}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def flatten_outputs(value: Any) -> dict[str, torch.Tensor]:
    """
    The tensors of a tensor, or of a tuple, list or dictionary of them, by name.

    Raises `CompileError` for anything else, and where there is no tensor.
    """
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
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
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
            with graph.inserting_after(last):
                last = graph.placeholder(f"constant_{len(constants)}")
            placeholders[id(tensor)] = last
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


def _reject_updates(graph_module: GraphModule, inputs: int, constant_names: list[str]) -> None:
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    for node in graph_module.graph.nodes:
        if node.target != _aten.copy_.default:
            continue
        position = placeholders.index(node.args[0])
        where = line_of(node.args[1])
        at = f" ({where})" if where else ""
        if position < inputs:
            raise CompileError(f"input {position} is updated in place{at}; work on a copy of it")
        raise CompileError(
            f"the buffer '{constant_names[position - inputs]}' is updated in place{at}; a design "
            "keeps nothing between calls: put the model in evaluation mode (`model.eval()`)"
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
    if node.target == _aten.as_strided.default:
        # How functionalisation spells a view of the whole.
        return before.shape == after.shape and before.stride() == after.stride()
    return node.target == _aten._to_copy.default and before.dtype == after.dtype
