"""What a version is asked again where it refuses batches, in a real process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.validation import world
from tests.validation.quality.judged import LIMITS
from tests.validation.world import Draft, before_return

from tidegate_validation.quality.data.predictions import Predictions, predict_table
from tidegate_validation.sandbox.session import Session

ROWS, BATCH = 3000, 250


def predicted(root: Path, refuses: str) -> tuple[Predictions, int]:
    """What a version answers that refuses batches for the `row`s they hold, and how often it was called."""
    table = world.with_column(world.parcels(ROWS, seed=3), "weight", np.arange(ROWS, dtype=np.float32) + 1000)
    source = before_return(f'row = inputs["weight"] - 1000; assert not ({refuses})')
    with Session(world.publish(root, 1, Draft(source)), LIMITS) as session:
        made = predict_table(session, world.SIGNATURE, table, lambda outputs: outputs["probability"], BATCH)
        return made, session.calls


def test_refused_rows_that_lie_side_by_side_do_not_cost_the_others(tmp_path: Path) -> None:
    made, _ = predicted(tmp_path, "(abs(row - 310) <= 310).any()")
    answered = len(made.rows)
    assert np.array_equal(made.rows, np.arange(ROWS - answered, ROWS))
    assert answered >= 2350, "all but 621 and what lies beside them"
    assert made.failure is not None
    assert made.refused + made.untried + answered == ROWS


def test_a_version_that_answers_nothing_is_not_asked_for_long(tmp_path: Path) -> None:
    made, calls = predicted(tmp_path, "row[0] >= 0")
    assert not len(made.rows)
    assert calls < 400


def test_a_version_that_takes_few_rows_at_once_loses_none(tmp_path: Path) -> None:
    made, _ = predicted(tmp_path, "len(row) > 100")
    assert np.array_equal(made.rows, np.arange(ROWS))
    assert (made.refused, made.untried, made.at_once) == (0, 0, 125)
    assert not made.usable
