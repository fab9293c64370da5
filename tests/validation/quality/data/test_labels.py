"""Labels of every type, and the task that follows from them."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.data.labels import LabelHints, Labels, check_label, profiled_texts, read_labels
from tidegate_validation.statistics import make_profile


def labels(values: Any, hints: LabelHints | None = None) -> Labels:
    return read_labels(pa.table({"y": pa.array(values)}), "y", hints or LabelHints())


@pytest.mark.parametrize(
    ("values", "task", "classes", "places"),
    [
        ([0, 1, 1], "binary", ("0", "1"), [0, 1, 1]),
        ([True, False, None, True], "binary", ("0", "1"), [1, 0, 1]),
        ([-1.0, 1.0, float("nan"), 1.0], "binary", ("-1", "1"), [0, 1, 1]),
        (["yes", "no", "yes"], "binary", ("no", "yes"), [1, 0, 1]),
        ([b"b", b"a", b"b"], "binary", ("a", "b"), [1, 0, 1]),
        (["red", "green", "blue", "red"], "multiclass", ("blue", "green", "red"), [2, 1, 0, 2]),
        ([0.5, 2.0, None, 3.25], "regression", (), [0.5, 2.0, 3.25]),
        ([1, 5, 9], "regression", (), [1, 5, 9]),
        ([1, 1, 1], "binary", ("0", "1"), [1, 1, 1]),
    ],
)
def test_the_task_follows_from_the_labels(
    values: Any, task: str, classes: tuple[str, ...], places: list[float]
) -> None:
    found = labels(values)
    assert (found.task, found.classes) == (task, classes)
    assert found.values.tolist() == places
    present = [row for row, value in enumerate(values) if value is not None and value == value]
    assert found.rows.tolist() == present


def test_whole_numbers_are_classes_where_the_model_says_so() -> None:
    values = [7, 3, 10, 7]
    for hints in (LabelHints(columns=3), LabelHints(columns=None), LabelHints(whole_numbers=True)):
        found = labels(values, hints)
        assert (found.task, found.classes) == ("multiclass", ("3", "7", "10"))
        assert found.values.tolist() == [1, 0, 2, 1]
    assert labels([0, 1, 0], LabelHints(columns=3, classes=("0", "1", "2"))).classes == ("0", "1", "2")
    assert labels(["a", "b"], LabelHints(known=("a", "b", "c"))).classes == ("a", "b", "c")
    assert labels(pa.array(["b", "a", "c"]).dictionary_encode()).classes == ("a", "b", "c")


def test_the_positive_class_is_the_named_one() -> None:
    found = labels(["no", "yes"], LabelHints(positive="no"))
    assert (found.classes, found.values.tolist(), found.note) == (("yes", "no"), [1, 0], "")
    assert "`yes` counts as the positive class" in labels(["no", "yes"]).note
    assert labels(["good"], LabelHints(classes=("bad", "good"))).classes == ("bad", "good")
    with pytest.raises(InvalidInput, match=r"quality\.positive is 'maybe', but label 'y' holds no, yes"):
        labels(["no", "yes"], LabelHints(positive="maybe"))


def test_labels_that_do_not_fit_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="the task regression needs numbers"):
        labels(["a", "b"], LabelHints(task="regression"))
    with pytest.raises(InvalidInput, match="3 different values, the task binary has two"):
        labels([1, 2, 3], LabelHints(task="binary"))
    with pytest.raises(InvalidInput, match=r"quality\.task is 'guess'"):
        labels([1, 2, 3], LabelHints(task="guess"))
    with pytest.raises(InvalidInput, match="label 'y' has type date32"):
        check_label(pa.table({"y": pa.array([datetime.date(2026, 1, 1)])}), "y")


@pytest.mark.parametrize(
    ("values", "known"),
    [
        (["b", "a", "c"], ["a", "b", "c"]),
        ([3, 0, 7], ["0", "3", "7"]),
        ([True, False], ["0", "1"]),
        ([0.1 * number for number in range(30)], []),
    ],
)
def test_the_profile_knows_the_classes_that_held_out_data_may_lack(values: list[Any], known: list[str]) -> None:
    repeated = pa.array(values * 30)
    table = pa.table({"x": range(len(repeated)), "y": repeated})
    profile = make_profile(table, features=["x"], label="y", event_time=None)
    assert sorted(profiled_texts(profile, "y")) == known
    assert profiled_texts(profile, "z") == []
