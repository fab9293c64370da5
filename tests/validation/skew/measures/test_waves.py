"""Releases of a version: every few days or weeks a new one comes that no day before had, and the ones before go."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
TRAINED = 60
FIRST = 19_610


@functools.cache
def releases(apart: int) -> pd.DataFrame:
    """Rows of which a good half have the newest version from its first day on, with a release every so many days; the
    window begins with one of those that are two weeks apart."""
    random = np.random.default_rng(1)
    day = FIRST + np.repeat(np.arange(TRAINED + 7), 200)
    number = (day // apart - random.geometric(0.55, len(day)) + 1).astype(str)
    at = day * DAY + random.integers(0, DAY, len(day))
    return pd.DataFrame({"at": at, "version": np.char.add("5.", number), "build": number.astype(np.int64)})


@functools.cache
def training(apart: int, days: int) -> Profile:
    rows = releases(apart)[releases(apart)["at"] < (FIRST + days) * DAY]
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def week(apart: int = 14) -> pd.DataFrame:
    return releases(apart)[releases(apart)["at"] >= (FIRST + TRAINED) * DAY].reset_index(drop=True)


def found(column: str, values: Any, apart: int = 14, trained: int = TRAINED) -> Finding:
    rows = week(apart).assign(**{column: values})
    return report_on_table(training(apart, trained), as_table(rows, "the week"), COLUMNS).feature(column)


def newest(version: pd.Series[Any]) -> Any:
    return version.value_counts().index[0]


def some(version: pd.Series[Any], share: float) -> Any:
    return np.random.default_rng(2).random(len(version)) < share


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "0 instead of a number": lambda one: one.replace({newest(one): 0}),
    "a number far above in some rows": lambda one: one.mask(some(one, 0.3), 9999),
    "many new numbers where the next ones are": lambda one: one.mask(
        some(one, 0.3), pd.Series(np.random.default_rng(3).integers(1406, 1417, len(one)))
    ),
}
FAULTS: dict[str, Callable[[Any], Any]] = {
    "garbage instead of a version": lambda one: one.replace({newest(one): "unknown"}),
    "garbage in some rows": lambda one: one.mask(some(one, 0.3), "n/a"),
    "garbage in some rows that is written as versions are": lambda one: one.mask(
        some(one, 0.3), "5." + pd.Series(np.random.default_rng(3).integers(1500, 9000, len(one)).astype(str))
    ),
    "a version called otherwise": lambda one: one.replace({newest(one): f"v{newest(one)}"}),
    "all rows of one version": lambda one: one.map(lambda _: newest(one)),
    "no row of the last version": lambda one: one.replace({one.value_counts().index[1]: newest(one)}),
}


@pytest.mark.parametrize(
    ("column", "apart", "trained"),
    [
        pytest.param("version", 14, TRAINED, id="one in the week"),
        pytest.param("build", 14, TRAINED, id="as a number"),
        pytest.param("version", 3, TRAINED, id="several in the week"),
        pytest.param("version", 7, TRAINED - 7, id="a week after training"),
    ],
)
def test_releases_as_training_had_them_are_a_warning(column: str, apart: int, trained: int) -> None:
    told = found(column, week(apart)[column], apart, trained)
    assert told.outcome is Outcome.WARN, told.sentence


@pytest.mark.parametrize("fault", FAULTS)
def test_what_no_release_does_fails_in_the_week_of_one(fault: str) -> None:
    told = found("version", FAULTS[fault](week()["version"]))
    assert told.outcome is Outcome.FAIL, told.sentence


@pytest.mark.parametrize("fault", NUMBERS)
def test_what_no_release_does_fails_in_numbers_too(fault: str) -> None:
    told = found("build", NUMBERS[fault](week()["build"]))
    assert told.outcome is Outcome.FAIL, told.sentence


@pytest.mark.parametrize("fault", [one for one in FAULTS if one.startswith("garbage in some rows")])
def test_garbage_beside_a_release_is_not_told_as_another_name(fault: str) -> None:
    told = found("version", FAULTS[fault](week()["version"]))
    assert "is called" not in told.sentence


GARBAGE: dict[str, Callable[[int], Any]] = {
    "one text": lambda seed: "???",
    "a word": lambda seed: "undefined",
    "many numbers": lambda seed: pd.Series(np.random.default_rng(seed).integers(10**6, 10**7, 2_000).astype(str)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("apart", [3, 14])
@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_in_a_few_rows_beside_a_release_is_named(garbage: str, apart: int, seed: int) -> None:
    version = week(apart)["version"]
    hit = np.random.default_rng(seed).random(len(version)) < 0.03
    told = found("version", version.mask(hit, GARBAGE[garbage](seed)), apart)

    assert told.outcome is Outcome.FAIL, told.sentence
    assert told.cause is not None
    assert told.cause["kind"] == "new category", told.sentence
    assert not {*told.cause["values"]} & {*version}, told.sentence


@pytest.mark.parametrize(("days", "short"), [(14, True), (20, True), (TRAINED, False)])
def test_that_training_is_too_short_to_tell_releases_is_said(days: int, short: bool) -> None:
    rows = releases(14)
    first, end = (FIRST + TRAINED - days) * DAY, (FIRST + TRAINED) * DAY
    before = rows[(rows["at"] >= first) & (rows["at"] < end)]
    profile = profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in rows])
    told = report_on_table(profile, as_table(week(14), "the week"), COLUMNS).feature("version")

    assert (told.outcome is Outcome.FAIL) is short
    assert ("could not be compared: 21 days of training would tell" in told.sentence) is short, told.sentence


@functools.cache
def codes(seed: int, first: int, days: int) -> pd.DataFrame:
    """Codes of articles, of which each day brings new ones, in three forms, of which one is rare."""
    random = np.random.default_rng([seed, first])
    day = np.repeat(first + np.arange(days), 200)
    number = 10 * day + random.integers(-40, 10, len(day))
    kinds = random.choice(3, len(day), p=[0.6, 0.38, 0.02])
    code = [(f"AB-{one}", f"{one}/x", f"new {one}")[kind] for one, kind in zip(number, kinds, strict=True)]
    return pd.DataFrame({"at": day * DAY + random.integers(0, DAY, len(day)), "code": code})


@pytest.mark.parametrize("seed", range(6))
def test_new_codes_that_are_written_as_those_of_training_say_nothing_of_their_form(seed: int) -> None:
    profile = profile_table(as_table(codes(seed, FIRST, 40), "training"), COLUMNS, ["at", "code"])
    findings = report_on_table(profile, as_table(codes(seed, FIRST + 40, 7), "the week"), COLUMNS).findings

    assert [one.sentence for one in findings if "written as none" in one.sentence] == []


SUFFIXES = ("-rc1", "rc1", ".beta", "+g3f2a1c", "-hotfix.2", "_final", "+8xhw2", ".1", "-2", "b", "beta2")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("apart", [3, 7, 14])
def test_releases_with_a_suffix_say_nothing_of_their_form(suffix: str, apart: int) -> None:
    version = week(apart)["version"]
    told = found(
        "version",
        version.mask(~version.isin(releases(apart)["version"][: TRAINED * 200 - 1400]), version + suffix),
        apart,
    )

    assert "written as none" not in told.sentence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("garbage", ["2024-01-05", "12.5", "1.234,50", "12 kg", "12kg"])
def test_dates_and_amounts_among_whole_numbers_have_no_suffix(garbage: str, seed: int) -> None:
    rows = releases(3).assign(version=releases(3)["build"].astype(str))
    before = rows["at"] < (FIRST + TRAINED) * DAY
    profile = profile_table(as_table(rows[before], "training"), COLUMNS, ["at", "version"])
    now = rows[~before].reset_index(drop=True)
    hit = np.random.default_rng(seed).random(len(now)) < 0.03
    now["version"] = now["version"].mask(hit, garbage)
    told = report_on_table(profile, as_table(now, "the week"), COLUMNS).feature("version")

    assert (told.cause or {}).get("values") == [garbage], told.sentence


@pytest.mark.parametrize("seed", range(3))
def test_garbage_in_a_few_rows_is_named_where_releases_have_a_suffix(seed: int) -> None:
    version = week(3)["version"]
    hit = np.random.default_rng(seed).random(len(version)) < 0.03
    told = found("version", (version + "-rc1").mask(hit, "#REF!"), 3)

    assert (told.cause or {}).get("values") == ["#REF!"], told.sentence
