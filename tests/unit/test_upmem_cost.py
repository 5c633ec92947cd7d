"""The cost model: published figures, closed forms, a simulated bus, and no cost for free."""

from __future__ import annotations

import heapq
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis import upmem_cost
from inr.analysis.upmem_cost import (
    KERNEL_COSTS,
    breakdown,
    effective_rows,
    floor_cycles,
    predict,
    predict_all,
    published_prediction,
    slots_per_addition,
)
from inr.analysis.upmem_legality import Machine, legal
from inr.analysis.upmem_mapping import FIELDS, LOADS, ORDERS, VARIANTS, LutShape, Mapping
from inr.analysis.upmem_points import Points
from inr.analysis.upmem_target import find_target
from inr.errors import CompileError

PIM_DL = find_target("pim-dl")

# The four layers of BERT-base, 64 sequences of 512, V = 4, K = 16, and PIM-DL's mapping of each.
LAYERS = {
    "QKV": (192, 2304, Mapping(128, 8, 128, 16, 64, 16, 64)),
    "O": (192, 768, Mapping(128, 8, 128, 16, 64, 16, 64)),
    "FFN1": (192, 3072, Mapping(64, 16, 128, 16, 64, 16, 64)),
    "FFN2": (768, 768, Mapping(128, 8, 64, 32, 128, 8, 128)),
}
PUBLISHED = {"variant": "scalar32", "idx_bits": 16, "out": "i32", "residency": "per_call"}


def test_published_mapping_costs_what_is_published() -> None:
    total = dict.fromkeys(("index", "table", "output", "slots", "dma", "total"), 0.0)
    for books, features, mapping in LAYERS.values():
        cost = published_prediction(
            LutShape(32768, books, 16, features), mapping.with_(**PUBLISHED), PIM_DL
        )
        for name in total:
            total[name] += 1e3 * getattr(cost, name)
    for name, ms in {
        "index": 104,
        "table": 262,
        "output": 185,
        "slots": 490,
        "dma": 16,
        "total": 1057,
    }.items():
        assert total[name] == pytest.approx(ms, rel=0.05), name


def test_our_plain_kernel_is_near_the_published_one() -> None:
    for books, features, mapping in LAYERS.values():
        shape, theirs = LutShape(32768, books, 16, features), mapping.with_(**PUBLISHED)
        measured = published_prediction(shape, theirs, PIM_DL).kernel
        assert predict(shape, theirs, PIM_DL).kernel == pytest.approx(measured, rel=0.15)


def test_a_published_kernel_that_was_not_measured_is_refused() -> None:
    shape, mapping = LutShape(32768, 192, 16, 768), LAYERS["O"][2]
    with pytest.raises(CompileError, match="no published cycles for c_l 48"):
        published_prediction(shape, mapping.with_(c_l=48, c_m=48), PIM_DL)
    with pytest.raises(CompileError, match="no published kernel"):
        published_prediction(shape, mapping, find_target("v1A"))


@pytest.mark.parametrize(
    ("variant", "f_l", "bits", "expected"),
    [
        # Two for the index, 3/4 for the loop, then per four columns: half a load and three.
        ("swar16", 16, 8, (2 + 0.75 + 4 * 3.5) / 16),
        ("swar16", 32, 8, (2 + 0.75 + 8 * 3.5) / 32),
        ("swar8", 16, 6, (2 + 0.75 + 4 * 2.0) / 16),
        ("swar8", 16, 7, (2 + 0.75 + 4 * 2.5) / 16),
    ],
)
def test_instructions_an_addition(variant: str, f_l: int, bits: int, expected: float) -> None:
    shape = LutShape(64, 64, 16, 64, bits=bits)
    mapping = Mapping(1, 1, 16, f_l, 32, f_l, 32, variant=variant)  # pyright: ignore[reportArgumentType]
    assert slots_per_addition(Points.of(shape, [mapping]))[0] == pytest.approx(expected)


def test_plain_additions_take_two_and_a_half_instructions_or_more() -> None:
    shape = LutShape(64, 64, 16, 64)
    for f_l in (4, 8, 16):
        mapping = Mapping(1, 1, 16, f_l, 32, f_l, 32, variant="scalar32")
        assert slots_per_addition(Points.of(shape, [mapping]))[0] >= 2.5


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 60), st.integers(1, 24), st.integers(1, 30))
def test_a_phase_lasts_as_an_issue_simulation_says(rows: int, tasklets: int, slots: int) -> None:
    """One instruction a cycle, 11 cycles between two of one tasklet, runs of ⌈n/T⌉ rows."""
    each = ceil(rows / tasklets)
    left = [max(0, min(rows, (t + 1) * each) - t * each) * slots for t in range(tasklets)]
    ready = [(0, t) for t in range(tasklets) if left[t]]
    heapq.heapify(ready)
    clock = 0
    while ready:
        at, t = heapq.heappop(ready)
        clock = max(clock, at)
        left[t] -= 1
        if left[t]:
            heapq.heappush(ready, (clock + 11, t))
        clock += 1
    shape = LutShape(rows, 4, 16, 8)
    mapping = Mapping(1, 1, rows, 8, 4, 8, 4, tasklets=tasklets)
    predicted = effective_rows(Points.of(shape, [mapping]), PIM_DL)[0] * slots
    # Within one round of the pipeline at the end, and where a tasklet runs out early.
    assert clock <= predicted + 11
    assert predicted <= clock * 1.25 + 11


