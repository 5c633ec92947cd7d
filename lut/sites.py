"""
Where a model has linear layers, and putting something else there.

A *site* is the full name of a linear layer: an `nn.Linear`, the transposed `Conv1D` of
transformers, or a projection inside `nn.MultiheadAttention`, which has a name here
(`encoder.self_attn.q_proj`) before it is a module.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import CompileError
from .attention import PROJECTIONS, SplitAttention, projections


@dataclass(frozen=True)
class Site:
    """A linear layer of a model."""

    name: str
    in_features: int
    out_features: int
    tied_to: str | None = None
    """The embedding whose table is this layer's weight."""


def is_conv1d(module: nn.Module) -> bool:
    """Whether this is transformers' linear layer with its weight stored as H×F."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def is_linear(module: nn.Module) -> bool:
    """Whether this is a layer x·W + b and nothing else; a subclass with its own forward is not."""
    if isinstance(module, nn.Linear):
        return type(module).forward is nn.Linear.forward and module.weight is not None
    return is_conv1d(module)


def is_attention(module: nn.Module) -> bool:
    """Whether this is PyTorch's own attention."""
    return (
        isinstance(module, nn.MultiheadAttention)
        and type(module).forward is nn.MultiheadAttention.forward
    )


def weight_of(module: nn.Module) -> Tensor:
    """A linear layer's weight as H×F in float32, detached; shares memory where it can."""
    weight = cast(Tensor, module.weight).detach().to(torch.float32)
    return weight if is_conv1d(module) else weight.t()


def bias_of(module: nn.Module) -> Tensor | None:
    """A linear layer's bias in float32, detached."""
    bias = cast("Tensor | None", module.bias)
    return None if bias is None else bias.detach().to(torch.float32)


def sites(model: nn.Module) -> list[Site]:
    """The linear layers of a model in the order of its modules, each module once."""
    embeddings = {
        id(m.weight): name for name, m in model.named_modules() if isinstance(m, nn.Embedding)
    }
    found: list[Site] = []
    inside: set[int] = set()
    for name, module in model.named_modules():
        if is_attention(module):
            attention = cast(nn.MultiheadAttention, module)
            inside.add(id(attention.out_proj))
            for part, (weight, _) in projections(attention).items():
                found.append(Site(_join(name, part), weight.shape[1], weight.shape[0]))
        elif id(module) not in inside and is_linear(module):
            weight = cast(Tensor, module.weight)
            height, width = weight.shape if is_conv1d(module) else reversed(weight.shape)
            found.append(Site(name, height, width, embeddings.get(id(weight))))
    return found


def copied(model: nn.Module) -> nn.Module:
    """
    A deep copy in eval mode.

    Raises CompileError for a model in train mode with a layer that behaves differently there.
    """
    for name, module in model.named_modules():
        if module.training and (why := _train_behaviour(module)):
            raise CompileError(
                f"the model is in train mode, where {name or 'it'} ({why}) would disturb what "
                "is measured; call model.eval() first"
            )
    try:
        return copy.deepcopy(model).eval()
    except RuntimeError as error:
        raise CompileError(f"the model cannot be copied: {error}") from error


def _train_behaviour(module: nn.Module) -> str | None:
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return f"dropout of {module.p}" if module.p > 0 else None
    if isinstance(module, nn.MultiheadAttention):
        return f"dropout of {module.dropout}" if module.dropout > 0 else None
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return "batch statistics" if module.track_running_stats else None
    return "random slopes" if isinstance(module, nn.RReLU) else None


