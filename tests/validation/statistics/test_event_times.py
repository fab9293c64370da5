"""Event times are read in whatever way a table writes them, and what holds none is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.skew import Columns, report_on_tables
from tidegate_validation.statistics.build import make_profile
from tidegate_validation.statistics.event_times import told_in_seconds, with_times
from tidegate_validation.statistics.relation import connected, relation_of_table
from tidegate_validation.statistics.sql import as_number

SECOND = 1_700_000_000


def read(values: Any) -> list[float | None]:
    with connected() as connection:
        relation = relation_of_table(connection, "rows", pa.table({"at": values, "x": range(len(values))}))
        timed = with_times(relation, "at", "the rows")
        sql = as_number("at", timed.types["at"])
        return [row[0] for row in connection.execute(f"SELECT {sql} FROM {timed.name}").fetchall()]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([SECOND, None]),
        pa.array([SECOND * 1_000, None]),
        pa.array([SECOND * 1e6, None]),
        pa.array([SECOND * 1_000_000_000, None]),
        pa.array([SECOND], type=pa.timestamp("s")),
        pa.array([SECOND * 1_000_000_000], type=pa.timestamp("ns", tz="Europe/Rome")),
        pa.array(["2023-11-14T22:13:20Z", ""]),
        pa.array(["2023-11-14 22:13:20", None]),
        pa.array(["2023-11-15T00:13:20+02:00"]),
        pa.array([SECOND] * 2 + [253_402_300_799_000]),
        pa.array([SECOND * 1_000] * 3 + [0, SECOND]),
        pa.array([float(SECOND)] * 2 + [float("inf")]),
    ],
)
def test_a_moment_is_the_same_however_it_is_written(values: Any) -> None:
    assert {one for one in read(values) if one is not None} == {SECOND}


def test_whole_numbers_may_be_days_of_the_calendar() -> None:
    assert read(pa.array([20231114, 20240229, 20231131, None])) == [1_699_920_000, 1_709_164_800, None, None]


def test_a_moment_without_a_few_odd_numbers_is_told_with_how_many_they_are() -> None:
    """One odd number made every day of the others 1970's, so that nothing was judged by days."""
    times = [SECOND + 3600 * row for row in range(1000)]
    rows = pa.table({"at": times, "x": [float(row % 7) for row in range(1000)]})
    odd = rows.set_column(0, "at", pa.array([*times[1:], 9_999_999_999_999]))
    report = report_on_tables(rows, odd, Columns(time="at"))
    assert report.days is not None
    assert report.days.words == "2023-11-14 to 2023-12-26 (43 days)"
    told = next(one for one in report.findings if one.check == "event times")
    assert told.outcome is Outcome.PASS
    assert told.sentence == "`at`: 1 of 1,000 rows (0.10 %) of the current data has no time that can be read"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array(["2023-11-14", "soon"]), "holds 'soon', which is no time"),
        (pa.array([None, None], type=pa.int64()), "holds no time in any row"),
        (pa.array([True]), "of type BOOLEAN holds no times"),
    ],
)
def test_what_holds_no_times_is_refused(values: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        read(values)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_training_data_in_milliseconds_are_refused_as_requests_tell_seconds(missing: float | None) -> None:
    rows = pa.table({"at": [SECOND * 1e3, missing], "x": [1.0, 2.0]})

    with pytest.raises(InvalidInput, match=r"event time 'at' holds 1.7e\+12, which is no number of Unix seconds"):
        make_profile(rows, features=["x"], label=None, event_time="at")


@pytest.mark.parametrize("other", [20231114, float("nan"), float(SECOND)])
def test_training_data_of_calendar_days_are_refused_as_requests_tell_seconds(other: float) -> None:
    rows = pa.table({"at": [20231114, 20231231, other], "x": [1.0, 2.0, 3.0]})

    with pytest.raises(InvalidInput, match=r"event time 'at' holds 20231231, a day and no number of Unix seconds"):
        make_profile(rows, features=["x"], label=None, event_time="at")


def test_a_table_tells_its_times_in_seconds_and_keeps_the_rest() -> None:
    rows = pa.table({"at": ["2023-11-15T00:13:20.9+02:00", None], "x": [1.0, 2.0]})
    assert told_in_seconds(rows, "at", "the rows").to_pydict() == {"at": [SECOND, None], "x": [1.0, 2.0]}
    numbers = pa.table({"at": [SECOND * 1_000]})
    assert told_in_seconds(numbers, "at", "the rows") is numbers
    with pytest.raises(InvalidInput, match="the rows: column 'at' holds 'soon', which is no time"):
        told_in_seconds(pa.table({"at": ["soon"]}), "at", "the rows")
