"""Passes the bytes of two sockets on, each to the other, as fast as the slower one takes them."""

from __future__ import annotations

import asyncio
import socket


class _End(asyncio.Protocol):
    """One of the two; `over` is done once both are closed. `early` is what came before the other one was there: the
    asyncio of Python 3.11.2 reads on though a transport was told to pause when it was made."""

    def __init__(self, over: asyncio.Future[None]) -> None:
        self._over = over
        self.transport: asyncio.Transport | None = None
        self.other: _End = self
        self.early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.other.transport is None:
            transport.pause_reading()
        else:
            transport.write(self.other.early)
            self.other.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self.other.transport is None:
            self.early += data
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        # What the other sent before it ended is still being written.
        if self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other.transport is not None:
            self.other.transport.close()
        self.transport = None
        if self.other.transport is None and not self._over.done():
            self._over.set_result(None)


async def relay(one: socket.socket, other: socket.socket) -> None:
    """Until one of them ends, and what it sent before has been written; both are closed then, and where it is
    cancelled."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    first, second = _End(over), _End(over)
    first.other, second.other = second, first
    try:
        await loop.connect_accepted_socket(lambda: first, one)
        await loop.connect_accepted_socket(lambda: second, other)
        await over
    finally:
        for end in (first, second):
            if end.transport is not None:
                end.transport.abort()
        one.close()
        other.close()
