"""All layers under one MRAM: the best selection, the bus, and the alternatives to tables."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.upmem_cost import in_turn
from inr.analysis.upmem_joint import (
    Layer,
    choose,
    host_product,
    int8_products,
    plan,
    product_shape,
    schedule,
    table_host_seconds,
)
from inr.analysis.upmem_legality import Machine, violations
from inr.analysis.upmem_mapping import LutShape
from inr.analysis.upmem_target import find_target
from inr.analysis.upmem_tuner import Choice
from inr.errors import CompileError

PIM_DL = Machine.of(find_target("pim-dl"))

choice = st.builds(
    Choice,
    what=st.just("tables"),
    sent=st.integers(0, 50).map(lambda n: n / 64),
    received=st.integers(0, 50).map(lambda n: n / 64),
    kernel=st.integers(1, 100).map(lambda n: n / 64),
    host=st.integers(0, 20).map(lambda n: n / 64),
    resident=st.integers(0, 40).map(lambda n: 8 * n),
    scratch=st.integers(0, 40).map(lambda n: 8 * n),
)


def objective(chosen: tuple[Choice, ...], calls: list[int], groups: int) -> float:
    moved = sum(n * c.moved for n, c in zip(calls, chosen, strict=True))
    kernel = sum(n * c.kernel for n, c in zip(calls, chosen, strict=True))
    host = sum(n * c.host for n, c in zip(calls, chosen, strict=True))
    return in_turn(moved, kernel, groups) + host


@settings(deadline=None, max_examples=60)
@given(
    options=st.lists(st.lists(choice, min_size=1, max_size=4), min_size=1, max_size=5),
    calls=st.lists(st.integers(1, 12), min_size=5, max_size=5),
    mram=st.integers(0, 900),
    groups=st.sampled_from([1, 2, 16]),
)
def test_the_selection_is_the_best_of_all(
    options: list[list[Choice]], calls: list[int], mram: int, groups: int
) -> None:
    calls = calls[: len(options)]
    every = list(itertools.product(*options))
    sizes = [sum(c.resident for c in s) + max(c.scratch for c in s) for s in every]
    fitting = [s for s, size in zip(every, sizes, strict=True) if size <= mram]
    if not fitting:
        least = min(sizes)
        with pytest.raises(CompileError, match=f"at least {least:,} bytes .* {least - mram:,} too"):
            choose(options, calls, mram, groups)
        return
    chosen = tuple(choose(options, calls, mram, groups))
    assert all(c in layer for c, layer in zip(chosen, options, strict=True))
    assert sum(c.resident for c in chosen) + max(c.scratch for c in chosen) <= mram
    best = min(objective(s, calls, groups) for s in fitting)
    assert objective(chosen, calls, groups) == pytest.approx(best, rel=1e-7)


def test_one_layer_gives_way_for_another() -> None:
    """Fast and large, or slow and small: only one of two may be large."""
    fast = Choice("tables", 1, 1, 1, 0, 600, 104)
    slow = Choice("tables", 1, 1, 5, 0, 104, 304)
    slower = Choice("tables", 1, 1, 9, 0, 104, 304)
    options = [[fast, slow], [fast, slower]]
    assert choose(options, [1, 1], 1304) == [fast, fast]
    assert choose(options, [1, 1], 1303) == [slow, fast]
    assert choose(options, [1, 1], 1008) == [slow, fast]
    assert choose(options, [3, 1], 1008) == [fast, slower]
    assert choose(options, [1, 1], 1007) == [slow, slower]
    with pytest.raises(CompileError, match=r"at least 512 bytes .* 504 are free, 8 too"):
        choose(options, [1, 1], 504)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(*[st.floats(0.1, 10)] * 3), min_size=1, max_size=4),
    st.sampled_from([1, 2, 4, 16]),
)
def test_the_bus_and_the_groups(chain: list[tuple[float, float, float]], groups: int) -> None:
    once = schedule(chain, groups)
    moved, kernel = sum(a + b for a, _, b in chain), sum(k for _, k, _ in chain)
    alone = moved / groups + kernel
    assert once >= max(moved, alone) * (1 - 1e-9)
    assert once <= (moved + kernel) * (1 + 1e-9)
    if groups == 1:
        assert once == pytest.approx(moved + kernel)
    # In the long run no better than either resource, no worse than without groups.
    many = (schedule(chain * 60, groups) - schedule(chain * 30, groups)) / 30
    assert max(moved, alone) * (1 - 0.05) <= many <= (moved + kernel) * (1 + 1e-9)


def test_equal_layers_reach_the_estimate() -> None:
    for sent, kernel, received in ((2.0, 9.0, 1.0), (1.0, 20.0, 1.0)):
        for groups in (2, 4, 8):
            chain = [(sent, kernel, received)]
            steady = (schedule(chain * 80, groups) - schedule(chain * 40, groups)) / 40
            assert steady == pytest.approx(in_turn(sent + received, kernel, groups), rel=0.01)


def bert(rows: int) -> list[Layer]:
    """BERT-base's layers, V = 4, K = 16; sums that fit 16 bits."""
    sizes = {"QKV": (192, 2304), "O": (192, 768), "FFN1": (192, 3072), "FFN2": (768, 768)}
    return [
        Layer(name, LutShape(rows, books, 16, features, 8, -32768, 32767, vec=4))
        for name, (books, features) in sizes.items()
    ]


