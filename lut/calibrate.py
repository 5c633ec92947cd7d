"""Training the tables of a converted model: eLUT-NN, and LUT-NN as its baseline."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from ..errors import CompileError
from .auto import split_batches
from .linear import LutLinear, layers
from .policy import compiled, listed
from .progress import Tell, following
from .sites import as_batches, copied, row_mask, rows_of, run, tensors
from .training import Soft, Straight, Trainer

Method = Literal["elut", "soft"]
Loss = Callable[[Any, Any], Tensor]

WARM_UP = 0.05
"""The share of steps in which the learning rate rises from 0."""

KEPT = 2**28
"""Bytes of the teacher's outputs that are kept rather than computed at every step."""


@dataclass(frozen=True)
class Step:
    """What a step of training saw."""

    step: int
    loss: float
    model_loss: float
    reconstruction: float
    """Mean over layers of ‖ŷ - y‖²/‖x·W‖²."""


def calibrate(
    converted: nn.Module,
    batches: Any,
    loss_fn: Loss | None = None,
    *,
    teacher: nn.Module | None = None,
    method: Method = "elut",
    steps: int = 300,
    lr: float = 1e-3,
    beta: float | None = None,
    train_tables: bool = False,
    rounding: bool = True,
    match: str | Sequence[str] = (),
    match_weight: float = 1.0,
    inputs: Callable[[Any], Any] | None = None,
    holdout: float = 0.1,
    every: int = 50,
    checkpoint: str | Path | None = None,
    seed: int = 0,
    progress: bool | Tell = True,
    log: Callable[[Step], None] | None = None,
) -> nn.Module:
    """
    Trains the tables of `converted` in place, and returns it.

    The loss of a step, one batch, is L = model loss + β·Σ_l ‖Â_l·W - A_l·W‖²/‖A_l·W‖² over the
    layers of tables: A_l is a layer's input in the converted model and Â_l what its tables stand
    for, W the original weight. The model loss is `loss_fn(output, target)`, the target being the
    `teacher`'s output, or the batch itself where there is no teacher; `inputs` makes a batch into
    what the model is called with, where that is not the whole of it. Without `loss_fn` it is the
    squared error to the teacher's outputs, relative to their energy. What an attention mask
    leaves out does not count in either term.

    `match` is a regular expression, or several, for names of modules whose outputs are compared
    with the teacher's as well: `match_weight` times the mean of their relative squared errors is
    added to the model loss. Blocks of a deep network learn more from what comes out of them than
    from what comes out at its end.

    `method` "elut" passes gradients straight through the search; "soft" takes those of a softmax
    over centroids with learned temperatures, by default without the second term. Centroids, the
    weight that tables are made of, and biases are trained, with `train_tables` every entry too; all
    else in the model stays as it is. Tables are rounded to their bits in the loop; without
    `rounding` only at the end, for steps of half the time: it matters little at 8 bits.

    Adam, each parameter's steps in proportion to its size (`lr` is relative), the rate rising at
    first and falling to 0 as half a cosine. Every `every` steps the loss on held-out batches (a
    share `holdout`, none if 0 or if there is one batch) is taken, and the best is what stays; it
    may be the start. Tables that `convert(sequential=True)` fitted to these batches are too good on
    the held-out ones for a fair comparison: give others.

    `checkpoint` is a file, written every `every` steps, from which an interrupted training goes on
    and ends with the same bits. The same seed, threads and machine give the same result.

    Raises CompileError for a model without tables, tables without their layer's weight, a missing
    teacher, a loss that is not finite, and a checkpoint of another training. The model is then what
    it was.
    """
    luts = layers(converted)
    if not luts:
        raise CompileError("calibrate: the model has no layer of tables; convert it first")
    if loss_fn is None and teacher is None:
        raise CompileError("calibrate: without loss_fn= a teacher= (the original model) is needed")
    if method not in ("elut", "soft"):
        raise CompileError(f"calibrate: method {method!r}; 'elut' or 'soft'")
    if match and teacher is None:
        raise CompileError("calibrate: match= compares with a teacher=, the original model")
    if steps < 1 or every < 1 or not lr > 0:
        raise CompileError(f"calibrate: {steps} steps, every {every}, lr {lr}; all more than 0")
    data = as_batches(batches, "calibrate")
    train, held = split_batches(data, holdout) if holdout > 0 else (data, [])
    if len(data) == 1:
        held = []
    beta = (0.01 if method == "elut" else 0.0) if beta is None else beta
    kind = Straight if method == "elut" else Soft
    trainers: dict[str, Trainer] = {}
    for name, lut in luts.items():
        trainers[name] = kind(lut, train_tables=train_tables, rounding=rounding)
    for trainer in trainers.values():
        trainer.reconstruct = beta > 0
    original = None if teacher is None else copied(teacher)
    matched = _Matched(converted, original, match, match_weight)
    objective = _Objective(converted, trainers, original, loss_fn, inputs, beta, matched)
    identity = (method, steps, lr, beta, train_tables, rounding, matched.names, match_weight)
    identity += (holdout, every, seed, len(data))
    state = _State(trainers, lr, steps, _fingerprint(identity, luts, data))
    if checkpoint is not None:
        state.load(Path(checkpoint))
    with _training(converted, luts, trainers), following(progress, "training") as tell:
        if held and state.step == 0:
            state.judge(objective.held_out(held))
        while state.step < steps:
            batch = train[_order(len(train), seed, state.step)]
            model_loss, extra = objective(batch)
            loss = model_loss + beta * extra
            if not math.isfinite(float(loss.detach())):
                raise CompileError(
                    f"calibrate: the loss of step {state.step} is {float(loss.detach())}; lower "
                    f"lr={lr}"
                )
            state.advance(loss)
            seen = Step(
                state.step,
                float(loss.detach()),
                float(model_loss.detach()),
                float(extra.detach()) / len(trainers),
            )
            if log is not None:
                log(seen)
            tell(state.step / steps, f"loss {seen.loss:.4g}")
            if state.step % every == 0 or state.step == steps:
                if held:
                    state.judge(objective.held_out(held))
                if checkpoint is not None:
                    state.save(Path(checkpoint))
        state.take_best()
        for name, lut in luts.items():
            lut.set_layer(trainers[name].layer())
    return converted


