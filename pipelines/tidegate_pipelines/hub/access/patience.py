"""Gives up connections to the hub's port that do not send a request or take an answer in time, or are too many: a byte
now and then takes nobody's place.

uvicorn waits for ever, for any number.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
BODY_SECONDS = 120.0
ANSWER_SECONDS = 120.0
MOST_CONNECTIONS = 512
# Bytes that are read of one connection before others have their turn: in chunks of a byte each they are 20 ms of work.
PIECE = 4 << 10


class PatientProtocol(H11Protocol, asyncio.BufferedProtocol):
    """HTTP/1.1 of uvicorn. A request's head has ten seconds from the connection's beginning, or from the answer before
    it; its body two minutes more, and so has its client to take the answer. With more than MOST_CONNECTIONS the one
    that is waited for longest is closed: first those that have had no answer, and of these last who is to take one.
    Connections are read a piece at a time, in asyncio's own loop."""

    _waits_for: Any = None
    _since = 0.0
    _has_asked = False
    _timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn's."""
        super().connection_made(transport)
        self._piece = memoryview(bytearray(PIECE))
        self._look()
        if len(self.connections) > MOST_CONNECTIONS:
            self._make_room()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next piece goes; asyncio reads TLS records into slices of it: no copies."""
        return self._piece

    def buffer_updated(self, nbytes: int) -> None:
        """So much of it has come; over TLS some more comes of a client that has had its 400."""
        if self.conn.their_state is not h11.ERROR:
            self.data_received(bytes(self._piece[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """As uvicorn's."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """As uvicorn's."""
        self._has_asked = True
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """As uvicorn's: the client does not take what it is sent."""
        super().pause_writing()
        self._look()
        self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """As uvicorn's."""
        super().resume_writing()
        _stop(self._answer_timer)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn's."""
        super().connection_lost(exc)
        _stop(self._timer)
        _stop(self._answer_timer)

    def _look(self) -> None:
        """Begins to wait for the next part of a request, or has it; whoever is still to take an answer sends none."""
        next_part = None if self.flow.write_paused else self.conn.their_state
        if next_part is self._waits_for:
            return
        _stop(self._timer)
        self._timer = None
        self._waits_for, self._since = next_part, time.monotonic()
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(self._waits_for)
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _make_room(self) -> None:
        """Closes one of all connections that is waited for."""
        others = [one for one in self.connections if isinstance(one, PatientProtocol) and one is not self]
        waited_for = [one for one in others if one._is_waited_for and not one.transport.is_closing()]
        min(waited_for, key=lambda one: one._place, default=self).transport.abort()

    @property
    def _is_waited_for(self) -> bool:
        return self._timer is not None or bool(self.flow.write_paused)

    @property
    def _place(self) -> tuple[bool, bool, bool, float]:
        """Among those who are waited for: who goes first has the least."""
        paused = bool(self.flow.write_paused)
        return self._has_asked and not paused, paused, self._waits_for is h11.SEND_BODY, self._since


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
