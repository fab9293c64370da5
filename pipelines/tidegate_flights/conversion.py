"""Turns a fitted pipeline into an ONNX file that takes one vector per column and answers one probability per row.

Candidates hand in scikit-learn pipelines and write what comes back into the version's files; the ONNX runtime of the
engine and of the expected-answers process run it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_flights.features import PROBABILITY

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.pipeline import Pipeline

_OPSET = 18


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
    return float(np.abs(converted - pipeline.predict_proba(frame)[:, 1]).max())


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
