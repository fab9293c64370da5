"""Reads signatures off a model's files, as its platform can tell them; scikit-learn's dtypes from the training data.

`publish` asks it where nobody wrote a signature; it also finds the metadata that outputs need, and an example row where
the model brings one along.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import DTYPES, SERVING_DEFAULT, Signature, TensorSpec, default_name
from tidegate_serving.contract.tensors import Array

if TYPE_CHECKING:
    import pyarrow as pa

PICKLES = (".pkl", ".pickle", ".joblib")
_ROWS = 1000
_NOT_NAMED = ServableId("model", 0)
_BOOSTED = ("lightgbm", "xgboost")
_ARROW_NAMES = {
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "large_string": "string",
    "string_view": "string",
}


@dataclass(frozen=True, slots=True)
class InferredSignatures:
    """Signatures by name, the metadata that tells the platform how outputs come about, and an example row or none."""

    signatures: Mapping[str, Signature]
    metadata: Mapping[str, str] = field(default_factory=dict)
    example: Mapping[str, Any] = field(default_factory=dict)


def infer_signature(
    files: Sequence[Path],
    platform: str,
    training: pa.Table | None,
    label: str | None,
    event_time: str | None,
    *,
    allow_pickle: bool = False,
    id: ServableId = _NOT_NAMED,
) -> InferredSignatures:
    """The signatures of the model in `files` (files, or directories that hold it), as its platform reads them off it.
    What it raises names `id`, as which the model is to be published.

    sklearn with `training`: the columns that the estimator demands, where it was fitted on named ones; the one column
    of text, where it takes texts alone; the one column of lists, where `training` has a matrix's rows as such; else all
    of `training` but label and event time, with `training`'s dtypes; the output is `probability` for a binary
    classifier, `predict_proba` for any other, `predict` for a regressor; so too a scikit-learn model of MLflow's that
    brings no signature of its own and was fitted on named columns. Columns of text that miss values in `training` and
    have no empty ones go into metadata `sklearn.missing`. xgboost and
    lightgbm with `training`: columns that are bool there are bool. `event_time` becomes an
    int64 input of the default signature. With `allow_pickle` a scikit-learn model that is a pickle is loaded in this
    process, which runs whatever code it holds. Unsupported for platforms that cannot tell, InvalidInput where something
    cannot be told.
    """
    estimator = None if training is None else _estimator_that_lacks_dtypes(files, platform, allow_pickle, id)
    if training is not None and estimator is not None:
        return _with_event_time(_from_sklearn(estimator, training, label, event_time), event_time)
    found = _discovered(files, platform, allow_pickle, id)
    if platform in _BOOSTED and training is not None:
        found = replace(found, signatures={name: _as_trained(one, training) for name, one in found.signatures.items()})
    return _with_event_time(found, event_time)


def _estimator_that_lacks_dtypes(files: Sequence[Path], platform: str, allow_pickle: bool, id: ServableId) -> Any:
    """The scikit-learn model in the files; None where they tell themselves what it takes, or hold another model."""
    from tidegate_serving.platforms.mlflow.mlmodel import read_mlmodel
    from tidegate_serving.platforms.sklearn.estimators import Estimator

    if platform == "sklearn":
        suffixes = (".skops", *PICKLES) if allow_pickle else (".skops",)
        return _read_estimator(_only(files, suffixes), allow_pickle)
    if platform != "mlflow":
        return None
    model = read_mlmodel(*_unpublished(files, platform, id))
    if model.has_signature or "sklearn" not in model.flavours:
        return None
    estimator = _read_estimator(_only(files, (".skops",)), allow_pickle=False)
    return None if Estimator(estimator).columns is None else estimator


def _only(files: Sequence[Path], suffixes: tuple[str, ...]) -> Path:
    candidates = [path for file in files for path in ([file] if file.is_file() else sorted(file.rglob("*")))]
    found = [path for path in candidates if path.suffix in suffixes]
    if len(found) == 1:
        return found[0]
    if not found and (pickles := [path for path in candidates if path.suffix in PICKLES]):
        raise InvalidInput(
            f"{pickles[0]} is a pickle, which can run any code, so no signature is read off it: set allow_pickle "
            "(--allow-pickle) if it is your own, save the model with skops, or write a signature as JSON"
        )
    names = ", ".join(str(file) for file in files)
    raise InvalidInput(f"{names} holds {len(found)} files ending in {' or '.join(suffixes)}: write a signature as JSON")


def _as_trained(signature: Signature, training: pa.Table) -> Signature:
    """Columns that are true or false in the training data are so for clients; boosted trees know them as numbers."""
    told = [
        name
        for name, column in zip(training.column_names, training.columns, strict=True)
        if str(column.type) == "bool" and not column.null_count
    ]
    inputs = (replace(spec, dtype="bool") if spec.name in told else spec for spec in signature.inputs)
    return replace(signature, inputs=tuple(inputs))


def _with_event_time(inferred: InferredSignatures, event_time: str | None) -> InferredSignatures:
    name = default_name(inferred.signatures)
    signature = inferred.signatures[name]
    if event_time is None or event_time in signature.input_names:
        return inferred
    timed = replace(signature, inputs=(*signature.inputs, TensorSpec(event_time, "int64")))
    return replace(inferred, signatures={**inferred.signatures, name: timed})


def _discovered(files: Sequence[Path], platform: str, allow_pickle: bool, id: ServableId) -> InferredSignatures:
    """What the platform reads off the files, which lie as they would in the version's directory."""
    from tidegate_serving.platforms.platform import PlatformOptions
    from tidegate_serving.platforms.registry import installed_platforms

    root, bare = _unpublished(files, platform, id)
    found = installed_platforms(PlatformOptions(allow_pickle)).discover(root, bare).complete(bare)
    return InferredSignatures(found.signatures, found.metadata, found.example)


