"""Placement holds what it promises for any fleet, and in the cases that people ask about."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.support.eventually import at_best

from tidegate_serving.fleet.decision.placing import Demand, place
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.fleet.state.placement import Placement


def node(id: str, capacity: int = 100, leaving: bool = False, **labels: str) -> Node:
    return Node(id, "", "", "", capacity, labels, leaving)


LABELS = st.sampled_from([{}, {"gpu": "yes"}])
NODES = st.lists(
    st.builds(
        Node,
        st.sampled_from("abcdef"),
        st.just(""),
        st.just(""),
        st.just(""),
        st.integers(0, 100),
        st.sampled_from([{}, {"gpu": "yes"}]),
        st.booleans(),
    ),
    unique_by=lambda one: one.id,
    max_size=6,
)
DEMANDS = st.lists(
    st.builds(
        Demand,
        st.sampled_from([f"m{number}" for number in range(8)]),
        st.integers(0, 60),
        st.integers(0, 4),
        st.integers(0, 2),
        LABELS,
        st.integers(0, 5).map(float),
    ),
    unique_by=lambda one: one.name,
    max_size=8,
)
GROWING = DEMANDS.flatmap(
    lambda demands: st.tuples(*(st.builds(replace, st.just(one), held=st.integers(0, 60)) for one in demands)).map(list)
)
BEFORE = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]), st.sets(st.sampled_from("abcdefg")), max_size=8
)


def used(placed: Placement, demands: list[Demand], id: str) -> int:
    return sum(placed.sizes[one.name] for one in demands if id in placed.nodes[one.name])


@given(NODES, GROWING, BEFORE)
def test_no_node_gets_more_than_its_capacity_or_what_it_does_not_suit(
    nodes: list[Node], demands: list[Demand], before: Mapping[str, set[str]]
) -> None:
    placed = place(nodes, demands, before)
    by_id = {one.id: one for one in nodes}
    for demand in demands:
        places = placed.nodes[demand.name]
        assert len(set(places)) == len(places) <= demand.copies
        assert all(by_id[at].suits(demand.labels) and not by_id[at].leaving for at in places)
    for one in nodes:
        if used(placed, demands, one.id) > one.capacity_bytes:  # with nothing on it but what was there and must be
            there = [demand for demand in demands if one.id in placed.nodes[demand.name] and demand.counted]
            assert all(one.id in before[demand.name] and demand.least for demand in there)


@given(NODES, GROWING, BEFORE)
def test_nothing_takes_what_must_be_from_a_model_that_has_it(
    nodes: list[Node], demands: list[Demand], before: Mapping[str, set[str]]
) -> None:
    placed = place(nodes, demands, before)
    for one in demands:
        had = {node.id for node in nodes if node.suits(one.labels) and not node.leaving} & set(before.get(one.name, ()))
        assert len(placed.nodes[one.name]) >= min(one.least, one.copies, len(had))
        assert placed.sizes[one.name] == one.bytes or one.name in placed.missing or not placed.nodes[one.name]


@given(NODES, GROWING, BEFORE, st.randoms())
def test_the_order_of_what_it_is_given_does_not_matter(
    nodes: list[Node], demands: list[Demand], before: Mapping[str, set[str]], random: object
) -> None:
    turned = {name: sorted(places, reverse=True) for name, places in reversed(list(before.items()))}
    assert place(nodes, demands, before) == place(nodes[::-1], demands[::-1], turned)


def calmed(demands: list[Demand], placed: Placement) -> list[Demand]:
    """What had to leave is wanted by nobody until it is asked for; the others count for what they have room for."""
    gone = {name for name, _ in placed.evicted}
    demands = [replace(one, held=placed.sizes[one.name]) for one in demands]
    return [replace(one, copies=len(placed.nodes[one.name])) if one.name in gone else one for one in demands]


@given(NODES, GROWING, BEFORE)
def test_without_a_change_nothing_moves_and_it_comes_to_rest(
    nodes: list[Node], demands: list[Demand], before: Mapping[str, set[str]]
) -> None:
    placed = place(nodes, demands, before)
    for _ in range(40):
        demands = calmed(demands, placed)
        again = place(nodes, demands, placed.nodes)
        gone = {name for name, _ in again.evicted}
        assert all(name in gone or set(placed.nodes[name]) <= set(again.nodes[name]) for name in placed.nodes)
        if again.nodes == placed.nodes:
            return
        placed = again
    raise AssertionError("it never comes to rest")


@given(NODES, DEMANDS, BEFORE)
def test_a_node_that_joins_moves_nothing_but_what_its_node_has_no_room_for(
    nodes: list[Node], demands: list[Demand], before: Mapping[str, set[str]]
) -> None:
    placed = place(nodes, demands, before)
    full = {one.id for one in nodes if used(placed, demands, one.id) > one.capacity_bytes}
    joined = place([*nodes, node("new")], calmed(demands, placed), placed.nodes)
    gone = {name for name, _ in joined.evicted}
    assert all(name in gone or set(at) - full <= set(joined.nodes[name]) for name, at in placed.nodes.items())


@given(NODES, DEMANDS, BEFORE)
def test_a_node_that_dies_moves_only_its_own_models_where_the_others_have_room(
    nodes: list[Node], demands: list[Demand], before: Mapping[str, set[str]]
) -> None:
    placed = place(nodes, demands, before)
    for dead in nodes:
        after = place([one for one in nodes if one is not dead], demands, placed.nodes)
        gone = {name for name, _ in after.evicted}
        for name, places in placed.nodes.items():
            assert name in gone or set(places) - {dead.id} <= set(after.nodes[name])


@given(NODES, DEMANDS, BEFORE)
def test_no_more_leaves_than_has_to(nodes: list[Node], demands: list[Demand], before: Mapping[str, set[str]]) -> None:
    first = place(nodes, demands, before)
    placed = place(nodes, demands, first.nodes)
    by_name = {one.name: one for one in demands}
    for name, at in placed.evicted:
        capacity = next(one.capacity_bytes for one in nodes if one.id == at)
        assert used(placed, demands, at) + by_name[name].bytes > capacity
        assert by_name[name].least < len(first.nodes[name])


@given(NODES, DEMANDS, BEFORE)
def test_what_does_not_fit_is_said_by_name_and_bytes(
    nodes: list[Node], demands: list[Demand], before: Mapping[str, set[str]]
) -> None:
    placed = place(nodes, demands, before)
    gone = {name for name, _ in placed.evicted}
    for one in demands:
        if one.name not in gone and len(placed.nodes[one.name]) < min(one.copies, max(one.least, 1)):
            assert f"of {one.name} needs {one.bytes:,} bytes" in placed.missing[one.name]


def test_models_spread_over_the_nodes_and_copies_lie_apart() -> None:
    demands = [Demand("big", 60), Demand("small", 20), Demand("two", 10, copies=2, least=2)]
    placed = place([node("a"), node("b")], demands, {})
    assert placed.nodes == {"big": ("a",), "small": ("b",), "two": ("a", "b")}


def test_the_least_recently_used_leaves_where_a_model_that_is_asked_for_needs_room() -> None:
    demands = [Demand(f"m{number}", 50, least=0, used_at=float(number)) for number in range(1, 6)]
    before = {"m1": ("b",), "m2": ("b",), "m3": ("a",), "m4": ("a",)}
    placed = place([node("a"), node("b")], demands, before)
    assert placed.evicted == {("m1", "b")}
    assert placed.nodes == {"m1": (), "m2": ("b",), "m3": ("a",), "m4": ("a",), "m5": ("b",)}


def test_of_those_that_could_leave_only_what_has_to_does_and_it_is_not_moved() -> None:
    demands = [Demand("small", 10, least=0), Demand("large", 60, least=0, used_at=1.0), Demand("must", 90)]
    placed = place([node("a"), node("b", 60)], demands, {"small": ("a",), "large": ("a",)})
    assert placed.nodes == {"small": ("a",), "large": (), "must": ("a",)}


def test_nothing_leaves_for_a_model_that_was_used_longer_ago() -> None:
    demands = [Demand("old", 100, least=0, used_at=1.0), Demand("new", 100, least=0, used_at=2.0)]
    placed = place([node("a")], demands, {"new": ("a",)})
    assert placed.nodes == {"old": (), "new": ("a",)}
    assert (
        "copy 1 of old needs 100 bytes, and node a, which has the most room, has 0 of 100 free" in placed.missing["old"]
    )


def test_nothing_leaves_for_a_copy_beyond_those_that_a_model_must_have() -> None:
    demands = [Demand("busy", 60, copies=2, used_at=9.0), Demand("idle", 60, least=0, used_at=1.0)]
    placed = place([node("a"), node("b")], demands, {"busy": ("a",), "idle": ("b",)})
    assert placed.nodes == {"busy": ("a",), "idle": ("b",)}
    assert not placed.missing


def test_a_model_that_grows_takes_the_room_of_none_that_must_be_there_and_keeps_what_it_has() -> None:
    before = {"prod": ("a",), "other": ("a",)}
    prod, other = Demand("prod", 40, used_at=1.0), Demand("other", 80, used_at=2.0, held=40)
    placed = place([node("a")], [prod, other], before)
    assert (placed.nodes, placed.sizes) == (before, {"prod": 40, "other": 40})
    assert placed.missing == {
        "other": "other needs 80 bytes on each of its nodes, of which it has 40, and node a, which has the most room, "
        "has 60 of 100 for it: start a node, lower what others must have, or retire a version first"
    }
    moved = place([node("a"), node("b")], [prod, other], before)
    assert (moved.nodes, moved.sizes) == ({"prod": ("a",), "other": ("b",)}, {"prod": 40, "other": 80})
    optional = place([node("a")], [replace(prod, least=0), other], before)
    assert optional.nodes == {"prod": (), "other": ("a",)}
    assert optional.evicted == {("prod", "a")}


def test_what_must_be_there_stays_on_a_node_that_got_smaller_until_another_has_room() -> None:
    demands, before = [Demand("m", 60), Demand("n", 60, used_at=1.0)], {"m": ("a",), "n": ("a",)}
    assert place([node("a")], demands, before).nodes == before
    assert place([node("a"), node("b")], demands, before).nodes == {"m": ("b",), "n": ("a",)}


def test_a_node_that_is_to_be_emptied_gets_nothing_and_keeps_nothing() -> None:
    demands = [Demand("m", 10)]
    assert place([node("a", leaving=True), node("b")], demands, {"m": ("a",)}).nodes == {"m": ("b",)}


def test_a_model_goes_only_where_its_labels_are() -> None:
    demand = Demand("m", 10, labels={"gpu": "yes"})
    assert place([node("a", 1000), node("b", gpu="yes")], [demand], {}).nodes == {"m": ("b",)}
    missing = place([node("a")], [demand], {}).missing["m"]
    assert missing == (
        "copy 1 of m needs 10 bytes on a node with gpu=yes of its own, and there is none: start a node, or change "
        "--require, or undo a drain"
    )


def test_four_times_the_fleet_takes_a_like_multiple_of_the_time() -> None:
    """Each copy is placed by looking at nodes, not at all models on them: where that is done, this takes 60 times."""

    def seconds(nodes: int, models: int) -> float:
        fleet = [node(f"n{number}", 10 * models) for number in range(nodes)]
        demands = [Demand(f"m{number}", number % 13 + 1, copies=2) for number in range(models)]
        began = time.process_time()
        assert not place(fleet, demands, {}).missing
        return time.process_time() - began

    assert at_best(3, lambda: seconds(20, 2_000) < 40 * seconds(5, 500))
