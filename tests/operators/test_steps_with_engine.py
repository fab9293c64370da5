"""The steps against a real engine process: what serves before, during and after each, above all when one says no."""

from __future__ import annotations

import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.support.eventually import eventually
from tests.support.gate import Gate
from tests.support.releases import (
    BETTER,
    NONSENSE,
    RAISES,
    UNLOADABLE,
    Doors,
    World,
    available,
    make_world,
    patient,
    serve_first,
    traffic,
)

from tidegate_operators.steps import (
    CanaryRule,
    canary,
    find_baseline,
    find_log,
    promote,
    push,
    rollback,
    serving_directory,
    withdraw,
)
from tidegate_serving.client import Client
from tidegate_serving.contract.errors import (
    DeadlinePassed,
    FailedPrecondition,
    ModelFailed,
    NotAdmitted,
    NotFound,
    PermissionRefused,
    Refused,
    Tampered,
    TidegateError,
    Unavailable,
)
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import State
from tidegate_serving.contract.verdict import Outcome
from tidegate_serving.control_client import Aspired, ControlClient, ServableStatus

RULE = CanaryRule(pairs=30, within_seconds=30.0)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A servable of the test's own."""
    return f"m{zlib.crc32(request.node.name.encode()):08x}"


def status(doors: Doors, name: str) -> ServableStatus:
    with ControlClient(doors.control) as client:
        found = client.status(name).servable(name)
    assert found is not None
    return found


def given_up(doors: Doors, name: str, version: int) -> bool:
    """Whether the engine tries a failed version no more; it keeps the path of what it does."""
    found = status(doors, name).version(version)
    return found is not None and found.state is State.END and found.path == ""


def answered_by(doors: Doors, name: str) -> int:
    with Client(doors.grpc) as client:
        return client.predict(name, {"x": np.array([0.5], dtype=np.float32), "kind": ["a"]}).version


def test_a_first_version_is_pushed_and_promoted(doors: Doors, world: World, name: str) -> None:
    directory = world.admitted(1, name=name)
    assert find_baseline(control=doors.control, directory=directory) is None
    pushed = push(directory=directory, control=doors.control)
    assert (str(pushed.id), pushed.beside) == (f"{name}:1", None)
    result = canary(control=doors.control, servable=name, version=1)
    assert result.outcome is Outcome.WARN
    assert promote(control=doors.control, servable=name, version=1).ended == ()
    assert status(doors, name).label("stable") == 1
    assert serving_directory(control=doors.control, servable=name) == directory


def test_a_second_version_takes_over_without_a_failed_request(doors: Doors, world: World, name: str) -> None:
    first = serve_first(doors, world, name)
    second = world.admitted(2, BETTER, name=name)
    assert find_baseline(control=doors.control, directory=second) == first
    assert find_log(control=doors.control) == world.log
    with traffic(doors.grpc, name) as versions:
        assert push(directory=second, control=doors.control).beside == 1
        assert answered_by(doors, name) == 1
        result = canary(control=doors.control, servable=name, version=2, rule=RULE)
        assert result.outcome is Outcome.PASS, result.sentence
        assert result.numbers.compared >= 30
        assert 0.0 < result.numbers.max_difference <= 0.031
        assert status(doors, name).tee is None
        assert set(versions) == {1}
        assert promote(control=doors.control, servable=name, version=2).ended == (1,)
        seen = len(versions)
        eventually(lambda: len(versions) > seen + 5)
        assert set(versions[seen + 1 :]) == {2}
    assert available(doors, name) == [2]
    written = json.loads((second.parent / "2.report" / "canary.json").read_text())
    assert (written["outcome"], written["compared"]) == ("PASS", result.numbers.compared)


def test_pushing_what_serves_already_changes_nothing(doors: Doors, world: World, name: str) -> None:
    first = serve_first(doors, world, name)
    assert push(directory=first, control=doors.control).beside is None
    assert status(doors, name).label("stable") == 1
    assert available(doors, name) == [1]


@pytest.mark.parametrize("broken", ["model.py", "manifest.json", "2.verdict.json"])
def test_one_flipped_byte_is_refused_by_name_and_the_old_version_answers(
    doors: Doors, world: World, name: str, broken: str
) -> None:
    serve_first(doors, world, name)
    second = world.admitted(2, BETTER, name=name)
    path = verdict_path(second) if broken.endswith("verdict.json") else second / broken
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(NotAdmitted, match=path.name):
        push(directory=second, control=doors.control)
    assert available(doors, name) == [1]
    assert answered_by(doors, name) == 1


