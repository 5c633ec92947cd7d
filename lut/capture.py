"""The inputs of a model's layers: a bounded, uniform sample of rows of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import CompileError
from .sites import row_mask, rows_of, run

Floats = NDArray[np.float32]


class Reservoir:
    """
    A uniform sample of at most `capacity` of the rows it is given, N×H.

    Every row has a random key and the rows with the smallest keys stay, so memory is bounded by the
    sample and one batch. Layers that see the same number of rows keep the same ones.
    """

    def __init__(self, capacity: int, seed: int):
        self.capacity = capacity
        self.seen = 0
        self._generator = np.random.default_rng(seed)
        self._keys = np.empty(0)
        self._rows: list[Floats] = []
        self._held = 0

    def add(self, rows: Floats) -> None:
        """Offers rows, in order."""
        keys = self._generator.random(len(rows))
        self.seen += len(rows)
        if self._held >= self.capacity:
            # The largest key that is kept: most rows of a long run fall out here.
            mine = keys < self._keys.max()
            rows, keys = rows[mine], keys[mine]
        self._rows.append(np.array(rows, dtype=np.float32))
        self._keys = np.concatenate([self._keys, keys])
        self._held += len(rows)
        if self._held > self.capacity:
            kept = np.sort(np.argpartition(self._keys, self.capacity - 1)[: self.capacity])
            self._rows = [np.concatenate(self._rows)[kept]]
            self._keys, self._held = self._keys[kept], self.capacity

    def rows(self) -> Floats:
        """The sample, in the order in which it came."""
        if not self._rows:
            return np.empty((0, 0), dtype=np.float32)
        return np.concatenate(self._rows)


@contextmanager
def watching(
    model: nn.Module, names: Sequence[str], see: Callable[[str, Tensor, Tensor], None]
) -> Iterator[None]:
    """Calls `see(name, input, output)` whenever one of the named layers of `model` has run."""
    with ExitStack() as stack:
        for name in names:

            def hook(
                _: nn.Module,
                args: tuple[Any, ...],
                named: dict[str, Any],
                out: Any,
                name: str = name,
            ) -> None:
                x = args[0] if args else next(iter(named.values()))
                see(name, x.detach(), out.detach())

            stack.enter_context(
                model.get_submodule(name).register_forward_hook(hook, with_kwargs=True)
            )
        yield


def inputs_of(
    model: nn.Module,
    batches: Sequence[Any],
    widths: dict[str, int],
    *,
    rows: int,
    memory: float,
    seed: int,
    tell: Callable[[float], None],
) -> Iterator[tuple[str, Floats]]:
    """
    At most `rows` rows of the input of each layer, N×H; `widths` gives H. Rows that a batch's
    `attention_mask` leaves out are not counted.

    The batches are run once for as many layers as fit into `memory` bytes. The layers come in the
    order in which they are first called.

    Raises CompileError for a layer that is never called and for inputs that are not finite.
    """
    order = list(widths)
    while order:
        group: list[str] = []
        budget = memory
        for name in order:
            budget -= rows * widths[name] * 4
            if group and budget < 0:
                break
            group.append(name)
        found = _one_run(model, batches, group, rows, seed, tell)
        if missing := [name for name in group if name not in found]:
            raise CompileError(
                f"never called in calibration: {', '.join(missing)}; exclude them, or give "
                "batches that reach them"
            )
        order = order[len(group) :]
        for name in list(found):
            yield name, found.pop(name).rows()


def _one_run(
    model: nn.Module,
    batches: Sequence[Any],
    names: Sequence[str],
    rows: int,
    seed: int,
    tell: Callable[[float], None],
) -> dict[str, Reservoir]:
    found: dict[str, Reservoir] = {}
    mask: Tensor | None = None
    number = 0

    def see(name: str, x: Tensor, _: Tensor) -> None:
        seen = rows_of(x, mask).to(torch.float32)
        if not bool(torch.isfinite(seen).all()):
            raise CompileError(
                f"{name}: its input in calibration batch {number} holds a NaN or an infinity"
            )
        if name not in found:
            found[name] = Reservoir(rows, seed)
        found[name].add(seen.cpu().numpy())

    with watching(model, names, see), torch.no_grad():
        for number, batch in enumerate(batches):
            mask = row_mask(model, batch)
            run(model, batch)
            tell((number + 1) / len(batches))
    return found
