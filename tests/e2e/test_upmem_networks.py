"""
Whole networks of PyTorch whose linear layers run on emulated DPUs: `deploy` gives what the
converted model gives in PyTorch, to float rounding, and the converted model is not changed.
"""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from inr import lut  # noqa: E402
from inr.errors import CompileError  # noqa: E402
from inr.runtime.deployment import DpuLinear, UpmemOptions, deploy  # noqa: E402
from inr.runtime.upmem_build import find_dpu_toolchain  # noqa: E402
from torch import Tensor, nn  # noqa: E402

try:
    find_dpu_toolchain()
except CompileError as error:
    pytest.skip(str(error), allow_module_level=True)

SIREN = Path(__file__).parents[2] / "examples" / "zoo" / "siren.py"

QUICK = "load=static variant=swar16 residency=resident order=nfc split_cb=1"
"""What is no matter here is fixed, and the tuner has less to look at."""


def converted_of(model: nn.Module, batches: list[Any], **policy: Any) -> nn.Module:
    with warnings.catch_warnings():
        # Untrained networks are poor as tables.
        warnings.simplefilter("ignore", lut.LutWarning)
        return lut.convert(model.eval(), batches, lut.Policy(vec=2, centroids=16, **policy))


def check(converted: nn.Module, *inputs: Tensor, options: UpmemOptions, **named: Tensor) -> None:
    """Every layer of tables is on DPUs, has run there, and the outputs are PyTorch's."""
    with torch.no_grad():
        wanted = first(converted(*inputs, **named))
        deployed = deploy(converted, options=options)
        names = set(lut.layers(converted))
        on_dpus = {n for n, m in deployed.named_modules() if isinstance(m, DpuLinear)}
        assert on_dpus == names
        ran: set[str] = set()
        for name in names:
            module = deployed.get_submodule(name)
            module.register_forward_hook(lambda *_, name=name: ran.add(name))
        with deployed.dpu_model as model:
            got = first(deployed(*inputs, **named))
            assert model.cycles > 0
            assert model.bytes_received > 0
        assert ran == names
        # The layers themselves are equal to the bit, but for products with residual channels.
        scale = wanted.abs().max()
        assert scale > 0
        assert (got - wanted).abs().max() <= 1e-5 * scale
        assert torch.equal(first(converted(*inputs, **named)), wanted)


def first(output: Any) -> Tensor:
    """The tensor of an output that may have more."""
    if isinstance(output, Tensor):
        return output
    return output[0] if isinstance(output, tuple) else output.last_hidden_state


def test_siren_of_the_zoo() -> None:
    source = importlib.util.spec_from_file_location("zoo_siren", SIREN)
    assert source is not None
    assert source.loader is not None
    zoo = importlib.util.module_from_spec(source)
    source.loader.exec_module(zoo)
    torch.manual_seed(3)
    model = zoo.Siren(2, 40, 3, 3)
    batches = [torch.rand(128, 2) * 2 - 1 for _ in range(4)]
    converted = converted_of(model, batches)
    # The layer of coordinates too: one codebook of two channels.
    assert len(lut.layers(converted)) == 4
    options = UpmemOptions(dpus=12, rows=50, mapping=QUICK)
    # More rows than a launch takes, and not a multiple.
    check(converted, torch.rand(117, 2) * 2 - 1, options=options)


class Block(nn.Module):
    """Attention and a perceptron with sums around them, on tokens [batch, tokens, 16]."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.wide = nn.Linear(16, 36)
        self.narrow = nn.Linear(36, 16)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.attention(x, x, x, need_weights=False)
        x = self.norm(x + y)
        return x + self.narrow(torch.relu(self.wide(x)))


def test_transformer_with_multihead_attention() -> None:
    torch.manual_seed(4)
    model = nn.Sequential(Block(), Block())
    batches = [torch.randn(8, 12, 16) for _ in range(3)]
    converted = converted_of(model, batches, residual=2)
    found = lut.layers(converted)
    # Queries, keys, values and outputs of both attentions, and the perceptrons.
    assert len(found) == 12
    assert all(layer.layer.channels is not None for layer in found.values())
    options = UpmemOptions(dpus=10, rows=64, mapping=QUICK)
    check(converted, torch.randn(3, 7, 16), options=options)


def test_bert_with_masked_tokens() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=16,
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    batches = [{"input_ids": torch.randint(0, 60, (8, 10))} for _ in range(3)]
    converted = converted_of(model, batches)
    assert len(lut.layers(converted)) == 12
    mask = torch.ones(3, 9, dtype=torch.long)
    mask[1, 5:] = 0
    options = UpmemOptions(dpus=70, rows=32, mapping=QUICK)
    check(
        converted,
        options=options,
        input_ids=torch.randint(0, 60, (3, 9)),
        attention_mask=mask,
    )


def test_inputs_of_another_width_are_refused() -> None:
    torch.manual_seed(6)
    converted = converted_of(nn.Sequential(nn.Linear(6, 8)), [torch.randn(64, 6)])
    deployed = deploy(converted, options=UpmemOptions(dpus=1, rows=8, mapping=QUICK))
    with deployed.dpu_model, pytest.raises(CompileError, match="5 channels for a layer of 6"):
        deployed(torch.randn(2, 5))
    # It is closed now.
    with pytest.raises(CompileError, match="closed"):
        deployed(torch.randn(2, 6))
