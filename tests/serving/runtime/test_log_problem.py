"""An inference log that will take nothing is told when the engine starts, not only with the first request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate_serving.config import EngineConfig
from tidegate_serving.engine import Engine


def test_a_log_that_cannot_be_written_is_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locked").mkdir()
    may = os.access
    monkeypatch.setattr("os.access", lambda place, mode: place != tmp_path / "locked" and may(place, mode))
    ports = {"grpc_address": "127.0.0.1:0", "rest_address": "127.0.0.1:0", "control_address": "127.0.0.1:0"}
    for root, told in ((tmp_path / "log", 0), (tmp_path / "locked", 1)):
        engine = Engine(EngineConfig.load(overrides={**ports, "log_path": str(root)}))
        engine.start()
        engine.stop()
        lines = [
            one.getMessage() for one in caplog.records if "the inference log will take nothing" in one.getMessage()
        ]
        assert len(lines) == told, root
    locked = tmp_path / "locked"
    assert f"nothing, {locked} cannot be written into (Permission denied): have log_path name a folder" in lines[0]
