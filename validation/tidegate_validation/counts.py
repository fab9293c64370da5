"""Counts in words, as verdicts, pages and commands say them."""

from __future__ import annotations


def counted(number: int, one: str, several: str = "") -> str:
    """`1 release came`, `2,000 releases came`; `several` is `one` with an s where it is left out."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
