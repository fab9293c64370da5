"""Every kind of skew in a column of its own: found, blamed first, called by its name; and none on days as they are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="sent_at", prediction="score", ignore=("id",))
DAY = 86_400
ALPHA = 0.05


def orders(seed: int, days: int, first_day: int, rows: int = 400) -> pd.DataFrame:
    """A shop's days: prices in cents, weights that shipping goes with, cities, an hour, a stamp, a score."""
    random = np.random.default_rng(seed)
    n = days * rows
    day = first_day + np.repeat(np.arange(days), rows)
    weight = random.gamma(3, 0.8, n)
    hour = np.clip(np.round(random.normal(14, 3, n)), 5, 22).astype(np.int64)
    second = np.sort(random.integers(0, DAY, (days, rows)), axis=1).ravel()
    popularity = np.array([30, 20, 15, 10, 8, 6, 5, 3, 2, 1.0])
    return pd.DataFrame(
        {
            "price": np.round(random.lognormal(3, 0.5, n), 2),
            "weight": weight,
            "shipping": np.round(2.5 + 1.7 * weight + random.normal(0, 0.3, n), 2),
            "fare": np.round(np.exp(random.normal(4, 1.6, n) + 0.4 * np.sin(day)), 2),
            "ratio": np.round(random.lognormal(0.5, 0.5, n), 2),
            "visits": random.choice(5, n, p=[0.2, 0.46, 0.22, 0.08, 0.04]),
            "pieces": 1 + random.poisson(1.2, n),
            "hour": hour,
            "city": random.choice([f"city {place}" for place in range(10)], n, p=popularity / popularity.sum()),
            "payment": random.choice(["card", "invoice", "cash"], n, p=[0.6, 0.3, 0.1]),
            "gift": random.random(n) < 0.2,
            "points": np.where(random.random(n) < 0.3, np.nan, np.round(random.gamma(2, 400, n))),
            "place": random.choice(["Köln", "Orléans", "Bonn", "Metz", "Trier"], n, p=[0.3, 0.25, 0.2, 0.15, 0.1]),
            "packed": pd.to_datetime(day * DAY + hour * 3600 + random.integers(0, 3600, n), unit="s"),
            "score": 1 / (1 + np.exp(-(weight - 2.5))),
            "bid": np.round(random.lognormal(0, 0.8, n), 4),
            "reach": np.round(10 * (1 + random.pareto(1.2, n)), 2),
            "metres": np.round(40 * (1 + random.pareto(1.2, n))).astype(np.int64),
            "sent_at": day * DAY + second,
            "id": np.arange(n),
        }
    )


@functools.cache
def training() -> Profile:
    rows = orders(1, 45, 16_000)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


@functools.cache
def week() -> pd.DataFrame:
    return orders(2, 7, 16_060)


def report(rows: pd.DataFrame) -> SkewReport:
    return report_on_table(training(), as_table(rows, "the week"), COLUMNS)


def part(share: float) -> Any:
    return np.random.default_rng(5).random(len(week())) < share


def changed(column: str, how: Callable[[Any], Any]) -> pd.DataFrame:
    return week().assign(**{column: how(week()[column])})


def swap(one: str, other: str) -> pd.DataFrame:
    return week().assign(**{one: week()[other], other: week()[one]})


