"""Reading synthesis reports: what is there, what is not known, what is no report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from inr.analysis.targets import Resources, find_part
from inr.errors import CompileError
from inr.lowering.csynth_report import read_csynth

DATA = Path(__file__).parents[1] / "data"


def test_reads_the_top_and_the_part():
    report = read_csynth(DATA / "csynth.xml")
    assert report.top.name == "model"
    assert report.part == "xcu50-fsvh2104-2-e"
    assert report.version == "2023.2"
    assert report.target_clock == 3.33
    assert report.top.clock == 2.431
    assert report.top.latency == (1210, 1214)
    assert report.top.interval == (1028, 1030)
    assert report.top.resources == Resources(lut=7109, ff=5321, bram18=12, uram=0, dsp=64)
    assert report.available == find_part("xcu50").capacity
    assert report.instances == {"loader_U0": "loader", "layer_U0": "layer"}


def test_a_module_s_own_report_knows_its_interval(tmp_path: Path):
    report = read_csynth(DATA / "csynth.xml")
    assert report.modules["loader"].interval == (1027, 1027)
    shutil.copy(DATA / "csynth.xml", tmp_path)
    alone = read_csynth(tmp_path / "csynth.xml")
    assert alone.modules["loader"].interval == (948, 1027)
    assert alone.modules["loader"].resources == Resources(lut=212, ff=120)


def test_what_the_tool_does_not_know_is_none():
    layer = read_csynth(DATA / "csynth.xml").modules["layer"]
    assert layer.latency == (None, None)
    assert layer.interval == (None, None)
    assert layer.clock == 2.1
    assert layer.resources.dsp == 64


def test_finds_the_report_in_a_project_folder(tmp_path: Path):
    folder = tmp_path / "project" / "solution1" / "syn" / "report"
    folder.mkdir(parents=True)
    shutil.copy(DATA / "csynth.xml", folder)
    assert read_csynth(tmp_path).top.name == "model"


def test_older_versions_call_dsps_otherwise(tmp_path: Path):
    text = (DATA / "csynth.xml").read_text()
    text = text.replace("<DSP>", "<DSP48E>").replace("</DSP>", "</DSP48E>")
    (tmp_path / "csynth.xml").write_text(text.replace("<URAM>640</URAM>", ""))
    report = read_csynth(tmp_path / "csynth.xml")
    assert report.top.resources.dsp == 64
    assert report.available.dsp == 5952
    assert report.available.uram == 0


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """The report with something replaced."""
    text = (DATA / "csynth.xml").read_text()
    assert old in text
    path = tmp_path / "csynth.xml"
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</profile>", "", "not a synthesis report: no element found"),
        ("profile>", "html>", "its root is <html>"),
        ("TopModelName>", "Name>", "no <TopModelName>"),
        ("<TopModelName>model<", "<TopModelName><", "<TopModelName> is empty"),
        ("<LUT>7109<", "<LUT>many<", "<LUT> is 'many', not a whole number"),
        (">3.33</TargetClockPeriod>\n    <C", ">fast</TargetClockPeriod>\n    <C", "'fast'"),
        ("948 ~ 1027", "948 to 1027", "'948 to 1027', not a whole number"),
        ("AvailableResources>", "Available>", "no <AreaEstimates/AvailableResources>"),
        ("<Name>layer</Name>", "", "no <Name>"),
    ],
)
def test_odd_files_are_refused(tmp_path: Path, old: str, new: str, message: str):
    with pytest.raises(CompileError, match=message):
        read_csynth(changed(tmp_path, old, new))


def test_missing_reports_are_refused(tmp_path: Path):
    with pytest.raises(CompileError, match="no such file; run the synthesis first"):
        read_csynth(tmp_path / "csynth.xml")
    with pytest.raises(CompileError, match=r"no csynth\.xml in this folder"):
        read_csynth(tmp_path)
    (tmp_path / "csynth.xml").write_bytes(b"\x00\xff\x00")
    with pytest.raises(CompileError, match="not a synthesis report"):
        read_csynth(tmp_path / "csynth.xml")
