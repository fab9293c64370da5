"""Whether a version may come in: signature, key, subject, revocation, date, decision, overrides; checked here only.

The engine asks before it aspires to a version and before it loads it, `tidegate verify` asks offline; both call the
same functions, so what one says holds for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidegate_serving.admission.envelope import Envelope
from tidegate_serving.admission.key_ring import KeyRing, Role, TrustedKey
from tidegate_serving.admission.override import Override, OverrideRule, denied_outcome, open_override, refusal
from tidegate_serving.admission.verdict import Verdict, open_verdict
from tidegate_serving.contract.errors import NotAdmitted, Refused, Tampered, TidegateError
from tidegate_serving.contract.repository import override_path
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.times import from_text


@dataclass(frozen=True, slots=True)
class SignedVerdict:
    """A verdict that a trusted validator signed. `digest` is the SHA-256 of its file in hex."""

    path: Path
    verdict: Verdict
    digest: str
    key: TrustedKey


@dataclass(frozen=True, slots=True)
class SignedOverride:
    """An override that counts now. `outcome` is how the gate came out, `digest` the SHA-256 of its file in hex."""

    path: Path
    override: Override
    outcome: str
    digest: str
    key: TrustedKey

    def __str__(self) -> str:
        one = self.override
        return f"{self.outcome} of the {one.gate} gate is overridden by {self.key} until {one.expires_at}: {one.reason}"


def trusted_verdict(path: Path, ring: KeyRing) -> SignedVerdict:
    """The verdict in a file, once a trusted validator's signature is found on it.

    NotAdmitted where there is no file, or no key that counts; Tampered where bytes were changed.
    """
    envelope = open_verdict(path)
    key = _signer(envelope, ring, Role.VALIDATOR, "run `tidegate validate` again")
    verdict = Verdict.from_dict(envelope.predicate(), str(path))
    _check_key(key, verdict.issued_at, path, "validate this version again with a key that is trusted now")
    return SignedVerdict(path, verdict, envelope.digest, key)


def check_subject(signed: SignedVerdict, id: ServableId, manifest_digest: str, manifest: Path) -> None:
    """Tampered unless the verdict was signed for exactly this manifest."""
    verdict = signed.verdict
    if verdict.id != id or verdict.manifest_digest != manifest_digest:
        raise Tampered(
            f"{manifest} is not what {signed.path} was signed for "
            f"({verdict.id}, SHA-256 {verdict.manifest_digest[:12]}): validate this version again"
        )


def check_not_revoked(ring: KeyRing, id: ServableId, manifest_digest: str) -> None:
    """NotAdmitted for a version that was revoked."""
    revoked = ring.revoked_versions.get(manifest_digest)
    if revoked is not None:
        raise NotAdmitted(
            f"{id} (SHA-256 {manifest_digest[:12]}) was revoked at {revoked.at}: {revoked.reason}; "
            "publish a mended version under a new number"
        )


def check_date(signed: SignedVerdict, at: datetime) -> None:
    """NotAdmitted for a verdict whose time is over."""
    expires = from_text(signed.verdict.expires_at, f"expires_at of {signed.path}")
    if expires < at:
        raise NotAdmitted(
            f"{signed.path} expired at {signed.verdict.expires_at}: run `tidegate validate` on this version again"
        )


def overrides_for(
    signed: SignedVerdict, directory: Path, ring: KeyRing, rules: Sequence[OverrideRule], at: datetime
) -> tuple[SignedOverride, ...]:
    """What lets a version in that its verdict denies: an override that counts for each gate that denies.

    Refused, with the verdict's sentence and what is wrong with the overrides that there are, where one is lacking.
    """
    found = []
    complaints = []
    for gate in signed.verdict.denied_by:
        try:
            path = override_path(directory, gate)
            if not path.exists():
                complaints.append("")
                continue
            found.append(counting_override(path, signed, gate, ring, rules, at))
        except TidegateError as error:
            complaints.append(f"; the override of the {gate} gate does not count: {error.message}")
    if complaints:
        said = signed.verdict.sentence.rstrip(".")
        raise Refused(f"{signed.path} says no: {said}{''.join(complaints)}")
    return tuple(found)


def counting_override(
    path: Path, signed: SignedVerdict, gate: str, ring: KeyRing, rules: Sequence[OverrideRule], at: datetime
) -> SignedOverride:
    """The override in a file, once all about it is found right; else NotAdmitted or Tampered saying what is not."""
    envelope = open_override(path)
    key = _signer(envelope, ring, Role.OVERRIDE, "make it again with `tidegate override`")
    override = Override.from_dict(envelope.predicate(), str(path))
    _check_key(key, override.issued_at, path, "override again with a key that is trusted now")
    if (override.id, override.manifest_digest, override.gate) != (
        signed.verdict.id,
        signed.verdict.manifest_digest,
        gate,
    ):
        raise Tampered(f"{path} is for the {override.gate} gate of {override.id} with another manifest: make it again")
    if override.verdict_digest != signed.digest:
        raise NotAdmitted(
            f"{path} overrides another verdict than {signed.path}: look at the new one, override it again"
        )
    outcome = denied_outcome(signed.verdict, gate)
    if (why := refusal(rules, key, gate, outcome, override.hours)) is not None:
        raise NotAdmitted(f"{why}: ask somebody who may, or change the policy that the engine's operator trusts")
    if from_text(override.issued_at, f"issued_at of {path}") > at:
        raise NotAdmitted(f"{path} begins at {override.issued_at} only: mend the clock, or make it again")
    if from_text(override.expires_at, f"expires_at of {path}") <= at:
        raise NotAdmitted(f"{path} expired at {override.expires_at}: mend the version, or override again")
    return SignedOverride(path, override, outcome, envelope.digest, key)


def _signer(envelope: Envelope, ring: KeyRing, role: Role, cure: str) -> TrustedKey:
    """The first trusted key of that role whose signature is right."""
    known = [ring.keys[name] for name in envelope.signatures if name in ring.keys]
    if not known:
        signers = ", ".join(envelope.signatures) or "nobody"
        raise NotAdmitted(
            f"{envelope.path} is signed by {signers}, which is not trusted here: add the public key of who may sign it"
        )
    fitting = [key for key in known if key.role is role]
    if not fitting:
        raise NotAdmitted(f"{envelope.path} is signed by {known[0]}, trusted as {known[0].role}, not as {role}: {cure}")
    for key in fitting:
        if envelope.signed_by(key.id, key.public()):
            return key
    raise Tampered(f"{envelope.path} was changed after it was signed: {cure}")


def _check_key(key: TrustedKey, signed_at: str, path: Path, cure: str) -> None:
    why = key.refusal(from_text(signed_at, f"issued_at of {path}"))
    if why is not None:
        raise NotAdmitted(f"{path} does not count, {why}; {cure}")
