"""How well a version does, with and without labels, in worlds whose true figure is known."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.support.log_blocks import FakeBlock, write_log

from tidegate_operators.steps.skew import read_labels
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.skew.labels import newest_labels
from tidegate_validation.skew.performance import Answers, Metric, performance, performance_in_log

DAYS, PER_DAY, WINDOW = 30, 80, 10


def world(seed: int, *, bent: float = 1.0, spread: float = 0.4) -> tuple[Answers, list[float], float]:
    """Thirty days, the last ten the window, whose scores wander from day to day; a version whose probabilities are
    `bent` away from the true ones, the labels, and the true accuracy that the window's rows have by expectation."""
    random = np.random.default_rng(seed)
    days = np.repeat(np.arange(DAYS), PER_DAY)
    logit = random.normal(0, 1.5, DAYS * PER_DAY) + random.normal(0, spread, DAYS)[days]
    true = 1 / (1 + np.exp(-logit))
    told = 1 / (1 + np.exp(-bent * logit))
    labels = (random.random(len(true)) < true).astype(float)
    inside = days >= DAYS - WINDOW
    expected = np.where(told >= 0.5, true, 1 - true)[inside].mean()
    requests = tuple(f"r{place}" for place in range(len(days)))
    return Answers("p", requests, np.zeros(len(days), np.int64), days, told, inside), labels.tolist(), float(expected)


def table(answers: Answers, labels: list[float], which: Any) -> pa.Table:
    chosen = np.flatnonzero(which).tolist()
    return pa.table({"request_id": [answers.requests[place] for place in chosen], "label": [labels[p] for p in chosen]})


@pytest.mark.parametrize("bent", [1.0, 2.5], ids=["calibrated", "too sure of itself"])
def test_the_interval_without_labels_of_the_window_holds_the_truth(bent: float) -> None:
    """Both the true figure, and what labels of this window show later."""
    held = []
    for seed in range(60):
        answers, labels, expected = world(seed, bent=bent)
        found = performance(answers, table(answers, labels, ~answers.inside))
        assert found is not None
        assert found.estimated is not None
        assert found.realised is None
        later = performance(answers, table(answers, labels, answers.inside))
        assert later is not None
        assert later.realised is not None
        low, high = found.estimated.low, found.estimated.high
        held.append((low <= expected <= high, low <= later.realised.value <= high))
    assert (np.mean(held, axis=0) >= 0.9).all()


def test_the_interval_by_labels_holds_the_truth() -> None:
    """Half of the labels have come."""
    held = []
    for seed in range(100):
        answers, labels, expected = world(seed)
        half = np.random.default_rng(seed).random(len(labels)) < 0.5
        found = performance(answers, table(answers, labels, answers.inside & half))
        assert found is not None
        assert found.realised is not None
        held.append(found.realised.low <= expected <= found.realised.high)
    assert np.mean(held) >= 0.9


def test_probabilities_that_are_too_sure_are_seen_through_only_with_labels() -> None:
    answers, labels, expected = world(1, bent=4.0)
    alone, helped = performance(answers, None), performance(answers, table(answers, labels, ~answers.inside))
    assert alone is not None
    assert helped is not None
    assert alone.estimated is not None
    assert helped.estimated is not None
    assert alone.estimated.low > expected
    assert helped.estimated.low <= expected <= helped.estimated.high
    assert (alone.calibrated_on, helped.calibrated_on) == (0, 1600)
    assert "too few labels" in alone.sentence


