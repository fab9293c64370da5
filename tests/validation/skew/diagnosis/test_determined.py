"""A cause is named only where the data determine it: what looks alike is not guessed at, and what was changed by
another number than people usually mix up is not given the nearest name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like
from tests.validation.skew.power import power

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport, report_on_tables
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at", label="churned")
DAY = 86_400
ROWS = 300
SEEN = (Outcome.FAIL, Outcome.WARN)


def customers(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """Days of a shop's customers, with ids, codes, texts that come once, a meter's volts and a label."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    day = first_day + np.repeat(np.arange(days), ROWS)
    second = np.sort(random.integers(0, DAY, (days, ROWS)), axis=1).ravel()
    country = random.choice(["DE", "FR", "IT", "ES"], n, p=[0.4, 0.25, 0.2, 0.15])
    kind = random.choice(["small", "large"], n, p=[0.7, 0.3])
    code = random.zipf(1.4, n) % 700
    return pd.DataFrame(
        {
            "spent": np.round(random.lognormal(3, 0.8, n), 2),
            "size": np.exp(random.normal(0, 0.5, n) + 1.5 * (kind == "large")),
            "volts": np.round(random.normal(230, 1.5, n), 2),
            "member": random.integers(1, 20_000, n),
            "account": 3_900_000_000 + random.integers(0, 10**6, n) * 397,
            "errors": np.where(random.random(n) < 0.96, 0, random.geometric(0.4, n)),
            "code": [f"K{one:04d}" for one in code],
            "country": country,
            "kind": kind,
            "note": [f"note {one}" for one in random.integers(0, 10**9, n)],
            "score": 1 / (1 + np.exp(random.normal(0, 1, n))),
            "churned": (random.random(n) < 0.1).astype(np.int64),
            "income": as_people_say(random.lognormal(10, 0.5, n), random),
            "at": pd.to_datetime(day * DAY + second, unit="s"),
        }
    )


def as_people_say(values: Floats, random: np.random.Generator) -> Floats:
    """Half of them in thousands, the others in tens."""
    return np.where(random.random(len(values)) < 0.5, np.round(values, -3), np.round(values, -1))


@functools.cache
def training() -> Profile:
    rows = customers(1, 50, 19_600)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def week() -> pd.DataFrame:
    return customers(2, 7, 19_650)


def report(rows: pd.DataFrame) -> SkewReport:
    return report_on_table(training(), as_table(rows, "the week"), COLUMNS)


def test_a_week_as_it_is_has_nothing_to_tell() -> None:
    assert report(week()).outcome is Outcome.PASS


Change = Callable[[pd.DataFrame], pd.DataFrame]

NOT_DETERMINED: dict[str, tuple[str, Change]] = {
    "ids given anew are no five times the old ones": (
        "member",
        lambda rows: rows.assign(member=(rows["member"] * 7919) % 99_991),
    ),
    "of two values one grows whatever happened": (
        "churned",
        lambda rows: rows.assign(churned=rows["churned"].mask(np.arange(len(rows)) % 5 == 0, 1)),
    ),
    "an offset on two of seven days is no factor": (
        "volts",
        lambda rows: rows.assign(volts=rows["volts"].mask(rows["at"].dt.day % 7 < 2, rows["volts"] + 20)),
    ),
    "scores a little higher may be those of another mix of customers": (
        "score",
        lambda rows: rows.assign(score=1.06 * rows["score"]),
    ),
    "something else in whole numbers is not rounded": (
        "volts",
        lambda rows: rows.assign(volts=np.round(10 * (rows["volts"] - 230).abs())),
    ),
}


@pytest.mark.parametrize("name", NOT_DETERMINED)
def test_no_cause_is_named_where_the_data_determine_none(name: str) -> None:
    subject, change = NOT_DETERMINED[name]
    found = report(change(week())).feature(subject)
    assert found.outcome in SEEN
    assert (found.cause or {}).get("kind") in (None, "outside the range")


def test_a_rare_flag_of_a_few_rows_is_no_flag_less_one() -> None:
    """Its zeros are training's ones less one, and its single one is training's own."""
    random = np.random.default_rng(15)
    flag = np.concatenate([(random.random(1058) < 0.045).astype(int), [1], np.zeros(50, dtype=int)])
    at = pd.to_datetime(np.sort(random.integers(0, 20 * 86_400, 1058)).tolist() + [21 * 86_400] * 51, unit="s")
    rows = pd.DataFrame({"at": at, "flag": flag})
    profile = profile_table(as_table(rows[:1058], "training"), Columns(time="at"), ["at", "flag"])

    found = report_on_table(profile, as_table(rows[1058:], "the day"), Columns(time="at")).feature("flag")

    assert found.outcome is not Outcome.FAIL, found.sentence
    assert found.cause is None