def test_a_version_without_a_verdict_or_with_one_that_denies_is_refused(doors: Doors, world: World, name: str) -> None:
    serve_first(doors, world, name)
    second = world.publish(2, name=name)
    with pytest.raises(NotAdmitted, match=r"2\.verdict\.json"):
        push(directory=second, control=doors.control)
    world.admit(second, allowed=False)
    with pytest.raises(Refused, match="made for a test"):
        push(directory=second, control=doors.control)
    assert available(doors, name) == [1]


def test_a_verdict_that_was_exchanged_on_the_way_is_refused(doors: Doors, world: World, name: str) -> None:
    directory = world.publish(1, name=name)
    handed_over = world.admit(directory)
    world.admit(directory)
    with pytest.raises(Tampered, match=r"1\.verdict\.json"):
        push(directory=directory, control=doors.control, verdict=handed_over)


def test_a_version_outside_the_engines_roots_is_refused(doors: Doors, world: World, tmp_path: Path, name: str) -> None:
    elsewhere = make_world(tmp_path).publish(1, name=name)
    with pytest.raises(PermissionRefused, match="outside the engine's roots"):
        push(directory=elsewhere, control=doors.control)


def test_a_version_that_does_not_load_leaves_nothing_behind(doors: Doors, world: World, name: str) -> None:
    serve_first(doors, world, name)
    with pytest.raises(TidegateError, match="cannot be imported"):
        push(directory=world.admitted(2, UNLOADABLE, name=name), control=doors.control)
    assert available(doors, name) == [1]
    assert status(doors, name).label("stable") == 1
    eventually(lambda: given_up(doors, name, 2))
    third = world.admitted(3, name=name)
    push(directory=third, control=doors.control)
    assert available(doors, name) == [1, 3]


@pytest.mark.parametrize(("source", "words"), [(NONSENSE, "NaN or infinity"), (RAISES, "with an error")])
def test_a_canary_that_answers_nonsense_fails_and_is_taken_out(
    doors: Doors, world: World, name: str, source: str, words: str
) -> None:
    serve_first(doors, world, name)
    push(directory=world.admitted(2, source, name=name), control=doors.control)
    with traffic(doors.grpc, name) as versions:
        result = canary(control=doors.control, servable=name, version=2, rule=RULE)
    assert result.outcome is Outcome.FAIL
    assert words in result.sentence
    assert set(versions) == {1}
    assert status(doors, name).tee is None
    assert available(doors, name) == [1]


def test_a_canary_without_traffic_is_inconclusive_and_is_taken_out(doors: Doors, world: World, name: str) -> None:
    serve_first(doors, world, name)
    push(directory=world.admitted(2, name=name), control=doors.control)
    rule = CanaryRule(pairs=5, within_seconds=1.0)
    result = canary(control=doors.control, servable=name, version=2, rule=rule)
    assert result.outcome is Outcome.INCONCLUSIVE
    assert "0 requests were teed" in result.sentence
    assert available(doors, name) == [1]
    with pytest.raises(FailedPrecondition, match="push it before its canary"):
        canary(control=doors.control, servable=name, version=2, rule=rule)


def test_a_version_that_is_not_live_cannot_be_promoted(doors: Doors, world: World, name: str) -> None:
    serve_first(doors, world, name)
    with pytest.raises(FailedPrecondition, match=r"live: 1"):
        promote(control=doors.control, servable=name, version=2)
    assert available(doors, name) == [1]


def test_a_version_that_does_not_load_is_not_called_stable(doors: Doors, world: World, name: str) -> None:
    serve_first(doors, world, name)
    broken = world.admitted(2, UNLOADABLE, name=name)
    with ControlClient(doors.control) as client:
        first = Aspired(1, *find_serving(client, name))
        second = Aspired(2, broken, read_manifest(broken)[1])
        client.set_aspired(name, [first, second], labels={"stable": 1}, requested_by="test")
    with pytest.raises(ModelFailed, match="this file cannot be imported"):
        promote(control=doors.control, servable=name, version=2)
    assert available(doors, name) == [1]


