"""The steps against a real engine process: what serves before, during and after each, above all when one says no."""

from __future__ import annotations

import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.eventually import eventually
from tests.support.models.gate import Gate
from tests.support.release.world import (
    BETTER,
    HONEST,
    NONSENSE,
    RAISES,
    UNLOADABLE,
    Endpoints,
    World,
    available,
    make_world,
    patient,
    serve_first,
    traffic,
)

from tidegate_operators.steps import (
    CanaryRule,
    Evidence,
    against_serving,
    await_push,
    begin_push,
    canary,
    find_baseline,
    find_log,
    finish_push,
    promote,
    push,
    rollback,
    serving_directory,
    withdraw,
)
from tidegate_serving.admission import Outcome
from tidegate_serving.client import Client
from tidegate_serving.contract.desired_state import DesiredState, VersionReference
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
from tidegate_serving.control_client import ControlClient, ServableStatus

RULE = CanaryRule(pairs=30, within_seconds=30.0)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A servable of the test's own."""
    return f"m{zlib.crc32(request.node.name.encode()):08x}"


def status(endpoints: Endpoints, name: str) -> ServableStatus:
    with ControlClient(endpoints.control) as client:
        found = client.status(name).servable(name)
    assert found is not None
    return found


def given_up(endpoints: Endpoints, name: str, version: int) -> bool:
    """Whether the engine tries a failed version no more; it keeps the path of what it does."""
    found = status(endpoints, name).version(version)
    return found is not None and found.state is State.END and found.path == ""


def answered_by(endpoints: Endpoints, name: str) -> int:
    with Client(endpoints.grpc) as client:
        return client.predict(name, {"x": np.array([0.5], dtype=np.float32), "kind": ["a"]}).version


def test_a_first_version_is_pushed_and_promoted(endpoints: Endpoints, world: World, name: str) -> None:
    directory = world.admitted(1, name=name)
    assert find_baseline(control=endpoints.control, directory=directory) is None
    pushed = push(directory=directory, control=endpoints.control)
    assert (str(pushed.id), pushed.beside) == (f"{name}:1", None)
    result = canary(control=endpoints.control, servable=name, version=1)
    assert result.outcome is Outcome.WARN
    assert promote(control=endpoints.control, servable=name, version=1).ended == ()
    assert status(endpoints, name).label("stable") == 1
    assert serving_directory(control=endpoints.control, servable=name) == directory


def test_a_second_version_takes_over_without_a_failed_request(endpoints: Endpoints, world: World, name: str) -> None:
    first = serve_first(endpoints, world, name)
    second = world.admitted(2, BETTER, name=name)
    assert find_baseline(control=endpoints.control, directory=second) == first
    assert find_log(control=endpoints.control) == world.log
    evidence = against_serving(Evidence(world.held_out), directory=second, control=endpoints.control)
    assert evidence == Evidence(world.held_out, baseline=first, log_root=world.log)
    named = replace(evidence, baseline=second, log_root=second)
    assert against_serving(named, directory=second, control=endpoints.control) == named
    with traffic(endpoints.grpc, name) as versions:
        assert push(directory=second, control=endpoints.control).beside == 1
        assert answered_by(endpoints, name) == 1
        result = canary(control=endpoints.control, servable=name, version=2, rule=RULE)
        assert result.outcome is Outcome.PASS, result.sentence
        assert result.numbers.compared >= 30
        assert 0.0 < result.numbers.max_difference <= 0.031
        assert status(endpoints, name).desired.shadow is None
        assert set(versions) == {1}
        assert promote(control=endpoints.control, servable=name, version=2).ended == (1,)
        seen = len(versions)
        eventually(lambda: len(versions) > seen + 5)
        assert set(versions[seen + 1 :]) == {2}
    assert available(endpoints, name) == [2]
    written = json.loads((second.parent / "2.report" / "canary.json").read_text())
    assert (written["outcome"], written["compared"]) == ("PASS", result.numbers.compared)


def test_pushing_what_serves_already_changes_nothing(endpoints: Endpoints, world: World, name: str) -> None:
    first = serve_first(endpoints, world, name)
    assert push(directory=first, control=endpoints.control).beside is None
    assert status(endpoints, name).label("stable") == 1
    assert available(endpoints, name) == [1]


