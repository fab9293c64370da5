"""What goes wrong between training and serving in `worlds`, as pipelines, clocks and people bring it about.

Of each mishap: the columns that may be blamed, and which causes are right. A cause that is neither right nor absent is
wrong, and worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from tests.bench.skew.faults import kind
from tests.bench.skew.worlds import TIME

Random = np.random.Generator
Rows = pd.DataFrame
Check = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Mishap:
    """`happen` breaks a copy of the window; `subjects` may be blamed; `right` says whether a cause is true.

    `needed` is false where no plain cause is to be expected, so that only a wrong one counts.
    """

    world: str
    name: str
    subjects: tuple[str, ...]
    happen: Callable[[Rows, Random], Rows]
    right: Check
    needed: bool = True


def _column(name: str, how: Callable[[Any, Rows, Random], Any]) -> Callable[[Rows, Random], Rows]:
    return lambda rows, random: rows.assign(**{name: how(rows[name], rows, random)})


def _never(cause: Mapping[str, Any]) -> bool:
    """No cause is to be named; that values lie outside training's range says no more than what is seen."""
    return cause.get("kind") == "outside the range"


def _respelled(change: str) -> Check:
    return kind("written another way", change=change)


def _hour(cause: Mapping[str, Any]) -> bool:
    return cause.get("kind") == "clock" and abs(abs(cause.get("offset", 99)) - 1) < 0.01


def _after(rows: Rows, days: int) -> Any:
    """The rows from the window's day `days` on."""
    day = rows[TIME].dt.floor("D")
    return day >= day.min() + pd.Timedelta(days=days)


def _weekend(rows: Rows) -> Any:
    return rows[TIME].dt.dayofweek >= 5


def _stuck(values: Any, rows: Rows, random: Random) -> Any:
    """One value for ten hours of the window's third day."""
    begin = rows[TIME].min().floor("D") + pd.Timedelta(days=2, hours=6)
    inside = (rows[TIME] >= begin) & (rows[TIME] < begin + pd.Timedelta(hours=10))
    return values.mask(inside, values[inside].iloc[0])


