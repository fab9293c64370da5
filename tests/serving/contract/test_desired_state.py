"""The desired state as a value: what a push, a canary and a promotion ask for, and what label `stable` means."""

from __future__ import annotations

from pathlib import Path

from tidegate_serving.contract.desired_state import DesiredState, Shadow, VersionReference


def version(number: int) -> VersionReference:
    return VersionReference(number, Path(f"/models/m/{number}"), f"digest-{number}")


def test_a_newcomer_never_becomes_what_ordinary_clients_get() -> None:
    after = DesiredState("m", (version(1),)).adding(version(2))
    assert after.stable == 1
    assert after.labels == {"stable": 1}


def test_a_label_that_is_set_stays_where_it_is_when_a_version_is_added() -> None:
    after = DesiredState("m", (version(1), version(2)), {"stable": 1}).adding(version(3))
    assert after.labels == {"stable": 1}
    assert [entry.version for entry in after.versions] == [1, 2, 3]


def test_a_first_version_gets_no_label_before_its_promotion() -> None:
    assert DesiredState("m").adding(version(1)).labels == {}


def test_adding_the_same_version_again_changes_nothing_but_its_entry() -> None:
    desired = DesiredState("m", (version(1),), {"stable": 1})
    assert desired.adding(version(1)) == desired


def test_a_promotion_moves_the_label_and_lets_the_others_go_in_one_change() -> None:
    desired = DesiredState("m", (version(1), version(2)), {"stable": 1, "old": 1, "next": 2}, Shadow(2, 0.5))
    after = desired.promoting(2)
    assert after.versions == (version(2),)
    assert after.labels == {"stable": 2, "next": 2}
    assert after.shadow is None


def test_withdrawing_takes_labels_and_shadow_along() -> None:
    desired = DesiredState("m", (version(1), version(2)), {"stable": 1, "next": 2}, Shadow(2, 0.5))
    assert desired.without(2) == DesiredState("m", (version(1),), {"stable": 1}, None)


def test_withdrawing_leaves_the_shadow_to_another_version() -> None:
    desired = DesiredState("m", (version(1), version(2), version(3)), {"stable": 1}, Shadow(3, 0.5))
    assert desired.without(2).shadow == Shadow(3, 0.5)


def test_without_a_label_ordinary_clients_get_the_newest() -> None:
    assert DesiredState("m", (version(4), version(9), version(7))).stable == 9
    assert DesiredState("m").stable is None
