"""
Arithmetic operators of a process: which, how wide, how many, and how many cycles each takes.

Cycles are those of pipelined operators at about 300 MHz on UltraScale+. Float cores have the
stages that their names state in Vitis HLS reports (`fadd_32ns_32ns_32_7_full_dsp_1`: 7); a
product takes the three registers of a DSP slice (AMD UG579) and half a cycle for each doubling of
the number of slices, which gives the reported 5 of a 64 x 66-bit product in 16 slices. Integer
sums, comparisons and roundings take one cycle. Cores that no report at hand shows (`log`, `sqrt`,
`tanh`, `erf`) are estimates.

The latency of a process is in three places that must agree: here, in `inr/timing.hpp` for the
kernels, and as a number in the generated elementwise processes, which comes from here. Tests
compare the cycles of a simulation with a schedule made from these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation, SSAValue

from ..dialects import array_stream, inr
from ..dialects.array_stream import FixedType, stream_type
from ..errors import reject
from .dsp import dsp_of_product
from .fixed import Format
from .formats import body_format, format_of, stream_format
from .integer_program import Program, Value
from .integer_program import Rom as FunctionTable
from .kernels import FUNCTIONS, sincos_kernel, unary_kernel

MEMORY_CYCLES = 64
"""An access to external memory: the latency that a Vitis kernel's ports are made for."""

FLOAT_CYCLES = {
    "fadd": 7,
    "fmul": 4,
    "fdiv": 12,
    "fcmp": 2,
    "fexp": 14,
    "fsqrt": 12,
    "flog": 13,
    "ftanh": 33,
    "ferf": 40,
    "fconvert": 5,
}
"""Stages of the float cores; those of flog, ftanh, ferf, fsqrt and fconvert are estimates."""

_FLOAT_OPS: dict[type[Operation], tuple[tuple[str, int], ...]] = {
    arith.AddfOp: (("fadd", 1),),
    arith.SubfOp: (("fadd", 1),),
    arith.MulfOp: (("fmul", 1),),
    arith.MaximumfOp: (("fcmp", 1),),
    arith.MinimumfOp: (("fcmp", 1),),
    arith.NegfOp: (),
    arith.ConstantOp: (),
    math.AbsFOp: (("fcmp", 1),),
    inr.SignOp: (("fcmp", 1),),
    inr.CompareOp: (("fcmp", 1),),
    inr.SelectOp: (("fcmp", 1),),
    math.ExpOp: (("fexp", 1),),
    math.TanhOp: (("ftanh", 1),),
    math.ErfOp: (("ferf", 1),),
    math.SqrtOp: (("fsqrt", 1),),
    math.RsqrtOp: (("fsqrt", 1), ("fdiv", 1)),
    math.LogOp: (("flog", 1),),
    math.Log1pOp: (("flog", 1), ("fadd", 1)),
    inr.ReciprocalOp: (("fdiv", 1),),
    inr.SigmoidOp: (("fexp", 1), ("fadd", 1), ("fdiv", 1)),
    inr.SoftplusOp: (("fexp", 1), ("fadd", 1), ("flog", 1), ("fadd", 1)),
}
"""The cores of an operation on floats, one after the other."""

_SINCOS_PATH = (
    ("fcmp", 2), ("fadd", 6), ("fconvert", 2), ("fmul", 6),
)  # fmt: skip
"""Cores on the longest path of `inr::sincos_quarter`, that of the sine."""

_SINCOS_CORES = (("fcmp", 4), ("fadd", 11), ("fconvert", 2), ("fmul", 11))
"""All cores of `inr::sincos_quarter`."""


@dataclass(frozen=True)
class Operator:
    """
    `count` operators of a kind. Fixed point: `mul` (the widths of its operands), `add`, `compare`,
    `select`, `shift` (by a variable amount) and `narrow` (rounding and saturation, from one width
    to another). Float: the names in `FLOAT_CYCLES`.
    """

    kind: str
    widths: tuple[int, ...]
    count: int


SHORTEST_PERIOD = 3.33
"""Clock period in ns that the latencies of operators are for; they hold for longer ones too."""


def product_cycles(a: int, b: int) -> int:
    """Cycles of a signed product of `a` by `b` bits; `inr::timing::product` in C++."""
    slices = dsp_of_product(a, b)
    return 1 if slices == 0 else 3 + (ceil_log2(slices) + 1) // 2


def ceil_log2(n: int) -> int:
    """The least k with 2**k at least `n`."""
    return max(n - 1, 0).bit_length()


