"""Decisions about a servable: each takes effect, is kept and written down, counts after a restart, and changes nothing
when it is so already."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.support.lifecycle.operations_bench import ANNA, OperationsBench
from tests.support.models.versions import digest_of, edit_manifest, publish

from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import (
    FailedPrecondition,
    InvalidInput,
    NotAdmitted,
    NotFound,
    PermissionRefused,
    ResourceExhausted,
    TidegateError,
)
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.deciding import Requester
from tidegate_serving.journal import Kind
from tidegate_serving.sources.target import AspiredVersion


def test_a_pin_holds_whatever_the_source_proposes_and_survives_a_restart(bench: OperationsBench) -> None:
    bench.want(1)
    assert bench.operations.pin(ANNA, 1).changed
    bench.want(2)
    assert (bench.there(), bench.serving) == ([1, 2], 1)
    again = bench.operations.pin(Requester("m", "ben"), 1)
    assert (again.changed, again.sentence) == (False, "ordinary traffic of m stays on version 1, as it was already")
    bench.restart()
    assert bench.serving == 1
    bench.want(2)
    assert bench.serving == 1
    bench.operations.unpin(ANNA)
    assert (bench.there(), bench.labels) == ([2], {})
    assert bench.actions() == ["pin", "unpin"]
    (pin, _) = (entry for entry in bench.journal.read() if entry.kind is Kind.CONTROL)
    assert (pin.requested_by, pin.reason, pin.servable, pin.version) == ("anna", "it is late", "m", 1)


def test_a_pinned_version_that_has_to_load_first_takes_over_when_it_is_there(bench: OperationsBench) -> None:
    bench.want(2)
    bench.directory(1)
    bench.manager.slow = {1}
    done = bench.operations.pin(ANNA, 1)
    assert (done.from_version, done.to_version) == (2, 1)
    assert bench.labels == {"stable": 1}
    assert set(bench.manager.numbers("m")) == {2, 1}
    bench.hurry()
    assert bench.serving == 1


def test_what_cannot_be_pinned_is_refused_with_what_to_do(bench: OperationsBench, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="knows no servable 'm'"):
        bench.operations.pin(ANNA, 1)
    bench.want(2)
    with pytest.raises(NotFound, match=r"m/7 is missing: m:7 cannot serve, publish it again"):
        bench.operations.pin(ANNA, 7)
    bench.directory(1)
    bench.unadmitted = {1}
    with pytest.raises(NotAdmitted, match="has no verdict"):
        bench.operations.pin(ANNA, 1)
    elsewhere = publish(tmp_path / "elsewhere", "m", 3)
    (bench.root / "m" / "3").symlink_to(elsewhere)
    with pytest.raises(PermissionRefused, match="leads elsewhere"):
        bench.operations.pin(ANNA, 3)
    edit_manifest(bench.directory(5), version=6)
    with pytest.raises(InvalidInput, match="is for m:6"):
        bench.operations.pin(ANNA, 5)
    with pytest.raises(InvalidInput, match="who asks"):
        bench.operations.pin(Requester("m", ""), 2)
    assert bench.there() == [2]
    assert bench.actions() == []


def test_frozen_means_that_nothing_changes_until_it_thaws(bench: OperationsBench) -> None:
    bench.want(1)
    bench.operations.freeze(ANNA)
    bench.want(2)
    assert bench.there() == [1]
    with pytest.raises(FailedPrecondition, match=r"frozen by anna \(it is late\).*tidegate unfreeze m"):
        bench.operations.pin(ANNA, 1)
    with pytest.raises(FailedPrecondition, match="frozen"):
        bench.operations.split(ANNA, {}, "")
    bench.operations.disable(ANNA)
    assert bench.off == "it is late (by anna)"
    bench.restart()
    bench.want(3)
    assert bench.there() == [1]
    bench.operations.unfreeze(ANNA)
    assert bench.there() == [3]


def test_a_push_is_refused_while_frozen(bench: OperationsBench) -> None:
    bench.push(1)
    bench.operations.freeze(ANNA)
    with pytest.raises(FailedPrecondition, match="frozen by anna"):
        bench.push(1, 2)
    with pytest.raises(FailedPrecondition, match="frozen by anna"):
        bench.rollback(ANNA, 2, None)
    assert bench.there() == [1]


def test_the_kill_switch_works_survives_and_ends(bench: OperationsBench) -> None:
    bench.want(1)
    assert bench.operations.disable(ANNA).changed
    assert not bench.operations.disable(Requester("m", "ben", "me too")).changed
    assert bench.off == "it is late (by anna)"
    bench.restart()
    assert bench.off == "it is late (by anna)", "before any source has spoken"
    bench.operations.enable(ANNA)
    assert bench.off == ""
    assert not bench.operations.enable(ANNA).changed
    assert bench.actions() == ["disable", "enable"]


def test_a_split_divides_ends_and_does_not_go_with_a_pin(bench: OperationsBench) -> None:
    bench.want(1, 2)
    bench.operations.split(ANNA, {1: 0.9, 2: 0.1}, "x-user-id")
    assert bench.shares == {1: 0.9, 2: 0.1}
    assert not bench.operations.split(ANNA, {2: 0.1, 1: 0.9}, "x-user-id").changed
    bench.restart()
    bench.want(1, 2)
    assert bench.shares == {1: 0.9, 2: 0.1}
    bench.operations.pin(ANNA, 1)
    assert bench.shares == {}
    with pytest.raises(FailedPrecondition, match=r"pinned to version 1 by anna.*unpin"):
        bench.operations.split(ANNA, {1: 0.5, 2: 0.5}, "")
    bench.operations.unpin(ANNA)
    bench.operations.split(ANNA, {2: 1.0}, "")
    assert bench.operations.split(ANNA, {}, "").sentence == "m is split no more"
    assert bench.shares == {}


@pytest.mark.parametrize(
    ("shares", "key", "match"),
    [
        ({1: 0.5}, "", "sum to 0.5: they must sum to 1"),
        ({1: 1.5, 2: -0.5}, "", "version 1 a share of 1.5"),
        ({1: 0.5, 9: 0.5}, "", r"version 9, which nobody wants live \(live: 1, 2\)"),
        ({1: 1.0}, "user id", "x-user-id"),
    ],
)
def test_splits_must_make_sense(bench: OperationsBench, shares: Mapping[int, float], key: str, match: str) -> None:
    bench.want(1, 2)
    with pytest.raises(InvalidInput, match=match):
        bench.operations.split(ANNA, shares, key)
    assert bench.shares == {}


def test_a_blocked_version_leaves_and_never_comes_back(bench: OperationsBench) -> None:
    bench.push(1, stable=1)
    bench.push(1, 2, stable=2)
    bench.operations.block(ANNA, 2)
    assert (bench.there(), bench.serving, bench.off) == ([1], 1, "")
    bench.push(1, stable=1)
    with pytest.raises(FailedPrecondition, match=r"m:2 was blocked by anna \(it is late\).*tidegate unblock m 2"):
        bench.push(1, 2, stable=1)
    with pytest.raises(FailedPrecondition, match="blocked"):
        bench.operations.pin(ANNA, 2)
    bench.restart()
    assert bench.there() == [1]
    assert not bench.operations.block(ANNA, 2).changed
    bench.operations.unblock(ANNA, 2)
    bench.push(1, 2, stable=2)
    assert (bench.there(), bench.serving) == ([1, 2], 2)


def test_what_is_to_replace_a_blocked_version_is_pushed_beside_it_and_serves_only_when_it_is_promoted(
    bench: OperationsBench,
) -> None:
    bench.push(1, stable=1)
    bench.push(2, stable=2)
    bench.operations.block(ANNA, 2)
    bench.push(2, 3, stable=2)
    assert (bench.there(), bench.serving, bench.off) == ([1, 3], 1, "")
    bench.restart()
    assert (bench.there(), bench.serving, bench.off) == ([1, 3], 1, "")
    with pytest.raises(FailedPrecondition, match="m:2 was blocked"):
        bench.push(2, 3, stable=3, next=2)
    bench.push(3, stable=3)
    assert (bench.there(), bench.serving) == ([3], 3)
    with pytest.raises(FailedPrecondition, match="m:2 was blocked"):
        bench.push(2, 3, stable=3)


def test_what_is_to_replace_a_blocked_version_is_pushed_whatever_became_of_the_blocked_one(
    bench: OperationsBench,
) -> None:
    bench.push(1, stable=1)
    bench.push(2, stable=2)
    bench.operations.block(ANNA, 2)
    bench.unadmitted.add(2)  # revoked, as the documentation advises
    bench.push(2, 3, stable=2)
    assert (bench.there(), bench.serving) == ([1, 3], 1)
    bench.restart()
    assert (bench.there(), bench.serving) == ([1, 3], 1)


def test_a_sole_version_without_a_label_is_blocked_and_replaced(bench: OperationsBench) -> None:
    bench.push(1)
    bench.operations.block(ANNA, 1)
    assert bench.off
    bench.push(1, 2, stable=1)
    assert (bench.there(), bench.serving, bench.off) == ([2], 2, "")
    bench.push(1, 2)
    with pytest.raises(FailedPrecondition, match="m:1 was blocked"):
        bench.push(1, 2, old=1)
    bench.push(2, stable=2)
    assert bench.serving == 2


def test_nobody_goes_back_to_a_blocked_version(bench: OperationsBench) -> None:
    bench.push(1, stable=1)
    bench.push(2, stable=2)
    bench.push(2, 3, stable=2)
    bench.operations.block(ANNA, 2)
    with pytest.raises(FailedPrecondition, match=r"m:2 was blocked by anna \(it is late\): unblock it first"):
        bench.rollback(ANNA, 2, None)
    assert (bench.there(), bench.serving) == ([1, 3], 1)


@pytest.mark.parametrize(
    ("pushed", "pinned", "then"),
    [
        (
            ((1,), (2,)),
            None,
            "version 1 takes its place as soon as it is loaded, and until then no request is answered",
        ),
        (((1,), (2,), (2, 3)), None, "version 1 takes its place as soon as it is loaded, and until then"),
        (((2,), (3,)), 2, "version 3 takes its place as soon as it is loaded"),
        (((2, 1),), None, "version 1 takes its place as soon as it is loaded"),
        (((2,),), None, "no request is answered until another version is pushed, or this one is unblocked"),
    ],
)
def test_a_block_says_what_takes_the_place(
    bench: OperationsBench, pushed: Sequence[tuple[int, ...]], pinned: int | None, then: str
) -> None:
    for versions in pushed:
        bench.push(*versions, stable=versions[0])
    if pinned is not None:
        bench.operations.pin(ANNA, pinned)
        assert bench.serving == pinned
    assert bench.operations.block(ANNA, 2).sentence.startswith(f"m:2 must not serve; {then}")


def test_a_source_that_takes_over_what_was_pushed_has_the_labels_of_the_config(bench: OperationsBench) -> None:
    bench.reconciler.set_labels("m", {"stable": 1})
    bench.push(2)
    assert (bench.serving, bench.labels) == (2, {})
    bench.push()
    bench.want(1, 2)
    assert (bench.there(), bench.serving, bench.labels) == ([1, 2], 1, {"stable": 1})


def test_a_freeze_keeps_what_took_the_place_of_a_blocked_version(bench: OperationsBench) -> None:
    bench.push(1, stable=1)
    bench.push(2, stable=2)
    bench.operations.block(ANNA, 2)
    bench.operations.freeze(ANNA)
    for _ in range(2):
        assert (bench.there(), bench.serving, bench.off) == ([1], 1, "")
        bench.restart()
    bench.operations.unfreeze(ANNA)
    assert (bench.there(), bench.serving) == ([1], 1)


def test_a_freeze_keeps_a_version_that_would_not_be_let_in_again(bench: OperationsBench) -> None:
    bench.want(1)
    gone: AspiredVersion[VersionReference] = AspiredVersion(
        ServableId("m", 1), None, error=NotAdmitted("its verdict is gone")
    )
    bench.reconciler.set_aspired_versions("m", [gone])
    assert (bench.there(), bench.serving) == ([1], 1)
    bench.operations.freeze(ANNA)
    assert (bench.there(), bench.serving) == ([1], 1)


def test_other_files_under_the_number_of_a_version_that_is_kept_are_refused(
    bench: OperationsBench,
) -> None:
    bench.keep = True
    bench.push(1, stable=1)
    bench.push(2, stable=2)
    assert bench.there() == [1, 2]
    other = publish(bench.root / "elsewhere", "m", 1)
    pushed = VersionReference(1, other, digest_of(other), "python")
    with pytest.raises(FailedPrecondition, match=r"m:1 serves now from .* and cannot be replaced: publish under a new"):
        bench.rpc.set_desired_state(DesiredState("m", (pushed,), {"stable": 1}, requested_by="ben"))
    assert bench.serving == 2
    bench.push(1, stable=1)
    assert bench.serving == 1


def test_a_candidate_does_not_take_the_place_of_a_blocked_version_but_what_served_before(
    bench: OperationsBench,
) -> None:
    bench.push(1, stable=1)
    bench.push(2, stable=2)
    bench.push(2, 3, stable=2)
    bench.operations.block(ANNA, 2)
    assert (bench.there(), bench.serving, bench.off) == ([1, 3], 1, "")


def test_a_newer_version_serves_beside_a_blocked_one_where_no_label_says_what_does(bench: OperationsBench) -> None:
    bench.want(1, 2)
    bench.operations.block(ANNA, 1)
    assert bench.serving == 2
    bench.want(1, 2, 3)
    assert bench.serving == 3
    bench.operations.block(ANNA, 3)
    assert bench.serving == 2
    bench.want(2, 3, 4)
    assert bench.serving == 4


def test_what_served_before_takes_the_place_of_a_blocked_version_and_keeps_it(bench: OperationsBench) -> None:
    bench.keep = True
    bench.push(1, stable=1)
    bench.push(2, stable=2)
    bench.operations.block(ANNA, 2)
    for _ in range(2):
        assert (bench.there(), bench.serving, bench.off) == ([1], 1, "")
        bench.restart()
    bench.push(3, stable=3)
    assert bench.serving == 3


def test_the_only_version_when_blocked_answers_no_more(bench: OperationsBench) -> None:
    bench.want(1)
    bench.hurry()
    bench.operations.block(ANNA, 1)
    assert bench.there() == []
    assert bench.off == "m:1 was blocked: it is late; there is no other: publish one, or unblock it"
    bench.want(2)
    assert (bench.there(), bench.off) == ([2], "")


def test_one_change_at_a_time_where_two_meet(bench: OperationsBench) -> None:
    bench.push(1)
    two = (bench.reference(2),)
    bench.rpc.set_desired_state(DesiredState("m", two, requested_by="ben"), expected_revision=1)
    with pytest.raises(TidegateError, match="m is at revision 2, by ben: ; this change is for revision 1") as caught:
        bench.rpc.set_desired_state(DesiredState("m", two, requested_by="eve"), expected_revision=1)
    assert caught.value.code == "conflict"


def full(path: Path, target: Path) -> Path:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_changes_nothing_but_the_kill_switch(
    bench: OperationsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.want(1, 2)
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(
        ResourceExhausted, match=r"overrides/m\.json cannot be kept, the disk is full: free space there"
    ):
        bench.operations.pin(ANNA, 1)
    assert (bench.labels, bench.reconciler.overrides("m").pin) == ({}, None)
    with pytest.raises(ResourceExhausted, match="this counts now, and is forgotten when the engine stops"):
        bench.operations.disable(ANNA)
    assert "anna" in bench.off
    assert bench.actions() == ["disable"]
    with pytest.raises(ResourceExhausted):
        bench.operations.pin(ANNA, 1)
    bench.operations.enable(ANNA)
    assert bench.off == "", "what the disk still says needs no disk"
    monkeypatch.undo()
    bench.operations.disable(ANNA)
    bench.stop()
    bench.begin()
    assert "anna" in bench.off


def test_overrides_that_cannot_be_read_are_named(bench: OperationsBench) -> None:
    bench.want(1)
    bench.operations.disable(ANNA)
    bench.stop()
    path = bench.folder / "state" / "overrides" / "m.json"
    path.write_text("{")
    with pytest.raises(TidegateError, match=r"overrides/m\.json cannot be used"):
        bench.begin()
