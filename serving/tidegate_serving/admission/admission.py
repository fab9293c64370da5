"""The gate, engine side: a version comes in only with a verdict that a trusted key signed for exactly its manifest.

Sources ask before they aspire to a version, loaders ask again right before they load it. A digest that was admitted
once is remembered, so that a rollback never fails because a verdict's date has passed, and so it is with one that
another engine of the fleet or group admitted; an override admits until it expires.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from tidegate_serving.admission.key_ring import KeyRing
from tidegate_serving.admission.override import OverrideRule, read_override_rules
from tidegate_serving.admission.records import AdmissionRecord, AdmissionRecords, OverrideRecord
from tidegate_serving.admission.rules import (
    SignedOverride,
    SignedVerdict,
    check_date,
    check_not_revoked,
    check_subject,
    overrides_for,
    trusted_verdict,
)
from tidegate_serving.admission.trust import FileMark, FileWatch, file_mark, watch_trust
from tidegate_serving.admission.verdict import Outcome
from tidegate_serving.contract import times
from tidegate_serving.contract.manifest import FILE_NAME, Manifest
from tidegate_serving.contract.repository import verdict_path

_log = logging.getLogger(__name__)
_NO_JUDGEMENT = (Outcome.ERROR, Outcome.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a version came in, None where nothing is remembered, what somebody who looks at it has to know, and the gates
    whose no is overridden now."""

    record: AdmissionRecord | None = None
    notes: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()

    @property
    def overdue(self) -> tuple[str, ...]:
        """The notes that say that it would not be let in again."""
        return tuple(note for note in self.notes if note.startswith(_OVERDUE))


class Admission(Protocol):
    """Says whether a version may serve, and by what right one does."""

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """Returns, or raises NotAdmitted, Tampered or Refused with the file and the cure."""

    def vouch(self, digests: Collection[str]) -> None:
        """Another engine of the fleet or group admitted these manifests: the date of their verdicts is no reason to
        refuse them here, while all else is checked."""

    def standing(self, digest: str) -> Standing:
        """How the version with this manifest came in, and whether that right still stands."""

    def mark(self) -> object:
        """Equal to an earlier one as long as no standing has changed since."""


class VerdictAdmission:
    """Admits what a trusted key's verdict allows, or an override that the policy permits; both lie beside the version
    directory. Keys and policy are read again when their files change. `clock` gives the time, with its zone."""

    def __init__(
        self,
        trusted_keys: Sequence[Path],
        admitted: AdmissionRecords,
        override_policy: Path | None = None,
        clock: Callable[[], datetime] = times.now,
    ) -> None:
        self._ring: FileWatch[KeyRing] = watch_trust(trusted_keys)
        self._rules = _watch_rules(override_policy)
        self._admitted = admitted
        self._clock = clock
        self._vouched: set[str] = set()
        self._warned: set[str] = set()
        self._seen: dict[Path, tuple[FileMark | None, KeyRing, SignedVerdict]] = {}

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """Revocation, signature, digest and decision are checked each time, the date only before the first admission,
        and not of what another engine admitted, unless this one has seen it refused since.

        A later FAIL takes the leave of an admitted digest back; a judgement that could not be made does not.
        """
        ring, at = self._ring.value(), self._clock()
        check_not_revoked(ring, manifest.id, digest)
        signed = self._signed(verdict_path(directory), ring)
        check_subject(signed, manifest.id, digest, directory / FILE_NAME)
        verdict = signed.verdict
        if verdict.allowed:
            if digest not in self._admitted and not self._is_vouched(digest):
                check_date(signed, at)
            self._admitted.add(_record(signed, at))
        elif digest in self._admitted and verdict.outcome in _NO_JUDGEMENT:
            self._warn_once(
                f"{signed.path} could not judge {manifest.id} again, which was admitted before: {verdict.sentence}"
            )
        else:
            self._admitted.withdraw(digest)
            overrides = overrides_for(signed, directory, ring, self._rules.value(), at)
            check_date(signed, at)
            for override in overrides:
                self._warn_once(f"OVERRIDE: {manifest.id} is admitted although it was refused: {override}")
            self._admitted.add(_record(signed, at, overrides))

    def vouch(self, digests: Collection[str]) -> None:
        """Until the engine ends; what is admitted by it is remembered as any other."""
        self._vouched.update(digests)

    def standing(self, digest: str) -> Standing:
        """From memory and key ring alone; no file of the version is read."""
        ring, record, at = self._ring.value(), self._admitted.record(digest), self._clock()
        notes, gates = [], []
        if (revoked := ring.revoked_versions.get(digest)) is not None:
            notes.append(f"REVOKED at {revoked.at}: {revoked.reason}; {_STAYS}")
        if record is not None:
            if record.withdrawn:
                notes.append(f"REFUSED LATER: a newer verdict says no; {_STAYS}")
            notes += _key_notes(ring, record)
            notes += [_override_note(override, at) for override in record.overrides]
            gates = [override.gate for override in record.overrides if not _is_over(override, at)]
        return Standing(record, tuple(notes), tuple(gates))

    def mark(self) -> object:
        """Changes with the key ring, with a verdict that refuses what was admitted, and when an override expires."""
        at = self._clock()
        expired = sum(_is_over(one, at) for record in self._admitted.overridden() for one in record.overrides)
        return self._ring.value(), expired, self._admitted.withdrawals

    def _is_vouched(self, digest: str) -> bool:
        return digest in self._vouched and self._admitted.record(digest) is None

    def _signed(self, path: Path, ring: KeyRing) -> SignedVerdict:
        """The verdict without its findings, read again only when file or ring changed: sources ask at every poll."""
        mark = file_mark(path)
        known = self._seen.get(path)
        if known is not None and known[0] == mark and known[1] is ring:
            return known[2]
        whole = trusted_verdict(path, ring)
        gates = tuple(replace(gate, findings=()) for gate in whole.verdict.gates)
        signed = replace(whole, verdict=replace(whole.verdict, gates=gates))
        self._seen[path] = mark, ring, signed
        return signed

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)


