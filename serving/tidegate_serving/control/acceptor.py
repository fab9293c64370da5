"""Accepts the control port's connections and hands their bytes to gRPC's server, which cannot close one connection for
another: where silent ones take all places, nobody else is let in."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc

from tidegate_serving.control.handlers import Handler, origin
from tidegate_serving.control.relay import relay
from tidegate_serving.control.threads import starting_threads

_BACKLOG = 1024
_OUT_OF_FILES_SECONDS = 0.05
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Connection:
    """`host` it comes from; `calls` that are open; `happened`, when it was opened or a call of it began or ended."""

    host: str
    calls: int = 0
    happened: float = field(default_factory=time.monotonic)
    task: asyncio.Task[None] | None = None


class Acceptor:
    """At most so many connections. Where one more comes, one without an open call goes for it: of the host that has the
    most, the one on which nothing has happened for longest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._open: dict[str, _Connection] = {}
        # An engine may have no folder to write to, and a socket without a file goes with it.
        self._inside = f"tidegate-{secrets.token_hex(16)}"
        self._listeners: Sequence[socket.socket] = ()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="tidegate-acceptor", daemon=True)
        self._started = threading.Event()
        self._leaving, self._closing = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def inner(self) -> str:
        """Where gRPC's server is to listen: the name of an abstract Unix socket."""
        return f"{self._inside}/grpc"

    def start(self, address: str) -> str:
        """Listens, once gRPC's server does; the address with its real port. OSError when it cannot, and
        ResourceExhausted where the system lacks threads."""
        host, _, port = address.rpartition(":")
        with contextlib.ExitStack() as unless_begun, starting_threads(f"the control port {address}"):
            self._listeners = _listen(host.strip("[]"), int(port))
            for listener in self._listeners:
                unless_begun.callback(listener.close)
            self._thread.start()
            unless_begun.pop_all()
        self._started.wait()
        return f"{host}:{self._listeners[0].getsockname()[1]}"

    def leave(self) -> None:
        """Accepts no more; connections that are open go on."""
        self._set(self._leaving)

    def close(self) -> None:
        """Closes those, too."""
        self.leave()
        self._set(self._closing)
        if self._thread.is_alive():
            self._thread.join()

    @contextlib.contextmanager
    def open_call(self, context: grpc.ServicerContext) -> Iterator[None]:
        """A call of one of the connections is open meanwhile."""
        name = origin(context)
        self._note(name, 1)
        try:
            yield
        finally:
            self._note(name, -1)

    def _note(self, name: str, calls: int) -> None:
        with self._lock:
            connection = self._open.get(name)
            if connection is not None:
                connection.calls += calls
                connection.happened = time.monotonic()

    def _set(self, event: asyncio.Event) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(event.set)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started.set()
        accepting = [asyncio.create_task(self._accept_all(listener)) for listener in self._listeners]
        leaving = asyncio.create_task(self._leaving.wait())
        await asyncio.wait([leaving, *accepting], return_when=asyncio.FIRST_COMPLETED)
        for task, listener in zip(accepting, self._listeners, strict=True):
            task.cancel()
            listener.close()
        await self._closing.wait()

    async def _accept_all(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, place = await loop.sock_accept(listener)
            except OSError:
                # Out of file descriptors, as a rule.
                self._make_room()
                await asyncio.sleep(_OUT_OF_FILES_SECONDS)
                continue
            if len(self._open) >= self._most and not self._make_room():
                accepted.close()
                continue
            name, connection = f"{place[0]}:{place[1]}", _Connection(place[0])
            with self._lock:
                self._open[name] = connection
            connection.task = asyncio.create_task(self._serve(name, connection, accepted))
            # One that has to go before its task has begun is closed by nobody else.
            connection.task.add_done_callback(partial(_close, accepted))

    def _make_room(self) -> bool:
        """Whether there was one to close."""
        with self._lock:
            idle = [(name, one) for name, one in self._open.items() if not one.calls]
            if not idle:
                return False
            counts = Counter(one.host for one in self._open.values())
            name, gone = min(idle, key=lambda found: (-counts[found[1].host], found[1].happened))
            del self._open[name]
        if gone.task is not None:
            gone.task.cancel()
        return True

    async def _serve(self, name: str, connection: _Connection, accepted: socket.socket) -> None:
        try:
            with accepted, socket.socket(socket.AF_UNIX) as inner:
                # Else an answer in several pieces waits until the client acknowledges the first: 40 ms.
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                inner.setblocking(False)
                # gRPC's server knows a connection by the name of its other end.
                inner.bind(f"\0{self._inside}/{name}")
                await asyncio.get_running_loop().sock_connect(inner, f"\0{self.inner}")
                await relay(accepted, inner)
        except OSError as error:  # out of file descriptors, as a rule; its client hears that it was closed
            _log.debug("the connection of %s was closed: %s", name, error)
        finally:
            with self._lock:
                if self._open.get(name) is connection:
                    del self._open[name]


def _close(accepted: socket.socket, _: asyncio.Task[None]) -> None:
    accepted.close()


class OpenCalls(grpc.ServerInterceptor):
    """Tells an acceptor which connections have a call open that was let in."""

    def __init__(self, acceptor: Acceptor) -> None:
        self._acceptor = acceptor

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Handler | None], details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """The handler of a call that counts while it lasts."""
        found = continuation(details)
        if found is None:
            return None
        handler: Any = found
        coding = handler.request_deserializer, handler.response_serializer
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(self._answers(handler.stream_stream), *coding)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(self._answers(handler.unary_stream), *coding)

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            with self._acceptor.open_call(context):
                return handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(answer, *coding)

    def _answers(self, answers: Callable[[Any, grpc.ServicerContext], Iterator[Any]]) -> Any:
        def counted(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            with self._acceptor.open_call(context):
                yield from answers(request, context)

        return counted


def _listen(host: str, port: int) -> Sequence[socket.socket]:
    """On all addresses that the host has, on the same port."""
    made: list[socket.socket] = []
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, _, _, _, place in found:
            wanted = (place[0], made[0].getsockname()[1] if made else port)
            dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6() and place[0] == "::"
            try:
                made.append(socket.create_server(wanted, family=family, backlog=_BACKLOG, dualstack_ipv6=dual))
            except OSError as error:
                # A name may have an address of a kind that this machine does not speak.
                if not made or error.errno != errno.EADDRNOTAVAIL:
                    raise
            else:
                made[-1].setblocking(False)
    except OSError:
        for one in made:
            one.close()
        raise
    return made
