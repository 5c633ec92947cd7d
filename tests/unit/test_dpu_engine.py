"""
What instructions do, held against qemu-riscv32 on random programs; when they issue, held against
an interpreter of its own and against closed forms.
"""

from __future__ import annotations

import heapq
import math
import random
import resource
import shutil
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.runtime.upmem_engine import IRAM_BASE, MRAM_BASE, Dpu, Program, default_options

DATA, STACKS, STACK = 0x1000, 0x4000, 256
REGISTER = {
    "add": (0, 0), "sub": (0x20, 0), "sll": (0, 1), "slt": (0, 2), "sltu": (0, 3), "xor": (0, 4),
    "srl": (0, 5), "sra": (0x20, 5), "or": (0, 6), "and": (0, 7), "mul": (1, 0), "mulh": (1, 1),
    "mulhsu": (1, 2), "mulhu": (1, 3), "div": (1, 4), "divu": (1, 5), "rem": (1, 6),
    "remu": (1, 7), "sh1add": (0x10, 2), "sh2add": (0x10, 4), "sh3add": (0x10, 6),
    "andn": (0x20, 7), "orn": (0x20, 6), "xnor": (0x20, 4), "min": (5, 4), "minu": (5, 5),
    "max": (5, 6), "maxu": (5, 7), "rol": (0x30, 1), "ror": (0x30, 5),
}  # fmt: skip
IMMEDIATE = {"addi": 0, "slti": 2, "sltiu": 3, "xori": 4, "ori": 6, "andi": 7}
SHIFT = {"slli": (0, 1), "srli": (0, 5), "srai": (0x20, 5), "rori": (0x30, 5)}
UNARY = {"clz": (0x600, 1), "ctz": (0x601, 1), "cpop": (0x602, 1), "sext.b": (0x604, 1),
         "sext.h": (0x605, 1), "orc.b": (0x287, 5), "rev8": (0x698, 5)}  # fmt: skip
LOAD = {"lb": 0, "lh": 1, "lw": 2, "lbu": 4, "lhu": 5}
STORE = {"sb": 0, "sh": 1, "sw": 2}
BRANCH = {"beq": 0, "bne": 1, "blt": 4, "bge": 5, "bltu": 6, "bgeu": 7}
CUSTOM = {"acquire": (2, 0), "release": (3, 0), "stop": (4, 0), "end": (4, 1), "resume": (5, 0)}


def word(name: str, *o: int) -> int:
    """An instruction's encoding; operands in the order of assembly, offsets in bytes."""
    if name in REGISTER:
        seven, three = REGISTER[name]
        return seven << 25 | o[2] << 20 | o[1] << 15 | three << 12 | o[0] << 7 | 0x33
    if name == "zext.h":
        return 4 << 25 | o[1] << 15 | 4 << 12 | o[0] << 7 | 0x33
    if name in IMMEDIATE:
        return (o[2] & 0xFFF) << 20 | o[1] << 15 | IMMEDIATE[name] << 12 | o[0] << 7 | 0x13
    if name in SHIFT:
        seven, three = SHIFT[name]
        return seven << 25 | o[2] << 20 | o[1] << 15 | three << 12 | o[0] << 7 | 0x13
    if name in UNARY:
        twelve, three = UNARY[name]
        return twelve << 20 | o[1] << 15 | three << 12 | o[0] << 7 | 0x13
    if name in LOAD:  # rd, base, offset
        return (o[2] & 0xFFF) << 20 | o[1] << 15 | LOAD[name] << 12 | o[0] << 7 | 0x03
    if name in STORE:  # source, base, offset
        high, low = (o[2] >> 5) & 0x7F, o[2] & 31
        return high << 25 | o[0] << 20 | o[1] << 15 | STORE[name] << 12 | low << 7 | 0x23
    if name in BRANCH:
        i = o[2]
        high = (i >> 12 & 1) << 31 | (i >> 5 & 0x3F) << 25
        return (
            high
            | o[1] << 20
            | o[0] << 15
            | BRANCH[name] << 12
            | ((i >> 1 & 0xF) << 8 | (i >> 11 & 1) << 7 | 0x63)
        )
    if name == "lui":
        return (o[1] & 0xFFFFF) << 12 | o[0] << 7 | 0x37
    if name == "auipc":
        return (o[1] & 0xFFFFF) << 12 | o[0] << 7 | 0x17
    if name == "tasklet":
        return 0xF14 << 20 | 2 << 12 | o[0] << 7 | 0x73
    if name in ("read", "write"):  # WRAM, MRAM, size
        return o[2] << 27 | o[1] << 20 | o[0] << 15 | (name == "write") << 12 | 0x0B
    three, seven = CUSTOM[name]
    return seven << 25 | (o[0] if o else 0) << 15 | three << 12 | 0x0B


