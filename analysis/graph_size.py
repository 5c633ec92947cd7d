"""How large a graph is: the figures that reports and tests compare."""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.traits import IsTerminator

from ..dialects.inr import MatmulOp


def count_nodes(module: ModuleOp) -> tuple[int, int]:
    """
    The nodes and the matrix products of the functions of a graph-level module.

    A node is any operation but a constant or a return.
    """
    nodes = matmuls = 0
    for op in module.walk():
        if isinstance(op, ModuleOp | FuncOp | ConstantOp) or op.has_trait(IsTerminator):
            continue
        nodes += 1
        matmuls += isinstance(op, MatmulOp)
    return nodes, matmuls
