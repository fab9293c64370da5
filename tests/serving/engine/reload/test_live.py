"""A running engine lives by another config: by SIGHUP and through the control port, all or nothing."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.clients import rest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import ADD, Draft, adding, publish

from tidegate_serving.config.view import ConfigChange
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, NotFound, TidegateError
from tidegate_serving.control_client import ControlClient

BASE = {"allow_unverified": True, "poll_seconds": 0.1, "memory_limit_bytes": 1_000_000, "isolation": "engine"}


class Bench:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "repository"
        for version in (1, 2, 3):
            publish(self.root, "m", version, adding(version))
        publish(folder / "elsewhere", "other", 7, adding(7))
        self.other = folder / "elsewhere" / "other"
        self.engine = EngineProcess(folder / "engine", repository=self.root, log_path=folder / "log", **BASE)
        self.first = self.engine.config.read_text()

    def write(self, text: str = "", **tops: str) -> None:
        """The first config with some lines more, tops before its tables."""
        self.engine.config.write_text("".join(f"{key} = {value}\n" for key, value in tops.items()) + self.first + text)

    def answers(self) -> list[str]:
        return [
            version
            for version in "123"
            if rest.predict(self.engine.addresses["rest"], "m", [1.0], f"/versions/{version}").status == 200
        ]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bench"))
    with made.engine:
        yield made


@pytest.fixture(scope="module")
def control(bench: Bench) -> Iterator[ControlClient]:
    with bench.engine.control() as client:
        yield client


@pytest.fixture(autouse=True)
def as_at_first(bench: Bench, control: ControlClient) -> None:
    bench.write()
    control.reload(requested_by="test")


def value(control: ControlClient, key: str) -> Any:
    return next((value.value for value in control.config() if value.key == key), None)


def test_the_effective_config_is_served_with_its_origins(bench: Bench, control: ControlClient) -> None:
    values = {value.key: (value.value, value.origin) for value in control.config()}
    assert values["repository"] == (str(bench.root), str(bench.engine.config))
    assert values["drain_seconds"] == (30.0, "default")
    assert values["batching.max_batch_rows"] == (1024, "default")
    assert values["ready_file"] == (str(bench.engine.ready_file), "command line")
    assert values["trusted_keys"] == ([], "default")


def test_a_dry_run_says_what_would_change_and_changes_nothing(bench: Bench, control: ControlClient) -> None:
    bench.write('[models.m]\nversions = "latest:2"\nlabels = {stable = 2}\n', rest_address='"127.0.0.1:1"')
    bench.engine.config.write_text(bench.engine.config.read_text().replace('rest_address = "127.0.0.1:0"\n', "", 1))
    changes = control.reload(dry_run=True, requested_by="test").changes
    assert ConfigChange("models.m.versions", None, "latest:2") in changes
    assert ConfigChange("models.m.labels.stable", None, 2) in changes
    (stuck,) = [change for change in changes if change.fixed]
    assert stuck.key == "rest_address"
    assert str(stuck).endswith("(needs a restart: clients are connected to it)")
    assert value(control, "models.m.versions") is None
    assert bench.answers() == ["3"]


def test_a_key_that_only_a_restart_changes_refuses_all(bench: Bench, control: ControlClient) -> None:
    bench.write('[models.m]\nversions = "all"\n', io_threads="2")
    with pytest.raises(FailedPrecondition, match=r"io_threads cannot change while the engine .* restart the engine"):
        control.reload(requested_by="test")
    assert (bench.answers(), value(control, "io_threads")) == (["3"], 1)


@pytest.mark.parametrize(
    ("text", "kind", "match"),
    [
        (
            '[models.m]\nversoins = "all"\n',
            InvalidInput,
            "unknown key 'versoins': did you mean versions",
        ),
        ('[models.m]\nversions = "newest"\n', InvalidInput, "versions is 'newest'"),
        ('[models.x]\npath = "relative/x"\n', InvalidInput, "Expected model x to have an absolute path or URI"),
        ('[models.x]\npath = "/x"\nplatform = "caffe"\n', InvalidInput, "Model x requests unsupported platform caffe"),
        ("[batching]\nmax_batch_rows = 0\n", InvalidInput, "max_batch_rows is 0"),
        (
            "[platforms.tensorfow]\ntags = 'serve'\n",
            InvalidInput,
            "platforms.tensorfow sets up a platform that",
        ),
        ('[models.m]\nversions = "all"\n[models.m]\n', InvalidInput, "is not TOML"),
        ('directories = ["/nowhere/m/1"]\n', NotFound, "/nowhere/m/1 is missing"),
    ],
)
def test_a_config_that_cannot_be_used_changes_nothing(
    bench: Bench, control: ControlClient, text: str, kind: type[TidegateError], match: str
) -> None:
    bench.write(f'{text}[models.other]\npath = "{bench.other}"\n')
    with pytest.raises(kind) as caught:
        control.reload(requested_by="test")
    assert match in caught.value.message
    assert control.status("other").servable("other") is None
    assert bench.answers() == ["3"]


def test_everything_that_can_change_does(bench: Bench, control: ControlClient) -> None:
    bench.write(
        f"""
