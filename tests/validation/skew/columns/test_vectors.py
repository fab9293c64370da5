"""Columns of vectors, such as embeddings: other ones are found, and those of other days are not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.release import Evidence, release_findings
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.statistics.profile import read_profile, write_profile
from tidegate_validation.statistics.window import table_window

Vectors = npt.NDArray[np.float64]
WIDTH = 24
ROWS = 200
COLUMNS = Columns(time="at")


def embedded(seed: int, days: int, first_day: int) -> Vectors:
    mixing = np.random.default_rng(3).normal(size=(5, WIDTH))
    random = np.random.default_rng(seed)
    moved = np.repeat(random.normal(0, 0.05, (days, 5)), ROWS, axis=0)
    n = days * ROWS
    return (random.normal(size=(n, 5)) + moved) @ mixing + 0.2 * random.normal(size=(n, WIDTH)) + np.arange(WIDTH) / 12


def table(vectors: Vectors, first_day: int) -> pa.Table:
    n = len(vectors)
    seconds = (first_day + np.arange(n) // ROWS) * 86_400 + np.arange(n) % ROWS * 400
    lists = pa.array(list(vectors.astype(np.float32)))
    return pa.table({"text": lists, "at": seconds, "other": np.random.default_rng(n).normal(size=n)})


@functools.cache
def training() -> Profile:
    rows = table(embedded(1, 40, 19_600), 19_600)
    return profile_table(rows, COLUMNS, rows.column_names)


def report(vectors: Vectors, profile: Profile | None = None) -> SkewReport:
    return report_on_table(profile or training(), table(vectors, 19_640), COLUMNS)


def week() -> Vectors:
    return embedded(2, 7, 19_640)


def test_vectors_of_other_days_are_as_in_training() -> None:
    found = report(week())
    assert found.outcome is Outcome.PASS
    assert [one.subject for one in found.findings].count("text") == 1


def test_the_measures_of_one_column_take_one_columns_part_of_false_discoveries() -> None:
    """One of them differs in this week as one in forty columns does by chance."""
    assert report(embedded(21, 7, 19_640)).feature("text").outcome is Outcome.PASS


def turned(vectors: Vectors) -> Vectors:
    turn, _ = np.linalg.qr(np.random.default_rng(8).normal(size=(WIDTH, WIDTH)))
    return np.asarray(vectors @ turn)


OTHER: dict[str, tuple[Callable[[Vectors], Vectors], str | None]] = {
    "turned": (turned, None),
    "of another model": (lambda vectors: np.tanh(turned(vectors)), None),
    "normalised": (lambda vectors: vectors / np.linalg.norm(vectors, axis=1, keepdims=True), "normalised"),
    "a tenth of zeros": (lambda vectors: vectors * (np.arange(len(vectors)) % 10 > 0)[:, None], "zero vectors"),
    "all zeros": (lambda vectors: vectors * 0, "zero vectors"),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_vectors_are_found(name: str) -> None:
    change, kind = OTHER[name]
    found = report(change(week())).feature("text")
    assert found.outcome is Outcome.FAIL
    assert (found.cause or {}).get("kind") == kind


def test_shorter_vectors_are_told_as_that() -> None:
    found = report(week()[:, :16]).feature("text")
    assert found.outcome is Outcome.FAIL
    assert found.sentence.startswith("`text`: how many numbers its vectors have: ")


def test_vectors_are_compared_with_training_that_had_none() -> None:
    rows = table(embedded(1, 40, 19_600), 19_600)
    none = rows.set_column(0, "text", pa.nulls(rows.num_rows, rows["text"].type))
    begun = report(week(), profile_table(none, COLUMNS, none.column_names)).feature("text")
    assert begun.outcome is Outcome.FAIL
    assert "100.0 % were in training" in begun.sentence


def test_vectors_are_compared_with_one_day_of_training_that_had_a_few_of_many_lengths() -> None:
    rows = table(embedded(1, 2, 19_600), 19_600).slice(0, ROWS)
    lists = [one[: place // 10 + 1] if place % 10 == 1 else one for place, one in enumerate(rows["text"].to_pylist())]
    some = rows.set_column(0, "text", pa.array(lists, rows["text"].type))
    found = report(turned(week()), profile_table(some, COLUMNS, some.column_names)).feature("text")
    assert "of 18 measures of its vectors differ" in found.sentence


def bought(seed: int, days: int, usual: int) -> pa.Table:
    """Lists of ids, of all lengths, `usual` being the most frequent one by a little."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    sizes = np.where(random.random(n) < 0.01, usual, random.integers(1, 12, n))
    lists = [random.integers(100, 900, size).tolist() for size in sizes]
    return pa.table({"bought": lists, "at": (19_600 + np.arange(n) // ROWS) * 86_400})


LISTS: dict[str, tuple[Callable[[list[int]], list[int]], str]] = {
    "cut off": (lambda ids: ids[:5], "how many numbers its vectors have"),
    "of another catalogue": (lambda ids: [one + 1000 for one in ids], "of its lists"),
    "the other way round": (sorted, "of its lists"),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_all_lengths_are_no_vectors(name: str) -> None:
    """The most frequent length differs by chance, and with it all directions did."""
    before, now = bought(1, 40, 4), bought(2, 7, 7)
    profile = profile_table(before, COLUMNS, before.column_names)
    assert report_on_table(profile, now, COLUMNS).feature("bought").outcome is Outcome.PASS

    change, words = LISTS[name]
    changed = now.set_column(0, "bought", [[change(one) for one in now["bought"].to_pylist()]])
    found = report_on_table(profile, changed, COLUMNS).feature("bought")
    assert found.outcome is Outcome.FAIL
    assert words in found.sentence


def test_what_is_no_list_of_numbers_any_more_is_a_change_of_the_schema() -> None:
    rows = table(week(), 19_640)
    words = rows.set_column(0, "text", pa.array([["a", "b"]] * rows.num_rows))
    found = report_on_table(training(), words, COLUMNS).feature("text")
    assert (found.check, found.outcome) == ("schema", Outcome.FAIL)


def test_a_profile_that_was_written_knows_its_vectors(tmp_path: Path) -> None:
    write_profile(training(), tmp_path)
    read = read_profile(tmp_path)
    assert report(week(), read).outcome is Outcome.PASS
    assert report(turned(week()), read).feature("text").outcome is Outcome.FAIL


def test_a_candidate_trained_on_other_vectors_is_refused_and_one_on_the_same_is_not() -> None:
    rows = table(turned(embedded(3, 40, 19_600)), 19_600)
    other = profile_table(rows, COLUMNS, rows.column_names)
    with table_window(table(week(), 19_640), event_time="at") as window:
        evidence = Evidence(window, served=True)
        refused = release_findings(other, training(), evidence, SkewRule())
        mended = release_findings(training(), other, evidence, SkewRule())
    assert [one.outcome for one in refused if one.subject == "text"] == [Outcome.FAIL]
    assert [one.outcome for one in mended if one.subject == "text"] == [Outcome.PASS]