def test_bert_base_layer_on_the_published_server() -> None:
    one = plan(bert(32768), PIM_DL)
    assert one.groups == 1
    assert one.one_after_the_other <= 0.350
    turns = plan(bert(32768), PIM_DL, groups=(16,))
    assert turns.in_groups <= 0.200
    steady = (turns.scheduled(120) - turns.scheduled(60)) / 60
    assert turns.in_groups <= steady <= 0.200
    for found in (one, turns):
        assert found.resident + found.scratch <= PIM_DL.mram
        for layer, chosen in zip(found.layers, found.choices, strict=True):
            assert chosen.mapping is not None
            assert not violations(layer.shape, chosen.mapping, PIM_DL)
    assert "QKV: tables" in str(one)


def test_small_batches_stay_on_the_host() -> None:
    small = plan(bert(128), PIM_DL, alternatives=True)
    assert {c.what for c in small.choices} == {"host"}
    assert small.resident == 0
    large = plan([bert(32768)[0]], PIM_DL, alternatives=True)
    assert {c.what for c in large.choices} == {"tables"}


def test_products_cost_their_arithmetic() -> None:
    shape = LutShape(32768, 192, 16, 2304, vec=4)
    target = PIM_DL.target
    assert host_product(shape, target).host == pytest.approx(32768 * 768 * 2304 / 3.5e11)
    one = LutShape(1, 192, 16, 2304, vec=4)
    assert host_product(one, target).host == pytest.approx(4 * 768 * 2304 / 1e11)
    search = 2 * 32768 * 768 * 16 / 3.5e11
    assert table_host_seconds(shape, target) == pytest.approx(search + 8 * 32768 * 2304 / 1e11)
    fastest = min(int8_products(shape, PIM_DL), key=lambda c: c.seconds)
    # About 2.7 instructions a multiply-add against about 1.1 for four of them by tables.
    each = fastest.kernel * 350e6 / (32768 * 768 * 2304 / 1024)
    assert 2.65 <= each <= 2.9
    for found in int8_products(shape, PIM_DL):
        assert found.resident + found.scratch <= PIM_DL.mram
        assert found.mapping is not None
        assert not violations(product_shape(shape), found.mapping, PIM_DL)
    assert int8_products(shape, Machine.of(target, 1, mram=1000)) == []


def test_tables_that_do_not_fit_leave_the_products() -> None:
    target = find_target("v1A")
    small = Machine.of(target, 4, mram=60_000)
    layer = Layer("head", LutShape(16, 256, 256, 4096, vec=2))
    with pytest.raises(CompileError, match="head: no mapping of 256 codebooks of 256 × 4096"):
        plan([layer], small)
    found = plan([layer], small, alternatives=True)
    assert found.choices[0].what == "host"


def test_mram_shared_by_layers() -> None:
    """Less MRAM than the fastest mappings hold: other mappings, still legal, never faster."""
    layers = [Layer(f"l{i}", LutShape(2048, 96, 16, 768, vec=4)) for i in range(4)]
    machine = Machine.of(find_target("v1A"), 64)
    free = plan(layers, machine)
    tight = Machine.of(find_target("v1A"), 64, mram=(free.resident + free.scratch) * 3 // 4)
    found = plan(layers, tight)
    assert found.resident + found.scratch <= tight.mram
    assert found.seconds > free.seconds
    with pytest.raises(CompileError, match=r"R1: bytes of MRAM|do not fit MRAM together"):
        plan(layers, Machine.of(find_target("v1A"), 64, mram=20_000))
