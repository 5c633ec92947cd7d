"""Choosing layers under a budget against trying everything, and what a layer costs."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.lut_codebooks import LutSettings
from inr.analysis.lut_cost import LayerMachine, layer_cost, layer_costs, slots_per_addition
from inr.analysis.lut_select import Candidate, pareto_front, select_layers
from inr.errors import CompileError

# Whole numbers: sums are exact, and there are ties and budgets that are met exactly.
numbers = st.one_of(st.integers(0, 12).map(float), st.floats(0, 5, allow_subnormal=False))
layers_of_options = st.lists(
    st.lists(st.builds(Candidate, numbers, numbers), min_size=1, max_size=4),
    min_size=1,
    max_size=5,
)


def everything(layers: list[list[Candidate]]) -> list[tuple[float, float]]:
    return [
        (sum(option.error for option in picks), sum(option.cost for option in picks))
        for picks in product(*layers)
    ]


@settings(deadline=None, max_examples=100)
@given(layers_of_options, st.floats(0, 1), st.booleans())
def test_a_selection_is_the_best_of_all(
    layers: list[list[Candidate]], share: float, of_error: bool
) -> None:
    sums = everything(layers)
    if not of_error:
        sums = [(cost, error) for error, cost in sums]
    least, most = min(s[0] for s in sums), max(s[0] for s in sums)
    budget = least + share * (most - least)
    found = select_layers(layers, **{"error" if of_error else "cost": budget})
    limited, goal = (found.error, found.cost) if of_error else (found.cost, found.error)
    # What is met to the last bit may be missed by rounding, in the choice as in the sums here.
    within = [g for w, g in sums if w <= budget * (1 - 1e-12)]
    assert limited <= budget * (1 + 1e-8) + 1e-12
    if within:
        assert goal <= min(within) + 1e-7
    assert goal >= min(g for w, g in sums if w <= budget * (1 + 1e-8) + 1e-12) - 1e-12
    picked = [options[pick] for options, pick in zip(layers, found.picks, strict=True)]
    assert sum(option.error for option in picked) == pytest.approx(found.error)
    assert sum(option.cost for option in picked) == pytest.approx(found.cost)


@settings(deadline=None, max_examples=60)
@given(layers_of_options)
def test_the_front_is_what_nothing_beats(layers: list[list[Candidate]]) -> None:
    sums = everything(layers)
    front = [(point.error, point.cost) for point in pareto_front(layers)]
    assert [cost for _, cost in front] == sorted({cost for _, cost in front})
    for error, cost in front:
        assert not any(e < error - 1e-9 and c <= cost for e, c in sums)
        assert any(e == pytest.approx(error) and c == pytest.approx(cost) for e, c in sums)
    for error, cost in sums:
        assert any(e <= error + 1e-9 and c <= cost + 1e-9 for e, c in front)


def test_a_front_that_grows_too_long_is_thinned() -> None:
    layers = [[Candidate(2.0**-i, 0.0), Candidate(0.0, 2.0**-i)] for i in range(12)]
    assert len(pareto_front(layers, limit=10**6)) == 4096
    thin = pareto_front(layers, limit=50)
    assert len(thin) == 50
    assert thin[0].error == pytest.approx(2 - 2.0**-11)
    assert thin[-1].error == 0


def test_a_whole_model() -> None:
    # 144 layers: no point of the front, which is thinned on the way, is better than the solver's.
    layers = [
        [Candidate(e * (1 + i % 7), c * (1 + i % 5)) for e, c in ((0, 10), (1, 6), (3, 4), (9, 3))]
        for i in range(144)
    ]
    found = select_layers(layers, error=400.0)
    assert found.error <= 400
    for point in pareto_front(layers):
        if point.error <= 400:
            assert found.cost <= point.cost + 1e-6


def test_refusals() -> None:
    options = [Candidate(1.0, 5.0, "V4"), Candidate(0.5, 9.0, "V2")]
    with pytest.raises(CompileError, match=r"for 2 layers has a total error of 0.9 .* least is 1$"):
        select_layers([options, options], error=0.9)
    with pytest.raises(CompileError, match=r"total cost of 9 or less; the least is 10"):
        select_layers([options, options], cost=9)
    with pytest.raises(CompileError, match="total error of nan or less"):
        select_layers([options], error=float("nan"))
    with pytest.raises(CompileError, match="one budget: either of error or of cost"):
        select_layers([options])
    with pytest.raises(CompileError, match="one budget: either of error or of cost"):
        select_layers([options], error=1, cost=1)
    with pytest.raises(CompileError, match="layer 1 has no options"):
        select_layers([options, []], error=1)
    with pytest.raises(CompileError, match=r"layer 0, option 'V1': cost -1\.0"):
        select_layers([[Candidate(0.0, -1.0, "V1")]], error=1)
    with pytest.raises(CompileError, match="layer 0, option 'V1': error nan"):
        pareto_front([[Candidate(float("nan"), 1.0, "V1")]])


def test_no_layers_cost_nothing() -> None:
    assert select_layers([], error=0).picks == ()
    assert pareto_front([])[0].cost == 0


@pytest.fixture
def server() -> LayerMachine:
    return LayerMachine.of("pim-dl")


@pytest.mark.parametrize("choice", [LutSettings(), LutSettings(residual=4), "int8", None])
def test_cost_grows_with_the_layer(choice: LutSettings | None, server: LayerMachine) -> None:
    base = layer_cost(4096, 768, 768, choice, server)
    assert base > 0
    for rows, height, width in ((65536, 768, 768), (4096, 6144, 768), (4096, 768, 6144)):
        assert layer_cost(rows, height, width, choice, server) > base


def test_fewer_codebooks_and_narrower_entries_add_less(server: LayerMachine) -> None:
    def kernel(settings: LutSettings) -> float:
        return layer_costs(32768, 768, 3072, settings, server).kernel

    assert kernel(LutSettings(vec=4)) == pytest.approx(kernel(LutSettings(vec=2)) / 2)
    assert kernel(LutSettings(bits=5)) < kernel(LutSettings(bits=8))
    # Lanes of 8 bits take four entries of 6 or of 5 bits.
    assert slots_per_addition(5, 256) == slots_per_addition(6, 256) < slots_per_addition(7, 256)
    assert slots_per_addition(7, 256) < slots_per_addition(8, 256)


def test_a_product_of_bytes_is_slower_than_tables_and_small_batches_stay_on_the_host(
    server: LayerMachine,
) -> None:
    tables, product_of_bytes, host = (
        layer_cost(32768, 3072, 768, choice, server) for choice in (LutSettings(), "int8", None)
    )
    assert tables < host < product_of_bytes
    assert layer_cost(1, 768, 768, None, server) < layer_cost(1, 768, 768, LutSettings(), server)


def test_the_kernel_counts_every_addition_once(server: LayerMachine) -> None:
    # Rows and columns that divide evenly: additions over DPUs, each of so many slots.
    cost = layer_costs(32768, 768, 768, LutSettings(), server)
    additions = 32768 * 192 * 768 / server.target.dpus
    expected = additions * slots_per_addition(8, 16) / (server.target.clock_mhz * 1e6)
    assert cost.kernel == pytest.approx(expected)


def test_what_does_not_fit_is_refused(server: LayerMachine) -> None:
    with pytest.raises(CompileError, match="does not fit the 67108864 bytes of a DPU"):
        layer_cost(2**24, 2**20, 2**16, LutSettings(centroids=256), server)
    with pytest.raises(CompileError, match="0 rows"):
        layer_cost(0, 8, 8, None, server)
    with pytest.raises(CompileError, match="unknown UPMEM target"):
        LayerMachine.of("v9")
