"""
The HLS C++ kernel library against NumPy: floats, and mantissas bit for bit.

All cases are compiled into one program twice: with the bounded FIFOs of the simulation runtime, and
as for synthesis: arbitrary-precision integers throughout and the plain, unbounded `hls_stream.h` of
the ap_types headers.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import inr
import numpy as np
import pytest
from inr.runtime.toolchain import compile_program

HLS = Path(inr.__path__[0]) / "runtime" / "hls"


@dataclass(frozen=True)
class Fixed:
    """An ap_fixed type, and its conversion written down once more, in Python's integers."""

    width: int
    integer: int
    rounding: str = "RND"
    overflow: str = "SAT"

    @property
    def fraction(self) -> int:
        return self.width - self.integer

    @property
    def cpp(self) -> str:
        return f"ap_fixed<{self.width}, {self.integer}, AP_{self.rounding}, AP_{self.overflow}>"

    @property
    def word(self) -> type:
        return np.int32 if self.width <= 32 else np.int64

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Mantissas over the whole range, the two ends among them."""
        low, high = -(1 << (self.width - 1)), (1 << (self.width - 1)) - 1
        mantissas = rng.integers(low, high, size, endpoint=True)
        mantissas[:2] = [low, high][: len(mantissas[:2])]
        return mantissas.astype(object)

    def convert(self, mantissa: int, fraction: int) -> int:
        """Return the mantissa in this format of ``mantissa * 2**-fraction``."""
        drop = fraction - self.fraction
        if drop > 0:
            half = 1 << (drop - 1) if self.rounding == "RND" else 0
            mantissa = (mantissa + half) >> drop
        else:
            mantissa <<= -drop
        high = (1 << (self.width - 1)) - 1
        if self.overflow == "SAT":
            return min(max(mantissa, -high - 1), high)
        return (mantissa + high + 1) % (2 * high + 2) - high - 1


@dataclass(frozen=True)
class Float:
    """32-bit floats."""

    fraction = 0
    cpp = "float"
    word = np.float32

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.normal(size=size).astype(np.float32)

    def convert(self, value: float, fraction: int) -> float:
        assert fraction == 0
        return value


Element = Fixed | Float
FLOAT = Float()


@dataclass
class Port:
    """A stream of a case: its element, block size and number of elements."""

    element: Element
    block: int
    size: int


@dataclass
class Case:
    """A call of one kernel: ``i0``, ``i1``, ... and ``o0``, ``o1``, ... are its streams."""

    name: str
    call: str
    inputs: list[Port]
    outputs: list[Port]
    reference: Callable[..., Sequence[np.ndarray]]
    declarations: str = ""
    tolerance: Callable[..., Sequence[np.ndarray]] | None = None
    data: list[np.ndarray] = field(default_factory=list)


def case_function(number: int, case: Case) -> str:
    """The C++ function that reads the inputs of a case, runs it and writes its outputs."""
    lines = [case.declarations, f"static void case_{number}(const std::string& folder) {{"]
    ports = [("i", index, port) for index, port in enumerate(case.inputs)]
    ports += [("o", index, port) for index, port in enumerate(case.outputs)]
    for kind, index, port in ports:
        word = f"inr::detail::element<{port.element.cpp} >::word"
        lines.append(f"  std::vector<{word}> {kind}m{index}({port.size});")
        if kind == "i":
            lines.append(f'  load(folder + "/{number}.i{index}", im{index});')
    lines.append("  {")
    for kind, index, port in ports:
        block = f"inr::block<{port.element.cpp}, {port.block}>"
        lines.append(f"    STREAM({kind}{index}, {block});")
    lines.append(f'    INR_REGION("{case.name}");')
    for kind, index, port in ports:
        arguments = f"<{port.element.cpp}, {port.block}, {port.size}>"
        if kind == "i":
            call = f"inr::read{arguments}(im{index}.data(), i{index})"
            lines.append(f'    INR_PROCESS("read", {call});')
    lines.append(f'    INR_PROCESS("kernel", {case.call});')
    for kind, index, port in ports:
        arguments = f"<{port.element.cpp}, {port.block}, {port.size}>"
        if kind == "o":
            call = f"inr::write{arguments}(o{index}, om{index}.data())"
            lines.append(f'    INR_PROCESS("write", {call});')
    lines.append("  }")
    for index in range(len(case.outputs)):
        lines.append(f'  save(folder + "/{number}.o{index}", om{index});')
    lines.append("}\n")
    return "\n".join(lines)


PROLOGUE = r"""
#include <hls_stream.h>

