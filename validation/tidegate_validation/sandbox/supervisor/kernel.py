"""System calls of Linux that Python's library lacks, each raising OSError that names it.

They make namespaces, mounts and process attributes; see unshare(2), mount(2), mount_setattr(2), prctl(2).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, BIND, REC, PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_PDEATHSIG, _SUBREAPER, _NO_NEW_PRIVILEGES = 1, 36, 38
_SECCOMP, _FILTER = 22, 2
_MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""The kernel's number of the architecture, and its number of the call `socket`."""
_AF_INET, _AF_INET6, _SOCK_DGRAM, _SIOCSIFFLAGS, _UP = 2, 10, 2, 0x8914, 0x41

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Gives this process namespaces of its own."""
    _checked("unshare", _libc.unshare(flags))


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mounts, binds or changes a mount, as `flags` say."""
    _checked(f"mount {target}", _libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()))


def make_read_only(path: str) -> None:
    """Every mount at and below `path` becomes read-only."""
    attributes = struct.pack("QQQQ", RDONLY | NOSUID, 0, 0, 0)
    done = _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE, attributes, len(attributes))
    _checked(f"mount_setattr {path}", done)


def bring_up_loopback() -> None:
    """Inside a network namespace of its own: 127.0.0.1 works, and nothing else."""
    descriptor = _checked("socket", _libc.socket(_AF_INET, _SOCK_DGRAM, 0))
    try:
        fcntl.ioctl(descriptor, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP))
    finally:
        os.close(descriptor)


def end_with_parent(signal: int) -> None:
    """The kernel sends `signal` here when the parent ends."""
    _prctl(_PDEATHSIG, signal)


def adopt_orphans() -> None:
    """Descendants whose parent ends become this process's children, whatever session they are in."""
    _prctl(_SUBREAPER, 1)


def gain_nothing() -> None:
    """No program that is run from here on gets more rights than this process has."""
    _prctl(_NO_NEW_PRIVILEGES, 1)


def refuse_sockets() -> None:
    """From here on, this process and its descendants get EACCES for a socket of the internet; see seccomp(2).

    For a process that may not have a network namespace of its own; `gain_nothing` comes first.
    """
    if os.uname().machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no filter for {os.uname().machine}")
    architecture, socket_call = _MACHINES[os.uname().machine]
    load, equal, give = 0x20, 0x15, 0x06
    steps = [
        (load, 0, 0, 4),
        (equal, 0, 5, architecture),
        (load, 0, 0, 0),
        (equal, 0, 3, socket_call),
        (load, 0, 0, 16),
        (equal, 2, 0, _AF_INET),
        (equal, 1, 0, _AF_INET6),
        (give, 0, 0, 0x7FFF0000),
        (give, 0, 0, 0x00050000 | errno.EACCES),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(code)))
    _checked("seccomp", _libc.prctl(_SECCOMP, _FILTER, program, 0, 0))


def _prctl(option: int, value: int) -> None:
    _checked(f"prctl {option}", _libc.prctl(option, value, 0, 0, 0))


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