def _unpublished(files: Sequence[Path], platform: str, id: ServableId) -> tuple[Path, Manifest]:
    """The files' folder, and a manifest that has nothing but them."""
    from tidegate_serving.platforms.unpublished import file_entries

    root = files[0] if len(files) == 1 and files[0].is_dir() else Path(os.path.commonpath([f.parent for f in files]))
    entries = tuple(entry for file in files for entry in file_entries(file, root))
    return root, Manifest(id, platform, {}, entries, "")


def _read_estimator(path: Path, allow_pickle: bool) -> Any:
    from tidegate_serving.platforms.sklearn.files import read_estimator

    return read_estimator(path, allow_pickle=allow_pickle)


def _from_sklearn(estimator: Any, training: pa.Table, label: str | None, event_time: str | None) -> InferredSignatures:
    from tidegate_serving.platforms.sklearn.estimators import MISSING, Estimator, estimator_output

    asked = Estimator(estimator)
    all_else = [name for name in training.column_names if name not in (label, event_time)]
    if asked.columns is not None:
        names = asked.columns
    else:
        names = _text(training, all_else) if asked.is_text else _matrix(training, all_else)
    missing = [name for name in names if name not in training.column_names]
    if missing:
        raise InvalidInput(f"the model was fitted on {', '.join(missing)}, which the training data lacks")
    inputs = tuple(_input(name, training[name]) for name in names)
    output, metadata = estimator_output(estimator, _one_row(training, inputs))
    texts = [spec.name for spec in inputs if spec.dtype == "string" and spec.shape == (-1,)]
    if missing := [name for name in texts if _lacks_texts(training[name])]:
        metadata = {**metadata, MISSING: json.dumps(missing)}
    return InferredSignatures({SERVING_DEFAULT: Signature(inputs, (output,))}, metadata)


def _matrix(training: pa.Table, names: list[str]) -> list[str]:
    """The columns of a matrix: one that holds its rows as lists, whatever else there is, or all of them in order."""
    lists = [name for name in names if _is_list(training.schema.field(name).type)]
    return lists if len(lists) == 1 else names


def _input(name: str, column: pa.ChunkedArray) -> TensorSpec:
    """Of a column of lists an input of as many values as the first one has."""
    import pyarrow.compute as pc

    if not _is_list(column.type):
        return TensorSpec(name, _arrow_dtype(name, column.type))
    sizes = pc.list_value_length(column).drop_null()
    return TensorSpec(name, _arrow_dtype(name, column.type.value_type), (-1, sizes[0].as_py() if len(sizes) else 0))


def _is_list(type: pa.DataType) -> bool:
    import pyarrow as pa

    return any(is_one(type) for is_one in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _lacks_texts(column: pa.ChunkedArray) -> bool:
    """Whether an empty text can stand for one that is missing, which no protocol has: some are, and none is empty."""
    import pyarrow.compute as pc

    return bool(column.null_count) and not pc.any(pc.equal(pc.cast(column, "string"), "")).as_py()


def _text(training: pa.Table, names: Sequence[str]) -> list[str]:
    """The column that a model of texts reads; it can read no other."""
    found = [name for name in names if _served_as(training.schema.field(name).type) == "string"]
    if len(found) != 1:
        which = f"several ({', '.join(found)})" if found else f"none (it has {', '.join(names)})"
        raise InvalidInput(
            f"the model takes one text, and of the training data's columns that are text there are {which}: leave out "
            "what it does not read, or write a signature"
        )
    return found


def _one_row(training: pa.Table, inputs: Sequence[TensorSpec]) -> dict[str, Array]:
    """The first row that misses no value, else the first one."""
    from tidegate_serving.platforms.example import one_row

    rows = training.select([spec.name for spec in inputs]).slice(0, _ROWS).to_pylist()
    if not rows:
        raise InvalidInput("the training data has no rows: a signature cannot be read off nothing")
    complete = (row for row in rows if all(value is not None and value == value for value in row.values()))  # not NaN
    row = next(complete, rows[0])
    return {spec.name: one_row(spec, row[spec.name]) for spec in inputs}


def _arrow_dtype(name: str, type: pa.DataType) -> str:
    dtype = _served_as(type)
    if dtype not in DTYPES:
        raise InvalidInput(
            f"training column {name!r} is {dtype}, which cannot be served: cast it, or write a signature"
        )
    return dtype


def _served_as(type: pa.DataType) -> str:
    """The dtype as signatures have it, or what Arrow calls a type that none has."""
    import pyarrow as pa

    text = str(type.value_type if pa.types.is_dictionary(type) else type)
    return _ARROW_NAMES.get(text, text)
