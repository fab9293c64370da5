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
_BETWEEN, _EDGES = 2, 2
"""Blanks between two columns of a table, and at both of its edges."""
_LONGEST_NUMBER, _LONGEST_WORD = 24, 15
"""What never folds: a version's number has 19 digits at most, a moment with its zone 20, `serving_default` 15."""


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
    """A table of texts; cells that are outcomes or states are coloured. Where the terminal is too narrow cells fold
    between words, and within those alone that are longer than any number or version."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen = console()
    cells = [[harmless(cell) for cell in row] for row in rows]
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    widths = _widths([[heading, *column] for heading, *column in zip(columns, *cells, strict=True)], screen.width)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column, overflow="fold", width=width)
    for row in cells:
        table.add_row(*(Text(cell, style=style(cell)) for cell in row))
    needed = sum(widths) + _blanks(columns)
    if needed > screen.width:
        screen = Console(highlight=False, width=needed)
    screen.print(table, soft_wrap=False)


def _widths(columns: Sequence[Sequence[str]], screen: int) -> list[int]:
    """How wide columns of texts are on a screen: as their longest line, or where that is too much the widest ones as
    little as it takes, but none narrower than its longest number, version or short word."""
    from rich.cells import cell_len

    longest = [max(cell_len(line) for cell in cells for line in cell.split("\n")) for cells in columns]
    least = [max((_least(word) for cell in cells for word in cell.split()), default=0) for cells in columns]
    room, most = screen - _blanks(columns), max(longest)
    while True:
        widths = [max(low, min(high, most)) for low, high in zip(least, longest, strict=True)]
        if sum(widths) <= room or widths == least:
            return widths
        most -= 1


def _least(word: str) -> int:
    from rich.cells import cell_len

    return min(cell_len(word), _LONGEST_NUMBER if any(map(str.isdigit, word)) else _LONGEST_WORD)


def _blanks(columns: Sequence[object]) -> int:
    return _EDGES + _BETWEEN * (len(columns) - 1)


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
