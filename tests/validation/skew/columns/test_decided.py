"""Prices that the article decides: one that changed is no default, and a default still is one."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY, ROWS, ARTICLES = 86_400, 200, 40


def rows(seed: int, first: int, days: int, dearer: float = 1.0) -> pd.DataFrame:
    """Orders of forty articles, each with a price of its own, of which the dearest is `dearer`;
    weights are each row's own."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    prices = np.round(np.random.default_rng(9).lognormal(3, 0.8, ARTICLES), 2)
    shares = np.random.default_rng(8).dirichlet(np.full(ARTICLES, 5.0))
    dearest = int(prices.argmax())
    shares[dearest] = 0.07
    article = random.choice(ARTICLES, n, p=shares / shares.sum())
    price = np.where(article == dearest, np.round(prices[dearest] * dearer, 2), prices[article])
    return pd.DataFrame(
        {
            "at": (first + np.repeat(np.arange(days), ROWS)) * DAY + random.integers(0, DAY, n),
            "article": [f"a{one:02d}" for one in article],
            "price": price,
            "weight": np.round(random.lognormal(2, 0.5, n), 1),
            "site": random.choice(["north", "south", "east", "west", "sea", "hill"], n),
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 19_000, 56)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def told(seed: int, now: pd.DataFrame, column: str) -> Finding:
    return report_on_table(training(seed), as_table(now, "the week"), COLUMNS).feature(column)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dearer", [1.03, 0.95, 1.1])
def test_a_new_price_of_one_article_does_not_fail(dearer: float, seed: int) -> None:
    found = told(seed, rows(100 + seed, 19_056, 7, dearer), "price")

    assert found.outcome is Outcome.WARN, found.sentence
    assert "which decides it (a new price?)" in found.sentence


def in_some_rows(value: float) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda now: now["price"].mask(np.random.default_rng(1).random(len(now)) < 0.05, value)


def of_the_first_article(value: float) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda now: now["price"].mask(now["article"] == now["article"].mode()[0], value)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("happen", [in_some_rows(77.77), in_some_rows(0.0), of_the_first_article(0.0)])
@pytest.mark.parametrize("far", [of_the_first_article(99_999.0)])
def test_defaults_still_fail(
    happen: Callable[[pd.DataFrame], pd.Series], far: Callable[[pd.DataFrame], pd.Series], seed: int
) -> None:
    now = rows(100 + seed, 19_056, 7)

    for price in (happen(now), far(now)):
        assert told(seed, now.assign(price=price), "price").outcome is Outcome.FAIL


@pytest.mark.parametrize("seed", range(3))
def test_prices_that_are_cut_off_fail(seed: int) -> None:
    now = rows(100 + seed, 19_056, 7)
    cut = float(np.quantile(now["price"], 0.8))

    assert told(seed, now.assign(price=now["price"].clip(upper=cut)), "price").outcome is Outcome.FAIL


@pytest.mark.parametrize("seed", range(3))
def test_a_value_that_one_site_alone_has_fails_where_sites_decide_nothing(seed: int) -> None:
    now = rows(100 + seed, 19_056, 7)
    found = told(seed, now.assign(weight=now["weight"].mask(now["site"] == "sea", 61.3)), "weight")

    assert found.outcome is Outcome.FAIL, found.sentence


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rise", [1.06, 1.2])
@pytest.mark.parametrize("part", [2, 4])
def test_new_prices_of_many_articles_fail(part: int, rise: float, seed: int) -> None:
    """As where those of one country came in another currency."""
    now = rows(100 + seed, 19_056, 7)
    risen = now["article"].str[1:].astype(int) % part == 0
    found = told(seed, now.assign(price=now["price"].mask(risen, (now["price"] * rise).round(2))), "price")

    assert found.outcome is Outcome.FAIL, found.sentence
