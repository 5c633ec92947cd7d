"""The tuner: the best point of its space, never an illegal one, and why."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from math import ceil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.upmem_cost import predict, predict_all
from inr.analysis.upmem_explain import explain
from inr.analysis.upmem_legality import Machine, legal, violations
from inr.analysis.upmem_mapping import FIELDS, ORDERS, RESIDENCIES, LutShape, Mapping
from inr.analysis.upmem_points import Points
from inr.analysis.upmem_target import find_target
from inr.analysis.upmem_tuner import (
    COLUMNS,
    TASKLETS,
    bounds,
    front,
    pareto,
    partitions,
    steps,
    tune,
)
from inr.errors import CompileError

PIM_DL = Machine.of(find_target("pim-dl"))
V1A = find_target("v1A")


def up(value: int, step: int) -> int:
    return ceil(value / step) * step


def brute_force(shape: LutShape, machine: Machine, fixed: dict[str, Any]) -> tuple[float, Mapping]:
    """Every point of the space, all orders, nothing left out but what breaks a rule."""

    def of(name: str, values: Any) -> list[Any]:
        return [fixed[name]] if name in fixed else sorted(set(values))

    space: list[Mapping] = []
    most = machine.target.tasklets
    for lp in of("lp", steps(max(1, min(machine.dpus, ceil(shape.features / 4))))):
        room = max(1, min(machine.dpus // lp, ceil(shape.codebooks / 4)))
        for split in of("split_cb", steps(min(16, room))):
            rows_at_once = max(1, machine.dpus // (lp * split))
            need = ceil(shape.rows / ceil(shape.rows / rows_at_once))
            for ip in of("ip", [min(rows_at_once, need)]):
                rows, books = ceil(shape.rows / ip), up(ceil(shape.codebooks / split), 4)
                least = min(books, up(ceil(256 / shape.centroids), 4))
                for variant, f_l in itertools.product(
                    of("variant", ["scalar32", "swar16", "swar8"]), of("f_l", COLUMNS)
                ):
                    lanes = 65535 // (2**shape.bits - 1) // 4 * 4
                    longest = books if variant == "scalar32" else min(books, lanes)
                    columns = up(ceil(shape.features / lp), f_l)
                    c_ls = {up(ceil(books / k), 4) for k in steps(books // 4)}
                    c_ls = {c for c in c_ls if min(least, longest) <= c <= longest} or {longest}
                    f_ms = [f_l * k for k in (1, 2, 4, 8) if f_l * k < columns] + [columns]
                    for c_l in of("c_l", c_ls):
                        c_ms = [c_l * k for k in (1, 2, 4) if c_l * k < books] + [books]
                        for values in itertools.product(
                            of("n_m", [ceil(rows / k) for k in steps(rows)]),
                            of("f_m", f_ms),
                            of("c_m", c_ms),
                            of("order", ORDERS),
                            of("load", ["static", "coarse", "fine"]),
                            of("tasklets", [t for t in (most, *TASKLETS) if t <= most]),
                            of("idx_bits", [4, 8, 16]),
                            of("out", ["i32", "i16"]),
                        ):
                            n_m, f_m, c_m, order, load, threads, bits, out = values
                            m = Mapping(
                                ip,
                                lp,
                                n_m,
                                f_m,
                                c_m,
                                f_l,
                                c_l,
                                order,
                                load,
                                threads,
                                variant,
                                bits,
                                out,
                                split_cb=split,
                            )
                            space.append(m)
    points = Points.of(shape, space)
    points = points[legal(points, machine)]
    assert len(points)
    seconds = predict_all(points, machine.target).pipelined
    i = int(seconds.argmin())
    return float(seconds[i]), points.mapping(i)


@settings(deadline=None, max_examples=8, derandomize=True)
@given(
    rows=st.integers(1, 40),
    books=st.integers(1, 9),
    centroids=st.sampled_from([2, 16, 64]),
    features=st.integers(1, 40),
    dpus=st.sampled_from([1, 2, 6]),
    bits=st.sampled_from([6, 8]),
    wram=st.sampled_from([9_000, 12_000, 65_536]),
    threads=st.sampled_from([4, 11]),
)
def test_the_tuner_is_brute_force(
    rows: int,
    books: int,
    centroids: int,
    features: int,
    dpus: int,
    bits: int,
    wram: int,
    threads: int,
) -> None:
    target = replace(V1A, wram=wram, ranks=1)
    machine = Machine.of(target, dpus)
    shape = LutShape(rows, books, centroids, features, bits)
    # Some decisions fixed, so that the other loops stay short.
    fixed: dict[str, Any] = {"tasklets": threads}
    try:
        found = tune(shape, machine, fixed)
    except CompileError:
        with pytest.raises(AssertionError):
            brute_force(shape, machine, fixed)
        return
    seconds, mapping = brute_force(shape, machine, fixed)
    assert found.seconds == pytest.approx(seconds, rel=1e-12), (found.mapping, mapping)
    assert not violations(shape, found.mapping, machine)


def test_the_tuner_is_brute_force_over_tasklets() -> None:
    machine = Machine.of(V1A, 2)
    shape = LutShape(24, 5, 16, 20, bits=6)
    fixed: dict[str, Any] = {"order": "fcn", "lp": 2, "split_cb": 1}
    found = tune(shape, machine, fixed)
    assert found.seconds == pytest.approx(brute_force(shape, machine, fixed)[0], rel=1e-12)


@settings(deadline=None, max_examples=8)
@given(
    rows=st.integers(1, 100_000),
    books=st.integers(1, 1100),
    centroids=st.integers(1, 256),
    features=st.integers(1, 5000),
    dpus=st.integers(1, 2560),
    bits=st.sampled_from([5, 6, 7, 8]),
    fixed=st.fixed_dictionaries(
        {},
        optional={
            "lp": st.sampled_from([1, 8]),
            "order": st.sampled_from(ORDERS),
            "load": st.sampled_from(["static", "coarse", "fine"]),
            "tasklets": st.sampled_from([1, 12, 16]),
            "variant": st.sampled_from(["scalar32", "swar16"]),
            "idx_bits": st.sampled_from([4, 8, 16]),
            "out": st.sampled_from(["i16", "i32"]),
            "residency": st.sampled_from(RESIDENCIES),
        },
    ),
)
def test_never_an_illegal_point_and_what_is_fixed_is_kept(
    rows: int,
    books: int,
    centroids: int,
    features: int,
    dpus: int,
    bits: int,
    fixed: dict[str, Any],
) -> None:
    machine = Machine.of(V1A, dpus)
    shape = LutShape(rows, books, centroids, features, bits)
    try:
        found = tune(shape, machine, fixed)
    except CompileError:
        with pytest.raises(CompileError, match="The closest breaks R"):
            tune(shape, machine, fixed)
        return
    assert not violations(shape, found.mapping, machine)
    assert all(getattr(found.mapping, name) == value for name, value in fixed.items())
    assert found.cost == predict(shape, found.mapping, machine.target)
    parts = partitions(shape, machine, fixed, False)
    assert min(b.total for b in bounds(shape, parts, machine, fixed)) <= found.seconds


def test_the_same_answer_every_time() -> None:
    shape = LutShape(4096, 96, 16, 384)
    machine = Machine.of(V1A, 256)
    assert tune(shape, machine).mapping == tune(shape, machine).mapping


def test_larger_spaces_are_no_slower_to_run() -> None:
    shape = LutShape(32768, 192, 16, 768)
    free = tune(shape, PIM_DL)
    for fixed in ({"lp": 8}, {"load": "fine"}, {"variant": "scalar32"}, {"order": "nfc"}):
        assert tune(shape, PIM_DL, fixed).seconds >= free.seconds
    turns = tune(shape, PIM_DL, {"lp": 8}, pipeline=True)
    assert turns.mapping.groups > 1
    assert turns.seconds < free.seconds
    assert not violations(shape, turns.mapping, PIM_DL)


def test_a_layer_takes_a_second_on_one_core() -> None:
    shape = LutShape(32768, 192, 16, 2304)
    tune(shape, PIM_DL, {"lp": 8})
    start = time.process_time()
    found = tune(shape, PIM_DL)
    assert time.process_time() - start < 2.0
    assert found.skipped > found.parts // 2


def test_batch_decides() -> None:
    small, large = LutShape(8, 192, 16, 768), LutShape(32768, 192, 16, 768)
    few, many = tune(small, PIM_DL).mapping, tune(large, PIM_DL).mapping
    # Few rows: more DPUs for columns; a row needs fewer entries than the table has.
    assert few.lp > many.lp
    assert many.load == "coarse"


def test_pareto_sets() -> None:
    shape = LutShape(32768, 192, 16, 768)
    choices = pareto(shape, PIM_DL)
    assert choices == front(choices)
    assert len(choices) > 2
    assert choices[-1].seconds == pytest.approx(tune(shape, PIM_DL).cost.total)
    sizes = [choice.resident for choice in choices]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0
    assert choices[0].mapping is not None
    assert choices[0].mapping.residency == "per_call"
    for choice in choices:
        assert choice.mapping is not None
        assert not violations(shape, choice.mapping, PIM_DL)
        cost = predict(shape, choice.mapping, PIM_DL.target)
        assert choice.seconds == pytest.approx(cost.total)


@pytest.mark.parametrize(
    ("shape", "dpus", "fixed", "message"),
    [
        # A table larger than the MRAM of all DPUs that may have a part of it.
        (
            LutShape(64, 3072, 256, 8192),
            1,
            {},
            r"R1: bytes of MRAM \(table 6,442,450,944, .*of at most 67,108,864, 6,3.* too many",
        ),
        (
            LutShape(4, 64, 16, 64),
            1,
            {"tasklets": 25},
            "R4: tasklets: 25 of at most 24, 1 too many",
        ),
        (
            LutShape(4, 64, 16, 64),
            1,
            {"load": "static", "lp": 1},
            r"R2: bytes of WRAM \(table 65,536, .*stacks and runtime",
        ),
        (LutShape(4, 64, 17, 64), 1, {"idx_bits": 4}, "R10: the largest index: 16 of at most 15"),
        (LutShape(4, 64, 16, 64), 4, {"ip": 5}, "R8: DPUs: 5 of at most 4"),
        (
            LutShape(4, 600, 16, 64),
            1,
            {"out": "i16"},
            "R9: the largest sum: 76,200 of at most 32,767",
        ),
        (LutShape(4, 64, 16, 64), 1, {"speed": 3}, "a mapping has no field 'speed'"),
    ],
)
def test_what_does_not_fit_is_said_with_numbers(
    shape: LutShape, dpus: int, fixed: dict[str, Any], message: str
) -> None:
    with pytest.raises(CompileError, match=f"encoder.fc1: .*{message}"):
        tune(shape, Machine.of(V1A, dpus), fixed, name="encoder.fc1")


def test_explanations_name_what_was_slower() -> None:
    shape = LutShape(4096, 96, 16, 384)
    machine = Machine.of(find_target("pim-dl"), 128)
    found = tune(shape, machine, {"order": "fcn"})
    text = explain(found, "encoder.fc1")
    assert text.startswith("encoder.fc1: 4096 rows, 96 codebooks")
    assert str(found.mapping) in text
    lines = {line.split()[0]: line for line in text.splitlines()[4:]}
    assert "(output +" in lines["out=i32"]
    assert "(kernel +" in lines["variant=scalar32"]
    assert "(table +" in lines["residency=per_call"]
    assert not any(key.startswith("order=") for key in lines)
    for line in lines.values():
        if " ms, " in line:
            other = Mapping.parse(line.rpartition("): ")[2])
            assert not violations(shape, other, machine)
            assert predict(shape, other, machine.target).total >= found.cost.total - 1e-12


def test_fields_are_those_of_a_mapping() -> None:
    assert FIELDS[:2] == ("ip", "lp")
    assert steps(13) == (1, 2, 3, 4, 6, 8, 12)
