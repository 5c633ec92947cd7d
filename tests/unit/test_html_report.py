"""The page about a design: what it shows is what the analyses say, and it stands by itself."""

from __future__ import annotations

import itertools
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from random import Random

import networkx as nx
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from inr.analysis.certificate import certify  # noqa: E402
from inr.analysis.event_engine import Engine, latency  # noqa: E402
from inr.analysis.fifo_sizing import size_fifos  # noqa: E402
from inr.analysis.schedules import network_of  # noqa: E402
from inr.analysis.targets import find_part  # noqa: E402
from inr.frontend.importer import import_torch  # noqa: E402
from inr.frontend.spec import load_spec  # noqa: E402
from inr.interpreters.graph import find_function  # noqa: E402
from inr.lowering.graph_layout import place  # noqa: E402
from inr.lowering.hls_cpp import build_design  # noqa: E402
from inr.lowering.html_report import (  # noqa: E402
    SAMPLES,
    FifoDetail,
    ProcessDetail,
    ReportDetails,
    add_report,
    gather_details,
    render_report,
)
from inr.passes.array_stream_assign_formats import ArrayStreamAssignFormatsPass  # noqa: E402
from inr.passes.array_stream_fuse import ArrayStreamFusePass  # noqa: E402
from inr.passes.array_stream_insert_copies import ArrayStreamInsertCopiesPass  # noqa: E402
from inr.passes.array_stream_select_parallelism import (  # noqa: E402
    ArrayStreamSelectParallelismPass,
)
from inr.passes.array_stream_size_fifos import set_depth, size_function  # noqa: E402
from inr.passes.convert_inr_to_array_stream import ConvertInrToArrayStreamPass  # noqa: E402
from inr.passes.inr_hls_pipeline import graph_passes  # noqa: E402
from xdsl.context import Context  # noqa: E402

ZOO = Path(__file__).parents[2] / "examples" / "zoo"

REPORT = {
    "name": "siren_tiny",
    "mode": "fixed",
    "part": "xcu50-fsvh2104-2-e",
    "clock_ns": 3.33,
    "widths": {"activation": 27, "weight": 18, "dsp_per_product": 1, "tolerance": None},
    "graph": {"imported": {"nodes": 28, "matmuls": 6}, "inr-cse": {"nodes": 20, "matmuls": 5}},
    "streams": {"processes": 17, "fifos": 17, "elements": 39, "bits": 1053},
    "accuracy": {
        "y": {"fixed": {"max_abs": 1.25e-6, "mean_abs": 6.5e-7, "relative": 1.75e-6}},
    },
    "overflows": {"fixed": {"layers_0": 3}},
    "seconds": {"import": 1.25, "hls-cpp": 0.5},
}


@cache
def _sized(method: str = "safe"):
    spec = load_spec(f"{ZOO / 'siren.py'}:tiny")
    module = import_torch(spec.callable, spec.example_inputs, name=spec.name, order=2).module
    for each in (
        *graph_passes(),
        ConvertInrToArrayStreamPass(),
        ArrayStreamFusePass(),
        ArrayStreamAssignFormatsPass(mode="interval"),
        ArrayStreamSelectParallelismPass(lanes=100),
        ArrayStreamInsertCopiesPass(),
    ):
        each.apply(Context(), module)
    function = find_function(module)
    if method == "sized":
        network, fifos = network_of(function)
        for value, depth in zip(fifos, size_fifos(network).depths, strict=False):
            set_depth(value, depth)
    else:
        size_function(function, method)
    return function, build_design(function)


@cache
def _details() -> ReportDetails:
    return gather_details(*_sized(), find_part("xcu50"))


class _Page(HTMLParser):
    """Raises where an element is closed that is not the open one; keeps what was seen."""

    VOID = ("meta", "rect", "br", "path", "polygon", "i")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.open.append(tag)
        if tag in ("meta", "br"):
            self.open.pop()
        self.names += [v for k, v in attrs if k == "data-name" and v]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open[-1] == tag
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data.strip())


def _parse(html: str) -> _Page:
    page = _Page()
    page.feed(html)
    assert page.open == []
    return page


def test_page_of_a_design() -> None:
    details = _details()
    html = render_report(REPORT, details)
    page = _parse(html)
    assert sorted(page.names) == sorted(p.name for p in details.processes)
    assert page.seen.count("path") == len(details.fifos)
    marked = [f for f in details.fifos if f.name in details.critical]
    assert len(re.findall(r'<path class="[a-z]+ critical"', html)) == len(marked) > 5
    for heading in (
        "Dataflow",
        "Resources of xcu50",
        "FIFOs over time",
        "Processes",
        "Accuracy",
        "Graph after each pass",
        "Seconds",
    ):
        assert heading in page.text
    assert f"{details.cycles:,}" in html
    assert "1.25e-06" in page.text
    assert "3 values did not fit their format in layers_0 (fixed)." in page.text
    # One file: nothing is fetched.
    assert not re.search(r"(?:src|href)=|https?://|@import|url\(", html)


def test_the_numbers_are_those_of_the_analyses() -> None:
    function, design = _sized()
    details = _details()
    network, _ = network_of(function)
    assert details.cycles == latency(network)
    assert [p.name for p in details.processes] == [p.name for p in design.processes]
    assert [(f.name, f.depth) for f in details.fifos] == [(f.name, f.depth) for f in design.fifos]
    slowest = max(p.cycles or 0 for p in details.processes)
    assert slowest == details.parallelism["cycles"]
    products = [p for p in details.processes if p.kind == "matmul"]
    assert sum(p.lanes for p in products) == details.parallelism["lanes"]
    assert details.used is not None
    parts = [p.resources for p in details.processes if p.resources is not None]
    assert len(parts) == len(details.processes)
    assert details.used.dsp == sum(r.dsp for r in parts) == details.parallelism["dsp"]


