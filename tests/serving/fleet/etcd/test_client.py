"""The client of etcd against a real one: transactions, leases, watches, and an etcd that goes and comes back."""

from __future__ import annotations

import queue
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import pytest
from tests.support.engine.process import free_port
from tests.support.eventually import eventually
from tests.support.neighbours.etcd import EtcdProcess, etcd_process
from tests.support.neighbours.firewall import Forgetful

from tidegate_serving import channels
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import AlreadyExists, TidegateError, Unavailable
from tidegate_serving.fleet.etcd import client
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.etcd.members import first_ready
from tidegate_serving.fleet.etcd.presence import Presence


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdProcess]:
    with etcd_process() as running:
        yield running


@pytest.fixture
def etcd(server: EtcdProcess) -> Iterator[Etcd]:
    etcd = server.client()
    yield etcd
    etcd.close()


def test_what_is_written_together_is_read_together(etcd: Etcd) -> None:
    revision = etcd.commit({}, {"/together/a": b"1", "/together/b": b"2", "/togetherness": b"3"})
    snapshot = etcd.read("/together/")
    assert {key: one.value for key, one in snapshot.entries.items()} == {"a": b"1", "b": b"2"}
    assert {one.revision for one in snapshot.entries.values()} == {revision}
    etcd.commit({}, {}, ["/together/a"])
    assert list(etcd.read("/together/").entries) == ["b"]


def test_nothing_is_written_where_something_changed_meanwhile(etcd: Etcd) -> None:
    first = etcd.commit({"/cas/a": 0}, {"/cas/a": b"1"})
    assert first
    assert etcd.commit({"/cas/a": 0}, {"/cas/a": b"2", "/cas/b": b"2"}) is None
    assert etcd.commit({"/cas/a": first}, {"/cas/a": b"3"})
    assert {key: one.value for key, one in etcd.read("/cas/").entries.items()} == {"a": b"3"}


def test_a_change_is_heard_of(etcd: Etcd) -> None:
    heard: queue.SimpleQueue[int] = queue.SimpleQueue()
    after = etcd.read("/heard/").revision
    revision = etcd.commit({}, {"/heard/a": b"1"})
    thread = threading.Thread(target=lambda: heard.put(next(etcd.changes("/heard/", after))), daemon=True)
    thread.start()
    assert heard.get(timeout=60) == revision
    thread.join()


def test_a_watch_whose_connection_nothing_comes_through_any_more_ends(
    server: EtcdProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "ALIVE_SECONDS", 1)
    with Forgetful(server.port) as firewall:
        etcd, heard = Etcd(firewall.address), queue.SimpleQueue[int | Unavailable]()
        after = etcd.read("/forgotten/").revision

        def watch() -> None:
            try:
                for revision in etcd.changes("/forgotten/", after):
                    heard.put(revision)
            except Unavailable as error:
                heard.put(error)

        thread = threading.Thread(target=watch)
        thread.start()
        assert etcd.commit({}, {"/forgotten/a": b"1"})
        assert isinstance(heard.get(timeout=60), int)
        firewall.forget()
        assert isinstance(heard.get(timeout=60), Unavailable)
        thread.join()
        assert etcd.read("/forgotten/").entries["a"].value == b"1"
        etcd.close()


def test_a_watch_from_a_revision_that_is_still_to_come_ends(etcd: Etcd) -> None:
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()

    def watch() -> None:
        try:
            heard.put(f"revision {next(etcd.changes('/late/', etcd.read('/').revision + 100))}")
        except Unavailable as error:
            heard.put(error.message)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert "is back at an earlier revision" in heard.get(timeout=10)
    thread.join()


def test_the_next_endpoint_answers_where_the_first_does_not(server: EtcdProcess) -> None:
    etcd = Etcd(f"127.0.0.1:{free_port()},{server.address}")
    assert etcd.commit({}, {"/next": b"1"})
    etcd.close()


def test_a_first_endpoint_that_hangs_is_passed_over_at_once(
    server: EtcdProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CALL_SECONDS", 60)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        etcd = Etcd(f"127.0.0.1:{silent.getsockname()[1]},{server.address}")
        began = time.monotonic()
        assert etcd.commit({}, {"/passed/a": b"1"})
        assert time.monotonic() - began < 10
        etcd.close()


def test_an_endpoint_that_hangs_after_it_has_answered_is_left_for_the_next_one(
    server: EtcdProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    with etcd_process() as first:
        etcd = Etcd(f"{first.address},{server.address}")
        for one, value in ((first, b"first"), (server, b"second")):
            other = one.client()
            other.commit({}, {"/left/a": value})
            other.close()
        assert etcd.read("/left/").entries["a"].value == b"first"
        monkeypatch.setattr(client, "CALL_SECONDS", 2)
        with first.hanging():
            assert etcd.read("/left/").entries["a"].value == b"second"
        assert etcd.read("/left/").entries["a"].value == b"second"
        etcd.close()


def test_where_every_endpoint_hangs_it_is_said_once_and_not_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CALL_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        endpoints = f"127.0.0.1:{one.getsockname()[1]},127.0.0.1:{other.getsockname()[1]}"
        etcd = Etcd(endpoints)
        with pytest.raises(Unavailable, match=f"etcd at {endpoints} does not answer .no connection within 1 s.: start"):
            etcd.read("/")
        etcd.close()


def test_where_every_endpoint_refuses_it_is_said_why() -> None:
    endpoints = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable, match=f"etcd at {endpoints} does not answer .*refused.*: start it"):
        Etcd(endpoints).read("/")


def test_no_endpoint_at_all_is_said_with_its_address() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable, match=f"etcd at {address} does not answer .*: start it"):
        Etcd(address).read("/")


