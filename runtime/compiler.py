"""
The whole chain on one model: rewrite, lower, print, simulate, compare.

`compile_hls` is what `inr-compile --target hls` runs and what the Python API offers. Every step
is compared with the truth that the caller gives (PyTorch in float64): the graph after each
pass, the streams after each pass, the C++ in float, and the C++ in fixed point, which must equal
the integer model bit for bit. A step that disagrees ends the compilation.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from ..analysis.certificate import violation
from ..analysis.dsp import dsp_of_product
from ..analysis.fifo_sizing import Sizing
from ..analysis.fixed import to_real
from ..analysis.graph_size import count_nodes
from ..analysis.resources import resources_of
from ..analysis.schedules import buffers_of, element_bits, fifos_of, network_of
from ..analysis.targets import DEFAULT_PART, FpgaPart, find_part
from ..dialects import array_stream
from ..dialects.array_stream import STAGE, stream_type
from ..errors import CompileError
from ..interpreters.fixed_stream import run_fixed
from ..interpreters.graph import find_function, run_graph
from ..interpreters.measure import sample_inputs
from ..interpreters.stream import run_streams
from ..lowering.hls_cpp import Design, build_design
from ..lowering.hls_project import Batch, Part, render
from ..lowering.html_report import add_report, gather_details
from ..passes.array_stream_assign_formats import WIDTHS, ArrayStreamAssignFormatsPass
from ..passes.array_stream_insert_copies import ArrayStreamInsertCopiesPass
from ..passes.array_stream_select_parallelism import (
    PARALLELISM,
    ArrayStreamSelectParallelismPass,
)
from ..passes.array_stream_size_fifos import size_by_schedule, size_function
from ..passes.inr_hls_pipeline import graph_passes, stream_passes
from .simulate import Simulation, build, run
from .toolchain import Toolchain, find_toolchain

EXACT = 1e-10
"""How far the interpreter may be from PyTorch float64, of each output's largest magnitude."""

Stage = Callable[[str], AbstractContextManager[None]]
"""Called with the name of each step; the step runs inside what it returns."""


@dataclass(frozen=True)
class HlsOptions:
    """What a user can choose."""

    mode: str = "fixed"
    """`fixed` or `float`."""
    activation: int = 27
    weight: int = 18
    guard: int = 1
    tolerance: float | None = None
    """Mean error, of the largest value of each output, that the widths are chosen for."""
    domain: tuple[float, float] | None = None
    """Where the inputs lie; None takes the range of each example input."""
    samples: int = 512
    calibration: Path | None = None
    part: str = DEFAULT_PART
    """Short name or part number of the device."""
    clock: float = 3.33
    """Clock period in ns."""
    fill: float = 0.8
    """The share of the part that processes may take."""
    lanes: int | None = None
    """At most so many multiply-accumulate units; None leaves it to the part."""
    alpha: float = 0.01
    """How much slower than with unbounded FIFOs the design may be."""
    objective: str = "bits"
    """What FIFOs are to take the least of: `bits`, `bram` or `weighted`."""
    check: bool = True


@dataclass
class Compiled:
    """A design, its files, what is known of it."""

    module: ModuleOp
    design: Design
    texts: dict[str, str]
    """Each file of the project by its path."""
    report: dict[str, Any]
    sizing: Sizing
    simulation: Simulation | None = None
    """The run of the final design; None without a check."""


