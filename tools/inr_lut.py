"""`inr-lut`: the linear layers of a PyTorch model as lookup tables, with what that costs."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CompileError
from . import lut_policy

if TYPE_CHECKING:
    from rich.console import Console
    from torch import nn

    from ..analysis.lut_codebooks import LutSettings
    from ..lut import Auto, Chosen, Policy

Cost = Callable[[int, int, int, Any], float]

ERROR_NOTE = (
    "The error of a layer is that of x·W on the layer's true input, the error of the model that of "
    "its output, both ‖y - ŷ‖²/‖y‖². The front adds up each layer's share: the model's error with "
    "that layer alone as tables."
)
COST_NOTE = (
    "Costs are predicted by a closed form with the constants of one published UPMEM server, the "
    "search on its host."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The tool; returns the exit status: 1, with one message on stderr, for bad input."""
    options = _parser().parse_args(arguments)
    try:
        report = _run(options)
    except CompileError as error:
        print(f"inr-lut: error: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(report, indent=2))
    return 0


@dataclass
class _Job:
    """What the arguments name, loaded."""

    name: str
    model: nn.Module
    calibration: list[Any]
    held_out: list[Any]
    policy: Policy | Auto
    cost: Cost
    rows: int
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    chosen: Chosen | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times a part of the work."""
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 4)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    # Imported here: `inr-lut --help` must not wait for torch.
    from rich.console import Console

    console = Console(stderr=True, quiet=options.quiet or options.json)
    if not console.is_terminal:
        console.width = 120  # of a file or a pipe nothing is known; tables are this wide
    # What can be refused is refused before any work is done.
    _check_options(options)
    if not options.policy.strip():
        raise CompileError(lut_policy.EMPTY)
    if options.out is not None:
        _refuse_existing(options.out, force=options.force)
    job = _load(options)

    from .. import lut

    progress = not console.quiet and console.is_terminal
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", lut.LutWarning)
        with job.stage("convert"):
            converted = lut.convert(
                job.model,
                job.calibration,
                job.policy,
                progress=progress,
                checkpoint=options.checkpoint,
                rows=options.fit_rows,
                sequential=options.in_order,
                explain=lambda chosen: setattr(job, "chosen", chosen),
            )
        if options.calibrate:
            with job.stage("calibrate"):
                lut.calibrate(
                    converted,
                    job.calibration,
                    teacher=job.model,
                    steps=options.calibrate,
                    lr=options.lr,
                    seed=options.seed,
                    progress=progress,
                )
        with job.stage("measure"):
            measured = lut.report(converted, job.held_out, job.model, progress=progress)
        report = _report(job, options, converted, measured.to_dict())
    said = list(dict.fromkeys(str(w.message) for w in caught if w.category is lut.LutWarning))
    # Of one thing said of two data sets, what held-out data says.
    report["warnings"] = measured.warnings or said
    report["seconds"] = job.seconds
    if options.out is not None:
        _write(converted, report, options.out, force=options.force)
    _show(console, report, options.out)
    return report


def _check_options(options: argparse.Namespace) -> None:
    for name in ("rows", "fit_rows"):
        if getattr(options, name) < 1:
            raise CompileError(f"--{name.replace('_', '-')} {getattr(options, name)}; at least 1")
    if options.calibrate < 0:
        raise CompileError(f"--calibrate {options.calibrate}: a number of steps, 0 for none")
    if not options.lr > 0:
        raise CompileError(f"--lr {options.lr}: a learning rate is positive")
    if options.shares < 0:
        raise CompileError(f"--shares {options.shares}: a number of batches, 0 for none")


def _load(options: argparse.Namespace) -> _Job:
    from ..analysis.lut_cost import LayerMachine, layer_cost
    from ..frontend.spec import load_spec, run_factory

    if find_spec("torch") is None:
        raise CompileError("inr-lut needs PyTorch: pip install 'inr-opt[torch,lut]'")
    from ..lut.batches import split_batches

    machine = LayerMachine.of(options.machine) if options.machine else LayerMachine.of()

    def cost(rows: int, height: int, width: int, choice: Any) -> float:
        return layer_cost(rows, height, width, choice, machine)

    policy = lut_policy.parse_policy(options.policy, rows=options.rows, layer_cost=cost)
    if options.seed is not None:
        policy = replace(policy, seed=options.seed)
    options.seed = policy.seed
    spec = load_spec(options.spec)
    if (model := spec.module) is None:
        raise CompileError(
            f"{options.spec}: a model is an nn.Module, whose linear layers can be replaced; the "
            f"factory returned {type(spec.callable).__name__}"
        )
    _, data = run_factory(options.calibration)
    calibration, held_out = split_batches(data, options.calibration)
    return _Job(spec.name, model, calibration, held_out, policy, cost, options.rows)


# What is written down.


def _report(
    job: _Job, options: argparse.Namespace, converted: nn.Module, measured: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of `report.json`: `LutReport` with costs, candidates and the front."""
    from ..lut.sites import sites

    settings = {x["name"]: _settings_of(x) for x in measured["layers"]}
    layers: list[dict[str, Any]] = []
    for found in measured["layers"]:
        h, f = found["in_features"], found["out_features"]
        low, high = found["acc_low"], found["acc_high"]
        layers.append(
            {
                **found,
                "setting": lut_policy.spell(settings[found["name"]]),
                "codebooks": -(-h // found["vec"]),
                "acc_bits": max(high.bit_length(), (-low - 1).bit_length() if low else 0) + 1,
                "cost_seconds": job.cost(job.rows, h, f, settings[found["name"]]),
                "dense_seconds": job.cost(job.rows, h, f, None),
            }
        )
    dense = [
        {
            "name": site.name,
            "in_features": site.in_features,
            "out_features": site.out_features,
            "dense_seconds": job.cost(job.rows, site.in_features, site.out_features, None),
        }
        for site in sites(job.model)
        if site.name not in settings
    ]
    with job.stage("shares"):
        candidates = _candidates(job, options, converted, layers)
    selected = {c["layer"] for c in candidates}
    rest = sum(x["dense_seconds"] for x in dense if x["name"] not in selected)
    return {
        "name": job.name,
        "policy": options.policy,
        "rows": job.rows,
        "calibrated_steps": options.calibrate,
        "model": {"error": measured["error"], "outputs": measured["outputs"]},
        "layers": layers,
        "dense": dense,
        "table_bytes": sum(x["table_bytes"] for x in layers),
        "dense_seconds": sum(x["dense_seconds"] for x in (*layers, *dense)),
        "candidates": candidates,
        "chosen": {
            "error": sum(c["share"] for c in candidates if c["chosen"]) if candidates else None,
            "cost_seconds": sum(x["cost_seconds"] for x in layers)
            + sum(x["dense_seconds"] for x in dense),
        },
        "front": _front(candidates, rest),
        "error_note": ERROR_NOTE,
        "cost_note": COST_NOTE,
    }


def _settings_of(layer: Mapping[str, Any]) -> LutSettings:
    from ..analysis.lut_codebooks import LutSettings

    return LutSettings(layer["vec"], layer["centroids"], layer["bits"], residual=layer["residual"])


def _candidates(
    job: _Job,
    options: argparse.Namespace,
    converted: nn.Module,
    layers: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Each layer's options: those an automatic policy looked at, or its tables and itself."""
    if job.chosen is not None:
        return [
            {
                "layer": name,
                "setting": lut_policy.spell(option.choice),
                "rel_mse": option.layer_error,
                "share": option.error,
                "cost_seconds": option.cost,
                "chosen": job.chosen.settings.get(name) == option.choice,
            }
            for name, found in job.chosen.options.items()
            for option in found
        ]
    if not options.shares:
        return []
    shares = _shares(job, converted, options.shares)
    found: list[dict[str, Any]] = []
    for layer in layers:
        for setting, error, share, cost in (
            ("dense", 0.0, 0.0, layer["dense_seconds"]),
            (
                layer["setting"],
                layer["rel_mse"] or 0.0,
                shares[layer["name"]],
                layer["cost_seconds"],
            ),
        ):
            found.append(
                {
                    "layer": layer["name"],
                    "setting": setting,
                    "rel_mse": error,
                    "share": share,
                    "cost_seconds": cost,
                    "chosen": setting != "dense",
                }
            )
    return found


def _shares(job: _Job, converted: nn.Module, count: int) -> dict[str, float]:
    """The model's error with each layer alone as tables, on a few of the held-out batches."""
    from ..lut import layers
    from ..lut.measure import compare
    from ..lut.sites import copied, open_up, replace

    luts = layers(converted)
    reference = open_up(copied(job.model), luts)
    batches = job.held_out[:: max(1, len(job.held_out) // count)][:count]
    shares: dict[str, float] = {}
    for name, tables in luts.items():
        original = reference.get_submodule(name)
        alone = replace(reference, original, tables)
        shares[name] = compare(alone, job.model, batches).value
        reference = replace(alone, tables, original)
    return shares


def _front(candidates: Sequence[Mapping[str, Any]], rest: float) -> list[dict[str, Any]]:
    """The Pareto front of the whole, `rest` being the seconds of layers that stay as they are."""
    from ..analysis.lut_select import Candidate, pareto_front

    if not candidates:
        return []
    groups: dict[str, list[Candidate]] = {}
    for c in candidates:
        groups.setdefault(c["layer"], []).append(
            Candidate(c["share"], c["cost_seconds"], c["setting"])
        )
    options = list(groups.values())
    points: list[dict[str, Any]] = []
    for point in pareto_front(options, limit=200):
        counts: dict[str, int] = {}
        for pick, found in zip(point.picks, options, strict=True):
            counts[found[pick].label] = counts.get(found[pick].label, 0) + 1
        points.append(
            {
                "error": point.error,
                "cost_seconds": point.cost + rest,
                "what": ", ".join(f"{n} {label}" for label, n in sorted(counts.items())),
            }
        )
    return points


def _refuse_existing(out: Path, *, force: bool) -> None:
    from ..analysis.lut_storage import MANIFEST

    if not out.exists():
        return
    ours = (out / "tables" / MANIFEST).is_file() and (out / "report.json").is_file()
    if out.is_dir() and not any(out.iterdir()):
        return
    if not ours:
        raise CompileError(f"--out {out} exists and is no conversion of inr-lut; name another")
    if not force:
        raise CompileError(f"--out {out} exists; --force replaces it")


def _write(converted: nn.Module, report: Mapping[str, Any], out: Path, *, force: bool) -> None:
    """`tables/`, `report.json` and `report.html`, all or nothing."""
    from .. import lut
    from ..lowering.lut_report import render_lut_report

    _refuse_existing(out, force=force)
    texts = {
        "report.json": json.dumps(report, indent=2, allow_nan=False) + "\n",
        "report.html": render_lut_report(report),
    }
    staging: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        staging.chmod(0o755)
        lut.save(converted, staging / "tables")
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        staging.rename(out)
    except OSError as error:
        raise CompileError(f"cannot write {out}: {error.strerror}") from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)


def _show(console: Console, report: Mapping[str, Any], out: Path | None) -> None:
    from rich.table import Table

    from ..lowering.lut_report import readable_seconds

    table = Table(title=f"{report['name']}: layers of tables")
    # On a narrow terminal names wrap first.
    table.add_column("layer", overflow="fold", min_width=12)
    table.add_column("setting", overflow="fold")
    for heading in ("rel. MSE", "rounding ≤", "sums", "bytes", "cost", "dense"):
        table.add_column(heading, justify="right", overflow="fold")
    for layer in report["layers"]:
        table.add_row(
            layer["name"],
            layer["setting"],
            "never run" if layer["rel_mse"] is None else f"{layer['rel_mse']:.2e}",
            f"{layer['quant_bound']:.1e}",
            f"{layer['acc_low']}..{layer['acc_high']}",
            f"{layer['table_bytes']:,}",
            readable_seconds(layer["cost_seconds"]),
            readable_seconds(layer["dense_seconds"]),
        )
    console.print(table)
    counts = f"{len(report['layers'])} of {len(report['layers']) + len(report['dense'])}"
    console.print(
        f"{counts} linear layers are tables of {report['table_bytes']:,} bytes; predicted "
        f"{readable_seconds(report['chosen']['cost_seconds'])} for {report['rows']} rows, "
        f"{readable_seconds(report['dense_seconds'])} if none is"
    )
    console.print(
        f"relative error of the model's output on held-out data: {report['model']['error']:.3g}"
    )
    for warning in report["warnings"]:
        console.print(f"note: {warning}", style="yellow")
    console.print(f"{sum(report['seconds'].values()):.1f} s in all")
    if out is not None:
        console.print(f"wrote {out}", style="green")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="inr-lut",
        description="Makes lookup tables of the linear layers of a PyTorch model, measures what "
        "that does to each layer and to the model, and predicts what it costs.",
        epilog=lut_policy.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "spec",
        metavar="FILE.py:FACTORY",
        help="a function without parameters that returns (model, example_inputs)",
    )
    parser.add_argument(
        "--calibration",
        required=True,
        metavar="FILE.py:FACTORY",
        help="a function that returns a list of batches, a quarter of which is held out, or "
        "(calibration, held_out); a batch is a tensor, a tuple or a dict",
    )
    parser.add_argument("--policy", required=True, help="see below")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to write")
    parser.add_argument("--force", action="store_true", help="replace an existing --out")
    parser.add_argument(
        "--calibrate",
        type=int,
        default=0,
        metavar="STEPS",
        help="train the tables against the model's own outputs (default: 0, not)",
    )
    parser.add_argument("--lr", type=float, default=1e-3, help="of --calibrate (default: 1e-3)")
    parser.add_argument("--seed", type=int, help="of all that is random (default: the policy's)")
    parser.add_argument(
        "--rows",
        type=int,
        default=4096,
        metavar="N",
        help="rows at once, which costs are predicted for (default: 4096)",
    )
    parser.add_argument(
        "--fit-rows",
        type=int,
        default=8192,
        metavar="N",
        help="rows of its input that each layer is fitted to (default: 8192)",
    )
    parser.add_argument(
        "--in-order",
        action="store_true",
        help="fit each layer to what the tables before it put out, towards the original's outputs",
    )
    parser.add_argument(
        "--shares",
        type=int,
        default=2,
        metavar="BATCHES",
        help="held-out batches on which each layer's share in the model's error is measured, for "
        "the picture (default: 2; 0: not)",
    )
    parser.add_argument("--machine", help="the target to predict costs for (default: see targets/)")
    parser.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="keep fitted layers here, and take them"
    )
    parser.add_argument("--json", action="store_true", help="print report.json, nothing else")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser


if __name__ == "__main__":
    sys.exit(main())
