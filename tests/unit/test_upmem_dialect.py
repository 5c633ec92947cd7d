"""
The Python side of the `upmem` dialect: attributes, the micro-kernel's meaning, and faults of a run.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inr.analysis.upmem_mapping import FIELDS, LutShape, Mapping
from inr.dialects import upmem
from inr.interpreters.upmem import UpmemFunctions
from inr.interpreters.upmem_device import Buffer, KernelFault, Launch
from inr.passes.upmem_emitter import Emitter
from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import Builtin, IndexType, MemRefType, ModuleOp, i8, i16, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.parser import Parser
from xdsl.traits import MemoryEffectKind, get_effects
from xdsl.utils.exceptions import ParseError, VerifyException


def parse_attribute(text: str) -> Any:
    """An attribute read from text."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(upmem.Upmem)
    return Parser(context, text).parse_attribute()


MAPPING = Mapping(ip=1, lp=1, n_m=4, f_m=8, c_m=8, f_l=8, c_l=8, tasklets=2)


def test_a_mapping_attribute_is_a_mapping() -> None:
    """The same fields in the same order; there and back, and through text."""
    attribute = upmem.MappingAttr.of(asdict(MAPPING))
    assert tuple(upmem.MappingAttr.FIELDS) == FIELDS
    assert Mapping(**attribute.values) == MAPPING  # pyright: ignore[reportArgumentType]
    assert not attribute.missing
    assert parse_attribute(str(attribute)) == attribute
    part = upmem.MappingAttr.of({"order": "cfn", "ip": 3, "lp": None})
    assert str(part) == "#upmem.mapping<ip = 3, order = cfn>"
    assert "lp" in part.missing


def test_a_shape_attribute_is_a_shape() -> None:
    """Bounds may be negative, what is not known is left out."""
    shape = LutShape(5, 6, 7, 8, 8, -9, 10)
    attribute = upmem.ShapeAttr.of(asdict(shape))
    assert LutShape(**attribute.values) == shape  # pyright: ignore[reportArgumentType]
    assert parse_attribute(str(attribute)) == attribute
    assert "vec" not in attribute.values


def test_a_field_is_given_once() -> None:
    """Twice is a mistake of the text."""
    with pytest.raises(ParseError, match="a field is given twice"):
        parse_attribute("#upmem.mapping<ip = 4, ip = 4>")


def test_a_mapping_attribute_knows_its_fields() -> None:
    """Built in Python, it is held against the same rules."""
    with pytest.raises(VerifyException, match="scalar32, swar16, swar8, int8, not u"):
        upmem.MappingAttr.of({"variant": "u"})


