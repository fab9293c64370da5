"""Rows that show a finding: of a log by request, of tables by time or place, and none where no row shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.world import Served

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.report import write_report
from tidegate_validation.skew import Columns, SkewReport, report_on_log, report_on_tables
from tidegate_validation.skew.example_rows import AS_IN_TRAINING, ROWS, VALUE
from tidegate_validation.statistics import build_profile

LATER = world.FIRST_DAY + 100


def rows_of(finding: Finding) -> list[dict[str, Any]]:
    """The rows that show a finding."""
    assert finding.example is not None
    return list(finding.example[ROWS])


@pytest.fixture(scope="module")
def on_log(tmp_path_factory: pytest.TempPathFactory) -> tuple[SkewReport, pa.Table]:
    """Sixty days of training, then four days in which weights come in grams and a depot is new in every tenth row."""
    folder = tmp_path_factory.mktemp("examples")
    build_profile(
        world.parcels(30_000, seed=1, days=60),
        features=("weight", "size", "depot"),
        label=world.LABEL,
        event_time=world.TIME,
        directory=folder / "profile",
    )
    table = world.parcels(4000, seed=2, days=4, first_day=LATER)
    depots = [("moved" if row % 10 == 0 else depot) for row, depot in enumerate(table["depot"].to_pylist())]
    table = world.with_column(table, "depot", pa.array(depots))
    table = world.with_column(table, "weight", pa.array(1000 * table["weight"].to_numpy()))
    world.write_log(folder / "log", Served(table))
    return report_on_log(folder / "profile", folder / "log", model=world.NAME, version=1), table


def test_rows_of_a_log_are_found_again_by_their_request(on_log: tuple[SkewReport, pa.Table]) -> None:
    report, table = on_log
    for name in ("weight", "depot"):
        shown = rows_of(report.feature(name))
        assert len(shown) == 3
        for one in shown:
            place = int(one["request_id"].rpartition("-")[2])
            assert one[VALUE] == table[name][place].as_py()
            assert one["row"] == 0
        assert [one["event_time"] for one in shown] == sorted((one["event_time"] for one in shown), reverse=True)
    assert {one[VALUE] for one in rows_of(report.feature("depot"))} == {"moved"}


def test_a_changed_unit_says_what_the_value_was_in_training(on_log: tuple[SkewReport, pa.Table]) -> None:
    report, _ = on_log
    shown = rows_of(report.feature("weight"))
    assert len(shown) == 3
    for one in shown:
        assert one[AS_IN_TRAINING] == pytest.approx(one[VALUE] / 1000)


def test_what_looks_as_in_training_shows_no_rows(on_log: tuple[SkewReport, pa.Table]) -> None:
    report, _ = on_log
    assert report.feature("size").outcome is Outcome.PASS
    assert report.feature("size").example is None


def test_the_page_tells_value_moment_and_request(on_log: tuple[SkewReport, pa.Table], tmp_path: Path) -> None:
    report, _ = on_log
    shown = rows_of(report.feature("depot"))[0]
    moment = shown["event_time"][:19].replace("T", " ")
    assert f"such as moved, {moment}, request {shown['request_id']}" in write_report(report, tmp_path).read_text()


def frames(rows: int = 3000) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table of training and a current one, in which an eighth of `amount` is the default -1."""
    random = np.random.default_rng(3)
    before, now = (
        pd.DataFrame(
            {
                "at": pd.to_datetime(np.sort(random.uniform(first, first + days, rows)), unit="D"),
                "amount": np.round(random.gamma(2, 50, rows), 2),
                "note": [None if one < 0.5 else "x" for one in random.random(rows)],
            }
        )
        for first, days in ((19_000, 60), (19_100, 7))
    )
    now.loc[::8, "amount"] = -1.0
    now["note"] = "x"
    return before, now


def test_rows_of_a_default_value_hold_just_that(tmp_path: Path) -> None:
    before, now = frames()
    shown = rows_of(report_on_tables(before, now, Columns(time="at")).feature("amount"))
    newest = now["at"][now["amount"] == -1.0].iloc[::-1][:3]
    assert [one[VALUE] for one in shown] == [-1.0, -1.0, -1.0]
    assert [one["event_time"][:19] for one in shown] == [f"{one:%Y-%m-%dT%H:%M:%S}" for one in newest]


