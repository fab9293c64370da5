"""`mlflow deployments -t tidegate://...` and its Python API, on a real MLflow server and a real engine."""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.support.engine.process import free_port
from tests.support.eventually import eventually
from tests.support.release.world import Endpoints, World, available

from tidegate_pipelines.release import Release, ReleaseResult, release
from tidegate_serving.client import Client
from tidegate_serving.contract.repository import report_directory, verdict_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

pytestmark = pytest.mark.filterwarnings("default")  # MLflow warns of its own typing as it is imported
NAME = "tide"


def frame(count: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    found = pd.DataFrame({"a": random.normal(size=count), "b": random.normal(size=count)})
    found["late"] = (random.random(count) < 1 / (1 + np.exp(-2 * found["a"]))).astype("int64")
    return found


def mlflow_error() -> type[MlflowException]:
    """MLflow is imported where tests of it run, not by all who collect."""
    from mlflow.exceptions import MlflowException

    return MlflowException


def registry_of(address: str) -> MlflowClient:
    from mlflow import MlflowClient

    return MlflowClient(address)


def client_of(target: str) -> Any:
    from mlflow.deployments import get_deploy_client

    return get_deploy_client(target)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Team:
    """What a user of MLflow has at hand: a target, a registry with three versions, data, and the validator's key."""

    target: str
    registry: str
    folder: Path
    world: World

    @property
    def config(self) -> dict[str, str]:
        return {
            "held_out": str(self.folder / "held_out.parquet"),
            "training": str(self.folder / "training.parquet"),
            "label": "late",
            "private_key": str(self.world.private_key),
            "repository": str(self.world.repository),
            "policy": str(self.world.policy("quality")),
            "tracking_uri": self.registry,
        }

    def mlflow(self, *arguments: str, config: dict[str, str] | None = None) -> str:
        """What the `mlflow deployments` command prints; AssertionError with that where it fails."""
        from click.testing import CliRunner
        from mlflow.deployments.cli import commands

        given = [f"-C{name}={value}" for name, value in (config or {}).items()]
        done = CliRunner().invoke(commands, [arguments[0], "-t", self.target, *arguments[1:], *given])
        if done.exit_code:
            raise AssertionError(done.output) from done.exception
        return str(done.stdout)

    def client(self) -> Any:
        return client_of(self.target)


@pytest.fixture(scope="module")
def team(
    mlflow_address: str, world: World, endpoints: Endpoints, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Team]:
    """Versions 1 and 2 of `tide` are good, 3 has learnt the opposite; 2 is the alias `next`."""
    import mlflow
    from sklearn.linear_model import LogisticRegression

    folder = tmp_path_factory.mktemp("team")
    training = frame(2000, 1)
    training.to_parquet(folder / "training.parquet")
    frame(2000, 2).to_parquet(folder / "held_out.parquet")
    mlflow.set_tracking_uri(mlflow_address)
    inputs = training[["a", "b"]]
    for truth in (training["late"], training["late"], 1 - training["late"]):
        model = LogisticRegression().fit(inputs, truth)
        with mlflow.start_run():
            mlflow.sklearn.log_model(
                model,
                name="model",
                pip_requirements=["scikit-learn"],
                registered_model_name=NAME,
                signature=mlflow.models.infer_signature(inputs, model.predict_proba(inputs)),
                pyfunc_predict_fn="predict_proba",
            )
    registry_of(mlflow_address).set_registered_model_alias(NAME, "next", "2")
    yield Team(f"tidegate://{endpoints.control}", mlflow_address, folder, world)
    mlflow.set_tracking_uri("")


def test_from_the_command_line_a_deployment_is_released_asked_updated_and_taken_away(
    team: Team, endpoints: Endpoints
) -> None:
    created = team.mlflow("create", "--name", NAME, "-m", f"models:/{NAME}/1", config=team.config)
    assert f"mlflow deployment {NAME} is created" in created
    assert available(endpoints, NAME) == [1]
    listed = ast.literal_eval(team.mlflow("list").partition("\n")[2])
    assert {"name": NAME, "flavor": "mlflow", "version": 1, "state": "AVAILABLE", "problem": ""} in listed
    rows = team.folder / "rows.json"
    rows.write_text(frame(3, 9)[["a", "b"]].to_json(orient="records"))
    answer = json.loads(team.mlflow("predict", "--name", NAME, "-I", str(rows)))
    assert answer["version"] == 1
    assert np.shape(answer["predictions"]) == (3, 2)
    with pytest.raises(AssertionError, match=r"(?m)^Error: deployment .* use `mlflow deployments update`$"):
        team.mlflow("create", "--name", NAME, "-m", f"models:/{NAME}/2", config={**team.config, "canary": "no"})
    updated = team.mlflow(
        "update", "--name", NAME, "-m", f"models:/{NAME}@next", config={**team.config, "canary": "no"}
    )
    assert f"Deployment {NAME} is updated" in updated
    assert available(endpoints, NAME) == [2]
    assert "'state': 'AVAILABLE'" in team.mlflow("get", "--name", NAME)
    assert f"Deployment {NAME} is deleted" in team.mlflow("delete", "--name", NAME)
    assert available(endpoints, NAME) == []
    assert "held_out" in team.mlflow("help")


def test_what_a_gate_refuses_is_an_error_with_its_sentence_and_the_registry_has_the_verdict(
    team: Team, endpoints: Endpoints
) -> None:
    client, config = team.client(), {**team.config, "canary": "no"}
    first = client.create_deployment("guarded", f"models:/{NAME}/1", config=config)
    assert (first["name"], first["version"], first["flavor"]) == ("guarded", 1, "mlflow")
    assert client.create_deployment("guarded", f"models:/{NAME}/1", config=config)["version"] == 1, "again: the same"
    with pytest.raises(mlflow_error(), match=r"guarded:3 is refused by the quality gate") as no:
        client.update_deployment("guarded", f"models:/{NAME}/3", config=config)
    assert available(endpoints, "guarded") == [1]
    tags = registry_of(team.registry).get_model_version(NAME, "3").tags
    assert tags["tidegate.allowed"] == "false"
    assert tags["tidegate.sentence"] == no.value.message
    directory = team.world.repository / "guarded" / "3"
    assert verdict_path(directory).is_file()
    assert (report_directory(directory) / "index.html").is_file()
    with pytest.raises(mlflow_error(), match="guarded:3 is refused by the quality gate"):
        client.update_deployment("guarded", f"models:/{NAME}/3", config=config)
    found = client.get_deployment("guarded")
    assert [one["version"] for one in found["versions"] if one["state"] == "AVAILABLE"] == [1]
    client.delete_deployment("guarded")
    client.delete_deployment("guarded")
    with pytest.raises(mlflow_error(), match="'guarded' is not there"):
        client.get_deployment("guarded")


def test_inputs_come_as_a_frame_columns_or_rows(team: Team) -> None:
    client = team.client()
    client.create_deployment("asked", f"models:/{NAME}/1", config={**team.config, "canary": "no"})
    rows = frame(2, 4)[["a", "b"]]
    answers = [
        client.predict("asked", inputs)["predictions"]
        for inputs in (rows, rows.to_dict(orient="list"), rows.to_dict(orient="records"))
    ]
    assert answers[0] == answers[1] == answers[2]
    with pytest.raises(mlflow_error(), match="input 'b' is missing"):
        client.predict("asked", rows[["a"]])
    with pytest.raises(mlflow_error(), match="ndarray without names"):
        client.predict("asked", rows.to_numpy())
    with pytest.raises(mlflow_error(), match="nobody"):
        client.predict("nobody", rows)


def test_an_alias_that_moves_during_the_release_takes_its_verdict_nowhere_else(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = registry_of(team.registry)

    def moved(request: Release) -> ReleaseResult:
        registry.set_registered_model_alias(NAME, "moving", "3")
        return release(request)

    registry.set_registered_model_alias(NAME, "moving", "2")
    monkeypatch.setattr("tidegate_pipelines.mlflow_deployments.client.release", moved)
    config = {**team.config, "canary": "no"}
    assert team.client().create_deployment("moved", f"models:/{NAME}@moving", config=config)["version"] == 2
    assert registry.get_model_version(NAME, "2").tags["tidegate.allowed"] == "true"


def test_a_model_of_no_registry_gets_the_next_free_number(team: Team, endpoints: Endpoints) -> None:
    source = registry_of(team.registry).get_model_version(NAME, "1").source
    client, config = team.client(), {**team.config, "canary": "no"}
    assert client.create_deployment("loose", source, config=config)["version"] == 1
    assert client.update_deployment("loose", source, config=config)["version"] == 2
    assert available(endpoints, "loose") == [2]


@pytest.mark.parametrize(
    ("uri", "changes", "words"),
    [
        (f"models:/{NAME}/1", {"held_out": ""}, "has no held_out: give data that training never saw"),
        (f"models:/{NAME}/1", {"private_key": ""}, "has no private_key"),
        (f"models:/{NAME}/1", {"held_uot": "x"}, "held_uot"),
        (f"models:/{NAME}/1", {"pairs": "many"}, "many"),
        (f"models:/{NAME}/1", {"version": "9"}, "has a number in the registry: leave version out"),
        (f"models:/{NAME}/77", {}, f"{NAME} 77 in MLflow at .* is not registered"),
        (f"models:/{NAME}/latest", {}, "has no number"),
        ("runs:/0123456789abcdef0123456789abcdef/model", {}, "cannot be downloaded"),
    ],
)
def test_bad_input_is_said_with_its_cure(team: Team, uri: str, changes: dict[str, str], words: str) -> None:
    with pytest.raises(mlflow_error(), match=words):
        team.client().create_deployment("wrong", uri, config={**team.config, **changes})
    assert not (team.world.repository / "wrong").exists()


def test_a_flavor_that_the_model_does_not_have_and_an_update_of_nothing_are_refused(team: Team) -> None:
    with pytest.raises(mlflow_error(), match=r"no flavor 'onnx' \(it has python_function, sklearn\)"):
        team.client().create_deployment("wrong", f"models:/{NAME}/1", "onnx", team.config)
    with pytest.raises(mlflow_error(), match="'wrong' serves nothing: use `mlflow deployments create`"):
        team.client().update_deployment("wrong", f"models:/{NAME}/1", config=team.config)
    with pytest.raises(mlflow_error(), match="no model URI"):
        team.client().update_deployment("wrong", config=team.config)


def test_an_engine_that_is_not_there_and_an_address_that_is_none_are_said() -> None:
    with pytest.raises(mlflow_error(), match=f"127.0.0.1:{(port := free_port())}"):
        client_of(f"tidegate://127.0.0.1:{port}").list_deployments()
    with pytest.raises(mlflow_error(), match="is not host:port"):
        client_of("tidegate://engine")


def test_from_the_command_line_an_error_is_its_sentence_alone() -> None:
    from click.testing import CliRunner
    from mlflow.deployments.cli import commands

    done = CliRunner().invoke(commands, ["list", "-t", f"tidegate://127.0.0.1:{(port := free_port())}"])
    assert done.output.startswith(f"Error: no engine answers at 127.0.0.1:{port} "), done.output
    assert done.exit_code == 1


def test_a_bare_target_is_the_engine_of_the_environment(
    team: Team, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CONTROL", endpoints.control)
    assert isinstance(client_of("tidegate").list_deployments(), list)


def test_run_local_serves_without_gates_until_it_is_interrupted(team: Team, tmp_path: Path) -> None:
    ready, any_port = tmp_path / "ready.json", "127.0.0.1:0"
    addresses = ("-C", f"grpc_address={any_port}", "-C", f"rest_address={any_port}", "-C", f"ready_file={ready}")
    rows = ("-C", f"sample={team.folder / 'training.parquet'}", "-C", "label=late")
    model = ("--name", "here", "-m", f"models:/{NAME}/1", "-C", f"tracking_uri={team.registry}", *rows)
    command = [sys.executable, "-m", "mlflow", "deployments", "run-local", "-t", "tidegate", *model, *addresses]
    with Running(command, tmp_path / "said.txt") as process:
        eventually(lambda: ready.is_file() or process.poll() is not None, 120.0)
        assert ready.is_file(), (tmp_path / "said.txt").read_text()[-3000:]
        with Client(json.loads(ready.read_text())["grpc"]) as client:
            assert client.predict("here", {"a": [0.5], "b": [0.0]}).version == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


class Running:
    """A process that is gone at the end, whatever happens."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        self._command, self._output = command, output

    def __enter__(self) -> subprocess.Popen[bytes]:
        with self._output.open("wb") as stream:
            self._process = subprocess.Popen(self._command, stdout=stream, stderr=subprocess.STDOUT)
        return self._process

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)
