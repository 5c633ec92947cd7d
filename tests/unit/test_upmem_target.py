"""Target files: what they must say, and the transfer curves of the published server."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from inr.analysis.upmem_target import find_target, parse_target, upmem_targets
from inr.errors import CompileError

V1A = (files("inr") / "targets" / "upmem-v1A.toml").read_text()


def test_every_target_file_can_be_read() -> None:
    assert set(upmem_targets()) == {"v1A", "v1B", "pim-dl", "custom"}
    for name in upmem_targets():
        target = find_target(name)
        assert target.name == name
        assert set(target.curves) == {"index", "table", "output"}


def test_generations_differ_as_documented() -> None:
    a, b = find_target("v1A"), find_target("v1B")
    assert (a.wram, a.iram, a.tasklets, a.clock_mhz) == (65536, 4096, 24, 350)
    assert (b.wram, b.iram, b.tasklets, b.clock_mhz) == (63488, 3968, 16, 400)
    assert a.mram == b.mram == 64 << 20


@pytest.mark.parametrize(
    ("what", "mib", "seconds"),
    [
        # Each side of the steps of the published fits, and sizes inside.
        ("index", 96, 0.0207961),
        ("index", 128, 0.0207961),
        ("index", 129, 0.0166 + 5e-5 * 129),
        ("index", 8192, 0.1266 + 3e-5 * 8192),
        ("table", 256, 0.0037 + 1e-4 * 256),
        ("table", 864, 0.0152 + 7e-5 * 864),
        ("output", 288, 288 / 4678.73),
        ("output", 1, 1 / (4360.88 + 48.859)),
    ],
)
def test_published_curves(what: str, mib: float, seconds: float) -> None:
    assert find_target("pim-dl").transfer(what, mib, 16) == pytest.approx(seconds, rel=1e-9)


def test_one_rank_bounds_the_rate() -> None:
    target = find_target("v1A")
    assert target.transfer("index", 637.05, 1) == pytest.approx(0.1)
    assert target.transfer("index", 637.05, 40) < 0.04


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clock_mhz = 350\n", "", "no entry 'clock_mhz'"),
        ("request = 34.3\n", "", "no entry 'dma.request'"),
        ("wram = 65536", "wram = 0", "wram = 0; a whole number above 0"),
        ("wram = 65536", "wram = 1.5", "a whole number"),
        ("wram = 65536", 'wram = "64K"', "a number is needed"),
        ("per_byte = 0.536", "per_byte = inf", "a finite number"),
        ("seconds = 5e-5, seconds_per_mib = 5e-5", "seconds = 5e-5", "no 'seconds_per_mib'"),
        (
            "seconds = 5e-5, seconds_per_mib = 5e-5",
            "seconds = 0, seconds_per_mib = 0",
            "a piece that costs nothing",
        ),
        ("{ seconds = 5e-5, seconds_per_mib = 5e-5 }", "", "needs `rate`, or `pieces`"),
        ("clock_mhz = 350", "clock_mhz = ", "target 'mine'"),
    ],
)
def test_what_is_missing_or_no_cost_is_named(old: str, new: str, message: str) -> None:
    assert old in V1A
    with pytest.raises(CompileError, match=message):
        parse_target("mine", V1A.replace(old, new))


def test_a_kind_of_transfer_that_is_missing_is_an_error() -> None:
    cut = V1A[: V1A.index("[transfer.output]")] + V1A[V1A.index("[host]") :]
    target = parse_target("mine", cut)
    with pytest.raises(CompileError, match="no cost of a transfer of kind 'output'"):
        target.transfer("output", 1, 1)


def test_targets_by_path(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(V1A.replace("ranks = 40", "ranks = 3"))
    assert find_target(str(path)).dpus == 192
    with pytest.raises(CompileError, match=r"unknown UPMEM target 'v9'; known: .*pim-dl"):
        find_target("v9")
    with pytest.raises(CompileError, match="No such file"):
        find_target(str(tmp_path / "none.toml"))
