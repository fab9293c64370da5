"""Key rings and overrides at the engine's gate: who is trusted, until when, and what a break-glass override may do."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.rings import Ring, make_ring
from tests.support.versions import digest_of, forge, publish

from tidegate_operators.steps.key_keeping import revoke_key, revoke_version, rotate_key
from tidegate_serving.contract.admittance import SignedVerdict
from tidegate_serving.contract.admittance import trusted_verdict as real
from tidegate_serving.contract.errors import NotAdmitted, Refused
from tidegate_serving.contract.key_ring import KeyRing, Role
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import override_path, verdict_path
from tidegate_serving.contract.verdict import Outcome
from tidegate_serving.sources import admission
from tidegate_serving.sources.admission import AdmittedDigests, Standing, VerdictAdmission

POLICY = """
[[override]]
keys = ["alice"]
gates = ["quality"]
outcomes = ["INCONCLUSIVE", "MISSING"]
most_hours = 8
"""


class Gate:
    """One engine's gate, with a clock that a test sets; a restarted one reads the same memory."""

    def __init__(self, folder: Path, ring: Ring) -> None:
        self.ring = ring
        self.memory = folder / "state" / "admitted.json"
        self.policy = folder / "policy.toml"
        self.policy.write_text(POLICY)
        self.now = datetime.now(UTC)
        self.admission = self.restarted()

    def restarted(self) -> VerdictAdmission:
        self.admission = VerdictAdmission(
            [self.ring.folder], AdmittedDigests(self.memory), self.policy, clock=lambda: self.now
        )
        return self.admission

    def check(self, directory: Path) -> None:
        manifest, digest = read_manifest(directory)
        self.admission.check(directory, manifest, digest)

    def standing(self, directory: Path) -> Standing:
        return self.admission.standing(digest_of(directory))


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return make_ring(tmp_path / "keys")


@pytest.fixture
def gate(tmp_path: Path, ring: Ring) -> Gate:
    return Gate(tmp_path, ring)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return publish(tmp_path / "repository", "m", 1)


def denied(ring: Ring, directory: Path, outcome: Outcome = Outcome.INCONCLUSIVE) -> Path:
    """A version that the quality gate refused."""
    ring.validator().sign(directory, allowed=False, denied_by=outcome)
    return directory


def test_a_ring_admits_by_its_validators_and_remembers_who(gate: Gate, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory)
    gate.check(directory)
    record = gate.standing(directory).record
    assert record is not None
    assert (record.name, record.key_name, record.overrides) == ("m:1", "validator", ())
    gate.restarted()
    assert gate.standing(directory) == Standing(record)


def test_who_may_override_may_not_sign_verdicts(gate: Gate, ring: Ring, directory: Path) -> None:
    ring.validator("alice").sign(directory)
    with pytest.raises(NotAdmitted, match=r"signed by alice .* trusted as override, not as validator"):
        gate.check(directory)


def test_a_compromised_key_counts_no_more_from_the_next_check_on(gate: Gate, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory)
    gate.check(directory)
    revoke_key(ring.folder, key="validator", reason="the build machine was broken into")
    with pytest.raises(NotAdmitted, match=r"compromised .* the build machine was broken into"):
        gate.check(directory)
    gate.restarted()
    with pytest.raises(NotAdmitted, match="compromised"):
        gate.check(directory)
    (note,) = gate.standing(directory).notes
    assert note.startswith("KEY REVOKED: validator")
    assert "goes on serving, and it will not load again" in note


def test_what_a_replaced_key_signed_before_stands_and_nothing_after(gate: Gate, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory)
    revoke_key(ring.folder, key="validator", reason="rotated", compromised=False)
    gate.check(directory)
    assert gate.standing(directory).notes == ()
    later = publish(directory.parent.parent, "m", 2)
    path = ring.folder / "keyring.json"
    path.write_text(path.read_text().replace('"at": "20', '"at": "19'))
    ring.validator().sign(later)
    with pytest.raises(NotAdmitted, match=r"was revoked at 19.* and signed after that"):
        gate.check(later)