class AdmitUnverified:
    """Admits everything, loudly; for development."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """Warns once per version."""
        if digest not in self._warned:
            self._warned.add(digest)
            _log.warning(
                "UNVERIFIED: %s in %s is admitted without a verdict (allow_unverified)", manifest.id, directory
            )

    def vouch(self, digests: Collection[str]) -> None:
        """Changes nothing."""

    def standing(self, digest: str) -> Standing:
        """Says so."""
        return Standing(notes=("UNVERIFIED: admitted without a verdict (allow_unverified)",))

    def mark(self) -> object:
        """Never changes."""
        return None


class LiveAdmission:
    """An `Admission` that asks `now`, which a reload of the config replaces while the engine runs."""

    def __init__(self, now: Admission) -> None:
        self.now = now

    def check(self, directory: Path, manifest: Manifest, digest: str) -> None:
        """What the present admission says."""
        self.now.check(directory, manifest, digest)

    def vouch(self, digests: Collection[str]) -> None:
        """To the present admission."""
        self.now.vouch(digests)

    def standing(self, digest: str) -> Standing:
        """By what right a version serves, as the present admission knows it."""
        return self.now.standing(digest)

    def mark(self) -> object:
        """Changes with the present admission's, and with the admission itself."""
        now = self.now
        return id(now), now.mark()


_OVERDUE = ("REVOKED", "REFUSED LATER", "KEY REVOKED", "KEY NO LONGER TRUSTED", "OVERRIDE EXPIRED")
_STAYS = "what serves now goes on serving, and it will not load again"


def _watch_rules(policy: Path | None) -> FileWatch[tuple[OverrideRule, ...]]:
    if policy is None:
        return FileWatch((), tuple)
    return FileWatch((policy,), lambda: read_override_rules(policy))


def _record(signed: SignedVerdict, at: datetime, overrides: Sequence[SignedOverride] = ()) -> AdmissionRecord:
    return AdmissionRecord(
        manifest_digest=signed.verdict.manifest_digest,
        name=str(signed.verdict.id),
        verdict_digest=signed.digest,
        key_id=signed.key.id,
        key_name=signed.key.name,
        admitted_at=times.to_text(at),
        overrides=tuple(
            OverrideRecord(
                gate=one.override.gate,
                outcome=one.outcome,
                key_id=one.key.id,
                key_name=one.key.name,
                reason=one.override.reason,
                expires_at=one.override.expires_at,
            )
            for one in overrides
        ),
    )


def _key_notes(ring: KeyRing, record: AdmissionRecord) -> list[str]:
    """What became of the keys that let a version in."""
    signers = [(record.key_id, record.key_name), *((one.key_id, one.key_name) for one in record.overrides)]
    notes = []
    for key_id, name in dict.fromkeys(signer for signer in signers if signer[0]):
        key = ring.keys.get(key_id)
        if key is None:
            notes.append(
                f"KEY NO LONGER TRUSTED: {name} (key {key_id}), which let it in, is not in the key ring; {_STAYS}"
            )
        elif key.revoked is not None and key.revoked.compromised:
            notes.append(f"KEY REVOKED: {key.refusal(times.from_text(record.admitted_at, 'admitted_at'))}; {_STAYS}")
    return notes


def _is_over(override: OverrideRecord, at: datetime) -> bool:
    return times.from_text(override.expires_at, "expires_at") <= at


def _override_note(override: OverrideRecord, at: datetime) -> str:
    words = (
        f"{override.outcome} of the {override.gate} gate was overridden by {override.key_name} "
        f"(key {override.key_id}) until {override.expires_at}: {override.reason}"
    )
    if not _is_over(override, at):
        return f"OVERRIDE: {words}"
    return f"OVERRIDE EXPIRED: {words}; {_STAYS}: roll back, mend the version, or override again"
