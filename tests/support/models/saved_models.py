"""TensorFlow SavedModels for tests, made in a process of its own: `python -m tests.support.models.saved_models DIR`.

The session fixture `saved_models` in `tests/conftest.py` runs it once; it leaves DIR/NAME/1 as any TensorFlow user
would have them, without manifests. `NAMES` says what each is good for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.models import saved_model_kinds, saved_model_zoo

NAMES = {
    "half_plus_two": "y = x / 2 + 2, and regress and classify signatures over serialised tf.Examples",
    "quickstart": "half_plus_two of a graph and a session; its signature says [-1, 1], the graph takes any shape",
    "keras": "a Keras model of two inputs with odd names, exported by Keras",
    "strings": "strings in, strings and lengths out; a vocabulary from an asset",
    "shapes": "signatures with unknown rank, scalars, a fixed batch, inner axes of any size, and one that is plain",
    "dtypes": "one signature per dtype: y = x",
    "strict": "refuses negative values; a second signature divides whole numbers, which may be 0",
    "large": "80 MB of variables",
    "warm": "half_plus_two with a warm-up file of one request of each kind",
}
REGRESS = "tensorflow/serving/regress"
CLASSIFY = "tensorflow/serving/classify"
DTYPES = ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def build(directory: Path) -> Path:
    """Makes all of them under `directory`."""
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "tests.support.models.saved_models", str(directory)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the SavedModels could not be made:\n{done.stderr[-4000:]}")
    return directory


def main(directory: Path) -> None:
    """Runs every maker."""
    import tensorflow as tf

    makers: dict[str, Callable[[Any, Path], None]] = {
        "half_plus_two": _half_plus_two,
        "quickstart": _quickstart,
        "keras": _keras,
        "strings": _strings,
        "shapes": _shapes,
        "dtypes": _dtypes,
        "strict": _strict,
        "large": _large,
        "warm": _warm,
    }
    for name, make in makers.items():
        make(tf, directory / name / "1")
    saved_model_zoo.make(tf, directory)
    saved_model_kinds.make(tf, directory)


def _save(tf: Any, module: Any, directory: Path, signatures: Mapping[str, Any]) -> None:
    tf.saved_model.save(module, str(directory), signatures=dict(signatures))


def _takes(tf: Any, *specs: Any) -> Callable[[Callable[..., Any]], Any]:
    decorator: Callable[[Callable[..., Any]], Any] = tf.function(input_signature=specs)
    return decorator


def _rename_methods(directory: Path, methods: Mapping[str, str]) -> None:
    """TensorFlow 2 writes method_name predict everywhere; TensorFlow Serving has two more."""
    from tensorflow.core.protobuf import saved_model_pb2

    path = directory / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for name, signature in model.meta_graphs[0].signature_def.items():
        if name in methods:
            signature.method_name = methods[name]
    path.write_bytes(model.SerializeToString(deterministic=True))


def _half_plus_two(tf: Any, directory: Path) -> None:
    model = tf.Module()
    model.half, model.two, model.three = tf.Variable(0.5), tf.Variable(2.0), tf.Variable(3.0)
    features = {name: tf.io.FixedLenFeature([1], tf.float32, default_value=[0.0]) for name in ("x", "x2")}
    examples = tf.TensorSpec([None], tf.string, name="inputs")

    @_takes(tf, tf.TensorSpec([None], tf.float32, name="x"))
    def predict(x: Any) -> dict[str, Any]:
        return {"y": model.half * x + model.two}

    def regress(feature: str, plus: Any) -> Any:
        @_takes(tf, examples)
        def answer(inputs: Any) -> dict[str, Any]:
            return {"outputs": model.half * tf.io.parse_example(inputs, features)[feature] + plus}

        return answer

    @_takes(tf, examples)
    def classify(inputs: Any) -> dict[str, Any]:
        score = model.half * tf.io.parse_example(inputs, features)["x"] + model.two
        classes = tf.tile(tf.constant([["half", "plus"]]), [tf.shape(score)[0], 1])
        return {"classes": classes, "scores": tf.concat([score, -score], 1)}

    signatures = {
        "serving_default": predict,
        "regress_x_to_y": regress("x", model.two),
        "regress_x_to_y2": regress("x", model.three),
        "regress_x2_to_y3": regress("x2", model.three),
        "classify_x_to_y": classify,
    }
    _save(tf, model, directory, signatures)
    methods = {name: REGRESS for name in signatures if name.startswith("regress")}
    _rename_methods(directory, {**methods, "classify_x_to_y": CLASSIFY})


def _quickstart(tf: Any, directory: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        half, two = v1.Variable(0.5, use_resource=False), v1.Variable(2.0, use_resource=False)
        feature = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        parsed = tf.io.parse_example(v1.placeholder(tf.string, [None]), feature)
        x = tf.identity(parsed["x"], name="x")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(directory), {"x": x}, {"y": tf.add(half * x, two, name="y")})


def _keras(tf: Any, directory: Path) -> None:
    import keras

    keras.utils.set_random_seed(1)
    age = keras.Input((1,), name="Age-in.years")
    rest = keras.Input((3,), name="rest-of.it")
    both = keras.layers.Concatenate()([age, rest])
    out = keras.layers.Dense(2, name="score-1", activation="softmax")(keras.layers.Dense(8, activation="relu")(both))
    keras.Model([age, rest], out).export(str(directory), verbose=False)


def _strings(tf: Any, directory: Path) -> None:
    words = directory.parent / "words.txt"
    words.parent.mkdir(parents=True, exist_ok=True)
    words.write_text("tide\ngate\nsluice\n")

    index = tf.lookup.TextFileIndex
    lines = tf.lookup.TextFileInitializer(str(words), tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
    model = tf.Module()
    model.table = tf.lookup.StaticHashTable(lines, -1)

    @_takes(tf, tf.TensorSpec([None], tf.string, name="text"))
    def look_up(text: Any) -> dict[str, Any]:
        doubled = tf.strings.join([text, text], b"\x00")
        return {"number": model.table.lookup(text), "length": tf.strings.length(text), "doubled": doubled}

    _save(tf, model, directory, {"serving_default": look_up})
    words.unlink()


def _shapes(tf: Any, directory: Path) -> None:
    def sums(*shape: Any) -> Any:
        @_takes(tf, tf.TensorSpec(shape, tf.float32, name="x"))
        def answer(x: Any) -> dict[str, Any]:
            return {"sum": tf.reduce_sum(x, axis=list(range(1, len(shape))))}

        return answer

    @_takes(tf, tf.TensorSpec(None, tf.float32, name="x"))
    def unranked(x: Any) -> dict[str, Any]:
        return {"y": x * 2.0}

    def masked(sizes: Any, x: Any) -> Any:
        """The same sizes, in a tensor whose length TensorFlow cannot tell."""
        return tf.boolean_mask(sizes, tf.fill(tf.shape(sizes), tf.size(x) >= 0))

    @_takes(tf, tf.TensorSpec([None, 2], tf.float32, name="x"))
    def hidden(x: Any) -> dict[str, Any]:
        return {"y": tf.reshape(x, masked([-1, 2, 1], x)), "z": tf.reduce_sum(x, 1)}

    @_takes(tf, tf.TensorSpec([None, 2], tf.float32, name="x"))
    def vanishing(x: Any) -> dict[str, Any]:
        return {"y": tf.reshape(x, masked([7, 7], x))}

    @_takes(tf, tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([], tf.float32, name="times"))
    def scaled(x: Any, times: Any) -> dict[str, Any]:
        return {"y": x * times}

    @_takes(tf, tf.TensorSpec([None], tf.complex64, name="x"))
    def complexes(x: Any) -> dict[str, Any]:
        return {"y": tf.math.conj(x), "size": tf.abs(x)}

    @_takes(tf, tf.TensorSpec([None], tf.quint8, name="x"))
    def quantized(x: Any) -> dict[str, Any]:
        return {"y": tf.bitcast(x, tf.uint8)}

    signatures = {
        "serving_default": sums(None, 3),
        "wide": sums(None, None, 2),
        "fixed": sums(4, 3),
        "unranked": unranked,
        "hidden": hidden,
        "vanishing": vanishing,
        "scaled": scaled,
        "complex": complexes,
        "quantized": quantized,
    }
    _save(tf, tf.Module(), directory, signatures)


def _dtypes(tf: Any, directory: Path) -> None:
    def same(dtype: str) -> Any:
        @_takes(tf, tf.TensorSpec([None, 2], dtype, name="x"))
        def answer(x: Any) -> dict[str, Any]:
            return {"y": tf.identity(x)}

        return answer

    _save(tf, tf.Module(), directory, {name: same(name) for name in DTYPES})


def _strict(tf: Any, directory: Path) -> None:
    @_takes(tf, tf.TensorSpec([None], tf.float32, name="x"))
    def not_negative(x: Any) -> dict[str, Any]:
        with tf.control_dependencies([tf.debugging.assert_non_negative(x, message="x must not be negative")]):
            return {"y": tf.sqrt(x)}

    @_takes(tf, tf.TensorSpec([None], tf.int64, name="a"), tf.TensorSpec([None], tf.int64, name="b"))
    def divide(a: Any, b: Any) -> dict[str, Any]:
        return {"quotient": a // b}

    _save(tf, tf.Module(), directory, {"serving_default": not_negative, "divide": divide})


def _large(tf: Any, directory: Path) -> None:
    model = tf.Module()
    model.table = tf.Variable(tf.random.stateless_uniform([20_000_000], [1, 2]))

    @_takes(tf, tf.TensorSpec([None], tf.int32, name="row"))
    def pick(row: Any) -> dict[str, Any]:
        return {"value": tf.gather(model.table, row)}

    _save(tf, model, directory, {"serving_default": pick})


def _warm(tf: Any, directory: Path) -> None:
    from tensorflow_serving.apis import prediction_log_pb2

    _half_plus_two(tf, directory)
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(4)
    logs = [prediction_log_pb2.PredictionLog() for _ in range(5)]
    predict, classify, regress, multi, session = logs
    predict.predict_log.request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
    classify.classify_log.request.model_spec.signature_name = "classify_x_to_y"
    classify.classify_log.request.input.example_list.examples.extend([example, example])
    regress.regress_log.request.model_spec.signature_name = "regress_x2_to_y3"
    regress.regress_log.request.input.example_list_with_context.examples.append(example)
    regress.regress_log.request.input.example_list_with_context.context.CopyFrom(example)
    for name in ("classify_x_to_y", "regress_x_to_y"):
        multi.multi_inference_log.request.tasks.add().model_spec.signature_name = name
    multi.multi_inference_log.request.input.example_list.examples.append(example)
    feed = session.session_run_log.request.feed.add()
    feed.name = "serving_default_x:0"
    feed.tensor.CopyFrom(tf.make_tensor_proto([1.0]))
    session.session_run_log.request.fetch.append(feed.name)
    (directory / "assets.extra").mkdir()
    with tf.io.TFRecordWriter(str(directory / "assets.extra/tf_serving_warmup_requests")) as writer:
        for log in logs:
            writer.write(log.SerializeToString())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
