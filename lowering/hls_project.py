"""A design as a folder of files that a person can open, simulate and synthesise."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from .. import __version__
from ..analysis.fixed import quantize
from ..analysis.schedules import element_bits
from ..analysis.storage import fifo_storage
from ..analysis.targets import DEFAULT_PART, find_part
from ..dialects.array_stream import stream_type
from ..errors import CompileError
from .hls_cpp import Design, Port

FLOAT_TOLERANCE = 1e-5
"""How far a float design's outputs may lie from double precision, of their largest magnitude."""


@dataclass(frozen=True)
class Part:
    """The device that `run_hls.tcl` synthesises for, and the clock period in ns."""

    name: str = field(default_factory=lambda: find_part(DEFAULT_PART).part)
    clock: float = 3.33


@dataclass(frozen=True)
class Batch:
    """A testbench: float inputs, what must come out (mantissas or floats), and the truth."""

    inputs: list[np.ndarray]
    expected: list[np.ndarray]
    reference: list[np.ndarray]


@dataclass(frozen=True)
class _Array:
    type: str
    name: str
    size: int
    lines: list[str]
    comment: str


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("inr.lowering"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )


def render(design: Design, batch: Batch | None = None, part: Part | None = None) -> dict[str, str]:
    """
    The text of every generated file by its path in the project folder. Without a batch there
    is no testbench. The same design gives the same text.
    """
    part = part or Part()
    context = {
        "design": design,
        "guard": design.name.upper(),
        "signature": _signature(design),
        "types": design.types.typedefs(),
        "top": top_function(design),
        "part": part.name,
        "clock": part.clock,
        "uncertainty": "",
        "version": __version__,
        "tolerance": FLOAT_TOLERANCE,
        "call_arguments": ", ".join(
            [f"{p.name}_words" for p in design.inputs] + [p.name for p in design.outputs]
        ),
        "numpy_types": {"float": "float32", "int32_t": "int32", "int64_t": "int64"},
        "arrays": list(_arrays(design, batch)) if batch else [],
    }
    names = ["model.hpp", "model.cpp", "run_hls.tcl", "README.md"]
    if design.roms.roms:
        names.append("weights.hpp")
    if design.tables.definitions:
        names.append("tables.hpp")
    if batch is not None:
        names += ["testbench.cpp", "testbench_data.hpp", "Makefile"]
    environment = _environment()
    rendered = {name: environment.get_template(f"{name}.j2").render(context) for name in names}
    for name in ("host_pynq.py", "host_xrt.cpp"):
        rendered[f"host/{name}"] = environment.get_template(f"{name}.j2").render(context)
    for rom in design.roms.roms:
        if rom.is_large:
            rendered[f"weights/{rom.name}.dat"] = "\n".join(rom.lines) + "\n"
    return rendered


def render_single_file(design: Design) -> str:
    """The design as one translation unit, its headers and data in place."""
    texts = render(design)
    model = texts["model.cpp"]
    for name in ("model.hpp", "tables.hpp", "weights.hpp"):
        model = model.replace(f'#include "{name}"\n', texts.get(name, ""))
    for rom in design.roms.roms:
        if rom.is_large:
            lines = "".join(f"    {line}\n" for line in rom.lines)
            model = model.replace(f'#include "weights/{rom.name}.dat"\n', lines)
    return model


def _signature(design: Design) -> str:
    parameters = [f"const {p.word} {p.name}[{p.elements}]" for p in design.inputs]
    parameters += [f"{p.word} {p.name}[{p.elements}]" for p in design.outputs]
    return ", ".join(parameters)


