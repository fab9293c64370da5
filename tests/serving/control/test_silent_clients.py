"""Clients of the control port that begin calls and say nothing, or read nothing: others are answered all the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from tests.support.engine_process import EngineProcess
from tests.support.http2 import (
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

from tidegate_serving.contract.messages import message
from tidegate_serving.control.server import THREADS

CONTROL = "/tidegate.v1.Control"
METHODS = {
    "status": f"{CONTROL}/GetStatus",
    "journal": f"{CONTROL}/ReadJournal",
    "reflection": "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "health": "/grpc.health.v1.Health/Check",
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