# Elementwise processes.


def is_float(stream: SSAValue) -> bool:
    """
    Whether a stream carries floats; False for fixed point.

    Raises CompileError for numbers without a format.
    """
    element = stream_type(stream).element
    if isinstance(element, Float64Type):
        owner = stream.owner
        assert isinstance(owner, Operation)
        raise reject(owner, "no number format; run array-stream-assign-formats")
    return isinstance(element, Float32Type)


def map_latency(op: array_stream.MapOp) -> int:
    """
    Cycles from the reads of an elementwise process to its writes: one to read, and the longest
    path through its body. Raises CompileError for an operation without a known latency.
    """
    floating = is_float(op.inputs[0])
    ready: dict[SSAValue, int] = dict.fromkeys(op.body.block.args, 0)
    for inner in op.body.block.ops:
        if isinstance(inner, array_stream.YieldOp):
            continue
        start = max((ready[v] for v in inner.operands), default=0)
        cycles = _float_cycles(inner) if floating else _fixed_cycles(inner)
        for result, taken in zip(inner.results, cycles, strict=True):
            ready[result] = start + taken
    longest = 0
    for value, stream in zip(op.terminator.arguments, op.outputs, strict=True):
        converted = not floating and body_format(value) != stream_format(stream)
        longest = max(longest, ready[value] + int(converted))
    # An operator that is used in turn may have to wait for its turn.
    return op.cycles_apart + longest


def _float_cores(op: Operation) -> tuple[tuple[str, int], ...]:
    cores = _FLOAT_OPS.get(type(op))
    if cores is None:
        raise reject(op, "no known float core for it in a map's body")
    return cores


def _is_sincos(op: Operation) -> bool:
    return isinstance(op, array_stream.SinCosOp | inr.SinQOp | inr.CosQOp)


def _float_cycles(op: Operation) -> list[int]:
    cores = _SINCOS_PATH if _is_sincos(op) else _float_cores(op)
    return [sum(FLOAT_CYCLES[core] * n for core, n in cores)] * len(op.results)


def _fixed_cycles(op: Operation) -> list[int]:
    if (kernel := _kernel_program(op)) is not None:
        program, outputs = kernel
        return [program_cycles(program, output) for output in outputs]
    match op:
        case arith.ConstantOp():
            return [0]
        case arith.MulfOp():
            a, b = (body_format(v).width for v in op.operands)
            return [product_cycles(a, b) + 1]
        case inr.SignOp() | inr.CompareOp():
            return [1]
        case _ if type(op) in _FLOAT_OPS:
            return [2]  # a sum or a choice, and its rounding
        case _:
            raise reject(op, "no known latency in a map's body")


def _kernel_program(op: Operation) -> tuple[Program, list[Value]] | None:
    """The integer program of a function by table, and its output for each result."""
    if _is_sincos(op):
        program = sincos_kernel(body_format(op.operands[0]), body_format(op.results[0])).program
        sine, cosine = program.outputs
        if isinstance(op, array_stream.SinCosOp):
            return program, [sine, cosine]
        return program, [sine if isinstance(op, inr.SinQOp) else cosine]
    name = op.name.rsplit(".", 1)[-1]
    if name not in FUNCTIONS:
        return None
    kernel = unary_kernel(name, body_format(op.operands[0]), body_format(op.results[0]))
    return kernel.program, kernel.program.outputs


_PROGRAM_OPERATORS = {
    "add": "add",
    "subtract": "add",
    "less": "compare",
    "clamp": "narrow",
    "saturate": "narrow",
    "select": "select",
    "shift_right_by": "shift",
}
_TABLE_CYCLES = 2
"""A ROM with a registered output."""


def program_cycles(program: Program, output: Value) -> int:
    """Cycles of the longest path from a program's inputs to one of its outputs."""
    ready: dict[Value, int] = {}
    for i in program.instructions:
        start = max((ready.get(a, 0) for a in i.arguments if a.low != a.high), default=0)
        match i.operation:
            case "multiply":
                taken = product_cycles(i.arguments[0].bits, i.arguments[1].bits)
            case "lookup":
                taken = _TABLE_CYCLES
            case "add" | "subtract" | "less" | "clamp" | "saturate" | "shift_right_by":
                taken = 1
            case _:
                taken = 0  # wires, and choices that share a level of logic with what follows
        ready[i.result] = 0 if i.result.low == i.result.high else start + taken
    return ready.get(output, 0)


