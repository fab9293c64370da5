from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, update
from tests.support.eventually import eventually

from tidegate_pipelines.hub.audit import Act, AuditLog, verify_database
from tidegate_pipelines.hub.audit.chain_check import ChainCheck, Checked
from tidegate_pipelines.hub.audit.check import verify_since
from tidegate_pipelines.hub.audit.line import Line
from tidegate_pipelines.hub.pages import render
from tidegate_pipelines.hub.pages.queries.audit import AuditPage, AuditQuestion, audit_page
from tidegate_pipelines.hub.store import Database
from tidegate_pipelines.hub.store.people import AuditLineRow

NOW = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1, seconds=1)


class WatchedLog(AuditLog):
    """Knows what was read of it, and gives no line while the gate is closed."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.gate = threading.Event()
        self.gate.set()
        self.read: list[int] = []

    def lines(self, after: int = 0) -> Iterator[Line]:
        self.gate.wait()
        self.read.append(after)
        yield from super().lines(after)


@pytest.fixture
def log(database: Database) -> WatchedLog:
    found = WatchedLog(database)
    for number in range(5):
        found.add(Act("anna", "rollback", f"model m{number}"))
    return found


def change(database: Database, number: int, **values: str) -> None:
    with database.writing() as session:
        session.execute(update(AuditLineRow).where(AuditLineRow.number == number).values(values))


def shown(page: AuditPage) -> str:
    return bytes(render.page("audit.html.jinja", None, NOW, view=page).body).decode()


def page(log: AuditLog, check: ChainCheck, now: datetime = NOW, *, anew: bool = False) -> AuditPage:
    return audit_page(log, check, AuditQuestion(), now, anew=anew)


def test_who_looks_while_the_log_is_checked_sees_the_last_finding_and_waits_for_nothing(log: WatchedLog) -> None:
    check = ChainCheck(log, wait_seconds=0)
    log.gate.clear()
    first = shown(page(log, check))
    assert "being checked" in first
    assert "none was changed" not in first
    log.gate.set()
    eventually(lambda: not check.look(NOW, anew=False)[1])
    log.gate.clear()
    again = shown(page(log, check, anew=True))
    assert ("Lines 1 to 5 follow each other" in again, "being checked" in again) == (True, True)
    log.gate.set()
    eventually(lambda: not check.look(NOW, anew=False)[1])
    assert log.read == [0, 0], "those who looked in between shared one check"
    assert "check again" in shown(page(log, check))


def test_lines_that_were_checked_are_read_again_after_a_day_or_when_somebody_asks(
    log: WatchedLog, database: Database
) -> None:
    check = ChainCheck(log, wait_seconds=30)

    def found(now: datetime, *, anew: bool = False) -> Checked:
        check.look(now, anew=anew)
        eventually(lambda: not check.look(now, anew=False)[1])
        last = check.look(now, anew=False)[0]
        assert last is not None
        return last

    found(NOW)
    change(database, 2, reason="nothing to see")
    log.add(Act("anna", "rollback", "model m5"))
    later = found(NOW + HOUR)
    assert (later.found.last, later.found.whole, later.at, later.whole_at) == (6, True, NOW + HOUR, NOW)
    assert log.read == [0, 5]
    assert "Every line was checked" in shown(page(log, check, NOW + HOUR))
    assert [one.number for one in found(NOW + HOUR, anew=True).found.faults] == [2]
    change(database, 2, reason="")
    assert found(NOW + 2 * HOUR + timedelta(minutes=1)).found.whole, "after a fault every line is read"
    change(database, 2, reason="once more")
    assert not found(NOW + timedelta(days=2)).found.whole


def test_who_asks_while_new_lines_are_checked_has_every_line_read(log: WatchedLog) -> None:
    check = ChainCheck(log, wait_seconds=0)
    check.look(NOW, anew=True)
    eventually(lambda: not check.look(NOW, anew=False)[1])
    log.gate.clear()
    for anew in (False, True):
        check.look(NOW + HOUR, anew=anew)
    log.gate.set()
    eventually(lambda: not check.look(NOW + HOUR, anew=False)[1])
    assert log.read == [0, 5, 0]


def test_a_line_that_does_not_follow_what_was_checked_has_every_line_read(log: WatchedLog, database: Database) -> None:
    check = ChainCheck(log, wait_seconds=30)
    check.look(NOW, anew=False)
    log.add(Act("anna", "rollback", "model m5"))
    change(database, 6, reason="nothing to see")
    check.look(NOW + HOUR, anew=False)
    eventually(lambda: not check.look(NOW + HOUR, anew=False)[1])
    last = check.look(NOW + HOUR, anew=False)[0]
    assert last is not None
    assert ([one.number for one in last.found.faults], log.read) == ([6], [0, 5, 0])


def test_the_first_lines_of_a_log_that_was_empty_are_missed(database: Database) -> None:
    log = AuditLog(database)
    known = verify_database(log)
    for _ in range(3):
        log.add(Act("anna", "rollback", "model m"))
    followed = verify_since(log, known)
    assert followed is not None
    assert (followed.whole, followed.first, followed.last) == (True, 1, 3)
    with database.writing() as session:
        session.execute(delete(AuditLineRow).where(AuditLineRow.number == 1))
    assert verify_since(log, known) is None


def test_what_was_pruned_since_moves_the_first_line_on(log: WatchedLog) -> None:
    check = ChainCheck(log, wait_seconds=30)
    check.look(NOW, anew=False)
    log.prune(log.newest(1)[0].at_us, who="hub", exported_only=False)
    check.look(NOW + HOUR, anew=False)
    eventually(lambda: not check.look(NOW + HOUR, anew=False)[1])
    last = check.look(NOW + HOUR, anew=False)[0]
    assert last is not None
    assert (last.found.whole, last.found.first, last.found.last, last.found.lines) == (True, 5, 6, 2)


def test_a_check_that_breaks_off_claims_nothing(log: WatchedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(after: int = 0) -> Iterator[Line]:
        raise RuntimeError("a page of the database cannot be read")

    check = ChainCheck(log, wait_seconds=30)
    assert "none was changed" in shown(page(log, check))
    monkeypatch.setattr(log, "lines", broken)
    text = shown(page(log, check, anew=True))
    assert ("The check broke off" in text, "none was changed" in text) == (True, False)