def test_whole_numbers_are_no_tenth_of_tens() -> None:
    """Any whole number times ten is one of training's tens."""
    cause = report(week().assign(income=lambda rows: np.round(rows["income"] / 12))).feature("income").cause
    assert cause is None or cause["factor"] == pytest.approx(1 / 12, rel=0.06)
    cause = report(week().assign(income=lambda rows: rows["income"] / 10)).feature("income").cause
    assert cause == like({"kind": "constant factor", "factor": 0.1})


def test_whole_numbers_are_no_hundred_times_cents_because_any_are() -> None:
    cause = report(week().assign(spent=lambda rows: np.round(rows["spent"] * 86))).feature("spent").cause
    assert cause is None or cause["factor"] == pytest.approx(86, rel=0.05)
    cause = report(week().assign(spent=lambda rows: np.round(rows["spent"] * 100))).feature("spent").cause
    assert cause == like({"kind": "constant factor", "factor": 100.0})


@pytest.mark.parametrize("factor", [88.4, 100.0])
def test_nor_are_they_where_training_knows_few_values(factor: float) -> None:
    random = np.random.default_rng(7)
    before, now = (
        pd.DataFrame(
            {
                "at": pd.to_datetime(np.sort(random.uniform(first, first + days, 60 * days)), unit="D"),
                "creatinine": np.round(np.exp(random.normal(0, 0.35, 60 * days)), 2),
            }
        )
        for first, days in ((19_600, 90), (19_690, 7))
    )
    profile = profile_table(as_table(before, "training"), Columns(time="at"), ["at", "creatinine"])
    served = now.assign(creatinine=np.round(now["creatinine"] * factor))
    cause = report_on_table(profile, as_table(served, "a week"), Columns(time="at")).feature("creatinine").cause
    assert cause is None or cause["factor"] == pytest.approx(factor, rel=0.08)
    assert cause is not None or factor != 100.0


def summer(seed: int) -> tuple[Profile, pd.DataFrame]:
    """A year of a thermometer that is read by the hour, and the summer week after it."""
    random = np.random.default_rng(seed)
    day, hour = np.repeat(np.arange(374), 24), np.tile(np.arange(24), 374)
    season = 10 - 9 * np.cos(2 * np.pi * (day + 170) / 365) + 3 * random.normal(0, 1, 374)[day]
    warmth = season + 4 * np.sin(hour / 24 * 2 * np.pi) + random.normal(0, 0.5, len(day))
    at = pd.to_datetime((19_600 + day) * DAY + hour * 3600, unit="s")
    rows = pd.DataFrame({"at": at, "warmth": np.round(warmth, 1)})
    return profile_table(as_table(rows[day < 367], "a year"), Columns(time="at"), ["at", "warmth"]), rows[day >= 367]


@pytest.mark.parametrize(("seed", "more"), [(4, 15), (4, 20), (5, 12), (11, 12), (11, 15)])
def test_a_thermometer_that_tells_too_much_by_some_offset_is_in_no_other_unit(seed: int, more: int) -> None:
    year, week = summer(seed)
    week = week.assign(warmth=week["warmth"] + more)
    found = report_on_table(year, as_table(week, "a week"), Columns(time="at")).feature("warmth")
    assert found.outcome is Outcome.FAIL
    assert (found.cause or {}).get("factor") is None, found.sentence


@pytest.mark.parametrize("seed", [4, 5, 11])
def test_one_that_tells_fahrenheit_is(seed: int) -> None:
    year, week = summer(seed)
    week = week.assign(warmth=np.round(week["warmth"] * 1.8 + 32, 1))
    found = report_on_table(year, as_table(week, "a week"), Columns(time="at")).feature("warmth")
    assert found.cause == like({"kind": "factor and offset", "factor": 1.8, "offset": 32.0}), found.sentence


