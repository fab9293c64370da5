from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from sqlalchemy import delete, update
from tests.support.command import Command

from tidegate_pipelines.hub.audit import Act, AuditLog, ExportStore, Outcome, verify_database, verify_export
from tidegate_pipelines.hub.audit.line import made_line
from tidegate_pipelines.hub.audit.log import Wanted
from tidegate_pipelines.hub.store import Database
from tidegate_pipelines.hub.store.people import AuditHeadRow, AuditLineRow
from tidegate_serving.contract.errors import FailedPrecondition, Tampered, Unavailable


class Clock:
    def __init__(self) -> None:
        self.us = 0

    def __call__(self) -> int:
        self.us += 1
        return self.us


def filled(database: Database, count: int = 5) -> AuditLog:
    log = AuditLog(database, Clock())
    for number in range(count):
        log.add(Act("anna", "rollback", f"model m{number}", reason="late answers", detail={"version": number}))
    return log


def kinds(log: AuditLog) -> list[tuple[int, str]]:
    return [(fault.number, fault.kind) for fault in verify_database(log).faults]


def test_lines_are_kept_in_order_and_verify(database: Database) -> None:
    log = filled(database)

    found = verify_database(log)

    assert found.whole
    assert (found.lines, found.first, found.last) == (5, 1, 5)
    assert log.head() == (5, found.head)
    assert [line.act.thing for line in log.newest(2)] == ["model m4", "model m3"]
    assert log.newest(9, Wanted(thing="model m1"))[0].act.detail == {"version": 1}


def test_a_refused_act_is_kept_as_such(database: Database) -> None:
    log = filled(database, 1)
    log.refused(Act("ben", "rollback", "model m0", reason="look may not"))

    assert log.newest(1)[0].act.outcome is Outcome.REFUSED


@pytest.mark.parametrize("column", ["who", "action", "thing", "outcome", "reason", "detail", "address", "at_us"])
def test_a_changed_line_is_named(database: Database, column: str) -> None:
    log = filled(database)
    changed = {"outcome": "refused", "detail": '{"version": 9}', "at_us": 77}.get(column, "somebody else")
    with database.writing() as session:
        session.execute(update(AuditLineRow).where(AuditLineRow.number == 3).values({column: changed}))

    assert kinds(log) == [(3, "changed")]


@pytest.mark.parametrize(
    "changed",
    [
        {"outcome": "bogus"},
        *({"detail": text} for text in ("no JSON", '{"a": NaN}', '{"a": 1e999}', "5", "null", "[]", "[1]")),
        {"detail": "[" * 9000 + "]" * 9000},
        {"detail": r'{"a": "\ud800"}'},
    ],
    ids=lambda changed: str(changed)[:40],
)
def test_a_line_that_the_hub_could_not_have_written_is_shown_and_named(
    database: Database, changed: dict[str, str]
) -> None:
    log = AuditLog(database, Clock())
    log.add(Act("anna", "rollback", "model m", Outcome.FAILED))
    with database.writing() as session:
        session.execute(update(AuditLineRow).values(changed))

    assert kinds(log) == [(1, "changed")]
    assert next(iter(changed.values())) in str(log.newest(1)[0].act.detail["unreadable"])


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_missing_line_is_named(database: Database, number: int) -> None:
    log = filled(database)
    with database.writing() as session:
        session.execute(delete(AuditLineRow).where(AuditLineRow.number == number))

    assert kinds(log) == [(number, "missing")]


def test_a_line_that_was_replaced_with_one_of_a_fitting_hash_is_found(database: Database) -> None:
    log = filled(database)
    third = next(line for line in log.lines() if line.number == 3)
    forged = made_line(3, third.at_us, Act("nobody", "rollback", "model m2"), third.before)
    values = {"who": "nobody", "reason": "", "detail": "{}", "hash": forged.hash}
    with database.writing() as session:
        session.execute(update(AuditLineRow).where(AuditLineRow.number == 3).values(values))

    assert kinds(log) == [(4, "replaced")]