class _Objective:
    """The two terms of the loss of a batch."""

    def __init__(
        self,
        model: nn.Module,
        trainers: dict[str, Trainer],
        teacher: nn.Module | None,
        loss_fn: Loss | None,
        inputs: Callable[[Any], Any] | None,
        beta: float,
        matched: _Matched,
    ):
        self._model, self._trainers, self._teacher = model, trainers, teacher
        self._loss_fn, self._inputs, self._beta = loss_fn, inputs, beta
        self._matched = matched
        self._outputs: dict[int, Any] = {}
        self._bytes = 0

    def __call__(self, batch: Any) -> tuple[Tensor, Tensor]:
        """The model's loss, and the layers' reconstruction errors added up."""
        arguments = batch if self._inputs is None else self._inputs(batch)
        mask = row_mask(self._model, arguments)
        for trainer in self._trainers.values():
            trainer.mask, trainer.reconstruction = mask, None
        target, inner = batch, {}
        if self._teacher is not None:
            target, inner = self._taught(batch, arguments)
        with self._matched.seen(self._model) as mine:
            output = run(self._model, arguments)
        if self._loss_fn is None:
            loss = relative_loss(output, target, mask)
        else:
            loss = self._loss_fn(output, target)
        loss = loss + self._matched.loss(mine, inner, mask)
        errors = [t.reconstruction for t in self._trainers.values()]
        extra = sum((e for e in errors if e is not None), torch.zeros(()))
        return loss, cast(Tensor, extra)

    def held_out(self, batches: Sequence[Any]) -> float:
        """The mean loss of batches, without gradients."""
        with torch.no_grad():
            terms = [self(batch) for batch in batches]
        return sum(float(loss + self._beta * extra) for loss, extra in terms) / len(terms)

    def _taught(self, batch: Any, arguments: Any) -> tuple[Any, dict[str, Any]]:
        """The teacher's output, and those of its matched modules."""
        if (kept := self._outputs.get(id(batch))) is not None:
            return kept
        teacher = cast(nn.Module, self._teacher)
        with torch.no_grad(), self._matched.seen(teacher) as inner:
            output = run(teacher, arguments)
        everything = (output, *inner.values())
        self._bytes += sum(t.numel() * t.element_size() for _, t in tensors(everything))
        if self._bytes <= KEPT:
            self._outputs[id(batch)] = output, inner
        return output, inner


