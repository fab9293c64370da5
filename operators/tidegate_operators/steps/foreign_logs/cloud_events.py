"""KServe's inference logger: CloudEvents (JSON) with requests and answers of the V1 and V2 protocols.

Events may come in any order, in any of the files, and more than once; request and answer share the event's id.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tidegate_operators.steps.foreign_logs.requests import Request, Unread, with_answers
from tidegate_operators.steps.foreign_logs.rows import Row, rows_of_arrays, rows_of_json
from tidegate_serving.contract.errors import InvalidInput

_MOST_BYTES = 64 << 20
_MOST_WORDS = 160
_MARK = codecs.BOM_UTF8
_NEXT = re.compile(r"[\s,]*")
_REQUEST, _RESPONSE = ".inference.request", ".inference.response"


def is_cloud_events(path: Path) -> bool:
    """Whether a file of JSON, or of lines of it, begins with a CloudEvent."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        head = file.read(4096)
    return head.lstrip()[:1] in ("{", "[") and '"specversion"' in head


def read_cloud_events(paths: Iterable[Path]) -> Iterator[Request | Unread]:
    """Each request with its answer where there is one, and what can be read as neither."""
    requests: dict[str, tuple[str, str | None, list[Row]]] = {}
    answers: dict[str, list[Row]] = {}
    for where, event in (one for path in paths for one in _events(path)):
        if isinstance(event, Unread):
            yield event
            continue
        kind, name = str(event.get("type", "")), str(event.get("id", ""))
        try:
            if kind.endswith(_REQUEST) and name not in requests:
                requests[name] = (where, _time(event), _asked(_data(event)))
            elif kind.endswith(_RESPONSE) and name not in answers:
                answers[name] = _answered(_data(event))
        except InvalidInput as error:
            yield Unread(f"{where} ({kind} {name})", error.message)
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            yield Unread(f"{where} ({kind} {name})", _words(error))
    for name, (where, time, asked) in requests.items():
        yield Request(where, name, time, with_answers(asked, answers.get(name, [])))


def _events(path: Path) -> Iterator[tuple[str, dict[str, Any] | Unread]]:
    """Objects and where they stand: those of a list, else one a line."""
    with path.open("rb") as file:
        listed = file.read(4096).removeprefix(_MARK).lstrip().startswith(b"[")
        file.seek(0)
        for where, text in _list_parts(path, file.read()) if listed else _lines(path, file):
            yield where, text if isinstance(text, Unread) else _event(where, text)


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[str, bytes | Unread]]:
    number = 0
    while line := file.readline(_MOST_BYTES):
        number += 1
        where = f"{path.name}, line {number}"
        if len(line) == _MOST_BYTES and not line.endswith(b"\n"):
            while (rest := file.readline(_MOST_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield where, Unread(where, f"the line is longer than {_MOST_BYTES >> 20} MiB")
        elif line := line.removeprefix(_MARK).strip():
            yield where, line


def _list_parts(path: Path, data: bytes) -> Iterator[tuple[str, bytes | Unread]]:
    """The elements of a list in JSON, up to where it cannot be read on."""
    text = data.removeprefix(_MARK).decode("utf-8", errors="surrogateescape")
    reader, place, number = json.JSONDecoder(), text.index("[") + 1, 0
    while (found := _NEXT.match(text, place)) and found.end() < len(text):
        if text[found.end()] == "]":
            return
        try:
            _, place = reader.raw_decode(text, found.end())
        except (ValueError, RecursionError) as error:
            left = len(text) - found.end()
            rest = max(1, round(left * number / found.end())) if number else 1
            words = f"the list cannot be read on, {left:,} characters before its end: {_words(error)}"
            yield "", Unread(f"{path.name}, event {number + 1}", words, rest)
            return
        number += 1
        yield f"{path.name}, event {number}", text[found.end() : place].encode("utf-8", errors="surrogateescape")
    yield "", Unread(f"{path.name}, event {number + 1}", "the list breaks off")


def _event(where: str, text: bytes) -> dict[str, Any] | Unread:
    try:
        event = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return Unread(where, f"it is no JSON: {_words(error)}")
    if not isinstance(event, dict):
        return Unread(where, "it is no object: give CloudEvents in JSON")
    if not event.get("id"):
        return Unread(where, "it has no id, by which requests meet their answers")
    return event


def _time(event: Mapping[str, Any]) -> str | None:
    time = event.get("time")
    if time is not None:
        datetime.fromisoformat(time)
    return time


def _words(error: Exception) -> str:
    words = str(error) if not isinstance(error, KeyError) else f"it has no {error}"
    return words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]} ..."


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