def test_a_tenfold_is_named_although_the_window_lies_elsewhere_as_its_days_do() -> None:
    """Days hang together: a window a tenth higher is nothing new, and values of one digit are whole ones times ten."""
    random = np.random.default_rng(6)
    levels = np.zeros(64)
    for place in range(1, 64):
        levels[place] = 0.8 * levels[place - 1] + random.normal(0, 0.6)
    levels[60:] = levels[:60].max()
    day = np.repeat(np.arange(64), 150)
    rows = pd.DataFrame(
        {
            "at": pd.to_datetime((19_600 + day) * DAY + np.tile(np.arange(150) * 500, 64), unit="s"),
            "warmth": np.round(20 + levels[day] + random.normal(0, 1, len(day)), 1),
        }
    )
    profile = profile_table(as_table(rows[day < 60], "training"), Columns(time="at"), ["at", "warmth"])
    tenfold = rows[day >= 60].assign(warmth=lambda rows: rows["warmth"] * 10)
    cause = report_on_table(profile, as_table(tenfold, "days"), Columns(time="at")).feature("warmth").cause
    assert cause == like({"kind": "constant factor", "factor": 10.0})


DETERMINED: dict[str, tuple[str, Change, dict[str, object]]] = {
    "free text is not any other column": (
        "country",
        lambda rows: rows.assign(country=rows["country"].str.lower()),
        {"kind": "written another way", "change": "letter case"},
    ),
    "zeros left out in front of numbers": (
        "code",
        lambda rows: rows.assign(code="K" + rows["code"].str[1:].str.lstrip("0")),
        {"kind": "written another way", "change": "leading zeros"},
    ),
    "a column that hardly ever changes is counted from 1": (
        "errors",
        lambda rows: rows.assign(errors=rows["errors"] + 1),
        {"kind": "constant offset", "offset": 1.0},
    ),
    "sorted apart from its rows": (
        "score",
        lambda rows: rows.assign(score=np.sort(rows["score"])),
        {"kind": "sorted", "way": "ascending"},
    ),
    "ids went through 32-bit floats": (
        "account",
        lambda rows: rows.assign(account=rows["account"].astype(np.float32).astype(np.int64)),
        {"kind": "32-bit floats", "step": 256.0},
    ),
    "a sign turned in one country": (
        "volts",
        lambda rows: rows.assign(volts=rows["volts"].where(rows["country"] != "IT", -rows["volts"])),
        {"kind": "constant factor", "factor": -1.0, "where": {"column": "country", "value": "IT"}},
    ),
}


@pytest.mark.parametrize("name", DETERMINED)
def test_what_the_data_determine_is_named(name: str) -> None:
    subject, change, wanted = DETERMINED[name]
    found = report(change(week())).feature(subject)
    assert found.outcome is Outcome.FAIL
    assert found.cause == like(wanted)


def test_a_factor_that_has_no_name_is_told_as_it_was_estimated() -> None:
    rows = week()
    found = report(rows.assign(spent=rows["spent"].where(rows["country"] != "FR", rows["spent"] * 4.3)))
    cause = found.feature("spent").cause or {}
    assert cause["where"] == {"column": "country", "value": "FR"}
    assert abs(cause["factor"] / 4.3 - 1) < 3 * cause["precision"] < 0.2
    assert "units" not in cause


