"""Break-glass overrides at the engine's gate: which count, for how long, and which do not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.models.versions import forge
from tests.support.release.rings import Ring, make_ring
from tests.support.release.trust_gate import POLICY, TrustGate

from tidegate_operators.steps.keys import revoke_key
from tidegate_serving.admission import AdmissionRecords, Outcome, Role, Standing, VerdictAdmission
from tidegate_serving.contract.errors import NotAdmitted, Refused
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import override_path


def denied(ring: Ring, directory: Path, outcome: Outcome = Outcome.INCONCLUSIVE) -> Path:
    """A version that the quality gate refused."""
    ring.validator().sign(directory, allowed=False, denied_by=outcome)
    return directory


def test_a_permitted_override_admits_until_it_expires(
    gate: TrustGate, ring: Ring, directory: Path, caplog: pytest.LogCaptureFixture
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
    assert gate.standing(directory).overridden == ("quality",)
    assert note.startswith("OVERRIDE: INCONCLUSIVE of the quality gate was overridden by alice ")
    assert note.endswith(": the old version leaks memory")
    gate.restarted()
    gate.check(directory)
    gate.now += timedelta(hours=5)
    (note,) = gate.standing(directory).notes
    assert gate.standing(directory).overridden == ()
    assert note.startswith("OVERRIDE EXPIRED: ")
    with pytest.raises(Refused, match=r"the override of the quality gate does not count: .* expired at"):
        gate.check(directory)


def test_a_gate_that_did_not_run_may_be_overridden_where_the_policy_says_missing(
    gate: TrustGate, ring: Ring, directory: Path
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
    gate: TrustGate, ring: Ring, directory: Path, make: Callable[[Ring, Path], None], words: str
) -> None:
    denied(ring, directory)
    make(ring, directory)
    with pytest.raises(Refused, match=f"It is worse.*does not count: .*{words}"):
        gate.check(directory)
    assert gate.standing(directory) == Standing()


def test_an_outcome_that_the_policy_does_not_name_cannot_be_overridden(
    gate: TrustGate, ring: Ring, directory: Path
) -> None:
    denied(ring, directory, Outcome.FAIL)
    ring.override(directory, "alice")
    with pytest.raises(Refused, match="override FAIL of the quality gate"):
        gate.check(directory)


def test_without_a_policy_nobody_overrides(ring: Ring, directory: Path) -> None:
    denied(ring, directory)
    ring.override(directory, "alice")
    admission = VerdictAdmission([ring.folder], AdmissionRecords(None))
    with pytest.raises(Refused, match=r"no \[\[override\]\] rule"):
        admission.check(directory, *read_manifest(directory))


def test_a_new_verdict_ends_the_override_of_the_old_one(gate: TrustGate, ring: Ring, directory: Path) -> None:
    denied(ring, directory)
    ring.override(directory, "alice")
    gate.check(directory)
    denied(ring, directory)
    with pytest.raises(Refused, match="overrides another verdict"):
        gate.check(directory)


def test_an_expired_verdict_is_not_saved_by_an_override(gate: TrustGate, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory, allowed=False, denied_by=Outcome.INCONCLUSIVE, valid_for=timedelta(hours=1))
    ring.override(directory, "alice")
    gate.now += timedelta(hours=2)
    with pytest.raises(NotAdmitted, match="expired"):
        gate.check(directory)
