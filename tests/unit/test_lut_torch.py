"""inr.lut: the module of tables, converting models, what is refused."""

import re
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inr import lut
from inr.analysis.lut_layer import GRID, LutLayer, encode, lookup, table_limit
from inr.errors import CompileError
from inr.lut import ops
from inr.lut.attention import SplitAttention
from inr.lut.capture import Reservoir
from inr.lut.sites import sites
from threadpoolctl import threadpool_limits
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::inr.lut.LutWarning")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Layers this small are no work for several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


def random_layer(rng, width, vec, count, outputs, bits=8, bias=True, residual=0):
    blocks = -(-width // vec)
    limit = table_limit(bits)
    channels = np.sort(rng.choice(width, residual, replace=False)).astype(np.int32)
    return LutLayer(
        "layer",
        width,
        # Few values, so that several centroids are often equally near.
        rng.integers(-3, 4, (blocks, count, vec)).astype(np.int16) * rng.choice([1, 600]),
        rng.uniform(0.001, 0.01, blocks).astype(np.float32),
        rng.integers(-limit, limit + 1, (blocks, count, outputs)).astype(np.int8),
        rng.uniform(0.001, 0.1, outputs).astype(np.float32),
        rng.normal(size=outputs).astype(np.float32) if bias else None,
        bits,
        channels if residual else None,
        rng.normal(size=(residual, outputs)).astype(np.float32) if residual else None,
    )


def correlated(rows, width, seed=0, rank=6):
    """Activations that lie near a subspace, as those of networks do."""
    mix = torch.randn(rank, width, generator=torch.Generator().manual_seed(width))
    generator = torch.Generator().manual_seed(seed)
    noise = 0.1 * torch.randn(rows, width, generator=generator)
    return torch.randn(rows, rank, generator=generator) @ mix + noise


def network(width=12, hidden=16, outputs=6):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(),
        nn.Linear(hidden, outputs),
    ).eval()  # fmt: skip


BATCHES = [correlated(160, 12, seed) for seed in range(3)]
SMALL = lut.Policy(vec=1, centroids=16)


def convert(model, batches=BATCHES, policy=SMALL, **more):
    return lut.convert(model, batches, policy, progress=False, **more)


# --- the module ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(0, 40),
    width=st.integers(1, 20),
    vec=st.integers(1, 6),
    count=st.sampled_from([1, 2, 7, 16, 17, 256]),
    outputs=st.integers(1, 9),
    bits=st.integers(4, 8),
    bias=st.booleans(),
)
def test_module_is_the_layer_bit_for_bit(seed, rows, width, vec, count, outputs, bits, bias):
    rng = np.random.default_rng(seed)
    layer = random_layer(rng, width, vec, count, outputs, bits, bias)
    x = rng.normal(scale=rng.choice([0.01, 1, 1e6]), size=(rows, width)).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = 0
    x[rng.random(x.shape) < 0.02] = np.nan
    module = lut.LutLinear.from_layer(layer)
    t = torch.from_numpy(x)
    indices = ops.encode(t, module.centroids, module.steps)
    assert np.array_equal(indices.numpy(), layer.encode(x))
    # The path of other devices, in tensor operators.
    plain = ops.search(t, module.centroids, module.steps)
    assert np.array_equal(plain.numpy(), layer.encode(x))
    sums = ops.lookup(indices, module.table)
    assert np.array_equal(sums.numpy().astype(np.int64), lookup(layer.encode(x), layer.table))
    assert np.array_equal(module(t).numpy(), layer(x))


def test_residual_channels_and_leading_dimensions():
    rng = np.random.default_rng(0)
    layer = random_layer(rng, 10, 4, 16, 5, residual=3)
    x = rng.normal(size=(2, 3, 4, 10)).astype(np.float32)
    out = lut.LutLinear.from_layer(layer)(torch.from_numpy(x))
    assert out.shape == (2, 3, 4, 5)
    np.testing.assert_allclose(out.reshape(-1, 5), layer(x.reshape(-1, 10)), rtol=1e-5, atol=1e-5)
    assert lut.LutLinear.from_layer(layer)(torch.ones(10)).shape == (5,)


