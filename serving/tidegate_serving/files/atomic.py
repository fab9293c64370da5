"""Writes files and folders so that nobody ever sees half of one, and so that they are there after a crash.

What other processes read is written under another name beside its place, synced and renamed; then the folder is synced.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ASIDE = ".aside"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where no more can be written: the disk is full, or the quota or the limit of a file's size is
reached."""
_LEFT_SECONDS = 3600.0


def write_atomically(path: Path, data: bytes | str) -> None:
    """Writes a file whole, text as UTF-8; makes its folder. OSError leaves the old file alone and nothing beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as aside:
        aside.write_bytes(data.encode() if isinstance(data, str) else data)


def write_through_links(path: Path, data: bytes | str) -> None:
    """The same for a file that a person names: a link stays one, and what it leads to is written."""
    write_atomically(Path(os.path.realpath(path)), data)


def write_json(path: Path, document: Any) -> None:
    """The same for a JSON document, indented; ValueError for NaN and infinities, which JSON lacks."""
    write_atomically(path, json.dumps(document, indent=1, allow_nan=False) + "\n")


@contextlib.contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A name to write a file under by whatever means; what lies there at the end is synced and becomes `path`. Where
    the body or the disk fails, nothing changes, and the error of a full disk names the path."""
    aside = _beside(path, ASIDE)
    try:
        yield aside
        sync(aside)
        aside.replace(path)
    except BaseException as error:
        _name(error, path)
        with contextlib.suppress(OSError):  # where it cannot even be removed, the first error is the one to tell
            aside.unlink()
        raise
    sync(path.parent)


@contextlib.contextmanager
def folder_aside(path: Path, ending: str = ASIDE) -> Iterator[Path]:
    """A new folder to fill; at the end all in it is synced and it becomes `path`, where no folder may lie that is not
    empty. Where the body fails it is removed, and the error of a full disk names the path; what a crash leaves behind
    begins with a dot and ends with `ending`."""
    aside = _beside(path, ending)
    aside.mkdir(parents=True)
    try:
        yield aside
        for inside in sorted(aside.rglob("*"), reverse=True):
            sync(inside)
        sync(aside)
        aside.rename(path)
    except BaseException as error:
        _name(error, path)
        shutil.rmtree(aside)
        raise
    sync(path.parent)


def sweep_asides(folder: Path) -> None:
    """Removes the files that writers who were killed left aside in this folder, an hour ago or longer: what is younger
    may be written by somebody now."""
    for aside in folder.glob(f".*.????????{ASIDE}"):
        with contextlib.suppress(FileNotFoundError):  # somebody else sweeps, too
            if aside.is_file() and time.time() - aside.stat().st_mtime > _LEFT_SECONDS:
                aside.unlink()


def remove_folder(path: Path, ending: str = ".removed") -> None:
    """Removes a folder, if it is there; its name is gone before its files are, so that nobody ever sees half of it."""
    going = _beside(path, ending)
    with contextlib.suppress(FileNotFoundError):
        path.rename(going)
        shutil.rmtree(going)


def append(descriptor: int, size: int, data: bytes) -> None:
    """Puts data behind the first `size` bytes of a file, in the place of what is there, on disk before it returns.
    After an OSError these bytes are all that is there."""
    try:
        os.ftruncate(descriptor, size)
        left = memoryview(data)
        while left:
            left = left[os.pwrite(descriptor, left, size + len(data) - len(left)) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def sync(path: Path) -> None:
    """What a file holds, or what was made, renamed or removed in a folder, is so after a crash too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name(error: BaseException, path: Path) -> None:
    """The system names no file where a write fails."""
    if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
        error.filename = str(path)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{ending}")
