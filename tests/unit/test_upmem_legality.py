"""Which mappings are legal: against rules written out a second time, and one by one."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.upmem_cost import KERNEL_COSTS
from inr.analysis.upmem_legality import Machine, check, legal, violations, wram_needed
from inr.analysis.upmem_mapping import (
    FIELDS,
    LOADS,
    ORDERS,
    OUTS,
    RESIDENCIES,
    VARIANTS,
    Geometry,
    LutShape,
    Mapping,
    parse_fields,
)
from inr.analysis.upmem_points import Points, code
from inr.analysis.upmem_target import find_target
from inr.errors import CompileError

V1A = Machine.of(find_target("v1A"), 1024)
BERT = LutShape(32768, 192, 16, 2304)
GOOD = Mapping(128, 8, 128, 16, 64, 16, 64)


def kept_again(shape: LutShape, m: Mapping, machine: Machine) -> bool:
    """R1 to R10 in plain arithmetic, from the description of what a DPU executes."""
    target = machine.target
    if m.f_l not in (4, 8, 16, 32, 64) or m.c_l % 4:
        return False
    product = shape.activation is not None
    if product != (m.variant == "int8"):
        return False
    # The rows of a product use the same weights, and its activations are bytes.
    if product and (m.load == "fine" or m.idx_bits != 8):
        return False
    if m.f_l == 4 and (m.variant != "scalar32" or m.load == "fine"):
        return False
    top = 2**shape.bits - 1
    # Accumulators and what else the innermost loop holds, in 24 registers.
    held = {
        "scalar32": m.f_l + 6,
        "swar16": m.f_l / 2 + 6,
        "int8": 2 * (m.f_l + 2) + 4,
    }
    if m.variant == "swar8":
        if 2 * top > 255:
            return False
        held["swar8"] = m.f_l / 2 + 7 + (4 if 4 * top <= 255 else 2)
    if held[m.variant] > 24 or 900 + m.f_l // 4 * 80 > target.iram:
        return False
    if not 1 <= m.tasklets <= target.tasklets:
        return False
    rows = ceil(shape.rows / m.ip)
    columns = ceil(ceil(shape.features / m.lp) / m.f_l) * m.f_l
    books = ceil(ceil(shape.codebooks / m.split_cb) / 4) * 4
    f_tile, c_tile, n_tile = min(m.f_m, columns), min(m.c_m, books), min(m.n_m, rows)
    if f_tile % m.f_l or c_tile % 4 or min(m.c_l, books) > c_tile:
        return False
    if m.c_m < books and m.c_m % m.c_l:
        return False
    room = {"scalar32": (2**31 - 1) // top, "int8": (2**31 - 1) // 127**2}
    if min(m.c_l, c_tile) > room.get(m.variant, 65535 // top):
        return False
    if m.idx_bits not in (4, 8, 16):
        return False
    if (shape.centroids - 1) * (m.f_l if m.idx_bits == 16 else 1) >= 2**m.idx_bits:
        return False
    width = 2 if m.out == "i16" else 4
    low, high = shape.low, shape.high
    if m.split_cb > 1:
        high = (2 ** (shape.bits - 1) - 1) * (shape.activation or 1) * books
        low = -high
    if low < -(2 ** (8 * width - 1)) or high >= 2 ** (8 * width - 1):
        return False

    def pitch(n: int) -> int:
        return ceil(n * m.idx_bits / 8 / 8) * 8

    whole, rest = divmod(books, c_tile)
    index = rows * (whole * pitch(c_tile) + (pitch(rest) if rest else 0))
    table, output = columns * books * shape.centroids, rows * columns * width
    if sum(ceil(size / 8) * 8 for size in (index, table, output)) > machine.mram:
        return False
    own = ceil(n_tile / m.tasklets) * m.tasklets
    in_wram = {
        "static": table,
        "coarse": min(m.c_l, c_tile) * shape.centroids * m.f_l,
        "fine": m.tasklets * max(8, m.f_l),
    }[m.load]
    stacks = m.tasklets * (384 + 8 + 8) + 256
    used = own * pitch(c_tile) + own * f_tile * width + ceil(in_wram / 8) * 8 + stacks
    if used > target.wram:
        return False
    dpus = m.ip * m.lp * m.split_cb
    if dpus > machine.dpus or m.ip % m.groups:
        return False
    if m.groups > 1:
        broken = machine.ranks * target.dpus_per_rank - machine.dpus
        if ceil(dpus / m.groups) > machine.ranks // m.groups * target.dpus_per_rank - broken:
            return False
    return True


def draws(shape: LutShape, count: int, rng: np.random.Generator) -> Points:
    """Random mappings of which a fair part is legal."""

    def pick(*values: int) -> Any:
        return rng.choice(np.array(values), count)

    fields = {
        "ip": pick(1, 2, 4, 7, 16, 64, 128, 300),
        "lp": pick(1, 2, 3, 8, 16),
        "n_m": pick(1, 3, 16, 64, 100, 128, 1000),
        "f_m": pick(4, 8, 16, 24, 32, 64, 512),
        "c_m": pick(4, 6, 8, 16, 64, 128, 192, 4096),
        "f_l": pick(4, 8, 8, 16, 16, 32, 12),
        "c_l": pick(4, 8, 8, 16, 64, 128, 260, 5),
        "order": rng.integers(0, len(ORDERS), count),
        "load": rng.integers(0, len(LOADS), count),
        "tasklets": pick(1, 8, 11, 16, 24, 25),
        "variant": rng.integers(0, len(VARIANTS), count),
        "idx_bits": pick(4, 8, 8, 16, 5),
        "out": rng.integers(0, len(OUTS), count),
        "residency": rng.integers(0, len(RESIDENCIES), count),
        "groups": pick(1, 1, 2, 4),
        "split_cb": pick(1, 1, 1, 2, 5),
    }
    return Points(shape, {name: fields[name].astype(np.int64) for name in FIELDS})


def test_a_hundred_thousand_draws_agree_with_the_rules_written_again() -> None:
    rng = np.random.default_rng(7)
    machines = [
        V1A,
        Machine.of(find_target("v1B"), 1000, 17),
        Machine.of(find_target("custom"), 100, mram=100_000),
    ]
    shapes = [
        BERT,
        LutShape(1000, 33, 16, 100, bits=6),
        LutShape(37, 7, 5, 19, bits=5),
        LutShape(500, 768, 256, 64, acc_low=-9000, acc_high=9000),
        LutShape(4096, 300, 64, 300, bits=7),
        LutShape(4096, 300, 1, 300, activation=127),
        LutShape(300, 40, 1, 77, acc_low=-30000, acc_high=30000, activation=127),
    ]
    seen = {True: 0, False: 0}
    total = 0
    for machine in machines:
        for shape in shapes:
            count = 4800
            points = draws(shape, count, rng)
            mask = legal(points, machine)
            for i in range(count):
                again = kept_again(shape, points.mapping(i), machine)
                assert bool(mask[i]) == again, (shape, machine.target.name, str(points.mapping(i)))
                seen[again] += 1
            total += count
    assert total >= 100_000
    assert min(seen.values()) > 2000


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5000),
    st.integers(1, 800),
    st.integers(1, 256),
    st.integers(1, 1200),
)
def test_sizes_of_many_are_those_of_one(
    seed: int, rows: int, books: int, centroids: int, features: int
) -> None:
    shape = LutShape(rows, books, centroids, features)
    points = draws(shape, 40, np.random.default_rng(seed))
    points = points[points.field("f_l") != 12]
    visits = {axes: points.visits(axes) for axes in ("nc", "nf", "fc")}
    used = wram_needed(points)
    for i in range(len(points)):
        m = points.mapping(i)
        assert Points.of(shape, [m]).mapping(0) == m
        g = Geometry(shape, m)
        assert (points.rows[i], points.features[i], points.codebooks[i]) == (
            g.rows,
            g.features,
            g.codebooks,
        )
        assert points.table_bytes[i] == g.table_bytes
        assert points.index_bytes[i] == g.index_bytes
        assert points.output_bytes[i] == g.output_bytes
        assert points.hoisted[i] == g.table_hoisted
        assert used[i] == m.tasklets * 400 + 256 + sum(g.wram_buffers.values())
        depths = {"nc": g.index_depth, "nf": g.output_depth, "fc": g.depth("fc")}
        for axes, depth in depths.items():
            turns = [loop.turns for loop in g.loops[:depth]]
            assert visits[axes][i] == np.prod(turns, dtype=np.int64), (m, axes)


@pytest.mark.parametrize(
    ("changes", "rule", "what"),
    [
        ({"ip": 1, "lp": 1}, "R1", "MRAM"),
        ({"n_m": 256, "f_m": 144}, "R2", "WRAM"),
        ({"f_l": 64, "f_m": 64, "variant": "scalar32", "c_l": 4, "c_m": 64}, "R3", "registers"),
        ({"tasklets": 25}, "R4", "tasklets"),
        ({"f_l": 4, "f_m": 16}, "R5", "f_l modulo its loads"),
        ({"f_l": 24, "f_m": 24}, "R5", "power of two"),
        ({"f_m": 24}, "R5", "f_m modulo f_l"),
        ({"c_l": 6}, "R5", "c_l modulo"),
        ({"c_m": 100}, "R5", "c_m modulo c_l"),
        ({"n_m": 0}, "R5", "n_m = 0"),
        ({"groups": 3}, "R7", "ip modulo groups"),
        ({"groups": 32}, "R7", "whole ranks"),
        ({"ip": 129}, "R8", "DPUs"),
        ({"variant": "swar8"}, "R9", "two entries in 8 bits"),
        ({"idx_bits": 5}, "R10", "besides 4, 8, 16"),
    ],
)
def test_each_rule_is_named(changes: dict[str, Any], rule: str, what: str) -> None:
    assert not violations(BERT, GOOD, V1A)
    broken = violations(BERT, GOOD.with_(**changes), V1A)
    found = [v for v in broken if v.rule == rule and what in v.what]
    assert found, [str(v) for v in broken]
    assert all(v.by == v.need - v.have > 0 for v in broken)
    with pytest.raises(CompileError, match=f"encoder.query: .*{rule}"):
        check(BERT, GOOD.with_(**changes), V1A, "encoder.query")


def test_sums_and_lanes() -> None:
    wide = LutShape(1000, 768, 16, 768)
    m = Mapping(16, 8, 64, 16, 128, 16, 128, out="i16")
    assert [v.rule for v in violations(wide, m, V1A)] == ["R9"]
    assert not violations(
        LutShape(1000, 768, 16, 768, acc_low=-(2**15), acc_high=2**15 - 1), m, V1A
    )
    bounded = LutShape(1000, 768, 16, 768, acc_low=-(2**15) - 1, acc_high=0)
    assert [v.what for v in violations(bounded, m, V1A)] == ["the largest sum"]
    # A part of the codebooks is bounded by its entries, not by the bound of the whole sum.
    assert not violations(wide, m.with_(split_cb=3), V1A)
    assert violations(wide, m.with_(split_cb=2), V1A)
    # 65535 / 255 = 257 entries fit a lane of 16 bits.
    long = m.with_(out="i32", c_m=768, n_m=8, f_l=8, f_m=8)
    assert not violations(wide, long.with_(c_l=256), V1A)
    assert [v.what for v in violations(wide, long.with_(c_l=260, c_m=260), V1A)] == [
        "codebooks a flush"
    ]


def test_products_of_bytes() -> None:
    shape = LutShape(1000, 768, 1, 768, activation=127, vec=1)
    m = Mapping(16, 8, 64, 8, 128, 8, 128, variant="int8")
    assert not violations(shape, m, V1A)
    assert shape.high == 127 * 127 * 768
    for changes, what in (
        ({"variant": "swar16"}, "variants of another kind of layer"),
        ({"variant": "scalar32"}, "variants of another kind of layer"),
        ({"load": "fine"}, "weights moved for each row"),
        ({"idx_bits": 4}, "activations that are no bytes"),
        ({"out": "i16"}, "the largest sum"),
        ({"f_l": 4}, "f_l modulo its loads"),
        ({"f_l": 16, "f_m": 16}, "registers"),
    ):
        assert what in [v.what for v in violations(shape, m.with_(**changes), V1A)], changes
    tables = LutShape(1000, 768, 1, 768)
    broken = violations(tables, m, V1A)
    assert [v.what for v in broken] == ["variants of another kind of layer"]
    # What the weights prove, where the worst of all weights does not fit.
    proved = replace(shape, acc_low=-(2**15) + 1, acc_high=2**15 - 1)
    assert not violations(proved, m.with_(out="i16"), V1A)
    assert violations(proved, m.with_(out="i16", split_cb=2), V1A)
    longest = LutShape(1, 133_145, 1, 8, activation=127)
    assert longest.high >= 2**31
    assert "the largest sum" in [v.what for v in violations(longest, m.with_(ip=1, lp=1), V1A)]
    assert LutShape(1, 133_144, 1, 8, activation=127).high < 2**31


def test_indices_of_half_a_byte_and_scaled_ones() -> None:
    assert not violations(BERT, GOOD.with_(idx_bits=4), V1A)
    seventeen = LutShape(32768, 192, 17, 2304)
    assert [v.rule for v in violations(seventeen, GOOD.with_(idx_bits=4), V1A)] == ["R10"]
    assert not violations(seventeen, GOOD.with_(idx_bits=16), V1A)


def test_ranks_with_broken_dpus() -> None:
    target = find_target("pim-dl")
    ten_missing = Machine.of(target, 1014, 16)
    m = GOOD.with_(ip=126, groups=2)
    assert 126 * 8 == 1008
    assert [v.rule for v in violations(BERT, m, ten_missing)] == ["R7"]
    assert not violations(BERT, m.with_(ip=124), ten_missing)
    with pytest.raises(CompileError, match="1100 DPUs in 16 ranks"):
        Machine.of(target, 1100, 16)


def test_a_missing_cost_breaks_r11(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KERNEL_COSTS["store"], "swar16")
    assert [v.rule for v in violations(BERT, GOOD, V1A)] == ["R11"]
    assert not violations(BERT, GOOD.with_(variant="scalar32"), V1A)


def test_text_of_mappings() -> None:
    m = GOOD.with_(order="cfn", load="fine", groups=4, out="i16")
    assert Mapping.parse(str(m)) == m
    assert Mapping.parse("ip=1 lp=2 n_m=3 f_m=4 c_m=5 f_l=6 c_l=7") == Mapping(1, 2, 3, 4, 5, 6, 7)
    assert parse_fields("order=nfc, lp=8") == {"order": "nfc", "lp": 8}
    for text, message in (
        ("ip=1", "lp, n_m, f_m, c_m, f_l, c_l not given"),
        ("speed=1", "'speed=1' is no field"),
        ("lp", "'lp' is no field with a value"),
        ("lp=0", "a positive number"),
        ("lp=1 lp=2", "given twice"),
        ("order=nnn", "one of nfc"),
    ):
        with pytest.raises(CompileError, match=message):
            Mapping.parse(text)


def test_shapes_the_kernel_does_not_take() -> None:
    for arguments, message in (
        ((10, 4, 257, 8), "257 centroids"),
        ((10, 4, 0, 8), "centroids = 0"),
        ((0, 4, 16, 8), "rows = 0"),
        ((10, 4, 16, 8, 9), "entries of 9 bits"),
        ((10, 4, 16, 8, 8, None, None, None, 0), "codebooks of 0 channels"),
        ((10, 4, 16, 8, 8, None, None, None, 1, 127), "16 rows of weights an input"),
        ((10, 4, 1, 8, 8, None, None, None, 1, 128), "activations up to 128"),
    ):
        with pytest.raises(CompileError, match=message):
            LutShape(*arguments)


def test_codes_are_positions() -> None:
    assert [code("order", order) for order in ORDERS] == list(range(6))
    assert code("lp", 7) == 7