@given(st.integers(1, 300), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_groups_of_a_grid_are_a_partition(dpus: int, groups: int) -> None:
    """Every DPU is in one group and no group is empty, or there is no such grid."""
    size = -(-dpus // groups)
    if (groups - 1) * size >= dpus:
        with pytest.raises(VerifyException, match="are fewer than"):
            upmem.GridType(dpus, groups, 1)
        return
    grid = upmem.GridType(dpus, groups, 1)
    assert {dpu // grid.group_size for dpu in range(dpus)} == set(range(groups))


def kernel_of(*symbols: upmem.SymbolOp) -> tuple[ModuleOp, upmem.KernelOp]:
    """A module with these symbols and an empty kernel of them."""
    shape = upmem.ShapeAttr.of(asdict(LutShape(4, 8, 16, 8)))
    mapping = upmem.MappingAttr.of(asdict(MAPPING.with_(tasklets=1)))
    kernel = upmem.KernelOp("k", symbols, upmem.TargetAttr("v1A"), mapping, shape)
    return ModuleOp([*symbols, kernel]), kernel


def wram(name: str, size: int, element: Any = i8) -> upmem.SymbolOp:
    """A symbol in WRAM."""
    count = size * 8 // element.width.data
    return upmem.SymbolOp(name, MemRefType(element, [count], memory_space=upmem.WramAttr()))


def accumulate(
    index: bytes, table: np.ndarray, sums: np.ndarray, count: int, fresh: bool, **fields: Any
) -> np.ndarray:
    """Runs the micro-kernel once; `index` and `table` are the bytes it reads."""
    element = i32 if sums.dtype == np.int32 else i16
    symbols = wram("i", 64), wram("t", -(-table.size // 8) * 8), wram("s", sums.nbytes, element)
    module, kernel = kernel_of(*symbols)
    emit = Emitter(kernel.body.block)
    i, t, out = kernel.body.block.args
    zero = emit.value(0)
    variant = fields.pop("variant")
    emit.op(
        upmem.LutAccumulateOp(
            variant,
            (i, zero),
            emit.value(count),
            (t, zero),
            (out, zero),
            emit.flag(fresh),
            columns=table.shape[2],
            centroids=table.shape[1],
            **fields,
        )
    )
    module.verify()
    buffers = {
        symbol.sym_name.data: Buffer(symbol.sym_name.data, symbol.bytes) for symbol in symbols
    }
    for name, data in (("i", index), ("t", table.tobytes()), ("s", sums.tobytes())):
        raw = np.frombuffer(data, np.uint8)
        buffers[name].data[: len(raw)] = raw
        buffers[name].defined[: len(raw)] = True
    Launch(kernel, buffers).run()
    return buffers["s"].data.view(sums.dtype)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    ("variant", "bias", "flush", "dtype"),
    [
        ("scalar32", 0, None, np.int32),
        ("swar16", 128, None, np.int32),
        ("swar16", 32, None, np.int16),
        ("swar8", 32, 4, np.int16),
        ("swar8", 16, 8, np.int32),
    ],
)
@pytest.mark.parametrize("idx_bits", [4, 8, 16])
def test_the_micro_kernel(
    fresh: bool, variant: str, bias: int, flush: int | None, dtype: Any, idx_bits: int
) -> None:
    """Each variant and width of an index against three loops."""
    rng = np.random.default_rng(idx_bits + bias)
    limit = (bias or 128) - 1
    entries = rng.integers(-limit, limit + 1, (8, 16, 8))
    chosen = rng.integers(0, 16, 8)
    sums = rng.integers(-99, 100, 8).astype(dtype)
    if idx_bits == 4:
        index = bytes(int(a) | int(b) << 4 for a, b in zip(chosen[::2], chosen[1::2], strict=True))
    else:
        index = (chosen * (8 if idx_bits == 16 else 1)).astype(f"<u{idx_bits // 8}").tobytes()
    stored = (entries + bias).astype(np.uint8 if bias else np.int8)
    expected = [0 if fresh else int(v) for v in sums]
    for f in range(8):
        for c in range(8):
            expected[f] += int(entries[c, chosen[c], f])
    fields: dict[str, Any] = {"variant": variant, "idx_bits": idx_bits, "bias": bias}
    found = accumulate(index, stored, sums, 8, fresh, codebooks=8, flush=flush, **fields)
    assert found.tolist() == expected


def test_additions_wrap() -> None:
    """Sums of 16 bits are taken modulo 2^16."""
    table = np.full((8, 1, 8), 127, dtype=np.int8)
    sums = np.full(8, 32000, dtype=np.int16)
    fields: dict[str, Any] = {"variant": "scalar32", "idx_bits": 8, "bias": 0, "codebooks": 8}
    found = accumulate(bytes(8), table, sums, 8, False, **fields)
    assert found.tolist() == [32000 + 8 * 127 - 65536] * 8


@pytest.mark.parametrize(
    ("count", "index", "fault"),
    [(6, bytes(8), "6 codebooks of 8"), (8, bytes([0] * 7 + [16]), r"index 16 of 16 rows \(R10\)")],
)
def test_the_micro_kernel_refuses(count: int, index: bytes, fault: str) -> None:
    """A count that is no multiple of 4, an index without a row."""
    table = np.zeros((8, 16, 8), dtype=np.uint8)
    fields: dict[str, Any] = {"variant": "swar16", "idx_bits": 8, "bias": 128, "codebooks": 8}
    with pytest.raises(KernelFault, match=fault):
        accumulate(index, table, np.zeros(8, np.int32), count, True, **fields)


def test_buffers_notice_tasklets_that_are_not_ordered() -> None:
    """Reads side by side are fine; a write beside another's access is not, until a barrier."""
    buffer, part = Buffer("b", 16), slice(0, 8)
    buffer.touch("read", part, 0, 1, write=False)
    buffer.touch("read", part, 1, 1, write=False)
    with pytest.raises(KernelFault, match="byte 4 of b is written by tasklet 0"):
        buffer.touch("write", slice(4, 12), 0, 1, write=True)
    buffer.touch("write", part, 0, 2, write=True)
    buffer.touch("read", part, 0, 2, write=False)
    with pytest.raises(KernelFault, match="byte 0 of b is read by tasklet 1"):
        buffer.touch("read", part, 1, 2, write=False)
    buffer.touch("read", part, 1, 3, write=False)


def test_a_batch_has_the_rows_of_the_call() -> None:
    """More than the program was made for is a fault."""
    op = upmem.BatchOp(8)
    functions = UpmemFunctions(rows=9)
    with pytest.raises(KernelFault, match="9 rows of at most 8"):
        functions.run_batch(None, op, ())  # pyright: ignore[reportArgumentType]


def kinds(op: Operation) -> set[MemoryEffectKind]:
    """The kinds of an operation's effects."""
    effects = get_effects(op)
    assert effects is not None
    return {effect.kind for effect in effects}


def test_every_operation_says_what_it_does() -> None:
    """No operation's effects are unknown but a symbol's and a kernel's, which are declarations."""
    declared = {upmem.SymbolOp, upmem.KernelOp}
    for op in set(upmem.Upmem.operations) - declared:
        names = {type(trait).__name__ for trait in op.traits.traits}
        known = {"Pure", "CreatesGrid", "FreesGrid", "ChangesGrid", "ReadsGrid"}
        known |= {"CopiesSource", "Accumulates", "Multiplies", "Synchronises", "AllocatesBuffer"}
        assert names & known, op.name
    assert kinds(upmem.BarrierOp()) == {MemoryEffectKind.READ, MemoryEffectKind.WRITE}


class TestEmitter:
    """What is known is not computed."""

    def test_numbers_stay_numbers(self) -> None:
        """No operation for constants, none for neutral elements."""
        block = Block(arg_types=[IndexType()])
        emit, x = Emitter(block), block.args[0]
        assert emit.add(emit.mul(3, 4), emit.sub(9, 2)) == 19
        assert emit.add(x, 0) is x
        assert emit.add(0, x) is x
        assert emit.mul(x, 1) is x
        assert emit.mul(1, x) is x
        assert emit.mul(x, 0) == 0
        assert emit.sub(x, 0) is x
        assert emit.ceil_div(7, 2) == 4
        assert emit.ceil_div(x, 1) is x
        assert (emit.least(3, 5), emit.half(7)) == (3, 3)
        assert emit.select(emit.equal(3, 3), x, 0, "s") is x
        assert not list(block.ops)

    def test_constants_are_made_once_at_the_top(self) -> None:
        """A constant first needed inside a loop serves what follows the loop as well."""
        block = Block(arg_types=[IndexType()])
        emit, x = Emitter(block), block.args[0]
        with emit.loop(0, x, 1, "i") as i:
            inside = emit.mul(i, 7)
        outside = emit.mul(x, 7)
        assert isinstance(inside, SSAValue)
        assert isinstance(outside, SSAValue)
        found = [type(op) for op in block.ops]
        assert found == [arith.ConstantOp] * 3 + [scf.ForOp, arith.MuliOp]
        assert outside.owner.operands[1] is inside.owner.operands[1]  # pyright: ignore
        block.verify()

    def test_a_loop_of_one_turn_is_not_there(self) -> None:
        """Its variable is a number; a loop of two turns is a loop."""
        block = Block()
        emit = Emitter(block)
        with emit.loop(0, 8, 8, "i") as i:
            assert i == 0
        assert not list(block.ops)
        with emit.loop(0, 9, 8, "i") as i:
            assert isinstance(i, SSAValue)
