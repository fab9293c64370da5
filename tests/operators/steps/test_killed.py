"""Steps whose process is killed, at boundaries and at random instants, and run again: they end as without the kill."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.support.orchestrators.killer import Killer, State, state
from tests.support.release.world import (
    BETTER,
    HONEST,
    OFTEN_NAN,
    RAISES,
    SIGNATURE,
    UNLOADABLE,
    Endpoints,
    World,
    rows,
    serve_first,
    traffic,
)

from tidegate_operators.steps import promote, push
from tidegate_serving.contract.manifest import read_manifest, verify_files


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    one = Killer()
    yield one
    one.close()


def some(boundaries: int, count: int) -> list[int]:
    """Boundaries from the first to the last, spread evenly; all where they are few."""
    return sorted({1 + round(place * (boundaries - 1) / (count - 1)) for place in range(count)})


def test_a_publication_is_whole_or_not_there_wherever_it_was_killed(killer: Killer, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HONEST)
    (tmp_path / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
    pq.write_table(rows(500, seed=1), tmp_path / "train.parquet")

    def arguments(version: int) -> dict[str, Any]:
        return {
            "files": str(tmp_path / "model.py"),
            "repository": str(tmp_path / "models"),
            "servable": "m",
            "version": version,
            "training": str(tmp_path / "train.parquet"),
            "signature": str(tmp_path / "signature.json"),
        }

    boundaries = killer("publish", arguments(1))["boundaries"]
    assert boundaries > 10
    killed = some(boundaries, 6)
    for boundary in killed:
        version = boundary + 1
        assert killer("publish", arguments(version), boundary)["ended"] == "killed"
        assert killer("publish", arguments(version))["ended"] == "done"
        directory = tmp_path / "models" / "m" / str(version)
        verify_files(read_manifest(directory)[0], directory)
    left = {path.name for path in (tmp_path / "models" / "m").iterdir()}
    assert left == {".publish.lock", "1", *(str(boundary + 1) for boundary in killed)}


@pytest.mark.parametrize("source", [BETTER, UNLOADABLE])
def test_a_push_ends_as_without_the_kill(killer: Killer, endpoints: Endpoints, world: World, source: str) -> None:
    base = f"p{zlib.crc32(source.encode()):08x}"

    def prepared(number: int) -> tuple[str, dict[str, Any]]:
        name = f"{base}{number}"
        serve_first(endpoints, world, name)
        return name, {"directory": str(world.admitted(2, source, name=name)), "control": endpoints.control}

    name, arguments = prepared(0)
    wanted = killer("push", arguments)
    expected = state(endpoints, name)
    for boundary in some(wanted["boundaries"], 6):
        name, arguments = prepared(boundary)
        assert killer("push", arguments, boundary)["ended"] == "killed"
        assert killer("push", arguments)["ended"] == wanted["ended"]
        assert state(endpoints, name) == expected


@pytest.mark.parametrize(
    ("source", "mode"), [(BETTER, "shadow"), (RAISES, "shadow"), (BETTER, "traffic"), (OFTEN_NAN, "traffic")]
)
def test_a_canary_ends_as_without_the_kill(
    killer: Killer, endpoints: Endpoints, world: World, source: str, mode: str
) -> None:
    base = f"c{zlib.crc32(f'{source}{mode}'.encode()):08x}"

    def prepared(number: int) -> tuple[str, dict[str, Any]]:
        name = f"{base}{number}"
        serve_first(endpoints, world, name)
        directory = world.admitted(2, source, name=name)
        push(directory=directory, control=endpoints.control)
        return name, {"directory": str(directory), "control": endpoints.control, "run": f"run {number}", "mode": mode}

    name, arguments = prepared(0)
    with traffic(endpoints.grpc, name):
        wanted = killer("canary", arguments)
    expected = state(endpoints, name)
    assert (expected.shadow, expected.split) == (None, (source, mode) == (BETTER, "traffic")), "until it is promoted"
    for boundary in some(wanted["boundaries"], 3):
        name, arguments = prepared(boundary)
        with traffic(endpoints.grpc, name):
            killer("canary", arguments, boundary)
            assert killer("canary", arguments)["ended"] == wanted["ended"]
        assert state(endpoints, name) == expected
        if expected.split:
            promote(control=endpoints.control, servable=name, version=2)
            assert state(endpoints, name) == State((2,), frozenset({2}), {"stable": 2}, None)


def test_a_promotion_and_a_rollback_happen_once(killer: Killer, endpoints: Endpoints, world: World) -> None:
    def prepared(name: str) -> None:
        for version in (1, 2):
            push(directory=world.admitted(version, name=name), control=endpoints.control)
            promote(control=endpoints.control, servable=name, version=version)
        push(directory=world.admitted(3, name=name), control=endpoints.control)

    def steps(name: str) -> list[tuple[str, dict[str, Any], int]]:
        promotion = {"servable": name, "version": 3, "control": endpoints.control}
        way_back = {"servable": name, "control": endpoints.control, "reason": f"run of {name}"}
        return [("promote", promotion, 3), ("rollback", way_back, 2)]

    prepared("once0")
    boundaries = {step: killer(step, arguments)["boundaries"] for step, arguments, _ in steps("once0")}
    for boundary in some(max(boundaries.values()), 6):
        name = f"once{boundary}"
        prepared(name)
        for step, arguments, serving in steps(name):
            if boundary <= boundaries[step]:
                assert killer(step, arguments, boundary)["ended"] == "killed"
            assert killer(step, arguments)["ended"] == "done"
            assert state(endpoints, name) == State((serving,), frozenset({serving}), {"stable": serving}, None)


def test_a_release_killed_at_random_instants_ends_released(killer: Killer, endpoints: Endpoints, world: World) -> None:
    chance = random.Random(12)
    control = endpoints.control
    policy = str(world.policy("robustness"))
    for number in range(2):
        name = f"random{number}"
        serve_first(endpoints, world, name)
        directory = str(world.publish(2, BETTER, name=name))
        key = {"held_out": str(world.held_out), "private_key": str(world.private_key), "policy": policy}
        release: list[tuple[str, dict[str, Any]]] = [
            ("validate", {"directory": directory, "control": control, **key}),
            ("push", {"directory": directory, "control": control}),
            ("canary", {"directory": directory, "control": control, "run": name}),
            ("promote", {"servable": name, "version": 2, "control": control}),
        ]
        with traffic(endpoints.grpc, name):
            for step, arguments in release:
                killer(step, arguments, seconds=chance.uniform(0.0, 1.0))
                assert killer(step, arguments)["ended"] == "done"
        assert state(endpoints, name) == State((2,), frozenset({2}), {"stable": 2}, None)