#include "inr/kernels.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#ifdef INR_SIM
#define STREAM(name, ...) hls::stream<__VA_ARGS__, 2> name(#name)
#else
#define STREAM(name, ...) hls::stream<__VA_ARGS__ > name(#name)
#endif

template <class Word>
void load(const std::string& path, std::vector<Word>& words) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) std::abort();
  if (std::fread(words.data(), sizeof(Word), words.size(), file) != words.size()) std::abort();
  std::fclose(file);
}

template <class Word>
void save(const std::string& path, const std::vector<Word>& words) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) std::abort();
  std::fwrite(words.data(), sizeof(Word), words.size(), file);
  std::fclose(file);
}
"""


def program_text(cases: Sequence[Case]) -> str:
    text = PROLOGUE + "\n".join(case_function(n, case) for n, case in enumerate(cases))
    calls = "\n".join(f"  case_{number}(arguments[1]);" for number in range(len(cases)))
    return f"{text}\nint main(int, char** arguments) {{\n{calls}\n}}\n"


WARNINGS = ["-Wall", "-Wextra", "-Wno-unknown-pragmas"]
# The default constructors of ap_types read their own member.
WARNINGS += ["-Wno-uninitialized", "-Wno-maybe-uninitialized"]


# --- the cases -----------------------------------------------------------------------------------

NARROW = Fixed(9, 4)
WIDE = Fixed(20, 9, "TRN", "WRAP")
LONG = Fixed(40, 12)


def moved(element: Element, block: int, move: Callable[[np.ndarray], np.ndarray], **case) -> Case:
    """A case of one input and one output of which NumPy's `move` says what goes where."""
    size = case.pop("size")
    out_block = case.pop("out_block", block)
    out_size = move(np.zeros(size)).size
    return Case(
        inputs=[Port(element, block, size)],
        outputs=[Port(element, out_block, out_size)],
        reference=lambda x: [move(x).reshape(-1)],
        **case,
    )


def copy_cases() -> list[Case]:
    cases = []
    for element, block, outputs in [(FLOAT, 1, 2), (NARROW, 4, 3), (LONG, 2, 2)]:
        streams = ", ".join(f"o{i}" for i in range(outputs))
        cases.append(
            Case(
                name=f"copy_{outputs}",
                call=f"inr::copy<{element.cpp}, {block}, 24>(i0, {streams})",
                inputs=[Port(element, block, 24)],
                outputs=[Port(element, block, 24)] * outputs,
                reference=lambda x, outputs=outputs: [x] * outputs,
            )
        )
    return cases


@dataclass
class Product:
    """A matmul: operands and outputs by stream, and the constants."""

    m: int
    k: int
    n: int
    bin: int
    bout: int
    lanes_k: int
    lanes_n: int
    operands: list[Element]
    results: list[Element]
    weight: Element
    bias: Element | None = None
    bias_rows: int = 0  # 0: one row of bias for all streams
    accumulator: Fixed | None = None


def initializer(element: Element, values: np.ndarray) -> str:
    if values.ndim > 1:
        return "{" + ", ".join(initializer(element, row) for row in values) + "}"
    if isinstance(element, Float):
        return "{" + ", ".join(repr(float(v)) + "f" for v in values) + "}"
    return "{" + ", ".join(f"{v}LL" if v != -(1 << 63) else "INT64_MIN" for v in values) + "}"


def rom(element: Element, name: str, values: np.ndarray) -> str:
    word = "float" if isinstance(element, Float) else f"inr::rom<{element.width}>::type"
    extents = "".join(f"[{extent}]" for extent in values.shape)
    return f"static const {word} {name}{extents} = {initializer(element, values)};\n"


def accumulate(p: Product, a: np.ndarray, weights: np.ndarray, bias: np.ndarray, fraction: int):
    """One sum of products: mantissa and its fraction bits."""
    if p.accumulator is None:
        return sum((x * w for x, w in zip(a, weights, strict=True)), bias), fraction
    total = p.accumulator.convert(bias, fraction)
    for x, w in zip(a, weights, strict=True):
        total += p.accumulator.convert(x * w, fraction)
        total = p.accumulator.convert(total, p.accumulator.fraction)
    return total, p.accumulator.fraction


