"""The official `tensorflow-serving-api` client, unmodified, against the engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.control import push_and_wait
from tests.support.engine_process import EngineProcess
from tests.support.official_driver import REPOSITORY, message_modules
from tests.support.versions import adding, publish


@pytest.fixture(scope="module")
def tensorflow_messages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return message_modules(tmp_path_factory.mktemp("messages"))


def test_the_official_client_is_served(tmp_path: Path, tensorflow_messages: Path) -> None:
    versions = [publish(tmp_path / "r", "m", number, adding(number * 100)) for number in (1, 2)]
    with EngineProcess(tmp_path / "engine", roots=[tmp_path / "r"], allow_unverified=True) as engine:
        with engine.control() as control:
            push_and_wait(control, *versions, labels={"stable": 1, "canary": 2})
        command = [sys.executable, "-m", "tests.support.official_client"]
        arguments = [str(tensorflow_messages), engine.addresses["grpc"], "m"]
        done = subprocess.run(
            [*command, *arguments], cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "content": {"y": [101.0, 102.0, 105.0], "version": 1},
        "values": {"y": [101.0, 102.0, 105.0], "version": 1},
        "filled": {"y": [104.0, 104.0, 104.0], "version": 1},
        "label": {"y": [204.0, 204.0, 204.0], "version": 2},
        "status": {"1": 30, "2": 30},
        "method": "tensorflow/serving/predict",
        "refusal": "INVALID_ARGUMENT",
    }
