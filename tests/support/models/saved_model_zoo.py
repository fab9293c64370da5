"""SavedModels whose signatures have no common batch, with questions and TensorFlow's own answers to them.

`saved_models` makes them beside its own, in the same process: DIR/zoo/1, DIR/session/1, and one file of answers per
question of `ASKED`. Tests ask an engine the same and compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ANSWERS = "zoo_answers"
ERROR = "an error of TensorFlow"
_X = np.arange(6, dtype="f4").reshape(2, 3)
_WORDS = np.array([b"tide", b"gate", b""], dtype=object)


@dataclass(frozen=True)
class Asked:
    """A signature of a model, and what it is fed."""

    model: str
    signature: str
    inputs: Mapping[str, Array]


ASKED = {
    "scalar beside rows": Asked("zoo", "scaled", {"x": _X, "times": np.array(3, "f4")}),
    "scalar flag": Asked("zoo", "flagged", {"x": _X, "training": np.array(True)}),
    "k of top k": Asked("zoo", "top", {"x": _X, "k": np.array(2, "i4")}),
    "only scalars": Asked("zoo", "added", {"a": np.array(2, "i8"), "b": np.array(-(2**62), "i8")}),
    "scalar string": Asked("zoo", "greeting", {"name": np.array(b"t\xffde", dtype=object)}),
    "no input": Asked("zoo", "constant", {}),
    "unknown rank 0": Asked("zoo", "unranked", {"x": np.array(1.5, "f4")}),
    "unknown rank 1": Asked("zoo", "unranked", {"x": np.arange(3, dtype="f4")}),
    "unknown rank 3": Asked("zoo", "unranked", {"x": np.ones((2, 1, 2), "f4")}),
    "unknown rank, empty": Asked("zoo", "unranked", {"x": np.ones((0, 2), "f4")}),
    "fixed vector": Asked("zoo", "running", {"x": np.array([1, 2, 4], "f4")}),
    "fixed matrix": Asked("zoo", "inverse", {"m": np.array([[2, 1], [1, 1]], "f8")}),
    "fixed to scalar": Asked("zoo", "determinant", {"m": np.array([[2, 1], [1, 3]], "f8")}),
    "of a hidden rank": Asked("zoo", "counted", {"n": np.array(3, "i4")}),
    "to a shape": Asked("zoo", "reshaped", {"x": np.arange(4, dtype="f4"), "to": np.array([2, 1, 2], "i4")}),
    "to no shape": Asked("zoo", "reshaped", {"x": np.arange(4, dtype="f4"), "to": np.array([-1], "i4")}),
    "fixed row": Asked("zoo", "one_row", {"x": _X[:1]}),
    "rows to scalar": Asked("zoo", "mean", {"x": _X}),
    "rows to other rows": Asked("zoo", "positive", {"x": np.array([3, -1, 0, 2], "f4")}),
    "rows to two lengths": Asked("zoo", "splits", {"text": np.array([b"a b", b"", b"c"], dtype=object)}),
    "queries and documents": Asked("zoo", "scores", {"q": _X[:1], "d": np.ones((4, 3), "f4")}),
    "queries and as many documents": Asked("zoo", "scores", {"q": _X, "d": _X + 1}),
    "no rows": Asked("zoo", "doubled", {"x": np.zeros((0, 2), "f4")}),
    "rows": Asked("zoo", "doubled", {"x": np.array([[1, np.inf], [-np.inf, 2]], "f4")}),
    "lookup": Asked("zoo", "looked_up", {"words": _WORDS}),
    "session, any rank": Asked("session", "predict_any", {"x": np.ones((2, 2), "f4")}),
    "session, scalar": Asked("session", "predict_any", {"x": np.array(4, "f4")}),
}


def file_of(directory: Path, question: str) -> Path:
    """Where the answer to a question lies, under the folder of all models."""
    return directory / ANSWERS / f"{question.replace(' ', '_')}.npz"


def make(tf: Any, directory: Path) -> None:
    """Makes the models and asks TensorFlow every question."""
    _zoo(tf, directory / "zoo" / "1")
    _session(tf, directory / "session" / "1")
    answer_all(tf, directory, ASKED)


def answer_all(tf: Any, directory: Path, questions: Mapping[str, Asked]) -> None:
    """Asks TensorFlow itself, whose answers and errors go to one file each."""
    (directory / ANSWERS).mkdir(exist_ok=True)
    v1 = tf.compat.v1
    for model in sorted({asked.model for asked in questions.values()}):
        with v1.Session(graph=tf.Graph()) as session:
            graph = v1.saved_model.loader.load(session, ["serve"], str(directory / model / "1"))
            for question, asked in questions.items():
                if asked.model == model:
                    answered = _answer(tf, session, graph.signature_def[asked.signature], asked.inputs)
                    np.savez(file_of(directory, question), **answered)


def _answer(tf: Any, session: Any, definition: Any, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Outputs by name, or `code` and `message` of what TensorFlow raised."""
    feeds = {definition.inputs[name].name: tf.make_ndarray(value) for name, value in definition.defaults.items()}
    feeds.update({definition.inputs[name].name: value for name, value in inputs.items()})
    names = sorted(definition.outputs)
    run = session.make_callable([definition.outputs[name].name for name in names], list(feeds))
    try:
        return dict(zip(names, run(*feeds.values()), strict=True))
    except tf.errors.OpError as error:
        return {ERROR: np.array([error.error_code, error.message], dtype=object)}
    except UnicodeDecodeError as error:  # TensorFlow's Python side cannot decode a message that quotes such bytes
        return {ERROR: np.array([3, error.object.decode(errors="replace")], dtype=object)}