def test_rotation_overlaps(gate: Gate, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory)
    made = rotate_key(ring.folder, name="validator", overlap_days=1)
    assert made.private.name == "validator-2.key"
    later = publish(directory.parent.parent, "m", 2)
    ring.validator("validator-2").sign(later)
    gate.check(directory)
    gate.check(later)
    path = ring.folder / "keyring.json"
    document = json.loads(path.read_text())
    document["keys"][0]["not_after"] = (gate.now - timedelta(days=1)).isoformat()
    path.write_text(json.dumps(document))
    with pytest.raises(NotAdmitted, match="was to sign nothing after"):
        gate.check(directory)
    gate.check(later)


def test_a_revoked_version_never_loads_again_and_the_running_one_is_reported(
    gate: Gate, ring: Ring, directory: Path
) -> None:
    ring.validator().sign(directory)
    gate.check(directory)
    revoke_version(ring.folder, manifest_digest=digest_of(directory), name="m:1", reason="leaks customer data")
    with pytest.raises(NotAdmitted, match=r"m:1 .* was revoked at .*: leaks customer data"):
        gate.check(directory)
    assert gate.standing(directory).notes[0].startswith("REVOKED at ")


def test_a_ring_that_is_broken_while_serving_keeps_what_it_said(
    gate: Gate, ring: Ring, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ring.validator().sign(directory)
    (ring.folder / "keyring.json").write_text("{")
    with caplog.at_level(logging.ERROR):
        gate.check(directory)
    assert "what was trusted before is kept" in caplog.text


def test_a_permitted_override_admits_until_it_expires(
    gate: Gate, ring: Ring, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    denied(ring, directory)
    with pytest.raises(Refused, match="It is worse"):
        gate.check(directory)
    ring.override(directory, "alice", hours=4)
    with caplog.at_level(logging.WARNING):
        gate.check(directory)
        gate.check(directory)
    assert len(caplog.records) == 1
    assert "OVERRIDE: m:1 is admitted although it was refused: INCONCLUSIVE of the quality gate" in caplog.text
    (note,) = gate.standing(directory).notes
    assert note.startswith("OVERRIDE: INCONCLUSIVE of the quality gate was overridden by alice ")
    assert note.endswith(": the old version leaks memory")
    gate.restarted()
    gate.check(directory)
    gate.now += timedelta(hours=5)
    (note,) = gate.standing(directory).notes
    assert note.startswith("OVERRIDE EXPIRED: ")
    with pytest.raises(Refused, match=r"the override of the quality gate does not count: .* expired at"):
        gate.check(directory)


def test_a_gate_that_did_not_run_may_be_overridden_where_the_policy_says_missing(
    gate: Gate, ring: Ring, directory: Path
) -> None:
    ring.validator().sign(directory, allowed=False, denied_by=Outcome.ERROR, ran=False)
    ring.override(directory, "alice")
    gate.check(directory)
    gate.policy.write_text(POLICY.replace(', "MISSING"', ""))
    with pytest.raises(Refused, match=r"no \[\[override\]\] rule lets alice .* override MISSING of the quality gate"):
        gate.check(directory)


def by_somebody_else(ring: Ring, directory: Path) -> None:
    ring.key("bob", Role.OVERRIDE)
    ring.override(directory, "bob")


def by_the_validator(ring: Ring, directory: Path) -> None:
    ring.override(directory, "validator")


def by_a_stranger(ring: Ring, directory: Path) -> None:
    stranger = make_ring(ring.folder.parent / "elsewhere")
    stranger.override(directory, "alice")


def by_a_revoked_key(ring: Ring, directory: Path) -> None:
    ring.override(directory, "alice")
    revoke_key(ring.folder, key="alice", reason="laptop stolen")


def of_another_verdict(ring: Ring, directory: Path) -> None:
    ring.override(directory, "alice", verdict_digest="0" * 64)


def of_another_manifest(ring: Ring, directory: Path) -> None:
    ring.override(directory, "alice", manifest_digest="0" * 64)


def of_another_gate(ring: Ring, directory: Path) -> None:
    ring.override(directory, "alice", gate="skew").rename(override_path(directory, "quality"))


def for_too_long(ring: Ring, directory: Path) -> None:
    ring.override(directory, "alice", hours=9)


def expired(ring: Ring, directory: Path) -> None:
    ring.override(directory, "alice", hours=1, begins=timedelta(hours=-2))


def not_begun(ring: Ring, directory: Path) -> None:
    ring.override(directory, "alice", hours=1, begins=timedelta(hours=2))


def tampered(ring: Ring, directory: Path) -> None:
    forge(ring.override(directory, "alice"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (by_somebody_else, "rule lets bob .* override INCONCLUSIVE of the quality gate"),
        (by_the_validator, "trusted as validator, not as override"),
        (by_a_stranger, "is not trusted here"),
        (by_a_revoked_key, "compromised .* laptop stolen"),
        (of_another_verdict, "overrides another verdict"),
        (of_another_manifest, "with another manifest"),
        (of_another_gate, "is for the skew gate"),
        (for_too_long, "for at most 8 hours, not for 9"),
        (expired, "expired at"),
        (not_begun, "begins at .* only"),
        (tampered, "changed after it was signed"),
    ],
)
def test_an_override_that_is_not_right_does_not_count(
    gate: Gate, ring: Ring, directory: Path, make: Callable[[Ring, Path], None], words: str
) -> None:
    denied(ring, directory)
    make(ring, directory)
    with pytest.raises(Refused, match=f"It is worse.*does not count: .*{words}"):
        gate.check(directory)
    assert gate.standing(directory) == Standing()


def test_an_outcome_that_the_policy_does_not_name_cannot_be_overridden(gate: Gate, ring: Ring, directory: Path) -> None:
    denied(ring, directory, Outcome.FAIL)
    ring.override(directory, "alice")
    with pytest.raises(Refused, match="override FAIL of the quality gate"):
        gate.check(directory)


def test_without_a_policy_nobody_overrides(ring: Ring, directory: Path) -> None:
    denied(ring, directory)
    ring.override(directory, "alice")
    admission = VerdictAdmission([ring.folder], AdmittedDigests(None))
    with pytest.raises(Refused, match=r"no \[\[override\]\] rule"):
        admission.check(directory, *read_manifest(directory))


def test_a_new_verdict_ends_the_override_of_the_old_one(gate: Gate, ring: Ring, directory: Path) -> None:
    denied(ring, directory)
    ring.override(directory, "alice")
    gate.check(directory)
    denied(ring, directory)
    with pytest.raises(Refused, match="overrides another verdict"):
        gate.check(directory)


def test_an_expired_verdict_is_not_saved_by_an_override(gate: Gate, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory, allowed=False, denied_by=Outcome.INCONCLUSIVE, valid_for=timedelta(hours=1))
    ring.override(directory, "alice")
    gate.now += timedelta(hours=2)
    with pytest.raises(NotAdmitted, match="expired"):
        gate.check(directory)


def test_a_verdict_is_read_again_only_when_it_or_the_ring_changed(
    gate: Gate, ring: Ring, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def counted(path: Path, ring: KeyRing) -> SignedVerdict:
        reads.append(path)
        return real(path, ring)

    monkeypatch.setattr(admission, "trusted_verdict", counted)
    ring.validator().sign(directory)
    gate.check(directory)
    gate.check(directory)
    assert len(reads) == 1
    ring.validator().sign(directory, allowed=False)
    with pytest.raises(Refused):
        gate.check(directory)
    ring.validator().sign(directory)
    gate.check(directory)
    assert len(reads) == 3
    ring.key("somebody-else")
    gate.check(directory)
    assert len(reads) == 4


def test_a_memory_of_the_minor_version_before_is_read(gate: Gate, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory, valid_for=-timedelta(days=1))
    gate.memory.parent.mkdir()
    gate.memory.write_text(json.dumps({"format": "tidegate.admitted/1", "digests": [digest_of(directory)]}))
    gate.restarted().check(directory, *read_manifest(directory))
    assert verdict_path(directory).exists()
