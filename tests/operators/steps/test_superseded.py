"""Releases of one model that run at once: one wins, and each of the others ends with who took its place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.eventually import eventually
from tests.support.models.gate import Gate
from tests.support.release.world import BETTER, HONEST, Endpoints, World, available, serve_first, traffic

from tidegate_operators.steps import CanaryRule, Evidence, canary, judged_against, promote, push, rollback
from tidegate_operators.steps.canary_group import CanaryGroup
from tidegate_pipelines.release import Release, release
from tidegate_serving.contract.errors import FailedPrecondition, Superseded, TidegateError
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient
from tidegate_validation.canary.judgement import CanaryResult
from tidegate_validation.canary.rule import CanaryMode

RULE = CanaryRule(pairs=20, within_seconds=30.0, max_error_share=0.3, max_slow_share=0.9)


def prepared(world: World, endpoints: Endpoints, name: str, *versions: int, source: str = BETTER) -> list[Path]:
    """Version 1 serves, the others are admitted."""
    serve_first(endpoints, world, name)
    return [world.admitted(version, source, name=name) for version in versions]


def shadow_of(endpoints: Endpoints, name: str) -> int | None:
    with ControlClient(endpoints.control) as client:
        shadow = client.desired(name).shadow
    return None if shadow is None else shadow.version


def is_split(endpoints: Endpoints, name: str) -> bool:
    with ControlClient(endpoints.control) as client:
        found = client.status(name).servable(name)
    return found is not None and any(one.action == "split" for one in found.overrides)


@contextmanager
def tried(endpoints: Endpoints, name: str, version: int, rule: CanaryRule) -> Iterator[Future[CanaryResult]]:
    """A canary that is under way."""
    with ThreadPoolExecutor(1) as threads:
        trying = threads.submit(canary, control=endpoints.control, servable=name, version=version, rule=rule)
        eventually(lambda: shadow_of(endpoints, name) == version or is_split(endpoints, name))
        yield trying


def after_a_push(monkeypatch: pytest.MonkeyPatch, act: Callable[[ControlClient], object]) -> None:
    """Somebody acts as soon as a desired state is written, before whoever wrote it goes on."""
    written = ControlClient.set_desired_state

    def and_then(client: ControlClient, *arguments: Any) -> int:
        revision = written(client, *arguments)
        act(client)
        return revision

    monkeypatch.setattr(ControlClient, "set_desired_state", and_then)


def test_who_was_overtaken_by_a_promotion_is_told_so_by_canary_and_promotion(
    world: World, endpoints: Endpoints
) -> None:
    control, name = endpoints.control, "overtaken"
    for directory in prepared(world, endpoints, name, 2, 3):
        push(directory=directory, control=control)
    promote(control=control, servable=name, version=3)
    for step in (canary, promote):
        with pytest.raises(Superseded, match="overtaken:2 is not live any more, overtaken:3 serves: another release"):
            step(control=control, servable=name, version=2)
    with pytest.raises(FailedPrecondition, match="overtaken:9 is not live") as never:
        promote(control=control, servable=name, version=9)
    assert not isinstance(never.value, Superseded)
    assert available(endpoints, name) == [3]


def test_a_version_judged_before_a_newer_one_was_promoted_is_not_pushed(world: World, endpoints: Endpoints) -> None:
    control, name = endpoints.control, "judged"
    older, newer = prepared(world, endpoints, name, 2, 3)
    push(directory=newer, control=control, judged_against=1)
    promote(control=control, servable=name, version=3)
    with pytest.raises(Superseded, match="judged:2 was judged while judged:1 served, and meanwhile the newer judged:3"):
        push(directory=older, control=control, judged_against=1)
    with pytest.raises(Superseded, match="judged while nothing served"):
        push(directory=older, control=control, judged_against=0)
    assert available(endpoints, name) == [3]
    push(directory=older, control=control, judged_against=3)
    push(directory=older, control=control)
    assert available(endpoints, name) == [2, 3]


def test_what_a_version_was_judged_against_is_known_unless_a_person_named_it(world: World) -> None:
    baseline = world.publish(4, name="named")
    alone = Evidence(world.held_out)
    assert judged_against(alone, Evidence(world.held_out, baseline=baseline)) == 4
    assert judged_against(alone, alone) == 0
    assert judged_against(Evidence(world.held_out, baseline=baseline), Evidence(world.held_out)) is None


def test_of_two_canaries_at_once_that_of_the_newer_version_goes_on(world: World, endpoints: Endpoints) -> None:
    control, name = endpoints.control, "shadows"
    for directory in prepared(world, endpoints, name, 2, 3):
        push(directory=directory, control=control)
    with ThreadPoolExecutor() as threads:
        older = threads.submit(canary, control=control, servable=name, version=2, rule=RULE)
        eventually(lambda: shadow_of(endpoints, name) == 2)  # no traffic yet, so it waits
        newer = threads.submit(canary, control=control, servable=name, version=3, rule=RULE)
        with pytest.raises(Superseded, match="the canary of the newer shadows:3 is under way, so shadows:2 gets none"):
            older.result(60)
        assert shadow_of(endpoints, name) == 3
        assert available(endpoints, name) == [1, 3]
        with traffic(endpoints.grpc, name):
            assert newer.result(60).allowed
    again = push(directory=world.repository / name / "2", control=control)
    with ThreadPoolExecutor() as threads:
        newer = threads.submit(canary, control=control, servable=name, version=3, rule=RULE)
        eventually(lambda: shadow_of(endpoints, name) == 3)
        with pytest.raises(Superseded, match="the canary of the newer shadows:3 is under way"):
            canary(control=control, servable=name, version=again.id.version, rule=RULE)
        with traffic(endpoints.grpc, name):
            assert newer.result(60).allowed
    assert available(endpoints, name) == [1, 3]


def test_a_push_that_is_overtaken_while_it_loads_does_not_wait_for_its_end(
    world: World, endpoints: Endpoints, tmp_path: Path
) -> None:
    control, name = endpoints.control, "loading"
    gate = Gate.make(tmp_path / "gate")
    slow = f"open({str(gate.entered)!r}, 'w').close()\nopen({str(gate.pipe)!r}, 'rb').read()\n{HONEST}"
    (older,) = prepared(world, endpoints, name, 2, source=slow)
    with ThreadPoolExecutor() as threads:
        loading = threads.submit(push, directory=older, control=control, timeout=600.0)
        eventually(gate.entered.exists)
        promoted = threads.submit(promote, control=control, servable=name, version=1)
        with pytest.raises(Superseded, match="loading:2 is not live any more, loading:1 serves"):
            loading.result(60)
        gate.open()
        assert promoted.result(60).ended == (2,)
    eventually(lambda: available(endpoints, name) == [1])


@pytest.mark.parametrize("mode", CanaryMode)
def test_a_version_that_was_promoted_while_its_canary_ran_goes_on_serving(
    world: World, endpoints: Endpoints, mode: CanaryMode
) -> None:
    """As where a task is cleared and runs beside its first run, or two runs release one version."""
    control, name = endpoints.control, f"twice_{mode.value}"
    (directory,) = prepared(world, endpoints, name, 2)
    push(directory=directory, control=control)
    rule = CanaryRule(pairs=10**6, within_seconds=120.0, mode=mode, step_seconds=100.0)
    with traffic(endpoints.grpc, name), tried(endpoints, name, 2, rule) as trying:
        promote(control=control, servable=name, version=2)
        why = rf"{name}:2 was promoted by tidegate \(promote {name}:2\) before its canary ended: it serves"
        with pytest.raises(Superseded, match=why):
            trying.result(60)
        assert available(endpoints, name) == [2]
    assert not is_split(endpoints, name)


@pytest.mark.parametrize("mode", CanaryMode)
@pytest.mark.parametrize("action", ["pin", "block"])
def test_a_canary_that_an_operator_takes_the_requests_from_ends_with_who_and_why(
    world: World, endpoints: Endpoints, action: str, mode: CanaryMode
) -> None:
    control, name = endpoints.control, f"{action}_{mode.value}"
    (directory,) = prepared(world, endpoints, name, 2)
    push(directory=directory, control=control)
    ends = (action, mode) != ("pin", CanaryMode.SHADOW)  # copies go on where ordinary traffic is pinned
    rule = CanaryRule(pairs=10**6, within_seconds=120.0 if ends else 2.0, mode=mode, step_seconds=100.0)
    with (
        traffic(endpoints.grpc, name),
        ControlClient(control) as client,
        tried(endpoints, name, 2, rule) as trying,
    ):
        if action == "pin":
            client.pin(name, 1, requested_by="anna", reason="an audit")
        else:
            client.block(name, 2, requested_by="anna", reason="an audit")
        if ends:
            with pytest.raises(
                FailedPrecondition, match=rf"{name}:2 (gets no requests any more.*|was blocked )by anna \(an audit\)"
            ):
                trying.result(60)
        else:
            assert "answers compared" in trying.result(60).sentence
    assert available(endpoints, name) == [1]


@pytest.mark.parametrize("mode", CanaryMode)
@pytest.mark.parametrize("action", ["pin", "block"])
def test_a_canary_that_is_no_longer_beside_what_ordinary_requests_get_ends_with_who_and_why(
    world: World, endpoints: Endpoints, action: str, mode: CanaryMode
) -> None:
    control, name = endpoints.control, f"beside_{action}_{mode.value}"
    prepared(world, endpoints, name, 2, 3)
    push(directory=world.repository / name / "2", control=control)
    promote(control=control, servable=name, version=2)
    push(directory=world.repository / name / "3", control=control)
    rule = CanaryRule(pairs=10**6, within_seconds=120.0, mode=mode, step_seconds=100.0)
    with ControlClient(control) as client, tried(endpoints, name, 3, rule) as trying:
        if action == "pin":
            client.pin(name, 1, requested_by="anna", reason="an audit")
        else:
            client.block(name, 2, requested_by="anna", reason="an audit")
        with pytest.raises(
            FailedPrecondition, match=r"version (1|3).*by anna \(an audit\)|no requests.*by anna \(an audit\)"
        ):
            trying.result(60)


def test_a_canary_is_tried_beside_the_version_that_ordinary_requests_are_pinned_to(
    world: World, endpoints: Endpoints
) -> None:
    control, name = endpoints.control, "pinned_before"
    prepared(world, endpoints, name, 2, 3)
    push(directory=world.repository / name / "2", control=control)
    promote(control=control, servable=name, version=2)
    push(directory=world.repository / name / "3", control=control)
    with ControlClient(control) as client:
        client.pin(name, 1, requested_by="anna", reason="an audit")
    eventually(lambda: available(endpoints, name) == [1, 2, 3])
    with traffic(endpoints.grpc, name) as versions:
        assert canary(control=control, servable=name, version=3, rule=RULE).numbers.compared >= 20
    assert set(versions) == {1}


def test_a_canary_that_begins_as_its_version_is_promoted_leaves_no_shadow(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, name = endpoints.control, "begins"
    (directory,) = prepared(world, endpoints, name, 2)
    push(directory=directory, control=control)
    seen = CanaryGroup.begin

    def and_then_promoted(group: CanaryGroup, identity: ServableId) -> Any:
        found = seen(group, identity)
        promote(control=control, servable=name, version=2)
        return found

    monkeypatch.setattr(CanaryGroup, "begin", and_then_promoted)
    with pytest.raises(Superseded, match=rf"{name}:2 was promoted by tidegate \(promote {name}:2\)"):
        canary(control=control, servable=name, version=2, rule=RULE)
    assert shadow_of(endpoints, name) is None
    assert available(endpoints, name) == [2]


def test_a_promotion_does_not_wait_for_the_end_of_a_version_that_was_pinned_meanwhile(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, name = endpoints.control, "pinned_again"
    (directory,) = prepared(world, endpoints, name, 2)
    push(directory=directory, control=control)
    after_a_push(monkeypatch, lambda client: client.pin(name, 1, requested_by="anna", reason="an audit"))
    assert promote(control=control, servable=name, version=2, timeout=60.0).ended == ()
    eventually(lambda: available(endpoints, name) == [1, 2])


def test_a_promotion_that_is_overtaken_while_the_old_version_unloads_says_by_what(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, name = endpoints.control, "rolled_back"
    (directory,) = prepared(world, endpoints, name, 2)
    push(directory=directory, control=control)
    after_a_push(monkeypatch, lambda client: client.rollback(name, 1, requested_by="anna", reason="an audit"))
    overtaken = rf"{name}:2 was promoted, and {name}:1 took its place since, by anna \(an audit\)"
    gone = f"{name}:2 is not live any more, {name}:1 serves"  # where it has unloaded before anybody looked
    with pytest.raises(Superseded, match=f"{overtaken}|{gone}"):
        promote(control=control, servable=name, version=2, timeout=60.0)
    eventually(lambda: available(endpoints, name) == [1])


def test_a_rollback_does_not_wait_for_the_end_of_a_version_that_was_pinned_meanwhile(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, name, waits = endpoints.control, "kept_after_all", ControlClient.wait_until
    (directory,) = prepared(world, endpoints, name, 2)
    push(directory=directory, control=control)
    promote(control=control, servable=name, version=2)

    def pinned_before(client: ControlClient, servable: str, version: int, state: State, *rest: Any, **more: Any) -> Any:
        if state is State.END:
            client.pin(name, version, requested_by="anna", reason="an audit")
        return waits(client, servable, version, state, *rest, **more)

    monkeypatch.setattr(ControlClient, "wait_until", pinned_before)
    assert rollback(control=control, servable=name, timeout=15.0).ended == ()


def test_a_promotion_does_not_wait_for_a_version_that_is_blocked_meanwhile(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, name, waits = endpoints.control, "blocked_first", ControlClient.wait_until
    push(directory=world.admitted(1, name=name), control=control)

    def blocked_after(client: ControlClient, servable: str, version: int, *rest: Any, **more: Any) -> Any:
        found = waits(client, servable, version, *rest, **more)
        client.block(name, 1, requested_by="anna", reason="late answers")
        return found

    monkeypatch.setattr(ControlClient, "wait_until", blocked_after)
    with pytest.raises(FailedPrecondition, match=rf"{name}:1 was blocked by anna \(late answers\)"):
        promote(control=control, servable=name, version=1, timeout=20.0)


def test_a_promotion_that_a_newer_version_overtakes_says_so_although_the_old_one_has_ended(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, name, waits = endpoints.control, "overtaken", ControlClient.wait_until
    second, third = prepared(world, endpoints, name, 2, 3)
    push(directory=second, control=control)

    def overtaken_before(
        client: ControlClient, servable: str, version: int, state: State, *rest: Any, **more: Any
    ) -> Any:
        if state is State.END:
            monkeypatch.setattr(ControlClient, "wait_until", waits)
            push(directory=third, control=control)
            promote(control=control, servable=name, version=3)
        return waits(client, servable, version, state, *rest, **more)

    monkeypatch.setattr(ControlClient, "wait_until", overtaken_before)
    with pytest.raises(Superseded, match=rf"{name}:2 was promoted, and {name}:3 took its place since"):
        promote(control=control, servable=name, version=2)


@pytest.mark.parametrize("mode", CanaryMode)
def test_a_canary_of_a_model_that_is_frozen_meanwhile_tells_its_result_and_what_stays(
    world: World, endpoints: Endpoints, mode: CanaryMode
) -> None:
    control, name = endpoints.control, f"frozen_{mode.value}"
    (directory,) = prepared(world, endpoints, name, 2)
    push(directory=directory, control=control)
    rule = CanaryRule(pairs=10**6, within_seconds=2.0, mode=mode, step_seconds=100.0)
    with (
        traffic(endpoints.grpc, name),
        ControlClient(control) as client,
        tried(endpoints, name, 2, rule) as trying,
    ):
        client.override("freeze", name, requested_by="anna", reason="an audit")
        why = rf"^The canary {name}:2 .* But {name}:2 stays as it is, .* frozen by anna \(an audit\)"
        with pytest.raises(FailedPrecondition, match=why):
            trying.result(60)
    assert available(endpoints, name) == [1, 2]


def test_of_many_releases_at_once_one_wins_and_the_others_say_why_not(world: World, endpoints: Endpoints) -> None:
    count, name = 4, "many"
    serve_first(endpoints, world, name)
    directories = [world.publish(2 + number, BETTER, name=name) for number in range(count)]
    policy = world.policy("robustness")
    together = threading.Barrier(count)

    def one(directory: Path) -> tuple[str, str]:
        together.wait(60)
        evidence = Evidence(world.held_out, policy=policy)
        try:
            release(Release(directory, evidence, world.private_key, endpoints.control, RULE))
        except TidegateError as error:
            return error.code, error.message
        return "released", f"{name}:"

    with ThreadPoolExecutor(count) as threads, traffic(endpoints.grpc, name) as versions:
        ended = list(threads.map(one, directories))
    assert {how for how, _ in ended} == {"released", "superseded"}, ended
    assert all(f"{name}:" in why for _, why in ended), ended
    winners = [2 + number for number, (how, _) in enumerate(ended) if how == "released"]
    assert available(endpoints, name) == [max(winners)]
    assert list(dict.fromkeys(versions)) == [1, *winners][: len(set(versions))]
    assert shadow_of(endpoints, name) is None