def readings(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """Readings of machines, which shake more the more they are loaded; the mode goes by the load."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    load = np.clip(random.normal(0.5, 0.2, n), 0, 1)
    return pd.DataFrame(
        {
            "shaking": np.exp(-1 + 1.2 * load + 0.5 * random.normal(size=n)),
            "mode": np.array(["idle", "normal", "boost"])[np.where(load < 0.35, 0, np.where(load < 0.7, 1, 2))],
            "at": (first_day + np.repeat(np.arange(days), ROWS)) * DAY + np.tile(np.arange(ROWS) * 280, days),
        }
    )


@pytest.mark.parametrize("seed", range(3))
def test_neither_a_category_that_has_other_values_anyway_nor_all_rows_are_blamed(seed: int) -> None:
    before, now = readings(1, 50, 19_600), readings(10 + seed, 7, 19_650)
    part = np.random.default_rng(seed).random(len(now)) < 0.2
    broken = now.assign(shaking=now["shaking"].mask(part, now["shaking"] * 1.609344))
    found = report_on_tables(before, broken, Columns(time="at")).feature("shaking")
    assert found.outcome in SEEN
    assert found.cause is None or (found.cause["factor"], found.cause.get("where")) == (1.609344, None)


@pytest.mark.parametrize("column", ["country", "spent", "errors"])
def test_a_column_without_a_single_value_is_missing_whatever_its_type(column: str) -> None:
    found = report(week().assign(**{column: None})).feature(column)
    assert found.outcome is Outcome.FAIL
    assert found.cause == like({"kind": "missing values"})


def test_days_in_the_middle_of_a_window_are_seen_though_windows_beside_it_hold_them_too() -> None:
    rows = week()
    middle = rows["at"].dt.floor("D").rank(method="dense").isin([3, 4, 5])
    found = report(rows.assign(spent=rows["spent"].where(~middle, rows["spent"] * 2))).feature("spent")
    assert found.check == "distribution"
    assert found.outcome in SEEN


def test_missing_values_of_one_category_are_told_with_it() -> None:
    rows = week()
    found = report(rows.assign(spent=rows["spent"].where(rows["country"] != "ES"))).feature("spent")
    assert found.cause == like({"kind": "missing values", "where": {"column": "country", "value": "ES"}})
    assert found.sentence.endswith(": where `country` is “ES”")


def test_missing_values_of_any_rows_are_told_without_a_category() -> None:
    rows = week()
    found = report(rows.assign(spent=rows["spent"].where(np.arange(len(rows)) % 7 > 0))).feature("spent")
    assert found.cause == like({"kind": "missing values"})
    assert "where" not in (found.cause or {})


def test_two_days_of_a_week_that_are_unlike_all_days_of_training_are_a_warning() -> None:
    rows = week()
    two = rows["at"].dt.floor("D").rank(method="dense").isin([3, 4])
    found = report(rows.assign(spent=rows["spent"].where(~two, rows["spent"] * 2)))
    mine = [one for one in found.findings if one.subject == "spent"]
    assert mine[0].outcome is Outcome.WARN
    assert "on 2 of 7 days it is unlike on any day of training (2023-10-22, 2023-10-23)" in mine[0].sentence


def test_weekends_that_are_told_as_the_nights_of_weekdays_are_a_warning() -> None:
    """Training knows days of two kinds, so that those of a third lie no further from all of it."""
    random = np.random.default_rng(6)
    day = 19_500 + np.repeat(np.arange(74), 200)
    weekend = (day + 3) % 7 >= 5
    tariff = np.where(weekend, "WE", random.choice(["HT", "NT"], len(day)))
    rows = pd.DataFrame({"tariff": tariff, "at": pd.to_datetime(day * 86_400, unit="s")})
    before, now = rows[: 60 * 200], rows[60 * 200 :].reset_index(drop=True)

    assert report_on_tables(before, now, Columns(time="at")).feature("tariff").outcome is Outcome.PASS
    changed = now.assign(tariff=now["tariff"].replace("WE", "NT"))
    found = report_on_tables(before, changed, Columns(time="at")).feature("tariff")
    assert (found.outcome, found.check) == (Outcome.WARN, "days")
    assert found.sentence.startswith("`tariff`: on 4 of 14 days it is unlike on any day of training")


def test_a_column_under_another_name_is_told_with_it() -> None:
    found = report(week().rename(columns={"spent": "spent_eur", "kind": "type"}))
    assert found.feature("spent").cause == like({"kind": "renamed column", "column": "spent_eur"})
    assert found.feature("kind").cause == like({"kind": "renamed column", "column": "type"})


def test_a_new_column_that_holds_other_values_is_not_taken_for_a_missing_one() -> None:
    rows = week().drop(columns="spent")
    found = report(rows.assign(price=np.random.default_rng(6).lognormal(1, 0.3, len(rows)))).feature("spent")
    assert (found.check, found.cause) == ("schema", None)


def test_days_of_few_rows_are_not_unlike_all_others_by_chance() -> None:
    blamed = []
    for seed in range(6):
        rows = customers(20 + seed, 7, 19_650)
        thin = rows.groupby(rows["at"].dt.floor("D"), group_keys=False).sample(60, random_state=seed)
        blamed += [one.sentence for one in report(thin).findings if one.check == "days"]
    assert blamed == []


def test_a_level_that_wanders_is_not_told_as_a_distance_beyond_the_margin() -> None:
    rows = week()
    nearly = np.argsort(np.arange(len(rows)) + np.random.default_rng(4).normal(0, 150, len(rows)))
    wandering = np.sort(rows["score"])[nearly]
    found = report(rows.assign(score=wandering)).feature("score")
    assert found.outcome is Outcome.FAIL
    assert "wanders over the days as it never did in training (Δ 0.1" in found.sentence


@pytest.mark.parametrize(("seed", "moved"), [(1, 8.0), (2, 5.0), (0, -6.0)])
def test_a_level_that_moved_on_a_close_grid_is_no_factor(seed: int, moved: float) -> None:
    """To a tenth of a degree values are among training's wherever they lie, with any factor undone."""
    random = np.random.default_rng(seed)
    level = np.zeros(27)
    for day in range(1, len(level)):
        level[day] = 0.7 * level[day - 1] + random.normal(0, 0.8)
    days = np.repeat(np.arange(len(level)), 288)
    at = (19_000 + days) * 86_400 + np.tile(np.arange(288) * 300, len(level))
    rows = pd.DataFrame({"at": at, "warm": np.round(48 + level[days] + random.normal(0, 0.8, len(days)), 1)})
    training, week = rows[days < 20], rows[days >= 20]
    profile = profile_table(as_table(training, "training"), Columns(time="at"), ["at", "warm"])

    now = week.assign(warm=(week["warm"] + moved).round(1))
    found = report_on_table(profile, as_table(now, "the week"), Columns(time="at")).feature("warm")

    assert found.outcome is Outcome.FAIL
    assert (found.cause or {}).get("kind") != "constant factor", found.sentence
    assert "wanders" not in found.sentence


def plays(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Thirty days of a game and a week in which people play for longer: hits, of which most play without any, seconds,
    and a price that grows."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(37), 400)
    n, longer = len(day), np.where(day >= 30, 1.3, 1.0)
    rows = pd.DataFrame(
        {
            "at": (19_000 + day) * 86_400 + random.integers(0, 86_400, n),
            "hits": np.where(random.random(n) < 0.55, 0, random.negative_binomial(1, 0.12, n)),
            "seconds": np.round(random.weibull(0.7, n) * 900 * longer),
            "price": np.round(random.lognormal(2, 0.25, n) * 1.01**day, 2),
        }
    )
    return rows[day < 30], rows[day >= 30]


def test_of_two_columns_that_swapped_each_holds_the_other() -> None:
    before, now = plays(1)
    report = report_on_tables(before, now.assign(hits=now["seconds"], seconds=now["hits"]), Columns(time="at"))
    for name, other in (("hits", "seconds"), ("seconds", "hits")):
        found = report.feature(name)
        assert found.outcome is Outcome.FAIL
        assert found.cause is not None
        assert (found.cause["kind"], found.cause.get("column")) == ("other column", other), found.sentence


def test_a_sign_that_all_rows_lost_is_named_where_values_grow_with_time() -> None:
    before, now = plays(2)
    found = report_on_tables(before, now.assign(price=-now["price"]), Columns(time="at")).feature("price")
    assert found.cause is not None
    assert (found.cause["kind"], found.cause["factor"]) == ("constant factor", -1.0), found.sentence


def moods(seed: int, middle: float) -> pd.DataFrame:
    """Scores from -1 to 1 in thousandths: skewed ones, or symmetric ones about a middle that moves at the end."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(16_000, 16_037), 300)
    skewed = random.beta(3, 2, len(day)) * 2 - 1
    even = random.beta(4, 4, len(day)) * 1.4 - 0.7 + np.where(day < 16_030, middle, -middle)
    return pd.DataFrame({"mood": np.round(even if middle else skewed, 3), "at": day * 86_400.0})


@pytest.mark.parametrize("middle", [0.0, 0.1])
def test_a_sign_that_changed_is_named_on_a_grid_of_both_signs_unless_an_offset_says_as_much(middle: float) -> None:
    rows = moods(4, middle)
    before, now = rows[rows["at"] < 16_030 * 86_400], rows[rows["at"] >= 16_030 * 86_400]
    now = now if middle else now.assign(mood=-now["mood"])
    found = report_on_tables(before, now, Columns(time="at")).feature("mood")
    assert found.outcome is Outcome.FAIL
    assert ((found.cause or {}).get("factor") == -1.0) is not bool(middle), found.sentence


@pytest.mark.parametrize("seed", range(4))
def test_tenths_of_numbers_on_both_sides_of_zero_are_called_rounded_and_no_hundreds(seed: int) -> None:
    rows = moods(seed, 0.0)
    before, now = rows[rows["at"] < 16_030 * 86_400], rows[rows["at"] >= 16_030 * 86_400]
    found = report_on_tables(before, now.assign(mood=now["mood"].round(1)), Columns(time="at")).feature("mood")
    assert found.outcome is Outcome.FAIL
    assert (found.cause or {}).get("kind") in ("rounded", "few values"), found.sentence


def test_values_between_those_of_training_are_not_called_half_of_them() -> None:
    """Halves of an even number of tenths are tenths, whatever they are."""
    report = report_on_tables(*power(31), Columns(time="at"))
    assert [one.sentence for one in report.findings if (one.cause or {}).get("kind") == "constant factor"] == []