def test_sums_are_exact_at_the_bound():
    # Every entry at its limit: the largest sum that there can be, odd, so that a rounding shows.
    blocks = 2049
    table = np.full((blocks, 2, 1), 127, dtype=np.int8)
    assert ops.lookup(
        torch.zeros(1, blocks, dtype=torch.uint8), torch.from_numpy(table)
    ).item() == (127 * blocks)


def test_tables_changed_in_place_are_seen():
    rng = np.random.default_rng(1)
    first, second = (random_layer(rng, 6, 2, 4, 3) for _ in range(2))
    module = lut.LutLinear.from_layer(first)
    x = rng.normal(size=(20, 6)).astype(np.float32)
    assert np.array_equal(module(torch.from_numpy(x)).numpy(), first(x))
    module.set_layer(second)
    assert np.array_equal(module(torch.from_numpy(x)).numpy(), second(x))
    assert np.array_equal(module.layer.centroids, second.centroids)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_go_through_float32(dtype):
    rng = np.random.default_rng(2)
    module = lut.LutLinear.from_layer(random_layer(rng, 6, 2, 4, 3))
    x = torch.from_numpy(rng.normal(size=(5, 6)).astype(np.float32)).to(dtype)
    out = module(x)
    assert out.dtype == dtype
    assert torch.equal(out, module(x.float()).to(dtype))
    kinds = [b.dtype for b in module.buffers()]
    assert [b.dtype for b in module.to(dtype).buffers()] == kinds


def test_a_wrong_width_is_named():
    module = lut.LutLinear.from_layer(random_layer(np.random.default_rng(3), 6, 2, 4, 3))
    with pytest.raises(CompileError, match="layer: 7 channels for a layer of 6 inputs"):
        module(torch.zeros(2, 7))


def test_export_keeps_one_operator_with_its_tables():
    converted = convert(network())
    batch = BATCHES[0]
    program = torch.export.export(converted, (batch,))
    calls = [n for n in program.graph.nodes if n.target is torch.ops.inr.lut_linear.default]
    assert len(calls) == 3
    assert torch.equal(program.module()(batch), converted(batch))


# --- which layers ----------------------------------------------------------------------------


def test_policy_selects_by_name():
    named = sites(network())
    assert [s.name for s in named] == ["0", "2", "4"]
    chosen = lut.Policy(
        exclude="^0$", overrides={".*": {"bits": 6}, "4": {"vec": 2}}
    ).choose(named)  # fmt: skip
    assert {n: (s.vec, s.bits) for n, s in chosen.items()} == {"2": (4, 6), "4": (2, 6)}
    assert set(lut.Policy(overrides={"2": None}).choose(named)) == {"0", "4"}


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda: lut.Policy(include="nothing"), "selects no layer.*the model has 0, 2, 4"),
        (lambda: lut.Policy(overrides={".*": None}), "leave every selected layer"),
        (lambda: lut.Policy(include="("), "pattern '\\('"),
        (lambda: lut.Policy(overrides={"0": {"depth": 3}}), "no setting is named depth"),
        (lambda: lut.Policy(centroids=257), "257 centroids"),
        (lambda: lut.Policy(overrides={"0": {"centroids": 300}}), "300 centroids"),
        (lambda: lut.Auto(), "budget"),
        (lambda: lut.Auto(error=0.1, cost=1.0), "budget"),
        (lambda: lut.Auto(error=-1), "error budget of -1"),
        (lambda: "v4k16", "'v4k16'"),
    ],
)
def test_policies_that_are_none(policy, message):
    with pytest.raises(CompileError, match=message):
        convert(network(), policy=policy())


