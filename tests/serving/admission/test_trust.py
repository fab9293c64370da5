"""Key rings at the engine's gate: who is trusted, until when, and what a revocation ends."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.models.versions import digest_of, publish
from tests.support.release.rings import Ring
from tests.support.release.trust_gate import TrustGate

from tidegate_operators.steps.keys import revoke_key, revoke_version, rotate_key
from tidegate_serving.admission import KeyRing, SignedVerdict, Standing, admission
from tidegate_serving.admission import trusted_verdict as real
from tidegate_serving.admission.trust import read_trust
from tidegate_serving.contract.errors import NotAdmitted, NotFound, Refused
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import verdict_path


def test_a_ring_admits_by_its_validators_and_remembers_who(gate: TrustGate, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory)
    gate.check(directory)
    record = gate.standing(directory).record
    assert record is not None
    assert (record.name, record.key_name, record.overrides) == ("m:1", "validator", ())
    gate.restarted()
    assert gate.standing(directory) == Standing(record)


def test_who_may_override_may_not_sign_verdicts(gate: TrustGate, ring: Ring, directory: Path) -> None:
    ring.validator("alice").sign(directory)
    with pytest.raises(NotAdmitted, match=r"signed by alice .* trusted as override, not as validator"):
        gate.check(directory)


def test_a_compromised_key_counts_no_more_from_the_next_check_on(gate: TrustGate, ring: Ring, directory: Path) -> None:
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


def test_what_a_replaced_key_signed_before_stands_and_nothing_after(
    gate: TrustGate, ring: Ring, directory: Path
) -> None:
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


def test_rotation_overlaps(gate: TrustGate, ring: Ring, directory: Path) -> None:
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
    gate: TrustGate, ring: Ring, directory: Path
) -> None:
    ring.validator().sign(directory)
    gate.check(directory)
    revoke_version(ring.folder, manifest_digest=digest_of(directory), name="m:1", reason="leaks customer data")
    with pytest.raises(NotAdmitted, match=r"m:1 .* was revoked at .*: leaks customer data"):
        gate.check(directory)
    assert gate.standing(directory).notes[0].startswith("REVOKED at ")


@pytest.mark.parametrize("name", ["hub/keys", "hub/keys/keyring.json", "validator.pub"])
def test_what_is_trusted_before_anybody_made_it_is_said_to_be_brought_or_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound) as missing:
        read_trust([tmp_path / name])
    assert str(tmp_path / name) in missing.value.message
    for cure in ("lies beside the validator's private key", "`tidegate keys new`", "`tidegate hub` makes its own"):
        assert cure in missing.value.message


def test_a_ring_that_is_broken_while_serving_keeps_what_it_said(
    gate: TrustGate, ring: Ring, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ring.validator().sign(directory)
    (ring.folder / "keyring.json").write_text("{")
    with caplog.at_level(logging.ERROR):
        gate.check(directory)
    assert "what was trusted before is kept" in caplog.text


def test_a_verdict_is_read_again_only_when_it_or_the_ring_changed(
    gate: TrustGate, ring: Ring, directory: Path, monkeypatch: pytest.MonkeyPatch
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


def test_a_memory_of_the_next_minor_version_is_read(gate: TrustGate, ring: Ring, directory: Path) -> None:
    ring.validator().sign(directory)
    gate.check(directory)
    written = json.loads(gate.memory.read_text())
    gate.memory.write_text(json.dumps({**written, "format": "tidegate.admitted/2.1", "more": 1}) + "\n")
    ring.validator().sign(directory, valid_for=-timedelta(days=1))
    gate.restarted().check(directory, *read_manifest(directory))
    assert verdict_path(directory).exists()
