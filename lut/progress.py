"""Progress of long work: a bar on stderr, a function of the caller's, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Tell = Callable[[float, str], None]
"""Told the finished share, 0 to 1, and what is being done."""


@contextmanager
def following(progress: bool | Tell, title: str) -> Iterator[Tell]:
    """What to tell of one piece of work, for a caller's `progress=` argument."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda share, what: None
        return
    columns = (
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share, what: bar.update(task, completed=share, description=what)
