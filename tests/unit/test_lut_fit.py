"""Fitting tables: each step against its definition, and the errors it must stay within."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis import lut_codebooks, lut_refit
from inr.analysis.lut_codebooks import TAIL, LutSettings, SharedCodebooks, codebooks, snap
from inr.analysis.lut_fit import (
    centre_table,
    fit_layer,
    quantise_table,
    relative_error,
    split_rows,
)
from inr.analysis.lut_layer import GRID, encode, lookup, table_limit
from inr.analysis.lut_refit import (
    agreements,
    pair_counts,
    refit_table,
    refit_weight,
    sum_by_code,
    sum_rows,
)
from inr.errors import CompileError


def correlated(rows: int, width: int, rank: int = 12, seed: int = 0) -> np.ndarray:
    """Activations as they are met: a few directions with a mean, and some noise."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(rank, width))
    x = rng.normal(size=(rows, rank)) @ mix / np.sqrt(rank)
    return (x + 0.3 * rng.normal(size=(rows, width)) + 0.5).astype(np.float32)


def weights(width: int, outputs: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(width, outputs)) / np.sqrt(width)).astype(np.float32)


def one_hot(indices: np.ndarray, count: int) -> np.ndarray:
    """Z as a dense matrix."""
    return np.eye(count)[indices].reshape(len(indices), -1)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return correlated(1500, 64), weights(64, 48)


# Codebooks and the grid.


def test_codebooks_find_separate_clusters() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [9, 0], [0, 9], [9, 9]], dtype=np.float32)
    x = np.concatenate([centres[rng.permutation(np.arange(400) % 4)] for _ in range(3)], axis=1)
    x = (x + 0.01 * rng.normal(size=x.shape)).astype(np.float32)
    points = codebooks(x, LutSettings(vec=2, centroids=4))
    assert points.shape == (3, 4, 2)
    for block in points:
        order = np.lexsort(np.rint(block).T)
        np.testing.assert_allclose(block[order], centres, atol=0.01)


def test_k_means_is_no_worse_than_what_it_starts_from_and_repeats_with_its_seed() -> None:
    x = correlated(600, 10)
    chosen = LutSettings(vec=4, centroids=8)
    points = codebooks(x, chosen)
    assert points.shape == (3, 8, 4)
    assert not points[2, :, 2:].any(), "channels past H are 0"
    np.testing.assert_array_equal(points, codebooks(x, chosen))
    assert not np.array_equal(points, codebooks(x, replace(chosen, seed=1)))
    grid, steps = snap(points, x)
    found = points[np.arange(3)[None], encode(x, grid, steps)].reshape(600, -1)[:, :10]
    rows = np.pad(x[:8], ((0, 0), (0, 2)))
    random = np.ascontiguousarray(rows.reshape(8, 3, 4).swapaxes(0, 1))
    grid, steps = snap(random, x)
    other = random[np.arange(3)[None], encode(x, grid, steps)].reshape(600, -1)[:, :10]
    assert np.sum((x - found) ** 2) < np.sum((x - other) ** 2)


def test_only_some_codebooks() -> None:
    x = correlated(200, 12)
    chosen = LutSettings(vec=4, centroids=4)
    some = codebooks(x, chosen, only=np.array([1]))
    np.testing.assert_array_equal(some[1], codebooks(x, chosen)[1])
    assert not some[[0, 2]].any()


@pytest.mark.parametrize("factor", [1e-30, 1e-6, 1e18])
def test_codebooks_of_any_magnitude(factor: float) -> None:
    x = correlated(200, 8)
    chosen = LutSettings(vec=4, centroids=4)
    scaled = codebooks((x * np.float32(factor)).astype(np.float32), chosen)
    np.testing.assert_allclose(scaled / np.float32(factor), codebooks(x, chosen), rtol=1e-3)


def test_fewer_values_than_centroids_are_exact() -> None:
    x = np.tile(np.array([[1, 2], [3, 4], [0, 0]], dtype=np.float32), (20, 1))
    fitted = fit_layer("fc", x, np.eye(2), None, LutSettings(vec=2, centroids=16, fit="kmeans"))
    assert fitted.error.vq_rel_mse < 1e-6
    assert fitted.error.rel_mse < 1e-4


