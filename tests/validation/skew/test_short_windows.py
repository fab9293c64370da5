"""Two days of readings against two months: the unit is told where the scatter of a day gives it away."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
ROWS = 144
TRAINED = 60
DAYS = TRAINED + 2


def readings() -> pd.DataFrame:
    """The weather, whose days follow each other, a speed, a share in per cent, an alarm and a bonus that hardly
    ever come."""
    random = np.random.default_rng(8)
    day, hour = np.repeat(np.arange(DAYS), ROWS), np.tile(np.arange(ROWS) / ROWS * 24, DAYS)
    level = np.zeros(DAYS)
    for one in range(1, DAYS):
        level[one] = 0.6 * level[one - 1] + random.normal(0, 2)
    n = len(day)
    return pd.DataFrame(
        {
            "at": (19_000 + day) * DAY + (hour * 3600).astype(np.int64),
            "air": np.round(12 + 4 * np.sin((hour - 9) / 24 * 2 * np.pi) + level[day] + random.normal(0, 0.5, n), 1),
            "speed": np.abs(random.normal(60, 12, n)) + level[day] / 2,
            "share": np.round(100 * random.beta(5, 2, n), 1),
            "alarm": random.random(n) < 0.002,
            "north": random.normal(40, 3, n),
            "east": random.normal(-75, 5, n),
            "bonus": np.where(random.random(n) < 0.95, 0, np.round(random.gamma(2, 50, n), 2)),
        }
    )


@functools.cache
def training() -> Profile:
    rows = readings().head(TRAINED * ROWS)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


@functools.cache
def days() -> pd.DataFrame:
    return readings().tail(2 * ROWS).reset_index(drop=True)


def report(**changed: pd.Series) -> SkewReport:
    return report_on_table(training(), as_table(days().assign(**changed), "two days"), COLUMNS)


def test_two_calm_days_pass_and_what_hardly_ever_comes_is_decided() -> None:
    found = report()

    assert {one.outcome for one in found.findings} == {Outcome.PASS}, [one.sentence for one in found.findings]


@pytest.mark.parametrize(
    ("column", "factor", "offset", "words"),
    [
        ("air", 1.8, 32, "1.8 times those of training plus 32 (degrees Fahrenheit against degrees Celsius?)"),
        ("air", 1, 273.15, "those of training plus 273.1 (kelvins against degrees Celsius?)"),
        ("air", 1, 40, "100.0 % of the values lie above"),
        ("bonus", 1000, 0, "1000 times those of training (thousandths (metres, grams) against wholes"),
        ("speed", 1 / 1.609344, 0, "0.6214 times those of training (miles against kilometres?)"),
    ],
)
def test_another_unit_is_told_and_no_other_column(column: str, factor: float, offset: float, words: str) -> None:
    found = report(**{column: (days()[column] * factor + offset).round(1)}).feature(column)

    assert found.outcome is Outcome.FAIL
    assert words in found.sentence


def test_an_alarm_that_comes_more_often_than_it_hardly_ever_did_fails() -> None:
    found = report(alarm=days().index.to_series() % 6 == 0)

    assert found.feature("alarm").outcome is Outcome.FAIL


def test_two_columns_that_swapped_are_told_by_thirty_rows() -> None:
    few = days().head(30)
    swapped = few.assign(north=few["east"], east=few["north"])

    found = report_on_table(training(), as_table(swapped, "thirty rows"), COLUMNS)

    assert found.feature("north").sentence == "`north`: it holds what `east` held in training"
    assert found.feature("east").sentence == "`east`: it holds what `north` held in training"


def test_nulls_in_two_days_after_three_weeks_fail_among_many_columns() -> None:
    """Of all pairs of so few days the window itself is often drawn, which says nothing of others."""
    random = np.random.default_rng(7)
    day = np.repeat(np.arange(24), 2_000)
    rows = pd.DataFrame({f"x{place}": random.lognormal(3, 1, len(day)) for place in range(8)})
    rows["at"] = (19_000 + day) * DAY + random.integers(0, DAY, len(day))
    profile = profile_table(as_table(rows[day < 22], "training"), COLUMNS, [str(name) for name in rows])
    now = rows[day >= 22].assign(x3=lambda those: those["x3"].where(random.random(len(those)) >= 0.05))

    found = report_on_table(profile, as_table(now, "two days"), COLUMNS)

    assert [one.subject for one in found.findings if one.outcome is not Outcome.PASS] == ["x3"]
    assert (found.feature("x3").check, found.feature("x3").outcome) == ("missing", Outcome.FAIL)
