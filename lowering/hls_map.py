"""
The body of an `array_stream.map` as C++ statements.

One statement an operation. In fixed point the expression is exact and `inr::narrow` rounds it
once into the format the operation carries; in float it is the plain expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation, SSAValue

from ..analysis.fixed import Format, quantize
from ..analysis.formats import body_format
from ..analysis.kernels import sincos_kernel, unary_kernel
from ..dialects import array_stream, inr
from ..errors import reject
from ..interpreters.fixed_stream import UNARY_KERNELS
from .cpp_names import Names
from .hls_types import TypeNames, format_name

_INFIX: dict[type[Operation], str] = {arith.AddfOp: "+", arith.SubfOp: "-", arith.MulfOp: "*"}
_COMPARISON = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass
class Tables:
    """The function tables of a design, each once, under the name of its function and formats."""

    definitions: dict[str, str] = field(default_factory=dict[str, str])

    def unary(self, function: str, source: Format, target: Format) -> str:
        """The name of a table's C++ structure."""
        name = f"{function}_{format_name(source)}_{format_name(target)}"
        if name not in self.definitions:
            self.definitions[name] = unary_kernel(function, source, target).cpp(name)
        return name

    def sincos(self, phase: Format, target: Format) -> str:
        """The name of a joint sine and cosine table's C++ structure."""
        name = f"sincos_{format_name(phase)}_{format_name(target)}"
        if name not in self.definitions:
            self.definitions[name] = sincos_kernel(phase, target).cpp(name)
        return name


@dataclass
class BodyPrinter:
    """Prints the operations of one map's body; a value's C++ name is in `names`."""

    types: TypeNames
    tables: Tables
    floating: bool
    names: dict[SSAValue, str]
    taken: Names
    lines: list[str] = field(default_factory=list[str])

    def print(self, op: Operation) -> None:
        """
        Print one operation.

        Raises CompileError for an operation without a C++ form.
        """
        method = _METHODS.get(type(op))
        if method is not None:
            method(self, op)
        elif type(op) in UNARY_KERNELS:
            self.function(op)
        elif type(op) in _INFIX:
            a, b = self.operands(op)
            self.assign(op, f"{a} {_INFIX[type(op)]} {b}")
        else:
            raise reject(op, "no C++ form in a map's body")

    # Names and types.

    def operands(self, op: Operation) -> list[str]:
        """The C++ names of an operation's operands."""
        return [self.names[v] for v in op.operands]

    def declare(self, value: SSAValue, hint: str) -> str:
        """A name for a result."""
        name = self.taken.unique(value.name_hint or hint)
        self.names[value] = name
        return name

    def type_of(self, value: SSAValue) -> str:
        """The C++ type of a body value."""
        return "float" if self.floating else self.types.number(body_format(value))

    def narrowed(self, op: Operation, expression: str) -> str:
        """An exact expression in the format of an operation's result."""
        if self.floating:
            return expression
        return f"inr::narrow<{self.type_of(op.results[0])}>({expression})"

    def assign(self, op: Operation, expression: str, *, narrow: bool = True) -> None:
        """`const T name = expression;`"""
        value = op.results[0]
        shown = self.narrowed(op, expression) if narrow else expression
        name = self.declare(value, op.name.split(".")[-1].removesuffix("f"))
        self.lines.append(f"const {self.type_of(value)} {name} = {shown};")

    # Operations.

    def constant(self, op: Operation) -> None:
        assert isinstance(op, arith.ConstantOp)
        assert isinstance(op.value, FloatAttr)
        number = op.value.value.data
        value = op.result
        name = self.declare(value, "constant")
        kind = self.type_of(value)
        if self.floating:
            text = f"{float_literal(number)};"
        else:
            mantissa = int(quantize(number, body_format(value)))
            text = f"inr::from_raw<{kind}>({mantissa}LL);"
        self.lines.append(f"const {kind} {name} = {text}  // {number:.9g}")

    def negate(self, op: Operation) -> None:
        (a,) = self.operands(op)
        self.assign(op, f"-{a}")

    def absolute(self, op: Operation) -> None:
        (a,) = self.operands(op)
        if self.floating:
            self.assign(op, f"{a} < 0 ? -{a} : {a}")
            return
        negative, same = self.narrowed(op, f"-{a}"), self.narrowed(op, a)
        self.assign(op, f"{a} < 0 ? {negative} : {same}", narrow=False)

    def sign(self, op: Operation) -> None:
        (a,) = self.operands(op)
        kind = self.type_of(op.results[0])
        self.assign(op, f"{kind}({a} > 0 ? 1 : {a} < 0 ? -1 : 0)", narrow=False)

    def compare(self, op: Operation) -> None:
        assert isinstance(op, inr.CompareOp)
        a, b = self.operands(op)
        kind = self.type_of(op.result)
        sign = _COMPARISON[op.predicate.data]
        self.assign(op, f"{kind}({a} {sign} {b} ? 1 : 0)", narrow=False)

    def select(self, op: Operation) -> None:
        condition, a, b = self.operands(op)
        self.choose(op, f"{condition} != 0", a, b)

    def maximum(self, op: Operation) -> None:
        a, b = self.operands(op)
        self.choose(op, f"{a} < {b}", b, a)

    def minimum(self, op: Operation) -> None:
        a, b = self.operands(op)
        self.choose(op, f"{b} < {a}", b, a)

    def choose(self, op: Operation, condition: str, yes: str, no: str) -> None:
        """A conditional whose branches are brought to the result's format first."""
        self.assign(
            op,
            f"{condition} ? {self.narrowed(op, yes)} : {self.narrowed(op, no)}",
            narrow=False,
        )

    def sincos(self, op: Operation) -> None:
        assert isinstance(op, array_stream.SinCosOp)
        sine, cosine = self.declare(op.sine, "sine"), self.declare(op.cosine, "cosine")
        self._sincos(op, op.phase, sine, cosine)

    def sinq(self, op: Operation) -> None:
        assert isinstance(op, inr.SinQOp)
        sine = self.declare(op.result, "sine")
        self._sincos(op, op.operand, sine, self.taken.unique("unused_cosine"))

    def cosq(self, op: Operation) -> None:
        assert isinstance(op, inr.CosQOp)
        cosine = self.declare(op.result, "cosine")
        self._sincos(op, op.operand, self.taken.unique("unused_sine"), cosine)

    def _sincos(self, op: Operation, phase: SSAValue, sine: str, cosine: str) -> None:
        kind = self.type_of(op.results[0])
        self.lines.append(f"{kind} {sine}, {cosine};")
        if self.floating:
            call = "inr::sincos_quarter"
        else:
            call = f"{self.tables.sincos(body_format(phase), body_format(op.results[0]))}::apply"
        self.lines.append(f"{call}({self.names[phase]}, {sine}, {cosine});")

    def function(self, op: Operation) -> None:
        """A function by its table, or by the floating-point core."""
        name = UNARY_KERNELS[type(op)]
        (a,) = self.operands(op)
        if self.floating:
            self.assign(op, f"inr::{name}({a})")
            return
        table = self.tables.unary(name, body_format(op.operands[0]), body_format(op.results[0]))
        self.assign(op, f"{table}::apply({a})", narrow=False)


