"""The acceptor of the control port: who goes where there are too many, and how bytes pass through it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.eventually import eventually

from tidegate_serving.control.acceptor import Acceptor
from tidegate_serving.control.relay import relay

MOST = 4
LARGE = 8 << 20


@contextlib.contextmanager
def accepting(address: str = "127.0.0.1:0") -> Iterator[tuple[Acceptor, str, socket.socket]]:
    """An acceptor of few connections, its address, and the listener behind it."""
    acceptor = Acceptor(MOST)
    with socket.socket(socket.AF_UNIX) as behind:
        behind.bind(f"\0{acceptor.inner}")
        behind.listen()
        behind.settimeout(5)
        try:
            yield acceptor, acceptor.start(address), behind
        finally:
            acceptor.close()


def connect(address: str, host: str = "127.0.0.1") -> socket.socket:
    """A client at one of this machine's addresses."""
    to, _, port = address.rpartition(":")
    return socket.create_connection((to.strip("[]"), int(port)), 10, (host, 0))


def has_ended(client: socket.socket) -> bool:
    """Whether it was closed, which may be soon."""
    client.settimeout(0.05)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@contextlib.contextmanager
def call_of(acceptor: Acceptor, inner: socket.socket) -> Iterator[None]:
    """A call over the connection that came to the listener so."""
    peer: Any = SimpleNamespace(peer=lambda: f"unix-abstract:{inner.getpeername()[1:].decode()}")
    with acceptor.open_call(peer):
        yield


def test_the_one_goes_on_which_nothing_has_happened_for_longest() -> None:
    with accepting() as (acceptor, address, behind), contextlib.ExitStack() as stack:
        clients, inner = [], []
        for _ in range(MOST):
            clients.append(stack.enter_context(connect(address)))
            inner.append(stack.enter_context(behind.accept()[0]))
        stack.enter_context(call_of(acceptor, inner[0]))
        with call_of(acceptor, inner[1]):
            pass
        for gone in (2, 3, 1):
            clients.append(stack.enter_context(connect(address)))
            inner.append(stack.enter_context(behind.accept()[0]))
            eventually(partial(has_ended, clients[gone]))
        assert not has_ended(clients[0]), "a call of it is open"
        assert not any(has_ended(client) for client in clients[MOST:])


def test_a_host_with_many_connections_takes_none_from_another() -> None:
    with accepting() as (_, address, behind), contextlib.ExitStack() as stack:
        lone = stack.enter_context(connect(address))
        for _ in range(5 * MOST):
            stack.enter_context(connect(address, "127.0.0.2"))
            stack.enter_context(behind.accept()[0])
        assert not has_ended(lone)


def test_whoever_goes_before_it_is_served_is_closed_too() -> None:
    with accepting() as (_, address, _behind), contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(connect(address)) for _ in range(20 * MOST)]
        assert eventually(lambda: sum(not has_ended(client) for client in crowd) <= MOST)


def test_where_a_call_is_open_on_each_the_new_one_is_closed() -> None:
    with accepting() as (acceptor, address, behind), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(address)) for _ in range(MOST)]
        for _ in range(MOST):
            stack.enter_context(call_of(acceptor, stack.enter_context(behind.accept()[0])))
        late = stack.enter_context(connect(address))
        eventually(lambda: has_ended(late))
        assert not any(has_ended(client) for client in clients)