class _Matched:
    """
    Modules of the converted model whose outputs are held against the teacher's.

    Raises CompileError for a pattern that is none, or that no module's name contains.
    """

    def __init__(
        self,
        converted: nn.Module,
        teacher: nn.Module | None,
        patterns: str | Sequence[str],
        weight: float,
    ):
        self._weight = weight
        self.names: tuple[str, ...] = ()
        if teacher is None:
            return
        known = {name for name, _ in teacher.named_modules() if name}
        names = [name for name, _ in converted.named_modules() if name in known]
        for pattern in listed(patterns):
            found = [name for name in names if compiled(pattern).search(name)]
            if not found:
                raise CompileError(
                    f"calibrate: match={pattern!r} is in no module's name; there are "
                    f"{', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
                )
            self.names += tuple(name for name in found if name not in self.names)

    @contextmanager
    def seen(self, model: nn.Module) -> Iterator[dict[str, Any]]:
        """What the modules put out while `model` runs, by name; of several calls the last."""
        found: dict[str, Any] = {}
        with ExitStack() as stack:
            for name in self.names:

                def see(_: nn.Module, _inputs: Any, out: Any, name: str = name) -> None:
                    found[name] = out

                stack.enter_context(model.get_submodule(name).register_forward_hook(see))
            yield found

    def loss(self, mine: dict[str, Any], goal: dict[str, Any], mask: Tensor | None) -> Tensor:
        """The weighted mean of relative squared errors, 0 without modules."""
        terms = [relative_loss(mine[name], goal[name], mask) for name in mine if name in goal]
        if not terms:
            return torch.zeros(())
        return self._weight * torch.stack(terms).mean()


def relative_loss(output: Any, target: Any, mask: Tensor | None = None) -> Tensor:
    """Σ‖y - ŷ‖²/‖y‖² over the floating tensors of an output; CompileError if it has none."""
    real = dict(tensors(target))
    terms: list[Tensor] = []
    for name, tensor in tensors(output):
        if name in real:
            found, goal = tensor, real[name]
            if mask is not None and tensor.shape[:2] == mask.shape:
                found, goal = rows_of(found, mask), rows_of(goal, mask)
            energy = goal.square().sum().clamp_min(1e-20)
            terms.append((found - goal).square().sum() / energy)
    if not terms:
        raise CompileError("calibrate: the model's output holds no floating tensor; give loss_fn=")
    return cast(Tensor, sum(terms, torch.zeros(())))


