"""
Two networks for scikit-learn's digits, 8x8 pixels of 0 to 16: an MLP and a small transformer.

Training takes seconds, so no weights are stored: the factories train, with a fixed seed. `inr-lut`
takes them with `batches` to calibrate and to judge with:

    inr-lut examples/digits/model.py:vit --calibration examples/digits/model.py:batches \\
        --policy v4k16,exclude=head --out out

Of the 1797 images 60 % are learnt from, 15 % decide what is to be chosen (widths, epochs, rates)
and a quarter is held out, which nothing is chosen by.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

BATCH = 64
COPIES = 4
"""Distorted copies of each image to calibrate with."""
TURN, SLANT, ZOOM, SHIFT = 0.2, 0.1, 0.1, 0.5
"""How far `distorted` goes: radians, a share of the height, of the size, pixels."""
SMOOTHING = 0.1
"""Of labels: on validation images, tables lose less of a network that was trained so."""


@dataclass(frozen=True)
class Part:
    """Images [n, 64] with pixels of 0 to 1, and their classes [n]."""

    images: Tensor
    classes: Tensor


@dataclass(frozen=True)
class Digits:
    """The images to learn from, those to choose by, and those held out."""

    train: Part
    validation: Part
    held_out: Part


class Mlp(nn.Module):
    """Images [batch, 64] to scores of the ten classes."""

    def __init__(self, width: int = 128):
        super().__init__()
        self.first = nn.Linear(64, width)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.hidden(torch.relu(self.first(x)))))


class Block(nn.Module):
    """A layer of a transformer that normalises before attention and before its two products."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


class Vit(nn.Module):
    """Images [batch, 64] as 4 patches of 4x4 pixels to scores of the ten classes."""

    def __init__(self, width: int = 128, heads: int = 4, depth: int = 2):
        super().__init__()
        self.patch = nn.Linear(16, width)
        self.place = nn.Parameter(torch.randn(4, width) / 2)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        patches = x.reshape(-1, 2, 4, 2, 4).transpose(2, 3).reshape(-1, 4, 16)
        x = self.patch(patches) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x).mean(dim=1))


def digits() -> Digits:
    """The three parts, 1077, 270 and 450 images, with equal shares of each class."""
    pixels, labels = load_digits(return_X_y=True)
    images, classes = torch.from_numpy(pixels / 16).float(), torch.from_numpy(labels)

    def split(rows: Tensor, share: float) -> tuple[Tensor, Tensor]:
        kept, apart = train_test_split(
            rows.numpy(), test_size=share, random_state=0, stratify=labels[rows.numpy()]
        )
        return torch.from_numpy(kept), torch.from_numpy(apart)

    rest, held_out = split(torch.arange(len(images)), 0.25)
    train, validation = split(rest, 0.2)
    parts = (Part(images[rows], classes[rows]) for rows in (train, validation, held_out))
    return Digits(*parts)


def distorted(images: Tensor, generator: torch.Generator) -> Tensor:
    """The images [n, 64], each turned, slanted, zoomed and shifted a little, by chance."""
    count = len(images)

    def up_to(size: float) -> Tensor:
        return (2 * torch.rand(count, generator=generator) - 1) * size

    angle, pixel = up_to(TURN), 2 / 8  # The picture reaches from -1 to 1.
    wide, high = 1 + up_to(ZOOM), 1 + up_to(ZOOM)
    across = (wide * angle.cos(), up_to(SLANT) - angle.sin(), up_to(SHIFT * pixel))
    down = (angle.sin(), high * angle.cos(), up_to(SHIFT * pixel))
    maps = torch.stack((torch.stack(across, dim=-1), torch.stack(down, dim=-1)), dim=1)
    places = nn.functional.affine_grid(maps, [count, 1, 8, 8], align_corners=False)
    pictures = images.reshape(count, 1, 8, 8)
    return nn.functional.grid_sample(pictures, places, align_corners=False).reshape(count, 64)


def train(model: nn.Module, part: Part, epochs: int, seed: int = 0) -> nn.Module:
    """
    AdamW on batches of distorted images, one cycle of the learning rate; the model is in eval mode
    after.

    On one thread: several add up in another order, and tables made of one training would be refused
    beside the weights of another. The batches are too small to share anyway.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _train(model, part, epochs, seed)
    finally:
        torch.set_num_threads(threads)


def _train(model: nn.Module, part: Part, epochs: int, seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    steps = epochs * -(-len(part.images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(part.images), generator=generator).split(BATCH):
            optimizer.zero_grad()
            scores = model(distorted(part.images[rows], generator))
            classes = part.classes[rows]
            nn.functional.cross_entropy(scores, classes, label_smoothing=SMOOTHING).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, part: Part) -> float:
    """The share of a part's images that the model gives their class."""
    return float((model(part.images).argmax(dim=1) == part.classes).float().mean())


def trained_mlp(seed: int = 0) -> nn.Module:
    """The MLP after 150 epochs."""
    torch.manual_seed(seed)
    return train(Mlp(), digits().train, epochs=150, seed=seed)


def trained_vit(seed: int = 0) -> nn.Module:
    """The transformer after 60 epochs."""
    torch.manual_seed(seed)
    return train(Vit(), digits().train, epochs=60, seed=seed)


def mlp() -> tuple[nn.Module, tuple[Tensor]]:
    """The MLP and four images."""
    return trained_mlp(), (digits().train.images[:4],)


def vit() -> tuple[nn.Module, tuple[Tensor]]:
    """The transformer and four images."""
    return trained_vit(), (digits().train.images[:4],)


def calibration(seed: int = 0) -> list[Tensor]:
    """
    Batches to calibrate with, which need no classes: the images that were learnt from and `COPIES`
    distorted copies of each, mixed.
    """
    generator = torch.Generator().manual_seed(1000 + seed)
    images = digits().train.images
    everything = [images, *(distorted(images, generator) for _ in range(COPIES))]
    order = torch.randperm(len(images) * len(everything), generator=generator)
    return list(torch.cat(everything)[order].split(BATCH))


def batches() -> tuple[list[Tensor], list[Tensor]]:
    """Images to calibrate with, and those held out."""
    return calibration(), list(digits().held_out.images.split(BATCH))