# Matrix products and sums.


@dataclass(frozen=True)
class Product:
    """What the timing of a matrix product depends on; None where there is no such format."""

    lanes: tuple[int, int]
    steps: int
    """Iterations for one group of `lanes[1]` sums."""
    row: Format | None
    """Widest activation; None for floats."""
    weight: Format | None
    accumulator: Format | None
    """None for exact sums and floats."""

    @property
    def interval(self) -> int:
        """
        Cycles from one iteration to the next: a sum that takes several iterations waits for its
        predecessor, in a float adder or in a chain of rounded additions.
        """
        if self.steps == 1:
            return 1
        if self.row is None:
            return FLOAT_CYCLES["fadd"]
        return self.lanes[0] if self.accumulator is not None else 1

    @property
    def latency(self) -> int:
        """Cycles from the start of an iteration until the sums that it completes are written."""
        k = self.lanes[0]
        if self.row is None or self.weight is None:
            return 1 + FLOAT_CYCLES["fmul"] + k * FLOAT_CYCLES["fadd"]
        product = product_cycles(self.row.width, self.weight.width)
        # Rounded products are added one after the other, exact ones by a tree.
        additions = 1 + k if self.accumulator is not None else ceil_log2(k) + 1
        return 1 + product + additions + 1


def product_of(op: array_stream.MatmulOp | array_stream.MatmulDynamicOp) -> Product:
    """
    The timing of a matrix product.

    Raises CompileError for a weight without a format.
    """
    if isinstance(op, array_stream.MatmulDynamicOp):
        k = stream_type(op.lhs).extents[1]
        if is_float(op.lhs):
            return Product((1, 1), k, None, None, None)
        return Product((1, 1), k, stream_format(op.lhs), stream_format(op.rhs), None)
    lanes = lanes_of(op)
    steps = op.weight_shape[0] // lanes[0]
    if is_float(op.inputs[0]):
        return Product(lanes, steps, None, None, None)
    if op.weight_format is None:
        raise reject(op, "no weight format; run array-stream-assign-formats")
    row = max((stream_format(v) for v in op.inputs), key=lambda f: f.width)
    accumulator = format_of(op.accumulator) if op.accumulator is not None else None
    return Product(lanes, steps, row, format_of(op.weight_format), accumulator)


def lanes_of(op: array_stream.MatmulOp) -> tuple[int, int]:
    """Multipliers in parallel along K and along N; 1 and 1 where it is not said."""
    if op.lanes is None:
        return 1, 1
    k, n = op.lanes.get_values()
    return k, n


