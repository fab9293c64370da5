"""Three days of training: what a day may bring by itself is told with a WARN, what no day brings fails all the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.report.skew_advice import skew_steps
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import report_on_tables

DAY = 86_400
ROWS = 1_440
LEVELS = (0.0, 0.4, -0.3, 1.2)


def readings() -> pd.DataFrame:
    """A row a minute of four days, of which the last is warmer than any before."""
    random = np.random.default_rng(8)
    day = np.repeat(np.arange(len(LEVELS)), ROWS)
    n = len(day)
    return pd.DataFrame(
        {
            "at": 19_000 * DAY + 60 * np.arange(n),
            "air": np.round(14 + np.array(LEVELS)[day] + random.normal(0, 0.2, n), 1),
            "haze": np.exp(random.normal(-1.2, 0.4, n) + 0.2 * np.array(LEVELS)[day]),
            "pump": random.choice(["north", "south"], n),
        }
    )


def report(**changed: object) -> SkewReport:
    rows = readings()
    now = rows.tail(ROWS).assign(**changed)  # type: ignore[arg-type]
    return report_on_tables(rows.head(3 * ROWS), now, Columns(time="at"))


def share(part: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.random.default_rng(3).random(ROWS) < part


def test_a_warmer_day_than_three_is_a_warning_that_says_why() -> None:
    found = [one for one in report().findings if one.subject == "air"]
    assert {one.check for one in found} >= {"distribution", "outside"}
    assert {one.outcome for one in found} == {Outcome.WARN}
    assert all("training has too few days to know how days differ" in one.sentence for one in found)


def test_what_to_do_first_is_to_take_more_days_of_training() -> None:
    first, *others = skew_steps(report(pump="west"))
    assert first.startswith("Compare with 20 days of training or more: it has 3 days")
    assert not [one for one in others if "no plain change explains it" in one]
    assert any("`pump`" in one for one in others)


def test_a_higher_day_than_three_is_not_called_a_factor() -> None:
    assert report().feature("haze").cause is None
    hundred = report(haze=readings().tail(ROWS)["haze"] * 100).feature("haze").cause
    assert hundred is not None
    assert hundred["factor"] == pytest.approx(100 * np.exp(0.2 * LEVELS[-1]), rel=0.05)


def test_a_day_unlike_three_is_not_called_another_unit_of_a_part_of_the_rows() -> None:
    haze = readings().tail(ROWS)["haze"] / np.exp(0.2 * LEVELS[-1])
    found = report(haze=haze.where(~share(0.5), 0.8 * haze)).feature("haze")
    assert found.outcome is Outcome.WARN
    assert found.cause is None


@pytest.mark.parametrize(
    ("column", "values", "check"),
    [("air", 0.0, "range"), ("haze", 0.5, "single value"), ("pump", "west", "unseen")],
)
def test_what_no_day_brings_by_itself_fails_after_three_days_too(column: str, values: object, check: str) -> None:
    rows = readings().tail(ROWS)[column]
    found = report(**{column: rows.where(~share(0.05), values)}).findings
    assert [one.check for one in found if one.outcome is Outcome.FAIL and one.subject == column][:1] == [check]


@pytest.mark.parametrize("known", [25, 45])
def test_a_handful_of_rows_of_one_day_says_little_of_other_rows_like_them(known: int) -> None:
    told = []
    for seed in range(6):
        paid = np.round(1000 * np.exp(np.random.default_rng(seed).normal(0, 0.5, known + 400))).astype(np.int64)
        rows = pd.DataFrame({"at": 19_000 * DAY + 60 * np.arange(len(paid)), "paid": paid})
        found = report_on_tables(rows.head(known), rows.tail(400).assign(at=19_003 * DAY), Columns(time="at"))
        told.append(found.feature("paid").outcome)
    assert told.count(Outcome.WARN) <= 1
    assert Outcome.FAIL not in told
