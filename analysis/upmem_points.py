"""
Many mappings of one layer at once: the sizes of `Geometry` as arrays, one element a mapping.

Legality and cost are computed from these alone, for one mapping as for a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .upmem_mapping import (
    FIELDS,
    LOADS,
    ORDERS,
    OUTS,
    RESIDENCIES,
    UNROLL,
    VARIANTS,
    LutShape,
    Mapping,
)

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_CODES: dict[str, tuple[str, ...]] = {
    "order": ORDERS,
    "load": LOADS,
    "variant": VARIANTS,
    "out": OUTS,
    "residency": RESIDENCIES,
}
_AXES = np.array([["nfc".index(axis) for axis in order] for order in ORDERS])


def code(field: str, value: Any) -> int:
    """The integer that stands for a value of a field."""
    return _CODES[field].index(value) if field in _CODES else int(value)


def ceil_div(a: Integers, b: Integers | int) -> Integers:
    """⌈a/b⌉."""
    return -(-a // b)


@dataclass(frozen=True, eq=False)
class Points:
    """Mappings of one shape: one array a field of `Mapping`, all of one length."""

    shape: LutShape
    fields: dict[str, Integers]

    @classmethod
    def of(cls, shape: LutShape, mappings: Sequence[Mapping]) -> Points:
        """The points of some mappings."""
        return cls(
            shape,
            {
                name: np.array([code(name, getattr(m, name)) for m in mappings], dtype=np.int64)
                for name in FIELDS
            },
        )

    def __len__(self) -> int:
        return len(self.fields["ip"])

    def __getitem__(self, chosen: Any) -> Points:
        """The points that an index array or a mask chooses."""
        return Points(self.shape, {name: values[chosen] for name, values in self.fields.items()})

    def mapping(self, i: int) -> Mapping:
        """One point as a mapping."""
        found: dict[str, Any] = {}
        for name, values in self.fields.items():
            value = int(values[i])
            found[name] = _CODES[name][value] if name in _CODES else value
        return Mapping(**found)

    def field(self, name: str) -> Integers:
        """The values of a field; words as their position among their choices."""
        return self.fields[name]

    def is_(self, name: str, value: str) -> Flags:
        """Where a field has this value."""
        return self.fields[name] == code(name, value)

    # Sizes of one DPU.

    @cached_property
    def dpus(self) -> Integers:
        """DPUs in use."""
        return self.field("ip") * self.field("lp") * self.field("split_cb")

    @cached_property
    def rows(self) -> Integers:
        """N_s."""
        return ceil_div(np.int64(self.shape.rows) + 0 * self.field("ip"), self.field("ip"))

    @cached_property
    def features(self) -> Integers:
        """F_s."""
        f_l = self.field("f_l")
        each = ceil_div(np.int64(self.shape.features) + 0 * f_l, self.field("lp"))
        return ceil_div(each, f_l) * f_l

    @cached_property
    def codebooks(self) -> Integers:
        """C_s."""
        split = self.field("split_cb")
        return (
            ceil_div(ceil_div(np.int64(self.shape.codebooks) + 0 * split, split), UNROLL) * UNROLL
        )

    @cached_property
    def tiles(self) -> dict[str, tuple[Integers, Integers, Integers]]:
        """Of each axis the full tile, its turns, and the last tile."""
        sizes = {"n": self.rows, "f": self.features, "c": self.codebooks}
        found: dict[str, tuple[Integers, Integers, Integers]] = {}
        for axis, size in sizes.items():
            tile = np.minimum(self.field(f"{axis}_m"), size)
            turns = ceil_div(size, tile)
            found[axis] = tile, turns, size - (turns - 1) * tile
        return found

    def tile(self, axis: str) -> Integers:
        """Rows, columns or codebooks of a full tile."""
        return self.tiles[axis][0]

    def turns(self, axis: str) -> Integers:
        """Tiles along an axis."""
        return self.tiles[axis][1]

    def last(self, axis: str) -> Integers:
        """What the last tile of an axis has."""
        return self.tiles[axis][2]

    @cached_property
    def visits_of_all(self) -> Integers:
        """Tiles that a DPU goes through."""
        return self.turns("n") * self.turns("f") * self.turns("c")

    def visits(self, axes: str) -> Integers:
        """How often what depends on these axes is moved."""
        stack = np.stack([self.turns(axis) for axis in "nfc"])
        depends = np.array([axis in axes for axis in "nfc"])
        nest = _AXES[self.field("order")]
        each = np.arange(len(self))
        turns = np.ones(len(self), dtype=np.int64)
        visits = turns.copy()
        for position in range(3):
            axis = nest[:, position]
            turns = turns * stack[axis, each]
            visits = np.where(depends[axis] & (stack[axis, each] > 1), turns, visits)
        return visits

    @cached_property
    def hoisted(self) -> Flags:
        """Whether a coarse sub-tile is moved outside loops over n."""
        return (self.tile("f") <= self.field("f_l")) & (self.tile("c") <= self.field("c_l"))

    @cached_property
    def column_tiles(self) -> Integers:
        """Sub-tiles of columns of a DPU, F_s/f_l."""
        return self.features // self.field("f_l")

    @cached_property
    def codebook_tiles(self) -> Integers:
        """Sub-tiles of codebooks of a DPU."""
        c, c_l = self.tile("c"), np.minimum(self.field("c_l"), self.tile("c"))
        return (self.turns("c") - 1) * ceil_div(c, c_l) + ceil_div(self.last("c"), c_l)

    @cached_property
    def row_bytes(self) -> Integers:
        """w: bytes of a sum."""
        return np.where(self.is_("out", "i32"), 4, 2)

    def pitch(self, codebooks: Integers) -> Integers:
        """Bytes of a row of so many indices."""
        return ceil_div(ceil_div(codebooks * self.field("idx_bits"), 8), 8) * 8

    @cached_property
    def rows_per_tasklet(self) -> Integers:
        """Of a full tile."""
        return ceil_div(self.tile("n"), self.field("tasklets"))

    @cached_property
    def sub_tile_bytes(self) -> Integers:
        """Of a coarse sub-tile."""
        c_l = np.minimum(self.field("c_l"), self.tile("c"))
        return c_l * self.shape.centroids * self.field("f_l")

    # Memory of one DPU, in bytes.

    @cached_property
    def table_bytes(self) -> Integers:
        """The table in MRAM."""
        return ceil_div(self.features * self.codebooks * self.shape.centroids, 8) * 8

    @cached_property
    def index_bytes(self) -> Integers:
        """The indices in MRAM."""
        full = (self.turns("c") - 1) * self.pitch(self.tile("c"))
        return self.rows * (full + self.pitch(self.last("c")))

    @cached_property
    def output_bytes(self) -> Integers:
        """The sums in MRAM."""
        return ceil_div(self.rows * self.features * self.row_bytes, 8) * 8

    @cached_property
    def index_tile_bytes(self) -> Integers:
        """The index tile in WRAM."""
        return self.rows_per_tasklet * self.field("tasklets") * self.pitch(self.tile("c"))

    @cached_property
    def output_tile_bytes(self) -> Integers:
        """The output tile in WRAM."""
        rows = self.rows_per_tasklet * self.field("tasklets")
        return rows * self.tile("f") * self.row_bytes

    @cached_property
    def table_tile_bytes(self) -> Integers:
        """What WRAM holds of the table."""
        fine = self.field("tasklets") * (ceil_div(self.field("f_l"), 8) * 8)
        chosen = np.choose(self.field("load"), [self.table_bytes, self.sub_tile_bytes, fine])
        return ceil_div(chosen, 8) * 8
