"""Training tables, and the automatic policy."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from inr import lut
from inr.analysis.lut_fit import centre_table, quantise_table, table_of
from inr.errors import CompileError
from inr.lut.auto import split_batches
from inr.lut.calibrate import _Matched, _Objective
from inr.lut.training import Soft, Straight, rounded
from threadpoolctl import threadpool_limits
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::inr.lut.LutWarning")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


def batches(count, rows=200, seed=0, width=16):
    """Activations near a subspace, as those of networks are."""
    mix = torch.randn(6, width, generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, 6, generator=generator) @ mix for _ in range(count)]


def network():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 8)
    )
    return model.eval()


TRAIN, HELD = batches(8), batches(3, seed=7)


@pytest.fixture(scope="module")
def kmeans():
    return lut.convert(network(), TRAIN, lut.Policy(fit="kmeans"), progress=False)


@pytest.fixture(scope="module")
def refit():
    return lut.convert(network(), TRAIN, lut.Policy(), progress=False)


def calibrate(converted, data=TRAIN, **more):
    made = copy.deepcopy(converted)
    more = {"teacher": network(), "steps": 200, **more}
    assert lut.calibrate(made, data, progress=False, **more) is made
    return made


def measured(converted):
    return lut.report(converted, HELD, network(), progress=False)


def tables(model):
    return [b for m in lut.layers(model).values() for b in m.buffers()]


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(tables(first), tables(second), strict=True))


# --- gradients -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Straight, Soft])
@pytest.mark.parametrize("which", ["kmeans", "refit"])
def test_forward_of_training_is_that_of_tables(kind, which, request):
    for module in lut.layers(request.getfixturevalue(which)).values():
        trainer = kind(module)
        x = torch.randn(50, module.in_features)
        torch.testing.assert_close(trainer(x), module(x), rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_straight_through(refit):
    """Against automatic differentiation of x̂ = C[idx] + x - constant, entries as numbers."""
    module = lut.layers(refit)["2"]
    trainer = Straight(module, train_tables=True)
    x = torch.randn(40, 32, requires_grad=True)
    goal, other = torch.randn(2, 40, 32)
    out, apart = trainer.sums(x)
    parameters = [x, trainer.points, trainer.weight, trainer.offset]
    found = torch.autograd.grad((out * goal).sum() + (apart * other).sum(), parameters)

    indices = torch.from_numpy(module.layer.encode(x.detach().numpy())).long()
    block = torch.arange(8)
    chosen = trainer.points[block, indices]
    straight = (chosen + (x - x.detach()).reshape(40, 8, 4)).reshape(40, 32)
    offset = trainer.offset[block, indices].sum(1)
    first = straight @ trainer.weight + offset
    second = chosen.reshape(40, 32) @ trainer.weight + offset
    expected = torch.autograd.grad((first * goal).sum() + (second * other).sum(), parameters)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [Straight, Soft])
def test_each_term_reaches_the_centroids_of_every_layer(kmeans, kind):
    made = copy.deepcopy(kmeans)
    trainers = {name: kind(module) for name, module in lut.layers(made).items()}
    for name, module in lut.layers(made).items():
        module.trainer = trainers[name]
    matched = _Matched(made, network(), (), 1.0)
    objective = _Objective(made, trainers, network(), None, None, 1.0, matched)
    loss, extra = objective(TRAIN[0])
    points = [t.points for t in trainers.values()]
    for term in (loss, extra):
        for gradient in torch.autograd.grad(term, points, retain_graph=True):
            moved = gradient.abs().sum(-1) > 0
            assert moved.float().mean() > 0.9  # all but centroids that no row is nearest to
    # A layer's reconstruction is its own affair: dÂ/dA = 1 cancels what its input could do.
    last = trainers["4"].reconstruction
    earlier = torch.autograd.grad(last, [trainers["0"].points], allow_unused=True)[0]
    assert earlier is None or not earlier.any()


def test_temperatures_are_learned(kmeans):
    trainer = Soft(lut.layers(kmeans)["0"])
    trainer(TRAIN[0]).square().sum().backward()
    assert (trainer.log_temperature.grad != 0).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_tables_are_rounded_in_the_loop(kmeans, bits):
    table = rounded(torch.randn(3, 16, 5), bits)
    levels = table / (table.abs().amax((0, 1)) / (2 ** (bits - 1) - 1))
    torch.testing.assert_close(levels, levels.round(), rtol=0, atol=1e-4)
    assert len(levels.round().unique()) <= 2**bits - 1


# --- training --------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "lr"), [("elut", 3e-3), ("soft", 3e-3)])
def test_training_improves_on_k_means(kmeans, method, lr):
    trained = calibrate(kmeans, method=method, lr=lr)
    assert measured(trained).error < 0.85 * measured(kmeans).error


def test_reconstruction_alone_improves_the_layers(kmeans):
    # No model loss: what is left is each layer by itself.
    trained = calibrate(
        kmeans, teacher=None, loss_fn=lambda out, batch: 0 * out.sum(), beta=1.0, lr=3e-3
    )
    before, after = (
        {x.name: x.rel_mse for x in measured(m).layers} for m in (kmeans, trained)
    )  # fmt: skip
    assert all(after[name] < before[name] for name in before)


def test_training_keeps_what_the_refit_gained(kmeans, refit):
    start = measured(refit).error
    assert start < measured(kmeans).error
    assert measured(calibrate(refit, lr=3e-3)).error < start
    # With steps far too long the start is still the best, and stays.
    wild = calibrate(refit, lr=3.0, steps=20, every=10)
    assert measured(wild).error == pytest.approx(start, rel=1e-3)


def test_what_was_trained_is_what_runs(kmeans):
    last = []
    made = copy.deepcopy(kmeans)
    lut.calibrate(
        made, TRAIN[:1], teacher=network(), steps=30, holdout=0, progress=False, log=last.append
    )
    again = lut.calibrate(
        copy.deepcopy(made), TRAIN[:1], teacher=network(), steps=1, progress=False,
        log=last.append,
    )  # fmt: skip
    found = lut.report(made, TRAIN[:1], network(), progress=False).error
    # The loss of a first step is that of the tables that it starts from.
    assert last[-1].model_loss == pytest.approx(found, rel=1e-3)
    assert lut.layers(again)["0"].trainer is None


def test_without_rounding_in_the_loop_it_is_done_once_at_the_end(kmeans, refit):
    for start in (kmeans, refit):
        trained, exact = (calibrate(start, lr=3e-3, rounding=r) for r in (False, True))
        assert measured(trained).error < measured(start).error
        assert measured(trained).error == pytest.approx(measured(exact).error, rel=0.05)
    # Centroids times a weight and nothing else: a forward is one product, without a table.
    trainers = [Straight(m, rounding=False) for m in lut.layers(kmeans).values()]
    assert [t.offset for t in trainers] == [None] * 3
    for trainer, module in zip(trainers, lut.layers(kmeans).values(), strict=True):
        x = torch.randn(50, module.in_features)
        torch.testing.assert_close(trainer(x), module(x), rtol=0.05, atol=0.05)
        found, was = trainer.layer(), module.layer
        assert np.abs(found.table * found.scale - was.table * was.scale).mean() < was.scale.mean()


def test_the_weight_of_a_table_is_found_again(kmeans):
    """A table made of another weight than the layer's: no offset is needed to stand for it."""
    module = copy.deepcopy(lut.layers(kmeans)["2"])
    layer = module.layer
    weight = torch.randn(32, 32, generator=torch.Generator().manual_seed(5))
    table, moved = centre_table(table_of(layer.points(), weight.numpy()))
    entries, scale = quantise_table(table, 8)
    module.set_layer(replace(layer, table=entries, scale=scale, bias=moved))
    trainer = Straight(module, rounding=False)
    assert trainer.offset is None
    assert float((trainer.weight.detach() - weight).square().mean()) < 1e-3
    x = torch.randn(60, 32)
    with torch.no_grad():
        off = trainer(x) - module(x)
        assert float(off.square().mean()) < 1e-3 * float(module(x).square().mean())


