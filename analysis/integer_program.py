"""
Straight-line integer programs: one description, two renderings.

A math kernel is written once, as a sequence of integer operations whose ranges
are inferred as it is built. `evaluate` runs it on NumPy arrays and `cpp` prints
it as C++, with every variable just wide enough for its range; so the model and
the hardware are equal by construction, and the operand widths of the
multiplications are known exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .fixed import Mantissas

Operation = Literal[
    "input",
    "constant",
    "add",
    "subtract",
    "multiply",
    "shift_left",
    "shift_right",
    "shift_right_by",
    "low_bits",
    "less",
    "select",
    "clamp",
    "saturate",
    "lookup",
]

_EXACT_BITS = 64
"""Signed bits of an int64."""


def signed_bits(low: int, high: int) -> int:
    """Bits of the smallest two's complement integer that holds `low` to `high`."""
    return max(high.bit_length(), (~low).bit_length() if low < 0 else 0) + 1


@dataclass(eq=False)
class Value:
    """A variable of a program; every value it takes lies in [low, high]."""

    name: str
    low: int
    high: int

    @property
    def bits(self) -> int:
        """Width of the variable, sign included."""
        return signed_bits(self.low, self.high)


@dataclass(frozen=True, eq=False)
class Rom:
    """A constant table of integers."""

    name: str
    data: npt.NDArray[np.int64]

    @property
    def width(self) -> int:
        """Bits of an entry, sign included."""
        return signed_bits(int(self.data.min()), int(self.data.max()))

    @property
    def bits(self) -> int:
        """Size of the table."""
        return self.width * self.data.size


@dataclass(frozen=True, eq=False)
class Instruction:
    """`result = operation(arguments, *parameters)`, and the comment that precedes it."""

    result: Value
    operation: Operation
    arguments: tuple[Value, ...]
    parameters: tuple[int, ...]
    rom: Rom | None
    comment: str


