"""What days brought in training that no day before had, they go on bringing: readings of many meters, new campaigns."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
FIRST = 19_400
TRAINED = 60
ROWS = 240
METERS = 20


@functools.cache
def readings() -> pd.DataFrame:
    """Readings of twenty meters that run on, so that the highest of them are new every day; campaigns, of which a third
    of the rows hold one of twenty that run for ten days each; and a load, whose days hang together."""
    random = np.random.default_rng(4)
    days = TRAINED + 21
    day = np.repeat(np.arange(days), ROWS)
    at = (FIRST + day) * DAY + random.integers(0, DAY, len(day))
    meter = random.integers(0, METERS, len(day))
    start, rate = random.uniform(1e3, 4e4, METERS)[meter], random.uniform(5, 20, METERS)[meter]
    level = np.zeros(days)
    for one in range(1, days):
        level[one] = 0.98 * level[one - 1] + random.normal(0, 40)
    place = random.integers(0, 20, len(day))
    fresh = np.char.add(np.char.add(place.astype(str), "-"), ((day + place) // 10).astype(str))
    return pd.DataFrame(
        {
            "at": at,
            "kwh": np.round(start + rate * (at / DAY - FIRST), 1),
            "campaign": np.where(random.random(len(day)) < 0.3, fresh, random.choice(list("abcdef"), len(day))),
            "load": np.round(600 + level[day] + random.normal(0, 60, len(day)), 1),
        }
    )


@functools.cache
def training() -> Profile:
    rows = days(0, TRAINED)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def days(first: int, end: int) -> pd.DataFrame:
    day = readings()["at"] // DAY - FIRST
    return readings()[(day >= first) & (day < end)].reset_index(drop=True)


def report(rows: pd.DataFrame, **changed: npt.NDArray[Any]) -> SkewReport:
    return report_on_table(training(), as_table(rows.assign(**changed), "the window"), COLUMNS)


def test_days_that_reach_as_far_beyond_training_as_its_own_did_pass() -> None:
    for first, end in ((60, 67), (60, 61), (67, 74), (70, 71)):
        found = report(days(first, end))
        told = [one for one in found.findings if one.outcome in (Outcome.WARN, Outcome.FAIL)]
        assert [one.sentence for one in told if one.check in ("outside", "unseen")] == []


def test_more_beyond_training_than_its_days_ever_brought_fails() -> None:
    week = days(60, 67)
    half = np.random.default_rng(5).random(len(week)) < 0.5

    meters = report(week, kwh=np.where(half, week["kwh"] + 39_000, week["kwh"])).feature("kwh")
    names = report(week, campaign=np.where(half, "winter", week["campaign"])).feature("campaign")

    assert (meters.outcome, names.outcome) == (Outcome.FAIL, Outcome.FAIL)
    assert "of the rows hold categories that training never held: “winter”" in names.sentence


def seasonal(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose campaign is that of the season in a third of them: all campaigns of ten days end together."""
    random = np.random.default_rng(len(rows))
    season = np.char.add("season ", ((rows["at"] // DAY - FIRST) // 10).astype(str).to_numpy(dtype=str))
    always = random.choice(list("abcdef"), len(rows))
    return rows[["at"]].assign(campaign=np.where(random.random(len(rows)) < 0.3, season, always))


def test_what_training_had_no_more_at_its_end_is_not_told_as_gone() -> None:
    profile = profile_table(as_table(seasonal(days(0, TRAINED)), "training"), COLUMNS, ["at", "campaign"])

    found = report_on_table(profile, as_table(seasonal(days(60, 67)), "the week"), COLUMNS).feature("campaign")

    assert found.outcome in (Outcome.WARN, Outcome.FAIL)
    assert not any(f"season {number}" in found.sentence for number in range(5)), found.sentence


def rates(seed: int, days: int = 104) -> pd.DataFrame:
    """Days of a rate that wanders slowly and hardly differs within one, and of another column that does not."""
    random = np.random.default_rng(seed)
    level, steps = np.zeros(days), random.normal(0, 0.08, days)
    for one in range(1, days):
        level[one] = 0.95 * level[one - 1] + steps[one]
    day = np.repeat(np.arange(days), 150)
    return pd.DataFrame(
        {
            "rate": np.round(2.3 + level[day] + 0.02 * random.normal(size=len(day)), 3),
            "size": random.gamma(2, 2, len(day)),
            "at": pd.to_datetime((19_600 + day) * 86_400 + np.tile(np.arange(150) * 500, days), unit="s"),
        }
    )


def test_days_whose_level_wanders_beyond_training_count_as_the_few_observations_that_they_are() -> None:
    outcomes = []
    for seed in range(16):
        rows = rates(seed)
        now = rows["at"] >= rows["at"].max().floor("D") - pd.Timedelta(days=13)
        profile = profile_table(as_table(rows[~now], "training"), COLUMNS, ["rate", "size", "at"])
        found = report_on_table(profile, as_table(rows[now], "the window"), COLUMNS)
        outcomes += [one.outcome for one in found.findings if one.check == "outside"]
        warm = as_table(rows[now].assign(rate=1.8 * rows[now]["rate"] + 32), "a warm window")
        assert report_on_table(profile, warm, COLUMNS).feature("rate").outcome is Outcome.FAIL
    assert Outcome.FAIL not in outcomes
