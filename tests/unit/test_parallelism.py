"""Lanes and blocks under a part's limits: what is chosen, what it costs, that it still computes."""

from __future__ import annotations

import re
from functools import cache
from math import gcd
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from inr.analysis.event_engine import latency, unbounded  # noqa: E402
from inr.analysis.network import Network, Segment  # noqa: E402
from inr.analysis.parallelism import Search, limits_of, with_block  # noqa: E402
from inr.analysis.process_costs import divisors, sides_of  # noqa: E402
from inr.analysis.schedules import network_of  # noqa: E402
from inr.analysis.targets import find_part  # noqa: E402
from inr.dialects import array_stream  # noqa: E402
from inr.dialects.array_stream import ArrayStream, stream_type  # noqa: E402
from inr.errors import CompileError  # noqa: E402
from inr.frontend.importer import import_torch  # noqa: E402
from inr.frontend.spec import load_spec  # noqa: E402
from inr.interpreters.fixed_stream import run_fixed  # noqa: E402
from inr.interpreters.graph import find_function  # noqa: E402
from inr.lowering.hls_cpp import build_design  # noqa: E402
from inr.lowering.hls_project import Batch, render  # noqa: E402
from inr.passes.array_stream_assign_formats import ArrayStreamAssignFormatsPass  # noqa: E402
from inr.passes.array_stream_fuse import ArrayStreamFusePass  # noqa: E402
from inr.passes.array_stream_insert_copies import ArrayStreamInsertCopiesPass  # noqa: E402
from inr.passes.array_stream_select_parallelism import (  # noqa: E402
    PARALLELISM,
    ArrayStreamSelectParallelismPass,
)
from inr.passes.array_stream_size_fifos import ArrayStreamSizeFifosPass  # noqa: E402
from inr.passes.convert_inr_to_array_stream import ConvertInrToArrayStreamPass  # noqa: E402
from inr.passes.inr_hls_pipeline import graph_passes  # noqa: E402
from inr.runtime.simulate import build, run  # noqa: E402
from inr.runtime.toolchain import find_toolchain  # noqa: E402
from xdsl.context import Context  # noqa: E402
from xdsl.dialects.arith import Arith  # noqa: E402
from xdsl.dialects.builtin import (  # noqa: E402
    Builtin,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    i64,
)
from xdsl.dialects.func import Func  # noqa: E402
from xdsl.parser import Parser  # noqa: E402
from xdsl.rewriter import Rewriter  # noqa: E402
from xdsl.utils.exceptions import VerifyException  # noqa: E402

_U50 = find_part("xcu50")
ZOO = Path(__file__).parents[2] / "examples" / "zoo"


@cache
def _streams(spec: str, order: int, mode: str):
    loaded = load_spec(f"{ZOO}/{spec}")
    imported = import_torch(loaded.callable, loaded.example_inputs, name=loaded.name, order=order)
    inputs = [x.detach().double().numpy() for x in loaded.example_inputs]
    for each in (
        *graph_passes(),
        ConvertInrToArrayStreamPass(),
        ArrayStreamFusePass(),
        ArrayStreamAssignFormatsPass(mode=mode),
    ):
        each.apply(Context(), imported.module)
    return imported.module, inputs, imported.reference(inputs)


def _selected(spec: str, order: int, mode: str = "interval", **options: int | str):
    """A function with lanes and blocks, at the linear stage, and what the pass says of it."""
    module = _streams(spec, order, mode)[0].clone()
    ArrayStreamSelectParallelismPass(**options).apply(Context(), module)
    module.verify()
    ArrayStreamInsertCopiesPass().apply(Context(), module)
    module.verify()
    function = find_function(module)
    return module, function, _parallelism(function)


def _parallelism(function) -> dict[str, int]:
    entry = function.attributes[PARALLELISM]
    assert isinstance(entry, DictionaryAttr)
    return {k: v.value.data for k, v in entry.data.items() if isinstance(v, IntegerAttr)}


def _busy(network: Network) -> int:
    """Cycles of the longest chain, were it never to wait."""

    def length(body: tuple[object, ...]) -> int:
        return sum(
            part.first_gap + (part.count - 1) * part.gap
            if isinstance(part, Segment)
            else part.times * length(part.body)  # pyright: ignore
            for part in body
        )

    return max(length(process.body) for process in network.processes)


@pytest.mark.parametrize("order", [1, 2])
def test_reference_network_at_1100_lanes(order: int) -> None:
    _, function, said = _selected("siren.py:image", order, part="xcu50", lanes=1100)
    assert said["lanes"] <= 1100
    network, _ = network_of(function)
    cycles = latency(network, unbounded(network))
    assert cycles <= 1.25 * said["macs"] / said["lanes"] + said["fill"]
    assert said["floor"] <= cycles <= said["cycles"] + said["fill"]
    part = find_part("xcu50")
    assert all(
        said[kind] <= 0.8 * getattr(part, kind) for kind in ("lut", "ff", "bram18", "uram", "dsp")
    )


