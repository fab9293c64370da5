"""Releases over two real engines: all or none, laggards are named, and who comes late takes what the others have."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import adding, make_validator, publish

from tidegate_operators.airflow.waiting import version_state
from tidegate_operators.steps import promote, push, reconcile, rollback, withdraw
from tidegate_operators.steps.engine_group import Outcomes
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import (
    FailedPrecondition,
    InvalidInput,
    NotAdmitted,
    NotFound,
    Superseded,
    TidegateError,
    Unavailable,
)
from tidegate_serving.control_client import ControlClient

NOBODY = "127.0.0.1:1"


def test_of_engines_that_fail_one_that_refuses_says_of_which_kind_the_error_is() -> None:
    away, refuses = (NOBODY, Unavailable("no engine answers")), ("127.0.0.1:2", Superseded("m:2 is not live any more"))
    failed = [(EngineConnection.of(address), error) for address, error in (away, refuses)]
    both: Outcomes[int] = Outcomes((), failed)
    with pytest.raises(Superseded, match=r"2 of 2 engines failed: .*no engine answers; .*not live any more"):
        both.all()
    with pytest.raises(Unavailable):
        replace(both, failed=failed[:1]).all()


@dataclass(frozen=True)
class Group:
    """Two engines over one root."""

    root: Path
    engines: tuple[EngineProcess, EngineProcess]

    @property
    def addresses(self) -> list[str]:
        return [engine.addresses["control"] for engine in self.engines]

    @property
    def control(self) -> str:
        return ",".join(self.addresses)

    def publish(self, name: str, version: int) -> Path:
        return publish(self.root, name, version, adding(version))

    def wanted(self, name: str) -> list[tuple[list[int], int | None]]:
        """Versions and the stable one, by engine."""
        found = []
        for address in self.addresses:
            with ControlClient(address) as control:
                desired = control.desired(name)
            found.append((sorted(desired.numbers), desired.stable))
        return found


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    folder = tmp_path_factory.mktemp("group")
    (folder / "models").mkdir()
    values = {"roots": [folder / "models"], "allow_unverified": True}
    with EngineProcess(folder / "a", **values) as first, EngineProcess(folder / "b", **values) as second:
        yield Group(folder / "models", (first, second))


def test_a_release_goes_to_every_engine_and_back(group: Group) -> None:
    for number in (1, 2):
        push(directory=group.publish("walk", number), control=group.control)
        promote(control=group.control, servable="walk", version=number)
    assert group.wanted("walk") == [([2], 2)] * 2
    assert rollback(control=group.control, servable="walk", version=1).id.version == 1
    assert group.wanted("walk") == [([1], 1)] * 2


def test_a_push_that_one_engine_refuses_stays_in_none(group: Group) -> None:
    push(directory=group.publish("half", 1), control=group.control)
    other = shutil.copytree(group.root / "half" / "1", group.root / "aside")
    push(directory=group.publish("half", 2), control=group.addresses[0])
    shutil.rmtree(group.root / "half" / "2")
    changed = publish(group.root, "half", 2, adding(9))
    with pytest.raises(FailedPrecondition) as refused:
        push(directory=changed, control=group.control)
    assert f"half:2 was pushed nowhere, because 1 of 2 engines failed: {group.addresses[0]}: " in refused.value.message
    assert group.wanted("half") == [([1, 2], 1), ([1], 1)]
    assert other.is_dir()


def test_an_engine_that_is_away_keeps_a_push_from_beginning_to_count(group: Group) -> None:
    with pytest.raises(Unavailable, match=rf"1 of 3 engines failed: {NOBODY}: no engine answers"):
        push(directory=group.publish("away", 1), control=f"{group.control},{NOBODY}")
    assert group.wanted("away") == [([], None)] * 2


def test_a_promotion_begins_when_every_engine_has_the_version_and_names_those_that_have_not(group: Group) -> None:
    push(directory=group.publish("late", 1), control=group.control)
    promote(control=group.control, servable="late", version=1)
    push(directory=group.publish("late", 2), control=group.addresses[0])
    with pytest.raises(FailedPrecondition) as refused:
        promote(control=group.control, servable="late", version=2, timeout=5)
    begun = "the promotion of late:2 has not begun, because 1 of 2 engines failed"
    assert refused.value.message.startswith(f"{begun}: {group.addresses[1]}: late:2 is not live")
    assert group.wanted("late") == [([1, 2], 1), ([1], 1)]
    push(directory=group.root / "late" / "2", control=group.control)
    promote(control=group.control, servable="late", version=2)
    assert group.wanted("late") == [([2], 2)] * 2


def test_a_promotion_that_reached_one_engine_reaches_the_other_when_it_is_tried_again(group: Group) -> None:
    push(directory=group.publish("again", 1), control=group.control)
    promote(control=group.control, servable="again", version=1)
    push(directory=group.publish("again", 2), control=group.control)
    promote(control=group.addresses[0], servable="again", version=2)
    assert group.wanted("again") == [([2], 2), ([1, 2], 1)]
    promote(control=group.control, servable="again", version=2)
    assert group.wanted("again") == [([2], 2)] * 2


def test_who_waits_for_a_group_waits_for_all_its_engines(group: Group) -> None:
    engines = EngineConnection.of(group.control)
    push(directory=group.publish("seen", 1), control=group.control)
    push(directory=group.publish("seen", 2), control=group.addresses[0])
    assert version_state(EngineConnection.of(group.addresses[0]), "seen", 2).state == "AVAILABLE"
    lacking = version_state(engines, "seen", 2)
    assert (lacking.state, lacking.why) == (
        None,
        f"the engine at {group.addresses[1]} was not given it, push it there",
    )
    push(directory=group.root / "seen" / "2", control=group.control)
    assert version_state(engines, "seen", 2).state == "AVAILABLE"
    assert version_state(EngineConnection.of(f"{group.control},{NOBODY}"), "seen", 2).state is None


def test_a_version_is_withdrawn_from_all(group: Group) -> None:
    for number in (1, 2):
        push(directory=group.publish("gone", number), control=group.control)
    assert withdraw(control=group.control, servable="gone", version=2, reason="no")
    assert group.wanted("gone") == [([1], 1)] * 2
    assert not withdraw(control=group.control, servable="gone", version=2, reason="no")


def test_an_engine_that_comes_late_takes_what_the_others_have(group: Group, tmp_path: Path) -> None:
    push(directory=group.publish("come", 1), control=group.control)
    promote(control=group.control, servable="come", version=1)
    with EngineProcess(tmp_path, roots=[group.root], allow_unverified=True) as third:
        control = f"{third.addresses['control']},{group.control}"
        done = reconcile(control=control, servable="come", requested_by="anna")
        assert done.changed == (third.addresses["control"],)
        with third.control() as client:
            desired = client.desired("come")
        assert (sorted(desired.numbers), desired.stable, desired.requested_by) == ([1], 1, "anna")
        assert reconcile(control=control, servable="come").changed == ()
        push(directory=group.publish("come", 2), control=third.addresses["control"])
        assert reconcile(control=control, servable="come").changed == (third.addresses["control"],)
        with third.control() as client:
            assert client.desired("come").numbers == {1}
    with pytest.raises(FailedPrecondition, match="was told of 'nobody'"):
        reconcile(control=group.control, servable="nobody")
    with pytest.raises(Unavailable, match="nothing was changed, because 1 of 3 engines failed"):
        reconcile(control=f"{group.control},{NOBODY}", servable="come")


def test_of_two_that_differ_the_one_that_was_told_last_counts(group: Group) -> None:
    push(directory=group.publish("two", 1), control=group.control)
    push(directory=group.publish("two", 2), control=group.addresses[1])
    assert reconcile(control=group.control, servable="two").changed == (group.addresses[0],)
    assert group.wanted("two") == [([1, 2], 1)] * 2


def test_the_command_shows_each_engine_and_names_the_one_that_is_away(
    group: Group, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tidegate = Command(monkeypatch, capsys)
    assert tidegate("push", group.publish("shown", 1), "--control", group.control).returncode == 0
    shown = tidegate("status", "shown", "--control", group.control)
    assert [f"engine {address}" in shown.stdout for address in group.addresses] == [True, True]
    assert shown.stdout.count("AVAILABLE") == 2
    away = tidegate("status", "shown", "--control", f"{group.control},{NOBODY}", "--json")
    assert away.returncode == 2
    rows = json.loads(away.stdout)["engines"]
    assert [row.get("error_code") for row in rows] == [None, None, "unavailable"]
    assert f"1 of 3 engines failed: {NOBODY}" in away.stderr
    said = tidegate("reconcile", "shown", "--control", group.control).stdout
    assert said == f"every engine of {group.control} is told to serve versions 1 of shown\n"


def test_what_is_for_one_engine_says_so_of_a_group(group: Group) -> None:
    with pytest.raises(InvalidInput, match="is a group of 2 engines: name one of them"):
        ControlClient(group.control)


def test_a_worker_without_the_folder_is_told(group: Group) -> None:
    with pytest.raises(NotFound, match=r"is not on this machine: .*mount the engine's root here"):
        push(directory=group.root / "nothing" / "1", control=group.control)
    with pytest.raises(TidegateError, match="push it before it is promoted"):
        promote(control=group.control, servable="nothing", version=1)


def test_an_engine_that_comes_late_takes_what_the_other_serves_although_its_verdict_s_date_has_passed(
    tmp_path: Path,
) -> None:
    validator = make_validator(tmp_path / "keys")
    version = publish(tmp_path / "models", "m", 1, adding(1))
    validator.sign(version)
    values = {"roots": [tmp_path / "models"], "trusted_keys": [validator.public]}
    with EngineProcess(tmp_path / "a", **values) as first, EngineProcess(tmp_path / "b", **values) as late:
        push(directory=version, control=first.addresses["control"])
        validator.sign(version, valid_for=-timedelta(days=1))
        with pytest.raises(NotAdmitted, match="expired"):
            push(directory=version, control=late.addresses["control"])
        control = f"{first.addresses['control']},{late.addresses['control']}"
        assert reconcile(control=control, servable="m").changed == (late.addresses["control"],)
