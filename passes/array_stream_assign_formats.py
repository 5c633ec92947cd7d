"""
A number format for each stream.

`mode=measured` (the default) runs the function in float64 on sample inputs, `mode=interval`
bounds every value by interval arithmetic over the whole domain; either gives each stream and
each value in a map's body the integer bits it needs, within `activation` bits. Weights get
`weight` bits. `mode=float` makes every stream `f32`.

Before:

```mlir
%1 = array_stream.matmul %0 by %w : (!array_stream.stream<64x2xf64>) -> … by tensor<2x8xf64>
```

After, with `activation=27 weight=18`:

```mlir
%1 = array_stream.matmul %0 by %w weight_format <18, 6>
  : (!array_stream.stream<64x2x!array_stream.fixed<27, 2>>) -> … by tensor<2x8xf64>
```

* An angle that only sines and cosines read wraps at two integer bits: the quadrant.
* Streams that a transpose, slice, pad, broadcast or reshape connects share one format.
* `tolerance=1e-3` looks for the cheapest widths whose outputs stay within that mean error,
  relative to the largest value of each output, and notes them on the function
  (`array_stream.widths`).
* A format that is already there is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import ArrayAttr, IntAttr, ModuleOp, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ..analysis.dsp import dsp_of_product
from ..analysis.fixed import Format, to_real
from ..analysis.formats import fixed_type, format_of, integer_bits, stream_format
from ..analysis.intervals import bound_ranges
from ..dialects import array_stream, inr
from ..dialects.array_stream import FORMAT, STAGE, stream_type
from ..errors import CompileError, reject
from ..interpreters.arrays import constant_value
from ..interpreters.fixed_stream import run_fixed
from ..interpreters.measure import Ranges, measure_ranges, sample_inputs
from ..interpreters.stream import run_streams

WIDTHS = "array_stream.widths"
"""Attribute of a function: [activation, weight] bits, as chosen for a tolerance."""

_UNIT = (inr.SinQOp, inr.CosQOp, array_stream.SinCosOp, math.TanhOp, math.ErfOp, inr.SigmoidOp)
"""Functions whose values lie in [−1, 1]: two integer bits whatever was measured."""

_ANGLES = (inr.SinQOp, inr.CosQOp, array_stream.SinCosOp)
"""Functions of an angle in quarter-turns: they have no use for whole turns."""

_FLAG = (inr.CompareOp, inr.SignOp)
"""Functions whose values are −1, 0 and 1."""

_MOVES = (
    array_stream.TransposeOp,
    array_stream.BroadcastOp,
    array_stream.SliceOp,
    array_stream.PadOp,
    array_stream.ReshapeOp,
    array_stream.ReblockOp,
    array_stream.CopyOp,
)
"""Operations whose streams all have one element type."""

BIAS_EXTRA = 8
"""Bits that a bias has beyond an activation: it is added, never multiplied, so they are cheap."""


@dataclass(frozen=True)
class Widths:
    """Bits of an activation and of a weight, and the guard bits above what was measured."""

    activation: int = 27
    weight: int = 18
    guard: int = 1


def assign_float(function: FuncOp) -> None:
    """Make every stream that has no format yet carry `f32`."""
    for value in _streams(function.body.block):
        if stream_type(value).element == f64:
            _set_element(value, f32)


def assign_fixed(function: FuncOp, ranges: Ranges, widths: Widths) -> None:
    """
    Give every stream, body value, weight and bias without a format one that holds `ranges`.

    Raises CompileError for a value without a finite range, and for a weight that does not fit
    a format that was already there.
    """
    block = function.body.block
    for group in _groups(block):
        chosen = _present(group) or fixed_type(_stream_format(group, ranges, widths))
        for value in group:
            if stream_type(value).element == f64:
                _set_element(value, chosen)
    for op in block.ops:
        if isinstance(op, array_stream.MapOp):
            _assign_body(op, ranges, widths)
        elif isinstance(op, array_stream.MatmulOp):
            _assign_resident(op, widths)


def _streams(block: Block) -> list[SSAValue]:
    return [
        v for op in block.ops if isinstance(op, array_stream.ProcessOp) for v in op.output_streams
    ]


def _set_element(value: SSAValue, element: Attribute) -> None:
    Rewriter.replace_value_with_new_type(value, stream_type(value).with_element(element))


def _groups(block: Block) -> Iterable[list[SSAValue]]:
    """Streams that must have one element type, together; in order of the first of each."""
    group: dict[SSAValue, list[SSAValue]] = {}
    for op in block.ops:
        if not isinstance(op, array_stream.ProcessOp):
            continue
        for value in op.output_streams:
            shared = group[op.input_streams[0]] if isinstance(op, _MOVES) else []
            shared.append(value)
            group[value] = shared
    return {id(g): g for g in group.values()}.values()


def _present(group: Sequence[SSAValue]) -> Attribute | None:
    elements = (stream_type(v).element for v in group)
    return next((e for e in elements if e != f64), None)


def _stream_format(group: Sequence[SSAValue], ranges: Ranges, widths: Widths) -> Format:
    if _only_angles(group):
        return Format(widths.activation, 2, "rnd", "wrap")
    peak = max(_peak(v, ranges) for v in group)
    # The first of a group is where its numbers come from; the others only move them.
    if isinstance(group[0].owner, array_stream.MapOp):
        origin = _yielded(group[0]).owner
        if isinstance(origin, _UNIT):
            return Format(widths.activation, 2)
        if isinstance(origin, _FLAG):
            return Format(2, 2)
    return _format(peak, widths)


def _format(peak: float, widths: Widths) -> Format:
    if peak == 0:
        return Format(widths.activation, 2)
    return Format(widths.activation, integer_bits(peak) + widths.guard)


def _peak(value: SSAValue, ranges: Ranges) -> float:
    peak = ranges.get(value, inf)
    if peak == inf:
        owner = value.owner
        assert isinstance(owner, Operation)
        raise reject(
            owner,
            "its values are not finite on the sample inputs; give a domain on which they are "
            "(domain=low,high or a calibration file)",
        )
    return peak


def _yielded(value: SSAValue) -> SSAValue:
    owner = value.owner
    assert isinstance(owner, array_stream.MapOp)
    return owner.terminator.arguments[list(owner.outputs).index(value)]  # pyright: ignore[reportArgumentType]


def _only_angles(group: Sequence[SSAValue]) -> bool:
    """Whether every reader of these streams takes a sine or cosine of them and no more."""
    uses = [use for value in group for use in value.uses]
    read = False
    for use in uses:
        if isinstance(use.operation, _MOVES):
            continue
        if not isinstance(use.operation, array_stream.MapOp):
            return False
        argument = use.operation.body.block.args[use.index]
        if not argument.uses or not _is_angle(argument):
            return False
        read = True
    return read


def _is_angle(value: SSAValue) -> bool:
    return all(isinstance(use.operation, _ANGLES) for use in value.uses)


def _assign_body(op: array_stream.MapOp, ranges: Ranges, widths: Widths) -> None:
    """A format for each value of a body; a value that is yielded takes its stream's."""
    yielded: dict[SSAValue, SSAValue] = {
        value: stream for value, stream in zip(op.terminator.arguments, op.outputs, strict=True)
    }
    for inner in op.body.block.ops:
        if isinstance(inner, array_stream.YieldOp) or FORMAT in inner.attributes:
            continue
        inner.attributes[FORMAT] = fixed_type(_body_format(inner, yielded, ranges, widths))


