"""
Reading back what Vitis HLS reports of a synthesised design.

`csynth.xml` has the whole design and a summary of each of its modules. Beside it lies
`NAME_csynth.xml` for each module; where there is one, the module's interval comes from it, because
in the summary it may be a range or that of an inner loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ..analysis.targets import Resources
from ..errors import CompileError

TIMING = "PerformanceEstimates/SummaryOfTimingAnalysis/EstimatedClockPeriod"
LATENCY = "PerformanceEstimates/SummaryOfOverallLatency"
AREA = "AreaEstimates/Resources"

UNKNOWN = ("", "-", "?", "undef", "none")
"""What the tool writes for a number that it does not know, such as the latency of a loop that
depends on data."""


@dataclass(frozen=True)
class ModuleReport:
    """One module; cycles are None where the tool does not know them."""

    name: str
    latency: tuple[int | None, int | None]
    """Best and worst case, cycles."""
    interval: tuple[int | None, int | None]
    """Cycles from one start to the next, least and most."""
    clock: float | None
    """Estimated period, ns."""
    resources: Resources
    """With everything inside it."""


@dataclass(frozen=True)
class CsynthReport:
    """A design as it was synthesised."""

    top: ModuleReport
    part: str
    target_clock: float
    """Period that was asked for, ns."""
    available: Resources
    """What the part has, as the tool says."""
    modules: Mapping[str, ModuleReport]
    """Every other module by its name."""
    instances: Mapping[str, str]
    """The module of each instance in the top function, that is of each process and FIFO."""
    version: str
    """Of the tool; empty where the report does not say."""


def read_csynth(path: Path) -> CsynthReport:
    """
    The synthesis report in a file, or in a solution's or project's folder.

    Raises CompileError where there is none, or one that does not look like it.
    """
    path = _find(path)
    root = _parse(path)
    assignments = _child(root, "UserAssignments", path)
    name = _text(assignments, "TopModelName", path)
    top = _module(root, name, path)
    modules: dict[str, ModuleReport] = {}
    for element in root.findall("ModuleInformation/Module"):
        module = _module(element, _text(element, "Name", path), path)
        modules[module.name] = _with_own_interval(module, path)
    return CsynthReport(
        top,
        _text(assignments, "Part", path),
        _number(_text(assignments, "TargetClockPeriod", path), "TargetClockPeriod", path),
        _resources(_child(root, "AreaEstimates/AvailableResources", path), path),
        modules,
        {
            _text(instance, "InstName", path): _text(instance, "ModuleName", path)
            for instance in root.findall("RTLDesignHierarchy/TopModule/InstancesList/Instance")
        },
        (root.findtext("ReportVersion/Version") or "").strip(),
    )


def _find(path: Path) -> Path:
    if not path.exists():
        raise CompileError(f"{path}: no such file; run the synthesis first (vitis_hls run_hls.tcl)")
    if path.is_file():
        return path
    # The shortest is that of the first solution.
    found = sorted(path.rglob("csynth.xml"), key=lambda p: (len(p.parts), p))
    if not found:
        raise CompileError(
            f"{path}: no csynth.xml in this folder; run the synthesis first (vitis_hls run_hls.tcl)"
        )
    return found[0]


def _parse(path: Path) -> Element:
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, UnicodeDecodeError, OSError) as e:
        raise CompileError(f"{path}: not a synthesis report: {e}") from e
    if root.tag != "profile":
        raise CompileError(f"{path}: not a synthesis report: its root is <{root.tag}>")
    return root


def _with_own_interval(module: ModuleReport, path: Path) -> ModuleReport:
    own = path.with_name(f"{module.name}_csynth.xml")
    if not own.exists():
        return module
    return replace(module, interval=_module(_parse(own), module.name, own).interval)


def _module(element: Element, name: str, path: Path) -> ModuleReport:
    latency = element.find(LATENCY)
    best, worst, interval = None, None, (None, None)
    if latency is not None:
        best = _cycles(latency, "Best-caseLatency", path)
        worst = _cycles(latency, "Worst-caseLatency", path)
        interval = (_cycles(latency, "Interval-min", path), _cycles(latency, "Interval-max", path))
        if interval == (None, None):
            interval = _interval(latency.findtext("PipelineInitiationInterval"), path)
    clock = (element.findtext(TIMING) or "").strip()
    return ModuleReport(
        name,
        (best, worst),
        interval,
        None if clock in UNKNOWN else _number(clock, "EstimatedClockPeriod", path),
        _resources(_child(element, AREA, path, name), path),
    )


def _interval(text: str | None, path: Path) -> tuple[int | None, int | None]:
    """`1027`, or `948 ~ 1027` for a module that takes from 948 to 1027 cycles."""
    text = (text or "").strip()
    if text in UNKNOWN:
        return None, None
    low, _, high = (part.strip() for part in text.partition("~"))
    least = _integer(low, "PipelineInitiationInterval", path)
    return least, _integer(high, "PipelineInitiationInterval", path) if high else least


def _resources(element: Element, path: Path) -> Resources:
    def count(*names: str) -> int:
        for name in names:
            if (text := (element.findtext(name) or "").strip()) not in UNKNOWN:
                return _integer(text, name, path)
        return 0

    # Versions before 2020 write DSP48E, and leave out what the family does not have.
    return Resources(
        count("LUT"), count("FF"), count("BRAM_18K"), count("URAM"), count("DSP", "DSP48E")
    )


def _child(element: Element, name: str, path: Path, of: str | None = None) -> Element:
    found = element.find(name)
    if found is None:
        where = f" of module '{of}'" if of else ""
        raise CompileError(f"{path}: not a synthesis report: no <{name}>{where}")
    return found


def _text(element: Element, name: str, path: Path) -> str:
    text = (_child(element, name, path).text or "").strip()
    if not text:
        raise CompileError(f"{path}: not a synthesis report: <{name}> is empty")
    return text


def _cycles(element: Element, name: str, path: Path) -> int | None:
    text = (element.findtext(name) or "").strip()
    return None if text in UNKNOWN else _integer(text, name, path)


def _integer(text: str, name: str, path: Path) -> int:
    try:
        return int(text)
    except ValueError:
        raise CompileError(f"{path}: <{name}> is '{text}', not a whole number") from None


def _number(text: str, name: str, path: Path) -> float:
    try:
        return float(text)
    except ValueError:
        raise CompileError(f"{path}: <{name}> is '{text}', not a number") from None