def find_serving(client: ControlClient, name: str) -> tuple[Path, str]:
    servable = client.status(name).servable(name)
    assert servable is not None
    return Path(servable.versions[0].path), servable.versions[0].manifest_digest


def test_a_promotion_waits_for_the_last_request_of_the_version_that_leaves(
    doors: Doors, world: World, name: str, tmp_path: Path
) -> None:
    gate = Gate.make(tmp_path / "gate")
    push(directory=world.admitted(1, patient(gate), name=name), control=doors.control)
    promote(control=doors.control, servable=name, version=1)
    push(directory=world.admitted(2, name=name), control=doors.control)
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(answered_by, doors, name)
        eventually(gate.entered.exists)
        with pytest.raises(DeadlinePassed, match=f"{name}:1 is not END"):
            promote(control=doors.control, servable=name, version=2, timeout=0.5)
        assert answered_by(doors, name) == 2
        gate.open()
        assert last.result(30) == 1
    eventually(lambda: available(doors, name) == [2])


def test_a_candidate_is_withdrawn_but_never_what_clients_get(doors: Doors, world: World, name: str) -> None:
    serve_first(doors, world, name)
    push(directory=world.admitted(2, name=name), control=doors.control)
    assert withdraw(control=doors.control, servable=name, version=2, reason="test")
    assert available(doors, name) == [1]
    assert not withdraw(control=doors.control, servable=name, version=2, reason="test")
    with pytest.raises(FailedPrecondition, match="roll back"):
        withdraw(control=doors.control, servable=name, version=1, reason="test")


def test_a_rollback_skips_what_a_gate_refused(doors: Doors, world: World, name: str) -> None:
    serve_first(doors, world, name)
    world.admit(world.publish(2, name=name), allowed=False)
    world.publish(3, name=name)
    push(directory=world.admitted(4, name=name), control=doors.control)
    promote(control=doors.control, servable=name, version=4)
    with traffic(doors.grpc, name) as versions:
        back = rollback(control=doors.control, servable=name)
        eventually(lambda: bool(versions) and versions[-1] == 1)
    assert (back.id.version, back.ended) == (1, (4,))
    assert available(doors, name) == [1]
    assert status(doors, name).label("stable") == 1


def test_a_rollback_that_leads_nowhere_says_so_and_changes_nothing(doors: Doors, world: World, name: str) -> None:
    with pytest.raises(FailedPrecondition, match="nothing serves"):
        rollback(control=doors.control, servable=name)
    serve_first(doors, world, name)
    with pytest.raises(NotFound, match="below 1"):
        rollback(control=doors.control, servable=name)
    with pytest.raises(NotFound, match=r"m[0-9a-f]+:9 cannot serve, publish it again"):
        rollback(control=doors.control, servable=name, version=9)
    assert available(doors, name) == [1]


def test_a_rollback_to_a_version_that_was_kept_takes_effect_at_once(doors: Doors, world: World, name: str) -> None:
    serve_first(doors, world, name)
    push(directory=world.admitted(2, BETTER, name=name), control=doors.control)
    assert promote(control=doors.control, servable=name, version=2, keep_previous=True).ended == ()
    assert available(doors, name) == [1, 2]
    assert answered_by(doors, name) == 2
    with ControlClient(doors.control) as client:
        began = time.monotonic()
        done = client.rollback(name, requested_by="anna", reason="it is late")
        assert answered_by(doors, name) == 1
        assert time.monotonic() - began < 1.0
    assert (done.from_version, done.to_version) == (2, 1)
    found = status(doors, name)
    assert (found.requested_by, found.reason, found.wanted_labels) == ("anna", "it is late", {"stable": 1})


def test_two_releases_at_once_do_not_overwrite_each_other(doors: Doors, world: World, name: str) -> None:
    serve_first(doors, world, name)
    directories = [world.admitted(version, name=name) for version in range(2, 6)]
    with ThreadPoolExecutor(4) as pool:
        pushed = list(pool.map(lambda directory: push(directory=directory, control=doors.control), directories))
    assert len({one.revision for one in pushed}) == 4
    assert available(doors, name) == [1, 2, 3, 4, 5]
    assert status(doors, name).label("stable") == 1


def test_an_engine_that_does_not_answer_is_no_first_version(world: World, name: str) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        find_baseline(control="127.0.0.1:1", directory=world.publish(1, name=name))
