"""The memory of admissions: a line each, whole again after a crash, and no longer than what it remembers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidegate_serving.admission import AdmissionRecord, AdmissionRecords, OverrideRecord
from tidegate_serving.contract.errors import InvalidInput

OVERRIDE = OverrideRecord("quality", "FAIL", "k", "validator", "a holiday", "2026-01-01T00:00:00Z")


def record(number: int, verdict: str = "v") -> AdmissionRecord:
    return AdmissionRecord(f"{number:064x}", f"m:{number}", verdict, "k", "validator", "2026-01-01T00:00:00Z")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "admitted.jsonl"


@pytest.mark.parametrize("present", [10, 300])
def test_an_admission_costs_a_line_however_many_there_are(path: Path, present: int) -> None:
    memory = AdmissionRecords(path)
    for number in range(present):
        memory.add(record(number))
    before, file = path.read_bytes(), path.stat().st_ino
    memory.add(record(present))
    after = path.read_bytes()
    assert path.stat().st_ino == file
    assert after.startswith(before)
    assert after[len(before) :].count(b"\n") == 1


def test_the_last_line_of_a_digest_counts(path: Path) -> None:
    memory = AdmissionRecords(path)
    by_override = replace(record(1), overrides=(OVERRIDE,))
    memory.add(by_override)
    assert (memory.overridden(), record(1).manifest_digest in memory) == ([by_override], False)
    memory.add(record(1, "another"))
    for known in (memory, AdmissionRecords(path)):
        assert known.record(record(1).manifest_digest) == record(1, "another")
        assert (known.overridden(), record(1).manifest_digest in known) == ([], True)


def test_at_every_byte_that_a_crash_may_leave_earlier_admissions_stand_and_later_ones_can_be_kept(path: Path) -> None:
    memory = AdmissionRecords(path)
    memory.add(record(1))
    first = len(path.read_bytes())
    memory.add(record(2))
    whole = path.read_bytes()
    for size in range(first, len(whole)):
        path.write_bytes(whole[:size])
        torn = AdmissionRecords(path)
        assert (torn.record(record(1).manifest_digest), torn.record(record(2).manifest_digest)) == (record(1), None)
        torn.add(record(3))
        again = AdmissionRecords(path)
        known = [again.record(record(number).manifest_digest) for number in (1, 2, 3)]
        assert known == [record(1), None, record(3)], size


def test_the_file_does_not_grow_with_what_was_replaced(path: Path) -> None:
    memory = AdmissionRecords(path)
    for verdict in range(1000):
        memory.add(record(verdict % 2, f"v{verdict}"))
    assert path.read_bytes().count(b"\n") < 100
    again = AdmissionRecords(path)
    assert [again.record(record(number).manifest_digest) for number in (0, 1)] == [record(0, "v998"), record(1, "v999")]


@pytest.mark.parametrize("line", ["{", "7", '{"format": "tidegate.admitted/2", "name": "m:1"}'])
def test_a_line_that_no_crash_could_have_torn_is_named(path: Path, line: str) -> None:
    AdmissionRecords(path).add(record(1))
    path.write_text(f"{line}\n{path.read_text()}")
    with pytest.raises(InvalidInput, match=r"admitted\.jsonl, line 1 "):
        AdmissionRecords(path)