def test_inner_modules_are_matched(kmeans):
    """With the end left out of the loss, what comes out of the middle is what gets better."""

    def middle(model):
        with torch.no_grad():
            return sum(float((model[:3](x) - network()[:3](x)).square().sum()) for x in HELD)

    none = {"loss_fn": lambda out, goal: 0 * out.sum(), "beta": 0.0, "lr": 3e-3}
    trained = calibrate(kmeans, match="^2$", **none)
    assert middle(trained) < 0.85 * middle(kmeans)
    # The last layer has no part in it.
    assert torch.equal(trained[4].table, calibrate(kmeans, steps=1, match="^2$", **none)[4].table)
    seen = []
    for weight in (0.0, 1.0, 3.0):
        calibrate(kmeans, steps=1, match=["^0$", "2"], match_weight=weight, log=seen.append)
    first, second, third = (step.model_loss for step in seen)
    assert third - first == pytest.approx(3 * (second - first), rel=1e-4)
    with pytest.raises(CompileError, match=r"match='5' is in no module's name; there are 0, 1, 2"):
        calibrate(kmeans, match="5")
    with pytest.raises(CompileError, match=r"pattern '\(' of layer names"):
        calibrate(kmeans, match="(")
    with pytest.raises(CompileError, match="match= compares with a teacher="):
        calibrate(kmeans, match="2", teacher=None, loss_fn=lambda out, batch: out.sum())


