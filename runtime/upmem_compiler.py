"""
A converted PyTorch model to a checked program for UPMEM: mapped, printed, run on emulated DPUs,
compared with NumPy and PyTorch.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from ..analysis.lut_layer import LutLayer
from ..analysis.upmem_cost import predict, slots_per_addition
from ..analysis.upmem_explain import explain
from ..analysis.upmem_legality import CACHE_BYTES, Machine
from ..analysis.upmem_mapping import STACK_BYTES, parse_fields
from ..analysis.upmem_points import Points
from ..analysis.upmem_target import UpmemTarget, find_target
from ..analysis.upmem_tuner import tune
from ..dialects.upmem import MramAttr, space_of
from ..errors import CompileError
from ..lowering.upmem_host_c import HostLayer, HostProgram
from ..lowering.upmem_project import project_files
from .deployment import (
    DeviceLayer,
    UpmemOptions,
    device_layers,
    place_on_dpus,
    random_codes,
    sums_of,
    upmem_program,
)
from .host_search import MOST_CHANNELS
from .upmem_build import find_dpu_toolchain, host_compiler, host_program
from .upmem_model import UpmemModel, device_binary, generation

Stage = Callable[[str], AbstractContextManager[None]]
Array = NDArray[Any]


@dataclass(frozen=True)
class ConvertedModel:
    """A model with layers of tables, and the one it was made from where that is there."""

    name: str
    converted: nn.Module
    inputs: tuple[Tensor, ...]
    original: nn.Module | None = None


def load_converted(spec: str, tables: Path | None = None) -> ConvertedModel:
    """
    The model that a factory, `file.py:factory`, returns: converted, or one that the tables in a
    folder of `inr-lut` or `lut.save` belong to.

    Raises CompileError as `load_spec` and `lut.load`, and for what is no module.
    """
    from ..frontend.spec import load_spec

    found = load_spec(spec)
    model = found.callable
    if not isinstance(model, nn.Module):
        raise CompileError(
            f"{spec}: a model with layers of tables is an nn.Module; the factory returned "
            f"{type(model).__name__}"
        )
    if tables is None:
        return ConvertedModel(found.name, model, found.example_inputs)
    from .. import lut

    # What inr-lut writes has the tables in a folder of their own.
    inner = tables / "tables"
    converted = lut.load(inner if inner.is_dir() else tables, model)
    return ConvertedModel(found.name, converted, found.example_inputs, model)


@dataclass
class UpmemCompiled:
    """Every file of a project but `report.json`, which is `report` and may grow."""

    files: dict[str, str | bytes]
    report: dict[str, Any]
    explained: dict[str, str] = field(default_factory=dict[str, str])
    """Why each distinct shape of layer has its mapping, by the first layer of the shape."""


def compile_upmem(
    converted: nn.Module,
    inputs: Sequence[Tensor],
    name: str,
    options: UpmemOptions,
    *,
    original: nn.Module | None = None,
    check: bool = True,
    explained: bool = False,
    stage: Stage | None = None,
) -> UpmemCompiled:
    """
    The project of a converted model, and what is known of it.

    With `check` every layer runs on emulated DPUs on what the example inputs make of its input,
    and the sums must be those of NumPy; the device program runs once more with all checks on; and
    the whole model is compared with the converted one and with `original` where it is given.

    Raises CompileError for a model without layers of tables, a machine that is not known, layers
    that fit no mapping (which memory, and by how much), missing tools, and any difference.
    """
    clock = _Clock(stage or (lambda _: nullcontext()))
    target = find_target(options.machine)
    layers = device_layers(converted)
    _refuse(layers, name)
    if check:
        find_dpu_toolchain()
        host_compiler()
    with clock("map"):
        host = upmem_program(list(layers.values()), name, options)
    texts: dict[str, str] = {}
    if explained:
        with clock("explain"):
            texts = _explain(layers, host, target, options)
    with clock("print"):
        files = project_files(host)
        files["design.mlir"] = _design(host)
    report = _report(host, target, options)
    if check:
        with clock("device build"):
            binary = device_binary(host, files)
            report["memory"] |= _program_sizes(binary, host, target)
        with clock("checks"):
            report["checked"] = _run_checks(host, files, binary, target)
        _emulate(converted, inputs, original, host, target, layers, report, clock)
    report["seconds"] = {k: round(v, 4) for k, v in clock.seconds.items()}
    return UpmemCompiled(files, report, texts)


class _Clock:
    """Seconds of each stage."""

    def __init__(self, stage: Stage):
        self.stage = stage
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        with self.stage(name):
            yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def _refuse(layers: dict[str, DeviceLayer], name: str) -> None:
    if not layers:
        raise CompileError(
            f"{name} has no layers of tables, which is what DPUs run: convert it "
            "(inr-lut MODEL --calibration ... --policy ... --out FOLDER) and give --tables FOLDER, "
            "or let the factory return what inr.lut.convert makes of it"
        )
    for layer in layers.values():
        if isinstance(layer, LutLayer) and layer.vec > MOST_CHANNELS:
            raise CompileError(
                f"{layer.name}: codebooks of {layer.vec} channels; the host's search takes up to "
                f"{MOST_CHANNELS}"
            )


def _design(host: HostProgram) -> str:
    module = host.program.kernels[0].parent_op()
    assert isinstance(module, ModuleOp)
    text = StringIO()
    Printer(stream=text).print_op(module)
    return f"{text.getvalue()}\n"


def kind_of(layer: HostLayer) -> tuple[Any, ...]:
    """What layers that run alike have in common."""
    shape = layer.geometry.shape
    return (*asdict(replace(shape, acc_low=None, acc_high=None)).values(), layer.geometry.mapping)


def _explain(
    layers: dict[str, DeviceLayer], host: HostProgram, target: UpmemTarget, options: UpmemOptions
) -> dict[str, str]:
    """The tuner's reasons for each kind of layer; a note where the layers together decided else."""
    machine = Machine.of(target, options.dpus)
    fixed = {"groups": 1, **parse_fields(options.mapping)}
    found: dict[tuple[Any, ...], str] = {}
    texts: dict[str, str] = {}
    for layer in host.layers:
        key = kind_of(layer)[:-1]
        if key in found:
            continue
        found[key] = layer.name
        alone = tune(layer.geometry.shape, machine, fixed, name=layer.name)
        text = explain(alone, layer.name)
        if alone.mapping != layer.geometry.mapping:
            text += f"\n  with all layers in one MRAM: {layer.geometry.mapping}"
        texts[layer.name] = text
    return texts


