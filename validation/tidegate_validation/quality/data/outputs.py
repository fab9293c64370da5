"""Which output of a version is its prediction, and how that becomes scores: a number per example, or one per class.

Where the signature leaves it open, the policy's `quality.output` names the output, else metadata `quality.output` in
the manifest. Metadata `classes` there (JSON, or names between commas) are the classes of its columns in order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import CLASSES, Manifest
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.data.labels import class_text
from tidegate_validation.quality.evaluation import Task
from tidegate_validation.statistics.arrays import Floats

METADATA = "quality.output"
_LIKELY = ("probability", "probabilities", "proba", "score", "scores", "prediction", "predictions", "output")
_FEW = 20
_NAMES = ("classes", "class_names", "labels")


class UnreadableOutput(InvalidInput):
    """An output of which nobody says which classes its numbers belong to."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The output that is the prediction, the one that names its columns row by row (or None), and the classes that the
    manifest names.
    """

    output: TensorSpec
    names: TensorSpec | None = None
    classes: tuple[str, ...] = ()

    @property
    def columns(self) -> int | None:
        """Numbers per example; None where the signature leaves it open."""
        if len(self.output.shape) == 1:
            return 1
        return None if -1 in self.output.shape[1:] else int(np.prod(self.output.shape[1:]))


def prediction_of(
    manifest: Manifest, signature: Signature, asked: str = "", trained_on: Sequence[str] = ()
) -> Prediction:
    """How a version says its prediction, in the output `asked` for where one is; the classes that it was `trained_on`
    name as many columns where its manifest names none. InvalidInput, naming the choices, where that cannot be told."""
    name = prediction_output(manifest, signature, asked)
    output = next(spec for spec in signature.outputs if spec.name == name)
    named = [spec for spec in signature.outputs if spec.name in _NAMES and spec.name != name]
    names = next((spec for spec in named if spec.dtype == "string" and len(spec.shape) == 2), None)
    found = Prediction(output, names, classes_of(manifest))
    if found.classes or found.columns is None or not 2 < found.columns == len(trained_on):
        return found
    return replace(found, classes=tuple(sorted_classes(trained_on)))


def prediction_output(manifest: Manifest, signature: Signature, asked: str = "") -> str:
    """Name of the output: the one `asked` for, the one named in the metadata, the only float one, the only number, the
    only one at all, or one with a plain name.

    Raises InvalidInput, naming the choices, where that does not settle it.
    """
    names = [spec.name for spec in signature.outputs]
    named = asked or manifest.metadata.get(METADATA)
    if named is not None:
        if named not in names:
            whose = "the policy" if asked else str(manifest.id)
            what = f"no output of {manifest.id}" if asked else "no output"
            raise InvalidInput(f"{METADATA} of {whose} is {named!r}, which is {what}: use one of {names}")
        return named
    floats = [spec for spec in signature.outputs if spec.dtype.startswith("float")]
    numbers = [spec for spec in signature.outputs if spec.dtype != "string"]
    for choice in (floats, numbers, signature.outputs):
        if len(choice) == 1:
            return choice[0].name
    likely = [name for name in _LIKELY if name in [spec.name for spec in floats or numbers or signature.outputs]]
    if likely:
        return likely[0]
    raise InvalidInput(
        f"{manifest.id} has outputs {names}: say which is the prediction, as `output` under [quality] of the policy, "
        f"or in metadata {METADATA!r} when it is published"
    )


def classes_of(manifest: Manifest) -> tuple[str, ...]:
    """The classes of the prediction's columns in order, as metadata `classes` names them; none where they do not.
    InvalidInput where one is named twice."""
    text = manifest.metadata.get(CLASSES, "")
    try:
        told = json.loads(text)
    except ValueError:
        told = [part.strip() for part in text.split(",") if part.strip()]
    names = tuple(class_text(name) for name in (told if isinstance(told, list) else [told]))
    if len(set(names)) != len(names):
        raise InvalidInput(f"metadata {CLASSES!r} of {manifest.id} names a class twice: {text}")
    return names


def sorted_classes(classes: Sequence[str]) -> list[str]:
    """By number where all are numbers, else by letter: what columns hold where nobody names them."""
    if all(name.lstrip("-").isdigit() for name in classes):
        return sorted(classes, key=int)
    return sorted(classes)


def as_scores(prediction: Prediction, task: str, classes: Sequence[str], outputs: Mapping[str, Array]) -> Floats:
    """Scores per example: shape [n], or [n, classes + 1] for `multiclass`, the last column for any other class.

    Predicted labels become 1 for their class and 0 for the others. `classes` are those of the task, of two the second
    being positive. InvalidInput for outputs that cannot be read so.
    """
    array = outputs[prediction.output.name]
    flat = array.reshape(len(array), -1) if array.ndim > 1 else array
    if task == Task.MULTICLASS:
        return _many(prediction, classes, flat, outputs)
    if task == Task.BINARY and (flat.dtype.kind == "O" or _are_classes(prediction, classes, flat)):
        return np.asarray(_decided(prediction, classes, flat.ravel()) == 1, dtype=np.float64)
    if flat.dtype.kind == "O":
        raise InvalidInput(f"output {prediction.output.name!r} holds text: the task {task} needs numbers")
    numbers = flat.astype(np.float64)
    if numbers.ndim == 1:
        return numbers
    if numbers.shape[1] == 1:
        return np.asarray(numbers[:, 0])
    if task == Task.BINARY:
        return _positive(prediction, classes, numbers, outputs)
    if task == Task.RANKING and numbers.shape[1] == 2:
        return np.asarray(numbers[:, 1])
    raise _shape(prediction, array, "one number a row")


def _are_classes(prediction: Prediction, classes: Sequence[str], flat: Array) -> bool:
    """Whether whole numbers, one a row, are places in the manifest's classes, or the labels themselves, as -1 and 1."""
    if flat.dtype.kind not in "iu" or flat.size != len(flat):
        return False
    return bool(prediction.classes) or {class_text(value) for value in np.unique(flat).tolist()} <= {*classes}


