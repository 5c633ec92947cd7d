"""
From the imported level, or the graph level, to a linear stream-level function with formats and
depths: all the passes in order, as one.

`inr-opt model.mlir -p 'inr-hls-pipeline{activation=27 weight=18}' -t hls-cpp` prints the C++.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..analysis.operators import SHORTEST_PERIOD
from ..analysis.targets import DEFAULT_PART
from .array_stream_assign_formats import ArrayStreamAssignFormatsPass
from .array_stream_fuse import ArrayStreamFusePass
from .array_stream_insert_copies import ArrayStreamInsertCopiesPass
from .array_stream_select_parallelism import ArrayStreamSelectParallelismPass
from .array_stream_size_fifos import ArrayStreamSizeFifosPass
from .convert_inr_to_array_stream import ConvertInrToArrayStreamPass
from .convert_torch_to_inr import ConvertTorchToInrPass
from .inr_cse import InrCsePass
from .inr_fold_transpose import InrFoldTransposePass
from .inr_simplify import InrSimplifyPass


def graph_passes() -> list[ModulePass]:
    """The passes from the imported level to a simplified graph."""
    return [
        ConvertTorchToInrPass(),
        InrFoldTransposePass(),
        InrCsePass(),
        InrSimplifyPass(),
        InrCsePass(),
    ]


def stream_passes(
    formats: ArrayStreamAssignFormatsPass, parallelism: ArrayStreamSelectParallelismPass
) -> list[ModulePass]:
    """The passes from the graph level to hardware, all but the one that sizes FIFOs."""
    return [
        ConvertInrToArrayStreamPass(),
        ArrayStreamFusePass(),
        formats,
        parallelism,
        ArrayStreamInsertCopiesPass(),
    ]


@dataclass(frozen=True)
class InrHlsPipelinePass(ModulePass):
    """Every pass from the imported or graph level to the linear stream level."""

    name = "inr-hls-pipeline"

    mode: str = "measured"
    activation: int = 27
    weight: int = 18
    guard: int = 1
    tolerance: float | int | str | None = None
    domain: tuple[float | int | str, ...] = (-1.0, 1.0)
    samples: int = 512
    calibration: str | None = None
    part: str = DEFAULT_PART
    fill: float | int = 0.8
    lanes: int | None = None
    clock: float | int = SHORTEST_PERIOD
    depths: str = "default"
    alpha: float | int = 0.01
    objective: str = "bits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        formats = ArrayStreamAssignFormatsPass(
            self.mode,
            self.activation,
            self.weight,
            self.guard,
            self.tolerance,
            self.domain,
            self.samples,
            self.calibration,
        )
        parallelism = ArrayStreamSelectParallelismPass(
            self.part, self.fill, self.lanes, clock=self.clock
        )
        sizing = ArrayStreamSizeFifosPass(self.depths, self.alpha, self.objective)
        for each in (*graph_passes(), *stream_passes(formats, parallelism), sizing):
            each.apply(ctx, op)
