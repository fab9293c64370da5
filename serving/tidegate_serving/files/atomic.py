"""Writes a file so that nobody ever sees half of it, and so that it is there after a crash once the call has returned.

The RPC Source's state and the ready file are written here.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Writes aside, syncs, renames into place, syncs the folder, which it makes. OSError leaves the old file alone and
    nothing beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # where it cannot even be removed, the first error is the one to tell
            aside.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """What was made, renamed or removed in a folder is so after a crash too."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
