"""Trained candidates, each with its files, its signature and the very rows it was trained on; the honest ones are here.

The kinds with a mistake in them are in `mistakes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate_flights.features import CATEGORIES, FEATURES, LABEL, NUMBERS, PROBABILITY, signature
from tidegate_flights.models import fit, gradient_boosting, largest_difference, logistic_regression, to_onnx
from tidegate_serving.contract.signature import Signature

if TYPE_CHECKING:
    import pandas as pd

ONNX_FILE = "model.onnx"
SKOPS_FILE = "model.skops"


@dataclass(frozen=True)
class Candidate:
    """One trained model: `files` is the folder of the version's files, `training` the rows as the model saw them."""

    title: str
    platform: str
    files: Path
    training: pd.DataFrame
    signature: Signature
    metadata: Mapping[str, str] = field(default_factory=dict)


def train_logistic(training: pd.DataFrame, files: Path) -> Candidate:
    """Logistic regression as a skops file, platform sklearn."""
    import skops.io

    model = fit(logistic_regression(), training[list(FEATURES)], training[LABEL])
    files.mkdir(parents=True)
    skops.io.dump(model, files / SKOPS_FILE)
    outputs = json.dumps({PROBABILITY: "predict_proba[:,1]"})
    return Candidate("logistic regression", "sklearn", files, training, signature(), {"sklearn.outputs": outputs})


def train_boosting(
    training: pd.DataFrame,
    files: Path,
    *,
    seed: int = 0,
    extra_numbers: tuple[str, ...] = (),
    title: str = "gradient boosting",
) -> Candidate:
    """Gradient boosting as an ONNX file; its metadata says how far the conversion moved a probability at most."""
    numbers = (*NUMBERS, *extra_numbers)
    model = fit(gradient_boosting(numbers, seed=seed), training, training[LABEL])
    content = to_onnx(model, numbers, CATEGORIES)
    files.mkdir(parents=True)
    (files / ONNX_FILE).write_bytes(content)
    moved = largest_difference(model, content, training.tail(2000))
    metadata = {"conversion": f"probabilities moved by at most {moved:.2g} from scikit-learn to ONNX"}
    return Candidate(title, "onnx", files, training, signature(extra_numbers), metadata)
