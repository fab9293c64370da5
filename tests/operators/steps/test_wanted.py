"""The wanted set as a value: what a push, a canary and a promotion ask for."""

from __future__ import annotations

from pathlib import Path

from tidegate_operators.steps.wanted import Wanted
from tidegate_serving.control_client import Aspired, Shadow


def aspired(version: int) -> Aspired:
    return Aspired(version, Path(f"/models/m/{version}"), f"digest-{version}")


def test_a_newcomer_never_becomes_what_ordinary_clients_get() -> None:
    after = Wanted("m", (aspired(1),)).adding(aspired(2))
    assert after.stable == 1
    assert after.labels == {"stable": 1}


def test_a_label_that_is_set_stays_where_it_is_when_a_version_is_added() -> None:
    after = Wanted("m", (aspired(1), aspired(2)), {"stable": 1}).adding(aspired(3))
    assert after.labels == {"stable": 1}
    assert [entry.version for entry in after.versions] == [1, 2, 3]


def test_a_first_version_gets_no_label_before_its_promotion() -> None:
    assert Wanted("m").adding(aspired(1)).labels == {}


def test_adding_the_same_version_again_changes_nothing_but_its_entry() -> None:
    wanted = Wanted("m", (aspired(1),), {"stable": 1})
    assert wanted.adding(aspired(1)) == wanted


def test_a_promotion_moves_the_label_and_lets_the_others_go_in_one_change() -> None:
    wanted = Wanted("m", (aspired(1), aspired(2)), {"stable": 1, "old": 1, "next": 2}, Shadow(2, 0.5))
    after = wanted.promoting(2)
    assert after.versions == (aspired(2),)
    assert after.labels == {"stable": 2, "next": 2}
    assert after.shadow is None


def test_withdrawing_takes_labels_and_shadow_along() -> None:
    wanted = Wanted("m", (aspired(1), aspired(2)), {"stable": 1, "next": 2}, Shadow(2, 0.5))
    assert wanted.without(2) == Wanted("m", (aspired(1),), {"stable": 1}, None)


def test_withdrawing_leaves_the_shadow_to_another_version() -> None:
    wanted = Wanted("m", (aspired(1), aspired(2), aspired(3)), {"stable": 1}, Shadow(3, 0.5))
    assert wanted.without(2).shadow == Shadow(3, 0.5)


def test_without_a_label_ordinary_clients_get_the_newest() -> None:
    assert Wanted("m", (aspired(4), aspired(9), aspired(7))).stable == 9
    assert Wanted("m").stable is None
