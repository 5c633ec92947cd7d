"""Why the tuner chose what it chose."""

from __future__ import annotations

from typing import Any

from .upmem_mapping import INDEX_BITS, LOADS, ORDERS
from .upmem_tuner import Tuned, fits_i16, partitions, search, unfit, variants


def explain(result: Tuned, name: str = "layer") -> str:
    """
    The best mapping with its predicted seconds, and for every decision the best that another value
    of it can do, with the part of the cost that makes it slower.
    """
    shape, machine, best = result.shape, result.machine, result.cost
    lines = [
        f"{name}: {shape.rows} rows, {shape.codebooks} codebooks × {shape.centroids} × "
        f"{shape.features}, {machine.dpus} DPUs of {machine.target.name}",
        f"best   {result.mapping}",
        f"       {best}",
        f"       {result.points:,} points; {result.skipped} of {result.parts} parts of the space "
        "skipped by their bound",
    ]
    others: list[tuple[float, str]] = []
    for key, values in _alternatives(result).items():
        for value in values:
            lines_of = _other(result, key, value)
            if lines_of is not None:
                others.append(lines_of)
    others.sort()
    return "\n".join([*lines, *(text for _, text in others)])


def _alternatives(result: Tuned) -> dict[str, tuple[Any, ...]]:
    """Other values of each decision that the user has left open."""
    m, shape, machine = result.mapping, result.shape, result.machine
    open_ = {
        "load": LOADS,
        "variant": variants(shape),
        "idx_bits": tuple(b for b in INDEX_BITS if shape.centroids <= 1 << b),
        "out": ("i32", "i16") if fits_i16(shape, m.split_cb) else ("i32",),
        "residency": ("resident", "per_call"),
        "order": ORDERS,
        "lp": tuple(lp for lp in (m.lp // 2, m.lp * 2) if lp and lp * m.split_cb <= machine.dpus),
    }
    return {
        key: tuple(v for v in values if v != getattr(m, key))
        for key, values in open_.items()
        if key not in result.fixed
    }


def _other(result: Tuned, key: str, value: Any) -> tuple[float, str] | None:
    fixed = {"groups": result.mapping.groups, **result.fixed, key: value}
    parts = partitions(result.shape, result.machine, fixed, False)
    found = search(result.shape, parts, result.machine, fixed)
    label = f"{key}={value}"
    if found is None:
        reason = unfit(result.shape, parts, result.machine, fixed, "").partition("breaks ")[2]
        return float("inf"), f"  {label:20} no legal point: {reason.partition(' (ip=')[0]}"
    if found.mapping == result.mapping:
        return None
    more = {
        part: getattr(found.cost, part) - getattr(result.cost, part)
        for part in ("index", "table", "kernel", "output", "launch")
    }
    worst = max(more, key=lambda part: more[part])
    slower = found.seconds - result.seconds
    why = f"{worst} {more[worst] * 1e3:+.2f}" if slower > 0 else "as fast"
    text = (
        f"  {label:20} {found.seconds * 1e3:9.2f} ms, {slower * 1e3:+.2f} ({why}): {found.mapping}"
    )
    return found.seconds, text
