"""The engine's times: closed forms of issue and DMA, and what single instructions cost."""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from inr.runtime.upmem_engine import (
    MRAM_BASE,
    Dpu,
    Program,
    Statistics,
    default_options,
    environment_options,
)

CLANG, LLD = shutil.which("clang-19"), shutil.which("ld.lld-19")
pytestmark = pytest.mark.skipif(not (CLANG and LLD), reason="needs clang-19 and lld-19")

END = "\n.insn r 0x0b, 4, 1, x0, x0, x0\n"
READ = ".insn r4 0x0b, 0, 0, x0, t0, t1, t2\n"
WRITE = ".insn r4 0x0b, 1, 0, x0, t0, t1, t2\n"
SCRIPT = """\
SECTIONS {
  .text 0x80000000 : { *(.text) }
  . = 8;
  .data : { *(.data) }
  . = ALIGN(16); __stacks_start = .; . = . + __nr_tasklets * __stack_size; __heap_start = .;
}
"""


@cache
def build(text: str, tasklets: int = 1) -> bytes:
    assert CLANG is not None
    assert LLD is not None
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernel.s").write_text(f".text\n.globl _start\n_start:\n{text}\n")
        (folder / "dpu.ld").write_text(SCRIPT)
        symbols = [f"--defsym=__nr_tasklets={tasklets}", "--defsym=__stack_size=256"]
        for command in (
            [CLANG, "--target=riscv32-unknown-elf", "-march=rv32im_zba_zbb", "-mno-relax", "-c",
             "kernel.s", "-o", "kernel.o"],
            [LLD, "-e", "_start", "-T", "dpu.ld", *symbols, "kernel.o", "-o", "kernel"],
        ):  # fmt: skip
            subprocess.run(command, cwd=folder, check=True)
        return (folder / "kernel").read_bytes()


def finished(text: str, tasklets: int = 1, **changes: object) -> Dpu:
    options = default_options(**changes)
    dpu = Dpu(options)
    dpu.load(Program(build(text, tasklets), options))
    dpu.write(MRAM_BASE, bytes(range(256)) * 16)
    assert (fault := dpu.run()) is None, fault
    return dpu


def counts(text: str, tasklets: int = 1, **changes: object) -> Statistics:
    return finished(text, tasklets, **changes).statistics


# ---- issue -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tasklets", [1, 2, 5, 10, 11, 12, 16, 24])
@pytest.mark.parametrize("instructions", [1, 2, 13, 100])
def test_issue(tasklets: int, instructions: int) -> None:
    """
    Up to 11 tasklets each has a slot of its own every 11 cycles; the last one began T - 1 cycles
    late. With more, every cycle issues.
    """
    found = counts("nop\n" * (instructions - 1) + END, tasklets)
    expected = 11 * (instructions - 1) + tasklets if tasklets <= 11 else instructions * tasklets
    assert found.cycles == expected
    assert found.slots == instructions * tasklets
    assert found.idle == expected - found.slots
    assert list(found.tasklet_slots)[:tasklets] == [instructions] * tasklets


def test_free_instructions_issue_with_the_next_one() -> None:
    """Immediates of 32 bits and the tasklet's number are operands of DPU instructions."""
    text = "lui t0, 5\nauipc t1, 0\ncsrr t2, mhartid\nnop" + END
    found = counts(text)
    assert (found.slots, found.cycles, found.instructions) == (2, 12, 5)


def test_work_of_several_slots_is_shared_fairly() -> None:
    """One tasklet's long instruction leaves the other slots to the others."""
    text = (
        "csrr t0, mhartid\nbnez t0, 1f\nli a0, 1000\nli a1, 1000\nadd a1, a1, zero\nmul a2, a0, a1"
    )
    found = counts(text + END + "1: nop\nnop" + END, 2)
    slots = list(found.tasklet_slots)[:2]
    assert slots == [1 + 3 + 7 + 10 + 1, 1 + 2 + 1]
    assert found.cycles == 11 * (slots[0] - 1) + 1


# ---- DMA ---------------------------------------------------------------------------------------


def setup(size: int) -> str:
    """Registers for transfers of that size; 3 slots, lui is free."""
    return f"li t0, 0x400\nlui t1, 0x8000\nli t2, {size // 2}\nadd t2, t2, t2\n"


