"""A version's life has one table of moves and no other way through."""

from __future__ import annotations

import itertools

import pytest

from tidegate_serving.contract.errors import FailedPrecondition, ModelFailed
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.lifecycle.harness import MOVES, PUBLIC, Harness, Stage

LIFE = [
    Stage.NEW,
    Stage.LOAD_REQUESTED,
    Stage.LOAD_APPROVED,
    Stage.LOADING,
    Stage.READY,
    Stage.UNLOAD_REQUESTED,
    Stage.QUIESCING,
    Stage.QUIESCED,
    Stage.UNLOADING,
    Stage.DISABLED,
]
BROKEN = ModelFailed("broken")


def harness_at(stage: Stage) -> Harness:
    harness = Harness(ServableId("m", 1), lambda _: None)
    if stage is Stage.ERROR:
        harness.move(stage, BROKEN)
    else:
        for step in LIFE[1 : LIFE.index(stage) + 1]:
            harness.move(step)
    return harness


def allowed() -> set[tuple[Stage, Stage]]:
    steps = set(itertools.pairwise(LIFE))
    return steps | {(stage, Stage.ERROR) for stage in LIFE}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(Stage, Stage)))
def test_every_pair_of_stages(before: Stage, after: Stage) -> None:
    harness = harness_at(before)
    error = BROKEN if after is Stage.ERROR else None
    if (before, after) in allowed():
        harness.move(after, error)
        assert harness.stage is after
        assert harness.error is error
    else:
        kept = harness.error
        with pytest.raises(FailedPrecondition, match=f"m:1 is {before.value}: it cannot become {after.value}"):
            harness.move(after, error)
        assert (harness.stage, harness.error) == (before, kept)


def test_the_table_names_every_stage() -> None:
    assert set(MOVES) == set(PUBLIC) == set(Stage)


def test_an_error_belongs_to_its_stage_only() -> None:
    with pytest.raises(FailedPrecondition, match="error"):
        harness_at(Stage.NEW).move(Stage.ERROR)
    with pytest.raises(FailedPrecondition, match="error"):
        harness_at(Stage.NEW).move(Stage.LOAD_REQUESTED, BROKEN)


def test_public_states_never_go_back() -> None:
    order = [State.START, State.LOADING, State.AVAILABLE, State.UNLOADING, State.END]
    positions = [order.index(PUBLIC[stage]) for stage in LIFE]
    assert positions == sorted(positions)
    assert PUBLIC[Stage.ERROR] is State.END


def test_every_move_is_told_once_including_the_first() -> None:
    seen: list[Stage] = []
    harness = Harness(ServableId("m", 1), lambda moved: seen.append(moved.stage))
    harness.move(Stage.LOAD_REQUESTED)
    assert seen == [Stage.NEW, Stage.LOAD_REQUESTED]
