"""
Layers of tables in the graph interpreter: floats are float64 arrays, integers their own.

Each operation is its own function of arrays (`evaluate`); what is checked here is what a verifier
cannot see, the numbers that reach it at run time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import SSAValue

from ..analysis.lut_layer import accumulator_range
from ..dialects.lut import (
    BuildTableOp,
    DequantOp,
    EncodeOp,
    EncodeTreeOp,
    Int8LinearOp,
    LinearOp,
    LookupOp,
    LutOperation,
    RequantOp,
    ResidualMatmulOp,
    ToInt8Op,
    is_integer,
)
from ..dialects.lut_constants import constant_attribute, element_bits
from ..errors import reject


def _check_lookup(op: LookupOp, indices: np.ndarray, table: np.ndarray) -> None:
    """Indices name rows of the table, and entries that come at run time fit their bits and sum."""
    highest = int(indices.max(initial=0))
    if highest >= table.shape[1]:
        raise reject(op, f"index {highest} in a table of {table.shape[1]} rows a codebook")
    if op.quant is None or constant_attribute(op.table) is not None:
        return
    largest = int(np.abs(table.astype(np.int64)).max(initial=0))
    if largest > op.quant.limit:
        raise reject(
            op, f"an entry of magnitude {largest}; {op.quant.bits.data} bits hold {op.quant.limit}"
        )
    low, high = accumulator_range(table)
    bits = element_bits(op.result)
    if low < -(2 ** (bits - 1)) or high >= 2 ** (bits - 1):
        raise reject(op, f"sums reach [{low}, {high}], more than i{bits} holds")


def evaluate_lut(op: LutOperation, operands: PythonValues) -> tuple[np.ndarray, ...]:
    """
    The results of an operation of the `lut` dialect, floats as float64.

    Raises CompileError for an index without a row, and for a sum that its type does not hold.
    """
    arrays: dict[SSAValue, np.ndarray] = dict(zip(op.operands, operands, strict=True))
    if isinstance(op, LookupOp):
        _check_lookup(op, arrays[op.indices], arrays[op.table])
    return tuple(
        found if is_integer(result) else found.astype(np.float64)
        for found, result in zip(op.evaluate(arrays.__getitem__), op.results, strict=True)
    )


def _implementation(op_type: type[LutOperation]) -> Any:
    @impl(op_type)
    def run(
        self: InterpreterFunctions, interpreter: Interpreter, op: LutOperation, args: PythonValues
    ) -> PythonValues:
        return evaluate_lut(op, args)

    return run


class LutFunctions(InterpreterFunctions):
    """The operations of the `lut` dialect on arrays."""


for _op in (
    BuildTableOp,
    DequantOp,
    EncodeOp,
    EncodeTreeOp,
    Int8LinearOp,
    LinearOp,
    LookupOp,
    RequantOp,
    ResidualMatmulOp,
    ToInt8Op,
):
    setattr(LutFunctions, f"run_{_op.name}", _implementation(_op))
register_impls(LutFunctions)
