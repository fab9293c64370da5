"""The official `tensorflow-serving-api` client, unmodified, against the engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.clients import official_client
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import adding, publish


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("official")
    versions = [publish(folder / "r", "m", number, adding(number * 100)) for number in (1, 2)]
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True) as running:
        with running.control() as control:
            push_and_wait(control, *versions, labels={"stable": 1, "canary": 2})
        yield running


def test_predict_status_and_metadata(engine: EngineProcess) -> None:
    assert official_client.run("predicting", engine.addresses["grpc"]) == {
        "content": {"y": [101.0, 102.0, 105.0], "version": 1},
        "values": {"y": [101.0, 102.0, 105.0], "version": 1},
        "filled": {"y": [104.0, 104.0, 104.0], "version": 1},
        "none": {"y": [100.0, 100.0, 100.0], "version": 1},
        "label": {"y": [204.0, 204.0, 204.0], "version": 2},
        "refusal": "INVALID_ARGUMENT",
        "status": {"1": 30, "2": 30},
        "method": "tensorflow/serving/predict",
    }


def test_a_session_runs_by_the_names_of_a_signature(engine: EngineProcess) -> None:
    found = official_client.run("running_sessions", engine.addresses["grpc"])
    assert found == {"run": {"y:0": [101.0]}, "unknown": "UNIMPLEMENTED"}
