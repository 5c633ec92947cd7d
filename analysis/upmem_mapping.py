"""
How one layer of tables is laid out over DPUs and tiled inside each: the decisions, and what
follows from them.

`Mapping` holds the decisions, and its docstring says what a DPU executes. `Geometry` holds every
size, trip count and byte offset that follows; the printers, the verifier and the cost model take
them from here and compute none of their own.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import asdict, dataclass, fields, replace
from math import ceil
from typing import Any, Literal, Self, get_args

from ..errors import CompileError
from .int8_layer import LIMIT, Int8Layer
from .lut_layer import LutLayer, table_limit

Order = Literal["nfc", "ncf", "fnc", "fcn", "cnf", "cfn"]
Load = Literal["static", "coarse", "fine"]
Variant = Literal["scalar32", "swar16", "swar8", "int8"]
Out = Literal["i32", "i16"]
Residency = Literal["resident", "per_call"]

ORDERS: tuple[Order, ...] = get_args(Order)
LOADS: tuple[Load, ...] = get_args(Load)
VARIANTS: tuple[Variant, ...] = get_args(Variant)
OUTS: tuple[Out, ...] = get_args(Out)
RESIDENCIES: tuple[Residency, ...] = get_args(Residency)
INDEX_BITS = (4, 8, 16)

SIGNED: tuple[Variant, ...] = ("scalar32", "int8")
"""Variants whose tables hold entries as they are; the others add a bias to have no sign."""

UNROLL = 4
"""Codebooks a turn of the innermost loop takes; C_s and c_l are multiples of it."""

ROWS_AT_ONCE = 2
"""Rows that `int8` multiplies with a weight once it is loaded: what registers have room for."""

DMA_MAX = 2048
"""Bytes of the longest DMA request."""

STACK_BYTES = 384
"""Stack of a tasklet (`STACK_SIZE_DEFAULT`); the kernels call nothing but DMA and barriers."""


def up_to_multiple(value: int, step: int) -> int:
    """The least multiple of `step` that is no less than `value`."""
    return -(-value // step) * step


@dataclass(frozen=True)
class LutShape:
    """
    A layer of tables as the mapping sees it: sizes and bounds, no data.

    An int8 product Σ_h a[h]·w[h, f] has the same form: input h is codebook h, its activation stands
    where an index would, the row of H×F weights where a table of one centroid would.

    Raises CompileError where a size is no positive number, K is more than an index holds, or a
    product has more than one row of weights an input.
    """

    rows: int
    """N: rows of a call."""
    codebooks: int
    """CB."""
    centroids: int
    """K, 1 to 256."""
    features: int
    """F."""
    bits: int = 8
    """Bits of a table entry, 2 to 8; entries lie within ±(2^(bits-1) - 1)."""
    acc_low: int | None = None
    """The least sum that a lookup can give (`LutLayer.range`); None: the worst of CB and bits."""
    acc_high: int | None = None
    """The largest."""
    in_features: int | None = None
    """H; None: CB·V."""
    vec: int | None = None
    """V; None where nothing depends on it (the search, and the int8 product, do)."""
    activation: int | None = None
    """The largest magnitude of an activation of an int8 product; None: a layer of tables."""

    def __post_init__(self) -> None:
        for name in ("rows", "codebooks", "centroids", "features"):
            if getattr(self, name) < 1:
                raise CompileError(f"a layer of tables with {name} = {getattr(self, name)}")
        if self.centroids > 256:
            raise CompileError(f"{self.centroids} centroids; an index is one byte, 1 to 256")
        if not 2 <= self.bits <= 8:
            raise CompileError(f"table entries of {self.bits} bits; the kernels take 2 to 8")
        if self.vec is not None and self.vec < 1:
            raise CompileError(f"codebooks of {self.vec} channels; at least one is needed")
        if self.activation is not None and (
            not 1 <= self.activation <= LIMIT or self.centroids != 1
        ):
            raise CompileError(
                f"a product of activations up to {self.activation} with {self.centroids} rows of "
                f"weights an input; activations of 1 to {LIMIT} and one row are needed"
            )

    @classmethod
    def of(cls, layer: LutLayer, rows: int) -> LutShape:
        """The shape of a converted layer for calls of `rows` rows."""
        low, high = layer.range
        return cls(
            rows,
            layer.codebooks,
            layer.centroids_per_codebook,
            layer.out_features,
            layer.bits,
            low,
            high,
            layer.in_features,
            layer.vec,
        )

    @classmethod
    def of_product(cls, layer: Int8Layer, rows: int) -> LutShape:
        """The shape of an int8 product for calls of `rows` rows."""
        low, high = layer.range
        inputs = layer.in_features
        return cls(rows, inputs, 1, layer.out_features, 8, low, high, inputs, 1, LIMIT)

    @property
    def is_product(self) -> bool:
        """Whether this is an int8 product."""
        return self.activation is not None

    @property
    def term(self) -> int:
        """The largest magnitude that one codebook, or one input, adds to a sum."""
        return table_limit(self.bits) * (self.activation or 1)

    @property
    def low(self) -> int:
        """The least sum, by the table's bound or else by the worst case."""
        return -self.term * self.codebooks if self.acc_low is None else self.acc_low

    @property
    def high(self) -> int:
        """The largest sum."""
        return self.term * self.codebooks if self.acc_high is None else self.acc_high

    @property
    def bias(self) -> int:
        """What is added to an entry so that it is stored unsigned: 2^(bits-1)."""
        return 1 << (self.bits - 1)

    @property
    def max_entry(self) -> int:
        """The largest stored entry: 2^bits - 1."""
        return (1 << self.bits) - 1

    @property
    def inputs(self) -> int:
        """H."""
        if self.in_features is not None:
            return self.in_features
        return self.codebooks * (self.vec or 1)


