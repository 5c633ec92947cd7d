"""Exchanging the table of a layer: entries, scale, bias and what is known of the error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.arith import ConstantOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ..analysis.lut_fit import quantise_table
from ..analysis.lut_layer import accumulator_range
from ..dialects.lut import ErrorAttr, LinearOp, QuantAttr
from ..dialects.lut_constants import constant_array, named_constant
from ..errors import reject

Floats = NDArray[np.float32]


def part_of(op: LinearOp, value: SSAValue, what: str) -> NDArray[Any]:
    """The array of a layer's constant part. Raises CompileError where it is computed."""
    array = constant_array(value)
    if array is None:
        raise reject(
            op, f"the {what} of {op.name_in_model} is no constant; canonicalize may fold it"
        )
    return array


def numbers_of(op: LinearOp) -> Floats:
    """The table of a layer as numbers, CB×K×F: its entries times their scales."""
    table = part_of(op, op.table, "table")
    if op.scale is None:
        return table.astype(np.float32)
    return (table * part_of(op, op.scale, "scale")).astype(np.float32)


def rounding_bound(
    exact: NDArray[np.floating], table: NDArray[np.integer], scale: NDArray[np.floating]
) -> float:
    """The largest difference that a table in integers can make in an output: over all indices."""
    apart = np.abs(exact.astype(np.float64) - table * scale.astype(np.float64))
    return float(apart.max(axis=1).sum(axis=0).max(initial=0.0))


def quantised(table: Floats, quant: QuantAttr) -> tuple[NDArray[np.int8], Floats]:
    """A table as integers, and the scales in the shape that `quant` wants them."""
    one = quant.scheme.data == "per_tensor"
    entries, scale = quantise_table(table, quant.bits.data, per_tensor=one)
    return entries, scale[:1] if one else scale


def exchange(
    op: LinearOp,
    table: NDArray[Any],
    scale: Floats | None,
    quant: QuantAttr | None,
    *,
    bias: Floats | None = None,
    error: ErrorAttr | None = None,
) -> LinearOp:
    """
    Put a layer with another table in the place of `op`; `bias` where that is another one too.
    Constants that nobody needs any longer go.
    """
    made: list[Operation] = []

    def constant(values: NDArray[Any], what: str) -> SSAValue:
        name = None if op.layer is None else f"{op.layer.data}.{what}"
        made.append(named_constant(values, name))
        made[-1].location = op.location
        return made[-1].results[0]

    changes: dict[str, Any] = {
        "table": constant(table, "table"),
        "scale": None if scale is None else constant(scale, "scale"),
        "quant": quant,
        "error": error,
    }
    if bias is not None:
        changes["bias"] = constant(bias, "table_bias")
    given = [op.table, op.scale, op.bias]
    new = op.rebuilt(**changes)
    Rewriter.replace_op(op, [*made, new])
    erase_unused(given)
    return new


def erase_unused(values: list[SSAValue | None]) -> None:
    """Erase those of some values that are constants without a use."""
    for value in dict.fromkeys(values):
        if value is not None and isinstance(value.owner, ConstantOp) and not value.uses:
            Rewriter.erase_op(value.owner)


def range_of(table: NDArray[Any], quant: QuantAttr | None) -> tuple[int, int] | None:
    """The range of the sums of a table of integers; None of one of floats."""
    return None if quant is None else accumulator_range(table)
