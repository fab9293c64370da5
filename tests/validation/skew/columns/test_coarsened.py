"""Measured numbers that are kept in few bits or in classes, and windows of which each number is its own."""

from __future__ import annotations

import functools
from collections.abc import Callable

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
DAY, TRAINED = 86_400, 42


def rows(seed: int, first: int, days: int) -> pd.DataFrame:
    """Numbers as sensors and models give them, on both sides of zero, shares, heavy ones, and ones that wander."""
    random = np.random.default_rng([seed, first])
    day = np.repeat(first + np.arange(days), random.poisson(220, days))
    n = len(day)
    mood = random.normal(0, 0.2, days)[day - first]
    return pd.DataFrame(
        {
            "at": day * DAY + random.integers(0, DAY, n),
            "level": random.normal(0, 1, n) + mood,
            "share": random.beta(2, 5, n),
            "heavy": np.exp(2 + random.normal(0, 0.9, n) + mood),
            "price": np.round(np.exp(3 + random.normal(0, 0.5, n)), 2),
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 19_000, TRAINED)
    return profile_table(as_table(before, "training"), COLUMNS, [*before.columns])


def told(seed: int, now: pd.DataFrame) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.outcome in (Outcome.FAIL, Outcome.WARN)]


def in_bits(bits: int, low: float, high: float) -> Callable[[pd.Series], pd.Series]:
    step = (high - low) / (2**bits - 1)
    return lambda values: low + np.round((values.clip(low, high) - low) / step) * step


def in_classes(values: pd.Series) -> pd.Series:
    """The middle of the hundredth of the values that each is in."""
    edges = np.quantile(values, np.linspace(0, 1, 101))
    return pd.Series(((edges[1:] + edges[:-1]) / 2)[np.searchsorted(edges[1:-1], values)])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("column", "happen", "step"),
    [
        ("level", in_bits(8, -4, 4), 8 / 255),
        ("share", in_bits(8, 0, 1), 1 / 255),
        ("heavy", in_bits(8, 0, 100), 100 / 255),
        ("level", in_classes, None),
    ],
)
def test_numbers_of_few_values_are_told_as_that(
    column: str, happen: Callable[[pd.Series], pd.Series], step: float | None, seed: int
) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    found = told(seed, now.assign(**{column: happen(now[column])}))

    assert found, "nothing was found"
    assert (found[0].subject, found[0].outcome) == (column, Outcome.FAIL)
    wanted = {"kind": "few values"} if step is None else {"kind": "rounded", "step": step}
    assert found[0].cause == like(wanted), found[0].sentence


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("column", ["level", "heavy"])
@pytest.mark.parametrize("step", [0.25, 0.125])
def test_numbers_in_quarters_and_eighths_are_told_as_that(step: float, column: str, seed: int) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    found = told(seed, now.assign(**{column: np.round(now[column] / step) * step}))

    assert (found[0].subject, found[0].outcome) == (column, Outcome.FAIL)
    if (found[0].cause or {}).get("kind") == "rounded":
        assert found[0].cause == like({"kind": "rounded", "step": step}), found[0].sentence


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("devices", [40, 60, 120])
def test_readings_that_their_devices_send_again_and_again_are_told_as_few_values(devices: int, seed: int) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    first = now["level"].to_numpy()[:devices]
    found = told(seed, now.assign(level=first[np.random.default_rng(seed).integers(0, devices, len(now))]))

    assert (found[0].subject, found[0].outcome) == ("level", Outcome.FAIL)
    assert found[0].cause == like({"kind": "few values"}), found[0].sentence


@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_are_cut_off_are_told_as_clipped(seed: int) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    found = told(seed, now.assign(level=now["level"].clip(-0.9, 0.9)))

    assert (found[0].subject, found[0].outcome) == ("level", Outcome.FAIL)
    assert found[0].cause == like({"kind": "clipped"}), found[0].sentence


@pytest.mark.parametrize("seed", range(3))
def test_a_default_beside_measured_numbers_is_told_as_one(seed: int) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    hit = np.random.default_rng(seed).random(len(now)) < 0.6
    found = told(seed, now.assign(level=now["level"].mask(hit, 0.0)))

    assert found[0].cause == like({"kind": "default value", "value": 0.0}), found[0].sentence


@pytest.mark.parametrize("seed", range(8))
def test_a_week_as_it_is_says_nothing(seed: int) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)

    assert [one.sentence for one in told(seed, now)] == []
    single = now.assign(**{name: now[name].astype(np.float32) for name in ("level", "share", "heavy")})
    assert [one.sentence for one in told(seed, single)] == []
