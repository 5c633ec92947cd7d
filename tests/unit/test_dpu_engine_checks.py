"""Each rule of the DPU engine broken by a small program, and kept by the program next to it."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from inr.errors import CompileError
from inr.runtime.upmem_engine import (
    IRAM_BASE,
    MRAM_BASE,
    Dpu,
    Fault,
    Program,
    default_options,
    environment_options,
)

CLANG, LLD = shutil.which("clang-19"), shutil.which("ld.lld-19")
pytestmark = pytest.mark.skipif(not (CLANG and LLD), reason="needs clang-19 and lld-19")

OPERATIONS = {
    "read": ".insn r4 0x0b, 0, 0, x0, {}, {}, {}",
    "write": ".insn r4 0x0b, 1, 0, x0, {}, {}, {}",
    "acquire": ".insn r 0x0b, 2, 0, x0, {}, x0",
    "release": ".insn r 0x0b, 3, 0, x0, {}, x0",
    "stop": ".insn r 0x0b, 4, 0, x0, x0, x0",
    "end": ".insn r 0x0b, 4, 1, x0, x0, x0",
    "resume": ".insn r 0x0b, 5, 0, x0, {}, x0",
    "fresh": ".insn r 0x0b, 6, 2, x0, {}, {}",
    "fault": ".insn r 0x0b, 7, 0, x0, {}, x0",
    "print": ".insn r 0x0b, 7, 1, {}, {}, {}",
}
SCRIPT = """\
ENTRY(_start)
SECTIONS {
  .text 0x80000000 : { *(.text) }
  . = 8;
  .dpu_host : { *(.dpu_host) }
  .data : { *(.data) }
  .bss (NOLOAD) : ALIGN(8) { *(.bss) }
  . = ALIGN(16); __stacks_start = .; . = . + __nr_tasklets * __stack_size; __heap_start = .;
  . = 0x08000000;
  .mram : { *(.mram) }
  __sys_used_mram_end = ALIGN(8);
}
"""


def expanded(line: str) -> str:
    """A line of assembly with the DPU's operations written out."""
    label, colon, rest = line.rpartition(": ")
    name, *operands = rest.split("#")[0].replace(",", " ").split() or [""]
    form = OPERATIONS.get(name)
    return line if form is None else f"{label}{colon}{form.format(*operands)}"


def build(text: str, tasklets: int = 1, stack: int = 256) -> bytes:
    """The ELF of an assembly text, its line table made by the assembler."""
    assert CLANG is not None
    assert LLD is not None
    code, rows, in_text = ".text\n.globl _start\n_start:\n", "", True
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith((".text", ".data", ".bss", ".section")):
            in_text = line.startswith(".text")
        elif in_text:
            code += f".Lline{number}: "
            rows += f".word .Lline{number}, {number}, 0\n"
        code += expanded(line) + "\n"
    table = f'.word 0x4C524E49, 1, {rows.count(".word")}, 9\n{rows}.asciz "kernel.s"\n'
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernel.s").write_text(f'{code}.section .inr_lines,"",@progbits\n{table}')
        (folder / "dpu.ld").write_text(SCRIPT)
        flags = ["--target=riscv32-unknown-elf", "-march=rv32im_zba_zbb", "-mno-relax"]
        symbols = [f"--defsym=__nr_tasklets={tasklets}", f"--defsym=__stack_size={stack}"]
        for command in (
            [CLANG, *flags, "-c", "kernel.s", "-o", "kernel.o"],
            [LLD, "-T", "dpu.ld", *symbols, "kernel.o", "-o", "kernel"],
        ):
            subprocess.run(command, cwd=folder, check=True)
        return (folder / "kernel").read_bytes()


def prepared(text: str, tasklets: int = 1, stack: int = 256, **changes: object) -> Dpu:
    elf, options = build(text, tasklets, stack), default_options(**changes)
    dpu = Dpu(options, number=3)
    dpu.load(Program(elf, options))
    return dpu


