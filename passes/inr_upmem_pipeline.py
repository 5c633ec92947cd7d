"""
From the imported level, or the graph level, to kernels for DPUs with the host code around them:
all the passes in order, as one.

`inr-opt net.mlir -p 'inr-upmem-pipeline{calibration=inputs.npz vec=4 k=16 dpus=64}' -t dpu-c`
prints the program of the DPUs. Where layers are tables already (an imported converted model), no
calibration is needed: products that are none then stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..dialects.lut import Int8LinearOp, LinearOp
from .convert_lut_to_upmem import ConvertLutToUpmemPass
from .convert_matmul_to_lut import ConvertMatmulToLutPass
from .inr_hls_pipeline import graph_passes
from .lut_fuse_shared_input import LutFuseSharedInputPass


@dataclass(frozen=True)
class InrUpmemPipelinePass(ModulePass):
    """Every pass from the imported or graph level to kernels and host code."""

    name = "inr-upmem-pipeline"

    calibration: str | None = None
    layers: str = ".*"
    vec: int = 4
    k: int = 16
    bits: int = 8
    fit: str = "refit"
    seed: int = 0
    target: str = "v1A"
    dpus: int | None = None
    mapping: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in graph_passes():
            each.apply(ctx, op)
        tables = any(isinstance(o, LinearOp | Int8LinearOp) for o in op.walk())
        if self.calibration is not None or not tables:
            ConvertMatmulToLutPass(
                calibration=self.calibration,
                layers=self.layers,
                vec=self.vec,
                k=self.k,
                bits=self.bits,
                fit=self.fit,
                seed=self.seed,
                keep_weights=False,
            ).apply(ctx, op)
        LutFuseSharedInputPass().apply(ctx, op)
        ConvertLutToUpmemPass(target=self.target, dpus=self.dpus, mapping=self.mapping).apply(
            ctx, op
        )
