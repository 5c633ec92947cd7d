"""
Two networks for scikit-learn's digits, 8x8 pixels of 0 to 16: an MLP and a small transformer.

Training takes seconds, so no weights are stored: the factories train, with a fixed seed. `inr-lut`
takes them with `batches` to calibrate and to judge with:

    inr-lut examples/digits/model.py:vit --calibration examples/digits/model.py:batches \\
        --policy v4k16,exclude=head --out out
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

Split = tuple[Tensor, Tensor, Tensor, Tensor]
"""Images to learn from [n, 64], images held out, their classes."""


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
    """Images [batch, 64] as 16 patches of 2x2 pixels to scores of the ten classes."""

    def __init__(self, width: int = 128, heads: int = 4, depth: int = 2):
        super().__init__()
        self.patch = nn.Linear(4, width)
        self.place = nn.Parameter(torch.randn(16, width) / 2)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        patches = x.reshape(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, 16, 4)
        x = self.patch(patches) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x).mean(dim=1))


def digits() -> Split:
    """A quarter of the 1797 images is held out; pixels are divided by their largest value."""
    images, classes = load_digits(return_X_y=True)
    parts = train_test_split(images / 16, classes, test_size=0.25, random_state=0, stratify=classes)
    train_x, test_x, train_y, test_y = (torch.from_numpy(part) for part in parts)
    return train_x.float(), test_x.float(), train_y, test_y


def train(model: nn.Module, split: Split, epochs: int, seed: int = 0) -> nn.Module:
    """AdamW on batches of 64, one cycle of the learning rate; the model is in eval mode after."""
    images, _, classes, _ = split
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.1)
    steps = epochs * -(-len(images) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=generator).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), classes[rows]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, split: Split) -> float:
    """The share of the held-out images that the model gives their class."""
    _, images, _, classes = split
    return float((model(images).argmax(dim=1) == classes).float().mean())


def trained_mlp() -> nn.Module:
    """The MLP after 30 epochs."""
    torch.manual_seed(0)
    return train(Mlp(), digits(), epochs=30)


def trained_vit() -> nn.Module:
    """The transformer after 25 epochs."""
    torch.manual_seed(0)
    return train(Vit(), digits(), epochs=25)


def mlp() -> tuple[nn.Module, tuple[Tensor]]:
    """The MLP and four images."""
    return trained_mlp(), (digits()[1][:4],)


def vit() -> tuple[nn.Module, tuple[Tensor]]:
    """The transformer and four images."""
    return trained_vit(), (digits()[1][:4],)


def batches() -> tuple[list[Tensor], list[Tensor]]:
    """The images that were learnt from, to calibrate with, and those held out."""
    train_x, test_x, _, _ = digits()
    return list(train_x.split(64)), list(test_x.split(64))
