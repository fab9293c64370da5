"""Components whose pods and engine share no folder: each finds the version in an object store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine.process import EngineProcess
from tests.support.orchestrators.launched_task import Task
from tests.support.release.world import BETTER, HONEST, NAME, SIGNATURE, World, make_world, traffic

RULE = {"pairs": 10, "within_seconds": 60.0, "max_error_share": 0.3, "max_slow_share": 0.9}


class Apart:
    """Runs components, each in a pod that has no folder of another's, but for keys, data and the log."""

    def __init__(self, world: World, engine: EngineProcess) -> None:
        self.world, self.engine, self.store = world, engine, f"file://{world.root}/store"
        self.pods = 0

    def pod(self, component: str, **parameters: Any) -> Task:
        """A task that came through."""
        task = self.tried(component, **parameters)
        assert task.said == "" or "tidegate:" not in task.said, task.said
        return task

    def tried(self, component: str, **parameters: Any) -> Task:
        """Runs one and leaves nothing of its pod."""
        self.pods += 1
        task = Task(component, self.world.root / f"pod-{self.pods}")
        task({"control": self.engine.addresses["control"], **parameters})
        for left in (self.world.root / "home", self.world.repository):
            shutil.rmtree(left, ignore_errors=True)
        return task

    def published(self, version: int, source: str) -> str:
        files = self.world.root / f"trained-{version}.py"
        files.write_text(source)
        return self.pod(
            "publish",
            servable=NAME,
            version=version,
            platform="python",
            repository=str(self.world.repository),
            files=[str(files)],
            signature=json.dumps(SIGNATURE.to_dict()),
            training=str(self.world.held_out),
            label="late",
            store=self.store,
        ).parameter("directory")

    def evidence(self) -> dict[str, Any]:
        return {
            "held_out": str(self.world.held_out),
            "private_key": str(self.world.private_key),
            "policy": str(self.world.policy("quality")),
        }


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Apart]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    world = make_world(tmp_path)
    stores = {"url": f"file://{tmp_path}/store", "cache": str(tmp_path / "engine-cache")}
    with EngineProcess(
        tmp_path / "engine", trusted_keys=[world.public_key], log_path=world.log, **{"push_stores.main": stores}
    ) as engine:
        yield Apart(world, engine)


def test_a_release_of_an_address_needs_no_volume_in_common(apart: Apart) -> None:
    for version, source in ((1, HONEST), (2, BETTER)):
        address = apart.published(version, source)
        assert address == f"{apart.store}/{NAME}/{version}"
        judged = apart.pod("validate", directory=address, **apart.evidence())
        digest = judged.parameter("verdict_digest")
        against = int(judged.parameter("judged_against"))
        assert against == version - 1
        apart.pod("push", directory=address, verdict_digest=digest, judged_against=against)
        named = {"servable": NAME, "version": version}
        if version > 1:
            shutil.rmtree(apart.world.root / "engine-cache" / NAME / str(version))  # as on another machine
            with traffic(apart.engine.addresses["grpc"]):
                tried = apart.pod("canary", directory=address, rule=RULE, fail_on_refusal=True, **named)
                assert tried.parameter("allowed") == "true"
                looked = apart.pod("canary", rule=RULE, fail_on_refusal=True, **named)
                assert looked.parameter("allowed") == "true", "the engine says where it has the version from"
        apart.pod("promote", **named)
    with apart.engine.control() as client:
        desired = client.desired(NAME)
    assert (desired.stable, [one.address for one in desired.versions]) == (2, [address])


def test_a_folder_is_pushed_by_way_of_the_store(apart: Apart) -> None:
    directory = apart.world.admitted(1)
    pushed = apart.pod("push", directory=str(directory), store=apart.store)
    assert (pushed.parameter("servable"), pushed.parameter("version")) == (NAME, "1")
    with apart.engine.control() as client:
        (live,) = client.desired(NAME).versions
    assert live.address == f"{apart.store}/{NAME}/1"


def test_a_canary_of_one_version_beside_the_folder_of_another_is_named(apart: Apart) -> None:
    directory = apart.world.admitted(2)
    task = apart.tried("canary", servable=NAME, version=1, directory=str(directory))
    assert f"parameter 'directory' names {NAME}:2, and the canary is that of {NAME}:1" in task.said
