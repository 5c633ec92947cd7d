"""A PyTorch function to a module of the `torch` dialect."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch_mlir.dialects import func as func_bindings
from torch_mlir.dialects import torch as torch_mlir_dialect
from torch_mlir.extras.fx_importer import (
    TORCH_DTYPE_TO_MLIR_TYPE,
    FxImporter,
    FxImporterHooks,
    GraphNodeImporter,
)
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func, FuncOp

from ..dialects.torch import Torch
from ..errors import CompileError
from .derivatives import Outputs, nested_gradients
from .mlir_bridge import Bridge, ir
from .source_lines import line_of
from .traced_graph import TracedGraph
from .tracing import trace

NAME = "inr.name"
"""The attribute of literals, arguments and results that holds their name in PyTorch."""


@dataclass
class ImportedModel:
    """What `import_torch` made of a function."""

    module: ModuleOp
    """One `func.func` in the `torch` dialect; weights are inline, with their `inr.name`."""
    input_names: list[str]
    output_names: list[str]
    notes: list[str]
    """What was changed on the way in that the user should know, a sentence each."""
    traced: TracedGraph = field(repr=False)
    mlir_module: Any = field(repr=False)

    @property
    def text(self) -> str:
        """The module as torch-mlir prints it, weights inline, in its own custom syntax."""
        return self.to_text()

    def to_text(self, *, generic: bool = False, locations: bool = False) -> str:
        """The module as torch-mlir prints it; with `locations`, each op with its source line."""
        return self.mlir_module.operation.get_asm(
            print_generic_op_form=generic,
            enable_debug_info=locations,
            use_local_scope=locations,
        )

    def reference(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """
        What PyTorch computes in float64 with the weights of this model, output by output.

        `inputs` have the shapes of the example inputs; each is widened to float64.
        """
        if len(inputs) != len(self.input_names):
            raise CompileError(f"{len(inputs)} inputs for {', '.join(self.input_names)}")
        for array, example, name in zip(inputs, self.traced.inputs, self.input_names, strict=True):
            if array.shape != tuple(example.shape):
                raise CompileError(
                    f"input '{name}' has shape {list(array.shape)}, the model was imported for "
                    f"{list(example.shape)}"
                )
        tensors = [torch.from_numpy(np.array(array)) for array in inputs]
        return [out.numpy() for out in self.traced.evaluate_float64(tensors)]


def import_torch(
    fn: Callable[..., Any],
    example_inputs: Sequence[torch.Tensor],
    *,
    name: str = "main",
    order: int | None = None,
    outputs: Outputs = "all",
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> ImportedModel:
    """
    Imports `fn` for inputs of the shapes and types of `example_inputs`.

    With an `order`, or `outputs` other than `all`, `fn` is a plain model `y = fn(x, …)`, and
    what is imported are its derivatives with respect to `x`: see `nested_gradients`. Without,
    `fn` is imported as it is; it may call `torch.autograd.grad` itself.

    The function in the result is called `name`. Inputs are called what `fn` calls its
    parameters unless `input_names` says otherwise, outputs by the keys of the dictionary that
    `fn` returns, else `out0`, `out1`, …

    Raises `CompileError` for anything that cannot be imported.
    """
    inputs = list(example_inputs)
    names = list(input_names) if input_names is not None else _parameter_names(fn, len(inputs))
    check_inputs(inputs, names)
    function = fn
    if order is not None or outputs != "all":
        function = nested_gradients(fn, order, outputs)
    traced = trace(function, inputs, output_names)
    return import_traced(traced, name=name, input_names=names)


def import_traced(traced: TracedGraph, *, name: str, input_names: list[str]) -> ImportedModel:
    """Imports a graph that is already traced; the parameters are those of `import_torch`."""
    _reject_complex(traced.graph_module)
    mlir_module = _to_mlir(traced, name)
    _name_arguments(mlir_module, input_names, traced.output_names)
    ctx = Context(allow_unregistered=True)
    for dialect in (Builtin, Func, Torch):
        ctx.load_dialect(dialect)
    module = Bridge(ctx).module(mlir_module)
    for op in module.ops:
        if isinstance(op, FuncOp):
            for argument, hint in zip(op.args, input_names, strict=True):
                argument.name_hint = hint if argument.is_valid_name(hint) else None
    module.verify()
    return ImportedModel(
        module, input_names, traced.output_names, traced.notes, traced, mlir_module
    )


def _parameter_names(fn: Callable[..., Any], count: int) -> list[str]:
    function = fn.forward if isinstance(fn, torch.nn.Module) else fn
    names: list[str] = []
    try:
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
                names.append(parameter.name)
    except (TypeError, ValueError):
        pass
    return names[:count] if len(names) >= count else default_names(count)


def default_names(count: int) -> list[str]:
    """The names of inputs that have none: `x`, or `x0`, `x1`, …"""
    return ["x"] if count == 1 else [f"x{index}" for index in range(count)]


def check_inputs(inputs: list[Any], names: list[str]) -> None:
    """Raises `CompileError` unless `inputs` are tensors of real numbers, as many as `names`."""
    if len(names) != len(inputs):
        raise CompileError(f"{len(names)} input names for {len(inputs)} example inputs")
    if not inputs:
        raise CompileError("the function has no inputs: nothing would be computed at run time")
    for tensor, name in zip(inputs, names, strict=True):
        if not isinstance(tensor, torch.Tensor):
            raise CompileError(
                f"example input '{name}' is a {type(tensor).__name__}; it must be a tensor"
            )
        if not tensor.is_floating_point():
            raise CompileError(
                f"example input '{name}' is {_spell(tensor.dtype)}; "
                "inputs must be of a floating-point type"
            )


def _spell(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _describe(node: Node) -> str:
    op = str(node.target).removesuffix(".default")
    where = line_of(node)
    return f"{op}{f' ({where})' if where else ''}"


def _reject_complex(graph_module: GraphModule) -> None:
    for node in graph_module.graph.nodes:
        value = node.meta.get("val")
        if node.op != "output" and isinstance(value, torch.Tensor) and value.is_complex():
            raise CompileError(
                f"{_describe(node)}: {_spell(value.dtype)} tensors are not supported; "
                "write the real and the imaginary part as two real tensors"
            )


class _Literals(FxImporterHooks):
    """Writes each constant inline, under its own name."""

    def __init__(self, names: dict[int, str]):
        self._names = names

    def resolve_input(self, gni: Any, value: torch.Tensor, info: Any) -> Any:
        array = value.detach().cpu().contiguous().numpy()
        element = ir.IntegerType.get_signless(1) if array.dtype == bool else None
        data = ir.DenseElementsAttr.get(
            array,
            type=element or TORCH_DTYPE_TO_MLIR_TYPE[value.dtype](),
            shape=array.shape,
        )
        return ir.Operation.create(
            "torch.vtensor.literal",
            results=[gni._cc.tensor_to_vtensor_type(value)],
            attributes={"value": data, NAME: ir.StringAttr.get(self._names[id(value)])},
        ).result


class _NodeImporter(GraphNodeImporter):
    """Says which operator of which line it was when torch-mlir cannot import one."""

    def _import_torch_op_overload(
        self, loc: Any, node: Node, concrete_target: Any | None = None
    ) -> None:
        try:
            super()._import_torch_op_overload(loc, node, concrete_target)
        except Exception as error:
            raise CompileError(
                f"{_describe(node)}: torch-mlir cannot import it: {error}"
            ) from error


def _to_mlir(traced: TracedGraph, name: str) -> Any:
    context = ir.Context()
    context.allow_unregistered_dialects = True  # for the attribute `inr.name`
    torch_mlir_dialect.register_dialect(context)
    names = zip(traced.constants, traced.constant_names, strict=True)
    hooks = _Literals({id(tensor): constant for tensor, constant in names})
    importer = FxImporter(context=context, hooks=hooks)
    try:
        _import_function(importer, traced, name)
        importer.module.operation.verify()
    except CompileError:
        raise
    except Exception as error:
        raise CompileError(f"torch-mlir cannot import the traced graph: {error}") from error
    return importer.module


def _import_function(importer: FxImporter, traced: TracedGraph, name: str) -> None:
    """
    Adds the function to the importer's module, constants as literals where first used.

    `FxImporter.import_stateless_graph` would take constants from attributes of the graph's
    module; it fails on one that is used twice.
    """
    nodes = list(traced.graph_module.graph.nodes)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    inputs = placeholders[: len(traced.inputs)]
    constants = placeholders[len(traced.inputs) :]
    results = list(nodes[-1].args[0])
    cache = importer._cc
    unknown = ir.Location.unknown(importer.module.context)
    with unknown, ir.InsertionPoint(importer.module.body):
        function_type = ir.FunctionType.get(
            [cache.node_val_to_type(node) for node in inputs],
            [cache.node_val_to_type(node) for node in results],
        )
        function = func_bindings.FuncOp(name, function_type)
        block = ir.Block.create_at_start(function.body, function_type.inputs)
    node_importer = _NodeImporter(importer, importer.module.context, cache, block)
    with unknown:
        for node, argument in zip(inputs, block.arguments, strict=True):
            node_importer.bind_node_value(node, argument)
        for node, tensor in zip(constants, traced.constants, strict=True):
            node_importer.lazy_import_parameter(unknown, node, tensor, cast(Any, None))
        node_importer.import_nodes(nodes, skip_placeholders_outputs=True)
        node_importer.return_node_values(unknown, results, {})


def _name_arguments(module: Any, inputs: list[str], outputs: list[str]) -> None:
    (function,) = module.body.operations
    with module.context:
        for key, names in (("arg_attrs", inputs), ("res_attrs", outputs)):
            function.attributes[key] = ir.ArrayAttr.get(
                [ir.DictAttr.get({NAME: ir.StringAttr.get(name)}) for name in names]
            )
