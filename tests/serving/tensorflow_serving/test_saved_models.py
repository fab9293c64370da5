"""SavedModels behind `tidegate model-server`, with TensorFlow Serving's files, over REST and a UNIX socket."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.clients import rest
from tests.support.clients.official_driver import OfficialDriver
from tests.support.engine.model_server import ModelServerProcess
from tests.support.eventually import eventually

MODELS = """
model_config_list {{
  config {{
    name: "half_plus_two"
    base_path: "{0}/half_plus_two"
    model_platform: "tensorflow"
    model_version_policy {{ all {{}} }}
    version_labels {{ key: "stable" value: 1 }}
  }}
  config {{ name: "late" base_path: "{0}/late" model_platform: "tensorflow" }}
}}
"""
PLATFORM = """
platform_configs {
  key: "tensorflow"
  value {
    source_adapter_config {
      [type.googleapis.com/tensorflow.serving.SavedModelBundleSourceAdapterConfig] {
        legacy_config {
          session_config { intra_op_parallelism_threads: 1 inter_op_parallelism_threads: 1 }
          batching_parameters { max_batch_size { value: 32 } batch_timeout_micros { value: 0 } }
          enable_model_warmup: true
        }
      }
    }
  }
}
"""
MONITORING = "prometheus_config { enable: true path: '/prometheus' }"
QUIET = 1.0


class Bench:
    def __init__(self, folder: Path, saved_models: Path) -> None:
        self.models = folder / "models"
        self.socket = folder / "grpc.sock"
        self.model = saved_models / "half_plus_two" / "1"
        shutil.copytree(self.model, self.models / "half_plus_two" / "1")
        flags = [f"--grpc_socket_path={self.socket}", "--tensorflow_session_parallelism=7"]
        files = {
            "model_config": MODELS.format(self.models),
            "platform_config": PLATFORM,
            "monitoring_config": MONITORING,
        }
        for name, text in files.items():
            (folder / f"{name}.txt").write_text(text)
            flags.append(f"--{name}_file={folder / name}.txt")
        self.server = ModelServerProcess(folder / "server", *flags, quiet_seconds=QUIET)

    @property
    def rest(self) -> str:
        return str(self.server.addresses["rest"])

    def states(self, model: str) -> dict[str, str]:
        reply = rest.call(self.rest, "GET", f"/v1/models/{model}")
        entries = reply.json().get("model_version_status", [])
        return {entry["version"]: entry["state"] for entry in entries}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, saved_models: Path) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bench"), saved_models)
    with made.server:
        yield made


def test_a_saved_model_answers_by_rest(bench: Bench) -> None:
    answer = rest.predict(bench.rest, "half_plus_two", [1.0, 2.0, 5.0])
    assert answer.json() == {"predictions": [2.5, 3.0, 4.5]}
    assert rest.predict(bench.rest, "half_plus_two", [1.0], "/labels/stable").status == 200


def test_it_answers_on_the_unix_socket(bench: Bench) -> None:
    with OfficialDriver(f"unix:{bench.socket}") as stubs:
        assert stubs.predict("half_plus_two") == {"y": 2.5, "version": 1}
        assert stubs.states("half_plus_two") == {"1": "AVAILABLE"}


def test_metrics_are_where_the_monitoring_config_says(bench: Bench) -> None:
    metrics = rest.call(bench.rest, "GET", "/prometheus")
    assert metrics.status == 200
    assert b'model="half_plus_two"' in metrics.body
    assert rest.call(bench.rest, "GET", "/nowhere").status == 404


def test_a_missing_base_path_is_a_reason_not_to_be_ready(bench: Bench) -> None:
    ready = rest.call(bench.rest, "GET", "/v2/health/ready")
    assert (ready.status, "for servable 'late'" in ready.body.decode()) == (503, True)


def test_a_half_copied_version_is_not_loaded(bench: Bench) -> None:
    """It is copied for two quiet periods, the graph first and the variables byte by byte."""
    target = bench.models / "half_plus_two" / "2"
    shutil.copytree(bench.model, target, ignore=shutil.ignore_patterns("variables*"))
    (target / "variables").mkdir()
    pace, seen = threading.Event(), []
    files = sorted((bench.model / "variables").iterdir())
    steps = [(file, part) for file in files for part in _parts(file.read_bytes(), 5)]
    for file, part in steps:
        with (target / "variables" / file.name).open("ab") as copy:
            copy.write(part)
        seen.append(bench.states("half_plus_two"))
        pace.wait(2 * QUIET / len(steps))
    assert all("2" not in states for states in seen)
    eventually(lambda: bench.states("half_plus_two").get("2") == "AVAILABLE")
    assert rest.predict(bench.rest, "half_plus_two", [1.0], "/versions/2").json() == {"predictions": [2.5]}


def test_a_corrupt_version_fails_alone_and_loads_once_it_is_mended(bench: Bench) -> None:
    target = bench.models / "half_plus_two" / "3"
    shutil.copytree(bench.model, target)
    whole = (target / "saved_model.pb").read_bytes()
    (target / "saved_model.pb").write_bytes(whole[: len(whole) // 2])
    eventually(lambda: bench.states("half_plus_two").get("3") == "END")
    status = rest.call(bench.rest, "GET", "/v1/models/half_plus_two/versions/3").json()["model_version_status"][0]
    assert status["status"]["error_code"] != "OK"
    assert "saved_model.pb" in status["status"]["error_message"]
    assert rest.predict(bench.rest, "half_plus_two", [1.0], "/labels/stable").status == 200
    (target / "saved_model.pb").write_bytes(whole)
    eventually(lambda: bench.states("half_plus_two").get("3") == "AVAILABLE")


def _parts(data: bytes, count: int) -> list[bytes]:
    size = max(1, -(-len(data) // count))
    return [data[start : start + size] for start in range(0, len(data), size)]
