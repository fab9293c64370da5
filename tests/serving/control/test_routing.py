"""What becomes of a servable, given what is desired, decided and loaded: cases as data, and where labels and ordinary
requests go while versions come and go."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tidegate_serving.contract.desired_state import DesiredState, Shadow, Split, VersionReference
from tidegate_serving.contract.errors import NotAdmitted
from tidegate_serving.control.overrides import (
    NO_OVERRIDES,
    Block,
    Freeze,
    History,
    Note,
    Overrides,
    Pin,
    SplitOverride,
)
from tidegate_serving.control.routing import Routing, resolve

NOTE = Note("anna", "it is late", 7)


def version(number: int) -> VersionReference:
    return VersionReference(number, Path(f"/models/m/{number}"), f"digest-{number}", "python")


def block(number: int) -> Block:
    return Block(number, f"digest-{number}", NOTE)


def history(*served: int, serving: int | None = None) -> History:
    return History(tuple(map(version, served)), None if serving is None else version(serving))


@dataclass(frozen=True)
class Case:
    """What is desired, decided and remembered, and what must come of it."""

    versions: tuple[int, ...]
    becomes: tuple[int, ...]
    labels: dict[str, int] = field(default_factory=dict)
    labels_become: dict[str, int] = field(default_factory=dict)
    overrides: Overrides = NO_OVERRIDES
    history: History = field(default_factory=History)
    keep: bool = False
    kept: tuple[int, ...] = ()
    disabled: str = ""


CASES = {
    "nothing decided": Case((1, 2), (1, 2), {"stable": 1}, {"stable": 1}),
    "pinned to one that is wanted": Case(
        (1, 2), (1, 2), {"stable": 2}, {"stable": 1}, overrides=Overrides(pin=Pin(version(1), NOTE))
    ),
    "pinned to one that is not wanted": Case((3,), (3, 1), {}, {"stable": 1}, Overrides(pin=Pin(version(1), NOTE))),
    "pinned while the source wants nothing": Case((), (1,), {}, {"stable": 1}, Overrides(pin=Pin(version(1), NOTE))),
    "frozen": Case(
        (3,),
        (1, 2),
        {"stable": 3},
        {"stable": 1},
        Overrides(freeze=Freeze(DesiredState("m", (version(1), version(2)), {"stable": 1}), NOTE)),
    ),
    "blocked beside another": Case((1, 2), (1,), {"next": 2}, {"stable": 1}, Overrides(blocks=(block(2),))),
    "blocked and replaced by the one before": Case(
        (2,), (1,), {"stable": 2}, {"stable": 1}, Overrides(blocks=(block(2),)), history(1)
    ),
    "blocked and replaced by what took its place before": Case(
        (3,), (2,), {"stable": 3}, {"stable": 2}, Overrides(blocks=(block(3),)), history(1, serving=2)
    ),
    "blocked and replaced by what is remembered with the block": Case(
        (3,), (2,), {"stable": 3}, {"stable": 2}, Overrides(blocks=(replace(block(3), instead=version(2)),))
    ),
    "blocked and nothing left": Case(
        (2,),
        (),
        {"stable": 2},
        {},
        Overrides(blocks=(block(2),)),
        history(serving=2),
        disabled="m:2 was blocked: it is late; there is no other: publish one, or unblock it",
    ),
    "blocked until the other has come": Case(
        (2,),
        (1,),
        {},
        {"stable": 1},
        Overrides(blocks=(block(2),)),
        history(1, serving=2),
        disabled="m:2 was blocked: it is late; another is being loaded",
    ),
    "blocked pin counts no more": Case((3,), (3,), {}, {}, Overrides(blocks=(block(1),), pin=Pin(version(1), NOTE))),
    "kept behind a newer one": Case((3,), (3, 2), history=history(1, 2), keep=True, kept=(2,)),
    "the one that serves is kept until the new one does": Case(
        (3,), (3, 2, 1), history=history(1, serving=2), keep=True, kept=(1, 2)
    ),
    "a newer one is never kept without a label": Case((1,), (1,), history=history(2), keep=True),
    "a newer one is kept behind a label": Case(
        (1,), (1, 2), {"stable": 1}, {"stable": 1}, history=history(2), keep=True, kept=(2,)
    ),
    "nothing is kept of what nobody wants": Case((), (), history=history(1), keep=True),
    "a blocked one is not kept": Case(
        (3,), (3, 1), overrides=Overrides(blocks=(block(2),)), history=history(1, 2), keep=True, kept=(1,)
    ),
    "switched off": Case((1,), (1,), overrides=Overrides(disabled=NOTE), disabled="it is late (by anna)"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_cases(case: Case) -> None:
    desired = DesiredState("m", tuple(map(version, case.versions)), case.labels)
    routing = resolve(desired, case.overrides, frozenset(), Routing(history=case.history), case.keep)
    assert routing.numbers == set(case.becomes)
    assert routing.labels == case.labels_become
    assert routing.kept == frozenset(case.kept)
    assert routing.traffic.disabled == case.disabled


def test_a_version_that_cannot_be_had_does_not_stand_in_for_a_blocked_one() -> None:
    desired = DesiredState("m", (version(2),), unusable={3: NotAdmitted("no verdict")})
    routing = resolve(desired, Overrides(blocks=(block(2),)), frozenset(), Routing(history=history(1)))
    assert (set(routing.numbers), dict(routing.labels)) == ({1, 3}, {"stable": 1})


class Steps:
    """One servable as its versions come and go and something else is desired."""

    def __init__(self, follow_stable: bool = True) -> None:
        self.follow_stable = follow_stable
        self.routing, self.overrides, self.loaded = Routing(), NO_OVERRIDES, set[int]()
        self.desired = DesiredState("m")

    def want(self, versions: Collection[int], labels: Mapping[str, int] | None = None) -> None:
        self.desired = replace(self.desired, versions=tuple(map(version, versions)), labels=labels or {})
        self.resolve()

    def load(self, *numbers: int) -> None:
        self.loaded |= set(numbers)
        self.resolve()

    def unload(self, number: int) -> None:
        self.loaded.discard(number)
        self.resolve()

    def resolve(self) -> None:
        loaded, follow = frozenset(self.loaded), self.follow_stable
        self.routing = resolve(self.desired, self.overrides, loaded, self.routing, follow_stable=follow)

    @property
    def labels(self) -> dict[str, int]:
        return dict(self.routing.traffic.labels)

    @property
    def ordinary(self) -> int | None:
        return self.routing.traffic.ordinary

    @property
    def default(self) -> int | None:
        return self.routing.traffic.default

    @property
    def held(self) -> set[int]:
        return set(self.routing.held)

    @property
    def shadow(self) -> Shadow | None:
        return self.routing.traffic.shadow


@pytest.fixture
def steps() -> Steps:
    return Steps()


def test_a_label_waits_for_its_version_and_holds_the_one_that_it_is_on(steps: Steps) -> None:
    steps.want([1], {"stable": 1})
    steps.load(1)
    steps.want([2], {"stable": 2})
    assert (steps.labels, steps.ordinary, steps.held) == ({"stable": 1}, 1, {1})
    steps.load(2)
    assert (steps.labels, steps.ordinary, steps.held) == ({"stable": 2}, 2, set())


def test_what_stable_keeps_ordinary_requests_off_is_known(steps: Steps) -> None:
    steps.want([1, 2], {"stable": 1})
    steps.load(1)
    assert steps.routing.overtaken is None, "the newer one is not there yet"
    steps.load(2)
    assert steps.routing.overtaken == (1, 2)
    steps.want([1, 2], {"stable": 2})
    assert steps.routing.overtaken is None


def test_by_tensorflow_servings_rule_stable_is_a_label_like_any_other() -> None:
    steps = Steps(follow_stable=False)
    steps.want([1, 2], {"stable": 1})
    steps.load(1)
    assert (steps.labels, steps.ordinary) == ({"stable": 1}, 1)
    steps.load(2)
    assert (steps.labels, steps.ordinary, steps.default) == ({"stable": 1}, 2, 2)
    assert steps.routing.overtaken is None
    steps.want([2, 3], {"stable": 3})
    assert (steps.labels, steps.ordinary, steps.held) == ({"stable": 1}, 2, {1}), "each stays until its own has come"
    steps.load(3)
    assert (steps.labels, steps.ordinary, steps.default) == ({"stable": 3}, 3, 3)
    steps.overrides = Overrides(pin=Pin(version(2), NOTE))
    steps.resolve()
    assert (steps.labels, steps.ordinary, steps.default) == ({"stable": 2}, 2, None), "what an operator decides counts"
    steps.overrides = Overrides(blocks=(block(3),))
    steps.resolve()
    assert steps.ordinary == 2
    steps.overrides = NO_OVERRIDES
    steps.want([2])
    assert (steps.labels, steps.ordinary, steps.default) == ({}, 2, 2), "3 is still there, and nobody wants it"


def test_where_stable_appears_ordinary_requests_stay_where_they_are_until_its_version_has_come(steps: Steps) -> None:
    steps.want([1, 2])
    steps.load(1, 2)
    steps.want([1, 2, 3], {"stable": 3})
    assert (steps.labels, steps.ordinary, steps.held) == ({"stable": 2}, 2, {2})
    steps.load(3)
    assert (steps.labels, steps.ordinary) == ({"stable": 3}, 3)


def test_where_stable_leaves_ordinary_requests_go_to_what_is_desired_and_nowhere_else(steps: Steps) -> None:
    steps.want([1, 2], {"stable": 1, "canary": 2})
    steps.load(1, 2)
    steps.want([1])
    assert steps.ordinary == 1
    steps.unload(2)
    steps.want([1, 3])
    assert steps.ordinary == 1
    steps.load(3)
    assert steps.ordinary == 3


def test_until_a_desired_version_is_there_ordinary_requests_stay_and_hold_theirs(steps: Steps) -> None:
    steps.want([1, 2], {"stable": 1})
    steps.load(1, 2)
    steps.want([3])
    assert (steps.ordinary, steps.held) == (1, {1})
    steps.unload(1)
    assert steps.ordinary == 2, "where theirs leaves all the same"
    steps.load(3)
    assert (steps.ordinary, steps.held) == (3, set())


def test_a_label_whose_version_never_was_there_waits_beside_those_that_are(steps: Steps) -> None:
    steps.want([1, 2], {"stable": 2, "canary": 2})
    assert steps.routing.traffic.waiting == frozenset(), "where nothing serves, nothing waits"
    steps.load(1)
    assert steps.routing.traffic.waiting == {"stable", "canary"}
    assert steps.ordinary is None, "ordinary requests are not for a version that stable does not name"
    steps.load(2)
    assert (steps.labels, set(steps.routing.traffic.waiting)) == ({"stable": 2, "canary": 2}, set())


def test_a_version_takes_its_labels_and_its_shadow_along_and_brings_them_back(steps: Steps) -> None:
    steps.desired = DesiredState("m", shadow=Shadow(2, 0.5))
    steps.want([1, 2], {"stable": 1, "canary": 2})
    steps.load(1, 2)
    assert steps.shadow == Shadow(2, 0.5)
    steps.unload(2)
    assert steps.labels == {"stable": 1}
    assert steps.shadow is None
    steps.load(2)
    assert steps.labels == {"stable": 1, "canary": 2}
    assert steps.shadow == Shadow(2, 0.5)


def test_a_shadow_is_not_for_a_blocked_version_and_a_share_of_nothing_is_none(steps: Steps) -> None:
    steps.desired = DesiredState("m", shadow=Shadow(2, 0.5))
    steps.want([1, 2])
    steps.load(1, 2)
    steps.overrides = Overrides(blocks=(block(2),))
    steps.resolve()
    assert steps.shadow is None
    steps.overrides, steps.desired = NO_OVERRIDES, replace(steps.desired, shadow=Shadow(2, 0.0))
    steps.resolve()
    assert steps.shadow is None


def test_a_split_begins_with_the_first_version_and_ends_with_the_last(steps: Steps) -> None:
    split = Split({1: 0.9, 2: 0.1}, "x-user")
    steps.overrides = Overrides(split=SplitOverride(split, NOTE))
    steps.want([1, 2])
    assert steps.routing.traffic.split is None
    steps.load(1)
    assert steps.routing.traffic.split == split
    steps.unload(1)
    assert steps.routing.traffic.split is None


def test_overrides_become_plain_values_and_come_back() -> None:
    overrides = Overrides(
        pin=Pin(version(1), NOTE),
        freeze=Freeze(DesiredState("m", (version(2),), {"stable": 2}, Shadow(2, 0.1, 7)), NOTE),
        disabled=NOTE,
        split=SplitOverride(Split({1: 0.25, 2: 0.75}, "x-user-id"), NOTE, 8),
        blocks=(block(4), replace(block(5), instead=version(2))),
    )
    assert Overrides.from_dict(overrides.to_dict()) == overrides
    assert Overrides.from_dict(Overrides().to_dict()) == Overrides()


def test_what_served_before_is_a_path_back() -> None:
    forth = history(serving=1).moved_to(version(2)).moved_to(version(3))
    assert forth == history(1, 2, serving=3)
    back = forth.moved_to(version(2))
    assert back == history(1, serving=2), "the bad one is not what a rollback goes to"
    assert back.moved_to(version(1)) == history(serving=1)
    assert back.moved_to(version(4)) == history(1, 2, serving=4)


def test_the_path_back_is_bounded() -> None:
    found = history(serving=1)
    for number in range(1, 40):
        found = found.moved_to(version(number + 1))
    assert [one.version for one in found.served] == list(range(32, 40))


def test_a_version_without_a_manifest_is_blocked_by_where_it_lies() -> None:
    foreign = VersionReference(1, Path("/models/m/1"), "", "tensorflow", unpublished=True)
    overrides = Overrides(blocks=(Block(1, foreign.fingerprint, NOTE),))
    assert overrides.block_of(foreign) is not None
    assert overrides.block_of(replace(foreign, directory=Path("/elsewhere/m/1"))) is None
