"""Calls scikit-learn estimators: columns by name become what they were fitted on, and results become dense arrays.

The sklearn platform calls one per batch; a signature's outputs are found by calling it with one row. Numbers by name
become a matrix where an estimator answers the same to that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import CLASSES, Manifest
from tidegate_serving.contract.signature import TensorSpec
from tidegate_serving.contract.tensors import Array, dtype_name
from tidegate_serving.contract.words import words_of
from tidegate_serving.platforms.arrays import as_text, text_column
from tidegate_serving.platforms.platform import library
from tidegate_serving.platforms.sklearn.nameless import nameless

OUTPUTS = "sklearn.outputs"
MISSING = "sklearn.missing"
METHODS = ("predict_proba", "predict", "decision_function", "transform", "score_samples", "predict_log_proba")
_TRIED_ROWS = 16


class Estimator:
    """A fitted estimator, called with rows of the kind that it was fitted on.

    columns: names of a DataFrame's columns that it demands, None where it was fitted on anything else.
    fitted_on: all columns of the DataFrame that it was fitted on, in order; a column transformer drops some of them.
    is_text: whether it takes a list of texts, as pipelines do that begin with a vectorizer.
    missing: the columns of a DataFrame in which an empty text is one that is missing.
    """

    def __init__(self, fitted: Any, missing: Sequence[str] = ()) -> None:
        self._fitted = fitted
        self._missing = frozenset(missing)
        names = getattr(fitted, "feature_names_in_", None)
        self.fitted_on = [] if names is None else [str(name) for name in names]
        self.columns = None if names is None else _demanded(fitted, self.fitted_on)
        self.is_text = names is None and getattr(fitted, "n_features_in_", None) is None
        self._nameless: Any = None
        self._index: Any = None
        if self.columns is not None:
            # What pandas finds out about a set of names stays with it.
            self._index = _import_pandas().Index(self.fitted_on)

    def leave_out_names(self, methods: Sequence[str]) -> None:
        """From now on a batch of numbers is a matrix, if that is all the same to these methods: one is tried."""
        if self.columns is None or (plain := nameless(self._fitted)) is None:
            return
        drawn = np.random.default_rng(0).normal(size=(len(self.fitted_on), _TRIED_ROWS))
        batch = dict(zip(self.fitted_on, drawn, strict=True))
        named = [self._outcome(method, batch) for method in methods]
        self._nameless = plain
        if not all(_same(one, self._outcome(method, batch)) for one, method in zip(named, methods, strict=True)):
            self._nameless = None

    def _outcome(self, method: str, batch: Mapping[str, Array]) -> Array | str:
        try:
            return self.answer(method, self.rows(batch, self.fitted_on))
        except Exception as error:  # what it refuses, it refuses in both forms
            return words_of(error)

    def has(self, method: str) -> bool:
        """Whether `answer` knows the method and the estimator has it."""
        return method in METHODS and callable(getattr(self._fitted, method, None))

    def rows(self, inputs: Mapping[str, Array], columns: Sequence[str]) -> Any:
        """What the estimator takes of a batch, of which it is to see `columns`: a DataFrame, texts or a matrix."""
        if self.columns is not None:
            return self._named_rows({name: inputs[name] for name in self.fitted_on if name in inputs})
        first = inputs[columns[0]]
        if len(columns) > 1:
            return np.column_stack([as_text(name, inputs[name]) for name in columns])
        if first.ndim == 2 or (self.is_text and first.dtype.kind == "O"):
            return as_text(columns[0], first)
        return as_text(columns[0], first)[:, np.newaxis]

    def _named_rows(self, given: Mapping[str, Array]) -> Any:
        """A DataFrame whose columns keep their dtypes, or the matrix of its numbers where the estimator takes that."""
        whole, columns = len(given) == len(self.fitted_on), list(given.values())
        if _are_numbers(columns):
            if whole and self._nameless is not None:
                return _side_by_side(columns)
            if len({column.dtype for column in columns}) == 1:
                names = self._index if whole else list(given)
                return _import_pandas().DataFrame(_side_by_side(columns), columns=names, copy=False)
        made = {name: _column(name, array, name in self._missing) for name, array in given.items()}
        return _import_pandas().DataFrame(made)

    def answer(self, method: str, rows: Any) -> Array:
        """Dense, rows first; what comes as a list, as probabilities of several outputs do, side by side."""
        takes_names = self.columns is None or not isinstance(rows, np.ndarray)
        found = getattr(self._fitted if takes_names else self._nameless, method)(rows)
        if isinstance(found, list) and found and getattr(found[0], "ndim", 0) == 2:
            return np.hstack(found)
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found)


def _demanded(fitted: Any, names: Sequence[str]) -> list[str]:
    """Those of the columns that scikit-learn misses where they are not there: a column transformer that comes first
    does not ask for those that it drops.
    """
    first = fitted
    while hasattr(first, "steps"):
        first = first.steps[0][1]
    if not hasattr(first, "transformers_"):
        return list(names)
    places = np.arange(len(names))
    used: set[int] = set()
    for _, transformer, columns in first.transformers_:
        if isinstance(transformer, str) and transformer == "drop":
            continue
        if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
            return list(names)
        chosen = [columns] if isinstance(columns, str | int) else columns
        by_name = not isinstance(chosen, slice) and all(isinstance(one, str) for one in chosen)
        used |= {names.index(one) for one in chosen} if by_name else {*_picked(places, chosen)}
    return [name for place, name in enumerate(names) if place in used]


def _picked(places: Array, chosen: Any) -> list[int]:
    """By a slice, by places or by a mask."""
    return [int(one) for one in places[chosen if isinstance(chosen, slice) else np.asarray(chosen)]]


def estimator_output(fitted: Any, inputs: Mapping[str, Array]) -> tuple[TensorSpec, dict[str, str]]:
    """The output that an estimator suggests, with the metadata for it, found by calling it with one row.

    `probability` of the second class of a binary classifier, `predict_proba` of any other with one output, whose
    classes go into metadata `classes`, else `predict`, else the first other method that it has. InvalidInput where it
    has none, or cannot answer the row.
    """
    estimator = Estimator(fitted)
    method = next((method for method in METHODS if estimator.has(method)), None)
    if method is None:
        raise InvalidInput(
            f"{type(fitted).__name__} has none of the methods {', '.join(METHODS)}: it says nothing of new rows"
        )
    try:
        rows = estimator.rows(inputs, list(inputs))
        found = {
            name: estimator.answer(name, rows) for name in dict.fromkeys((method, "predict")) if estimator.has(name)
        }
    except Exception as error:
        raise InvalidInput(
            f"{type(fitted).__name__} was asked with one row to see what it answers, and raised "
            f"{words_of(error)}; write a signature as JSON, or give training data that it can answer"
        ) from error
    if method != "predict_proba" or "predict" not in found:
        return _spec(method, found[method]), {}
    labels, probabilities = found["predict"], found["predict_proba"]
    if labels.ndim == 1 and probabilities.shape[1:] == (2,) and hasattr(fitted, "classes_"):
        rule = {"probability": "predict_proba[:,1]"}
        return _spec("probability", probabilities[:, 1]), {OUTPUTS: json.dumps(rule)}
    if labels.ndim == 2 and probabilities.shape != labels.shape:
        return _spec("predict", labels), {}
    return _spec("predict_proba", probabilities), _named_columns(fitted, probabilities) if labels.ndim == 1 else {}


def _named_columns(fitted: Any, probabilities: Array) -> dict[str, str]:
    """Which class each column of probabilities is of, where the estimator says it in what JSON has."""
    classes = getattr(fitted, "classes_", None)
    if not isinstance(classes, np.ndarray) or classes.dtype.kind in "mM" or probabilities.shape[1:] != classes.shape:
        return {}
    names = classes.tolist()
    return {CLASSES: json.dumps(names)} if all(isinstance(one, str | int | float) for one in names) else {}


def _spec(name: str, array: Array) -> TensorSpec:
    return TensorSpec(name, dtype_name(array), (-1, *array.shape[1:]))


def _are_numbers(columns: Sequence[Array]) -> bool:
    return bool(columns) and all(column.dtype.kind in "iuf" and column.shape[1:] in ((), (1,)) for column in columns)


def _side_by_side(columns: Sequence[Array]) -> Array:
    """Columns of numbers as a matrix, laid out column by column as in a DataFrame."""
    made = np.empty((len(columns), len(columns[0])), np.result_type(*columns))
    for row, column in zip(made, columns, strict=True):
        row[...] = column.reshape(-1)
    return made.T


def _same(one: Array | str, other: Array | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def missing_texts(manifest: Manifest) -> list[str]:
    """The columns of metadata `sklearn.missing`. InvalidInput where that is no JSON list of names."""
    text = manifest.metadata.get(MISSING, "[]")
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f'metadata {MISSING!r} of {manifest.id} is {text!r}: use a JSON list such as ["city"]')
    return names


def _column(name: str, array: Array, empty_is_missing: bool) -> Any:
    """One value per row."""
    column = as_text(name, array.reshape(len(array)) if array.shape[1:] == (1,) else array)
    return text_column(column, empty_is_missing=empty_is_missing) if column.dtype.kind == "O" else column


def _import_pandas() -> Any:
    with library("pandas", "sklearn"):
        import pandas
    return pandas
