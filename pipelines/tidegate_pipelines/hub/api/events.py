"""What happens in releases, as it happens: server-sent events, which go on where a client lost its connection."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from sqlalchemy import func, select
from starlette.types import Receive, Scope, Send

from tidegate_pipelines.hub.access import Caller
from tidegate_pipelines.hub.api.documents import Event
from tidegate_pipelines.hub.api.permissions import caller
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.store import ReleaseEventRow, ReleaseRow
from tidegate_serving.contract.errors import InvalidInput, PermissionRefused, Unauthenticated, Unavailable

_POLL_SECONDS = 0.5
_ALIVE_SECONDS = 15.0
_ASKED_AGAIN_SECONDS = 5.0
_AT_ONCE = 500
_MOST_DIGITS = 18
MOST_STREAMS = 128
MOST_OF_ONE = 32


class Places:
    """Who listens: so many streams at a time, and so many of one caller, so that connections are left for others.
    For one event loop."""

    def __init__(self, most: int = MOST_STREAMS, most_of_one: int = MOST_OF_ONE) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._taken: Counter[str] = Counter()

    def take(self, name: str) -> None:
        """A stream of this caller begins. Unavailable where it would be one too many."""
        if self._taken[name] >= self._most_of_one:
            raise Unavailable(f"{name} listens to {self._most_of_one} streams of events already: close one of them")
        if self._taken.total() >= self._most:
            raise Unavailable(f"{self._most} streams of events are open, which is all that the hub has: try again")
        self._taken[name] += 1

    def give_back(self, name: str) -> None:
        """It is over."""
        self._taken[name] -= 1
        self._taken += Counter()


class _Stream(StreamingResponse):
    """Server-sent events, which have their place until they end however they do."""

    def __init__(self, content: AsyncIterator[str], places: Places, name: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self._places, self._name = places, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.give_back(self._name)


def events_router(hub: Hub) -> APIRouter:
    """The route."""
    router = APIRouter(tags=["events"])
    places = Places()

    @router.get("/events")
    async def events(request: Request, release: int | None = None, after: str = "") -> StreamingResponse:
        """Server-sent events: each has its id, which `Last-Event-ID`, or `after`, goes on from; else from now on."""
        user = await run_in_threadpool(caller, hub, request, "look")
        given = request.headers.get("last-event-id", after)
        if given and not (given.isascii() and given.isdigit() and len(given) <= _MOST_DIGITS):
            raise InvalidInput(f"Last-Event-ID is {given[:100]!r}: send the id of an event, or none")
        last = int(given) if given else await run_in_threadpool(_newest, hub)
        places.take(user.name)
        return _Stream(_stream(hub, request.scope, release, last), places, user.name)

    return router


async def _stream(hub: Hub, scope: Any, release: int | None, last: int) -> AsyncIterator[str]:
    """Whoever may not look any more hears nothing more: who asks is asked again and again."""
    yield "retry: 1000\n\n"
    said = time.monotonic()
    asked = -_ASKED_AGAIN_SECONDS
    while True:
        try:
            if time.monotonic() - asked >= _ASKED_AGAIN_SECONDS:
                asked = time.monotonic()
                user = await run_in_threadpool(caller, hub, Request({**scope, "state": {}}), "look")
            found = await run_in_threadpool(_after, hub, user, release, last)
        except (Unauthenticated, PermissionRefused, Unavailable):
            return  # The client asks again, from the same event on.
        for event in found:
            last, said = event.id, time.monotonic()
            yield f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(event.model_dump(mode='json'))}\n\n"
        if time.monotonic() - said > _ALIVE_SECONDS:
            said = time.monotonic()
            yield ": alive\n\n"
        if len(found) < _AT_ONCE:
            await asyncio.sleep(_POLL_SECONDS)


def _newest(hub: Hub) -> int:
    with hub.database.reading() as session:
        return session.scalar(select(func.max(ReleaseEventRow.id))) or 0


def _after(hub: Hub, user: Caller, release: int | None, last: int) -> list[Event]:
    query = select(ReleaseEventRow).where(ReleaseEventRow.id > last).order_by(ReleaseEventRow.id).limit(_AT_ONCE)
    if release is not None:
        query = query.where(ReleaseEventRow.release_id == release)
    if not user.sees_all:
        query = query.join(ReleaseRow, ReleaseRow.id == ReleaseEventRow.release_id)
        query = query.where(user.sees_rows(ReleaseRow.model))
    with hub.database.reading() as session:
        return [Event.model_validate(row) for row in session.scalars(query)]
