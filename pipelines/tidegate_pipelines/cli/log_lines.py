"""How commands show what gates and libraries log: a line each on standard error, tracebacks only where asked for.

The `tidegate` command sets it up before a command runs; `tidegate serve` logs in its own way.
"""

from __future__ import annotations

import logging


class OneLine(logging.Formatter):
    """The message alone; the exception behind it is left out."""

    def format(self, record: logging.LogRecord) -> str:
        """The message."""
        return record.getMessage()


def show_log_lines(*, tracebacks: bool) -> None:
    """Warnings and errors go to standard error. Does nothing where somebody has set logging up already."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)  # libraries that set levels of their own chatter otherwise
    handler.setFormatter(logging.Formatter() if tracebacks else OneLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
