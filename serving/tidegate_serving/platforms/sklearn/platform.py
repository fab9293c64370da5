"""scikit-learn estimators, from skops files; from pickle only where the engine's operator allows it.

Metadata: `sklearn.file` (default: the only .skops, .pkl, .pickle or .joblib file), `sklearn.outputs` (see
`output_rules`; a result is a method: `predict`, `predict_proba`, `decision_function`, `transform`, ...),
`sklearn.missing` (a JSON list of columns of text in which an empty one is given to the estimator as missing). An
estimator that was fitted on a DataFrame gets one with its own columns, by name, strings as `str`, or a matrix of its
numbers if that is all the same to it; one that was fitted on texts gets the only input; any other gets a 2-D array: the
only input where that has two axes, else the inputs side by side in the signature's order, without the event time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.output_rules import OutputRule, output_rules, picked
from tidegate_serving.platforms.platform import ModelDescription, PlatformOptions, model_file
from tidegate_serving.platforms.sklearn.estimators import OUTPUTS, Estimator, estimator_output, missing_texts
from tidegate_serving.platforms.sklearn.files import SUFFIXES, estimator_bytes, read_estimator


class SklearnPlatform:
    """Loads an estimator or pipeline."""

    def __init__(self, options: PlatformOptions) -> None:
        self._options = options

    def estimate(self, directory: Path, manifest: Manifest) -> int:
        """Bytes: a multiple of what the file holds unpacked."""
        return estimator_bytes(model_file(manifest, directory, "sklearn.file", SUFFIXES))

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """One matrix in, or one column of texts, for an estimator that was fitted on that. InvalidInput where it was
        fitted on named columns, whose dtypes only the training data knows.
        """
        fitted = self._read(directory, manifest)
        estimator = Estimator(fitted)
        if estimator.columns is not None:
            raise InvalidInput(
                f"this {type(fitted).__name__} was fitted on named columns and does not know their dtypes: give "
                "training data, or a signature"
            )
        spec, row = _trial(fitted, estimator)
        output, metadata = estimator_output(fitted, {spec.name: row})
        return ModelDescription({SERVING_DEFAULT: Signature((spec,), (output,))}, metadata)

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """An estimator whose columns and methods are checked against the signatures."""
        fitted = self._read(directory, manifest)
        estimator, rules = Estimator(fitted, missing_texts(manifest)), output_rules(manifest, OUTPUTS)
        for output, rule in rules.items():
            if not estimator.has(rule.result):
                raise InvalidInput(
                    f"{type(fitted).__name__} of {manifest.id} has no method {rule.result!r} for output {output!r}: "
                    "name one in metadata 'sklearn.outputs'"
                )
        estimator.leave_out_names(sorted({rule.result for rule in rules.values()}))
        return SklearnServable(estimator, manifest, rules)

    def _read(self, directory: Path, manifest: Manifest) -> Any:
        path = model_file(manifest, directory, "sklearn.file", SUFFIXES)
        return read_estimator(path, allow_pickle=self._options.allow_pickle)


def _trial(fitted: Any, estimator: Estimator) -> tuple[TensorSpec, Array]:
    """The only input of an estimator without names, and a row for it."""
    if estimator.is_text:
        return TensorSpec("x", "string"), np.array([b"text"], dtype=object)
    count = int(fitted.n_features_in_)
    return TensorSpec("x", "float64", (-1, count)), np.ones((1, count))


class SklearnServable:
    """Calls each method that outputs need once per batch."""

    def __init__(self, estimator: Estimator, manifest: Manifest, rules: Mapping[str, OutputRule]) -> None:
        self._estimator: Estimator | None = estimator
        self._plans = {name: _plan(manifest, name, rules, estimator) for name in manifest.signatures}

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """Outputs as the rules pick them from the methods' results."""
        estimator = self._estimator
        if estimator is None:
            raise InvalidInput("this version is closed")
        columns, rules = self._plans[signature]
        rows = estimator.rows(inputs, columns)
        return picked(rules, lambda method: estimator.answer(method, rows))

    def close(self) -> None:
        """Frees the estimator."""
        self._estimator = None


def _plan(
    manifest: Manifest, name: str, rules: Mapping[str, OutputRule], estimator: Estimator
) -> tuple[list[str], dict[str, OutputRule]]:
    signature = manifest.signatures[name]
    columns = [column for column in signature.input_names if column != manifest.event_time]
    missing = sorted(set(estimator.columns or ()) - set(signature.input_names))
    if missing:
        raise InvalidInput(f"{manifest.id} was fitted on column {missing[0]!r}, which signature {name!r} does not have")
    unused = sorted(set(columns) - set(estimator.fitted_on or columns))
    if unused:
        raise InvalidInput(f"{manifest.id} was not fitted on column {unused[0]!r}, which signature {name!r} has")
    return columns, {spec.name: rules[spec.name] for spec in signature.outputs}
