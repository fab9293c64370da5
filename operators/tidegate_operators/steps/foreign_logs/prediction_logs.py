"""TensorFlow Serving's request log: PredictionLogs in TFRecord files, of Predict, Classify and Regress."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from tidegate_operators.steps.foreign_logs.requests import Request, Unread, with_answers
from tidegate_operators.steps.foreign_logs.rows import Row, rows_of_arrays
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.messages import message
from tidegate_serving.platforms.warm_up.records import Damaged, read_whole_records
from tidegate_serving.tensor_proto import to_array

_NAME = re.compile(r"\.tfrecords?(-\d+-of-\d+)?$", re.IGNORECASE)


def is_prediction_logs(path: Path) -> bool:
    """Whether it is a TFRecord file by its name."""
    return bool(_NAME.search(path.name))


def read_prediction_logs(paths: Iterable[Path]) -> Iterator[Request | Unread]:
    """Each request with its answer, and records that are damaged or no PredictionLogs."""
    for path in paths:
        yield from _records(path)


def _records(path: Path) -> Iterator[Request | Unread]:
    kind = message("tensorflow.serving.PredictionLog")
    for number, record in enumerate(read_whole_records(path), start=1):
        where = f"{path.name}, record {number}"
        if isinstance(record, Damaged):
            yield Unread(where, record.words, record.records)
            continue
        try:
            log = kind.FromString(record)
            yield Request(where, f"{path.name}:{number}", _time(log), _rows(log))
        except TidegateError as error:
            yield Unread(where, error.message)
        except (DecodeError, ValueError, OverflowError, MemoryError) as error:
            yield Unread(where, f"it is no PredictionLog: {error}")


def _time(log: Any) -> str | None:
    fields = log.log_metadata.DESCRIPTOR.fields_by_name
    seconds = int(log.log_metadata.timestamp_secs) if "timestamp_secs" in fields else 0
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None


def _rows(log: Any) -> list[Row]:
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        asked = rows_of_arrays({name: to_array(one) for name, one in log.predict_log.request.inputs.items()})
        given = rows_of_arrays({name: to_array(one) for name, one in log.predict_log.response.outputs.items()})
    elif kind == "classify_log":
        asked = _examples(log.classify_log.request.input)
        given = [
            {f"score.{one.label}": one.score for one in found.classes}
            for found in log.classify_log.response.result.classifications
        ]
    elif kind == "regress_log":
        asked = _examples(log.regress_log.request.input)
        given = [{"value": one.value} for one in log.regress_log.response.result.regressions]
    else:
        return []
    return with_answers(asked, given)


def _examples(sent: Any) -> list[Row]:
    if sent.WhichOneof("kind") == "example_list_with_context":
        context = _features(sent.example_list_with_context.context)
        return [{**context, **_features(one)} for one in sent.example_list_with_context.examples]
    return [_features(one) for one in sent.example_list.examples]


def _features(example: Any) -> Row:
    found: Row = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        texts = [value.decode(errors="backslashreplace") if isinstance(value, bytes) else value for value in values]
        if len(texts) <= 1:
            found[name] = texts[0] if texts else None
        else:
            found |= {f"{name}.{place}": value for place, value in enumerate(texts)}
    return found
