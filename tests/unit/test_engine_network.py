"""Networks: what is refused, the two kinds of pipeline, starts, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from inr.analysis.event_engine import Engine, latency
from inr.analysis.happens_before import LARGEST, happens_before, latency_of
from inr.analysis.network import (
    Fifo,
    Network,
    Process,
    Repeat,
    Segment,
    flushable_pipeline,
    rigid_pipeline,
)
from inr.errors import CompileError


def source(count: int, fifo: int, gap: int = 1) -> Process:
    return Process("source", (Segment(count, 1, gap, writes=(fifo,)),))


def sink(count: int, fifo: int, gap: int = 1) -> Process:
    return Process("sink", (Segment(count, 1, gap, reads=(fifo,)),))


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("gap", lambda: Segment(1, 0, 1), "gaps of at least 1"),
    ("count", lambda: Segment(0, 1, 1), "at least one stage"),
    ("twice", lambda: Segment(1, 1, 1, (0,), (0,)), "a stage uses a FIFO at most once"),
    ("repeat", lambda: Repeat(0, (Segment(1, 1, 1),)), "runs at least once"),
    ("start", lambda: Process("p", (), -1), "process 'p' starts at cycle -1"),
    ("width", lambda: Fifo("f", 0), "FIFO 'f' has tokens of 0 bits"),
    ("storage", lambda: Fifo("f", 1, 2, "dram"), "storage 'dram' is not one of srl, lutram"),
    ("depth", lambda: Fifo("f", 1, 0), "FIFO 'f' holds at least one token, not 0"),
    ("memory", lambda: Fifo("f", 1, 1, "uram"), "depth 1 in uram .* needs depth 3"),
    ("pipeline", lambda: Fifo("f", 1, latency=3), "pipeline 'f' has a depth"),
    (
        "counts",
        lambda: Network((source(2, 0), sink(3, 0)), (Fifo("f", 8),)),
        "FIFO 'f': 'source' writes 2 tokens and 'sink' reads 3",
    ),
    (
        "two writers",
        lambda: Network((source(2, 0), source(2, 0), sink(4, 0)), (Fifo("f", 8),)),
        "FIFO 'f' needs exactly one writer, it has 'source', 'source'",
    ),
    (
        "no reader",
        lambda: Network((source(2, 0),), (Fifo("f", 8),)),
        "FIFO 'f' needs exactly one reader, it has none",
    ),
    (
        "unknown FIFO",
        lambda: Network((source(2, 1), sink(2, 0)), (Fifo("f", 8),)),
        "process 'source' uses FIFO 1 of 1",
    ),
    ("text", lambda: Network.from_json("{}"), "not a process network in JSON: KeyError"),
    ("no text", lambda: Network.from_json("["), "not a process network in JSON"),
]


@pytest.mark.parametrize(("make", "message"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        make()


def test_tokens_of_json_are_checked() -> None:
    network = Network((source(4, 0), sink(4, 0)), (Fifo("f", 8, 2),))
    data = json.loads(network.to_json())
    data["fifos"][0]["elements"] = 5
    with pytest.raises(CompileError, match="FIFO 'f' should pass 5 tokens and passes 4"):
        Network.from_json(json.dumps(data))


def joined(rigid: bool, input_gap: int) -> Network:
    """A pipeline of 9 cycles between a source and a sink."""
    fifos = (Fifo("in", 32, 2), Fifo("out", 32, 2))
    if rigid:
        return Network(
            (source(20, 0, input_gap), rigid_pipeline("map", 20, 9, (0,), (1,)), sink(20, 1)),
            fifos,
        )
    (head, tail), registers = flushable_pipeline("map", 20, 9, (0,), (1,), registers=2)
    return Network((source(20, 0, input_gap), head, tail, sink(20, 1)), (*fifos, registers))


def test_pipelines_agree_while_they_are_full() -> None:
    # The last token is written to the pipeline in cycle 21, out of it in 30, read in 31.
    assert latency(joined(True, 1)) == latency(joined(False, 1)) == 31


def test_only_a_flushable_pipeline_lets_go() -> None:
    def first_out(rigid: bool) -> int:
        run = Engine(joined(rigid, 10)).run(record=[1])
        return int(run.written_at[1][0])

    assert first_out(False) == 2 + 9
    # Token 9 comes 90 cycles after token 0 and pushes it out.
    assert first_out(True) == 2 + 90


def test_rigid_pipeline_with_fewer_iterations_than_stages() -> None:
    network = Network(
        (source(3, 0), rigid_pipeline("map", 3, 9, (0,), (1,)), sink(3, 1)),
        (Fifo("in", 32, 2), Fifo("out", 32, 2)),
    )
    run = Engine(network).run(record=[0, 1])
    assert list(run.read_at[0]) == [2, 3, 4]
    assert list(run.written_at[1]) == [11, 12, 13]


def test_starts_follow_the_stream() -> None:
    network = joined(True, 1).with_starts()
    assert [process.start for process in network.processes] == [0, 1, 2]


def test_a_process_without_stages_takes_no_time() -> None:
    network = Network((source(1, 0), Process("idle", (), 9), sink(1, 0)), (Fifo("f", 8, 2),))
    assert latency(network) == latency_of(happens_before(network)) == 2


def test_no_graph_of_a_large_network() -> None:
    count = LARGEST // 2 + 1
    network = Network((source(count, 0), sink(count, 0)), (Fifo("f", 8, 2),))
    with pytest.raises(CompileError, match="a happens-before graph is for small designs"):
        happens_before(network)


def test_repetitions_are_not_unrolled() -> None:
    """A thousand million stages in a few bytes."""
    process = Process("p", (Repeat(1000, (Repeat(1000, (Segment(1000, 1, 1, writes=(0,)),)),)),))
    assert process.stages == 10**9
    assert process.writes == {0: 10**9}
