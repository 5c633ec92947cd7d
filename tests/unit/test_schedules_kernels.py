"""
The schedule of every kernel, and of whole designs, against the simulation of their C++: the cycle
of every read and every write of every FIFO, at deep and at shallow FIFOs, deadlocks included.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from inr.analysis.event_engine import Engine, unbounded
from inr.analysis.fifo_sizing import size_fifos
from inr.analysis.network import Network
from inr.analysis.schedules import network_of
from inr.dialects import array_stream
from inr.dialects.array_stream import (
    FORMAT,
    STAGE,
    FixedType,
    StreamType,
    stream_type,
)
from inr.dialects.inr import shape_of
from inr.frontend.importer import import_torch
from inr.frontend.spec import load_spec
from inr.interpreters.arrays import to_dense
from inr.interpreters.graph import find_function
from inr.lowering.hls_cpp import Design, build_design
from inr.lowering.hls_project import Batch, render
from inr.passes.array_stream_size_fifos import size_function
from inr.passes.inr_hls_pipeline import InrHlsPipelinePass
from inr.runtime.simulate import build
from inr.runtime.toolchain import find_toolchain
from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, TensorType, f32, f64, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

SIREN = Path(__file__).parents[2] / "examples" / "zoo" / "siren.py"

ACTIVATION = FixedType(18, 6)
NARROW = FixedType(12, 4)


@dataclass
class Chains:
    """Builds a linear function of separate chains, each from memory through a kernel to memory."""

    element: Attribute
    block: Block = field(default_factory=Block)
    written: list[SSAValue] = field(default_factory=list[SSAValue])

    def add(self, op: array_stream.ProcessOp, blocks: int | None = None) -> Sequence[SSAValue]:
        self.block.add_op(op)
        for value in op.output_streams:
            type_ = stream_type(value)
            size = type_.block.data if blocks is None else blocks
            Rewriter.replace_value_with_new_type(
                value, StreamType(type_.extents, self.element, size)
            )
        return op.output_streams

    def read(self, *shape: int, block: int = 1) -> SSAValue:
        argument = self.block.insert_arg(TensorType(f64, shape), len(self.block.args))
        return self.add(array_stream.ReadOp(argument), block)[0]

    def constant(self, *shape: int) -> SSAValue:
        op = arith.ConstantOp(to_dense(np.full(shape, 0.25)))
        self.block.add_op(op)
        return op.result

    def write(self, *values: SSAValue) -> None:
        for value in values:
            op = array_stream.WriteOp(value)
            self.block.add_op(op)
            self.written.append(op.memory)

    def through(self, op: array_stream.ProcessOp, blocks: int | None = None) -> None:
        self.write(*self.add(op, blocks))

    def map(
        self, inputs: Sequence[SSAValue], outputs: int, *ops: type[Operation]
    ) -> array_stream.MapOp:
        """Unary and binary operations in a row; the first outputs are results from the last on."""
        region = Region(Block(arg_types=[f64] * len(inputs)))
        body = region.block
        values: list[SSAValue] = list(body.args)
        for op_type in ops:
            binary = op_type in (arith.AddfOp, arith.MulfOp, arith.MaximumfOp)
            operands = [values[-1], body.args[0]] if binary else [values[-1]]
            inner = op_type.create(operands=operands, result_types=[f64])
            if isinstance(self.element, FixedType):
                inner.attributes[FORMAT] = self.element if binary else NARROW
            body.add_op(inner)
            values.append(inner.results[0])
        body.add_op(array_stream.YieldOp(*values[: -outputs - 1 : -1]))
        types = [stream_type(inputs[0]).with_element(self.element)] * outputs
        return array_stream.MapOp(inputs, types, region)

    def matmul(
        self, rows: int, k: int, n: int, *, streams: int = 1, blocks: tuple[int, int] = (1, 1),
        lanes: tuple[int, int] | None = None, accumulator: FixedType | None = None,
    ) -> None:  # fmt: skip
        inputs = [self.read(rows, k, block=blocks[0]) for _ in range(streams)]
        op = array_stream.MatmulOp(inputs, self.constant(k, n), self.constant(n))
        if lanes is not None:
            op.properties["lanes"] = DenseArrayBase.from_list(i64, lanes)
        if isinstance(self.element, FixedType):
            op.properties["weight_format"] = op.properties["bias_format"] = NARROW
        if accumulator is not None:
            op.properties["accumulator"] = accumulator
        self.through(op, blocks[1])

    def function(self) -> FuncOp:
        self.block.add_op(ReturnOp(*self.written))
        inputs = [a.type for a in self.block.args]
        outputs = [v.type for v in self.written]
        function = FuncOp("chains", (inputs, outputs), Region(self.block))
        function.attributes[STAGE] = StringAttr("linear")
        ModuleOp([function]).verify()
        size_function(function, "safe")
        return function


def movement(chains: Chains) -> None:
    """Every kernel that moves elements, in each of its forms."""
    a = array_stream
    chains.through(a.CopyOp(chains.read(5, 3), 3))
    chains.through(a.ConstantOp(chains.constant(6), (4, 6)))
    chains.through(a.ConstantOp(chains.constant(6), (4, 6)), 2)
    chains.through(a.TransposeOp(chains.read(3, 4), [1, 0]))
    chains.through(a.TransposeOp(chains.read(2, 4, 6, block=2), [0, 2, 1]))
    chains.through(a.TransposeOp(chains.read(2, 3, 4, block=2), [1, 0, 2]))
    chains.through(a.BroadcastOp(chains.read(1, 6, block=2), 0, 4))
    chains.through(a.BroadcastOp(chains.read(3, 1, 2), 1, 4))
    chains.through(a.BroadcastOp(chains.read(4, 1, block=2), 1, 6))
    chains.through(a.SliceOp(chains.read(3, 7), 1, 1, 3, 2))
    chains.through(a.SliceOp(chains.read(2, 5, 4, block=2), 1, 1, 3))
    chains.through(a.SliceOp(chains.read(2, 8, block=2), 1, 2, 4))
    chains.through(a.SliceOp(chains.read(2, 5), 1, 0, 2, 4))
    chains.through(a.PadOp(chains.read(2, 4, block=2), 1, 2, 4))
    chains.through(a.PadOp(chains.read(2, 3, 2), 1, 0, 2))
    parts = [chains.read(3, 2, block=2), chains.read(3, 4, block=2), chains.read(3, 2, block=2)]
    chains.through(a.ConcatOp(parts, 1))
    chains.through(a.ConcatOp([chains.read(1, 3), chains.read(2, 3)], 0))
    chains.through(a.ReblockOp(chains.read(4, 6, block=2), 6))
    chains.through(a.ReblockOp(chains.read(4, 6, block=6), 3))
    reshaped = chains.add(a.ReshapeOp(chains.read(2, 6), (4, 3)))
    chains.through(chains.map(reshaped, 1, arith.NegfOp))


def branches(chains: Chains) -> None:
    """One branch waits for the whole array: too shallow a FIFO on the other is a deadlock."""
    first, second, third = chains.add(array_stream.CopyOp(chains.read(4, 4), 3))
    (turned,) = chains.add(array_stream.TransposeOp(first, [1, 0]))
    chains.through(chains.map([second, turned], 1, arith.MulfOp))
    chains.through(chains.map([third], 1, math.TanhOp))


def products(chains: Chains) -> None:
    """Matrix products over blocks, lanes and streams, and sums."""
    chains.matmul(3, 4, 6)
    chains.matmul(4, 4, 8, streams=2, blocks=(2, 2), lanes=(2, 4))
    chains.matmul(3, 4, 8, streams=3, blocks=(1, 4), lanes=(1, 2))
    chains.matmul(3, 4, 8, blocks=(4, 1), lanes=(2, 2))
    chains.matmul(3, 2, 4, blocks=(2, 4), lanes=(2, 4))
    chains.matmul(3, 6, 1, blocks=(3, 1), lanes=(3, 1))
    a = array_stream
    operands = [chains.read(3, 4, block=2), chains.read(4, 6, block=3)]
    chains.through(a.MatmulDynamicOp(*operands), 2)
    chains.through(a.ReduceSumOp(chains.read(4, 8, block=4), 1), 1)
    chains.through(a.ReduceSumOp(chains.read(4, 4), 1), 2)
    chains.through(a.ReduceSumOp(chains.read(2, 3, 8, block=2), 1))
    chains.through(a.ReduceSumOp(chains.read(4, 8, block=8), 0))


def maps(chains: Chains) -> None:
    """Elementwise processes of several depths."""
    chains.through(chains.map([chains.read(5, 4, block=2)], 2, arith.MulfOp, math.ExpOp))
    operands = [chains.read(2, 9), chains.read(2, 9)]
    chains.through(chains.map(operands, 3, math.TanhOp, arith.AddfOp, arith.MaximumfOp))
    chains.through(chains.map([chains.read(30)], 1, math.SqrtOp, math.LogOp))


def fixed_chains() -> FuncOp:
    chains = Chains(ACTIVATION)
    for build_part in (movement, branches, products, maps):
        build_part(chains)
    chains.matmul(3, 4, 4, lanes=(2, 2), accumulator=FixedType(20, 8))
    chains.matmul(3, 4, 4, lanes=(4, 1), accumulator=FixedType(20, 8))
    return chains.function()


def float_chains() -> FuncOp:
    chains = Chains(f32)
    for build_part in (branches, products, maps):
        build_part(chains)
    return chains.function()


@dataclass
class Program:
    """A compiled design and its process network, whose depths are chosen at run time."""

    design: Design
    network: Network
    executable: Path

    @classmethod
    def of(cls, function: FuncOp) -> Program:
        design = build_design(function)
        shapes = [shape_of(a) for a in function.body.block.args]
        outputs = [np.zeros(port.shape) for port in design.outputs]
        batch = Batch([np.full(s, 0.5) for s in shapes], outputs, outputs)
        network, fifos = network_of(function)
        assert [design.fifo_of[f.name] for f in design.fifos] == fifos
        # Storage by depth and width, as the simulation has it.
        loose = tuple(replace(f, storage=None) for f in network.fifos)
        executable = build(render(design, batch), find_toolchain())
        return cls(design, replace(network, fifos=loose), executable)

    @property
    def streams(self) -> int:
        return len(self.design.fifos)

    def simulate(self, depths: Sequence[int], folder: Path, **settings: str) -> dict:
        """The report's region, each FIFO with its cycles."""
        pairs = zip(self.design.fifos, depths, strict=True)
        environment = {
            **os.environ,
            "INR_SIM_TRACE": "1",
            "INR_SIM_DEPTHS": ",".join(f"{f.name}={d}" for f, d in pairs),
            "INR_SIM_REPORT": str(folder / "report.json"),
            **settings,
        }
        ended = subprocess.run(
            [str(self.executable)], env=environment, capture_output=True, text=True, check=False
        )
        report = json.loads((folder / "report.json").read_text())
        assert (report["verdict"] == "deadlock") == (ended.returncode == 3), ended.stderr
        (region,) = report["regions"]
        return {**region, "verdict": report["verdict"], "text": ended.stderr}

    def agree(self, depths: Sequence[int], folder: Path) -> bool:
        """Whether the design finishes, after comparing every cycle of schedule and simulation."""
        internal = [f.depth for f in self.network.fifos[self.streams :]]
        run = Engine(self.network).run([*depths, *internal], record=range(self.streams))
        region = self.simulate(depths, folder)
        for number, fifo in enumerate(self.design.fifos):
            found = next(f for f in region["fifos"] if f["name"] == fifo.name)
            assert found["written_at"] == run.written_at[number].tolist(), fifo.name
            assert found["read_at"] == run.read_at[number].tolist(), fifo.name
        if run.deadlock is not None:
            assert region["verdict"] == "deadlock"
            return False
        assert region["verdict"] == "finished", region["text"]
        assert region["cycles"] == run.latency
        return True