def test_weighted_codebooks_spend_centroids_where_the_weight_is() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 2)).astype(np.float32)
    weight = np.array([[1.0], [0.01]], dtype=np.float32)
    chosen = LutSettings(vec=2, centroids=8)
    plain = codebooks(x, chosen, weight)
    weighted = codebooks(x, replace(chosen, weighted=True), weight)
    # All centroids along the channel that counts: wider there, nearly a line in the other.
    assert np.ptp(weighted[0, :, 1]) < 0.2 * np.ptp(plain[0, :, 1])
    assert np.ptp(weighted[0, :, 0]) > np.ptp(plain[0, :, 0])
    silent = codebooks(x, replace(chosen, weighted=True), np.zeros((2, 1), dtype=np.float32))
    np.testing.assert_allclose(silent, plain, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-38, 1e-3, 1.0, 1e30]))
def test_snapping_is_within_half_a_step(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    points = (rng.normal(size=(3, 4, 2)) * size).astype(np.float32)
    grid, steps = snap(points)
    assert np.abs(grid).max() == GRID or size == 1e-38
    wide = steps.astype(np.float64)[:, None, None]
    assert np.all(np.abs(grid * wide - points) <= wide * 0.501)


def test_an_outlier_does_not_coarsen_the_grid_but_a_centroid_does() -> None:
    x = correlated(4000, 8)
    points = codebooks(x, LutSettings(vec=4, centroids=4))
    _, usual = snap(points, x)
    x[17, 0] = 1e6
    _, steps = snap(points, x)
    np.testing.assert_allclose(steps, usual, rtol=0.02)
    inside = np.abs(x.reshape(4000, 2, 4)) <= steps[None, :, None] * GRID
    assert np.all(inside.mean(axis=(0, 2)) >= 1 - TAIL - 1e-4)
    points[0, 0, 0] = 1e6
    grid, steps = snap(points, x)
    assert grid[0, 0, 0] == GRID
    assert steps[0] == pytest.approx(1e6 / GRID)


def test_a_codebook_of_zeros_has_a_step() -> None:
    grid, steps = snap(np.zeros((2, 3, 4), dtype=np.float32), np.zeros((5, 8), dtype=np.float32))
    assert not grid.any()
    assert steps.tolist() == [1, 1]


# Refit.


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 5), st.integers(1, 6))
def test_sums_and_counts_are_products_with_one_hot_codes(
    seed: int, rows: int, blocks: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    indices = rng.integers(count, size=(rows, blocks)).astype(np.uint8)
    table = rng.integers(-9, 9, size=(blocks, count, 3)).astype(np.float32)
    y = rng.integers(-9, 9, size=(rows, 3)).astype(np.float32)
    codes = one_hot(indices, count)
    np.testing.assert_array_equal(sum_rows(indices, table), codes @ table.reshape(-1, 3))
    np.testing.assert_array_equal(
        sum_by_code(indices, y, count), (codes.T @ y).reshape(blocks, count, 3)
    )
    np.testing.assert_array_equal(np.tril(pair_counts(indices, count)), np.tril(codes.T @ codes))
    np.testing.assert_array_equal(np.tril(agreements(indices)), np.tril(codes @ codes.T))


@pytest.mark.parametrize("rows", [40, 400])
@pytest.mark.parametrize("direct", [True, False])
def test_refit_is_the_ridge_regression(
    rows: int, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both systems and the gradients against NumPy's least squares with λ as extra rows."""
    rng = np.random.default_rng(rows)
    indices = rng.integers(6, size=(rows, 10)).astype(np.uint8)
    prior = rng.normal(size=(10, 6, 5)).astype(np.float32)
    truth = prior + 0.3 * rng.normal(size=prior.shape).astype(np.float32)
    held = rng.integers(6, size=(200, 10)).astype(np.uint8)
    y = sum_rows(indices, truth) + rng.normal(size=(rows, 5)).astype(np.float32)
    if not direct:
        monkeypatch.setattr(lut_refit, "DIRECT", 0)
    found = refit_table(indices, y, prior, held, sum_rows(held, truth))
    codes = one_hot(indices, 6)

    def ridge(size: float) -> np.ndarray:
        left = np.concatenate([codes, np.sqrt(size) * np.eye(60)])
        right = np.concatenate([y - codes @ prior.reshape(-1, 5), np.zeros((60, 5))])
        return prior + np.linalg.lstsq(left, right)[0].reshape(10, 6, 5)

    def error(table: np.ndarray) -> float:
        return float(np.sum((one_hot(held, 6) @ (truth - table).reshape(-1, 5)) ** 2))

    unit = rows / 6
    if direct:
        np.testing.assert_allclose(found.table, ridge(found.ridge), atol=1e-4)
        # The one of least error on held-out rows, up to where that has a single valley.
        assert found.ridge in [pytest.approx(m * unit) for m in lut_refit.RIDGES]
        assert found.error <= error(ridge(3.0 * unit)) * 1.001
    else:
        # Stopped early, it is as good as the solution on the rows that it stops by.
        assert found.error <= error(ridge(found.ridge)) * 1.05
    assert found.error == pytest.approx(error(found.table), rel=1e-3)


def test_gradients_reach_the_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    indices = rng.integers(4, size=(300, 6)).astype(np.uint8)
    rest = rng.normal(size=(300, 3)).astype(np.float32)
    *_, (_, last) = lut_refit._gradients(indices, rest, 4, 2.0)
    codes = one_hot(indices, 4)
    expected = np.linalg.solve(codes.T @ codes + 2 * np.eye(24), codes.T @ rest)
    np.testing.assert_allclose(last.reshape(24, 3), expected, atol=1e-4)


def test_codes_that_were_never_met_keep_their_rows() -> None:
    rng = np.random.default_rng(0)
    indices = rng.integers(3, size=(100, 2)).astype(np.uint8)
    prior = rng.normal(size=(2, 5, 4)).astype(np.float32)
    y = rng.normal(size=(100, 4)).astype(np.float32)
    found = refit_table(indices, y, prior, indices, y)
    np.testing.assert_allclose(found.table[:, 3:], prior[:, 3:], atol=1e-6)
    assert not np.allclose(found.table[:, :3], prior[:, :3])


def test_refit_helps_on_correlated_inputs_and_is_dropped_where_it_does_not(
    data: tuple[np.ndarray, np.ndarray],
) -> None:
    x, weight = data
    helped = fit_layer("fc", x, weight, None, LutSettings()).error
    assert helped.refit_used
    assert helped.rel_mse < 0.85 * helped.vq_rel_mse
    # White inputs and few of them: nothing to learn from one codebook about another.
    white = np.random.default_rng(0).normal(size=(60, 64)).astype(np.float32)
    kept = fit_layer("fc", white, weight, None, LutSettings(seed=3)).error
    assert kept.rel_mse <= kept.vq_rel_mse * 1.001
    plain = fit_layer("fc", x, weight, None, LutSettings(fit="kmeans")).error
    assert not plain.refit_used
    assert plain.vq_rel_mse == helped.vq_rel_mse


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 3), st.sampled_from([40, 400]))
def test_refit_weight_is_the_ridge_regression(seed: int, outputs: int, rows: int) -> None:
    """Against NumPy's least squares with λ as extra rows, and an unknown shift as a column."""
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=(rows, 8)) + rng.normal(size=8)).astype(np.float32)
    prior = rng.normal(size=(8, outputs)).astype(np.float32)
    truth = prior + rng.normal(size=prior.shape)
    y = (values @ truth + 3 + rng.normal(size=(rows, outputs))).astype(np.float32)
    held = rng.normal(size=(50, 8)).astype(np.float32)
    held_y = (held @ truth + 3).astype(np.float32)
    found = refit_weight(values, y, prior, held, held_y)
    centred = values - values.mean(axis=0)
    rest = y - values @ prior
    left = np.concatenate([centred, np.sqrt(found.ridge) * np.eye(8)])
    right = np.concatenate([rest - rest.mean(axis=0), np.zeros((8, outputs))])
    change = np.linalg.lstsq(left, right)[0]
    np.testing.assert_allclose(found.weight, prior + change, atol=1e-3)
    np.testing.assert_allclose(
        found.shift, rest.mean(axis=0) - values.mean(axis=0) @ change, atol=1e-3
    )
    off = held @ found.weight + found.shift - held_y
    assert found.error == pytest.approx(float(np.sum(off**2)), rel=1e-2)