def _positive(prediction: Prediction, classes: Sequence[str], numbers: Floats, outputs: Mapping[str, Array]) -> Floats:
    """The column of the positive class: by name where columns have names, else the second of two."""
    if prediction.names is not None:
        return np.asarray(_scattered(prediction.names.name, classes, numbers, outputs[prediction.names.name])[:, 1])
    names = prediction.classes or (tuple(sorted_classes(classes)) if numbers.shape[1] == 2 else ())
    if len(names) == numbers.shape[1] and classes[1] in names:
        return np.asarray(numbers[:, names.index(classes[1])])
    raise _shape(
        prediction, numbers, f"a number a row, or metadata {CLASSES!r} that names {classes[1]!r} among as many"
    )


def _many(prediction: Prediction, classes: Sequence[str], flat: Array, outputs: Mapping[str, Array]) -> Floats:
    if flat.ndim == 1 or flat.shape[1] == 1:
        decided = _decided(prediction, classes, flat.ravel())
        return np.asarray(decided[:, None] == np.arange(len(classes) + 1), dtype=np.float64)
    numbers = flat.astype(np.float64)
    if prediction.names is not None:
        return _scattered(prediction.names.name, classes, numbers, outputs[prediction.names.name])
    names = prediction.classes or _guessed(classes, numbers.shape[1])
    if len(names) != numbers.shape[1]:
        raise _shape(
            prediction, numbers, f"metadata {CLASSES!r} with a name for each column ({len(classes)} are known)"
        )
    places = np.array([_place(classes, name) for name in names])
    return _placed(np.broadcast_to(places, numbers.shape), numbers, len(classes) + 1)


def _scattered(output: str, classes: Sequence[str], numbers: Floats, names: Array) -> Floats:
    """Scores to the columns of their classes, where each row names its own order."""
    if names.shape != numbers.shape:
        raise InvalidInput(f"output {output!r} has shape {list(names.shape)}, the scores {list(numbers.shape)}")
    known, codes = np.unique(np.array([class_text(name) for name in names.ravel()]), return_inverse=True)
    places = np.array([_place(classes, name) for name in known])[codes].reshape(names.shape)
    return _placed(places, numbers, len(classes) + 1)


def _placed(places: Array, numbers: Floats, columns: int) -> Floats:
    """The numbers in so many columns; where a row has none, it has nothing, or its least number where that is below."""
    rows = np.arange(len(numbers))[:, None]
    scores = np.repeat(np.minimum(numbers.min(axis=1, keepdims=True), 0.0), columns, axis=1)
    scores[rows, places] = 0.0
    np.add.at(scores, (rows, places), numbers)
    return scores


def _decided(prediction: Prediction, classes: Sequence[str], flat: Array) -> Array:
    """Places in the classes from predicted labels; whole numbers that are no label count the manifest's classes."""
    known, codes = np.unique(np.array([class_text(value) for value in flat.tolist()]), return_inverse=True)
    index = flat.dtype.kind in "iuf" and bool(prediction.classes) and not set(known) <= {*classes}
    names = [_indexed(prediction.classes, name) if index else str(name) for name in known]
    if not index and len(flat) > _FEW and not set(names) & {*classes}:
        raise UnreadableOutput(
            f"output {prediction.output.name!r} answers {', '.join(names[:4])}, but the classes are "
            f"{', '.join(classes[:6])}: name the classes in order in metadata {CLASSES!r}"
        )
    return np.asarray(np.array([_place(classes, name) for name in names])[codes])


def _indexed(classes: Sequence[str], name: str) -> str:
    return classes[int(name)] if name.isdigit() and int(name) < len(classes) else name


def _guessed(classes: Sequence[str], columns: int) -> tuple[str, ...]:
    """The classes in order where as many columns are there; 0, 1, ... where labels are such numbers."""
    if len(classes) == columns:
        return tuple(sorted_classes(classes))
    numbers = tuple(str(place) for place in range(columns))
    return numbers if set(classes) <= set(numbers) else ()


def _place(classes: Sequence[str], name: str) -> int:
    return classes.index(name) if name in classes else len(classes)


def _shape(prediction: Prediction, array: Array, wanted: str) -> UnreadableOutput:
    return UnreadableOutput(
        f"output {prediction.output.name!r} has shape {list(array.shape)}: the quality gate needs {wanted}"
    )
