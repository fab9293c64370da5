"""Rollbacks: back to what served before, further with the next one, never twice, and what is kept warm for them."""

from __future__ import annotations

import pytest
from tests.support.lifecycle.operations_bench import ANNA, OperationsBench

from tidegate_serving.contract.errors import (
    FailedPrecondition,
    NotFound,
)
from tidegate_serving.control.deciding import Requester
from tidegate_serving.control.status_report import in_words


def test_a_rollback_takes_a_pushed_servable_back_and_a_second_one_further(bench: OperationsBench) -> None:
    for version in (1, 2, 3):
        bench.push(version, stable=version)
    bench.manager.slow = {2}
    done = bench.rollback(ANNA, None, None)
    assert (done.from_version, done.to_version) == (3, 2)
    assert done.sentence == "m goes back from version 3 to version 2 as soon as that is loaded"
    bench.hurry()
    assert (bench.there(), bench.labels) == ([2], {"stable": 2})
    assert bench.rollback(ANNA, None, None).to_version == 1
    desired = bench.rpc.desired("m")
    assert desired is not None
    assert (set(desired.numbers), desired.requested_by, desired.revision) == ({1}, "anna", 5)
    assert bench.actions()[-2:] == ["rollback", "rollback"]
    with pytest.raises(NotFound, match="no version below 1"):
        bench.rollback(ANNA, None, None)


def test_a_rollback_that_is_repeated_takes_nobody_back_twice(bench: OperationsBench) -> None:
    for version in (1, 2, 3):
        bench.push(version, stable=version)
    assert bench.rollback(ANNA, None, from_version=3).changed
    again = bench.rollback(ANNA, None, from_version=3)
    assert (again.changed, again.to_version) == (False, 2)
    assert not bench.rollback(ANNA, 2, None).changed
    assert bench.serving == 2


def test_the_version_before_is_kept_warm_and_is_not_read_again(bench: OperationsBench) -> None:
    bench.keep = True
    bench.push(1, stable=1)
    bench.push(2, stable=2)
    assert sorted(bench.there()) == [1, 2]
    assert bench.reconciler.routing("m").kept == {1}
    (bench.root / "m" / "1" / "model.py").unlink()
    done = bench.rollback(ANNA, None, None)
    assert done.sentence == "m went back from version 2 to version 1"
    assert (bench.there(), bench.serving) == ([1], 1)


def test_a_rollback_of_a_watched_servable_pins_what_served_before(bench: OperationsBench) -> None:
    bench.owners.claim("m", "file system source")
    bench.want(1)
    bench.want(2)
    done = bench.rollback(ANNA, None, None)
    assert (done.from_version, done.to_version, bench.serving) == (2, 1, 1)
    bench.want(2)
    assert bench.serving == 1, "the source proposes the bad one again"
    assert bench.actions() == ["rollback"]
    assert [line.text for line in in_words(bench.reconciler.overrides("m"))] == [
        "ordinary traffic is pinned to version 1"
    ]


def test_without_a_memory_a_rollback_looks_beside_what_serves(bench: OperationsBench) -> None:
    for version in (1, 2, 3):
        bench.directory(version)
    bench.unadmitted = {2}
    bench.push(3, stable=3)
    assert bench.rollback(ANNA, None, None).to_version == 1
    with pytest.raises(FailedPrecondition, match="nothing serves under 'other'"):
        bench.rollback(Requester("other", "anna"), None, None)


def test_where_nothing_was_before_what_is_on_its_way_is_taken_back(bench: OperationsBench) -> None:
    bench.push(1, stable=1)
    bench.manager.slow = {2}
    bench.push(1, 2, stable=2)
    assert bench.serving == 1
    done = bench.rollback(ANNA, None, None)
    assert done.sentence == "m stays on version 1, what was to replace it is taken back"
    assert (done.changed, bench.manager.wanted["m"][0].id.version, bench.labels) == (True, 1, {"stable": 1})
    assert bench.actions()[-1] == "rollback"
    with pytest.raises(NotFound, match="no version below 1"):
        bench.rollback(ANNA, None, None)
