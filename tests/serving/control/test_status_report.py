"""What status says is desired: versions and revision of one and the same moment, whoever pushes meanwhile."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from tests.support.lifecycle.operations_bench import OperationsBench

from tidegate_serving.admission import Standing
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.control.status import ServableStatus
from tidegate_serving.control.status_report import StatusReport
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.sources.problems import SourceProblems


class NoOrigins:
    """A manager whose versions came from nowhere."""

    def origins(self, of: object) -> dict[Any, Any]:
        return {}


def status(bench: OperationsBench) -> ServableStatus:
    events = EventBus()
    monitor = StateMonitor(events)
    for version in bench.there():
        events.publish(StateChange(ServableId("m", version), State.AVAILABLE))
    report = StatusReport(
        cast("Any", NoOrigins()),
        monitor,
        bench.reconciler,
        bench.rpc,
        bench.owners,
        SourceProblems(),
        lambda digest: Standing(),
        lambda servable: {},
    )
    found = report.make("m", ("", ""), "").servable("m")
    assert found is not None
    return found


def desired(bench: OperationsBench) -> DesiredState:
    return status(bench).desired


@pytest.mark.parametrize("part", ["rpc", "reconciler"])
def test_a_push_while_status_is_gathered_never_lends_its_revision_to_what_was_before(
    bench: OperationsBench, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    bench.push(1)
    asked, before = getattr(bench, part), getattr(bench, part).desired
    pushed: list[int] = []

    def desired_then_pushed(name: str) -> DesiredState | None:
        found: DesiredState | None = before(name)
        if not pushed:
            pushed.append(2)
            bench.push(1, 2)
        return found

    monkeypatch.setattr(asked, "desired", desired_then_pushed)
    found = desired(bench)
    assert (sorted(found.numbers), found.revision) in (([1], 1), ([1, 2], 2))


def test_who_pushed_last_is_known_of_what_nobody_wants_any_more(bench: OperationsBench) -> None:
    bench.push(1)
    bench.push()
    assert (desired(bench).revision, desired(bench).requested_by, desired(bench).versions) == (2, "ben", ())


def test_a_servable_that_another_source_took_over_keeps_its_revision(bench: OperationsBench) -> None:
    bench.push(1)
    bench.push()
    bench.want(2)
    assert (desired(bench).revision, desired(bench).requested_by, sorted(desired(bench).numbers)) == (2, "", [2])


def test_what_stable_keeps_off_the_newest_version_is_in_status_and_once_in_the_log(
    bench: OperationsBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.push(1, 2, stable=1)
    bench.reconciler.refresh("m")
    said = [record.getMessage() for record in caplog.records if "has label `stable`" in record.getMessage()]
    assert said == [
        "requests for m without version and label go to version 1, which has label `stable`, not to the newest, "
        "version 2: move or remove the label to change that"
    ]
    note = "gets the requests without version and label, by label `stable`; version 2 is newer"
    assert status(bench).ordinary == 1
    assert {one.version: one.notes for one in status(bench).versions} == {1: (note,), 2: ()}
    bench.push(1, 2, stable=2)
    assert status(bench).ordinary == 2
    assert {one.version: one.notes for one in status(bench).versions} == {1: (), 2: ()}