@pytest.mark.parametrize("size", [8, 64, 256, 720, 800, 1024, 2048])
@pytest.mark.parametrize("operation", ["read", "write"])
def test_one_tasklet_waits_for_each_transfer(size: int, operation: str) -> None:
    """
    Latencies add up where the engine is free again before the tasklet is; else, from 742 bytes
    written or 1186 read on, the engine's occupancy does.
    """
    latency = (77 if operation == "read" else 61) + size / 2
    occupancy = 34.3 + 0.536 * size
    cycles = 10 * math.ceil(latency)
    if occupancy > latency:
        cycles = math.ceil(9 * occupancy + latency)
    text = setup(size) + (READ if operation == "read" else WRITE) * 10 + END
    found = counts(text)
    assert found.cycles == 33 + cycles + 1
    moved = (found.dma_read_bytes, found.dma_write_bytes)
    assert moved == ((10 * size, 0) if operation == "read" else (0, 10 * size))
    assert found.dma_busy == int(10 * (34.3 + 0.536 * size) + 1e-6)


@pytest.mark.parametrize(("tasklets", "size"), [(4, 8), (11, 8), (16, 8), (16, 64), (24, 2048)])
def test_many_tasklets_saturate_the_engine(tasklets: int, size: int) -> None:
    """Requests follow each other without a gap, each taking 34.3 + 0.536 n cycles."""
    rounds = 12
    found = counts(setup(size) + READ * rounds + END, tasklets)
    occupancy, latency = 34.3 + 0.536 * size, 77 + 0.5 * size
    first = 3 * max(11, tasklets)
    last = first + (tasklets * rounds - 1) * occupancy + latency
    assert found.cycles == pytest.approx(math.ceil(last) + 1, abs=1)
    assert found.dma_reads == tasklets * rounds


def test_published_bandwidths() -> None:
    """Hardware reads 72.58 MB/s in requests of 8 bytes and 628 in those of 2048, at 350 MHz."""
    for size, published in ((8, 72.58), (2048, 628.23)):
        found = counts(setup(size) + READ * 200 + END, 16)
        assert found.dma_read_bytes / found.cycles * 350 == pytest.approx(published, rel=0.01)


def test_a_dma_engine_that_takes_slots() -> None:
    """With dma_steal 1 a slot is lost for 8 bytes, unless cycles are idle anyway."""
    text = "li t3, 200\n" + setup(64) + READ + "1: addi t3, t3, -1\nbnez t3, 1b" + END
    busy = counts(text, 16, dma_steal=1)
    assert busy.stolen == 16 * 64 // 8
    assert busy.cycles == busy.slots + busy.idle + busy.stolen
    assert busy.cycles > counts(text, 16, dma_steal=0).cycles
    assert counts(text, 1, dma_steal=1).cycles == counts(text, 1, dma_steal=0).cycles


@pytest.mark.parametrize("operation", ["lw t3, 4(t1)", "lbu t3, 4(t1)"])
def test_direct_loads_from_mram(operation: str) -> None:
    dpu = finished(f"lui t1, 0x8000\n{operation}\nla t4, place\nsw t3, 0(t4){END}"
                   ".data\nplace: .word 0", peepholes=False)  # fmt: skip
    found = dpu.statistics
    assert dpu.read(8, 4) == (bytes(range(4, 8)) if "lw" in operation else bytes([4, 0, 0, 0]))
    assert (found.direct_accesses, found.dma_reads, found.dma_read_bytes) == (1, 1, 8)
    # 77 + 4 until the data is there, then the 3 slots left of 4, the address, the store, the end
    assert found.cycles == 81 + 11 * 5 + 1


def test_direct_stores_to_mram_change_a_word() -> None:
    dpu = finished("lui t1, 0x8000\nli t3, -1\nsb t3, 9(t1)" + END)
    found = dpu.statistics
    assert dpu.read(MRAM_BASE + 8, 4) == bytes([8, 255, 10, 11])
    assert (found.dma_reads, found.dma_writes, found.direct_accesses) == (1, 1, 1)
    assert found.cycles == 11 + (77 + 4) + (61 + 4) + 11 * 5 + 1


def test_direct_stores_follow_each_other() -> None:
    """Each takes the engine for a read and a write of 8 bytes."""
    found = counts("lui t1, 0x8000\ncsrr t3, mhartid\nsh3add t1, t3, t1\nsb t3, 9(t1)" + END, 2)
    second = 11 + 2 * (34.3 + 0.536 * 8)
    assert found.cycles == math.ceil(second + 81 + 65) + 11 * 5 + 1
    assert found.dma_busy == int(4 * (34.3 + 0.536 * 8))


# ---- costs -------------------------------------------------------------------------------------


