"""Tables that a seed draws: which columns there are and of which kinds, how days differ, how many rows they have, how
many days are compared with how many. Nobody thought of any of them before.

A column's kind stands in its name, before the underscore. `event` is the time, `score` the prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

TIME = "event"
SCORE = "score"
_DAY = 86_400

Random = np.random.Generator
Numbers = npt.NDArray[np.float64]
Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class World:
    """Days before, and the days that are compared with them."""

    before: pd.DataFrame
    now: pd.DataFrame

    @property
    def numbers(self) -> list[str]:
        """Columns of numbers with more than a few values."""
        return [one for one in map(str, self.now) if kind_of(one) in _NUMBERS and self.now[one].nunique() > 4]

    @property
    def categories(self) -> list[str]:
        """Columns of few categories."""
        return [one for one in map(str, self.now) if kind_of(one) in ("places", "states")]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What columns are made of: each row's hour, its place on the day's level of a column, and what columns share."""

    random: Random
    hour: Numbers
    day: npt.NDArray[np.int64]
    days: int
    shared: Numbers

    def noise(self) -> Numbers:
        return self.random.normal(0, 1, len(self.hour))

    def level(self) -> Numbers:
        """A column's own level by the day, which wanders much or not at all."""
        random, spread, alike = self.random, self.random.choice([0, 0.02, 0.05, 0.1, 0.2]), self.random.choice([0, 0.6])
        found = random.normal(0, 1, self.days)
        for place in range(1, self.days):
            found[place] = alike * found[place - 1] + np.sqrt(1 - alike**2) * found[place]
        return np.asarray(spread * found[self.day])


def kind_of(column: str) -> str:
    """The kind of a column."""
    return column.partition("_")[0]


def _lognormal(rows: _Rows, spread: float) -> Numbers:
    return np.exp(rows.random.uniform(0, 7) + spread * rows.noise() + rows.level() + 0.3 * rows.shared)


def _prices(rows: _Rows) -> Numbers:
    ends = rows.random.choice([0.99, 0.95, 0.0, 0.5], len(rows.hour), p=[0.6, 0.15, 0.15, 0.1])
    return np.asarray(np.floor(np.exp(rows.random.uniform(1, 4) + 0.7 * rows.noise() + rows.level())) + ends)


def _degrees(rows: _Rows) -> Numbers:
    turn = np.sin(2 * np.pi * (rows.hour - rows.random.uniform(0, 24)) / 24)
    values = rows.random.uniform(5, 30) + rows.random.uniform(1, 6) * turn + 5 * rows.level() + rows.noise()
    return np.round(values + rows.shared, int(rows.random.integers(1, 4)))


def _mostly_zero(rows: _Rows) -> Numbers:
    zero = rows.random.random(len(rows.hour)) < rows.random.uniform(0.4, 0.9)
    return np.where(zero, 0.0, np.round(np.exp(3 + rows.noise() + rows.level()), 2))


def _counts(rows: _Rows) -> Numbers:
    return rows.random.poisson(rows.random.uniform(0.5, 40) * np.exp(rows.level())).astype(np.float64)


def _bursts(rows: _Rows) -> Numbers:
    return rows.random.poisson(rows.random.gamma(0.5, 8, len(rows.hour)) * np.exp(rows.level())).astype(np.float64)


def _cut_to_percent(rows: _Rows) -> Numbers:
    return np.asarray(np.round(np.clip(50 + 25 * rows.noise() + 40 * rows.level(), 0, 100), 1), dtype=np.float64)


def _ticks(rows: _Rows) -> Numbers:
    return np.clip(np.round(2000 + 300 * (rows.noise() + 3 * rows.level() + 0.5 * rows.shared)), 0, 4095)


def _balances(rows: _Rows) -> Numbers:
    return np.round(rows.random.standard_t(3, len(rows.hour)) * rows.random.uniform(10, 500) + 200, 2)


