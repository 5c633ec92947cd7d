"""
Seconds of one linear layer, by how it is computed: a closed form, for choosing layers.

    tables      search on the host, indices out, additions on DPUs, sums back
    int8 on PIM bytes out, multiply-adds on DPUs, sums back
    host        a product in float32

Rows are cut over ip and columns over lp of the DPUs, ip·lp = all; lp is the power of two with the
least time. Tables and weights are resident. A DPU is taken to issue an instruction a cycle, and
nothing overlaps. `analysis.upmem_tuner` finds a mapping and what it costs; this is the same sum
without tiles, DMA and tails, to rank choices for hundreds of layers in no time.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import Literal

from ..errors import CompileError
from .lut_codebooks import LutSettings, codebook_count
from .upmem_cost import kernel_cost, swar8_run
from .upmem_mapping import UNROLL
from .upmem_target import DEFAULT_TARGET, MIB, UpmemTarget, find_target

Choice = LutSettings | Literal["int8"] | None
"""Tables of these settings, an int8 product on the DPUs, or (None) the product on the host."""

COLUMNS = 16
"""Columns for which the kernel adds at a time: as many accumulators as registers hold."""

MAC_SLOTS = 2.75
"""
Instructions of a multiply-add of operands that are provably bytes: a load for each of two operands
or one kept, a one-cycle 8-bit multiply, an add. 2.5 to 3.
"""


@dataclass(frozen=True)
class LayerMachine:
    """A machine with DPUs and its host."""

    target: UpmemTarget
    search_flops: float
    """Flops a second of the search, 2·N·H·K for N rows, on the whole host."""

    @staticmethod
    def of(name: str = DEFAULT_TARGET) -> LayerMachine:
        """
        A target by its name, with the search at the rate of the host's float32 products: on one
        core it is as fast as those, or faster (`benchmarks/ccs.py`). Raises CompileError for an
        unknown target.
        """
        target = find_target(name)
        return LayerMachine(target, 2 * target.host_macs_per_second)


@dataclass(frozen=True)
class LayerCost:
    """Seconds of the parts of a layer."""

    host: float
    """The search, or the whole product."""
    to_dpus: float
    kernel: float
    from_dpus: float
    launch: float

    @property
    def seconds(self) -> float:
        """One after the other."""
        return self.host + self.to_dpus + self.kernel + self.from_dpus + self.launch


def layer_cost(
    rows: int, height: int, width: int, choice: Choice, machine: LayerMachine | None = None
) -> float:
    """
    Seconds of a layer of `height` inputs and `width` outputs for so many rows.

    Raises CompileError for sizes below 1, and where tables or weights do not fit the DPUs.
    """
    return layer_costs(rows, height, width, choice, machine).seconds


def layer_costs(
    rows: int, height: int, width: int, choice: Choice, machine: LayerMachine | None = None
) -> LayerCost:
    """As `layer_cost`, by parts."""
    machine = machine or LayerMachine.of()
    target = machine.target
    if min(rows, height, width) < 1:
        raise CompileError(f"a layer of {rows} rows, {height} inputs, {width} outputs; at least 1")
    macs = rows * height * width
    product = max(
        macs / target.host_macs_per_second,
        4 * height * width / target.host_weight_bytes_per_second,
    )
    if choice is None:
        return LayerCost(product, 0.0, 0.0, 0.0, 0.0)
    if choice == "int8":
        return _on_dpus(machine, rows, width, height, height, height * MAC_SLOTS, 0.0)
    blocks = codebook_count(height, choice.vec)
    packed = 0.5 if choice.centroids <= 16 else 1.0
    search = 2 * rows * height * choice.centroids / machine.search_flops
    search += (choice.residual or 0) * rows * width / target.host_macs_per_second
    return _on_dpus(
        machine,
        rows,
        width,
        ceil(packed * blocks),
        blocks * choice.centroids,
        blocks * slots_per_addition(choice.bits, choice.centroids),
        search,
    )


def slots_per_addition(bits: int, centroids: int) -> float:
    """Instructions of an addition of a table entry in long runs, the quickest lanes for `bits`."""
    run = swar8_run(2**bits - 1)  # Entries are stored with a bias, without a sign.
    lanes, add = ("swar8", f"swar8/{run}") if run else ("swar16", "swar16")
    row = kernel_cost("index", "4" if centroids <= 16 else "8")
    row += kernel_cost("turn", lanes) / UNROLL
    row += COLUMNS / 4 * (kernel_cost("load", lanes) + kernel_cost("add", add))
    return row / COLUMNS


def _on_dpus(
    machine: LayerMachine,
    rows: int,
    width: int,
    row_bytes: int,
    column_bytes: int,
    slots: float,
    host: float,
) -> LayerCost:
    """
    The least cost over lp: a row is `row_bytes` to each of lp DPUs, a column keeps `column_bytes`
    in each of ip, an output takes `slots`.
    """
    target = machine.target
    best: LayerCost | None = None
    lp = 1
    while lp <= target.dpus:
        ip = target.dpus // lp
        mine, columns = ceil(rows / ip), ceil(width / lp)
        if columns * column_bytes + mine * (row_bytes + 4 * columns) <= target.mram:
            used = ceil(rows / mine) * ceil(width / columns)
            ranks = ceil(used / target.dpus_per_rank)
            cost = LayerCost(
                host=host,
                to_dpus=float(target.transfer("index", used * mine * row_bytes / MIB, ranks)),
                kernel=float(target.seconds(mine * columns * slots)),
                from_dpus=float(target.transfer("output", used * mine * columns * 4 / MIB, ranks)),
                launch=target.launch_seconds,
            )
            if cost.seconds < (best.seconds if best else inf):
                best = cost
        lp *= 2
    if best is None:
        raise CompileError(
            f"a layer of {width} outputs with {column_bytes} bytes each does not fit the "
            f"{target.mram} bytes of a DPU, nor any cut over {target.dpus} DPUs"
        )
    return best