def slots_of(text: str, **changes: object) -> int:
    return counts(text + END, **changes).slots - 1


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        ("li t0, 200\nli t1, -100", 1),  # provably 8 bits
        ("lbu t0, 0(sp)\nlb t1, 0(sp)", 1),
        ("andi t0, s0, 255\nsext.b t1, s1", 1),
        ("srli t0, s0, 24\nsrai t1, s1, 24", 1),
        ("li t0, 200\nli t1, 300", 3),
        ("lhu t0, 0(sp)\nlbu t1, 0(sp)", 3),
        ("lh t0, 0(sp)\nsext.h t1, s1", 7),
        ("lbu t0, 0(sp)\nlbu t1, 1(sp)\nadd t1, t0, t1", 3),  # the sum needs 16
        ("li t0, 1000\nli t1, 7\nadd t1, t1, s0\nadd t0, t0, s1", 7 + 3),  # only the values help
        ("lui t0, 0xfffff\nlui t1, 0xffff0", 7 + 32),
        ("lw t0, 0(sp)\nmv t1, zero", 7),
    ],
)
def test_multiplications_cost_by_width_and_value(setup: str, expected: int) -> None:
    text = f"addi sp, sp, -16\nsw zero, 0(sp)\n{setup}\n"
    found = counts(text + "mul t2, t0, t1" + END)
    assert found.multiply_slots == expected
    assert slots_of(text + "mul t2, t0, t1") - slots_of(text) == expected


@pytest.mark.parametrize(
    ("operation", "a", "b", "expected"),
    [
        ("divu", 1000, 3, 7 + 9),
        ("divu", 3, 1000, 7),
        ("remu", 1 << 31, 1, 7 + 32),
        ("div", 1000, 3, 15 + 9),
        ("div", -1000, 3, 16 + 9),
        ("rem", -1000, -3, 17 + 9),
        ("rem", -(1 << 31), -1, 17 + 32),
        ("divu", 5, 5, 7 + 1),
    ],
)
def test_divisions_cost_a_step_for_each_bit_of_the_quotient(
    operation: str, a: int, b: int, expected: int
) -> None:
    found = counts(f"li t0, {a}\nli t1, {b}\n{operation} t2, t0, t1{END}")
    assert found.divide_slots == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("min t0, t1, t2", 2), ("maxu t0, t1, t2", 2), ("ctz t0, t1", 3), ("clz t0, t1", 1),
     ("rev8 t0, t1", 2), ("orc.b t0, t1", 4), ("mulhu t0, t1, t2", 40), ("cpop t0, t1", 1),
     ("rori t0, t1, 5", 1), ("sh3add t0, t1, t2", 1), ("j 1f\n1:", 1), ("fence", 0)],
)  # fmt: skip
def test_other_costs(text: str, expected: int) -> None:
    assert slots_of(text) == expected


PAIR = "lw a0, {0}(t0)\nlw a1, {1}(t0)"
PLACE = "la t0, place\n"
DATA = "\n.data\n.balign 8\nplace: .space 64\n.text\n"
ADD64 = "add a0, a0, a2\nsltu a4, a0, a2\nadd a1, a1, a3\nadd a1, a1, a4"
SUB64 = "sltu a4, a0, a2\nsub a1, a1, a3\nsub a0, a0, a2\nsub a1, a1, a4"


