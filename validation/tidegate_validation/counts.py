"""Counts in words, as verdicts, pages and commands say them."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, one: str, several: str = "") -> str:
    """`1 release came`, `2,000 releases came`; `several` is `one` with an s where it is left out."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def few(names: Sequence[str], most: int) -> str:
    """The first `most` of the names, and of how many more nothing is said: `a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