def product_reference(p: Product, weights: np.ndarray, bias: np.ndarray | None):
    def stream_bias(j: int, fraction: int) -> np.ndarray:
        if bias is None or (p.bias_rows and j >= p.bias_rows):
            return np.zeros(p.n, dtype=object)
        row = bias[j] if p.bias_rows else bias
        return row * (1 if isinstance(p.weight, Float) else 1 << (fraction - p.bias.fraction))

    def reference(*operands: np.ndarray) -> list[np.ndarray]:
        outputs = []
        for j, (a, source, target) in enumerate(zip(operands, p.operands, p.results, strict=True)):
            fraction = source.fraction + p.weight.fraction
            start = stream_bias(j, fraction)
            rows = a.reshape(p.m, p.k)
            if isinstance(source, Float):
                outputs.append(rows.astype(float) @ weights.astype(float) + start.astype(float))
                continue
            outputs.append(
                np.array(
                    [
                        target.convert(*accumulate(p, row, weights[:, n], start[n], fraction))
                        for row in rows
                        for n in range(p.n)
                    ],
                    dtype=object,
                )
            )
        return [output.reshape(-1) for output in outputs]

    return reference


def float_tolerance(p: Product, weights: np.ndarray, bias: np.ndarray | None):
    """A bound of the rounding errors of K products and sums in float."""

    def tolerance(*operands: np.ndarray) -> list[np.ndarray]:
        largest = 0.0 if bias is None else np.abs(bias).max()
        terms = [
            np.abs(a.reshape(p.m, p.k)).astype(float) @ np.abs(weights).astype(float) + largest
            for a in operands
        ]
        return [(p.k + 1) * 2.0**-24 * term.reshape(-1) for term in terms]

    return tolerance


def product_case(number: int, p: Product) -> Case:
    rng = np.random.default_rng(number)
    j = len(p.operands)
    weights = p.weight.sample(rng, p.k * p.n).reshape(p.k, p.n)
    declarations = rom(p.weight, f"weights_{number}", weights)
    types = p.weight.cpp
    roms = f"weights_{number}"
    bias = None
    if p.bias is not None:
        bias = p.bias.sample(rng, max(p.bias_rows, 1) * p.n)
        bias = bias.reshape(p.bias_rows, p.n) if p.bias_rows else bias
        declarations += rom(p.bias, f"bias_{number}", bias)
        types += f", {p.bias.cpp}"
        roms += f", bias_{number}"
    if p.accumulator is not None:
        types += f", {p.accumulator.cpp}"
    sizes = f"{j}, {p.m}, {p.k}, {p.n}, {p.bin}, {p.bout}, {p.lanes_k}, {p.lanes_n}"
    streams = ", ".join([f"i{i}" for i in range(j)] + [f"o{i}" for i in range(j)])
    return Case(
        name=f"matmul_{number}",
        call=f"inr::matmul<{sizes}, {types}>({roms}, {streams})",
        inputs=[Port(element, p.bin, p.m * p.k) for element in p.operands],
        outputs=[Port(element, p.bout, p.m * p.n) for element in p.results],
        reference=product_reference(p, weights, bias),
        declarations=declarations,
        tolerance=float_tolerance(p, weights, bias) if isinstance(p.weight, Float) else None,
    )


A27, W18 = Fixed(27, 9), Fixed(18, 2)
PRODUCTS = [
    Product(3, 4, 6, 1, 1, 1, 1, [FLOAT], [FLOAT], FLOAT),
    Product(3, 8, 4, 2, 4, 4, 4, [FLOAT, FLOAT], [FLOAT, FLOAT], FLOAT, FLOAT),
    Product(2, 8, 4, 4, 2, 2, 4, [FLOAT, FLOAT], [FLOAT, FLOAT], FLOAT, FLOAT, bias_rows=1),
    Product(2, 5, 3, 1, 1, 1, 3, [A27], [Fixed(27, 16)], W18, Fixed(27, 8)),
    Product(3, 8, 8, 2, 4, 2, 2, [A27, Fixed(20, 12), Fixed(24, 3)], [A27, Fixed(16, 9), NARROW],
            W18, Fixed(30, 6), bias_rows=2),
    Product(2, 8, 8, 4, 2, 1, 8, [A27, A27], [Fixed(27, 17), Fixed(20, 20, "TRN", "WRAP")], W18),
    Product(2, 6, 4, 2, 1, 3, 2, [Fixed(32, 10)], [Fixed(32, 12)], Fixed(32, 4)),
    Product(2, 6, 4, 2, 2, 3, 2, [Fixed(40, 10)], [LONG], Fixed(32, 4), Fixed(40, 2)),
    Product(1, 6, 1, 2, 1, 2, 1, [A27], [Fixed(27, 14)], W18, A27, bias_rows=1),
    Product(3, 8, 4, 2, 2, 2, 2, [Fixed(20, 6)], [Fixed(20, 9)], W18, Fixed(18, 4),
            accumulator=Fixed(22, 9, "TRN", "WRAP")),
    Product(3, 8, 4, 2, 2, 2, 2, [Fixed(20, 6), WIDE], [Fixed(20, 9), NARROW], W18,
            accumulator=Fixed(18, 7, "RND", "SAT")),
]  # fmt: skip


