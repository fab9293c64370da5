"""Categories that are gone because they are counted as another one, told from those that only are gone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding
from tidegate_validation.skew import Columns, report_on_tables
from tidegate_validation.skew.diagnosis.merged import merged_into
from tidegate_validation.statistics.arrays import Integers
from tidegate_validation.statistics.counts import FeatureCounts

NAMES = np.array(["A", "B", "C", "D", "E", "F", "G"])
SHARES = np.array([0.35, 0.22, 0.15, 0.1, 0.08, 0.06, 0.04])
TRAINED, WINDOW = 56, 7
LOST, INTO = 2, 1
SMALL = 4


def rows_by_day(seed: int, kind: str, rows: int) -> Integers:
    """Rows of each category on each day, whose shares are alike, differ by the day, or by the day of the week."""
    random = np.random.default_rng(seed)
    days = TRAINED + WINDOW
    level = np.zeros((days, len(SHARES)))
    if kind == "by day":
        level = random.normal(0, 0.2, level.shape)
    if kind == "by weekday":
        level = np.tile(random.normal(0, 0.4, (7, len(SHARES))), (days // 7, 1)) + random.normal(0, 0.1, level.shape)
    shares = SHARES * np.exp(level)
    return np.array([random.multinomial(rows, one / one.sum()) for one in shares])


def without(now: Integers, lost: int, into: int | None) -> Integers:
    """The same days where a category is gone, or counted as another one."""
    found = now.copy()
    if into is not None:
        found[:, into] += found[:, lost]
    found[:, lost] = 0
    return found


def counts(n: Integers, first: int = 0) -> FeatureCounts:
    return FeatureCounts(np.arange(first, first + len(n)), np.arange(n.shape[1]), n)


@pytest.mark.parametrize(("kind", "least"), [("alike", 0.95), ("by day", 0.6), ("by weekday", 0.6)])
def test_the_one_that_has_grown_by_what_is_lost_is_told_and_of_those_that_are_gone_hardly_any(
    kind: str, least: float
) -> None:
    merged, gone = [], []
    for seed in range(60):
        n = rows_by_day(seed, kind, 250)
        before, now = counts(n[:TRAINED]), n[TRAINED:]
        merged.append(merged_into(before, counts(without(now, LOST, INTO), TRAINED), len(NAMES), [LOST]))
        gone.append(merged_into(before, counts(without(now, LOST, None), TRAINED), len(NAMES), [LOST]))
    assert np.mean([one == INTO for one in merged]) >= least
    assert np.mean([one not in (INTO, None) for one in merged]) <= 0.02
    assert np.mean([one is not None for one in gone]) <= 0.04


def test_of_shares_that_wander_hardly_any_that_is_gone_is_told_as_counted_as_another() -> None:
    told = []
    for seed in range(150):
        random = np.random.default_rng(seed)
        level = random.normal(0, 0.5, (1, len(SHARES)))
        for _ in range(TRAINED + 2 * WINDOW - 1):
            level = np.vstack([level, 0.97 * level[-1] + random.normal(0, 0.2, len(SHARES))])
        shares = SHARES * np.exp(level)
        n = np.array([random.multinomial(250, one / one.sum()) for one in shares])
        now = counts(without(n[TRAINED:], LOST, None), TRAINED)
        told.append(merged_into(counts(n[:TRAINED]), now, len(NAMES), [LOST]))
    assert np.mean([one is not None for one in told]) <= 0.06


def test_too_little_training_tells_nothing() -> None:
    n = rows_by_day(1, "alike", 250)
    now = counts(without(n[TRAINED:], LOST, INTO), TRAINED)

    assert merged_into(counts(n[TRAINED - 27 : TRAINED]), now, len(NAMES), [LOST]) is None
    assert merged_into(counts(n[TRAINED - 28 : TRAINED]), now, len(NAMES), [LOST]) == INTO


def found(seed: int, into: int | None) -> Finding:
    n = rows_by_day(seed, "by weekday", 250)
    n[TRAINED:] = without(n[TRAINED:], SMALL, into)
    day, place = np.nonzero(n)
    each = n[day, place]
    rows = pd.DataFrame({"at": (19_400 + np.repeat(day, each)) * 86_400, "kind": np.repeat(NAMES[place], each)})
    before = rows["at"] < (19_400 + TRAINED) * 86_400
    return report_on_tables(rows[before], rows[~before], Columns(time="at")).feature("kind")


@pytest.mark.parametrize("seed", range(4))
def test_a_report_names_the_one_that_another_is_counted_as_where_days_differ(seed: int) -> None:
    merged, gone = found(seed, SMALL + 1), found(seed, None)

    assert merged.sentence == "`kind`: the category “E” is counted as “F” now"
    assert gone.cause is not None
    assert (gone.cause["kind"], gone.cause["values"]) == ("missing categories", ["E"])
