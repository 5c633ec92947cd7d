"""Converted models through torch-mlir: what arrives is what PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from inr import lut
from inr.analysis.lut_layer import LutLayer, table_limit
from inr.dialects.lut import LinearOp, Lut
from inr.dialects.lut_constants import NAME
from inr.dialects.lut_layers import layer_of
from inr.dialects.torch import ConstantNoneOp, OperatorOp, Torch, VTensorLiteralOp
from inr.errors import CompileError
from inr.frontend.importer import ImportedModel, import_torch
from inr.interpreters.graph import run_graph
from inr.lut import LutLinear
from inr.passes.convert_torch_to_inr import ConvertTorchToInrPass
from torch import nn
from torch.nn import functional
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import Builtin, ModuleOp, StringAttr
from xdsl.dialects.func import Func
from xdsl.parser import Parser

FIELDS = ("centroids", "steps", "table", "scale", "bias", "channels", "residual")


def random_layer(rng: np.random.Generator, **given: Any) -> LutLayer:
    width, outputs = given.get("width", int(rng.integers(1, 20))), int(rng.integers(1, 9))
    vec, count = int(rng.integers(1, 5)), int(rng.integers(1, 17))
    bits = int(rng.integers(2, 9))
    limit, blocks = table_limit(bits), -(-width // vec)
    table = rng.integers(-limit, limit + 1, (blocks, count, outputs)).astype(np.int8)
    table[0, 0, 0] = limit  # so that no fewer bits hold the entries
    residual = min(width, given.get("residual", int(rng.integers(0, 3))))
    channels = rng.permutation(width)[:residual].astype(np.int32)
    return LutLayer(
        "",
        width,
        rng.integers(-2047, 2048, (blocks, count, vec)).astype(np.int16),
        rng.uniform(1e-3, 2e-3, blocks).astype(np.float32),
        table,
        rng.uniform(1e-3, 2e-3, outputs).astype(np.float32),
        rng.normal(size=outputs).astype(np.float32) if rng.integers(2) else None,
        bits,
        channels if residual else None,
        rng.normal(size=(residual, outputs)).astype(np.float32) if residual else None,
    )


def converted(model: ImportedModel) -> ModuleOp:
    """The imported module on the graph level."""
    ConvertTorchToInrPass().apply(Context(), model.module)
    model.module.verify()
    return model.module


def tables(module: ModuleOp) -> list[LinearOp]:
    return [op for op in module.walk() if isinstance(op, LinearOp)]


def check(function: Callable[..., Any], *inputs: torch.Tensor, layers: int) -> ImportedModel:
    """
    Reference = PyTorch to the rounding of float32, and the graph = the reference to that of
    float64. Tables in between have the same indices in all of them: another index would differ
    by far more.
    """
    model = import_torch(function, list(inputs))
    arrays = [x.double().numpy() for x in inputs]
    (expected,) = model.reference(arrays)
    with torch.no_grad():
        own = function(*inputs)
    np.testing.assert_allclose(expected, own.numpy(), rtol=1e-5, atol=1e-5)
    module = converted(model)
    assert len(tables(module)) == layers
    (found,) = run_graph(module, arrays)
    # The product of residual channels is a sum in float32, in any order.
    near = 1e-5 if any(op.residual is not None for op in tables(module)) else 1e-12
    np.testing.assert_allclose(found, expected, rtol=near, atol=near)
    return model


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 3), max_size=3))
def test_a_layer_arrives_with_its_numbers_and_its_output_bit_for_bit(seed: int, leading) -> None:
    layer = random_layer(np.random.default_rng(seed), residual=0)
    module = LutLinear.from_layer(layer)
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(*leading, layer.in_features)))
    x = x.float()
    model = import_torch(module, [x])
    (expected,) = model.reference([x.numpy()])
    graph = converted(model)
    (op,) = tables(graph)
    found = layer_of(op)
    assert found.bits == layer.bits
    for field in FIELDS:
        mine, other = getattr(layer, field), getattr(found, field)
        assert (mine is None) == (other is None), field
        if mine is not None:
            assert mine.dtype == other.dtype, field
            np.testing.assert_array_equal(mine, other)
    rows = x.numpy().reshape(-1, layer.in_features)
    by_definition = layer(rows).reshape(*leading, layer.out_features)
    (run,) = run_graph(graph, [x.double().numpy()])
    assert np.array_equal(run, by_definition)
    assert np.array_equal(expected, by_definition)
    assert np.array_equal(module(x).numpy(), by_definition)


def two_layers(residual: int = 1) -> nn.Sequential:
    rng = np.random.default_rng(3)
    first = random_layer(rng, width=6, residual=residual)
    second = random_layer(rng, width=first.out_features, residual=residual)
    return nn.Sequential(LutLinear.from_layer(first), nn.Tanh(), LutLinear.from_layer(second))


def test_tables_are_constants_under_the_models_names() -> None:
    module = converted(import_torch(two_layers(), [torch.zeros(2, 3, 6)]))
    assert [op.name_in_model for op in tables(module)] == ["0", "2"]
    names = [op.attributes.get(NAME) for op in module.walk() if isinstance(op, ConstantOp)]
    found = {name.data for name in names if isinstance(name, StringAttr)}
    parts = ("centroids", "steps", "table", "scale", "residual")
    assert {f"{layer}.{part}" for layer in "02" for part in parts} <= found


@pytest.mark.parametrize("residual", [0, 2])
def test_a_network(residual: int) -> None:
    torch.manual_seed(0)
    check(two_layers(residual), torch.randn(2, 5, 6), layers=2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_number_types_of_activations(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 6).to(dtype)
    model = import_torch(two_layers(0).to(dtype), [x])
    assert any("converted to float32" in note for note in model.notes) == (dtype.itemsize == 2)
    wide = x.double().numpy()
    (expected,) = import_torch(two_layers(0), [x.float()]).reference([wide])
    (found,) = run_graph(converted(model), [wide])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_layer_that_runs_twice() -> None:
    layer = LutLinear.from_layer(random_layer(np.random.default_rng(1), width=5))
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    check(lambda x: layer(x) + layer(torch.sin(x)), x, layers=2)


def test_a_table_that_something_else_reads_too() -> None:
    layer = LutLinear.from_layer(random_layer(np.random.default_rng(2), width=5))
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    check(lambda x: layer(x) * layer.scale, x, layers=1)


def test_text_of_torch_mlir_gives_the_same_layers() -> None:
    model = import_torch(two_layers(), [torch.zeros(2, 6)])
    texts = [model.to_text(), model.to_text(generic=True)]
    (x,) = [np.random.default_rng(0).normal(size=(2, 6))]
    expected = run_graph(converted(model), [x])[0]
    for text in texts:
        context = Context(allow_unregistered=True)
        for dialect in (Builtin, Func, Torch, Lut):
            context.load_dialect(dialect)
        module = Parser(context, text).parse_module()
        ConvertTorchToInrPass().apply(context, module)
        module.verify()
        assert np.array_equal(run_graph(module, [x])[0], expected)


# --- models that were converted -------------------------------------------------------------------

POLICY = lut.Policy(vec=2, centroids=8, fit="kmeans")


def rows(*shape: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(*shape, generator=generator) for _ in range(4)]


@pytest.mark.filterwarnings("ignore::inr.lut.LutWarning")
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer(activation: str) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation=activation).eval()
    model = lut.convert(layer, rows(4, 6, 8), POLICY, progress=False)
    check(model, rows(2, 6, 8)[0], layers=6)


@pytest.mark.filterwarnings("ignore::inr.lut.LutWarning")
def test_attention_of_which_only_other_layers_are_tables() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    policy = lut.Policy(vec=2, centroids=8, fit="kmeans", include="linear")
    model = lut.convert(layer, rows(4, 6, 8), policy, progress=False)
    check(model, rows(2, 6, 8)[0], layers=2)


@pytest.mark.filterwarnings("ignore::inr.lut.LutWarning")
def test_attention_with_masks() -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    model = lut.convert(attention, [(r, r, r) for r in rows(4, 6, 8)], POLICY, progress=False)
    x = rows(2, 6, 8)[0]
    causal = torch.ones(6, 6).triu(1) > 0
    check(lambda x: model(x, x, x)[0], x, layers=4)
    check(lambda x: model(x, x, x, attn_mask=torch.ones(6, 6).triu(1) > 0)[0], x, layers=4)
    check(
        lambda x: model(x, x, x, need_weights=False, attn_mask=torch.ones(6, 6).triu(1) > 0)[0],
        x,
        layers=4,
    )
    check(lambda x: model(x, x, x, need_weights=False, attn_mask=causal)[0], x, layers=4)


def test_scaled_products() -> None:
    generator = torch.Generator().manual_seed(2)
    q, k = (torch.randn(2, heads, 5, 4, generator=generator) for heads in (4, 2))
    mask = torch.where(torch.rand(5, 5, generator=generator) > 0.6, 0.0, -torch.inf)
    mask[2] = -torch.inf  # a row that is masked as a whole
    product = functional.scaled_dot_product_attention
    check(lambda q: product(q, q, q), q, layers=0)
    check(lambda q: product(q, q, q, is_causal=True, scale=0.3), q, layers=0)
    check(lambda q, k: product(q, k, k, enable_gqa=True), q, k, layers=0)
    check(lambda q, m: product(q, q, q, attn_mask=m), q, mask, layers=0)


@pytest.mark.filterwarnings("ignore::inr.lut.LutWarning")
def test_the_encoder_of_a_model_of_transformers() -> None:
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    bert = transformers.BertModel(config).eval()
    tokens = [torch.randint(0, 30, (4, 6)) for _ in range(4)]
    model: Any = lut.convert(bert, tokens, POLICY, progress=False)
    check(lambda h: model.encoder(h).last_hidden_state, rows(2, 6, 8)[0], layers=6)


# --- what is refused ------------------------------------------------------------------------------


def test_derivatives_of_tables() -> None:
    with pytest.raises(CompileError, match="layer of tables is differentiated"):
        import_torch(two_layers(), [torch.zeros(2, 6)], order=1)


def imported() -> tuple[ModuleOp, OperatorOp]:
    """A model of one layer with a bias and residual channels."""
    layer = next(
        layer
        for seed in range(100)
        if (layer := random_layer(np.random.default_rng(seed), residual=1)).bias is not None
    )
    net = nn.Sequential(LutLinear.from_layer(layer))
    module = import_torch(net, [torch.zeros(2, layer.in_features)]).module
    (op,) = [op for op in module.walk() if isinstance(op, OperatorOp)]
    return module, op


def literal(op: OperatorOp, part: str) -> VTensorLiteralOp:
    owner = op.arguments[1 + FIELDS.index(part)].owner
    assert isinstance(owner, VTensorLiteralOp)
    return owner


def refused(module: ModuleOp, message: str) -> None:
    before = str(module)
    with pytest.raises(CompileError, match=message):
        ConvertTorchToInrPass().apply(Context(), module)
    assert str(module) == before


@pytest.mark.parametrize("part", FIELDS)
def test_a_part_of_another_type(part: str) -> None:
    module, op = imported()
    other = literal(op, "bias" if part != "bias" else "table")
    op.operands[1 + FIELDS.index(part)] = other.result
    if part in ("steps", "scale"):
        # As many axes of the same type: told by its extent, unless that is the same.
        other = literal(op, "table")
        op.operands[1 + FIELDS.index(part)] = other.result
    refused(module, f": the operand '{part}' is !torch.vtensor<.*>; it has . axes of ")


@pytest.mark.parametrize("part", ["centroids", "steps", "table", "scale"])
def test_a_part_that_is_not_there(part: str) -> None:
    module, op = imported()
    none = ConstantNoneOp()
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(none, op)
    op.operands[1 + FIELDS.index(part)] = none.result
    refused(module, f"the operand '{part}' \\(!torch.none\\) is computed; tables are constants")


def test_a_part_that_is_computed() -> None:
    module, op = imported()
    op.operands[1 + FIELDS.index("residual")] = op.operands[0]
    refused(module, "0: the operand 'residual' .* is computed")


def test_another_number_of_operands() -> None:
    module, op = imported()
    op.operands = op.operands[:-1]
    refused(module, "takes 8 operands .x, centroids, .*, not 7 to 1")


def test_parts_that_do_not_fit_together() -> None:
    layer = random_layer(np.random.default_rng(0), width=9, residual=0)
    net = nn.Sequential(LutLinear.from_layer(layer))
    text = import_torch(net, [torch.zeros(2, 9)]).to_text()
    outputs = f"vtensor<[2,{layer.out_features}],f32>"
    for old, new, message in (
        ("[2,9],f32", "[2,60],f32", "0: . codebooks of . channels for 60 inputs"),
        (outputs, "vtensor<[2,99],f32>", r"0: an output of shape \[2, 99\]; the tables give \[2, "),
    ):
        assert old in text
        context = Context(allow_unregistered=True)
        for dialect in (Builtin, Func, Torch):
            context.load_dialect(dialect)
        module = Parser(context, text.replace(old, new)).parse_module()
        with pytest.raises(CompileError, match=message):
            ConvertTorchToInrPass().apply(context, module)
