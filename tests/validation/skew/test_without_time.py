"""Tables without event times: rows count in the order in which they come, and a short window as one observation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import SkewReport, report_on_tables
from tidegate_validation.statistics.blocks import MOST_CHUNKS, ROW_CHUNKS, chunk_of, window_chunk_of

_DAYS, _ROWS = 60, 300


def days_that_differ(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two months whose days differ by half as much as their rows do, and the day after them."""
    random = np.random.default_rng(seed)
    level = np.repeat(random.normal(0, 0.5, _DAYS + 1), _ROWS)
    rows = pd.DataFrame({"load": np.round(20 + level + random.normal(0, 1, len(level)), 2)})
    return rows[:-_ROWS], rows[-_ROWS:]


def outcome_of(report: SkewReport) -> Outcome:
    return report.feature("load").outcome


def test_a_day_is_held_against_how_days_differ() -> None:
    outcomes = [outcome_of(report_on_tables(*days_that_differ(seed))) for seed in range(8)]
    assert outcomes.count(Outcome.FAIL) == 0


def test_it_says_that_rows_were_taken_for_want_of_their_times() -> None:
    said = report_on_tables(*days_that_differ(2)).feature("load").sentence
    assert "no further from training than its own stretches of rows are from each other" in said
    assert "their times would tell how days differ" in said


def test_a_day_in_another_unit_fails() -> None:
    before, now = days_that_differ(1)
    report = report_on_tables(before, now.assign(load=np.round(now["load"] * 1.609344, 2)))
    assert outcome_of(report) is Outcome.FAIL
    assert report.feature("load").cause == like({"kind": "constant factor"})


def weekdays(frozen: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training of 91 days and the day after them, of which all rows have the same weekday, and here the same load."""
    random = np.random.default_rng(3)
    day = np.repeat(np.arange(92), 40)
    load = np.where(frozen & (day == 91), 20.0, np.round(random.normal(20, 1, len(day)), 2))
    rows = pd.DataFrame({"load": load, "weekday": day % 7})
    return rows[:-40], rows[-40:]


def test_what_is_the_same_all_day_is_not_frozen_on_a_day() -> None:
    report = report_on_tables(*weekdays(frozen=False))
    assert report.feature("weekday").outcome is not Outcome.FAIL, report.feature("weekday").sentence
    assert outcome_of(report) is Outcome.PASS


def test_what_changes_from_row_to_row_is_frozen_on_a_day_that_has_one_value_of_it() -> None:
    report = report_on_tables(*weekdays(frozen=True))
    assert outcome_of(report) is Outcome.FAIL
    assert report.feature("load").cause == like({"kind": "one value", "value": 20.0})
    assert report.feature("weekday").outcome is not Outcome.FAIL


def test_chunks_of_training_are_no_longer_than_a_short_window_while_they_are_few() -> None:
    assert f"* {ROW_CHUNKS} / 6000" in chunk_of(6000)
    assert f"* {ROW_CHUNKS} / 6000" in chunk_of(6000, 3000)
    assert "* 100 / 6000" in chunk_of(6000, 60)
    assert f"* {MOST_CHUNKS} / 6000" in chunk_of(6000, 1)


def test_as_many_rows_as_in_training_are_as_many_chunks() -> None:
    assert f"* {ROW_CHUNKS} / 6000" in window_chunk_of(6000, 200.0)
    assert "* 3 / 600" in window_chunk_of(600, 200.0)
    assert "* 1 / 90" in window_chunk_of(90, 200.0)


def test_of_few_rows_those_of_training_are_told_where_they_are_fewer() -> None:
    _, now = days_that_differ(1)
    told = report_on_tables(now[:1], now).feature("load")
    assert (told.outcome, told.sentence) == (
        Outcome.INCONCLUSIVE,
        "`load`: cannot tell, 1 row of training is too few",
    )
    assert report_on_tables(now, now[:2]).feature("load").sentence == "`load`: cannot tell, 2 rows are too few"


@pytest.mark.parametrize(("before", "now"), [(200, 200), (1000, 200), (200, 1000), (300_000, 200_000)])
def test_numbers_of_rows_begin_anew_in_each_table(before: int, now: int) -> None:
    """As the index does that pandas writes into a CSV."""
    known, served = (pd.DataFrame({"index": np.arange(rows)}) for rows in (before, now))
    told = report_on_tables(known, served).feature("index")
    assert (told.outcome, told.sentence) == (
        Outcome.PASS,
        "`index`: numbers the rows from 0 on, as in training",
    )
    assert report_on_tables(known, served * 1000).feature("index").outcome is Outcome.FAIL


def test_the_index_that_pandas_writes_into_a_parquet_file_is_no_column(tmp_path: Path) -> None:
    rows, paths = (
        pd.DataFrame({"load": np.tile(np.arange(40.0), 50)}),
        (tmp_path / "known.parquet", tmp_path / "now.parquet"),
    )
    for seed, path in enumerate(paths):
        rows.sample(1000, random_state=seed).sort_index().to_parquet(path)
    assert pq.read_schema(paths[0]).names == ["load", "__index_level_0__"]
    assert [one.subject for one in report_on_tables(*paths).findings] == ["load"]


def test_a_counter_that_goes_back_is_no_number_of_rows() -> None:
    known, served = pd.DataFrame({"count": np.arange(0, 3000, 3)}), pd.DataFrame({"count": np.arange(1500, 2000)})
    assert report_on_tables(known, served).feature("count").outcome is Outcome.FAIL
