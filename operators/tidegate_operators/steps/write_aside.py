"""A version's directory that appears whole or not at all: written aside, synced, then renamed, after tfx's Pusher.

One publisher per servable at a time; what one that died has left aside is removed by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from tidegate_serving.contract.errors import AlreadyExists
from tidegate_serving.contract.manifest import FILE_NAME

_LOCK = ".publish.lock"
_ASIDE = ".aside"


@contextlib.contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A new directory to write to. It becomes `target` when the block ends, and is gone when the block raises.

    AlreadyExists where there is a `target`.
    """
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in folder.glob(f".*{_ASIDE}"):
            shutil.rmtree(leftover)
        _check_free(target)
        aside = folder / f".{target.name}.{uuid.uuid4().hex[:8]}{_ASIDE}"
        aside.mkdir()
        try:
            yield aside
            for path in (*sorted(aside.rglob("*"), reverse=True), aside):
                _sync(path)
            aside.rename(target)
            _sync(folder)
        finally:
            if aside.exists():
                shutil.rmtree(aside)


def _check_free(target: Path) -> None:
    if not target.exists():
        return
    if (target / FILE_NAME).is_file():
        raise AlreadyExists(f"{target} is published already: a version never changes, publish under a new number")
    raise AlreadyExists(f"{target} exists without a {FILE_NAME}: somebody else left half a version, remove it first")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
