"""
Layers of tables as programs for UPMEM: whatever the mapping, what the DPUs add is the lookup.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import inr
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from inr.analysis.lut_layer import LutLayer, lookup, table_limit
from inr.analysis.upmem_legality import Machine, violations
from inr.analysis.upmem_mapping import LOADS, ORDERS, Geometry, LutShape, Mapping, Variant
from inr.analysis.upmem_target import find_target
from inr.dialects import upmem
from inr.dialects.lut import LinearOp, LookupOp, QuantAttr
from inr.dialects.lut_constants import named_constant, ui8
from inr.dialects.lut_layers import lower_layer
from inr.errors import CompileError
from inr.interpreters.graph import run_graph
from inr.interpreters.upmem import run_upmem
from inr.interpreters.upmem_device import KernelFault
from inr.passes.convert_lut_to_upmem import ConvertLutToUpmemPass
from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType, f64, i8, i16
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.rewriter import Rewriter
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

MACHINE = Machine.of(find_target("v1A"))


def lookup_module(
    rows: int, table: np.ndarray, bits: int = 8, mapping: Mapping | None = None
) -> ModuleOp:
    """`main`: N×CB indices to the sums of a constant table."""
    block = Block(arg_types=[TensorType(ui8, (rows, table.shape[0]))])
    constant = named_constant(table.astype(np.int8), "table")
    op = LookupOp(block.args[0], constant, QuantAttr(bits))
    if mapping is not None:
        op.attributes["upmem.mapping"] = upmem.MappingAttr.of(asdict(mapping))
    block.add_ops([constant, op, ReturnOp(op)])
    types = [block.args[0].type], [op.result.type]
    return ModuleOp([FuncOp("main", types, Region(block))])


def convert(module: ModuleOp, **options: Any) -> ModuleOp:
    """The module, converted in place and verified."""
    ConvertLutToUpmemPass(**options).apply(Context(), module)
    module.verify()
    return module


def random_table(rng: np.random.Generator, shape: LutShape) -> np.ndarray:
    limit = table_limit(shape.bits)
    sizes = (shape.codebooks, shape.centroids, shape.features)
    return rng.integers(-limit, limit + 1, sizes).astype(np.int8)


@st.composite
def layers(draw: st.DrawFn) -> tuple[LutShape, Mapping]:
    """Small ragged shapes and mappings of every kind."""

    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    bits = draw(st.sampled_from([8, 8, 6, 5]))
    idx_bits = draw(st.sampled_from([4, 8, 16]))
    centroids = number(1, 16 if idx_bits == 4 else 40)
    shape = LutShape(number(1, 24), number(1, 23), centroids, number(1, 40), bits)
    variants: list[Variant] = ["scalar32", "swar16", *(["swar8"] if bits < 8 else [])]
    variant = draw(st.sampled_from(variants))
    load = draw(st.sampled_from(LOADS))
    # Four columns a word and DMA of 8 bytes are no matter where entries are added one by one.
    narrow = [4] if variant == "scalar32" and load != "fine" else []
    f_l, c_l = draw(st.sampled_from([8, 8, 16, *narrow])), 4 * number(1, 3)
    ip = number(1, 3)
    mapping = Mapping(
        ip=ip,
        lp=number(1, 3),
        n_m=number(1, 9),
        f_m=f_l * number(1, 2),
        c_m=c_l * number(1, 3),
        f_l=f_l,
        c_l=c_l,
        order=draw(st.sampled_from(ORDERS)),
        load=load,
        tasklets=number(1, 5),
        variant=variant,
        idx_bits=idx_bits,
        out=draw(st.sampled_from(["i32", "i16"])),
        residency=draw(st.sampled_from(["resident", "per_call"])),
        groups=draw(st.sampled_from([g for g in (1, 2, 3) if ip % g == 0])),
        split_cb=number(1, 2),
    )
    # Tiles larger than what there is, as a tuner would write them.
    g = Geometry(shape, mapping)
    c_m = min(mapping.c_m, g.codebooks)
    mapping = mapping.with_(f_m=min(mapping.f_m, g.features), c_m=c_m, c_l=min(c_l, c_m))
    assume(not violations(shape, mapping, MACHINE))
    return shape, mapping


@given(layers(), st.integers(0, 2**32 - 1), st.data())
@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
def test_every_mapping_adds_the_lookup(
    layer: tuple[LutShape, Mapping], seed: int, data: st.DataObject
) -> None:
    """Order x load x index width x variant x output x split x ragged sizes x rows of the call."""
    shape, mapping = layer
    event(f"{mapping.order} {mapping.load}")
    rng = np.random.default_rng(seed)
    table = random_table(rng, shape)
    indices = rng.integers(0, shape.centroids, (shape.rows, shape.codebooks)).astype(np.uint8)
    module = convert(lookup_module(shape.rows, table, shape.bits, mapping))
    rows = data.draw(st.integers(1, shape.rows), label="rows")
    (sums,) = run_upmem(module, [indices], rows=rows, seed=seed % 1000)
    np.testing.assert_array_equal(sums[:rows], lookup(indices[:rows], table))
    assert not sums[rows:].any()


SMALL = Mapping(
    ip=2,
    lp=2,
    n_m=5,
    f_m=16,
    c_m=8,
    f_l=8,
    c_l=4,
    tasklets=3,
    variant="swar16",
    residency="resident",
)
SHAPE = LutShape(23, 13, 16, 41)


def check_sums(module: ModuleOp, table: np.ndarray, rows: int = 23, **how: Any) -> None:
    """The module adds what the table says."""
    rng = np.random.default_rng(5)
    indices = rng.integers(0, table.shape[1], (rows, table.shape[0])).astype(np.uint8)
    (sums,) = run_upmem(module, [indices], **how)
    np.testing.assert_array_equal(sums, lookup(indices, table))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("load", LOADS)
def test_each_order_and_load_scheme(order: Any, load: Any) -> None:
    """All eighteen on a shape that is ragged in N, F and CB, with several turns of every loop."""
    table = random_table(np.random.default_rng(1), SHAPE)
    mapping = SMALL.with_(order=order, load=load)
    assert len(Geometry(SHAPE, mapping).loops) == 3
    check_sums(convert(lookup_module(23, table, mapping=mapping)), table, seed=7)


@pytest.mark.parametrize("order", ["nfc", "cfn", "fcn"])
def test_a_subtile_that_is_its_tile_is_moved_outside_the_loop_over_rows(order: Any) -> None:
    """With f_l = f_m and c_l = c_m the table of a tile is loaded where it changes."""
    table = random_table(np.random.default_rng(1), SHAPE)
    mapping = SMALL.with_(order=order, f_m=8, c_m=4)
    module = convert(lookup_module(23, table, mapping=mapping))
    (barrier, *_) = [op for op in module.walk() if isinstance(op, upmem.BarrierOp)]
    depth, parent = 0, barrier.parent_op()
    while not isinstance(parent, upmem.KernelOp):
        depth += isinstance(parent, scf.ForOp)
        assert parent is not None
        parent = parent.parent_op()
    assert depth == (3 if order == "nfc" else 2)
    check_sums(module, table, seed=3)


def test_extreme_entries_fill_the_lanes_and_no_more() -> None:
    """257 codebooks of the largest stored entry fill a lane of 16 bits; 260 are refused."""
    # 256 is the multiple of 4 below 257.
    table = np.full((256, 2, 8), 127, dtype=np.int8)
    mapping = Mapping(1, 1, 2, 8, 256, 8, 256, tasklets=1)
    check_sums(convert(lookup_module(2, table, mapping=mapping)), table, 2)
    table = np.full((260, 2, 8), 127, dtype=np.int8)
    with pytest.raises(CompileError, match=r"R9: codebooks a flush: 260 of at most 257"):
        convert(lookup_module(2, table, mapping=mapping.with_(c_m=260, c_l=260)))


def test_sums_of_16_bits_wrap_in_between_and_end_right() -> None:
    """Partial sums beyond 16 bits are no loss where the whole sum fits."""
    table = np.full((600, 2, 8), 127, dtype=np.int8)
    table[300:] = -127
    table[:, :, 3] = 0
    mapping = Mapping(1, 1, 1, 8, 100, 8, 100, order="cnf", tasklets=1, out="i16")
    assert violations(LutShape(2, 600, 2, 8), mapping, MACHINE)
    check_sums(convert(lookup_module(2, table, mapping=mapping)), table, 2)


@pytest.mark.parametrize("out", ["i32", "i16"])
def test_sums_go_into_the_type_that_was_asked_for(out: Any) -> None:
    """A lookup in i16 gives i16, whatever DPUs count in."""
    table = random_table(np.random.default_rng(3), LutShape(6, 12, 16, 24))
    module = lookup_module(6, table, mapping=SMALL.with_(out=out))
    old = next(op for op in module.walk() if isinstance(op, LookupOp))
    new = LookupOp(old.indices, old.table, old.quant, i16)
    new.attributes.update(old.attributes)
    Rewriter.replace_op(old, new)
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    function.function_type = FunctionType.from_lists(
        [*function.function_type.inputs], [new.result.type]
    )
    check_sums(convert(module), table, 6)
    (result,) = function.function_type.outputs
    assert isinstance(result, TensorType)
    assert result.element_type == i16


def test_two_layers_share_a_grid_and_their_buffers() -> None:
    """A whole model with biases, residual channels and tables of both residencies, in order."""
    rng = np.random.default_rng(0)

    def layer(name: str, width: int, columns: int, **more: Any) -> LutLayer:
        blocks = -(-width // 4)
        return LutLayer(
            name,
            width,
            rng.integers(-900, 900, (blocks, 16, 4)).astype(np.int16),
            np.full(blocks, 2.0**-9, np.float32),
            rng.integers(-127, 128, (blocks, 16, columns)).astype(np.int8),
            rng.uniform(0.01, 0.02, columns).astype(np.float32),
            rng.normal(size=columns).astype(np.float32),
            **more,
        )

    block = Block(arg_types=[TensorType(f64, (9, 30))])
    residual = {
        "channels": np.array([3, 7], dtype=np.int32),
        "residual": rng.normal(size=(2, 33)).astype(np.float32),
    }
    first = lower_layer(layer("0.fc", 30, 33, **residual), block.args[0])
    second = lower_layer(layer("1.fc", 33, 5), first[-1].results[0])
    for ops, residency in ((first, "resident"), (second, "per_call")):
        attribute = upmem.MappingAttr.of({"residency": residency})
        ops[-1].attributes["upmem.mapping"] = attribute
    block.add_ops([*first, *second, ReturnOp(second[-1])])
    types = [block.args[0].type], [second[-1].results[0].type]
    module = ModuleOp([FuncOp("main", types, Region(block))])
    x = rng.normal(size=(9, 30))
    (expected,) = run_graph(module, [x])
    convert(module, dpus=16)
    (found,) = run_upmem(module, [x])
    np.testing.assert_array_equal(found, expected)
    kernels = [op for op in module.ops if isinstance(op, upmem.KernelOp)]
    assert [k.sym_name.data for k in kernels] == ["layer_0_fc", "layer_1_fc"]
    assert kernels[0].symbols.data[0] == kernels[1].symbols.data[0]
    assert not any(isinstance(op, LinearOp | LookupOp) for op in module.walk())
    before = str(module)
    assert str(convert(module, dpus=16)) == before


def two_layers(*mappings: Mapping) -> ModuleOp:
    """Two functions' worth of lookups in one, by one table of 16×16×32 each."""
    rng = np.random.default_rng(4)
    block = Block(arg_types=[TensorType(ui8, (8, 16))])
    sums: list[LookupOp] = []
    for number in range(2):
        table = named_constant(rng.integers(-9, 9, (16, 16, 32)).astype(np.int8), f"t{number}")
        sums.append(LookupOp(block.args[0], table, QuantAttr(8)))
        if mappings:
            fields = upmem.MappingAttr.of(asdict(mappings[number]))
            sums[-1].attributes["upmem.mapping"] = fields
        block.add_ops([table, sums[-1]])
    block.add_op(ReturnOp(*sums))
    types = [block.args[0].type], [op.result.type for op in sums]
    return ModuleOp([FuncOp("main", types, Region(block))])


