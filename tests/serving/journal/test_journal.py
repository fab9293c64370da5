"""The journal: what is added is there after a restart, a torn line costs itself only, and files stay bounded."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.eventually import eventually
from tests.support.file_limit import no_file_beyond

from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.journal import Entry, Journal, Kind, journal
from tidegate_serving.journal.entry import from_line, of_change, to_line
from tidegate_serving.journal.journal import FILE_NAME


def entry(number: int, text: str = "something") -> Entry:
    return Entry(Kind.CONTROL, "pin", f"{text} {number}", "m", number, "anna", "it is late", at_us=number)


def numbers(journal: Journal) -> list[int | None]:
    return [one.version for one in journal.read()]


def test_a_line_is_json_with_its_format_and_comes_back() -> None:
    made = Entry(Kind.STATE, "END", "m:1 has ended", "m", 1, error_code="tampered", at_us=1_700_000_000_000_001)
    line = to_line(made)
    document = json.loads(line)
    assert (document["format"], document["at"]) == ("tidegate.journal/1", "2023-11-14T22:13:20.000001+00:00")
    assert from_line(line, "here") == made
    assert from_line(to_line(entry(3)), "here") == entry(3)


def test_what_was_added_is_there_after_a_restart(tmp_path: Path) -> None:
    Journal(tmp_path).add(entry(1), entry(2))
    again = Journal(tmp_path)
    again.add(entry(3))
    assert again.read() == [entry(1), entry(2), entry(3)]
    assert [one.version for one in again.read(since_us=2)] == [2, 3]
    assert [one.version for one in again.read(newest=1)] == [3]
    assert [one.version for one in again.read(wanted=lambda one: one.version == 2)] == [2]


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_torn_last_line_costs_itself_only(tmp_path: Path, cut: int, caplog: pytest.LogCaptureFixture) -> None:
    Journal(tmp_path).add(entry(1), entry(2))
    path = tmp_path / FILE_NAME
    os.truncate(path, path.stat().st_size - cut)
    again = Journal(tmp_path)
    again.add(entry(3))
    assert numbers(again) == ([1, 2, 3] if cut == 1 else [1, 3])
    assert (cut == 1) is not ("line 2 is no whole entry" in caplog.text)


def test_an_entry_of_a_later_program_is_named_and_hides_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path)
    journal.add(entry(1))
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(to_line(entry(2)).replace(b"journal/1", b"journal/7"))
    journal.add(entry(3))
    assert numbers(journal) == [1, 3]
    assert "tidegate.journal/7" in caplog.text


def test_files_are_bounded_and_the_newest_survive(tmp_path: Path) -> None:
    journal = Journal(tmp_path, most_bytes=2000, predecessors=2)
    for number in range(60):
        journal.add(entry(number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal.1.jsonl", "journal.2.jsonl", FILE_NAME]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    found = numbers(Journal(tmp_path, most_bytes=2000, predecessors=2))
    assert found == list(range(60 - len(found), 60))
    assert len(found) > 10


def test_an_entry_is_kept_while_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Journal(tmp_path)
    kept.add(entry(1))
    reading, goes_on = threading.Event(), threading.Event()

    def slowly(line: bytes, where: str) -> Entry:
        reading.set()
        assert goes_on.wait(30)
        return from_line(line, where)

    monkeypatch.setattr(journal, "from_line", slowly)
    with ThreadPoolExecutor(2) as pool:
        found = pool.submit(numbers, kept)
        assert reading.wait(30)
        added = pool.submit(kept.add, entry(2))
        done, _ = wait([added], 10)
        goes_on.set()
        assert (done, found.result(30)) == ({added}, [1])
    assert numbers(kept) == [1, 2]


def test_without_a_folder_it_lives_in_memory() -> None:
    journal = Journal(None)
    journal.add(entry(1), entry(2))
    assert numbers(journal) == [1, 2]


def test_a_disk_that_takes_nothing_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path)
    journal.add(entry(1))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        journal.add(entry(2))
        journal.add(entry(3))
        assert [number for number in numbers(journal) if number] == [1, 2, 3]
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 1, "once, not at each entry"
    assert "journal.jsonl" in said[0].getMessage()
    assert "free space there" in said[0].getMessage()
    journal.add(entry(4))
    kept = Journal(tmp_path).read()
    assert [one.version for one in kept if one.kind is Kind.CONTROL] == [1, 2, 3, 4]
    assert ["takes no entry" in one.text for one in kept if one.kind is Kind.ENGINE] == [True]


def test_entries_that_a_full_disk_cut_off_are_written_once_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.add(entry(1))
    size = (tmp_path / FILE_NAME).stat().st_size
    cut_off = os.ftruncate
    with ExitStack() as full:

        def room_again(descriptor: int, length: int) -> None:
            cut_off(descriptor, length)
            if sys.exception() is not None:
                full.close()

        monkeypatch.setattr(os, "ftruncate", room_again)
        full.enter_context(no_file_beyond(size + 12_000))  # the last part of them does not fit
        journal.add(*(entry(number) for number in range(2, 60)))
    assert (tmp_path / FILE_NAME).stat().st_size == size
    journal.add(entry(60))
    kept = [from_line(line, "here") for line in (tmp_path / FILE_NAME).read_bytes().splitlines()]
    assert [one.version for one in kept if one.kind is Kind.CONTROL] == list(range(1, 61))


def test_state_changes_are_written_behind_and_all_of_them_before_the_end(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.start()
    for number in range(50):
        journal.heard(StateChange(ServableId("m", number), State.AVAILABLE))
    eventually(lambda: len(journal.read()) == 50)
    for number in range(50):
        journal.heard(StateChange(ServableId("m", number), State.END))
    journal.stop()
    found = Journal(tmp_path).read()
    assert [one.action for one in found] == ["AVAILABLE"] * 50 + ["END"] * 50
    assert "tidegate-journal" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (StateChange(ServableId("m", 1), State.AVAILABLE), "m:1 is available"),
        (StateChange(ServableId("m", 1), State.END), "m:1 has unloaded"),
        (StateChange(ServableId("m", 1), State.END, "tampered", "a.txt"), "m:1 has ended with tampered: a.txt"),
    ],
)
def test_words_for_state_changes(change: StateChange, words: str) -> None:
    assert of_change(change).words() == words


def test_words_say_who_and_why() -> None:
    assert entry(1).words() == "something 1 by anna (it is late)"
