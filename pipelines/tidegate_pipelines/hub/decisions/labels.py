"""Labels that arrive late: what was right for a request that a model answered some time ago.

All are kept as they came. Of several for one request the one with the newest time counts, then the last to arrive.

A file is written in batches, each a short transaction of its own, so that nobody waits for a large one. Its labels
stand under the number of their upload, and count all at once when a last small transaction says that it has arrived.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, insert, or_, select, update

from tidegate_pipelines.hub.store import Database, LabelRow, LabelUploadRow
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import Conflict, InvalidInput, NotFound, TidegateError
from tidegate_serving.contract.servable import check_name
from tidegate_validation.counts import counted

_MOST_ID = 200
_SHOWN = 100
_AT_ONCE = 5000
_PATIENCE = timedelta(minutes=10)
_ARRIVING, _COUNTS, _GIVEN_UP, _REMOVED = "arriving", "counts", "given-up", "removed"
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


class Labels:
    """A file of labels that was read through once. It is parsed anew, line by line, each time it is gone through."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.request_ids: set[str] = set()
        self.count = 0
        for label in self:
            self.request_ids.add(label.request_id)
            self.count += 1

    def __iter__(self) -> Iterator[Label]:
        for number, line in enumerate(io.BytesIO(self._data), start=1):
            if line.strip():
                yield _label(line, number)


def read_labels(data: bytes) -> Labels:
    """Labels from JSON lines, `{"request_id": ..., "label": ..., "at": ...}`. InvalidInput naming the line; then none
    of them counts."""
    labels = Labels(data)
    if not labels.count:
        raise InvalidInput('there is no label in it: send lines such as {"request_id": "a1", "label": 1}')
    return labels


def keep(database: Database, find_log: FindLog, model: str, labels: Labels, who: str) -> Received:
    """Keeps labels of a model, all or none, and says of which nobody knows the request. Conflict where the upload stood
    still so long that it was given up."""
    check_name(model)
    _remove_given_up(database)
    known = _known(find_log, model, labels.request_ids)
    with database.writing() as session:
        now = database.now(session)
        upload = LabelUploadRow(model=model, who=who, state=_ARRIVING, seen_at=now)
        session.add(upload)
    again = 0
    for batch in _batches(labels):
        again += _again(database, upload, batch)
        rows = [
            {
                "model": model,
                "request_id": label.request_id,
                "label": label.label,
                "labelled_at": label.at or now,
                "received_at": now,
                "who": who,
                "known": None if known is None else label.request_id in known,
                "upload": upload.id,
            }
            for label in batch
        ]
        _write(database, upload, _ARRIVING, rows)
    _write(database, upload, _COUNTS)
    unknown = None if known is None else sorted(labels.request_ids - known)
    return Received(
        labels.count,
        again,
        None if unknown is None else len(unknown),
        tuple((unknown or ())[:_SHOWN]),
        _said(labels.count, unknown),
    )


def newest_labels(database: Database, model: str) -> Iterator[tuple[str, Any]]:
    """Request id and label, each request once, with the label that counts."""
    after = ""
    while True:
        more = LabelRow.model == model, LabelRow.request_id > after, _counts()
        ids = select(LabelRow.request_id).where(*more).distinct()
        with database.reading() as session:
            page = session.scalars(ids.order_by(LabelRow.request_id).limit(_AT_ONCE)).all()
            if not page:
                return
            these = select(LabelRow).where(*more, LabelRow.request_id <= page[-1])
            rows = session.scalars(these.order_by(LabelRow.labelled_at, LabelRow.id)).all()
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


def _batches(labels: Iterable[Label]) -> Iterator[list[Label]]:
    rest = iter(labels)
    while batch := list(islice(rest, _AT_ONCE)):
        yield batch


def _write(database: Database, upload: LabelUploadRow, state: str, rows: Sequence[dict[str, Any]] = ()) -> None:
    """Adds rows to an upload that is arriving, and has it in `state`."""
    mine = LabelUploadRow.id == upload.id, LabelUploadRow.state == _ARRIVING
    with database.writing() as session:
        now = database.now(session)
        vouched = update(LabelUploadRow).where(*mine).values(state=state, seen_at=now).returning(LabelUploadRow.id)
        if session.scalar(vouched) is None:
            raise Conflict(
                f"the upload of labels of {upload.model} stood still for over {_PATIENCE} and was given up; none of it "
                "counts: send it again"
            )
        if rows:
            session.execute(insert(LabelRow), rows)


def _counts() -> ColumnElement[bool]:
    """Whether the label's upload has arrived."""
    return ~exists().where(LabelUploadRow.id == LabelRow.upload, LabelUploadRow.state != _COUNTS)


def _again(database: Database, upload: LabelUploadRow, batch: Sequence[Label]) -> int:
    """How many of a batch are there already, with the same time, or at whatever time if they name none."""
    there: set[tuple[str, str, datetime | None]] = set()
    ids = sorted({label.request_id for label in batch})
    kept = LabelRow.request_id, LabelRow.label, LabelRow.labelled_at
    mine = LabelRow.model == upload.model, LabelRow.request_id.in_(ids), or_(_counts(), LabelRow.upload == upload.id)
    with database.reading() as session:
        for request_id, label, at in session.execute(select(*kept).where(*mine).distinct()):
            there |= {(request_id, label, at), (request_id, label, None)}
    again = 0
    for one in batch:
        again += (one.request_id, one.label, one.at) in there
        there |= {(one.request_id, one.label, one.at), (one.request_id, one.label, None)}
    return again


def _remove_given_up(database: Database) -> None:
    """Gives up what has stood still, such as the uploads of a hub that was killed, and removes their labels."""
    with database.writing() as session:
        still = LabelUploadRow.state == _ARRIVING, LabelUploadRow.seen_at < database.now(session) - _PATIENCE
        session.execute(update(LabelUploadRow).where(*still).values(state=_GIVEN_UP))
    with database.reading() as session:
        given_up = session.scalars(select(LabelUploadRow.id).where(LabelUploadRow.state == _GIVEN_UP)).all()
    for upload in given_up:
        some = select(LabelRow.id).where(LabelRow.upload == upload).limit(_AT_ONCE)
        left = True
        while left:
            with database.writing() as session:
                gone = delete(LabelRow).where(LabelRow.id.in_(some)).returning(LabelRow.id)
                left = bool(session.scalars(gone).all())
        with database.writing() as session:
            session.execute(update(LabelUploadRow).where(LabelUploadRow.id == upload).values(state=_REMOVED))


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


def _said(count: int, unknown: Sequence[str] | None) -> str:
    kept = counted(count, "label is kept", "labels are kept")
    if unknown is None:
        return f"{kept}; there is no inference log here to look their requests up in"
    if not unknown:
        return f"{kept}; the inference log has {'its request' if count == 1 else 'all their requests'}"
    which = counted(len(unknown), "request")
    return (
        f"{kept}; of {which} the inference log has nothing: check these ids, or whether the log samples (they count "
        "once it has them)"
    )