def test_outputs_to_reach_and_groups() -> None:
    """A layer whose inputs have an error is fitted towards what it would put out without."""
    rng = np.random.default_rng(7)
    true = (rng.normal(size=(1500, 5)) @ rng.normal(size=(5, 16))).astype(np.float32)
    # An error that inputs tell: the same matrix, off the identity, for all rows.
    x = true + (true @ (0.2 * rng.normal(size=(16, 16)))).astype(np.float32)
    weight = rng.normal(size=(16, 8)).astype(np.float32)
    bias = rng.normal(size=8).astype(np.float32)
    target = true @ weight + bias
    groups = np.arange(1500) // 50
    chosen = LutSettings(vec=2, centroids=32)
    plain = fit_layer("fc", x, weight, bias, chosen)
    found = fit_layer("fc", x, weight, bias, chosen, target=target, groups=groups)
    off, mine = (relative_error(target, f.layer(x)) for f in (plain, found))
    assert mine < 0.3 * off
    assert found.error.rel_mse < 0.3 * found.error.vq_rel_mse
    with pytest.raises(CompileError, match=r"fc: outputs to reach of shape \(1500, 7\) for 1500"):
        fit_layer("fc", x, weight, bias, chosen, target=target[:, :7])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(0, 99))
def test_groups_are_never_torn(groups: list[int], seed: int) -> None:
    fit, held = split_rows(len(groups), LutSettings(seed=seed, holdout=0.3), groups)
    assert sorted([*fit, *held]) == list(range(len(groups)))
    assert len(held)
    if len(set(groups)) > 1:
        assert len(fit)
        assert not {groups[i] for i in fit} & {groups[i] for i in held}


