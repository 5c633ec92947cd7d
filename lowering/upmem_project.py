"""
A program for UPMEM as a folder: C for the DPUs and the host, weights, a check, a Makefile that
takes UPMEM's SDK where it is and the emulator where it is not.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from .. import __version__
from ..analysis.int8_layer import LIMIT, product
from ..analysis.lut_layer import lookup
from ..analysis.upmem_mapping import STACK_BYTES
from .dpu_c import device_source, program_header
from .upmem_host_c import HostProgram

CHECK_ROWS = 24
"""Rows of each layer that `make check` runs."""


def project_files(host: HostProgram, seed: int = 0) -> dict[str, str | bytes]:
    """
    Every file of the project by its path. The same program gives the same files.

    The check has random indices, or activations, for each layer and the sums that NumPy computes
    from its table, or weights.
    """
    name = host.name
    data, checks = _check_data(host, seed)
    context = {
        "name": name,
        "upper": name.upper(),
        "tasklets": host.program.tasklets,
        "stack": STACK_BYTES,
        "dpus": host.grid.dpus.data,
        "groups": host.grid.groups.data,
        "layers": host.layers,
        "checks": checks,
        "version": __version__,
        "target": host.program.kernels[0].target.target.data,
    }
    environment = Environment(
        loader=PackageLoader("inr.lowering"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )

    def rendered(template: str) -> str:
        return environment.get_template(f"upmem_{template}.j2").render(context)

    runtime = files("inr.runtime") / "upmem"
    return {
        f"{name}_program.h": program_header(host.program),
        f"{name}_dpu.c": device_source(host.program),
        f"{name}.h": host.header(),
        f"{name}.c": host.source(),
        f"{name}.weights": host.weights,
        f"{name}_check.c": rendered("check.c"),
        f"{name}_check.data": data,
        "Makefile": rendered("Makefile"),
        "README.md": rendered("README.md"),
        "inr_lut.h": (runtime / "model" / "inr_lut.h").read_text(),
        "inr_lut.c": (runtime / "model" / "inr_lut.c").read_text(),
        "inr_search.h": (runtime / "host" / "inr_search.h").read_text(),
    }


def _check_data(host: HostProgram, seed: int) -> tuple[bytes, list[dict[str, int]]]:
    """Indices, or activations, and the sums that must come out, and where each layer's are."""
    rng = np.random.default_rng(seed)
    blocks: list[bytes] = []
    places: list[dict[str, int]] = []
    size = 0
    for layer in host.layers:
        shape = layer.geometry.shape
        rows = min(CHECK_ROWS, shape.rows)
        if shape.is_product:
            given = rng.integers(-LIMIT, LIMIT + 1, (rows, shape.inputs)).astype(np.int8)
            sums = product(given, layer.table).astype("<i4")
        else:
            given = rng.integers(0, shape.centroids, (rows, shape.codebooks)).astype(np.uint8)
            sums = lookup(given, layer.table).astype("<i4")
        place = {"rows": rows, "features": shape.features}
        for field, values in (("indices", given), ("sums", sums)):
            block = values.tobytes()
            place[field] = size
            blocks += [block, bytes(-len(block) % 8)]
            size += len(block) + -len(block) % 8
        places.append(place)
    return b"".join(blocks), places