KINDS: dict[str, tuple[str, Callable[[], pd.DataFrame], dict[str, Any]]] = {
    "thousand times": (
        "weight",
        lambda: changed("weight", lambda v: v * 1000),
        {"kind": "constant factor", "factor": 1000.0},
    ),
    "pounds in a part": (
        "weight",
        lambda: changed("weight", lambda v: v.mask(part(0.3), v * 2.20462)),
        {"kind": "constant factor", "factor": 2.20462, "units": "pounds against kilograms"},
    ),
    "pounds in a part of values on a grid": (
        "price",
        lambda: changed("price", lambda v: v.mask(part(0.1), v * 2.20462)),
        {"kind": "constant factor", "factor": 2.20462, "units": "pounds against kilograms"},
    ),
    "kilometres in a part of values that they hardly spread otherwise": (
        "bid",
        lambda: changed("bid", lambda v: v.mask(part(0.1), v * 1.609344)),
        {"kind": "constant factor", "factor": 1.609344, "units": "kilometres against miles"},
    ),
    "kilometres in a part of a wide column, rounded as before": (
        "reach",
        lambda: changed("reach", lambda v: v.mask(part(0.4), np.round(v * 1.609344, 2))),
        {"kind": "constant factor", "factor": 1.609344, "units": "kilometres against miles"},
    ),
    "kilometres in a part of whole numbers, rounded to two digits": (
        "metres",
        lambda: changed("metres", lambda v: v.astype(float).mask(part(0.2), np.round(v * 1.609344, 2))),
        {"kind": "constant factor", "factor": 1.609344, "units": "kilometres against miles"},
    ),
    "grams in one city": (
        "weight",
        lambda: changed("weight", lambda v: v.mask(week()["city"] == "city 4", v * 1000)),
        {"kind": "constant factor", "factor": 1000.0, "where": {"column": "city", "value": "city 4"}},
    ),
    "cents where it is a gift": (
        "price",
        lambda: changed("price", lambda v: v.mask(week()["gift"], v * 100)),
        {"kind": "constant factor", "factor": 100.0, "where": {"column": "gift", "value": "true"}},
    ),
    "miles where it is paid by invoice": (
        "weight",
        lambda: changed("weight", lambda v: v.mask(week()["payment"] == "invoice", v / 1.609344)),
        {"kind": "constant factor", "factor": 1 / 1.609344, "where": {"column": "payment", "value": "invoice"}},
    ),
    "sixty times, by the cents": (
        "fare",
        lambda: changed("fare", lambda v: v * 60),
        {"kind": "constant factor", "factor": 60.0, "units": "minutes against hours, or seconds against minutes"},
    ),
    "the other sign": ("weight", lambda: changed("weight", lambda v: -v), {"kind": "constant factor", "factor": -1.0}),
    "logarithm of large values": (
        "fare",
        lambda: changed("fare", lambda v: np.log(v)),
        {"kind": "transformed", "how": "natural logarithm"},
    ),
    "cut off to numbers that another column holds": (
        "ratio",
        lambda: changed("ratio", np.trunc),
        {"kind": "rounded", "step": 1.0, "way": "cut off"},
    ),
    "another column": ("weight", lambda: swap("weight", "shipping"), {"kind": "other column"}),
    "other categories": ("city", lambda: swap("city", "payment"), {"kind": "other column"}),
    "renamed": (
        "payment",
        lambda: changed("payment", lambda v: v.replace("invoice", "bill")),
        {"kind": "renamed category", "old": "invoice", "new": "bill"},
    ),
    "merged": (
        "city",
        lambda: changed("city", lambda v: v.replace("city 2", "city 0")),
        {"kind": "merged categories", "old": "city 2", "new": "city 0"},
    ),
    "clipped": ("price", lambda: changed("price", lambda v: v.clip(upper=40.0)), {"kind": "clipped", "at": 40.0}),
    "rounded": ("price", lambda: changed("price", np.round), {"kind": "rounded", "step": 1.0}),
    "frozen": ("weight", lambda: changed("weight", lambda v: 2.25), {"kind": "one value", "value": 2.25}),
    "collapsed": ("score", lambda: changed("score", lambda v: 0.5), {"kind": "one value", "value": 0.5}),
    "hours": ("hour", lambda: changed("hour", lambda v: (v + 5) % 24), {"kind": "clock", "offset": 5.0}),
    "stamps": (
        "packed",
        lambda: changed("packed", lambda v: v + pd.Timedelta(hours=5)),
        {"kind": "clock", "offset": 5.0},
    ),
    "zeros": (
        "price",
        lambda: changed("price", lambda v: v.mask(part(0.05), 0.0)),
        {"kind": "new value", "value": 0.0},
    ),
    "a default": (
        "price",
        lambda: changed("price", lambda v: v.mask(part(0.05), 20.0)),
        {"kind": "default value", "value": 20.0},
    ),
    "unit in part": (
        "weight",
        lambda: changed("weight", lambda v: v.mask(part(0.2), v * 1000)),
        {"kind": "constant factor", "factor": 1000.0},
    ),
    "outside": (
        "price",
        lambda: changed("price", lambda v: v.mask(part(0.03), 200.0 + 20 * np.random.default_rng(1).random(len(v)))),
        {"kind": "outside the range", "side": "above"},
    ),
    "nulls": ("city", lambda: changed("city", lambda v: v.mask(part(0.05), None)), {"kind": "missing values"}),
    "a new city": (
        "city",
        lambda: changed("city", lambda v: v.mask(part(0.02), "nowhere")),
        {"kind": "new category", "values": ["nowhere"]},
    ),
    "another case": (
        "city",
        lambda: changed("city", lambda v: v.str.upper()),
        {"kind": "written another way", "change": "letter case"},
    ),
    "more spaces": (
        "city",
        lambda: changed("city", lambda v: v + " "),
        {"kind": "written another way", "change": "spaces"},
    ),
    "read in a wrong encoding": (
        "place",
        lambda: changed("place", lambda v: v.map(lambda one: one.encode().decode("cp1252"))),
        {
            "kind": "written another way",
            "change": "text encoding",
            "spellings": [["Köln", "KÃ¶ln"], ["Orléans", "OrlÃ©ans"]],
        },
    ),
    "with something added": (
        "city",
        lambda: changed("city", lambda v: v.mask(part(0.2), v + "?from=mail")),
        {"kind": "written another way", "change": "an addition"},
    ),
    "cut off": (
        "place",
        lambda: changed("place", lambda v: v.str[:3]),
        {"kind": "written another way", "change": "cut off"},
    ),
    "a city that is gone": (
        "city",
        lambda: week()[week()["city"] != "city 3"],
        {"kind": "missing categories", "values": ["city 3"], "number": 1},
    ),
    "inverted": ("gift", lambda: changed("gift", lambda v: ~v), {"kind": "inverted"}),
    "counted from one": (
        "pieces",
        lambda: changed("pieces", lambda v: v + 1),
        {"kind": "constant offset", "offset": 1.0},
    ),
    "a number for missing ones": (
        "points",
        lambda: changed("points", lambda v: v.fillna(-999)),
        {"kind": "new value", "value": -999.0, "instead_of": "missing values"},
    ),
    "logarithm": (
        "price",
        lambda: changed("price", np.log),
        {"kind": "transformed", "how": "natural logarithm"},
    ),
    "standardised": (
        "price",
        lambda: changed("price", lambda v: (v - v.mean()) / v.std()),
        {"kind": "transformed", "how": "standardised to mean 0 and deviation 1"},
    ),
    "the other side": (
        "score",
        lambda: changed("score", lambda v: 1 - v),
        {"kind": "transformed", "how": "1 minus the value"},
    ),
    "twice": (
        "rows",
        lambda: pd.concat([week(), week()[part(0.05)]], ignore_index=True),
        {"kind": "duplicated rows"},
    ),
    "shuffled": (
        "shipping",
        lambda: changed("shipping", lambda v: np.random.default_rng(3).permutation(v.to_numpy())),
        {"kind": "shuffled"},
    ),
}
EITHER = {"weight": ("weight", "shipping", "score"), "city": ("city", "payment"), "shipping": ("shipping",)}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_found_first_and_called_by_its_name(kind: str) -> None:
    column, break_it, cause = KINDS[kind]
    first = report(break_it()).findings[0]
    assert first.outcome is Outcome.FAIL, first.sentence
    assert first.subject in EITHER.get(column, (column,)), first.sentence
    assert first.cause is not None, first.sentence
    assert first.cause == like(cause), first.sentence
    assert first.p_value is None or first.p_value < ALPHA, "a FAIL tells the p-value of the test that failed"


