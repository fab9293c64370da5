"""Clients of the hub's port that do not send a request or take an answer in time, or are very many."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.support.eventually import at_best, eventually
from tests.support.neighbours.certificates import Authority

from tidegate_pipelines.hub.access import patience
from tidegate_pipelines.hub.access.patience import PatientProtocol

SHORT = 0.3
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
UNTAKEN = GET.replace(b" / ", b" /unread ")
LARGE = 32 << 20
UNREAD = 8 << 20
MOST = 20
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
CRUMBS = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 30_000 + b"0\r\n\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    sent, more = b"", True
    while more:
        message = await receive()
        sent, more = sent + message.get("body", b""), message.get("more_body", False)
    body = {"/large": bytes(LARGE), "/unread": bytes(UNREAD), "/sent": sent}.get(scope["path"], b"OK")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(patience, "HEAD_SECONDS", SHORT)
    monkeypatch.setattr(patience, "BODY_SECONDS", SHORT)
    yield from serving()


@pytest.fixture
def crowded_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(patience, "MOST_CONNECTIONS", MOST)
    monkeypatch.setattr(patience, "HEAD_SECONDS", 600.0)
    yield from serving()


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Sealed]:
    authority = Authority(tmp_path)
    hub = authority.issue("hub")
    for port in serving(ssl_certfile=hub.certificate, ssl_keyfile=hub.key):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stream:
            yield Sealed(stream, ssl.create_default_context(cafile=authority.file))


class Watched(PatientProtocol):
    """Tells of each connection that the server is done with."""

    done = threading.Semaphore(0)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.done.release()


class Sealed:
    """A client over TLS that knows what goes out in one write."""

    def __init__(self, stream: socket.socket, context: ssl.SSLContext) -> None:
        self._stream = stream
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._goes, server_hostname="localhost")
        self._wait(self._tls.do_handshake)

    def ask(self, *records: bytes) -> bytes:
        """The answer, all of it, to what is sent as so many TLS records at once."""
        for record in records:
            self._tls.write(record)
        said = b""
        while more := self._wait(lambda: self._tls.read(1 << 16)):
            said += more
        return said

    def _wait(self, call: Callable[[], Any]) -> Any:
        while True:
            try:
                return call()
            except ssl.SSLWantReadError:
                self._stream.sendall(self._goes.read())
                came = self._stream.recv(1 << 16)
                assert came, "the connection was cut off"
                self._came.write(came)


def serving(**tls: Path) -> Iterator[int]:
    """The port of a server."""
    protocol: Any = {"http": Watched, "loop": "asyncio", **tls}
    settings = uvicorn.Config(application, **protocol, lifespan="off", log_config=None, timeout_keep_alive=60)
    server = uvicorn.Server(settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        eventually(lambda: server.started)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


def until_closed(port: int, first: bytes, drop: bytes = b"") -> bytes:
    """What comes until the server closes, where a drop is sent more often than anybody's patience ends."""
    said, began = b"", time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(first)
        one.settimeout(SHORT / 10)
        while time.monotonic() - began < 60:
            try:
                if drop:
                    one.sendall(drop)
                if not (more := one.recv(100)):
                    return said
                said += more
            except TimeoutError:
                continue
            except ConnectionError:
                return said
    raise AssertionError("the connection stays open")


@pytest.mark.parametrize(
    ("first", "drop"),
    [(b"", b""), (GET[:9], b""), (GET[:-2], b"a: b\r\n"), (POST, b""), (POST.replace(b"10", b"100000"), b"a")],
    ids=["nothing", "half a head", "a head that goes on", "no body", "a body by the byte"],
)
def test_a_request_that_does_not_come_is_given_up(port: int, first: bytes, drop: bytes) -> None:
    assert until_closed(port, first, drop) == b""


def test_half_a_second_request_is_given_up_too(port: int) -> None:
    assert until_closed(port, GET + GET[:9]).startswith(b"HTTP/1.1 200")


def test_requests_that_come_are_answered(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 60.0)
    monkeypatch.setattr(patience, "BODY_SECONDS", 60.0)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
        for _ in range(5):
            one.sendall(POST)
            assert is_answered(one, b"0123456789")


def test_all_records_of_a_tls_connection_are_read(sealed: Sealed) -> None:
    body = bytes(range(256)) * 40
    head = b"POST /sent HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert sealed.ask(head, body[:1000], body[1000:1001], body[1001:]).endswith(b"\r\n\r\n" + body)


def test_what_follows_a_request_that_is_none_makes_no_noise(sealed: Sealed, caplog: pytest.LogCaptureFixture) -> None:
    assert sealed.ask(b"BAD\r\n\r\n" + bytes(6000)).startswith(b"HTTP/1.1 400")
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


def is_open(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        while one.recv(1 << 20):
            continue
        return False
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def is_answered(one: socket.socket, request: bytes = GET) -> bool:
    one.setblocking(True)
    one.settimeout(60)
    one.sendall(request)
    said = b""
    while not said.endswith(b"OK") and (more := one.recv(1000)):
        said += more
    return said.startswith(b"HTTP/1.1 200")


def taken(port: int, wait: Callable[[], object]) -> int:
    """Bytes of a large answer to a client that does not read it before `wait` has ended."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
        one.sendall(GET.replace(b" / ", b" /large ").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert one.recv(1, socket.MSG_PEEK)
        wait()
        came = 0
        with contextlib.suppress(ConnectionError):
            while data := one.recv(1 << 20):
                came += len(data)
    return came


def test_nobody_waits_for_a_body_of_crumbs_to_be_read(crowded_port: int) -> None:
    def is_answered_soon() -> bool:
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            *crowd, other = (
                stack.enter_context(socket.create_connection(("127.0.0.1", crowded_port))) for _ in range(3)
            )
            for one in crowd:
                one.sendall(CRUMBS)
            assert is_answered(other)
            soon = time.monotonic() - began
            assert all(is_answered(one, b"") for one in crowd)
            return soon < (time.monotonic() - began) / 4

    assert at_best(3, is_answered_soon)


def test_an_answer_that_nobody_takes_is_given_up(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ANSWER_SECONDS", SHORT)
    monkeypatch.setattr(Watched, "done", threading.Semaphore(0))
    assert taken(port, lambda: Watched.done.acquire(timeout=60)) < LARGE


def test_whoever_takes_an_answer_slowly_gets_all_of_it(port: int) -> None:
    assert taken(port, lambda: threading.Event().wait(3 * SHORT)) > LARGE


@pytest.mark.parametrize(
    "first",
    [b"", GET[:9], POST, UNTAKEN],
    ids=["nothing", "half a head", "no body", "an answer that nobody takes"],
)
def test_many_who_are_waited_for_keep_nobody_out(crowded_port: int, first: bytes) -> None:
    def connect() -> socket.socket:
        return stack.enter_context(socket.create_connection(("127.0.0.1", crowded_port), timeout=60))

    with contextlib.ExitStack() as stack:
        early = connect()
        assert is_answered(early)
        crowd = [connect() for _ in range(5 * MOST)]
        eventually(lambda: sum(map(is_open, crowd)) < MOST)  # all of them were accepted
        for one in crowd:
            one.setblocking(True)
            with contextlib.suppress(ConnectionError):
                one.sendall(first)
        for one in crowd if first == UNTAKEN else []:
            with contextlib.suppress(ConnectionError):
                one.recv(1, socket.MSG_PEEK)  # before its answer has begun, it is not waited for
        late = connect()
        assert is_answered(late)
        eventually(lambda: sum(map(is_open, crowd)) < MOST)
        assert is_answered(early)
        assert is_answered(late)
