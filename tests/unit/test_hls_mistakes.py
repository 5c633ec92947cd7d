"""What the kernel library says at compile time of shapes and blocks that do not fit."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import inr
import pytest

HLS = Path(inr.__path__[0]) / "runtime" / "hls"

MISTAKES = {
    "copy: a copy with one output": "inr::copy<float, 1, 4>(a, b)",
    "read: the block size does not divide": "inr::read<float, 1, 4>(memory, a); "
    "inr::read<float, 4, 6>(memory, four)",
    "reblock: one block size divides the other": "inr::reblock<float, 4, 6, 12>(four, six)",
    "slice: the range leaves the axis": "inr::slice<float, 1, 1, 4, 1, 2, 3, 1>(a, b)",
    "slice: a strided slice needs": "inr::slice<float, 4, 1, 8, 2, 0, 4, 2>(four, four)",
    "transpose: the block size divides neither": (
        "inr::transpose<float, 4, 1, 6, 4, 1>(four, four)"
    ),
    "broadcast: the block size does not divide": ("inr::broadcast<float, 4, 2, 2, 3>(four, four)"),
    "concat: the block size does not divide": "inr::concat<float, 4, 1, 1, 4, 3>(four, four, four)",
    "concat: one extent an input": "inr::concat<float, 4, 1, 1, 4, 4>(four, four)",
    "reduce_sum: along an inner axis": "inr::reduce_sum<float, float, 4, 4, 1, 2, 6>(four, four)",
    "matmul: the lanes along K do not divide K": (
        "inr::matmul<1, 1, 4, 4, 1, 1, 3, 1, float>(weights, a, b)"
    ),
    "matmul: more output blocks at once": (
        "inr::matmul<1, 1, 4, 4, 1, 1, 4, 4, float>(weights, a, b)"
    ),
    "matmul: J inputs, then J outputs": (
        "inr::matmul<2, 1, 4, 4, 1, 1, 1, 1, float>(weights, a, b)"
    ),
    "matmul: operands and weights are all float or all fixed": (
        "inr::matmul<1, 1, 4, 4, 1, 1, 1, 1, ap_fixed<8, 4> >(mantissas, a, b)"
    ),
    "matmul: an output's block size is not Bout": (
        "inr::matmul<1, 1, 4, 4, 1, 1, 1, 1, float>(weights, a, four)"
    ),
}


def ap_types() -> Path:
    spec = find_spec("hls4ml")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("hls4ml, whose ap_types headers the simulation uses, is not installed")
    return Path(spec.submodule_search_locations[0]) / "templates" / "vivado" / "ap_types"


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the compiler says of all mistakes, each in a function of its own."""
    functions = "\n".join(
        f"void mistake_{number}(hls::stream<one>& a, hls::stream<one>& b, "
        "hls::stream<inr::block<float, 4> >& four, hls::stream<inr::block<float, 6> >& six) {\n"
        f"  (void)a; (void)b; (void)four; (void)six;\n  {call};\n}}"
        for number, call in enumerate(MISTAKES.values())
    )
    source = tmp_path_factory.mktemp("mistakes") / "mistakes.cpp"
    source.write_text(
        '#include <hls_stream.h>\n#include "inr/kernels.hpp"\n'
        "typedef inr::block<float, 1> one;\nfloat memory[64];\nfloat weights[4][4];\n"
        f"signed char mantissas[4][4];\n{functions}\n"
    )
    command = ["g++", "-std=c++14", "-fsyntax-only", "-I", str(HLS / "sim")]
    command += ["-I", str(HLS / "include"), "-isystem", str(ap_types()), str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_named_at_compile_time(mistakes: str, message: str):
    assert f"static assertion failed: {message}" in mistakes
