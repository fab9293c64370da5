"""SavedModels of kinds that TensorFlow's users have: exports with features, defaults, odd names, state, errors of ops.

`saved_models` makes them beside its own, in the same process: DIR/kinds/1, DIR/estimator/1, and a file of TensorFlow's
answers per question of `ASKED`, be they tensors or an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.models.saved_model_zoo import Asked, Takes, answer_all

ODD = 'a/b c-é:1."q"'
_F4 = np.array([[np.nan, np.inf], [-np.inf, -0.0]], "f4")
_WIDE = np.array([[2**53 + 1, -(2**63)], [2**63 - 1, 0]], "i8")
_BYTES = np.array([b"\xff\x00\xfe", b"", "\u6f6e".encode()], dtype=object)
_X3 = np.arange(12, dtype="f4").reshape(1, 4, 3)


def _example(**features: Any) -> bytes:
    """A serialised `tensorflow.Example`."""
    from tidegate_serving.contract.messages import message

    example = message("tensorflow.Example")()
    for name, values in features.items():
        feature = example.features.feature[name]
        kind = {str: feature.bytes_list, int: feature.int64_list, float: feature.float_list}[type(values[0])]
        kind.value.extend(value.encode() if isinstance(value, str) else value for value in values)
    return bytes(example.SerializeToString())


def examples() -> list[bytes]:
    """With all features, with few of them, and with none: the others have defaults or are sparse."""
    return [
        _example(age=[30.0], tags=["a", "tide", "gate"], ids=[1, 2]),
        _example(age=[2.5], city=["Kiel"]),
        _example(),
    ]


_ROWS = np.array(examples(), dtype=object)

ASKED = {
    "not finite": Asked("kinds", "floats", {"x": _F4}),
    "no columns": Asked("kinds", "floats", {"x": np.zeros((2, 0), "f4")}),
    "neither rows nor columns": Asked("kinds", "floats", {"x": np.zeros((0, 0), "f4")}),
    "wide whole numbers": Asked("kinds", "whole", {"x": _WIDE}),
    "unsigned": Asked("kinds", "unsigned", {"x": np.array([[2**64 - 1, 2**63]], "u8")}),
    "bytes that are no text": Asked("kinds", "texts", {"text": _BYTES}),
    "no texts": Asked("kinds", "texts", {"text": np.array([], dtype=object)}),
    "inner axis of four": Asked("kinds", "varied", {"x": _X3}),
    "inner axis of none": Asked("kinds", "varied", {"x": np.zeros((2, 0, 3), "f4")}),
    "odd names": Asked("kinds", ODD, {"pr\u00e9nom et/nom": np.array([1, 2], "f4")}),
    "default left out": Asked("kinds", "defaulted", {"x": np.array([1, 2], "f4")}),
    "default overruled": Asked("kinds", "defaulted", {"x": np.array([1, 2], "f4"), "times": np.array(5, "f4")}),
    "printing": Asked("kinds", "printing", {"x": np.array([1, 2], "f4")}),
    "an assertion": Asked("kinds", "strict", {"x": np.array([1, -2], "f4")}),
    "no such file": Asked("kinds", "reading", {"path": np.array([b"/nowhere/tide"], dtype=object)}),
    "no number": Asked("kinds", "numbers", {"text": np.array([b"1.5", b"t\xffde"], dtype=object)}),
    "out of range": Asked("kinds", "picked", {"row": np.array([1, 9], "i4")}),
    "large": Asked("kinds", "large", {"x": np.array([1, 2, 3], "f4")}),
    "keras": Asked("keras", "serving_default", {"Age-in.years": np.ones((2, 1), "f4"), "rest-of.it": _X3[0, :2]}),
    "parsed by predict": Asked("estimator", "predict", {"examples": _ROWS}),
    "parsed by regress": Asked("estimator", "regression", {"inputs": _ROWS}),
    "parsed by classify": Asked("estimator", "serving_default", {"inputs": _ROWS}),
    "no examples": Asked("estimator", "predict", {"examples": np.array([], dtype=object)}),
    "no example": Asked("estimator", "predict", {"examples": np.array([b"\xff\xff"], dtype=object)}),
}


def make(tf: Any, directory: Path) -> None:
    """Makes the models and asks TensorFlow every question."""
    _kinds(tf, directory / "kinds" / "1")
    _estimator(tf, directory / "estimator" / "1")
    answer_all(tf, directory, ASKED)


def _kinds(tf: Any, directory: Path) -> None:
    f4 = tf.float32
    model = tf.Module()
    model.count = tf.Variable(0, dtype=tf.int64)
    three = tf.constant(3.0)
    signatures: dict[str, Any] = {}

    def takes(name: str, **shapes: tuple[Any, Any]) -> Callable[[Callable[..., Any]], None]:
        specs = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in shapes.items()]

        def keep(function: Callable[..., Any]) -> None:
            signatures[name] = tf.function(function, input_signature=specs)

        return keep

    for name, dtype in (
        ("floats", f4),
        ("whole", tf.int64),
        ("unsigned", tf.uint64),
        ("brains", tf.bfloat16),
        ("waves", tf.complex128),
    ):
        takes(name, x=([None, None], dtype))(lambda x: {"y": tf.identity(x)})
    _texts(tf, takes)
    _faults(tf, takes)

    @takes("varied", x=([None, None, 3], f4))
    def varied(x: Any) -> dict[str, Any]:
        return {"sum": tf.reduce_sum(x, 1), "same": x + 1.0}

    @takes("odd", x=([None], f4))
    def odd(x: Any) -> dict[str, Any]:
        return {"y": x + 1.0, "z": x + 2.0}

    @takes("defaulted", x=([None], f4), times=([], f4))
    def defaulted(x: Any, times: Any = three) -> dict[str, Any]:
        return {"y": x * times}

    @takes("counted", by=([None], tf.int64))
    def counted(by: Any) -> dict[str, Any]:
        return {"count": model.count.assign_add(tf.reduce_sum(by))}

    @takes("printing", x=([None], f4))
    def printing(x: Any) -> dict[str, Any]:
        tf.print("asked for", x)
        return {"y": x}

    @takes("large", x=([None], f4))
    def large(x: Any) -> dict[str, Any]:
        return {"y": tf.tile(x[:, tf.newaxis], [1, 400_000])}

    tf.saved_model.save(model, str(directory), signatures=signatures)
    _rename(directory)


def _texts(tf: Any, takes: Takes) -> None:
    @takes("texts", text=([None], tf.string))
    def texts(text: Any) -> dict[str, Any]:
        return {"text_bytes": text, "length": tf.strings.length(text)}

    @takes("numbers", text=([None], tf.string))
    def numbers(text: Any) -> dict[str, Any]:
        return {"number": tf.strings.to_number(text)}


def _faults(tf: Any, takes: Takes) -> None:
    @takes("strict", x=([None], tf.float32))
    def strict(x: Any) -> dict[str, Any]:
        with tf.control_dependencies([tf.debugging.assert_non_negative(x, message="x must not be negative")]):
            return {"y": tf.sqrt(x)}

    @takes("reading", path=([None], tf.string))
    def reading(path: Any) -> dict[str, Any]:
        return {"read": tf.map_fn(tf.io.read_file, path)}

    @takes("picked", row=([None], tf.int32))
    def picked(row: Any) -> dict[str, Any]:
        return {"value": tf.gather(tf.constant([1.0, 2.0]), row)}


def _rename(directory: Path) -> None:
    """Keys of SignatureDefs are any text, as those of Keras layers are."""
    from tensorflow.core.protobuf import saved_model_pb2

    path = directory / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    definitions = model.meta_graphs[0].signature_def
    odd = definitions[ODD]
    odd.CopyFrom(definitions["odd"])
    for side, old, new in ((odd.inputs, "x", "pr\u00e9nom et/nom"), (odd.outputs, "z", 'z \u6f6e"')):
        side[new].CopyFrom(side[old])
        del side[old]
    path.write_bytes(model.SerializeToString(deterministic=True))


def _estimator(tf: Any, directory: Path) -> None:
    """As Estimators export: features parsed from examples of unknown number, several heads, sparse features."""
    v1, io = tf.compat.v1, tf.io
    info, define = v1.saved_model.build_tensor_info, v1.saved_model.build_signature_def
    features = {
        "age": io.FixedLenFeature([1], tf.float32, [40.0]),
        "city": io.FixedLenFeature([], tf.string, "nowhere"),
        "tags": io.VarLenFeature(tf.string),
        "ids": io.VarLenFeature(tf.int64),
    }
    with tf.Graph().as_default(), v1.Session() as session:
        serialized = v1.placeholder(tf.string, [None], name="input_example_tensor")
        parsed = io.parse_example(serialized, features)
        weight = v1.Variable(0.5, name="weight")
        known = tf.strings.to_hash_bucket_fast(tf.sparse.to_dense(parsed["tags"], ""), 7)
        total = tf.cast(tf.reduce_sum(tf.sparse.to_dense(parsed["ids"]), 1, keepdims=True), tf.float32)
        logits = weight * parsed["age"] + total
        scores = tf.concat([logits, -logits], 1)
        classes = tf.tile(tf.constant([["low", "high"]]), [tf.shape(logits)[0], 1])
        sparse = v1.sparse_placeholder(tf.float32, [None, 3], name="sparse")
        ragged = v1.ragged.placeholder(tf.float32, 1, name="ragged")
        session.run(v1.global_variables_initializer())
        named = {"inputs": info(serialized)}
        predicted = {"logits": info(logits), "city": info(parsed["city"]), "known": info(known)}
        method = "tensorflow/serving/"
        signatures = {
            "serving_default": define(named, {"classes": info(classes), "scores": info(scores)}, method + "classify"),
            "regression": define(named, {"outputs": info(logits)}, method + "regress"),
            "predict": define({"examples": info(serialized)}, predicted, method + "predict"),
            "sparse": define({"x": info(sparse)}, {"y": info(tf.sparse.to_dense(sparse))}, method + "predict"),
            "ragged": define({"x": info(ragged)}, {"y": info(ragged.to_tensor())}, method + "predict"),
        }
        builder = v1.saved_model.Builder(str(directory))
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures)
        builder.save()