def test_layers_of_one_input_share_codebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    shared = SharedCodebooks(kept=2)
    weights = [np.random.default_rng(i).normal(size=(8, 3)).astype(np.float32) for i in range(2)]
    alone = [fit_layer("fc", x, w, None, LutSettings()).layer for w in weights]
    calls: list[int] = []
    real = lut_codebooks.codebooks
    monkeypatch.setattr(
        lut_codebooks, "codebooks", lambda *a, **k: calls.append(1) or real(*a, **k)
    )
    for layer, weight in zip(alone, weights, strict=True):
        found = fit_layer("fc", x, weight, None, LutSettings(), shared=shared).layer
        np.testing.assert_array_equal(found.centroids, layer.centroids)
        np.testing.assert_array_equal(found.table, layer.table)
    assert len(calls) == 1
    # Other rows, settings or a metric of the weight's own are other codebooks.
    fit_layer("fc", 2 * x, weights[0], None, LutSettings(), shared=shared)
    fit_layer("fc", x, weights[0], None, LutSettings(seed=1), shared=shared)
    fit_layer("fc", x, weights[0], None, LutSettings(weighted=True), shared=shared)
    assert len(calls) == 4
    fit_layer("fc", x, weights[0], None, LutSettings(), shared=shared)  # Pushed out by the others.
    assert len(calls) == 5


# Integers.


