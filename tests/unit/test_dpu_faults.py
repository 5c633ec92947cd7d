"""
Mistakes in device programs and the rules that catch them, each by name and at its line.

A case is one program with `@wrong|right@` in it: the wrong reading must fault at the line marked
HERE, the right one must run to its end under the same checks.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from inr.errors import CompileError
from inr.runtime.upmem_build import DeviceOptions, device_program, host_program

HEADERS = "".join(
    f"#include <{name}.h>\n"
    for name in (
        "alloc assert barrier defs errno handshake mram mram_unaligned mutex sem stdint stdio"
    ).split()
)
PRELUDE = f"""{HEADERS}
__mram_noinit uint64_t data[1024];
__host uint32_t result;
__dma_aligned static uint8_t buffer[2048];
static uint8_t *volatile anywhere = buffer;
static volatile uint32_t number = 4;
BARRIER_INIT(barrier, NR_TASKLETS);
MUTEX_INIT(mutex);
MUTEX_INIT(other_mutex);
"""


@dataclass(frozen=True)
class Case:
    rule: str
    code: str
    tasklets: int = 1
    check: str = ""
    stack: int = 1024
    environment: tuple[tuple[str, str], ...] = ()


def body(text: str) -> str:
    return "int main(void) {\n" + text + "\nreturn 0;\n}\n"


CASES = {
    "store past the end of WRAM": Case(
        "wram-bounds", body("*(volatile uint32_t *)@65536|65532@ = 1; // HERE")
    ),
    "load of an address that is nowhere": Case(
        "wram-bounds", body("result = *(volatile uint8_t *)(@1000000|60000@ + number); // HERE")
    ),
    "null pointer": Case(
        "wram-null",
        body("uint32_t *volatile p = @NULL|&result@;\n*p = 1; // HERE"),
    ),
    "direct access past MRAM": Case(
        "mram-bounds",
        body("*(volatile __mram_ptr uint32_t *)(@0x0C000000|0x0BFFFFF8@) = 1; // HERE"),
    ),
    "misaligned load": Case(
        "alignment", body("result = *(volatile uint32_t *)(anywhere + @2|4@); // HERE")
    ),
    "misaligned store": Case(
        "alignment", body("*(volatile uint16_t *)(anywhere + @3|2@) = 7; // HERE")
    ),
    "misaligned direct access": Case(
        "alignment",
        body("((volatile __mram_ptr uint32_t *)((uint32_t)data + @2|4@))[0] = 7; // HERE"),
    ),
    "transfer of no bytes": Case(
        "dma-size", body("mram_read(data, anywhere, number * @0|2@); // HERE")
    ),
    "transfer of more than 2,048 bytes": Case(
        "dma-size", body("mram_read(data, anywhere, number * @514|512@); // HERE")
    ),
    "transfer of no whole words": Case(
        "dma-size", body("mram_write(anywhere, data, number * @3|4@); // HERE")
    ),
    "transfer to a misaligned WRAM address": Case(
        "dma-alignment", body("mram_read(data, anywhere + @4|8@, 64); // HERE")
    ),
    "transfer from a misaligned MRAM address": Case(
        "dma-alignment",
        body("mram_read((__mram_ptr uint8_t *)data + number * @3|4@, anywhere, 64); // HERE"),
    ),
    "transfer past the end of MRAM": Case(
        "dma-range",
        body("mram_write(anywhere, (__mram_ptr void *)(@0x0BFFFFF8|0x0BFFFFF0@), 16); // HERE"),
    ),
    "transfer past the end of WRAM": Case(
        "dma-range", body("mram_read(data, (void *)(65536 - @8|16@), 16); // HERE")
    ),
    "stack overflow by an array": Case(
        "stack-overflow",
        "__attribute__((noinline)) uint32_t f(uint32_t n) { // HERE\n"
        "volatile uint8_t big[@1500|500@]; big[n] = 1; return big[n]; }\n"
        + body("result = f(number);"),
        tasklets=3,
    ),
    "stack overflow by recursion": Case(
        "stack-overflow",
        "__attribute__((noinline)) uint32_t f(uint32_t n) { "
        "return n ? f(n - 1) * 3 + number : 1; } // HERE\n" + body("result = f(number * @50|2@);"),
        tasklets=2,
    ),
    "heap full": Case(
        "heap-full",
        body("mem_reset();\nfor (uint32_t i = 0; i < @70|30@; i++)\nmem_alloc(1000); // HERE"),
    ),
    "blocks that do not fit": Case("heap-full", body("fsb_alloc(1024, number * @20|5@); // HERE")),
    "division by zero": Case("divide-by-zero", body("result = 7 / (number - @4|3@); // HERE")),
    "remainder by zero": Case(
        "divide-by-zero", body("result = (int)number % (int)(number - @4|3@); // HERE")
    ),
    "failed assertion": Case("assert", body("assert(number == @5|4@); // HERE")),
    "halt": Case("halt", body("if (number == @4|5@) halt(); // HERE")),
    "printf past its log": Case(
        "log-overflow",
        "STDOUT_BUFFER_INIT(512)\n"
        + body('for (int i = 0; i < @100|20@; i++)\nprintf("%d, some text\\n", i); // HERE'),
    ),
    "unaligned write with unequal offsets": Case(
        "runtime-alignment",
        body("mram_write_unaligned(buffer + 3, (__mram_ptr uint8_t *)data + @4|11@, 9); // HERE"),
    ),
    "mutex that is no atomic bit": Case(
        "atomic-bit", body("mutex_lock((mutex_id_t)(number + @400|240@)); // HERE")
    ),
    "no instruction": Case(
        "illegal-instruction", body('__asm__ volatile("@.word 0|nop@"); // HERE')
    ),
    "jump into data": Case(
        "iram-fetch",
        "void nothing(void) {}\n"
        + body("void (*volatile f)(void) = @(void (*)(void))0x100|nothing@;\nf();"),
    ),
    "barrier for more tasklets than there are": Case(
        "deadlock",
        "BARRIER_INIT(large, NR_TASKLETS + @1|0@);\n" + body("barrier_wait(&large); // HERE"),
        tasklets=3,
    ),
    "barrier that one tasklet leaves out": Case(
        "deadlock",
        body("if (me() != @2|9@)\nbarrier_wait(&barrier); // HERE"),
        tasklets=4,
    ),
    "semaphore that nobody gives": Case(
        "deadlock",
        "SEMAPHORE_INIT(sem, @0|1@);\n" + body("sem_take(&sem); // HERE"),
    ),
    "notify that nobody waits for": Case(
        "deadlock",
        body("if (me() == 0) handshake_notify(); // HERE\nelse handshake_wait_for(@2|0@);"),
        tasklets=2,
    ),
    "mutexes in opposite orders": Case(
        "deadlock",
        body(
            "mutex_lock(me() @|& 0@ ? mutex : other_mutex);\n"
            "for (volatile int i = 0; i < 20; i++) {}\n"
            "mutex_lock(me() @|& 0@ ? other_mutex : mutex); // HERE\n"
            "mutex_unlock(mutex); mutex_unlock(other_mutex);"
        ),
        tasklets=2,
    ),
    "loop without end": Case(
        "cycle-limit",
        body("while (number @!= 0|== 0@) {} // HERE"),
        environment=(("INR_DPU_MAX_CYCLES", "50000"),),
    ),
    "counter without a mutex": Case(
        "race",
        body("@|mutex_lock(mutex);@\nresult += me(); // HERE\n@|mutex_unlock(mutex);@"),
        tasklets=4,
        check="races",
    ),
    "counter under two mutexes": Case(
        "race",
        body(
            "mutex_id_t mine = me() @& 1|& 0@ ? mutex : other_mutex;\n"
            "mutex_lock(mine);\nresult += me(); // HERE\nmutex_unlock(mine);"
        ),
        tasklets=4,
        check="races",
    ),
    "missing barrier": Case(
        "race",
        "uint32_t parts[NR_TASKLETS];\n"
        + body(
            "parts[me()] = me();\n@|barrier_wait(&barrier);@\n"
            "uint32_t sum = 0;\nif (me() == 0)\n"
            "for (int i = 0; i < NR_TASKLETS; i++)\n"
            "sum += parts[i];\n"
            "result = sum;"
        ).replace("result = sum;", "if (me() == 0) result = sum;"),
        tasklets=4,
        check="races",
    ),
    "one buffer for all tasklets": Case(
        "race",
        "__dma_aligned uint8_t mine[NR_TASKLETS][64];\n"
        + body("mram_read(&data[8 * me()], mine[@0|me()@], 64); // HERE"),
        tasklets=3,
        check="races",
    ),
    "heap reset while others allocate": Case(
        "race",
        body("if (me() == 0) mem_reset();\n@|barrier_wait(&barrier);@\nmem_alloc(16); // HERE"),
        tasklets=4,
        check="races",
    ),
    "two tasklets in one word of MRAM": Case(
        "mram-race",
        "__mram_noinit uint32_t out[64];\n" + body("out[me() * @1|2@] = me(); // HERE"),
        tasklets=4,
        check="races",
    ),
    "two tasklets write the same block": Case(
        "mram-race",
        body("mram_write(buffer, &data[8 * (me() @/ 2|@)], 64); // HERE"),
        tasklets=4,
        check="races",
    ),
    "read of what another tasklet writes": Case(
        "mram-race",
        "__dma_aligned uint8_t mine[NR_TASKLETS][64];\n"
        + body(
            "mram_write(buffer, &data[8 * me()], 64);\n@|barrier_wait(&barrier);@\n"
            "mram_read(&data[8 * (NR_TASKLETS - 1 - me())], mine[me()], 64); // HERE"
        ),
        tasklets=4,
        check="mram-reads",
    ),
    "heap that nobody wrote": Case(
        "uninitialised-wram",
        body(
            "mem_reset();\nuint32_t *p = mem_alloc(16);\n"
            "for (uint32_t i = 0; i < @3|4@; i++) p[i] = i;\n"
            "result = p[number - 1]; // HERE"
        ),
        check="uninitialised",
    ),
    "local that nobody wrote": Case(
        "uninitialised-wram",
        body(
            "volatile uint32_t local[4];\n"
            "for (uint32_t i = 0; i < @3|4@; i++) local[i] = i;\n"
            "result = local[number - 1]; // HERE"
        ),
        check="uninitialised",
    ),
    "MRAM that nobody wrote": Case(
        "uninitialised-mram",
        body(
            "for (uint32_t i = 0; i < @7|8@; i++) data[i] = i;\n"
            "mram_read(data, buffer, 64);\n"
            "result = buffer[56 + number % 2]; // HERE"
        ),
        check="uninitialised",
    ),
    "buffer in flight": Case(
        "dma-window",
        body(
            "if (me() == 0) mram_read(data, buffer, 2048);\n"
            "@|barrier_wait(&barrier);@\n"
            "if (me() == 1) for (volatile int i = 0; i < 5; i++) {}\n"
            "if (me() == 1) result = anywhere[2000]; // HERE"
        ),
        tasklets=2,
        check="dma-window",
    ),
}


def reading(code: str, wrong: bool) -> str:
    return re.sub(r"@([^@|]*)\|([^@]*)@", r"\1" if wrong else r"\2", code)


def build(case: Case, wrong: bool) -> tuple[Path, int | None]:
    text = PRELUDE + reading(case.code, wrong)
    lines = [i for i, line in enumerate(text.splitlines(), 1) if "HERE" in line]
    options = DeviceOptions(tasklets=case.tasklets, stack=case.stack)
    return device_program({"kernel.c": text}, options, warn=False), lines[0] if lines else None


@cache
def host() -> Path:
    return host_program([Path(__file__).with_name("dpu") / "fault_host.c"])


def run(binary: Path, case: Case, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("INR_DPU_")}
    environment |= dict(case.environment) | {"INR_DPU_CHECK": case.check} | more
    return subprocess.run(
        [host(), binary], env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("name", CASES)
def test_mistake_is_caught(name: str) -> None:
    case = CASES[name]
    binary, line = build(case, wrong=True)
    done = run(binary, case)
    assert done.returncode == 3, done.stderr
    assert f" {case.rule}: " in done.stderr
    if line is not None:
        assert f"kernel.c:{line}" in done.stderr


@pytest.mark.parametrize("name", CASES)
def test_correct_program_is_not(name: str) -> None:
    """The program without the mistake runs through, also with all checks on and in any order."""
    case = CASES[name]
    binary, _ = build(case, wrong=False)
    for seed in ("0", "5"):
        done = run(binary, case, INR_DPU_SEED=seed)
        assert done.returncode == 0, done.stderr


def test_masking_as_the_hardware() -> None:
    """A misaligned transfer does not fault with the mask: the low bits are dropped."""
    case = CASES["transfer to a misaligned WRAM address"]
    binary, _ = build(case, wrong=True)
    assert run(binary, case, INR_DPU_MASK="1").returncode == 0


def test_wram_overflow() -> None:
    """What cannot fit is refused when it is built, with its parts."""
    text = "static char big[60000];\nint main(void) { return *(volatile char *)big; }\n"
    device_program({"kernel.c": text}, DeviceOptions(tasklets=4))
    with pytest.raises(CompileError, match=r"wram-overflow: .*zeroed data 600.*4 stacks of "):
        device_program({"kernel.c": text}, DeviceOptions(tasklets=4, target="v1B"))
    with pytest.raises(CompileError, match=r"wram-overflow: .*16 stacks of together 16384 bytes"):
        device_program({"kernel.c": text}, DeviceOptions(tasklets=16))
    device_program({"kernel.c": text}, DeviceOptions(tasklets=16, stack=128))


@pytest.mark.parametrize(("instructions", "status"), [(4000, 0), (4200, 4)])
def test_iram_overflow(instructions: int, status: int) -> None:
    case = Case(
        "iram-overflow",
        body(f'__asm__ volatile(".rept {instructions}\\nadd x0, x0, x0\\n.endr");'),
    )
    binary, _ = build(case, wrong=True)
    done = run(binary, case)
    assert done.returncode == status
    assert ("iram-overflow" in done.stderr) == (status == 4)


def test_faults_of_several_tasklets() -> None:
    """A deadlock says of each tasklet where it sleeps."""
    case = CASES["barrier that one tasklet leaves out"]
    binary, line = build(case, wrong=True)
    done = run(binary, case)
    assert done.stderr.count(f"kernel.c:{line}") >= 3


@pytest.mark.parametrize(("lines", "warned"), [(2, True), (3, False)])
def test_results_that_nobody_wrote(lines: int, warned: bool) -> None:
    """What the host reads and nobody wrote is a warning: it may be a transfer's padding."""
    text = (
        "#include <mram.h>\n__mram_noinit uint64_t out[4];\n"
        f"int main(void) {{ for (int i = 0; i <= {lines}; i++) out[i] = i; return 0; }}\n"
    )
    reader = (
        "#include <dpu.h>\nint main(int n, char **a) { struct dpu_set_t set; uint64_t out[4];\n"
        "DPU_ASSERT(dpu_alloc(n - 1, NULL, &set)); DPU_ASSERT(dpu_load(set, a[1], NULL));\n"
        "DPU_ASSERT(dpu_launch(set, DPU_SYNCHRONOUS));\n"
        'DPU_ASSERT(dpu_copy_from(set, "out", 0, out, 32)); return out[2] != 2; }\n'
    )
    environment = dict(os.environ) | {"INR_DPU_CHECK": "uninitialised"}
    done = subprocess.run(
        [host_program({"reader.c": reader}), device_program({"kernel.c": text})],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    message = (
        "warning: uninitialised: a transfer from DPU 0 of 32 bytes at 0x08000000, of which byte 24"
    )
    assert (message in done.stderr) == warned, done.stderr