def test_labels_that_come_late_twice_and_in_no_order_count_once() -> None:
    answers, labels, _ = world(2)
    once = table(answers, labels, answers.inside)
    wrong = [1.0 - one for one in once["label"].to_pylist()]
    ids = once["request_id"].to_pylist()
    twice = pa.table(
        {
            "request_id": [*ids, *ids, "nobody"],
            "label": [*once["label"].to_pylist(), *wrong, 1.0],
            "at": [*[2] * len(ids), *[1] * len(ids), 3],
        }
    )
    shuffled = twice.take(np.random.default_rng(0).permutation(twice.num_rows))
    first, second = performance(answers, once), performance(answers, shuffled)
    assert first is not None
    assert second is not None
    assert (first.realised, first.unmatched) == (second.realised, 0)
    assert second.unmatched == 1


def test_a_request_of_several_rows_needs_a_label_for_each() -> None:
    answers = Answers(
        "y",
        ("a", "a", "b", "b"),
        np.array([0, 1, 0, 1]),
        np.zeros(4, np.int64),
        np.array([1.5, 3.0, 2.0, 2.0]),
        np.ones(4, np.bool_),
    )
    lists = pa.table({"request_id": ["a"], "label": [[1.0, 5.0]]})
    found = performance(answers, lists)
    assert found is not None
    assert found.realised is not None
    assert (found.metric, found.realised.value, found.realised.rows) == (Metric.ERROR, 1.25, 2)
    single = performance(answers, pa.table({"request_id": ["a", "b"], "label": [1.0, 1.0], "row": [0, None]}))
    assert single is not None
    assert single.realised is not None
    assert (single.realised.value, single.realised.rows, single.ambiguous) == (0.5, 1, 1)


def plain(values: Any, requests: tuple[str, ...] = ("a", "b", "c")) -> Answers:
    size = len(requests)
    return Answers(
        "y", requests, np.zeros(size, np.int64), np.zeros(size, np.int64), np.array(values), np.ones(size, np.bool_)
    )


@pytest.mark.parametrize(
    ("answers", "labels"),
    [
        ([1, 2, 3], ["1", "2", "3"]),
        ([True, False, True], ["true"] * 3),
        (["1", "2", "3"], [1] * 3),
        ([0.9, 0.8, 0.1], ["1", "nan", "0"]),
        ([5.5, 3.5, 1.5], ["5", "nan", "1"]),
    ],
)
def test_labels_that_no_answer_can_equal_are_refused(answers: list[Any], labels: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="give labels of the answers' type"):
        performance(plain(answers), pa.table({"request_id": ["a", "b", "c"], "label": labels}))


@pytest.mark.parametrize("nan", [float("nan"), float("inf")])
def test_answers_and_labels_that_are_no_finite_numbers_are_left_out_and_counted(nan: float) -> None:
    labels = pa.table({"request_id": ["a", "b", "c"], "label": [1.0, nan, 0.0]})
    of_answer, of_label = performance(plain([0.9, 0.8, nan]), labels), performance(plain([5.5, 3.5, 1.5]), labels)
    assert of_answer is not None
    assert of_label is not None
    assert (of_answer.metric, of_answer.rows, of_answer.not_finite) == (Metric.ACCURACY, 2, 2)
    assert (of_label.metric, of_label.rows, of_label.not_finite) == (Metric.ERROR, 3, 1)
    for one, value, rows in ((of_answer, 1.0, 1), (of_label, 3.0, 2)):
        assert one.realised is not None
        assert (one.realised.value, one.realised.rows) == (value, rows)
        assert "the answer or the label is NaN or infinite" in one.sentence
    assert performance(plain([nan] * 3), labels) is None


def test_whole_numbers_as_request_ids_and_one_that_was_sent_twice_find_their_labels() -> None:
    labels = pa.table({"request_id": [1, 2], "label": [1.0, 1.0], "row": ["0", None]})
    found = performance(plain([1.5, 2.0, 4.0], ("1", "2", "2")), labels)
    assert found is not None
    assert found.realised is not None
    assert (found.realised.value, found.realised.rows, found.ambiguous, found.unmatched) == (1.5, 3, 0, 0)