MRAM = "lui t1, 0x8000\n"
ALWAYS = {
    "wram-bounds": ("lui t0, 0x10\nlw t1, 0(t0)  # here\nend", "load of 4 bytes at 0x00010000"),
    "wram-bounds ": ("li t0, -4\nsw t1, 0(t0)  # here\nend", "store of 4 bytes at 0xfffffffc"),
    "wram-null": ("lbu t1, 4(zero)  # here\nend", "a null pointer"),
    "mram-bounds": ("lui t0, 0xc000\nlw t1, 0(t0)  # here\nend", "byte 67108864 of MRAM"),
    "alignment": ("li t0, 0x402\nlw t1, 0(t0)  # here\nend", "0x00000402"),
    "alignment ": ("li t0, 0x401\nsh t1, 0(t0)  # here\nend", "multiple of 2"),
    "dma-size": (f"li t0, 64\n{MRAM}li t2, 12\nread t0, t1, t2  # here\nend", "would move 8"),
    "dma-size ": (f"li t0, 64\n{MRAM}li t2, 0\nwrite t0, t1, t2  # here\nend", "would move 2048"),
    "dma-size  ": (f"li t0, 64\n{MRAM}li t2, 2056\nread t0, t1, t2  # here\nend", "2056 bytes"),
    "dma-alignment": (
        f"li t0, 68\n{MRAM}li t2, 16\nread t0, t1, t2  # here\nend",
        "WRAM 0x00000044 and MRAM 0x08000000",
    ),
    "dma-alignment ": (
        f"li t0, 64\n{MRAM}addi t1, t1, 4\nli t2, 8\nwrite t0, t1, t2  # here\nend",
        "MRAM 0x08000004",
    ),
    "dma-range": (
        f"lui t0, 0x10\naddi t0, t0, -8\n{MRAM}li t2, 16\nread t0, t1, t2  # here\nend",
        "16 bytes at WRAM 0x0000fff8",
    ),
    "dma-range ": (
        "li t0, 64\nlui t1, 0xc000\naddi t1, t1, -8\nli t2, 16\nwrite t0, t1, t2  # here\nend",
        "byte 67108856 of MRAM, which has 67108864",
    ),
    "dma-range  ": (f"li t0, 0\n{MRAM}li t2, 8\nread t0, t1, t2  # here\nend", "from 8 to 65536"),
    "stack-overflow": ("addi sp, sp, -256\naddi sp, sp, -16  # here\nend", "16 bytes below"),
    "stack-overflow ": ("mv t0, sp\naddi t0, t0, 8\nmv sp, t0  # here\nend", "8 bytes above"),
    "divide-by-zero": ("li t0, 7\nli t1, 0\ndiv t2, t0, t1  # here\nend", "7 divided by 0"),
    "divide-by-zero ": ("li t0, 7\nremu t2, t0, zero  # here\nend", "7 divided by 0"),
    "heap-full": ("li t0, 1\nfault t0  # here\nend", "fault 1: the heap is full"),
    "divide-by-zero  ": ("li t0, 2\nfault t0  # here\nend", "fault 2"),
    "assert": ("li t0, 3\nfault t0  # here\nend", "fault 3"),
    "halt": ("li t0, 4\nfault t0  # here\nend", "fault 4"),
    "log-overflow": ("li t0, 5\nfault t0  # here\nend", "fault 5"),
    "profiling": ("li t0, 7\nfault t0  # here\nend", "fault 7"),
    "runtime-alignment": ("li t0, 8\nfault t0  # here\nend", "fault 8"),
    "runtime-fault": ("li t0, 77\nfault t0  # here\nend", "fault 77"),
    "atomic-bit": ("li t0, 256\nacquire t0  # here\nend", "0x100"),
    "tasklet": ("li t0, 1\nresume t0  # here\nend", "resumes tasklet 1 of 1"),
    "illegal-instruction": ("nop\nunimp  # here\nend", "no instruction"),
    "iram-fetch": ("call f\nend\nf: lui t0, 0x90000\njr t0  # here", "0x90000000: the"),
    "iram-fetch ": ("call f\nend\nf: addi t0, ra, 2\njr t0  # here", "0x8000000a: the"),
    "iram-fetch  ": ("nop\nret  # here", "jumps to 0x00000000"),
    "iram-fetch   ": ("nop\nnop  # here", "behind the program's 2 instructions"),
    "deadlock": ("nop\nstop  # here\nend", "0 (kernel.s:2): stopped, nobody resumes it"),
    "deadlock ": ("li t0, 5\nacquire t0\nacquire t0  # here\nend", "waits for atomic bit 5"),
    "cycle-limit": ("nop\n1: j 1b  # here", "after 100000 cycles"),
}


