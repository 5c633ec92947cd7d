"""
Building UPMEM programs without UPMEM's SDK: device C with stock clang for the emulator's stand-in
instruction set (RV32 with a few custom instructions), host C against the emulator's `dpu.h`.

`upmem_commands` has the SDK's own commands on top of it.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import CompileError
from .toolchain import cache_folder, fingerprint

UPMEM = Path(__file__).with_name("upmem")
DEVICE = UPMEM / "device"
HOST = UPMEM / "host"
ENGINE = UPMEM / "engine"
BIN = UPMEM / "bin"

MACHINE = (
    "--target=riscv32-unknown-elf",
    # Zba has shift-and-add (lsl_add on the DPU), Zbb sign extensions, rotations and bit counts.
    "-march=rv32im_zba_zbb",
    "-mabi=ilp32",
    # Addresses do not change after the line table is read.
    "-mno-relax",
    "-mcmodel=medlow",
)

FLAGS = (
    *MACHINE,
    "-O2",
    "-g",
    # No C library but ours; clang must not make calls of functions that are not there.
    "-ffreestanding",
    "-nostdlibinc",
    # The DPU has no vectors.
    "-fno-vectorize",
    "-fno-slp-vectorize",
    # Unused functions and variables do not take IRAM and WRAM.
    "-ffunction-sections",
    "-fdata-sections",
    # There is no gp on a DPU.
    "-msmall-data-limit=0",
    # Loops stay as short as the SDK's compiler leaves them, full unrolling aside.
    "-mllvm",
    "-unroll-runtime=false",
    "-mllvm",
    "-unroll-allow-partial=false",
    # Strength reduction for RV32 adds induction variables that the DPU does not need.
    "-mllvm",
    "-disable-lsr",
    # Errors since clang 15 and 16 that the SDK's compiler, a clang 12, reports as warnings.
    "-Wno-error=implicit-function-declaration",
    "-Wno-error=implicit-int",
    "-Wno-error=int-conversion",
    "-Wno-error=incompatible-function-pointer-types",
)

WRAM_BYTES = {"v1A": 65536, "v1B": 63488}
"""Sizes as in the SDK's documentation; the engine's `checks.c` has the rest of the targets."""
USER_BITS = {"v1A": 56, "v1B": 64}
"""Atomic bits that mutexes, barriers and semaphores of a program may take."""
MAX_TASKLETS = 24
STACK_DEFAULT = 1024
"""Bytes of a tasklet's stack where STACK_SIZE_DEFAULT is not given, as in the SDK."""

LINES_MAGIC = 0x4C524E49


@dataclass(frozen=True)
class DpuToolchain:
    """A clang for RV32, its linker, and the library of soft floats and 64-bit divisions."""

    clang: str
    libgcc: Path

    @property
    def version(self) -> str:
        """What the compiler says of itself."""
        return _version(self.clang)


@cache
def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


@cache
def find_dpu_toolchain() -> DpuToolchain:
    """
    clang (`INR_DPU_CLANG` where set, else clang-19 or a clang that knows riscv32), ld.lld and
    libgcc (`INR_DPU_LIBGCC` where set).

    Raises CompileError that names the Debian package of what is missing.
    """
    given = os.environ.get("INR_DPU_CLANG")
    clang = shutil.which(given) if given else shutil.which("clang-19") or shutil.which("clang")
    if clang is None:
        raise CompileError(
            f"no {given or 'clang-19'} found to compile device C; install it "
            "(Debian: apt install clang-19 lld-19) or set INR_DPU_CLANG"
        )
    done = subprocess.run([clang, "--print-targets"], capture_output=True, text=True)
    if "riscv32" not in done.stdout:
        raise CompileError(
            f"{clang} cannot compile for riscv32; install another (Debian: apt install clang-19 "
            "lld-19) or set INR_DPU_CLANG"
        )
    linker = subprocess.run([clang, "-print-prog-name=ld.lld"], capture_output=True, text=True)
    if shutil.which(linker.stdout.strip()) is None:
        raise CompileError(
            f"{clang} finds no ld.lld to link device programs; install it "
            "(Debian: apt install lld-19)"
        )
    library = os.environ.get("INR_DPU_LIBGCC")
    found = (
        [Path(library)]
        if library
        else sorted(Path("/usr/lib/gcc/riscv64-unknown-elf").glob("*/rv32im/ilp32/libgcc.a"))
    )
    if not found or not found[-1].exists():
        raise CompileError(
            f"no {library or 'libgcc.a for rv32im/ilp32'} found to link device programs; install "
            "it (Debian: apt install gcc-riscv64-unknown-elf) or set INR_DPU_LIBGCC"
        )
    return DpuToolchain(clang, found[-1])