_METHODS: dict[type[Operation], Callable[[BodyPrinter, Operation], None]] = {
    arith.ConstantOp: BodyPrinter.constant,
    arith.NegfOp: BodyPrinter.negate,
    arith.MaximumfOp: BodyPrinter.maximum,
    arith.MinimumfOp: BodyPrinter.minimum,
    math.AbsFOp: BodyPrinter.absolute,
    inr.SignOp: BodyPrinter.sign,
    inr.CompareOp: BodyPrinter.compare,
    inr.SelectOp: BodyPrinter.select,
    inr.SinQOp: BodyPrinter.sinq,
    inr.CosQOp: BodyPrinter.cosq,
    array_stream.SinCosOp: BodyPrinter.sincos,
}


def float_literal(value: float) -> str:
    """A C++14 float literal for exactly the float32 nearest to `value`."""
    text = repr(float(np.float32(value)))
    # The shortest decimal of the double is one of the float32 as well; C++14 has no hexfloat.
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"


def describe(ops: Sequence[Operation]) -> str:
    """The functions of a map's body in a few words, for its name and its comment."""
    words = {
        array_stream.SinCosOp: "sincos",
        inr.SinQOp: "sin",
        inr.CosQOp: "cos",
        arith.MulfOp: "mul",
        arith.AddfOp: "add",
        arith.SubfOp: "sub",
        arith.NegfOp: "neg",
        arith.MaximumfOp: "max",
        arith.MinimumfOp: "min",
        math.AbsFOp: "abs",
        inr.SelectOp: "select",
        inr.CompareOp: "compare",
        inr.SignOp: "sign",
        **UNARY_KERNELS,
    }
    found = dict.fromkeys(words[type(op)] for op in ops if type(op) in words)
    return "_".join(list(found)[:2]) or "pass"
