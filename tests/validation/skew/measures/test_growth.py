"""Counters and ids grow with time: no window looks like training, and what is asked is whether they go on growing."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.diagnosis.grown import cause_of_growth
from tidegate_validation.skew.measures.growth import Growth
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

DAY = 86_400
ROWS = 200
TRAINED = 40
COUNTERS = ("ticket", "energy", "left", "worn", "day")


def readings() -> pd.DataFrame:
    """Forty-seven days with fewer rows on Sundays: an id, a meter, a battery, a brake, and the day of the year."""
    random = np.random.default_rng(5)
    day = np.repeat(np.arange(TRAINED + 7), np.where(np.arange(TRAINED + 7) % 7 == 6, ROWS // 4, ROWS))
    at = (17_000 + day) * DAY + np.sort(random.integers(0, DAY, len(day)))
    at = np.sort(at)
    return pd.DataFrame(
        {
            "at": at,
            "ticket": 70_000 + np.cumsum(random.integers(1, 4, len(at))),
            "energy": np.round(np.cumsum(random.gamma(2, 0.3, len(at))), 3),
            "left": np.round(100 - 0.6 * day + random.normal(0, 0.4, len(at)), 1),
            "day": day + 31,
            "warm": np.round(20 + random.normal(0, 2, len(at)), 1),
            "worn": np.round(50 - 0.12 * day + random.normal(0, 1, len(at)), 2),
        }
    )


@functools.cache
def week() -> pd.DataFrame:
    rows = readings()
    return rows[rows["at"] >= (17_000 + TRAINED) * DAY].reset_index(drop=True)


@functools.cache
def training(time: str | None) -> Profile:
    rows = readings()
    rows = rows[rows["at"] < (17_000 + TRAINED) * DAY]
    rows = rows if time else rows.drop(columns="at")
    return profile_table(as_table(rows, "training"), Columns(time=time), [str(name) for name in rows])


def report(rows: pd.DataFrame, time: str | None = "at") -> SkewReport:
    rows = rows if time else rows.drop(columns="at")
    return report_on_table(training(time), as_table(rows, "the week"), Columns(time=time))


@pytest.mark.parametrize("time", ["at", None])
def test_what_goes_on_growing_passes_and_is_told_as_such(time: str | None) -> None:
    """Without the times of rows, too, for they come in their order."""
    found = report(week(), time)

    assert found.outcome is Outcome.PASS, [one.sentence for one in found.findings]
    for name in COUNTERS:
        way = "shrinks" if name in ("left", "worn") else "grows"
        assert f"{way} with time, as it did in training" in found.feature(name).sentence


@pytest.mark.parametrize(
    ("column", "change", "words"),
    [
        ("ticket", lambda values: values * 1000, "1000 times those of training (thousandths (metres, grams) against"),
        ("ticket", lambda values: values * 1000, ", or milliseconds against seconds?)"),
        ("ticket", lambda values: values / 1000, ", or seconds against milliseconds?)"),
        ("energy", lambda values: values / 3600, "0.0002778 times those of training (hours against seconds?)"),
        ("energy", lambda values: values - values.min(), "it begins again from where training began"),
        ("left", lambda values: values.where(values.index % 20 != 0, 0.0), "5.0 % of the rows hold 0, which training"),
        ("left", lambda values: values / 100, "0.01 times those of training (wholes (shares, dollars) against"),
        ("left", lambda values: values + 273.15, "those of training plus 273.1 (kelvins against degrees Celsius?)"),
        ("left", lambda values: values * 1.8 + 32, "100.0 % of the values lie elsewhere than it leads to"),
        ("worn", lambda values: values * 1.609344, "1.609 times those of training (kilometres against miles?)"),
        (
            "worn",
            lambda values: values.where(values.index % 5 != 0, values * 25.4),
            "25.4 times those of training for 20 %",
        ),
        ("worn", lambda values: values + 30, "served values are those of training plus 30"),
        ("worn", lambda values: values + 30 + values % 1 * 20, "100.0 % of the values lie elsewhere than it leads to"),
        (
            "worn",
            lambda values: values.mean() + (values - values.mean()) / 20,
            "times closer to each other than in training",
        ),
        ("ticket", lambda values: values.round(-2), "different values now (rounded?)"),
        ("energy", lambda values: values * 0 + values.iloc[0], "frozen at"),
    ],
)
def test_what_does_not_grow_on_fails_with_its_cause(column: str, change: object, words: str) -> None:
    assert callable(change)
    found = report(week().assign(**{column: change(week()[column])}))

    assert found.feature(column).outcome is Outcome.FAIL
    assert words in found.feature(column).sentence
    assert [one.subject for one in found.findings if one.outcome is Outcome.FAIL] == [column]


def test_months_go_on_without_the_times_of_rows_and_are_in_no_other_unit() -> None:
    month = np.repeat([5, 6, 7, 8, 9], 900)
    rows = pd.DataFrame({"month": month, "spent": np.random.default_rng(2).normal(size=len(month))})
    before, now = rows[:3500], rows[3500:].reset_index(drop=True)
    profile = profile_table(as_table(before, "training"), Columns(), ["month", "spent"])

    def told(values: pd.Series) -> tuple[Outcome, str, object]:
        report = report_on_table(profile, as_table(now.assign(month=values), "now"), Columns())
        found = report.feature("month")
        return found.outcome, found.sentence, (found.cause or {}).get("kind")

    goes_on = "`month`: grows with time, as it did in training (from 5 to 8)"
    assert told(now["month"]) == (Outcome.PASS, goes_on, None)
    assert told(now["month"] + 4)[0] is Outcome.FAIL
    assert told(now["month"] + 4)[2] == "does not grow on"


@pytest.mark.parametrize("name", ["store", "month"])
def test_a_table_in_the_order_of_a_group_or_a_sample_of_months_is_no_growth_that_ended(name: str) -> None:
    """Stores' files one after the other and traffic of all of them; some rows of each month and the others."""
    random = np.random.default_rng(4)
    rows = pd.DataFrame({name: np.repeat(np.arange(1, 6), 1200), "spent": random.normal(size=6000)})
    held = np.sort(random.choice(6000, 1500, replace=False)) if name == "month" else random.permutation(6000)[:1500]
    now = rows.loc[held].reset_index(drop=True)
    before = rows.drop(index=held.tolist()) if name == "month" else rows
    profile = profile_table(as_table(before, "training"), Columns(), [name, "spent"])

    found = report_on_table(profile, as_table(now, "now"), Columns()).feature(name)

    assert found.outcome is not Outcome.FAIL, found.sentence
    assert "with time" not in found.sentence