@pytest.mark.parametrize(("bits", "limit"), [(8, 1e-3), (6, 2e-3), (5, 8e-3), (4, 4e-2)])
def test_what_integers_add(bits: int, limit: float, data: tuple[np.ndarray, np.ndarray]) -> None:
    x, weight = data
    error = fit_layer("fc", x, weight, None, LutSettings(bits=bits)).error
    assert 0 < error.quant_rel_mse < limit
    finer = fit_layer("fc", x, weight, None, LutSettings(bits=min(8, bits + 1))).error
    assert bits == 8 or finer.quant_rel_mse < 0.6 * error.quant_rel_mse


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(4, 8), st.booleans())
def test_entries_are_within_half_a_unit(seed: int, bits: int, per_tensor: bool) -> None:
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.integers(-30, 20, size=5)
    table = (rng.normal(size=(3, 4, 5)) * sizes).astype(np.float32)
    entries, scale = quantise_table(table, bits, per_tensor=per_tensor)
    assert entries.dtype == np.int8
    assert np.abs(entries).max() == table_limit(bits)
    assert len(set(scale.tolist())) == 1 or not per_tensor
    error = np.abs(entries.astype(np.float64) * scale - table)
    assert np.all(error <= 0.5001 * scale)


@pytest.mark.parametrize("per_tensor", [False, True])
@pytest.mark.parametrize("bits", [4, 5, 8])
def test_a_clipped_largest_entry_lowers_the_error_of_what_is_met(
    bits: int, per_tensor: bool
) -> None:
    rng = np.random.default_rng(bits)
    table = rng.normal(size=(100, 16, 9)).astype(np.float32)
    counts = rng.integers(0, 50, size=(100, 16))

    def error(entries: np.ndarray, scale: np.ndarray) -> float:
        return float(np.einsum("bk,bkf->", counts + 1, (entries * scale - table) ** 2))

    plain, plain_scale = quantise_table(table, bits, per_tensor=per_tensor)
    clipped, scale = quantise_table(table, bits, per_tensor=per_tensor, counts=counts)
    assert np.all(scale <= plain_scale * 1.0001)
    assert error(clipped, scale) <= error(plain, plain_scale)
    if bits < 8:
        assert error(clipped, scale) < error(plain, plain_scale)
    # An entry that is met all the time is not clipped, however large.
    table[3, 4], counts[3, 4] = 100, 10**6
    kept, scale = quantise_table(table, bits, per_tensor=per_tensor, counts=counts)
    np.testing.assert_allclose(kept[3, 4] * scale, 100, rtol=1e-5)


def test_columns_of_zeros_and_of_tiny_numbers() -> None:
    table = np.zeros((2, 3, 3), dtype=np.float32)
    table[0, 0, 1], table[1, 2, 2] = 1e-45, -3
    entries, scale = quantise_table(table, 8)
    assert not entries[:, :, :2].any()
    assert scale[0] == 1
    assert np.all(scale > 0)
    assert entries[1, 2, 2] == -127


def test_centring_changes_no_sum_and_halves_one_sided_tables() -> None:
    rng = np.random.default_rng(0)
    table = rng.uniform(0, 1, size=(6, 16, 4)).astype(np.float32)
    centred, moved = centre_table(table)
    indices = rng.integers(16, size=(50, 6)).astype(np.uint8)
    np.testing.assert_allclose(
        sum_rows(indices, centred) + moved, sum_rows(indices, table), atol=1e-5
    )
    assert np.abs(centred).max() <= 0.5
    np.testing.assert_allclose(centred.max(axis=1), -centred.min(axis=1), atol=1e-6)


# A layer as a whole.