def memory_cases() -> list[Case]:
    """Between memory and a stream alone: the outermost words, and repeated constants."""
    cases = [
        moved(element, block, lambda x: x, name="reblock_same", size=16,
              call=f"inr::reblock<{element.cpp}, {block}, {block}, 16>(i0, o0)")
        for element, block in [(Fixed(32, 3), 2), (Fixed(33, 3), 1), (Fixed(64, 30), 4)]
    ]  # fmt: skip
    for number, (element, block, repeat) in enumerate([(FLOAT, 2, 3), (WIDE, 1, 1), (LONG, 4, 2)]):
        values = element.sample(np.random.default_rng(50 + number), 8)
        cases.append(
            Case(
                name=f"constant_{number}",
                call=f"inr::constant<{element.cpp}, {block}, {repeat}, 8>(constant_{number}, o0)",
                inputs=[],
                outputs=[Port(element, block, 8 * repeat)],
                reference=lambda values=values, repeat=repeat: [np.tile(values, repeat)],
                declarations=rom(element, f"constant_{number}", values),
            )
        )
    return cases


def reblock_cases() -> list[Case]:
    return [
        moved(element, bin, lambda x: x, size=24, out_block=bout, name=f"reblock_{bin}_{bout}",
              call=f"inr::reblock<{element.cpp}, {bin}, {bout}, 24>(i0, o0)")
        for element, bin, bout in [(FLOAT, 1, 4), (FLOAT, 4, 1), (NARROW, 2, 4), (NARROW, 12, 3)]
    ]  # fmt: skip


def broadcast_cases() -> list[Case]:
    cases = []
    for element, block, outer, repeat, inner in [
        (FLOAT, 1, 3, 4, 5),
        (NARROW, 2, 1, 3, 8),
        (NARROW, 4, 2, 2, 4),
        (FLOAT, 1, 6, 5, 1),
        (NARROW, 2, 4, 6, 1),
        (FLOAT, 4, 8, 4, 1),
    ]:
        shape = (outer, 1, inner)
        cases.append(
            moved(
                element,
                block,
                lambda x, shape=shape, repeat=repeat: np.repeat(x.reshape(shape), repeat, 1),
                name=f"broadcast_b{block}_{outer}_{repeat}_{inner}",
                size=outer * inner,
                call=f"inr::broadcast<{element.cpp}, {block}, {outer}, {repeat}, {inner}>(i0, o0)",
            )
        )
    return cases


def slice_cases() -> list[Case]:
    cases = []
    for element, block, outer, axis, inner, start, size, step in [
        (FLOAT, 1, 3, 7, 1, 1, 3, 2),
        (FLOAT, 1, 2, 5, 3, 0, 5, 1),
        (NARROW, 2, 2, 9, 4, 2, 3, 3),
        (NARROW, 4, 2, 12, 1, 4, 8, 1),
        (FLOAT, 2, 1, 4, 3, 2, 2, 1),
        (NARROW, 1, 4, 3, 2, 2, 1, 1),
    ]:
        arguments = f"{block}, {outer}, {axis}, {inner}, {start}, {size}, {step}"
        shape = (outer, axis, inner)
        taken = slice(start, start + (size - 1) * step + 1, step)
        cases.append(
            moved(
                element,
                block,
                lambda x, shape=shape, taken=taken: x.reshape(shape)[:, taken],
                name="slice_" + arguments.replace(", ", "_"),
                size=outer * axis * inner,
                call=f"inr::slice<{element.cpp}, {arguments}>(i0, o0)",
            )
        )
    return cases