_NUMBERS: dict[str, Callable[[_Rows], Numbers]] = {
    "amounts": lambda rows: _lognormal(rows, rows.random.uniform(0.3, 1.2)),
    "heavy": lambda rows: _lognormal(rows, rows.random.uniform(1.5, 2.5)),
    "sizes": lambda rows: rows.random.gamma(rows.random.uniform(0.7, 6), 5, len(rows.hour)) * np.exp(rows.level()),
    "cents": lambda rows: np.round(_lognormal(rows, 0.8) * 100),
    "prices": _prices,
    "degrees": _degrees,
    "tips": _mostly_zero,
    "counts": _counts,
    "bursts": _bursts,
    "percent": _cut_to_percent,
    "ticks": _ticks,
    "balances": _balances,
    "shares": lambda rows: rows.random.beta(rows.random.uniform(0.6, 5), rows.random.uniform(0.6, 8), len(rows.hour)),
    "stars": lambda rows: rows.random.choice([1.0, 2, 3, 4, 5], len(rows.hour), p=[0.08, 0.05, 0.12, 0.3, 0.45]),
}
_PLACES = np.array(
    [
        "Oslo",
        "Lima",
        "Paris",
        "Rome",
        "Kyiv",
        "Accra",
        "Quito",
        "Delhi",
        "Cairo",
        "Perth",
        "Osaka",
        "Turin",
        "Leeds",
        "Malmö",
        "Köln",
    ]
)
_WORDS = np.array(
    [
        "please",
        "call",
        "back",
        "order",
        "late",
        "broken",
        "box",
        "thanks",
        "refund",
        "item",
        "size",
        "blue",
        "wrong",
        "again",
    ]
)


def _places(rows: _Rows) -> Values:
    weights = 1 / (1 + np.arange(rows.random.integers(3, 13))) ** rows.random.uniform(0.2, 1.3)
    return _PLACES[rows.random.choice(len(weights), len(rows.hour), p=weights / weights.sum())]


def _goods(rows: _Rows) -> Values:
    weights = 1 / (1 + np.arange(rows.random.integers(60, 900))) ** rows.random.uniform(0.5, 1.2)
    chosen = rows.random.choice(len(weights), len(rows.hour), p=weights / weights.sum())
    return np.array([f"sku-{place * 37 % 1009:04d}" for place in chosen])


_STATES = (0.8, 0.1, 0.06, 0.04)
_OTHERS: dict[str, Callable[[_Rows], Values]] = {
    "places": _places,
    "goods": _goods,
    "states": lambda rows: rows.random.choice(["OK", "FAILED", "PENDING", "N/A"], len(rows.hour), p=_STATES),
    "people": lambda rows: np.array([f"u{one:07x}" for one in rows.random.integers(0, 200_000, len(rows.hour))]),
    "notes": lambda rows: np.array([" ".join(rows.random.choice(_WORDS, 4)) for _ in rows.hour]),
    "flags": lambda rows: rows.random.random(len(rows.hour)) < rows.random.uniform(0.02, 0.6),
}


def draw(seed: int, rows: int | None = None) -> World:
    """The world of a seed, with about so many `rows` a day where that is given."""
    random = np.random.default_rng([77, seed])
    days, window = int(random.choice([30, 45, 60, 90])), int(random.choice([1, 3, 7, 7, 14]))
    start, each = int(random.integers(17_000, 19_900)), rows or int(random.choice([60, 150, 400, 1000]))
    week = np.where((np.arange(days + window) + start + 3) % 7 >= 5, random.uniform(0.3, 1.0), 1.0)
    wander = np.exp(random.normal(0, random.choice([0.02, 0.1, 0.3]), days + window))
    day = np.repeat(np.arange(days + window), np.maximum(random.poisson(each * week * wander), 3))
    second = random.beta(float(random.choice([1, 4])), 2.0, len(day)) * (_DAY - 1)
    shared = random.normal(0, 1, len(day))
    made = _Rows(random, second / 3600, day, days + window, shared)
    columns: dict[str, Any] = {}
    for place in range(int(random.integers(5, 16))):
        kind = str(random.choice([*_NUMBERS, *_OTHERS]))
        columns[f"{kind}_{place}"] = _with_gaps(random, (_NUMBERS | _OTHERS)[kind](made))
    columns[SCORE] = 1 / (1 + np.exp(-shared - 0.3 * made.noise()))
    columns[TIME] = pd.to_datetime((start + day) * _DAY + second.astype(np.int64), unit="s")
    table = pd.DataFrame(columns).sort_values(TIME, kind="stable")
    late = (table[TIME] - pd.Timestamp(start * _DAY, unit="s")).dt.days >= days
    return World(table[~late].reset_index(drop=True), table[late].reset_index(drop=True))


def _with_gaps(random: Random, values: Values) -> Values:
    """A quarter of the columns of numbers lack some."""
    if values.dtype == np.float64 and random.random() < 0.25:
        values[random.random(len(values)) < random.uniform(0.01, 0.3)] = np.nan
    return values
