"""Numbers and categories that a producer writes in another way: without their decimal point, or in brackets."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, report_on_tables
from tidegate_validation.skew.compare import compare
from tidegate_validation.skew.finding import findings_of
from tidegate_validation.skew.rule import Aspect, Judgement, SkewRule
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.statistics.window import table_window
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
ROWS = 300


def payments(seed: int, days: int, first: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    n = days * ROWS
    return pd.DataFrame(
        {
            "at": (first + np.repeat(np.arange(days), ROWS)) * DAY + random.integers(0, DAY, n),
            "amount": np.round(random.lognormal(3, 1.1, n), 2),
            "country": random.choice(["DE", "FR", "IT", "ES"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "city": random.choice(["Zürich", "São Paulo", "Malmö", "Đà Nẵng", "Nice"], n, p=[0.3, 0.2, 0.2, 0.2, 0.1]),
        }
    )


@functools.cache
def training() -> Profile:
    rows = payments(1, 40, 19_000)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def told(column: str, values: pd.Series) -> Finding:
    week = payments(2, 7, 19_040).assign(**{column: values})
    found = report_on_table(training(), as_table(week, "the week"), COLUMNS).feature(column)
    assert found.outcome is Outcome.FAIL
    return found


def test_numbers_without_their_decimal_point_are_no_hundred_times_as_much() -> None:
    amounts = payments(2, 7, 19_040)["amount"]
    found = told("amount", amounts.map(lambda one: float(f"{one:.15g}".replace(".", ""))))

    assert (found.cause or {})["how"] == "decimal point left out"


def test_numbers_in_hundredths_are() -> None:
    amounts = payments(2, 7, 19_040)["amount"]

    assert (found := told("amount", (100 * amounts).round()).cause) is not None
    assert (found["kind"], found["factor"]) == ("constant factor", 100.0)


def test_categories_in_brackets_are_written_another_way() -> None:
    found = told("country", payments(2, 7, 19_040)["country"].map(lambda one: f"[{one}]"))

    assert "written another way (an addition): “DE” as “[DE]”" in found.sentence


def without_marks(city: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFD", city) if unicodedata.category(one) != "Mn")


@pytest.mark.parametrize(
    ("change", "written"),
    [
        ("composed or decomposed Unicode", lambda city: unicodedata.normalize("NFD", city)),
        ("accents", without_marks),
        ("HTML escapes", lambda city: city.encode("ascii", "xmlcharrefreplace").decode()),
        ("text encoding", lambda city: city.encode().decode("latin-1").encode().decode("latin-1")),
        ("HTML escapes", lambda city: city.replace("ü", "&uuml;").replace("ö", "&ouml;").replace("ã", "&atilde;")),
        ("letters lost", lambda city: city.encode("ascii", "replace").decode()),
    ],
)
def test_cities_in_other_letters_are_written_another_way(change: str, written: Callable[[str], str]) -> None:
    found = told("city", payments(2, 7, 19_040)["city"].map(written))

    assert found.cause is not None
    assert (found.cause["kind"], found.cause["change"]) == ("written another way", change)


def test_categories_with_a_part_of_their_own_behind_are_written_another_way() -> None:
    countries = {"DE": "DE-BE", "FR": "FR-75", "IT": "IT-RM", "ES": "ES-MD"}
    found = told("country", payments(2, 7, 19_040)["country"].map(countries))

    assert "written another way (an addition): “DE” as “DE-BE”, “FR” as “FR-75”" in found.sentence


def test_several_categories_that_are_counted_as_one_are_named() -> None:
    cities = payments(2, 7, 19_040)["city"].replace({"Malmö": "Nice", "São Paulo": "Nice"})
    found = told("city", cities)

    assert found.cause is not None
    assert found.cause["kind"] == "merged categories"
    assert {found.cause["old"], *found.cause["also"]} == {"Malmö", "São Paulo"}
    assert found.sentence.endswith("are counted as “Nice” now")


def test_a_new_category_is_named_where_others_hardly_come_on_one_day() -> None:
    """None of them is counted as another one that has more rows on the day by chance."""
    random = np.random.default_rng(2)
    day = np.repeat(np.arange(61), [*[250] * 60, 356])
    broker = np.minimum((random.pareto(1.1, len(day)) * 3).astype(int), 14 + day // 12)
    rows = pd.DataFrame({"at": (19_000 + day) * DAY, "broker": [f"B{one}" for one in broker]})

    found = report_on_tables(rows[day < 60], rows[day == 60], COLUMNS).feature("broker")

    assert (found.cause or {}).get("values") == ["B19"], found.sentence


def test_a_distance_that_would_have_shown_is_not_told_as_in_training() -> None:
    """As where other columns' days hang together, so that no test says that it is surely further."""
    week = payments(2, 7, 19_040).assign(city="Nice")
    with table_window(as_table(week, "the week"), event_time="at") as window:
        numbers = compare(training(), window, SkewRule()).numbers["city"]
    passed = Judgement("city", Aspect.DISTRIBUTION, Outcome.PASS, 0.4, 0.2, 0.1, 0.2)
    (finding,) = findings_of(numbers, [passed], None, SkewRule(), None)

    assert finding.sentence.startswith("`city`: not surely further from training than days may be by chance (Δ 1.")