def stopped(dpu: Dpu, rule: str, line: int) -> Fault:
    """The fault that the run ends with, which must be this one."""
    fault = dpu.run()
    assert fault is not None
    assert (fault.rule, fault.line) == (rule, line), fault.message
    return fault


def here(text: str) -> int:
    """The line of `# here` in the text."""
    return next(i for i, line in enumerate(text.splitlines(), 1) if "# here" in line)


@pytest.mark.parametrize("name", ALWAYS)
def test_rule_and_line(name: str) -> None:
    text, words = ALWAYS[name]
    fault = stopped(prepared(text, max_cycles=100_000), name.strip(), here(text))
    assert fault.file == "kernel.s"
    assert words in fault.message
    assert fault.message.startswith(f"DPU 3, tasklet 0, kernel.s:{fault.line}, in ")


def test_the_last_bytes_of_every_memory_are_there() -> None:
    dpu = prepared(
        f"lui t0, 0x10\naddi t0, t0, -8\nli t3, 77\nsw t3, 4(t0)\n{MRAM}lui t1, 0xc000\n"
        "addi t1, t1, -8\nli t2, 8\nwrite t0, t1, t2\nlw t4, 4(t1)\nsw t4, 0(t0)\n"
        "addi sp, sp, -256\naddi sp, sp, 256\nend"
    )
    assert (fault := dpu.run()) is None, fault
    assert dpu.read(0x10000 - 8, 8) == struct.pack("<2I", 77, 77)
    assert dpu.read(MRAM_BASE + (64 << 20) - 4, 4) == struct.pack("<I", 77)
    assert dpu.statistics.tasklet_stack[0] == 256


def test_other_sizes_of_a_v1b() -> None:
    text = "lui t0, 0xf\nlw t1, 0x7fc(t0)\nlui t0, 0x10\nlw t1, -2048(t0)  # here\nend"
    stopped(prepared(text, target="v1B"), "wram-bounds", here(text))
    assert prepared(text).run() is None


def test_hardware_masks_what_is_a_fault_here() -> None:
    """Addresses lose their low bits, 0 bytes are 2048 and 2056 are 8."""
    text = f"li t0, 0x1004\n{MRAM}addi t1, t1, 15\nli t2, 0\nread t0, t1, t2\nli t2, 2056\n"
    text += "li t0, 0x2000\nread t0, t1, t2\nend"
    dpu = prepared(text, hardware_mask=True)
    pattern = bytes(i * 7 % 251 for i in range(4096))
    dpu.write(MRAM_BASE, pattern)
    assert dpu.run() is None
    assert dpu.read(0x1000, 2056) == pattern[8:2056] + b"\xa5" * 8
    assert dpu.read(0x2000, 16) == pattern[8:16] + b"\xa5" * 8
    assert dpu.statistics.dma_masked == 4  # two sizes, two pairs of addresses


def test_the_caller_of_the_runtime_is_named() -> None:
    text = "nop\ncall f  # here\nend\nf: li t0, 1\nfault t0\n"
    elf, options = build(text), default_options()
    rows = [(IRAM_BASE, 2, 0), (IRAM_BASE + 4, 3, 0), (IRAM_BASE + 16, 40, 9)]
    strings = b"kernel.c\0<runtime>/alloc.c\0"
    table = struct.pack("<4I", 0x4C524E49, 1, len(rows), len(strings))
    table += b"".join(struct.pack("<3I", *row) for row in rows) + strings
    dpu = Dpu(options)
    dpu.load(Program(elf, options, table))
    fault = stopped(dpu, "heap-full", 3)
    assert "kernel.c:3, in _start, called f" in fault.message


def test_calls_within_the_runtime_are_passed_over() -> None:
    text = "nop\ncall f\nend\nf: mv s0, ra\ncall g\nmv ra, s0\nret\ng: li t0, 3\nfault t0\n"
    options = default_options()
    strings = b"kernel.c\0<runtime>/assert.c\0"
    rows = ((0, 2, 0), (4, 3, 0), (16, 40, 9), (36, 50, 9))
    table = struct.pack("<4I", 0x4C524E49, 1, len(rows), len(strings))
    table += b"".join(struct.pack("<3I", IRAM_BASE + at, *row) for at, *row in rows) + strings
    dpu = Dpu(options)
    dpu.load(Program(build(text), options, table))
    fault = stopped(dpu, "assert", 3)
    assert (fault.file, fault.pc) == ("kernel.c", IRAM_BASE + 40)


