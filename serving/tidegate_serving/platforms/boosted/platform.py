"""What the xgboost and lightgbm platforms share: finding the file, results by name, a signature read off the model.

Metadata, NAME being `xgboost` or `lightgbm`: `NAME.file` (default: the only file with one of the library's suffixes),
`NAME.outputs` (see `output_rules`; a result is `predict`, `margin`, `leaf` or `contributions`), `NAME.threads`
(default 1). Inputs are the model's features by name, or one matrix; NaN is missing, and so is a category that the model
does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.boosted.features import FeaturePlan, Features
from tidegate_serving.platforms.loader import Servable
from tidegate_serving.platforms.output_rules import output_rules, picked
from tidegate_serving.platforms.platform import ModelDescription, is_added, model_file, thread_count

_TIMES = 4
RESULTS = ("predict", "margin", "leaf", "contributions")


class Booster(Protocol):
    """A loaded model of either library."""

    @property
    def features(self) -> Features:
        """What it takes."""

    @property
    def binary(self) -> bool:
        """Whether `predict` gives the probability of one of two classes."""

    def result(self, name: str, data: Array) -> Array:
        """One of `RESULTS` for rows of features."""


class BoostedPlatform:
    """The platform `name`. `read(path, threads)` gives the booster in a file that ends in one of `suffixes`."""

    def __init__(self, name: str, suffixes: tuple[str, ...], read: Callable[[Path, int], Booster]) -> None:
        self._name = name
        self._suffixes = suffixes
        self._read_file = read
        self._key = f"{name}.outputs"

    def estimate(self, directory: Path, manifest: Manifest) -> int:
        """Bytes: a multiple of the files', as trees take more than their text."""
        return _TIMES * sum(entry.size for entry in manifest.files if not is_added(entry.path))

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """Features and output as the booster has them."""
        return _discovered(self._read(directory, manifest), self._key)

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """A booster whose features are checked against the signatures."""
        return BoostedServable(self._read(directory, manifest), manifest, self._key)

    def _read(self, directory: Path, manifest: Manifest) -> Booster:
        path = model_file(manifest, directory, f"{self._name}.file", self._suffixes)
        return self._read_file(path, thread_count(manifest, f"{self._name}.threads"))


class BoostedServable:
    """Runs the booster for each result that outputs need, once per batch."""

    def __init__(self, booster: Booster, manifest: Manifest, key: str) -> None:
        self._booster: Booster | None = booster
        rules = output_rules(manifest, key)
        for output, rule in rules.items():
            if rule.result not in RESULTS:
                raise InvalidInput(
                    f"{manifest.id} has no result {rule.result!r} for output {output!r}: name one of "
                    f"{', '.join(RESULTS)} in metadata {key!r}"
                )
        self._plans = {
            name: (
                FeaturePlan(manifest, name, booster.features),
                {spec.name: rules[spec.name] for spec in signature.outputs},
            )
            for name, signature in manifest.signatures.items()
        }

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """Outputs as the rules pick them from the booster's results."""
        plan, rules = self._plans[signature]
        data = plan.array(inputs)
        booster = self._booster
        if booster is None:
            raise InvalidInput("this version is closed")
        return picked(rules, lambda name: booster.result(name, data))

    def close(self) -> None:
        """Frees the booster."""
        self._booster = None


def _discovered(booster: Booster, key: str) -> ModelDescription:
    """One signature: the model's features in; `probability` out of a binary classifier, else `predict`."""
    features = booster.features
    shape = booster.result("predict", np.full((2, features.count), np.nan, dtype=features.dtype)).shape[1:]
    name, metadata = "predict", {}
    if booster.binary:
        name, metadata = "probability", {key: json.dumps({"probability": "predict"})}
    output = TensorSpec(name, features.dtype, (-1, *shape))
    return ModelDescription({SERVING_DEFAULT: Signature(features.inputs(), (output,))}, metadata)