Takes = Callable[..., Callable[[Callable[..., Any]], None]]


def _zoo(tf: Any, directory: Path) -> None:
    words = tf.lookup.KeyValueTensorInitializer(tf.constant(["tide", "gate"]), tf.constant([1, 2], tf.int64))
    model = tf.Module()
    model.table = tf.lookup.StaticHashTable(words, -1)
    model.half = tf.Variable(0.5)
    signatures: dict[str, Any] = {}

    def takes(**shapes: tuple[Any, Any]) -> Callable[[Callable[..., Any]], None]:
        specs = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in shapes.items()]

        def keep(function: Callable[..., Any]) -> None:
            signatures[function.__name__] = tf.function(function, input_signature=specs)

        return keep

    _with_scalars(tf, model, takes)
    _with_fixed_shapes(tf, takes)
    _with_rows(tf, model, takes)
    tf.saved_model.save(model, str(directory), signatures=signatures)


def _with_scalars(tf: Any, model: Any, takes: Takes) -> None:
    f4 = tf.float32
    rows = ([None, 3], f4)

    @takes(x=rows, times=([], f4))
    def scaled(x: Any, times: Any) -> dict[str, Any]:
        return {"y": x * times}

    @takes(x=rows, training=([], tf.bool))
    def flagged(x: Any, training: Any) -> dict[str, Any]:
        return {"y": tf.cond(training, lambda: x * model.half, lambda: x), "was": training}

    @takes(x=rows, k=([], tf.int32))
    def top(x: Any, k: Any) -> dict[str, Any]:
        values, indices = tf.math.top_k(x, k)
        return {"values": values, "indices": indices}

    @takes(a=([], tf.int64), b=([], tf.int64))
    def added(a: Any, b: Any) -> dict[str, Any]:
        return {"sum": a + b}

    @takes(name=([], tf.string))
    def greeting(name: Any) -> dict[str, Any]:
        return {"text_bytes": tf.strings.join(["to ", name])}

    @takes()
    def constant() -> dict[str, Any]:
        return {"answer": tf.constant([[42]])}

    @takes(x=(None, f4))
    def unranked(x: Any) -> dict[str, Any]:
        return {"y": x * 2.0, "rank": tf.rank(x)}


