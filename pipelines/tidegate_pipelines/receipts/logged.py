"""What the inference log holds of one request: which version answered what, to which inputs, and where that stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegate_serving.contract import log_record
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.inference_log.reader import places_of

_LONGEST_ID = 256
_MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """One answer to one request. `inputs` and `outputs` are columns with one value a row; `status` is gRPC's code, 0
    for an answer that went well. `files` names the log's files with the rows in each.

    `role` is `shadow` where nobody but the log got the answer. `trace_id` is the W3C trace that the request belonged
    to, None where it belonged to none.
    """

    request_id: str
    trace_id: str | None
    model: str
    version: int
    role: str
    status: int
    signature: str
    received_at: datetime
    latency_us: int
    rows: int
    inputs: Mapping[str, Sequence[Any]]
    outputs: Mapping[str, Sequence[Any]]
    files: Mapping[str, Sequence[int]]


def check_request_id(text: str) -> str:
    """The same. InvalidInput for what no request can be called, as engines take ids over."""
    if not text or len(text) > _LONGEST_ID or not text.isascii() or not text.isprintable():
        raise InvalidInput(
            f"request id {text[:60]!r} is none: give what the answer carried as x-request-id, at most {_LONGEST_ID} "
            "visible ASCII characters"
        )
    return text


def find_answers(log_root: Path, request_id: str, model: str | None = None) -> list[LoggedAnswer]:
    """All answers under the id, the newest first; several where a client used it again, or a shadow answered too.

    InvalidInput for an id that cannot be one; NotFound where the log has no row of it, with the reasons there may be.
    """
    check_request_id(request_id)
    places = places_of(log_root, request_id, model, _MOST_ROWS)
    if not places:
        raise NotFound(nothing_logged(request_id, str(log_root), model))
    rows = [row for path, numbers in places.items() for row in _read(path, numbers, log_root)]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("model", "version", log_record.ROLE, log_record.RECEIVED_AT))
        groups.setdefault(key, []).append(row)
    found = [_answer(group) for group in groups.values()]
    return sorted(found, key=lambda one: (one.received_at, one.role), reverse=True)


def nothing_logged(request_id: str, where: str, model: str | None = None) -> str:
    """Why the log may know nothing of a request."""
    what = f" of model {model!r}" if model else ""
    return (
        f"the log {where} has no row of request {request_id!r}{what}: it was left out by log_sampling_rate, is not "
        "written yet (a block closes after some seconds), was removed with its day or erased, or was never asked"
    )


def _read(path: Path, numbers: Sequence[int], log_root: Path) -> list[dict[str, Any]]:
    """Rows of a file as they are, with model and version, which its folders say, and where they stand."""
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read().take(list(numbers))
        rules = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        hashed = [name for name in table.column_names if rules.get(log_record.RULE_KEY + name) == log_record.HASH]
        table = table.drop_columns(hashed)
    except FileNotFoundError as error:
        raise NotFound(f"{path} was removed from the log just now: ask again") from error
    folders = dict(part.split("=", 1) for part in path.relative_to(log_root).parts if "=" in part)
    known = {"model": folders["model"], "version": int(folders["version"])}
    rows: list[dict[str, Any]] = table.to_pylist()
    return [{**row, **known, "file": str(path), "number": number} for row, number in zip(rows, numbers, strict=True)]


def _answer(rows: list[dict[str, Any]]) -> LoggedAnswer:
    rows = sorted(rows, key=lambda one: one[log_record.ROW])
    first = rows[0]
    files: dict[str, list[int]] = {}
    for row in rows:
        files.setdefault(row["file"], []).append(row["number"])
    return LoggedAnswer(
        request_id=first[log_record.REQUEST_ID],
        trace_id=first[log_record.TRACE_ID],
        model=first["model"],
        version=first["version"],
        role=first[log_record.ROLE],
        status=max(row[log_record.STATUS] for row in rows),
        signature=first[log_record.SIGNATURE],
        received_at=first[log_record.RECEIVED_AT],
        latency_us=first[log_record.LATENCY_US],
        rows=len(rows),
        inputs=_columns(rows, log_record.INPUT_PREFIX),
        outputs=_columns(rows, log_record.OUTPUT_PREFIX),
        files=files,
    )


def _columns(rows: list[dict[str, Any]], prefix: str) -> dict[str, list[Any]]:
    """Columns by name; those of another signature of the version are null in the log, and left out."""
    names = [name for name in rows[0] if name.startswith(prefix)]
    columns = {name.removeprefix(prefix): [row.get(name) for row in rows] for name in names}
    return {name: values for name, values in columns.items() if any(value is not None for value in values)}