# What is known without running anything.


def _report(host: HostProgram, target: UpmemTarget, options: UpmemOptions) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    predicted: dict[str, Any] = {}
    for layer in host.layers:
        geometry = layer.geometry
        shape = geometry.shape
        mapping[layer.name] = asdict(geometry.mapping)
        cost = predict(shape, geometry.mapping, target)
        slots = float(slots_per_addition(Points.of(shape, [geometry.mapping]))[0])
        predicted[layer.name] = {
            **{f"{part}_ms": value * 1e3 for part, value in asdict(cost).items()},
            "slots_per_addition": slots,
        }
    total = {
        part: sum(entry[part] for entry in predicted.values())
        for part in ("index_ms", "table_ms", "kernel_ms", "output_ms", "launch_ms", "total_ms")
    }
    return {
        "name": host.name,
        "target": "upmem",
        "machine": {
            "name": target.name,
            "description": target.description,
            "clock_mhz": target.clock_mhz,
            "dpus": options.dpus or target.dpus,
            "mram": target.mram,
            "wram": target.wram,
            "iram": target.iram,
            "dma_bytes_per_second": target.clock_mhz * 1e6 / target.dma_per_byte,
        },
        "dpus": host.grid.dpus.data,
        "groups": host.grid.groups.data,
        "rows": options.rows,
        "layers": {layer.name: _sizes(layer) for layer in host.layers},
        "mapping": mapping,
        "predicted": {"layers": predicted, "total": total},
        "emulated": None,
        "accuracy": None,
        "checked": None,
        "memory": _memory(host, target),
    }


