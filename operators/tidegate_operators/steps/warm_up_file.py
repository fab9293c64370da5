"""A TensorFlow Serving warm-up file of requests that the inference log holds: what was really asked warms a version up.

    capture_warm_up(log_root, Recording("flights", 3), path)  ->  a TFRecord file of PredictionLogs

Engines and TensorFlow Serving run `assets.extra/tf_serving_warmup_requests` of a version before it serves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import AlreadyExists, InvalidInput
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import FirstAxis, Signature
from tidegate_serving.contract.tensors import PARTS, Array, from_parts
from tidegate_serving.files import written_aside
from tidegate_serving.platforms.warm_up.recorded import MOST_RECORDS
from tidegate_serving.platforms.warm_up.records import read_records, write_records
from tidegate_serving.platforms.warm_up.runner import FILE
from tidegate_serving.tensor_proto import fill
from tidegate_validation.golden_requests import GoldenRequests, Recording, record_golden_requests


@dataclass(frozen=True, slots=True)
class WarmUpFile:
    """A written file, with its number of requests and of rows in them."""

    path: Path
    requests: int
    rows: int


def capture_warm_up(log_root: Path, recording: Recording, out: Path, *, like: Path | None = None) -> WarmUpFile:
    """Writes whole and answered requests of the log to `out`, or below it where that is a folder, to
    `assets.extra/tf_serving_warmup_requests`.

    recording: of which model, version and signature, how many at most (1000), or which ids. like: a published version
    whose manifest says what types inputs have, and whether a request is all of its tensors, without an axis for rows;
    None takes the log's types, which has float16 as float32, and rows. Strings that are not UTF-8 come as the log has
    them.

    NotFound where the log holds no such request, InvalidInput for more than 1000, for rows of one request that have
    different shapes, or for an id that is not there; AlreadyExists for a published version, which never changes.
    """
    if max(recording.requests, len(recording.ids)) > MOST_RECORDS:
        raise InvalidInput(f"a warm-up file holds at most {MOST_RECORDS} requests: ask for fewer")
    path = out / FILE if out.is_dir() else out
    _check_unpublished(out)
    signature = _signature(like, recording)
    with tempfile.TemporaryDirectory() as folder:
        golden = record_golden_requests(log_root, recording, Path(folder, "requests.parquet"))
    model, _, version = golden.servable.rpartition(":")
    records = [_record(model, int(version), golden, inputs) for inputs in _inputs(golden, signature)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as aside:
        write_records(aside, records)
    return WarmUpFile(path, len(records), golden.table.num_rows)


def check_warm_up(path: Path) -> int:
    """How many requests a warm-up file holds. InvalidInput for a damaged one, one with too many, or other messages."""
    from google.protobuf.message import DecodeError

    kind = message("tensorflow.serving.PredictionLog")
    number = 0
    for number, record in enumerate(read_records(path), start=1):
        try:
            kind.FromString(record)
        except DecodeError as error:
            raise InvalidInput(f"{path}, record {number} is no PredictionLog: {error}") from error
    if number > MOST_RECORDS:
        raise InvalidInput(f"{path} holds {number} requests, at most {MOST_RECORDS} are run: capture fewer")
    return number


def _check_unpublished(out: Path) -> None:
    if (out / FILE_NAME).is_file():
        raise AlreadyExists(
            f"{out} is published, and a version never changes: write to a file, and publish a new version with "
            "`--warm-up FILE`"
        )


def _signature(like: Path | None, recording: Recording) -> Signature | None:
    if like is None:
        return None
    manifest, _ = read_manifest(like)
    if recording.signature not in manifest.signatures:
        names = ", ".join(manifest.signatures)
        raise InvalidInput(f"{like} has no signature {recording.signature!r}: use one of {names}")
    return manifest.signatures[recording.signature]


def _inputs(golden: GoldenRequests, signature: Signature | None) -> Iterator[dict[str, Array]]:
    sent = golden.sent()
    whole = signature is not None and signature.first_axis is FirstAxis.FREE
    types = {} if signature is None else {spec.name: spec.dtype for spec in signature.inputs}
    for request, start, end in golden.requests():
        rows = sent.slice(start, end - start)
        arrays = {name: _array(rows[name], types.get(name), f"input {name!r} of {request!r}") for name in golden.inputs}
        yield {name: array[0] if whole else array for name, array in arrays.items()}


def _array(column: Any, dtype: str | None, what: str) -> Array:
    """Rows of the log as one array of this type, or of the type that the log has."""
    import pyarrow as pa

    if column.null_count:
        raise InvalidInput(f"{what} is missing in the log: leave that request out")
    kind = column.type
    while pa.types.is_nested(kind):
        kind = kind.value_type
    rows = column.to_pylist()
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
    try:
        if dtype in PARTS:
            return from_parts(rows, dtype)
        return np.array(rows, dtype=object if is_text else dtype or kind.to_pandas_dtype())
    except ValueError as error:
        raise InvalidInput(f"{what} has rows of different shapes: leave that request out") from error


def _record(model: str, version: int, golden: GoldenRequests, inputs: dict[str, Array]) -> bytes:
    log = message("tensorflow.serving.PredictionLog")()
    request = log.predict_log.request
    request.model_spec.name = model
    request.model_spec.version.value = version
    request.model_spec.signature_name = golden.signature
    for name, array in inputs.items():
        fill(request.inputs[name], array)
    return bytes(log.SerializeToString(deterministic=True))
