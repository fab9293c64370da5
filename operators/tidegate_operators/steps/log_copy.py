"""The inference log of the engines that a canary is tried on, as this machine has it: their folder where it is mounted
here, else a copy of the versions' part, fetched over the control port and renewed at each look.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

from tidegate_serving.control_client import ControlClient

_PREFIX = "tidegate-log-"
_SETTLED_SECONDS = 60.0
_CLOCKS = timedelta(seconds=120)
"""Times of files are the engine's, and the beginning is this machine's; which rows count the rows themselves say."""


def is_logged_here(root: Path, servable: str) -> bool:
    """Whether this machine sees a log of the model below `root`, an engine's or a group's."""
    return any(next(root.glob(pattern), None) for pattern in (f"model={servable}", f"*/model={servable}"))


class LogCopy:
    """Files of a model's versions since a time, below a folder for each engine, which goes with this object.

    It holds what clients sent, so nobody else may look into it, and the next copy removes what a process that was
    killed has left behind. What an engine told before it was lost stays.
    """

    def __init__(self, servable: str, versions: Iterable[int], since: datetime) -> None:
        self._servable, self._versions = servable, tuple(versions)
        self._since_us = int((since - _CLOCKS).timestamp() * 1e6)
        _remove_left_behind()
        self.root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        weakref.finalize(self, _remove, self.root, _lock(self.root))

    def of(self, engine: str) -> Path:
        """The folder of one engine's log, by its address without what means something in paths and their patterns."""
        return self.root / re.sub(r"[/\[\]]", "_", engine)

    def renew(self, engine: str, client: ControlClient) -> None:
        """Fetches what is new in an engine's log."""
        folder = self.of(engine)
        folder.mkdir(exist_ok=True)
        # Engines may share one log, whose files have the same names then.
        others = self.root.glob("*/model=*/version=*/date=*/*.parquet")
        elsewhere = {"/".join(path.parts[-4:]) for path in others if not path.is_relative_to(folder)}
        client.copy_log(self._servable, self._versions, folder, since_us=self._since_us, elsewhere=elsewhere)


def _lock(folder: Path) -> int:
    """An open descriptor that nobody else can lock while this process lives. BlockingIOError where somebody does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove(folder: Path, descriptor: int) -> None:
    shutil.rmtree(folder)
    os.close(descriptor)


def _remove_left_behind() -> None:
    """Copies of this user's that no process holds; a new one is left alone until it is held."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            found = folder.stat()
            if found.st_uid != os.geteuid() or found.st_mtime > time.time() - _SETTLED_SECONDS:
                continue
            descriptor = _lock(folder)
        except (FileNotFoundError, BlockingIOError):
            continue
        _remove(folder, descriptor)