def test_the_week_as_it_is_passes() -> None:
    found = report(week())
    assert {one.outcome for one in found.findings} == {Outcome.PASS}, [one.sentence for one in found.findings]
    assert all(one.cause is None for one in found.findings)


def blamed(rows: pd.DataFrame, column: str) -> Finding:
    return report(rows).feature(column)


def test_numbers_that_came_as_text_are_told_and_the_other_columns_compared() -> None:
    found = report(changed("price", lambda v: v.map(lambda one: f"{one:.2f}".replace(".", ","))))
    first = found.findings[0]
    assert (first.subject, first.check, first.outcome) == ("price", "schema", Outcome.FAIL)
    assert "was float in training and is served as text" in first.sentence
    assert {one.outcome for one in found.findings[1:]} == {Outcome.PASS}


@pytest.mark.parametrize(("column", "value", "told"), [("weight", 2.25, "2.25"), ("price", 0.0, "0")])
def test_a_column_that_freezes_within_the_window_says_at_what_and_since_when(
    column: str, value: float, told: str
) -> None:
    """Also where training never held the value: it is no default of a part of the rows."""
    late = week()["sent_at"] // DAY >= 16_064
    found = report(changed(column, lambda v: v.mask(late, value))).feature(column)
    assert found.sentence == f"`{column}`: it is frozen at {told}, since 2013-12-25"
    assert found.cause is not None
    assert (found.cause["kind"], found.cause["value"]) == ("one value", value)
    some = report(changed(column, lambda v: v.mask(late & part(0.6), value))).feature(column)
    assert (some.cause or {})["kind"] != "one value"