class _State:
    """Everything that a step of training changes."""

    def __init__(self, trainers: dict[str, Trainer], lr: float, steps: int, fingerprint: str):
        self.step = 0
        self.best = math.inf
        self._trainers, self._fingerprint = trainers, fingerprint
        self._best: dict[str, Tensor] | None = None
        groups = [
            {"params": [parameter], "lr": lr * max(trainer.spans()[name], 1e-12)}
            for trainer in trainers.values()
            for name, parameter in trainer.named_parameters()
        ]
        self._optimiser = torch.optim.Adam(groups)
        warm = max(1, round(steps * WARM_UP))

        def rate(step: int) -> float:
            return min(1.0, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * step / steps))

        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimiser, rate)

    def advance(self, loss: Tensor) -> None:
        """A step along the gradient of `loss`."""
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self._optimiser.step()
        self._schedule.step()
        self.step += 1

    def judge(self, loss: float) -> None:
        """Remembers the parameters if this held-out loss is the best so far."""
        if loss < self.best:
            self.best, self._best = loss, {k: v.clone() for k, v in self._parameters()}

    def take_best(self) -> None:
        """Goes back to the best parameters that were judged, if any were."""
        if self._best is not None:
            self._set(self._best)

    def save(self, path: Path) -> None:
        """Writes everything to a file, all or nothing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = path.with_name(f".{path.name}.{os.getpid()}")
        kept = {
            "fingerprint": self._fingerprint,
            "step": self.step,
            "best": self.best,
            "best_parameters": self._best,
            "parameters": dict(self._parameters()),
            "counts": {name: trainer.counts for name, trainer in self._trainers.items()},
            "optimiser": self._optimiser.state_dict(),
            "schedule": self._schedule.last_epoch,
        }
        torch.save(kept, staging)
        staging.replace(path)

    def load(self, path: Path) -> None:
        """Goes on from a file, if it is there; CompileError if it is of another training."""
        if not path.exists():
            return
        try:
            kept = torch.load(path, weights_only=True)
        except Exception as error:
            raise CompileError(f"{path} is not a checkpoint of a training: {error}") from error
        if not isinstance(kept, dict) or kept.get("fingerprint") != self._fingerprint:
            raise CompileError(
                f"{path} is the checkpoint of a training with other tables, batches or settings; "
                "delete it, or name another file"
            )
        self.step, self.best, self._best = kept["step"], kept["best"], kept["best_parameters"]
        self._set(kept["parameters"])
        for name, trainer in self._trainers.items():
            trainer.counts.copy_(kept["counts"][name])
        self._optimiser.load_state_dict(kept["optimiser"])
        self._schedule.last_epoch = kept["schedule"]

    def _parameters(self) -> Iterator[tuple[str, Tensor]]:
        for name, trainer in self._trainers.items():
            for part, parameter in trainer.named_parameters():
                yield f"{name}/{part}", parameter.detach()

    def _set(self, values: dict[str, Tensor]) -> None:
        for name, parameter in self._parameters():
            parameter.copy_(values[name])


@contextmanager
def _training(
    model: nn.Module, luts: dict[str, LutLinear], trainers: dict[str, Trainer]
) -> Iterator[None]:
    """The trainers in place; all else in the model wants no gradient and is in eval mode."""
    modes = {module: module.training for module in model.modules()}
    wanting = [p for p in model.parameters() if p.requires_grad]
    model.eval()
    for parameter in wanting:
        parameter.requires_grad_(False)
    for name, lut in luts.items():
        lut.trainer = trainers[name]
    try:
        with torch.enable_grad():
            yield
    finally:
        for lut in luts.values():
            lut.trainer = None
        for parameter in wanting:
            parameter.requires_grad_(True)
        for module, mode in modes.items():
            module.training = mode


def _order(count: int, seed: int, step: int) -> int:
    """Which batch a step sees: every batch once in each round, rounds shuffled by the seed."""
    turn, place = divmod(step, count)
    generator = torch.Generator().manual_seed(seed * 1_000_003 + turn)
    return int(torch.randperm(count, generator=generator)[place])


def _fingerprint(settings: Any, luts: dict[str, LutLinear], batches: Sequence[Any]) -> str:
    """A name for a training: its settings, the tables it starts from and the batches' numbers."""
    digest = hashlib.sha256(repr(settings).encode())
    for name, lut in luts.items():
        digest.update(name.encode())
        for tensor in (lut.centroids, lut.steps, lut.table, lut.scale, lut.bias):
            if tensor is not None:
                digest.update(tensor.cpu().numpy().tobytes())
    for batch in batches:
        for tensor in _arguments(batch):
            digest.update(repr(tuple(tensor.shape)).encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _arguments(batch: Any) -> Iterator[Tensor]:
    if isinstance(batch, Tensor):
        yield batch.reshape(-1)
    elif hasattr(batch, "keys"):
        for key in batch.keys():
            yield from _arguments(batch[key])
    elif isinstance(batch, tuple | list):
        for part in batch:
            yield from _arguments(part)