@pytest.mark.parametrize("width", [64, 61])
@pytest.mark.parametrize("residual", [0, 5])
def test_errors_are_those_of_the_layer(width: int, residual: int) -> None:
    x, weight = correlated(900, width), weights(width, 40)
    bias = np.linspace(-2, 2, 40).astype(np.float32)
    chosen = LutSettings(residual=residual, seed=4)
    fitted = fit_layer("fc", x, weight, bias, chosen)
    _, held = split_rows(900, chosen)
    y = x[held] @ weight
    assert relative_error(y, fitted.layer(x[held]) - bias) == pytest.approx(
        fitted.error.rel_mse, rel=1e-3
    )
    assert (fitted.error.acc_low, fitted.error.acc_high) == fitted.layer.range
    sums = lookup(fitted.layer.encode(x), fitted.layer.table)
    assert fitted.error.acc_low <= sums.min() < sums.max() <= fitted.error.acc_high
    assert fitted.error.table_bytes == fitted.layer.table.nbytes
    assert fitted.error.rel_mse < 0.5
    # The table as numbers goes with the layer's own bias.
    as_numbers = sum_rows(fitted.layer.encode(x[held]), fitted.float_table) + fitted.float_bias
    if fitted.layer.channels is not None:
        as_numbers += x[held][:, fitted.layer.channels] @ fitted.layer.residual
    difference = _squares(as_numbers - fitted.layer(x[held])) / _squares(y)
    assert difference == pytest.approx(fitted.error.quant_rel_mse, rel=1e-2)


def _squares(values: np.ndarray) -> float:
    return float(np.sum(values.astype(np.float64) ** 2))


def test_a_channel_that_would_set_every_unit_is_multiplied_exactly() -> None:
    """One input is rarely there, and then reaches beyond all others: bytes cannot hold both."""
    rng = np.random.default_rng(11)
    x, weight = correlated(3000, 128), weights(128, 12)
    x[:, 13] = 300 * (rng.random(3000) < 0.03) * rng.uniform(0.5, 1, 3000)
    found = fit_layer("fc", x, weight, None, LutSettings())
    assert found.layer.channels is not None
    assert found.layer.channels.tolist() == [13]
    np.testing.assert_array_equal(found.layer.residual, weight[[13]])
    without = fit_layer("fc", x, weight, None, LutSettings(residual=0))
    assert without.layer.channels is None
    assert without.error.quant_rel_mse > 1e-3 > found.error.quant_rel_mse
    # Without need there is none, and coarser entries are what their user asked for.
    plain = fit_layer("fc", correlated(3000, 128), weight, None, LutSettings())
    assert plain.layer.channels is None
    assert fit_layer("fc", x, weight, None, LutSettings(bits=6)).layer.channels is None


def test_residual_channels_are_those_that_cost_most() -> None:
    x, weight = correlated(1200, 32), weights(32, 40)
    x[:, [5, 18]] *= 40
    plain = fit_layer("fc", x, weight, None, LutSettings())
    found = fit_layer("fc", x, weight, None, LutSettings(residual=2))
    assert found.layer.channels is not None
    assert found.layer.channels.tolist() == [5, 18]
    np.testing.assert_array_equal(found.layer.residual, weight[[5, 18]])
    centroids = found.layer.centroids.reshape(8, 16, 4)
    assert not centroids[5 // 4, :, 5 % 4].any()
    assert not centroids[18 // 4, :, 18 % 4].any()
    assert found.error.rel_mse < 0.2 * plain.error.rel_mse
    # All channels: the product itself.
    exact = fit_layer("fc", x, weight, None, LutSettings(residual=32))
    assert exact.error.rel_mse < 1e-10


def test_more_centroids_and_fewer_channels_lower_the_error(
    data: tuple[np.ndarray, np.ndarray],
) -> None:
    x, weight = data

    def error(vec: int, count: int) -> float:
        chosen = LutSettings(vec=vec, centroids=count, fit="kmeans")
        return fit_layer("fc", x, weight, None, chosen).error.rel_mse

    assert error(2, 64) < error(2, 16) < error(4, 16) < error(4, 4)


def test_dtypes_progress_and_repetition() -> None:
    x, weight = correlated(300, 16), weights(16, 8)
    told: list[float] = []
    first = fit_layer("fc", x, weight, None, LutSettings(), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1
    second = fit_layer("fc", x.astype(np.float64), weight.tolist(), None, LutSettings())
    np.testing.assert_array_equal(first.layer.table, second.layer.table)
    half = fit_layer("fc", x.astype(np.float16), weight.astype(np.float16), None, LutSettings())
    assert half.error.rel_mse == pytest.approx(first.error.rel_mse, rel=0.2)
    assert first.layer.bias is not None, "the table's centre"


def test_constant_inputs_are_exact_and_zeros_have_no_error() -> None:
    weight = weights(8, 6)
    constant = np.full((50, 8), 0.7, dtype=np.float32)
    assert fit_layer("fc", constant, weight, None, LutSettings()).error.rel_mse < 1e-6
    nothing = fit_layer("fc", 0 * constant, weight, None, LutSettings())
    assert nothing.error.rel_mse == 0
    assert not nothing.layer(0 * constant).any()
    silent = fit_layer("fc", constant, 0 * weight, np.ones(6), LutSettings())
    np.testing.assert_array_equal(silent.layer(constant), 1)


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"centroids": 0}, "0 centroids a codebook"),
    ({"centroids": 257}, "257 centroids a codebook; an index is one byte, 1 to 256"),
    ({"vec": 0}, "0 channels a codebook; at least 1"),
    ({"bits": 3}, "table entries of 3 bits; 4 to 8"),
    ({"bits": 9}, "table entries of 9 bits; 4 to 8"),
    ({"fit": "magic"}, "no fit is named 'magic'"),
    ({"residual": -1}, "-1 residual channels"),
    ({"seed": -1}, "a seed of -1"),
    ({"holdout": 0.0}, "0.0 of the rows held out"),
    ({"holdout": 1.0}, "1.0 of the rows held out"),
]


