"""What an engine leaves in the program that it lived in: nothing, however often one is started and stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.eventually import eventually

from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.control_client import ControlClient
from tidegate_serving.engine import Engine
from tidegate_serving.requests.running_plane import Target


def threads() -> int:
    """All of this process, native ones too, as Linux counts them."""
    return len(list(Path("/proc/self/task").iterdir()))


def serve_once() -> None:
    with Engine(grpc="127.0.0.1:0", control="127.0.0.1:0") as engine:
        engine.serve("m", lambda x: {"y": x + 1}, inputs={"x": "float32"})
        with ControlClient(engine.addresses.control) as control:
            assert control.status("m").servable("m") is not None


def test_engines_that_come_and_go_leave_no_thread_behind() -> None:
    serve_once()  # what gRPC for Python keeps of its own, it keeps from the first time on
    before = threads()
    for _ in range(4):
        serve_once()
    assert eventually(lambda: threads() <= before)


def test_a_plane_that_has_drained_can_still_be_asked_what_it_counted(tmp_path: Path) -> None:
    engine = Engine(log=tmp_path)
    engine.start()
    engine.serve("m", lambda x: {"y": x + 1}, inputs={"x": "float32"})
    engine.predict("m", {"x": [1.0]})
    running = engine._live()
    plane = running.plane()
    assert engine.stop()
    assert any(name.startswith("tidegate_requests_total") and count for name, count in plane.stats().items())
    with pytest.raises(Unavailable, match="has stopped"):
        running.plane().predict("m", {"x": [1.0]}, Target())