def constant(register: int, value: int) -> list[int]:
    low = (value & 0xFFF) - (0x1000 if value & 0x800 else 0)
    high = (value - low) >> 12
    return [word("lui", register, high), word("addi", register, register, low)]


def elf(code: list[int], tasklets: int = 1, functions: dict[str, int] | None = None) -> bytes:
    """A program: text at the start of IRAM, symbols, nothing else."""
    text = struct.pack(f"<{len(code)}I", *code)
    constants = {"__nr_tasklets": tasklets, "__stacks_start": STACKS, "__stack_size": STACK,
                 "__heap_start": STACKS + 24 * STACK}  # fmt: skip
    names, symbols = b"\0", bytes(16)
    for name, value, section, kind in [
        *((n, v, 0xFFF1, 0x10) for n, v in constants.items()),
        *((n, IRAM_BASE + v, 1, 0x12) for n, v in (functions or {}).items()),
    ]:
        symbols += struct.pack("<IIIBBH", len(names), value, 0, kind, 0, section)
        names += name.encode() + b"\0"
    titles = b"\0.text\0.symtab\0.strtab\0"
    body, headers = b"", [bytes(40)]
    for title, kind, flags, address, data, link in [
        (1, 1, 6, IRAM_BASE, text, 0),
        (7, 2, 0, 0, symbols, 3),
        (15, 3, 0, 0, names, 0),
        (15, 3, 0, 0, titles, 0),
    ]:
        body += bytes(-len(body) % 4)
        headers.append(
            struct.pack(
                "<10I", title, kind, flags, address, 52 + len(body), len(data), link, 0, 4, 16
            )
        )
        body += data
    body += bytes(-len(body) % 4)
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    head = struct.pack(
        "<HHIIIIIHHHHHH", 2, 243, 1, IRAM_BASE, 0, 52 + len(body), 0, 52, 32, 0, 40, 5, 4
    )
    return ident + head + body + b"".join(headers)


def loaded(code: list[int], tasklets: int = 1, functions: dict[str, int] | None = None,
           **changes: object) -> Dpu:  # fmt: skip
    options = default_options(**changes)
    dpu = Dpu(options)
    dpu.load(Program(elf(code, tasklets, functions), options))
    return dpu


def finished(*arguments: object, **changes: object) -> Dpu:
    dpu = loaded(*arguments, **changes)  # type: ignore[arg-type]
    assert (fault := dpu.run()) is None, fault
    return dpu


# ---- instructions against qemu ---------------------------------------------------------------

CORNERS = [0, 1, 2, 3, 7, 31, 32, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF,
           0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFF8000, 0xFFFFFF80]  # fmt: skip
BASE = 31  # register that points at the data
FREE = [r for r in range(1, 31) if r != 2]
SCRATCH, DUMP, AREA = 128, 1024, 1152


def random_body(rng: random.Random, count: int) -> list[int]:
    code: list[int] = []
    sources = [0, *FREE]
    while len(code) < count:
        kind = rng.random()
        d, a, b = rng.choice(FREE), rng.choice(sources), rng.choice(sources)
        if kind < 0.45:
            name = rng.choice(list(REGISTER))
            if name in ("div", "divu", "rem", "remu"):  # division by zero faults on a DPU
                b = rng.choice(FREE)
                nop = word("addi", 0, 0, 0)  # no jump from before lands behind the guard
                code += [nop, nop, word("bne", b, 0, 8), word("addi", b, 0, rng.choice([1, -1, 7]))]
            code.append(word(name, rng.choice([0, d, d, d]), a, b))
        elif kind < 0.6:
            code.append(word(rng.choice(list(IMMEDIATE)), d, a, rng.randrange(-2048, 2048)))
        elif kind < 0.68:
            code.append(word(rng.choice(list(SHIFT)), d, a, rng.randrange(32)))
        elif kind < 0.75:
            code.append(word(rng.choice([*UNARY, "zext.h"]), d, a))
        elif kind < 0.78:
            code.append(word("lui", d, rng.randrange(1 << 20)))
        elif kind < 0.9:
            name = rng.choice([*LOAD, *STORE])
            size = 1 << ((LOAD | STORE)[name] & 3)
            offset = rng.randrange(SCRATCH, DUMP, size)
            code.append(word(name, d if name in LOAD else a, BASE, offset))
        else:
            code.append(word(rng.choice(list(BRANCH)), a, b, rng.choice([4, 8, 12])))
    return code + [word("addi", 0, 0, 0)] * 3