@pytest.mark.parametrize(
    ("text", "saved"),
    [
        (PAIR.format(0, 4), 1),
        (PAIR.format(12, 8), 1),
        ("sw a0, 16(t0)\nli a2, 1\nsw a1, 20(t0)", 1),
        (PAIR.format(4, 8), 0),  # halves of two words
        ("addi t0, t0, 4\n" + PAIR.format(0, 4), 0),  # not aligned
        ("lw a0, 0(t0)\naddi t0, t0, 8\nlw a1, 4(t0)", 0),  # another base
        ("lw a0, 0(t0)\nj 1f\n1: lw a1, 4(t0)", 0),  # something may jump between
        ("lw a0, 0(t0)\n1: lw a1, 4(t0)\nbltz zero, 1b", 0),
        ("sw t0, 0(t0)\nlw t0, 0(t0)\nlw a1, 4(t0)", 0),
        ("lw a0, 0(t0)\nsw a1, 4(t0)", 0),
        (PAIR.format(0, 4) + "\n" + PAIR.format(8, 12), 2),
        (ADD64, 2),
        ("addi a0, a0, 1\nseqz a4, a0\nadd a1, a1, a4", 2),
        ("add a0, a0, a2\nsltu a4, a0, a2\nadd a1, a1, a3\nadd a1, a1, a5", 0),  # no carry
        ("add a0, a0, a2\nsltu a4, a5, a2\nadd a1, a1, a3\nadd a1, a1, a4", 0),
        ("add a0, a0, a2\nsltu a4, a0, a0\nadd a1, a1, a3\nadd a1, a1, a4", 0),
        (SUB64, 2),
        ("xor a4, a0, a2\nxor a5, a1, a3\nor a4, a4, a5\nbnez a4, 1f\n1:", 2),
        ("xor a4, a0, a2\nxor a5, a1, a3\nor a4, a4, a5\nbltz a4, 1f\n1:", 0),
        ("slli a0, a0, 7\nadd a0, a0, a1", 1),
        ("srli a0, a1, 8\nadd a0, a2, a0", 1),
        ("slli a0, a1, 7\nadd a2, a0, a1\nmv a0, a2", 1),
        ("slli a0, a1, 7\nadd a2, a0, a1\nsw a0, 0(t0)", 0),  # the shifted value is needed
        ("1: slli a0, a1, 7\nadd a2, a0, a1\nbltz a0, 1b", 0),
        ("bltz zero, 2f\nslli a0, a1, 7\nadd a2, a0, a1\nbeqz zero, 3f\n2: sw a0, 0(t0)\n3:", 0),
        ("slli a0, a1, 7\nmv a1, a2\nadd a0, a0, a3", 0),  # what is shifted changed meanwhile
        ("slli a0, a1, 7\nsrli a2, a3, 4\nadd a2, a0, a2\nli a0, 0", 1),  # one shift an add
        ("slli a0, a1, 7\nmv a3, a0\nadd a0, a0, a1", 0),
        ("slli a0, a1, 7\nadd a0, a0, a0", 0),
    ],
)
def test_sequences_that_are_one_instruction(text: str, saved: int) -> None:
    whole = DATA + PLACE + text
    assert slots_of(whole, peepholes=False) - slots_of(whole) == saved
    assert Program(build(whole + END), default_options()).slots == (
        Program(build(whole + END), default_options(peepholes=False)).slots - saved
        if "addi t0, t0, 4" not in text
        else Program(build(whole + END), default_options(peepholes=False)).slots - 1
    )


def test_library_routines_cost_what_was_published() -> None:
    """The result is that of the routine's instructions, which take no slots themselves."""
    text = (
        "la t6, place\nli a0, 6\nli a1, 7\ncall __divsf3\nsw a0, 0(t6)" + END
        + ".globl __divsf3\n.type __divsf3, @function\n__divsf3: addi sp, sp, -16\nsw ra, 12(sp)\n"
        "call inner\nadd a0, a0, a1\nlw ra, 12(sp)\naddi sp, sp, 16\nret\n"
        ".type inner, @function\ninner: mul a0, a0, a1\nret" + DATA
    )  # fmt: skip
    dpu = finished(text)
    found = dpu.statistics
    assert dpu.read(8, 4) == struct.pack("<I", 6 * 7 + 7)
    assert (found.library_calls, found.library_slots) == (1, 1023)
    # addi of la, two li, the call, the routine, the store, the end; the call's auipc is free
    assert found.slots == 1 + 2 + 1 + 1023 + 1 + 1
    assert found.tasklet_stack[0] == 16
    plain = counts(text, library_table=False)
    assert plain.library_calls == 0
    assert plain.slots == found.slots - 1023 + 9 - 1 + 1


def test_printf_costs_by_the_character() -> None:
    text = "la a0, place\n.insn r 0x0b, 7, 1, a2, a0, sp" + END + '.data\nplace: .asciz "abcde"'
    dpu = finished(text)
    assert dpu.log == "abcde"
    assert dpu.statistics.slots == 1 + (100 + 5 * 20) + 1


def test_the_counter() -> None:
    """Cycles, then slots, in units of 16, of this tasklet alone."""
    form = ".insn r 0x0b, 6, 1, x0, {0}, {1}\n"
    text = (
        PLACE + "li t1, 1\nli t2, 2\n" + form.format("t1", "t1") + "nop\n" * 20
        + ".insn r 0x0b, 6, 0, a0, x0, x0\n" + form.format("t2", "t1") + "nop\n" * 40
        + ".insn r 0x0b, 6, 0, a1, x0, x0\nsw a0, 0(t0)\nsw a1, 4(t0)" + END + DATA
    )  # fmt: skip
    cycles, slots = struct.unpack("<2I", finished(text).read(8, 8))
    assert (cycles, slots) == (21 * 11 // 16, 41 // 16)


def test_constants_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INR_DPU_OCCUPANCY", "100,0")
    options = environment_options()
    dpu = Dpu(options)
    dpu.load(Program(build(setup(8) + READ * 10 + END, 16), options))
    assert dpu.run() is None
    assert dpu.statistics.cycles == 48 + 159 * 100 + 81 + 1
