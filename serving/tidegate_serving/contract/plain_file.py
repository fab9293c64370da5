"""Reads files that somebody else named or put into a model repository: no pipe keeps the reader waiting, and no device
or huge file takes its memory."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tidegate_serving.contract.errors import InvalidInput, NotFound, Tampered

MOST_BYTES = 32 << 20


class NotPlain(OSError):
    """A pipe, device or socket where a file should be, or a file that is larger than it may be; `strerror` says which,
    behind its name."""


def read_plain(path: Path, cure: str) -> bytes:
    """The bytes of a file in a model repository, of at most 32 MiB. FileNotFoundError where there is none; Tampered,
    with `cure`, such as "publish the version again", for a larger one, and for a pipe, a device or whatever else is no
    file."""
    try:
        return read_small(path)
    except NotPlain as error:
        raise Tampered(f"{path} {error.strerror}: {cure}") from error


def read_given(path: Path, what: str, cure: str) -> bytes:
    """The bytes of a file that a person named, of at most 32 MiB; messages call it `what`. NotFound or InvalidInput,
    with `cure`, where it cannot be read."""
    with _told(path, what, cure):
        return read_small(path)


def check_given(path: Path, what: str, cure: str) -> None:
    """The same errors for a file of any size, which something else will read."""
    with _told(path, what, cure):
        open_plain(path).close()


@contextlib.contextmanager
def _told(path: Path, what: str, cure: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{what} {path} is missing: {cure}") from error
    except NotPlain as error:
        raise InvalidInput(f"{what} {path} {error.strerror}: {cure}") from error
    except OSError as error:
        raise InvalidInput(f"{what} {path} cannot be read ({error.strerror}): {cure}") from error


def read_small(path: Path) -> bytes:
    """As `Path.read_bytes`, but at once; NotPlain for more than 32 MiB, and for whatever is no file."""
    with open_plain(path) as file:
        data = file.read(MOST_BYTES + 1)
        if data is None:  # the system's own, such as /proc/kmsg, may call themselves files and keep a reader waiting
            raise NotPlain(errno.EAGAIN, "has nothing to read now", str(path))
        if len(data) > MOST_BYTES:
            size = max(len(data), os.fstat(file.fileno()).st_size)
            raise NotPlain(errno.EFBIG, f"has {size} bytes, more than {MOST_BYTES}", str(path))
    return data


def open_plain(path: Path) -> BinaryIO:
    """A plain file to read, as `open_at_once`; NotPlain for whatever else is no folder."""
    check_plain(path, path.stat())  # some devices do something when they are opened
    file = open_at_once(path)
    try:
        check_plain(path, os.fstat(file.fileno()))  # another may lie there by now
    except NotPlain:
        file.close()
        raise
    return file


def check_plain(path: Path, found: os.stat_result) -> None:
    """NotPlain unless this, which the system says of the path, is a file."""
    if not stat.S_ISREG(found.st_mode):
        raise NotPlain(errno.EINVAL, "is no plain file", str(path))


def open_at_once(path: Path) -> BinaryIO:
    """A file to read; a pipe is opened at once too, although nobody may ever write into it. OSError as of `open`, which
    a model in this process may have replaced."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
