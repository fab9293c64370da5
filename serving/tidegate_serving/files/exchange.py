"""Exchanges two folders or files in one step, which Python's library cannot; see renameat2(2)."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from tidegate_serving.contract.errors import Unsupported

_HERE, _EXCHANGE = -100, 2
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)


def exchange(one: Path, other: Path) -> None:
    """Each takes the other's place at once: whoever looks sees both as before, or both as after.

    OSError where one is missing, Unsupported where the file system has no such step (NFS, some overlays).
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return
    number = ctypes.get_errno()
    if number in _CANNOT:
        raise Unsupported(
            f"the file system of {one} cannot exchange two folders in one step ({os.strerror(number)}): keep them "
            "on ext4, xfs, btrfs or tmpfs"
        )
    raise OSError(number, os.strerror(number), str(one))
