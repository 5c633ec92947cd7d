"""
The target `dpu-c`: the kernels of a module as C for UPMEM's compiler, one program for all.

A launch runs the kernel whose number the host put into `operation`. Every decision (loops, moves,
buffers, the kind of micro-kernel) is in the IR; what is chosen here is names and spelling. The
names of host-visible symbols are the interface to the host program, and both read them, and the
numbers of the kernels, from one header.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.target import Target

from ..analysis.upmem_mapping import STACK_BYTES
from ..dialects import upmem
from ..errors import CompileError, reject, source_line
from .cpp_names import Names, identifier
from .upmem_int8_kernel import PRELUDE, Int8Kernel
from .upmem_microkernels import MicroKernel

OPERATION = "operation"
"""The `__host` variable that holds the number of the kernel to run."""

_BINARY: dict[type[Operation], str] = {
    arith.AddiOp: "+",
    arith.SubiOp: "-",
    arith.MuliOp: "*",
    arith.ShRUIOp: ">>",
    arith.AndIOp: "&",
}
_PREDICATES = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")


@dataclass
class Program:
    """The kernels of a module and what the host knows of them by name."""

    name: str
    """An identifier: the user's model."""
    symbols: list[upmem.SymbolOp]
    kernels: list[upmem.KernelOp]

    @classmethod
    def of(cls, module: ModuleOp, name: str = "model") -> Program:
        """The program of a module. Raises CompileError where it has no kernel."""
        symbols = [op for op in module.ops if isinstance(op, upmem.SymbolOp)]
        kernels = [op for op in module.ops if isinstance(op, upmem.KernelOp)]
        if not kernels:
            raise CompileError("dpu-c: no upmem.kernel here; run convert-lut-to-upmem before")
        return cls(identifier(name), symbols, kernels)

    @property
    def tasklets(self) -> int:
        """NR_TASKLETS: what the kernel that takes the most of them needs."""
        return max(kernel.mapping.number("tasklets") for kernel in self.kernels)

    @property
    def wram_bytes(self) -> int:
        """The memory that the kernels' buffers share in turn."""
        return max(
            op.offset.value.data + upmem.buffer_bytes(op.buffer.type)
            for kernel in self.kernels
            for op in kernel.buffers
        )

    @property
    def varying(self) -> set[int]:
        """The places of symbols that are not the same for all kernels."""
        rows = [_symbols(kernel) for kernel in self.kernels]
        if len({len(row) for row in rows}) != 1:
            return set()
        return {i for i, column in enumerate(zip(*rows, strict=True)) if len(set(column)) > 1}

    def number(self, kernel: upmem.KernelOp) -> int:
        """What `operation` is for a kernel; 0 is none, so that a forgotten one does nothing."""
        return 1 + self.kernels.index(kernel)

    def constant(self, kernel: upmem.KernelOp) -> str:
        """The macro of that number."""
        return f"{self.name}_{identifier(kernel.sym_name.data)}".upper()


def symbol_name(symbol: str | upmem.SymbolOp) -> str:
    """The C name of a symbol: `dpu_index`, free of the C library's own names."""
    name = symbol if isinstance(symbol, str) else symbol.sym_name.data
    return f"dpu_{identifier(name)}"


def _symbols(kernel: upmem.KernelOp) -> list[str]:
    return [cast(Any, ref).root_reference.data for ref in kernel.symbols]


def _pointer(argument: SSAValue) -> str:
    if isinstance(upmem.space_of(argument), upmem.MramAttr):
        return "__mram_ptr uint8_t *"
    width = cast(Any, argument.type).element_type.width.data
    return f"uint{width}_t *"


