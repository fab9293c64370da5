"""`tidegate model-server` driven by the official stubs: lists of models from a file and by request."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.clients import rest
from tests.support.clients.official_driver import OfficialDriver
from tests.support.engine.model_server import ModelServerProcess
from tests.support.eventually import eventually
from tests.support.models.gate import AT_LOAD, Gate
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.control_client import ControlClient

AVAILABLE = "AVAILABLE"
BROKEN = Draft(files={"model.py": "raise RuntimeError('no such luck')"})


class Bench:
    """A model server over TMP/models/NAME/VERSION with its file of models, and the official stubs."""

    def __init__(self, folder: Path) -> None:
        self.models = folder / "models"
        self.file = folder / "models.config"
        self.server = ModelServerProcess(
            folder / "server",
            f"--model_config_file={self.file}",
            "--model_config_file_poll_wait_seconds=1",
            "--load_retry_interval_micros=200000",
        )

    def add(self, name: str, version: int, draft: Draft | None = None) -> Path:
        return publish(self.models, name, version, draft or adding(version))

    def config(self, name: str, more: str = "", path: str = "") -> str:
        path = path or str(self.models / name)
        return f"config {{ name: '{name}' base_path: '{path}' model_platform: 'python' {more} }}"

    def write(self, *configs: str) -> None:
        aside = self.file.with_suffix(".new")
        aside.write_text(f"model_config_list {{ {' '.join(configs)} }}")
        aside.replace(self.file)

    @property
    def rest(self) -> str:
        return str(self.server.addresses["rest"])


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bench"))
    for version in (1, 2):
        made.add("a", version)
    made.write(made.config("a"))
    with made.server:
        yield made


@pytest.fixture(scope="module")
def stubs(bench: Bench) -> Iterator[OfficialDriver]:
    with OfficialDriver(bench.server.addresses["grpc"].replace("0.0.0.0", "127.0.0.1")) as driver:
        yield driver


@pytest.fixture(autouse=True)
def only_a(bench: Bench, stubs: OfficialDriver) -> None:
    """Each test begins with version 2 of `a` and nothing else."""
    assert stubs.reload(bench.config("a"))["error_code"] == 0
    eventually(lambda: stubs.predict("a").get("version") == 2)


def served(stubs: OfficialDriver, model: str) -> list[str]:
    found = stubs.states(model)
    return sorted(version for version, state in found.items() if state == AVAILABLE)


def test_the_newest_version_of_each_listed_model_is_served(stubs: OfficialDriver) -> None:
    assert stubs.predict("a") == {"y": 3.0, "version": 2}
    assert stubs.states("a")["2"] == AVAILABLE


def test_a_version_loads_and_is_labelled_in_one_request(bench: Bench, stubs: OfficialDriver) -> None:
    bench.add("b", 1)
    bench.add("b", 2)
    labels = "version_labels { key: 'stable' value: 1 } version_labels { key: 'canary' value: 2 }"
    done = stubs.reload(bench.config("a") + bench.config("b", f"model_version_policy {{ all {{}} }} {labels}"))
    assert (done["error_code"], done["error_message"]) == (0, "")
    eventually(lambda: served(stubs, "b") == ["1", "2"])
    assert stubs.predict("b", label="stable") == {"y": 2.0, "version": 1}
    assert stubs.predict("b", label="canary") == {"y": 3.0, "version": 2}
    swapped = labels.replace("stable", "other").replace("canary", "stable")
    stubs.reload(bench.config("b", f"model_version_policy {{ specific {{ versions: 2 }} }} {swapped}"))


def test_a_label_that_happens_to_be_called_stable_moves_no_ordinary_client(bench: Bench, stubs: OfficialDriver) -> None:
    bench.add("named", 1)
    bench.add("named", 2)
    label = "version_labels { key: 'stable' value: 1 }"
    assert stubs.reload(bench.config("named", f"model_version_policy {{ all {{}} }} {label}"))["error_code"] == 0
    eventually(lambda: served(stubs, "named") == ["1", "2"])
    assert stubs.predict("named", label="stable")["version"] == 1
    assert stubs.predict("named")["version"] == 2
    with ControlClient(bench.server.addresses["control"]) as control:
        found = control.status().servable("named")
    assert found is not None
    assert (found.ordinary, found.label("stable")) == (2, 1)
    bench.add("named", 3)
    eventually(lambda: stubs.predict("named")["version"] == 3)
    assert stubs.predict("named", label="stable")["version"] == 1


def test_a_label_moves_with_the_load_that_it_waits_for(bench: Bench, stubs: OfficialDriver) -> None:
    bench.add("moving", 1)
    one = "model_version_policy { specific { versions: 1 } } version_labels { key: 'stable' value: 1 }"
    stubs.reload(bench.config("moving", one))
    bench.add("moving", 2)
    stop, answers = threading.Event(), []

    def ask() -> None:
        with OfficialDriver(bench.server.addresses["grpc"].replace("0.0.0.0", "127.0.0.1")) as other:
            while not stop.is_set():
                answers.append(other.predict("moving", label="stable"))

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: len(answers) > 20)
    assert stubs.reload(bench.config("moving", one.replace("1", "2")))["error_code"] == 0
    eventually(lambda: answers[-1].get("version") == 2)
    stop.set()
    asking.join(30)
    versions = [answer.get("version") for answer in answers]
    assert versions == sorted(versions), "no request by label failed, and none went back"


def test_a_model_that_is_left_out_is_unloaded(bench: Bench, stubs: OfficialDriver) -> None:
    bench.add("c", 1)
    stubs.reload(bench.config("a") + bench.config("c"))
    assert stubs.predict("c")["version"] == 1
    stubs.reload(bench.config("a"))
    eventually(lambda: stubs.states("c") == {"1": "END"})
    assert stubs.predict("c")["code"] == "NOT_FOUND"
    assert stubs.predict("a")["version"] == 2


def test_all_or_nothing(bench: Bench, stubs: OfficialDriver) -> None:
    bench.add("good", 1)
    bench.add("bad", 1, BROKEN)
    policy = "model_version_policy { specific { versions: 1 } }"
    refused = stubs.reload(bench.config("a", policy) + bench.config("good") + bench.config("bad"))
    assert refused["code"] == "UNKNOWN"
    assert refused["details"].startswith("1 model(s) did not become available: {{{name: bad version: 1} due to error: ")
    assert "no such luck" in refused["details"]
    with ControlClient(bench.server.addresses["control"]) as control:
        told = [entry for entry in control.journal() if entry.requested_by == "HandleReloadConfigRequest"][-3:]
    assert [(entry.kind.value, entry.reason) for entry in told] == [
        ("control", "new models first"),
        ("control", "taken back, new models did not come up"),
        ("refused", ""),
    ]
    assert "no such luck" in told[-1].text
    assert stubs.predict("a") == {"y": 3.0, "version": 2}
    eventually(lambda: served(stubs, "good") == [])
    assert stubs.predict("good")["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("models", "code", "text"),
    [
        ("{a} {a}", "INVALID_ARGUMENT", "Illegal to list model a multiple times in config list"),
        (
            "config {{ name: 'a' base_path: 'models/a' model_platform: 'python' }}",
            "INVALID_ARGUMENT",
            "Expected model a to have an absolute path or URI; got base_path()=models/a",
        ),
        (
            "config {{ name: 'a' base_path: '/models/a' model_platform: 'tensorflow' }}",
            "INVALID_ARGUMENT",
            "Illegal to change a model's platform. For model a platform was python and new platform requested is tens",
        ),
        (
            "{a} config {{ name: 'x' base_path: '/x' model_platform: 'caffe' }}",
            "INVALID_ARGUMENT",
            "Model x requests unsupported platform caffe",
        ),
        (
            "{a} config {{ name: 'x' base_path: '/nowhere/x' model_platform: 'python' }}",
            "UNKNOWN",
            "could not find base path /nowhere/x for servable 'x'",
        ),
        (
            "{label}",
            "FAILED_PRECONDITION",
            "Request to assign label to version 7 of model a, which is not currently available for inference",
        ),
    ],
)
def test_lists_that_cannot_be_served_change_nothing(
    bench: Bench, stubs: OfficialDriver, models: str, code: str, text: str
) -> None:
    label = bench.config("a", "version_labels { key: 'stable' value: 7 }")
    refused = stubs.reload(models.format(a=bench.config("a"), label=label))
    assert refused["code"] == code
    assert text in refused["details"]
    assert stubs.predict("a") == {"y": 3.0, "version": 2}


def test_a_reload_that_waits_holds_up_no_status_call(bench: Bench, stubs: OfficialDriver, tmp_path: Path) -> None:
    gate = Gate.make(tmp_path / "gate")
    bench.add("patient", 1, Draft(files={"model.py": gate.source(AT_LOAD, 50)}))
    answers: list[Any] = []

    def reload() -> None:
        with OfficialDriver(bench.server.addresses["grpc"].replace("0.0.0.0", "127.0.0.1")) as other:
            answers.append(other.reload(bench.config("a") + bench.config("patient")))

    waiting = threading.Thread(target=reload)
    waiting.start()
    eventually(gate.entered.exists)
    assert stubs.states("patient") == {"1": "LOADING"}
    assert stubs.predict("a")["version"] == 2
    assert not answers
    gate.open()
    waiting.join(30)
    assert answers[0]["error_code"] == 0
    assert stubs.predict("patient")["y"] == 51.0


def test_metrics_that_are_asked_for_come_with_their_increase(bench: Bench, stubs: OfficialDriver) -> None:
    done = stubs.reload(bench.config("a"), metrics=("tidegate_requests_total", "no_such_metric"))
    assert done["metrics"].keys() == {"tidegate_requests_total", "no_such_metric"}
    assert done["metrics"]["no_such_metric"] == 0


def test_the_file_is_followed_and_a_broken_one_changes_nothing(bench: Bench, stubs: OfficialDriver) -> None:
    bench.add("d", 4)
    bench.write(bench.config("a"), bench.config("d"))
    eventually(lambda: stubs.predict("d").get("version") == 4)
    bench.write("config { nane: 'a' }")
    eventually(lambda: f"{bench.file} is not served, what was served before is" in bench.server.said())
    with ControlClient(bench.server.addresses["control"]) as control:
        (problem,) = control.status().problems
    assert (problem.source, problem.error_code) == ("model_config_file", "invalid_input")
    assert f"{bench.file} is not served, what was served before is" in problem.error_message
    assert f"{bench.file}, line 1" in bench.server.said()
    assert (stubs.predict("a")["version"], stubs.predict("d")["version"]) == (2, 4)
    bench.write(bench.config("a"))
    eventually(lambda: stubs.predict("d").get("code") == "NOT_FOUND")


def test_a_list_that_comes_before_its_models_is_served_once_they_are_there(bench: Bench, stubs: OfficialDriver) -> None:
    bench.write(bench.config("a"), bench.config("after"))
    eventually(lambda: f"could not find base path {bench.models / 'after'}" in bench.server.said())
    bench.add("after", 3)
    assert eventually(lambda: stubs.predict("after").get("version") == 3)
    bench.write(bench.config("a"))
    assert eventually(lambda: stubs.predict("after").get("code") == "NOT_FOUND")


def test_sighup_reads_the_files_again(bench: Bench, stubs: OfficialDriver) -> None:
    bench.add("e", 5)
    bench.write(bench.config("a"), bench.config("e"))
    assert bench.server.process is not None
    os.kill(bench.server.process.pid, signal.SIGHUP)
    eventually(lambda: stubs.predict("e").get("version") == 5)
    bench.write(bench.config("a"))
    eventually(lambda: stubs.predict("e").get("code") == "NOT_FOUND")


def test_a_base_path_that_is_missing_is_said_and_the_others_serve(bench: Bench, tmp_path: Path) -> None:
    bench.add("late", 1)
    late = bench.models / "late"
    late.rename(bench.models / "away")
    file = tmp_path / "models.config"
    file.write_text(f"model_config_list {{ {bench.config('late')} {bench.config('a')} }}")
    with ModelServerProcess(tmp_path / "server", f"--model_config_file={file}") as server:
        address = server.addresses["rest"]
        assert rest.predict(address, "a", [1.0]).json() == {"predictions": [3.0]}
        ready = rest.call(address, "GET", "/v2/health/ready")
        assert ready.status == 503
        assert f"could not find base path {late} for servable 'late'" in ready.body.decode()
        (bench.models / "away").rename(late)
        eventually(lambda: rest.call(address, "GET", "/v2/health/ready").status == 200)
        assert rest.predict(address, "late", [1.0]).json() == {"predictions": [2.0]}
        assert server.stop() == 0
