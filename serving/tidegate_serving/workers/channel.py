"""A worker's end of the way to its engine: a socket for short messages, and shared memory for tensors. The engine's end
is `serving/native/workers/src/line.rs`.

    4 bytes big-endian: its number, length of the message, length of the layout | message | layout   (both JSON, UTF-8)

Each side numbers what it sends, from 1, so that what somebody else said who has the socket too, such as a child that a
model forked, is not taken for the answer to the next batch.

Each side writes tensors into memory of its own, which the other side maps or reads; the layout says what lies there.
Where the memory is another one than before, its descriptor comes with the message. Batch after batch says much the
same, so that a message that came or went before is not parsed or written once more. The sides take turns with tensors;
a message without any may follow another.

    engine to worker    {"kind": "load", "task": {...}}                     first, see `WorkerTask`
                        {"kind": "predict", "signature": str}
                        {"kind": "next"}                                    the next message of a stream
                        {"kind": "stop"}                                    no more messages of it
                        {"kind": "close"}                                   unloads, and then it ends
    worker to engine    {"kind": "loaded", "manifest": str, "definitions": base64 or null,
                         "resident_bytes": int, "device_bytes": {device: int}, "release": str}
                        {"kind": "outputs", "errors": {row: [code, message, details]}}
                        {"kind": "end"}                                     no more outputs of a streaming signature
                        {"kind": "failed", "code": str, "message": str}     a typed refusal; it lives on
                        {"kind": "failed", ..., "trace": str}               of a load, with where that went wrong
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from collections.abc import Mapping
from typing import Any

from tidegate_serving.contract.tensors import Array
from tidegate_serving.workers.tensor_memory import TensorMemory, TheirMemory

_HEAD = struct.Struct(">III")
_NUMBERS = (1 << 32) - 1
_MOST_MESSAGE = 1 << 28
_MOST_AT_ONCE = 1 << 12
_ONE_DESCRIPTOR = socket.CMSG_LEN(struct.calcsize("i"))


class ChannelClosed(Exception):
    """The other side is gone."""


class Channel:
    """One side. Not for several threads at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._mine = TensorMemory()
        self._theirs = TheirMemory()
        self._heard: tuple[bytes, dict[str, Any]] = (b"{}", {})
        self._ahead = b""
        self._said: tuple[Mapping[str, Any], bytes] = ({}, b"{}")
        self._sent = self._received = 0

    def send(self, message: Mapping[str, Any], tensors: Mapping[str, Array] | None = None) -> None:
        """Sends a message and tensors. ChannelClosed where nobody is there, or this side is closed: nothing is written
        then into memory that may be another process's by now."""
        if not self.is_open:
            raise ChannelClosed("it is closed on this side")
        layout, descriptor = self._mine.write(tensors or {})
        if message != self._said[0]:
            self._said = (dict(message), json.dumps(message).encode())
        text = self._said[1]
        self._sent = self._sent % _NUMBERS + 1
        data = _HEAD.pack(self._sent, len(text), len(layout)) + text + layout
        try:
            if descriptor is None:
                self._end.sendall(data)
            else:
                sent = socket.send_fds(self._end, [data], [descriptor])
                self._end.sendall(data[sent:])
                self._mine.give_back()
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def receive(self) -> tuple[Mapping[str, Any], dict[str, Array]]:
        """The next message and its tensors, copied. ChannelClosed where the other side has gone; OSError, ValueError,
        TypeError, RecursionError and InvalidInput for what is no message of ours."""
        try:
            data, came = self._ahead, list[tuple[int, int, bytes]]()
            if not data:
                data, came, _, _ = self._end.recvmsg(_MOST_AT_ONCE, _ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC)
            if len(data) < _HEAD.size:
                data = self._up_to(_HEAD.size, data)
            number, size, layout_size = _HEAD.unpack_from(data)
            whole = _HEAD.size + size + layout_size
            if whole > _MOST_MESSAGE:
                raise ChannelClosed(f"a message of {whole} bytes is none of ours")
            if len(data) < whole:
                data = self._up_to(whole, data)
            self._ahead = data[whole:]
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        for _, _, descriptor in came:
            self._theirs.map(int.from_bytes(descriptor, sys.byteorder))
        self._received = self._received % _NUMBERS + 1
        if number != self._received:
            raise ValueError(f"message {number} came in place of {self._received}: somebody else has the socket too")
        end = _HEAD.size + size
        text = data[_HEAD.size : end]
        if text != self._heard[0]:
            self._heard = (text, json.loads(text))
        return self._heard[1], self._theirs.read(data[end:whole])

    @property
    def is_open(self) -> bool:
        """Whether this side has it still."""
        return self._end.fileno() >= 0

    def leave_to_parent(self) -> None:
        """Closes the socket in a process that was forked from the one that has it. It stays open there."""
        self._end.close()

    def close(self) -> None:
        """Lets go of socket and memory."""
        self._end.close()
        self._mine.close()
        self._theirs.close()

    def _up_to(self, size: int, data: bytes) -> bytes:
        """What has come, and as much more as there is to be."""
        parts = bytearray(data)
        while len(parts) < size:
            part = self._end.recv(size - len(parts))
            if not part:
                raise ChannelClosed("the other side ended")
            parts += part
        return bytes(parts)
