"""
Whole generated programs, device C and host C, on emulated DPUs: outputs against `LutLayer`, sums
bit for bit; one DPU and many, ranks with DPUs missing, two programs at once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from inr.analysis.lut_layer import GRID, LutLayer, lookup, table_limit
from inr.dialects.lut_layers import lower_layer
from inr.errors import CompileError
from inr.lowering.hls_project import write_project
from inr.lowering.upmem_host_c import HostProgram
from inr.lowering.upmem_project import project_files
from inr.passes.convert_lut_to_upmem import ConvertLutToUpmemPass
from inr.runtime.upmem_model import UpmemModel
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region


def layer_with(
    name: str, inputs: int, outputs: int, vec: int, k: int, bits: int = 8, residual: int = 0
) -> LutLayer:
    """A layer of random tables."""
    rng = np.random.default_rng(abs(hash((inputs, outputs, vec, k))) % 2**32)
    blocks = -(-inputs // vec)
    centroids = rng.integers(-GRID, GRID + 1, (blocks, k, vec)).astype(np.int16)
    channels = np.sort(rng.choice(inputs, residual, replace=False)).astype(np.int32)
    limit = table_limit(bits)
    return LutLayer(
        name,
        inputs,
        centroids,
        rng.uniform(1e-3, 2e-3, blocks).astype(np.float32),
        rng.integers(-limit, limit + 1, (blocks, k, outputs)).astype(np.int8),
        rng.uniform(1e-3, 1e-2, outputs).astype(np.float32),
        rng.normal(size=outputs).astype(np.float32),
        bits,
        channels if residual else None,
        rng.normal(size=(residual, outputs)).astype(np.float32) if residual else None,
    )


def program_of(
    layers: list[LutLayer], rows: int, mapping: str = "", dpus: int | None = None, **options: str
) -> HostProgram:
    """Each layer in a function of its own, converted for DPUs."""
    functions = []
    for number, layer in enumerate(layers):
        block = Block(arg_types=[TensorType(f32, (rows, layer.in_features))])
        ops = lower_layer(layer, block.args[0])
        block.add_ops([*ops, ReturnOp(ops[-1].results[0])])
        types = [block.args[0].type], [ops[-1].results[0].type]
        functions.append(FuncOp(f"run{number}", types, Region(block)))
    module = ModuleOp(functions)
    module.verify()
    ConvertLutToUpmemPass(mapping=mapping, dpus=dpus, **options).apply(Context(), module)
    module.verify()
    return HostProgram(module, "net")


def inputs_of(layer: LutLayer, rows: int) -> np.ndarray:
    rng = np.random.default_rng(rows)
    return rng.normal(size=(rows, layer.in_features)).astype(np.float32)


def check(model: UpmemModel, layer: LutLayer, rows: int) -> None:
    """Sums to the bit, outputs to the rounding of the residual product."""
    x = inputs_of(layer, rows)
    codes = layer.encode(x)
    assert np.array_equal(model.sums(layer.name, codes), lookup(codes, layer.table))
    expected = layer(x)
    if layer.channels is None:
        assert np.array_equal(model.run(layer.name, x), expected)
    else:
        np.testing.assert_allclose(model.run(layer.name, x), expected, rtol=1e-5, atol=1e-5)


LAYERS = [
    layer_with("encoder.query", 30, 50, 4, 16),
    layer_with("encoder.output", 50, 30, 2, 16, bits=6, residual=3),
    layer_with("head", 17, 9, 4, 64),
]


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INR_DPU_CHECK", "all")


def test_a_program_of_several_layers_with_mappings_of_the_tuner() -> None:
    with UpmemModel(program_of(LAYERS, rows=40, dpus=8)) as model:
        for layer in LAYERS:
            for rows in (1, 7, 40, 93):
                check(model, layer, rows)
        assert model.cycles > 0
        assert model.bytes_sent > 0 < model.bytes_received


@pytest.mark.parametrize(
    "mapping",
    [
        "ip=1 lp=1",
        "ip=6 lp=2 groups=2",
        "ip=3 lp=1 split_cb=2 groups=3 residency=per_call",
        "ip=2 lp=2 residency=per_call load=fine",
        "ip=2 lp=1 load=static variant=scalar32 idx_bits=16 out=i32",
    ],
)
def test_ragged_rows_over_dpus_and_groups(mapping: str) -> None:
    layer = LAYERS[0]
    with UpmemModel(program_of([layer], rows=23, mapping=mapping)) as model:
        for rows in (1, 22, 23, 50):
            check(model, layer, rows)


def test_two_programs_at_once() -> None:
    first = program_of([LAYERS[0]], rows=16, dpus=4)
    second = program_of([LAYERS[2]], rows=16, dpus=2)
    with UpmemModel(first) as a, UpmemModel(second) as b:
        for _ in range(2):
            check(a, LAYERS[0], 16)
            check(b, LAYERS[2], 16)


def test_2560_dpus() -> None:
    layer = layer_with("wide", 8, 40, 4, 16)
    with UpmemModel(program_of([layer], rows=2560, mapping="ip=512 lp=5 f_l=8")) as model:
        check(model, layer, 2559)


def test_ranks_with_dpus_missing() -> None:
    layer = LAYERS[0]
    program = program_of([layer], rows=130, mapping="ip=65 lp=2 groups=1", dpus=130)
    with UpmemModel(program, profile="backend=simulator,disabled=3+64+70") as model:
        check(model, layer, 130)


def test_what_is_refused() -> None:
    layer = LAYERS[0]
    with UpmemModel(program_of([layer], rows=8, dpus=2)) as model:
        with pytest.raises(CompileError, match="has no layer 'other'"):
            model.run("other", np.zeros((1, 30)))
        with pytest.raises(CompileError, match="N×30"):
            model.run(layer.name, np.zeros((1, 31)))
        with pytest.raises(CompileError, match="index 16 of 16 centroids"):
            model.sums(layer.name, np.full((1, layer.codebooks), 16))
    with pytest.raises(CompileError, match="is closed"):
        model.run(layer.name, np.zeros((1, 30)))


def test_the_project_builds_and_checks_itself(tmp_path: Path) -> None:
    host = program_of(LAYERS, rows=40, dpus=8)
    folder = tmp_path / "net"
    write_project(project_files(host), folder, headers=False)
    assert project_files(host) == project_files(program_of(LAYERS, rows=40, dpus=8))
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "INR_DPU_CHECK": "all"}
    done = subprocess.run(
        ["make", "check"], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("sums equal") == 3
    data = bytearray((folder / "net_check.data").read_bytes())
    data[-12] ^= 1
    (folder / "net_check.data").write_bytes(bytes(data))
    done = subprocess.run(
        ["make", "check"], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode != 0
