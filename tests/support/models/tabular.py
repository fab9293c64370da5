"""A table of three columns with a label, on which scikit-learn and ONNX models are trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tests.support.models.versions import Draft

from tidegate_serving.contract.signature import Signature, TensorSpec

RANDOM = np.random.default_rng(0)
ROWS = 200
FRAME = pd.DataFrame(
    {
        "carrier": RANDOM.choice(["AA", "UA", "é"], ROWS),
        "distance": RANDOM.normal(1000, 300, ROWS).astype("f4"),
        "gust": np.where(RANDOM.random(ROWS) < 0.1, np.nan, RANDOM.normal(10, 3, ROWS)).astype("f4"),
    }
)
LATE = (FRAME["distance"] + RANDOM.normal(0, 100, ROWS) > 1000).to_numpy()
SIGNATURE = Signature(
    inputs=(
        TensorSpec("carrier", "string"),
        TensorSpec("distance", "float32"),
        TensorSpec("gust", "float32"),
        TensorSpec("at", "int64"),
    ),
    outputs=(TensorSpec("probability", "float64"), TensorSpec("late", "bool")),
)
EXAMPLE = {"carrier": "AA", "distance": 900.0, "gust": None, "at": 1370000000}


def pipeline(model: Any) -> Pipeline:
    columns = ColumnTransformer(
        [("carrier", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["carrier"])], remainder="passthrough"
    )
    return make_pipeline(columns, model)


def tensors(frame: pd.DataFrame) -> dict[str, Any]:
    strings = np.array([text.encode() for text in frame["carrier"]], dtype=object)
    numbers = {name: frame[name].to_numpy() for name in ("distance", "gust")}
    return {"carrier": strings, **numbers, "at": np.full(len(frame), 1370000000)}


def with_files(base: Draft, **files: bytes) -> Draft:
    """The draft with files; `model__onnx` is the file `model.onnx`."""
    return replace(base, files={name.replace("__", "."): content for name, content in files.items()})
