"""Overrides one gate's no for one version, for a while: somebody's signed word, beside the version's verdict.

An engine counts it only where its own key ring and policy permit it; what they would refuse is refused here already, as
far as it can be known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tidegate_serving.admission import (
    Envelope,
    Override,
    Role,
    TrustedKey,
    Verdict,
    check_subject,
    denied_outcome,
    key_id,
    load_private_key,
    open_override,
    open_verdict,
    read_override_rules,
    read_trust,
    refusal,
    trusted_verdict,
    write_override,
)
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import InvalidInput, PermissionRefused, Tampered
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, read_manifest
from tidegate_serving.contract.repository import override_path, report_directory, verdict_path


@dataclass(frozen=True, slots=True)
class WrittenOverride:
    """An override that was written: where it lies, what it says, how the gate had come out, and by which key."""

    path: Path
    override: Override
    outcome: str
    key: TrustedKey


@dataclass(frozen=True, slots=True)
class OverrideRequest:
    """What shall be overridden: the `gate`'s no, for `lasting`, because of `reason`."""

    gate: str
    reason: str
    lasting: timedelta


def override_gate(
    *, directory: Path, request: OverrideRequest, private_key: Path, policy: Path, trusted: Path | None = None
) -> WrittenOverride:
    """Writes the override of one gate's no, signed with `private_key`; one that was there for that gate is replaced.

    `policy` is the file whose [[override]] rules the engine trusts; `trusted` the key ring, which says what the key is
    called. Without it the key goes by the name of its file. PermissionRefused where no rule permits it, InvalidInput
    for a gate that denies nothing.
    """
    directory = directory.absolute()
    secret = load_private_key(private_key)
    rules = read_override_rules(policy)
    key = _named(secret.public_key().public_bytes_raw(), private_key.stem, trusted)
    manifest, digest = read_manifest(directory)
    envelope, verdict = _verdict(directory, manifest, digest, trusted)
    _check_gate(verdict, request.gate)
    now = times.now()
    override = Override(
        id=manifest.id,
        manifest_digest=digest,
        verdict_digest=envelope.digest,
        gate=request.gate,
        reason=request.reason,
        issued_at=times.to_text(now),
        expires_at=times.to_text(now + request.lasting),
    )
    outcome = denied_outcome(verdict, request.gate)
    if (why := refusal(rules, key, request.gate, outcome, override.hours)) is not None:
        raise PermissionRefused(f"{policy}: {why}")
    path = override_path(directory, request.gate)
    write_override(override, path, secret)
    _write_report(directory, verdict, envelope)
    return WrittenOverride(path, override, outcome, key)


def _write_report(directory: Path, verdict: Verdict, envelope: Envelope) -> None:
    """Writes the page anew, where there is one, with every override of this verdict that lies beside it."""
    from tidegate_validation.report import OverrideLine, Seal, write_report

    folder = report_directory(directory)
    if not folder.is_dir():
        return
    lines = []
    for gate in verdict.denied_by:
        path = override_path(directory, gate)
        if not path.exists():
            continue
        opened = open_override(path)
        one = Override.from_dict(opened.predicate(), str(path))
        if one.verdict_digest == envelope.digest:
            by = f"key {', '.join(opened.signatures)}"
            lines.append(OverrideLine(gate, denied_outcome(verdict, gate), by, one.reason, one.expires_at))
    seal = Seal(", ".join(envelope.signatures), envelope.digest, tuple(lines))
    write_report(verdict, folder, seal, directory)


def _named(public_key: bytes, stem: str, trusted: Path | None) -> TrustedKey:
    name = key_id(public_key)
    if trusted is None:
        return TrustedKey(name, stem, Role.OVERRIDE, public_key, times.to_text(times.now()))
    known = read_trust([trusted]).keys.get(name)
    if known is None:
        raise PermissionRefused(f"key {name} is not in {trusted}: have it added, `tidegate keys add --role override`")
    if known.role is not Role.OVERRIDE:
        raise PermissionRefused(f"{known} is trusted as {known.role} in {trusted}, not as override: use another key")
    if (why := known.refusal(times.now())) is not None:
        raise PermissionRefused(f"{trusted}: {why}")
    return known


def _verdict(directory: Path, manifest: Manifest, digest: str, trusted: Path | None) -> tuple[Envelope, Verdict]:
    """The verdict that is to be overridden: by its signature where a ring says whom to trust, else as it claims."""
    path = verdict_path(directory)
    envelope = open_verdict(path)
    if trusted is not None:
        signed = trusted_verdict(path, read_trust([trusted]))
        check_subject(signed, manifest.id, digest, directory / FILE_NAME)
        return envelope, signed.verdict
    verdict = Verdict.from_dict(envelope.predicate(), str(path))
    if verdict.manifest_digest != digest:
        raise Tampered(f"{path} is for another manifest than {directory / FILE_NAME}: validate this version first")
    return envelope, verdict


def _check_gate(verdict: Verdict, gate: str) -> None:
    if verdict.allowed:
        raise InvalidInput(f"the verdict allows {verdict.id} already: there is nothing to override")
    if gate not in verdict.denied_by:
        raise InvalidInput(f"the {gate} gate does not deny {verdict.id}: override {', '.join(verdict.denied_by)}")
