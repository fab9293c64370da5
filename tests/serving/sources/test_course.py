"""What becomes of a servable, given what its source proposes and what people decided: cases as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tidegate_serving.contract.errors import NotAdmitted
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.overrides import (
    NOTHING,
    Blocked,
    Frozen,
    KnownVersion,
    Note,
    Orders,
    OrdersDocument,
    Pinned,
    SplitRule,
    with_served,
)
from tidegate_serving.control.routing import PathVersion, Proposal, steer
from tidegate_serving.control.status import Shadow
from tidegate_serving.sources.target import AspiredVersion, VersionPath

NOTE = Note("anna", "it is late", 7)


def known(version: int) -> KnownVersion:
    return KnownVersion(version, VersionPath(Path(f"/models/m/{version}"), f"digest-{version}", "python"))


def aspired(version: int) -> PathVersion:
    return AspiredVersion(ServableId("m", version), known(version).path)


def broken(version: int) -> PathVersion:
    return AspiredVersion(ServableId("m", version), None, NotAdmitted("no verdict"))


def blocked(version: int) -> Blocked:
    return Blocked(version, f"digest-{version}", NOTE)


@dataclass(frozen=True)
class Case:
    """What is proposed and decided, and what must come of it."""

    versions: tuple[int, ...]
    becomes: tuple[int, ...]
    labels: dict[str, int] = field(default_factory=dict)
    labels_become: dict[str, int] = field(default_factory=dict)
    orders: Orders = NOTHING
    serving: int | None = None
    keep: bool = False
    kept: tuple[int, ...] = ()
    disabled: str = ""


CASES = {
    "nothing decided": Case((1, 2), (1, 2), {"stable": 1}, {"stable": 1}),
    "pinned to one that is wanted": Case(
        (1, 2), (1, 2), {"stable": 2}, {"stable": 1}, orders=Orders(pinned=Pinned(known(1), NOTE))
    ),
    "pinned to one that is not wanted": Case((3,), (3, 1), {}, {"stable": 1}, Orders(pinned=Pinned(known(1), NOTE))),
    "pinned while the source wants nothing": Case((), (1,), {}, {"stable": 1}, Orders(pinned=Pinned(known(1), NOTE))),
    "frozen": Case(
        (3,), (1, 2), {"stable": 3}, {"stable": 1}, Orders(frozen=Frozen((known(1), known(2)), {"stable": 1}, NOTE))
    ),
    "blocked beside another": Case((1, 2), (1,), {"next": 2}, {"stable": 1}, Orders(blocked=(blocked(2),))),
    "blocked and replaced by the one before": Case(
        (2,), (1,), {"stable": 2}, {"stable": 1}, Orders(blocked=(blocked(2),), served=(known(1),))
    ),
    "blocked and replaced by what took its place before": Case(
        (3,), (2,), {"stable": 3}, {"stable": 2}, Orders(blocked=(blocked(3),), served=(known(1),)), serving=2
    ),
    "blocked and replaced by what is remembered with the block": Case(
        (3,), (2,), {"stable": 3}, {"stable": 2}, Orders(blocked=(replace(blocked(3), instead=known(2)),))
    ),
    "blocked and nothing left": Case(
        (2,),
        (),
        {"stable": 2},
        {},
        Orders(blocked=(blocked(2),)),
        serving=2,
        disabled="m:2 was blocked: it is late; there is no other: publish one, or unblock it",
    ),
    "blocked until the other has come": Case(
        (2,),
        (1,),
        {},
        {"stable": 1},
        Orders(blocked=(blocked(2),), served=(known(1),)),
        serving=2,
        disabled="m:2 was blocked: it is late; another is being loaded",
    ),
    "blocked pin counts no more": Case(
        (3,), (3,), {}, {}, Orders(blocked=(blocked(1),), pinned=Pinned(known(1), NOTE))
    ),
    "kept behind a newer one": Case((3,), (3, 2), orders=Orders(served=(known(1), known(2))), keep=True, kept=(2,)),
    "the one that serves is kept until the new one does": Case(
        (3,), (3, 2, 1), orders=Orders(served=(known(1),)), serving=2, keep=True, kept=(1, 2)
    ),
    "a newer one is never kept without a label": Case((1,), (1,), orders=Orders(served=(known(2),)), keep=True),
    "a newer one is kept behind a label": Case(
        (1,), (1, 2), {"stable": 1}, {"stable": 1}, Orders(served=(known(2),)), keep=True, kept=(2,)
    ),
    "nothing is kept of what nobody wants": Case((), (), orders=Orders(served=(known(1),)), keep=True),
    "a blocked one is not kept": Case(
        (3,), (3, 1), orders=Orders(blocked=(blocked(2),), served=(known(1), known(2))), keep=True, kept=(1,)
    ),
    "switched off": Case(
        (1,), (1,), orders=Orders(disabled=NOTE), disabled="servable 'm' was switched off by anna: it is late"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_cases(case: Case) -> None:
    proposal = Proposal(tuple(map(aspired, case.versions)), case.labels)
    serving = known(case.serving) if case.serving is not None else None
    course = steer("m", proposal, case.orders, serving, case.keep)
    assert sorted(version.id.version for version in course.versions) == sorted(case.becomes)
    assert dict(course.labels) == case.labels_become
    assert course.kept == frozenset(case.kept)
    assert course.disabled == case.disabled


def test_a_version_that_cannot_be_had_does_not_stand_in_for_a_blocked_one() -> None:
    proposal = Proposal((broken(3), aspired(2)))
    course = steer("m", proposal, Orders(blocked=(blocked(2),), served=(known(1),)), None, False)
    assert (sorted(course.numbers), dict(course.labels)) == ([1, 3], {"stable": 1})


def test_a_shadow_stays_only_with_its_version() -> None:
    proposal = Proposal((aspired(1), aspired(2)), shadow=Shadow(2, 0.5))
    assert steer("m", proposal, Orders(), None, False).shadow == Shadow(2, 0.5)
    assert steer("m", proposal, Orders(blocked=(blocked(2),)), None, False).shadow is None


def test_orders_become_plain_values_and_come_back() -> None:
    orders = Orders(
        pinned=Pinned(known(1), NOTE),
        frozen=Frozen((known(2),), {"stable": 2}, NOTE),
        disabled=NOTE,
        split=SplitRule({1: 0.25, 2: 0.75}, "x-user-id", NOTE),
        blocked=(blocked(4), replace(blocked(5), instead=known(2))),
        served=(known(1), known(2)),
    )
    assert OrdersDocument.of(orders).orders() == orders
    assert OrdersDocument.of(Orders()).orders() == Orders()


def test_what_served_before_is_a_path_back() -> None:
    orders = with_served(with_served(Orders(), known(1), 2), known(2), 3)
    assert [one.version for one in orders.served] == [1, 2]
    back = with_served(orders, known(3), 2)
    assert [one.version for one in back.served] == [1], "the bad one is not what a rollback goes to"
    assert [one.version for one in with_served(back, known(2), 1).served] == []
    assert [one.version for one in with_served(back, known(2), 4).served] == [1, 2]


def test_the_path_back_is_bounded() -> None:
    orders = Orders()
    for number in range(1, 40):
        orders = with_served(orders, known(number), number + 1)
    assert [one.version for one in orders.served] == list(range(32, 40))


def test_a_version_without_a_manifest_is_blocked_by_where_it_lies() -> None:
    unpublished = KnownVersion(1, VersionPath(Path("/models/m/1"), "", "tensorflow", unpublished=True))
    orders = Orders(blocked=(Blocked(1, unpublished.token, NOTE),))
    assert orders.blocks(unpublished)
    assert not orders.blocks(replace(unpublished, path=replace(unpublished.path, directory=Path("/elsewhere/m/1"))))
