"""Models of which the linear layers are tables."""

import numpy as np
import torch
from inr import lut
from inr.analysis.lut_layer import LutLayer
from inr.lut import LutLinear
from torch import nn


def random_layer(name, width, outputs, vec, count, bits=8, residual=0):
    """A layer of random tables: what a layer computes does not depend on how it was fitted."""
    rng = np.random.default_rng(width * outputs)
    blocks, limit = -(-width // vec), 2 ** (bits - 1) - 1
    channels = np.arange(residual, dtype=np.int32) * 2 if residual else None
    return LutLinear.from_layer(
        LutLayer(
            name,
            width,
            rng.integers(-2047, 2048, (blocks, count, vec)).astype(np.int16),
            rng.uniform(1e-3, 2e-3, blocks).astype(np.float32),
            rng.integers(-limit, limit + 1, (blocks, count, outputs)).astype(np.int8),
            rng.uniform(1e-3, 2e-3, outputs).astype(np.float32),
            rng.normal(size=outputs).astype(np.float32),
            bits,
            channels,
            rng.normal(size=(residual, outputs)).astype(np.float32) if residual else None,
        )
    )


def net():
    """Two layers with tanh between, on a batch of two sequences of five."""
    model = nn.Sequential(
        random_layer("0", 6, 16, 2, 8), nn.Tanh(), random_layer("2", 16, 8, 4, 16, 6, 1)
    )
    return model, (torch.zeros(2, 5, 6),)


def encoder():
    """A converted encoder layer: attention and feed-forward."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu").eval()
    rows = [torch.randn(4, 6, 8) for _ in range(4)]
    return lut.convert(layer, rows, lut.Policy(vec=2, centroids=8), progress=False), (
        torch.zeros(2, 6, 8),
    )
