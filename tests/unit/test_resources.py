"""The resource model against the numbers of public synthesis reports."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from inr.analysis.dsp import dsp_of_product
from inr.analysis.memories import (
    array_resources,
    bram18,
    fifo_printed,
    fifo_resources,
    network_fifo_resources,
    uram,
)
from inr.analysis.network import Fifo
from inr.analysis.operators import FLOAT_CYCLES, Operator
from inr.analysis.resources import buffer_resources, operator_resources, product_resources
from inr.analysis.schedules import Buffer
from inr.analysis.storage import fifo_storage
from inr.analysis.targets import Resources, find_part, fpga_parts
from inr.errors import CompileError

DATA = Path(__file__).parents[1] / "data"

U50 = find_part("xcu50")

ONE_MORE = 26912
"""Words of the one shape of 109 whose ping-pong buffer the tool reports with one block more than
the rule for all others gives: twice the rounded 52.56 instead of the rounded 105.1."""


def rows(name: str) -> Iterator[dict[str, str]]:
    with (DATA / f"{name}.csv").open() as file:
        yield from csv.DictReader(file)


def reported(row: dict[str, str], bram: str = "bram18") -> Resources:
    uram = row.get("uram", "0")
    return Resources(
        int(row["lut"]),
        int(row["ff"]),
        int(row[bram]),
        0 if uram == "-" else int(uram),
        int(row.get("dsp", 0)),
    )


def test_every_reported_array_is_one_or_two_of_the_rule():
    seen = 0
    for row in rows("vitis_memories"):
        words, bits = int(row["words"]), int(row["bits"])
        # The tool picks UltraRAM for some arrays and not for others of the same shape.
        storage = "uram" if row["uram"] != "0" else None
        if "BRAM" in row["kind"]:
            storage = "bram"
        single, double = (array_resources(words, bits, p, storage) for p in (False, True))
        if words == ONE_MORE:
            double += Resources(bram18=1)
        assert reported(row) in (single, double), row
        seen += int(row["instances"])
    assert seen == 13099


@pytest.mark.parametrize(
    ("words", "bits", "blocks"),
    [
        (512, 36, 1),
        (512, 37, 2),
        (513, 18, 1),
        (1024, 27, 2),
        (1025, 9, 1),
        (2048, 27, 3),
        (2049, 4, 1),
        (4096, 27, 7),
        (4097, 2, 1),
        (8192, 27, 14),
        (8193, 32, 16),
        (16384, 1, 1),
        (12544, 32, 25),
    ],
)
def test_block_rams_of_an_array(words: int, bits: int, blocks: int):
    assert bram18(words, bits) == blocks


def test_two_arrays_are_rounded_together():
    assert bram18(1024, 27, pingpong=True) == 2 * bram18(1024, 27)
    assert (bram18(39600, 32), bram18(39600, 32, pingpong=True)) == (77, 155)


def test_ultra_rams_are_4096_by_72():
    assert [uram(4096, 72), uram(4097, 72), uram(4096, 73), uram(4096, 72, True)] == [1, 2, 2, 2]


def test_small_arrays_are_luts_and_single_words_registers():
    assert array_resources(64, 32) == Resources(lut=33, ff=32)
    assert array_resources(128, 32) == Resources(lut=65, ff=32)
    assert array_resources(128, 33) == Resources(bram18=1)
    assert array_resources(1, 45, pingpong=True) == Resources(ff=90)
    assert array_resources(1, 45, storage="lutram") == Resources(lut=46, ff=45)
    assert buffer_resources(Buffer(16, 27, True, count=4)) == array_resources(16, 27) * 8


def test_every_reported_fifo_is_printed_as_it_was():
    count = 0
    for row in rows("vitis_fifos"):
        printed = fifo_printed(int(row["depth"]), int(row["bits"]))
        assert printed == reported(row, "bram18_reported"), row
        count += 1
    assert count == 79


def test_a_deep_fifo_takes_what_an_array_takes_whatever_is_printed():
    assert fifo_printed(8192, 32).bram18 == 1
    assert fifo_resources(8192, 32, "bram").bram18 == bram18(8192, 32) == 16
    assert fifo_resources(8192, 72, "uram").uram == 2
    assert fifo_resources(33, 27, "srl").lut == 54
    assert fifo_resources(65, 27, "lutram").lut == 54


def test_fifos_of_a_network():
    for depth, width in ((2, 27), (16, 27), (60, 27), (600, 27)):
        fifo = Fifo("f", width, depth)
        storage = fifo_storage(depth, width)
        assert network_fifo_resources(fifo) == fifo_resources(depth, width, storage)
    assert network_fifo_resources(Fifo("f", 27)) == Resources()
    assert network_fifo_resources(Fifo("f", 1, depth=9, latency=8)) == Resources()


# Products.


@pytest.mark.parametrize(
    ("a", "b", "limb", "dsps"),
    [
        (18, 27, 26, 1),
        (27, 18, 26, 1),
        (28, 18, 26, 2),
        (24, 24, 26, 2),
        (27, 27, 26, 2),
        (32, 32, 26, 4),
        (25, 18, 24, 1),
        (26, 18, 24, 2),
        (10, 10, 26, 0),
        (11, 5, 26, 1),
        (16, 16, 26, 1),
    ],
)
def test_dsps_of_a_product(a: int, b: int, limb: int, dsps: int):
    assert dsp_of_product(a, b, limb) == dsps
    assert product_resources(a, b, limb).dsp == dsps


def products() -> list[tuple[int, int, dict[str, str]]]:
    """Reported products of integers: their widths and the row."""
    found: list[tuple[int, int, dict[str, str]]] = []
    for row in rows("vitis_operators"):
        if match := re.match(r"mul_(\d+)ns_(\d+)ns_\d+_\d+_1$", row["module"]):
            found.append((int(match[1]), int(match[2]), row))
    return found


WIDEST = (64, 66)
"""The one product that the reports show with more DSPs than the rule: 16, as of limbs of 17 bits
on both sides, for 12."""


def test_reported_products():
    assert len(products()) == 28
    for a, b, row in products():
        model, report = product_resources(a, b), reported(row)
        if (a, b) == WIDEST:
            assert (model.dsp, report.dsp) == (12, 16)
        else:
            assert model.dsp == report.dsp, row
        assert model.lut == pytest.approx(report.lut, rel=0.25), row
        assert model.ff == pytest.approx(report.ff, rel=0.25), row


# Other operators.

REPORTED_CORES = ("fadd", "fmul", "fexp")


def test_reported_float_cores():
    found = 0
    for row in rows("vitis_operators"):
        for core in REPORTED_CORES:
            # The adder without DSPs is another core, which no kernel asks for.
            if row["module"].startswith(f"{core}_32ns") and "no_dsp" not in row["module"]:
                operator = Operator(core, (32, 32), 5)
                assert operator_resources(operator, U50) == reported(row) * 5
                found += 1
    assert found == 5


def test_every_float_core_of_a_schedule_has_resources():
    for core in FLOAT_CYCLES:
        assert operator_resources(Operator(core, (32, 32), 1), U50).lut > 0


def test_fixed_point_logic_grows_with_its_width():
    def of(kind: str, *widths: int) -> Resources:
        return operator_resources(Operator(kind, widths, 1), U50)

    assert of("add", 45, 45) == Resources(lut=46, ff=46)
    assert of("compare", 27, 27) == Resources(lut=14, ff=1)
    assert of("select", 27, 27) == Resources(lut=14)
    assert of("narrow", 45, 27) == Resources(lut=41, ff=27)
    assert of("shift", 27, 5) == Resources(lut=81, ff=27)
    seven = find_part("xc7z020")
    assert operator_resources(Operator("mul", (27, 18), 3), seven).dsp == 6


def test_an_unknown_operator_is_refused():
    with pytest.raises(CompileError, match="no known resources of an operator 'cordic'"):
        operator_resources(Operator("cordic", (8,), 1), U50)


# Parts.


def test_parts_and_what_they_have():
    assert set(fpga_parts()) >= {"xcu50", "xcu280", "xcu55c", "xczu9eg", "xc7z020", "xck26"}
    for part in fpga_parts().values():
        # In the fabric of both families each LUT has two flip-flops.
        assert part.ff == 2 * part.lut
        assert part.bram18 % 2 == 0


def test_shares_of_a_part():
    shares = Resources(lut=435840, uram=1).fraction_of(U50.capacity)
    assert shares == {"lut": 0.5, "ff": 0.0, "bram18": 0.0, "uram": 1 / 640, "dsp": 0.0}
    seven = find_part("xc7z020").capacity
    assert Resources(uram=1).fraction_of(seven)["uram"] == float("inf")
    assert Resources().fraction_of(seven)["uram"] == 0.0