def program_header(program: Program) -> str:
    """The header that device and host program share."""
    guard = f"{program.name.upper()}_PROGRAM_H"
    lines = [
        f"/* {program.name}: what the programs of the host and of the DPUs agree on. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f"/* What a launch runs: the value of `{OPERATION}`. */",
    ]
    for kernel in program.kernels:
        lines.append(f"#define {program.constant(kernel)} {program.number(kernel)}")
    lines += ["", "/* Bytes of what the host sees by name on every DPU. */"]
    for symbol in program.symbols:
        name = symbol_name(symbol).upper()
        lines.append(f"#define {name}_BYTES {symbol.bytes}")
    lines += [
        "",
        f"#define {program.name.upper()}_TASKLETS {program.tasklets}",
        f"#define {program.name.upper()}_STACK_BYTES {STACK_BYTES}",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def device_source(program: Program) -> str:
    """The C file of the DPUs' program."""
    printers = [_KernelPrinter(program, kernel) for kernel in program.kernels]
    # Kernels of one text are one function: layers of one shape and mapping share instructions.
    functions: dict[str, list[_KernelPrinter]] = {}
    for printer in printers:
        functions.setdefault(printer.body(), []).append(printer)
    bodies: list[str] = []
    calls: dict[upmem.KernelOp, str] = {}
    for body, same in functions.items():
        name = identifier(same[0].kernel.sym_name.data)
        bodies.append(same[0].function(name, body, [printer.kernel for printer in same]))
        calls |= {printer.kernel: f"{name}({', '.join(printer.arguments)})" for printer in same}
    micro: dict[str, MicroKernel | Int8Kernel] = {}
    divisions: dict[int, int] = {}
    for printer in printers:
        micro |= printer.micro
        for divisor, bound in printer.divisions.items():
            divisions[divisor] = max(bound, divisions.get(divisor, 0))
    upper = program.name.upper()
    out = [
        f"/* {program.name}: the program of every DPU, for UPMEM's SDK (2023 and later). */",
        "#include <stdbool.h>",
        "#include <stdint.h>",
        "",
        "#include <attributes.h>",
        "#include <barrier.h>",
        "#include <defs.h>",
        "#include <mram.h>",
        "",
        f'#include "{program.name}_program.h"',
        "",
        f"#if NR_TASKLETS != {upper}_TASKLETS",
        f'#error "compile with -DNR_TASKLETS={program.tasklets}"',
        "#endif",
        f"#if STACK_SIZE_DEFAULT < {upper}_STACK_BYTES",
        f'#error "compile with -DSTACK_SIZE_DEFAULT={STACK_BYTES}"',
        "#endif",
        "",
        "/* Set by the host before each launch. */",
        f"__host uint32_t {OPERATION};",
    ]
    out += [_declaration(symbol) for symbol in program.symbols]
    out += [
        "",
        "/* Buffers of all kernels; one runs at a time, and none expects what another left. */",
        f"static uint8_t __dma_aligned wram[{program.wram_bytes}];",
        "",
    ]
    for count in sorted({k.mapping.number("tasklets") for k in program.kernels}):
        out.append(f"BARRIER_INIT(all_{count}, {count});")
    out += [
        "",
        "static inline uint32_t least(uint32_t a, uint32_t b)",
        "{",
        "    return a < b ? a : b;",
        "}",
        "",
    ]
    for divisor, bound in sorted(divisions.items()):
        out += _division(divisor, bound)
    if any(isinstance(kind, Int8Kernel) for kind in micro.values()):
        out.append(PRELUDE)
    out += [micro[name].text() for name in sorted(micro)]
    out += bodies
    out += ["int main(void)", "{", f"    switch ({OPERATION}) {{"]
    for kernel in program.kernels:
        out += [
            f"    case {program.constant(kernel)}:",
            f"        {calls[kernel]};",
            "        break;",
        ]
    out += ["    }", "    return 0;", "}", ""]
    return "\n".join(out)


def _declaration(symbol: upmem.SymbolOp) -> str:
    name = symbol_name(symbol)
    if isinstance(upmem.space_of(symbol.type), upmem.MramAttr):
        kept = " /* resident */" if symbol.resident is not None else ""
        return f"__mram_noinit uint8_t {name}[{symbol.bytes}];{kept}"
    width = symbol.bytes // symbol.type.get_shape()[0]
    return f"__host uint{8 * width}_t {name}[{symbol.type.get_shape()[0]}];"


def _division(divisor: int, bound: int) -> list[str]:
    """⌈x/divisor⌉ without a division, checked for every x that can occur."""
    values = np.arange(bound + 1, dtype=np.uint64)
    expected = -(-values.astype(np.int64) // divisor)
    for shift in range(8, 32):
        factor = -(-(1 << shift) // divisor)
        product = (values + np.uint64(divisor - 1)) * np.uint64(factor)
        if int(product.max()) >= 2**32:
            break
        if np.array_equal((product >> np.uint64(shift)).astype(np.int64), expected):
            return [
                f"/* x/{divisor} rounded up, for x up to {bound}. */",
                f"static inline uint32_t ceil_div_{divisor}(uint32_t x)",
                "{",
                f"    return ((x + {divisor - 1}u) * {factor}u) >> {shift};",
                "}",
                "",
            ]
    raise CompileError(
        f"dpu-c: {bound} rows over {divisor} tasklets cannot be dealt without a division; a number "
        "of tasklets that is a power of two, or smaller tiles of rows (n_m), can"
    )


@dataclass
class _KernelPrinter:
    """Prints one kernel as a function; gathers the micro-kernels and divisions it needs."""

    program: Program
    kernel: upmem.KernelOp
    micro: dict[str, MicroKernel | Int8Kernel] = field(default_factory=dict)
    divisions: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names()
        for taken in ("wram", "least", "main", "me", OPERATION):
            self.names.unique(taken)
        self.text_of: dict[SSAValue, str] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.tasklets = self.kernel.mapping.number("tasklets")

    def body(self) -> str:
        """The statements; a symbol that is not the same for all kernels is a parameter."""
        kernel = self.kernel
        self.parameters: list[str] = []
        self.arguments: list[str] = []
        varying = self.program.varying
        for place, (argument, symbol) in enumerate(
            zip(kernel.body.block.args, _symbols(kernel), strict=True)
        ):
            name = symbol_name(symbol)
            if place in varying:
                self.arguments.append(name)
                name = self.names.unique(argument.name_hint or "symbol")
                kind = _pointer(argument)
                self.parameters.append(f"{kind}{name}")
            self.text_of[argument] = name
        if self.tasklets < self.program.tasklets:
            self.say(f"if (me() >= {self.tasklets})")
            self.say("    return;")
        self.block(kernel.body.block)
        signature = ", ".join(self.parameters) or "void"
        return "\n".join([f"({signature})", "{", *self.lines, "}", ""])

    def function(self, name: str, body: str, kernels: Sequence[upmem.KernelOp]) -> str:
        """The function that some kernels share, with a comment on each."""
        # A frame of its own: the stack of a tasklet holds the largest one, not all of them.
        return "\n".join([*self.comment(kernels), f"static __noinline void {name}{body}"])

    def comment(self, kernels: Sequence[upmem.KernelOp]) -> list[str]:
        """What the function is, for a person."""
        geometry = self.kernel.geometry
        shape = geometry.shape
        names: list[str] = []
        for kernel in kernels:
            layer = kernel.attributes.get("layer")
            name = layer.data if isinstance(layer, StringAttr) else kernel.sym_name.data
            line = source_line(kernel)
            names.append(f"{name}{f' ({line})' if line else ''}")
        words = " ".join(f"{k}={v}" for k, v in self.kernel.mapping.values.items())
        data = (
            f"An int8 product of {shape.codebooks} inputs, {shape.features} outputs"
            if shape.is_product
            else f"{shape.codebooks} codebooks of {shape.centroids} centroids, {shape.features} "
            f"outputs of {shape.bits} bits an entry"
        )
        has = "inputs" if shape.is_product else "codebooks"
        return [
            "/*",
            *(f" * {part}" for part in _wrapped(f"{', '.join(names)}:", 92)),
            f" * {data}, up to {shape.rows} rows a call.",
            f" * A DPU has up to {geometry.rows} rows, {geometry.features} columns, "
            f"{geometry.codebooks} {has}.",
            *(f" * {part}" for part in _wrapped(f"Mapping: {words}", 92)),
            " */",
        ]

    # Statements

    def say(self, line: str) -> None:
        """A line at the depth of the current block."""
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """What is printed inside goes between braces behind `head`."""
        self.say(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.say("}")

    def block(self, block: Block) -> None:
        """The operations of a block, in order."""
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        """One operation: a statement, or an expression for those that use it."""
        match op:
            case arith.ConstantOp():
                value = cast(IntegerAttr[Any], op.value).value.data
                if op.result.type != IndexType():
                    self.text_of[op.result] = "true" if value else "false"
                else:
                    self.text_of[op.result] = f"{value}u"
            case scf.YieldOp():
                if op.operands:
                    raise reject(op, "dpu-c prints loops without results only")
            case scf.ForOp():
                self.loop(op)
            case scf.IfOp():
                if op.results or op.false_region.blocks:
                    raise reject(op, "dpu-c prints conditions without results or else only")
                with self.braces(f"if ({self.expression(op.cond)})"):
                    self.block(op.true_region.block)
            case memref.LoadOp():
                if not isinstance(upmem.space_of(op.memref), upmem.WramAttr):
                    raise reject(op, "dpu-c loads single elements from WRAM only")
                (position,) = op.indices
                self.define(
                    op.res, f"{self.expression(op.memref)}[{self.expression(position)}]", pure=True
                )
            case upmem.WramBufferOp():
                name = self.names.unique(op.buffer.name_hint or "buffer")
                self.text_of[op.buffer] = name
                offset, size = op.offset.value.data, upmem.buffer_bytes(op.buffer.type)
                self.say(f"uint8_t *const {name} = wram + {offset}; /* {size} bytes */")
            case upmem.BarrierOp():
                self.say(f"barrier_wait(&all_{self.tasklets});")
            case upmem.DmaReadOp() | upmem.DmaWriteOp():
                self.dma(op)
            case upmem.LutAccumulateOp():
                self.accumulate(op)
            case upmem.Int8AccumulateOp():
                self.multiply(op)
            case _:
                if len(op.results) != 1 or op.regions:
                    raise reject(op, "dpu-c cannot print this operation")
                self.define(op.results[0], self.value(op), pure=True)

    def loop(self, op: scf.ForOp) -> None:
        """A counted loop."""
        if op.iter_args:
            raise reject(op, "dpu-c prints loops without results only")
        variable = op.body.block.args[0]
        name = self.names.unique(variable.name_hint or "i")
        self.text_of[variable] = name
        first, end, step = (self.expression(v) for v in (op.lb, op.ub, op.step))
        advance = f"{name}++" if step == "1u" else f"{name} += {step}"
        with self.braces(f"for (uint32_t {name} = {first}; {name} < {end}; {advance})"):
            self.block(op.body.block)

    def dma(self, op: upmem.DmaReadOp | upmem.DmaWriteOp) -> None:
        """A transfer, shortened to what is left where that is said."""
        size = f"{op.size.value.data}u"
        if op.rest is not None:
            size = f"least({size}, {self.expression(op.rest)})"
        source = self.address(op.source, op.source_offset)
        destination = self.address(op.destination, op.destination_offset)
        call = "mram_read" if isinstance(op, upmem.DmaReadOp) else "mram_write"
        self.say(f"{call}({source}, {destination}, {size});")

    def accumulate(self, op: upmem.LutAccumulateOp) -> None:
        """A call of the micro-kernel."""
        width = cast(Any, op.sums.type).element_type.width.data
        shape = self.kernel.geometry.shape
        kind = MicroKernel(
            op.variant.data.value,
            op.columns.value.data,
            op.centroids.value.data,
            shape.bits,
            cast(Any, op.idx_bits.value.data),
            "i32" if width == 32 else "i16",
            "fine" if op.buffer is not None else "coarse",
        )
        self.micro[kind.name] = kind
        arguments = [
            f"({kind.sum_type} *)({self.address(op.sums, op.sums_offset)})",
            self.address(op.index, op.index_offset),
            self.address(op.table, op.table_offset),
        ]
        if op.buffer is not None and op.buffer_offset is not None:
            arguments.append(self.address(op.buffer, op.buffer_offset))
        arguments += [self.expression(op.count), self.expression(op.fresh)]
        self.call(kind.name, arguments)

    def multiply(self, op: upmem.Int8AccumulateOp) -> None:
        """A call of the micro-kernel of int8 products."""
        width = cast(Any, op.sums.type).element_type.width.data
        kind = Int8Kernel(op.columns.value.data, "i32" if width == 32 else "i16")
        self.micro[kind.name] = kind
        arguments = [
            f"({kind.sum_type} *)({self.address(op.sums, op.sums_offset)})",
            self.expression(op.sums_pitch),
            self.address(op.activations, op.activations_offset),
            self.expression(op.activations_pitch),
            self.expression(op.rows),
            self.address(op.weights, op.weights_offset),
            self.expression(op.count),
            self.expression(op.fresh),
        ]
        self.call(kind.name, arguments)

    def call(self, name: str, arguments: Sequence[str]) -> None:
        """A call over as many lines as it needs."""
        line = f"{name}({', '.join(arguments)});"
        if len(line) + 4 * self.depth <= 100:
            self.say(line)
            return
        self.say(f"{name}(")
        for i, argument in enumerate(arguments):
            self.say(f"    {argument}{');' if i == len(arguments) - 1 else ','}")

    # Expressions

    def define(self, result: SSAValue, text: str, *, pure: bool) -> None:
        """An expression at its one use in the same block, else a named constant."""
        uses = list(result.uses)
        if not uses:
            return
        inline = len(uses) == 1 and uses[0].operation.parent is result.owner.parent  # pyright: ignore
        if inline and pure and result.name_hint is None:
            self.text_of[result] = text
            return
        hint = "tasklet" if isinstance(result.owner, upmem.TaskletIdOp) else result.name_hint
        name = self.names.unique(hint or "v")
        kind = "uint32_t" if result.type == IndexType() else "bool"
        self.say(f"const {kind} {name} = {_bare(text)};")
        self.text_of[result] = name

    def expression(self, value: SSAValue) -> str:
        """The C text of a value, without parentheses around the whole."""
        return _bare(self.text_of[value])

    def operand(self, value: SSAValue) -> str:
        """The C text of a value as part of a larger expression."""
        return self.text_of[value]

    def address(self, buffer: SSAValue, offset: SSAValue) -> str:
        """A position in a buffer, in bytes."""
        base, behind = self.operand(buffer), self.expression(offset)
        return base if behind == "0u" else f"{base} + {behind}"

    def value(self, op: Operation) -> str:
        """The expression that an operation computes, in parentheses where it has an operator."""
        args = [self.operand(v) for v in op.operands]
        match op:
            case arith.IndexCastOp():
                return args[0]
            case arith.MinUIOp():
                return f"least({_bare(args[0])}, {_bare(args[1])})"
            case arith.CmpiOp():
                return f"({args[0]} {_PREDICATES[op.predicate.value.data]} {args[1]})"
            case arith.SelectOp():
                return f"({args[0]} ? {args[1]} : {args[2]})"
            case arith.CeilDivUIOp():
                return self.ceil_div(op, args)
            case upmem.TaskletIdOp():
                return "me()"
            case _:
                if (sign := _BINARY.get(type(op))) is None:
                    raise reject(op, "dpu-c cannot print this operation")
                return f"({args[0]} {sign} {args[1]})"

    def ceil_div(self, op: arith.CeilDivUIOp, args: list[str]) -> str:
        """A rounded-up quotient by a constant; the DPU has no divider."""
        divisor = args[1].removesuffix("u")
        if not divisor.isdecimal():
            raise reject(op, "dpu-c divides by constants only")
        number = int(divisor)
        if number & (number - 1) == 0:
            shift = number.bit_length() - 1
            return f"(({args[0]} + {number - 1}u) >> {shift})"
        # What is divided is a number of rows of one DPU.
        self.divisions[number] = max(self.divisions.get(number, 0), self.kernel.geometry.rows)
        return f"ceil_div_{number}({_bare(args[0])})"


def _bare(text: str) -> str:
    """`text` without parentheses that enclose all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent="  ")


@dataclass(frozen=True)
class DpuCTarget(Target):
    """Header and program in one text, for reading and piping; `upmem_project` writes files."""

    name = "dpu-c"

    model: str = "model"
    """What names in the text begin with."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        program = Program.of(module, self.model)
        output.write(f"/* ---- {program.name}_program.h ---- */\n")
        output.write(program_header(program))
        output.write(f"\n/* ---- {program.name}_dpu.c ---- */\n")
        output.write(device_source(program))