def test_rows_of_a_value_without_a_cause_hold_just_that() -> None:
    random = np.random.default_rng(5)
    tables = []
    for first, days, rows in ((19_000, 60, 30_000), (19_100, 14, 7000)):
        day = np.sort(random.integers(0, days, rows))
        at = pd.to_datetime(first + day + random.random(rows), unit="D")
        level = random.normal(1015, 5, days)[day] + random.normal(0, 3, rows)
        tables.append(pd.DataFrame({"at": at, "level": np.round(level, 1)}))
    before, now = tables
    now.loc[now.sample(frac=0.012, random_state=1).index, "level"] = 1010.3
    found = [one for one in report_on_tables(before, now, Columns(time="at")).findings if one.check == "single value"]
    assert [(one.outcome, one.cause) for one in found] == [(Outcome.WARN, None)]
    assert "of the rows hold 1010.3" in found[0].sentence
    assert [one[VALUE] for one in rows_of(found[0])] == [1010.3, 1010.3, 1010.3]


def test_without_times_rows_are_named_by_their_place() -> None:
    before, now = frames()
    report = report_on_tables(before.drop(columns="at"), now.drop(columns="at"))
    assert [one["row"] for one in rows_of(report.feature("amount"))] == [0, 8, 16]


def test_columns_may_be_called_as_what_tells_a_row() -> None:
    before, now = (one.rename(columns={"amount": "row"}) for one in frames())
    shown = rows_of(report_on_tables(before.drop(columns="at"), now.drop(columns="at")).feature("row"))
    assert [(one[VALUE], one["row"]) for one in shown] == [(-1.0, 0), (-1.0, 8), (-1.0, 16)]
    before, now = (one.rename(columns={"row": "event_time"}) for one in (before, now))
    shown = rows_of(report_on_tables(before, now).feature("event_time"))
    assert {one[VALUE] for one in shown} == {-1.0}


def test_values_of_a_small_unit_are_told_in_training_s_unit() -> None:
    before, now = frames()
    before["amount"] *= 1e-9
    now["amount"] = before["amount"].sample(frac=1.0, random_state=1).to_numpy() * 1000
    shown = rows_of(report_on_tables(before, now, Columns(time="at")).feature("amount"))
    assert len(shown) == 3
    for one in shown:
        assert one[AS_IN_TRAINING] == pytest.approx(one[VALUE] / 1000, rel=1e-4)


def test_large_values_keep_their_digits_in_training_s_unit() -> None:
    before, now = frames()
    before["amount"] = before["amount"] + 104_835.05
    now["amount"] = np.round(before["amount"].sample(frac=1.0, random_state=1).to_numpy() * 100)
    shown = rows_of(report_on_tables(before, now, Columns(time="at")).feature("amount"))
    assert len(shown) == 3
    for one in shown:
        assert one[AS_IN_TRAINING] == one[VALUE] / 100


def test_no_row_shows_values_that_are_no_longer_missing() -> None:
    before, now = frames()
    report = report_on_tables(before, now, Columns(time="at"))
    found = [one for one in report.findings if one.subject == "note" and one.check == "missing"]
    assert found[0].outcome is Outcome.FAIL
    assert found[0].example is None


def test_rows_are_of_the_value_that_gained_most_and_none_of_what_became_rarer() -> None:
    random = np.random.default_rng(4)
    before, now = (
        pd.DataFrame(
            {
                "kind": random.choice(list("abcd"), 6000, p=shares),
                "size": np.where(random.random(6000) < missing, np.nan, random.normal(0, 1, 6000)),
            }
        )
        for shares, missing in (([0.55, 0.3, 0.1, 0.05], 0.5), ([0.2, 0.2, 0.5, 0.1], 0.2))
    )
    report = report_on_tables(before, now)
    assert {one[VALUE] for one in rows_of(report.feature("kind"))} == {"c"}
    missing = [one for one in report.findings if (one.subject, one.check) == ("size", "missing")]
    assert [one.example for one in missing] == [None]
