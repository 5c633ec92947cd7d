"""
Which ATen operators are taken apart while tracing, and how.

The table is small on purpose. PyTorch's full tables turn the gradient of an index into
`arange`, `eq` and `where`, which no later stage would recognise for the scatter that it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, cast

import torch
from torch._decomp import get_decompositions
from torch._ops import OpOverload

_aten = torch.ops.aten

_Table = dict[OpOverload, Callable[..., Any]]

# PyTorch's own decomposition is right for these: forwards that are formulas over simpler
# functions, and the gradients that torch-mlir has no operation for.
_FROM_PYTORCH = (
    _aten._log_softmax,
    _aten._prelu_kernel,
    _aten._softmax,
    _aten._softmax_backward_data,
    _aten.addcdiv,
    _aten.addcmul,
    _aten.addmv,
    _aten.celu,
    _aten.elu,
    _aten.elu_backward,
    _aten.erfc,
    _aten.exp2,
    _aten.gelu,
    _aten.gelu_backward,
    _aten.hardsigmoid,
    _aten.hardswish,
    _aten.hardtanh,
    _aten.hardtanh_backward,
    _aten.leaky_relu_backward,
    _aten.lerp,
    _aten.linalg_vector_norm,
    _aten.log10,
    _aten.log2,
    _aten.log_sigmoid_backward,
    _aten.log_sigmoid_forward,
    _aten.masked_fill,
    _aten.mish,
    _aten.mish_backward,
    _aten.mse_loss,
    _aten.native_layer_norm,
    _aten.native_layer_norm_backward,
    _aten.select_backward,
    _aten.sigmoid_backward,
    _aten.silu,
    _aten.silu_backward,
    _aten.slice_backward,
    _aten.threshold,
)


def _full(size: Sequence[int], value: float, dtype: torch.dtype | None) -> torch.Tensor:
    # Whatever makes a constant tensor becomes `aten.full`, which depends on no other tensor:
    # the seeds of different derivatives are then equal, and CSE merges what follows from them.
    return torch.full(size, value, dtype=dtype or torch.get_default_dtype())


def _zeros(size: Sequence[int], dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return _full(size, 0, dtype)


def _ones(size: Sequence[int], dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return _full(size, 1, dtype)


def _zeros_like(x: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return _full(x.shape, 0, dtype or x.dtype)


def _ones_like(x: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return _full(x.shape, 1, dtype or x.dtype)


def _full_like(
    x: torch.Tensor, value: float, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return _full(x.shape, value, dtype or x.dtype)


def _new_zeros(
    x: torch.Tensor, size: Sequence[int], dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return _full(size, 0, dtype or x.dtype)


def _new_ones(
    x: torch.Tensor, size: Sequence[int], dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return _full(size, 1, dtype or x.dtype)


def _new_full(
    x: torch.Tensor, size: Sequence[int], value: float, dtype: torch.dtype | None = None, **_: Any
) -> torch.Tensor:
    return _full(size, value, dtype or x.dtype)


def _fill(x: torch.Tensor, value: float) -> torch.Tensor:
    return _full(x.shape, value, x.dtype)


def _scalar_tensor(value: float, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return _full((), value, dtype)


def _tan(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) / torch.cos(x)


def _sinh(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (torch.exp(x) - torch.exp(-x))


def _cosh(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (torch.exp(x) + torch.exp(-x))


def _sinc(x: torch.Tensor) -> torch.Tensor:
    # The quotient is taken of a number that is never zero, so that no NaN is ever made.
    angle = torch.where(x == 0, torch.ones_like(x), x * torch.pi)
    return torch.where(x == 0, torch.ones_like(x), torch.sin(angle) / angle)


def _softplus_backward(
    gradient: torch.Tensor, x: torch.Tensor, beta: float, threshold: float
) -> torch.Tensor:
    # PyTorch's own divides eˣ by eˣ + 1, which needs many integer bits; a sigmoid stays in [0, 1].
    scaled = x * beta
    return torch.where(scaled > threshold, gradient, gradient * torch.sigmoid(scaled))


def _split_with_sizes(x: torch.Tensor, sizes: Sequence[int], dim: int = 0) -> list[torch.Tensor]:
    # As slices; PyTorch's own reads the memory with strides.
    ends = list(accumulate(sizes))
    starts = (end - size for end, size in zip(ends, sizes, strict=True))
    pairs = zip(starts, ends, strict=True)
    return [_aten.slice.Tensor(x, dim, start, end) for start, end in pairs]


def _split(x: torch.Tensor, size: int, dim: int = 0) -> list[torch.Tensor]:
    extent = x.shape[dim]
    return _split_with_sizes(x, [min(size, extent - i) for i in range(0, extent, size)], dim)


def _unbind(x: torch.Tensor, dim: int = 0) -> list[torch.Tensor]:
    return [torch.select(x, dim, index) for index in range(x.shape[dim])]


def _squeeze_dims(x: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    for dim in sorted((dim % x.ndim for dim in dims), reverse=True):
        x = torch.squeeze(x, dim)
    return x


def _var_mean(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    # PyTorch's own goes through `prims`, which cannot be functionalised.
    axes = list(range(x.ndim)) if dim is None else list(dim)
    count = math.prod(x.shape[axis] for axis in axes)
    mean = torch.mean(x, axes, keepdim=True)
    centred = x - mean
    freedom = count - (1 if correction is None else correction)
    variance = torch.sum(centred * centred, axes, keepdim=keepdim) / freedom
    return variance, mean if keepdim else torch.mean(x, axes)


def _var(x: torch.Tensor, dim: Sequence[int] | None = None, **options: Any) -> torch.Tensor:
    return _var_mean(x, dim, **options)[0]


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    # PyTorch's own always allows for rows that are masked as a whole, in operators without a
    # place at the graph level. The operator has no dropout on the CPU.
    if (groups := query.shape[1] // key.shape[1]) > 1:
        key, value = (t.repeat_interleave(groups, 1) for t in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    if is_causal:
        rows, columns = (torch.arange(n) for n in scores.shape[-2:])
        scores = torch.where(rows[:, None] >= columns, scores, -math.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    largest = torch.amax(scores, -1, keepdim=True)
    if attn_mask is not None:
        # A row that is masked as a whole gives zeros.
        largest = torch.where(largest == -math.inf, 0.0, largest)
    weights = torch.exp(scores - largest)
    total = torch.sum(weights, -1, keepdim=True)
    parts = total if attn_mask is None else torch.where(total == 0, 1.0, total)
    return (weights / parts) @ value, (largest + torch.log(total)).squeeze(-1)


_OURS: dict[OpOverload, Callable[..., Any]] = {
    # Autograd's placeholder for "no gradient"; to everybody else it is a tensor of zeros.
    _aten._efficientzerotensor.default: _zeros,
    _aten.zeros.default: _zeros,
    _aten.ones.default: _ones,
    _aten.zeros_like.default: _zeros_like,
    _aten.ones_like.default: _ones_like,
    _aten.full_like.default: _full_like,
    _aten.empty_like.default: _zeros_like,
    _aten.new_zeros.default: _new_zeros,
    _aten.new_ones.default: _new_ones,
    _aten.new_full.default: _new_full,
    _aten.fill.Scalar: _fill,
    _aten.scalar_tensor.default: _scalar_tensor,
    _aten.tan.default: _tan,
    _aten.sinh.default: _sinh,
    _aten.cosh.default: _cosh,
    _aten.sinc.default: _sinc,
    _aten.softplus_backward.default: _softplus_backward,
    _aten.split.Tensor: _split,
    _aten.split_with_sizes.default: _split_with_sizes,
    _aten.unbind.int: _unbind,
    _aten.squeeze.dims: _squeeze_dims,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    _aten.var.correction: _var,
    _aten.var_mean.correction: _var_mean,
}


def decomposition_table() -> _Table:
    """The table to trace with: operator to the function that computes it from simpler ones."""
    return {**cast(_Table, get_decompositions(_FROM_PYTORCH)), **_OURS}
