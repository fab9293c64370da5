"""What commands print: lines that say how a step ended and tables on standard output, logged lines on standard error.

Output is coloured only on a terminal.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_STYLES: Mapping[str, str] = {
    "PASS": "green",
    "WARN": "yellow",
    "FAIL": "bold red",
    "INCONCLUSIVE": "yellow",
    "ERROR": "bold red",
    "AVAILABLE": "green",
    "LOADING": "yellow",
    "UNLOADING": "yellow",
    "END": "dim",
}


def console() -> Console:
    """Standard output."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def style(word: str) -> str:
    """How an outcome or a state is coloured; plain for other words."""
    return _STYLES.get(word, "")


def say(text: str, word: str = "") -> None:
    """One line, led by an outcome where there is one. Markup in `text` is not interpreted, nor is what would steer a
    terminal: reasons and errors are other people's words."""
    from rich.text import Text

    line = Text(f"{word} ", style=style(word)) if word else Text()
    console().print(line.append(harmless(text)))


def harmless(text: str) -> str:
    """A text whose control characters, but for the end of a line, can be seen and do nothing."""
    return "".join(one if one == "\n" or one.isprintable() else repr(one)[1:-1] for one in text)


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table of texts; cells that are outcomes or states are coloured."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(harmless(cell), style=style(cell)) for cell in row))
    console().print(table, soft_wrap=False)


class _OneLine(logging.Formatter):
    """The message alone; the exception behind it is left out."""

    def format(self, record: logging.LogRecord) -> str:
        """The message."""
        return record.getMessage()


def show_log_lines(*, tracebacks: bool) -> None:
    """Warnings and errors go to standard error. Does nothing where somebody has set logging up already."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)  # libraries that set levels of their own chatter otherwise
    handler.setFormatter(logging.Formatter() if tracebacks else _OneLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
