"""The page of a skew report, as somebody reads it who was woken by it: what, since when, and what to do."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.browsers.browser import chromium, opened
from tests.support.browsers.page_checks import grave, layout

import tidegate
from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.report.skew_advice import skew_steps
from tidegate_validation.report.skew_view import skew_view

DAY = 86_400
FIRST = 19_600


def visits(seed: int, days: int, first: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    n = days * 200
    return pd.DataFrame(
        {
            "price": np.round(random.lognormal(3, 0.8, n), 2),
            "shop": random.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2]),
            "guests": 1 + random.poisson(2, n),
            "paid": random.random(n) < 0.7,
            "at": (first + np.repeat(np.arange(days), 200)) * DAY + np.tile(np.arange(200) * 400, days),
        }
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    before, now = visits(1, 40, FIRST), visits(2, 7, FIRST + 40)
    later = now["at"] >= (FIRST + 43) * DAY
    now["price"] = now["price"].where(now["shop"] != "east", now["price"] * 1000)
    now["shop"] = now["shop"].where(~later, now["shop"].str.upper())
    now["paid"] = now["paid"] & (np.arange(len(now)) % 3 > 0)
    folder = tmp_path_factory.mktemp("page")
    found = tidegate.skew(before, now.drop(columns="guests"), time="at", report=str(folder))
    assert found.page == folder / "index.html"
    return Path(found.page).read_text()


def test_its_head_says_which_rows_of_when_it_is_about(page: str) -> None:
    head = page[page.index("<h1>") : page.index("What to do")]
    assert "1,400 rows of 2023-10-10 to 2023-10-16 (7 days), against training's 2023-08-31 to 2023-10-09 (40 days)" in (
        html.unescape(head)
    )
    assert re.search(r"; looked at on \d{4}-\d\d-\d\d \d\d:\d\d UTC\.", head)


@pytest.mark.parametrize(
    "words",
    [
        "Ask who sends <code>price</code>",
        "what changed its unit, and convert it back before the model is asked.",
        "as in training before the model is asked (letter case) since 2023-10-13.",
        "Look at <code>paid</code> at its source: no plain change explains it.",
        "Send <code>guests</code> under the name and in the type of training, or train without it.",
    ],
)
def test_it_says_what_to_do_about_each_feature(page: str, words: str) -> None:
    assert words in page


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ({"kind": "transformed", "how": "natural logarithm"}, "once too often or not at all: natural logarithm."),
        (
            {"kind": "clipped", "at": 80.0, "since": "2023-10-13"},
            "Find out what cuts `x` off since 2023-10-13: a limit",
        ),
        ({"kind": "renamed column", "column": "y"}, "Send `y` under its old name, `x`, or train with the new one."),
        ({"kind": "stale", "where": {"column": "shop", "value": "east"}}, "a row late where `shop` is “east”: a cache"),
        (
            {"kind": "renamed category", "old": "a", "new": "B"},
            "Write “a” for “B” in `x` before the model is asked, or",
        ),
        (
            {"kind": "merged categories", "old": "a", "new": "b"},
            "Find out why “a” of `x` is sent as “b”, and keep both",
        ),
        ({"kind": "missing rows", "since": "2023-10-13"}, "files or hours of the data did not come since 2023-10-13"),
        ({"kind": "missing ids", "values": ["5"]}, "is missing: `x` shows that a shard"),
        ({"kind": "64-bit floats"}, "Find out what takes digits from `x`"),
        ({"kind": "exchanged categories", "values": ["a", "b"]}, "where they are written and read: two have changed"),
        ({"kind": "another date"}, "Find out which date `x` is written from"),
        ({"kind": "nothing that is known"}, "no plain change explains it."),
        (None, "Look at `x` at its source: no plain change explains it."),
    ],
)
def test_every_kind_of_cause_has_its_advice(cause: dict[str, Any] | None, words: str) -> None:
    found = tidegate.skew(visits(1, 40, FIRST), visits(2, 7, FIRST + 40), time="at").report
    failed = Finding("distribution", "x", Outcome.FAIL, "`x` differs", cause=cause)
    assert words in skew_steps(replace(found, outcome=Outcome.FAIL, findings=(failed,)))[0]


def test_it_says_which_days_were_compared_with_which(page: str) -> None:
    assert "2023-10-10 to 2023-10-16 (7 days), against training&#39;s 2023-08-31 to 2023-10-09 (40 days)" in page


def test_nothing_is_cut_off_on_a_screen_or_on_paper(page: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(page)
    with chromium() as browser, opened(browser, (tmp_path / "index.html").as_uri(), own="file://") as (shown, heard):
        assert (layout(shown), grave(shown)) == ({}, [])
        shown.emulate_media(media="print")
        shown.set_viewport_size({"width": 740, "height": 900})
        words = shown.get_by_role("columnheader", name="In words").bounding_box()
        assert words is not None
        assert 150 < words["width"] < 740 - words["x"]
        assert (heard.errors, heard.elsewhere) == ([], [])


def test_a_week_as_it_was_asks_for_nothing(tmp_path: Path) -> None:
    found = tidegate.skew(visits(1, 40, FIRST), visits(2, 7, FIRST + 40), time="at", report=tmp_path)
    assert "What to do" not in Path(str(found.page)).read_text()


def test_a_feature_that_failed_is_not_said_to_be_right_too() -> None:
    found = tidegate.skew(visits(1, 40, FIRST), visits(2, 7, FIRST + 40), time="at").report
    shuffled = Finding("together", "shop", Outcome.FAIL, "`shop`: its values no longer go with those of `price`")
    view = skew_view(replace(found, findings=(shuffled, *found.findings)))
    rows = [(one.finding.subject, one.finding.outcome) for one in view.features]
    assert rows.count(("shop", Outcome.FAIL)) == 1
    assert ("shop", Outcome.PASS) not in rows
    assert ("price", Outcome.PASS) in rows
