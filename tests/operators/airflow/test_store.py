"""A release whose workers and engine share no folder: each task finds the version in an object store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.operators.airflow.test_bad_input import AT_ONCE, Tasks
from tests.support.engine.process import EngineProcess
from tests.support.orchestrators.killer import Killer
from tests.support.release.world import BETTER, HONEST, NAME, SIGNATURE, World, make_world, traffic

from tidegate_serving.contract.repository import verdict_path

RULE = {"pairs": 10, "within_seconds": 60.0, "max_error_share": 0.3, "max_slow_share": 0.9}


@dataclass(frozen=True)
class Apart:
    """A worker, and an engine with a cache of its own; both know the store, and the log is mounted."""

    world: World
    engine: EngineProcess
    tasks: Tasks

    @property
    def store(self) -> str:
        return f"file://{self.world.root}/store"

    def run(self, operator: str, **arguments: Any) -> dict[str, Any]:
        found = self.tasks.run(operator, arguments)
        assert found["ended"] == "done", found
        result: dict[str, Any] = found["result"]
        return result

    def published(self, version: int, source: str = HONEST, **more: Any) -> dict[str, Any]:
        files = self.world.root / f"trained-{version}.py"
        files.write_text(source)
        (self.world.root / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
        return self.run(
            "PublishModelOperator",
            files=str(files),
            servable=NAME,
            version=version,
            platform="python",
            signature=str(self.world.root / "signature.json"),
            training=str(self.world.held_out),
            label_column="late",
            repository=str(self.world.repository),
            **more,
        )

    def evidence(self) -> dict[str, Any]:
        return {
            "held_out": str(self.world.held_out),
            "private_key": str(self.world.private_key),
            "policy": str(self.world.policy("quality")),
        }

    def leave(self) -> None:
        """What this worker had is on no machine any more; the next task runs on another."""
        self.world.repository.rename(self.world.root / f"left-{len(list(self.world.root.glob('left-*')))}")


@pytest.fixture
def apart(tmp_path: Path, killer: Killer) -> Iterator[Apart]:
    world = make_world(tmp_path)
    stores = {"url": f"file://{tmp_path}/store", "cache": str(tmp_path / "engine-cache")}
    with EngineProcess(
        tmp_path / "engine", trusted_keys=[world.public_key], log_path=world.log, **{"push_stores.main": stores}
    ) as engine:
        tasks = Tasks(killer, engine.addresses["control"], XDG_CACHE_HOME=str(tmp_path / "home"))
        yield Apart(world, engine, tasks)


def test_a_version_that_was_published_into_a_store_needs_no_folder_in_common(apart: Apart) -> None:
    first = apart.published(1, store=apart.store)
    assert first["address"] == f"{apart.store}/{NAME}/1"
    for operator, more in (
        ("ValidateModelOperator", apart.evidence()),
        ("ServeModelOperator", {}),
        ("PromoteOperator", {}),
    ):
        apart.world.repository.mkdir(exist_ok=True)
        apart.leave()
        first = apart.run(operator, directory=first, **more)
    assert (first["version"], first["address"]) == (1, f"{apart.store}/{NAME}/1")
    apart.world.repository.mkdir()
    second = apart.run("ValidateModelOperator", directory=apart.published(2, BETTER), **apart.evidence())
    assert "address" not in second
    assert not (apart.world.root / "store" / NAME / "2").exists()
    second = apart.run("ServeModelOperator", directory=second, store=apart.store)
    apart.leave()
    with traffic(apart.engine.addresses["grpc"]):
        second = apart.run("CanaryOperator", directory=second, rule=RULE)
        apart.run("PromoteOperator", directory=second)
    with apart.engine.control() as client:
        desired = client.desired(NAME)
    assert (desired.stable, [one.address for one in desired.versions]) == (2, [f"{apart.store}/{NAME}/2"])


def test_a_verdict_reaches_the_store_and_one_that_denies_uploads_nothing_new(apart: Apart) -> None:
    wrong = apart.published(1, HONEST.replace("np.clip(inputs", "1 - np.clip(inputs"))
    told = {"directory": wrong, "store": apart.store, **apart.evidence()}
    assert apart.tasks("ValidateModelOperator", **told)[:2] == (AT_ONCE, "refused")
    assert not (apart.world.root / "store").exists()
    good = apart.run("ValidateModelOperator", directory=apart.published(2), store=apart.store, **apart.evidence())
    stored = verdict_path(apart.world.root / "store" / NAME / "2")
    assert stored.read_bytes() == Path(good["verdict_path"]).read_bytes()
    stored.write_text("{}")
    kind, code, words = apart.tasks("ServeModelOperator", directory={**good, "directory": "/nowhere/tiny/2"})
    assert (kind, code) == (AT_ONCE, "tampered")
    assert f"the verdict beside {apart.store}/{NAME}/2 is not the one that the gate handed over" in words


def test_a_version_is_named_by_its_address_alone(apart: Apart) -> None:
    address = apart.published(1, store=apart.store)["address"]
    apart.leave()
    validated = apart.run("ValidateModelOperator", directory=address, **apart.evidence())
    served = apart.run("ServeModelOperator", directory=address, verdict=validated)
    assert (served["servable"], served["version"], served["address"]) == (NAME, 1, address)
    kind, code, words = apart.tasks("PromoteOperator", directory=f"{apart.store}/{NAME}/9")
    assert (kind, code) == (AT_ONCE, "not_found")
    assert f"{NAME}/9" in words
