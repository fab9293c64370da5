"""How far long work is, drawn on a terminal while it lasts and gone when it is over; silent in a pipe.

Commands hand what `progress` yields to a step, which reports to it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from tidegate_validation.progress import SILENT, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import Task, TaskID


@contextmanager
def progress() -> Iterator[Progress]:
    """Who is told. Drawn on standard error, and only where standard output is a terminal too."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield SILENT
        return
    display = _display()
    if not display.console.is_interactive:
        yield SILENT
        return
    with display, _log_lines_above(sys.__stderr__):
        yield Drawn(display)


def time_left(done: float, parts: float | None, elapsed: float, limit: float | None) -> str:
    """How long yet: by the pace so far, and no longer than `limit` allows; empty where neither is known. In seconds."""
    rest = None if limit is None else max(limit - elapsed, 0.0)
    if parts and done > 0:
        pace = elapsed / done * max(parts - done, 0.0)
        if rest is None or pace <= rest:
            return f"about {_clock(pace)} left"
    return "" if rest is None else f"at most {_clock(rest)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Drawn:
    """Draws a line for each work that has begun and not ended."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._begun: list[TaskID] = []

    def begin(self, work: str, parts: float | None = None, seconds: float | None = None) -> None:
        """Adds a line below those of the work that it is part of."""
        indented = "  " * len(self._begun) + work
        self._begun.append(self._display.add_task(indented, total=parts, doing="", limit=seconds))

    def at(self, doing: str, done: float) -> None:
        """Moves the lowest line on."""
        self._display.update(self._begun[-1], completed=done, doing=doing, refresh=True)

    def end(self) -> None:
        """Takes the lowest line away."""
        self._display.remove_task(self._begun.pop())


def _display() -> Display:
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Display
    from rich.text import Text

    class Left(ProgressColumn):
        """Done of parts, what is being done, and how long yet."""

        def render(self, task: Task) -> Text:
            """One line."""
            done, parts, elapsed = task.completed, task.total, task.elapsed or 0.0
            count = "" if parts is None else f"{min(done, parts):g}/{parts:g}"
            left = time_left(done, parts, elapsed, task.fields["limit"])
            times = f"{_clock(elapsed)}, {left}" if left else _clock(elapsed)
            return Text(" ".join(word for word in (count, task.fields["doing"], times) if word))

    return Display(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        Left(),
        console=Console(stderr=True, highlight=False),
        transient=True,
        refresh_per_second=4,
    )


@contextmanager
def _log_lines_above(original: TextIO | None) -> Iterator[None]:
    """While it draws, warnings go through the display, which puts them above its lines."""
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is original
    ]
    for handler in handlers:
        handler.setStream(sys.stderr)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(original)