@pytest.mark.parametrize("broken", ["model.py", "manifest.json", "2.verdict.json"])
def test_one_flipped_byte_is_refused_by_name_and_the_old_version_answers(
    endpoints: Endpoints, world: World, name: str, broken: str
) -> None:
    serve_first(endpoints, world, name)
    second = world.admitted(2, BETTER, name=name)
    path = verdict_path(second) if broken.endswith("verdict.json") else second / broken
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(NotAdmitted, match=path.name):
        push(directory=second, control=endpoints.control)
    assert available(endpoints, name) == [1]
    assert answered_by(endpoints, name) == 1


def test_a_version_without_a_verdict_or_with_one_that_denies_is_refused(
    endpoints: Endpoints, world: World, name: str
) -> None:
    serve_first(endpoints, world, name)
    second = world.publish(2, name=name)
    with pytest.raises(NotAdmitted, match=r"2\.verdict\.json"):
        push(directory=second, control=endpoints.control)
    world.admit(second, allowed=False)
    with pytest.raises(Refused, match="made for a test"):
        push(directory=second, control=endpoints.control)
    assert available(endpoints, name) == [1]


def test_a_verdict_that_was_exchanged_on_the_way_is_refused(endpoints: Endpoints, world: World, name: str) -> None:
    directory = world.publish(1, name=name)
    handed_over = world.admit(directory)
    world.admit(directory)
    with pytest.raises(Tampered, match=r"1\.verdict\.json"):
        push(directory=directory, control=endpoints.control, verdict=handed_over)


def test_a_version_outside_the_engines_roots_is_refused(
    endpoints: Endpoints, world: World, tmp_path: Path, name: str
) -> None:
    elsewhere = make_world(tmp_path).publish(1, name=name)
    with pytest.raises(PermissionRefused, match="outside the engine's roots"):
        push(directory=elsewhere, control=endpoints.control)


def test_a_version_that_does_not_load_leaves_nothing_behind(endpoints: Endpoints, world: World, name: str) -> None:
    serve_first(endpoints, world, name)
    with pytest.raises(TidegateError, match="cannot be imported"):
        push(directory=world.admitted(2, UNLOADABLE, name=name), control=endpoints.control)
    assert available(endpoints, name) == [1]
    assert status(endpoints, name).label("stable") == 1
    eventually(lambda: given_up(endpoints, name, 2))
    third = world.admitted(3, name=name)
    push(directory=third, control=endpoints.control)
    assert available(endpoints, name) == [1, 3]


@pytest.mark.parametrize(("source", "words"), [(NONSENSE, "NaN or infinity"), (RAISES, "with an error")])
def test_a_canary_that_answers_nonsense_fails_and_is_taken_out(
    endpoints: Endpoints, world: World, name: str, source: str, words: str
) -> None:
    serve_first(endpoints, world, name)
    push(directory=world.admitted(2, source, name=name), control=endpoints.control)
    with traffic(endpoints.grpc, name) as versions:
        result = canary(control=endpoints.control, servable=name, version=2, rule=RULE)
    assert result.outcome is Outcome.FAIL
    assert words in result.sentence
    assert set(versions) == {1}
    assert status(endpoints, name).desired.shadow is None
    assert available(endpoints, name) == [1]


def test_a_canary_without_traffic_is_inconclusive_and_is_taken_out(
    endpoints: Endpoints, world: World, name: str
) -> None:
    serve_first(endpoints, world, name)
    push(directory=world.admitted(2, name=name), control=endpoints.control)
    rule = CanaryRule(pairs=5, within_seconds=1.0)
    result = canary(control=endpoints.control, servable=name, version=2, rule=rule)
    assert result.outcome is Outcome.INCONCLUSIVE
    assert "0 requests were shadowed" in result.sentence
    assert available(endpoints, name) == [1]
    with pytest.raises(FailedPrecondition, match="push it again before its canary"):
        canary(control=endpoints.control, servable=name, version=2, rule=rule)


def test_a_version_that_is_not_live_cannot_be_promoted(endpoints: Endpoints, world: World, name: str) -> None:
    serve_first(endpoints, world, name)
    with pytest.raises(FailedPrecondition, match=r"live: 1"):
        promote(control=endpoints.control, servable=name, version=2)
    assert available(endpoints, name) == [1]


