"""
Positions for a layered drawing of an acyclic graph, in units of columns and rows.

The method of Sugiyama, Tagawa and Toda (1981): a node's row is its depth, edges over several rows
pass through a point in each, nodes of a row are ordered by the mean position of their neighbours,
and then moved towards it. Edges from one node share their points until the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import numpy as np

Point = tuple[float, float]


@dataclass(frozen=True)
class Placed:
    """Where nodes stand and edges pass; the drawing is `columns` wide and `rows` high."""

    positions: Mapping[str, Point]
    routes: Sequence[Sequence[Point]]
    """The points of each edge, from its source to its target."""
    columns: float
    rows: int


def place(nodes: Sequence[str], edges: Sequence[tuple[str, str]], sweeps: int = 6) -> Placed:
    """Lay out a graph. Raises networkx.NetworkXUnfeasible for a cycle."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    row = _rows(graph)
    # Points on long edges are nodes like the others, numbered after them.
    number = {node: i for i, node in enumerate(nodes)}
    rows = [row[node] for node in nodes]
    above: list[list[int]] = [[] for _ in nodes]
    below: list[list[int]] = [[] for _ in nodes]
    trunk: dict[tuple[str, int], int] = {}
    routes: list[list[int]] = []
    for source, target in edges:
        route = [number[source]]
        for between in range(row[source] + 1, row[target]):
            point = trunk.setdefault((source, between), len(rows))
            if point == len(rows):
                rows.append(between)
                above.append([])
                below.append([])
            route.append(point)
        route.append(number[target])
        for a, b in pairwise(route):
            if b not in below[a]:
                below[a].append(b)
                above[b].append(a)
        routes.append(route)
    x = _columns(rows, above, below, sweeps, real=len(nodes))
    height = max(rows, default=0) + 1
    return Placed(
        {node: (x[i], rows[i]) for node, i in number.items()},
        [[(x[i], rows[i]) for i in route] for route in routes],
        max(x, default=0.0) + 1,
        height,
    )


def _rows(graph: nx.DiGraph[str]) -> dict[str, int]:
    """The depth of each node; a source stands right above the first that reads it."""
    row: dict[str, int] = {}
    order = list(nx.topological_sort(graph))
    for node in order:
        row[node] = max((row[p] + 1 for p in graph.predecessors(node)), default=0)
    for node in order:
        if not graph.in_degree(node) and graph.out_degree(node):
            row[node] = max(0, min(row[s] for s in graph.successors(node)) - 1)
    return row


def _columns(
    rows: Sequence[int],
    above: Sequence[Sequence[int]],
    below: Sequence[Sequence[int]],
    sweeps: int,
    real: int,
) -> list[float]:
    """The column of each node; one on an edge takes less room than a process."""
    layers: list[list[int]] = [[] for _ in range(max(rows, default=0) + 1)]
    for node, row in enumerate(rows):
        layers[row].append(node)
    room = [1.0 if node < real else 0.3 for node in range(len(rows))]
    x = [0.0] * len(rows)
    for layer in layers:
        _spread(layer, room, x, [float(i) for i in range(len(layer))])
    for sweep in range(2 * sweeps):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            neighbours = above if down else below
            wanted = [
                float(np.mean([x[n] for n in neighbours[node]])) if neighbours[node] else x[node]
                for node in layer
            ]
            order = sorted(range(len(layer)), key=wanted.__getitem__)
            layer[:] = [layer[i] for i in order]
            _spread(layer, room, x, [wanted[i] for i in order])
    left = min(x, default=0.0)
    return [value - left for value in x]


def _spread(
    layer: Sequence[int], room: Sequence[float], x: list[float], wanted: Sequence[float]
) -> None:
    """
    Columns in the order of `layer`, none closer than its room, with the least squared distance
    from what is wanted: isotonic regression by pooling neighbours that violate the order.
    """
    offsets = np.concatenate(
        (
            [0.0],
            np.cumsum([(room[a] + room[b]) / 2 for a, b in pairwise(layer)]),
        )
    )
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        mean, count = want - float(offset), 1
        while pools and pools[-1][0] > mean:
            other, more = pools.pop()
            mean = (mean * count + other * more) / (count + more)
            count += more
        pools.append((mean, count))
    values = [mean for mean, count in pools for _ in range(count)]
    for node, value, offset in zip(layer, values, offsets, strict=False):
        x[node] = value + float(offset)
