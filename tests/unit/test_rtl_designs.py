"""The token RTL of whole designs: as the engine predicts, at deep and at shallow FIFOs."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from inr.analysis.event_engine import Engine, unbounded
from inr.analysis.network import Network
from inr.analysis.schedules import network_of
from inr.errors import CompileError
from inr.frontend.importer import import_torch
from inr.frontend.spec import load_spec
from inr.interpreters.graph import find_function
from inr.lowering.token_rtl import TokenRtlTarget, token_rtl
from inr.passes.array_stream_assign_formats import ArrayStreamAssignFormatsPass
from inr.passes.array_stream_fuse import ArrayStreamFusePass
from inr.passes.array_stream_insert_copies import ArrayStreamInsertCopiesPass
from inr.passes.array_stream_size_fifos import ArrayStreamSizeFifosPass
from inr.passes.convert_inr_to_array_stream import ConvertInrToArrayStreamPass
from inr.passes.inr_hls_pipeline import InrHlsPipelinePass, graph_passes
from inr.runtime.verilator import find_verilator, lint, simulate
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

SIREN = Path(__file__).parents[2] / "examples" / "zoo" / "siren.py"


def linear(*passes: ModulePass) -> ModuleOp:
    """A SIREN and its gradients after some passes."""
    model = load_spec(f"{SIREN}:tiny")
    module = import_torch(model.callable, model.example_inputs, order=1).module
    for each in passes:
        each.apply(Context(), module)
    return module


@pytest.fixture(scope="module")
def module() -> ModuleOp:
    """With blocks of one element and one lane, where depths matter most."""
    return linear(
        *graph_passes(),
        ConvertInrToArrayStreamPass(),
        ArrayStreamFusePass(),
        ArrayStreamAssignFormatsPass(),
        ArrayStreamInsertCopiesPass(),
        ArrayStreamSizeFifosPass(),
    )


@pytest.fixture(scope="module")
def network(module: ModuleOp) -> Network:
    return network_of(find_function(module))[0]


def at_random_depths(network: Network, seed: int) -> Network:
    """The same design with FIFOs of other depths and storages, some of them too small."""
    rng = random.Random(seed)
    share = rng.random() ** 3
    fifos = []
    for fifo, tokens in zip(network.fifos, network.tokens, strict=True):
        if fifo.internal:
            fifos.append(fifo)
            continue
        deep = max(3, int(tokens))
        depth = rng.randint(2, 8) if rng.random() < share else deep
        storage = rng.choice(["srl", "srl", "lutram", "bram"])
        fifos.append(replace(fifo, depth=depth, storage=storage))
    return replace(network, fifos=tuple(fifos))


@pytest.mark.skipif(shutil.which("verilator") is None, reason="verilator is not installed")
def test_a_siren_and_its_gradients_take_the_predicted_cycles(network: Network):
    as_compiled, _ = network_of(find_function(linear(InrHlsPipelinePass())))
    variants = [
        as_compiled,
        network,
        network.with_depths(unbounded(network)),
        *(at_random_depths(network, seed) for seed in range(4)),
    ]
    predicted = [Engine(n).run().latency for n in variants]
    assert None in predicted
    assert len({*predicted, None}) > 3
    assert [run.cycles for run in simulate(variants)] == predicted


@pytest.mark.skipif(shutil.which("verilator") is None, reason="verilator is not installed")
def test_the_target_prints_a_module_of_the_function_s_name(module: ModuleOp, network: Network):
    output = StringIO()
    TokenRtlTarget().emit(Context(), module, output)
    name = find_function(module).sym_name.data
    assert output.getvalue() == token_rtl({name: network})
    assert lint(output.getvalue(), f"tokens_{name}") == ""


def test_without_verilator_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    find_verilator.cache_clear()
    monkeypatch.setenv("VERILATOR", "no-such-simulator")
    with pytest.raises(CompileError, match="apt install verilator"):
        find_verilator()
    find_verilator.cache_clear()


def test_the_target_needs_a_function():
    with pytest.raises(CompileError, match="there is no function"):
        TokenRtlTarget().emit(Context(), ModuleOp([]), StringIO())


def test_the_target_needs_the_linear_stage():
    model = load_spec(f"{SIREN}:tiny")
    module = import_torch(model.callable, model.example_inputs, order=0).module
    with pytest.raises(CompileError, match="not at the linear stage"):
        TokenRtlTarget().emit(Context(), module, StringIO())