def test_model_without_linear_layers():
    with pytest.raises(CompileError, match="no linear layer"):
        convert(nn.Sequential(nn.ReLU()))


# --- models ----------------------------------------------------------------------------------


def close(converted, model, *inputs, most=0.1):
    """The outputs are near each other, and not the same: tables really run."""
    with torch.no_grad():
        a, b = converted(*inputs), model(*inputs)
    a, b = (x[0] if isinstance(x, tuple) else x for x in (a, b))
    error = float((a - b).square().sum() / b.square().sum())
    assert 0 < error < most
    return error


def test_original_stays_and_tables_are_near():
    model = network()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    converted = convert(model)
    assert set(lut.layers(converted)) == {"0", "2", "4"}
    assert not lut.layers(model)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    close(converted, model, correlated(50, 12, 9))


def test_model_that_is_one_layer():
    model = nn.Linear(12, 5).eval()
    converted = convert(model)
    assert isinstance(converted, lut.LutLinear)
    close(converted, model, correlated(50, 12, 9))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("extras", [{}, {"add_bias_kv": True, "add_zero_attn": True}])
@pytest.mark.parametrize("kdim", [None, 12])
def test_split_attention_is_attention(batch_first, need_weights, extras, kdim):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(
        16, 4, batch_first=batch_first, kdim=kdim, vdim=kdim, **extras
    ).eval()
    with torch.no_grad():
        model.in_proj_bias.normal_()
        model.out_proj.bias.normal_()
    split = SplitAttention(model)
    batch, target, source = 3, 5, 7
    query, key = torch.randn(batch, target, 16), torch.randn(batch, source, kdim or 16)
    inputs = [query, key, key]
    padding = (torch.arange(source) > 4).expand(batch, source)
    masks = [None, torch.randn(target, source), torch.randn(batch * 4, target, source)]
    masks.append(torch.arange(source)[None] > torch.arange(target)[:, None] + 1)
    for mask in masks:
        for pad in (None, padding if mask is None or mask.dtype == torch.bool else None):
            for batched in (True, False):
                args = inputs if batch_first else [t.transpose(0, 1) for t in inputs]
                more = {"attn_mask": mask, "key_padding_mask": pad, "need_weights": need_weights}
                if not batched:
                    args = [t[0] for t in inputs]
                    more["key_padding_mask"] = None if pad is None else pad[0]
                    more["attn_mask"] = mask[:4] if mask is not None and mask.dim() == 3 else mask
                for average in (True, False):
                    ours, theirs = (
                        m(*args, **more, average_attn_weights=average) for m in (split, model)
                    )
                    torch.testing.assert_close(ours[0], theirs[0])
                    torch.testing.assert_close(ours[1], theirs[1])


def test_attention_projections_become_tables():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(12, 2, batch_first=True).eval()
    batches = [(x.reshape(8, 20, 12),) * 3 for x in BATCHES]
    converted = convert(model, batches)
    assert set(lut.layers(converted)) == {"q_proj", "k_proj", "v_proj", "out_proj"}
    close(converted, model, *batches[0])
    only = convert(model, batches, lut.Policy(2, 8, include="out_proj"))
    assert set(lut.layers(only)) == {"out_proj"}


@pytest.mark.parametrize("include", [".*", "linear1", "self_attn.v_proj"])
def test_transformer_encoder_does_not_bypass_tables(include):
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(12, 2, 24, batch_first=True)
    model = nn.TransformerEncoder(block, 2).eval()
    batches = [x.reshape(8, 20, 12) for x in BATCHES]
    converted = convert(model, batches, lut.Policy(2, 8, include=include))
    with torch.no_grad():
        close(converted, model, batches[0])
    assert len(lut.layers(converted)) == {".*": 12, "linear1": 2, "self_attn.v_proj": 2}[include]
    padding = torch.arange(20).expand(8, 20) > 15
    with torch.no_grad():
        a, b = (m(batches[0], src_key_padding_mask=padding) for m in (converted, model))
    seen = ~padding
    assert float((a - b)[seen].square().mean() / b[seen].square().mean()) < 0.2