def open_up(model: nn.Module, names: Collection[str]) -> nn.Module:
    """
    Makes every named site of `model` a module that is really called, in place: attention is
    split, and the fused operators of transformer layers are switched off.

    Returns the model, which is another one if it was itself an attention.
    """
    wanted = set(names)
    for name, module in list(model.named_modules()):
        if is_attention(module) and any(_join(name, part) in wanted for part in PROJECTIONS):
            split = SplitAttention(cast(nn.MultiheadAttention, module))
            model = replace(model, module, split)
    for name, module in model.named_modules():
        if not isinstance(module, nn.TransformerEncoderLayer | nn.TransformerEncoder):
            continue
        if any(site.startswith(f"{name}." if name else "") for site in wanted):
            # Both read weights from the modules inside, and take these as reasons not to.
            if isinstance(module, nn.TransformerEncoderLayer):
                module.activation_relu_or_gelu = 0
            else:
                module.use_nested_tensor = False
    return model


def replace(model: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """Puts `new` at every place where `old` is; returns the model, `new` if `old` was it."""
    if model is old:
        return new
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is old:
                parent._modules[name] = new
    return model


# --- batches ---------------------------------------------------------------------------------


def as_batches(data: Any, what: str) -> list[Any]:
    """
    The batches of a data set. One batch is a tensor, a tuple or list of positional arguments, or
    a mapping of keyword arguments; `data` is an iterable of batches, or, if it is a tensor, a
    mapping or a tuple, one batch.

    Raises CompileError when there is none.
    """
    if isinstance(data, Tensor | tuple) or is_mapping(data):
        return [data]
    try:
        batches = list(data)
    except TypeError as error:
        raise CompileError(
            f"{what}: expected a tensor, a mapping, a tuple, or an iterable of them; got "
            f"{type(data).__name__}"
        ) from error
    if not batches:
        raise CompileError(f"{what}: no batches; give some of the inputs that the model will see")
    return batches


def is_mapping(value: Any) -> bool:
    """Whether a batch is keyword arguments (`transformers.BatchEncoding` is no `dict`)."""
    return hasattr(value, "keys") and hasattr(value, "__getitem__")


def run(model: Callable[..., Any], batch: Any) -> Any:
    """`model` called with a batch."""
    if is_mapping(batch):
        return model(**{key: batch[key] for key in batch.keys()})
    if isinstance(batch, tuple | list):
        return model(*batch)
    return model(batch)


def row_mask(model: nn.Module, batch: Any) -> Tensor | None:
    """
    Which rows (B×L) of a batch count: its argument `attention_mask` of two dimensions, where 1
    counts, or `src_key_padding_mask`, where True does not. None if it has neither.
    """
    if is_mapping(batch):
        named = {key: batch[key] for key in batch.keys()}
    else:
        arguments = batch if isinstance(batch, tuple | list) else (batch,)
        try:
            named = inspect.signature(model.forward).bind_partial(*arguments).arguments
        except (TypeError, ValueError):
            return None
    mask = named.get("attention_mask")
    if isinstance(mask, Tensor) and mask.dim() == 2:
        return mask.bool()
    padding = named.get("src_key_padding_mask")
    if isinstance(padding, Tensor) and padding.dim() == 2 and padding.dtype == torch.bool:
        return ~padding
    return None


def rows_of(x: Tensor, mask: Tensor | None) -> Tensor:
    """The rows of ...×H that count, as N×H: all, or those a mask of the leading shape keeps."""
    if mask is not None and x.shape[:-1] == mask.shape:
        return x[mask.to(x.device)]
    return x.reshape(-1, x.shape[-1])


def tensors(output: Any) -> Iterator[tuple[str, Tensor]]:
    """The floating tensors of a model's output with their names in it, in order."""
    if isinstance(output, Tensor):
        if output.is_floating_point():
            yield "", output
    elif is_mapping(output):
        for key in output.keys():
            yield from ((_join(str(key), n), t) for n, t in tensors(output[key]))
    elif isinstance(output, tuple | list):
        for index, part in enumerate(output):
            yield from ((_join(str(index), n), t) for n, t in tensors(part))


def _join(prefix: str, name: str) -> str:
    return ".".join(part for part in (prefix, name) if part)
