"""Says once, where everybody looks, that the inference log cannot be written, and that it can again.

The data plane writes the log and tells of what goes wrong; that is a problem that status, journal and log show.
"""

from __future__ import annotations

import logging
from pathlib import Path

from tidegate_serving.contract.errors import TidegateError, Unavailable
from tidegate_serving.files.state import file_error, require_writable
from tidegate_serving.sources.problems import Reports

NAME = "inference log"
_log = logging.getLogger(__name__)


class LogProblem:
    """What the plane calls about the log below `root`: with each error while blocks are dropped, then with None."""

    def __init__(self, root: Path | None, problems: Reports) -> None:
        self._root = root
        self._problems = problems

    def foretell(self) -> None:
        """Says at the start what the first block would meet; a problem it is only then, for it may be mended before."""
        if self._root is None:
            return
        try:
            require_writable(self._root)
        except OSError as error:
            _log.warning(
                "the inference log will take nothing, %s cannot be written into (%s): have log_path name a folder that "
                "the engine's user may write into",
                self._root,
                error.strerror,
            )

    def __call__(self, error: Exception | None) -> None:
        """Reports it, or that it is over."""
        if error is None:
            self._problems.settle("", NAME)
            return
        said = self._in_our_words(error)
        text = f"the inference log takes nothing, its records are dropped and counted: {said.message}"
        self._problems.report("", NAME, type(said)(text))

    def _in_our_words(self, error: Exception) -> TidegateError:
        if isinstance(error, OSError) and self._root is not None:
            return file_error(error, self._root)
        return Unavailable(f"a block cannot be written ({type(error).__name__}: {error})")
