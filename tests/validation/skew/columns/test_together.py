"""Columns that go together: a warm week is none that was shuffled, and a shuffled one is found in a warm week too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.validation.skew.power import power
from tests.validation.world import NAME, Served, write_log

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract import log_record
from tidegate_validation.report.skew_advice import skew_steps
from tidegate_validation.skew import Columns
from tidegate_validation.skew.columns.together import of_fewer_rows
from tidegate_validation.skew.compare import compare
from tidegate_validation.skew.diagnosis.categories import GONE
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.skew.two_tables import report_on_tables
from tidegate_validation.statistics.association import Association
from tidegate_validation.statistics.associations import find_associations
from tidegate_validation.statistics.build import make_profile
from tidegate_validation.statistics.counts import TIME_OF_DAY
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.window import log_window
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
ROWS = 576


def machines(seed: int, days: int = 67) -> pd.DataFrame:
    """Days of four machines that warm up and draw more current then; days resemble the ones before."""
    random = np.random.default_rng(seed)
    level = np.empty(days)
    level[0] = random.normal(0, 2.3)
    for day in range(1, days):
        level[day] = 0.85 * level[day - 1] + random.normal(0, 1.2)
    hour = np.tile(np.linspace(0, 24, ROWS, endpoint=False), days)
    machine = random.integers(0, 4, days * ROWS)
    warm = 18 + np.repeat(level, ROWS) + 5 * np.sin((hour - 9) / 12 * np.pi) + 0.7 * machine
    warm += random.normal(0, 0.5, len(warm))
    running = (hour > 6) & (hour < 22)
    return pd.DataFrame(
        {
            "at": np.repeat(16_000 + np.arange(days), ROWS) * DAY + (hour * 3600).astype(np.int64),
            "machine": machine.astype(str),
            "warm": np.round(warm, 2),
            "humid": np.round(60 - 1.8 * (warm - 18) + random.normal(0, 4, len(warm)), 1),
            "current": np.where(running, np.round(22 + 0.3 * warm + random.normal(0, 0.8, len(warm)), 3), 0.0),
        }
    )


def together(rows: pd.DataFrame, week: pd.DataFrame) -> list[str]:
    found = report_on_tables(rows[rows["at"] < 16_060 * DAY], week, COLUMNS)
    return [one.subject for one in found.findings if one.check == "together" and one.outcome is Outcome.FAIL]


@pytest.mark.parametrize("seed", [0, 10, 18, 20, 21])
def test_weeks_that_are_warmer_or_colder_than_usual_lose_nothing(seed: int) -> None:
    rows = machines(seed)
    assert together(rows, rows[rows["at"] >= 16_060 * DAY]) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("column", ["humid", "current"])
def test_a_column_that_was_shuffled_within_its_days_is_blamed(seed: int, column: str) -> None:
    rows = machines(seed)
    week = rows[rows["at"] >= 16_060 * DAY].copy()
    random = np.random.default_rng(9)
    week[column] = week.groupby(week["at"] // DAY)[column].transform(lambda one: random.permutation(one.to_numpy()))
    assert column in together(rows, week)


def tanks(seed: int, days: int = 40) -> pd.DataFrame:
    """Two temperatures that are spread alike; one goes with the valve, the other with the load."""
    random = np.random.default_rng(seed)
    rows = 300 * days
    inlet, outlet = (20 + 4 * random.normal(size=rows) for _ in range(2))
    return pd.DataFrame(
        {
            "at": np.repeat(16_000 + np.arange(days), 300) * DAY + np.tile(np.arange(300), days) * 280,
            "inlet": np.round(inlet, 2),
            "outlet": np.round(outlet, 2),
            "valve": np.round(50 + 2 * inlet + 4 * random.normal(size=rows), 1),
            "load": np.round(200 - 6 * outlet + 20 * random.normal(size=rows), 1),
            "noise": random.normal(size=rows),
        }
    )


def of_tanks(week: pd.DataFrame) -> list[tuple[str, str]]:
    rows = tanks(3)
    report = report_on_tables(rows[rows["at"] < 16_033 * DAY], week, COLUMNS)
    return [(one.subject, str((one.cause or {})["kind"])) for one in report.findings if one.check == "together"]


def test_columns_that_changed_places_and_are_spread_alike_are_told_by_what_they_go_with() -> None:
    rows = tanks(3)
    week = rows[rows["at"] >= 16_033 * DAY]
    assert not of_tanks(week)
    swapped = week.assign(inlet=week["outlet"], outlet=week["inlet"])
    assert sorted(of_tanks(swapped)) == [("inlet", "other column"), ("outlet", "other column")]
    order = np.random.default_rng(1).permutation(len(week))
    assert of_tanks(week.assign(inlet=week["inlet"].to_numpy()[order])) == [("inlet", "shuffled")]
    both = week.assign(**{name: week[name].to_numpy()[order] for name in ("inlet", "outlet")})
    assert {kind for _, kind in of_tanks(both)} == {"shuffled"}


def test_where_a_hall_stands_still_the_columns_that_went_together_there_are_not_called_shuffled() -> None:
    random = np.random.default_rng(4)
    rows = tanks(3)
    hall = random.choice(["north", "south"], len(rows))
    apart = random.permutation(rows["valve"].to_numpy())
    rows = rows.assign(hall=hall, valve=rows["valve"].where(hall == "south", apart))
    week = rows[(rows["at"] >= 16_033 * DAY) & (hall == "north")]
    report = report_on_tables(rows[rows["at"] < 16_033 * DAY], week, COLUMNS)

    assert report.feature("hall").outcome is Outcome.FAIL
    (told,) = (one for one in report.findings if one.check == "together")
    assert (told.outcome, told.cause) == (Outcome.WARN, None)
    assert told.sentence.endswith("as rows whose `hall` is other than “north” are gone")


def test_rows_of_a_colour_that_is_gone_excuse_no_shuffled_column() -> None:
    """A category of one in ten rows that belongs to neither of the columns loosens nothing."""
    random = np.random.default_rng(4)
    rows = tanks(3)
    rows = rows.assign(colour=random.choice(["red", "blue", "grey"], len(rows), p=[0.5, 0.4, 0.1]))
    week = rows[(rows["at"] >= 16_033 * DAY) & (rows["colour"] != "grey")]
    week = week.assign(valve=random.permutation(week["valve"].to_numpy()))
    report = report_on_tables(rows[rows["at"] < 16_033 * DAY], week, COLUMNS)

    assert (report.feature("colour").cause or {})["kind"] == "missing categories"
    (told,) = (one for one in report.findings if one.check == "together")
    assert told.outcome is Outcome.FAIL
    assert (told.cause or {})["kind"] == "shuffled"


@pytest.mark.parametrize(
    ("other", "share", "outcome"),
    [
        ("load", 0.1, Outcome.WARN),
        ("valve", 0.1, Outcome.WARN),
        ("noise", 0.1, Outcome.FAIL),
        ("noise", 0.4, Outcome.WARN),
    ],
)
def test_rows_that_are_gone_excuse_what_their_category_goes_with(other: str, share: float, outcome: Outcome) -> None:
    cause = {"kind": "shuffled", "share": 1.0, "columns": ["load"]}
    loose = Finding("together", "valve", Outcome.FAIL, "`valve`: no longer (shuffled rows?)", cause=cause)
    gone = {"grade": Cause(GONE, share=share, details=(("values", ["hot"]), ("number", 1)))}
    pairs = [Association("grade", other, (1,), strength=0.2, spread=0.0, blocks=30, rows=100.0)]

    assert of_fewer_rows(loose, gone, pairs).outcome is outcome


def test_a_pair_that_not_every_day_shows_is_not_missed() -> None:
    random = np.random.default_rng(2)
    blocks = np.repeat(np.arange(60), 400)
    first = random.integers(0, 6, len(blocks))
    always = np.where(random.random(len(blocks)) < 0.4, first, random.integers(0, 6, len(blocks)))
    mostly = np.where(blocks % 8 > 0, always, random.integers(0, 6, len(blocks)))
    sometimes = np.where(blocks % 3 > 0, always, random.integers(0, 6, len(blocks)))
    names = ["first", "always", "mostly", "sometimes"]
    pairs = find_associations(names, [first, always, mostly, sometimes], blocks)
    telling = {(one.first, one.second): one.telling for one in pairs}
    assert telling[("first", "always")]
    assert telling[("first", "mostly")]
    assert not telling[("first", "sometimes")]
    assert all(one.odds > 0 for one in pairs)


def loans(seed: int) -> pd.DataFrame:
    """Sixty-seven days of loans, few of them at weekends, whose score goes a little with their size."""
    random = np.random.default_rng(seed)
    rows = random.poisson(np.where(np.arange(67) % 7 < 5, 150, 36))
    day = 16_000 + np.repeat(np.arange(67), rows)
    size = random.normal(0, 1, len(day))
    score = 0.4 * size + random.normal(0, 1, len(day))
    return pd.DataFrame({"at": day * DAY, "size": size, "score": score})


def test_days_of_few_rows_say_little() -> None:
    weeks = [(rows, rows[rows["at"] >= 16_060 * DAY]) for rows in map(loans, range(20, 30))]
    assert [one for one in weeks if together(*one)] == []


def sensors(seed: int, days: int = 67, rows: int = 300) -> pd.DataFrame:
    """Sixty-seven days of sensors whose warmth belongs to the time of day, and whose load to nothing."""
    random = np.random.default_rng(seed)
    day = np.repeat(16_000 + np.arange(days), rows)
    seconds = random.integers(0, DAY, len(day))
    warm = np.round(45 + 8 * np.sin(seconds / DAY * 2 * np.pi) + random.normal(0, 2, len(day)), 1)
    return pd.DataFrame({"at": day * DAY + seconds, "warm": warm, "load": random.gamma(2, 1, len(day))})


def last_week(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["at"] >= 16_060 * DAY].copy()


@pytest.mark.parametrize("seed", range(3))
def test_a_column_of_the_time_of_day_that_was_shuffled_is_blamed(seed: int) -> None:
    rows = sensors(seed)
    week, random = last_week(rows), np.random.default_rng(9)
    week["warm"] = week.groupby(week["at"] // DAY)["warm"].transform(lambda one: random.permutation(one.to_numpy()))
    report = report_on_tables(rows[rows["at"] < 16_060 * DAY], week, COLUMNS)
    assert together(rows, week) == ["warm"]
    assert "no longer go with those of the time of day of `at`" in report.feature("warm").sentence
    assert together(rows, last_week(rows)) == []


def test_event_times_of_another_zone_are_blamed_themselves() -> None:
    rows = sensors(1).assign(light=lambda one: np.cos(one["at"] / DAY * 2 * np.pi).round(2))
    week = last_week(rows)
    week["at"] += 5 * 3600
    assert together(rows, week) == ["at"]
    report = report_on_tables(rows[rows["at"] < 16_060 * DAY], week, COLUMNS)
    assert "Check in which time zone `at` is written and read." in skew_steps(report)


@pytest.mark.parametrize("hours", [-5, 5, 9])
def test_event_times_of_another_zone_are_blamed_where_one_column_alone_shows_it(hours: int) -> None:
    rows = sensors(3)
    week = last_week(rows)
    week["at"] += hours * 3600
    assert together(rows, week) == ["at"]


@pytest.mark.parametrize("hours", [-1, 1, 2])
def test_an_hour_that_may_be_summer_time_is_a_warning(hours: int) -> None:
    """A tide that comes and goes twice a day shows it."""
    random = np.random.default_rng(5)
    rows = sensors(1).assign(tide=lambda one: np.sin(one["at"] / DAY * 4 * np.pi) + random.normal(0, 0.05, len(one)))
    week = last_week(rows)
    week["at"] += hours * 3600
    report = report_on_tables(rows[rows["at"] < 16_060 * DAY], week, COLUMNS)
    (found,) = [one for one in report.findings if one.check == "together"]
    outcome = Outcome.WARN if abs(hours) == 1 else Outcome.FAIL
    assert (found.subject, found.outcome) == ("at", outcome), found.sentence


def customers(seed: int) -> pd.DataFrame:
    """Sixty-seven days of customers, what they paid in all a text, which is a blank for new ones."""
    random = np.random.default_rng(seed)
    day = np.repeat(16_000 + np.arange(67), 400)
    months = np.minimum(random.exponential(24, len(day)).astype(int), 72)
    paid = [f"{one:.2f}" if one else " " for one in months * random.normal(65, 20, len(day))]
    return pd.DataFrame({"at": day * DAY + random.integers(0, DAY, len(day)), "months": months, "paid": paid})


@pytest.mark.parametrize("seed", range(4))
def test_texts_that_are_new_every_day_lose_no_column(seed: int) -> None:
    rows = customers(seed)
    assert together(rows, last_week(rows)) == []
    shuffled = last_week(rows).assign(months=lambda one: np.random.default_rng(9).permutation(one["months"]))
    assert together(rows, shuffled) == ["months"]


def test_a_profile_made_without_event_times_knows_no_time_of_day() -> None:
    rows = sensors(2)
    assert "warm" not in {one.first for one in profile_of(rows.drop(columns="at"), None).pairs}
    (pair,) = profile_of(rows, "at").pairs
    assert (pair.first, pair.second) == ("warm", TIME_OF_DAY)


def profile_of(rows: pd.DataFrame, time: str | None) -> Profile:
    return make_profile(as_table(rows, "rows"), features=["warm", "load"], label=None, event_time=time)


def in_log(root: Path, week: pd.DataFrame, event_times: bool) -> list[str]:
    """What no longer goes together in a log of the week that arrived five hours later."""
    served = as_table(week, "week")
    write_log(root, Served(served, inputs=("warm", "load"), time="at"))
    (path,) = root.rglob("*.parquet")
    logged = pq.read_table(path, partitioning=None)
    moments = logged[log_record.EVENT_TIME]
    arrived = pa.array(((week["at"] + 5 * 3600) * 1_000_000).to_numpy(), moments.type)
    logged = logged.set_column(logged.column_names.index(log_record.RECEIVED_AT), log_record.RECEIVED_AT, arrived)
    known = moments if event_times else pa.nulls(len(week), moments.type)
    logged = logged.set_column(logged.column_names.index(log_record.EVENT_TIME), log_record.EVENT_TIME, known)
    pq.write_table(logged, path)
    with log_window(root, model=NAME, version=1) as window:
        found = compare(profile_of(sensors(3)[: 60 * 300], "at"), window, SkewRule()).findings
    return [one.subject for told in found.values() for one in told if one.check == "together"]


def test_a_log_is_held_against_the_time_of_the_event_and_not_of_arrival(tmp_path: Path) -> None:
    week = last_week(sensors(3))
    shuffled = week.assign(warm=np.random.default_rng(9).permutation(week["warm"]))
    assert in_log(tmp_path / "calm", week, event_times=True) == []
    assert in_log(tmp_path / "arrived", week, event_times=False) == []
    assert in_log(tmp_path / "shuffled", shuffled, event_times=True) == ["warm"]


@pytest.mark.parametrize("seed", [5, 22, 29, 31, 35])
def test_a_week_that_lies_lower_goes_with_others_as_before(seed: int) -> None:
    before, week = power(seed)
    assert [one for one in report_on_tables(before, week, COLUMNS).findings if one.outcome is Outcome.FAIL] == []
    random = np.random.default_rng(9)
    week["price"] = week.groupby(week["at"] // DAY)["price"].transform(lambda one: random.permutation(one.to_numpy()))
    found = report_on_tables(before, week, COLUMNS).feature("price")
    assert (found.check, found.outcome) == ("together", Outcome.FAIL)


@pytest.mark.parametrize("seed", range(3))
def test_columns_that_hardly_go_together_are_missed_where_rows_are_many(seed: int) -> None:
    random = np.random.default_rng(seed)
    day = np.repeat(16_000 + np.arange(67), 2000)
    size = random.normal(0, 1, len(day))
    score = 0.2 * size + random.normal(0, 1, len(day)) + random.normal(0, 0.3, 67)[day - 16_000]
    rows = pd.DataFrame({"at": day * DAY, "size": size, "score": score, "age": random.normal(0, 1, len(day))})
    assert together(rows, last_week(rows)) == []
    week = last_week(rows)
    week["score"] = week.groupby("at")["score"].transform(lambda one: random.permutation(one.to_numpy()))
    assert together(rows, week) in (["score"], ["size"])
