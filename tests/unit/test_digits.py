"""The classifiers of digits: what they are given to learn from, and what tables cost the MLP."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

ROOT = Path(__file__).parents[2]
BOUNDS = {"v2k16": 0.02, "v4k16": 0.03}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """`examples/digits/model.py`; other examples have a `model` too."""
    spec = importlib.util.spec_from_file_location(
        "digits_example", ROOT / "examples" / "digits" / "model.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_parts_share_no_image_and_have_all_classes(example: ModuleType) -> None:
    parts = example.digits()
    everything = (parts.train, parts.validation, parts.held_out)
    assert [len(part.images) for part in everything] == [1077, 270, 450]
    pixels, labels = load_digits(return_X_y=True)
    known = {tuple(row) for row in pixels.tolist()}
    assert len(known) == len(pixels)  # So that an image is known by its pixels.
    seen = [tuple(row) for part in everything for row in (part.images * 16).tolist()]
    assert sorted(seen) == sorted(known)
    shares = torch.bincount(torch.from_numpy(labels)) / len(labels)
    for part in everything:
        found = torch.bincount(part.classes, minlength=10) / len(part.classes)
        assert (found - shares).abs().max() < 0.005


def test_held_out_images_are_a_quarter_of_all_before_any_other_split(example: ModuleType) -> None:
    pixels, labels = load_digits(return_X_y=True)
    _, quarter = train_test_split(pixels / 16, test_size=0.25, random_state=0, stratify=labels)
    assert torch.equal(example.digits().held_out.images, torch.from_numpy(quarter).float())


def test_calibration_is_made_of_the_images_that_were_learnt_from(example: ModuleType) -> None:
    images = torch.cat(example.calibration())
    parts = example.digits()
    assert len(images) == (1 + example.COPIES) * len(parts.train.images)
    given = {tuple(row) for row in images.tolist()}
    assert all(tuple(row) in given for row in parts.train.images.tolist())
    for part in (parts.validation, parts.held_out):
        assert not any(tuple(row) in given for row in part.images.tolist())
    assert torch.equal(images, torch.cat(example.calibration()))
    assert not torch.equal(images, torch.cat(example.calibration(seed=1)))


def test_distorted_images_are_near_the_originals_but_differ(example: ModuleType) -> None:
    images = example.digits().train.images[:64]
    once = example.distorted(images, torch.Generator().manual_seed(0))
    assert torch.equal(once, example.distorted(images, torch.Generator().manual_seed(0)))
    assert once.shape == images.shape
    assert once.min() >= 0
    assert once.max() <= 1 + 1e-5
    ratios = (once - images).square().sum(1) / images.square().sum(1)
    assert (ratios > 0).all()
    # Two digits drawn by chance are farther apart than a digit and its distortion.
    others = (images.roll(1, 0) - images).square().sum(1) / images.square().sum(1)
    assert ratios.mean() < others.mean() / 3


def test_no_distortion_is_the_image(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURN", "SLANT", "ZOOM", "SHIFT"):
        monkeypatch.setattr(example, name, 0.0)
    images = example.digits().train.images[:8]
    torch.testing.assert_close(
        example.distorted(images, torch.Generator().manual_seed(0)), images, atol=1e-5, rtol=0
    )


def test_training_is_the_same_on_any_number_of_threads(example: ModuleType) -> None:
    found: list[dict[str, torch.Tensor]] = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            model = example.train(example.Vit(), example.digits().train, epochs=1)
            assert torch.get_num_threads() == threads
            found.append(model.state_dict())
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_tables_of_the_mlp_cost_no_more_than_is_claimed() -> None:
    command = [sys.executable, "benchmarks/lut_digits.py", "--networks", "mlp", "--json"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    outcomes = {o["setting"]: o for o in json.loads(result.stdout)}
    assert set(outcomes) == set(BOUNDS)
    for setting, outcome in outcomes.items():
        assert outcome["layers"] == 3
        assert outcome["before"] > 0.96
        assert outcome["before"] - outcome["calibrated"] <= BOUNDS[setting]