def test_language_model_of_transformers():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=12, n_layer=1, n_head=2, use_cache=False
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    tokens = torch.randint(50, (12, 16), generator=torch.Generator().manual_seed(0))
    batches = [{"input_ids": t, "attention_mask": torch.ones_like(t)} for t in tokens.split(4)]
    with pytest.warns(lut.LutWarning, match="lm_head stays as it is: its weight is the embedding"):
        converted = convert(model, batches)
    names = {"attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}
    assert set(lut.layers(converted)) == {f"transformer.h.0.{n}" for n in names}
    assert lut.layers(converted)["transformer.h.0.attn.c_attn"].out_features == 36
    out, real = converted(**batches[0]).logits, model(**batches[0]).logits
    assert 0 < float((out - real).square().sum() / real.square().sum()) < 0.5
    with pytest.raises(CompileError, match="no layer but layers tied to an embedding"):
        convert(model, batches, lut.Policy(include="lm_head"))


def test_rows_that_the_mask_leaves_out_are_not_fitted_to():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x, attention_mask):
            return self.linear(x)

    model = Masked().eval()
    x = correlated(60, 4).reshape(6, 10, 4)
    mask = torch.arange(10).expand(6, 10) < 5
    spoilt = torch.where(mask[..., None], x, torch.tensor(1e4))
    for batch in ((x, mask), {"x": x, "attention_mask": mask.long()}):
        clean = convert(model, [batch])
        other = (spoilt, mask) if isinstance(batch, tuple) else {**batch, "x": spoilt}
        assert torch.equal(convert(model, [other]).linear.centroids, clean.linear.centroids)


def test_modules_that_share():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(12, 12)
            self.b = nn.Linear(12, 12)
            self.again = self.a
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.again(torch.tanh(self.a(x))))

    torch.manual_seed(0)
    model = Shared().eval()
    converted = convert(model)
    # A module in two places stays one; a weight in two modules gets tables for each one's input.
    assert converted.again is converted.a
    assert set(lut.layers(converted)) == {"a", "b"}
    assert not torch.equal(converted.a.centroids, converted.b.centroids)
    close(converted, model, BATCHES[0])


def test_half_precision_model():
    model = network().to(torch.bfloat16)
    converted = convert(model, [b.to(torch.bfloat16) for b in BATCHES])
    out = converted(BATCHES[0].to(torch.bfloat16))
    assert out.dtype == torch.bfloat16
    real = network()(BATCHES[0])
    assert float((out.float() - real).square().sum() / real.square().sum()) < 0.1


# --- refused, or defined ---------------------------------------------------------------------


def test_width_that_is_no_multiple_is_padded():
    model = nn.Linear(7, 5).eval()
    batches = [correlated(200, 7)]
    converted = convert(model, batches, lut.Policy(4, 16))
    layer = converted.layer
    assert layer.codebooks == 2
    assert not layer.centroids[1, :, 3].any()
    close(converted, model, correlated(50, 7, 1), most=0.3)


def test_constant_columns():
    model = network()
    batches = [b.clone() for b in BATCHES]
    for b in batches:
        b[:, 3:6] = 2.0
    close(convert(model, batches), model, batches[0])


@pytest.mark.parametrize("batches", [[], iter(())])
def test_empty_calibration(batches):
    with pytest.raises(CompileError, match="no batches"):
        convert(network(), batches)


def test_calibration_that_is_no_batches():
    with pytest.raises(CompileError, match="got int"):
        convert(network(), 3)


def test_fewer_rows_than_centroids():
    with pytest.raises(CompileError, match="0: 10 calibration rows"):
        convert(network(), [correlated(10, 12)], lut.Policy(2, 16))


