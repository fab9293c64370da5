"""The release without an orchestrator: all steps, and what is left when the gates, the engine or the canary say no."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.releases import BETTER, CRASHES, Doors, World, engine, make_world, traffic

from tidegate_operators.steps import CanaryRule
from tidegate_pipelines.release import Release, Released, release
from tidegate_serving.contract.errors import NotFound, Refused
from tidegate_serving.contract.repository import report_directory, verdict_path
from tidegate_serving.contract.servable import State
from tidegate_serving.contract.signing import load_public_key, read_verdict
from tidegate_serving.control_client import ControlClient


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def doors(world: World) -> Iterator[Doors]:
    with engine(world) as doors:
        yield doors


def run(world: World, doors: Doors, directory: Path, rule: CanaryRule, heard: list[str] | None = None) -> Released:
    request = Release(
        directory=directory, held_out=world.held_out, private_key=world.private_key, control=doors.control, rule=rule
    )
    return release(request, on_step=(heard if heard is not None else []).append)


def available(doors: Doors, name: str) -> list[int]:
    with ControlClient(doors.control) as client:
        found = client.status(name).servable(name)
    return [] if found is None else [v.version for v in found.versions if v.state is State.AVAILABLE]


RULE = CanaryRule(pairs=20, within_seconds=30.0)


def test_two_releases_follow_each_other_under_traffic(world: World, doors: Doors) -> None:
    heard: list[str] = []
    first = run(world, doors, world.publish(1, name="walk"), RULE, heard)
    assert heard == ["validate", "push", "canary", "promote"]
    assert first.validated.verdict.first
    assert first.validated.report.is_file()
    directory = world.publish(2, BETTER, name="walk")
    with traffic(doors.grpc, "walk"):
        second = run(world, doors, directory, RULE)
    assert (second.pushed.beside, second.promoted.ended) == (1, (1,))
    verdict = read_verdict(verdict_path(directory), [load_public_key(world.public_key)])
    assert verdict == second.validated.verdict
    assert verdict.baseline == first.pushed.manifest_digest
    assert not verdict.first
    assert available(doors, "walk") == [2]


def test_what_the_gates_refuse_is_never_pushed(world: World, doors: Doors) -> None:
    run(world, doors, world.publish(1, name="refused"), RULE)
    heard: list[str] = []
    directory = world.publish(2, CRASHES, name="refused")
    with pytest.raises(Refused) as refused:
        run(world, doors, directory, RULE, heard)
    assert heard == ["validate"]
    verdict = read_verdict(verdict_path(directory), [load_public_key(world.public_key)])
    assert not verdict.allowed
    assert refused.value.message == verdict.sentence
    assert [gate.gate for gate in verdict.gates if gate.outcome.value == "FAIL"] == ["robustness"]
    assert (report_directory(directory) / "index.html").is_file()
    assert available(doors, "refused") == [1]


def test_a_canary_that_does_not_pass_leaves_the_old_version_alone(world: World, doors: Doors) -> None:
    run(world, doors, world.publish(1, name="quiet"), RULE)
    with pytest.raises(Refused, match="0 requests were teed"):
        run(world, doors, world.publish(2, BETTER, name="quiet"), CanaryRule(pairs=5, within_seconds=0.5))
    assert available(doors, "quiet") == [1]


def test_missing_evidence_is_named(world: World, doors: Doors, tmp_path: Path) -> None:
    directory = world.publish(1, name="evidence")
    request = Release(directory, tmp_path / "none.parquet", world.private_key, doors.control)
    with pytest.raises(NotFound, match=r"held-out data .*none\.parquet is missing"):
        release(request)
    with pytest.raises(NotFound, match=r"key file .*none\.key is missing"):
        release(Release(directory, world.held_out, tmp_path / "none.key", doors.control))
    assert not verdict_path(directory).exists()
