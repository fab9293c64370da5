"""The export to other servers as orchestrators' tasks do it: an operator of Airflow's, a component of Kubeflow's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.operators.steps.export.test_kserve import FLIGHTS, kubeconfig
from tests.operators.steps.export.test_repositories import onnx_model
from tests.support.neighbours.certificates import Authority
from tests.support.orchestrators.killer import Killer
from tests.support.orchestrators.kubernetes_server import kubernetes, service
from tests.support.orchestrators.launched_task import Task
from tests.support.release.world import NAME, World, make_world

from tidegate_operators.steps import Publication, publish, upload
from tidegate_operators.steps.export import Export
from tidegate_serving.contract.errors import InvalidInput

Run = Callable[..., tuple[str, str]]
"""Runs an export with these parameters; where the server has the version from, and in which words it was refused."""


@pytest.fixture(params=["airflow", "kfp"])
def run(request: pytest.FixtureRequest, killer: Killer, tmp_path: Path) -> Run:
    def airflow(**parameters: Any) -> tuple[str, str]:
        texts = {name: value if isinstance(value, list) else str(value) for name, value in parameters.items()}
        told = {"operator": "ExportModelOperator", "arguments": texts, "run": "run"}
        found = killer("airflow", told)
        return (found["result"] or {}).get("place", ""), found["words"]

    def kfp(**parameters: Any) -> tuple[str, str]:
        task = Task("export", tmp_path / "task")
        status = task(parameters)
        return ("", task.said) if status else (task.parameter("place"), "")

    return airflow if request.param == "airflow" else kfp


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return make_world(tmp_path)


def admitted(world: World, files: Path, platform: str, example: Any) -> Path:
    publication = Publication(
        files=files,
        servable="twice",
        version=1,
        platform=platform,
        repository=world.repository,
        example={"x": example},
    )
    directory = publish(publication).directory
    world.admit(directory)
    return directory


def test_triton_gets_the_version_and_nobody_else_is_asked(run: Run, world: World) -> None:
    directory = admitted(world, onnx_model(world.root / "model.onnx", ["n", 3]), "onnx", [0.0, 0.0, 0.0])
    told = {"directory": str(directory), "trusted": [str(world.public_key)], "repository": str(world.root / "triton")}
    for _ in range(2):
        assert run(server="triton", max_batch_size=8, **told) == (str(world.root / "triton/twice/1"), "")
    assert "max_batch_size: 8" in (world.root / "triton/twice/config.pbtxt").read_text()
    verdict = directory.with_name("1.verdict.json")
    verdict.unlink()
    told["repository"] = str(world.root / "other")
    place, words = run(server="triton", **told)
    assert place == ""
    assert f"{directory} is not exported" in words
    assert not (world.root / "other").exists()


def test_tensorflow_serving_gets_the_version_with_a_label(run: Run, world: World, saved_models: Path) -> None:
    directory = admitted(world, saved_models / "half_plus_two" / "1", "tensorflow", 0.0)
    place, words = run(
        server="tensorflow-serving",
        directory=str(directory),
        trusted=[str(world.public_key)],
        repository=str(world.root / "served"),
        config=str(world.root / "models.config"),
        labels=["stable"],
    )
    assert (place, words) == (str(world.root / "served/twice/1"), "")
    assert (world.root / "served/twice/1/saved_model.pb").is_file()
    assert 'key: "stable"' in (world.root / "models.config").read_text()


def test_kserve_is_pointed_to_where_the_version_lies(run: Run, world: World) -> None:
    address = upload(world.admitted(1), f"file://{world.root}/store")
    with kubernetes(Authority(world.root).issue("kubernetes")) as cluster:
        cluster.objects[FLIGHTS] = service("flights")
        config = kubeconfig(world.root, cluster.server)
        told = {"directory": address, "trusted": [str(world.public_key)], "kubeconfig": str(config)}
        assert run(server="kserve", service="flights", **told) == (address, "")
        found = cluster.objects[FLIGHTS]
        assert found["spec"]["predictor"]["model"]["storageUri"] == address
        assert found["metadata"]["annotations"]["tidegate/version"] == f"{NAME}:1"
        place, words = run(server="kserve", service="prices", **told)
    assert place == ""
    assert "answers 404" in words


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"server": "seldon"}, "server 'seldon' is unknown: use tensorflow-serving, triton, kserve"),
        ({"server": "triton"}, "triton needs repository, which is missing"),
        ({"server": "kserve", "service": "s"}, "kserve needs storage_uri"),
        ({"server": "triton", "repository": "/r", "labels": ("a",)}, "labels is nothing that triton takes"),
        (
            {"server": "kserve", "service": "s", "storage_uri": "s3://b/m/1", "repository": "/r"},
            "repository is nothing",
        ),
    ],
)
def test_what_a_server_does_not_take_is_named(said: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Export(**said)
