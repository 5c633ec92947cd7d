"""The photograph that the example is about, and how a picture is judged."""

from __future__ import annotations

import math

import numpy as np
from model import HEIGHT, WIDTH
from PIL import Image
from sklearn.datasets import load_sample_image


def photograph() -> np.ndarray:
    """flower.jpg at the size of the example: [HEIGHT, WIDTH, 3], black at −1 and white at 1."""
    image = Image.fromarray(load_sample_image("flower.jpg"))
    # 640x427 has one row too many for an aspect ratio of 3:2.
    image = image.crop((0, 0, image.width, round(image.width * HEIGHT / WIDTH)))
    small = image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    return np.asarray(small, dtype=np.float64) / 127.5 - 1


def psnr(picture: np.ndarray, truth: np.ndarray) -> float:
    """Peak signal-to-noise ratio in dB of pictures between −1 and 1; infinite where equal."""
    error = float(np.mean((np.clip(picture, -1, 1) - np.clip(truth, -1, 1)) ** 2))
    return 10 * math.log10(4 / error) if error else math.inf
