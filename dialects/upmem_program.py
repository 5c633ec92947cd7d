"""
The program of the DPUs: the buffers that the host knows by name, and the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from ..analysis.upmem_legality import CACHE_BYTES, RUNTIME_BYTES, Machine, violations
from ..analysis.upmem_mapping import STACK_BYTES, Geometry, LutShape, Mapping
from ..analysis.upmem_target import find_target
from ..errors import CompileError
from .upmem_attributes import (
    MappingAttr,
    MramAttr,
    ShapeAttr,
    TargetAttr,
    WramAttr,
    space_of,
)
from .upmem_device import (
    WramBufferOp,
    buffer_bytes,
)


@irdl_op_definition
class SymbolOp(IRDLOperation):
    """
    A buffer of every DPU that the host knows by name:
    `upmem.symbol @index : memref<65536xi8, #upmem.mram>`. In WRAM it is a `__host` variable.

    `resident`: it keeps what was written once, over all launches.
    """

    name = "upmem.symbol"

    sym_name = prop_def(SymbolNameConstraint())
    type = prop_def(MemRefType)
    resident = opt_prop_def(UnitAttr)
    traits = traits_def(SymbolOpInterface())
    assembly_format = "$sym_name (`resident` $resident^)? attr-dict `:` $type"

    def __init__(self, name: str, type: MemRefType[Any], resident: bool = False):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "type": type,
                "resident": UnitAttr() if resident else None,
            }
        )

    @property
    def bytes(self) -> int:
        """The buffer's size."""
        return buffer_bytes(self.type)

    def verify_(self) -> None:
        if not isinstance(space_of(self.type), MramAttr | WramAttr):
            raise VerifyException(
                f"@{self.sym_name.data} lies in #upmem.mram or #upmem.wram, not {self.type}"
            )
        if self.bytes < 8 or self.bytes % 8:
            raise VerifyException(
                f"@{self.sym_name.data} has {self.bytes} bytes; transfers move multiples of 8"
            )


def symbol_of(op: Operation, ref: SymbolRefAttr) -> SymbolOp:
    found = SymbolTable.lookup_symbol(op, ref)
    if not isinstance(found, SymbolOp):
        raise VerifyException(f"there is no upmem.symbol @{ref.root_reference.data}")
    return found


@irdl_op_definition
class KernelOp(IRDLOperation):
    """
    What every tasklet of a DPU runs at a launch: a region whose arguments are symbols.

    ```mlir
    upmem.kernel @layer0(%index = @index : memref<…>, …) target #upmem.target<"v1A">
        mapping #upmem.mapping<…> shape #upmem.shape<…> {
      …
    }
    ```

    The verifier holds the mapping against the rules of the target (`analysis.upmem_legality`) and
    the WRAM buffers against each other.
    """

    name = "upmem.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    symbols = prop_def(ArrayAttr[SymbolRefAttr])
    target = prop_def(TargetAttr)
    mapping = prop_def(MappingAttr)
    shape = prop_def(ShapeAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        symbols: Sequence[SymbolOp],
        target: TargetAttr,
        mapping: MappingAttr,
        shape: ShapeAttr,
        body: Region | None = None,
    ):
        body = body or Region(Block(arg_types=[s.type for s in symbols]))
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "symbols": ArrayAttr([SymbolRefAttr(s.sym_name.data) for s in symbols]),
                "target": target,
                "mapping": mapping,
                "shape": shape,
            },
            regions=[body],
        )

    @property
    def geometry(self) -> Geometry:
        """The sizes that follow from mapping and shape; VerifyException where there are none."""
        if self.mapping.missing:
            raise VerifyException(
                f"the mapping of a kernel has {', '.join(self.mapping.missing)} as well"
            )
        shape, mapping = cast(Any, self.shape.values), cast(Any, self.mapping.values)
        try:
            return Geometry(LutShape(**shape), Mapping(**mapping))
        except CompileError as error:
            raise VerifyException(str(error)) from error

    @property
    def buffers(self) -> list[WramBufferOp]:
        """The WRAM buffers, in the order of the program."""
        return [op for op in self.body.walk() if isinstance(op, WramBufferOp)]

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name()

        def argument() -> tuple[Parser.UnresolvedArgument, SymbolRefAttr, Attribute]:
            value = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            symbol = parser.parse_symbol_name()
            parser.parse_punctuation(":")
            return value, SymbolRefAttr(symbol), parser.parse_type()

        arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        properties: dict[str, Attribute] = {
            "sym_name": name,
            "symbols": ArrayAttr([symbol for _, symbol, _ in arguments]),
        }
        for key in ("target", "mapping", "shape"):
            parser.parse_keyword(key)
            properties[key] = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict_with_keyword(tuple(properties))
        region = parser.parse_region([value.resolve(type_) for value, _, type_ in arguments])
        return cls.create(
            properties=properties,
            attributes={} if attributes is None else attributes.data,
            regions=[region],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            printer.print_list(
                zip(self.body.block.args, self.symbols, strict=True),
                lambda pair: (
                    printer.print_ssa_value(pair[0]),
                    printer.print_string(" = "),
                    printer.print_attribute(pair[1]),
                    printer.print_string(" : "),
                    printer.print_attribute(pair[0].type),
                ),
            )
        for key in ("target", "mapping", "shape"):
            printer.print_string(f" {key} ")
            printer.print_attribute(self.properties[key])
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    def verify_(self) -> None:
        geometry = self.geometry
        arguments = self.body.block.args
        if len(arguments) != len(self.symbols):
            raise VerifyException(f"{len(self.symbols)} symbols but {len(arguments)} arguments")
        for argument, ref in zip(arguments, self.symbols, strict=True):
            symbol = symbol_of(self, ref)
            if argument.type != symbol.type:
                raise VerifyException(
                    f"@{symbol.sym_name.data} is {symbol.type}, the argument {argument.type}"
                )
        target = find_target(self.target.target.data)
        if broken := violations(geometry.shape, geometry.mapping, Machine.of(target)):
            raise VerifyException("; ".join(map(str, broken)))
        self.verify_buffers()

    def verify_buffers(self) -> None:
        """WRAM buffers are static: they lie at the top of the kernel and do not overlap."""
        taken: list[tuple[int, int]] = []
        for buffer in self.buffers:
            if buffer.parent_op() is not self:
                raise VerifyException("a WRAM buffer is static: it lies at the top of its kernel")
            start = buffer.offset.value.data
            taken.append((start, start + buffer_bytes(buffer.buffer.type)))
        taken.sort()
        for (_, end), (start, _) in pairwise(taken):
            if start < end:
                raise VerifyException(
                    f"two WRAM buffers overlap: one ends at {end}, one starts at {start}"
                )
        target = find_target(self.target.target.data)
        tasklets = self.mapping.number("tasklets")
        need = tasklets * (STACK_BYTES + 8 + CACHE_BYTES) + RUNTIME_BYTES
        need += max((end for _, end in taken), default=0)
        if need > target.wram:
            raise VerifyException(
                f"R2: buffers, {tasklets} stacks and the runtime take {need:,} bytes of WRAM, "
                f"{need - target.wram:,} more than {target.wram:,}"
            )


def kernel_of(op: Operation, ref: SymbolRefAttr) -> KernelOp:
    found = SymbolTable.lookup_symbol(op, ref)
    if not isinstance(found, KernelOp):
        raise VerifyException(f"there is no upmem.kernel @{ref.root_reference.data}")
    return found
