"""Random histories of manager, policies, reconciler and labels, stepped by hand: after each step and at rest all holds.

What such a history broke once stands below by itself, as short as it could be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.support.histories.checks import NAMES
from tests.support.histories.steps import History, Step, draw
from tests.support.histories.world import World, worlds

from tidegate_serving.contract.servable import State

SEEDS = range(120)
LENGTH = 60


@pytest.fixture(scope="module")
def make_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], World]]:
    with worlds(tmp_path_factory.mktemp("histories")) as make:
        yield make


@pytest.fixture
def history(make_world: Callable[[], World]) -> Iterator[History]:
    made = History(make_world())
    yield made
    made.world.life.end()


def play_to_the_end(history: History, steps: Sequence[Step]) -> dict[str, set[int]]:
    """Plays, comes to rest, starts anew, comes to rest, and stops. What was there before that, by servable."""
    history.play(steps)
    history.come_to_rest()
    history.restart()
    there = {name: set(history.world.life.plane.of(name).versions) for name in NAMES}
    history.world.stop()
    return there


def broken_by(steps: Sequence[Step], world: World) -> str:
    """The promise that a history breaks, with the step; empty where it keeps all."""
    try:
        play_to_the_end(History(world), steps)
    except AssertionError as fault:
        return f"{fault}\n" + "\n".join(map(str, steps))
    return ""


def test_random_histories_keep_every_promise(make_world: Callable[[], World]) -> None:
    for seed in SEEDS:
        fault = broken_by(draw(seed, LENGTH), make_world())
        assert not fault, f"seed {seed}: {fault}"


def loading(history: History, *pushed: int) -> None:
    """These versions are pushed, and the newest stands in the middle of its load."""
    history.play([("push", pushed, {}, None, "a", False), ("tick",), *[("step", 0)] * 2, ("tick",), ("step", 0)])


def test_a_stop_tells_the_end_of_what_never_began(history: History) -> None:
    history.do(("push", (1,), {}, None, "a", False))
    history.world.stop()
    assert [change.state for change in history.world.life.checks.changes] == [State.START, State.END]


@pytest.mark.parametrize("kind", [1, 2], ids=["exit", "panic"])
def test_a_load_that_panics_fails_like_any_other(history: History, kind: int) -> None:
    history.do(("temper", "pushed", 1, 0, {"fails": 1, "raises": kind}))
    history.do(("push", (1,), {}, None, "a", False))
    assert play_to_the_end(history, [])["pushed"] == {1}


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["error", "exit", "panic"])
def test_an_unload_that_panics_ends_all_the_same(history: History, kind: int) -> None:
    history.do(("temper", "pushed", 1, 0, {"stays": True, "raises": kind}))
    history.do(("push", (1,), {}, None, "a", False))
    history.come_to_rest()
    history.do(("push", (), {}, None, "a", False))
    assert play_to_the_end(history, [])["pushed"] == set()


def test_a_cancelled_load_that_cannot_be_taken_back_ends_all_the_same(history: History) -> None:
    history.do(("temper", "pushed", 1, 0, {"stays": True}))
    loading(history, 1)
    history.do(("push", (), {}, None, "a", False))
    assert play_to_the_end(history, [])["pushed"] == set()


def test_a_version_that_is_wanted_again_while_its_load_is_taken_back_begins_anew_at_once(history: History) -> None:
    loading(history, 1)
    history.play([("push", (), {}, None, "a", False), ("step", 0), ("push", (1,), {}, None, "a", False)])
    history.world.life.settle()
    history.world.life.checks.at_rest()


def test_what_is_no_longer_wanted_when_its_load_ends_is_never_let_in(history: History) -> None:
    history.do(("push", (1,), {}, None, "a", False))
    history.come_to_rest()
    loading(history, 1, 2)
    history.do(("push", (1,), {}, None, "a", False))
    assert play_to_the_end(history, [])["pushed"] == {1}


def test_a_version_that_was_broken_before_it_began_to_load_does_not_load(history: History) -> None:
    there = play_to_the_end(history, [("tell", ((1, 0, ""),)), ("tell", ((1, 0, "half of it"),))])
    assert there["watched"] == set()


def test_what_is_pushed_while_another_of_its_number_loads_is_what_serves(history: History) -> None:
    loading(history, 1)
    history.do(("push", (1,), {}, None, "b", False))
    assert play_to_the_end(history, [])["pushed"] == {1}


def test_what_is_pushed_while_another_of_its_number_fails_is_what_is_tried_next(history: History) -> None:
    history.do(("temper", "pushed", 1, 0, {"fails": 1000}))
    loading(history, 1)
    history.do(("push", (1,), {}, None, "b", False))
    history.world.life.settle()
    history.world.life.checks.at_rest()


def test_a_new_version_does_not_wait_for_an_old_one_that_is_to_return(history: History) -> None:
    history.do(("push", (1,), {}, None, "a", False))
    history.come_to_rest()
    history.play([("ask", "pushed", 1), ("push", (), {}, None, "a", False), ("tick",)])
    history.do(("push", (1, 2), {}, None, "a", False))
    life = history.world.life
    for _ in range(8):
        life.manager.tick()
        life.baton.step(0)
    assert life.plane.of("pushed").versions == {2}, "the request on version 1 is not answered yet"
    play_to_the_end(history, [])


def test_ordinary_clients_stay_on_stable_when_the_label_leaves_together_with_the_canary(history: History) -> None:
    history.do(("push", (1, 2), {"stable": 1, "canary": 2}, None, "a", False))
    history.come_to_rest()
    history.do(("push", (1,), {}, None, "a", False))
    assert play_to_the_end(history, [])["pushed"] == {1}


def test_ordinary_clients_stay_on_stable_until_what_replaces_everything_has_come(history: History) -> None:
    history.do(("push", (1, 2), {"stable": 1, "canary": 2}, None, "a", False))
    history.come_to_rest()
    history.do(("push", (3,), {}, None, "a", False))
    history.do(("tick",))
    assert history.world.life.plane.of("pushed").ordinary == 1
    play_to_the_end(history, [])


def test_a_block_that_leaves_nothing_says_so_after_a_restart_too(history: History) -> None:
    history.do(("push", (3,), {}, None, "a", False))
    history.come_to_rest()
    history.do(("block", "pushed", 3))
    history.come_to_rest()
    history.world.crash()
    assert "pushed:3 was blocked" in (history.world.life.plane.of("pushed").off or "")
    play_to_the_end(history, [])


def test_a_label_that_waits_for_ever_leaves_ordinary_clients_on_what_is_wanted(history: History) -> None:
    history.do(("push", (1, 3), {"stable": 1, "canary": 3}, None, "a", False))
    history.come_to_rest()
    history.do(("temper", "pushed", 2, 0, {"fails": 1000}))
    history.do(("push", (1, 2), {"canary": 2}, None, "a", False))
    history.come_to_rest()
    picture = history.world.life.plane.of("pushed")
    assert (sorted(picture.versions), picture.labels, picture.ordinary) == ([1, 3], {"canary": 3}, 1)
    play_to_the_end(history, [])


def test_ordinary_clients_never_land_on_a_version_that_is_only_kept_for_a_rollback(history: History) -> None:
    history.do(("keep", "pushed"))
    for version in (1, 3):
        history.do(("push", (version,), {}, None, "a", False))
        history.come_to_rest()
    history.do(("push", (2,), {}, None, "a", False))
    picture = history.world.life.plane.of("pushed")
    assert (sorted(picture.versions), picture.ordinary) == ([1, 3], 3)
    play_to_the_end(history, [])


def test_what_serves_and_is_only_kept_for_a_rollback_serves_after_a_restart_too(history: History) -> None:
    history.play([("labels", {"stable": 3}), ("tell", ((3, 0, ""),))])
    history.come_to_rest()
    history.play([("keep", "watched"), ("tell", ((2, 0, ""),))])
    history.come_to_rest()
    history.restart()
    picture = history.world.life.plane.of("watched")
    assert (sorted(picture.versions), picture.ordinary) == ([2, 3], 3)
    history.do(("labels", {}))
    play_to_the_end(history, [])


def test_what_takes_the_place_of_a_blocked_version_takes_it_after_a_restart_too(history: History) -> None:
    history.do(("tell", ((1, 0, ""), (3, 1, ""))))
    history.come_to_rest()
    history.play([("tell", ((2, 0, ""),)), ("block", "watched", 2)])
    history.come_to_rest()
    assert history.world.life.plane.of("watched").ordinary == 3
    play_to_the_end(history, [])


def test_what_was_kept_at_the_end_and_served_no_more_is_what_served_before(history: History) -> None:
    history.play([("keep", "watched"), ("tell", ((1, 0, ""),))])
    history.come_to_rest()
    history.play([("temper", "watched", 2, 0, {"fails": 1}), ("tell", ((2, 0, ""),))])
    history.world.crash()
    history.come_to_rest()
    memory = history.world.life.reconciler.routing("watched").memory
    assert ([version.version for version in memory.served], memory.serving) == ([1], None), "the way back is kept"
    play_to_the_end(history, [])


@pytest.mark.parametrize("decision", [("labels", {}), ("pin", "watched", 2)], ids=["label gone", "pin"])
def test_what_a_waiting_label_held_goes_when_the_label_waits_no_more(history: History, decision: Step) -> None:
    history.do(("tell", ((1, 0, ""),)))
    history.come_to_rest()
    history.play([("labels", {"stable": 3}), ("tell", ((2, 0, ""),))])
    history.come_to_rest()
    assert history.world.life.plane.of("watched").ordinary == 1
    history.do(decision)
    history.come_to_rest()
    assert sorted(history.world.life.plane.of("watched").versions) == [2]
    play_to_the_end(history, [])


def test_a_label_that_goes_together_with_a_version_leaves_ordinary_clients_where_they_are(history: History) -> None:
    history.play([("labels", {"stable": 1}), ("tell", ((1, 0, ""), (2, 0, "")))])
    history.come_to_rest()
    history.do(("reload", {}, ((1, 0, ""),), False))
    assert play_to_the_end(history, [])["watched"] == {1}


def test_what_moves_from_one_source_to_another_never_leaves(history: History) -> None:
    history.do(("tell", ((1, 0, ""),)))
    history.come_to_rest()
    changes = len(history.world.life.checks.changes)
    history.do(("reload", {}, ((1, 0, ""),), True))
    history.come_to_rest()
    assert history.world.life.checks.changes[changes:] == []
    play_to_the_end(history, [])