def test_layers_that_do_not_fit_together_take_turns(tmp_path: Path) -> None:
    """With MRAM for one table of 8 KB the tuner sends what cannot stay; fixed mappings cannot."""
    text = (Path(inr.__file__).parent / "targets" / "upmem-v1A.toml").read_text()
    small, count = re.subn(r"^mram = .*$", "mram = 12288", text, flags=re.MULTILINE)
    assert count == 1
    target = tmp_path / "small.toml"
    target.write_text(small)
    module = convert(two_layers(), target=str(target), dpus=1)
    kernels = [op for op in module.ops if isinstance(op, upmem.KernelOp)]
    assert "per_call" in {k.mapping.word("residency") for k in kernels}
    indices = np.random.default_rng(1).integers(0, 16, (8, 16)).astype(np.uint8)
    (expected, found) = run_graph(two_layers(), [indices]), run_upmem(module, [indices])
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)
    both = Mapping(1, 1, 8, 32, 16, 8, 16, tasklets=2)
    with pytest.raises(CompileError, match=r"R1: the tables of 2 layers .* more than the 12,288"):
        convert(two_layers(both, both), target=str(target), dpus=1)


def test_clean_up_keeps_the_meaning() -> None:
    """CSE, DCE and canonicalisation keep transfers, DMA and barriers in their places."""
    table = random_table(np.random.default_rng(1), SHAPE)
    mapping = SMALL.with_(order="cnf", groups=2, residency="per_call")
    module = convert(lookup_module(23, table, mapping=mapping))
    kinds = (upmem.BarrierOp, upmem.DmaReadOp, upmem.DmaWriteOp, upmem.ScatterOp, upmem.LaunchOp)
    before = [type(op) for op in module.walk() if isinstance(op, kinds)]
    for clean in (CommonSubexpressionElimination(), DeadCodeElimination(), CanonicalizePass()):
        clean.apply(Context(), module)
        module.verify()
        assert [type(op) for op in module.walk() if isinstance(op, kinds)] == before
        check_sums(module, table)