class Losing(grpc.UnaryUnaryClientInterceptor):
    """The answer to the first write is lost, after which `meanwhile` happens."""

    class Lost(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

        def details(self) -> str:
            return "connection reset"

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._left = [meanwhile]

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        answer = continuation(client_call_details, request)
        if self._left and client_call_details.method.endswith("Txn"):
            assert answer.result().succeeded
            self._left.pop()()
            raise self.Lost
        return answer


def losing(monkeypatch: pytest.MonkeyPatch, losing: Losing, members: str) -> Etcd:
    def ready(connections: Sequence[EngineConnection], seconds: float) -> tuple[int, grpc.Channel]:
        index, channel = first_ready(connections, seconds)
        return index, grpc.intercept_channel(channel, losing)

    monkeypatch.setattr(client, "first_ready", ready)
    return Etcd(members)


def test_a_write_whose_answer_is_lost_is_known_again_and_not_made_twice(
    server: EtcdProcess, etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = f"{server.address},localhost:{server.address.rpartition(':')[2]}"
    one = losing(monkeypatch, Losing(), members)
    assert one.commit({"/lost/a": 0}, {"/lost/a": b"1"}) == etcd.read("/lost/").entries["a"].revision
    assert one.commit({"/lost/a": 0}, {"/lost/a": b"2"}) is None
    one.close()
    two = losing(monkeypatch, Losing(lambda: etcd.commit({}, {"/lost/b": b"2"})), members)
    with pytest.raises(Unavailable, match="did not say whether it wrote /lost/b, and it was changed since"):
        two.commit({"/lost/b": 0}, {"/lost/b": b"1"})
    two.close()


def test_a_presence_whose_first_answer_is_lost_has_its_key(
    server: EtcdProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd, told = losing(monkeypatch, Losing(), server.address), list[TidegateError | None]()
    presence = Presence(etcd, "/unsaid/a", lambda: b"here", 600, told.append)
    presence.start()
    eventually(lambda: told)
    assert isinstance(told[0], Unavailable)
    presence.beat()
    eventually(lambda: told[-1] is None)
    assert presence.revision == etcd.read("/unsaid/").entries["a"].revision
    presence.stop()
    etcd.close()


def test_a_key_of_a_presence_is_there_as_long_as_that_and_belongs_to_one(etcd: Etcd) -> None:
    told: queue.SimpleQueue[TidegateError | None] = queue.SimpleQueue()
    one = Presence(etcd, "/present/a", lambda: b"one", 2, lambda error: None)
    two = Presence(etcd, "/present/a", lambda: b"two", 2, told.put)
    one.start()
    eventually(lambda: one.revision)
    two.start()
    assert isinstance(told.get(timeout=60), AlreadyExists)
    assert not two.revision
    one.stop()
    eventually(lambda: two.revision)
    assert etcd.read("/present/").entries["a"].value == b"two"
    two.stop()
    assert etcd.read("/present/").entries == {}


def test_what_a_presence_says_is_written_anew(etcd: Etcd) -> None:
    said = [b"before"]
    presence = Presence(etcd, "/said/a", lambda: said[0], 600, lambda error: None)
    presence.start()
    eventually(lambda: presence.revision)
    said[0] = b"after"
    presence.beat()
    assert eventually(lambda: etcd.read("/said/").entries["a"].value == b"after")
    presence.stop()


def test_a_key_that_somebody_deletes_is_written_again(etcd: Etcd) -> None:
    presence = Presence(etcd, "/deleted/a", lambda: b"here", 600, lambda error: None)
    presence.start()
    eventually(lambda: presence.revision)
    etcd.commit({}, {}, ["/deleted/a"])
    presence.beat()
    eventually(lambda: etcd.read("/deleted/").entries)
    presence.stop()
    assert not etcd.read("/deleted/").entries


def test_a_lease_that_etcd_forgot_is_taken_anew() -> None:
    with etcd_process() as server:
        etcd = server.client()
        presence = Presence(etcd, "/forgotten/a", lambda: b"here", 600, lambda error: None)
        presence.start()
        eventually(lambda: presence.revision)
        server.kill()
        shutil.rmtree(server.folder / "data")
        server.start()
        presence.beat()
        assert eventually(lambda: etcd.read("/forgotten/").entries)
        presence.stop()
        etcd.close()


def test_a_key_that_was_restored_from_before_belongs_to_its_process_again() -> None:
    with etcd_process() as server:
        etcd, said = server.client(), [b"first"]
        presence = Presence(etcd, "/restored/a", lambda: said[0], 600, lambda error: None)
        presence.start()
        eventually(lambda: presence.revision)
        kept = server.copy()

        def told() -> bool:
            presence.beat()
            found = etcd.read("/restored/").entries.get("a")
            return found is not None and found.value == said[0]

        said[0] = b"second"
        eventually(told)
        server.restore(kept)
        said[0] = b"third"
        assert eventually(told)
        presence.stop()
        etcd.close()


def test_an_etcd_that_comes_back_has_the_key_again_and_ends_no_process() -> None:
    with etcd_process() as server:
        etcd, told = server.client(), list[TidegateError | None]()
        presence = Presence(etcd, "/back/a", lambda: b"here", 2, told.append)
        presence.start()
        eventually(lambda: presence.revision)
        watched = threading.Event()

        def watch() -> None:
            with pytest.raises(Unavailable):
                next(etcd.changes("/elsewhere/", 0))
            watched.set()

        thread = threading.Thread(target=watch)
        thread.start()
        server.kill()
        assert watched.wait(60)
        thread.join()
        eventually(lambda: isinstance(told[-1], Unavailable))
        eventually(lambda: not presence.revision)
        server.start()
        eventually(lambda: presence.revision)
        assert etcd.read("/back/").entries["a"].value == b"here"
        presence.stop()
        etcd.close()
