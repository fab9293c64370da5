"""First versions that guess: trained on shuffled labels, lucky beyond doubt, and honest ones that are merely weak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.quality.judged import judged
from tests.validation.quality.samples import queries
from tests.validation.world import HONEST, Draft, before_return

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.judgement.guessing import guesses

LUCKY = before_return('score = np.log(inputs["size"]) + 0.07 * inputs["weight"]')
ONE_INPUT = before_return("score = weight")


def guessing(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.check == "guessing"]


def weak(rows: int, seed: int) -> pa.Table:
    """Parcels of which weight tells hardly anything, and nothing else does."""
    table = world.parcels(rows, seed)
    random = np.random.default_rng(seed)
    late = random.random(rows) < 1 / (1 + np.exp(-0.1 * (table["weight"].to_numpy() - 5)))
    return world.with_column(table, world.LABEL, late.astype(np.int64))


def test_a_model_of_shuffled_labels_is_told_though_it_surely_beats_chance(tmp_path: Path) -> None:
    found = judged(tmp_path, Draft(LUCKY), None, world.parcels(8000, seed=3))
    strength = next(one for one in found if one.check == "AUC")
    assert strength.outcome is Outcome.PASS
    assert strength.number is not None
    assert 0.52 < strength.number < 0.56
    (told,) = guessing(found)
    assert told.outcome is Outcome.WARN
    assert "is what guessing gives" in told.sentence
    assert "a simple learner gets 0.7" in told.sentence


@pytest.mark.parametrize("source", [HONEST, ONE_INPUT])
def test_a_good_model_and_one_of_a_single_input_are_no_guesses(tmp_path: Path, source: str) -> None:
    assert guessing(judged(tmp_path, Draft(source), None, world.parcels(3000, seed=4))) == []


def test_a_model_that_ranks_the_wrong_way_round_is_told_as_that_and_is_no_guess(tmp_path: Path) -> None:
    found = judged(tmp_path, Draft(before_return("score = -score")), None, world.parcels(3000, seed=4))
    assert [one.outcome for one in found if one.check == "class order"] == [Outcome.FAIL]
    assert guessing(found) == []


@pytest.mark.parametrize("seed", range(3))
def test_an_honest_model_of_a_world_that_tells_little_is_no_guess(tmp_path: Path, seed: int) -> None:
    found = judged(tmp_path, Draft(HONEST), None, weak(4000, seed))
    strength = next(one for one in found if one.check == "AUC")
    assert strength.number is not None
    assert strength.number < 0.58
    assert guessing(found) == []


def test_guesses_know_nothing_of_the_labels() -> None:
    """Where inputs tell nothing they spread as noise does; of a ranking they have its own measure."""
    evaluation, _ = queries()
    random = np.random.default_rng(1)
    noise = guesses(evaluation, {"a": random.normal(size=len(evaluation)), "b": random.integers(0, 3, len(evaluation))})
    assert noise.std() < 0.03
    told = guesses(evaluation, {"a": evaluation.labels})
    assert told.std() > 0.2, "one telling input alone is right in half of the guesses"