def test_stacks_of_other_sizes() -> None:
    text = (
        ".globl __stack_size_1\n.set __stack_size_1, 512\ncsrr t0, mhartid\nbeqz t0, 1f\n"
        "addi sp, sp, -512\nsw t0, 0(sp)\naddi sp, sp, 512\nend\n1: addi sp, sp, {0}\nend"
    )
    dpu = prepared(text.format(-256), 2)
    assert (fault := dpu.run()) is None, fault
    assert list(dpu.statistics.tasklet_stack)[:2] == [256, 512]
    assert stopped(prepared(text.format(-264), 2), "stack-overflow", 9).tasklet == 0


def test_loading_again_poisons_wram_and_keeps_mram() -> None:
    elf, options = build(f"{MRAM}la t0, __heap_start\nsw t1, 0(t0)\nend"), default_options()
    dpu, program = Dpu(options), Program(elf, options)
    dpu.load(program)
    dpu.write(0x4000, b"garbage!")
    dpu.write(MRAM_BASE + 64, b"persists")
    dpu.load(program)
    assert dpu.read(0x4000, 8) == b"\xa5" * 8
    assert dpu.read(MRAM_BASE + 64, 8) == b"persists"


def test_deadlock_names_what_everybody_waits_for() -> None:
    """0 stopped, 1 waits for 0's lock, 2 has ended, 3 wants to resume the ended one."""
    text = (
        "csrr t0, mhartid\nli t1, 9\nli t2, 1\nbeqz t0, none\nbeq t0, t2, one\nli t2, 2\n"
        "beq t0, t2, two\nresume t2\nend\nnone: acquire t1\nstop\nend\none: nop\nacquire t1\nend\n"
        "two: end"
    )
    fault = stopped(prepared(text, 4), "deadlock", 11)
    assert "none of the 3 tasklets left can go on" in fault.message
    for words in ("0 (kernel.s:11): stopped", "1 (kernel.s:14): waits for atomic bit 9",
                  "3 (kernel.s:8): waits to resume tasklet 2"):  # fmt: skip
        assert words in fault.message
    assert "; 2 (" not in fault.message


def test_a_lock_that_will_be_released_is_no_deadlock() -> None:
    text = (
        "csrr t0, mhartid\nli t1, 9\nacquire t1\nli t2, 50\n1: addi t2, t2, -1\nbnez t2, 1b\n"
        "release t1\nend"
    )
    dpu = prepared(text, 16)
    assert (fault := dpu.run()) is None, fault
    assert dpu.statistics.lock_retries > 0


# ---- refused at load ---------------------------------------------------------------------------


def refused(elf: bytes, **changes: object) -> str:
    with pytest.raises(CompileError) as caught:
        Program(elf, default_options(**changes))
    return str(caught.value)


def test_what_does_not_fit_is_refused_with_its_numbers() -> None:
    assert "17 tasklets: a v1B DPU has 1 to 16" in refused(build("end", 17), target="v1B")
    assert "25 tasklets" in refused(build("end", 25))
    text = refused(build(".bss\n.space 60000\n.text\nend", 16, 512))
    assert text.startswith("wram-overflow: data and stacks end at 68208 of the 65536 bytes")
    assert "2672 too many; 16 tasklets have 8192 bytes of stack, data has 60016" in text
    Program(build(".bss\n.space 57304\n.text\nend", 16, 512), default_options())
    assert "4097 instructions" in refused(build("nop\n" * 4096 + "end"))
    full = Program(build("nop\n" * 4095 + "end"), default_options())
    assert full.slots == 4096
    assert "4096" in (full.warning or "")
    assert Program(build("nop\n" * 3000 + "end"), default_options()).warning is None
    assert "mram-overflow" in refused(
        build('.section .mram,"aw",@nobits\n.space 0x4000008\n.text\nend')
    )


