"""Labels that arrive late: what was right for a request that a model answered some time ago.

All are kept as they came. Of several for one request the one with the newest time counts, then the last to arrive.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from tidegate_pipelines.hub.store import Database, LabelRow
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.contract.servable import check_name

_MOST_ID = 200
_SHOWN = 100
_AT_ONCE = 5000
FindLog = Callable[[str], Path | None]
"""The inference log of a model, where this machine can read it."""


@dataclass(frozen=True, slots=True)
class Label:
    """One line: the request that it is for, the label as JSON, and when it was found (None for when it arrives)."""

    request_id: str
    label: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Received:
    """What became of a file. `again` are those that were there already, the same; `unknown` those whose request is not
    in the inference log (they are kept: the log may have left it out, or come later), None where there was no log to
    look in; `unknown_ids` the first hundred of these."""

    labels: int
    again: int
    unknown: int | None
    unknown_ids: tuple[str, ...]
    sentence: str


def read_labels(data: bytes) -> list[Label]:
    """Labels from JSON lines, `{"request_id": ..., "label": ..., "at": ...}`. InvalidInput naming the line; then none
    of them counts."""
    labels = [_label(line, number) for number, line in enumerate(data.splitlines(), start=1) if line.strip()]
    if not labels:
        raise InvalidInput('there is no label in it: send lines such as {"request_id": "a1", "label": 1}')
    return labels


def keep(database: Database, find_log: FindLog, model: str, labels: Sequence[Label], who: str) -> Received:
    """Keeps labels of a model, all or none, and says of which nobody knows the request."""
    check_name(model)
    known = _known(find_log, model, {label.request_id for label in labels})
    with database.writing() as session:
        now = database.now(session)
        there = _there(database, model, labels)
        again = 0
        for label in labels:
            at = label.at or now
            mark = (label.request_id, label.label, at if label.at else None)
            again += mark in there
            there.add(mark)
            session.add(
                LabelRow(
                    model=model,
                    request_id=label.request_id,
                    label=label.label,
                    labelled_at=at,
                    received_at=now,
                    who=who,
                    known=None if known is None else label.request_id in known,
                )
            )
    unknown = None if known is None else sorted({label.request_id for label in labels} - set(known))
    return Received(
        len(labels),
        again,
        None if unknown is None else len(unknown),
        tuple((unknown or ())[:_SHOWN]),
        _said(labels, unknown),
    )


def newest_labels(database: Database, model: str) -> Iterator[tuple[str, Any]]:
    """Request id and label, each request once, with the label that counts."""
    after = ""
    while True:
        ids = select(LabelRow.request_id).where(LabelRow.model == model, LabelRow.request_id > after).distinct()
        with database.reading() as session:
            page = session.scalars(ids.order_by(LabelRow.request_id).limit(_AT_ONCE)).all()
            if not page:
                return
            mine = LabelRow.model == model, LabelRow.request_id > after, LabelRow.request_id <= page[-1]
            rows = session.scalars(select(LabelRow).where(*mine).order_by(LabelRow.labelled_at, LabelRow.id)).all()
        newest = {row.request_id: row.label for row in rows}
        yield from ((request_id, json.loads(newest[request_id])) for request_id in page)
        after = page[-1]


def _label(line: bytes, number: int) -> Label:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"line {number} is not JSON ({error}): send one object in each line") from error
    if not isinstance(found, dict) or "label" not in found:
        raise InvalidInput(f'line {number} has no label: send lines such as {{"request_id": "a1", "label": 1}}')
    if unknown := sorted(found.keys() - {"request_id", "label", "at"}):
        raise InvalidInput(f"line {number} has an unknown key {unknown[0][:100]!r}: use request_id, label and at")
    request_id = found.get("request_id")
    if not isinstance(request_id, str) or not 0 < len(request_id) <= _MOST_ID or not request_id.isprintable():
        raise InvalidInput(
            f"line {number} has request_id {str(request_id)[:100]!r}: use 1 to {_MOST_ID} printable characters"
        )
    at = times.from_text(found["at"], f"at of line {number}") if found.get("at") is not None else None
    return Label(request_id, json.dumps(found["label"]), at)


def _there(database: Database, model: str, labels: Sequence[Label]) -> set[tuple[str, str, datetime | None]]:
    """What is kept already of these requests, with and without its time."""
    ids = sorted({label.request_id for label in labels})
    found: set[tuple[str, str, datetime | None]] = set()
    for begin in range(0, len(ids), _AT_ONCE):
        mine = LabelRow.model == model, LabelRow.request_id.in_(ids[begin : begin + _AT_ONCE])
        with database.reading() as session:
            for row in session.scalars(select(LabelRow).where(*mine)):
                found |= {(row.request_id, row.label, row.labelled_at), (row.request_id, row.label, None)}
    return found


def _known(find_log: FindLog, model: str, ids: Collection[str]) -> set[str] | None:
    """Which of these requests the inference log has; None where there is no log that can be read."""
    from tidegate_serving.inference_log.reader import connect, read_again, scan

    try:
        root = find_log(model)
        if root is None or not root.is_dir():
            return None
        query = f"SELECT DISTINCT request_id FROM {scan(root, model)} WHERE request_id IN (SELECT unnest(?))"
        with connect(root) as connection:
            found = read_again(lambda: connection.execute(query, [list(ids)]).fetchall())
    except NotFound:
        return set()
    except TidegateError:
        return None
    return {str(row[0]) for row in found}


def _said(labels: Sequence[Label], unknown: Sequence[str] | None) -> str:
    kept = f"{len(labels)} labels are kept"
    if unknown is None:
        return f"{kept}; there is no inference log here to look their requests up in"
    if not unknown:
        return f"{kept}; the inference log has all their requests"
    return (
        f"{kept}; of {len(unknown)} requests the inference log has nothing: check these ids, or whether the log "
        "samples (they count once it has them)"
    )