def _sizes(layer: HostLayer) -> dict[str, Any]:
    g = layer.geometry
    shape = g.shape
    return {
        "kind": "int8" if shape.is_product else "tables",
        "inputs": layer.inputs,
        "features": shape.features,
        "codebooks": shape.codebooks,
        "centroids": shape.centroids,
        "vec": shape.vec,
        "bits": shape.bits,
        "residual": 0 if layer.channels is None else len(layer.channels),
        "dpu": {"rows": g.rows, "features": g.features, "codebooks": g.codebooks},
        "mram": {"table": g.table_bytes, "index": g.index_bytes, "sums": g.output_bytes},
        "wram": g.wram_buffers,
        "additions": g.rows * g.codebooks * g.features,
    }


def _memory(host: HostProgram, target: UpmemTarget) -> dict[str, Any]:
    """Bytes of one DPU by what they are for."""
    symbols = {
        op.sym_name.data: op.bytes
        for op in host.program.symbols
        if isinstance(space_of(op.type), MramAttr)
    }
    stacks = host.program.tasklets * (STACK_BYTES + CACHE_BYTES)
    return {
        "mram": {"size": target.mram, "symbols": symbols},
        "wram": {"size": target.wram, "buffers": host.program.wram_bytes, "stacks": stacks},
        "iram": {"size": target.iram, "used": None},
    }


# What a build and runs say.


def _program_sizes(binary: Path, host: HostProgram, target: UpmemTarget) -> dict[str, Any]:
    """
    WRAM and IRAM as linked, in instructions of the emulator's set. Raises CompileError where
    either is too small.
    """
    from elftools.elf.elffile import ELFFile

    with binary.open("rb") as stream:
        elf = ELFFile(stream)
        (heap,) = elf.get_section_by_name(".symtab").get_symbol_by_name("__heap_start")  # pyright: ignore
        text = cast(int, elf.get_section_by_name(".text")["sh_size"])  # pyright: ignore
    used, end = text // 4, cast(int, heap["st_value"])
    if used > target.iram:
        kinds = len({kind_of(layer) for layer in host.layers})
        raise CompileError(
            f"{host.name}: its {kinds} kinds of layers take {used:,} instructions of IRAM, "
            f"{used - target.iram:,} more than the {target.iram:,} of {target.name}; fewer "
            "settings of the tables, or one --mapping for all, makes layers share a kernel"
        )
    if end > target.wram:
        raise CompileError(
            f"{host.name}: buffers, stacks and runtime take {end:,} bytes of WRAM, "
            f"{end - target.wram:,} more than the {target.wram:,} of {target.name}; fewer tasklets "
            "(--mapping tasklets=N) or smaller tiles make it fit"
        )
    memory = _memory(host, target)
    known = memory["wram"]["buffers"] + memory["wram"]["stacks"]
    memory["wram"]["rest"] = end - known
    memory["iram"]["used"] = used
    return {"wram": memory["wram"], "iram": memory["iram"]}


