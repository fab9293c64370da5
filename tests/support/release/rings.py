"""Key rings for tests: validators and people who may override, each with a private key beside the ring."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.models.versions import Validator

from tidegate_operators.steps.keys import new_key
from tidegate_serving.admission import Override, Role, load_private_key, open_verdict, write_override
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import override_path, verdict_path


@dataclass(frozen=True)
class Ring:
    """A folder with `keyring.json` and the private keys of everybody in it."""

    folder: Path

    def key(self, name: str, role: Role = Role.VALIDATOR) -> str:
        """Makes a key of that name; its id."""
        return new_key(self.folder, name=name, role=role).key.id

    def validator(self, name: str = "validator") -> Validator:
        """Whoever signs verdicts with the key of that name."""
        return Validator(self.folder / f"{name}.key", self.folder / f"{name}.pub")

    def override(
        self,
        directory: Path,
        by: str,
        *,
        gate: str = "quality",
        hours: float = 4.0,
        begins: timedelta = timedelta(minutes=-1),
        verdict_digest: str | None = None,
        manifest_digest: str | None = None,
    ) -> Path:
        """An override of one gate, signed with the key `by`; its path."""
        manifest, digest = read_manifest(directory)
        start = datetime.now(UTC) + begins
        override = Override(
            id=manifest.id,
            manifest_digest=manifest_digest or digest,
            verdict_digest=verdict_digest or open_verdict(verdict_path(directory)).digest,
            gate=gate,
            reason="the old version leaks memory",
            issued_at=start.isoformat(),
            expires_at=(start + timedelta(hours=hours)).isoformat(),
        )
        path = override_path(directory, gate)
        write_override(override, path, load_private_key(self.folder / f"{by}.key"))
        return path


def make_ring(folder: Path) -> Ring:
    """A ring with a `validator` and, who may override, `alice`."""
    ring = Ring(folder)
    ring.key("validator")
    ring.key("alice", Role.OVERRIDE)
    return ring
