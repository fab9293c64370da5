"""How log lines are written: what follows the first line of a record is set in, and no character steers a terminal, so
that words of a client or of a model pass for no record of their own.
"""

from __future__ import annotations

import logging
import sys


class LineFormatter(logging.Formatter):
    """Time, level, logger and message; further lines are set in by four blanks."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One record, with its traceback where it has one."""
        return "\n    ".join(map(_printable, super().format(record).split("\n")))


def log_to_stderr() -> None:
    """Has everything from level INFO on written to the error stream, for a program that is a server."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)
