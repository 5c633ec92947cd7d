"""A generated UPMEM program from Python: built, loaded, run on the emulated DPUs or real ones."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..analysis.int8_layer import LIMIT
from ..analysis.upmem_mapping import STACK_BYTES
from ..analysis.upmem_target import UpmemTarget, find_target
from ..errors import CompileError
from ..lowering.upmem_host_c import HostProgram
from ..lowering.upmem_project import project_files
from .toolchain import cache_folder, fingerprint
from .upmem_build import (
    WRAM_BYTES,
    DeviceOptions,
    device_program,
    host_compiler,
    host_flags,
    host_library,
)

FLAGS = ("-std=gnu11", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-DINR_EMULATOR")


def build_library(host: HostProgram, files: dict[str, str | bytes]) -> Path:
    """
    The host's side as a shared object, kept in the cache by content. CompileError with the
    compiler's words.
    """
    compiler = host_compiler()
    sources = [f"{host.name}.c", "inr_lut.c"]
    texts = {
        name: text.encode() if isinstance(text, str) else text
        for name, text in files.items()
        if name.endswith((".c", ".h"))
    }
    parts = [compiler.encode(), "\0".join(FLAGS).encode(), str(host_library()).encode()]
    key = fingerprint([*parts, *(part for name in sorted(texts) for part in (texts[name],))])
    library = cache_folder() / "dpu-models" / f"{key}.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="inr-") as name:
        folder = Path(name)
        for file, text in texts.items():
            (folder / file).write_bytes(text)
        command = [compiler, *FLAGS, *sources, "-o", "model.so", *host_flags()]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileError(f"{compiler} does not take the host program:\n{done.stderr}")
        staged = library.with_name(f".{key}-{folder.name}")
        shutil.copy2(folder / "model.so", staged)
        staged.rename(library)
    return library


def generation(target: UpmemTarget) -> str:
    """The emulated DPU that a machine's programs are built for: v1B where WRAM is below v1A's."""
    return "v1A" if target.wram >= WRAM_BYTES["v1A"] else "v1B"


def device_binary(host: HostProgram, files: dict[str, str | bytes]) -> Path:
    """The ELF of the DPUs' program, kept in the cache. CompileError with the compiler's words."""
    texts = {n: t for n, t in files.items() if isinstance(t, str)}
    device = {n: texts[n] for n in (f"{host.name}_dpu.c", f"{host.name}_program.h")}
    target = find_target(host.program.kernels[0].target.target.data)
    options = DeviceOptions(
        tasklets=host.program.tasklets, stack=STACK_BYTES, target=generation(target)
    )
    return device_program(device, options)


class UpmemModel:
    """
    The layers of a generated program, open on DPUs until `close` or the end of a `with`.

    Raises CompileError where something does not compile, where there are too few DPUs, and where
    a DPU faults, with the emulator's words: DPU, tasklet, source line, rule.
    """

    def __init__(self, host: HostProgram, profile: str | None = None):
        self.host = host
        self._model: ctypes.c_void_p | None = None
        self.numbers = {layer.name: n for n, layer in enumerate(host.layers)}
        files = project_files(host)
        binary = device_binary(host, files)
        self._library = ctypes.CDLL(str(build_library(host, files)))
        self._declare()
        program = ctypes.c_char.in_dll(self._library, f"{host.name}_program")
        with tempfile.NamedTemporaryFile(prefix="inr-", suffix=".weights") as weights:
            weights.write(host.weights)
            weights.flush()
            model = self._library.inr_lut_open(
                ctypes.byref(program),
                str(binary).encode(),
                weights.name.encode(),
                None if profile is None else profile.encode(),
            )
        if not model:
            raise CompileError(self._error())
        self._model = ctypes.c_void_p(model)

    def _declare(self) -> None:
        library = self._library
        library.inr_lut_open.restype = ctypes.c_void_p
        library.inr_lut_error.restype = ctypes.c_char_p
        for name in ("inr_lut_cycles", "inr_lut_bytes_sent", "inr_lut_bytes_received"):
            getattr(library, name).restype = ctypes.c_uint64

    def _error(self) -> str:
        return self._library.inr_lut_error().decode()

    def _number(self, layer: str) -> int:
        if layer not in self.numbers:
            known = ", ".join(self.numbers)
            raise CompileError(f"{self.host.name} has no layer '{layer}'; it has {known}")
        if self._model is None:
            raise CompileError(f"{self.host.name} is closed")
        return self.numbers[layer]

    def run(self, layer: str, x: ArrayLike) -> NDArray[np.float32]:
        """Outputs N×F of activations N×H, computed with the DPUs."""
        number = self._number(layer)
        found = self.host.layers[number]
        rows = np.ascontiguousarray(x, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != found.inputs:
            raise CompileError(f"{layer}: an input of N×{found.inputs}, not {rows.shape}")
        out = np.empty((rows.shape[0], found.geometry.shape.features), dtype=np.float32)
        self._call("inr_lut_run", number, rows, out)
        return out

    def sums(self, layer: str, indices: ArrayLike) -> NDArray[np.int32]:
        """
        Sums N×F that indices N×CB select, or those of an int8 product of activations N×H, computed
        by the DPUs.
        """
        number = self._number(layer)
        shape = self.host.layers[number].geometry.shape
        kind = np.int8 if shape.is_product else np.uint8
        codes = np.ascontiguousarray(indices, dtype=kind)
        if codes.ndim != 2 or codes.shape[1] != shape.codebooks:
            what = "activations" if shape.is_product else "indices"
            raise CompileError(f"{layer}: {what} of N×{shape.codebooks}, not {codes.shape}")
        if shape.is_product and codes.size and int(codes.min()) < -LIMIT:
            raise CompileError(f"{layer}: an activation of {codes.min()}; they lie within ±{LIMIT}")
        out = np.empty((codes.shape[0], shape.features), dtype=np.int32)
        self._call("inr_lut_sums", number, codes, out)
        return out

    def _call(self, function: str, number: int, given: NDArray, out: NDArray) -> None:
        status = getattr(self._library, function)(
            self._model,
            ctypes.c_uint32(number),
            given.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(given.shape[0]),
            out.ctypes.data_as(ctypes.c_void_p),
        )
        if status:
            raise CompileError(self._error())

    @property
    def cycles(self) -> int:
        """Cycles of the slowest DPUs of all launches until now; modelled by the emulator."""
        return self._library.inr_lut_cycles(self._model)

    @property
    def bytes_sent(self) -> int:
        """Bytes to DPUs until now, tables included."""
        return self._library.inr_lut_bytes_sent(self._model)

    @property
    def bytes_received(self) -> int:
        """Bytes from DPUs until now."""
        return self._library.inr_lut_bytes_received(self._model)

    def close(self) -> None:
        """Gives the DPUs back."""
        if self._model is not None:
            self._library.inr_lut_close(self._model)
            self._model = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