@pytest.mark.parametrize(
    ("spec", "order", "mode"),
    [
        ("siren.py:tiny", 0, "interval"),
        ("siren.py:tiny", 2, "interval"),
        ("siren.py:tiny", 1, "float"),
        ("softplus_skip.py:tiny", 1, "measured"),
        ("film_siren.py:tiny", 1, "measured"),
        ("residual_siren.py:tiny", 1, "measured"),
    ],
)
@pytest.mark.parametrize("lanes", [None, 60])
def test_no_process_takes_longer_than_it_says(
    spec: str, order: int, mode: str, lanes: int | None
) -> None:
    options = {} if lanes is None else {"lanes": lanes}
    _, function, said = _selected(spec, order, mode, **options)
    network, _ = network_of(function)
    assert _busy(network) == said["cycles"]
    assert said["floor"] <= latency(network, unbounded(network)) <= said["cycles"] + said["fill"]


def test_the_search_finds_what_trying_everything_finds() -> None:
    """No smaller T of all possible ones fits."""
    module = _streams("siren.py:tiny", 1, "interval")[0].clone()
    for dsp in (60, 90, 150, 400):
        search = Search(find_function(module), find_part("xcu50"), limits_of(_U50, 0.8, dsp))
        best = search.best()
        assert best.usage.resources.dsp <= dsp
        smaller = [t for t in search.candidates() if t < best.cycles]
        assert all(search.at(t) is None for t in smaller)


def test_more_lanes_never_take_longer() -> None:
    cycles = [
        _selected("siren.py:image", 1, lanes=lanes)[2]["cycles"] for lanes in (20, 300, 1100, 4000)
    ]
    assert cycles == sorted(cycles, reverse=True)
    assert len(set(cycles)) == 4


@pytest.mark.parametrize(
    ("spec", "order", "mode", "lanes"),
    [
        ("siren.py:tiny", 2, "measured", 100),
        ("siren.py:tiny", 1, "float", 200),
        ("film_siren.py:tiny", 1, "measured", None),
    ],
)
def test_lanes_and_blocks_leave_the_numbers_alone(
    spec: str, order: int, mode: str, lanes: int | None
) -> None:
    """The C++ with lanes and blocks gives the words of the integer model without them."""
    plain, inputs, reference = _streams(spec, order, mode)
    options = {} if lanes is None else {"lanes": lanes}
    module, function, _ = _selected(spec, order, mode, **options)
    assert any(stream_type(v).block.data > 1 or op.lanes for op, v in _products(function))
    ArrayStreamSizeFifosPass("safe").apply(Context(), module)
    design = build_design(function)
    expected = (
        [np.asarray(y, dtype=np.float32) for y in reference]
        if mode == "float"
        else run_fixed(plain, inputs)
    )
    texts = render(design, Batch(inputs, expected, list(reference)))
    simulation = run(build(texts, find_toolchain()), design)
    assert simulation.status == 0, simulation.text
    if mode != "float":
        for got, want in zip(simulation.outputs, expected, strict=True):
            np.testing.assert_array_equal(got.ravel(), np.ravel(want))


def _products(function):
    return [
        (op, op.outputs[0])
        for op in function.body.block.ops
        if isinstance(op, array_stream.MatmulOp)
    ]


def test_block_sizes_are_those_that_the_verifier_takes() -> None:
    """Of every process of some designs, each side at every divisor of its arrays."""
    tried: set[str] = set()
    for module in (_streams("softplus_skip.py:tiny", 1, "measured")[0], _every_kind()):
        count = len(_processes(module))
        for index in range(count):
            tried.add(_processes(module)[index].name)
            for number in range(len(sides_of(_processes(module)[index]))):
                _compare_with_verifier(module, index, number)
    kinds = {op.name for op in ArrayStream.operations if issubclass(op, array_stream.ProcessOp)}
    # A reblock has the sizes that somebody gave it, and a copy those of any other stream.
    assert tried == kinds - {"array_stream.reblock", "array_stream.copy"}


