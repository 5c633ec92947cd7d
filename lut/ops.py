"""
The layer of tables as one PyTorch operator, `inr::lut_linear`.

It does what `analysis.lut_layer.LutLayer` says: the search on the integer grid, an exact sum of
table entries, then float32 for scale, bias and the channels multiplied exactly. One operator, so
that a traced or exported model shows a layer of tables as one node with its tables as operands.

On the CPU the search is the one of `runtime.host_search` and the sum is `embedding_bag` on a
float32 copy of the table, both kept from call to call. A float32 holds every partial sum as long
as CB·limit < 2²⁴, in any order; the operator uses float64 past that. On other devices, and while
gradients of a higher order trace it, plain tensor operators give the same integers.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakIdKeyDictionary

from ..analysis.lut_layer import GRID
from ..runtime.host_search import HostSearch

_PIECE = 2**22
"""Scores held at once by the search in tensor operators."""

_searches = WeakIdKeyDictionary()
_tables = WeakIdKeyDictionary()


def on_grid(x: Tensor, steps: Tensor, vec: int) -> Tensor:
    """`analysis.lut_layer.on_grid` for a tensor N×H of float32: N×CB×V, integers in float32."""
    rows, width = x.shape
    blocks = steps.shape[0]
    padded = functional.pad(x, (0, blocks * vec - width)).reshape(rows, blocks, vec)
    scaled = padded * (1.0 / steps)[None, :, None]
    return torch.nan_to_num(scaled, nan=0.0).round().clamp(-GRID, GRID)


def half_norms(centroids: Tensor) -> Tensor:
    """⌈|c|²/2⌉ of centroids CB×K×V on the grid: CB×K, int64."""
    return (centroids.long().square().sum(-1) + 1) >> 1


def search(x: Tensor, centroids: Tensor, steps: Tensor) -> Tensor:
    """
    Indices N×CB (uint8) of float32 activations N×H, by tensor operators on any device.

    Scores are whole numbers below 1.5·V·2047², so float32 holds them for V = 2 and float64 for
    every V in use.
    """
    blocks, count, vec = centroids.shape
    kind = torch.float32 if 3 * vec * GRID**2 < 2**25 else torch.float64
    norms = half_norms(centroids).to(kind)
    real = centroids.to(kind).transpose(1, 2)  # CB×V×K
    step = max(1, _PIECE // max(1, blocks * count))
    pieces: list[Tensor] = []
    for start in range(0, max(1, x.shape[0]), step):
        grid = on_grid(x[start : start + step], steps, vec).to(kind)
        scores = torch.baddbmm(norms[:, None], grid.transpose(0, 1), real, alpha=-1)
        # min, not argmin: PyTorch does not promise which of equal ones argmin takes.
        best = scores.amin(-1, keepdim=True)
        ranks = torch.arange(count, device=x.device, dtype=torch.int16)
        first = torch.where(scores == best, ranks, count).amin(-1)
        pieces.append(first.t().to(torch.uint8))
    return torch.cat(pieces)


def encode(x: Tensor, centroids: Tensor, steps: Tensor) -> Tensor:
    """Indices N×CB (uint8) of float32 activations N×H: `analysis.lut_layer.encode`."""
    if x.device.type != "cpu":
        return search(x, centroids, steps)
    key = (_version(centroids), _version(steps), x.shape[1], torch.get_num_threads())
    kept = _searches.get(centroids)
    if kept is None or kept[0] != key:
        found = HostSearch(centroids.numpy(), steps.numpy(), x.shape[1], threads=key[-1])
        kept = (key, found)
        _searches[centroids] = kept
    return torch.from_numpy(kept[1].encode(x.detach().contiguous().numpy()))


def lookup(indices: Tensor, table: Tensor, *, keep: bool = True) -> Tensor:
    """
    The exact sums N×F of indices N×CB and an int8 table CB×K×F, as whole numbers in floating
    point: float32 where it holds every partial sum, else float64.

    `keep`: keep the floating copy of the table for the next call with the same tensor.
    """
    blocks, count, width = table.shape
    kept = _tables.get(table)
    if kept is None or kept[0] != _version(table):
        kind = torch.float32 if blocks * 128 < 2**24 else torch.float64
        kept = (_version(table), table.reshape(blocks * count, width).to(kind))
        if keep:
            _tables[table] = kept
    return sum_rows(indices, kept[1], count)


def _version(tensor: Tensor) -> int:
    # Changes with every write in place; tensors made in inference mode do not count them.
    return -1 if tensor.is_inference() else tensor._version


def sum_rows(indices: Tensor, rows: Tensor, count: int) -> Tensor:
    """Σ_cb rows[cb·count + indices[:, cb]]: N×CB indices and (CB·count)×F rows to N×F."""
    if indices.shape[0] == 0:
        return rows.new_zeros(0, rows.shape[1])
    offsets = torch.arange(indices.shape[1], device=indices.device, dtype=torch.int32) * count
    return functional.embedding_bag(indices.to(torch.int32) + offsets, rows, mode="sum")


@torch.library.custom_op("inr::lut_linear", mutates_args=())
def lut_linear(
    x: Tensor,
    centroids: Tensor,
    steps: Tensor,
    table: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    channels: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    """
    Outputs ...×F of activations ...×H.

    Operands as the fields of `LutLayer`: centroids CB×K×V int16, steps CB, table CB×K×F int8,
    scale F, bias F, channels R int32, residual R×F. Activations of another type are converted to
    float32 first and the output back to their type.
    """
    flat = x.reshape(-1, x.shape[-1]).to(torch.float32)
    out = lookup(encode(flat, centroids, steps), table).to(torch.float32) * scale
    if bias is not None:
        out = out + bias
    if channels is not None and residual is not None:
        out = out + flat[:, channels.long()] @ residual
    return out.reshape(*x.shape[:-1], table.shape[2]).to(x.dtype)


@lut_linear.register_fake
def _(
    x: Tensor,
    centroids: Tensor,
    steps: Tensor,
    table: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    channels: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    return x.new_empty(*x.shape[:-1], table.shape[2])


def apply(*operands: Any) -> Tensor:
    """`lut_linear` with a plain type."""
    return cast(Tensor, lut_linear(*operands))