def pad_cases() -> list[Case]:
    cases = []
    for element, block, outer, axis, inner, low, high in [
        (FLOAT, 1, 2, 3, 1, 1, 2),
        (NARROW, 2, 3, 2, 4, 0, 3),
        (NARROW, 4, 2, 8, 1, 4, 0),
        (FLOAT, 4, 1, 3, 4, 2, 1),
    ]:
        arguments = f"{block}, {outer}, {axis}, {inner}, {low}, {high}"
        shape = (outer, axis, inner)
        widths = [(0, 0), (low, high), (0, 0)]
        cases.append(
            moved(
                element,
                block,
                lambda x, shape=shape, widths=widths: np.pad(x.reshape(shape), widths),
                name="pad_" + arguments.replace(", ", "_"),
                size=outer * axis * inner,
                call=f"inr::pad<{element.cpp}, {arguments}>(i0, o0)",
            )
        )
    return cases


def transpose_cases() -> list[Case]:
    cases = []
    for element, block, outer, a, c, inner in [
        (FLOAT, 1, 1, 3, 5, 1),
        (NARROW, 2, 2, 3, 2, 4),
        (NARROW, 4, 1, 4, 8, 1),
        (FLOAT, 2, 3, 4, 2, 1),
        (FLOAT, 1, 2, 2, 3, 3),
    ]:
        arguments = f"{block}, {outer}, {a}, {c}, {inner}"
        shape = (outer, a, c, inner)
        cases.append(
            moved(
                element,
                block,
                lambda x, shape=shape: x.reshape(shape).swapaxes(1, 2),
                name="transpose_" + arguments.replace(", ", "_"),
                size=outer * a * c * inner,
                call=f"inr::transpose<{element.cpp}, {arguments}>(i0, o0)",
            )
        )
    return cases


def concat_cases() -> list[Case]:
    cases = []
    for target, sources, block, outer, inner, extents in [
        (FLOAT, [FLOAT, FLOAT], 1, 3, 1, [2, 1]),
        (FLOAT, [FLOAT], 4, 2, 4, [2]),
        (NARROW, [Fixed(16, 6), NARROW, Fixed(12, 1)], 2, 2, 2, [1, 2, 3]),
        (Fixed(11, 4, "TRN", "WRAP"), [WIDE, LONG], 4, 3, 1, [4, 8]),
    ]:
        shapes = [(outer, extent, inner) for extent in extents]

        def reference(*arrays, target=target, sources=sources, shapes=shapes):
            converted = [
                np.array([target.convert(v, source.fraction) for v in array], array.dtype)
                for array, source in zip(arrays, sources, strict=True)
            ]
            parts = [x.reshape(shape) for x, shape in zip(converted, shapes, strict=True)]
            return [np.concatenate(parts, 1).reshape(-1)]

        numbers = ", ".join(map(str, [block, outer, inner, *extents]))
        streams = ", ".join(f"i{index}" for index in range(len(sources)))
        cases.append(
            Case(
                name="concat_" + numbers.replace(", ", "_"),
                call=f"inr::concat<{target.cpp}, {numbers}>(o0, {streams})",
                inputs=[
                    Port(source, block, outer * extent * inner)
                    for source, extent in zip(sources, extents, strict=True)
                ],
                outputs=[Port(target, block, outer * inner * sum(extents))],
                reference=reference,
            )
        )
    return cases


def reduce_cases() -> list[Case]:
    cases = []
    for target, source, bin, bout, outer, axis, inner in [
        (FLOAT, FLOAT, 2, 2, 2, 5, 4),
        (FLOAT, FLOAT, 4, 1, 3, 8, 1),
        (NARROW, Fixed(12, 5), 1, 1, 2, 7, 3),
        (Fixed(14, 9), WIDE, 4, 4, 1, 6, 8),
        (WIDE, LONG, 2, 4, 8, 6, 1),
        (Fixed(64, 40), Fixed(64, 30), 1, 2, 4, 5, 1),
        (LONG, LONG, 1, 1, 3, 1, 1),
    ]:
        shape = (outer, axis, inner)

        def reference(x, target=target, source=source, shape=shape):
            sums = x.reshape(shape).sum(1).reshape(-1)
            if isinstance(target, Float):
                return [sums]
            return [np.array([target.convert(v, source.fraction) for v in sums], object)]

        def tolerance(x, shape=shape):
            magnitude = np.abs(x).astype(float).reshape(shape).sum(1).reshape(-1)
            return [2 * shape[1] * 2.0**-24 * magnitude]

        numbers = ", ".join(map(str, [bin, bout, *shape]))
        cases.append(
            Case(
                name="reduce_" + numbers.replace(", ", "_"),
                call=f"inr::reduce_sum<{target.cpp}, {source.cpp}, {numbers}>(i0, o0)",
                inputs=[Port(source, bin, outer * axis * inner)],
                outputs=[Port(target, bout, outer * inner)],
                reference=reference,
                tolerance=tolerance if isinstance(target, Float) else None,
            )
        )
    return cases