def _with_fixed_shapes(tf: Any, takes: Takes) -> None:
    f4, f8 = tf.float32, tf.float64

    @takes(x=([3], f4))
    def running(x: Any) -> dict[str, Any]:
        return {"y": tf.cumsum(x)}

    @takes(m=([2, 2], f8))
    def inverse(m: Any) -> dict[str, Any]:
        return {"y": tf.linalg.inv(m)}

    @takes(m=([2, 2], f8))
    def determinant(m: Any) -> dict[str, Any]:
        return {"y": tf.linalg.det(m)}

    @takes(n=([], tf.int32))
    def counted(n: Any) -> dict[str, Any]:
        return {"y": tf.reshape(tf.range(n), tf.boolean_mask([-1], tf.fill([1], n >= 0)))}

    @takes(x=([4], f4), to=([None], tf.int32))
    def reshaped(x: Any, to: Any) -> dict[str, Any]:
        return {"y": tf.reshape(x, to)}

    @takes(x=([1, 3], f4))
    def one_row(x: Any) -> dict[str, Any]:
        return {"y": x + 1.0}


def _with_rows(tf: Any, model: Any, takes: Takes) -> None:
    f4 = tf.float32
    rows = ([None, 3], f4)

    @takes(x=rows)
    def mean(x: Any) -> dict[str, Any]:
        return {"mean": tf.reduce_mean(x), "of_columns": tf.reduce_mean(x, 0)}

    @takes(x=([None], f4))
    def positive(x: Any) -> dict[str, Any]:
        return {"y": tf.boolean_mask(x, x > 0)}

    @takes(text=([None], tf.string))
    def splits(text: Any) -> dict[str, Any]:
        found = tf.strings.split(text)
        return {"values": found.flat_values, "row_splits": found.row_splits}

    @takes(packed=([], tf.string))
    def unpacked(packed: Any) -> dict[str, Any]:
        return {"text": tf.io.decode_compressed(packed, "GZIP")}

    @takes(q=rows, d=rows)
    def scores(q: Any, d: Any) -> dict[str, Any]:
        return {"scores": tf.matmul(q, d, transpose_b=True)}

    @takes(x=([None, 2], f4))
    def doubled(x: Any) -> dict[str, Any]:
        return {"y": x * 2.0}

    @takes(words=([None], tf.string))
    def looked_up(words: Any) -> dict[str, Any]:
        return {"number": model.table.lookup(words)}

    @takes(x=rows, wave=([None], tf.complex64))
    def waves(x: Any, wave: Any) -> dict[str, Any]:
        return {"y": tf.math.real(wave)}


def _session(tf: Any, directory: Path) -> None:
    """As programs of TensorFlow 1 export: a builder, placeholders without shapes, examples that the graph parses."""
    v1 = tf.compat.v1
    info, define = v1.saved_model.build_tensor_info, v1.saved_model.build_signature_def
    with tf.Graph().as_default(), v1.Session() as session:
        serialized = v1.placeholder(tf.string, name="tf_example")
        parsed = tf.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        a, b = v1.Variable(0.5, name="a"), v1.Variable(2.0, name="b")
        score = tf.add(tf.multiply(a, parsed["x"]), b)
        labels = tf.tile(tf.constant([["half"]]), [tf.shape(score)[0], 1])
        free = v1.placeholder(tf.float32, name="free")
        named = {"inputs": info(serialized)}
        session.run(v1.global_variables_initializer())
        signatures = {
            "serving_default": define({"x": info(parsed["x"])}, {"y": info(score)}, "tensorflow/serving/predict"),
            "regress_x": define(named, {"outputs": info(score)}, "tensorflow/serving/regress"),
            "classify_x": define(
                named, {"classes": info(labels), "scores": info(score)}, "tensorflow/serving/classify"
            ),
            "predict_any": define({"x": info(free)}, {"y": info(free * a + b)}, "tensorflow/serving/predict"),
        }
        builder = v1.saved_model.Builder(str(directory))
        builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures)
        builder.save()