def top_function(design: Design) -> str:
    """The dataflow function: ports, FIFOs, one call a process."""
    lines = [f"void {design.name}({_signature(design)}) {{"]
    for port in (*design.inputs, *design.outputs):
        lines.append(
            f"#pragma HLS INTERFACE m_axi port = {port.name} offset = slave "
            f"bundle = {port.bundle} depth = {port.elements}"
        )
        lines.append(f"#pragma HLS INTERFACE s_axilite port = {port.name}")
    lines += ["#pragma HLS INTERFACE s_axilite port = return", "#pragma HLS DATAFLOW", ""]
    for fifo in design.fifos:
        lines.append(
            f'  hls::stream<{fifo.block}, {fifo.depth}> {fifo.name}("{fifo.name}");'
            f"  // {fifo.comment}"
        )
        lines.append(
            f"#pragma HLS BIND_STORAGE variable = {fifo.name} type = fifo impl = {fifo.storage}"
        )
    for fifo in design.fifos:
        type_ = stream_type(design.fifo_of[fifo.name])
        usual = fifo_storage(fifo.depth, element_bits(type_.element) * type_.block.data)
        if (fifo.storage == "srl") != (usual == "srl"):
            lines.append(f'  INR_STORAGE({fifo.name}, "{fifo.storage}");')
    lines += ["", f'  INR_REGION("{design.name}");']
    for process in design.processes:
        lines.append(f"  // {process.comment}")
        lines.append(f'  INR_PROCESS("{process.name}", {process.call});')
    return "\n".join([*lines, "}", ""])


def _arrays(design: Design, batch: Batch) -> Iterator[_Array]:
    for port, values in zip(design.inputs, batch.inputs, strict=True):
        yield _Array(
            port.word,
            f"{port.name}_words",
            port.elements,
            _lines(port, _words(port, values)),
            f"input {port.name}",
        )
    for port, expected, reference in zip(
        design.outputs, batch.expected, batch.reference, strict=True
    ):
        yield _Array(
            port.word,
            f"{port.name}_expected",
            port.elements,
            _lines(port, expected),
            f"output {port.name} by the {'float' if port.format is None else 'integer'} model",
        )
        yield _Array(
            "double",
            f"{port.name}_reference",
            port.elements,
            _wrap([repr(float(v)) for v in np.ravel(reference)]),
            f"output {port.name} in double precision",
        )


def _words(port: Port, values: np.ndarray) -> np.ndarray:
    """Float inputs as the words in memory."""
    return values if port.format is None else quantize(values, port.format)


def _lines(port: Port, values: np.ndarray) -> list[str]:
    if port.format is None:
        return _wrap([f"{float(np.float32(v))!r}f" for v in np.ravel(values)])
    suffix = "LL" if port.word == "int64_t" else ""
    # The lowest int32 has no literal of its own: 2147483648 is not an int.
    return _wrap(
        [
            "-2147483647 - 1" if v == -(2**31) and not suffix else f"{v}{suffix}"
            for v in np.ravel(values).tolist()
        ]
    )


def _wrap(words: list[str]) -> list[str]:
    lines: list[str] = []
    line = ""
    for word in words:
        if len(line) + len(word) + 2 > 94:
            lines.append(line.rstrip())
            line = ""
        line += f"{word}, "
    return [*lines, line.rstrip().rstrip(",")]


def write_project(
    texts: Mapping[str, str | bytes], folder: Path, *, force: bool = False, headers: bool = True
) -> None:
    """
    Write a project folder, all or nothing: files go to a temporary folder beside it first.

    Raises CompileError where the folder exists and `force` is not given.
    """
    refuse_existing(folder, force=force)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        staging.chmod(0o755)
        for name, text in texts.items():
            path = staging / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        if headers:
            with as_file(files("inr.runtime") / "hls") as runtime:
                shutil.copytree(runtime / "include", staging / "include")
                shutil.copytree(runtime / "sim", staging / "sim")
        if folder.exists():
            shutil.rmtree(folder)
        staging.rename(folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def refuse_existing(folder: Path, *, force: bool) -> None:
    """Raises CompileError where an output folder is already there and may not be replaced."""
    if folder.exists() and not force:
        raise CompileError(f"{folder} exists; give --force to replace it, or another --out")