def _run_checks(
    host: HostProgram, files: dict[str, str | bytes], binary: Path, target: UpmemTarget
) -> dict[str, Any]:
    """
    The project's own check (`make check`) in a process of its own, with every check of the
    emulator on: races, uninitialised memory, DMA windows. Raises CompileError with its words.
    """
    name = host.name
    texts = {n: t for n, t in files.items() if isinstance(t, str) and n.endswith((".c", ".h"))}
    del texts[f"{name}_dpu.c"]
    flags = ("-std=gnu11", "-ffp-contract=off", "-DINR_EMULATOR")
    program = host_program(texts, flags=flags)
    with tempfile.TemporaryDirectory(prefix="inr-") as folder:
        here = Path(folder)
        for file in (f"{name}_check.data", f"{name}.weights"):
            (here / file).write_bytes(cast(bytes, files[file]))
        (here / "build").mkdir()
        (here / "build" / f"{name}_dpu").symlink_to(binary)
        environment = {
            **os.environ,
            "INR_DPU_CHECK": "all",
            "INR_DPU_TARGET": generation(target),
        }
        done = subprocess.run(
            [str(program)], cwd=here, env=environment, capture_output=True, text=True
        )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise CompileError(f"the program of {name} fails its check on emulated DPUs:\n{said}")
    return {
        "checks": "races, mram-reads, uninitialised, dma-window",
        "target": generation(target),
        "sums": len(host.layers),
    }


class _Runs:
    """What the emulator reports of launches, `INR_DPU_REPORT`."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Collects the launches inside; the user's own report, if any, waits meanwhile."""
        before = os.environ.get("INR_DPU_REPORT")
        with tempfile.TemporaryDirectory(prefix="inr-") as folder:
            path = Path(folder) / "launches"
            os.environ["INR_DPU_REPORT"] = str(path)
            try:
                yield
            finally:
                if before is None:
                    del os.environ["INR_DPU_REPORT"]
                else:
                    os.environ["INR_DPU_REPORT"] = before
            lines = path.read_text().splitlines() if path.exists() else []
        self.launches = [found for line in lines if "cycles_max" in (found := json.loads(line))]


def _emulate(
    converted: nn.Module,
    inputs: Sequence[Tensor],
    original: nn.Module | None,
    host: HostProgram,
    target: UpmemTarget,
    layers: dict[str, DeviceLayer],
    report: dict[str, Any],
    clock: _Clock,
) -> None:
    with clock("PyTorch"):
        activations, wanted = activations_of(converted, inputs, list(layers))
    with clock("open"):
        model = UpmemModel(host)
    with model:
        exact: dict[str, Any] = {}
        with clock("layers"):
            for name, layer in layers.items():
                exact[name] = check_sums(model, layer, activations.get(name))
        with clock("model"), torch.no_grad():
            got = place_on_dpus(converted, model, layers)(*inputs)
        with clock("launches"):
            emulated = _timed(model, host, target, layers, activations)
    accuracy = {"layers": exact, "model": {"converted": distance(got, wanted)}}
    if original is not None:
        with clock("PyTorch"), torch.no_grad():
            accuracy["model"]["original"] = distance(got, original(*inputs))
    report["accuracy"], report["emulated"] = accuracy, emulated


def activations_of(
    converted: nn.Module, inputs: Sequence[Tensor], names: Sequence[str]
) -> tuple[dict[str, Array], Any]:
    """The rows N×H that each layer gets, and the model's output."""
    from ..lut.capture import watching

    rows: dict[str, list[Array]] = {}

    def see(name: str, x: Tensor, _: Tensor) -> None:
        rows.setdefault(name, []).append(
            x.reshape(-1, x.shape[-1]).to("cpu", torch.float32).numpy().copy()
        )

    with torch.no_grad(), watching(converted, names, see):
        try:
            out = converted(*inputs)
        except Exception as error:
            raise CompileError(
                f"the converted model does not take the example inputs: {type(error).__name__}: "
                f"{' '.join(str(error).split())}"
            ) from error
    return {name: np.concatenate(parts) for name, parts in rows.items()}, out


def check_sums(model: UpmemModel, layer: DeviceLayer, x: Array | None) -> dict[str, Any]:
    """
    The sums of the DPUs for rows N×H held against NumPy's. Raises CompileError where one differs.

    A layer that no input reaches has random indices, or activations.
    """
    if x is None or not len(x):
        codes = random_codes(layer, 16)
    else:
        codes = layer.encode(x)
    differ = np.flatnonzero(model.sums(layer.name, codes) != sums_of(layer, codes))
    if differ.size:
        raise CompileError(
            f"{layer.name}: {differ.size} sums of the DPUs differ from NumPy's, first number "
            f"{differ[0]}. This is a mistake of the compiler; please report it with the model"
        )
    return {"rows": len(codes), "sums_equal": True, "reached": x is not None}


