"""
Every family of the zoo, with its derivatives, from PyTorch to simulated hardware.

`compile_hls` itself stops where the interpreter is further than 1e-10 from PyTorch float64 after
any pass, and where the C++ in fixed point differs from the integer model in any bit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from inr.frontend.derivatives import nested_gradients  # noqa: E402
from inr.frontend.importer import import_torch  # noqa: E402
from inr.frontend.spec import ModelSpec, load_spec  # noqa: E402
from inr.runtime.compiler import EXACT, HlsOptions, compile_hls  # noqa: E402

ZOO = Path(__file__).parents[2] / "examples" / "zoo"

FAMILIES = sorted(p.stem for p in ZOO.glob("*.py") if p.stem != "families")

THIRD_ORDER = ("siren", "tanh_pinn", "gaussian")

CASES = [(family, order) for family in FAMILIES for order in (0, 1, 2)]
CASES += [(family, 3) for family in THIRD_ORDER]


@pytest.mark.parametrize(("family", "order"), CASES)
def test_zoo(family: str, order: int) -> None:
    check(f"{ZOO / family}.py:tiny", order)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_torch_sinc(order: int) -> None:
    check(f"{ZOO / 'sinc'}.py:plain", order)


def check(path: str, order: int) -> None:
    """From a spec to simulated hardware in float and in fixed point."""
    spec = load_spec(path)
    imported = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=order)
    inputs = [x.detach().double().numpy() for x in spec.example_inputs]
    reference = imported.reference(inputs)
    compiled = compile_hls(imported.module, inputs, reference, HlsOptions(samples=64))
    report = compiled.report
    assert all(error <= EXACT for error in report["checked"].values())
    assert list(report["accuracy"]) == imported.output_names
    lost = float32_errors(spec, order, reference)
    for (name, entry), own in zip(report["accuracy"].items(), lost, strict=True):
        # Where float32 itself loses more than 1e-5, in PyTorch too, that is the measure.
        assert entry["float"]["relative_max"] <= max(1e-5, 2 * own), name
        assert "fixed" in entry
    assert compiled.simulation is not None
    assert compiled.simulation.status == 0


def float32_errors(spec: ModelSpec, order: int, reference: list[np.ndarray]) -> list[float]:
    """What PyTorch loses in float32, output by output: max |error| / max |value|."""
    outputs = nested_gradients(spec.callable, order, "all")(*spec.example_inputs)
    return [
        float(np.abs(got.detach().double().numpy() - want).max() / (np.abs(want).max() or 1.0))
        for got, want in zip(outputs.values(), reference, strict=True)
    ]
