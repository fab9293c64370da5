"""The gate: without a verdict that a trusted key signed for exactly these bytes, nothing comes in."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.models.versions import (
    Validator,
    adding,
    digest_of,
    edit_manifest,
    flip,
    forge,
    make_validator,
    publish,
)

from tidegate_serving.admission import AdmissionRecords, AdmitUnverified, Outcome, VerdictAdmission
from tidegate_serving.contract.errors import (
    NotAdmitted,
    NotFound,
    Refused,
    ResourceExhausted,
    Tampered,
    TidegateError,
    Unsupported,
)
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import verdict_path


@pytest.fixture
def validator(tmp_path: Path) -> Validator:
    return make_validator(tmp_path / "keys")


@pytest.fixture
def directory(tmp_path: Path, validator: Validator) -> Path:
    directory = publish(tmp_path / "repository", "m", 1)
    validator.sign(directory)
    return directory


def admission(validator: Validator, memory: Path | None = None) -> VerdictAdmission:
    return VerdictAdmission([validator.public], AdmissionRecords(memory))


def check(gate: VerdictAdmission | AdmitUnverified, directory: Path) -> None:
    manifest, digest = read_manifest(directory)
    gate.check(directory, manifest, digest)


def test_a_signed_version_comes_in(validator: Validator, directory: Path) -> None:
    admitted = AdmissionRecords(None)
    check(VerdictAdmission([validator.public], admitted), directory)
    assert read_manifest(directory)[1] in admitted


def test_without_a_verdict_nothing_comes_in(validator: Validator, directory: Path) -> None:
    verdict_path(directory).unlink()
    with pytest.raises(NotAdmitted, match=r"1\.verdict\.json is missing: run `tidegate validate`"):
        check(admission(validator), directory)


def test_a_foreign_key_does_not_count(tmp_path: Path, validator: Validator, directory: Path) -> None:
    make_validator(tmp_path / "keys", "stranger").sign(directory)
    with pytest.raises(NotAdmitted, match="not trusted"):
        check(admission(validator), directory)


def test_without_keys_nobody_is_trusted(directory: Path) -> None:
    with pytest.raises(NotAdmitted, match="not trusted"):
        check(VerdictAdmission([], AdmissionRecords(None)), directory)


def test_a_verdict_that_says_no_is_a_no(validator: Validator, directory: Path) -> None:
    validator.sign(directory, allowed=False)
    with pytest.raises(Refused, match="It is worse than the one before"):
        check(admission(validator), directory)


def test_a_verdict_for_another_manifest_does_not_count(validator: Validator, directory: Path) -> None:
    edit_manifest(directory, created_at="2026-01-02T00:00:00Z")
    with pytest.raises(Tampered, match=r"manifest\.json is not what .*1\.verdict\.json was signed for"):
        check(admission(validator), directory)


def test_a_verdict_of_another_version_does_not_count(tmp_path: Path, validator: Validator, directory: Path) -> None:
    other = publish(tmp_path / "repository", "m", 2)
    verdict_path(other).write_bytes(verdict_path(directory).read_bytes())
    with pytest.raises(Tampered, match=r"signed for \(m:1"):
        check(admission(validator), other)


def flips(path: Path) -> list[int]:
    size = path.stat().st_size
    return sorted({*range(0, size, max(1, size // 60)), size - 2})


def test_no_flipped_byte_of_a_verdict_comes_in(validator: Validator, directory: Path) -> None:
    path = verdict_path(directory)
    whole = path.read_bytes()
    refused = [position for position in flips(path) if is_refused(validator, directory, whole, position)]
    assert len(refused) > 50


def is_refused(validator: Validator, directory: Path, whole: bytes, position: int) -> bool:
    path = verdict_path(directory)
    path.write_bytes(whole)
    flip(path, position)
    if same_meaning(whole, path.read_bytes()):
        return False
    with pytest.raises(TidegateError, match=re.escape(path.name)):
        check(admission(validator), directory)
    return True


def same_meaning(before: bytes, after: bytes) -> bool:
    """Whether only white space of the envelope differs, which nobody signed."""
    try:
        return bool(json.loads(before) == json.loads(after))
    except ValueError:
        return False


def test_an_expired_verdict_does_not_admit(validator: Validator, directory: Path) -> None:
    validator.sign(directory, valid_for=-timedelta(days=1))
    with pytest.raises(NotAdmitted, match="expired at"):
        check(admission(validator), directory)


def test_a_digest_that_was_admitted_comes_in_after_its_date(
    tmp_path: Path, validator: Validator, directory: Path
) -> None:
    memory = tmp_path / "state" / "admitted.jsonl"
    check(admission(validator, memory), directory)
    validator.sign(directory, valid_for=-timedelta(days=1))
    check(admission(validator, memory), directory)
    with pytest.raises(NotAdmitted, match="expired"):
        check(admission(validator, tmp_path / "elsewhere.json"), directory)


def test_what_another_engine_admitted_comes_in_after_its_date_and_not_once_it_was_refused(
    tmp_path: Path, validator: Validator, directory: Path
) -> None:
    validator.sign(directory, valid_for=-timedelta(days=1))
    gate = admission(validator, tmp_path / "admitted.jsonl")
    gate.vouch({digest_of(directory)})
    forge(verdict_path(directory))
    with pytest.raises(TidegateError):
        check(gate, directory)
    validator.sign(directory, valid_for=-timedelta(days=1))
    check(gate, directory)
    check(admission(validator, tmp_path / "admitted.jsonl"), directory)
    validator.sign(directory, allowed=False)
    with pytest.raises(Refused):
        check(gate, directory)
    validator.sign(directory, valid_for=-timedelta(days=1))
    with pytest.raises(NotAdmitted, match="expired"):
        check(gate, directory)


def test_what_was_admitted_is_still_refused_once_its_verdict_says_no(
    tmp_path: Path, validator: Validator, directory: Path
) -> None:
    memory = tmp_path / "admitted.jsonl"
    check(admission(validator, memory), directory)
    validator.sign(directory, allowed=False)
    with pytest.raises(Refused):
        check(admission(validator, memory), directory)


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.INCONCLUSIVE])
def test_a_judgement_that_could_not_be_made_takes_nothing_back(
    tmp_path: Path, validator: Validator, directory: Path, outcome: Outcome
) -> None:
    memory = tmp_path / "admitted.jsonl"
    validator.sign(directory, allowed=False, denied_by=outcome)
    with pytest.raises(Refused):
        check(admission(validator, memory), directory)
    validator.sign(directory)
    check(admission(validator, memory), directory)
    validator.sign(directory, allowed=False, denied_by=outcome)
    check(admission(validator, memory), directory)


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.INCONCLUSIVE])
def test_a_judgement_that_could_not_be_made_gives_nothing_back_that_a_no_took(
    tmp_path: Path, validator: Validator, directory: Path, outcome: Outcome
) -> None:
    memory = tmp_path / "admitted.jsonl"
    check(admission(validator, memory), directory)
    validator.sign(directory, allowed=False)
    with pytest.raises(Refused):
        check(admission(validator, memory), directory)
    validator.sign(directory, allowed=False, denied_by=outcome)
    with pytest.raises(Refused):
        check(admission(validator, memory), directory)
    gate, digest = admission(validator, memory), digest_of(directory)
    (note,) = gate.standing(digest).overdue
    assert note.startswith("REFUSED LATER: ")
    before = gate.mark()
    validator.sign(directory)
    check(gate, directory)
    assert gate.standing(digest).overdue == ()
    validator.sign(directory, allowed=False, denied_by=outcome)
    check(gate, directory)
    validator.sign(directory, allowed=False)
    with pytest.raises(Refused):
        check(gate, directory)
    assert gate.mark() != before


def test_a_memory_of_a_later_format_is_refused(tmp_path: Path) -> None:
    memory = tmp_path / "admitted.jsonl"
    memory.write_text(json.dumps({"format": "tidegate.admitted/3"}) + "\n")
    with pytest.raises(Unsupported, match=r"tidegate\.admitted/3"):
        AdmissionRecords(memory)


@pytest.mark.parametrize("spoil", [lambda path: path.unlink(), lambda path: path.write_text("no key")])
def test_keys_that_cannot_be_read_are_named(validator: Validator, spoil: Callable[[Path], object]) -> None:
    spoil(validator.public)
    with pytest.raises((NotFound, TidegateError), match=r"validator\.pub"):
        admission(validator)


def test_unverified_admission_is_loud_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = publish(tmp_path, "m", 1, adding(1))
    gate = AdmitUnverified()
    with caplog.at_level(logging.WARNING):
        check(gate, directory)
        check(gate, directory)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "UNVERIFIED: m:1" in caplog.text


def test_an_admission_that_cannot_be_kept_is_not_remembered(
    tmp_path: Path, validator: Validator, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "state" / "admitted.jsonl"
    gate = admission(validator, memory)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for _ in range(2):
            with pytest.raises(
                ResourceExhausted, match=r"admitted\.jsonl cannot be kept, the disk is full: free space"
            ):
                check(gate, directory)
    assert digest_of(directory) not in AdmissionRecords(memory)
    check(gate, directory)
    assert digest_of(directory) in AdmissionRecords(memory)