def without(module: ModuleOp, kind: type, number: int) -> ModuleOp:
    """The module less one operation of a kind."""
    found = [op for op in module.walk() if isinstance(op, kind)]
    Rewriter.erase_op(found[number])
    return module


@pytest.mark.parametrize(
    ("load", "kind", "number", "fault"),
    [
        ("coarse", upmem.BarrierOp, 0, "no barrier between"),
        ("coarse", upmem.BarrierOp, 1, "no barrier between|was never written"),
        ("static", upmem.BarrierOp, 0, "no barrier between|was never written"),
        ("coarse", upmem.DmaReadOp, 0, "was never written"),
        ("coarse", upmem.WaitOp, 0, r"runs \(R7\)"),
    ],
)
def test_the_interpreter_sees_what_is_missing(
    load: Any, kind: type, number: int, fault: str
) -> None:
    """A barrier, a move or a wait less is a fault, not a number that happens to be right."""
    table = random_table(np.random.default_rng(1), SHAPE)
    module = convert(lookup_module(23, table, mapping=SMALL.with_(load=load)))
    with pytest.raises(KernelFault, match=fault):
        check_sums(without(module, kind, number), table)


def test_the_interpreter_sees_an_index_without_a_row() -> None:
    """An index is checked against the centroids (R10)."""
    table = random_table(np.random.default_rng(1), LutShape(4, 4, 3, 8))
    module = convert(lookup_module(4, table), dpus=1)
    with pytest.raises(KernelFault, match=r"index 3 of 3 rows \(R10\)"):
        run_upmem(module, [np.full((4, 4), 3, dtype=np.uint8)])