def reduce_timing(op: array_stream.ReduceSumOp) -> tuple[int, int]:
    """
    (latency, interval) of a sum along an axis.

    A block of the last axis is added to one sum: a tree in fixed point, one after the other in
    float. Otherwise each lane has a sum of its own, of which there are as many as blocks a row.
    """
    block = stream_type(op.stream).block.data
    _, _, inner = array_stream.split_at(stream_type(op.stream).extents, op.axis.value.data)
    if not is_float(op.stream):
        return (2 + ceil_log2(block) + 1 if inner == 1 else 3), 1
    adder = FLOAT_CYCLES["fadd"]
    if inner == 1:
        return 1 + block * adder, block * adder
    return 1 + adder, max(1, -(-adder // (inner // block)))


# What they are made of.


def operators_of(op: array_stream.ProcessOp) -> list[Operator]:
    """
    The arithmetic operators of a process, all lanes counted; none for one that moves data.

    Counters, addresses and handshakes are not among them.
    """
    match op:
        case array_stream.MapOp():
            return in_turn(map_operators(op), op.cycles_apart)
        case array_stream.MatmulOp():
            return _product_operators(product_of(op), len(op.inputs), _sum_width(op), op.outputs)
        case array_stream.MatmulDynamicOp():
            return _product_operators(product_of(op), 1, _sum_width(op), [op.result])
        case array_stream.ReduceSumOp():
            block = stream_type(op.stream).block.data
            if is_float(op.stream):
                return [Operator("fadd", (32, 32), block)]
            _, axis, _ = array_stream.split_at(stream_type(op.stream).extents, op.axis.value.data)
            width = stream_format(op.stream).width + ceil_log2(axis)
            out = stream_format(op.result).width
            return [Operator("add", (width, width), block), Operator("narrow", (width, out), 1)]
        case _:
            return []


def in_turn(operators: Iterable[Operator], interval: int) -> list[Operator]:
    """
    The operators of a loop that starts every `interval` cycles: multipliers and floating-point
    cores are used in turn; what is smaller than the selectors in front of it is not.
    """
    return [
        replace(o, count=-(-o.count // interval))
        if o.kind == "mul" or o.kind.startswith("f")
        else o
        for o in operators
    ]


def map_operators(op: array_stream.MapOp) -> list[Operator]:
    """The operators of an elementwise process, one for each use."""
    block = stream_type(op.inputs[0]).block.data
    found: Counter[tuple[str, tuple[int, ...]]] = Counter()
    floating = is_float(op.inputs[0])
    for inner in op.body.block.ops:
        if isinstance(inner, array_stream.YieldOp | arith.ConstantOp):
            continue
        if floating:
            cores = _SINCOS_CORES if _is_sincos(inner) else _float_cores(inner)
            for core, n in cores:
                found[core, (32, 32)] += n
            continue
        found.update(_fixed_operators(inner))
    if not floating:
        for value, stream in zip(op.terminator.arguments, op.outputs, strict=True):
            have, want = body_format(value), stream_format(stream)
            if have != want:
                found["narrow", (have.width, want.width)] += 1
    return [Operator(kind, widths, n * block) for (kind, widths), n in found.items()]


def _fixed_operators(op: Operation) -> Counter[tuple[str, tuple[int, ...]]]:
    found: Counter[tuple[str, tuple[int, ...]]] = Counter()
    if (kernel := _kernel_program(op)) is not None:
        program, _ = kernel
        found.update(("mul", widths) for widths in program.multipliers)
        for i in program.live:
            if (kind := _PROGRAM_OPERATORS.get(i.operation)) is not None:
                found[kind, tuple(a.bits for a in i.arguments[-2:])] += 1
        return found
    widths = tuple(body_format(v).width for v in op.operands)
    result = body_format(op.results[0]).width
    match op:
        case arith.MulfOp():
            found["mul", widths] += 1
            found["narrow", (sum(widths), result)] += 1
        case arith.AddfOp() | arith.SubfOp() | arith.NegfOp():
            found["add", widths] += 1
            found["narrow", (max(widths) + 1, result)] += 1
        case inr.SignOp() | inr.CompareOp():
            found["compare", widths] += 1
        case arith.MaximumfOp() | arith.MinimumfOp() | math.AbsFOp():
            found["compare", widths] += 1
            found["select", (result, result)] += 1
        case inr.SelectOp():
            found["select", (result, result)] += 1
        case _:
            raise reject(op, "no known operator in a map's body")
    return found


def _sum_width(op: array_stream.MatmulOp | array_stream.MatmulDynamicOp) -> int:
    """Bits of an accumulator; that of `exact_sum` or of the given format in C++."""
    p = product_of(op)
    if p.row is None or p.weight is None:
        return 32
    if p.accumulator is not None:
        return p.accumulator.width
    products = p.row.width + p.weight.width + ceil_log2(p.steps * p.lanes[0])
    if isinstance(op, array_stream.MatmulOp) and isinstance(op.bias_format, FixedType):
        bias = format_of(op.bias_format)
        fraction = max(stream_format(v).fraction for v in op.inputs) + p.weight.fraction
        products = max(products, bias.width + fraction - bias.fraction)
    return products + 1


def _product_operators(
    p: Product, count: int, width: int, outputs: Sequence[SSAValue]
) -> list[Operator]:
    multipliers = count * p.lanes[0] * p.lanes[1]
    block = stream_type(outputs[0]).block.data
    if p.row is None or p.weight is None:
        # Partial sums, one a lane along K, are added when a block leaves.
        adders = multipliers + count * block * (p.lanes[0] - 1)
        return [Operator("fmul", (32, 32), multipliers), Operator("fadd", (32, 32), adders)]
    narrow = [Operator("narrow", (width, stream_format(out).width), block) for out in outputs]
    return [
        Operator("mul", (p.row.width, p.weight.width), multipliers),
        Operator("add", (width, width), multipliers),
        *narrow,
    ]


def function_tables(op: array_stream.MapOp) -> list[FunctionTable]:
    """The tables that the functions of an elementwise process look up, for one lane."""
    if is_float(op.inputs[0]):
        return []
    tables: list[FunctionTable] = []
    for inner in op.body.block.ops:
        if isinstance(inner, array_stream.YieldOp):
            continue
        if (kernel := _kernel_program(inner)) is not None:
            tables += kernel[0].live_roms
    return tables
