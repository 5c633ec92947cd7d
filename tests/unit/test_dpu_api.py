"""The SDK's interfaces, on the device and on the host, against programs in `dpu/`."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from inr.runtime.upmem_build import ENGINE, HOST, DeviceOptions, device_program, host_program

HERE = Path(__file__).with_name("dpu")


@cache
def host(name: str) -> Path:
    return host_program([HERE / name], flags=("-std=gnu11", "-Wall", "-Wextra", "-Werror"))


@cache
def device(name: str, tasklets: int = 4, *flags: str, target: str = "v1A") -> Path:
    options = DeviceOptions(tasklets=tasklets, flags=("-Wall", "-Wextra", *flags), target=target)
    return device_program([HERE / name], options, warn=False)


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("INR_DPU_")}
    return subprocess.run(
        [str(part) for part in command],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


DEVICE_TESTS = [
    ("allocators.c", 1),
    ("allocators.c", 12),
    ("synchronisation.c", 4),
    ("synchronisation.c", 12),
    ("synchronisation.c", 24),
    ("unaligned.c", 1),
    ("unaligned.c", 11),
    ("library.c", 2),
    *[("sequential.c", 2, f"-DSEQREAD_CACHE_SIZE={2**k}") for k in range(5, 11)],
    ("sequential.c", 9),
]


@pytest.mark.parametrize("program", DEVICE_TESTS, ids=lambda p: "-".join(map(str, p)))
def test_device(program: tuple[str, int]) -> None:
    """Each passes its own checks in two launches on end, in three orders of the tasklets."""
    name, tasklets, *flags = program
    binary = device(name, tasklets, *flags)
    for seed in ("0", "1", "77"):
        if name == "synchronisation.c" and seed != "0":
            continue  # it measures who comes first by waiting
        done = run(host("check_host.c"), binary, 2, INR_DPU_SEED=seed)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", DEVICE_TESTS, ids=lambda p: "-".join(map(str, p)))
def test_device_under_checks(program: tuple[str, int]) -> None:
    """The runtime orders what it shares between tasklets and reads nothing unwritten."""
    name, tasklets, *flags = program
    binary = device(name, tasklets, *flags)
    done = run(host("check_host.c"), binary, 2, INR_DPU_CHECK="all")
    assert done.returncode == 0, done.stderr


def test_log() -> None:
    """printf's conversions, whatever registers and stack their arguments are in."""
    done = run(host("check_host.c"), device("library.c", 1))
    text = (
        "=== DPU#{}0 ===\n"
        "[-7|   42|be  |q|text|-123456789012345|18446744073709551615|2.500|%|0x1234]\n"
        "1 -2 3 4 5 6 7 8 9\n"
        "line\nc\n"
    )
    assert done.stdout == text.replace("{}0", "0x0") + text.replace("{}0", "0x1")


def test_memories(tmp_path: Path) -> None:
    """Symbols, transfers, launches, and the errors of a host that uses them wrongly."""
    (tmp_path / "text").write_text("no program")
    done = run(
        host("memories_host.c"),
        device("memories.c"),
        device("memories.c", 3),
        tmp_path / "text",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "=== DPU#0x0 ===\n77\n"
    assert "bytes 8000 to 8200 of a symbol of 8192 bytes" in done.stderr
    assert "halt" in done.stderr
    assert "memories.c" in done.stderr


def test_sets() -> None:
    done = run(
        host("sets_host.c"), device("memories.c"), INR_DPU_RANKS="4", INR_DPU_FAULTY="3,70-71"
    )
    assert done.returncode == 0, done.stderr


def test_whole_machine() -> None:
    done = run(host("whole_machine_host.c"), device("memories.c"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize("mode", ["threads", "defer"])
def test_asynchronous(mode: str, threads: str) -> None:
    deferred = ["deferred"] if mode == "defer" else []
    done = run(
        host("asynchronous_host.c"),
        device("memories.c"),
        *deferred,
        INR_DPU_ASYNC=mode,
        INR_DPU_THREADS=threads,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_library_under_sanitizers(sanitizer: str) -> None:
    """The queues and the engine with the checks of the C compiler."""
    sources = [HERE / "asynchronous_host.c", *sorted((HOST / "src").glob("*.c"))]
    program = host_program(
        [*sources, *sorted(ENGINE.glob("*.c"))],
        flags=("-O1", "-g", "-std=gnu11", "-pthread", f"-fsanitize={sanitizer}"),
    )
    done = run(program, device("memories.c"), INR_DPU_THREADS="4", ASAN_OPTIONS="detect_leaks=0")
    assert done.returncode == 0, done.stderr


def test_implicit_sync() -> None:
    """The SDK lets a synchronous function wait for a launch; on demand so does the emulator."""
    done = run(host("asynchronous_host.c"), device("memories.c"), INR_DPU_IMPLICIT_SYNC="1")
    assert done.returncode == 2
    assert "gave 0 (success), not DPU_ERR_MRAM_BUSY" in done.stderr


def test_scatter_gather() -> None:
    done = run(host("scatter_host.c"), device("memories.c"))
    assert done.returncode == 0, done.stderr


def test_too_many_tasklets() -> None:
    """24 tasklets are a v1A's; the v1B has 16, and says so when the program is loaded."""
    binary = device("unaligned.c", 17)
    assert run(host("check_host.c"), binary).returncode == 0
    done = run(host("check_host.c"), binary, INR_DPU_TARGET="v1B")
    assert done.returncode == 1
    assert "program has too many tasklets" in done.stderr
    assert "17" in done.stderr
    assert "16" in done.stderr
