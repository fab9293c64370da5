"""scikit-learn estimators, from skops files; from pickle only where the engine's operator allows it.

Metadata: `sklearn.file` (default: the only .skops, .pkl, .pickle or .joblib file), `sklearn.outputs` (see
`output_rules`; a result is a method: `predict`, `predict_proba`, `decision_function`, `transform`, ...). An estimator
that was fitted on a DataFrame gets one with its own columns, by name, strings as `str`; any other gets a 2-D array: the
only input where that has two axes, else the inputs side by side in the signature's order, without the event time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.discovery import Discovered
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.output_rules import OutputRule, output_rules
from tidegate_serving.platforms.platform import PlatformOptions, missing_library, model_file
from tidegate_serving.platforms.sklearn_files import read_estimator

METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples", "transform")


class SklearnPlatform:
    """Loads an estimator or pipeline."""

    def __init__(self, options: PlatformOptions) -> None:
        self._options = options

    def discover(self, directory: Path, manifest: Manifest) -> Discovered:
        """One matrix in, for an estimator that was fitted on one. InvalidInput where it was fitted on named columns,
        whose dtypes only the training data knows.
        """
        estimator = self._read(directory, manifest)
        names, count = getattr(estimator, "feature_names_in_", None), getattr(estimator, "n_features_in_", None)
        if names is not None or count is None:
            raise InvalidInput(
                f"{type(estimator).__name__} of {manifest.id} was fitted on columns whose dtypes it does not know: "
                "give --training, or a signature"
            )
        output, metadata = estimator_output(estimator)
        return Discovered(
            {SERVING_DEFAULT: Signature((TensorSpec("x", "float64", (-1, int(count))),), (output,))}, metadata
        )

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """An estimator whose columns and methods are held against the signatures before anybody asks it."""
        estimator = self._read(directory, manifest)
        rules = output_rules(manifest, "sklearn.outputs")
        for output, rule in rules.items():
            if rule.result not in METHODS or not callable(getattr(estimator, rule.result, None)):
                raise InvalidInput(
                    f"{type(estimator).__name__} of {manifest.id} has no method {rule.result!r} for output {output!r}: "
                    "name one in metadata 'sklearn.outputs'"
                )
        return SklearnServable(estimator, manifest, rules)

    def _read(self, directory: Path, manifest: Manifest) -> Any:
        path = model_file(manifest, directory, "sklearn.file", (".skops", ".pkl", ".pickle", ".joblib"))
        return read_estimator(path, allow_pickle=self._options.allow_pickle)


def estimator_output(estimator: Any) -> tuple[TensorSpec, dict[str, str]]:
    """The output that an estimator suggests, with the metadata for it: `probability` of a binary classifier,
    `predict_proba` of any other, else `predict`.
    """
    if not callable(getattr(estimator, "predict_proba", None)):
        return TensorSpec("predict", "float64"), {}
    classes = len(estimator.classes_)
    if classes == 2:
        rule = {"probability": "predict_proba[:,1]"}
        return TensorSpec("probability", "float64"), {"sklearn.outputs": json.dumps(rule)}
    return TensorSpec("predict_proba", "float64", (-1, classes)), {}


class SklearnServable:
    """Calls each method that outputs need once per batch."""

    def __init__(self, estimator: Any, manifest: Manifest, rules: Mapping[str, OutputRule]) -> None:
        self._estimator = estimator
        names = getattr(estimator, "feature_names_in_", None)
        self._frame = None if names is None else [str(name) for name in names]
        self._plans = {name: _plan(manifest, name, rules, self._frame) for name in manifest.signatures}
        if self._frame is not None:
            _import_pandas()

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """Outputs as the rules pick them from the methods' results."""
        columns, rules = self._plans[signature]
        data = self._as_frame(inputs) if self._frame is not None else _as_matrix(inputs, columns)
        methods = dict.fromkeys(rule.result for rule in rules.values())
        results = {method: np.asarray(getattr(self._estimator, method)(data)) for method in methods}
        return {name: rule.pick(results[rule.result]) for name, rule in rules.items()}

    def close(self) -> None:
        """Frees the estimator."""
        self._estimator = None

    def _as_frame(self, inputs: Mapping[str, Array]) -> Any:
        pandas = _import_pandas()
        return pandas.DataFrame({name: _column(name, inputs[name]) for name in self._frame or ()})


def _plan(
    manifest: Manifest, name: str, rules: Mapping[str, OutputRule], frame: list[str] | None
) -> tuple[list[str], dict[str, OutputRule]]:
    signature = manifest.signatures[name]
    columns = [column for column in signature.input_names if column != manifest.event_time]
    missing = sorted(set(frame or ()) - set(signature.input_names))
    if missing:
        raise InvalidInput(f"{manifest.id} was fitted on column {missing[0]!r}, which signature {name!r} does not have")
    unused = sorted(set(columns) - set(frame or columns))
    if unused:
        raise InvalidInput(f"{manifest.id} was not fitted on column {unused[0]!r}, which signature {name!r} has")
    return columns, {spec.name: rules[spec.name] for spec in signature.outputs}


def _as_matrix(inputs: Mapping[str, Array], columns: list[str]) -> Array:
    if len(columns) == 1 and inputs[columns[0]].ndim == 2:
        return inputs[columns[0]]
    return np.column_stack([_column(name, inputs[name]) for name in columns])


def _column(name: str, array: Array) -> Array:
    if array.dtype.kind != "O":
        return array
    made = np.empty(array.shape, dtype=object)
    try:
        made[:] = [item.decode() if isinstance(item, bytes) else item for item in array.tolist()]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"input {name!r} holds a string that is not UTF-8: {error}") from error
    return made


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise missing_library("pandas", "sklearn", "sklearn") from error
    return pandas
