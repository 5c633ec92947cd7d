"""Nested gradients: which ones, their names, their values."""

from __future__ import annotations

import pytest
import torch
from inr.errors import CompileError
from inr.frontend.derivatives import Outputs, nested_gradients
from inr.frontend.importer import import_torch

X = torch.tensor([[0.3, -0.7], [1.1, 0.4], [-0.2, 0.9]], dtype=torch.float64)


def polynomial(x: torch.Tensor) -> torch.Tensor:
    """Three channels: a³b², sin a, and a constant."""
    a, b = x[:, 0], x[:, 1]
    return torch.stack([a**3 * b**2, torch.sin(a), torch.full_like(a, 2.5)], dim=1)


@pytest.mark.parametrize(
    ("order", "count"),
    [(0, 3), (1, 9), (2, 21), (3, 45)],
)
def test_all_counts(order: int, count: int):
    assert len(nested_gradients(polynomial, order)(X)) == count


def test_names_are_breadth_first_over_ordered_partials():
    assert list(nested_gradients(lambda x: x[:, :1] * x[:, 1:], 2)(X)) == [
        "y",
        "dy_dx0",
        "dy_dx1",
        "d2y_dx0x0",
        "d2y_dx0x1",
        "d2y_dx1x0",
        "d2y_dx1x1",
    ]
    names = list(nested_gradients(polynomial, 1)(X))
    assert names[:5] == ["y0", "y1", "y2", "dy0_dx0", "dy0_dx1"]


def test_values():
    a, b = X.unbind(1)
    got = nested_gradients(polynomial, 3)(X)
    want = {
        "y0": a**3 * b**2,
        "dy0_dx0": 3 * a**2 * b**2,
        "dy0_dx1": 2 * a**3 * b,
        "d2y0_dx0x1": 6 * a**2 * b,
        "d2y0_dx1x0": 6 * a**2 * b,
        "d3y0_dx0x0x1": 12 * a * b,
        "d3y0_dx1x1x1": torch.zeros_like(a),
        "d2y1_dx0x0": -torch.sin(a),
        "d3y1_dx0x0x0": -torch.cos(a),
        "dy1_dx1": torch.zeros_like(a),
        "dy2_dx0": torch.zeros_like(a),
    }
    for name, value in want.items():
        torch.testing.assert_close(got[name], value, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        ("jacobian", ["dy_dx0", "dy_dx1"]),
        ("hessian", ["d2y_dx0x0", "d2y_dx0x1", "d2y_dx1x0", "d2y_dx1x1"]),
        ("laplacian", ["laplacian_y"]),
    ],
)
def test_selections(outputs: Outputs, names: list[str]):
    fn = nested_gradients(lambda x: torch.sin(x[:, 0] * x[:, 1]), None, outputs)
    assert list(fn(X)) == names


def test_laplacian():
    a, b = X.unbind(1)
    got = nested_gradients(polynomial, 2, "laplacian")(X)
    torch.testing.assert_close(got["laplacian_y0"], 6 * a * b**2 + 2 * a**3)
    torch.testing.assert_close(got["laplacian_y1"], -torch.sin(a))
    torch.testing.assert_close(got["laplacian_y2"], torch.zeros_like(a))


def test_further_inputs_are_not_differentiated():
    fn = nested_gradients(lambda x, s: x[:, 0] ** 2 * s, 1)
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    got = fn(X, scale)
    assert list(got) == ["y", "dy_dx0", "dy_dx1"]
    torch.testing.assert_close(got["dy_dx0"], 2 * X[:, 0] * scale)


def test_an_output_that_ignores_the_coordinates_imports_as_exact_zeros():
    model = import_torch(lambda x: torch.full((3, 1), 2.5, dtype=x.dtype), [X], order=2)
    value, *derivatives = model.reference([X.numpy()])
    assert (value == 2.5).all()
    assert len(derivatives) == 6
    assert all((d == 0).all() for d in derivatives)


@pytest.mark.parametrize(
    ("fn", "order", "outputs", "message"),
    [
        (polynomial, 1, "hessian", "outputs 'hessian' needs order 2 or more, not 1"),
        (polynomial, 0, "jacobian", "outputs 'jacobian' needs order 1 or more, not 0"),
        (polynomial, 1, "curl", "outputs 'curl' is not one of all, jacobian"),
        (lambda x: x.sum(), 1, "all", r"not \[3, 2\] and \[\]"),
        (lambda x: (x, x), 1, "all", "a model that returns one tensor, not tuple"),
    ],
)
def test_errors(fn, order, outputs, message):
    with pytest.raises(CompileError, match=message):
        import_torch(fn, [X], order=order, outputs=outputs)
