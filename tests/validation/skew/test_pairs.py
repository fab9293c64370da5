"""The same examples in two tables: what differs, how often, and why; float noise is no difference."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, SkewReport, report_on_tables
from tidegate_validation.skew.pairs import compare_pairs
from tidegate_validation.tables import as_table

ROWS = 3000


def examples() -> pd.DataFrame:
    random = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "id": np.arange(ROWS) * 7,
            "price": np.round(random.lognormal(3, 0.5, ROWS), 2),
            "weight": random.gamma(3, 0.8, ROWS),
            "hour": random.integers(0, 24, ROWS),
            "city": random.choice(["a", "b", "c", "d", "e"], ROWS),
            "paid": random.random(ROWS) < 0.03,
            "packed": pd.Timestamp("2026-03-01") + pd.to_timedelta(random.integers(0, 7 * 86_400, ROWS), unit="s"),
        }
    )


def compared(now: pd.DataFrame) -> list[Finding]:
    return compare_pairs(as_table(examples(), "a"), as_table(now, "b"), ["id"], None)


def others(share: float) -> Any:
    """Row numbers, for so many rows those of other rows."""
    random = np.random.default_rng(7)
    places = np.arange(ROWS)
    moved = random.random(ROWS) < share
    places[moved] = random.permutation(places[moved])
    return places


def part() -> Any:
    return np.random.default_rng(2).random(ROWS) < 0.05


Change = Callable[[Any], Any]
FAULTS: dict[str, tuple[str, Change, dict[str, Any]]] = {
    "factor": ("weight", lambda v: v * 1.01, {"kind": "constant factor", "factor": 1.01}),
    "offset": ("price", lambda v: v + 0.25, {"kind": "constant offset", "offset": 0.25}),
    "stale": ("price", lambda v: v.mask(part(), v.shift(1)), {"kind": "stale"}),
    "stale category": ("city", lambda v: v.mask(part(), v.shift(1)), {"kind": "stale"}),
    "another column": ("price", lambda v: examples()["weight"], {"kind": "other column", "column": "weight"}),
    "default": ("weight", lambda v: v.mask(part(), 0.0), {"kind": "default value", "value": 0.0}),
    "missing": ("price", lambda v: v.mask(part()), {"kind": "missing values"}),
    "clipped": ("price", lambda v: v.clip(upper=30.0), {"kind": "clipped", "at": 30.0}),
    "rounded": ("weight", lambda v: np.round(v, 1), {"kind": "rounded", "step": 0.1, "way": "rounded"}),
    "cut off": ("weight", np.floor, {"kind": "rounded", "step": 1.0, "way": "cut off"}),
    "fahrenheit": ("weight", lambda v: 1.8 * v + 32, {"kind": "factor and offset", "factor": 1.8, "offset": 32.0}),
    "clock": ("hour", lambda v: (v + 5) % 24, {"kind": "clock", "offset": 5.0}),
    "renamed": ("city", lambda v: v.replace("b", "B2"), {"kind": "renamed category", "old": "b", "new": "B2"}),
    "renamed in half of its rows": (
        "city",
        lambda v: v.mask((v == "b") & (np.arange(ROWS) % 2 == 0), "B2"),
        {"kind": "renamed category", "old": "b", "new": "B2"},
    ),
    "other rows": ("weight", lambda v: v.to_numpy()[others(1.0)], {"kind": "other rows"}),
    "other rows' prices": ("price", lambda v: v.to_numpy()[others(0.3)], {"kind": "other rows"}),
    "other rows' categories": ("city", lambda v: v.to_numpy()[others(0.3)], {"kind": "other rows"}),
    "other rows' truth": ("paid", lambda v: v.to_numpy()[others(1.0)], {"kind": "other rows"}),
    "joined by the city": (
        "weight",
        lambda v: v.groupby(examples()["city"]).transform("first"),
        {"kind": "other rows", "key": "city"},
    ),
    "time zone": ("packed", lambda v: v + pd.Timedelta(hours=5.5), {"kind": "clock", "offset": 5.5}),
    "stale stamp": ("packed", lambda v: v.mask(part(), v.shift(1)), {"kind": "stale"}),
    "capitals": ("city", lambda v: v.str.upper() + " ", {"kind": "spelling"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_same_examples_is_found_alone_and_named(fault: str) -> None:
    column, change, cause = FAULTS[fault]
    now = examples().assign(**{column: change(examples()[column])}).sample(frac=1.0, random_state=4)
    (found,) = compared(now)
    assert (found.subject, found.outcome) == (column, Outcome.FAIL)
    assert found.cause is not None, found.sentence
    assert found.cause == like(cause), found.sentence


def test_all_examples_are_told_as_a_hundred_percent() -> None:
    (found,) = compared(examples().assign(weight=examples()["weight"] * 1.01))
    assert found.sentence.startswith("`weight`: 100 % of the examples have another value than in training")


def test_float_noise_is_no_difference() -> None:
    noise = 1 + np.random.default_rng(3).normal(0, 1e-9, ROWS)
    now = examples().assign(price=examples()["price"] * noise, weight=examples()["weight"].astype("float32"))
    assert compared(now) == []


@pytest.mark.parametrize("least", [1_000_000, 2**60])
def test_whole_numbers_are_the_same_to_their_last_digit(least: int) -> None:
    before = pa.table({"id": range(300), "account": pa.array([*range(least, least + 299), None])})
    now = pa.table({"id": range(300), "account": pa.array([*range(least + 1, least + 300), None])})
    assert compare_pairs(before, before, ["id"], None) == []
    (found,) = compare_pairs(before, now, ["id"], None)
    assert (found.outcome, found.number) == (Outcome.FAIL, 299 / 300)
    assert found.sentence.endswith("another value than in training: training's plus 1")
    assert found.example is not None
    assert found.example["pairs"][0] == {"id": 0, "training": least, "served": least + 1}
    missing = now.set_column(1, "account", pa.array([*range(least, least + 298), None, 3]))
    (found,) = compare_pairs(before, missing, ["id"], None)
    assert (found.number, found.outcome) == (2 / 300, Outcome.WARN)


def test_stamps_that_keep_less_of_the_second_are_the_same() -> None:
    now = examples().assign(packed=lambda rows: rows["packed"] + pd.Timedelta(milliseconds=700))
    assert compared(now) == []


def test_a_moved_stamp_shows_both_moments() -> None:
    (found,) = compared(examples().assign(packed=lambda rows: rows["packed"] - pd.Timedelta(hours=1)))
    assert "1 h earlier than training's (time zone?)" in found.sentence
    assert found.example is not None
    one = found.example["pairs"][0]
    assert pd.Timestamp(one["training"]) - pd.Timestamp(one["served"]) == pd.Timedelta(hours=1)


def test_values_near_the_right_ones_are_not_those_of_other_examples() -> None:
    random = np.random.default_rng(8)
    near = np.round(examples()["price"] + random.normal(0, 0.3, ROWS), 2)
    known = np.sort(examples()["price"].unique())
    (found,) = compared(examples().assign(price=known[np.searchsorted(known, near).clip(max=len(known) - 1)]))
    assert found.cause is None, found.sentence


def test_values_that_differ_for_no_plain_reason_have_no_cause_but_examples() -> None:
    random = np.random.default_rng(5)
    now = examples().assign(weight=lambda rows: rows["weight"].mask(part(), random.gamma(3, 0.8, ROWS)))
    (found,) = compared(now)
    assert found.outcome is Outcome.FAIL
    assert found.cause is None
    assert found.interval is not None
    assert found.interval[0] < part().mean() < found.interval[1]
    assert found.example is not None
    one = found.example["pairs"][0]
    row = examples().set_index("id").loc[one["id"]]
    assert one["training"] == pytest.approx(row["weight"])
    assert one["served"] != pytest.approx(row["weight"])


def test_one_differing_example_of_thousands_is_a_warning() -> None:
    now = examples().assign(price=lambda rows: rows["price"] + (rows["id"] == 17 * 7))
    (found,) = compared(now)
    assert found.outcome is Outcome.WARN


def test_tables_without_a_common_key_say_so() -> None:
    (found,) = compared(examples().assign(id=lambda rows: rows["id"] + 1))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "no row" in found.sentence


def test_yesterdays_value_of_an_entity_is_stale() -> None:
    random = np.random.default_rng(6)
    days = pd.DataFrame({"shop": np.tile(np.arange(60), 30), "day": np.repeat(np.arange(30), 60)})
    days["stock"] = np.round(random.gamma(4, 30, len(days)))
    stale = days.groupby("shop")["stock"].shift(1)
    hit = (random.random(len(days)) < 0.1) & stale.notna()
    now = days.assign(stock=days["stock"].mask(hit, stale))
    (found,) = compare_pairs(as_table(days, "a"), as_table(now, "b"), ["shop", "day"], None)
    assert (found.cause or {})["kind"] == "stale"


def test_a_key_that_many_rows_have_names_no_example() -> None:
    (found,) = compare_pairs(as_table(examples(), "a"), as_table(examples(), "b"), ["city", "hour"], None)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "have the same `city` and `hour`: training has 120 of them for 3,000 different rows" in found.sentence


def test_examples_that_training_has_several_times_are_still_compared() -> None:
    often = pd.concat([examples()] * 4)
    (found,) = compare_pairs(as_table(often, "a"), as_table(examples().assign(hour=-1), "b"), ["id"], None)
    assert (found.subject, found.outcome) == ("hour", Outcome.FAIL)


def test_pairs_come_first_in_a_report_with_keys() -> None:
    now = examples().assign(price=lambda rows: rows["price"].mask(part(), rows["price"].shift(1)))
    found = report_on_tables(examples(), now, Columns(keys=("id",)))
    assert (found.findings[0].subject, found.findings[0].check) == ("price", "same example")
    assert "training's value of the row before" in found.findings[0].sentence
    assert report_on_tables(examples(), now).feature("price").outcome is Outcome.PASS


def reported(now: dict[str, Any], columns: Columns | None = None, **before: Any) -> SkewReport:
    """On two small tables of the same examples, which differ as told."""
    random = np.random.default_rng(9)
    own = {"id": np.arange(400), "x": random.normal(size=400), **before}
    return report_on_tables(pa.table(own), pa.table({**own, **now}), columns or Columns(keys=("id",)))


def paired(report: SkewReport) -> dict[str, Finding]:
    return {one.subject: one for one in report.findings if one.check == "same example"}


def test_examples_are_compared_without_what_is_left_out() -> None:
    columns = Columns(keys=("id",), ignore=("comment",))
    found = reported({"comment": ["b"] * 400}, columns, comment=["a"] * 400)
    assert (found.outcome, paired(found)) == (Outcome.PASS, {})


def test_dates_of_the_same_examples_are_compared_and_told_as_dates() -> None:
    born = [date(1950, 1, 1 + day % 28) for day in range(400)]
    moved = paired(reported({"born": [day.replace(year=1951) for day in born]}, born=born))["born"]
    assert (moved.outcome, moved.example and moved.example["pairs"][0]) == (
        Outcome.FAIL,
        {"id": 0, "training": "1950-01-01", "served": "1951-01-01"},
    )
    assert "they are 365 days later than training's" in moved.sentence
    default = paired(reported({"born": [date(1900, 1, 1)] * 400}, born=born))["born"]
    assert "1900-01-01 in all of them" in default.sentence
    assert (default.cause or {})["value"] == "1900-01-01"


def test_lists_of_the_same_examples_are_compared_number_by_number() -> None:
    vectors = np.random.default_rng(10).normal(size=(400, 3))
    close = pa.array(list((vectors * (1 + 1e-9)).astype("float32")), pa.list_(pa.float32()))
    assert paired(reported({"embedding": close}, embedding=list(vectors))) == {}
    other: list[Any] = [None, [1.0], *vectors[:398][::-1]]
    found = paired(reported({"embedding": other}, embedding=list(vectors)))["embedding"]
    assert (found.outcome, found.number) == (Outcome.FAIL, 1.0)
    assert found.example is not None
    assert found.example["pairs"][0] == {"id": 0, "training": vectors[0].tolist(), "served": None}


def test_whole_numbers_in_lists_are_compared_to_their_last_digit() -> None:
    bought = [[2**60 + 3 * one, None, 5] for one in range(400)]
    assert paired(reported({"bought": bought}, bought=bought)) == {}
    others = [[2**60 + 3 * one + 1, None, 5] for one in range(400)]
    assert paired(reported({"bought": others}, bought=bought))["bought"].outcome is Outcome.FAIL


def test_a_field_of_a_struct_is_a_key_and_is_compared() -> None:
    rows = [{"id": one, "price": 1.5 * one} for one in range(400)]
    moved = [{**one, "price": one["price"] + 2} for one in rows]
    found = reported({"order": moved}, Columns(keys=("order.id",)), order=rows)
    assert "training's plus 2" in paired(found)["order.price"].sentence


def test_text_times_that_are_missing_in_a_row_do_not_stop_a_comparison() -> None:
    times = [f"2026-03-{1 + row // 20:02}T12:00:00" if row else None for row in range(400)]
    now = {"x": np.random.default_rng(11).normal(size=400)}
    assert set(paired(reported(now, Columns(keys=("id",), time="at"), at=times))) == {"x"}


def test_whole_numbers_that_no_float_holds_are_compared() -> None:
    count = np.arange(400) * 10**13 + 2**60 + 1
    assert paired(reported({}, count=count)) == {}
    assert "2 times training's" in paired(reported({"count": 2 * count}, count=count))["count"].sentence


def test_what_cannot_be_compared_is_named() -> None:
    found = paired(reported({"code": [f"c{one}" for one in range(400)]}, code=np.arange(400)))["code"]
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.sentence == (
        "`code`: its examples cannot be compared one by one, as it is int64 in training and is string in what is served"
    )
    empty = paired(reported({"code": np.arange(400)}, code=[None] * 400))["code"]
    assert "as it holds nothing in training and is int64 in what is served" in empty.sentence
