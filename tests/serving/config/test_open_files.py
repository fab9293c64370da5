"""What of the files that a process may have open is left for models, whatever clients do."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.clients import rest
from tests.support.clients.http2 import HELLO
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish

from tidegate_serving.config.open_files import allow_many, most_connections

FILES = 500
ONE = {"x": np.array([1], np.float32)}


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """Those of this process, which a test may lower."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_is_raised_as_far_as_it_goes(limits: tuple[int, int], caplog: pytest.LogCaptureFixture) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    assert most_connections(4096) == 1024 - 256
    allow_many(10)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 1 << 20)
    assert not caplog.records
    allow_many(1 << 30)
    assert "max_connections is 1073741824, but this process may have" in caplog.text


def test_connections_leave_files_for_a_new_version(tmp_path: Path) -> None:
    """Of a process that may have few files open; in the long run they are given up, but until then nobody may wait."""
    repository = tmp_path / "r"
    publish(repository, "m", 1, adding(1))
    engine = EngineProcess(tmp_path / "engine", repository=repository, allow_unverified=True, poll_seconds=0.1)
    engine.prefix = ["prlimit", f"--nofile={FILES}:{FILES}"]
    with engine, engine.client() as client, contextlib.ExitStack() as stack:
        for place in ("grpc", "rest"):
            host, _, port = engine.addresses[place].rpartition(":")
            for _ in range(FILES):
                one = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
                one.sendall(HELLO if place == "grpc" else b"GET /v2")
        publish(repository, "m", 2, adding(2))
        eventually(lambda: client.predict("m", ONE, timeout=10).version == 2, 60)
        assert rest.call(engine.addresses["rest"], "GET", "/v2/health/live").status == 200
        eventually(lambda: "it takes" in engine.said())
