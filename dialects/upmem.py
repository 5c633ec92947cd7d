"""
The processing-in-memory level: host code that moves bytes to and from DPUs, and their kernels.

Every decision of a program is here: what lies where in a DPU's two memories, how rows, columns and
codebooks are cut, who loads what and when, and what waits for what. Printers only spell it.

Offsets and lengths are in bytes everywhere, whatever the element type of a buffer: transfers,
DMA and pointer arithmetic in the generated C count bytes. `docs/dialects/upmem.md` has the layouts.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from .upmem_attributes import (
    GridType,
    MappingAttr,
    MramAttr,
    ShapeAttr,
    TargetAttr,
    WramAttr,
    bits_of,
    space_of,
)
from .upmem_device import (
    BarrierOp,
    DmaReadOp,
    DmaWriteOp,
    LutAccumulateOp,
    TaskletIdOp,
    Variant,
    VariantAttr,
    WramBufferOp,
    buffer_bytes,
)
from .upmem_host import (
    AllocGridOp,
    BatchOp,
    BroadcastOp,
    FreeOp,
    GatherOp,
    LaunchOp,
    PackIndicesOp,
    PackTableOp,
    ScatterOp,
    SplitRowsOp,
    UnpackSumsOp,
    WaitOp,
    grid_type,
    shape_of,
)
from .upmem_product import Int8AccumulateOp
from .upmem_program import KernelOp, SymbolOp

__all__ = [
    "AllocGridOp",
    "BarrierOp",
    "BatchOp",
    "BroadcastOp",
    "DmaReadOp",
    "DmaWriteOp",
    "FreeOp",
    "GatherOp",
    "GridType",
    "Int8AccumulateOp",
    "KernelOp",
    "LaunchOp",
    "LutAccumulateOp",
    "MappingAttr",
    "MramAttr",
    "PackIndicesOp",
    "PackTableOp",
    "ScatterOp",
    "ShapeAttr",
    "SplitRowsOp",
    "SymbolOp",
    "TargetAttr",
    "TaskletIdOp",
    "UnpackSumsOp",
    "Upmem",
    "Variant",
    "VariantAttr",
    "WaitOp",
    "WramAttr",
    "WramBufferOp",
    "bits_of",
    "buffer_bytes",
    "grid_type",
    "shape_of",
    "space_of",
]


Upmem = Dialect(
    "upmem",
    [
        AllocGridOp,
        BarrierOp,
        BatchOp,
        BroadcastOp,
        DmaReadOp,
        DmaWriteOp,
        FreeOp,
        GatherOp,
        Int8AccumulateOp,
        KernelOp,
        LaunchOp,
        LutAccumulateOp,
        PackIndicesOp,
        PackTableOp,
        ScatterOp,
        SplitRowsOp,
        SymbolOp,
        TaskletIdOp,
        UnpackSumsOp,
        WaitOp,
        WramBufferOp,
    ],
    [GridType, MappingAttr, MramAttr, ShapeAttr, TargetAttr, VariantAttr, WramAttr],
)