def test_a_fault_that_begins_within_the_window_says_since_when() -> None:
    late = week()["sent_at"] >= 16_064 * DAY
    found = blamed(changed("weight", lambda v: v.mask(late, v * 1000)), "weight")
    assert found.outcome is Outcome.FAIL
    assert (found.cause or {})["since"] == "2013-12-25"
    assert "since 2013-12-25" in found.sentence
    whole = blamed(changed("weight", lambda v: v * 1000), "weight")
    assert "since" not in (whole.cause or {})


def test_a_share_of_rows_is_told() -> None:
    found = blamed(changed("price", lambda v: v.mask(part(0.05), 0.0)), "price")
    assert (found.cause or {})["share"] == pytest.approx(0.05, abs=0.01)
    assert "5." in found.sentence or "4." in found.sentence


def test_a_default_that_is_frequent_in_training_too_is_named() -> None:
    found = blamed(changed("pieces", lambda v: v.mask(part(0.1), 1)), "pieces")
    assert found.outcome in (Outcome.FAIL, Outcome.WARN)
    assert found.cause == like({"kind": "default value", "value": 1.0}), found.sentence
    assert (found.cause or {})["share"] == pytest.approx(0.1, abs=0.04)


def test_an_estimate_lies_within_its_own_interval() -> None:
    found = report(changed("weight", lambda v: v * 1.3)).findings
    estimates = [(one.subject, one.number, *one.interval) for one in found if one.interval and one.number is not None]
    assert {"weight", "shipping", "price"} <= {subject for subject, *_ in estimates}
    for subject, number, low, high in estimates:
        assert low <= number <= high, subject


def test_what_differs_without_a_plain_reason_has_no_cause() -> None:
    random = np.random.default_rng(8)
    lumpy = np.where(random.random(len(week())) < 0.5, 1.0, 5.0) + random.normal(0, 0.1, len(week()))
    found = blamed(changed("weight", lambda v: lumpy), "weight")
    assert found.outcome is Outcome.FAIL
    assert found.cause is None, found.sentence