[batching]
max_batch_rows = 16
timeout_us = 100
[models.m]
versions = "specific:1,3"
labels = {{stable = 1, canary = 3}}
log_sampling_rate = 0.5
policy = "resources"
[models.other]
path = "{bench.other}"
""",
        load_threads="3",
        request_timeout_seconds="5",
    )
    changed = {change.key for change in control.reload(requested_by="anna", reason="try").changes}
    assert {"batching.timeout_us", "models.m.policy", "models.other.path", "load_threads"} <= changed
    eventually(lambda: bench.answers() == ["1", "3"])
    address = bench.engine.addresses["rest"]
    eventually(lambda: rest.predict(address, "m", [1.0]).json() == {"predictions": [2.0]})
    assert rest.predict(address, "m", [1.0], "/labels/canary").json() == {"predictions": [4.0]}
    eventually(lambda: rest.predict(address, "other", [1.0]).status == 200)
    (entry,) = [entry for entry in control.journal() if entry.action == "reload" and entry.requested_by == "anna"]
    assert 'models.m.policy: not set -> "resources"' in entry.text
    assert entry.reason == "try"
    bench.write()
    control.reload(requested_by="test")
    eventually(lambda: rest.predict(address, "other", [1.0]).status == 404)
    eventually(lambda: bench.answers() == ["3"])


def test_a_larger_memory_budget_lets_a_waiting_version_in(bench: Bench, control: ControlClient) -> None:
    large = publish(bench.root, "large", 1, adding(1, files={"model.py": f"# {'x' * 2_000_000}\n{ADD.format(1)}"}))
    address = bench.engine.addresses["rest"]

    def refused() -> bool:
        servable = control.status("large").servable("large")
        return servable is not None and servable.versions[0].error_code == "resource_exhausted"

    assert eventually(refused)
    bench.write()
    bench.engine.config.write_text(
        bench.engine.config.read_text().replace("memory_limit_bytes = 1000000", "memory_limit_bytes = 100000000")
    )
    control.reload(requested_by="test")
    assert eventually(lambda: rest.predict(address, "large", [1.0]).status == 200)
    shutil.rmtree(large)
    eventually(lambda: rest.predict(address, "large", [1.0]).status == 404)


def test_a_version_that_may_be_loaded_now_is_tried_at_once(bench: Bench, control: ControlClient) -> None:
    """Without leave a pickle is refused, and the next try would come after the longest pause."""
    files = {"model.pkl": pickle.dumps("no model")}
    bench.write(retry_first_seconds="1000")
    control.reload(requested_by="test")
    publish(bench.root, "pickled", 1, Draft("sklearn", files))
    assert eventually(lambda: _state(control, "pickled") == "permission_refused")
    bench.write(retry_first_seconds="1000", allow_pickle="true")
    control.reload(requested_by="test")
    assert eventually(lambda: _state(control, "pickled") == "invalid_input")
    shutil.rmtree(bench.root / "pickled" / "1")


def _state(control: ControlClient, name: str) -> str:
    """The error of a servable's only version, else its state; nothing while it has none."""
    return next((one.error_code or one.state.name for one in control.servable(name).versions), "")


def test_sighup_reads_the_file_again_and_a_broken_one_is_said(bench: Bench, control: ControlClient) -> None:
    assert bench.engine.process is not None
    bench.write('[models.m]\nversions = "latest:2"\n')
    os.kill(bench.engine.process.pid, signal.SIGHUP)
    eventually(lambda: bench.answers() == ["2", "3"])
    bench.write("[models.m]\nversions = 5\n")
    os.kill(bench.engine.process.pid, signal.SIGHUP)
    eventually(lambda: "the config was not reloaded, nothing was changed" in bench.engine.said())
    eventually(lambda: "models.m: versions is 5" in bench.engine.said())
    assert bench.answers() == ["2", "3"]
