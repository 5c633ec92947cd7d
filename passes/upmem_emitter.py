"""
Index arithmetic and loops, built at the end of a block: what is known is folded as it is built.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, i1
from xdsl.ir import Block, Operation, Region, SSAValue

OpT = TypeVar("OpT", bound=Operation)

Index = int | SSAValue
"""A number that is known, or a value of type `index`."""


class Emitter:
    """
    Appends operations to a block, and to the regions of the loops that it opens.

    Constants are gathered at the top of the block that it was made for, each once.
    """

    def __init__(self, block: Block):
        self._top = block
        self._block = block
        self._constants: dict[tuple[int, bool], SSAValue] = {}
        self._last_constant: Operation | None = None

    def op(self, op: OpT, name: str | None = None) -> OpT:
        """Appends an operation; `name` is the hint of its result."""
        self._block.add_op(op)
        if name is not None and op.results:
            op.results[0].name_hint = name
        return op

    def _constant(self, number: int, flag: bool) -> SSAValue:
        if (found := self._constants.get((number, flag))) is None:
            type_ = i1 if flag else IndexType()
            op = arith.ConstantOp(IntegerAttr(number, type_))
            if self._last_constant is None:
                if (first := self._top.first_op) is None:
                    self._top.add_op(op)
                else:
                    self._top.insert_op_before(op, first)
            else:
                self._top.insert_op_after(op, self._last_constant)
            self._last_constant = op
            found = self._constants[number, flag] = op.result
            found.name_hint = ("true" if number else "false") if flag else f"c{number}"
        return found

    def value(self, number: Index) -> SSAValue:
        """A number as a value."""
        return self._constant(number, False) if isinstance(number, int) else number

    def flag(self, known: bool | SSAValue) -> SSAValue:
        """A condition as a value."""
        return self._constant(int(known), True) if isinstance(known, bool) else known

    def add(self, a: Index, b: Index, name: str | None = None) -> Index:
        """a + b."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if 0 in (a, b):
            return b if a == 0 else a
        return self.op(arith.AddiOp(self.value(a), self.value(b)), name).result

    def sub(self, a: Index, b: Index, name: str | None = None) -> Index:
        """a - b."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if b == 0:
            return a
        return self.op(arith.SubiOp(self.value(a), self.value(b)), name).result

    def mul(self, a: Index, b: Index, name: str | None = None) -> Index:
        """a·b."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if 0 in (a, b):
            return 0
        if 1 in (a, b):
            return b if a == 1 else a
        return self.op(arith.MuliOp(self.value(a), self.value(b)), name).result

    def half(self, a: Index) -> Index:
        """⌊a/2⌋."""
        if isinstance(a, int):
            return a // 2
        return self.op(arith.ShRUIOp(a, self.value(1))).result

    def least(self, a: Index, b: Index, name: str | None = None) -> Index:
        """The smaller one."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.op(arith.MinUIOp(self.value(a), self.value(b)), name).result

    def ceil_div(self, a: Index, b: int, name: str | None = None) -> Index:
        """⌈a/b⌉."""
        if isinstance(a, int):
            return -(-a // b)
        return a if b == 1 else self.op(arith.CeilDivUIOp(a, self.value(b)), name).result

    def select(self, condition: bool | SSAValue, a: Index, b: Index, name: str) -> Index:
        """a where the condition holds, else b."""
        if isinstance(condition, bool):
            return a if condition else b
        if a == b:
            return a
        return self.op(arith.SelectOp(condition, self.value(a), self.value(b)), name).result

    def equal(self, a: Index, b: Index, name: str | None = None) -> bool | SSAValue:
        """a = b."""
        return self._compare(a, b, "eq", name)

    def differ(self, a: Index, b: Index, name: str | None = None) -> bool | SSAValue:
        """a ≠ b."""
        return self._compare(a, b, "ne", name)

    def _compare(self, a: Index, b: Index, how: str, name: str | None) -> bool | SSAValue:
        if isinstance(a, int) and isinstance(b, int):
            return (a == b) == (how == "eq")
        return self.op(arith.CmpiOp(self.value(a), self.value(b), how), name).result

    @contextmanager
    def loop(self, first: Index, end: Index, step: Index, name: str) -> Generator[Index]:
        """
        The body of a loop; what is emitted in it goes there. A loop of one turn that is known to
        be one is not there, its variable a number.
        """
        if isinstance(first, int) and isinstance(end, int) and isinstance(step, int):
            if first < end <= first + step:
                yield first
                return
        block = Block(arg_types=[IndexType()])
        block.args[0].name_hint = name
        loop = scf.ForOp(self.value(first), self.value(end), self.value(step), [], Region(block))
        with self._inside(loop, block):
            yield block.args[0]

    @contextmanager
    def when(self, condition: bool | SSAValue) -> Generator[None]:
        """What happens only where the condition holds; it is not known to fail."""
        if isinstance(condition, bool):
            assert condition
            yield
            return
        block = Block()
        with self._inside(scf.IfOp(condition, [], Region(block)), block):
            yield

    @contextmanager
    def _inside(self, op: Operation, block: Block) -> Generator[None]:
        self.op(op)
        outer, self._block = self._block, block
        yield
        block.add_op(scf.YieldOp())
        self._block = outer
