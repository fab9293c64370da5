"""How long requests took: by stage in the metrics, and as Triton's clients read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.clients.rest import call
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import Draft, publish
from tritonclient.utils import InferenceServerException

SLEEPS = """
import time

class Model:
    def predict(self, inputs):
        time.sleep(0.05)
        if float(inputs["x"][0]) < 0:
            raise ValueError("below zero")
        return {"y": inputs["x"]}
"""
MS = 1_000_000
STAGES = ("decode", "queue", "run", "encode")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder: Path = tmp_path_factory.mktemp("statistics")
    slow = publish(folder / "r", "slow", 3, Draft(files={"model.py": SLEEPS}))
    idle = publish(folder / "r", "idle", 1)
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True) as running:
        with running.control() as control:
            push_and_wait(control, slow)
            push_and_wait(control, idle)
        with running.client() as client:
            for _ in range(3):
                client.predict("slow", {"x": np.array([1, 2], np.float32)})
        for body in ({"instances": [-1.0]}, {"instances": ["no number"]}):
            assert call(running.addresses["rest"], "POST", "/v1/models/slow:predict", body).status >= 400
        yield running


def test_tritons_clients_read_what_a_model_was_asked(engine: EngineProcess) -> None:
    with over_grpc.InferenceServerClient(engine.addresses["grpc"]) as grpc_client:
        over = grpc_client.get_inference_statistics("slow", as_json=True)["model_stats"]
        named = grpc_client.get_inference_statistics("slow", "3", as_json=True)["model_stats"]
        every = grpc_client.get_inference_statistics(as_json=True)["model_stats"]
        assert "statistics" in grpc_client.get_server_metadata().extensions
        with pytest.raises(InferenceServerException, match="nobody"):
            grpc_client.get_inference_statistics("nobody")
    with over_http.InferenceServerClient(engine.addresses["rest"]) as http_client:
        (found,) = http_client.get_inference_statistics("slow")["model_stats"]
        assert http_client.get_inference_statistics("slow", "3")["model_stats"] == [found]
        assert [one["name"] for one in http_client.get_inference_statistics()["model_stats"]] == ["idle", "slow"]
        with pytest.raises(InferenceServerException, match="nobody"):
            http_client.get_inference_statistics("nobody")
    assert over == named
    assert [one["name"] for one in every] == ["idle", "slow"]
    assert (found["name"], found["version"]) == ("slow", "3")
    stats = found["inference_stats"]
    assert stats["success"]["count"] == 3
    assert stats["fail"]["count"] == 2
    assert stats["compute_infer"]["count"] == stats["queue"]["count"] == 4
    assert 4 * 50 * MS <= stats["compute_infer"]["ns"] < 4 * 2000 * MS
    assert stats["success"]["ns"] >= 3 * 50 * MS
    assert stats["fail"]["ns"] >= 50 * MS
    assert found["execution_count"] == 4
    assert found["inference_count"] == 7
    assert found["last_inference"] > 1_700_000_000_000
    first = over[0]
    by_rows = {one["batch_size"]: one for one in found["batch_stats"]}
    assert sorted(by_rows) == [1, 2]
    assert [by_rows[rows]["compute_infer"]["count"] for rows in (1, 2)] == [1, 3]
    assert 3 * 50 * MS <= by_rows[2]["compute_infer"]["ns"] < stats["compute_infer"]["ns"]
    for stage in ("compute_input", "compute_infer", "compute_output"):
        assert sum(one[stage]["ns"] for one in by_rows.values()) == stats[stage]["ns"]
    assert [(int(one["batch_size"]), int(one["compute_infer"]["ns"])) for one in first["batch_stats"]] == [
        (rows, by_rows[rows]["compute_infer"]["ns"]) for rows in (1, 2)
    ]
    assert int(first["inference_stats"]["success"]["count"]) == 3
    assert int(first["inference_stats"]["compute_infer"]["ns"]) == stats["compute_infer"]["ns"]
    assert int(first["last_inference"]) == found["last_inference"]


def test_stages_follow_each_other_and_add_up_in_the_metrics(engine: EngineProcess) -> None:
    page = call(engine.addresses["rest"], "GET", "/metrics").body.decode()
    samples = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    labels = 'model="slow",version="3",signature="serving_default"'
    counts = [float(samples[f'tidegate_stage_seconds_count{{{labels},stage="{stage}"}}']) for stage in STAGES]
    sums = [float(samples[f'tidegate_stage_seconds_sum{{{labels},stage="{stage}"}}']) for stage in STAGES]
    whole = float(samples[f"tidegate_model_request_seconds_sum{{{labels}}}"])
    assert counts == [4.0] * 4
    assert float(samples[f"tidegate_model_request_seconds_count{{{labels}}}"]) == 4
    # A request's whole time ends where the writing of its answer begins, and `encode` goes on until that is done.
    assert sum(sums[:3]) <= whole <= sum(sums) + 1e-6
    assert sums[2] >= 0.2
    assert "# TYPE tidegate_stage_seconds histogram" in page
    assert "# HELP tidegate_model_request_seconds Requests that ran" in page
    assert 'model="idle",version="1",signature' not in page, "what was never asked has no histograms"


def test_load_and_unload_are_refused_with_the_way_that_there_is(engine: EngineProcess) -> None:
    for action in ("load", "unload"):
        answer = call(engine.addresses["rest"], "POST", f"/v2/repository/models/slow/{action}", {})
        assert (answer.status, "tidegate push" in json.loads(answer.body)["error"]) == (501, True)