def test_labels_and_batches_that_hold_more_than_inputs(kmeans):
    labelled = [(x, network()(x).argmax(-1).detach()) for x in TRAIN]

    def entropy(output, batch):
        return nn.functional.cross_entropy(output, batch[1])

    def loss(model):
        return float(sum(entropy(model(x), (x, y)) for x, y in labelled))

    made = calibrate(
        kmeans, labelled, loss_fn=entropy, teacher=None, inputs=lambda b: b[0], lr=3e-3
    )
    assert loss(made) < loss(kmeans)


def test_all_else_stays_and_the_mode_too(kmeans):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = copy.deepcopy(kmeans)
            self.norm = nn.LayerNorm(8)

        def forward(self, x):
            return self.norm(self.inner(x))

    made = Net().train()
    weight = made.norm.weight.clone()
    lut.calibrate(
        made, TRAIN, lambda y, x: y.square().mean() + y.mean(), steps=5, progress=False, holdout=0
    )
    assert torch.equal(made.norm.weight, weight)
    assert made.norm.weight.requires_grad
    assert made.training
    assert made.norm.weight.grad is None


def test_seed_repeats_and_checkpoint_goes_on_bit_for_bit(kmeans, tmp_path):
    path = tmp_path / "deep" / "state.pt"
    recipe = {"steps": 24, "every": 5, "train_tables": True, "seed": 3}
    whole, again = (calibrate(kmeans, **recipe) for _ in range(2))
    assert equal(whole, again)
    assert not equal(whole, calibrate(kmeans, **{**recipe, "seed": 4}))

    def stop(step):
        if step.step == 13:
            raise KeyboardInterrupt

    made = copy.deepcopy(kmeans)
    with pytest.raises(KeyboardInterrupt):
        lut.calibrate(
            made, TRAIN, teacher=network(), progress=False, checkpoint=path, log=stop, **recipe
        )
    assert equal(made, kmeans)  # nothing half trained
    seen = []
    resumed = calibrate(made, checkpoint=path, log=seen.append, **recipe)
    assert [s.step for s in seen] == list(range(11, 25))
    assert equal(resumed, whole)
    with pytest.raises(CompileError, match="other tables, batches or settings"):
        calibrate(kmeans, checkpoint=path, **{**recipe, "lr": 0.5})
    path.write_text("nothing")
    with pytest.raises(CompileError, match="is not a checkpoint"):
        calibrate(kmeans, checkpoint=path, **recipe)


