"""What holds of routing whatever is desired, decided and loaded, in whatever order: random states and histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tidegate_serving.contract.desired_state import STABLE, DesiredState, Shadow, Split, VersionReference
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
from tidegate_serving.control.routing import Routing, references, resolve

NOTE = Note("anna", "it is late", 7)
NUMBERS = (1, 2, 3, 4)


def version(number: int) -> VersionReference:
    return VersionReference(number, Path(f"/models/m/{number}"), f"digest-{number}", "python")


def block(number: int, instead: int | None) -> Block:
    return Block(number, f"digest-{number}", NOTE, None if instead is None else version(instead))


numbers = st.sampled_from(NUMBERS)
versions = st.lists(numbers, unique=True).map(lambda found: tuple(map(version, found)))


@st.composite
def desired_states(draw: st.DrawFn) -> DesiredState:
    found = draw(versions)
    among = st.sampled_from([one.version for one in found]) if found else st.nothing()
    return DesiredState(
        "m",
        found,
        draw(st.dictionaries(st.sampled_from((STABLE, "canary")), among, max_size=2)),
        draw(st.none() | st.builds(Shadow, among, st.sampled_from((0.0, 0.5)))) if found else None,
        unusable={one: NotAdmitted("no verdict") for one in draw(st.sets(numbers)) - {v.version for v in found}},
    )


overrides = st.builds(
    Overrides,
    pin=st.none() | st.builds(Pin, numbers.map(version), st.just(NOTE)),
    freeze=st.none() | st.builds(Freeze, desired_states(), st.just(NOTE)),
    disabled=st.none() | st.just(NOTE),
    split=st.none() | st.builds(SplitOverride, numbers.map(lambda number: Split({number: 1.0})), st.just(NOTE)),
    blocks=st.lists(st.builds(block, numbers, st.none() | numbers), unique_by=lambda one: one.version, max_size=3).map(
        tuple
    ),
)
loaded_sets = st.frozensets(numbers)
Step = tuple[DesiredState, Overrides, frozenset[int], bool]


def possible(drawn: Sequence[Step]) -> list[Step]:
    """The same steps, with nothing loaded that nobody has ever wanted."""
    taken: list[Step] = []
    routing = Routing()
    for desired, decided, loaded, keep in drawn:
        there = loaded & references(desired, decided, routing).keys()
        taken.append((desired, decided, there, keep))
        routing = resolve(desired, decided, there, routing, keep)
    return taken


def play(taken: Sequence[Step]) -> Routing:
    """Where a servable stands after these states, one after the other."""
    routing = Routing()
    for desired, decided, loaded, keep in taken:
        routing = resolve(desired, decided, loaded, routing, keep)
    return routing


def blocked(decided: Overrides) -> set[int]:
    return {one.version for one in decided.blocks}


steps = st.lists(st.tuples(desired_states(), overrides, loaded_sets, st.booleans()), min_size=1, max_size=5).map(
    possible
)


@given(steps)
def test_asking_again_changes_nothing(taken: list[Step]) -> None:
    routing = play(taken)
    assert resolve(*taken[-1][:3], routing, taken[-1][3]) == routing


@given(steps)
def test_traffic_goes_to_what_is_loaded_and_nowhere_else(taken: list[Step]) -> None:
    traffic, loaded = play(taken).traffic, taken[-1][2]
    assert traffic.versions == loaded
    assert set(traffic.labels.values()) <= loaded
    assert traffic.ordinary is None or traffic.ordinary in loaded
    assert traffic.shadow is None or traffic.shadow.version in loaded


@given(steps)
def test_the_history_knows_where_ordinary_requests_go_and_never_goes_back_to_it(taken: list[Step]) -> None:
    routing = play(taken)
    serving = routing.history.serving
    if routing.serving is not None:
        assert serving == routing.serving
    if serving is not None:
        assert serving.version not in [one.version for one in routing.history.served]


@given(steps)
def test_labels_are_meant_for_versions_that_are_to_be_loaded_or_wait(taken: list[Step]) -> None:
    routing = play(taken)
    desired, decided, loaded, _ = taken[-1]
    base = decided.freeze.desired if decided.freeze else desired
    assert set(routing.labels.values()) <= routing.numbers | {*base.labels.values()}
    assert routing.traffic.labels.keys() | routing.traffic.waiting <= routing.labels.keys()
    for label, number in routing.labels.items():
        if number in loaded:
            assert routing.traffic.labels[label] == number, "what can move has moved"


@given(steps)
def test_ordinary_requests_follow_stable_and_without_it_the_newest_that_is_desired(taken: list[Step]) -> None:
    routing, loaded = play(taken), taken[-1][2]
    followed = loaded & (routing.numbers - routing.kept)
    if STABLE in routing.labels:
        assert routing.traffic.ordinary == routing.traffic.labels.get(STABLE)
    elif followed:
        assert routing.traffic.ordinary == max(followed)


@given(steps, st.lists(numbers, unique=True, min_size=1))
def test_a_canary_beside_stable_never_gets_ordinary_requests(taken: list[Step], order: list[int]) -> None:
    """Whatever was before, and in whatever order versions load: with label `stable` on one that is loaded."""
    stable = order[0]
    desired = DesiredState("m", tuple(map(version, order)), {STABLE: stable})
    routing = play(taken)
    for count in range(1, len(order) + 1):
        routing = resolve(desired, NO_OVERRIDES, frozenset(order[:count]), routing)
        assert routing.traffic.ordinary == stable


@given(steps)
def test_a_blocked_version_is_not_loaded(taken: list[Step]) -> None:
    routing, decided = play(taken), taken[-1][1]
    usable = {one.id.version for one in routing.aspired if one.error is None}
    assert not usable & blocked(decided)


@given(steps, numbers, desired_states(), st.none() | numbers, st.booleans())
def test_while_a_blocked_version_is_still_there_it_answers_nobody(
    taken: list[Step], serving: int, desired: DesiredState, instead: int | None, keep: bool
) -> None:
    loaded = frozenset({serving})
    before = resolve(DesiredState("m", (version(serving),)), NO_OVERRIDES, loaded, play(taken), keep)
    assert before.traffic.ordinary == serving
    routing = resolve(desired, Overrides(blocks=(block(serving, instead),)), loaded, before, keep)
    assert routing.traffic.ordinary != serving or f"m:{serving} was blocked" in routing.traffic.disabled


@given(steps)
def test_the_kill_switch_refuses_all_and_nothing_else_says_so_without_a_block(taken: list[Step]) -> None:
    routing, decided = play(taken), taken[-1][1]
    if decided.disabled is not None:
        assert "it is late (by anna)" in routing.traffic.disabled
    elif not decided.blocks:
        assert routing.traffic.disabled == ""


@given(steps, desired_states())
def test_a_frozen_servable_never_changes(taken: list[Step], other: DesiredState) -> None:
    _, decided, loaded, keep = taken[-1]
    frozen = replace(decided, freeze=Freeze(DesiredState("m", (version(1), version(2)), {STABLE: 1}), NOTE))
    before = resolve(taken[-1][0], frozen, loaded, play(taken), keep)
    after = resolve(other, frozen, loaded, before, keep)
    assert (after.aspired, after.labels, after.traffic) == (before.aspired, before.labels, before.traffic)


@given(steps)
def test_a_pinned_version_gets_ordinary_requests_once_it_is_loaded(taken: list[Step]) -> None:
    routing = play(taken)
    _, decided, loaded, _ = taken[-1]
    if decided.pin is not None and decided.pin.version.version not in blocked(decided):
        pinned = decided.pin.version.version
        assert routing.labels[STABLE] == pinned
        assert pinned in routing.numbers
        assert pinned not in loaded or routing.traffic.ordinary == pinned


@given(steps)
def test_nothing_is_held_that_is_not_loaded_and_everything_is_let_go_where_labels_have_arrived(
    taken: list[Step],
) -> None:
    routing = play(taken)
    assert routing.held <= routing.traffic.versions
    arrived = routing.traffic.labels == routing.labels
    if arrived and (STABLE in routing.labels or routing.traffic.versions & (routing.numbers - routing.kept)):
        assert routing.held == frozenset()


@given(desired_states(), overrides, loaded_sets, st.randoms(use_true_random=False))
def test_the_order_in_which_versions_and_blocks_are_named_does_not_matter(
    desired: DesiredState, decided: Overrides, loaded: frozenset[int], chance: Random
) -> None:
    def shuffled(found: tuple[VersionReference, ...]) -> tuple[VersionReference, ...]:
        return tuple(chance.sample(found, len(found)))

    one = resolve(desired, decided, loaded, Routing())
    other = resolve(replace(desired, versions=shuffled(desired.versions)), decided, loaded, Routing())
    assert (one.numbers, one.labels, one.traffic) == (other.numbers, other.labels, other.traffic)


@given(steps, st.booleans())
def test_what_is_kept_for_a_rollback_never_gets_ordinary_requests_by_being_newer(
    taken: list[Step], stable: bool
) -> None:
    """Unless it is where they were, and nothing that is desired is loaded yet."""
    before = play(taken)
    desired = DesiredState("m", (version(2),), {STABLE: 2} if stable else {})
    routing = resolve(desired, NO_OVERRIDES, frozenset(NUMBERS), before, True)
    assert routing.traffic.ordinary == 2


@given(st.lists(numbers, min_size=1))
def test_a_rollback_along_the_history_ends_where_it_began(served: list[int]) -> None:
    history = History()
    for number in served:
        history = history.moved_to(version(number))
    assert history.serving == version(served[-1])
    assert history.serving.version not in [one.version for one in history.served]
    while (previous := history.previous(NO_OVERRIDES)) is not None:
        shorter = history.moved_to(previous)
        assert len(shorter.served) < len(history.served)
        history = shorter