def test_path_of_delays_leads_from_an_input_to_an_output_through_the_slowest() -> None:
    details = _details()
    assert not details.exact
    path = [f for f in details.fifos if f.name in details.critical]
    kind = {p.name: p.kind for p in details.processes if p.name in details.critical}
    joined = nx.DiGraph([(f.source, f.target) for f in path])
    assert set(joined) == set(kind)
    assert nx.dag_longest_path_length(joined) == len(kind) - 1
    order = list(nx.topological_sort(joined))
    assert kind[order[0]] in ("read", "constant")
    assert kind[order[-1]] == "write"
    slowest = max(p.cycles or 0 for p in details.processes)
    assert any(p.cycles == slowest and p.name in details.critical for p in details.processes)


def test_path_of_a_run() -> None:
    """FIFOs that are full on it are marked; deeper ones make the run no slower."""
    function, design = _sized("sized")
    network, _ = network_of(function)
    run = Engine(network).run(record=range(len(network.fifos)))
    certificate = certify(network, run.written_at, run.read_at)
    details = gather_details(function, design, find_part("xcu50"), certificate)
    assert details.exact
    names = {p.name for p in details.processes}
    fifos = {f.name: f for f in details.fifos}
    assert details.critical <= names | set(fifos)
    assert details.full <= details.critical & set(fifos)
    assert any(p.kind == "write" and p.name in details.critical for p in details.processes)
    for name in details.critical & set(fifos):
        assert {fifos[name].source, fifos[name].target} <= details.critical
    html = render_report(REPORT, details)
    _parse(html)
    assert len(re.findall(r'<path class="[a-z]+ critical full"', html)) == len(details.full)
    depths = [
        None if f.name in details.full else depth
        for f, depth in zip(details.fifos, network.depths, strict=False)
    ]
    inside = list(network.depths)[len(depths) :]
    assert latency(network, [*depths, *inside]) <= latency(network)


def test_occupancy_is_that_of_the_run() -> None:
    function, _ = _sized()
    details = _details()
    network, fifos = network_of(function)
    drawn = [i for i, f in enumerate(details.fifos) if f.curve]
    assert drawn
    run = Engine(network).run(record=range(len(fifos)))
    assert run.latency is not None
    for index in drawn:
        fifo = details.fifos[index]
        written, read = run.written_at[index], run.read_at[index]
        held = [
            int(np.sum(written <= cycle) - np.sum(read < cycle))
            for cycle in range(1, run.latency + 1)
        ]
        assert fifo.peak == max(held) == max(fifo.curve)
        assert len(fifo.curve) == SAMPLES
        # Never below what is there at the end of a span.
        edges = np.linspace(0, run.latency, SAMPLES + 1)
        for span, most in enumerate(fifo.curve):
            cycles = range(int(edges[span]) + 1, int(edges[span + 1]) + 1)
            assert most <= max(held[max(0, int(edges[span]) - 1) : int(edges[span + 1]) + 1])
            written_here = [c for c in cycles if c in written]
            assert all(held[c - 1] <= most for c in written_here)


def test_a_design_that_deadlocks_has_no_time() -> None:
    """The page is then still there, without what a run would have said."""
    function, design = _sized("minimum")
    details = gather_details(function, design)
    assert details.cycles is None
    assert all(f.peak is None for f in details.fifos)
    page = _parse(render_report(REPORT, details))
    assert "Dataflow" in page.text
    assert "FIFOs over time" not in page.text
    assert not any(text.startswith("Resources") for text in page.text)


@pytest.mark.parametrize("missing", sorted(REPORT))
def test_any_part_of_the_report_may_be_missing(missing: str) -> None:
    report = {k: v for k, v in REPORT.items() if k != missing}
    page = _parse(render_report(report, ReportDetails()))
    assert "Dataflow" not in page.text
    assert ("Accuracy" in page.text) == (missing != "accuracy")
    assert ("Seconds" in page.text) == (missing != "seconds")


def test_the_page_is_a_file_of_the_project() -> None:
    texts = {"model.cpp": ""}
    add_report(texts, {})
    assert texts["model.cpp"] == ""
    assert "<title>design</title>" in texts["report.html"]


def test_names_are_text() -> None:
    bad = "<b>&\"'"
    details = ReportDetails(
        (ProcessDetail(bad, "map", bad, 1, 5), ProcessDetail("w", "write", "", 1, 5)),
        (FifoDetail(bad, bad, "w", 2, 1, 27, "srl", "4"),),
    )
    page = _parse(render_report({"name": bad}, details))
    assert bad in page.names
    assert "b" not in page.seen


def test_layout_keeps_nodes_apart_and_edges_downwards() -> None:
    random = Random(7)
    for size in (1, 2, 30, 400):
        nodes = [f"n{i}" for i in range(size)]
        edges = [(f"n{random.randrange(max(0, i - 40), i)}", f"n{i}") for i in range(1, size)]
        edges += [
            (f"n{a}", f"n{b}")
            for a, b in (sorted(random.sample(range(size), 2)) for _ in range(size // 2))
        ]
        placed = place(nodes, edges)
        for row in range(placed.rows):
            columns = sorted(x for x, y in placed.positions.values() if y == row)
            assert all(b - a > 0.999 for a, b in itertools.pairwise(columns))
        assert all(0 <= x <= placed.columns - 1 for x, _ in placed.positions.values())
        for (source, target), route in zip(edges, placed.routes, strict=True):
            assert route[0] == placed.positions[source]
            assert route[-1] == placed.positions[target]
            assert all(b[1] == a[1] + 1 for a, b in itertools.pairwise(route))
