"""The two honest model families, as scikit-learn pipelines over columns, and the conversion of one to an ONNX file.

Both accept missing numbers and categories that training never showed. ONNX files take one vector per column and answer
one probability per row.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_flights.features import CATEGORIES, NUMBERS, PROBABILITY

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.pipeline import Pipeline

_ITERATIONS = 300
_OPSET = 18


def fit(pipeline: Pipeline, rows: pd.DataFrame, labels: pd.Series[int]) -> Pipeline:
    """The pipeline, fitted by one thread: OpenMP's threads wait for each other ten times as long on a busy machine."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return pipeline.fit(rows, labels)


def probabilities(pipeline: Pipeline, rows: pd.DataFrame) -> np.ndarray[Any, Any]:
    """What a fitted pipeline says of each row, float64; by one thread, as `fit`."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return np.asarray(pipeline.predict_proba(rows)[:, 1])


def logistic_regression() -> Pipeline:
    """Missing numbers become the median, rare categories share a column, and an unknown one counts as rare."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    categories = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=50)
    columns = ColumnTransformer([("numbers", numbers, list(NUMBERS)), ("categories", categories, list(CATEGORIES))])
    return make_pipeline(columns, LogisticRegression(max_iter=300))


def gradient_boosting(
    numbers: tuple[str, ...] = NUMBERS, categories: tuple[str, ...] = CATEGORIES, *, seed: int = 0
) -> Pipeline:
    """Shallow trees that look at half of the columns at each split; the seed decides which half."""
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    columns = ColumnTransformer([("numbers", "passthrough", list(numbers)), ("categories", ordinal, list(categories))])
    trees = HistGradientBoostingClassifier(
        max_iter=_ITERATIONS,
        learning_rate=0.05,
        max_leaf_nodes=7,
        min_samples_leaf=200,
        l2_regularization=1.0,
        max_features=0.5,
        early_stopping=False,
        random_state=seed,
    )
    return make_pipeline(columns, trees)


def to_onnx(pipeline: Pipeline, numbers: tuple[str, ...], categories: tuple[str, ...]) -> bytes:
    """The model's bytes: inputs float32 or string of shape (rows,), output `probability` float32 of shape (rows,)."""
    from skl2onnx import to_onnx as convert
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    types = [(name, FloatTensorType([None, 1])) for name in numbers]
    types += [(name, StringTensorType([None, 1])) for name in categories]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the converter hands protobuf booleans for integers
        model = convert(pipeline, initial_types=types, options={id(pipeline): {"zipmap": False}}, target_opset=_OPSET)
    _take_vectors(model.graph)
    _answer_probability(model.graph)
    return bytes(model.SerializeToString())


def largest_difference(pipeline: Pipeline, model: bytes, frame: pd.DataFrame) -> float:
    """How far the conversion moved a probability at most, over the rows of `frame`."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model)
    feed = {column.name: frame[column.name].to_numpy() for column in session.get_inputs()}
    converted = session.run([PROBABILITY], feed)[0]
    return float(np.abs(converted - probabilities(pipeline, frame)).max())


def _take_vectors(graph: Any) -> None:
    from onnx import TensorProto, helper

    graph.initializer.append(helper.make_tensor("column_axis", TensorProto.INT64, [1], [1]))
    for value in graph.input:
        name, inner = value.name, f"{value.name}_as_column"
        for node in graph.node:
            node.input[:] = [inner if source == name else source for source in node.input]
        graph.node.insert(0, helper.make_node("Unsqueeze", [name, "column_axis"], [inner]))
        value.CopyFrom(helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, ["rows"]))


def _answer_probability(graph: Any) -> None:
    from onnx import TensorProto, helper

    probabilities = next(value.name for value in graph.output if value.name == "probabilities")
    graph.initializer.append(helper.make_tensor("late_column", TensorProto.INT64, [], [1]))
    graph.node.append(helper.make_node("Gather", [probabilities, "late_column"], [PROBABILITY], axis=1))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(PROBABILITY, TensorProto.FLOAT, ["rows"]))
