"""Bytes that wait in pipes and sockets: the kernel's memory, which no process's own size tells of."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Collection, Mapping

_SOCKET_DIAGNOSIS = 4  # NETLINK_SOCK_DIAG; the rest is of linux/netlink.h, sock_diag.h and unix_diag.h
_BY_FAMILY, _DUMP, _ERROR, _DONE = 20, 0x301, 2, 3
_HEADER, _UNIX, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBxIII"), struct.Struct("=HH")
_REQUEST = struct.Struct("=BBHIIIII")
_ALL_STATES, _SHOW_WAITING, _WAITING = 0xFFFFFFFF, 0x10, 4
_MOST_READ = 1 << 16
_FEW_SOCKETS = 64
"""So many sockets hold little, and to ask takes the longer the more there are on the machine."""


def in_pipes(pipes: Mapping[int, str]) -> int:
    """Bytes that wait in pipes, given by number with a path under which each can be opened."""
    return sum(map(_unread, pipes.values()))


def in_sockets(numbers: Collection[int]) -> int:
    """Bytes that wait in Unix sockets of these numbers, for whoever has the socket to read them; 0 for a few."""
    if len(numbers) <= _FEW_SOCKETS:
        return 0
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCKET_DIAGNOSIS) as kernel:
        wanted = _REQUEST.pack(socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_WAITING, 0, 0)
        kernel.send(_HEADER.pack(_HEADER.size + len(wanted), _BY_FAMILY, _DUMP, 0, 0) + wanted)
        return _sum_of(kernel, numbers)
    return 0  # not every system tells


def _sum_of(kernel: socket.socket, numbers: Collection[int]) -> int:
    found = 0
    while True:
        data, at = kernel.recv(_MOST_READ), 0
        while at < len(data):
            size, kind, *_ = _HEADER.unpack_from(data, at)
            if kind in (_ERROR, _DONE):
                return found
            if _UNIX.unpack_from(data, at + _HEADER.size)[3] in numbers:
                found += _waiting(data, at + _HEADER.size + _UNIX.size, at + size)
            at += _aligned(size)


def _waiting(data: bytes, at: int, end: int) -> int:
    """What the attributes of one socket say."""
    while at < end:
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        if kind == _WAITING:
            return int.from_bytes(data[at + _ATTRIBUTE.size : at + _ATTRIBUTE.size + 4], "little")
        at += _aligned(size)
    return 0


def _aligned(size: int) -> int:
    return size + 3 & ~3


def _unread(path: str) -> int:
    try:
        pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # it was closed meanwhile, or nobody may look
        return 0
    try:
        count = array.array("i", [0])
        fcntl.ioctl(pipe, termios.FIONREAD, count)
        return count[0]
    finally:
        os.close(pipe)
