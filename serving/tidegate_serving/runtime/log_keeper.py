"""Writes log blocks and says once, where everybody looks, when the log cannot be written.

The front hands blocks in; the log's writer keeps them; what goes wrong is a problem that status, journal and log show.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tidegate_serving.contract.errors import TidegateError, Unavailable
from tidegate_serving.files.state import file_error
from tidegate_serving.sources.problems import Reports

if TYPE_CHECKING:
    from tidegate_serving.inference_log.writer import Block, LogWriter

NAME = "inference log"


class BlockDroppedError(Exception):
    """A block was not written, which has been reported already; the data plane counts its rows as dropped."""


class LogKeeper:
    """A `BlockWriter` for the front around the one that writes below `root`."""

    def __init__(self, root: Path, writer: LogWriter, problems: Reports) -> None:
        self._root = root
        self._writer = writer
        self._problems = problems

    def describe(self, model: str, version: int, event_time: str | None) -> None:
        """Passes it on."""
        self._writer.describe(model, version, event_time)

    def write(self, block: Block) -> None:
        """Writes one block. BlockDroppedError where it cannot be."""
        try:
            self._writer.write(block)
        except Exception as error:
            said = self._in_our_words(error)
            text = f"the inference log takes nothing, its records are dropped and counted: {said.message}"
            self._problems.report("", NAME, type(said)(text))
            raise BlockDroppedError(text) from None
        self._problems.settle("", NAME)

    def _in_our_words(self, error: Exception) -> TidegateError:
        if isinstance(error, TidegateError):
            return error
        if isinstance(error, OSError):
            return file_error(error, self._root)
        return Unavailable(f"a block cannot be written ({type(error).__name__}: {error})")


class QuietDrops:
    """A context in which Python does not print a traceback for each block that was dropped; for programs whose standard
    error is read by people."""

    def __enter__(self) -> None:
        """Listens to what nobody else can."""
        self._before = sys.unraisablehook
        sys.unraisablehook = self._hear

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As it was."""
        sys.unraisablehook = self._before

    def _hear(self, unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, BlockDroppedError):
            self._before(unraisable)