def test_a_chain_that_was_cut_and_whose_head_was_set_back_shows_against_the_export(
    database: Database, tmp_path: Path
) -> None:
    log = filled(database)
    store = ExportStore(str(tmp_path / "export"))
    store.export(log)
    fourth = next(line for line in log.lines() if line.number == 4)
    with database.writing() as session:
        session.execute(delete(AuditLineRow).where(AuditLineRow.number == 5))
        session.execute(update(AuditHeadRow).values(number=4, hash=fourth.hash))
    log.add(Act("mallory", "nothing", "model m9"))

    assert verify_database(log).whole
    assert [(fault.number, fault.kind) for fault in verify_export(store, log).faults] == [(5, "replaced")]


@pytest.mark.parametrize("left", [3, 0])
def test_last_lines_that_were_cut_with_their_head_show_against_the_export(
    database: Database, tmp_path: Path, left: int
) -> None:
    log = filled(database)
    store = ExportStore(str(tmp_path / "export"))
    store.export(log)
    newest = {line.number: line.hash for line in log.lines()}.get(left, "")
    with database.writing() as session:
        session.execute(delete(AuditLineRow).where(AuditLineRow.number > left))
        session.execute(update(AuditHeadRow).values(number=left, hash=newest))

    assert verify_database(log).whole
    found = [(fault.number, fault.kind) for fault in verify_export(store, log).faults]
    assert found == [(number, "missing") for number in range(left + 1, 6)]


def test_lines_that_were_pruned_are_not_missed_against_the_export(database: Database, tmp_path: Path) -> None:
    now = [1_000_000]
    log = AuditLog(database, clock=lambda: now[0])
    store = ExportStore(str(tmp_path / "export"))
    for number in range(5):
        now[0] += 1_000_000
        log.add(Act("anna", "push", f"model m{number}"))
    store.export(log)
    assert log.prune(4_500_000, who="hub", exported_only=True) == 3
    assert verify_export(store, log).whole


def test_writers_at_the_same_time_do_not_fork_the_chain(database: Database) -> None:
    log = AuditLog(database)
    gate = threading.Barrier(8)
    problems: list[BaseException] = []

    def write(name: str) -> None:
        try:
            gate.wait()
            for number in range(20):
                log.add(Act(name, "pin", f"model m{number}"))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=write, args=(f"writer {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not problems
    found = verify_database(log)
    assert found.whole
    assert found.lines == 160


def test_an_act_and_its_line_are_kept_together_or_not_at_all(database: Database) -> None:
    log = filled(database, 2)

    def fail() -> None:
        with database.writing() as session:
            log.add(Act("anna", "pin", "model m"), session)
            raise RuntimeError("the act failed")

    with pytest.raises(RuntimeError, match="the act failed"):
        fail()

    assert verify_database(log).whole
    assert log.head()[0] == 2


def test_what_is_left_after_pruning_verifies_and_only_then(database: Database) -> None:
    log = filled(database)

    assert log.prune(4, who="hub", exported_only=False) == 3
    assert log.prune(4, who="hub", exported_only=False) == 0
    found = verify_database(log)
    assert found.whole
    assert (found.first, found.last) == (4, 6)

    with database.writing() as session:
        session.execute(delete(AuditLineRow).where(AuditLineRow.number == 4))
    assert kinds(log) == [(1, "missing")]


def test_a_second_pruning_may_remove_the_word_of_the_first(database: Database) -> None:
    clock = Clock()
    log = AuditLog(database, clock)
    for number in range(4):
        log.add(Act("anna", "pin", f"model m{number}"))
    log.prune(3, who="hub", exported_only=False)
    clock.us = 100
    log.add(Act("anna", "pin", "model late"))

    log.prune(100, who="hub", exported_only=False)

    assert verify_database(log).whole
    assert [line.number for line in log.lines()] == [6, 7]


def test_a_line_by_a_clock_that_was_behind_takes_no_younger_ones_with_it(database: Database) -> None:
    clock = Clock()
    log = AuditLog(database, clock)
    for moment in (1, 2, 500, 3, 501):
        clock.us = moment
        log.add(Act("anna", "pin", "model m"))

    assert log.prune(100, who="hub", exported_only=False) == 2
    assert [line.number for line in log.lines()] == [3, 4, 5, 6]
    assert verify_database(log).whole


def test_lines_in_no_export_are_not_pruned(database: Database, tmp_path: Path) -> None:
    log = filled(database)

    with pytest.raises(FailedPrecondition, match="exported up to line 0"):
        log.prune(4, who="hub", exported_only=True)
    ExportStore(str(tmp_path / "export")).export(log)

    assert log.prune(4, who="hub", exported_only=True) == 3


def exported(database: Database, tmp_path: Path) -> tuple[AuditLog, ExportStore, Path]:
    log = filled(database, 3)
    store = ExportStore(str(tmp_path / "export"))
    store.export(log)
    log.add(Act("anna", "pin", "model late"))
    store.export(log)
    return log, store, tmp_path / "export"


def test_an_export_holds_every_line_once_and_verifies(database: Database, tmp_path: Path) -> None:
    log, store, folder = exported(database, tmp_path)

    assert sorted(path.name for path in folder.iterdir()) == [
        "audit-000000000001-000000000003.jsonl",
        "audit-000000000004-000000000004.jsonl",
    ]
    assert store.export(log) == 0
    assert list(store.read()) == list(log.lines())
    assert verify_export(store, log).whole


def test_reordered_lines_of_an_export_are_named(database: Database, tmp_path: Path) -> None:
    _, store, folder = exported(database, tmp_path)
    file = folder / "audit-000000000001-000000000003.jsonl"
    first, second, third = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + third + second)

    assert [(fault.number, fault.kind) for fault in verify_export(store).faults] == [(2, "reordered")]


