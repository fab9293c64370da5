"""Reads small files that somebody else put into a model repository: no pipe keeps the reader waiting, and no device or
huge file takes its memory."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from tidegate_serving.contract.errors import Tampered

MOST_BYTES = 32 << 20


def read_plain(path: Path, cure: str) -> bytes:
    """The bytes of a file, of at most 32 MiB. FileNotFoundError where there is none; Tampered for a larger one, and for
    a pipe, a device or whatever else is no file, with `cure`, such as "publish the version again"."""
    with open_at_once(path) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Tampered(f"{path} is no plain file: {cure}")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Tampered(f"{path} has {found.st_size} bytes, more than {MOST_BYTES}: {cure}")
    return data


def open_at_once(path: Path) -> BinaryIO:
    """A file to read; a pipe is opened at once too, although nobody may ever write into it. OSError as of `open`, which
    a model in this process may have replaced."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