def test_bytes_pass_both_ways_however_slowly_they_are_taken() -> None:
    with accepting() as (_, address, behind), connect(address) as client:
        inner = behind.accept()[0]
        sent = bytes(range(256)) * (LARGE // 256)
        for source, target in ((client, inner), (inner, client)):
            sending = threading.Thread(target=source.sendall, args=(sent,))
            sending.start()
            target.settimeout(30)
            came = bytearray()
            while len(came) < LARGE:
                came += target.recv(100_000)
            sending.join()
            assert came == sent
        inner.sendall(b"last words")
        inner.close()
        assert client.recv(100) == b"last words"
        assert client.recv(1) == b""


def test_who_still_sends_when_the_other_has_ended_takes_what_came_before() -> None:
    faults: list[dict[str, Any]] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, fault: faults.append(fault))
        client, outer = socket.socketpair()
        inner, server = socket.socketpair()
        for one in (client, outer, inner, server):
            one.setblocking(False)
        relayed = asyncio.create_task(relay(outer, inner))
        with server, pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.sock_sendall(server, bytes(LARGE)), 0.2)
        with client:
            await loop.sock_sendall(client, b"more")
            while inner.fileno() != -1:
                await asyncio.sleep(0)
            while await loop.sock_recv(client, 1 << 16):
                continue
        await relayed

    asyncio.run(run())
    assert faults == []


def test_what_a_client_sends_at_once_is_passed_on_also_where_asyncio_reads_before_both_ends_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in Python 3.11.2, which forgets that a transport was told to pause when it was made."""
    monkeypatch.setattr("asyncio.selector_events._SelectorTransport.is_reading", lambda _: True, raising=False)
    monkeypatch.setattr("asyncio.selector_events._SelectorSocketTransport.is_reading", lambda _: True)

    async def run() -> bytes:
        loop = asyncio.get_running_loop()
        client, outer = socket.socketpair()
        inner, server = socket.socketpair()
        for one in (client, outer, inner, server):
            one.setblocking(False)
        client.send(b"at once")
        relayed = asyncio.create_task(relay(outer, inner))
        with client, server:
            found = await asyncio.wait_for(loop.sock_recv(server, 100), 10)
        await relayed
        return found

    assert asyncio.run(run()) == b"at once"


def test_an_answer_in_pieces_does_not_wait_until_the_client_acknowledges_the_first() -> None:
    waits = []
    with accepting() as (_, address, behind), connect(address) as client, behind.accept()[0] as inner:
        for _ in range(20):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            inner.sendall(b"1")
            assert client.recv(1) == b"1"
            began = time.monotonic()
            inner.sendall(b"2")
            assert client.recv(1) == b"2"
            waits.append(time.monotonic() - began)
    assert sum(wait > 0.03 for wait in waits) < 10, waits


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"])
def test_it_listens_where_it_is_told_to(host: str) -> None:
    with accepting(f"{host}:0") as (_, address, behind):
        assert address.startswith(f"{host}:")
        place = address.replace("0.0.0.0", "127.0.0.1")
        source = "::1" if "::1" in host else "127.0.0.1"
        with connect(place, source), behind.accept()[0] as inner:
            assert inner.getpeername().decode().rpartition("/")[2].startswith(source)


def test_an_address_that_is_taken_is_an_error_and_leaves_nothing() -> None:
    with accepting() as (_, address, _behind):
        other = Acceptor(MOST)
        with pytest.raises(OSError, match="in use"):
            other.start(address)
        other.close()


def test_once_it_leaves_it_accepts_no_more_and_those_that_are_open_go_on() -> None:
    with accepting() as (acceptor, address, behind), connect(address) as client, behind.accept()[0] as inner:
        acceptor.leave()

        def is_refused() -> bool:
            try:
                connect(address).close()
            except ConnectionRefusedError:
                return True
            return False

        eventually(is_refused)
        client.sendall(b"still there")
        assert inner.recv(100) == b"still there"


def test_a_connection_for_which_there_is_no_inner_one_is_closed_and_the_next_one_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with accepting() as (acceptor, address, behind), contextlib.ExitStack() as stack:
        behind.close()
        for _ in range(MOST):
            eventually(partial(has_ended, stack.enter_context(connect(address))))
        again = stack.enter_context(socket.socket(socket.AF_UNIX))
        again.bind(f"\0{acceptor.inner}")
        again.listen()
        again.settimeout(5)
        client = stack.enter_context(connect(address))
        stack.enter_context(again.accept()[0])
        assert not has_ended(client)
    assert not [record for record in caplog.records if record.name == "asyncio"]
