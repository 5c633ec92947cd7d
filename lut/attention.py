"""
`nn.MultiheadAttention` with its projections as modules of their own.

PyTorch's module keeps the three input projections in one parameter and hands them and the output
projection to one function, so that no module is called which could be replaced; in eval mode it
may run as a single fused operator besides. `SplitAttention` computes the same from four linear
layers `q_proj`, `k_proj`, `v_proj` and `out_proj`.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


def projections(attention: nn.MultiheadAttention) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Weight (F×H) and bias of each projection, as views of the module's parameters."""
    if attention._qkv_same_embed_dim:
        weights = attention.in_proj_weight.chunk(3)
    else:
        weights = (attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight)
    joint = attention.in_proj_bias
    biases = (None, None, None) if joint is None else joint.chunk(3)
    found: dict[str, tuple[Tensor, Tensor | None]] = {}
    for name, weight, bias in zip(PROJECTIONS, weights, biases, strict=False):
        found[name] = (weight, bias)
    found["out_proj"] = (attention.out_proj.weight, attention.out_proj.bias)
    return found


class SplitAttention(nn.Module):
    """What `nn.MultiheadAttention` computes, its signature included, from four linear layers."""

    in_proj_bias: None
    """Tells `nn.TransformerEncoderLayer` that there is nothing to run as one fused operator."""

    def __init__(self, attention: nn.MultiheadAttention):
        super().__init__()
        self.embed_dim = attention.embed_dim
        self.num_heads = attention.num_heads
        self.head_dim = attention.head_dim
        self.dropout = attention.dropout
        self.batch_first = attention.batch_first
        self.add_zero_attn = attention.add_zero_attn
        self.bias_k = attention.bias_k
        self.bias_v = attention.bias_v
        self.in_proj_bias = None
        self._qkv_same_embed_dim = attention._qkv_same_embed_dim
        for name, (weight, bias) in projections(attention).items():
            linear = nn.Linear(
                weight.shape[1],
                weight.shape[0],
                bias=bias is not None,
                device="meta",
                dtype=weight.dtype,
            )
            linear.weight = nn.Parameter(weight.detach().clone())
            if bias is not None:
                linear.bias = nn.Parameter(bias.detach().clone())
            self.add_module(name, linear)
        self.train(attention.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """See `nn.MultiheadAttention.forward`; nested tensors are not taken."""
        batched = query.dim() == 3
        if not batched:
            query, key, value = (t.unsqueeze(0) for t in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        if is_causal and attn_mask is None:
            raise RuntimeError("attention with the is_causal hint needs attn_mask")

        projected = (
            cast(nn.Module, getattr(self, name))(tensor)
            for name, tensor in zip(PROJECTIONS[:3], (query, key, value), strict=True)
        )
        q, k, v = (cast(Tensor, p) for p in projected)
        batch, target, _ = q.shape
        extra = 0
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat([k, self.bias_k.expand(batch, 1, -1)], dim=1)
            v = torch.cat([v, self.bias_v.expand(batch, 1, -1)], dim=1)
            extra += 1
        if self.add_zero_attn:
            k, v = (functional.pad(t, (0, 0, 0, 1)) for t in (k, v))
            extra += 1
        q, k, v = (
            t.reshape(batch, t.shape[1], self.num_heads, self.head_dim).transpose(1, 2)
            for t in (q, k, v)
        )
        mask = self._mask(attn_mask, key_padding_mask, batch, extra, q.dtype)
        dropout = self.dropout if self.training else 0.0

        weights = None
        if need_weights:
            scores = q * math.sqrt(1.0 / self.head_dim) @ k.transpose(-2, -1)
            if mask is not None:
                scores = scores + mask
            weights = torch.softmax(scores, dim=-1)
            if dropout > 0.0:
                weights = functional.dropout(weights, p=dropout)
            heads = weights @ v
        else:
            heads = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
        project = cast(nn.Module, self.out_proj)
        out = project(heads.transpose(1, 2).reshape(batch, target, self.embed_dim))

        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return (out if self.batch_first else out.transpose(0, 1)), weights

    def _mask(
        self,
        attn_mask: Tensor | None,
        padding: Tensor | None,
        batch: int,
        extra: int,
        dtype: torch.dtype,
    ) -> Tensor | None:
        """The two masks as one that is added to scores batch×heads×target×source."""
        total = None
        if attn_mask is not None:
            total = _additive(attn_mask, dtype)
            if total.dim() == 3:
                total = total.reshape(batch, self.num_heads, *total.shape[1:])
        if padding is not None:
            columns = _additive(padding, dtype)[:, None, None, :]
            total = columns if total is None else total + columns
        if total is None or not extra:
            return total
        # The positions appended to the keys are always seen.
        return functional.pad(total, (0, extra))


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.is_floating_point():
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)
