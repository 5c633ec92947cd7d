"""Finding g++ and the fixed-point headers that the simulation of generated C++ needs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ..errors import CompileError

FLAGS = ("-std=c++14", "-O1", "-ffp-contract=off", "-w")
"""-O1 is where simulation is fast; higher levels only take longer to compile. Contracting a
product and a sum into one rounding would make floats depend on the machine."""


@cache
def ap_types() -> Path | None:
    """
    The folder with `ap_fixed.h`: `INR_AP_TYPES` where set, else in the installed hls4ml
    package (found without importing it). None where there is none.
    """
    if (given := os.environ.get("INR_AP_TYPES")) is not None:
        return Path(given)
    spec = find_spec("hls4ml")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "templates" / "vivado" / "ap_types"
    return folder if (folder / "ap_fixed.h").exists() else None


@dataclass(frozen=True)
class Toolchain:
    """A C++ compiler and the headers it needs."""

    compiler: str
    headers: Path

    def includes(self, project: Path) -> list[str]:
        """Include flags for a project folder: its own simulation headers come first."""
        return [
            f"-I{project / 'sim'}",
            f"-I{project / 'include'}",
            "-isystem",
            str(self.headers),
        ]

    @property
    def version(self) -> str:
        """What the compiler says of itself."""
        return _version(self.compiler)


@cache
def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def find_toolchain() -> Toolchain:
    """
    The compiler (`CXX` where set, else g++) and headers of this machine.

    Raises CompileError that says what to install, or how to go without.
    """
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise CompileError(
            "no g++ found to simulate the design; install it (Debian: apt install g++), set CXX, "
            "or give --no-check to write the project unsimulated"
        )
    headers = ap_types()
    if headers is None:
        raise CompileError(
            "no ap_fixed.h found to simulate the design; pip install 'inr-opt[csim]', set "
            "INR_AP_TYPES to a folder that has it, or give --no-check"
        )
    return Toolchain(compiler, headers)


def cache_folder() -> Path:
    """Where built simulations are kept: `INR_CACHE`, else `inr-opt` in the user's cache."""
    if (given := os.environ.get("INR_CACHE")) is not None:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "inr-opt"


def fingerprint(parts: list[bytes]) -> str:
    """A name for the content of some files and settings."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:32]


def precompiled_header(toolchain: Toolchain, include: Path, sim: Path) -> Path:
    """
    A precompiled `inr/kernels.hpp` for these headers and this compiler, made once: it halves
    the time to compile a small design.
    """
    sources = sorted([*include.rglob("*.hpp"), *sim.rglob("*.h"), *sim.rglob("*.hpp")])
    key = fingerprint(
        [
            toolchain.compiler.encode(),
            toolchain.version.encode(),
            str(toolchain.headers).encode(),
            " ".join(FLAGS).encode(),
            *(p.read_bytes() for p in sources),
        ]
    )
    folder = cache_folder() / f"headers-{key}"
    header = folder / "kernels.hpp"
    if (folder / "kernels.hpp.gch").exists():
        return header
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".headers-", dir=folder.parent))
    shutil.copytree(include, staging / "include")
    shutil.copytree(sim, staging / "sim")
    (staging / "kernels.hpp").write_text('#include "inr/kernels.hpp"\n')
    subprocess.run(
        [
            toolchain.compiler,
            *FLAGS,
            *toolchain.includes(staging),
            "-x",
            "c++-header",
            str(staging / "kernels.hpp"),
            "-o",
            str(staging / "kernels.hpp.gch"),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    try:
        staging.rename(folder)
    except OSError:
        # Another process made the same one meanwhile.
        shutil.rmtree(staging, ignore_errors=True)
    return header


def compile_program(sources: Mapping[str, str], *options: str) -> Path:
    """
    The executable of some C++ texts, by file name, with the kernels' headers on the include path.

    Any warning is an error. Executables are kept in the cache by the content of everything that
    went into them, headers included. Raises CompileError with the compiler's words.
    """
    toolchain = find_toolchain()
    headers = Path(__file__).with_name("hls")
    files = sorted(p for p in headers.rglob("*") if p.suffix in (".h", ".hpp"))
    key = fingerprint(
        [
            toolchain.version.encode(),
            str(toolchain.headers).encode(),
            "\0".join(options).encode(),
            *(part.encode() for item in sorted(sources.items()) for part in item),
            *(path.read_bytes() for path in files),
        ]
    )
    executable = cache_folder() / "programs" / key
    if executable.exists():
        return executable
    with tempfile.TemporaryDirectory(prefix="inr-") as name:
        folder = Path(name)
        for file, text in sources.items():
            (folder / file).write_text(text)
        command = [toolchain.compiler, "-std=c++14", *options, f"-I{headers / 'include'}"]
        command += ["-isystem", str(toolchain.headers), *sources, "-o", "program"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode or "warning" in done.stderr:
            raise CompileError(f"g++ does not take {', '.join(sources)}:\n{done.stderr}")
        executable.parent.mkdir(parents=True, exist_ok=True)
        staged = executable.with_name(f".{key}-{os.getpid()}")
        shutil.copy2(folder / "program", staged)
        staged.rename(executable)
    return executable
