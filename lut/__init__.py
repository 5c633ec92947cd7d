"""
Linear layers of PyTorch models as lookup tables.

    from inr import lut

    converted = lut.convert(model, calibration_batches, lut.Policy(vec=2, centroids=16))
    lut.calibrate(converted, calibration_batches, teacher=model)
    print(lut.report(converted, held_out_batches, model).error)
    lut.save(converted, "tables")

See docs/lut-pytorch.md.
"""

from ..errors import CompileError

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise CompileError("inr.lut needs PyTorch: pip install 'inr-opt[torch,lut]'") from None

from ..analysis.int8_layer import Int8Layer
from ..analysis.lut_codebooks import LutSettings
from ..analysis.lut_layer import LutLayer
from .auto import Chosen, Option
from .calibrate import Step, calibrate
from .convert import convert
from .int8 import Int8Linear, int8_layers
from .linear import LutLinear, layers
from .policy import Auto, LutWarning, Policy
from .report import LayerReport, LutReport, report
from .storage import load, save

__all__ = [
    "Auto",
    "Chosen",
    "CompileError",
    "Int8Layer",
    "Int8Linear",
    "LayerReport",
    "LutLayer",
    "LutLinear",
    "LutReport",
    "LutSettings",
    "LutWarning",
    "Option",
    "Policy",
    "Step",
    "calibrate",
    "convert",
    "int8_layers",
    "layers",
    "load",
    "report",
    "save",
]
