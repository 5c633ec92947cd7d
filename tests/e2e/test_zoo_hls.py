"""
Every family of the zoo, with its derivatives, from PyTorch to simulated hardware.

`compile_hls` itself stops where the interpreter is further than 1e-10 from PyTorch float64 after
any pass, and where the C++ in fixed point differs from the integer model in any bit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from inr.frontend.importer import import_torch  # noqa: E402
from inr.frontend.spec import load_spec  # noqa: E402
from inr.runtime.compiler import EXACT, HlsOptions, compile_hls  # noqa: E402

ZOO = Path(__file__).parents[2] / "examples" / "zoo"

FAMILIES = sorted(p.stem for p in ZOO.glob("*.py") if p.stem != "families")

THIRD_ORDER = ("siren", "tanh_pinn", "gaussian")

CASES = [(family, order) for family in FAMILIES for order in (0, 1, 2)]
CASES += [(family, 3) for family in THIRD_ORDER]


@pytest.mark.parametrize(("family", "order"), CASES)
def test_zoo(family: str, order: int) -> None:
    spec = load_spec(f"{ZOO / family}.py:tiny")
    imported = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=order)
    inputs = [x.detach().double().numpy() for x in spec.example_inputs]
    compiled = compile_hls(
        imported.module, inputs, imported.reference(inputs), HlsOptions(samples=64)
    )
    report = compiled.report
    assert all(error <= EXACT for error in report["checked"].values())
    assert set(report["accuracy"]) == set(imported.output_names)
    for name, entry in report["accuracy"].items():
        assert entry["float"]["relative_max"] <= 1e-5, name
        assert "fixed" in entry
    assert compiled.simulation is not None
    assert compiled.simulation.status == 0
