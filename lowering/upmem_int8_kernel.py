"""
The innermost loop of an int8 product on a DPU, as a readable C function.

DPUs multiply two bytes in one cycle, and UPMEM's compiler takes that instruction where both
operands are provably bytes: here they are loaded as `int8_t` (MUL8 of the DPU target in
upmem/llvm-project; any other product is a call of up to 32 steps). A row alone costs a load, a
product and an addition for each multiply-add; two rows together load a weight once.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.upmem_mapping import ROWS_AT_ONCE, UNROLL, Out
from ..errors import CompileError

PRELUDE = """\
/*
 * Adds to a sum in its register. Compilers may add products of several turns to each other first,
 * and then have more numbers than a DPU has registers.
 */
static inline int32_t add_product(int32_t sum, int8_t a, int8_t b)
{
    sum += (int32_t)a * b;
    __asm__("" : "+r"(sum));
    return sum;
}
"""
"""C that all kinds use."""


@dataclass(frozen=True)
class Int8Kernel:
    """One kind of innermost loop; two ops of the same kind share a function."""

    columns: int
    """f_l, a multiple of 4."""
    out: Out

    def __post_init__(self) -> None:
        if self.columns < 4 or self.columns % 4:
            raise CompileError(f"an int8 product of {self.columns} columns; a multiple of 4 works")

    @property
    def name(self) -> str:
        """The C function's name, `multiply_int8_8_i32`."""
        return f"multiply_int8_{self.columns}_{self.out}"

    @property
    def sum_type(self) -> str:
        """The C type of an element of the output tile."""
        return "int32_t" if self.out == "i32" else "int16_t"

    def text(self) -> str:
        """The functions: rows that go together, one row, and as many as there are."""
        return "\n".join([self._rows(ROWS_AT_ONCE), self._rows(1), self._all()])

    def _rows(self, rows: int) -> str:
        numbers = range(rows)
        what = "One row" if rows == 1 else f"{rows} rows"
        lines = [
            f"/* {what}, {self.columns} columns: products of bytes, one register a sum. */",
            f"static inline void {self.name}_x{rows}(",
            f"    {self.sum_type} *sums, uint32_t sums_pitch, const int8_t *a0, uint32_t pitch,",
            "    const int8_t *weights, uint32_t count, bool first)",
            "{",
            "    const int8_t *end = a0 + count;",
            *(f"    const int8_t *a{r} = a{r - 1} + pitch;" for r in numbers[1:]),
            *(f"    int32_t sum{r}[{self.columns}] = {{0}};" for r in numbers),
            "    do {",
            "        #pragma unroll",
            f"        for (unsigned u = 0; u < {UNROLL}; u++) {{",
            "            #pragma unroll",
            f"            for (unsigned f = 0; f < {self.columns}; f++) {{",
            f"                const int8_t weight = weights[{self.columns} * u + f];",
            *(
                f"                sum{r}[f] = add_product(sum{r}[f], a{r}[u], weight);"
                for r in numbers
            ),
            "            }",
            "        }",
            *(f"        a{r} += {UNROLL};" for r in numbers),
            f"        weights += {UNROLL * self.columns};",
            "    } while (a0 != end);",
            f"    for (unsigned f = 0; f < {self.columns}; f++) {{",
        ]
        for r in numbers:
            at = "f" if r == 0 else f"{r} * sums_pitch + f"
            lines.append(
                f"        sums[{at}] = ({self.sum_type})((first ? 0 : sums[{at}]) + sum{r}[f]);"
            )
        lines.append("    }")
        if rows == 1:
            lines.append("    (void)pitch, (void)sums_pitch;")
        return "\n".join([*lines, "}", ""])

    def _all(self) -> str:
        most, name = ROWS_AT_ONCE, self.name
        step = f"row += {most} * pitch, sums += {most} * sums_pitch, rows -= {most}"
        arguments = "sums, sums_pitch, row, pitch, (const int8_t *)weights, count, first"
        lines = [
            f"/* {self.columns} columns of some rows, {most} at a time; pitches are in bytes. */",
            f"static inline void {name}(",
            f"    {self.sum_type} *sums, uint32_t sums_pitch, const uint8_t *activations,",
            "    uint32_t pitch, uint32_t rows, const uint8_t *weights, uint32_t count, "
            "bool first)",
            "{",
            "    const int8_t *row = (const int8_t *)activations;",
            f"    sums_pitch /= sizeof({self.sum_type});",
            f"    for (; rows >= {most}; {step})",
            f"        {name}_x{most}({arguments});",
            "    for (; rows != 0; row += pitch, sums += sums_pitch, rows--)",
            f"        {name}_x1({arguments});",
            "}",
            "",
        ]
        return "\n".join(lines)