@dataclass
class _Chain:
    """The state of one compilation."""

    module: ModuleOp
    inputs: list[np.ndarray]
    reference: list[np.ndarray]
    names: list[str]
    options: HlsOptions
    stage: Stage
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    graph: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    errors: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def timed(self, name: str):
        """One step, shown and timed; a step that runs twice adds up."""
        start = time.perf_counter()
        with self.stage(name):
            yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def apply(self, passes: Sequence[ModulePass]) -> None:
        """Run passes and compare the interpreter with the reference after each."""
        ctx = Context()
        for each in passes:
            with self.timed(each.name):
                each.apply(ctx, self.module)
                self.module.verify()
            function = find_function(self.module)
            if STAGE not in function.attributes:
                nodes, matmuls = count_nodes(self.module)
                label = each.name if each.name not in self.graph else f"{each.name} (again)"
                self.graph[label] = {"nodes": nodes, "matmuls": matmuls}
            if not self.options.check:
                continue
            with self.timed("compare"):
                evaluate = run_streams if STAGE in function.attributes else run_graph
                self.compare(each.name, evaluate(self.module, self.inputs))

    def compare(self, step: str, outputs: Sequence[np.ndarray]) -> None:
        """
        Raises CompileError where an output is further from the reference than rounding in
        float64 explains.
        """
        errors = [_relative(got, want) for got, want in zip(outputs, self.reference, strict=True)]
        worst = max(range(len(errors)), key=errors.__getitem__)
        self.errors[step] = max(errors[worst], self.errors.get(step, 0.0))
        if not errors[worst] <= EXACT:
            raise CompileError(
                f"{step} changed the meaning of the model: output {self.names[worst]} differs by "
                f"{errors[worst]:.3g} of its largest magnitude. This is a mistake of the "
                "compiler; please report it with the model"
            )


def compile_hls(
    module: ModuleOp,
    inputs: Sequence[np.ndarray],
    reference: Sequence[np.ndarray],
    options: HlsOptions | None = None,
    stage: Stage | None = None,
) -> Compiled:
    """
    Compile an imported or graph-level module, which it rewrites, to an HLS C++ project.

    `inputs` is one batch (float64, the shapes of the function's arguments), `reference` what
    PyTorch gives for it in float64. Raises CompileError for what cannot be compiled and for a
    step that disagrees with the reference.
    """
    options = options or HlsOptions()
    toolchain = find_toolchain() if options.check else None
    inputs = [np.asarray(x, dtype=np.float64) for x in inputs]
    _refuse_useless(inputs, reference)
    function = find_function(module)
    chain = _Chain(
        module,
        inputs,
        list(reference),
        _output_names(function),
        options,
        stage or (lambda name: nullcontext()),
    )
    chain.graph["imported"] = _count_imported(module)
    part = find_part(options.part)
    chain.apply(graph_passes())
    convert, fuse, _, parallelism, insert_copies = _stream_passes(options)
    chain.apply([convert, fuse])
    found: dict[str, Simulation] = {}
    if toolchain is not None and options.mode == "fixed":
        found["float"] = _run_in_float(chain, toolchain)
    _assign_formats(chain)
    chain.apply([parallelism, insert_copies])
    function = find_function(module)
    with chain.timed("array-stream-size-fifos"):
        sizing = size_by_schedule(function, "default", options.alpha, options.objective)
        module.verify()
        check_certificate(function, sizing)
    with chain.timed("hls-cpp"):
        design = build_design(function)
        expected = _expected(chain, function)
        project = Part(part.part, options.clock)
        texts = render(design, Batch(inputs, expected, chain.reference), project)
    simulation = None
    if toolchain is not None:
        simulation = _simulate(chain, toolchain, design, texts, options.mode, cycles=True)
        _check_words(simulation, expected, design)
        _check_cycles(simulation, sizing)
        found[options.mode] = simulation
    report = _report(chain, function, design, found, sizing, part)
    with chain.timed("report"):
        add_report(texts, report, gather_details(function, design, part, sizing.certificate))
    return Compiled(module, design, texts, report, sizing, simulation)


def _stream_passes(options: HlsOptions) -> list[ModulePass]:
    parallelism = ArrayStreamSelectParallelismPass(
        options.part, options.fill, options.lanes, clock=options.clock
    )
    return stream_passes(ArrayStreamAssignFormatsPass(), parallelism)


