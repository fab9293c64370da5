"""Many calls of one HTTP/2 connection that send large messages by turns, and keep to the room that they are given."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from tests.support.clients.http2 import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    HEADERS,
    HELLO,
    MOST_IN_A_FRAME,
    SETTINGS,
    WINDOW_UPDATE,
    FrameReader,
    Http2,
    call_headers,
    frame,
)


class Streams:
    """Many calls of one connection that send the same message by turns, as far as the engine gives them room."""

    def __init__(
        self, address: str, path: str, body: bytes, count: int, more: Mapping[str, str], hello: bytes = HELLO
    ) -> None:
        self._connection = Http2(address, hello)
        self._body = memoryview(body)
        self._reader = FrameReader()
        self._room, self._first = FIRST_WINDOW, FIRST_WINDOW
        self._rooms = {1 + 2 * number: FIRST_WINDOW for number in range(count)}
        self._sent = dict.fromkeys(self._rooms, 0)
        head = call_headers(path, more)
        self._connection.send(*(frame(HEADERS, END_HEADERS, stream, head) for stream in self._rooms))
        self._connection.socket.settimeout(0.02)

    def send_all(self, most: int, until: float) -> int:
        """Sends at most so many bytes of each message; how many went out in all, by the end or when time is up."""
        with contextlib.suppress(OSError):
            while time.monotonic() < until and any(sent < most for sent in self._sent.values()):
                room = [self._send_some(stream, most) for stream in list(self._sent)]
                if not any(room):
                    self._listen()
        return sum(self._sent.values())

    def finish(self, until: float) -> None:
        """Waits until every call that was sent is over, or time is up, on the clock of `time.monotonic`."""
        with contextlib.suppress(OSError):
            while self._sent and time.monotonic() < until:
                self._listen()

    def _send_some(self, stream: int, most: int) -> bool:
        sent = self._sent[stream]
        size = min(self._room, self._rooms[stream], MOST_IN_A_FRAME, most - sent)
        if size <= 0:
            return False
        ends = END_STREAM if sent + size == len(self._body) else 0
        self._connection.socket.settimeout(5)
        self._connection.send(frame(DATA, ends, stream, bytes(self._body[sent : sent + size])))
        self._room -= size
        self._rooms[stream] -= size
        self._sent[stream] = sent + size
        return True

    def _listen(self) -> None:
        self._connection.socket.settimeout(0.02)
        try:
            data = self._connection.socket.recv(1 << 20)
        except TimeoutError:
            return
        if not data:
            raise ConnectionResetError
        for found in self._reader.feed(data):
            if found.kind == WINDOW_UPDATE:
                room = int.from_bytes(found.payload, "big")
                if found.stream == 0:
                    self._room += room
                elif found.stream in self._rooms:
                    self._rooms[found.stream] += room
            elif found.kind == SETTINGS and not found.flags & ACK:
                self._connection.send(frame(SETTINGS, ACK, 0))
                self._widen(found.payload)
            elif found.ends_stream:
                self._sent.pop(found.stream, None)

    def _widen(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            if payload[at : at + 2] == b"\0\4":
                first = int.from_bytes(payload[at + 2 : at + 6], "big")
                self._rooms = {stream: room + first - self._first for stream, room in self._rooms.items()}
                self._first = first

    def close(self) -> None:
        self._connection.close()