def host_compiler() -> str:
    """The C compiler of host programs (`CC` where set, else cc or gcc), or CompileError."""
    given = os.environ.get("CC")
    found = shutil.which(given) if given else shutil.which("cc") or shutil.which("gcc")
    if found is None:
        raise CompileError(
            f"no {given or 'cc'} found to compile host C; install it (Debian: apt install gcc) "
            "or set CC"
        )
    return found


# ---- device programs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceOptions:
    """How a device program is compiled and linked."""

    tasklets: int = 1
    stack: int = STACK_DEFAULT
    """Bytes of each tasklet's stack."""
    stacks: Mapping[int, int] = field(default_factory=dict[int, int])
    """Other sizes by tasklet."""
    flags: tuple[str, ...] = ()
    """Further arguments of the compiler: -I, -D, -O, -W."""
    target: str = "v1A"

    def __post_init__(self) -> None:
        if self.target not in WRAM_BYTES:
            known = ", ".join(WRAM_BYTES)
            raise CompileError(f"unknown DPU '{self.target}'; there are {known}")
        if not 1 <= self.tasklets <= MAX_TASKLETS:
            raise CompileError(
                f"NR_TASKLETS={self.tasklets}: a DPU has 1 to {MAX_TASKLETS} tasklets"
            )
        for name, size in [
            ("STACK_SIZE_DEFAULT", self.stack),
            *((f"STACK_SIZE_TASKLET_{i}", size) for i, size in self.stacks.items()),
        ]:
            if size < 8 or size % 8:
                raise CompileError(f"{name}={size}: a stack is a multiple of 8 bytes")

    def stack_of(self, tasklet: int) -> int:
        """Bytes of one tasklet's stack."""
        return self.stacks.get(tasklet, self.stack)

    @property
    def defines(self) -> list[str]:
        """The macros that device code sees."""
        return [f"-DNR_TASKLETS={self.tasklets}", f"-DSTACK_SIZE_DEFAULT={self.stack}"]


def device_program(
    sources: Sequence[Path | str] | Mapping[str, str],
    options: DeviceOptions | None = None,
    *,
    warn: bool = True,
) -> Path:
    """
    The ELF of a device program: paths of C files (and objects), or texts by file name (of which
    those that end in .c are compiled, the others are headers). Kept in the cache by content.

    With `warn`, the compiler's warnings and ours go to stderr. Raises CompileError with the
    compiler's words, or where the program does not fit the DPU.
    """
    options = options or DeviceOptions()
    if isinstance(sources, Mapping):
        with tempfile.TemporaryDirectory(prefix="inr-") as name:
            folder = Path(name)
            for file, text in sources.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text)
            files = [file for file in sources if file.endswith(".c")]
            return _build_device(files, options, folder, warn)
    return _build_device([str(s) for s in sources], options, None, warn)


def _build_device(
    sources: list[str], options: DeviceOptions, folder: Path | None, warn: bool
) -> Path:
    toolchain = find_dpu_toolchain()
    runtime = _device_runtime(toolchain)
    parts = [
        runtime.name.encode(),
        repr((options.tasklets, options.stack, sorted(options.stacks.items()))).encode(),
        "\0".join((*options.flags, options.target)).encode(),
    ]
    for source in sources:
        if source.endswith((".o", ".a")):
            parts.append(((folder or Path()) / source).read_bytes())
        else:
            text = _clang(toolchain, options, ["-E", source], folder).stdout
            # The folder of texts has another name every time.
            parts.append(text.replace(f"{folder}/", "").encode() if folder else text.encode())
    executable = cache_folder() / "dpu" / fingerprint(parts)
    warnings = executable.with_suffix(".warnings")
    if not executable.exists():
        with tempfile.TemporaryDirectory(prefix="inr-") as name:
            objects: list[str] = []
            said = ""
            for i, source in enumerate(sources):
                if source.endswith((".o", ".a")):
                    objects.append(str((folder or Path()) / source))
                    continue
                objects.append(f"{name}/{i}.o")
                said += _compile(toolchain, options, source, objects[-1], folder)
            _link(toolchain, options, runtime, objects, Path(name))
            executable.parent.mkdir(parents=True, exist_ok=True)
            staged = executable.with_name(f".{executable.name}-{os.getpid()}")
            warnings.write_text(said)
            shutil.copy2(Path(name) / "program", staged)
            staged.rename(executable)
    if warn and warnings.exists():
        sys.stderr.write(warnings.read_text())
    return executable