def _run_in_float(chain: _Chain, toolchain: Toolchain) -> Simulation:
    """
    The same network in float, for its accuracy. Its depths are its own: a full FIFO in a
    deadlock grows.
    """
    module = chain.module.clone()
    function = find_function(module)
    with chain.timed("hls-cpp"):
        for each in (ArrayStreamAssignFormatsPass(mode="float"), ArrayStreamInsertCopiesPass()):
            each.apply(Context(), module)
        size_function(function, "minimum")
        design = build_design(function)
        expected = [np.asarray(y, dtype=np.float32) for y in chain.reference]
        texts = render(design, Batch(chain.inputs, expected, chain.reference))
    simulation = _simulate(chain, toolchain, design, texts, "float", grow=True)
    if not simulation.outputs:
        raise CompileError(f"the simulation of the float design failed:\n{simulation.text}")
    return simulation


def _refuse_useless(inputs: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> None:
    """Raises CompileError for no output, an array without elements, a value not finite."""
    if not reference:
        raise CompileError("the model returns no output; a design needs at least one")
    for what, arrays in (("input", inputs), ("output", reference)):
        for index, array in enumerate(arrays):
            if np.size(array) == 0:
                raise CompileError(
                    f"{what} {index} has shape {list(array.shape)}, which has no elements; "
                    "give example inputs of at least one row"
                )
            if not np.all(np.isfinite(array)):
                raise CompileError(
                    f"{what} {index} is not finite in {int(np.sum(~np.isfinite(array)))} elements "
                    "for the example inputs, so nothing can be compared; give inputs where the "
                    "model and its derivatives are finite"
                )


def _assign_formats(chain: _Chain) -> None:
    options = chain.options
    if options.mode == "float":
        chain.apply([ArrayStreamAssignFormatsPass(mode="float")])
        return
    if options.calibration is not None:
        chain.apply([_formats_pass(options, options.calibration)])
        return
    with tempfile.TemporaryDirectory(prefix="inr-") as folder:
        path = Path(folder) / "calibration.npz"
        _write_samples(chain, path)
        chain.apply([_formats_pass(options, path)])


def _formats_pass(options: HlsOptions, calibration: Path) -> ArrayStreamAssignFormatsPass:
    return ArrayStreamAssignFormatsPass(
        activation=options.activation,
        weight=options.weight,
        guard=options.guard,
        tolerance=options.tolerance,
        calibration=str(calibration),
    )


def _write_samples(chain: _Chain, path: Path) -> None:
    """The example batch, then batches over the range of each input."""
    function = find_function(chain.module)
    domains = [chain.options.domain or (float(x.min()), float(x.max())) for x in chain.inputs]
    batches = [chain.inputs, *sample_inputs(function, domains, chain.options.samples)]
    arrays = {
        f"input{i}": np.concatenate([np.atleast_1d(batch[i]) for batch in batches])
        for i in range(len(chain.inputs))
    }
    np.savez(path, allow_pickle=False, **arrays)


def _simulate(
    chain: _Chain,
    toolchain: Toolchain,
    design: Design,
    texts: dict[str, str],
    kind: str,
    *,
    grow: bool = False,
    cycles: bool = False,
) -> Simulation:
    with chain.timed(f"g++ ({kind})"):
        executable = build(texts, toolchain)
    with chain.timed(f"simulate ({kind})"):
        return run(executable, design, grow=grow, cycles=cycles)


def _expected(chain: _Chain, function: FuncOp) -> list[np.ndarray]:
    """The words that the design must write."""
    if chain.options.mode == "float":
        return [np.asarray(y, dtype=np.float32) for y in chain.reference]
    with chain.timed("integer model"):
        return run_fixed(chain.module, chain.inputs)


def _check_words(simulation: Simulation, expected: Sequence[np.ndarray], design: Design) -> None:
    """
    Raises CompileError where the C++ did not finish, or differs from the integer model.
    """
    if not simulation.outputs:
        raise CompileError(f"the simulation of the design failed:\n{simulation.text}")
    if design.floating:
        return
    for port, got, want in zip(design.outputs, simulation.outputs, expected, strict=True):
        wrong = np.flatnonzero(got.ravel() != np.ravel(want))
        if wrong.size:
            raise CompileError(
                f"the generated C++ differs from the integer model in {wrong.size} elements of "
                f"{port.name}, first in element {wrong[0]}. This is a mistake of the compiler; "
                "please report it with the model"
            )


def check_certificate(function: FuncOp, sizing: Sizing) -> None:
    """
    Raises CompileError unless the certificate holds for the depths that stand in the IR: then
    the design cannot deadlock, and ends when the certificate says.
    """
    network, _ = network_of(function)
    if (broken := violation(network, sizing.certificate)) is not None:
        raise CompileError(
            f"the certificate of the FIFO depths does not hold: {broken}. This is a mistake of the "
            "compiler; please report it with the model"
        )


def _check_cycles(simulation: Simulation, sizing: Sizing) -> None:
    """Raises CompileError where the run took another time than its schedule says."""
    if simulation.cycles != sizing.latency:
        raise CompileError(
            f"the simulated design takes {simulation.cycles} cycles, its schedule "
            f"{sizing.latency}. This is a mistake of the compiler; please report it with the model"
        )


# The report.


def _report(
    chain: _Chain,
    function: FuncOp,
    design: Design,
    found: dict[str, Simulation],
    sizing: Sizing,
    part: FpgaPart,
) -> dict[str, Any]:
    streams = [stream_type(v) for v in fifos_of(function)]
    bits = [element_bits(t.element) * t.block.data * (t.capacity or 0) for t in streams]
    processes = [op for op in function.body.block.ops if isinstance(op, array_stream.ProcessOp)]
    buffers = [b for op in processes for b in buffers_of(op) if not b.rom]
    parallelism = _integers(function.attributes.get(PARALLELISM))
    resources = resources_of(function, part, design.process_of)
    report: dict[str, Any] = {
        "name": design.name,
        "target": "hls",
        "part": part.name,
        "clock_ns": chain.options.clock,
        "mode": chain.options.mode,
        "graph": chain.graph,
        "streams": {
            "processes": len(design.processes),
            "fifos": len(streams),
            "elements": sum(t.block.data * (t.capacity or 0) for t in streams),
            "bits": sum(bits),
            "copies": _count(function, array_stream.CopyOp),
            "transposes": _count(function, array_stream.TransposeOp),
            "matmuls": _count(function, array_stream.MatmulOp),
        },
        "timing": {
            "cycles": sizing.latency,
            "cycles_unbounded": sizing.latency_unbounded,
            "cycles_simulated": found[chain.options.mode].cycles
            if chain.options.mode in found
            else None,
            "floor": parallelism.get("floor"),
            "pace": parallelism.get("cycles"),
            "fill": parallelism.get("fill"),
            "macs": parallelism.get("macs"),
            "lanes": parallelism.get("lanes"),
            "alpha": chain.options.alpha,
            # Both are what `check_certificate` has just proved; without it there is no report.
            "deadlock_free": True,
            "certificate_checked": True,
            "microseconds": sizing.latency * chain.options.clock / 1000,
        },
        "fifo": {
            "count": len(streams),
            "above_2": sum((t.capacity or 0) > 2 for t in streams),
            "elements": sum(t.block.data * (t.capacity or 0) for t in streams),
            "bits": sum(bits),
            "buffer_bits": sum(
                b.words * b.bits * b.count * (2 if b.pingpong else 1) for b in buffers
            ),
            "bram18": resources.fifos.bram18,
            "bram18_printed": resources.fifos_printed.bram18,
            "objective": chain.options.objective,
            "cost": sizing.cost,
            "lower_bound": sizing.lower_bound,
            "gap": sizing.gap,
            "evaluations": sizing.evaluations,
            "sizing_seconds": round(sizing.seconds, 4),
        },
        "resources": {
            "fits": not resources.short(),
            "used": asdict(resources.total),
            "available": asdict(part.capacity),
            "fraction": {k: round(v, 4) for k, v in resources.fractions.items()},
        },
        "widths": _widths(function, chain.options),
        "checked": {step: error for step, error in chain.errors.items()},
        "accuracy": _accuracy(chain, design, found),
        "overflows": {kind: s.overflows for kind, s in found.items()},
        "seconds": {k: round(v, 4) for k, v in chain.seconds.items()},
    }
    return report


def _integers(attribute: Attribute | None) -> dict[str, int]:
    """The numbers of a dictionary attribute."""
    if not isinstance(attribute, DictionaryAttr):
        return {}
    return {k: v.value.data for k, v in attribute.data.items() if isinstance(v, IntegerAttr)}


def _count(function: FuncOp, kind: type) -> int:
    return sum(isinstance(op, kind) for op in function.body.block.ops)


def _widths(function: FuncOp, options: HlsOptions) -> dict[str, Any] | None:
    """Bits of activations and weights, and the DSPs that one product of the two takes."""
    if options.mode == "float":
        return None
    activation, weight = options.activation, options.weight
    chosen = function.attributes.get(WIDTHS)
    if isinstance(chosen, ArrayAttr):
        activation, weight = (a.data for a in chosen if isinstance(a, IntAttr))
    return {
        "activation": activation,
        "weight": weight,
        "dsp_per_product": dsp_of_product(activation, weight),
        "tolerance": options.tolerance,
    }


def _accuracy(
    chain: _Chain, design: Design, found: dict[str, Simulation]
) -> dict[str, dict[str, dict[str, float]]]:
    """For each output and number system: the distance of the C++ from PyTorch in float64."""
    accuracy: dict[str, dict[str, dict[str, float]]] = {}
    for index, (port, want) in enumerate(zip(design.outputs, chain.reference, strict=True)):
        entry: dict[str, dict[str, float]] = {}
        for kind, simulation in found.items():
            words = simulation.outputs[index]
            fixed = kind == "fixed" and port.format is not None
            got = to_real(words, port.format) if fixed and port.format else words.astype(float)
            error = np.abs(got - np.reshape(want, got.shape))
            largest = float(np.max(np.abs(want)))
            entry[kind] = {
                "max_abs": float(error.max()),
                "mean_abs": float(error.mean()),
                "relative": float(error.mean()) / (largest or 1.0),
                "relative_max": float(error.max()) / (largest or 1.0),
            }
        accuracy[port.name] = entry
    return accuracy


def _relative(got: np.ndarray, want: np.ndarray) -> float:
    """Largest |error| / largest |value|; the absolute error where all values are zero."""
    scale = float(np.max(np.abs(want)))
    error = np.abs(np.reshape(got, np.shape(want)) - want)
    # NaN where the reference has it too is agreement: nothing else could be right.
    error = np.where(np.isnan(want) & np.isnan(np.reshape(got, np.shape(want))), 0.0, error)
    return float(np.max(error)) / (scale if np.isfinite(scale) and scale else 1.0)


def _count_imported(module: ModuleOp) -> dict[str, int]:
    """Nodes and matrix products of a module at the imported level; graph level counts as such."""
    from ..dialects.torch import Torch

    names = {op.name for op in Torch.operations}
    if not any(op.name in names for op in module.walk()):
        nodes, matmuls = count_nodes(module)
        return {"nodes": nodes, "matmuls": matmuls}
    plumbing = ("torch.constant.", "torch.vtensor.literal", "torch.prim.ListConstruct")
    nodes = [
        op.name
        for op in module.walk()
        if op.name.startswith("torch.") and not op.name.startswith(plumbing)
    ]
    products = ("torch.aten.mm", "torch.aten.addmm", "torch.aten.bmm", "torch.aten.mv")
    return {"nodes": len(nodes), "matmuls": sum(n in products for n in nodes)}


def _output_names(function: FuncOp) -> list[str]:
    count = len(function.function_type.outputs)
    attributes = list(function.res_attrs) if function.res_attrs is not None else []
    names = [a.data.get("inr.name") for a in attributes]
    names += [None] * (count - len(names))
    return [n.data if isinstance(n, StringAttr) else f"y{i}" for i, n in enumerate(names)]


__all__ = ["Compiled", "HlsOptions", "check_certificate", "compile_hls"]