def _body_format(
    op: Operation, yielded: dict[SSAValue, SSAValue], ranges: Ranges, widths: Widths
) -> Format:
    if isinstance(op, arith.ConstantOp):
        value = constant_value(op.result)
        assert value is not None
        peak = float(np.abs(value))
        if not isfinite(peak):
            raise reject(op, f"{float(value)} has no fixed-point format; use mode=float")
        return _format_of_constant(peak, widths.activation) if peak else Format(2, 2)
    if isinstance(op, _FLAG):
        return Format(2, 2)
    result = op.results[0]
    if isinstance(op, _UNIT):
        return Format(widths.activation, 2)
    if (stream := yielded.get(result)) is not None and not _wraps_for_others(result, stream):
        return stream_format(stream)
    if result.uses and _is_angle(result):
        return Format(widths.activation, 2, "rnd", "wrap")
    return _format(_peak(result, ranges), widths)


def _wraps_for_others(value: SSAValue, stream: SSAValue) -> bool:
    """
    Whether a stream's format drops the turns of an angle that other readers than sines and
    cosines in the body, or other streams, need.
    """
    if stream_format(stream).overflow != "wrap":
        return False
    owner = stream.owner
    assert isinstance(owner, array_stream.MapOp)
    for use in value.uses:
        if isinstance(use.operation, array_stream.YieldOp):
            if stream_format(owner.outputs[use.index]).overflow != "wrap":
                return True
        elif not isinstance(use.operation, _ANGLES):
            return True
    return False