def test_no_program() -> None:
    elf = build("end")
    assert "not an ELF" in refused(b"#!/bin/sh\n" + elf)
    assert "another machine" in refused(elf[:18] + b"\x3e\0" + elf[20:])
    assert "__nr_tasklets" in refused(elf.replace(b"__nr_tasklets", b"__xx_tasklets"))
    for cut in range(0, len(elf), 97):
        refused(elf[:cut])
    Program(elf, default_options())


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INR_DPU_CHECK", "races,uninitialised")
    monkeypatch.setenv("INR_DPU_OCCUPANCY", "10,0.25")
    monkeypatch.setenv("INR_DPU_SEED", "5")
    options = environment_options()
    checks = (options.check_races, options.check_uninitialised, options.check_dma_window)
    assert checks == (True, True, False)
    assert (options.costs.dma_occupancy, options.costs.dma_occupancy_byte) == (10, 0.25)
    assert options.seed == 5
    for name, value in (("CHECK", "race"), ("TARGET", "v2"), ("MAX_CYCLES", "-1"), ("STEAL", "x")):
        with monkeypatch.context() as patch:
            patch.setenv(f"INR_DPU_{name}", value)
            with pytest.raises(CompileError, match=f"INR_DPU_{name}"):
                environment_options()


# ---- the optional checks -----------------------------------------------------------------------

LOCKED = "li s1, 3\nacquire s1\n{0}\nrelease s1\n"
SHARED = ".bss\n.balign 8\nshared: .space 64\n.text\n"
ADD = "la t0, shared\nlw t1, 0(t0)\naddi t1, t1, 1\nsw t1, 0(t0)  # here"
HANDSHAKE = (  # tasklet 1 sleeps, 0 writes and wakes it, 1 reads
    "csrr t2, mhartid\nli t3, 1\nla t0, shared\nbnez t2, 1f\nsw t3, 4(t0)\n{0}\nend\n1: {1}\n"
    "lw t4, 4(t0)  # here\nend"
)
CHECKED = {
    "race": (SHARED + ADD + "\nend", SHARED + LOCKED.format(ADD) + "end"),
    "race ": (
        SHARED + HANDSHAKE.format("nop", "nop\n" * 9),
        SHARED + HANDSHAKE.format("resume t3", "stop"),
    ),
    "race  ": (  # two locks are no order
        SHARED + "csrr s1, mhartid\nacquire s1\n" + ADD.replace("  # here", "").replace(
            "sw t1, 0(t0)", "sw t1, 0(t0)  # here") + "\nrelease s1\nend",
        SHARED + "csrr s1, mhartid\nacquire s1\nla t0, shared\nsh2add t0, s1, t0\nlw t1, 0(t0)\n"
        "sw t1, 0(t0)\nrelease s1\nend",
    ),
    "race   ": (  # both fill one buffer
        SHARED + f"la t0, shared\n{MRAM}li t2, 16\nread t0, t1, t2  # here\nend",
        SHARED + f"la t0, shared\ncsrr t3, mhartid\nslli t3, t3, 4\nadd t0, t0, t3\n{MRAM}"
        "li t2, 16\nread t0, t1, t2\nend",
    ),
    "mram-race": (  # 4 bytes of one word each
        SHARED + f"csrr t3, mhartid\n{MRAM}sh2add t1, t3, t1\nsw t3, 0(t1)  # here\nend",
        SHARED + f"csrr t3, mhartid\n{MRAM}sh3add t1, t3, t1\nsw t3, 0(t1)\nend",
    ),
    "mram-race ": (
        SHARED + f"csrr t3, mhartid\nla t0, shared\n{MRAM}sh3add t1, t3, t1\nli t2, 16\n"
        "write t0, t1, t2  # here\nend",
        SHARED + f"csrr t3, mhartid\nla t0, shared\n{MRAM}sh3add t1, t3, t1\nli t2, 8\n"
        "write t0, t1, t2\nend",
    ),
    "uninitialised-wram": ("la t0, __heap_start\nlw t1, 0(t0)  # here\nend",
                           "la t0, __heap_start\nsw t1, 0(t0)\nlw t1, 0(t0)\nend"),
    "uninitialised-wram ": ("sw t1, -16(sp)\naddi sp, sp, -16\nlw t1, 0(sp)  # here\nend",
                            "addi sp, sp, -16\nsw t1, 0(sp)\nlw t1, 0(sp)\nend"),
    "uninitialised-wram  ": (  # a frame that is left and entered again
        "addi sp, sp, -16\nsw t1, 0(sp)\naddi sp, sp, 16\naddi sp, sp, -16\n"
        "lbu t1, 2(sp)  # here\nend",
        "addi sp, sp, -16\nsw t1, 0(sp)\nlbu t1, 2(sp)\nend",
    ),
    "uninitialised-wram   ": (
        SHARED + "la t0, shared\nsw t1, 0(t0)\nli t2, 8\nfresh t0, t2\nlw t1, 4(t0)  # here\nend",
        SHARED + "la t0, shared\nli t2, 8\nfresh t0, t2\nsw t1, 4(t0)\nlw t1, 4(t0)\nend",
    ),
    "uninitialised-mram": (
        SHARED + f"la t0, shared\n{MRAM}li t2, 64\nread t0, t1, t2\nlw t3, 16(t0)  # here\nend",
        SHARED + f"la t0, shared\n{MRAM}li t2, 64\nread t0, t1, t2\nlw t3, 12(t0)\nend",
    ),
    "uninitialised-mram ": (
        f"{MRAM}lw t3, 16(t1)  # here\nend",
        f"{MRAM}lw t3, 12(t1)\nsw t3, 16(t1)\nlw t3, 16(t1)\nend",
    ),
    "dma-window": (  # 1 reads while 0's DMA into the place is under way
        SHARED + f"csrr t3, mhartid\nla t0, shared\n{MRAM}li t2, 16\nbnez t3, 1f\n"
        "read t0, t1, t2\nend\n1: nop\nnop\nlw t4, 8(t0)  # here\nend",
        SHARED + f"csrr t3, mhartid\nla t0, shared\n{MRAM}li t2, 16\nbnez t3, 1f\n"
        "read t0, t1, t2\nend\n1: nop\nnop\nlw t4, 16(t0)\nend",
    ),
}  # fmt: skip
OPTION = {
    "race": "check_races",
    "mram-race": "check_races",
    "uninitialised-wram": "check_uninitialised",
    "uninitialised-mram": "check_uninitialised",
    "dma-window": "check_dma_window",
}