def _fan_out(column: str, copies: int) -> Callable[[Rows, Random], Rows]:
    """The rows of some values of a column come several times, as of a join with a table that has these twice."""

    def happen(rows: Rows, random: Random) -> Rows:
        names = np.unique(rows[column])
        hit = rows[rows[column].isin(random.choice(names, max(1, len(names) // 12), replace=False))]
        return pd.concat([rows, *[hit] * (copies - 1)], ignore_index=True)

    return happen


def _vectors(how: Callable[[Any, Random], Any]) -> Callable[[Rows, Random], Rows]:
    def happen(rows: Rows, random: Random) -> Rows:
        return rows.assign(vector=list(how(np.stack(rows["vector"].tolist()), random).astype(np.float32)))

    return happen


def _rotated(vectors: Any, random: Random) -> Any:
    turn, _ = np.linalg.qr(np.random.default_rng(8).normal(size=(vectors.shape[1],) * 2))
    return vectors @ turn


def _without_comma(values: Any) -> Any:
    """Decimal commas dropped: 12,50 is read as 1250 and 12,5 as 125."""
    return values.map(lambda one: float(f"{one:.15g}".replace(".", "")))


def _cut_at_thousands(values: Any) -> Any:
    """1,234.50 is read up to its comma."""
    return values.map(lambda one: one if abs(one) < 1000 else float(f"{one:,.2f}".split(",")[0]))


def _days_and_months(values: Any) -> Any:
    """Dates read with day and month in each other's place, where both are possible."""
    return values.map(lambda one: one.replace(month=one.day, day=one.month) if one.day <= 12 else one)


def _sorted(values: Any, rows: Rows, random: Random) -> Any:
    return np.sort(values.to_numpy())


def _mojibake(values: Any, rows: Rows, random: Random) -> Any:
    return values.map(lambda one: one.encode("utf-8").decode("latin-1"))


def _times(factor: float, of: Callable[[Rows], Any] | None = None) -> Callable[[Any, Rows, Random], Any]:
    return lambda values, rows, random: values * factor if of is None else values.where(~of(rows), values * factor)


_FACTOR = "constant factor"
_DEFAULTS = ("default value", "new value")


def _factor(factor: float, column: str = "", value: str = "") -> Check:
    def check(cause: Mapping[str, Any]) -> bool:
        where, found = cause.get("where"), cause.get("factor", 0.0)
        if cause.get("kind") != _FACTOR or found * factor <= 0:
            return False
        near = abs(np.log(found / factor)) <= max(0.01, 2.5 * cause.get("precision", 0.0))
        return bool(near and where in (None, {"column": column, "value": value}))

    return check


CLINIC = (
    ("mojibake", ("ward",), _column("ward", _mojibake), _respelled("text encoding")),
    ("upper case", ("ward",), _column("ward", lambda v, r, x: v.str.upper()), _respelled("letter case")),
    (
        "upper case of 12,000 codes",
        ("drug",),
        _column("drug", lambda v, r, x: v.str.lower()),
        _respelled("letter case"),
    ),
    ("blank added to 12,000 codes", ("drug",), _column("drug", lambda v, r, x: v + " "), _respelled("spaces")),
    (
        "missing filled by the mean",
        ("weight",),
        _column("weight", lambda v, r, x: v.fillna(v.mean())),
        kind(*_DEFAULTS),
    ),
    (
        "missing filled by 0",
        ("glucose",),
        _column("glucose", lambda v, r, x: v.fillna(0.0)),
        kind(*_DEFAULTS, value=0.0),
    ),
    ("Fahrenheit", ("temperature",), _column("temperature", lambda v, r, x: v * 1.8 + 32), kind("factor and offset")),
    ("mg/dl", ("glucose",), _column("glucose", _times(18.0156)), _factor(18.0156)),
    (
        "pounds in one ward",
        ("weight",),
        _column("weight", _times(2.20462, lambda r: r["ward"] == "Chirurgie")),
        _factor(2.20462, "ward", "Chirurgie"),
    ),
    ("all null", ("systolic",), _column("systolic", lambda v, r, x: v * np.nan), kind("missing values")),
    ("all null", ("ward",), _column("ward", lambda v, r, x: None), kind("missing values")),
    ("log1p", ("stay_days",), _column("stay_days", lambda v, r, x: np.log1p(v)), kind("transformed")),
    ("hours for days", ("stay_days",), _column("stay_days", _times(24.0)), _factor(24.0)),
    ("one row off", ("weight",), _column("weight", lambda v, r, x: v.shift(1)), kind("shuffled")),
    ("one row off", ("risk",), _column("risk", lambda v, r, x: v.shift(1)), kind("shuffled")),
    (
        "day and month swapped",
        ("next_visit",),
        _column("next_visit", lambda v, r, x: _days_and_months(v)),
        kind("day and month swapped"),
    ),
    (
        "target shift",
        ("readmitted",),
        _column("readmitted", lambda v, r, x: v.mask(x.random(len(v)) < 0.15, 1)),
        _never,
    ),
    ("inverted flag", ("insured",), _column("insured", lambda v, r, x: ~v), kind("inverted")),
    ("months for years", ("age",), _column("age", _times(12)), _factor(12.0)),
    ("rounded to 10", ("systolic",), _column("systolic", lambda v, r, x: np.round(v, -1)), kind("rounded", step=10.0)),
    ("flag as text", ("insured",), _column("insured", lambda v, r, x: v.astype(str)), _never),
    (
        "column renamed",
        ("weight", "weight_kg"),
        lambda r, x: r.rename(columns={"weight": "weight_kg"}),
        kind("renamed column"),
    ),
)
PAYMENTS = (
    (
        "summer time from day 3 on",
        ("hour_local",),
        _column("hour_local", lambda v, r, x: v.where(~_after(r, 3), (v + 1) % 24)),
        _hour,
    ),
    ("two zones off", ("hour_local",), _column("hour_local", lambda v, r, x: (v + 2) % 24), kind("clock", offset=2.0)),
    ("cents", ("amount",), _column("amount", _times(100.0)), _factor(100.0)),
    (
        "decimal comma dropped",
        ("amount",),
        _column("amount", lambda v, r, x: _without_comma(v)),
        kind("transformed", how="decimal point left out"),
    ),
    ("thousands cut at the comma", ("limit_eur",), _column("limit_eur", lambda v, r, x: _cut_at_thousands(v)), _never),
    (
        "text with a decimal comma",
        ("amount",),
        _column("amount", lambda v, r, x: v.map(lambda one: f"{one:.2f}".replace(".", ","))),
        _never,
    ),
    ("per cent", ("fee_share",), _column("fee_share", _times(100.0)), _factor(100.0)),
    (
        "per cent in 20 %",
        ("fee_share",),
        _column("fee_share", lambda v, r, x: v.where(x.random(len(v)) > 0.2, v * 100)),
        _factor(100.0),
    ),
    ("sign", ("amount",), _column("amount", _times(-1.0)), _factor(-1.0)),
    ("sign", ("balance",), _column("balance", _times(-1.0)), _factor(-1.0)),
    (
        "sign in one country",
        ("balance",),
        _column("balance", _times(-1.0, lambda r: r["country"] == "DE")),
        _factor(-1.0, "country", "DE"),
    ),
    (
        "another currency in one country",
        ("amount",),
        _column("amount", _times(4.3, lambda r: r["country"] == "FR")),
        _factor(4.3, "country", "FR"),
    ),
    (
        "kilo in one country",
        ("amount",),
        _column("amount", _times(1000.0, lambda r: r["country"] == "IT")),
        _factor(1000.0, "country", "IT"),
    ),
    (
        "32-bit floats",
        ("account",),
        _column("account", lambda v, r, x: v.astype(np.float32).astype(np.int64)),
        kind("32-bit floats"),
    ),
    (
        "32-bit wrap",
        ("account",),
        _column("account", lambda v, r, x: v.astype(np.int32)),
        kind("constant offset", offset=-(2.0**32)),
    ),
    ("other ids", ("account",), _column("account", lambda v, r, x: x.integers(0, 10**6, len(v))), _never),
    (
        "ids without their letter",
        ("merchant",),
        _column("merchant", lambda v, r, x: v.str[1:]),
        _respelled("a part left out"),
    ),
    (
        "ids without zeros",
        ("merchant",),
        _column("merchant", lambda v, r, x: "M" + v.str[1:].str.lstrip("0")),
        _respelled("leading zeros"),
    ),
    (
        "new merchants",
        ("merchant",),
        _column("merchant", lambda v, r, x: v.where(x.random(len(v)) > 0.3, "X" + v.str[1:])),
        kind("new category"),
    ),
    (
        "other catalogue of merchants",
        ("merchant",),
        _column("merchant", lambda v, r, x: "Q" + v.str[:0:-1]),
        kind("new category"),
    ),
    ("lower case", ("device",), _column("device", lambda v, r, x: v.str.lower()), _respelled("letter case")),
    ("blank behind", ("country",), _column("country", lambda v, r, x: v + " "), _respelled("spaces")),
    (
        "one producer sends 0",
        ("amount",),
        _column("amount", lambda v, r, x: v.where(r["producer"] != "node-3", 0.0)),
        kind(*_DEFAULTS, value=0.0),
    ),
    (
        "one producer sends null",
        ("balance",),
        _column("balance", lambda v, r, x: v.where(r["producer"] != "node-3")),
        kind("missing values"),
    ),
    (
        "one producer in cents",
        ("amount",),
        _column("amount", _times(100.0, lambda r: r["producer"] == "node-3")),
        _factor(100.0, "producer", "node-3"),
    ),
    (
        "one producer silent",
        ("producer",),
        lambda r, x: r[r["producer"] != "node-3"].reset_index(drop=True),
        kind("missing categories"),
    ),
    ("fan-out of a join", ("rows",), _fan_out("merchant", 3), kind("duplicated rows")),
    ("sorted", ("balance",), _column("balance", _sorted), kind("sorted")),
    ("sorted", ("risk",), _column("risk", _sorted), kind("sorted", "shuffled")),
    ("one row off", ("amount",), _column("amount", lambda v, r, x: v.shift(1)), kind("shuffled")),
    ("weekend doubled", ("amount",), _column("amount", _times(2.0, _weekend)), _factor(2.0)),
    ("rounded to 10", ("amount",), _column("amount", lambda v, r, x: np.round(v, -1)), kind("rounded", step=10.0)),
    (
        "16-bit wrap of cents",
        ("amount",),
        _column("amount", lambda v, r, x: np.round(v * 100).astype(np.int64).astype(np.int16) / 100),
        _never,
    ),
    (
        "nested",
        ("country",),
        _column("country", lambda v, r, x: [[one] for one in v]),
        kind("written another way", change="an addition"),
    ),
)
MACHINES = (
    ("stuck for ten hours", ("temperature",), _column("temperature", _stuck), kind(*_DEFAULTS, "one value")),
    ("stuck for ten hours", ("vibration",), _column("vibration", _stuck), kind(*_DEFAULTS, "one value")),
    (
        "Kelvin",
        ("temperature",),
        _column("temperature", lambda v, r, x: v + 273.15),
        kind("constant offset", offset=273.15),
    ),
    (
        "Fahrenheit at one site",
        ("temperature",),
        _column("temperature", lambda v, r, x: v.where(r["site"] != "mill", v * 1.8 + 32)),
        kind("factor and offset", where={"column": "site", "value": "mill"}),
    ),
    ("logarithm", ("vibration",), _column("vibration", lambda v, r, x: np.log(v)), kind("transformed")),
    ("logarithm", ("particles",), _column("particles", lambda v, r, x: np.log1p(v)), kind("transformed")),
    (
        "miles in 20 %",
        ("particles",),
        _column("particles", lambda v, r, x: v.where(x.random(len(v)) > 0.2, v * 1.609344)),
        _factor(1.609344),
    ),
    (
        "miles in 20 %",
        ("lifetime",),
        _column("lifetime", lambda v, r, x: v.where(x.random(len(v)) > 0.2, v * 1.609344)),
        _factor(1.609344),
    ),
    (
        "miles in 20 %",
        ("vibration",),
        _column("vibration", lambda v, r, x: v.where(x.random(len(v)) > 0.2, v * 1.609344)),
        _factor(1.609344),
    ),
    ("minutes for hours", ("lifetime",), _column("lifetime", _times(60.0)), _factor(60.0)),
    ("share for per cent", ("humidity",), _column("humidity", _times(0.01)), _factor(0.01)),
    (
        "110 volts at one site",
        ("voltage",),
        _column("voltage", _times(0.5, lambda r: r["site"] == "south")),
        _factor(0.5, "site", "south"),
    ),
    ("clipped", ("rpm",), _column("rpm", lambda v, r, x: v.clip(upper=2880)), kind("clipped", at=2880.0)),
    ("clipped", ("particles",), _column("particles", lambda v, r, x: v.clip(upper=60)), kind("clipped", at=60.0)),
    ("frozen", ("load",), _column("load", lambda v, r, x: 0.5), kind("one value")),
    (
        "frozen since day 4",
        ("humidity",),
        _column("humidity", lambda v, r, x: v.where(~_after(r, 4), 50.0)),
        kind("one value", *_DEFAULTS),
    ),
    ("weekend offset", ("voltage",), _column("voltage", lambda v, r, x: v.where(~_weekend(r), v + 20)), _never),
    (
        "firmware renamed",
        ("firmware",),
        _column("firmware", lambda v, r, x: v.replace("4.1.2", "4.3.0")),
        kind("renamed category", "new category"),
    ),
    (
        "swapped",
        ("voltage", "temperature"),
        lambda r, x: r.assign(voltage=r["temperature"], temperature=r["voltage"]),
        kind("other column"),
    ),
    (
        "prediction turned",
        ("wear",),
        _column("wear", lambda v, r, x: 1 - v),
        kind("transformed", how="1 minus the value"),
    ),
    ("counted from 1", ("errors",), _column("errors", lambda v, r, x: v + 1), kind("constant offset", offset=1.0)),
    (
        "infinite where idle",
        ("vibration",),
        _column("vibration", lambda v, r, x: v.where(x.random(len(v)) > 0.03, np.inf)),
        _never,
    ),
)
RIDES = (
    ("miles", ("km",), _column("km", _times(0.621371)), _factor(0.621371)),
    (
        "miles in 20 %",
        ("km",),
        _column("km", lambda v, r, x: v.where(x.random(len(v)) > 0.2, v * 0.621371)),
        _factor(0.621371),
    ),
    ("seconds", ("minutes",), _column("minutes", _times(60.0)), _factor(60.0)),
    (
        "places swapped",
        ("latitude", "longitude"),
        lambda r, x: r.assign(latitude=r["longitude"], longitude=r["latitude"]),
        kind("other column"),
    ),
    (
        "zones renumbered",
        ("zone",),
        _column("zone", lambda v, r, x: "zone " + (259 - v.str[5:].astype(int)).astype(str)),
        _never,
    ),
    ("zones as numbers", ("zone",), _column("zone", lambda v, r, x: v.str[5:].astype(int)), _never),
    ("drivers hashed anew", ("driver",), _column("driver", lambda v, r, x: (v * 7919) % 99_991), _never),
    ("vectors rotated", ("vector",), _vectors(_rotated), _never),
    (
        "vectors normalised",
        ("vector",),
        _vectors(lambda v, x: v / np.linalg.norm(v, axis=1, keepdims=True)),
        kind("normalised"),
    ),
    ("vectors of another model", ("vector",), _vectors(lambda v, x: np.tanh(_rotated(v, x)) * 2), _never),
    (
        "vectors of zeros in 10 %",
        ("vector",),
        _vectors(lambda v, x: v * (x.random(len(v)) > 0.1)[:, None]),
        kind("zero vectors"),
    ),
    ("vectors shuffled", ("vector",), _vectors(lambda v, x: x.permutation(v)), kind("shuffled")),
    ("vectors of 8", ("vector",), _vectors(lambda v, x: v[:, :8]), _never),
    ("tips gone", ("tip",), _column("tip", lambda v, r, x: v * 0), kind("one value")),
    ("tips null", ("tip",), _column("tip", lambda v, r, x: v.mask(v == 0)), kind("missing values")),
    ("surge as per cent", ("surge",), _column("surge", _times(100.0)), _factor(100.0)),
    ("collapsed", ("score",), _column("score", lambda v, r, x: float(v.mean())), kind("one value")),
    ("float32", ("latitude",), _column("latitude", lambda v, r, x: v.round(2)), kind("rounded", step=0.01)),
    (
        "counted from 0",
        ("passengers",),
        _column("passengers", lambda v, r, x: v - 1),
        kind("constant offset", offset=-1.0),
    ),
    (
        "a tenth of rides sent twice",
        ("rows",),
        lambda r, x: pd.concat([r, r[x.random(len(r)) < 0.1]], ignore_index=True),
        kind("duplicated rows"),
    ),
)
MISHAPS = tuple(
    Mishap(world, name, subjects, happen, right, right is not _never)
    for world, those in (("clinic", CLINIC), ("payments", PAYMENTS), ("machines", MACHINES), ("rides", RIDES))
    for name, subjects, happen, right in those
)
