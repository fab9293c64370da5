"""The standard health service as grpcio's clients watch it: each change is told, and a drain lets them go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.support.models.versions import adding, publish

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.servable import State
from tidegate_serving.engine import Engine

WATCH = "/grpc.health.v1.Health/Watch"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3


def status_of(message: bytes) -> int:
    """Of a `HealthCheckResponse`: field 1, a varint."""
    assert message[:1] == b"\x08", message
    assert len(message) == 2, message
    return message[1]


def test_a_watch_hears_each_change_and_ends_with_the_drain(tmp_path: Path) -> None:
    publish(tmp_path / "models", "m", 1, adding(1))
    engine = Engine(
        EngineConfig(
            grpc_address="127.0.0.1:0",
            rest_address="",
            control_address="",
            repository=tmp_path / "models",
            allow_unverified=True,
            poll_seconds=0.1,
        )
    )
    addresses = engine.start()
    try:
        engine.wait_until("m", 1, State.AVAILABLE, 30)
        with grpc.insecure_channel(addresses.grpc) as channel:
            watch: Callable[..., Any] = channel.unary_stream(WATCH)
            whole, service = watch(b"", timeout=60), watch(b"\x0a\x03abc", timeout=60)
            heard = status_of(next(whole))  # that it is ready is told from another thread, soon after the start
            assert (heard if heard == SERVING else status_of(next(whole))) == SERVING
            assert status_of(next(service)) == SERVICE_UNKNOWN
            other = watch(b"\x0a\x24tensorflow.serving.PredictionService", timeout=60)
            assert status_of(next(other)) == SERVING
            other.cancel()
            assert engine.stop(20.0), "nobody waits for a watch"
            assert status_of(next(whole)) == NOT_SERVING
            for stream in (whole, service):
                with pytest.raises(grpc.RpcError) as ended:
                    next(stream)
                assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        engine.stop(0.0)
