"""The admission of one engine with a key ring and a policy of overrides, for tests that set its clock.

Tests make a `Ring`, sign and override, and ask what is admitted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.support.models.versions import digest_of
from tests.support.release.rings import Ring

from tidegate_serving.admission import AdmissionRecords, Standing, VerdictAdmission
from tidegate_serving.contract.manifest import read_manifest

POLICY = """
[[override]]
keys = ["alice"]
gates = ["quality"]
outcomes = ["INCONCLUSIVE", "MISSING"]
most_hours = 8
"""


class TrustGate:
    """One engine's gate, with a clock that a test sets; a restarted one reads the same memory."""

    def __init__(self, folder: Path, ring: Ring) -> None:
        self.ring = ring
        self.memory = folder / "state" / "admitted.jsonl"
        self.policy = folder / "policy.toml"
        self.policy.write_text(POLICY)
        self.now = datetime.now(UTC)
        self.admission = self.restarted()

    def restarted(self) -> VerdictAdmission:
        self.admission = VerdictAdmission(
            [self.ring.folder], AdmissionRecords(self.memory), self.policy, clock=lambda: self.now
        )
        return self.admission

    def check(self, directory: Path) -> None:
        manifest, digest = read_manifest(directory)
        self.admission.check(directory, manifest, digest)

    def standing(self, directory: Path) -> Standing:
        return self.admission.standing(digest_of(directory))
