"""
What this project adds to xDSL; found through the `xdsl.universe` entry point.

Every value is a function that imports on call, so that neither `xdsl-opt` nor
`inr-opt --help` pays for what it does not use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from xdsl.universe import Universe


def _lazy(module: str, attribute: str) -> Callable[[], Any]:
    """A getter of `attribute` in the submodule `module` of this package."""

    def get() -> Any:
        return getattr(import_module(f".{module}", __package__), attribute)

    return get


INR_UNIVERSE = Universe(
    all_dialects={
        "array_stream": _lazy("dialects.array_stream", "ArrayStream"),
        "inr": _lazy("dialects.inr", "Inr"),
        "lut": _lazy("dialects.lut", "Lut"),
        "torch": _lazy("dialects.torch", "Torch"),
        "upmem": _lazy("dialects.upmem", "Upmem"),
    },
    all_passes={
        "array-stream-assign-formats": _lazy(
            "passes.array_stream_assign_formats", "ArrayStreamAssignFormatsPass"
        ),
        "array-stream-fuse": _lazy("passes.array_stream_fuse", "ArrayStreamFusePass"),
        "array-stream-insert-copies": _lazy(
            "passes.array_stream_insert_copies", "ArrayStreamInsertCopiesPass"
        ),
        "array-stream-select-parallelism": _lazy(
            "passes.array_stream_select_parallelism", "ArrayStreamSelectParallelismPass"
        ),
        "array-stream-size-fifos": _lazy(
            "passes.array_stream_size_fifos", "ArrayStreamSizeFifosPass"
        ),
        "convert-inr-to-array-stream": _lazy(
            "passes.convert_inr_to_array_stream", "ConvertInrToArrayStreamPass"
        ),
        "convert-lut-to-upmem": _lazy("passes.convert_lut_to_upmem", "ConvertLutToUpmemPass"),
        "convert-matmul-to-lut": _lazy("passes.convert_matmul_to_lut", "ConvertMatmulToLutPass"),
        "convert-torch-to-inr": _lazy("passes.convert_torch_to_inr", "ConvertTorchToInrPass"),
        "inr-cse": _lazy("passes.inr_cse", "InrCsePass"),
        "inr-fold-transpose": _lazy("passes.inr_fold_transpose", "InrFoldTransposePass"),
        "inr-hls-pipeline": _lazy("passes.inr_hls_pipeline", "InrHlsPipelinePass"),
        "inr-simplify": _lazy("passes.inr_simplify", "InrSimplifyPass"),
        "inr-upmem-pipeline": _lazy("passes.inr_upmem_pipeline", "InrUpmemPipelinePass"),
        "lut-expand-linear": _lazy("passes.lut_expand_linear", "LutExpandLinearPass"),
        "lut-fuse-shared-input": _lazy("passes.lut_fuse_shared_input", "LutFuseSharedInputPass"),
        "lut-quantize": _lazy("passes.lut_quantize", "LutQuantizePass"),
        "lut-refit": _lazy("passes.lut_refit", "LutRefitPass"),
        "lut-select-layers": _lazy("passes.lut_select_layers", "LutSelectLayersPass"),
    },
    all_targets={
        "dpu-c": _lazy("lowering.dpu_c", "DpuCTarget"),
        "hls-cpp": _lazy("lowering.hls_cpp", "HlsCppTarget"),
        "token-rtl": _lazy("lowering.token_rtl", "TokenRtlTarget"),
        "upmem-host-c": _lazy("lowering.upmem_host_c", "UpmemHostCTarget"),
    },
)
