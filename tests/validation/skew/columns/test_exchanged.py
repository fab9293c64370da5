"""Columns that hold much the same and changed places in some rows."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY, ROWS = 86_400, 200
ALIKE = (("width", "height"), ("upper", "lower"))


def _clusters(random: np.random.Generator, n: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Four columns of rows of six kinds, as the parts of embeddings are."""
    centers = np.random.default_rng(5).normal(size=(6, 4))
    kinds = random.choice(6, n, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    return np.asarray((centers[kinds] + 0.5 * random.normal(size=(n, 4))).T)


def rows(seed: int, first: int, days: int) -> pd.DataFrame:
    """Pairs of columns that are spread much alike: apart from each other, of long tails, going together a little; and
    others that some kinds of rows, or days, hold apart."""
    random = np.random.default_rng(seed)
    day = first + np.repeat(np.arange(days), ROWS)
    n = len(day)
    level = np.repeat(random.normal(0, 1, days), ROWS)
    season = np.sin(day / 58)
    body = random.normal(size=n)
    flat = random.random(n) < 0.1
    return pd.DataFrame(
        {
            "at": day * DAY + random.integers(0, DAY, n),
            "width": np.round(random.normal(40, 6, n), 1),
            "height": np.round(random.normal(52, 7, n), 1),
            "import": np.round(random.lognormal(3, 0.5, n), 2),
            "export": np.round(random.lognormal(3.6, 0.6, n), 2),
            "upper": np.round(128 + 12 * (0.5 * body + 0.87 * random.normal(size=n))),
            "lower": np.round(100 + 12 * (0.5 * body + 0.87 * random.normal(size=n))),
            "warm": np.round(20 + 3 * level + 2 * season + 4 * random.normal(size=n), 1),
            "damp": np.round(27 - 3 * level - 2 * season + 4 * random.normal(size=n), 1),
            "long": np.round(np.where(flat, 60, 40) + 6 * random.normal(size=n), 1),
            "short": np.round(np.where(flat, 38, 55) + 6 * random.normal(size=n), 1),
            "left": np.round(10 + 2 * random.standard_t(4, n), 2),
            "right": np.round(13 + 2 * random.standard_t(4, n), 2),
            **{f"e{place}": np.round(one, 4) for place, one in enumerate(_clusters(random, n))},
            "vector": [*np.round(_clusters(random, n), 4).T.tolist()],
            "stock": random.poisson(20, n),
            "order": random.poisson(27, n),
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 19_000, 49)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def told(seed: int, now: pd.DataFrame) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.outcome in (Outcome.FAIL, Outcome.WARN)]


def week(seed: int) -> pd.DataFrame:
    return rows(100 + seed, 19_049, 7)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("two", ALIKE)
def test_columns_that_changed_places_in_some_rows_are_named(two: tuple[str, str], seed: int) -> None:
    now, (one, other) = week(seed), two
    some = np.random.default_rng(seed).random(len(now)) < 0.05
    exchanged = now.assign(**{one: now[one].mask(some, now[other]), other: now[other].mask(some, now[one])})
    found = {told_of.subject: told_of for told_of in reversed(told(seed, exchanged))}

    for name, place in (two, two[::-1]):
        assert name in found, found
        assert found[name].cause == like({"kind": "exchanged in some rows", "column": place}), found[name].sentence


@pytest.mark.parametrize("seed", range(12))
def test_columns_that_are_spread_alike_say_nothing_in_ordinary_weeks(seed: int) -> None:
    assert [one.sentence for one in told(seed, week(seed)) if one.check == "exchanged values"] == []


@pytest.mark.parametrize("seed", range(4))
def test_days_that_move_both_columns_towards_each_other_are_no_exchange(seed: int) -> None:
    now = week(seed)
    moved = now.assign(width=now["width"] + 4, height=now["height"] - 4)

    assert [one.sentence for one in told(seed, moved) if one.check == "exchanged values"] == []


def kinds(seed: int, first: int, days: int) -> pd.DataFrame:
    """Parts of which a few lie the other way round: one in sixteen, on some days a few more, or on weekends alone."""
    random = np.random.default_rng(seed)
    day = np.repeat(first + np.arange(days), 2 * ROWS)
    n = len(day)
    shares = {
        "steady": np.full(days, 0.06),
        "daily": np.clip(0.06 + random.normal(0, 0.015, days), 0, 1),
        "weekly": np.where((first + np.arange(days)) % 7 > 4, 0.12, 0.02),
    }
    found = {"at": day * DAY + random.integers(0, DAY, n)}
    for name, share in shares.items():
        long, wide = random.normal(60, 5, n), random.normal(50, 5, n)
        other = random.random(n) < share[day - first]
        found |= {f"{name} length": np.where(other, wide, long), f"{name} width": np.where(other, long, wide)}
    return pd.DataFrame(found)


@functools.cache
def trained_on_kinds(seed: int) -> Profile:
    before = kinds(seed, 19_000, 35)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


@pytest.mark.parametrize("days", [2, 7])
@pytest.mark.parametrize("seed", range(8))
def test_rows_that_lay_the_other_way_round_in_training_too_are_no_exchange(seed: int, days: int) -> None:
    """Where days differ in them, two days may have more than training."""
    now = as_table(kinds(100 + seed, 19_035, days), "the window")
    findings = report_on_table(trained_on_kinds(seed), now, COLUMNS).findings
    found = [one for one in findings if one.check == "exchanged values"]

    assert [one.sentence for one in found if days > 2 or "daily" not in one.subject] == []


@pytest.mark.parametrize("seed", range(6))
def test_more_rows_that_changed_places_than_in_training_are_named(seed: int) -> None:
    now = kinds(100 + seed, 19_035, 7)
    some = np.random.default_rng(seed).random(len(now)) < 0.12
    one, other = now["steady length"], now["steady width"]
    exchanged = now.assign(**{"steady length": one.mask(some, other), "steady width": other.mask(some, one)})
    findings = report_on_table(trained_on_kinds(seed), as_table(exchanged, "the week"), COLUMNS).findings

    assert "steady length" in {one.subject for one in findings if one.check == "exchanged values"}