@pytest.mark.parametrize(("given_settings", "message"), REFUSALS)
def test_settings_are_checked(given_settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        LutSettings(**given_settings)


def test_bad_input_is_refused_with_the_layers_name() -> None:
    x, weight = correlated(100, 8), weights(8, 6)
    with pytest.raises(CompileError, match=r"fc1: 18 calibration rows, 14 to fit and 4 held out"):
        fit_layer("fc1", x[:18], weight, None, LutSettings())
    with pytest.raises(CompileError, match=r"fc1: 0 calibration rows"):
        fit_layer("fc1", x[:0], weight, None, LutSettings())
    broken = x.copy()
    broken[3, 4] = np.nan
    with pytest.raises(CompileError, match="fc1: 1 of 800 numbers of the calibration rows"):
        fit_layer("fc1", broken, weight, None, LutSettings())
    with pytest.raises(CompileError, match="fc1: 48 of 48 numbers of the weight are not finite"):
        fit_layer("fc1", x, np.full((8, 6), 1e300), None, LutSettings())
    with pytest.raises(CompileError, match=r"fc1: rows of shape .* and a weight of shape"):
        fit_layer("fc1", x, weight.T, None, LutSettings())
    with pytest.raises(CompileError, match=r"fc1: a bias of shape \(5,\) for 6 outputs"):
        fit_layer("fc1", x, weight, np.zeros(5), LutSettings())
    with pytest.raises(CompileError, match="fc1: 9 residual channels of 8 inputs"):
        fit_layer("fc1", x, weight, None, LutSettings(residual=9))
    with pytest.raises(CompileError, match=r"fc1: a weight of shape \(8, 0\) has no table"):
        fit_layer("fc1", x, weight[:, :0], None, LutSettings())


def test_the_bias_takes_back_what_rounding_adds_on_average() -> None:
    rng = np.random.default_rng(5)
    x = np.maximum(rng.normal(size=(1200, 32)) - 1, 0).astype(np.float32)
    weight = rng.normal(size=(32, 6)).astype(np.float32)
    settings = LutSettings(vec=4, centroids=16, bits=5, fit="kmeans")
    fitted = fit_layer("relu", x, weight, None, settings)
    rows, _ = split_rows(len(x), settings)
    numbers = sum_rows(fitted.layer.encode(x[rows]), fitted.float_table) + fitted.float_bias
    mean = np.abs((fitted.layer(x[rows]) - numbers).mean(axis=0))
    uncorrected = np.abs(fitted.layer.bias - fitted.float_bias)
    assert np.all(mean < 1e-4)
    assert uncorrected.max() > 1e-2
