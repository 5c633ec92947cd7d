"""
The DPU engine from Python: one program on one DPU, without the SDK's host interface.

`upmem/engine/engine.h` says what is here. The library is compiled once and kept in the cache.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import CompileError
from .toolchain import cache_folder, fingerprint

SOURCES = Path(__file__).with_name("upmem") / "engine"
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-pthread")

WRAM_BASE, MRAM_BASE, IRAM_BASE = 0, 0x08000000, 0x80000000
WRAM_BYTES, MRAM_BYTES = 65536, 64 << 20
POISON = 0xA5


class _Target(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("wram_bytes", ctypes.c_uint32),
        ("iram_slots", ctypes.c_uint32),
        ("tasklets", ctypes.c_uint32),
        ("clock_mhz", ctypes.c_double),
    ]


class Costs(ctypes.Structure):
    """Constants of the time model, as in engine.h."""

    _fields_ = [
        ("revolver", ctypes.c_uint32),
        *(
            (name, ctypes.c_double)
            for name in (
                "dma_read_latency",
                "dma_write_latency",
                "dma_latency_byte",
                "dma_occupancy",
                "dma_occupancy_byte",
                "dma_steal",
            )
        ),
        ("peepholes", ctypes.c_bool),
        ("library_table", ctypes.c_bool),
    ]


class Options(ctypes.Structure):
    """What a DPU is and what is checked, as in engine.h."""

    _fields_ = [
        ("target", ctypes.POINTER(_Target)),
        ("costs", Costs),
        *(
            (name, ctypes.c_bool)
            for name in (
                "hardware_mask",
                "check_races",
                "check_mram_reads",
                "check_uninitialised",
                "check_dma_window",
            )
        ),
        ("seed", ctypes.c_uint64),
        ("max_cycles", ctypes.c_uint64),
        ("statistics", ctypes.c_int),
    ]


class _Fault(ctypes.Structure):
    _fields_ = [
        ("rule", ctypes.c_int),
        ("dpu", ctypes.c_uint32),
        ("tasklet", ctypes.c_uint32),
        ("pc", ctypes.c_uint32),
        ("has_address", ctypes.c_bool),
        ("address", ctypes.c_uint32),
        ("file", ctypes.c_char_p),
        ("line", ctypes.c_uint32),
        ("function", ctypes.c_char_p),
        ("message", ctypes.c_char * 512),
    ]


class Statistics(ctypes.Structure):
    """Counts of one run, as in engine.h."""

    _fields_ = [
        *(
            (name, ctypes.c_uint64)
            for name in (
                "cycles",
                "slots",
                "idle",
                "stolen",
                "instructions",
                "library_calls",
                "library_slots",
                "multiply_slots",
                "divide_slots",
                "dma_reads",
                "dma_writes",
                "dma_read_bytes",
                "dma_write_bytes",
                "dma_busy",
                "dma_masked",
                "direct_accesses",
                "lock_retries",
            )
        ),
        ("tasklet_slots", ctypes.c_uint64 * 24),
        ("tasklet_stack", ctypes.c_uint32 * 24),
    ]


@dataclass(frozen=True)
class Fault:
    """Why a run stopped."""

    rule: str
    message: str
    tasklet: int
    pc: int
    address: int | None
    file: str | None
    line: int


@cache
def engine_library() -> ctypes.CDLL:
    """
    The engine, compiled by `CC` or cc where the cache has none for these sources.

    Raises CompileError without a C compiler.
    """
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        raise CompileError(
            "no C compiler found to build the DPU emulator; install one (Debian: apt install gcc) "
            "or set CC"
        )
    files = sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.h")])
    key = fingerprint(
        [compiler.encode(), " ".join(FLAGS).encode(), *(path.read_bytes() for path in files)]
    )
    path = cache_folder() / f"dpu-engine-{key}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            built = Path(folder) / "engine.so"
            sources = [str(file) for file in files if file.suffix == ".c"]
            done = subprocess.run(
                [compiler, *FLAGS, *sources, "-o", str(built)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise CompileError(f"{compiler} does not take the DPU engine:\n{done.stderr}")
            built.replace(path)
    library = ctypes.CDLL(str(path))
    for name, result in (
        ("engine_target", ctypes.POINTER(_Target)),
        ("engine_rule_name", ctypes.c_char_p),
        ("engine_program_warning", ctypes.c_char_p),
        ("engine_dpu_create", ctypes.c_void_p),
        ("engine_dpu_wram", ctypes.c_void_p),
        ("engine_dpu_mram", ctypes.c_void_p),
        ("engine_dpu_fault", ctypes.POINTER(_Fault)),
        ("engine_dpu_statistics", ctypes.POINTER(Statistics)),
        ("engine_dpu_log", ctypes.c_char_p),
        ("engine_dpu_profile", ctypes.POINTER(ctypes.c_uint64)),
        ("engine_dpu_first_uninitialised", ctypes.c_uint64),
        ("engine_dpu_run", ctypes.c_bool),
        ("engine_options_environment", ctypes.c_bool),
        ("engine_program_set_lines", ctypes.c_bool),
        ("engine_program_line", ctypes.c_bool),
    ):
        getattr(library, name).restype = result
    return library


def default_options(target: str = "v1A", **changes: Any) -> Options:
    """The defaults for a kind of DPU; `changes` are fields of the options or of the costs."""
    library = engine_library()
    options = Options()
    library.engine_options_default(ctypes.byref(options))
    found = library.engine_target(target.encode())
    if not found:
        raise CompileError(f"no kind of DPU is called '{target}'; there are v1A and v1B")
    options.target = found
    costs = {field[0] for field in Costs._fields_}
    for name, value in changes.items():
        setattr(options.costs if name in costs else options, name, value)
    return options


def environment_options() -> Options:
    """The options that the environment asks for; CompileError if one of them makes no sense."""
    options, error = Options(), ctypes.create_string_buffer(256)
    if not engine_library().engine_options_environment(ctypes.byref(options), error, len(error)):
        raise CompileError(error.value.decode())
    return options


class Program:
    """A loaded program. Raises CompileError with the engine's words where it is refused."""

    def __init__(self, elf: bytes, options: Options, lines: bytes | None = None) -> None:
        self._library = engine_library()
        handle, error = ctypes.c_void_p(), ctypes.create_string_buffer(256)
        status = self._library.engine_program_load(
            elf,
            ctypes.c_size_t(len(elf)),
            ctypes.byref(options),
            ctypes.byref(handle),
            error,
            ctypes.c_size_t(len(error)),
        )
        if status:
            raise CompileError(error.value.decode())
        self.handle = handle
        if lines is not None and not self._library.engine_program_set_lines(
            handle, lines, ctypes.c_size_t(len(lines))
        ):
            raise CompileError("the line table has another layout than engine.h says")

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._library.engine_program_release(self.handle)

    @property
    def slots(self) -> int:
        """Instructions of IRAM that the program takes, less those that are free on the DPU."""
        return self._library.engine_program_iram_slots(self.handle)

    def line(self, pc: int) -> tuple[str | None, int, str | None]:
        """File, line and function of an instruction; None and 0 where they are not known."""
        file, line, function = ctypes.c_char_p(), ctypes.c_uint32(), ctypes.c_char_p()
        self._library.engine_program_line(
            self.handle, pc, ctypes.byref(file), ctypes.byref(line), ctypes.byref(function)
        )
        name, caller = file.value, function.value
        return (
            None if name is None else name.decode(),
            line.value,
            None if caller is None else caller.decode(),
        )

    @property
    def warning(self) -> str | None:
        """What the load warns of."""
        text = self._library.engine_program_warning(self.handle)
        return None if text is None else text.decode()


