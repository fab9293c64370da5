"""The way between the engine and one worker: a socket for short messages, and shared memory for tensors.

    4 bytes big-endian length of a message | message (JSON, UTF-8)

Each side writes tensors into memory of its own, which the other side maps; a message says what lies there. Where the
memory is another one than before, its descriptor comes with the message.

    engine to worker    {"kind": "load", "task": {...}}                     first, see `WorkerTask`
                        {"kind": "predict", "signature": str, "tensors": [...]}
                        {"kind": "next"}                                    the next message of a stream
                        {"kind": "stop"}                                    no more messages of it
                        {"kind": "close"}                                   unloads, and then it ends
    worker to engine    {"kind": "loaded", "manifest": str, "definitions": base64 or null,
                         "resident_bytes": int, "release": str}
                        {"kind": "outputs", "tensors": [...], "errors": {row: [code, message, details]}}
                        {"kind": "end"}                                     no more outputs of a streaming signature
                        {"kind": "failed", "code": str, "message": str}     a typed refusal; it lives on, but for a load
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

from tidegate_serving.contract.tensors import Array
from tidegate_serving.workers.tensor_memory import TensorMemory, TheirMemory

_HEAD = 4
_MOST_MESSAGE = 1 << 28


class ChannelClosed(Exception):
    """The other side is gone."""


class Channel:
    """One side. Not for several threads at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._mine = TensorMemory()
        self._theirs = TheirMemory()

    def send(self, message: Mapping[str, Any], tensors: Mapping[str, Array] | None = None) -> None:
        """Sends a message; `tensors` are described in its `tensors`. ChannelClosed where nobody is there."""
        described, descriptor = self._mine.write(tensors) if tensors else ([], None)
        text = json.dumps({**message, "tensors": described}).encode()
        data = len(text).to_bytes(_HEAD, "big") + text
        try:
            if descriptor is None:
                self._end.sendall(data)
            else:
                sent = socket.send_fds(self._end, [data], [descriptor])
                self._end.sendall(data[sent:])
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def receive(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The next message and its tensors, copied. ChannelClosed where the other side has gone; ValueError, KeyError
        and TypeError for what is no message of ours."""
        try:
            head, descriptors, _, _ = socket.recv_fds(self._end, _HEAD, 1)
            size = int.from_bytes(head + self._exactly(_HEAD - len(head)), "big")
            if size > _MOST_MESSAGE:
                raise ChannelClosed(f"a message of {size} bytes is none of ours")
            message: dict[str, Any] = json.loads(self._exactly(size))
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        for descriptor in descriptors:
            self._theirs.map(descriptor)
        return message, {str(one["name"]): self._theirs.read(one) for one in message["tensors"]}

    def close(self) -> None:
        """Lets go of socket and memory."""
        self._end.close()
        self._mine.close()
        self._theirs.close()

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._end.recv(size - len(parts))
            if not part:
                raise ChannelClosed("the other side ended")
            parts += part
        return bytes(parts)
