"""`inr-compile` writes a report of timing, FIFOs and resources; `inr-report` writes it again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from inr.tools import inr_compile, inr_report

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "project"
    spec = f"{ROOT / 'examples' / 'zoo' / 'siren.py'}:tiny"
    assert inr_compile.main([spec, "--order", "1", "--out", str(out), "--quiet"]) == 0
    return out


def test_report_has_timing_fifos_and_resources(project: Path) -> None:
    report = json.loads((project / "report.json").read_text())
    timing, fifo, resources = report["timing"], report["fifo"], report["resources"]
    assert timing["cycles"] == timing["cycles_simulated"]
    assert timing["cycles"] <= timing["cycles_unbounded"] * (1 + timing["alpha"])
    assert timing["deadlock_free"]
    assert timing["certificate_checked"]
    assert fifo["bits"] >= fifo["lower_bound"]
    assert fifo["count"] == report["streams"]["fifos"]
    assert fifo["above_2"] <= fifo["count"]
    assert set(resources["used"]) == {"lut", "ff", "bram18", "uram", "dsp"}
    assert resources["fits"]
    assert "<svg" in (project / "report.html").read_text()


def test_synthesis_report_stands_beside_the_estimate(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inr_report.main([str(project)]) == 0
    assert "csynth" not in json.loads((project / "report.json").read_text())
    where = project / "vitis" / "solution" / "syn" / "report"
    where.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "data" / "csynth.xml", where)
    assert inr_report.main([str(project)]) == 0
    csynth = json.loads((project / "report.json").read_text())["csynth"]
    assert csynth["used"]["dsp"] > 0
    assert ">csynth</th>" in (project / "report.html").read_text()
    assert "csynth" in capsys.readouterr().out


def test_folder_that_is_no_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inr_report.main([str(tmp_path)]) == 1
    assert "not a project" in capsys.readouterr().err
