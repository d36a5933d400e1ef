"""Progress of a long command, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import click

from capplan.cli.terminal import console, visible

LINE_EVERY_S = 10.0


class Step(Protocol):
    """What a long command reports."""

    @property
    def done(self) -> int:
        """Steps finished."""

    @property
    def total(self) -> int:
        """All steps; 0 if not known yet."""

    @property
    def label(self) -> str:
        """What is being done."""

    @property
    def eta_seconds(self) -> float | None:
        """Time left, if known."""


@contextmanager
def shown() -> Iterator[Callable[[Step], None]]:
    """Yield a function that shows one step; whatever was drawn vanishes at the end."""
    if not sys.stderr.isatty():
        yield _Lines().show
        return
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        BarColumn(),
        TextColumn("{task.fields[left]} {task.description}"),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None, left="")

        def show(step: Step) -> None:
            total = step.total or None
            bar.update(
                task, description=escape(visible(step.label)), completed=step.done, total=total
            )
            bar.update(task, left=time_left(step.eta_seconds))

        yield show


class _Lines:
    """Prints at most one line every ten seconds."""

    def __init__(self) -> None:
        self._last_s = -LINE_EVERY_S

    def show(self, step: Step) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s < LINE_EVERY_S:
            return
        self._last_s = now_s
        count = f"{step.done}/{step.total} " if step.total else ""
        label = " ".join(step.label.split())  # a name with a line feed begins no line
        line = f"{count}{time_left(step.eta_seconds)} {label}".replace("  ", " ").strip()
        click.echo(line, err=True)


def time_left(seconds: float | None) -> str:
    """Return the time left in words, or nothing.

    >>> time_left(95)
    'about 1:35 left,'
    """
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes}:{rest:02d} left,"