@pytest.mark.parametrize("method", ["elut", "soft"])
def test_residual_channels_and_padding(method):
    model, data = nn.Linear(10, 6).eval(), batches(4, width=10)
    made = lut.convert(model, data, lut.Policy(4, 16, residual=2), progress=False)
    layer = made.layer
    lut.calibrate(made, data, teacher=model, steps=30, progress=False, method=method, holdout=0)
    after = made.layer
    assert np.array_equal(after.residual, layer.residual)
    assert not np.array_equal(after.table, layer.table)
    flat = after.centroids.transpose(0, 2, 1).reshape(12, 16)
    assert not flat[10:].any()
    assert not flat[after.channels].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"teacher": None}, "a teacher="),
        ({"method": "hard"}, "method 'hard'"),
        ({"steps": 0}, "0 steps"),
        ({"lr": 0.0}, "lr 0.0"),
        ({"data": []}, "no batches"),
        (
            {"teacher": None, "loss_fn": lambda y, b: y.sum() * torch.nan},
            "the loss of step 0 is nan",
        ),
    ],
)
def test_trainings_that_are_refused(kmeans, change, message):
    made = copy.deepcopy(kmeans)
    arguments = {"teacher": network(), "data": TRAIN, "holdout": 0, **change}
    data = arguments.pop("data")
    with pytest.raises(CompileError, match=message):
        lut.calibrate(made, data, progress=False, **arguments)
    assert equal(made, kmeans)
    assert all(m.trainer is None for m in lut.layers(made).values())


def test_models_that_cannot_be_trained(kmeans):
    with pytest.raises(CompileError, match="no layer of tables"):
        lut.calibrate(network(), TRAIN, teacher=network())
    alone = lut.LutLinear.from_layer(lut.layers(kmeans)["0"].layer)
    with pytest.raises(CompileError, match="0: calibration needs the layer's original weight"):
        lut.calibrate(alone, TRAIN, lambda y, x: y.sum())


# --- the automatic policy --------------------------------------------------------------------

CHOICES = (lut.LutSettings(4, 16), lut.LutSettings(2, 16), lut.LutSettings(1, 16))


def additions(rows, height, width, choice):
    """A cost of the test's own: multiply-adds, or additions."""
    return rows * height * width / (1 if choice is None else choice.vec * 2)


def automatic(**more):
    chosen = []
    plan = lut.Auto(CHOICES, layer_cost=additions, **more)
    made = lut.convert(network(), TRAIN, plan, progress=False, explain=chosen.append)
    return made, chosen[0]


@pytest.mark.parametrize("sensitivity", ["proxy", "measured"])
def test_error_budget_is_kept(sensitivity):
    costs = []
    for budget in (0.03, 0.1):
        made, chosen = automatic(error=budget, sensitivity=sensitivity)
        _, held = split_batches(TRAIN, 0.2)
        found = lut.report(made, held, network(), progress=False).error
        assert found == pytest.approx(chosen.error, rel=1e-3)
        assert found <= budget * 1.001
        costs.append(chosen.cost)
        assert set(chosen.settings) == set(lut.layers(made))
        assert all(options[0].choice is None for options in chosen.options.values())
    # What may be worse may be cheaper.
    assert costs[1] <= costs[0]


def test_cost_budget_beats_one_setting_for_all():
    _, chosen = automatic(cost=lut.LutSettings(4, 16))
    everywhere = {n: next(o for o in options if o.choice == lut.LutSettings(4, 16))
                  for n, options in chosen.options.items()}  # fmt: skip
    assert chosen.cost <= sum(o.cost for o in everywhere.values()) * (1 + 1e-9)
    made, roomier = automatic(cost=lut.Policy(1, 16))
    assert roomier.error < chosen.error
    assert len(lut.layers(made)) >= 1


def test_a_metric_of_ones_own_is_budgeted():
    def largest(output, reference):
        return float((output - reference).abs().max())

    _, chosen = automatic(error=0.5, metric=largest)
    assert 0 < chosen.error <= 0.5


def test_budgets_that_nothing_meets():
    with pytest.raises(CompileError, match="leaves every layer as it is: an error of 1e-09"):
        automatic(error=1e-9)
    with pytest.raises(CompileError, match="the least is"):
        automatic(cost=1e-9)
