"""Free text, of which hardly any comes twice: how it is written tells what its values cannot."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile, read_profile, write_profile
from tidegate_validation.tables import as_table

DAY = 86_400
COLUMNS = Columns(time="at")
WORDS = np.array([f"word{place}" for place in range(200)])


def letters(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """A hundred letters a day, of five to twenty words, with a number that grows by one each time."""
    random = np.random.default_rng(seed)
    n = 100 * days
    bodies = [" ".join(["Dear", *random.choice(WORDS, random.integers(5, 20))]) for _ in range(n)]
    ids = [f"L{seed}-{place}" for place in range(first_day * 100, first_day * 100 + n)]
    return pd.DataFrame({"body": bodies, "id": ids, "at": first_day * DAY + np.arange(n) * (DAY // 100)})


@functools.cache
def training() -> Profile:
    rows = letters(1, 60, 9_970)
    return profile_table(as_table(rows, "training"), COLUMNS, rows.columns.tolist())


def found(rows: pd.DataFrame, column: str = "body", profile: Profile | None = None) -> Finding:
    return report_on_table(profile or training(), as_table(rows, "the week"), COLUMNS).feature(column)


def week() -> pd.DataFrame:
    return letters(2, 7, 10_030)


@pytest.mark.parametrize("column", ["body", "id"])
def test_a_week_as_it_is_and_ids_that_grow_longer_have_nothing_to_tell(column: str) -> None:
    assert found(week(), column).outcome is Outcome.PASS


CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "upper case": (str.upper, "the share of capitals in its texts"),
    "cut off": (lambda text: text[:40], "how many characters its texts have"),
    "spaces gone": (lambda text: text.replace(" ", "_"), "how many words its texts have"),
    "another script": (lambda text: text.translate(str.maketrans("word", "ворд")), "beyond ASCII"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_texts_that_are_written_otherwise_fail(name: str) -> None:
    change, words = CHANGES[name]
    finding = found(week().assign(body=lambda rows: rows["body"].map(change)))
    assert finding.outcome is Outcome.FAIL
    assert words in finding.sentence


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (str.lower, "all its texts are made of small letters, digits, - now"),
        (lambda text: text.replace("-", ""), "all its texts are made of capitals, digits now"),
        (lambda text: text + "\u00df" * (text[-1] == "7"), "what kinds of characters its texts are made of"),
    ],
)
def test_ids_that_are_written_otherwise_fail(change: Callable[[str], str], words: str) -> None:
    finding = found(week().assign(id=lambda rows: rows["id"].map(change)), "id")
    assert finding.outcome is Outcome.FAIL
    assert words in finding.sentence


def test_stamps_as_texts_that_lost_their_zones_fail() -> None:
    before, now = (
        one.assign(local=pd.to_datetime(one["at"], unit="s").dt.strftime("%Y-%m-%dT%H:%M:%S") + one["zone"])
        for one in (
            rows.assign(zone=np.random.default_rng(5).choice(["+02:00", "-04:00", "+09:00"], len(rows)))
            for rows in (letters(1, 60, 9_970), week())
        )
    )
    profile = profile_table(as_table(before, "training"), COLUMNS, before.columns.tolist())
    assert found(now, "local", profile).outcome is Outcome.PASS

    finding = found(now.assign(local=now["local"].str[:19]), "local", profile)
    assert (finding.outcome, finding.sentence) == (
        Outcome.FAIL,
        "`local`: 100.0 % of its texts have 19 characters or fewer, all of training's had 25 or more (cut off?)",
    )


def amounts(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """Amounts as texts, of which some come twice."""
    random = np.random.default_rng(seed)
    at = first_day * DAY + np.arange(180 * days) * (DAY // 180)
    return pd.DataFrame({"amount": [f"{one:.2f}" for one in np.exp(random.normal(4, 1, len(at)))], "at": at})


@functools.cache
def training_of_amounts(seed: int) -> Profile:
    rows = amounts(seed, 40, 9_970)
    return profile_table(as_table(rows, "training"), COLUMNS, rows.columns.tolist())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("part", "words"),
    [
        (1.0, "all its texts are made of digits, comma now"),
        (0.05, "texts are made of: 5.0 % of the rows hold categories that training never held: “digits, comma”"),
    ],
)
def test_numbers_as_texts_with_a_decimal_comma_fail(seed: int, part: float, words: str) -> None:
    now = amounts(seed + 10, 7, 10_010)
    assert found(now, "amount", training_of_amounts(seed)).outcome is Outcome.PASS

    comma = now["amount"].str.replace(".", ",")
    written = np.where(np.arange(len(now)) % round(1 / part) == 0, comma, now["amount"])
    finding = found(now.assign(amount=written), "amount", training_of_amounts(seed))
    assert finding.outcome is Outcome.FAIL
    assert words in finding.sentence


@pytest.mark.parametrize("seed", range(4))
def test_numbers_as_texts_with_thousands_set_apart_are_told_by_their_comma(seed: int) -> None:
    now = amounts(seed + 10, 7, 10_010)
    larger = now["amount"].astype(float) * 12
    before = training_of_larger_amounts(seed)
    assert found(now.assign(amount=larger.map("{:.2f}".format)), "amount", before).outcome is Outcome.PASS

    finding = found(now.assign(amount=larger.map("{:,.2f}".format)), "amount", before)
    assert finding.outcome is Outcome.FAIL
    assert "categories that training never held: “digits, comma .”" in finding.sentence


@functools.cache
def training_of_larger_amounts(seed: int) -> Profile:
    rows = amounts(seed, 40, 9_970)
    rows = rows.assign(amount=(rows["amount"].astype(float) * 12).map("{:.2f}".format))
    return profile_table(as_table(rows, "training"), COLUMNS, rows.columns.tolist())


def test_no_measure_of_a_text_is_told_to_hold_what_another_did() -> None:
    """Letters of café that were read in another encoding bring capitals where there were none."""
    rows, later = (
        one.assign(body=one["body"].str.lower().str.replace("e", "é")) for one in (letters(1, 60, 9_970), week())
    )
    profile = profile_table(as_table(rows, "training"), COLUMNS, rows.columns.tolist())
    garbled = later.assign(body=later["body"].map(lambda text: text.encode().decode("latin-1")))
    finding = found(garbled, profile=profile)
    assert finding.outcome is Outcome.FAIL
    assert "held in training" not in finding.sentence


def test_a_profile_keeps_what_texts_are_measured_by(tmp_path: Path) -> None:
    write_profile(training(), tmp_path)
    finding = found(week().assign(body=lambda rows: rows["body"].str.upper()), profile=read_profile(tmp_path))
    assert finding.outcome is Outcome.FAIL
