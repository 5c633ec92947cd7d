"""Building a generated project with g++, running its testbench, reading what it says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CompileError
from ..lowering.hls_cpp import Design
from .toolchain import FLAGS, Toolchain, cache_folder, fingerprint, precompiled_header

DTYPES = {"float": "<f4", "int32_t": "<i4", "int64_t": "<i8"}


@dataclass
class Simulation:
    """What a run of a testbench gave."""

    status: int
    outputs: list[np.ndarray]
    """Raw words, in the shapes of the design's outputs; empty where the run did not finish."""
    text: str
    """The testbench's table, and what went wrong."""
    seconds: float
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    """FIFOs and processes as the simulation runtime reports them."""

    @property
    def depths(self) -> dict[str, int]:
        """The depth that each FIFO had at the end."""
        return {
            fifo["name"]: fifo["final_depth"]
            for region in self.report.get("regions", [])
            for fifo in region["fifos"]
        }

    @property
    def cycles(self) -> int | None:
        """Cycles of the whole design; None where the run did not count them."""
        counts = [region["cycles"] for region in self.report.get("regions", [])]
        return counts[0] if len(counts) == 1 else None

    @property
    def overflows(self) -> dict[str, int]:
        """Processes whose results did not fit their format, and how often."""
        return {
            process["name"]: process["overflows"]
            for region in self.report.get("regions", [])
            for process in region["processes"]
            if process["overflows"]
        }


def build(texts: dict[str, str], toolchain: Toolchain) -> Path:
    """
    Compile the generated files of a project with the simulation runtime; the executable.

    Executables are kept in the cache by the content of everything that went into them.
    Raises CompileError with the compiler's words where the C++ does not compile.
    """
    with as_file(files("inr.runtime") / "hls") as runtime:
        header = precompiled_header(toolchain, runtime / "include", runtime / "sim")
    sources = {k: v for k, v in texts.items() if k.endswith((".cpp", ".hpp", ".dat"))}
    sources = {k: v for k, v in sources.items() if not k.startswith("host/")}
    key = fingerprint(
        [header.parent.name.encode()]
        + [part.encode() for name in sorted(sources) for part in (name, sources[name])]
    )
    executable = cache_folder() / "simulations" / key
    if executable.exists():
        return executable
    with tempfile.TemporaryDirectory(prefix="inr-") as name:
        folder = Path(name)
        for path, text in sources.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        compile_project(folder, header, toolchain, folder / "testbench")
        executable.parent.mkdir(parents=True, exist_ok=True)
        staged = executable.with_name(f".{key}-{os.getpid()}")
        shutil.copy2(folder / "testbench", staged)
        staged.rename(executable)
    return executable


def compile_project(folder: Path, header: Path, toolchain: Toolchain, output: Path) -> None:
    """Compile model and testbench side by side and link them."""
    jobs: list[tuple[subprocess.Popen[str], str]] = []
    for name in ("model", "testbench"):
        command = [
            toolchain.compiler,
            *FLAGS,
            f"-I{folder}",
            *toolchain.includes(header.parent),
            *(["-include", str(header)] if name == "model" else []),
            "-c",
            str(folder / f"{name}.cpp"),
            "-o",
            str(folder / f"{name}.o"),
        ]
        jobs.append(
            (subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder), name)
        )
    for process, name in jobs:
        _, errors = process.communicate()
        if process.returncode:
            first = "\n".join(line for line in errors.splitlines() if "error" in line)[:2000]
            raise CompileError(f"g++ does not take the generated {name}.cpp:\n{first or errors}")
    subprocess.run(
        [toolchain.compiler, str(folder / "model.o"), str(folder / "testbench.o"), "-o", output],
        check=True,
    )


def run(
    executable: Path,
    design: Design,
    *,
    grow: bool = False,
    cycles: bool = False,
    depths: Mapping[str, int] | None = None,
) -> Simulation:
    """
    Run a testbench. With `grow`, a FIFO that is full in a deadlock gets deeper and the run
    goes on: the depths at the end are free from deadlock. With `cycles` the run counts the
    cycles of the hardware, and pipelines hold what they hold there. `depths` overrides the
    depths of FIFOs by name.
    """
    with tempfile.TemporaryDirectory(prefix="inr-") as name:
        folder = Path(name)
        environment = {
            **os.environ,
            "INR_SIM_REPORT": str(folder / "report.json"),
            "INR_SIM_GROW": "1" if grow else "0",
            "INR_SIM_CYCLES": "1" if cycles else "0",
        }
        if depths:
            environment["INR_SIM_DEPTHS"] = ",".join(f"{n}={d}" for n, d in depths.items())
        start = time.perf_counter()
        done = subprocess.run(
            [str(executable), str(folder / "outputs")],
            capture_output=True,
            text=True,
            env=environment,
        )
        seconds = time.perf_counter() - start
        outputs: list[np.ndarray] = []
        if (folder / "outputs").exists():
            outputs = list(_read_outputs(folder / "outputs", design))
        report: dict[str, Any] = {}
        if (folder / "report.json").exists():
            report = json.loads((folder / "report.json").read_text())
    return Simulation(done.returncode, outputs, done.stdout + done.stderr, seconds, report)


def _read_outputs(path: Path, design: Design) -> list[np.ndarray]:
    raw = path.read_bytes()
    arrays: list[np.ndarray] = []
    offset = 0
    for port in design.outputs:
        dtype = np.dtype(DTYPES[port.word])
        array = np.frombuffer(raw, dtype, port.elements, offset)
        arrays.append(array.reshape(port.shape))
        offset += array.nbytes
    return arrays