def test_a_version_that_does_not_load_is_not_called_stable(endpoints: Endpoints, world: World, name: str) -> None:
    serve_first(endpoints, world, name)
    broken = world.admitted(2, UNLOADABLE, name=name)
    with ControlClient(endpoints.control) as client:
        first = VersionReference(1, *find_serving(client, name))
        second = VersionReference(2, broken, read_manifest(broken)[1])
        client.set_desired_state(DesiredState(name, (first, second), {"stable": 1}, requested_by="test"))
    with pytest.raises(ModelFailed, match="this file cannot be imported"):
        promote(control=endpoints.control, servable=name, version=2)
    assert available(endpoints, name) == [1]


def find_serving(client: ControlClient, name: str) -> tuple[Path, str]:
    servable = client.status(name).servable(name)
    assert servable is not None
    return Path(servable.versions[0].path), servable.versions[0].manifest_digest


def test_a_push_that_ends_by_its_deadline_says_how_long_it_was_waited_for(
    endpoints: Endpoints, world: World, name: str, tmp_path: Path
) -> None:
    gate = Gate.make(tmp_path / "gate")
    wait = f"open({str(gate.pipe)!r}, 'rb').read()\n"
    pushed = begin_push(directory=world.admitted(1, wait + HONEST, name=name), control=endpoints.control)
    try:
        assert not await_push(pushed, control=endpoints.control, patience=0.1)
        with pytest.raises(DeadlinePassed, match=rf"{name}:1 is not AVAILABLE after 122\.[5-9] s, it is LOADING"):
            finish_push(pushed, control=endpoints.control, timeout=2.5, waited=120.0)
    finally:
        gate.open()


def test_a_promotion_waits_for_the_last_request_of_the_version_that_leaves(
    endpoints: Endpoints, world: World, name: str, tmp_path: Path
) -> None:
    gate = Gate.make(tmp_path / "gate")
    push(directory=world.admitted(1, patient(gate), name=name), control=endpoints.control)
    promote(control=endpoints.control, servable=name, version=1)
    push(directory=world.admitted(2, name=name), control=endpoints.control)
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(answered_by, endpoints, name)
        eventually(gate.entered.exists)
        with pytest.raises(DeadlinePassed, match=f"{name}:1 is not END"):
            promote(control=endpoints.control, servable=name, version=2, timeout=0.5)
        assert answered_by(endpoints, name) == 2
        gate.open()
        assert last.result(30) == 1
    eventually(lambda: available(endpoints, name) == [2])


def test_a_candidate_is_withdrawn_but_never_what_clients_get(endpoints: Endpoints, world: World, name: str) -> None:
    serve_first(endpoints, world, name)
    push(directory=world.admitted(2, name=name), control=endpoints.control)
    assert withdraw(control=endpoints.control, servable=name, version=2, reason="test")
    assert available(endpoints, name) == [1]
    assert not withdraw(control=endpoints.control, servable=name, version=2, reason="test")
    with pytest.raises(FailedPrecondition, match="roll back"):
        withdraw(control=endpoints.control, servable=name, version=1, reason="test")


def test_a_rollback_skips_what_a_gate_refused(endpoints: Endpoints, world: World, name: str) -> None:
    serve_first(endpoints, world, name)
    world.admit(world.publish(2, name=name), allowed=False)
    world.publish(3, name=name)
    push(directory=world.admitted(4, name=name), control=endpoints.control)
    promote(control=endpoints.control, servable=name, version=4)
    with traffic(endpoints.grpc, name) as versions:
        back = rollback(control=endpoints.control, servable=name)
        eventually(lambda: bool(versions) and versions[-1] == 1)
    assert (back.id.version, back.ended) == (1, (4,))
    assert available(endpoints, name) == [1]
    assert status(endpoints, name).label("stable") == 1


def test_a_rollback_that_leads_nowhere_says_so_and_changes_nothing(
    endpoints: Endpoints, world: World, name: str
) -> None:
    with pytest.raises(FailedPrecondition, match="nothing serves"):
        rollback(control=endpoints.control, servable=name)
    serve_first(endpoints, world, name)
    with pytest.raises(NotFound, match="below 1"):
        rollback(control=endpoints.control, servable=name)
    with pytest.raises(NotFound, match=r"m[0-9a-f]+:9 cannot serve, publish it again"):
        rollback(control=endpoints.control, servable=name, version=9)
    assert available(endpoints, name) == [1]


