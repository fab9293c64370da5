"""Labels that arrive late: all of a file or none, the newest counts, and nobody waits for a large one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select, update
from tests.support.hub.access import decisions_client

from tidegate_pipelines.hub.decisions.labels import Label, Labels, keep, newest_labels, read_labels
from tidegate_pipelines.hub.store import Database, LabelRow
from tidegate_serving.contract.errors import Conflict, InvalidInput, Unavailable
from tidegate_serving.contract.log_record import FORMAT


def logged(root: Path, model: str, *ids: str) -> Path:
    folder = root / f"model={model}" / "version=1" / "date=2026-05-01"
    folder.mkdir(parents=True)
    table = pa.table({"request_id": list(ids)}).replace_schema_metadata({"format": FORMAT})
    pq.write_table(table, folder / "block.parquet")
    return root


def lines(*labels: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(label).encode() + b"\n" for label in labels)


def test_labels_are_kept_and_unknown_ids_are_named(database: Database, tmp_path: Path) -> None:
    log = logged(tmp_path / "log", "flights", "a", "b")
    labels = read_labels(lines(*({"request_id": one, "label": 1} for one in ("a", "x2", "b", "x1"))))

    found = keep(database, lambda model: log, "flights", labels, "anna")

    assert (found.labels, found.again, found.unknown, found.unknown_ids) == (4, 0, 2, ("x1", "x2"))
    assert "of 2 requests the inference log has nothing" in found.sentence
    with database.reading() as session:
        rows = {row.request_id: row.known for row in session.scalars(select(LabelRow))}
    assert rows == {"a": True, "b": True, "x1": False, "x2": False}


def test_an_upload_ends_where_the_hub_stops(database: Database) -> None:
    labels = read_labels(lines({"request_id": "a", "label": 1}))

    with pytest.raises(Unavailable, match="the hub stops"):
        keep(database, lambda model: database.close(), "flights", labels, "anna")

    again = Database(database.url.render_as_string(hide_password=False))
    assert dict(newest_labels(again, "flights")) == {}
    again.close()


def test_the_newest_label_of_a_request_wins_and_all_are_kept(database: Database) -> None:
    def send(*labels: dict[str, Any]) -> int:
        return keep(database, lambda model: None, "flights", read_labels(lines(*labels)), "anna").again

    late = {"request_id": "a", "label": {"late": True}, "at": "2026-05-02T00:00:00Z"}
    early = {"request_id": "a", "label": 0, "at": "2026-05-01T00:00:00Z"}
    assert send(late, {"request_id": "b", "label": 1, "at": "2026-05-01T00:00:00Z"}) == 0
    assert send(early) == 0
    assert dict(newest_labels(database, "flights"))["a"] == {"late": True}
    assert send(late) == 1
    assert send({"request_id": "b", "label": 2, "at": "2026-05-01T00:00:00Z"}) == 0

    assert dict(newest_labels(database, "flights")) == {"a": {"late": True}, "b": 2}
    with database.reading() as session:
        assert len(session.scalars(select(LabelRow)).all()) == 5


def test_without_a_log_nothing_is_called_unknown(database: Database, tmp_path: Path) -> None:
    labels = read_labels(lines({"request_id": "a", "label": 1}))
    for log in (None, tmp_path / "on another machine"):
        assert keep(database, lambda model, log=log: log, "flights", labels, "anna").unknown is None  # type: ignore[misc]


class Stopped(Labels):
    """Labels that call `stop` with how many were read, each time they are gone through."""

    stop: Callable[[int], None] = staticmethod(lambda read: None)

    def __iter__(self) -> Iterator[Label]:
        for read, label in enumerate(super().__iter__()):
            self.stop(read)
            yield label


def numbered(count: int) -> Stopped:
    return Stopped(lines(*({"request_id": f"r{number}", "label": number} for number in range(count))))


def test_while_labels_arrive_others_write_and_none_of_them_counts_yet(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_pipelines.hub.decisions.labels._AT_ONCE", 2)
    labels, seen = numbered(5), []

    def write(read: int) -> None:
        with database.writing() as session:
            session.execute(update(LabelRow).values(known=None))
            seen.append((read, len(session.scalars(select(LabelRow.id)).all())))
        assert dict(newest_labels(database, "flights")) == {}

    labels.stop = write
    assert keep(database, lambda model: None, "flights", labels, "anna").labels == 5
    assert seen == [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4)]
    assert dict(newest_labels(database, "flights")) == {f"r{number}": number for number in range(5)}


def test_an_upload_that_breaks_off_never_counts_and_is_removed_later(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_pipelines.hub.decisions.labels._AT_ONCE", 2)
    broken = numbered(5)

    def break_off(read: int) -> None:
        if read == 3:
            raise Unavailable("the database is away")

    broken.stop = break_off
    with pytest.raises(Unavailable):
        keep(database, lambda model: None, "flights", broken, "anna")

    def kept() -> list[str]:
        keep(database, lambda model: None, "spam", read_labels(lines({"request_id": "b", "label": 1})), "anna")
        assert dict(newest_labels(database, "flights")) == {}
        with database.reading() as session:
            return sorted(session.scalars(select(LabelRow.request_id)))

    assert kept() == ["b", "r0", "r1"]
    later = datetime.now(UTC) + timedelta(minutes=11)
    monkeypatch.setattr(database, "now", lambda session: later)
    assert kept() == ["b", "b"]


def test_an_upload_that_was_given_up_does_not_go_on(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate_pipelines.hub.decisions.labels._AT_ONCE", 2)
    slow = numbered(5)

    def stand_still(read: int) -> None:
        if read == 4:
            later = datetime.now(UTC) + timedelta(minutes=11)
            monkeypatch.setattr(database, "now", lambda session: later)
            keep(database, lambda model: None, "flights", numbered(1), "ben")

    slow.stop = stand_still
    with pytest.raises(Conflict, match="given up; none of it counts: send it again"):
        keep(database, lambda model: None, "flights", slow, "anna")
    assert dict(newest_labels(database, "flights")) == {"r0": 0}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no label in it"),
        (b'{"request_id": "a", "label": 1}\n{"request_id"', "line 2 is not JSON"),
        (b'{"request_id": "a"}', "line 1 has no label"),
        (b'{"request_id": "", "label": 1}', "line 1 has request_id"),
        (b'{"request_id": 7, "label": 1}', "line 1 has request_id"),
        (b'{"request_id": "a", "label": 1, "x": 2}', "unknown key 'x'"),
        (b'{"request_id": "a", "label": 1, "at": "soon"}', "at of line 1"),
        (b"\xff\xfe", "line 1 is not JSON"),
    ],
)
def test_a_file_that_cannot_be_used_names_its_line_and_none_of_it_counts(data: bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_labels(data)


def test_labels_come_as_lines_or_as_a_file(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CONTROL", "127.0.0.1:9")
    client, audit = decisions_client(database, tmp_path, "ci")
    data = lines({"request_id": "a", "label": 1})

    answer = client.post("/api/v1/labels?model=flights", content=data)
    assert answer.status_code == 200, answer.text
    assert answer.json()["labels"] == 1
    upload = client.post("/api/v1/labels", data={"model": "flights"}, files={"file": ("l.jsonl", data)})
    assert upload.json()["labels"] == 1
    form = {"content-type": "application/x-www-form-urlencoded"}
    for size in (len(data), 100 << 10):
        refused = client.post("/api/v1/labels?model=flights", content=data.ljust(size), headers=form)
        assert "lines alone as application/jsonl" in refused.json()["error"]["message"]
    assert client.get("/api/v1/labels?model=flights").content == b'{"request_id": "a", "label": 1}\n'
    assert client.get("/api/v1/labels?model=spam").status_code == 403
    assert client.post("/api/v1/labels?model=spam", content=data).status_code == 403
    assert client.post("/api/v1/labels?model=flights", content=b"{").status_code == 422
    assert [line.act.outcome.value for line in audit.newest(9)] == [*["refused"] * 3, "done", "done"]