@pytest.mark.parametrize("name", CHECKED)
def test_optional_rule(name: str) -> None:
    wrong, right = CHECKED[name]
    rule = name.strip()
    tasklets = 1 if rule.startswith("uninit") else 2
    dpus = [
        prepared(text, tasklets, **{OPTION[rule]: on})
        for text, on in ((wrong, True), (right, True), (wrong, False))
    ]
    for dpu in dpus:
        dpu.write(MRAM_BASE, bytes(16))
    stopped(dpus[0], rule, here(wrong))
    for dpu in dpus[1:]:
        assert (fault := dpu.run()) is None, fault


WINDOW = SHARED + (
    f"csrr t3, mhartid\nla t0, shared\n{MRAM}li t2, 16\nbnez t3, 1f\n{{0}} t0, t1, t2\n"
    "li t4, 50\n2: addi t4, t4, -1\nbnez t4, 2b\nend\n1: {1}\nend"
)


def test_a_dma_window_ends_and_says_what_is_under_way() -> None:
    """What DMA writes to MRAM may be read meanwhile, not changed; afterwards all is allowed."""
    later = "li t4, 20\n3: addi t4, t4, -1\nbnez t4, 3b\nlw t5, 0(t0)\nsw t5, 0(t0)"
    store = WINDOW.format("write", "nop\nsw t5, 8(t0)  # here")
    stopped(prepared(store, 2, check_dma_window=True), "dma-window", here(store))
    for text in (
        WINDOW.format("write", "nop\nlw t5, 8(t0)"),
        WINDOW.format("write", later),
        WINDOW.format("read", later),
    ):
        assert (fault := prepared(text, 2, check_dma_window=True).run()) is None, fault


def test_every_run_begins_with_released_bits() -> None:
    dpu = prepared("li t0, 5\nacquire t0\nend")
    assert dpu.run() is None
    assert dpu.run() is None


def test_reads_of_mram_that_others_write_are_a_check_of_their_own() -> None:
    text = SHARED + (
        f"csrr t3, mhartid\nla t0, shared\n{MRAM}li t2, 8\nbnez t3, 1f\nwrite t0, t1, t2\nend\n"
        "1: addi t0, t0, 8\nread t0, t1, t2  # here\nend"
    )
    assert prepared(text, 2, check_races=True).run() is None
    dpu = prepared(text, 2, check_races=True, check_mram_reads=True)
    fault = stopped(dpu, "mram-race", here(text))
    assert "that tasklet 0 wrote" in fault.message


