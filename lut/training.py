"""
Tables that can be trained: what stands beside a `LutLinear`'s integers while `calibrate` runs.

The table is T = C·W + D: centroids times a weight, and an offset D. W is the one that the table
itself is nearest to, which a refitted table has and the original layer has not; D holds whatever
remains and is constant, or trained as well. Where no more remains than the rounding of entries,
there is no D. C, W and the bias are trained. So a refit loses nothing by training, and the
parameters are about as many as the layer had, not K/V times as many.

`Straight` (eLUT-NN, Li et al., PIM-DL, ASPLOS 2024) searches for the nearest centroid and
passes gradients on as if x̂ = x: the forward is Q(T) summed, Q being the rounding to the
table's bits (straight-through too); backward, with g = dL/dy,

    dL/dx  = g·Wᵀ        dL/dC[cb, k] = Σ_{n: idx = k} (g·Wᵀ)[n, cb]        dL/dW = x̂ᵀ·g

Without rounding in the loop the forward is x̂·W, a product as the layer's own, and D summed.

`Soft` (LUT-NN, Tang et al., MobiCom 2023) has the same forward, and the gradient of the softmax of
-|x - c|²/t over the centroids, t a learned temperature of each codebook.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..analysis.lut_fit import centre_table, mean_rounding, quantise_table
from ..analysis.lut_layer import GRID, LutLayer, table_limit
from ..analysis.lut_refit import sum_by_code
from ..errors import CompileError
from . import ops
from .linear import LutLinear


class Trainer(nn.Module):
    """
    A layer of tables as parameters: ...×H to ...×F.

    `points` CB×K×V, `weight` CB·V×F (rows past H and those of channels multiplied exactly are 0
    and stay so), `bias` F, `offset` CB×K×F or None; `rounding`: whether a forward rounds entries to
    their bits; `counts` CB×K: how often forwards with gradients met each code.

    A forward leaves ‖ŷ - y‖²/‖x·W₀‖² in
    `reconstruction`, y = x·W₀ + b₀ being what the original layer makes of the same input, if
    `reconstruct` is set; the gradient of this number goes to the parameters but not to x, for
    which it vanishes (dx̂/dx = 1). `mask` (B×L), where set, leaves rows out of it.
    """

    reconstruction: Tensor | None
    mask: Tensor | None
    steps: Tensor
    channels: Tensor | None
    residual: Tensor | None
    offset: Tensor | None
    counts: Tensor

    def __init__(self, lut: LutLinear, *, train_tables: bool = False, rounding: bool = True):
        super().__init__()
        if lut.original is None:
            raise CompileError(
                f"{lut.name}: calibration needs the layer's original weight, which tables alone "
                "do not hold; convert the model, or load the tables into it"
            )
        blocks, count, vec = lut.centroids.shape
        self.name, self.bits, self.rounding = lut.name, lut.bits, rounding
        self.in_features = lut.in_features
        self._original = (lut.original, lut.original_bias)
        self.register_buffer("steps", lut.steps.clone())
        self.register_buffer("channels", None if lut.channels is None else lut.channels.long())
        self.register_buffer("residual", lut.residual)
        weight = lut.original.clone()
        if lut.channels is not None:
            weight[lut.channels.long()] = 0
        weight = functional.pad(weight, (0, 0, 0, blocks * vec - lut.in_features)).contiguous()
        points = lut.centroids.to(torch.float32) * lut.steps[:, None, None]
        entries = lut.table.to(torch.float32) * lut.scale
        self.points = nn.Parameter(points)
        live = torch.ones(blocks * vec, device=points.device)
        live[lut.in_features :] = 0
        if lut.channels is not None:
            live[lut.channels.long()] = 0
        live = live.reshape(blocks, 1, vec)

        def of_live(grad: Tensor | None) -> Tensor | None:
            # Coordinates of channels that are in no table are 0, whatever a gradient would like.
            return None if grad is None else grad * live

        self.points.register_hook(of_live)
        bias = lut.scale.new_zeros(lut.out_features) if lut.bias is None else lut.bias.clone()
        weight, rows = _nearest_weight(entries, points, weight)
        offset = entries - _table(points, weight)
        if not rounding:
            # What all entries of a codebook have in common is the bias's. Then often nothing but
            # rounding remains, a third of the square of half a unit, and a forward is a product.
            bias, offset = bias + rows.sum(0), offset - rows[:, None]
        rest: Tensor | None = offset
        if not rounding and bool((offset.square().mean((0, 1)) < (lut.scale / 2).square()).all()):
            rest = None
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)
        if train_tables:
            self.offset = nn.Parameter(offset)
        else:
            self.register_buffer("offset", rest)
        counts = torch.zeros(blocks, count, dtype=torch.int64, device=points.device)
        self.register_buffer("counts", counts)
        self.reconstruct = True
        self.reconstruction = None
        self.mask = None

    def grid(self) -> Tensor:
        """The centroids on the grid of the search, CB×K×V int16."""
        scaled = self.points.detach() / self.steps[:, None, None]
        return scaled.round().clamp(-GRID, GRID).to(torch.int16)

    def table(self) -> Tensor:
        """T, CB×K×F."""
        table = _table(self.points, self.weight)
        return table if self.offset is None else table + self.offset

    def spans(self) -> dict[str, float]:
        """The size of each parameter's numbers, which steps of training are in proportion to."""
        entries = _rms(self.table())
        sizes = {"points": _rms(self.points), "weight": _rms(self.weight), "offset": entries}
        return {**sizes, "bias": entries * len(self.steps) ** 0.5}

    def search(self, flat: Tensor) -> Tensor:
        """The codes N×CB of rows N×H; they are counted while gradients are wanted."""
        indices = ops.encode(flat.detach(), self.grid(), self.steps)
        if torch.is_grad_enabled():
            blocks, count = self.counts.shape
            rows = indices.long() + torch.arange(blocks, device=indices.device) * count
            met = torch.bincount(rows.reshape(-1), minlength=blocks * count)
            self.counts += met.reshape(blocks, count)
        return indices

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, self.in_features).to(torch.float32)
        out, apart = self.sums(flat)
        out = out + self.bias
        exact = None
        if self.channels is not None and self.residual is not None:
            exact = flat[:, self.channels] @ self.residual
            out = out + exact
        if self.reconstruct:
            apart = apart + self.bias
            if exact is not None:
                apart = apart + exact.detach()
            self.reconstruction = self._reconstruction(x, flat.detach(), apart)
        return out.reshape(*x.shape[:-1], out.shape[1]).to(x.dtype)

    def sums(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """
        Sums of entries, N×F, for rows N×H, twice: from the second no gradient leads to the rows. It
        may be anything without `reconstruct`.
        """
        raise NotImplementedError

    def _reconstruction(self, x: Tensor, flat: Tensor, out: Tensor) -> Tensor:
        weight, bias = self._original
        goal = flat @ weight
        if self.mask is not None and self.mask.shape == x.shape[:-1]:
            kept = self.mask.reshape(-1)
            goal, out = goal[kept], out[kept]
        energy = goal.square().sum().clamp_min(1e-20)
        return (out - (goal if bias is None else goal + bias)).square().sum() / energy

    def layer(self) -> LutLayer:
        """What has been trained, as integers."""
        table, bias = self.table().detach().cpu().numpy(), self.bias.detach().cpu().numpy().copy()
        if self.rounding:  # As it was done in the loop.
            entries, scale = quantise_table(table, self.bits)
        else:
            counts = self.counts.cpu().numpy()
            table, moved = centre_table(table)
            entries, scale = quantise_table(table, self.bits, counts=counts)
            bias = bias + moved + mean_rounding(table, entries, scale, counts)
        exact = self.channels is not None and self.residual is not None
        return LutLayer(
            self.name,
            self.in_features,
            self.grid().cpu().numpy(),
            self.steps.cpu().numpy().copy(),
            entries,
            scale,
            bias,
            self.bits,
            cast(Tensor, self.channels).cpu().numpy().astype(np.int32) if exact else None,
            cast(Tensor, self.residual).cpu().numpy().copy() if exact else None,
        )


def _table(points: Tensor, weight: Tensor) -> Tensor:
    """C·W: CB×K×V centroids and a CB·V×F weight to CB×K×F."""
    blocks, _, vec = points.shape
    return points @ weight.reshape(blocks, vec, -1)


def _nearest_weight(table: Tensor, points: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
    """
    W (CB·V×F) and a row r of each codebook (CB×F) for which C·W + r is nearest to a table CB×K×F:
    least squares over its entries, drawn a little towards `prior` where centroids do not tell.
    """
    vec = points.shape[2]
    rest = table - _table(points, prior)
    middle, mean = points.mean(1, keepdim=True), rest.mean(1)
    centred = (points - middle).double()
    gram = centred.transpose(1, 2) @ centred
    ridge = 1e-6 * gram.diagonal(dim1=1, dim2=2).mean(-1) + 1e-30
    gram = gram + ridge[:, None, None] * torch.eye(vec, dtype=gram.dtype, device=gram.device)
    change = torch.linalg.solve(gram, centred.transpose(1, 2) @ rest.double()).to(table.dtype)
    return prior + change.reshape(prior.shape), mean - (middle @ change)[:, 0]


def _rms(values: Tensor) -> float:
    return float(values.detach().square().mean().sqrt())


def rounded(table: Tensor, bits: int) -> Tensor:
    """A table CB×K×F as its integers would have it, in floating point."""
    limit = table_limit(bits)
    scale = table.abs().amax((0, 1)) / limit
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (table / scale).round_().clamp_(-limit, limit).mul_(scale)


class Straight(Trainer):
    """Straight-through to the inputs: eLUT-NN."""

    def sums(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        bits = self.bits if self.rounding else None
        return cast(
            "tuple[Tensor, Tensor]",
            _StraightSums.apply(
                flat, self.search(flat), self.points, self.weight, self.offset, bits
            ),
        )


class _StraightSums(torch.autograd.Function):
    """Sums of table entries, rounded or not, with the gradients of the module's docstring."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        indices: Tensor,
        points: Tensor,
        weight: Tensor,
        offset: Tensor | None,
        bits: int | None,
    ) -> tuple[Tensor, Tensor]:
        blocks, count, _ = points.shape
        if bits is None:
            out = _chosen(points, indices) @ weight
            if offset is not None:
                out += ops.sum_rows(indices, offset.reshape(blocks * count, -1), count)
        else:
            table = _table(points, weight) if offset is None else _table(points, weight) + offset
            out = ops.sum_rows(indices, rounded(table, bits).reshape(blocks * count, -1), count)
        ctx.save_for_backward(indices, points, weight)
        ctx.width = x.shape[1]
        ctx.set_materialize_grads(False)
        return out, out.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        g, apart = grads
        both = apart if g is None else g if apart is None else g + apart
        if both is None:
            return (None,) * 6
        indices, points, weight = ctx.saved_tensors
        blocks, count, vec = points.shape
        wants = ctx.needs_input_grad
        to_points = both @ weight.t()
        to_x = None
        if wants[0] and g is not None:
            to_x = (to_points if both is g else g @ weight.t())[:, : ctx.width]
        rows = indices.long() + torch.arange(blocks, device=indices.device) * count
        to_weight = _chosen(points, indices).t() @ both
        summed = _by_code(rows.reshape(-1), to_points.reshape(-1, vec), blocks * count)
        to_offset = None
        if wants[4]:
            to_offset = torch.from_numpy(
                sum_by_code(indices.cpu().numpy(), both.cpu().numpy(), count)
            ).to(both.device)
        return to_x, None, summed.reshape(points.shape), to_weight, to_offset, None


def _chosen(points: Tensor, indices: Tensor) -> Tensor:
    """x̂: the centroids CB×K×V that indices N×CB stand for, N×CB·V."""
    blocks, count, vec = points.shape
    rows = (
        indices.to(torch.int32)
        + torch.arange(blocks, dtype=torch.int32, device=indices.device) * count
    )
    return points.reshape(blocks * count, vec)[rows].reshape(len(indices), -1)


def _by_code(rows: Tensor, values: Tensor, count: int) -> Tensor:
    """Row r of the result is the sum of the `values` M×V with rows == r: count×V, in order."""
    columns = [
        torch.bincount(rows, weights=column.to(torch.float64), minlength=count)
        for column in values.t()
    ]
    return torch.stack(columns, dim=1).to(values.dtype)


class Soft(Trainer):
    """The gradient of a softmax over centroids, of learned temperature: LUT-NN."""

    def __init__(self, lut: LutLinear, *, train_tables: bool = False, rounding: bool = True):
        super().__init__(lut, train_tables=train_tables, rounding=rounding)
        # A first temperature on the scale of what separates a centroid from the next.
        points = self.points.detach()
        apart = torch.cdist(points, points).square()
        apart.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        nearest = apart.amin(-1).mean(-1) if points.shape[1] > 1 else torch.ones(len(points))
        self.log_temperature = nn.Parameter(nearest.clamp_min(1e-12).log())

    def spans(self) -> dict[str, float]:
        return {**super().spans(), "log_temperature": 1.0}

    def sums(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        table = self.table()
        if self.rounding:
            table = table + (rounded(table.detach(), self.bits) - table.detach())
        out = self._sums(flat, table)
        return out, self._sums(flat.detach(), table) if self.reconstruct else out

    def _sums(self, flat: Tensor, table: Tensor) -> Tensor:
        blocks, count, vec = self.points.shape
        x = functional.pad(flat, (0, blocks * vec - self.in_features))
        x = x.reshape(-1, blocks, vec).transpose(0, 1)
        norms = self.points.square().sum(-1)[:, None]
        far = torch.baddbmm(norms, x, self.points.transpose(1, 2), alpha=-2)
        soft = torch.softmax(-far / self.log_temperature.exp()[:, None, None], dim=-1)
        soft = soft.transpose(0, 1)
        indices = self.search(flat)
        hard = functional.one_hot(indices.long(), count)
        codes = hard + soft - soft.detach()
        return codes.reshape(len(flat), blocks * count) @ table.reshape(blocks * count, -1)