def _format_of_constant(peak: float, width: int, finest: int = 64) -> Format:
    """
    The finest format of at most `width` bits, `finest` of them fraction, that holds a constant of
    this magnitude after rounding. Few bits can round one up to a power of two: one more is needed.
    """
    integer = max(integer_bits(peak) if peak else 1, 2 - finest)
    format_ = Format(integer + min(width - integer, finest), integer)
    if _holds(format_, peak):
        return format_
    return Format(integer + 1 + min(width - integer - 1, finest), integer + 1)


def _holds(format_: Format, peak: float) -> bool:
    return peak <= format_.highest + format_.ulp / 2


def _assign_resident(op: array_stream.MatmulOp, widths: Widths) -> None:
    """Formats of a product's weight and bias."""
    weights = constant_value(op.weights)
    assert weights is not None
    peak = float(np.max(np.abs(weights)))
    if op.weight_format is None:
        op.weight_format = fixed_type(_format_of_constant(peak, widths.weight))
    _check_fits(op, "weight", peak, format_of(op.weight_format))
    if op.bias is None:
        return
    bias = constant_value(op.bias)
    assert bias is not None
    peak = float(np.max(np.abs(bias)))
    if op.bias_format is None:
        # The bias starts the sum, so it may not be finer than the products.
        product = min(stream_format(s).fraction for s in op.inputs)
        product += format_of(op.weight_format).fraction
        width = min(widths.activation + BIAS_EXTRA, 48)
        op.bias_format = fixed_type(_format_of_constant(peak, width, product))
    _check_fits(op, "bias", peak, format_of(op.bias_format))


def _check_fits(op: array_stream.MatmulOp, what: str, peak: float, format_: Format) -> None:
    """A format set by hand must hold the constant it is for, to half a unit in the last place."""
    if not _holds(format_, peak):
        raise reject(
            op,
            f"a {what} of magnitude {peak:.6g} does not fit {format_.width} bits with "
            f"{format_.integer} of them integer (up to {format_.highest:.6g}); "
            f"give it {_format_of_constant(peak, format_.width).integer} integer bits",
        )


def relative_errors(
    module: ModuleOp, batch: list[np.ndarray], function: FuncOp, reference: list[np.ndarray]
) -> list[float]:
    """Mean |error| / max |value| of each output in fixed point, against float64 arrays."""
    mantissas = run_fixed(module, batch, function.sym_name.data)
    errors: list[float] = []
    for m, want, stream in zip(mantissas, reference, output_streams(function), strict=True):
        got = to_real(m, stream_format(stream))
        scale = float(np.max(np.abs(want)))
        error = float(np.mean(np.abs(got - want)))
        errors.append(error / scale if scale else error)
    return errors


def output_streams(function: FuncOp) -> list[SSAValue]:
    """The stream behind each result of a stream-level function."""
    last = function.body.block.last_op
    assert last is not None
    return [v.owner.stream for v in last.operands if isinstance(v.owner, array_stream.WriteOp)]


def search_widths(
    module: ModuleOp,
    function: FuncOp,
    ranges: Ranges,
    batch: list[np.ndarray],
    tolerance: float,
    guard: int = 1,
) -> Widths:
    """
    The widths with the fewest DSPs a product, then the fewest bits, that keep the mean relative
    error of every output on `batch` within `tolerance`; formats that are there already are kept.
    The error falls as either width grows, so each search is a bisection.

    Raises CompileError where even 40-bit activations and 32-bit weights miss it.
    """
    reference = run_streams(module, batch, function.sym_name.data)

    def meets(activation: int, weight: int) -> bool:
        # On a copy, whose values are others: what is assigned there leaves no trace here.
        copies: dict[SSAValue, SSAValue] = {}
        trial = function.clone(value_mapper=copies)
        peaks = {copies[value]: peak for value, peak in ranges.items()}
        assign_fixed(trial, peaks, Widths(activation, weight, guard))
        errors = relative_errors(ModuleOp([trial]), batch, trial, reference)
        return max(errors) <= tolerance

    widest = (40, 32)
    if not meets(*widest):
        raise CompileError(
            f"{function.sym_name.data}: no widths up to {widest[0]}-bit activations and "
            f"{widest[1]}-bit weights reach a tolerance of {tolerance:g}; allow more"
        )
    activation = _least(8, widest[0], lambda a: meets(a, widest[1]))
    candidates: list[Widths] = []
    for a in range(activation, min(activation + 3, widest[0] + 1)):
        if meets(a, widest[1]):
            weight = _least(4, widest[1], lambda w, a=a: meets(a, w))
            candidates.append(Widths(a, weight, guard))
    return min(
        candidates,
        key=lambda c: (dsp_of_product(c.activation, c.weight), c.activation + c.weight),
    )


