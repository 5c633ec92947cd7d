"""Building and running UPMEM programs: the driver, the SDK's commands, `inr-dpu-run`."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from inr.errors import CompileError
from inr.runtime import upmem_build
from inr.runtime.upmem_build import (
    DeviceOptions,
    device_program,
    find_dpu_toolchain,
    line_table,
)
from inr.runtime.upmem_commands import parse_device_arguments
from inr.tools.inr_dpu_run import main

ADD = """\
#include <barrier.h>
#include <defs.h>
#include <mram.h>
#include <stdint.h>
#include "shape.h"
__host uint32_t sum;
__mram_noinit uint64_t values[COUNT];
BARRIER_INIT(barrier, NR_TASKLETS);
static uint32_t parts[NR_TASKLETS];
int main(void)
{
    __dma_aligned uint64_t block[8];
    uint32_t part = 0;
    for (uint32_t i = 8 * me(); i < COUNT; i += 8 * NR_TASKLETS) {
        mram_read(&values[i], block, 64);
        for (uint32_t j = 0; j < 8; j++)
            part += block[j];
    }
    parts[me()] = part;
    barrier_wait(&barrier);
    if (me() == 0) {
        sum = 0;
        for (uint32_t t = 0; t < NR_TASKLETS; t++)
            sum += parts[t];
    }
    return 0;
}
"""

ADD_HOST = """\
#include <dpu.h>
#include <string.h>
#include "shape.h"
#ifndef BINARY
#define BINARY DPU_BINARY
#endif
/* Names that the library has inside. */
void print(void) { abort(); }
void start(void) { abort(); }
void step(void) { abort(); }
void fault(void) { abort(); }
int main(int argc, char **argv)
{
    struct dpu_set_t set, dpu;
    uint64_t *values = malloc(sizeof(uint64_t) * (COUNT - SHORT));
    for (int i = 0; i < COUNT - SHORT; i++)
        values[i] = i;
    DPU_ASSERT(dpu_alloc(2, NULL, &set));
    DPU_ASSERT(dpu_load(set, BINARY, NULL));
    DPU_ASSERT(dpu_broadcast_to(set, "values", 0, values, sizeof(uint64_t) * COUNT, 0));
    DPU_ASSERT(dpu_launch(set, DPU_SYNCHRONOUS));
    DPU_FOREACH(set, dpu) {
        uint32_t sum;
        DPU_ASSERT(dpu_copy_from(dpu, "sum", 0, &sum, 4));
        printf("%u %s\\n", sum, argc > 1 ? argv[1] : "");
    }
    free(values);
    DPU_ASSERT(dpu_free(set));
    return argc > 2 ? atoi(argv[2]) : 0;
}
"""

SUM = 256 * 255 // 2


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Host and device programs that share a header, as the working directory."""
    (tmp_path / "dpu").mkdir()
    (tmp_path / "dpu" / "task.c").write_text(ADD)
    (tmp_path / "host.c").write_text(ADD_HOST)
    (tmp_path / "shape.h").write_text("#define COUNT 256\n#ifndef SHORT\n#define SHORT 0\n#endif\n")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("INR_DPU_")]:
        monkeypatch.delenv(name)
    return tmp_path