class Dpu:
    """One DPU. Its memories are written through `write`, so that the checks know of it."""

    def __init__(self, options: Options, number: int = 0) -> None:
        self._library = engine_library()
        handle = self._library.engine_dpu_create(number, ctypes.byref(options))
        if not handle:
            raise CompileError("no memory for another DPU")
        self._handle = ctypes.c_void_p(handle)
        self._wram = self._library.engine_dpu_wram(self._handle)
        self._mram = self._library.engine_dpu_mram(self._handle)

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._library.engine_dpu_destroy(self._handle)

    def load(self, program: Program) -> None:
        """Loads a program; MRAM keeps what the program does not initialise."""
        self._library.engine_dpu_attach(self._handle, program.handle)
        self._program = program

    def run(self) -> Fault | None:
        """Runs the loaded program to its end (None) or to a fault."""
        if self._library.engine_dpu_run(self._handle):
            return None
        found = self._library.engine_dpu_fault(self._handle).contents
        return Fault(
            self._library.engine_rule_name(found.rule).decode(),
            found.message.decode(),
            found.tasklet,
            found.pc,
            found.address if found.has_address else None,
            None if found.file is None else found.file.decode(),
            found.line,
        )

    @property
    def statistics(self) -> Statistics:
        """A copy of the last run's counts."""
        found = self._library.engine_dpu_statistics(self._handle).contents
        return Statistics.from_buffer_copy(found)

    def profile(self) -> dict[tuple[str | None, int, str | None], int]:
        """
        Issue slots by file, line and function over all runs since the program was loaded, the
        largest first; empty unless the option `statistics` is 2 or more.
        """
        count = ctypes.c_uint32()
        slots = self._library.engine_dpu_profile(self._handle, ctypes.byref(count))
        found: dict[tuple[str | None, int, str | None], int] = {}
        for index in range(count.value):
            if slots[index]:
                place = self._program.line(IRAM_BASE + 4 * index)
                found[place] = found.get(place, 0) + slots[index]
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def log(self) -> str:
        """What printf wrote in the last run."""
        return self._library.engine_dpu_log(self._handle, None).decode()

    def _place(self, address: int, size: int) -> int:
        if address >= MRAM_BASE:
            base, offset, limit = self._mram, address - MRAM_BASE, MRAM_BYTES
        else:
            base, offset, limit = self._wram, address, WRAM_BYTES
        if address < 0 or offset + size > limit:
            raise ValueError(f"{size} bytes at {address:#x} are not in one of the memories")
        return base + offset

    def read(self, address: int, size: int) -> bytes:
        """Bytes of WRAM (from 0) or MRAM (from MRAM_BASE)."""
        return ctypes.string_at(self._place(address, size), size)

    def write(self, address: int, data: bytes) -> None:
        """Writes as the host does."""
        ctypes.memmove(self._place(address, len(data)), data, len(data))
        self._library.engine_dpu_host_wrote(self._handle, address, len(data))

    def first_unwritten(self, address: int, size: int) -> int | None:
        """The first byte that nobody wrote; needs `check_uninitialised`."""
        found = self._library.engine_dpu_first_uninitialised(self._handle, address, size)
        return None if found == 2**64 - 1 else found