def test_nan_in_calibration_names_layer_and_batch():
    bad = BATCHES[1].clone()
    bad[4, 2] = torch.nan
    with pytest.raises(CompileError, match="0: its input in calibration batch 1 holds a NaN"):
        convert(network(), [BATCHES[0], bad])


def test_layer_never_called():
    class Some(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(12, 4), nn.Linear(12, 4)

        def forward(self, x):
            return self.used(x)

    model = Some().eval()
    with pytest.raises(CompileError, match="never called in calibration: unused;"):
        convert(model)


def test_train_mode_is_refused_where_it_matters():
    model = nn.Sequential(nn.Linear(12, 12), nn.Dropout(0.1)).train()
    with pytest.raises(CompileError, match=re.escape("1 (dropout of 0.1)")):
        convert(model)
    assert not convert(nn.Sequential(nn.Linear(12, 12)).train()).training


def test_large_errors_warn_and_name_layers():
    with pytest.warns(lut.LutWarning, match=r"off by .* the worst layers are \w+ \("):
        convert(network(), policy=lut.Policy(12, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convert(network(), policy=lut.Policy(1, 32))


# --- captured rows ---------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.lists(st.integers(0, 50), max_size=6), st.integers(0, 100))
def test_reservoir(capacity, sizes, seed):
    reservoir = Reservoir(capacity, seed)
    total = 0
    for size in sizes:
        reservoir.add(np.arange(total, total + size, dtype=np.float32)[:, None])
        total += size
    rows = reservoir.rows().ravel().tolist()
    assert len(rows) == min(capacity, total)
    assert rows == sorted(set(rows))
    assert all(0 <= row < total for row in rows)


def test_reservoir_is_uniform():
    hits = np.zeros(40)
    for seed in range(600):
        reservoir = Reservoir(10, seed)
        for part in np.arange(40, dtype=np.float32).reshape(8, 5, 1):
            reservoir.add(part)
        hits[reservoir.rows().ravel().astype(int)] += 1
    # 150 expected, standard deviation 10.6.
    assert np.all(np.abs(hits - 150) < 53)


def test_little_memory_gives_the_same_layers():
    model = network()
    plain, frugal = convert(model), convert(model, memory=1)
    assert all(torch.equal(a, b) for a, b in zip(plain.buffers(), frugal.buffers(), strict=True))


def test_same_seed_same_tables_and_another_differs():
    model = network()
    a, b, c = (convert(model, rows=100, seed=s) for s in (1, 1, 2))
    assert all(torch.equal(x, y) for x, y in zip(a.buffers(), b.buffers(), strict=True))
    assert not torch.equal(a[0].centroids, c[0].centroids)


def test_checkpoint_is_taken_up(tmp_path, monkeypatch):
    model = network()
    first = convert(model, checkpoint=tmp_path)
    monkeypatch.setattr("inr.lut.fitting.fit_layer", None)
    again = convert(model, checkpoint=tmp_path)
    assert all(torch.equal(x, y) for x, y in zip(first.buffers(), again.buffers(), strict=True))
    assert again[0].fitted == first[0].fitted
    with pytest.raises(TypeError):
        convert(model, checkpoint=tmp_path, policy=lut.Policy(2, 9))


def test_encode_agrees_with_numpy_where_float32_is_full():
    # Scores just below 2^24 for V = 2, where the tensor path computes in float32.
    centroids = np.array([[[GRID, GRID], [GRID, GRID - 1], [-GRID, -GRID], [GRID - 1, GRID]]])
    centroids = centroids.astype(np.int16)
    steps = np.ones(1, dtype=np.float32)
    points = [(2047, 2046.4), (-2047, -2047), (2046.6, 2045), (2046, 2046)]
    x = np.array(points, dtype=np.float32)
    found = ops.search(torch.from_numpy(x), torch.from_numpy(centroids), torch.from_numpy(steps))
    assert np.array_equal(found.numpy(), encode(x, centroids, steps))