class TestRefused:
    """Errors come before anything is changed."""

    def refuse(self, module: ModuleOp, match: str, **options: Any) -> None:
        """The conversion is refused and the module is what it was."""
        before = str(module)
        with pytest.raises(CompileError, match=match):
            ConvertLutToUpmemPass(**options).apply(Context(), module)
        assert str(module) == before

    def module(self, mapping: Mapping | None = None) -> ModuleOp:
        """A small layer."""
        return lookup_module(23, random_table(np.random.default_rng(1), SHAPE), mapping=mapping)

    def test_a_mapping_that_breaks_a_rule(self) -> None:
        """The rule, what it needs and what there is."""
        self.refuse(self.module(SMALL.with_(tasklets=25)), "R4: tasklets: 25 of at most 24")
        self.refuse(self.module(SMALL.with_(ip=9)), "R8: DPUs: 18 of at most 8", dpus=8)

    def test_options(self) -> None:
        """A target and fields that are not known."""
        self.refuse(self.module(), "unknown UPMEM target 'v9'", target="v9")
        self.refuse(self.module(), "'ipp=4' is no field", mapping="ipp=4")
        self.refuse(self.module(), "dpus=9999: v1A has 2560 in 40 ranks", dpus=9999)
        self.refuse(self.module(), "0 DPUs in 0 ranks", dpus=0)

    def test_groups_of_two_kinds(self) -> None:
        """One grid has one number of groups; both layers are named."""
        a, b = (self.module(SMALL.with_(groups=g)) for g in (1, 2))
        other = next(op for op in b.ops if isinstance(op, FuncOp))
        other.detach()
        other.sym_name = StringAttr("other")
        a.body.block.add_op(other)
        self.refuse(a, "layer1 wants 2 groups of ranks and layer0 1")

    def test_a_function_that_is_called(self) -> None:
        """It would get an argument that its callers do not have."""
        module = self.module()
        function = next(op for op in module.ops if isinstance(op, FuncOp))
        block = Block(arg_types=function.function_type.inputs)
        call = CallOp("main", list(block.args), function.function_type.outputs.data)
        block.add_ops([call, ReturnOp(call)])
        module.body.block.add_op(FuncOp("outer", function.function_type, Region(block)))
        self.refuse(module, "@main has layers of tables and would get a grid")

    def test_tables_of_floats(self) -> None:
        """They have no sum of integers."""
        block = Block(arg_types=[TensorType(ui8, (2, 3))])
        constant = named_constant(np.zeros((3, 4, 5), dtype=np.float32), "table")
        op = LookupOp(block.args[0], constant)
        block.add_ops([constant, op, ReturnOp(op)])
        function = FuncOp("main", ([block.args[0].type], [op.result.type]), Region(block))
        self.refuse(ModuleOp([function]), "the table is of floats; lut-quantize")

    def test_a_table_that_is_no_constant_is_sent_with_every_call(self) -> None:
        """It cannot stay; without a word it does not."""

        def module() -> ModuleOp:
            types = [TensorType(ui8, (4, 8)), TensorType(i8, (8, 16, 10))]
            block = Block(arg_types=types)
            op = LookupOp(block.args[0], block.args[1], QuantAttr(8))
            block.add_ops([op, ReturnOp(op)])
            return ModuleOp([FuncOp("main", (types, [op.result.type]), Region(block))])

        self.refuse(module(), "cannot be resident", mapping="residency=resident")
        found = convert(module(), dpus=4)
        rng = np.random.default_rng(2)
        table = rng.integers(-127, 128, (8, 16, 10)).astype(np.int8)
        indices = rng.integers(0, 16, (4, 8)).astype(np.uint8)
        (sums,) = run_upmem(found, [indices, table])
        np.testing.assert_array_equal(sums, lookup(indices, table))