def distance(got: Any, wanted: Any) -> dict[str, float]:
    """The largest difference of the floating outputs, and over the largest value."""
    from ..lut.sites import tensors

    reference = dict(tensors(wanted))
    largest = scale = 0.0
    for name, tensor in tensors(got):
        if name in reference and tensor.numel():
            real = reference[name].double()
            largest = max(largest, float((tensor.double() - real).abs().max()))
            scale = max(scale, float(real.abs().max()))
    return {"max_abs": largest, "relative": largest / (scale or 1.0)}


def _timed(
    model: UpmemModel,
    host: HostProgram,
    target: UpmemTarget,
    layers: dict[str, DeviceLayer],
    activations: dict[str, Array],
) -> dict[str, Any]:
    """
    One launch of as many rows as the mapping is for, for each kind of layer: what it does depends
    on the sizes, not on the values.
    """
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    found: dict[str, Any] = {}
    for layer in host.layers:
        key = kind_of(layer)
        if key not in known:
            known[key] = timed_launch(model, layer, target, layers[layer.name], activations)
        found[layer.name] = known[key]
    slots = sum(entry["total_slots"] for entry in known.values())
    wall = sum(entry["wall_seconds"] for entry in known.values())
    return {
        "layers": found,
        "total": {"kernel_ms": sum(entry["kernel_ms"] for entry in found.values())},
        "kinds": len(known),
        "slots_per_second": slots / wall,
    }


def timed_launch(
    model: UpmemModel,
    host: HostLayer,
    target: UpmemTarget,
    layer: DeviceLayer,
    activations: dict[str, Array],
) -> dict[str, Any]:
    """A full launch of a layer: modelled cycles beside the predicted ones, bytes, checked sums."""
    shape = host.geometry.shape
    x = activations.get(layer.name)
    if x is None or not len(x):
        codes = random_codes(layer, shape.rows)
    else:
        codes = layer.encode(x[: shape.rows])
    # A short example is repeated.
    full = codes[np.arange(shape.rows) % len(codes)]
    sent, received, cycles = model.bytes_sent, model.bytes_received, model.cycles
    runs = _Runs()
    with runs.watched():
        start = time.perf_counter()
        sums = model.sums(layer.name, full)
        wall = time.perf_counter() - start
    if not np.array_equal(sums[: len(codes)], sums_of(layer, codes)):
        raise CompileError(
            f"{layer.name}: a launch of {shape.rows} rows has other sums than NumPy. This is a "
            "mistake of the compiler; please report it with the model"
        )
    taken = model.cycles - cycles
    cost = predict(shape, host.geometry.mapping, target)
    slowest = max(runs.launches, key=lambda launch: launch["cycles_max"])
    dpus = sum(launch["dpus"] for launch in runs.launches)
    moved = sum(run["dma_read_bytes"] + run["dma_write_bytes"] for run in runs.launches)
    # Additions of rows, columns and codebooks that are there, none of the padding.
    additions = shape.rows * shape.features * shape.codebooks
    slots = sum(run["total_slots"] for run in runs.launches)
    return {
        "rows": shape.rows,
        "cycles": taken,
        "kernel_ms": target.seconds(taken) * 1e3,
        "predicted_kernel_ms": cost.kernel * 1e3,
        "ratio": target.seconds(taken) / cost.kernel,
        "slots": slowest["slots"],
        "dma_busy": slowest["dma_busy"],
        "total_slots": slots,
        "slots_per_addition": slots / additions,
        "additions": additions,
        "dma_bytes": moved,
        "dpus": dpus,
        "bytes_sent": model.bytes_sent - sent,
        "bytes_received": model.bytes_received - received,
        "wall_seconds": wall,
    }
