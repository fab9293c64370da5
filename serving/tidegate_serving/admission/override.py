"""A break-glass override: somebody with the right to it lets one version in although one gate said no, for a while.

`tidegate override` writes them beside the version, one signed document per gate, bound to the manifest and to the
verdict that it overrides; engines, `tidegate verify` and reports read them through `admittance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.admission.envelope import Envelope, open_envelope, seal
from tidegate_serving.contract.errors import InvalidInput, Tampered
from tidegate_serving.contract.formats import check_format
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.times import from_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PAYLOAD_TYPE = "application/vnd.tidegate.override+json"
VERSION = "1"


@dataclass(frozen=True, slots=True)
class Override:
    """One gate's no, overridden. `manifest_digest` and `verdict_digest` are SHA-256 in hex of the version's manifest
    and of the verdict's file; times are RFC 3339 in UTC. InvalidInput without a reason, or where it ends before it
    begins.
    """

    id: ServableId
    manifest_digest: str
    verdict_digest: str
    gate: str
    reason: str
    issued_at: str
    expires_at: str

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise InvalidInput(f"the override of the {self.gate} gate for {self.id} has no reason: give one")
        if self.hours <= 0:
            raise InvalidInput(
                f"the override of the {self.gate} gate for {self.id} expires at {self.expires_at}, "
                f"not after {self.issued_at}: let it last longer"
            )

    @property
    def hours(self) -> float:
        """How long it lasts."""
        lasting = from_text(self.expires_at, "expires_at") - from_text(self.issued_at, "issued_at")
        return lasting.total_seconds() / 3600

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its format tag."""
        return {
            "format": f"tidegate.override/{VERSION}",
            "name": self.id.name,
            "version": self.id.version,
            "manifest_digest": self.manifest_digest,
            "verdict_digest": self.verdict_digest,
            "gate": self.gate,
            "reason": self.reason,
            "issued_at": self.issued_at,
            "expires_at": self.expires_at,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str) -> Override:
        """From JSON; Tampered, naming `where`, when a key is missing or a value is unusable."""
        check_format(data, kind="override", version=VERSION, where=where)
        try:
            return cls(
                id=ServableId(data["name"], int(data["version"])),
                manifest_digest=str(data["manifest_digest"]),
                verdict_digest=str(data["verdict_digest"]),
                gate=str(data["gate"]),
                reason=str(data["reason"]),
                issued_at=data["issued_at"],
                expires_at=data["expires_at"],
            )
        except (KeyError, TypeError, ValueError, InvalidInput) as error:
            raise Tampered(f"{where} is no usable override ({error}): make it again") from error


def write_override(override: Override, path: Path, key: Ed25519PrivateKey) -> str:
    """Signs the override and renames the envelope into place; returns the SHA-256 of the file's bytes in hex."""
    return seal(override.to_dict(), PAYLOAD_TYPE, path, key)


def open_override(path: Path) -> Envelope:
    """An override's envelope, nothing checked yet. NotAdmitted or Tampered, naming the file."""
    return open_envelope(path, PAYLOAD_TYPE, "make it again with `tidegate override`")