def _clang(
    toolchain: DpuToolchain, options: DeviceOptions, arguments: list[str], folder: Path | None
) -> subprocess.CompletedProcess[str]:
    """Runs clang with our headers and the program's macros; CompileError with its words."""
    command = [toolchain.clang, *FLAGS, "-isystem", str(DEVICE / "include")]
    command += [*options.defines, *options.flags, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(f"clang does not take the device program:\n{done.stderr.rstrip()}")
    return done


def device_object(source: str, output: str, options: DeviceOptions) -> str:
    """Compiles one file to an object; the warnings. Raises CompileError."""
    return _compile(find_dpu_toolchain(), options, source, output, None)


def _compile(
    toolchain: DpuToolchain, options: DeviceOptions, source: str, output: str, folder: Path | None
) -> str:
    """Compiles one file; its warnings and ours."""
    said = _clang(toolchain, options, ["-c", source, "-o", output], folder).stderr
    if not source.endswith(".c"):
        return said
    ir = _clang(
        toolchain,
        options,
        ["-w", "-O0", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-S", source, "-o", "-"],
        folder,
    ).stdout
    for file, line in address_space_casts(ir):
        said += (
            f"{file}:{line}: warning: explicit cast between address spaces; UPMEM's compiler "
            "refuses it (MRAM is read with mram_read, or through a __mram_ptr)\n"
        )
    return said


def address_space_casts(ir: str) -> list[tuple[str, int]]:
    """
    Where unoptimised LLVM IR casts pointers between address spaces, as (file, line). stock clang
    takes explicit casts in silence; implicit ones are its errors already.
    """
    metadata = dict(re.findall(r"^(![0-9]+) = (.*)$", ir, re.MULTILINE))

    def attribute(node: str, name: str) -> str | None:
        found = re.search(rf"\b{name}: ([^,)]+)", metadata.get(node, ""))
        return found.group(1) if found else None

    casts: list[tuple[str, int]] = []
    for node in re.findall(r" addrspacecast .*!dbg (![0-9]+)", ir):
        scope, line = attribute(node, "scope"), attribute(node, "line")
        file = attribute(scope, "file") if scope else None
        name = attribute(file, "filename") if file else None
        casts.append(((name or "?").strip('"'), int(line or 0)))
    return sorted(set(casts))


def _device_runtime(toolchain: DpuToolchain) -> Path:
    """The folder with the device runtime's objects, compiled once for this compiler."""
    files = sorted(p for p in DEVICE.rglob("*") if p.suffix in (".c", ".h", ".ld"))
    key = fingerprint(
        [
            toolchain.version.encode(),
            str(toolchain.libgcc).encode(),
            str(DEVICE).encode(),
            " ".join(FLAGS).encode(),
            *(part for p in files for part in (p.name.encode(), p.read_bytes())),
        ]
    )
    folder = cache_folder() / f"dpu-runtime-{key}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".dpu-runtime-", dir=folder.parent))
    for source in (p for p in files if p.suffix == ".c"):
        _clang(
            toolchain,
            DeviceOptions(),
            # The functions' own loops must not become calls of them.
            ["-fno-builtin", "-c", str(source), "-o", str(staging / f"{source.stem}.o")],
            None,
        )
    try:
        staging.rename(folder)
    except OSError:
        # Another process made the same one meanwhile.
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def _link(
    toolchain: DpuToolchain,
    options: DeviceOptions,
    runtime: Path,
    objects: list[str],
    folder: Path,
) -> None:
    """
    Links to `folder / "program"`, twice: the addresses of the first time give the table of
    source lines that the second one has instead of debug information.
    """
    symbols = {
        "__nr_tasklets": options.tasklets,
        "__stack_size": options.stack,
        "__user_bits": USER_BITS[options.target],
        **{f"__stack_size_{i}": size for i, size in options.stacks.items()},
    }
    command = [toolchain.clang, *MACHINE, "-nostdlib", "-fuse-ld=lld", "-Wl,--gc-sections"]
    command += ["-Wl,--nmagic", f"-Wl,-T,{DEVICE / 'dpu.ld'}"]
    command += [f"-Wl,--defsym={name}={value}" for name, value in symbols.items()]
    command += [*objects, *map(str, sorted(runtime.glob("*.o"))), str(toolchain.libgcc)]

    def link(*more: str) -> None:
        done = subprocess.run([*command, *more], capture_output=True, text=True)
        if done.returncode:
            raise CompileError(f"the device program does not link:\n{done.stderr.rstrip()}")

    link("-o", str(folder / "first"))
    _check_sizes(folder / "first", options)
    (folder / "lines").write_bytes(line_table(folder / "first"))
    (folder / "lines.s").write_text(
        f'.section .inr_lines,"",@progbits\n.incbin "{folder / "lines"}"\n'
    )
    lines = str(folder / "lines.o")
    subprocess.run(
        [toolchain.clang, *MACHINE[:3], "-c", str(folder / "lines.s"), "-o", lines], check=True
    )
    link(lines, "-Wl,--strip-debug", "-o", str(folder / "program"))


def _read_elf(file: BinaryIO) -> Any:
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        raise CompileError(
            "no pyelftools found to read device programs; pip install 'inr-opt[upmem]'"
        ) from error
    return ELFFile(file)


def _check_sizes(elf: Path, options: DeviceOptions) -> None:
    with elf.open("rb") as file:
        read = _read_elf(file)
        symbols = read.get_section_by_name(".symtab")
        (heap,) = symbols.get_symbol_by_name("__heap_start")
        sizes = {s.name: s["sh_size"] for s in read.iter_sections() if s["sh_size"]}
    room = WRAM_BYTES[options.target]
    if heap["st_value"] > room:
        stacks = sum(options.stack_of(i) for i in range(options.tasklets))
        data = {k: sizes.get(k, 0) for k in (".dpu_host", ".data", ".bss")}
        raise CompileError(
            f"wram-overflow: host variables {data['.dpu_host']}, data {data['.data']}, zeroed data "
            f"{data['.bss']} and {options.tasklets} stacks of together {stacks} bytes end at "
            f"{heap['st_value']}; the WRAM of a {options.target} ends at {room}. Smaller buffers, "
            "fewer tasklets or a smaller STACK_SIZE_DEFAULT make it fit"
        )


def line_table(elf: Path) -> bytes:
    """
    The bytes of section `.inr_lines` (layout in `engine/engine.h`) from an ELF's DWARF. Files of
    the device runtime are named `<file>`.
    """
    rows: dict[int, tuple[str, int]] = {}
    with elf.open("rb") as stream:
        read = _read_elf(stream)
        text = read.get_section_by_name(".text")
        start, end = text["sh_addr"], text["sh_addr"] + text["sh_size"]
        dwarf = read.get_dwarf_info()
        ends: list[int] = []
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            if program is None:
                continue
            for entry in program.get_entries():
                state = entry.state
                # Sections that were thrown away have addresses from 0.
                if state is None or not start <= state.address <= end:
                    continue
                if state.end_sequence:
                    ends.append(state.address)
                else:
                    rows[state.address] = (_file_name(program, state.file), state.line)
    for address in ends:
        rows.setdefault(address, ("?", 0))
    names: dict[str, int] = {}
    strings = b""
    packed = b""
    for address, (name, line) in sorted(rows.items()):
        if name not in names:
            names[name] = len(strings)
            strings += name.encode() + b"\0"
        packed += struct.pack("<III", address, line, names[name])
    return struct.pack("<IIII", LINES_MAGIC, 1, len(rows), len(strings)) + packed + strings


def _file_name(program: Any, number: int) -> str:
    header = program.header
    # DWARF 5 counts files and folders from 0, and folder 0 is the compiler's own.
    first = 0 if header["version"] >= 5 else 1
    file = header["file_entry"][number - first]
    name = file.name.decode()
    folders: list[str] = [folder.decode() for folder in header["include_directory"]]
    if file.dir_index:
        name = os.path.join(folders[file.dir_index - first], name)
    # clang makes paths below its working directory relative to it.
    whole = os.path.join(folders[0], name) if header["version"] >= 5 else name
    if whole.startswith(f"{DEVICE}/"):
        return f"<{Path(name).name}>"
    if "/libgcc/" in name or name.startswith("libgcc"):
        return f"<libgcc {Path(name).name}>"
    return name


# ---- host programs -----------------------------------------------------------------------------


# A host program's own `print` or `start` must not take the place of the library's.
EXPORTS = "{ global: dpu_*; dpulog_*; inr_dpu_*; engine_*; local: *; };\n"


def host_library() -> Path:
    """The folder with the emulator as `libdpu.so`, compiled once. Raises CompileError."""
    compiler = host_compiler()
    sources = [*sorted((HOST / "src").glob("*.c")), *sorted(ENGINE.glob("*.c"))]
    flags = ["-O2", "-g", "-std=gnu11", "-fPIC", "-pthread", "-fno-semantic-interposition"]
    headers = [*sorted(HOST.rglob("*.h")), *sorted(ENGINE.glob("*.h"))]
    key = fingerprint(
        [
            _version(compiler).encode(),
            " ".join(flags).encode(),
            EXPORTS.encode(),
            *(part for p in (*sources, *headers) for part in (p.name.encode(), p.read_bytes())),
        ]
    )
    folder = cache_folder() / f"dpu-host-{key}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".dpu-host-", dir=folder.parent))
    (staging / "exports").write_text(EXPORTS)
    link = ["-shared", f"-Wl,--version-script={staging / 'exports'}", "-Wl,-Bsymbolic", "-lm"]
    done = subprocess.run(
        [compiler, *flags, *map(str, sources), *link, "-o", str(staging / "libdpu.so")],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        shutil.rmtree(staging)
        raise CompileError(f"{compiler} does not take the emulator:\n{done.stderr.rstrip()}")
    try:
        staging.rename(folder)
    except OSError:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def host_flags(*, compile_only: bool = False, link_only: bool = False) -> list[str]:
    """Arguments of a C compiler for a host program: headers, library, where it is at run time."""
    flags = [] if link_only else [f"-I{HOST}"]
    if not compile_only:
        library = host_library()
        flags += [f"-L{library}", f"-Wl,-rpath,{library}", "-ldpu", "-lpthread"]
    return flags


SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g")


def host_program(
    sources: Sequence[Path | str] | Mapping[str, str],
    *,
    flags: Sequence[str] = (),
    libraries: Sequence[str] = ("-lm",),
    sanitize: bool = False,
    warn: bool = True,
) -> Path:
    """
    The executable of a host program in C or C++ that includes `dpu.h`, from paths or from texts
    by file name; kept in the cache by content. Raises CompileError with the compiler's words.
    """
    if isinstance(sources, Mapping):
        with tempfile.TemporaryDirectory(prefix="inr-") as name:
            folder = Path(name)
            for file, text in sources.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text)
            files = [f for f in sources if f.endswith((".c", ".cc", ".cpp"))]
            return _build_host(files, folder, flags, libraries, sanitize, warn)
    return _build_host([str(s) for s in sources], None, flags, libraries, sanitize, warn)


def _build_host(
    sources: list[str],
    folder: Path | None,
    flags: Sequence[str],
    libraries: Sequence[str],
    sanitize: bool,
    warn: bool,
) -> Path:
    compiler = host_compiler()
    if any(source.endswith((".cc", ".cpp")) for source in sources):
        found = shutil.which(os.environ.get("CXX", "g++"))
        if found is None:
            raise CompileError("no g++ found to compile host C++ (Debian: apt install g++)")
        compiler = found
    options = ["-O2", f"-I{HOST}", *(SANITIZE if sanitize else ()), *flags]

    def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [compiler, *options, *arguments], cwd=folder, capture_output=True, text=True
        )
        if done.returncode:
            raise CompileError(
                f"{Path(compiler).name} does not take the host program:\n{done.stderr.rstrip()}"
            )
        return done

    link = [*libraries, *host_flags(link_only=True)]
    parts = [_version(compiler).encode(), "\0".join([*options, *link]).encode()]
    for source in sources:
        text = run(["-E", source]).stdout
        # `.incbin` takes in a file that the preprocessed text only names.
        parts += [Path(p).read_bytes() for p in re.findall(r'\.incbin \\"" "([^"]+)"', text)]
        parts.append(text.replace(f"{folder}/", "").encode() if folder else text.encode())
    executable = cache_folder() / "dpu-programs" / fingerprint(parts)
    if executable.exists():
        return executable
    with tempfile.TemporaryDirectory(prefix="inr-") as name:
        done = run([*sources, *link, "-o", f"{name}/program"])
        if warn:
            sys.stderr.write(done.stderr)
        executable.parent.mkdir(parents=True, exist_ok=True)
        staged = executable.with_name(f".{executable.name}-{os.getpid()}")
        shutil.copy2(f"{name}/program", staged)
        staged.rename(executable)
    return executable