@pytest.fixture(scope="module", params=[fixed_chains, float_chains], ids=["fixed", "float"])
def program(request: pytest.FixtureRequest) -> Program:
    return Program.of(request.param())


def test_every_cycle_at_depths_that_are_safe(program: Program, tmp_path: Path):
    depths = [fifo.depth for fifo in program.design.fifos]
    assert program.agree(depths, tmp_path)


def test_every_cycle_at_random_depths(program: Program, tmp_path: Path):
    random = Random(0)
    finished = []
    for _ in range(12):
        shallow = random.random()
        depths = [
            random.choice([1, 2]) if random.random() < shallow else random.choice([3, 20, 200])
            for _ in range(program.streams)
        ]
        finished.append(program.agree(depths, tmp_path))
    assert set(finished) == {True, False}


def test_the_direct_branch_needs_one_depth_and_no_less(program: Program, tmp_path: Path):
    """The least depth that both find is the same, and below it both deadlock."""
    names = [fifo.name for fifo in program.design.fifos]
    direct = next(n for n, name in enumerate(names) if "copy" in name and "_to_mul" in name)
    depths = [2 if fifo.depth == 16 else fifo.depth for fifo in program.design.fifos]
    outcomes = []
    for depth in range(1, 17):
        depths[direct] = depth
        outcomes.append(program.agree(depths, tmp_path))
    assert outcomes == sorted(outcomes)
    assert not outcomes[0]
    assert outcomes[-1]


