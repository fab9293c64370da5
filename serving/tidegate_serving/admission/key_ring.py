"""The key ring: whose signatures count, since when, until when, and what was revoked. A value, and its JSON document.

`tidegate keys` writes rings, engines and `tidegate verify` read them through `trust`; a ring holds public keys only and
is itself protected by who may write its file.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate_serving.admission.keys import key_id
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.times import from_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FILE_NAME = "keyring.json"
VERSION = "1"


class Role(enum.StrEnum):
    """What a key may sign: verdicts, or overrides of verdicts. Never both, so that no one key can do everything."""

    VALIDATOR = "validator"
    OVERRIDE = "override"


@dataclass(frozen=True, slots=True)
class Revocation:
    """When and why a key was revoked. What a compromised key signed never counts, at whatever date it claims; of a key
    that was merely replaced, what it signed before that moment stands."""

    at: str
    reason: str
    compromised: bool


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """One public key. `id` follows from its 32 bytes; `name` is a person's or a machine's and may outlive a rotation.

    After `not_after` it signs nothing new; what it signed before stands.
    """

    id: str
    name: str
    role: Role
    public_key: bytes
    created_at: str
    not_after: str | None = None
    revoked: Revocation | None = None
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.name} (key {self.id})"

    def public(self) -> Ed25519PublicKey:
        """The key itself."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return Ed25519PublicKey.from_public_bytes(self.public_key)

    def refusal(self, signed_at: datetime) -> str | None:
        """Why a signature of that moment does not count, or None where it does."""
        if self.revoked is not None:
            if self.revoked.compromised:
                return f"{self} was revoked as compromised at {self.revoked.at}: {self.revoked.reason}"
            if signed_at > from_text(self.revoked.at, f"the revocation of key {self.id}"):
                return f"{self} was revoked at {self.revoked.at} ({self.revoked.reason}) and signed after that"
        if self.not_after is not None and signed_at > from_text(self.not_after, f"not_after of key {self.id}"):
            return f"{self} was to sign nothing after {self.not_after}"
        return None


@dataclass(frozen=True, slots=True)
class RevokedVersion:
    """A version that shall never load again, whatever its verdict says; `name` is for people, such as `flights:3`."""

    manifest_digest: str
    name: str
    at: str
    reason: str


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys by id, and revoked versions by manifest digest."""

    keys: Mapping[str, TrustedKey]
    revoked_versions: Mapping[str, RevokedVersion]

    @classmethod
    def of(cls, keys: Iterable[TrustedKey] = (), revoked: Iterable[RevokedVersion] = ()) -> KeyRing:
        """A ring of these. InvalidInput for a key that is there twice."""
        by_id: dict[str, TrustedKey] = {}
        for key in keys:
            if key.id in by_id:
                raise InvalidInput(f"key {key.id} is in the ring twice: remove one")
            by_id[key.id] = key
        return cls(by_id, {one.manifest_digest: one for one in revoked})

    def named(self, text: str) -> tuple[TrustedKey, ...]:
        """The keys of a name, or the one of an id."""
        return tuple(key for key in self.keys.values() if text in (key.id, key.name))

    def with_key(self, key: TrustedKey) -> KeyRing:
        """The ring with this key added, or put in the place of the one with its id."""
        return KeyRing({**self.keys, key.id: key}, self.revoked_versions)

    def with_revoked(self, version: RevokedVersion) -> KeyRing:
        """The ring with this version revoked."""
        return KeyRing(self.keys, {**self.revoked_versions, version.manifest_digest: version})

    def joined(self, other: KeyRing) -> KeyRing:
        """Both together; where both know a key, whatever limits it in either limits it. InvalidInput for two roles."""
        keys = dict(self.keys)
        for key in other.keys.values():
            keys[key.id] = _strictest(keys[key.id], key) if key.id in keys else key
        return KeyRing(keys, {**self.revoked_versions, **other.revoked_versions})

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its format tag."""
        return {
            "format": f"tidegate.keyring/{VERSION}",
            "keys": [_key_document(key) for key in self.keys.values()],
            "revoked_versions": [asdict(version) for version in self.revoked_versions.values()],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], where: str) -> KeyRing:
        """From JSON. InvalidInput or Unsupported, naming `where`, for what is no ring."""
        check_format(document, kind="keyring", version=VERSION, where=where)
        try:
            keys = [_key(entry) for entry in document["keys"]]
            revoked = [_revoked_version(entry) for entry in document["revoked_versions"]]
        except MALFORMED as error:
            raise InvalidInput(f"{where} is no usable key ring ({type(error).__name__}: {error}): mend it") from error
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from error
        return cls.of(keys, revoked)


def _strictest(one: TrustedKey, other: TrustedKey) -> TrustedKey:
    if one.role is not other.role:
        raise InvalidInput(
            f"{one} is trusted as {one.role} in one place and as {other.role} in another: a key has one role"
        )
    revocations = [key.revoked for key in (one, other) if key.revoked is not None]
    ends = [key.not_after for key in (one, other) if key.not_after is not None]
    worst = min(revocations, key=lambda revoked: (not revoked.compromised, from_text(revoked.at, "at")), default=None)
    return replace(one, revoked=worst, not_after=min(ends, key=lambda end: from_text(end, "not_after"), default=None))


def _key_document(key: TrustedKey) -> dict[str, Any]:
    return {**asdict(key), "public_key": base64.b64encode(key.public_key).decode()}


def _key(entry: Mapping[str, Any]) -> TrustedKey:
    public_key = base64.b64decode(entry["public_key"], validate=True)
    if len(public_key) != 32 or key_id(public_key) != entry["id"]:
        raise ValueError(f"key {entry['id']!r} is not the id of its public key")
    revoked = entry["revoked"]
    key = TrustedKey(
        id=entry["id"],
        name=str(entry["name"]),
        role=Role(entry["role"]),
        public_key=public_key,
        created_at=str(entry["created_at"]),
        not_after=entry["not_after"],
        revoked=None if revoked is None else _revocation(revoked),
        comment=str(entry.get("comment", "")),
    )
    for what, moment in (("not_after", key.not_after), ("revoked.at", key.revoked.at if key.revoked else None)):
        if moment is not None:
            from_text(moment, f"{what} of key {key.id}")
    return key


def _revocation(entry: Mapping[str, Any]) -> Revocation:
    if not isinstance(entry["compromised"], bool):
        raise ValueError(f"compromised is {entry['compromised']!r}: use true or false")
    return Revocation(str(entry["at"]), str(entry["reason"]), entry["compromised"])


def _revoked_version(entry: Mapping[str, Any]) -> RevokedVersion:
    return RevokedVersion(
        str(entry["manifest_digest"]), str(entry.get("name", "")), str(entry["at"]), str(entry["reason"])
    )
