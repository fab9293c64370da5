"""Clients of the control port that begin calls and say nothing, read nothing, or take whatever there is of something:
others are answered all the same."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.support.clients.http2 import (
    END_HEADERS,
    HEADERS,
    HELLO,
    PING,
    PREFACE,
    Http2,
    call_frames,
    call_headers,
    frame,
    settings,
)
from tests.support.engine.process import EngineProcess
from tests.support.engine.remote import RemoteEngine
from tests.support.eventually import eventually
from tests.support.models.versions import publish

from tidegate_serving.contract.messages import message
from tidegate_serving.control.server import MAX_CONNECTIONS, MAX_WITHOUT_MESSAGE, THREADS

CONTROL = "/tidegate.v1.Control"
METHODS = {
    "status": f"{CONTROL}/GetStatus",
    "journal": f"{CONTROL}/ReadJournal",
    "reflection": "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "health": "/grpc.health.v1.Health/Check",
}
WATCHES = {
    "health": ("/grpc.health.v1.Health/Watch", "grpc.health.v1.HealthCheckRequest"),
    "states": (f"{CONTROL}/WatchStates", "tidegate.v1.WatchStatesRequest"),
}
CONNECTIONS = 4


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    with EngineProcess(tmp_path_factory.mktemp("silent"), allow_unverified=True) as process:
        yield process


@contextlib.contextmanager
def begun(engine: EngineProcess, hello: bytes, calls: bytes) -> Iterator[None]:
    """Several connections that have sent this and do nothing more; the engine has read it."""
    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS):
            one = stack.enter_context(Http2(engine.addresses["control"], hello))
            one.send(calls, frame(PING, 0, 0, b"all came"))
            while (found := one.next_frame()) is not None and found.payload != b"all came":
                pass
        yield


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_calls_without_a_message_keep_nobody_waiting(engine: EngineProcess, method: str) -> None:
    heads = [frame(HEADERS, END_HEADERS, 1 + 2 * one, call_headers(method)) for one in range(THREADS // 2)]
    with begun(engine, HELLO, b"".join(heads)), engine.control() as control:
        for _ in range(20):
            assert control.status()


def test_answers_that_nobody_reads_keep_nobody_waiting(engine: EngineProcess) -> None:
    request = message("tidegate.v1.ReadJournalRequest")().SerializeToString()
    calls = [call_frames(1 + 2 * one, METHODS["journal"], request) for one in range(THREADS // 2)]
    with begun(engine, PREFACE + settings({4: 0}), b"".join(calls)), engine.control() as control:
        for _ in range(20):
            assert control.status()


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_message_that_cannot_be_read_is_refused_and_not_a_traceback_in_the_log(
    engine: EngineProcess, method: str
) -> None:
    with grpc.insecure_channel(engine.addresses["control"]) as channel:
        call: Any = channel.stream_stream(method, request_serializer=None, response_deserializer=None)
        with pytest.raises(grpc.RpcError) as refused:
            list(call(iter([b"\xff"])))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Traceback" not in engine.said()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Any]:
    """Begins a watch over a connection of its own, where there is something to see; its first message has come."""
    publish(tmp_path / "r", "a", 1)
    with (
        EngineProcess(tmp_path / "e", repository=tmp_path / "r", allow_unverified=True) as engine,
        contextlib.ExitStack() as stack,
    ):

        def begin(kind: str) -> Any:
            method, request = WATCHES[kind]
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = stack.enter_context(grpc.insecure_channel(engine.addresses["control"], options))
            call: Any = channel.unary_stream(method, request_serializer=None, response_deserializer=None)
            watching = call(message(request)().SerializeToString(), timeout=60)
            next(watching)
            return watching

        begin.engine = engine  # type: ignore[attr-defined]
        yield begin


@pytest.mark.parametrize("kind", WATCHES)
def test_whoever_takes_all_watches_takes_its_own(watch: Any, kind: str) -> None:
    method, request = WATCHES[kind]
    early = watch(kind)
    taken = [call_frames(1 + 2 * one, method, message(request)().SerializeToString()) for one in range(100)]
    with begun(watch.engine, HELLO, b"".join(taken)):
        late = watch(kind)
        assert early.is_active()
        assert late.is_active()


def test_strangers_who_say_nothing_take_no_place_from_those_who_are_known(tmp_path: Path) -> None:
    remote, said = RemoteEngine(tmp_path, allow_unverified=True), threading.Event()
    with remote.process, contextlib.ExitStack() as stack:
        security = grpc.ssl_channel_credentials(remote.authority.file.read_bytes())

        def begin(metadata: Sequence[tuple[str, str]]) -> Any:
            """A status call whose message comes once it may."""
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = stack.enter_context(grpc.secure_channel(remote.address, security, options))
            silent = (b"" for _ in range(1) if said.wait())
            call: Any = channel.stream_unary(METHODS["status"])
            return call.future(silent, 60, metadata)

        stack.callback(said.set)
        known = begin([("authorization", f"Bearer {remote.tokens['look']}")])
        with remote.control("look") as control:
            assert control.status(), "by now the call before has come"
        more = 5
        strangers = [begin([]) for _ in range(MAX_WITHOUT_MESSAGE + more)]
        eventually(lambda: sum(call.done() for call in strangers) >= more)
        said.set()
        assert known.result(60), "its status"


def test_silent_connections_beyond_the_limit_keep_nobody_out(tmp_path: Path) -> None:
    silent = PREFACE + settings({}) + frame(PING, 0, 0, bytes(8))
    with EngineProcess(tmp_path, allow_unverified=True) as engine, contextlib.ExitStack() as stack:

        def say_nothing() -> Http2:
            return stack.enter_context(Http2(engine.addresses["control"], silent))

        with engine.control() as early:
            assert early.status()
            made = [say_nothing() for _ in range(MAX_CONNECTIONS)]
            assert all(one.until(PING) is not None for one in made)
            for _ in range(20):
                made += [say_nothing() for _ in range(10)]
                with engine.control() as late:
                    assert late.status()
            assert early.status(), "it connects again by itself where it was the one to go"
        assert sum(is_open(one) for one in made) < MAX_CONNECTIONS


def is_open(one: Http2) -> bool:
    """Whether it is answered."""
    with contextlib.suppress(OSError):
        one.send(frame(PING, 0, 0, b"is it so"))
        while (found := one.next_frame()) is not None:
            if found.payload == b"is it so":
                return True
    return False


def test_a_watch_stays_however_many_say_nothing(watch: Any) -> None:
    watching = watch("states")
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS + 50):
            one = stack.enter_context(Http2(watch.engine.addresses["control"], HELLO))
        one.send(frame(PING, 0, 0, b"all came"))
        while (found := one.next_frame()) is not None and found.payload != b"all came":
            pass
        assert watching.is_active()