def _least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number in [low, high] for which a condition holds that stays true once it is."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high


@dataclass(frozen=True)
class ArrayStreamAssignFormatsPass(ModulePass):
    """A number format for each stream, from ranges or as floats."""

    name = "array-stream-assign-formats"

    mode: str = "measured"
    activation: int = 27
    weight: int = 18
    guard: int = 1
    tolerance: float | int | str | None = None
    """A string where a pipeline says `1e-3`: its grammar has no exponent without a point."""
    domain: tuple[float | int | str, ...] = (-1.0, 1.0)
    samples: int = 512
    calibration: str | None = None
    """An .npz file with one array an input, in the order of the inputs."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        modes = ("measured", "interval", "float")
        if self.mode not in modes:
            raise CompileError(f"{self.name}: mode '{self.mode}' is not one of {', '.join(modes)}")
        for option, bits in (("activation", self.activation), ("weight", self.weight)):
            if not 2 <= bits <= 64:
                raise CompileError(f"{self.name}: {option}={bits}; a number has 2 to 64 bits")
        domain = tuple(self.number("domain", bound) for bound in self.domain)
        if len(domain) != 2 or not domain[0] < domain[1]:
            raise CompileError(f"{self.name}: domain takes two numbers, low,high")
        for function in op.ops:
            if isinstance(function, FuncOp) and STAGE in function.attributes:
                self.assign(op, function, domain)

    def number(self, option: str, value: float | str) -> float:
        """An option as a number. Raises CompileError for one that is none."""
        try:
            return float(value)
        except ValueError:
            raise CompileError(f"{self.name}: {option}={value} is no number") from None

    def assign(self, module: ModuleOp, function: FuncOp, domain: tuple[float, float]) -> None:
        """Assign the formats of one function."""
        if self.mode == "float":
            assign_float(function)
            return
        if self.calibration is not None:
            batches = load_calibration(self.calibration, function)
        else:
            domains = [domain] * len(function.body.block.args)
            batches = list(sample_inputs(function, domains, self.samples))
        name = function.sym_name.data
        if self.mode == "interval":
            ranges = bound_ranges(function, domain)
        else:
            ranges = measure_ranges(module, batches, name)
        widths = Widths(self.activation, self.weight, self.guard)
        if self.tolerance is not None:
            tolerance = self.number("tolerance", self.tolerance)
            widths = search_widths(module, function, ranges, batches[0], tolerance, self.guard)
            function.attributes[WIDTHS] = ArrayAttr(
                [IntAttr(widths.activation), IntAttr(widths.weight)]
            )
        assign_fixed(function, ranges, widths)


def load_calibration(path: str, function: FuncOp) -> list[list[np.ndarray]]:
    """
    Batches from an .npz file: one array an input, its rows cut into batches of the function's.

    Raises CompileError where the file is missing or its arrays do not match the inputs.
    """
    try:
        with np.load(path) as archive:
            arrays = [np.asarray(archive[key], dtype=np.float64) for key in archive.files]
    except (OSError, ValueError) as error:
        raise CompileError(f"calibration file {path}: {error}") from error
    shapes = [inr.shape_of(a) for a in function.body.block.args]
    if len(arrays) != len(shapes) or any(
        a.shape[1:] != s[1:] or len(a) < s[0] for a, s in zip(arrays, shapes, strict=False)
    ):
        found = ", ".join(str(a.shape) for a in arrays)
        wanted = ", ".join(str(s) for s in shapes)
        raise CompileError(
            f"calibration file {path}: has arrays {found}; needs {wanted}, rows may be more"
        )
    count = min(len(a) // s[0] for a, s in zip(arrays, shapes, strict=True))
    return [
        [a[i * s[0] : (i + 1) * s[0]] for a, s in zip(arrays, shapes, strict=True)]
        for i in range(count)
    ]