def test_growing_ends_at_the_depth_that_the_schedule_needs(program: Program, tmp_path: Path):
    depths = [2] * program.streams
    region = program.simulate(depths, tmp_path, INR_SIM_GROW="1")
    assert region["verdict"] == "finished"
    by_name = {fifo["name"]: fifo["final_depth"] for fifo in region["fifos"]}
    grown = [by_name[fifo.name] for fifo in program.design.fifos]
    assert program.agree(grown, tmp_path)
    (deeper,) = (n for n, depth in enumerate(grown) if depth > 2)
    grown[deeper] -= 1
    assert not program.agree(grown, tmp_path)


def test_a_depth_for_a_fifo_that_does_not_exist_is_said(program: Program, tmp_path: Path):
    depths = [fifo.depth for fifo in program.design.fifos]
    region = program.simulate(depths, tmp_path, INR_SIM_DEPTHS="nobody=3")
    assert "gives a depth for 'nobody', but there is no such FIFO" in region["text"]


@pytest.fixture(scope="module", params=[0, 1], ids=["order0", "order1"])
def siren(request: pytest.FixtureRequest) -> Program:
    model = load_spec(f"{SIREN}:tiny")
    module = import_torch(model.callable, model.example_inputs, order=request.param).module
    InrHlsPipelinePass().apply(Context(), module)
    return Program.of(find_function(module))


def test_a_design_takes_the_predicted_cycles_at_the_chosen_depths(siren: Program, tmp_path: Path):
    sizing = size_fifos(siren.network, alpha=0.0)
    chosen = list(sizing.depths[: siren.streams])
    assert siren.agree(chosen, tmp_path)
    assert siren.simulate(chosen, tmp_path)["cycles"] == sizing.latency
    fastest = Engine(siren.network).run(unbounded(siren.network)).latency
    assert sizing.latency == fastest
    # No FIFO is deeper than it must be: one less is a deadlock, or slower, in both.
    for number, depth in enumerate(chosen):
        if depth <= 2:
            continue
        fewer = [*chosen[:number], depth - 1, *chosen[number + 1 :]]
        if siren.agree(fewer, tmp_path):
            assert siren.simulate(fewer, tmp_path)["cycles"] > fastest
