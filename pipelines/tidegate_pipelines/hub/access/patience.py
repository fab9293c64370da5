"""Gives up connections to the hub's port that do not send a request in time: a byte now and then takes nobody's place.

uvicorn waits for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
BODY_SECONDS = 120.0


class PatientProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn. A request's head has ten seconds from the connection's beginning, or from the answer before
    it; its body two minutes more."""

    _waits_for: Any = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn's."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """As uvicorn's."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """As uvicorn's."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn's."""
        super().connection_lost(exc)
        self._stop()

    def _look(self) -> None:
        """Begins to wait for the next part of a request, or has it."""
        if self.conn.their_state is self._waits_for:
            return
        self._stop()
        self._waits_for = self.conn.their_state
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(self._waits_for)
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
