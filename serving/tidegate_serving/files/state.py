"""Keeps what an engine has to remember, locks files, and says with a cure why a folder cannot keep something.

The RPC Source's desired states and operators' overrides are written through here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from tidegate_serving.contract.errors import (
    InvalidInput,
    PermissionRefused,
    ResourceExhausted,
    TidegateError,
    Unavailable,
)
from tidegate_serving.files.atomic import FULL, write_atomically

_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
NO_MORE_OPEN = (errno.EMFILE, errno.ENFILE)
"""What the system says where this process, or all of them, have as many files open as they may."""
_NO_FOLDER = (errno.EEXIST, errno.ENOTDIR)


def keep(path: Path, data: bytes) -> None:
    """Writes a file whole, on disk before it returns. Where it cannot, the old one stays and this raises
    ResourceExhausted (full), PermissionRefused (read-only) or Unavailable, with the path and the cure."""
    try:
        write_atomically(path, data)
    except OSError as error:
        raise file_error(error, path) from error


def make_folder(path: Path, key: str) -> None:
    """Makes the folder that a config key names. InvalidInput where none can be there, else as `keep`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in _NO_FOLDER:
            raise InvalidInput(f"{key} is {path}, which is or lies in a file: name a folder") from error
        if error.errno in (*FULL, *_FORBIDDEN):
            raise file_error(error, path) from error
        raise InvalidInput(
            f"{key} is {path}, which cannot be made ({error.strerror}): name a folder that this process may write to"
        ) from error


def lock(path: Path) -> TextIO | None:
    """Takes a lock file for this process until it is closed; None where another has it. Raises as `keep`."""
    try:
        file = path.open("w", encoding="ascii")
    except OSError as error:
        raise file_error(error, path) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """Waits until no other process holds the lock file, and holds it meanwhile. OSError where there is no folder."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def require_writable(folder: Path) -> None:
    """PermissionError or NotADirectoryError where nothing could be written into a folder, be it there or still to be
    made; for what takes long and writes at its end."""
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(one))
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def file_error(error: OSError, path: Path) -> TidegateError:
    """The contract's error for an error of the file system, with the path and the cure."""
    if error.errno == errno.EFBIG:
        return ResourceExhausted(
            f"{path} cannot be kept, it is larger than a file of this process may be: raise that limit (ulimit -f)"
        )
    if error.errno in FULL:
        return ResourceExhausted(f"{path} cannot be kept, the disk is full: free space there and try again")
    if error.errno in NO_MORE_OPEN:
        return Unavailable(
            f"{path} cannot be opened, this process or machine has too many files open: raise that limit (ulimit -n)"
        )
    if error.errno in _FORBIDDEN:
        return PermissionRefused(
            f"{path} cannot be kept, it is read-only for this process: mend the permissions of {path.parent}"
        )
    return Unavailable(f"{path} cannot be kept ({error}): mend the file system and try again")
