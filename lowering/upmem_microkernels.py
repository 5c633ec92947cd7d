"""
The innermost loop of a layer of tables on a DPU: one readable C function for each kind.

A call adds, for one row, the entries of `count` codebooks in f_l columns, and flushes the sums to
the output tile in WRAM. What lies where is said by `Mapping` in `analysis/upmem_mapping.py`.

Additions in lanes (`swar16`): entries are stored as q + 2^(bits-1), so a word holds four
non-negative bytes, and two 32-bit registers hold the sums of four columns without a carry from
one into the next:

    even += word & 0x00FF00FF          columns 0 and 2, in 16 bits each
    rest += word >> 8                  column 1 + 256·column 2 + 65536·column 3

The sums of columns 1 and 3 are what is left of `rest` without 256·(sum of column 2), modulo 2^32;
each fits 16 bits, so the result is exact. Three instructions a word on a DPU, which shifts and
adds in one. `swar8` first adds a few words of 5- or 6-bit entries as bytes, then once in lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.upmem_mapping import UNROLL, Load, Out, Variant, lane_limit
from ..errors import CompileError

EVEN_LANES = "0x00FF00FFu"


@dataclass(frozen=True)
class MicroKernel:
    """One kind of innermost loop; two ops of the same kind share a function."""

    variant: Variant
    columns: int
    """f_l, a multiple of 4 (8 where rows are moved one by one)."""
    centroids: int
    """K."""
    bits: int
    idx_bits: int
    out: Out
    load: Load
    """`fine` moves each row from MRAM; the others find the table in WRAM."""

    def __post_init__(self) -> None:
        if self.columns % 4 or (self.load == "fine" and self.columns % 8):
            raise CompileError(f"a micro-kernel of {self.columns} columns; a multiple of 8 works")
        if self.variant == "swar8" and self._batch < 2:
            raise CompileError(
                f"swar8 adds bytes before it widens them; {self.bits}-bit entries leave no room, "
                "swar16 works"
            )
        if self.idx_bits == 4 and self.centroids > 16:
            raise CompileError(f"{self.centroids} centroids do not fit indices of 4 bits")

    @property
    def name(self) -> str:
        """The C function's name, `add_swar16_8x16_k16_u8_i32`."""
        fine = "_fine" if self.load == "fine" else ""
        return (
            f"add_{self.variant}_{self.columns}_k{self.centroids}_b{self.bits}"
            f"_u{self.idx_bits}_{self.out}{fine}"
        )

    @property
    def sum_type(self) -> str:
        """The C type of an element of the output tile."""
        return "int32_t" if self.out == "i32" else "int16_t"

    @property
    def _batch(self) -> int:
        """Codebooks whose words are added as bytes first."""
        limit = lane_limit(self.variant, (1 << self.bits) - 1)
        return next(n for n in (8, 4, 2, 1) if n <= limit)

    @property
    def _words(self) -> int:
        return self.columns // 4

    def text(self) -> str:
        """The function, with what it says of itself above."""
        body = self._scalar() if self.variant == "scalar32" else self._lanes()
        where = "const __mram_ptr uint8_t *" if self.load == "fine" else "const uint8_t *"
        buffer = ", uint8_t *buffer" if self.load == "fine" else ""
        return "\n".join(
            [
                f"/* {self._comment()} */",
                f"static inline void {self.name}(",
                f"    {self.sum_type} *sums, const uint8_t *index, {where}table{buffer},",
                "    uint32_t count, bool first)",
                "{",
                *(f"    {line}" if line else "" for line in body),
                "}",
                "",
            ]
        )

    def _comment(self) -> str:
        kind = {
            "scalar32": "one register a column",
            "swar16": "two 16-bit lanes a register",
            "swar8": f"{self._batch} codebooks as bytes, then two 16-bit lanes a register",
        }[self.variant]
        rows = ", rows moved one by one" if self.load == "fine" else ""
        return (
            f"One row, {self.columns} columns, {self.centroids} centroids of {self.bits} bits: "
            f"{kind}{rows}."
        )

    def _index(self, u: str) -> str:
        """The C expression of the offset of index number `u` of the turn, in bytes of a table."""
        if self.idx_bits == 16:
            return f"((const uint16_t *)index)[{u}]"
        value = f"index[{u}]"
        if self.idx_bits == 4:
            value = f"(index[{u} / 2] >> (4 * ({u} % 2)) & 15u)"
        if self.columns & (self.columns - 1) == 0:
            return f"((uint32_t){value} << {self.columns.bit_length() - 1})"
        return f"(uint32_t){value} * {self.columns}u"

    def _row(self, u: str) -> list[str]:
        """Lines that make `row` point at the entries of codebook `u` of the turn."""
        stride = self.centroids * self.columns
        pointee = "int8_t" if self.variant == "scalar32" else "uint32_t"
        offset = f"const uint32_t offset = {u} * {stride}u + {self._index(u)};"
        if self.load == "fine":
            return [
                offset,
                f"mram_read(table + offset, buffer, {self.columns}u);",
                f"const {pointee} *row = (const {pointee} *)buffer;",
            ]
        return [offset, f"const {pointee} *row = (const {pointee} *)(table + offset);"]

    def _step(self, turns: int) -> list[str]:
        """The end of a turn: the next `turns` codebooks."""
        bytes_ = turns * self.idx_bits // 8
        return [f"index += {bytes_};", f"table += {turns * self.centroids * self.columns};"]

    def _loop(self, turns: int, body: list[str]) -> list[str]:
        return [
            f"const uint8_t *end = index + {self._index_bytes('count')};",
            "do {",
            *(f"    {line}" for line in body),
            *(f"    {line}" for line in self._step(turns)),
            "} while (index != end);",
        ]

    def _index_bytes(self, count: str) -> str:
        return {4: f"({count} >> 1)", 8: count, 16: f"({count} << 1)"}[self.idx_bits]

    def _scalar(self) -> list[str]:
        body = [
            f"for (unsigned u = 0; u < {UNROLL}; u++) {{",
            *(f"    {line}" for line in self._row("u")),
            f"    for (unsigned f = 0; f < {self.columns}; f++)",
            "        sum[f] += row[f];",
            "}",
        ]
        return [
            f"int32_t sum[{self.columns}] = {{0}};",
            *self._loop(UNROLL, body),
            f"for (unsigned f = 0; f < {self.columns}; f++)",
            f"    sums[f] = ({self.sum_type})((first ? 0 : sums[f]) + sum[f]);",
        ]

    def _widen(self, word: str) -> list[str]:
        return [
            f"even[w] += {word} & {EVEN_LANES};",
            f"rest[w] += {word} >> 8;",
            # Not to be added to the next one first: two shifts would then meet in one addition.
            '__asm__("" : "+r"(rest[w]));',
        ]

    def _lanes(self) -> list[str]:
        flush = [
            f"const uint32_t bias = count << {self.bits - 1};",
            "#pragma unroll",
            f"for (unsigned w = 0; w < {self._words}; w++) {{",
            "    const uint32_t odd = rest[w] - (even[w] >> 16 << 8);",
            "    const uint32_t lanes[4] = {",
            "        even[w] & 0xFFFFu, odd & 0xFFFFu, even[w] >> 16, odd >> 16};",
            "    for (unsigned f = 0; f < 4; f++)",
            f"        sums[4 * w + f] = ({self.sum_type})"
            "((first ? 0u : (uint32_t)sums[4 * w + f]) + lanes[f] - bias);",
            "}",
        ]
        start = f"uint32_t even[{self._words}] = {{0}}, rest[{self._words}] = {{0}};"
        if self.variant == "swar16":
            return [start, *self._loop(UNROLL, self._single(UNROLL)), *flush]
        if self._batch <= UNROLL:
            return [start, *self._loop(UNROLL, self._batches(UNROLL)), *flush]
        # Eight at a time, and four where they are left: counts are multiples of four.
        pairs = f"const uint8_t *pairs = index + {self._index_bytes('(count & ~7u)')};"
        return [
            start,
            pairs,
            "while (index != pairs) {",
            *(f"    {line}" for line in self._bytes(8)),
            *(f"    {line}" for line in self._step(8)),
            "}",
            "if (count & 4u) {",
            *(f"    {line}" for line in self._bytes(4)),
            "}",
            *flush,
        ]

    def _single(self, turns: int) -> list[str]:
        return [
            # By itself clang leaves the loop over wide rows as it is.
            "#pragma unroll",
            f"for (unsigned u = 0; u < {turns}; u++) {{",
            *(f"    {line}" for line in self._row("u")),
            f"    for (unsigned w = 0; w < {self._words}; w++) {{",
            "        const uint32_t word = row[w];",
            *(f"        {line}" for line in self._widen("word")),
            "    }",
            "}",
        ]

    def _batches(self, turns: int) -> list[str]:
        """`turns` codebooks in batches that fit bytes."""
        if self._batch == turns:
            return self._bytes(turns)
        return [
            f"for (unsigned v = 0; v < {turns}; v += {self._batch}) {{",
            *(f"    {line}" for line in self._bytes(self._batch, "v + ")),
            "}",
        ]

    def _bytes(self, turns: int, first: str = "") -> list[str]:
        u = f"({first}u)" if first else "u"
        return [
            f"uint32_t bytes[{self._words}] = {{0}};",
            f"for (unsigned u = 0; u < {turns}; u++) {{",
            *(f"    {line}" for line in self._row(u)),
            f"    for (unsigned w = 0; w < {self._words}; w++)",
            "        bytes[w] += row[w];",
            "}",
            f"for (unsigned w = 0; w < {self._words}; w++) {{",
            *(f"    {line}" for line in self._widen("bytes[w]")),
            "}",
        ]