@pytest.mark.parametrize(("served", "outcome"), [(4, Outcome.PASS), (3, Outcome.PASS), (1, Outcome.FAIL)])
def test_steps_that_went_back_fail_however_few_there_were(served: int, outcome: Outcome) -> None:
    """A batch of material lasts for twenty-five days, and the week after three of them may have the third one yet."""
    random = np.random.default_rng(6)
    day = np.repeat(np.arange(75 + 7), 60)
    rows = pd.DataFrame({"at": (17_003 + day) * DAY, "batch": 1 + day // 25, "spent": random.normal(size=len(day))})
    before, now = rows[day < 75], rows[day >= 75].assign(batch=served).reset_index(drop=True)
    profile = profile_table(as_table(before, "training"), Columns(time="at"), ["at", "batch", "spent"])

    found = report_on_table(profile, as_table(now, "the week"), Columns(time="at")).feature("batch")

    assert found.outcome is outcome, found.sentence


def test_a_total_that_rests_at_weekends_is_told_in_another_unit() -> None:
    random = np.random.default_rng(8)
    day = np.arange(70)
    total = 5000 + np.cumsum(np.where(day % 7 < 5, random.integers(40, 60, len(day)), 0))
    rows = pd.DataFrame({"at": np.repeat(17_000 + day, 50) * DAY, "total": np.repeat(total, 50)})
    rows["spent"] = random.normal(size=len(rows))
    before, now = rows[: 63 * 50], rows[63 * 50 :].reset_index(drop=True)
    profile = profile_table(as_table(before, "training"), Columns(time="at"), ["at", "total", "spent"])

    found = report_on_table(profile, as_table(now.assign(total=now["total"] * 1000), "now"), Columns(time="at"))

    assert "1000 times those of training" in found.feature("total").sentence


def test_of_a_counter_moved_by_as_much_as_a_factor_neither_is_named() -> None:
    """How far values of one day are from each other is not known of counters, and it alone tells the two apart."""
    found = report(week().assign(ticket=week()["ticket"] + 70_000))

    assert found.feature("ticket").outcome is Outcome.FAIL
    assert found.feature("ticket").cause == {"kind": "does not grow on", "share": 1.0}


@pytest.mark.parametrize(("coarse", "kind"), [(1.0, "constant offset"), (200.0, None)])
def test_an_offset_is_named_only_where_the_scatter_of_a_day_is_known(coarse: float, kind: str | None) -> None:
    """Where growth wanders, no factor is known, and an offset only by values that lie as far apart as they did."""
    random = np.random.default_rng(3)
    growth = Growth(
        0, 1000, 20, 60, 500, 19, 90, level=1000, rate=50, wander=200, scatter=9, coarse=coarse, steps=False
    )
    blocks = np.repeat(np.arange(20, 27), 50)
    values = 5000 + random.normal(0, 9, len(blocks))

    found = cause_of_growth(growth, values, blocks, np.ones_like(blocks), blocks - 19, values > 2000)

    assert (None if found is None else found.kind) == kind


def test_missing_values_of_a_counter_are_told() -> None:
    energy = week()["energy"].where(week().index % 10 != 0)

    findings = [one for one in report(week().assign(energy=energy)).findings if one.subject == "energy"]

    assert findings[0].outcome is Outcome.FAIL
    assert "10.0 % of the values are missing" in findings[0].sentence


def test_a_level_that_moved_within_the_scatter_of_rows_is_no_growth() -> None:
    found = report(week().assign(warm=week()["warm"] + 5))

    assert found.feature("warm").outcome is Outcome.FAIL
    assert "with time" not in found.feature("warm").sentence
