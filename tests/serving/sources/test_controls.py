"""Decisions about a servable: each takes effect, is kept and written down, counts after a restart, and changes nothing
when it is so already."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.controls_bench import ANNA, ControlsBench
from tests.support.versions import digest_of, edit_manifest, publish

from tidegate_serving.contract.errors import (
    FailedPrecondition,
    InvalidInput,
    NotAdmitted,
    NotFound,
    PermissionRefused,
    ResourceExhausted,
    TidegateError,
)
from tidegate_serving.control.operations import Asked
from tidegate_serving.journal import Kind
from tidegate_serving.sources.rpc import Push, PushedVersion


def test_a_pin_holds_whatever_the_source_proposes_and_survives_a_restart(bench: ControlsBench) -> None:
    bench.propose(1)
    assert bench.controls.pin(ANNA, 1).changed
    bench.propose(2)
    assert (bench.plane.there(), bench.plane.serving("m")) == ([2, 1], 1)
    again = bench.controls.pin(Asked("m", "ben"), 1)
    assert (again.changed, again.sentence) == (False, "ordinary traffic of m stays on version 1, as it was already")
    bench.restart()
    assert bench.plane.serving("m") == 1
    bench.propose(2)
    assert bench.plane.serving("m") == 1
    bench.controls.unpin(ANNA)
    assert (bench.plane.there(), bench.plane.labels) == ([2], {})
    assert bench.actions() == ["pin", "unpin"]
    (pin, _) = (entry for entry in bench.journal.read() if entry.kind is Kind.CONTROL)
    assert (pin.requested_by, pin.reason, pin.servable, pin.version) == ("anna", "it is late", "m", 1)


def test_a_pinned_version_that_has_to_load_first_takes_over_when_it_is_there(bench: ControlsBench) -> None:
    bench.propose(2)
    bench.directory(1)
    bench.plane.slow = {1}
    done = bench.controls.pin(ANNA, 1)
    assert (done.from_version, done.to_version) == (2, 1)
    assert bench.plane.labels == {"stable": 1}
    assert set(bench.plane.numbers("m")) == {2, 1}
    bench.plane.slow = set()
    assert bench.plane.serving("m") == 1


def test_what_cannot_be_pinned_is_refused_with_what_to_do(bench: ControlsBench, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="knows no servable 'm'"):
        bench.controls.pin(ANNA, 1)
    bench.propose(2)
    with pytest.raises(NotFound, match=r"m/7 is missing: m:7 cannot serve, publish it again"):
        bench.controls.pin(ANNA, 7)
    bench.directory(1)
    bench.unadmitted = {1}
    with pytest.raises(NotAdmitted, match="has no verdict"):
        bench.controls.pin(ANNA, 1)
    elsewhere = publish(tmp_path / "elsewhere", "m", 3)
    (bench.root / "m" / "3").symlink_to(elsewhere)
    with pytest.raises(PermissionRefused, match="leads elsewhere"):
        bench.controls.pin(ANNA, 3)
    edit_manifest(bench.directory(5), version=6)
    with pytest.raises(InvalidInput, match="is for m:6"):
        bench.controls.pin(ANNA, 5)
    with pytest.raises(InvalidInput, match="who asks"):
        bench.controls.pin(Asked("m", ""), 2)
    assert bench.plane.there() == [2]
    assert bench.actions() == []


def test_frozen_means_that_nothing_changes_until_it_thaws(bench: ControlsBench) -> None:
    bench.propose(1)
    bench.controls.freeze(ANNA)
    bench.propose(2)
    assert bench.plane.there() == [1]
    with pytest.raises(FailedPrecondition, match=r"frozen by anna \(it is late\).*tidegate unfreeze m"):
        bench.controls.pin(ANNA, 1)
    with pytest.raises(FailedPrecondition, match="frozen"):
        bench.controls.split(ANNA, {}, "")
    bench.controls.disable(ANNA)
    assert bench.plane.off == "servable 'm' was switched off by anna: it is late"
    bench.restart()
    bench.propose(3)
    assert bench.plane.there() == [1]
    bench.controls.unfreeze(ANNA)
    assert bench.plane.there() == [3]


def test_a_push_is_refused_while_frozen(bench: ControlsBench) -> None:
    bench.push(1)
    bench.controls.freeze(ANNA)
    with pytest.raises(FailedPrecondition, match="frozen by anna"):
        bench.push(1, 2)
    with pytest.raises(FailedPrecondition, match="frozen by anna"):
        bench.rollback(ANNA, 2, None)
    assert bench.plane.there() == [1]


def test_the_kill_switch_works_survives_and_ends(bench: ControlsBench) -> None:
    bench.propose(1)
    assert bench.controls.disable(ANNA).changed
    assert not bench.controls.disable(Asked("m", "ben", "me too")).changed
    assert "anna: it is late" in bench.plane.off
    bench.restart()
    assert "anna: it is late" in bench.plane.off, "before any source has spoken"
    bench.controls.enable(ANNA)
    assert bench.plane.off == ""
    assert not bench.controls.enable(ANNA).changed
    assert bench.actions() == ["disable", "enable"]


def test_a_split_divides_ends_and_does_not_go_with_a_pin(bench: ControlsBench) -> None:
    bench.propose(1, 2)
    bench.controls.split(ANNA, {1: 0.9, 2: 0.1}, "x-user-id")
    assert bench.plane.shares == {1: 0.9, 2: 0.1}
    assert not bench.controls.split(ANNA, {2: 0.1, 1: 0.9}, "x-user-id").changed
    bench.restart()
    bench.propose(1, 2)
    assert bench.plane.shares == {1: 0.9, 2: 0.1}
    bench.controls.pin(ANNA, 1)
    assert bench.plane.shares == {}
    with pytest.raises(FailedPrecondition, match=r"pinned to version 1 by anna.*unpin"):
        bench.controls.split(ANNA, {1: 0.5, 2: 0.5}, "")
    bench.controls.unpin(ANNA)
    bench.controls.split(ANNA, {2: 1.0}, "")
    assert bench.controls.split(ANNA, {}, "").sentence == "m is split no more"
    assert bench.plane.shares == {}


@pytest.mark.parametrize(
    ("shares", "key", "match"),
    [
        ({1: 0.5}, "", "make 1"),
        ({1: 1.5, 2: -0.5}, "", "make 1"),
        ({1: 0.5, 9: 0.5}, "", r"version 9, which nobody wants live \(live: 1, 2\)"),
        ({1: 1.0}, "user id", "x-user-id"),
    ],
)
def test_splits_must_make_sense(bench: ControlsBench, shares: Mapping[int, float], key: str, match: str) -> None:
    bench.propose(1, 2)
    with pytest.raises(InvalidInput, match=match):
        bench.controls.split(ANNA, shares, key)
    assert bench.plane.shares == {}


def test_a_blocked_version_leaves_and_never_comes_back(bench: ControlsBench) -> None:
    bench.push(1, stable=1)
    bench.push(1, 2, stable=2)
    bench.controls.block(ANNA, 2)
    assert (bench.plane.there(), bench.plane.serving("m"), bench.plane.off) == ([1], 1, "")
    with pytest.raises(FailedPrecondition, match=r"m:2 was blocked by anna \(it is late\).*tidegate unblock m 2"):
        bench.push(1, 2, stable=2)
    with pytest.raises(FailedPrecondition, match="blocked"):
        bench.controls.pin(ANNA, 2)
    bench.restart()
    assert bench.plane.there() == [1]
    assert not bench.controls.block(ANNA, 2).changed
    bench.controls.unblock(ANNA, 2)
    assert (bench.plane.there(), bench.plane.serving("m")) == ([1, 2], 2)


def test_what_served_before_takes_the_place_of_a_blocked_version_and_keeps_it(bench: ControlsBench) -> None:
    bench.keep = True
    bench.push(1, stable=1)
    bench.push(2, stable=2)
    bench.controls.block(ANNA, 2)
    for _ in range(2):
        bench.came()
        assert (bench.plane.there(), bench.plane.serving("m"), bench.plane.off) == ([1], 1, "")
        bench.restart()
    bench.push(3, stable=3)
    assert bench.plane.serving("m") == 3


def test_the_only_version_when_blocked_answers_no_more(bench: ControlsBench) -> None:
    bench.propose(1)
    bench.plane.slow = set()
    bench.controls.block(ANNA, 1)
    assert bench.plane.there() == []
    assert bench.plane.off == "m:1 was blocked: it is late; there is no other: publish one, or unblock it"
    bench.propose(2)
    assert (bench.plane.there(), bench.plane.off) == ([2], "")


def test_one_change_at_a_time_where_two_meet(bench: ControlsBench) -> None:
    bench.push(1)
    push = Push("m", (PushedVersion(2, str(bench.directory(2)), digest_of(bench.directory(2))),), requested_by="ben")
    bench.rpc.set_aspired(Push(push.servable, push.versions, requested_by="ben", expected_revision=1))
    with pytest.raises(TidegateError, match="m is at revision 2, by ben: ; this change is for revision 1") as caught:
        bench.rpc.set_aspired(Push(push.servable, push.versions, requested_by="eve", expected_revision=1))
    assert caught.value.code == "conflict"


def full(path: Path, target: Path) -> Path:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_changes_nothing_but_the_kill_switch(bench: ControlsBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.propose(1, 2)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ResourceExhausted, match=r"orders/m\.json cannot be kept, the disk is full: free space there"):
        bench.controls.pin(ANNA, 1)
    assert (bench.plane.labels, bench.steering.orders("m").pinned) == ({}, None)
    with pytest.raises(ResourceExhausted, match="this counts now, and is forgotten when the engine stops"):
        bench.controls.disable(ANNA)
    assert "anna" in bench.plane.off
    assert bench.actions() == ["disable"]
    with pytest.raises(ResourceExhausted):
        bench.controls.pin(ANNA, 1)
    bench.controls.enable(ANNA)
    assert bench.plane.off == "", "what the disk still says needs no disk"
    monkeypatch.undo()
    bench.controls.disable(ANNA)
    bench.stop()
    bench.begin()
    assert "anna" in bench.plane.off


def test_orders_that_cannot_be_read_are_named(bench: ControlsBench) -> None:
    bench.propose(1)
    bench.controls.disable(ANNA)
    bench.stop()
    path = bench.folder / "state" / "orders" / "m.json"
    path.write_text("{")
    with pytest.raises(TidegateError, match=r"orders/m\.json cannot be used"):
        bench.begin()