def test_a_rollback_to_a_version_that_was_kept_takes_effect_at_once(
    endpoints: Endpoints, world: World, name: str
) -> None:
    serve_first(endpoints, world, name)
    push(directory=world.admitted(2, BETTER, name=name), control=endpoints.control)
    assert promote(control=endpoints.control, servable=name, version=2, keep_previous=True).ended == ()
    assert available(endpoints, name) == [1, 2]
    assert answered_by(endpoints, name) == 2
    with ControlClient(endpoints.control) as client:
        done = client.rollback(name, requested_by="anna", reason="it is late")
        assert answered_by(endpoints, name) == 1
    assert (done.from_version, done.to_version) == (2, 1)
    found = status(endpoints, name)
    desired = found.desired
    assert (desired.requested_by, desired.reason, desired.labels) == ("anna", "it is late", {"stable": 1})


def test_a_push_that_was_killed_is_over_once_it_runs_again(endpoints: Endpoints, world: World, name: str) -> None:
    """What stood behind it is gone with it, whoever of the two wanted the version first."""
    serve_first(endpoints, world, name)
    broken = world.admitted(2, UNLOADABLE, name=name)
    begun = begin_push(directory=broken, control=endpoints.control)
    assert (begun.beside, sorted(status(endpoints, name).desired.numbers)) == (1, [1, 2])
    with pytest.raises(ModelFailed):
        push(directory=broken, control=endpoints.control)
    eventually(lambda: given_up(endpoints, name, 2))
    assert status(endpoints, name).desired.numbers == {1}


def test_a_first_push_that_fails_leaves_no_label(endpoints: Endpoints, world: World, name: str) -> None:
    push(directory=world.admitted(1, name=name), control=endpoints.control)
    with pytest.raises(ModelFailed):
        push(directory=world.admitted(2, UNLOADABLE, name=name), control=endpoints.control)
    assert status(endpoints, name).desired.labels == {}


def test_a_promotion_that_runs_again_waits_for_what_the_first_left_unloading(
    endpoints: Endpoints, world: World, name: str, tmp_path: Path
) -> None:
    gate = Gate.make(tmp_path / "gate")
    push(directory=world.admitted(1, patient(gate), name=name), control=endpoints.control)
    promote(control=endpoints.control, servable=name, version=1)
    push(directory=world.admitted(2, name=name), control=endpoints.control)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(answered_by, endpoints, name)
        eventually(gate.entered.exists)
        for _ in range(2):
            with pytest.raises(DeadlinePassed, match=f"{name}:1 is not END"):
                promote(control=endpoints.control, servable=name, version=2, timeout=1.0)
        gate.open()
        assert held.result(30) == 1
    assert promote(control=endpoints.control, servable=name, version=2).id.version == 2


def test_a_rollback_that_runs_again_goes_back_once(endpoints: Endpoints, world: World, name: str) -> None:
    for version in (1, 2, 3):
        push(directory=world.admitted(version, name=name), control=endpoints.control)
        promote(control=endpoints.control, servable=name, version=version)
    control = endpoints.control
    for _ in range(2):
        done = rollback(control=control, servable=name, once=True, requested_by="airflow", reason="run 1")
        assert (done.id.version, available(endpoints, name)) == (2, [2])
    assert rollback(control=control, servable=name, from_version=3).id.version == 2
    assert rollback(control=control, servable=name, from_version=2).id.version != 2


def test_two_releases_at_once_do_not_overwrite_each_other(endpoints: Endpoints, world: World, name: str) -> None:
    serve_first(endpoints, world, name)
    directories = [world.admitted(version, name=name) for version in range(2, 6)]
    with ThreadPoolExecutor(4) as pool:
        pushed = list(pool.map(lambda directory: push(directory=directory, control=endpoints.control), directories))
    assert len({one.revision for one in pushed}) == 4
    assert available(endpoints, name) == [1, 2, 3, 4, 5]
    assert status(endpoints, name).label("stable") == 1


def test_an_engine_that_does_not_answer_is_no_first_version(world: World, name: str) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        find_baseline(control="127.0.0.1:1", directory=world.publish(1, name=name))
