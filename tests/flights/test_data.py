"""The flights' rows: what is joined, what is known at scheduled departure, and which month is used for what."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.support.flights import all_flights

from tidegate_flights.data import join, package_data, read_flights, to_table
from tidegate_flights.features import EVENT_TIME, FEATURES, LABEL, NUMBERS


def months(frame: pd.DataFrame) -> set[int]:
    return set(pd.to_datetime(frame[EVENT_TIME] - 5 * 3600, unit="s").dt.month)


def flight(**changes: object) -> dict[str, object]:
    row = {
        "year": 2013, "month": 3, "day": 5, "sched_dep_time": 1345, "dep_delay": 20.0, "arr_delay": 16.0,
        "carrier": "UA", "flight": 1545, "tailnum": "N1", "origin": "EWR", "dest": "IAH", "distance": 1400,
        "hour": 13, "minute": 45, "time_hour": "2013-03-05T18:00:00Z",
    }  # fmt: skip
    return {**row, **changes}


def weather(**changes: object) -> dict[str, object]:
    row = {
        "origin": "EWR", "year": 2013, "month": 3, "day": 5, "hour": 13, "temp": 40.0, "dewp": 20.0, "humid": 50.0,
        "wind_dir": 270.0, "wind_speed": 9.0, "wind_gust": np.nan, "precip": 0.0, "pressure": 1012.0, "visib": 10.0,
        "time_hour": "2013-03-05T18:00:00Z",
    }  # fmt: skip
    return {**row, **changes}


def joined(flights: list[dict[str, object]], weathers: list[dict[str, object]]) -> pd.DataFrame:
    return join(pd.DataFrame(flights), pd.DataFrame(weathers), pd.DataFrame({"tailnum": ["N1"], "seats": [149]}))


def test_a_flight_gets_the_weather_of_its_airport_and_hour() -> None:
    others = [weather(origin="JFK", humid=1.0), weather(time_hour="2013-03-05T19:00:00Z", humid=2.0)]
    (row,) = joined([flight()], [weather(), *others]).to_dict("records")
    assert row["humid"] == 50.0
    assert row["seats"] == 149
    assert row["hour"] == 13
    assert row["weekday"] == "Tue"
    assert row[EVENT_TIME] == datetime(2013, 3, 5, 18, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("minutes", "late"), [(15.0, 0), (16.0, 1), (-5.0, 0)])
def test_late_means_more_than_fifteen_minutes(minutes: float, late: int) -> None:
    assert joined([flight(arr_delay=minutes)], [weather()])[LABEL].tolist() == [late]


def test_an_hour_without_weather_leaves_the_numbers_missing() -> None:
    (row,) = joined([flight(origin="LGA")], [weather()]).to_dict("records")
    assert np.isnan(row["pressure"])


def test_a_wind_that_no_anemometer_survives_counts_as_missing() -> None:
    assert joined([flight()], [weather(wind_speed=1048.4)])["wind_speed"].isna().all()


def test_rows_come_in_the_order_of_the_events() -> None:
    rows = [flight(flight=2, time_hour="2013-03-05T20:00:00Z"), flight(flight=3), flight(flight=1, sched_dep_time=1300)]
    assert joined(rows, [weather()])["flight"].tolist() == [1, 3, 2]


def test_the_whole_year_is_read_and_each_month_has_one_use() -> None:
    flights = all_flights()
    assert flights.rows_read == 336_776
    assert len(flights.june) == 28_243
    assert months(flights.june) == {6}
    assert months(flights.training) == {1, 2, 3, 4, 5}
    assert months(flights.held_out) == {5}
    assert flights.training[EVENT_TIME].max() < flights.held_out[EVENT_TIME].min()
    assert not set(flights.training["flight_id"]) & set(flights.held_out["flight_id"])


def test_no_feature_is_known_only_in_hindsight() -> None:
    assert not set(FEATURES) & {"dep_delay", "arr_delay", "air_time", "dep_time", "arr_time", LABEL, "month", "temp"}


def test_missing_numbers_stay_nan_in_arrow_as_they_do_in_requests() -> None:
    june = all_flights().june
    table = to_table(june)
    for name in NUMBERS:
        assert table[name].null_count == 0, name
        assert table[name].type == "float", name
    assert np.isnan(table["wind_gust"].to_numpy()).sum() == june["wind_gust"].isna().sum() > 0


def test_a_folder_without_the_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"flights\.csv\.zip"):
        read_flights(tmp_path)
    assert (package_data() / "weather.csv").is_file()
