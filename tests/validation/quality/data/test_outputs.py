"""Which output is the prediction, and how it becomes scores in the order of the classes."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.quality.data.outputs import Prediction, as_scores, prediction_of, prediction_output

MATRIX = TensorSpec("p", "float32", (-1, 3))
CLASSES = ("blue", "green", "red")


def manifest(outputs: tuple[TensorSpec, ...], **metadata: str) -> tuple[Manifest, Signature]:
    signature = Signature((TensorSpec("x", "float32"),), outputs)
    return Manifest(ServableId("m", 1), "python", {"serving_default": signature}, (), "", metadata=metadata), signature


def test_the_prediction_is_the_plain_output_or_the_one_that_is_named() -> None:
    label, score, other = TensorSpec("label", "int64"), TensorSpec("probability", "float32"), TensorSpec("z", "float32")

    def chosen(*outputs: TensorSpec, **metadata: str) -> str:
        return prediction_output(*manifest(outputs, **metadata))

    assert chosen(label, score) == "probability"
    assert chosen(label) == "label"
    assert chosen(score, other) == "probability"
    assert chosen(score, other, **{"quality.output": "z"}) == "z"
    with pytest.raises(InvalidInput, match=r"metadata 'quality\.output'"):
        chosen(other, TensorSpec("w", "float32"))
    with pytest.raises(InvalidInput, match="is no output"):
        chosen(score, **{"quality.output": "nothing"})


def test_the_policy_names_the_prediction_before_the_manifest_does() -> None:
    outputs = TensorSpec("risk", "float32"), TensorSpec("effort", "float32")
    made = manifest(outputs, **{"quality.output": "risk"})

    assert prediction_output(*made, "effort") == "effort"
    assert prediction_of(*made, "effort").output.name == "effort"
    with pytest.raises(InvalidInput, match=r"policy is 'costs', which is no output of m:1: use one of \['risk', 'eff"):
        prediction_output(*made, "costs")


def test_of_two_class_probabilities_the_second_counts() -> None:
    pairs = np.array([[0.9, 0.1], [0.2, 0.8]], dtype=np.float32)
    prediction = Prediction(TensorSpec("p", "float32", (-1, 2)))
    assert as_scores(prediction, "binary", ("0", "1"), {"p": pairs}).tolist() == pytest.approx([0.1, 0.8])
    with pytest.raises(InvalidInput, match=r"shape \[1, 3\]"):
        as_scores(prediction, "binary", ("0", "1"), {"p": np.zeros((1, 3))})


def test_what_a_version_was_trained_on_names_as_many_columns() -> None:
    made = manifest((MATRIX,))
    assert prediction_of(*made, trained_on=("10", "9", "2")).classes == ("2", "9", "10")
    assert prediction_of(*made, trained_on=("a", "b")).classes == ()
    assert prediction_of(*manifest((MATRIX,), classes="x,y,z"), trained_on=("a", "b", "c")).classes == ("x", "y", "z")
    assert prediction_of(*manifest((TensorSpec("p", "float32", (-1, 2)),)), trained_on=("a", "b")).classes == ()


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
    odd = Prediction(TensorSpec("odd", "int64"))
    assert as_scores(odd, "binary", ("-1", "1"), {"odd": np.array([-1, 1])}).tolist() == [0, 1]
    assert as_scores(odd, "binary", ("-1", "1"), {"odd": np.array([[-1], [1]])}).tolist() == [0, 1]
    assert as_scores(odd, "binary", ("1", "0"), {"odd": np.array([0, 1])}).tolist() == [1, 0]
    assert as_scores(odd, "binary", ("0", "1"), {"odd": np.array([0, 7])}).tolist() == [0, 7]


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