def qemu_run(body: list[int], data: bytes, folder: Path) -> bytes:
    """The data after the body ran in a Linux process."""
    base = 0x20000
    code = [*constant(BASE, base), *body]
    code += [*constant(11, base), word("addi", 10, 0, 1), word("addi", 12, 0, AREA)]
    code += [word("addi", 17, 0, 64), 0x73, word("addi", 10, 0, 0), word("addi", 17, 0, 93), 0x73]
    text = struct.pack(f"<{len(code)}I", *code)
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 243, 1, 0x10000 + 116, 52, 0, 0, 52, 32, 2, 0, 0, 0)
    both = 116 + len(text)
    header += struct.pack("<8I", 1, 0, 0x10000, 0x10000, both, both, 5, 0x1000)
    offset = -(-both // 0x1000) * 0x1000
    header += struct.pack("<8I", 1, offset, base, base, len(data), len(data), 6, 0x1000)
    path = folder / "program"
    path.write_bytes((header + text).ljust(offset, b"\0") + data)
    path.chmod(0o755)
    done = subprocess.run(
        ["qemu-riscv32", "-cpu", "rv32,zba=true,zbb=true", str(path)],
        capture_output=True,
        check=True,
    )
    return done.stdout


@pytest.mark.skipif(not shutil.which("qemu-riscv32"), reason="needs qemu-riscv32 (qemu-user)")
@pytest.mark.parametrize("seed", range(12))
def test_instructions_do_what_qemu_does(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    values = [
        rng.choice(CORNERS) if rng.random() < 0.6 else rng.getrandbits(32) for _ in range(288)
    ]
    data = struct.pack("<288I", *values)
    body = [word("lw", r, BASE, 4 * r) for r in FREE]
    body += random_body(rng, 3000)
    body += [word("sw", r, BASE, DUMP + 4 * r) for r in FREE]
    dpu = loaded([*constant(BASE, DATA), *body, word("end")])
    dpu.write(DATA, data)
    assert (fault := dpu.run()) is None, fault
    assert dpu.read(DATA, AREA) == qemu_run(body, data, tmp_path)


@pytest.mark.parametrize("name", ["div", "divu", "rem", "remu", "mulh", "mulhu", "mulhsu"])
def test_corners_of_products_and_quotients(name: str) -> None:
    def signed(v: int) -> int:
        return v - (1 << 32) if v >> 31 else v

    for a in CORNERS:
        for b in CORNERS:
            if name in ("div", "divu", "rem", "remu") and b == 0:
                continue
            left = a if name in ("divu", "remu", "mulhu") else signed(a)
            right = b if name in ("divu", "remu", "mulhu", "mulhsu") else signed(b)
            if name.startswith("mul"):
                expected = left * right >> 32
            else:
                quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
                expected = quotient if name.startswith("div") else left - quotient * right
            code = [*constant(5, a), *constant(6, b), word(name, 7, 5, 6), *constant(8, DATA)]
            dpu = finished([*code, word("sw", 7, 8, 0), word("end")])
            found = int.from_bytes(dpu.read(DATA, 4), "little")
            assert found == expected & 0xFFFFFFFF, (name, a, b)


def test_calls_and_addresses_of_code() -> None:
    jal = 12 << 20 | 1 << 7 | 0x6F  # jal ra, +12
    ret = 1 << 15 | 0x67
    code = [
        *constant(8, DATA),
        jal,  # to 5
        word("sw", 1, 8, 0),
        word("end"),
        word("auipc", 5, 1),
        word("sw", 5, 8, 4),
        ret,
    ]
    dpu = finished(code)
    assert struct.unpack("<2I", dpu.read(DATA, 8)) == (IRAM_BASE + 12, IRAM_BASE + 20 + 0x1000)


# ---- issue, against an interpreter of its own ------------------------------------------------


def bits(value: int) -> int:
    return value.bit_length()


class Model:
    """Tasklets that issue when the page says, one heap entry a tasklet."""

    def __init__(self, code: list[tuple[str, ...]], tasklets: int) -> None:
        self.code, self.memory, self.mram = code, bytearray(b"\xa5" * 65536), bytearray(1 << 16)
        self.x = [[0] * 32 for _ in range(tasklets)]
        self.width = [[1] + [4] * 31 for _ in range(tasklets)]
        self.pc, self.debt = [0] * tasklets, [0] * tasklets
        self.locks: set[int] = set()
        self.cycle = self.slots = 0
        self.free = 0.0

    def run(self) -> None:
        heap = [(0, 0, t, t) for t in range(len(self.pc))]
        order = len(heap)
        while heap:
            ready, _, _, t = heapq.heappop(heap)
            self.cycle = max(self.cycle, ready)
            if self.debt[t]:
                self.debt[t] -= 1
                again, late = self.cycle + 11, 0
            else:
                again, late = self.step(t)
            self.cycle += 1
            self.slots += 1
            order += 1
            if again is not None:
                heapq.heappush(heap, (again, late, order, t))

    def step(self, t: int) -> tuple[int | None, int]:
        x, width = self.x[t], self.width[t]
        while True:
            name, *o = self.code[self.pc[t]]
            self.pc[t] += 1
            cost, d, value, size = 1, 0, 0, 4
            if name == "li":
                d, value, size = o[0], o[1], 1 if -128 <= o[1] < 256 else 2
            elif name == "tasklet":
                d, value, size, cost = o[0], t, 1, 0
            elif name == "lui":
                d, value, cost = o[0], o[1] << 12, 0
            elif name == "add":
                d, value = o[0], x[o[1]] + x[o[2]]
                size = 2 if width[o[1]] == width[o[2]] == 1 else 4
            elif name == "addi":
                d, value = o[0], x[o[1]] + o[2]
            elif name == "slli":
                d, value = o[0], x[o[1]] << o[2]
            elif name == "mul":
                d, a, b = o[0], x[o[1]], x[o[2]]
                value = a * b
                wide = sorted([width[o[1]], width[o[2]]])
                size = 2 if wide == [1, 1] else 4
                narrow = {(1, 1): 1, (1, 2): 3, (2, 2): 7}
                cost = narrow.get((wide[0], wide[1]), 7 + bits(min(a, b)))
            elif name == "divu":
                d, a, b = o[0], x[o[1]], x[o[2]]
                value, cost = a // b, 7 + max(0, bits(a) - bits(b) + 1 if bits(a) >= bits(b) else 0)
            elif name == "lw":
                at = (x[o[1]] + o[2]) & 0xFFFFFFFF
                d, value = o[0], int.from_bytes(self.memory[at : at + 4], "little")
            elif name == "lbu":
                at = (x[o[1]] + o[2]) & 0xFFFFFFFF
                d, value, size = o[0], self.memory[at], 1
            elif name == "sw":
                at = (x[o[1]] + o[2]) & 0xFFFFFFFF
                self.memory[at : at + 4] = x[o[0]].to_bytes(4, "little")
            elif name == "bne":
                if x[o[0]] != x[o[1]]:
                    self.pc[t] += o[2] // 4 - 1
            elif name in ("read", "write"):
                at, far, n = x[o[0]], x[o[1]], x[o[2]]
                if name == "read":
                    self.memory[at : at + n] = self.mram[far : far + n]
                else:
                    self.mram[far : far + n] = self.memory[at : at + n]
                start = max(float(self.cycle), self.free)
                self.free = start + (34.3 + 0.536 * n)
                end = start + ((77 if name == "read" else 61) + 0.5 * n)
                return max(math.ceil(end), self.cycle + 11), 1
            elif name == "acquire":
                if x[o[0]] in self.locks:
                    self.pc[t] -= 1
                else:
                    self.locks.add(x[o[0]])
            elif name == "release":
                self.locks.discard(x[o[0]])
            else:
                assert name == "end"
                return None, 0
            if d:
                x[d], width[d] = value & 0xFFFFFFFF, size
            if cost:
                self.debt[t] = cost - 1
                return self.cycle + 11, 0


def encode(code: list[tuple[str, ...]]) -> list[int]:
    return [
        word("addi", o[0], 0, o[1]) if name == "li" else word(name, *o)  # type: ignore[arg-type]
        for name, *o in code
    ]


@st.composite
def kernels(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Loops over private and shared memory; how often a tasklet goes round depends on it."""
    work = st.sampled_from(range(10, 18))
    code: list[tuple] = [
        ("tasklet", 5), ("li", 20, 1), ("li", 21, 8 * draw(st.integers(1, 32))), ("lui", 22, 1),
        ("slli", 6, 5, 8), ("add", 6, 6, 22), ("lui", 23, 9), ("slli", 7, 5, 8),
    ]  # fmt: skip
    code += [("li", r, draw(st.integers(0, 2047))) for r in range(10, 18)]
    loops = draw(st.integers(1, 3))
    for _ in range(loops):
        code += [("addi", 8, 5, draw(st.integers(1, 5)))]
        head = len(code)
        for _ in range(draw(st.integers(1, 8))):
            kind = draw(st.sampled_from(["add", "mul", "divu", "lw", "lbu", "sw", "dma", "lock"]))
            d, a, b = draw(work), draw(work), draw(work)
            if kind == "divu":
                code += [("addi", 9, 0, draw(st.integers(1, 2000))), ("divu", d, a, 9)]
            elif kind in ("add", "mul"):
                code += [(kind, d, a, b)]
            elif kind == "dma":
                code += [(draw(st.sampled_from(["read", "write"])), 6, 7, 21)]
            elif kind == "lock":
                code += [("acquire", 20), ("lw", 18, 23, 0), ("add", 18, 18, a), ("sw", 18, 23, 0),
                         ("release", 20)]  # fmt: skip
            else:
                code += [(kind, d, 6, 4 * draw(st.integers(0, 63)))]
        code += [("addi", 8, 8, -1), ("bne", 8, 0, 4 * (head - len(code) - 1))]
    return [*code, ("end",)]


@settings(deadline=None, max_examples=60)
@given(kernels(), st.sampled_from([1, 2, 7, 11, 12, 16, 24]), st.integers(0, 999))
def test_issue_is_that_of_the_model(code: list[tuple[str, ...]], tasklets: int, seed: int) -> None:
    model = Model(code, tasklets)
    model.mram[:] = random.Random(seed).randbytes(len(model.mram))
    dpu = loaded(encode(code), tasklets, peepholes=False, dma_steal=0)
    dpu.write(MRAM_BASE, bytes(model.mram))
    assert (fault := dpu.run()) is None, fault
    model.run()
    assert dpu.read(8, STACKS - 8) == bytes(model.memory[8:STACKS])
    assert dpu.read(0x9000, 8) == bytes(model.memory[0x9000:0x9008])
    assert dpu.read(MRAM_BASE, len(model.mram)) == bytes(model.mram)
    counts = dpu.statistics
    assert (counts.cycles, counts.slots) == (model.cycle, model.slots)
    assert counts.cycles == counts.slots + counts.idle + counts.stolen


# ---- many DPUs -------------------------------------------------------------------------------

COUNTING = [
    word("tasklet", 5),
    *constant(6, DATA),
    word("sh2add", 6, 5, 6),
    word("lw", 7, 6, 0),
    *constant(8, 300),
    word("mul", 7, 7, 8),
    word("addi", 8, 8, -1),
    word("bne", 8, 0, -8),
    word("sw", 7, 6, 0),
    word("end"),
]


def test_dpus_that_share_a_program_run_on_any_threads() -> None:
    options = default_options(check_races=True)
    program = Program(elf(COUNTING, 12), options)
    dpus = [Dpu(options, number) for number in range(40)]
    for number, dpu in enumerate(dpus):
        dpu.load(program)
        dpu.write(DATA, struct.pack("<12I", *range(2 * number + 1, 2 * number + 13)))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(Dpu.run, dpus)) == [None] * 40
    for number, dpu in enumerate(dpus):
        alone = loaded(COUNTING, 12)
        alone.write(DATA, struct.pack("<12I", *range(2 * number + 1, 2 * number + 13)))
        assert alone.run() is None
        assert alone.read(DATA, 48) == dpu.read(DATA, 48)
        assert alone.statistics.cycles == dpu.statistics.cycles


def test_memory_is_taken_when_it_is_written() -> None:
    """512 DPUs have 32 GB of MRAM; what they take is their WRAM and the pages written."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    options = default_options()
    dpus = [Dpu(options, number) for number in range(512)]
    for dpu in dpus:
        dpu.write(MRAM_BASE + (50 << 20), b"written!")
        assert dpu.read(MRAM_BASE + (50 << 20), 9) == b"written!\xa5"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # KB
    assert dpus[0].read(MRAM_BASE + (1 << 20), 8) == b"\xa5" * 8
