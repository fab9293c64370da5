"""Labels of every type and how models answer them: the task that follows, and scores in the order of its classes."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.quality.data.labels import LabelHints, Labels, check_label, read_labels
from tidegate_validation.quality.data.outputs import Prediction, as_scores, prediction_of

MATRIX = TensorSpec("p", "float32", (-1, 3))


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


def manifest(outputs: tuple[TensorSpec, ...], **metadata: str) -> tuple[Manifest, Signature]:
    signature = Signature((TensorSpec("x", "float32"),), outputs)
    return Manifest(ServableId("m", 1), "python", {"serving_default": signature}, (), "", metadata=metadata), signature


def test_a_model_says_its_classes_in_metadata_or_in_an_output() -> None:
    named = prediction_of(*manifest((TensorSpec("p", "float32", (-1, 3)),), classes="red, green,blue"))
    assert (named.classes, named.columns, named.names) == (("red", "green", "blue"), 3, None)
    listed = prediction_of(*manifest((TensorSpec("p", "float32", (-1, -1)),), classes='["a", 1, 2.0]'))
    assert (listed.classes, listed.columns) == (("a", "1", "2"), None)
    classes, scores = TensorSpec("classes", "string", (-1, 3)), TensorSpec("scores", "float32", (-1, 3))
    assert prediction_of(*manifest((classes, scores))).names == classes
    words = TensorSpec("colour", "string")
    assert prediction_of(*manifest((words,))).output == words
    with pytest.raises(InvalidInput, match="names a class twice"):
        prediction_of(*manifest((MATRIX,), classes="a,a"))


CLASSES = ("blue", "green", "red")


def test_columns_go_to_their_classes() -> None:
    matrix = {"p": np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], dtype=np.float32)}
    plain = as_scores(Prediction(MATRIX), "multiclass", CLASSES, matrix)
    assert plain == pytest.approx(np.array([[0.7, 0.2, 0.1, 0], [0.1, 0.1, 0.8, 0]]))
    named = as_scores(Prediction(MATRIX, classes=("red", "grey", "blue")), "multiclass", CLASSES, matrix)
    assert named == pytest.approx(np.array([[0.1, 0, 0.7, 0.2], [0.8, 0, 0.1, 0.1]]))
    order = TensorSpec("classes", "string", (-1, 3))
    by_row = matrix | {"classes": np.array([[b"red", b"blue", b"green"], [b"blue", b"red", b"green"]], dtype=object)}
    found = as_scores(Prediction(MATRIX, order), "multiclass", CLASSES, by_row)
    assert found == pytest.approx(np.array([[0.2, 0.1, 0.7, 0], [0.1, 0.8, 0.1, 0]]))


def test_predicted_labels_become_certainties() -> None:
    words = {"colour": np.array([b"red", b"grey", b"blue"], dtype=object)}
    found = as_scores(Prediction(TensorSpec("colour", "string")), "multiclass", CLASSES, words)
    assert found.tolist() == [[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    places = Prediction(TensorSpec("k", "int64"), classes=("red", "blue", "green"))
    numbered = as_scores(places, "multiclass", CLASSES, {"k": np.array([0, 2, 1])})
    assert numbered.argmax(axis=1).tolist() == [2, 1, 0]
    floats = as_scores(
        Prediction(TensorSpec("k", "float32")), "multiclass", ("3", "7"), {"k": np.array([7, 3], dtype=np.float32)}
    )
    assert floats.argmax(axis=1).tolist() == [1, 0]
    yes = as_scores(
        Prediction(TensorSpec("say", "string")),
        "binary",
        ("no", "yes"),
        {"say": np.array([b"yes", b"no"], dtype=object)},
    )
    assert yes.tolist() == [1, 0]


def test_the_positive_column_is_found_by_name() -> None:
    pair = {"p": np.array([[0.9, 0.1]], dtype=np.float32)}
    spec = TensorSpec("p", "float32", (-1, 2))
    assert as_scores(Prediction(spec), "binary", ("yes", "no"), pair).tolist() == pytest.approx([0.9])
    assert as_scores(Prediction(spec), "binary", ("no", "yes"), pair).tolist() == pytest.approx([0.1])
    named = Prediction(spec, classes=("yes", "no"))
    assert as_scores(named, "binary", ("no", "yes"), pair).tolist() == pytest.approx([0.9])
    assert as_scores(Prediction(spec), "ranking", (), pair).tolist() == pytest.approx([0.1])


def test_columns_without_names_are_refused_where_they_do_not_fit() -> None:
    wide = {"p": np.zeros((1, 5), dtype=np.float32)}
    with pytest.raises(InvalidInput, match=r"metadata 'classes' with a name for each column \(3 are known\)"):
        as_scores(Prediction(MATRIX), "multiclass", CLASSES, wide)
    numbers = as_scores(Prediction(MATRIX), "multiclass", ("0", "2", "4"), {"p": np.eye(5, dtype=np.float32)})
    assert numbers.argmax(axis=1).tolist() == [0, 3, 1, 3, 2]
    strange = {"colour": np.array([b"x"] * 30, dtype=object)}
    with pytest.raises(InvalidInput, match="answers x, but the classes are blue, green, red"):
        as_scores(Prediction(TensorSpec("colour", "string")), "multiclass", CLASSES, strange)
    with pytest.raises(InvalidInput, match="holds text: the task regression needs numbers"):
        as_scores(Prediction(TensorSpec("colour", "string")), "regression", (), strange)