def test_a_missing_line_and_a_missing_file_of_an_export_are_named(database: Database, tmp_path: Path) -> None:
    _, store, folder = exported(database, tmp_path)
    file = folder / "audit-000000000001-000000000003.jsonl"
    first, _, third = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(first + third)
    assert [(fault.number, fault.kind) for fault in verify_export(store).faults] == [(2, "missing")]

    file.unlink()
    assert verify_export(store).faults[0].sentence.startswith("lines 1 to 3 are missing")


def test_a_line_that_is_none_is_named_with_its_file(database: Database, tmp_path: Path) -> None:
    _, store, folder = exported(database, tmp_path)
    file = folder / "audit-000000000004-000000000004.jsonl"
    file.write_bytes(file.read_bytes()[:40])

    with pytest.raises(Tampered, match=r"000004\.jsonl, line 1"):
        verify_export(store)


def test_overlapping_files_of_an_export_are_no_fault(database: Database, tmp_path: Path) -> None:
    _, store, folder = exported(database, tmp_path)
    whole = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    (folder / "audit-000000000001-000000000004.jsonl").write_bytes(whole)

    assert verify_export(store).whole


def test_no_secret_gets_into_the_log(database: Database) -> None:
    log = AuditLog(database)
    token = "tg_" + "a" * 40
    log.add(
        Act(
            "anna",
            "sign-in",
            f"token={token}",
            reason=f"sent {token} to https://anna:hunter2@example.com",
            detail={"password": "hunter2", "client_secret": "s3cr3t", "model": "flights", "rows": 3, "x": float("nan")},
        )
    )

    kept = log.newest(1)[0]
    shown = str(kept)
    assert not any(secret in shown for secret in (token, "hunter2", "s3cr3t"))
    assert kept.act.detail["model"] == "flights"
    assert kept.act.detail["rows"] == 3
    assert verify_database(log).whole


def test_texts_that_no_database_takes_are_kept_without_what_it_does_not_take(database: Database) -> None:
    log = AuditLog(database)
    log.add(Act("a\0b", "pin", "model \ud800", reason="x" * 9000))

    assert verify_database(log).whole
    assert len(log.newest(1)[0].act.reason) < 5000


def test_an_export_counts_once_it_is_on_disk(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, store = filled(database, 3), ExportStore(str(tmp_path / "export"))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable, match="No space left on device"):
            store.export(log)
    assert (log.exported(), list((tmp_path / "export").iterdir())) == (0, [])
    assert store.export(log) == 3


def test_a_folder_in_which_no_hub_was_is_said_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tidegate = Command(monkeypatch, capsys)
    for asked in (("verify",), ("export", str(tmp_path / "copy"))):
        done = tidegate("audit", *asked, "--directory", tmp_path)
        assert (done.returncode, f"no hub keeps its database at {tmp_path}/hub.db: name" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