def lane_limit(variant: Variant, max_entry: int) -> int:
    """
    How many stored entries can be added in one lane: ⌊65535/max⌋ in 16 bits, ⌊255/max⌋ in the
    8-bit lanes that come first in `swar8`; for `scalar32` ⌊(2^31 - 1)/max⌋. For `int8` how many
    products of two bytes fit 32 bits.
    """
    if variant == "int8":
        return (2**31 - 1) // LIMIT**2
    return {"scalar32": 2**31 - 1, "swar16": 65535, "swar8": 255}[variant] // max_entry


@dataclass(frozen=True)
class Mapping:
    """
    One layer on DPUs.

    **Over DPUs.** ip·lp·split_cb DPUs. DPU (i, s, j), number (i·split_cb + s)·lp + j, has rows
    [i·N_s, (i+1)·N_s), columns [j·F_s, (j+1)·F_s) and codebooks [s·C_s, (s+1)·C_s), where
    N_s = ⌈N/ip⌉, F_s = ⌈F/lp⌉ up to a multiple of f_l, C_s = ⌈CB/split_cb⌉ up to a multiple of
    `UNROLL`. What lies past N, F and CB is padding: index 0, entry 0 (stored as `bias` in the SWAR
    variants), results dropped by the host. With split_cb > 1 the host adds the partial sums. The
    ip row groups are cut into `groups` equal parts of whole ranks that transfer and run in turn.

    **In MRAM.** Each array is 8-aligned.
    Table: [F_s/f_l][C_s][K][f_l] bytes, signed for `scalar32` and `int8`, else biased by
    2^(bits-1); so a
    sub-tile of codebooks is one run, and so is a row of f_l entries.
    Indices: for each c tile, N_s rows of `pitch(c)` bytes, the tile's indices in `idx_bits` each,
    up to a multiple of 8 bytes. 4 bits: the even codebook in the low half of a byte. 16 bits: the
    byte offset index·f_l. Tile ct starts at ct·N_s·pitch(c_m); the last one may be narrower.
    Output: for each f tile, N_s rows of f·w bytes, w = 4 for i32 and 2 for i16; tile ft starts at
    ft·N_s·f_m·w; the last one may be narrower.

    **In a DPU.** Loops over n tiles of n_m rows, f tiles of f_m columns and c tiles of c_m
    codebooks, nested by `order`, outermost first; the last tile of each is what is left. A loop of
    one turn is not there. What is moved for a tile is moved in the body of the innermost loop that
    it depends on: indices on n and c, the output on n and f, a coarse sub-tile on f and c if it is
    the whole of its tile (f_l = f_m and c_l = c_m), otherwise always inside the tile.
    Rows of a tile are dealt to tasklets in runs of ⌈n/T⌉; each tasklet moves the indices and the
    output of its own rows, in requests of up to 2048 bytes.
    A tile is a loop over its f_m/f_l sub-tiles of columns, and in it over c_m/c_l sub-tiles of
    codebooks (the last one may have fewer, always a multiple of `UNROLL`):
      load = static: the DPU's whole table is in WRAM, moved once a launch by all tasklets
                     together, then a barrier;
             coarse: barrier, all tasklets move c_l·K·f_l bytes together in requests dealt in turn,
                     barrier;
             fine:   nothing here; each index moves its f_l bytes to a buffer of the tasklet;
             (an `int8` product, whose rows all use the same weights, is static or coarse)
      then for each of its rows a tasklet adds c_l entries in f_l columns in registers, `UNROLL`
      codebooks a turn, and flushes them to the output tile in WRAM: stored where it is the first
      sub-tile of codebooks of all, added where it is not.
    Variants: `scalar32` one 32-bit register a column; `swar16` two words of 16-bit lanes for four
    columns, so c_l is at most ⌊65535/(2^bits - 1)⌋; `swar8` adds up to ⌊255/(2^bits - 1)⌋ entries
    in 8-bit lanes first, then as `swar16`. The flush takes off bias·c_l. `int8`, the one variant
    of int8 products, multiplies the bytes of activations, which stand where indices of 8 bits
    would, with weights, for `ROWS_AT_ONCE` rows at a time so that these load a weight once.
    The output tile and what is read back and written again, where the loop over c tiles is not
    inside those of n and f, have the width of `out`: sums of 16 bits wrap around and
    end right, because the final one fits.

    **residency**: `resident` tables are put into MRAM once and stay; `per_call` ones are sent with
    every call.
    """

    ip: int
    lp: int
    n_m: int
    f_m: int
    c_m: int
    f_l: int
    c_l: int
    order: Order = "nfc"
    load: Load = "coarse"
    tasklets: int = 16
    variant: Variant = "swar16"
    idx_bits: int = 8
    out: Out = "i32"
    residency: Residency = "resident"
    groups: int = 1
    split_cb: int = 1

    @property
    def dpus(self) -> int:
        """DPUs in use."""
        return self.ip * self.lp * self.split_cb

    @property
    def out_bytes(self) -> int:
        """w: bytes of a sum."""
        return 4 if self.out == "i32" else 2

    def with_(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        return replace(self, **changes)

    def __str__(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in asdict(self).items())

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        The inverse of `str`; fields with a default may be left out.

        Raises CompileError for an unknown field, a value out of its set, or a field missing.
        """
        given = parse_fields(text)
        missing = [name for name in ("ip", "lp", "n_m", "f_m", "c_m", "f_l", "c_l")]
        missing = [name for name in missing if name not in given]
        if missing:
            raise CompileError(f"mapping '{text}': {', '.join(missing)} not given")
        return cls(**given)


FIELDS: tuple[str, ...] = tuple(f.name for f in fields(Mapping))
"""The fields of a mapping in the order of its text."""

_CHOICES: Dict[str, tuple[str, ...]] = {
    "order": ORDERS,
    "load": LOADS,
    "variant": VARIANTS,
    "out": OUTS,
    "residency": RESIDENCIES,
}


def parse_fields(text: str) -> dict[str, Any]:
    """
    Some fields of a mapping from `name=value, name=value, ...`; they are those a user fixes.

    Raises CompileError for an unknown field, one given twice, or a value out of its set.
    """
    found: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in text.replace(",", " ").split())):
        name, equals, value = item.partition("=")
        if not equals or name not in FIELDS:
            raise CompileError(
                f"mapping: '{item}' is no field with a value; fields: {', '.join(FIELDS)}"
            )
        if name in found:
            raise CompileError(f"mapping: {name} is given twice")
        if name in _CHOICES:
            if value not in _CHOICES[name]:
                raise CompileError(
                    f"mapping: {name}={value}; it is one of {', '.join(_CHOICES[name])}"
                )
            found[name] = value
        else:
            if not value.isdecimal() or int(value) < 1:
                raise CompileError(f"mapping: {name}={value}; a positive number is needed")
            found[name] = int(value)
    return found


@dataclass(frozen=True)
class Loop:
    """A loop over tiles: `n`, `f` or `c`, how many turns, full tiles of `tile`, the last `last`."""

    axis: str
    turns: int
    tile: int
    last: int


@dataclass(frozen=True)
class Geometry:
    """What follows from a mapping for a shape; sizes are of one DPU unless they say otherwise."""

    shape: LutShape
    mapping: Mapping

    @property
    def rows(self) -> int:
        """N_s."""
        return ceil(self.shape.rows / self.mapping.ip)

    @property
    def features(self) -> int:
        """F_s, a multiple of f_l."""
        return up_to_multiple(ceil(self.shape.features / self.mapping.lp), self.mapping.f_l)

    @property
    def codebooks(self) -> int:
        """C_s, a multiple of `UNROLL`."""
        return up_to_multiple(ceil(self.shape.codebooks / self.mapping.split_cb), UNROLL)

    def axis(self, name: str) -> Loop:
        """The tiles along an axis; one turn means that there is no loop."""
        m = self.mapping
        size, tile = {
            "n": (self.rows, m.n_m),
            "f": (self.features, m.f_m),
            "c": (self.codebooks, m.c_m),
        }[name]
        tile = min(tile, size)
        turns = ceil(size / tile)
        return Loop(name, turns, tile, size - (turns - 1) * tile)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops that are there, outermost first."""
        return tuple(loop for a in self.mapping.order if (loop := self.axis(a)).turns > 1)

    def depth(self, axes: str) -> int:
        """How many of `loops` enclose what depends on these axes."""
        return max((i + 1 for i, loop in enumerate(self.loops) if loop.axis in axes), default=0)

    @property
    def table_hoisted(self) -> bool:
        """Whether a coarse sub-tile is its whole tile and so is moved outside loops over n."""
        return self.axis("f").tile <= self.mapping.f_l and self.axis("c").tile <= self.mapping.c_l

    @property
    def index_depth(self) -> int:
        """Loops around the move of indices."""
        return self.depth("nc")

    @property
    def output_depth(self) -> int:
        """Loops around the move of the output tile."""
        return self.depth("nf")

    @property
    def table_depth(self) -> int:
        """Loops around the move of a coarse sub-tile."""
        return self.depth("fc") if self.table_hoisted else len(self.loops)

    @property
    def partial(self) -> bool:
        """Whether output tiles are written, read back and written again."""
        inside = [loop.axis for loop in self.loops[: self.output_depth]]
        return "c" in inside

    def pitch(self, codebooks: int) -> int:
        """Bytes of a row of that many indices, a multiple of 8."""
        return up_to_multiple(ceil(codebooks * self.mapping.idx_bits / 8), 8)

    @property
    def rows_per_tasklet(self) -> int:
        """⌈n_m/T⌉ of a full tile."""
        return ceil(self.axis("n").tile / self.mapping.tasklets)

    @property
    def table_bytes(self) -> int:
        """The table in MRAM."""
        return up_to_multiple(self.features * self.codebooks * self.shape.centroids, 8)

    @property
    def index_bytes(self) -> int:
        """The indices in MRAM."""
        c = self.axis("c")
        return self.rows * ((c.turns - 1) * self.pitch(c.tile) + self.pitch(c.last))

    @property
    def output_bytes(self) -> int:
        """The sums in MRAM."""
        return up_to_multiple(self.rows * self.features * self.mapping.out_bytes, 8)

    @property
    def mram_bytes(self) -> int:
        """All three."""
        return self.table_bytes + self.index_bytes + self.output_bytes

    @property
    def wram_buffers(self) -> dict[str, int]:
        """Bytes of each buffer in WRAM, each a multiple of 8; of a tasklet's, times tasklets."""
        m, k = self.mapping, self.shape.centroids
        rows = self.rows_per_tasklet * m.tasklets
        f, c = self.axis("f").tile, self.axis("c").tile
        table = {
            "static": self.table_bytes,
            "coarse": min(m.c_l, c) * k * m.f_l,
            "fine": m.tasklets * up_to_multiple(m.f_l, 8),
        }[m.load]
        return {
            "index tile": rows * self.pitch(c),
            "output tile": rows * f * m.out_bytes,
            "table": up_to_multiple(table, 8),
        }
