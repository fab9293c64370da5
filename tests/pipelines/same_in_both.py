"""The same version gets the same checks, states and numbers from Airflow's operators and from Kubeflow's components."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.orchestrators.kubeflow import Runs
from tests.support.release.verdicts import comparable, differences
from tests.support.release.world import BETTER, CRASHES, NAME, Endpoints, World, engine, make_world

from tidegate_operators.kfp.components import local_components
from tidegate_pipelines.kubeflow import release_pipeline
from tidegate_serving.contract.repository import report_directory
from tidegate_serving.control_client import ControlClient

RULE = {"pairs": 20, "within_seconds": 1}


@dataclass(frozen=True)
class Place:
    """A world with versions 1 and 2, which are good, and 3, which crashes, and an engine for it alone."""

    world: World
    endpoints: Endpoints

    def directory(self, version: int) -> Path:
        return self.world.repository / NAME / str(version)

    def verdict(self, version: int) -> dict[str, Any]:
        return comparable(self.directory(version), self.world.root)

    def canary(self, version: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((report_directory(self.directory(version)) / "canary.json").read_text())
        return found

    def engine(self) -> dict[str, Any]:
        """What the engine was told and what became of it, without times and folders."""
        with ControlClient(self.endpoints.control) as client:
            found = client.status(NAME).servable(NAME)
        assert found is not None
        desired = found.desired
        versions = [(one.version, one.manifest_digest) for one in desired.versions]
        states = {one.version: (one.state.name, one.error_code) for one in found.versions}
        return {"labels": desired.labels, "shadow": desired.shadow, "versions": versions, "states": states}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    """The very same versions for each of the two."""
    first = make_world(tmp_path_factory.mktemp("airflow"))
    for number, source in ((1, BETTER), (2, BETTER), (3, CRASHES)):
        first.publish(number, source)
    second = World(tmp_path_factory.mktemp("kubeflow"))
    for part in (first.repository, first.private_key.parent):
        shutil.copytree(part, second.root / part.name)
    shutil.copy(first.held_out, second.held_out)
    with engine(first) as one, engine(second) as other:
        yield Place(first, one), Place(second, other)


def by_airflow(place: Place, version: int) -> dict[str, Any]:
    """What the operators say, in a process of their own with an Airflow home of its own."""
    host, _, port = place.endpoints.control.partition(":")
    connection = {"conn_type": "tidegate", "host": host, "port": int(port)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.orchestrators.airflow_release", place.directory(version)),
            *(place.world.held_out, place.world.private_key, json.dumps(RULE)),
        ],
        env={
            **kept,
            "AIRFLOW_HOME": str(place.world.root / "airflow-home"),
            "AIRFLOW_CONN_TIDEGATE_DEFAULT": json.dumps(connection),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def by_kubeflow(place: Place, version: int) -> str:
    """The task that ended the run, empty where it came through."""
    try:
        release_pipeline(local_components())(
            directory=str(place.directory(version)),
            held_out=str(place.world.held_out),
            private_key=str(place.world.private_key),
            control=place.endpoints.control,
            canary=RULE,
        )
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("version", "last", "refused_by"), [(1, "promote", ""), (2, "canary", "require-2"), (3, "validate", "require")]
)
def test_a_version_fares_alike(
    places: tuple[Place, Place], tmp_path: Path, version: int, last: str, refused_by: str
) -> None:
    airflow, kubeflow = places
    runs = Runs(tmp_path / "runs")
    said = by_airflow(airflow, version)
    ended = by_kubeflow(kubeflow, version)
    assert list(said["said"])[-1] == last
    assert refused_by in ended
    assert bool(said["refusal"]) == bool(ended)
    assert differences(airflow.verdict(version), kubeflow.verdict(version)) == []
    assert airflow.verdict(version)["sentence"] == said["said"]["validate"]["sentence"]
    if last != "validate":
        assert differences(airflow.canary(version), kubeflow.canary(version)) == []
        shown = said["said"]["canary"]
        assert (shown["outcome"], shown["sentence"]) == tuple(
            kubeflow.canary(version)[name] for name in ("outcome", "sentence")
        )
    assert airflow.engine() == kubeflow.engine()
    assert runs.tasks() >= {"validate"}
