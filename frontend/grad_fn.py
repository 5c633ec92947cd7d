"""
The graph of tensors that are already computed, from autograd's own record of it.

This is the method published with INR-Arch (Abi-Karam, Sarkar, Xu, Fan, Wang, Hao: "INR-Arch: A
Dataflow Architecture and Compiler for Arbitrary-Order Gradient Computations in Implicit Neural
Representation Processing", ICCAD 2023): from each output, follow `grad_fn` depth first; the edges
of a node are in the order of the operator's arguments.

Autograd keeps what a backward pass needs, not what a forward pass needs, so that the record has
gaps. Where an operand does not require a gradient, its value is there only if another operand's
gradient uses it: `a * 3` is complete, `a + 3` is not. A gap is an error that says what to do. An
operand that was computed from an input and then detached looks like a constant; where it differs
from row to row, and the model has no such tensor, it is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.graph import Node
from torch.fx import Graph, GraphModule, Interpreter
from torch.fx import Node as FxNode

from ..errors import CompileError
from .importer import ImportedModel, check_inputs, default_names, import_traced
from .names import TensorNames
from .tracing import finish, flatten_outputs, record_operators

_aten = torch.ops.aten


@dataclass(frozen=True)
class _Edge:
    """An operand: the value at an edge, else the tensor that the node saved under a name."""

    index: int
    saved: str | None = None


@dataclass(frozen=True)
class _Saved:
    """An argument that is not a tensor, saved under a name."""

    name: str


@dataclass(frozen=True)
class _Shape:
    """The shape of the result."""


@dataclass(frozen=True)
class _Edges:
    """A list of all operands."""


@dataclass(frozen=True)
class _Rule:
    """How the operator that made a node is called."""

    target: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict[str, Any])


def _rule(target: Any, *arguments: Any, **keywords: Any) -> _Rule:
    return _Rule(target, arguments, keywords)


_0, _1 = _Edge(0), _Edge(1)
_GRAD = _Edge(0, "grad_output")
_DIM = _Saved("dim")
_SLICE = (_DIM, _Saved("start"), _Saved("end"), _Saved("step"))
_ELU = (_Saved("alpha"), _Saved("scale"), _Saved("input_scale"))
_SOFTPLUS = (_Saved("beta"), _Saved("threshold"))

_INSTEAD = "import the function that computes the tensors (`import_torch`)"

_MATMULS = {_aten.addmm.default, _aten.bmm.default, _aten.mm.default, _aten.mv.default}

# In the order of the operator's schema; derivatives.yaml of PyTorch names what is saved.
_RULES: dict[str, _Rule] = {
    "AbsBackward0": _rule(_aten.abs.default, _0),
    "AddBackward0": _rule(_aten.add.Tensor, _0, _1, alpha=_Saved("alpha")),
    "AddmmBackward0": _rule(
        _aten.addmm.default,
        _0,
        _Edge(1, "mat1"),
        _Edge(2, "mat2"),
        beta=_Saved("beta"),
        alpha=_Saved("alpha"),
    ),
    "BmmBackward0": _rule(_aten.bmm.default, _Edge(0, "self"), _Edge(1, "mat2")),
    "CatBackward0": _rule(_aten.cat.default, _Edges(), _DIM),
    "CloneBackward0": _rule(_aten.clone.default, _0),
    "CosBackward0": _rule(_aten.cos.default, _0),
    "DivBackward0": _rule(_aten.div.Tensor, _Edge(0, "self"), _Edge(1, "other")),
    "DivBackward1": _rule(_aten.div.Scalar, _0, _Saved("other")),
    "EluBackward0": _rule(_aten.elu.default, _0, *_ELU),
    "EluBackwardBackward0": _rule(
        _aten.elu_backward.default, _GRAD, *_ELU, _Saved("is_result"), _Edge(1, "self_or_result")
    ),
    "ErfBackward0": _rule(_aten.erf.default, _0),
    "ExpBackward0": _rule(_aten.exp.default, _0),
    "ExpandBackward0": _rule(_aten.expand.default, _0, _Shape()),
    "GeluBackward0": _rule(_aten.gelu.default, _0, approximate=_Saved("approximate")),
    "GeluBackwardBackward0": _rule(
        _aten.gelu_backward.default, _GRAD, _Edge(1, "self"), approximate=_Saved("approximate")
    ),
    "LogBackward0": _rule(_aten.log.default, _0),
    "MeanBackward0": _rule(_aten.mean.default, _0),
    "MeanBackward1": _rule(_aten.mean.dim, _0, _DIM, _Saved("keepdim")),
    "MmBackward0": _rule(_aten.mm.default, _Edge(0, "self"), _Edge(1, "mat2")),
    "MulBackward0": _rule(_aten.mul.Tensor, _Edge(0, "self"), _Edge(1, "other")),
    "MulBackward1": _rule(_aten.mul.Scalar, _0, _Saved("other")),
    "MvBackward0": _rule(_aten.mv.default, _Edge(0, "self"), _Edge(1, "vec")),
    "NegBackward0": _rule(_aten.neg.default, _0),
    "PermuteBackward0": _rule(_aten.permute.default, _0, _Saved("dims")),
    "PowBackward0": _rule(_aten.pow.Tensor_Scalar, _0, _Saved("exponent")),
    "ReciprocalBackward0": _rule(_aten.reciprocal.default, _0),
    "ReluBackward0": _rule(_aten.relu.default, _0),
    "RsqrtBackward0": _rule(_aten.rsqrt.default, _0),
    "SelectBackward0": _rule(_aten.select.int, _0, _DIM, _Saved("index")),
    "SelectBackwardBackward0": _rule(
        _aten.select_backward.default, _0, _Shape(), _DIM, _Saved("index")
    ),
    "SgnBackward0": _rule(_aten.sgn.default, _0),
    "SigmoidBackward0": _rule(_aten.sigmoid.default, _0),
    "SigmoidBackwardBackward0": _rule(_aten.sigmoid_backward.default, _GRAD, _Edge(1, "output")),
    "SiluBackward0": _rule(_aten.silu.default, _0),
    "SinBackward0": _rule(_aten.sin.default, _0),
    "SincBackward0": _rule(_aten.sinc.default, _0),
    "SliceBackward0": _rule(_aten.slice.Tensor, _0, *_SLICE),
    "SliceBackwardBackward0": _rule(_aten.slice_backward.default, _0, _Shape(), *_SLICE),
    "SoftplusBackward0": _rule(_aten.softplus.default, _0, *_SOFTPLUS),
    "SoftplusBackwardBackward0": _rule(
        _aten.softplus_backward.default, _GRAD, _Edge(1, "self"), *_SOFTPLUS
    ),
    "SqrtBackward0": _rule(_aten.sqrt.default, _0),
    "SqueezeBackward1": _rule(_aten.squeeze.dim, _0, _DIM),
    "StackBackward0": _rule(_aten.stack.default, _Edges(), _DIM),
    "SubBackward0": _rule(_aten.sub.Tensor, _0, _1, alpha=_Saved("alpha")),
    "SumBackward0": _rule(_aten.sum.default, _0),
    "SumBackward1": _rule(_aten.sum.dim_IntList, _0, _DIM, _Saved("keepdim")),
    "TBackward0": _rule(_aten.t.default, _0),
    "TanhBackward0": _rule(_aten.tanh.default, _0),
    "TanhBackwardBackward0": _rule(_aten.tanh_backward.default, _GRAD, _Edge(1, "output")),
    "ThresholdBackwardBackward0": _rule(
        _aten.threshold_backward.default, _0, _Edge(1, "self"), _Saved("threshold")
    ),
    "TransposeBackward0": _rule(_aten.transpose.int, _0, _Saved("dim0"), _Saved("dim1")),
    "UnsafeViewBackward0": _rule(_aten._unsafe_view.default, _0, _Shape()),
    "UnsqueezeBackward0": _rule(_aten.unsqueeze.default, _0, _DIM),
    "ViewBackward0": _rule(_aten.view.default, _0, _Shape()),
}


def import_tensors(
    outputs: torch.Tensor | Sequence[torch.Tensor] | Mapping[str, torch.Tensor],
    inputs: Sequence[torch.Tensor],
    *,
    name: str = "main",
    model: torch.nn.Module | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> ImportedModel:
    """
    Imports the computation that made `outputs` from `inputs`; the rest is as in `import_torch`.

    Inputs are leaves that require a gradient; outputs have been computed with
    `create_graph=True`. Parameters have the names that they have in `model`, where it is given.
    Parameters must require a gradient too, or autograd will not have kept all of them.

    Raises `CompileError` for an output that autograd keeps no record of, for an operator that
    the walk does not know, and for an operand whose value was not kept.
    """
    names = list(input_names) if input_names is not None else default_names(len(inputs))
    check_inputs(list(inputs), names)
    for tensor, label in zip(inputs, names, strict=True):
        if not (tensor.is_leaf and tensor.requires_grad):
            raise CompileError(
                f"input '{label}' must be a leaf that requires a gradient, or autograd keeps no "
                "record of what was computed from it"
            )
    found = flatten_outputs(outputs)
    labels = list(output_names) if output_names is not None else list(found)
    if len(labels) != len(found):
        raise CompileError(f"{len(labels)} output names for {len(found)} outputs")
    tensor_names = TensorNames(model)
    walk = _Walk(list(inputs), names, tensor_names)
    results = [walk.output(label, tensor) for label, tensor in found.items()]
    graph_module = walk.graph_module(results)
    examples = [tensor.detach() for tensor in inputs]
    with torch.no_grad():
        traced = record_operators(Interpreter(graph_module).run, examples)
    complete = finish(traced, examples, tensor_names, labels)
    return import_traced(complete, name=name, input_names=names)


class _Walk:
    """Builds an FX graph while it follows the edges of autograd's."""

    def __init__(self, inputs: list[torch.Tensor], input_names: list[str], names: TensorNames):
        self._names = names
        self._graph = Graph()
        self._leaves = {
            id(tensor): self._graph.placeholder(name)
            for tensor, name in zip(inputs, input_names, strict=True)
        }
        self._values: dict[Node, FxNode] = {}
        self._constants: dict[str, torch.Tensor] = {}
        self._by_content: dict[tuple[Any, ...], FxNode] = {}

    def output(self, label: str, tensor: torch.Tensor) -> FxNode:
        """The graph's value for an output, after walking to all that it was computed from."""
        if (leaf := self._leaves.get(id(tensor))) is not None:
            return leaf
        if tensor.grad_fn is not None:
            return self._value(tensor.grad_fn)
        if tensor.requires_grad or not bool((tensor == 0).all()):
            raise CompileError(
                f"output '{label}' has no grad_fn: autograd keeps no record of what it was "
                "computed from; compute it with create_graph=True"
            )
        return self._constant(tensor)

    def graph_module(self, results: list[FxNode]) -> GraphModule:
        """The graph with these results."""
        self._graph.output(tuple(results))
        return GraphModule(self._constants, self._graph)

    def _value(self, root: Node) -> FxNode:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self._values:
                stack.pop()
                continue
            sources = [source for source, _ in node.next_functions if source is not None]
            missing = [source for source in sources if source not in self._values]
            if missing:
                # The first argument is on top, so that it is walked first.
                stack.extend(reversed(missing))
                continue
            self._values[node] = self._call(node)
            stack.pop()
        return self._values[root]

    def _call(self, node: Node) -> FxNode:
        if (variable := getattr(node, "variable", None)) is not None:
            leaf = self._leaves.get(id(variable))
            return self._constant(variable) if leaf is None else leaf
        name = node.name()
        if (rule := _RULES.get(name)) is None:
            raise CompileError(
                f"{name}: the walk over grad_fn does not know this operator; {_INSTEAD}"
            )
        arguments = tuple(self._argument(node, argument) for argument in rule.arguments)
        keywords = {key: self._argument(node, value) for key, value in rule.keywords.items()}
        return self._graph.call_function(rule.target, arguments, keywords)

    def _argument(self, node: Node, argument: Any) -> Any:
        match argument:
            case _Edge():
                return self._operand(node, argument)
            case _Edges():
                count = len(node.next_functions)
                return [self._operand(node, _Edge(index)) for index in range(count)]
            case _Saved():
                return _signed(_saved(node, argument.name))
            case _Shape():
                return list(_result_shape(node))
            case _:
                raise TypeError(argument)

    def _operand(self, node: Node, edge: _Edge) -> Any:
        source = node.next_functions[edge.index][0]
        if source is not None:
            return self._values[source]
        tensor = None if edge.saved is None else _saved(node, edge.saved)
        if tensor is None:
            raise CompileError(
                f"{node.name()}: operand {edge.index} is a number, or a tensor that does not "
                "require a gradient, and autograd did not keep its value; let it require a "
                f"gradient, or {_INSTEAD}"
            )
        if tensor.ndim == 0 and not tensor.requires_grad:
            return tensor.item()  # a Python number, which PyTorch wraps
        if self._looks_computed(node, tensor):
            raise CompileError(
                f"{node.name()}: operand {edge.index} does not require a gradient but differs from "
                "row to row, so that it was computed from the inputs, and autograd keeps no "
                f"record of how; {_INSTEAD}"
            )
        return self._constant(tensor)

    def _looks_computed(self, node: Node, tensor: torch.Tensor) -> bool:
        """Whether a constant of an elementwise operator has a value for each row of its own."""
        if _RULES[node.name()].target in _MATMULS or self._names.get(tensor) is not None:
            return False
        return tensor.shape == _result_shape(node) and bool((tensor != tensor[:1]).any())

    def _constant(self, tensor: torch.Tensor) -> FxNode:
        if not isinstance(tensor, torch.nn.Parameter) and self._names.get(tensor) is None:
            if (seed := self._seed(tensor.detach())) is not None:
                return seed
        tensor = tensor if isinstance(tensor, torch.nn.Parameter) else tensor.detach()
        content = tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        key = (tensor.dtype, tuple(tensor.shape), content)
        if key not in self._by_content:
            name = f"constant_{len(self._constants)}"
            self._constants[name] = tensor
            self._by_content[key] = self._graph.create_node("get_attr", name)
        return self._by_content[key]

    def _seed(self, tensor: torch.Tensor) -> FxNode | None:
        """
        The operations that make a tensor of one number, or of zeros with one such column.

        The seeds of derivatives are such tensors. Traced functions have them as operations,
        from which later stages tell what they are.
        """
        if tensor.numel() == 0:
            return None
        if bool((tensor == tensor.flatten()[0]).all()):
            return self._full(tensor.shape, tensor.flatten()[0].item(), tensor.dtype)
        if tensor.ndim != 2:
            return None
        columns = torch.nonzero((tensor != 0).any(0)).flatten().tolist()
        if len(columns) != 1:
            return None
        (column,) = columns
        if (inner := self._seed(tensor[:, column])) is None:
            return None
        zeros = self._full(tensor.shape, 0.0, tensor.dtype)
        return self._graph.call_function(
            _aten.select_scatter.default, (zeros, inner, 1, column), {}
        )

    def _full(self, shape: torch.Size, value: float, dtype: torch.dtype) -> FxNode:
        return self._graph.call_function(_aten.full.default, (list(shape), value), {"dtype": dtype})


def _saved(node: Node, name: str) -> Any:
    try:
        return getattr(node, f"_saved_{name}")
    except RuntimeError as error:
        raise CompileError(
            f"{node.name()}: what autograd saved has been freed by a backward pass; run it with "
            "retain_graph=True, or create_graph=True"
        ) from error


def _signed(value: Any) -> Any:
    """Negative dimensions are saved as unsigned numbers of 64 bits."""
    if isinstance(value, list | tuple):
        return [_signed(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 63:
        return value - (1 << 64)
    return value


def _result_shape(node: Node) -> torch.Size:
    # The metadata describe the gradients that come in, whose shapes are those of the results.
    return torch.Size(node._input_metadata[0].shape)
