"""
The happens-before graph of a small network: every event at once, for reference and to look at.

A node is the FIFO operations of one stage. An edge says that its target comes at least `cycles`
after its source: the order within a process, a token that must have arrived, a place in a
FIFO that must be free. The network deadlocks exactly when the graph has a cycle; otherwise the
longest path is the latency. This is the formulation of INR-Arch (Abi-Karam and others, ICCAD
2023); the engine finds the same without a graph that has millions of nodes for a real design.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias, cast

import networkx as nx

from ..errors import CompileError
from .network import WAR_DELAY, Body, Network, Segment

LARGEST = 200_000
"""Reads and writes beyond which no graph is built."""

Node: TypeAlias = tuple[int, int]
"""A process and the number of one of its stages."""


def _stages(body: Body) -> Iterable[tuple[int, Segment]]:
    for part in body:
        if isinstance(part, Segment):
            yield part.first_gap, part
            yield from ((part.gap, part) for _ in range(part.count - 1))
        else:
            for _ in range(part.times):
                yield from _stages(part.body)


def happens_before(network: Network) -> nx.DiGraph[Node]:
    """
    The graph of a network at its own depths. Nodes carry `process`, `operations` and `least` (the
    first cycle that the start of the process allows), edges carry `cycles` and `why`.

    Raises CompileError for a network too large to look at.
    """
    if network.events > LARGEST:
        raise CompileError(
            f"a happens-before graph is for small designs; this one has {network.events} reads "
            f"and writes, more than {LARGEST}"
        )
    graph: nx.DiGraph[Node] = nx.DiGraph()
    written: defaultdict[int, list[Node]] = defaultdict(list)
    read: defaultdict[int, list[Node]] = defaultdict(list)
    for p, process in enumerate(network.processes):
        for k, (gap, segment) in enumerate(_stages(process.body)):
            node = (p, k)
            operations: list[str] = []
            for ends, seen, verb in (
                (segment.reads, read, "read"),
                (segment.writes, written, "write"),
            ):
                for f in ends:
                    operations.append(f"{verb} {network.fifos[f].name}[{len(seen[f])}]")
                    seen[f].append(node)
            least = process.start + gap if k == 0 else 1
            graph.add_node(
                node, process=process.name, operations=", ".join(operations), least=least
            )
            if k:
                _add_edge(graph, (p, k - 1), node, gap, "order")
    for f, fifo in enumerate(network.fifos):
        for source, target in zip(written[f], read[f], strict=True):
            _add_edge(graph, source, target, fifo.raw, "arrival")
        if fifo.depth is None:
            continue
        for source, target in zip(read[f], written[f][fifo.depth :], strict=False):
            _add_edge(graph, source, target, WAR_DELAY, "space")
    return graph


def _add_edge(graph: nx.DiGraph[Node], source: Node, target: Node, cycles: int, why: str) -> None:
    known = cast(int, graph.edges[source, target]["cycles"]) if target in graph[source] else 0
    if cycles > known:
        graph.add_edge(source, target, cycles=cycles, why=why)


def latency_of(graph: nx.DiGraph[Node]) -> int | None:
    """The longest path of the graph in cycles, or None when it has a cycle: a deadlock."""
    if not nx.is_directed_acyclic_graph(graph):
        return None
    end: dict[Node, int] = {}
    for node in nx.topological_sort(graph):
        end[node] = max(
            cast(int, graph.nodes[node]["least"]),
            max(
                (end[s] + cast(int, graph.edges[s, node]["cycles"]) for s in graph.pred[node]),
                default=0,
            ),
        )
    return max(end.values(), default=0)


def deadlock_cycle(graph: nx.DiGraph[Node]) -> list[Node]:
    """Stages that each have to come before the next, and the last before the first; else empty."""
    for component in nx.strongly_connected_components(graph):
        if len(component) > 1:
            return next(iter(nx.simple_cycles(graph.subgraph(component))))
    return []


def write_graphml(graph: nx.DiGraph[Node], path: Path) -> None:
    """The graph as GraphML, with the attributes of its nodes and edges."""
    named = nx.relabel_nodes(graph, {n: f"{n[0]}.{n[1]}" for n in graph})
    # networkx's own annotation of this one function is incomplete.
    nx.write_graphml(named, path)  # pyright: ignore[reportUnknownMemberType]


def to_dot(graph: nx.DiGraph[Node]) -> str:
    """The graph in Graphviz' language: a row a process, the edges of a deadlock in red."""
    cycle = deadlock_cycle(graph)
    on_cycle = set(zip(cycle, [*cycle[1:], *cycle[:1]], strict=True))
    lines = ["digraph happens_before {", "  rankdir=LR; node [shape=box];"]
    for p, k in graph.nodes:
        attributes = graph.nodes[p, k]
        label = f"{attributes['process']} {k}\\n{attributes['operations']}"
        lines.append(f'  "{p}.{k}" [label="{label}", group={p}];')
    for source, target in graph.edges:
        edge = graph.edges[source, target]
        color = "red" if (source, target) in on_cycle else "black"
        lines.append(
            f'  "{source[0]}.{source[1]}" -> "{target[0]}.{target[1]}" '
            f'[label="{edge["cycles"]} {edge["why"]}", color={color}];'
        )
    return "\n".join([*lines, "}", ""])