EVERY_KIND = """
func.func @kinds(%m: tensor<8x12xf64>, %n: tensor<12x4xf64>) -> tensor<8x24xf64>
    attributes {array_stream.stage = "value"} {
  %w = arith.constant dense<0.25> : tensor<4x12xf64>
  %a = array_stream.read %m : tensor<8x12xf64> -> <8x12>
  %b = array_stream.read %n : tensor<12x4xf64> -> <12x4>
  %c = array_stream.matmul_dynamic %a, %b : (<8x12>, <12x4>) -> <8x4>
  %d = array_stream.matmul %c by %w weight_format <18, 2> : (<8x4>) -> <8x12> by tensor<4x12xf64>
  %e = array_stream.reduce_sum %d axis 1 : <8x12> -> <8>
  %f = array_stream.reshape %e : <8> -> <8x1>
  %g = array_stream.broadcast %f axis 1 : <8x1> -> <8x12>
  %h = array_stream.reduce_sum %a axis 0 : <8x12> -> <12>
  %i = array_stream.reshape %h : <12> -> <1x12>
  %j = array_stream.broadcast %i axis 0 : <1x12> -> <8x12>
  %k = array_stream.transpose %j [1, 0] : <8x12> -> <12x8>
  %l = array_stream.slice %k axis 0 from 1 size 4 step 2 : <12x8> -> <4x8>
  %o = array_stream.pad %l axis 0 low 4 high 4 : <4x8> -> <12x8>
  %p = array_stream.transpose %o [1, 0] : <12x8> -> <8x12>
  %q = array_stream.slice %g axis 1 from 4 size 8 step 1 : <8x12> -> <8x8>
  %r = array_stream.pad %q axis 1 low 4 high 0 : <8x8> -> <8x12>
  %s = array_stream.concat %p, %r axis 1 : (<8x12>, <8x12>) -> <8x24>
  %u = arith.constant dense<0.5> : tensor<1x24xf64>
  %v = array_stream.constant %u : tensor<1x24xf64> -> <8x24>
  %x = array_stream.map(%s, %v) : (<8x24>, <8x24>) -> <8x24> {
  ^bb0(%0: f64, %1: f64):
    %2 = arith.mulf %0, %1 {array_stream.format = !array_stream.fixed<24, 6>} : f64
    array_stream.yield %2 : f64
  }
  %y = array_stream.write %x : <8x24> -> tensor<8x24xf64>
  func.return %y : tensor<8x24xf64>
}
"""
"""A process of each kind, streams by their shape alone."""


def _every_kind():
    text = re.sub(
        r"(?<!tensor)<([0-9x]+)>",
        r"!array_stream.stream<\1x!array_stream.fixed<24, 6>>",
        EVERY_KIND,
    )
    context = Context()
    for dialect in (Builtin, Func, Arith, ArrayStream):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


@pytest.mark.parametrize("dsp", [40, 60, 200])
def test_cycles_of_every_kind(dsp: int) -> None:
    module = _every_kind()
    module.verify()
    ArrayStreamSelectParallelismPass(dsp=dsp).apply(Context(), module)
    module.verify()
    ArrayStreamInsertCopiesPass().apply(Context(), module)
    function = find_function(module)
    for op in _processes(module):
        least = max(
            side.cycles(stream_type(v).block.data) or 0
            for side in sides_of(op)
            for v in (*(op.operands[i] for i in side.inputs), *side.outputs)
        )
        assert least <= _parallelism(function)["cycles"], op
    network, _ = network_of(function)
    assert _busy(network) <= _parallelism(function)["cycles"]
    assert latency(network, unbounded(network)) <= sum(
        _parallelism(function)[part] for part in ("cycles", "fill")
    )


def _processes(module):
    ops = find_function(module).body.block.ops
    return [op for op in ops if isinstance(op, array_stream.ProcessOp)]


def _compare_with_verifier(module, index: int, number: int) -> None:
    side = sides_of(_processes(module)[index])[number]
    op = _processes(module)[index]
    streams = [*(op.operands[i] for i in side.inputs), *side.outputs]
    for block in divisors(gcd(*(stream_type(v).elements for v in streams))):
        copy = module.clone()
        trial = _processes(copy)[index]
        again = sides_of(trial)[number]
        for value in {*(trial.operands[i] for i in again.inputs), *again.outputs}:
            Rewriter.replace_value_with_new_type(value, with_block(stream_type(value), block))
        try:
            trial.verify_streams()
        except VerifyException:
            assert side.extent % block, f"{trial}: {block} is refused"
        else:
            assert side.extent % block == 0, f"{trial}: {block} is taken"


def test_what_is_set_stays() -> None:
    module = _streams("siren.py:tiny", 1, "interval")[0].clone()
    product = _products(find_function(module))[1][0]
    product.lanes = DenseArrayBase.from_list(i64, [2, 1])
    ArrayStreamSelectParallelismPass(lanes=60).apply(Context(), module)
    assert _products(find_function(module))[1][0].lanes.get_values() == (2, 1)
    once = str(module)
    ArrayStreamSelectParallelismPass(lanes=60).apply(Context(), module)
    assert str(module) == once


def test_a_part_that_is_too_small_is_refused_with_what_is_short() -> None:
    with pytest.raises(CompileError) as caught:
        _selected("siren.py:image", 1, part="xc7z020")
    message = str(caught.value)
    assert "siren_image does not fit xc7z020" in message
    short = next(line for line in message.splitlines() if line.startswith("bram18"))
    _, needed, allowed, missing = short.split()
    assert int(allowed) == 224
    assert int(needed) - int(allowed) == int(missing) > 0


def test_streams_without_formats_are_refused() -> None:
    module = _streams("siren.py:tiny", 1, "interval")[0].clone()
    _strip(module)
    with pytest.raises(CompileError, match="run array-stream-assign-formats"):
        ArrayStreamSelectParallelismPass().apply(Context(), module)


def _strip(module) -> None:
    from xdsl.dialects.builtin import f64

    for op in _processes(module):
        for value in op.output_streams:
            Rewriter.replace_value_with_new_type(value, stream_type(value).with_element(f64))