@dataclass
class Program:
    """
    A program under construction. Each method appends one operation and returns its
    result; operations that change nothing (a shift by zero, a clamp that cannot act)
    return their operand.
    """

    instructions: list[Instruction] = field(default_factory=list[Instruction])
    outputs: list[Value] = field(default_factory=list[Value])
    roms: list[Rom] = field(default_factory=list[Rom])
    _comment: str = ""

    def comment(self, text: str) -> None:
        """Put `text` before the next operation in the C++."""
        self._comment = text

    def named(self, name: str, value: Value) -> Value:
        """The same value, called `name` (or `name_2`, ...) in the C++."""
        if value.name.startswith("t"):
            taken = {i.result.name for i in self.instructions}
            suffixes = itertools.chain([""], (f"_{n}" for n in itertools.count(2)))
            value.name = next(name + s for s in suffixes if name + s not in taken)
        return value

    def input(self, name: str, low: int, high: int) -> Value:
        """A variable given from outside."""
        return self._append("input", (), low, high, name=name)

    def constant(self, value: int) -> Value:
        """A literal."""
        return self._append("constant", (), value, value, (value,))

    def add(self, a: Value, b: Value) -> Value:
        """a + b"""
        return self._append("add", (a, b), a.low + b.low, a.high + b.high)

    def subtract(self, a: Value, b: Value) -> Value:
        """a - b"""
        return self._append("subtract", (a, b), a.low - b.high, a.high - b.low)

    def negate(self, a: Value) -> Value:
        """-a"""
        return self.subtract(self.constant(0), a)

    def multiply(self, a: Value, b: Value) -> Value:
        """a * b"""
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return self._append("multiply", (a, b), min(ends), max(ends))

    def shift(self, a: Value, left: int) -> Value:
        """a * 2**left, toward minus infinity where `left` is negative."""
        if left == 0:
            return a
        if left > 0:
            return self._append("shift_left", (a,), a.low << left, a.high << left, (left,))
        # A longer shift leaves the same as one by all bits but the sign.
        right = min(-left, a.bits - 1)
        return self._append("shift_right", (a,), a.low >> right, a.high >> right, (right,))

    def shift_right_by(self, a: Value, amount: Value) -> Value:
        """a >> amount; the amount must lie in [0, 63]."""
        if not 0 <= amount.low <= amount.high <= 63:
            raise ValueError(f"shift amount in [{amount.low}, {amount.high}], not within [0, 63]")
        ends = [x >> s for x in (a.low, a.high) for s in (amount.low, amount.high)]
        return self._append("shift_right_by", (a, amount), min(ends), max(ends))

    def round_shift(self, a: Value, right: int) -> Value:
        """a / 2**right rounded to nearest, halves upward; `right` may be negative or zero."""
        if right <= 0:
            return self.shift(a, -right)
        return self.shift(self.add(a, self.constant(1 << (right - 1))), -right)

    def low_bits(self, a: Value, count: int) -> Value:
        """The `count` lowest bits, as a number that is not negative."""
        mask = (1 << count) - 1
        if 0 <= a.low and a.high <= mask:
            return a
        return self._append("low_bits", (a,), 0, mask, (count,))

    def less(self, a: Value, b: Value) -> Value:
        """1 if a < b, else 0."""
        return self._append("less", (a, b), 0, 1)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` if the condition is not zero, else `b`."""
        low, high = min(a.low, b.low), max(a.high, b.high)
        return self._append("select", (condition, a, b), low, high)

    def clamp(self, a: Value, low: int, high: int) -> Value:
        """The nearest number to `a` in [low, high]."""
        if low <= a.low and a.high <= high:
            return a
        ends = min(max(a.low, low), high), min(max(a.high, low), high)
        return self._append("clamp", (a,), *ends, (low, high))

    def saturate(self, a: Value, low: int, high: int) -> Value:
        """A clamp that counts as an overflow, in simulation, where it acts."""
        if low <= a.low and a.high <= high:
            return a
        ends = min(max(a.low, low), high), min(max(a.high, low), high)
        return self._append("saturate", (a,), *ends, (low, high))

    def lookup(self, name: str, data: npt.NDArray[np.int64], index: Value) -> Value:
        """`data[index]`; a second read of the same name reads the same table."""
        rom = next((r for r in self.roms if r.name == name), None)
        if rom is None:
            rom = Rom(name, data)
            self.roms.append(rom)
        if not 0 <= index.low <= index.high < data.size:
            raise ValueError(f"{name}: index in [{index.low}, {index.high}] of {data.size} entries")
        return self._append("lookup", (index,), int(data.min()), int(data.max()), rom=rom)

    def _append(
        self,
        operation: Operation,
        arguments: tuple[Value, ...],
        low: int,
        high: int,
        parameters: tuple[int, ...] = (),
        name: str = "",
        rom: Rom | None = None,
    ) -> Value:
        result = Value(name or f"t{len(self.instructions)}", low, high)
        self.instructions.append(
            Instruction(result, operation, arguments, parameters, rom, self._comment)
        )
        self._comment = ""
        return result

    @property
    def multipliers(self) -> list[tuple[int, int]]:
        """Operand widths (sign included) of each multiplication."""
        return [
            (i.arguments[0].bits, i.arguments[1].bits)
            for i in self.live
            if i.operation == "multiply"
        ]

    @property
    def rom_bits(self) -> int:
        """Bits of all tables."""
        return sum(rom.bits for rom in self.live_roms)

    def evaluate(self, inputs: Mapping[str, npt.NDArray[np.int64]]) -> list[Mantissas]:
        """The outputs for arrays of inputs (one shape), int64."""
        results = self._run(inputs)
        shape = next(iter(inputs.values())).shape
        return [np.broadcast_to(results[o], shape).astype(np.int64) for o in self.outputs]

    def count_overflow(self, inputs: Mapping[str, npt.NDArray[np.int64]]) -> int:
        """How many times a `saturate` acts on arrays of inputs (one shape)."""
        results = self._run(inputs)
        shape = next(iter(inputs.values())).shape
        changed = [
            np.broadcast_to(results[i.result] != results[i.arguments[0]], shape)
            for i in self.live
            if i.operation == "saturate"
        ]
        return sum(int(np.count_nonzero(c)) for c in changed)

    def _run(self, inputs: Mapping[str, npt.NDArray[np.int64]]) -> dict[Value, Any]:
        """The value of every variable."""
        results: dict[Value, Any] = {}
        for i in self.instructions:
            if i.operation == "input":
                results[i.result] = inputs[i.result.name]
                continue
            wide = max(i.result.bits, *(a.bits for a in i.arguments), 1) > _EXACT_BITS
            arguments = [_as_object(results[a]) if wide else results[a] for a in i.arguments]
            value = _EVALUATE[i.operation](i, arguments)
            narrow = wide and i.result.bits <= _EXACT_BITS
            results[i.result] = np.asarray(value).astype(np.int64) if narrow else value
        return results

    def cpp_body(self, indent: str, inputs: Mapping[str, str]) -> str:
        """The tables and operations as C++ statements, given expressions for the inputs."""
        lines: list[str] = []
        for rom in self.live_roms:
            lines += _cpp_rom(rom, indent)
        for i in self.live:
            if i.comment:
                lines.append(f"{indent}// {i.comment}")
            if i.operation == "input":
                expression = inputs[i.result.name]
            else:
                expression = _CPP[i.operation](i, [self.cpp_operand(a) for a in i.arguments])
            declared = f"const inr::integer<{i.result.bits}>::type {i.result.name}"
            lines.append(f"{indent}{declared} = {expression};")
        return "\n".join(lines)

    def cpp_operand(self, value: Value) -> str:
        """A value in an expression: its name, or its number if it has only one."""
        return value.name if value.low != value.high else _cpp_literal(value.low)

    def uses(self, name: str) -> bool:
        """Whether an output depends on the input of this name."""
        return any(i.result.name == name for i in self.live)

    @property
    def live_roms(self) -> list[Rom]:
        """The tables that an output needs, in the order in which they were made."""
        read = {i.rom for i in self.live}
        return [rom for rom in self.roms if rom in read]

    @property
    def live(self) -> list[Instruction]:
        """The instructions that an output needs, in order."""
        needed = {v for v in self.outputs if v.low != v.high}
        for i in reversed(self.instructions):
            if i.result in needed:
                needed.update(a for a in i.arguments if a.low != a.high)
        return [i for i in self.instructions if i.result in needed]


def _as_object(array: Any) -> Any:
    return np.asarray(array).astype(object)


def _evaluate_lookup(i: Instruction, arguments: list[Any]) -> Any:
    assert i.rom is not None
    return i.rom.data[arguments[0]]


def _evaluate_select(i: Instruction, arguments: list[Any]) -> Any:
    condition, a, b = (np.asarray(x) for x in arguments)
    return np.where(condition != 0, a, b)


_EVALUATE: dict[Operation, Callable[[Instruction, list[Any]], Any]] = {
    "constant": lambda i, a: np.array(i.parameters[0]),
    "add": lambda i, a: a[0] + a[1],
    "subtract": lambda i, a: a[0] - a[1],
    "multiply": lambda i, a: a[0] * a[1],
    "shift_left": lambda i, a: a[0] << i.parameters[0],
    "shift_right": lambda i, a: a[0] >> i.parameters[0],
    "shift_right_by": lambda i, a: a[0] >> a[1],
    "low_bits": lambda i, a: a[0] & ((1 << i.parameters[0]) - 1),
    "less": lambda i, a: np.asarray(a[0] < a[1]).astype(np.int64),
    "select": _evaluate_select,
    "clamp": lambda i, a: np.minimum(np.maximum(a[0], i.parameters[0]), i.parameters[1]),
    "saturate": lambda i, a: np.minimum(np.maximum(a[0], i.parameters[0]), i.parameters[1]),
    "lookup": _evaluate_lookup,
}


def _cpp_literal(value: int) -> str:
    if value.bit_length() > 63:
        raise ValueError(f"{value} does not fit a literal of 64 bits")
    return f"{value}LL" if not -(1 << 31) < value < 1 << 31 else str(value)


def _cpp_template(name: str) -> Callable[[Instruction, list[str]], str]:
    """A call of a function template whose first parameter is the width of the result."""

    def render(i: Instruction, a: list[str]) -> str:
        return f"inr::{name}<{i.result.bits}>({', '.join(a)})"

    return render


def _cpp_bounds(name: str) -> Callable[[Instruction, list[str]], str]:
    """A call of clamp or saturate."""

    def render(i: Instruction, a: list[str]) -> str:
        low, high = (_cpp_literal(bound) for bound in i.parameters)
        return f"inr::{name}<{i.result.bits}>({a[0]}, {low}, {high})"

    return render


def _cpp_multiply(i: Instruction, a: list[str]) -> str:
    # A literal would count as an operand of 32 or 64 bits.
    operands = [
        text if v.low != v.high else f"inr::integer<{v.bits}>::type({text})"
        for v, text in zip(i.arguments, a, strict=True)
    ]
    return _cpp_template("multiply")(i, operands)


def _cpp_lookup(i: Instruction, a: list[str]) -> str:
    assert i.rom is not None
    return f"{i.rom.name}[int({a[0]})]"


_CPP: dict[Operation, Callable[[Instruction, list[str]], str]] = {
    "add": _cpp_template("add"),
    "subtract": _cpp_template("subtract"),
    "multiply": _cpp_multiply,
    "shift_left": lambda i, a: f"inr::shift_left<{i.result.bits}, {i.parameters[0]}>({a[0]})",
    "shift_right": lambda i, a: f"{a[0]} >> {i.parameters[0]}",
    "shift_right_by": lambda i, a: f"{a[0]} >> inr::shift_amount({a[1]})",
    "low_bits": lambda i, a: f"inr::low_bits<{i.parameters[0]}>({a[0]})",
    "less": lambda i, a: f"{a[0]} < {a[1]} ? 1 : 0",
    "select": lambda i, a: f"inr::select<{i.result.bits}>({a[0]} != 0, {a[1]}, {a[2]})",
    "clamp": _cpp_bounds("clamp"),
    "saturate": _cpp_bounds("saturate"),
    "lookup": _cpp_lookup,
}


def _cpp_rom(rom: Rom, indent: str) -> list[str]:
    """A table as an array of integers, as many on a line as fit in 100 columns."""
    numbers = [_cpp_literal(int(v)) for v in rom.data]
    lines = [f"{indent}static const inr::rom<{rom.width}>::type {rom.name}[{len(numbers)}] = {{"]
    return [*lines, *_wrapped(numbers, f"{indent}    "), f"{indent}}};"]


def _wrapped(numbers: Sequence[str], indent: str) -> list[str]:
    lines: list[str] = []
    line = indent
    for number in numbers:
        if len(line) + len(number) + 2 > 100:
            lines.append(line.rstrip())
            line = indent
        line += f"{number}, "
    return [*lines, line.rstrip().rstrip(",")]
