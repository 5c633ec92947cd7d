"""The derivatives of a model with respect to its coordinates, by nested reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from ..errors import CompileError

Outputs = Literal["all", "jacobian", "hessian", "laplacian"]

_LEAST_ORDER: dict[Outputs, int] = {"all": 0, "jacobian": 1, "hessian": 2, "laplacian": 2}


def nested_gradients(
    fn: Callable[..., Any], order: int | None = None, outputs: Outputs = "all"
) -> Callable[..., dict[str, torch.Tensor]]:
    """
    The function that computes derivatives of `fn(x, …)` with respect to `x`.

    `x` has shape [B, D], the value of `fn` [B, C] or [B], and row b of the value may depend on
    row b of `x` only. The returned function has the same parameters and gives a dictionary of
    tensors of shape [B], in the order of their computation:

    * `all`: the columns `y0`, `y1`, … and all partial derivatives up to `order`, breadth first,
      with both orders of differentiation of a mixed one, as INSP-Net does: C·(1 + D + … + D^K);
    * `jacobian`: the first derivatives `dy0_dx1`; `hessian`: the second, `d2y0_dx0x1`;
    * `laplacian`: `laplacian_y0`, a sum of second derivatives, for each channel.

    With one channel the names have no channel number. A derivative of something that does not
    depend on `x` is zero. Raises `CompileError` for an order that does not fit `outputs`.
    """
    if outputs not in get_args(Outputs):
        raise CompileError(f"outputs '{outputs}' is not one of {', '.join(get_args(Outputs))}")
    least = _LEAST_ORDER[outputs]
    order = least if order is None else order
    if order < least:
        raise CompileError(f"outputs '{outputs}' needs order {least} or more, not {order}")

    def derivatives(x: torch.Tensor, *more: torch.Tensor) -> dict[str, torch.Tensor]:
        x = x.detach().requires_grad_(order > 0)
        columns = _columns(x, fn(x, *more))
        match outputs:
            case "all":
                values = _all(x, columns, order)
            case "jacobian":
                values = _partials(x, columns, create_graph=False)
            case "hessian":
                first = _partials(x, columns, create_graph=True)
                values = _partials(x, first, create_graph=False)
            case "laplacian":
                return {f"laplacian_{key.column}": _laplacian(x, y) for key, y in columns.items()}
        return {key.name: value for key, value in values.items()}

    return derivatives


@dataclass(frozen=True)
class Partial:
    """A column of the output and the coordinates it is differentiated by, first one first."""

    column: str
    coordinates: tuple[int, ...] = ()

    def by(self, coordinate: int) -> Partial:
        """The derivative of this with respect to one more coordinate."""
        return Partial(self.column, (*self.coordinates, coordinate))

    @property
    def name(self) -> str:
        """`y0`, `dy0_dx1`, `d2y0_dx0x1`."""
        if not self.coordinates:
            return self.column
        power = "" if len(self.coordinates) == 1 else str(len(self.coordinates))
        return f"d{power}{self.column}_d{''.join(f'x{d}' for d in self.coordinates)}"


_Values = dict[Partial, torch.Tensor]


def _columns(x: torch.Tensor, y: Any) -> _Values:
    if not isinstance(y, torch.Tensor):
        raise CompileError(
            f"derivatives need a model that returns one tensor, not {type(y).__name__}; "
            "a function that returns its own derivatives is taken without an order"
        )
    if x.ndim != 2 or y.ndim not in (1, 2) or len(y) != len(x):
        raise CompileError(
            "derivatives need coordinates [batch, dimensions] and a value [batch, channels], "
            f"not {list(x.shape)} and {list(y.shape)}"
        )
    if y.ndim == 1:
        return {Partial("y"): y}
    if y.shape[1] == 1:
        return {Partial("y"): y[:, 0]}
    return {Partial(f"y{c}"): y[:, c] for c in range(y.shape[1])}


def _all(x: torch.Tensor, columns: _Values, order: int) -> _Values:
    result = dict(columns)
    level = columns
    for degree in range(1, order + 1):
        level = _partials(x, level, create_graph=degree < order)
        result |= level
    return result


def _partials(x: torch.Tensor, values: _Values, *, create_graph: bool) -> _Values:
    result: _Values = {}
    for key, value in values.items():
        gradient = _gradient(x, value, create_graph)
        for d in range(x.shape[1]):
            result[key.by(d)] = gradient[:, d]
    return result


def _laplacian(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    gradient = _gradient(x, y, create_graph=True)
    second = [_gradient(x, gradient[:, d], create_graph=False)[:, d] for d in range(x.shape[1])]
    return sum(second[1:], start=second[0])


def _gradient(x: torch.Tensor, y: torch.Tensor, create_graph: bool) -> torch.Tensor:
    """d(sum of y)/dx, of shape [B, D]; zeros where `y` does not depend on `x`."""
    if not y.requires_grad:
        return torch.zeros_like(x)
    (gradient,) = torch.autograd.grad(
        y,
        x,
        grad_outputs=torch.ones_like(y),
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
    )
    return torch.zeros_like(x) if gradient is None else gradient