def dynamic_cases() -> list[Case]:
    cases = []
    for m, k, n, blocks, lanes, a, b, target in [
        (3, 4, 6, (1, 1, 1), (1, 1), FLOAT, FLOAT, FLOAT),
        (2, 8, 4, (4, 2, 2), (2, 4), A27, Fixed(24, 3), Fixed(27, 14)),
        (3, 6, 8, (2, 4, 4), (3, 2), Fixed(32, 4), Fixed(32, 8), NARROW),
    ]:
        shape = Product(m, k, n, blocks[0], blocks[2], *lanes, [a], [target], b)

        def reference(x, w, shape=shape):
            return product_reference(shape, w.reshape(shape.k, shape.n), None)(x)

        def tolerance(x, w, shape=shape):
            return float_tolerance(shape, w.reshape(shape.k, shape.n), None)(x)

        numbers = ", ".join(map(str, [m, k, n, *blocks, *lanes]))
        cases.append(
            Case(
                name="matmul_dynamic_" + numbers.replace(", ", "_"),
                call=f"inr::matmul_dynamic<{numbers}>(i0, i1, o0)",
                inputs=[Port(a, blocks[0], m * k), Port(b, blocks[1], k * n)],
                outputs=[Port(target, blocks[2], m * n)],
                reference=reference,
                tolerance=tolerance if isinstance(target, Float) else None,
            )
        )
    return cases


def all_cases() -> list[Case]:
    cases = memory_cases() + copy_cases() + reblock_cases() + broadcast_cases() + slice_cases()
    cases += pad_cases() + transpose_cases() + concat_cases() + reduce_cases() + dynamic_cases()
    cases += [product_case(number, product) for number, product in enumerate(PRODUCTS)]
    for number, case in enumerate(cases):
        rng = np.random.default_rng(1000 + number)
        case.data = [port.element.sample(rng, port.size) for port in case.inputs]
    return cases


CASES = all_cases()


@dataclass
class Builds:
    """Folders in which each build of the program has left the outputs of all cases."""

    bounded: Path
    plain: Path


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    folder = tmp_path_factory.mktemp("kernels")
    # Without contraction a float product is rounded before it is added, whatever the machine.
    source, options = {"program.cpp": program_text(CASES)}, ["-ffp-contract=off", *WARNINGS]
    bounded = compile_program(source, *options, "-O1", f"-I{HLS / 'sim'}")
    plain = compile_program(source, *options, "-O0", "-DINR_EXACT_WIDTHS")
    folders = []
    for program in (bounded, plain):
        here = folder / (program.name + "_data")
        here.mkdir()
        for number, case in enumerate(CASES):
            for index, (port, values) in enumerate(zip(case.inputs, case.data, strict=True)):
                values.astype(port.element.word).tofile(here / f"{number}.i{index}")
        ended = subprocess.run(
            [str(program), str(here)], capture_output=True, text=True, check=False, timeout=60
        )
        assert ended.returncode == 0, ended.stderr
        # The plain stream says when it is read while empty or left with tokens.
        assert "WARNING" not in ended.stdout
        folders.append(here)
    return Builds(*folders)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_kernel(builds: Builds, number: int):
    case = CASES[number]
    expected = case.reference(*case.data)
    assert len(expected) == len(case.outputs)
    bounds = case.tolerance(*case.data) if case.tolerance else [None] * len(expected)
    for index, (port, values, bound) in enumerate(zip(case.outputs, expected, bounds, strict=True)):
        outputs = [
            np.fromfile(folder / f"{number}.o{index}", port.element.word)
            for folder in (builds.bounded, builds.plain)
        ]
        np.testing.assert_array_equal(*outputs)
        if bound is None:
            np.testing.assert_array_equal(outputs[0], values.astype(port.element.word))
            continue
        assert np.all(np.abs(outputs[0] - values) <= bound)


def test_the_cases_round_and_saturate():
    """The data reach both ends of a conversion, so that the comparison above means something."""
    (case,) = [case for case in CASES if case.name == "matmul_4"]
    results = dict(zip(["wide", "middle", "narrow"], case.reference(*case.data), strict=True))
    high = (1 << (NARROW.width - 1)) - 1
    assert {high, -high - 1} <= set(results["narrow"])
    assert len(set(results["narrow"]) - {high, -high - 1}) > 2