def _draws(seed: int, shape: LutShape, count: int = 4000) -> Points:
    rng = np.random.default_rng(seed)
    values = {
        "ip": [1, 2, 16, 128],
        "lp": [1, 2, 3, 8],
        "n_m": [1, 3, 16, 64, 1000],
        "f_m": [8, 16, 32, 64, 512],
        "c_m": [8, 16, 64, 192, 4096],
        "f_l": [8, 16, 32],
        "c_l": [4, 8, 16, 64],
        "order": range(len(ORDERS)),
        "load": range(len(LOADS)),
        "tasklets": [1, 8, 11, 16, 24],
        "variant": range(len(VARIANTS)),
        "idx_bits": [4, 8, 16],
        "out": [0, 1],
        "residency": [0, 1],
        "groups": [1, 2],
        "split_cb": [1, 2],
    }
    fields = {k: rng.choice(np.array(list(values[k])), count).astype(np.int64) for k in FIELDS}
    points = Points(shape, fields)
    return points[legal(points, Machine.of(PIM_DL))]


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5000),
    st.integers(1, 300),
    st.integers(2, 256),
    st.integers(1, 600),
    st.sampled_from([5, 6, 8]),
)
def test_every_cost_is_finite_positive_and_above_its_bounds(
    seed: int, rows: int, books: int, centroids: int, features: int, bits: int
) -> None:
    shape = LutShape(rows, books, centroids, features, bits)
    points = _draws(seed, shape)
    if not len(points):
        return
    costs = predict_all(points, PIM_DL)
    for name in ("index", "output", "slots", "dma", "kernel", "launch", "total", "pipelined"):
        values = getattr(costs, name)
        assert np.all(np.isfinite(values)), name
        assert np.all(values > 0), name
    resident = points.is_("residency", "resident")
    assert np.all((costs.table == 0) == resident)
    parts = costs.index + costs.table + costs.output + costs.kernel + costs.launch
    assert np.allclose(costs.total, parts)
    assert np.all(costs.kernel >= np.maximum(costs.slots, costs.dma))
    assert np.all(costs.kernel >= PIM_DL.seconds(floor_cycles(points, PIM_DL)))
    least = predict_all(points, PIM_DL, least=True)
    assert np.all(least.kernel <= costs.kernel * (1 + 1e-12))
    # Half the bytes and the same work: what the tuner leaves out is no faster.
    narrow = Points(shape, {**points.fields, "out": np.ones(len(points), dtype=np.int64)})
    assert np.all(predict_all(narrow, PIM_DL).total <= costs.total * (1 + 1e-12))
    i = len(points) // 2
    assert breakdown(costs, i) == predict(shape, points.mapping(i), PIM_DL)


def test_the_best_order_moves_least() -> None:
    shape = LutShape(4096, 192, 16, 512)
    base = Mapping(4, 1, 128, 16, 64, 16, 64)
    of = {order: predict(shape, base.with_(order=order), PIM_DL) for order in ORDERS}
    least = predict_all(Points.of(shape, [base]), PIM_DL, least=True)
    assert of["fcn"].slots < of["nfc"].slots
    assert min(c.dma for c in of.values()) >= least.dma[0]
    # n innermost: each sub-tile once. Else once for each of the 8 n tiles.
    assert of["nfc"].dma > of["fcn"].dma


@pytest.mark.parametrize(
    ("group", "key"),
    [("index", "8"), ("add", "swar16"), ("around", "barrier"), ("start", "coarse")],
)
@pytest.mark.parametrize("bad", [None, 0.0, float("nan"), inf, -1.0])
def test_a_missing_or_senseless_cost_is_an_error(
    monkeypatch: pytest.MonkeyPatch, group: str, key: str, bad: float | None
) -> None:
    shape, mapping = LutShape(100, 64, 16, 64), Mapping(1, 1, 16, 16, 64, 16, 64)
    predict(shape, mapping, PIM_DL)
    if bad is None:
        monkeypatch.delitem(KERNEL_COSTS[group], key)
    else:
        monkeypatch.setitem(KERNEL_COSTS[group], key, bad)
    with pytest.raises(CompileError, match=f"'{group}' of '{key}'"):
        predict(shape, mapping, PIM_DL)


def test_a_cost_that_overflows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upmem_cost, "slots_per_addition", lambda p, _: np.full(len(p), inf))
    with np.errstate(invalid="ignore"), pytest.raises(CompileError, match="R11"):
        predict(LutShape(100, 64, 16, 64), Mapping(1, 1, 16, 16, 64, 16, 64), PIM_DL)