def test_the_newest_label_counts_whatever_zone_and_line_its_time_comes_in(tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text(
        '{"request_id": "a", "label": 0}\n'
        '{"request_id": "a", "label": 1, "at": "2013-06-01T23:00:00Z"}\n'
        '{"request_id": "a", "label": 0, "at": "2013-06-02T01:00:00+05:00", "row": null}\n'
        '{"request_id": "a", "label": 5, "at": "2013-06-01T22:59:59", "row": 1}\n'
    )
    assert newest_labels(read_labels(file)) == {("a", None): 1, ("a", 1): 5}
    with pytest.raises(InvalidInput, match="labels: column 'at' holds 'yesterday', which is no time"):
        newest_labels(pa.table({"request_id": ["a"], "label": [1], "at": ["yesterday"]}))
    times = pa.array([Decimal("2.5"), Decimal("1.5"), None])
    assert newest_labels(pa.table({"request_id": ["a"] * 3, "label": [1, 2, 3], "at": times})) == {("a", None): 1}
    unknown = [3.0, float("nan"), 2.0]
    assert newest_labels(pa.table({"request_id": ["a"] * 3, "label": [1, 2, 3], "at": unknown})) == {("a", None): 1}
    nothing = [float("nan")] * 3
    assert newest_labels(pa.table({"request_id": ["a"] * 3, "label": [1, 2, 3], "at": nothing})) == {("a", None): 3}
    odd = [1_370_000_100, 1_370_000_000, 1_369_999_999_000]
    assert newest_labels(pa.table({"request_id": ["a"] * 3, "label": [1, 2, 3], "at": odd})) == {("a", None): 1}


@pytest.mark.parametrize("row", ["first", 1.5, float("inf"), float("nan"), [1]])
def test_a_label_of_no_whole_row_is_refused(row: Any) -> None:
    with pytest.raises(InvalidInput, match=r"labels have row .*: write the number of the row"):
        newest_labels(pa.table({"request_id": ["a"], "label": [1], "row": [row]}))


def test_a_log_and_a_file_of_labels_are_joined_in_the_report(tmp_path: Path) -> None:
    """Two days of a log, labels of the first for calibration are too few; those of the second are what is realised."""
    for day in (1, 2):
        ids = [f"{day}-{row}" for row in range(50)]
        block = FakeBlock(
            inputs={"x": np.zeros(50)},
            outputs={"p": np.linspace(0, 1, 50)},
            request_id=ids,
            received=datetime(2026, 3, day, 12, tzinfo=UTC),
        )
        write_log(tmp_path / "log", block)
    right = [{"request_id": f"2-{row}", "label": int(row >= 25)} for row in range(40)]
    file = tmp_path / "labels.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in [*right, {"request_id": "2-0", "label": 1}]))
    found = performance_in_log(
        read_labels(file), tmp_path / "log", model="m", version=1, since=datetime(2026, 3, 2, tzinfo=UTC)
    )
    assert found is not None
    assert found.realised is not None
    assert (found.output, found.rows, found.realised.rows, found.realised.value) == ("p", 50, 40, 39 / 40)
    assert "is 0.975 (" in found.sentence
    late = pa.table({"request_id": ["1-0", "2-0", "3-0"], "label": [0, 0, 0]})
    told = performance_in_log(late, tmp_path / "log", model="m", version=1, until=datetime(2026, 3, 2, tzinfo=UTC))
    assert told is not None
    assert (told.unmatched, told.elsewhere) == (1, 1)
    assert "1 labels are of requests of another version or a later time" in told.sentence
    (tmp_path / "broken.jsonl").write_text("{")
    with pytest.raises(InvalidInput, match=r"labels .*broken.jsonl cannot be read"):
        read_labels(tmp_path / "broken.jsonl")


def test_labels_without_a_request_are_refused() -> None:
    with pytest.raises(InvalidInput, match="labels have no column 'request_id'"):
        performance(world(1)[0], pa.table({"id": ["a"], "label": [1]}))
