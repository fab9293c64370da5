"""Reads a signature off a model's file: ONNX from its graph, scikit-learn from the columns that it was fitted on.

In come the model's files and the training data; out goes a signature with the metadata that its outputs
need, for `publish`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.contract.errors import InvalidInput, NotFound, Unsupported
from tidegate_serving.contract.signature import DTYPES, SERVING_DEFAULT, Signature, TensorSpec

if TYPE_CHECKING:
    import pyarrow as pa

PICKLES = (".pkl", ".pickle", ".joblib")
_ONNX_NAMES = {"float": "float32", "double": "float64"}
_ARROW_NAMES = {
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "large_string": "string",
    "string_view": "string",
}


@dataclass(frozen=True, slots=True)
class Inferred:
    """Signatures by name, and the metadata that tells the platform how outputs come about."""

    signatures: Mapping[str, Signature]
    metadata: Mapping[str, str] = field(default_factory=dict)


def infer_signature(
    files: Sequence[Path], platform: str, training: pa.Table | None, label: str | None, event_time: str | None
) -> Inferred:
    """The signature of the only model file among `files` (files, or directories that hold it).

    onnx: inputs and outputs of the graph; a column of shape [N, 1] becomes [N]. sklearn: the columns that it was fitted
    on, else all of `training` but label and event time, with `training`'s dtypes; the output is `probability` for a
    binary classifier, `predict_proba` for any other, `predict` for a regressor. `event_time` becomes an int64 input of
    its own. Unsupported for other platforms, InvalidInput where something cannot be told.
    """
    if platform == "onnx":
        return _with_event_time(_from_onnx(_only(files, (".onnx",))), event_time)
    if platform == "sklearn":
        if training is None:
            raise InvalidInput(
                "a scikit-learn model's dtypes come from its training data: give --training, or a signature"
            )
        estimator = _read_estimator(_only(files, (".skops",)))
        return _with_event_time(_from_sklearn(estimator, training, label, event_time), event_time)
    raise Unsupported(f"a signature cannot be read off a model of platform {platform!r}: write one as JSON")


def read_signatures(path: Path) -> dict[str, Signature]:
    """Signatures from a JSON file: one signature, which becomes `serving_default`, or an object of them by name."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise NotFound(f"signature file {path} is missing: write one, or leave it out to have it inferred") from error
    except ValueError as error:
        raise InvalidInput(f"signature file {path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise InvalidInput(f"signature file {path} holds no object: it needs inputs and outputs")
    named = {SERVING_DEFAULT: document} if "inputs" in document else document
    return {name: Signature.from_dict(data) for name, data in named.items()}


def _only(files: Sequence[Path], suffixes: tuple[str, ...]) -> Path:
    candidates = [path for file in files for path in ([file] if file.is_file() else sorted(file.rglob("*")))]
    found = [path for path in candidates if path.suffix in suffixes]
    if len(found) == 1:
        return found[0]
    if not found and (pickles := [path for path in candidates if path.suffix in PICKLES]):
        raise InvalidInput(
            f"{pickles[0]} is a pickle, which can run any code, so no signature is read off it: save the model with "
            "skops, or write a signature as JSON"
        )
    names = ", ".join(str(file) for file in files)
    raise InvalidInput(f"{names} holds {len(found)} files ending in {' or '.join(suffixes)}: write a signature as JSON")


def _with_event_time(inferred: Inferred, event_time: str | None) -> Inferred:
    signature = inferred.signatures[SERVING_DEFAULT]
    if event_time is None or event_time in signature.input_names:
        return inferred
    inputs = (*signature.inputs, TensorSpec(event_time, "int64"))
    return Inferred({SERVING_DEFAULT: Signature(inputs, signature.outputs)}, inferred.metadata)


def _from_onnx(path: Path) -> Inferred:
    try:
        import onnxruntime
    except ImportError as error:
        raise Unsupported(
            "reading an ONNX graph needs onnxruntime: install it with `pip install tidegate[onnx]`"
        ) from error
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InvalidInput(f"{path} is no ONNX model that onnxruntime can read: {error}") from error
    inputs = tuple(_onnx_spec(node, path) for node in session.get_inputs())
    outputs = tuple(_onnx_spec(node, path) for node in session.get_outputs())
    return Inferred({SERVING_DEFAULT: Signature(inputs, outputs)})


def _onnx_spec(node: Any, path: Path) -> TensorSpec:
    kind = str(node.type).removeprefix("tensor(").removesuffix(")")
    dtype = _ONNX_NAMES.get(kind, kind)
    if dtype not in DTYPES:
        raise InvalidInput(f"{path}: {node.name!r} is {node.type}, which cannot be served: export with zipmap=False")
    rest = tuple(size if isinstance(size, int) else -1 for size in (node.shape or ())[1:])
    return TensorSpec(node.name, dtype, (-1,) if rest == (1,) else (-1, *rest))


def _read_estimator(path: Path) -> Any:
    from tidegate_serving.platforms.sklearn_files import read_estimator

    return read_estimator(path, allow_pickle=False)


def _from_sklearn(estimator: Any, training: pa.Table, label: str | None, event_time: str | None) -> Inferred:
    fitted = getattr(estimator, "feature_names_in_", None)
    names = (
        [name for name in training.column_names if name not in (label, event_time)]
        if fitted is None
        else [str(name) for name in fitted]
    )
    missing = [name for name in names if name not in training.column_names]
    if missing:
        raise InvalidInput(f"the model was fitted on {', '.join(missing)}, which the training data lacks")
    inputs = tuple(TensorSpec(name, _arrow_dtype(name, training.schema.field(name).type)) for name in names)
    output, metadata = _sklearn_output(estimator)
    return Inferred({SERVING_DEFAULT: Signature(inputs, (output,))}, metadata)


def _arrow_dtype(name: str, type: pa.DataType) -> str:
    import pyarrow as pa

    text = str(type.value_type if pa.types.is_dictionary(type) else type)
    dtype = _ARROW_NAMES.get(text, text)
    if dtype not in DTYPES:
        raise InvalidInput(f"training column {name!r} is {text}, which cannot be served: cast it, or write a signature")
    return dtype


def _sklearn_output(estimator: Any) -> tuple[TensorSpec, dict[str, str]]:
    if not callable(getattr(estimator, "predict_proba", None)):
        return TensorSpec("predict", "float64"), {}
    classes = len(estimator.classes_)
    if classes == 2:
        rule = {"probability": "predict_proba[:,1]"}
        return TensorSpec("probability", "float64"), {"sklearn.outputs": json.dumps(rule)}
    return TensorSpec("predict_proba", "float64", (-1, classes)), {}
