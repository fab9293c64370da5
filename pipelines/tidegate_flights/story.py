"""Tells what the demo does while it does it: a line when a step begins, one for each outcome, with the time so far.

Lines go to a Rich console, plain where the output is no terminal.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

STEPS = 7


class Story:
    """Prints at once; nothing is held back until the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._begun

    def step(self, number: int, title: str) -> None:
        """A step begins."""
        self._console.print(f"\n[bold cyan]{number}/{STEPS}[/] [bold]{_plain(title)}[/]", soft_wrap=True)

    def good(self, outcome: str) -> None:
        """Something went as it should."""
        self._line("[green]ok[/]", outcome)

    def refused(self, outcome: str) -> None:
        """A gate said no, as it should."""
        self._line("[yellow]no[/]", outcome)

    def bad(self, outcome: str) -> None:
        """Something is not as it should be."""
        self._line("[bold red]!![/]", outcome)

    def note(self, text: str) -> None:
        """Worth knowing while waiting."""
        self._line("[dim]..[/]", text)

    def _line(self, mark: str, text: str) -> None:
        self._console.print(f"  [dim]{self.seconds:6.1f} s[/]  {mark}  {_plain(text)}", soft_wrap=True)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
