"""HTTP/2 by hand, frame by frame, for peers that break its rules or have to be faster than gRPC's own client."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MOST_IN_A_FRAME = 16384
FIRST_WINDOW = 65535
_TABLE_SIZE, _INITIAL_WINDOW = 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame as it goes over the wire."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def settings(values: Mapping[int, int]) -> bytes:
    """A SETTINGS frame."""
    pairs = (key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in values.items())
    return frame(SETTINGS, 0, 0, b"".join(pairs))


# No table of headers, so that each answer can be read alone, and windows that an honest client has.
HELLO = PREFACE + settings({_TABLE_SIZE: 0, _INITIAL_WINDOW: 2**24}) + frame(WINDOW_UPDATE, 0, 0, (2**30).to_bytes(4))


def grpc_message(data: bytes) -> bytes:
    """A message with the five bytes that stand before it."""
    return b"\0" + len(data).to_bytes(4, "big") + data


def call_headers(path: str, more: Mapping[str, str] | None = None) -> bytes:
    """The header block of a gRPC call; no two blocks depend on each other."""
    block = b"\x83\x86\x04" + _text(path) + b"\x01" + _text("localhost")
    fields = {"content-type": "application/grpc", "te": "trailers", **(more or {})}
    return block + b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


def call_frames(stream: int, path: str, data: bytes, more: Mapping[str, str] | None = None) -> bytes:
    """A whole unary call with one message of at most 16 kB."""
    head = frame(HEADERS, END_HEADERS, stream, call_headers(path, more))
    return head + frame(DATA, END_STREAM, stream, grpc_message(data))


def _text(value: str) -> bytes:
    data = value.encode()
    if len(data) < 127:
        return bytes((len(data),)) + data
    rest, length = len(data) - 127, b"\x7f"
    while rest >= 128:
        length, rest = length + bytes((rest % 128 + 128,)), rest // 128
    return length + bytes((rest,)) + data


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that was received."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def ends_stream(self) -> bool:
        return self.kind == RST_STREAM or (self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM))


class FrameReader:
    """Cuts what comes into frames."""

    def __init__(self) -> None:
        self._left = b""

    def feed(self, data: bytes) -> Iterable[Frame]:
        """The frames that are complete with this data."""
        data, at = self._left + data, 0
        while len(data) - at >= 9:
            end = at + 9 + int.from_bytes(data[at : at + 3], "big")
            if end > len(data):
                break
            stream = int.from_bytes(data[at + 5 : at + 9], "big") & 0x7FFFFFFF
            yield Frame(data[at + 3], data[at + 4], stream, data[at + 9 : end])
            at = end
        self._left = data[at:]


class Http2:
    """One connection; a context manager. Answers SETTINGS and PING unless it was told not to."""

    def __init__(self, address: str, hello: bytes = HELLO, seconds: float = 10.0, *, polite: bool = True) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader()
        self._waiting: list[Frame] = []
        self._polite = polite
        self.socket.sendall(hello)

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def next_frame(self) -> Frame | None:
        """The next frame; None once the peer has closed. TimeoutError where nothing comes."""
        while not self._waiting:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._waiting = list(self._reader.feed(data))
        found = self._waiting.pop(0)
        if self._polite and found.kind in (SETTINGS, PING) and not found.flags & ACK:
            self.send(frame(found.kind, ACK, 0, found.payload if found.kind == PING else b""))
        return found

    def until(self, kind: int, stream: int = 0) -> Frame | None:
        """The next frame of a kind on a stream; None where the peer closes first."""
        while (found := self.next_frame()) is not None:
            if (found.kind, found.stream) == (kind, stream):
                return found
        return None

    def answer(self, stream: int) -> dict[str, str]:
        """All headers and trailers of a stream once it has ended; empty where it was reset or the peer has closed."""
        fields: dict[str, str] = {}
        while (found := self.next_frame()) is not None:
            if found.stream != stream:
                continue
            if found.kind == HEADERS:
                fields.update(read_headers(found.payload))
            if found.ends_stream:
                return fields
        return {}

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# Header blocks (RFC 7541) of a peer that was told to keep no table.

_KNOWN = {8: (":status", "200"), 9: (":status", "204"), 12: (":status", "400"), 13: (":status", "404")}
_KNOWN |= {14: (":status", "500"), 31: ("content-type", "")}


def read_headers(block: bytes) -> dict[str, str]:
    """The fields of a block; a name that stands in the fixed table and is none of ours is its number."""
    fields: dict[str, str] = {}
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            number, at = _integer(block, at, 7)
            name, value = _KNOWN.get(number, (f"#{number}", ""))
        elif first & 0xE0 == 0x20:
            _, at = _integer(block, at, 5)
            continue
        else:
            number, at = _integer(block, at, 6 if first & 0x40 else 4)
            if number:
                name = _KNOWN.get(number, (f"#{number}", ""))[0]
            else:
                name, at = _string(block, at)
            value, at = _string(block, at)
        fields[name] = value
    return fields


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        value += (block[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not block[at - 1] & 0x80:
            return value, at


def _string(block: bytes, at: int) -> tuple[str, int]:
    packed = bool(block[at] & 0x80)
    length, at = _integer(block, at, 7)
    data = block[at : at + length]
    return (_unpack(data) if packed else data.decode("latin-1")), at + length


# The codes of Huffman's tree for printable characters, by length in bits: the first code and the characters in order.
_BY_LENGTH = {
    5: (0x0, "012aceiost"),
    6: (0x14, " %-./3456789=A_bdfghlmnpru"),
    7: (0x5C, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    8: (0xF8, "&*,;XZ"),
    10: (0x3F8, '!"()?'),
    11: (0x7FA, "'+|"),
    12: (0xFFA, "#>"),
    13: (0x1FF8, "\0$@[]~"),
    14: (0x3FFC, "^}"),
    15: (0x7FFC, "<`{"),
}
_CODES = {
    (length, first + offset): character
    for length, (first, characters) in _BY_LENGTH.items()
    for offset, character in enumerate(characters)
}


def _unpack(data: bytes) -> str:
    text, length, code = "", 0, 0
    for byte in data:
        for bit in range(7, -1, -1):
            length, code = length + 1, code << 1 | (byte >> bit & 1)
            if (length, code) in _CODES:
                text += _CODES[length, code]
                length = code = 0
    return text