def test_many_readers_then_a_writer() -> None:
    """All read, then tasklet 15 writes without waiting for the others."""
    text = SHARED + (
        "csrr t3, mhartid\nla t0, shared\nlw t1, 0(t0)\nli t2, 15\nbne t3, t2, 1f\n"
        "sw t1, 0(t0)  # here\n1: end"
    )
    fault = stopped(prepared(text, 16, check_races=True), "race", here(text))
    assert fault.tasklet == 15
    assert "that tasklet 0 read" in fault.message


def test_what_is_unwritten_travels_with_dma() -> None:
    """16 written bytes and 16 others go to MRAM; the host can ask which arrived."""
    text = (
        f"la t0, __heap_start\nsw t1, 0(t0)\nsw t1, 4(t0)\n{MRAM}li t2, 16\nwrite t0, t1, t2\nend"
    )
    dpu = prepared(text, check_uninitialised=True)
    assert dpu.run() is None
    assert dpu.first_unwritten(MRAM_BASE, 8) is None
    assert dpu.first_unwritten(MRAM_BASE, 16) == MRAM_BASE + 8


def test_seeds_change_the_order_and_only_a_race_can_tell() -> None:
    last = (
        "csrr t1, mhartid\nla t0, shared\nli t2, 5\n1: addi t2, t2, -1\nbnez t2, 1b\n"
        "sw t1, 0(t0)\nend"
    )
    found = set()
    for seed in range(12):
        racy = prepared(SHARED + last, 16, seed=seed)
        assert racy.run() is None
        found.add(racy.read(8, 4))
        safe = prepared(SHARED + LOCKED.format(ADD) + "end", 16, seed=seed)
        assert safe.run() is None
        assert safe.read(8, 4) == struct.pack("<I", 16)
    assert len(found) > 3


def test_printf() -> None:
    text = (
        '.data\nformat: .asciz "%d %5u|%-4x|%s %c %lld %llu %.2f %% %p %hhd\\n"\n'
        'word: .asciz "abc"\n.balign 8\n'
        "arguments: .word -3, 42, 0xbeef, word, 'z', 0\n.dword -5000000000, 5000000000\n"
        ".double 2.5\n.word 0x1234, 0x181\n"
        ".text\nla a0, format\nla a1, arguments\nprint a2, a0, a1\n"
        "la a3, arguments\nsw a2, 0(a3)\nend"
    )
    dpu = prepared(text)
    assert (fault := dpu.run()) is None, fault
    assert dpu.log == "-3    42|beef|abc z -5000000000 5000000000 2.50 % 0x1234 -127\n"


def test_printf_fills_the_log() -> None:
    text = (
        '.data\nformat: .asciz "0123456789\\n"\n.globl __log_size\n.set __log_size, 100\n'
        ".text\nla a0, format\n1: print a2, a0, sp  # here\nj 1b"
    )
    dpu = prepared(text)
    stopped(dpu, "log-overflow", here(text))
    assert dpu.log == ("0123456789\n" * 10)[:100]


def test_memories_live_on_between_runs_and_are_poisoned_before() -> None:
    text = '.section .dpu_host,"aw"\n.globl count\n.balign 8\ncount: .word 5\n.text\n' + (
        "la t0, count\nlw t1, 0(t0)\naddi t1, t1, 1\nsw t1, 0(t0)\nend"
    )
    dpu = prepared(text)
    assert dpu.read(0x2000, 8) == dpu.read(MRAM_BASE + (63 << 20), 8) == b"\xa5" * 8
    for expected in (6, 7, 8):
        assert dpu.run() is None
        assert dpu.read(8, 4) == struct.pack("<I", expected)


def test_profile() -> None:
    """Slots by line: they add up to the run's, over both runs."""
    text = "li t0, 10\n1: addi t0, t0, -1\nmul t1, t0, t0\nbnez t0, 1b\nend"
    dpu = prepared(text, 3, statistics=2)
    for runs in (1, 2):
        assert dpu.run() is None
        found = dpu.profile()
        assert sum(found.values()) == runs * dpu.statistics.slots
        by_line = {line: slots for (_, line, _), slots in found.items()}
        products = sum(7 + value.bit_length() for value in range(10))
        expected = {3: products, 2: 10, 4: 10, 1: 1, 5: 1}
        assert by_line == {line: 3 * runs * slots for line, slots in expected.items()}
        assert next(iter(found)) == ("kernel.s", 3, "_start")
    assert prepared(text).profile() == {}
