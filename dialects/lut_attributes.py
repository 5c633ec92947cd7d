"""
The attributes of the `lut` dialect: how a layer is cut and searched, how its table is stored,
and what the conversion is known to cost in accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TypeVar

from xdsl.dialects.builtin import FloatData, IntAttr, NoneAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ..analysis.lut_layer import MAX_CENTROIDS, table_limit

ENCODERS = {"nearest": "grid12", "tree": "float32"}
"""How an index is found, and the numbers in which it is: see `lut.encode`, `lut.encode_tree`."""

METRICS = ("l2",)
"""What `nearest` means: the least squared distance."""

SCHEMES = ("per_column", "per_tensor")
"""One scale an output column, or one for the whole table."""

BITS = range(2, 9)
"""Widths that a table entry can have."""

_V = TypeVar("_V")


def _parse_fields(parser: AttrParser, fields: dict[str, Callable[[], _V]]) -> dict[str, _V]:
    """`<a = 1, b = 2>`: any of `fields`, each at most once, each read by its own parser."""
    found: dict[str, _V] = {}

    def field() -> None:
        start = parser.pos
        key = parser.parse_identifier()
        if key not in fields or key in found:
            parser.raise_error(f"expected one of {', '.join(fields)}, each once", start)
        parser.parse_punctuation("=")
        found[key] = fields[key]()

    parser.parse_comma_separated_list(parser.Delimiter.ANGLE, field)
    return found


def _require(parser: AttrParser, found: dict[str, Attribute], *keys: str) -> None:
    if missing := [key for key in keys if key not in found]:
        parser.raise_error(f"missing {', '.join(missing)}")


@irdl_attr_definition
class SpecAttr(ParametrizedAttribute):
    """
    How an input is cut and searched: `#lut.spec<vec = 4, k = 16, cb = 192>`.

    `cb` codebooks of `k` centroids, each for `vec` channels. `metric` is `l2`. `encoder` is
    `nearest` (on integers, `form = grid12`) or `tree` (comparisons, `form = float32`); these are
    printed where they are not the first of each.
    """

    name = "lut.spec"

    vec: IntAttr
    k: IntAttr
    cb: IntAttr
    metric: StringAttr
    encoder: StringAttr
    form: StringAttr

    def __init__(
        self,
        vec: int,
        k: int,
        cb: int,
        metric: str = "l2",
        encoder: str = "nearest",
        form: str | None = None,
    ):
        form = ENCODERS.get(encoder, "grid12") if form is None else form
        super().__init__(
            IntAttr(vec),
            IntAttr(k),
            IntAttr(cb),
            StringAttr(metric),
            StringAttr(encoder),
            StringAttr(form),
        )

    def verify(self) -> None:
        if self.vec.data < 1 or self.cb.data < 1:
            raise VerifyException(
                f"{self.cb.data} codebooks of {self.vec.data} channels; both are at least 1"
            )
        if not 1 <= self.k.data <= MAX_CENTROIDS:
            raise VerifyException(
                f"k = {self.k.data} centroids; an index is one byte, 1 to {MAX_CENTROIDS}"
            )
        if self.metric.data not in METRICS:
            raise VerifyException(f"metric '{self.metric.data}' is not one of {', '.join(METRICS)}")
        if self.encoder.data not in ENCODERS:
            raise VerifyException(
                f"encoder '{self.encoder.data}' is not one of {', '.join(ENCODERS)}"
            )
        if (form := ENCODERS[self.encoder.data]) != self.form.data:
            raise VerifyException(
                f"encoder '{self.encoder.data}' has form '{form}', not '{self.form.data}'"
            )
        if self.encoder.data == "tree" and self.k.data & (self.k.data - 1):
            raise VerifyException(f"a tree has a power of two of leaves, not k = {self.k.data}")

    def covers(self, width: int) -> bool:
        """Whether `cb` is the least number of codebooks for `width` channels."""
        return (self.cb.data - 1) * self.vec.data < width <= self.cb.data * self.vec.data

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def number() -> Attribute:
            return IntAttr(parser.parse_integer())

        def word() -> Attribute:
            return StringAttr(parser.parse_identifier())

        found = _parse_fields(
            parser,
            {"vec": number, "k": number, "cb": number}
            | {"metric": word, "encoder": word, "form": word},
        )
        _require(parser, found, "vec", "k", "cb")
        encoder = found.get("encoder", StringAttr("nearest"))
        assert isinstance(encoder, StringAttr)
        return (
            found["vec"],
            found["k"],
            found["cb"],
            found.get("metric", StringAttr("l2")),
            encoder,
            found.get("form", StringAttr(ENCODERS.get(encoder.data, "grid12"))),
        )

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"vec = {self.vec.data}, k = {self.k.data}, cb = {self.cb.data}")
            if self.metric.data != "l2":
                printer.print_string(f", metric = {self.metric.data}")
            if self.encoder.data != "nearest":
                printer.print_string(f", encoder = {self.encoder.data}, form = {self.form.data}")


@irdl_attr_definition
class QuantAttr(ParametrizedAttribute):
    """
    How table entries are stored: `#lut.quant<bits = 8, scheme = per_column>`.

    Signed integers within ±(2^(bits-1) - 1), whatever the element type they stand in; an entry
    is worth itself times the scale of its column, or of the table. The scales are an operand.
    """

    name = "lut.quant"

    bits: IntAttr
    scheme: StringAttr

    def __init__(self, bits: int, scheme: str = "per_column"):
        super().__init__(IntAttr(bits), StringAttr(scheme))

    @property
    def limit(self) -> int:
        """The largest magnitude of an entry."""
        return table_limit(self.bits.data)

    def verify(self) -> None:
        if self.bits.data not in BITS:
            raise VerifyException(
                f"a table entry has {BITS[0]} to {BITS[-1]} bits, not {self.bits.data}"
            )
        if self.scheme.data not in SCHEMES:
            raise VerifyException(f"scheme '{self.scheme.data}' is not one of {', '.join(SCHEMES)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def number() -> Attribute:
            return IntAttr(parser.parse_integer())

        def word() -> Attribute:
            return StringAttr(parser.parse_identifier())

        found = _parse_fields(parser, {"bits": number, "scheme": word})
        _require(parser, found, "bits")
        return (found["bits"], found.get("scheme", StringAttr("per_column")))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"bits = {self.bits.data}, scheme = {self.scheme.data}")


@irdl_attr_definition
class ErrorAttr(ParametrizedAttribute):
    """
    What a conversion is known to cost:
    `#lut.error<vq_rel_mse = 0.266, rel_mse = 0.24, q_bound = 0.0031, acc = [-811, 790]>`.

    `vq_rel_mse` is the squared error of the layer's product relative to the product's square
    before tables were refitted and rounded, `rel_mse` that of the layer as it stands, both on rows
    that the fit did not see. `q_bound` is the largest difference that rounding the table can make
    in an output. `acc` is the range of the integer sums: the verifier holds it against the table.
    What is not known is left out. Numbers are kept to six digits.
    """

    name = "lut.error"

    vq_rel_mse: FloatData | NoneAttr
    rel_mse: FloatData | NoneAttr
    q_bound: FloatData | NoneAttr
    acc_low: IntAttr | NoneAttr
    acc_high: IntAttr | NoneAttr

    def __init__(
        self,
        vq_rel_mse: float | None = None,
        rel_mse: float | None = None,
        q_bound: float | None = None,
        acc: tuple[int, int] | None = None,
    ):
        super().__init__(
            *(
                NoneAttr() if value is None else FloatData(float(f"{value:.6g}"))
                for value in (vq_rel_mse, rel_mse, q_bound)
            ),
            *((NoneAttr(), NoneAttr()) if acc is None else (IntAttr(acc[0]), IntAttr(acc[1]))),
        )

    def number(self, key: str) -> float | None:
        """One of the three numbers by its name, None where it is not known."""
        value = getattr(self, key)
        return value.data if isinstance(value, FloatData) else None

    @property
    def acc(self) -> tuple[int, int] | None:
        """The least and the largest sum, None where they are not stated."""
        if isinstance(self.acc_low, NoneAttr) or isinstance(self.acc_high, NoneAttr):
            return None
        return self.acc_low.data, self.acc_high.data

    def verify(self) -> None:
        for key in _NUMBERS:
            value = self.number(key)
            if value is not None and (not isfinite(value) or value < 0):
                raise VerifyException(f"{key} = {value} is no error; it is finite and at least 0")
        if self.acc is not None and not self.acc[0] <= 0 <= self.acc[1]:
            raise VerifyException(
                f"acc = [{self.acc[0]}, {self.acc[1]}] does not contain 0, the empty sum"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def number() -> list[Attribute]:
            return [FloatData(float(parser.parse_number()))]

        def interval() -> list[Attribute]:
            parser.parse_punctuation("[")
            low = parser.parse_integer()
            parser.parse_punctuation(",")
            high = parser.parse_integer()
            parser.parse_punctuation("]")
            return [IntAttr(low), IntAttr(high)]

        found = _parse_fields(parser, {**dict.fromkeys(_NUMBERS, number), "acc": interval})
        none: list[Attribute] = [NoneAttr()]
        parts = [*(found.get(key, none) for key in _NUMBERS), found.get("acc", none * 2)]
        return [attribute for part in parts for attribute in part]

    def print_parameters(self, printer: Printer) -> None:
        numbers = [(key, self.number(key)) for key in _NUMBERS]
        fields = [f"{key} = {_literal(value)}" for key, value in numbers if value is not None]
        if self.acc is not None:
            fields.append(f"acc = [{self.acc[0]}, {self.acc[1]}]")
        with printer.in_angle_brackets():
            printer.print_string(", ".join(fields))


_NUMBERS = ("vq_rel_mse", "rel_mse", "q_bound")


def _literal(value: float) -> str:
    """A number that MLIR's lexer takes for a float: with a point before the exponent."""
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"
