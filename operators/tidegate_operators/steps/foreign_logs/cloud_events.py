"""KServe's inference logger: CloudEvents (JSON) with requests and answers of the V1 and V2 protocols.

Events may come in any order and more than once; request and answer share the event's id.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_operators.steps.foreign_logs.rows import Row, rows_of_arrays, rows_of_json
from tidegate_serving.contract.errors import InvalidInput

_REQUEST, _RESPONSE = ".inference.request", ".inference.response"


def is_cloud_events(path: Path) -> bool:
    """Whether a file of JSON, or of lines of it, begins with a CloudEvent."""
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(4096)
    return head.lstrip()[:1] in ("{", "[") and '"specversion"' in head


def read_cloud_events(path: Path) -> Iterator[Row]:
    """A row for each example that was asked, with its answer where there is one.

    InvalidInput, naming the event, for one that is no JSON or holds no request or answer of KServe.
    """
    requests: dict[str, tuple[str | None, list[Row]]] = {}
    answers: dict[str, list[Row]] = {}
    for number, event in enumerate(_events(path), start=1):
        kind, name = str(event.get("type", "")), str(event.get("id", ""))
        try:
            if kind.endswith(_REQUEST) and name not in requests:
                requests[name] = (event.get("time"), _asked(_data(event)))
            elif kind.endswith(_RESPONSE) and name not in answers:
                answers[name] = _answered(_data(event))
        except (InvalidInput, ValueError, TypeError, KeyError, RecursionError, binascii.Error) as error:
            words = error.message if isinstance(error, InvalidInput) else str(error)
            raise InvalidInput(f"{path}, event {number} ({kind} {name}) cannot be read: {words}") from error
    for name, (time, asked) in requests.items():
        given = answers.get(name, [])
        for place, row in enumerate(asked):
            answer = given[place] if place < len(given) else {}
            told = {(f"out.{column}" if column in row else column): value for column, value in answer.items()}
            yield {"request_id": name, "time": time, **row, **told}


def _events(path: Path) -> Iterator[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text) if text.lstrip().startswith("[") else [json.loads(one) for one in _lines(text)]
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not JSON, or lines of it: {error}") from error
    for number, event in enumerate(found, start=1):
        if not isinstance(event, dict):
            raise InvalidInput(f"{path}, event {number} is no object: give CloudEvents in JSON")
        yield event


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _data(event: Mapping[str, Any]) -> dict[str, Any]:
    data = event.get("data")
    if data is None and "data_base64" in event:
        data = base64.b64decode(event["data_base64"], validate=True).decode()
    found = json.loads(data) if isinstance(data, str) else data
    if not isinstance(found, dict):
        raise InvalidInput("it holds no JSON object")
    return found


def _asked(data: dict[str, Any]) -> list[Row]:
    if isinstance(data.get("instances"), list):
        return rows_of_json(data["instances"], "instance")
    return _tensors(data.get("inputs"), "instances or inputs")


def _answered(data: dict[str, Any]) -> list[Row]:
    if isinstance(data.get("predictions"), list):
        return rows_of_json(data["predictions"], "prediction")
    return _tensors(data["outputs"], "predictions or outputs") if "outputs" in data else []


def _tensors(tensors: Any, wanted: str) -> list[Row]:
    if isinstance(tensors, dict):
        return rows_of_arrays({name: np.asarray(values) for name, values in tensors.items()})
    if not isinstance(tensors, list):
        raise InvalidInput(f"it has no {wanted}")
    return rows_of_arrays({one["name"]: np.asarray(one["data"]).reshape(one["shape"]) for one in tensors})