def test_run(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Output and status are the host program's; the table is on stderr and says what it is."""
    status = main(["host.c", "dpu/task.c", "-I.", "--stats", "--check", "all", "--", "--x", "7"])
    said = capfd.readouterr()
    assert status == 7, said.err
    assert said.out == f"{SUM} --x\n" * 2
    assert "modelled, not measured" in said.err
    assert "host transfers: 1 to DPUs of 4,096 bytes, 2 from DPUs of 8 bytes" in said.err
    # 32 blocks of 64 bytes on each of 2 DPUs.
    row = next(line for line in said.err.splitlines() if re.search(r"│ +0 │ +2 │ +16 │", line))
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[-2:] == ["64", "4,096"]


def test_profile(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The line in the innermost loop is the first, with its text and most of the slots."""
    (project / "shape.h").write_text("#define COUNT 16384\n#define SHORT 0\n")
    assert main(["host.c", "dpu/task.c", "-I.", "--profile"]) == 0
    rows = [row for row in capfd.readouterr().err.splitlines() if row.startswith("│")]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    line = 1 + next(i for i, row in enumerate(ADD.splitlines()) if "part += block" in row)
    assert cells[0][2] == f"dpu/task.c:{line}"
    assert cells[0][3] == "part += block[j];"
    shares = [float(cell[1].rstrip("%")) for cell in cells]
    assert shares == sorted(shares, reverse=True)
    assert 15 < shares[0] <= sum(shares) < 100.5
    assert any("<synchronise.c>" in cell[2] and cell[3] == "barrier_wait" for cell in cells)


@pytest.mark.parametrize(
    "path", ['"./bin/task"', '"/nowhere/task"', '"bin/dpu_code"', '"task"', "DPU_BINARY_TASK"]
)
def test_whatever_path_is_loaded(
    path: str, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = main(["host.c", "dpu/task.c", "-I.", f"--host-flags=-DBINARY='{path}'"])
    assert status == 0
    assert capfd.readouterr().out == f"{SUM} \n" * 2


def test_several_binaries(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The file name chooses; one of several files is joined by +."""
    (project / "first.c").write_text("int helper(void);\nint main(void) { return helper(); }\n")
    (project / "second.c").write_text("int helper(void) { return 3; }\n")
    (project / "own.c").write_text(ADD_HOST.replace("BINARY, NULL", '"build/sums", NULL'))
    arguments = ["first.c+second.c", "sums=dpu/task.c", "-I."]
    assert main(["own.c", *arguments]) == 0
    assert capfd.readouterr().out == f"{SUM} \n" * 2
    assert main(["host.c", *arguments]) == 1
    assert "'values' is no __host, __mram or __mram_noinit variable" in capfd.readouterr().err
    assert main(["host.c", "dpu/task.c", "x=dpu/task.c", "task=first.c"]) == 1
    assert "two DPU programs are called 'task'" in capfd.readouterr().err


def test_sanitize(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A transfer that is longer than its host buffer is an error of the host program."""
    assert main(["host.c", "dpu/task.c", "-I.", "--sanitize"]) == 0
    capfd.readouterr()
    assert main(["host.c", "dpu/task.c", "-I.", "--sanitize", "-DSHORT=4"]) != 0
    assert "heap-buffer-overflow" in capfd.readouterr().err


def test_race_is_reported_at_its_line(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = ADD.replace("    barrier_wait(&barrier);\n", "")
    (project / "dpu" / "task.c").write_text(text)
    line = 1 + next(i for i, row in enumerate(text.splitlines()) if "parts[me()] =" in row)
    assert main(["host.c", "dpu/task.c", "-I.", "--check", "races"]) == 1
    said = capfd.readouterr().err
    assert f"dpu/task.c:{line}" in said
    assert ": race: writes WRAM" in said
    assert "that tasklet 0 read, with no barrier" in said


def test_fault_that_the_host_ignores(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "dpu" / "task.c").write_text("#include <defs.h>\nint main(void) { halt(); }\n")
    (project / "host.c").write_text(
        "#include <dpu.h>\nint main(void) { struct dpu_set_t set; dpu_alloc(3, NULL, &set);\n"
        "dpu_load(set, DPU_BINARY, NULL); dpu_launch(set, DPU_SYNCHRONOUS); return 0; }\n"
    )
    assert main(["host.c", "dpu/task.c"]) == 1
    said = capfd.readouterr().err
    assert "3 DPUs were in fault, and the host program went on" in said
    assert "task.c:2" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["host.c", "none.c"], "no file none.c"),
        (["none.c", "dpu/task.c"], "no file none.c"),
        (["host.c", "dpu/task.c", "--tasklets", "25"], "a DPU has 1 to 24 tasklets"),
        (["host.c", "dpu/task.c", "--stack", "100"], "a stack is a multiple of 8 bytes"),
        (["host.c", "dpu/task.c", "--check", "all,rases"], "--check rases: there are races"),
        (["host.c", "dpu/task.c", "--target", "v3"], "unknown DPU 'v3'"),
        (["host.c", "dpu/task.c"], "shape.h"),
    ],
)
def test_bad_input(
    arguments: list[str], message: str, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert message in capfd.readouterr().err


def test_sdk_commands(project: Path) -> None:
    """A Makefile written for the SDK works with the wrappers in PATH."""
    (project / "Makefile").write_text(
        "all: bin/task bin/host\n"
        "bin/task: dpu/task.c\n"
        "\tmkdir -p bin && dpu-upmem-dpurte-clang -DNR_TASKLETS=11 -DSTACK_SIZE_TASKLET_0=512 "
        "-I. -O2 -o $@ $<\n"
        "bin/host: host.c\n"
        "\tgcc -I. --std=c11 -O3 -DDPU_BINARY='\"bin/task\"' host.c -o $@ "
        "`dpu-pkg-config --cflags --libs dpu`\n"
    )
    path = f"{upmem_build.BIN}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "INR_PYTHON": sys.executable}
    done = subprocess.run(["make"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["bin/host"], capture_output=True, text=True)
    assert done.stdout == f"{SUM} \n" * 2
    # Objects first, then the program.
    script = (
        "dpu-upmem-dpurte-clang -I. -DNR_TASKLETS=3 -c dpu/task.c -o task.o && "
        "dpu-upmem-dpurte-clang -DNR_TASKLETS=3 task.o -o bin/task"
    )
    done = subprocess.run(script, shell=True, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run(["bin/host"], capture_output=True, text=True).stdout.startswith(f"{SUM} ")
    done = subprocess.run(
        ["dpu-upmem-dpurte-clang", "host.c"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "dpu.h" in done.stderr


INCBIN = """\
#include <dpu.h>
#include <cstdio>
DPU_INCBIN(program, PROGRAM)
DPU_INCBIN(other, PROGRAM)
static dpu_error_t count(struct dpu_set_t, uint32_t, void *calls)
{
    ++*static_cast<int *>(calls);
    return DPU_OK;
}
int main()
{
    struct dpu_set_t set, dpu;
    uint32_t index, value = 0;
    int calls = 0;
    DPU_ASSERT(dpu_alloc(2, nullptr, &set));
    DPU_ASSERT(dpu_load_from_incbin(set, &program, nullptr));
    DPU_ASSERT(dpu_load_from_memory(set, other.buffer, other.size, nullptr));
    DPU_ASSERT(dpu_launch(set, DPU_SYNCHRONOUS));
    DPU_ASSERT(dpu_callback(set, count, &calls, DPU_CALLBACK_ASYNC));
    DPU_ASSERT(dpu_sync(set));
    DPU_FOREACH(set, dpu, index) {
        DPU_ASSERT(dpu_copy_from(dpu, "value", 0, &value, 4));
        std::printf("%u %u\\n", index, value);
    }
    DPU_ASSERT(dpu_free(set));
    return calls - 1;
}
"""


def test_binary_inside_a_cpp_program(capfd: pytest.CaptureFixture[str]) -> None:
    """DPU_INCBIN, and the headers in C++; another binary makes another program."""
    programs: list[Path] = []
    for value in (5, 6):
        text = (
            f"#include <attributes.h>\n__host int value;\nint main(void) {{ value = {value}; }}\n"
        )
        binary = device_program({"value.c": text})
        flags = [f'-DPROGRAM="{binary}"', "-Wall", "-Wextra", "-Werror"]
        programs.append(upmem_build.host_program({"main.cpp": INCBIN}, flags=flags))
        done = subprocess.run([programs[-1]], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"0 {value}\n1 {value}\n"), done.stderr
    assert programs[0] != programs[1]


def test_device_arguments() -> None:
    options, inputs, output, only = parse_device_arguments(
        "-D NR_TASKLETS=12 -DSTACK_SIZE_DEFAULT=0x200 -DSTACK_SIZE_TASKLET_3=2048 -I inc -DX=1 "
        "-flto -mcpu=v1A -Wall a.c b.o -o out -c".split()
    )
    assert (options.tasklets, options.stack, options.stacks) == (12, 512, {3: 2048})
    assert options.stack_of(3) == 2048
    assert options.flags == ("-Iinc", "-DX=1", "-Wall")
    assert (inputs, output, only) == (["a.c", "b.o"], "out", True)
    with pytest.raises(CompileError, match="NR_TASKLETS must be a number"):
        parse_device_arguments(["-DNR_TASKLETS=many", "a.c"])
    with pytest.raises(CompileError, match="no source file"):
        parse_device_arguments(["-O2"])


CAST = """\
#include <mram.h>
__mram_noinit int there[4];
int *plain;
int get(int *p) { return *p; }
int main(void)
{
    plain = (int *)there;
    return get((int *)
        (there + 1)) + there[2];
}
"""


def test_casts_between_address_spaces(capfd: pytest.CaptureFixture[str]) -> None:
    """Explicit ones, which stock clang takes, are warned of; implicit ones are errors."""
    device_program({"cast.c": CAST})
    warned = re.findall(r"cast\.c:(\d+): warning: explicit cast between", capfd.readouterr().err)
    assert warned == ["7", "8"]
    with pytest.raises(CompileError, match="address space"):
        device_program({"cast.c": CAST.replace("(int *)there", "there")})
    device_program({"cast.c": CAST})
    assert "warning: explicit cast" in capfd.readouterr().err, "again, from the cache"


@pytest.mark.parametrize("size", ["0", "12", "2056"])
def test_constant_transfer_sizes(size: str) -> None:
    text = f"#include <mram.h>\nchar b[8];\nint main(void) {{ mram_read(0, b, {size}); }}\n"
    with pytest.raises(CompileError, match="8 to 2048 bytes, a multiple of 8"):
        device_program({"dma.c": text})


def test_too_many_atomic_bits() -> None:
    text = "#include <mutex_pool.h>\nMUTEX_POOL_INIT(p, 32);\nMUTEX_POOL_INIT(q, 32);\n"
    text += "int main(void) { mutex_pool_lock(&p, 0); mutex_pool_lock(&q, 0); }\n"
    with pytest.raises(CompileError, match="more mutexes, barriers and semaphores than"):
        device_program({"locks.c": text})
    device_program({"locks.c": text}, DeviceOptions(target="v1B"))


def test_line_table() -> None:
    """Every instruction of the program has a line of its file, the runtime's are marked."""
    from elftools.elf.elffile import ELFFile

    text = '#include <stdio.h>\nint main(void)\n{\n    printf("a");\n    return 0;\n}\n'
    with device_program({"lines.c": text}).open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".inr_lines").data()
        (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("main")
        assert not any(s.name.startswith(".debug") for s in elf.iter_sections())
    magic, version, count, size = struct.unpack_from("<IIII", table)
    assert (magic, version) == (0x4C524E49, 1)
    assert len(table) == 16 + 12 * count + size
    strings = table[16 + 12 * count :]
    rows = [struct.unpack_from("<III", table, 16 + 12 * i) for i in range(count)]
    assert [row[0] for row in rows] == sorted({row[0] for row in rows})
    named = [(a, line, strings[o : strings.index(b"\0", o)].decode()) for a, line, o in rows]
    start, end = symbol["st_value"], symbol["st_value"] + symbol["st_size"]
    assert {(line, name) for a, line, name in named if start <= a < end} <= {
        (line, "lines.c") for line in range(2, 7)
    }
    assert any(line == 4 and start <= a < end for a, line, _ in named)
    assert {name for *_, name in named} >= {"lines.c", "<stdio.c>", "<start.c>"}


def test_line_table_without_debug_information(tmp_path: Path) -> None:
    program = device_program({"lines.c": "int main(void) { return 0; }\n"})
    (tmp_path / "program").write_bytes(program.read_bytes())
    assert struct.unpack("<IIII", line_table(tmp_path / "program")) == (0x4C524E49, 1, 0, 0)


@pytest.mark.parametrize(
    ("missing", "package"),
    [("clang", "clang-19 lld-19"), ("libgcc", "gcc-riscv64-unknown-elf"), ("cc", "gcc")],
)
def test_missing_tools(missing: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the Debian package."""
    variable = {"clang": "INR_DPU_CLANG", "libgcc": "INR_DPU_LIBGCC", "cc": "CC"}[missing]
    monkeypatch.setenv(variable, "/nowhere/tool")
    find_dpu_toolchain.cache_clear()
    try:
        with pytest.raises(CompileError, match=f"apt install {package}"):
            upmem_build.host_compiler() if missing == "cc" else find_dpu_toolchain()
    finally:
        find_dpu_toolchain.cache_clear()


def test_programs_are_kept_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text is not built twice; another header, macro or number of tasklets is."""
    texts = {"a.c": '#include "b.h"\nint main(void) { return B + NR_TASKLETS; }\n', "b.h": "\n"}
    texts["b.h"] = "#define B 1\n"
    first = device_program(texts)
    before = first.stat().st_mtime_ns
    assert device_program(dict(texts)) == first
    assert first.stat().st_mtime_ns == before
    assert device_program({**texts, "b.h": "#define B 2\n"}) != first
    assert device_program(texts, DeviceOptions(tasklets=2)) != first
    assert device_program(texts, DeviceOptions(stack=2048)) != first
    shutil.copy(first, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes()[:4] == b"\x7fELF"


def test_paths_for_makefiles() -> None:
    for option, file in [
        ("--dpu-bin-dir", "dpu-upmem-dpurte-clang"),
        ("--dpu-include-dir", "dpu.h"),
        ("--dpu-device-dir", "mram.h"),
    ]:
        done = subprocess.run(
            [sys.executable, "-m", "inr.runtime", option], capture_output=True, text=True
        )
        assert (Path(done.stdout.strip()) / file).is_file()
