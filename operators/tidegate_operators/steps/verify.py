"""Checks a verdict offline, step by step, as an engine would before it admits the version.

It says what was found right, what was found wrong and how to mend it. Nothing is written, no engine is asked.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegate_serving.admission import (
    KeyRing,
    OverrideRule,
    SignedOverride,
    SignedVerdict,
    check_date,
    check_not_revoked,
    check_subject,
    overrides_for,
    read_override_rules,
    read_trust,
    trusted_verdict,
)
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import NotFound, TidegateError
from tidegate_serving.contract.manifest import FILE_NAME, Manifest, read_manifest, verify_files
from tidegate_serving.contract.repository import verdict_path, version_of_verdict


class Answer(enum.StrEnum):
    """How one check ended."""

    YES = "yes"
    NO = "no"
    NOT_LOOKED_AT = "not looked at"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, how it ended and, in a sentence, why and what to do."""

    name: str
    answer: Answer
    sentence: str


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one verdict. `signed` is None where nothing in the file can be believed."""

    path: Path
    at: str
    checks: tuple[Check, ...]
    signed: SignedVerdict | None = None
    overrides: tuple[SignedOverride, ...] = ()

    @property
    def admits(self) -> bool:
        """Whether an engine that trusts the same would admit the version now."""
        return all(check.answer is not Answer.NO for check in self.checks)

    @property
    def sentence(self) -> str:
        """The answer, and the first reason for a no."""
        wrong = [check.sentence for check in self.checks if check.answer is Answer.NO]
        if wrong:
            return wrong[0]
        verdict = self.signed.verdict if self.signed else None
        by = " by override" if self.overrides else ""
        return f"{verdict.id if verdict else self.path} is admitted{by}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its format tag."""
        return {
            "format": "tidegate.verification/1",
            "path": str(self.path),
            "at": self.at,
            "admits": self.admits,
            "sentence": self.sentence,
            "checks": [
                {"check": one.name, "answer": one.answer.value, "sentence": one.sentence} for one in self.checks
            ],
            "verdict": None if self.signed is None else self.signed.verdict.to_dict(),
            "verdict_digest": None if self.signed is None else self.signed.digest,
            "key": None if self.signed is None else {"id": self.signed.key.id, "name": self.signed.key.name},
            "overrides": [
                {**one.override.to_dict(), "outcome": one.outcome, "key": {"id": one.key.id, "name": one.key.name}}
                for one in self.overrides
            ],
        }


def verify(
    *, target: Path, trusted: Sequence[Path], policy: Path | None = None, at: datetime | None = None
) -> Verification:
    """Checks the verdict of the version directory or verdict file `target` as of the moment `at`, now by default.

    `trusted` are PEM public keys of validators or key rings, `policy` the file whose [[override]] rules count. A no is
    part of what comes back; NotFound or InvalidInput are raised for a target, key, ring or policy that cannot be read.
    """
    if not target.exists():
        raise NotFound(f"{target} is missing: name a version's directory, or a verdict's file")
    path = verdict_path(target.absolute()) if target.is_dir() else target.absolute()
    directory = target.absolute() if target.is_dir() else version_of_verdict(path)
    rules = () if policy is None else read_override_rules(policy)
    run = _Run(path, directory, read_trust(trusted), rules, at or times.now())
    return run.verification()


@dataclass(slots=True)
class _Run:
    path: Path
    directory: Path | None
    ring: KeyRing
    rules: Sequence[OverrideRule]
    at: datetime
    checks: list[Check] = field(default_factory=list)
    overrides: tuple[SignedOverride, ...] = ()

    def verification(self) -> Verification:
        signed = self._signature()
        if signed is None:
            for name in ("manifest", "files", "revocation", "decision", "date"):
                self._skip(name, "nothing in a verdict can be believed before its signature is")
        else:
            self._version(signed)
            self._ask("revocation", lambda: self._not_revoked(signed))
            self._ask("decision", lambda: self._decision(signed))
            self._ask("date", lambda: self._date(signed))
        return Verification(self.path, times.to_text(self.at), tuple(self.checks), signed, self.overrides)

    def _signature(self) -> SignedVerdict | None:
        try:
            signed = trusted_verdict(self.path, self.ring)
        except TidegateError as error:
            self.checks.append(Check("signature", Answer.NO, error.message))
            return None
        sentence = f"signed by {signed.key} at {signed.verdict.issued_at}, with Tidegate {signed.verdict.tool_version}"
        self.checks.append(Check("signature", Answer.YES, sentence))
        return signed

    def _version(self, signed: SignedVerdict) -> None:
        if self.directory is None or not self.directory.is_dir():
            for name in ("manifest", "files"):
                self._skip(name, "the version's directory does not lie beside the verdict")
            return
        directory = self.directory
        manifest = self._ask("manifest", lambda: self._manifest(signed, directory))
        if manifest is None:
            self._skip("files", "they are listed in the manifest, which is not the one that was signed for")
        else:
            self._ask("files", lambda: self._files(manifest, directory))

    def _manifest(self, signed: SignedVerdict, directory: Path) -> tuple[Manifest, str]:
        manifest, digest = read_manifest(directory)
        check_subject(signed, manifest.id, digest, directory / FILE_NAME)
        return manifest, f"{manifest.id} is what was signed for, SHA-256 {digest[:12]}"

    def _files(self, manifest: Manifest, directory: Path) -> tuple[bool, str]:
        verify_files(manifest, directory)
        return True, f"all {len(manifest.files)} files are as the manifest lists them"

    def _not_revoked(self, signed: SignedVerdict) -> tuple[bool, str]:
        check_not_revoked(self.ring, signed.verdict.id, signed.verdict.manifest_digest)
        return True, "the version is not revoked"

    def _decision(self, signed: SignedVerdict) -> tuple[bool, str]:
        if signed.verdict.allowed:
            return True, signed.verdict.sentence
        beside = self.directory if self.directory is not None else self.path
        self.overrides = overrides_for(signed, beside, self.ring, self.rules, self.at)
        return True, "; ".join(str(one) for one in self.overrides)

    def _date(self, signed: SignedVerdict) -> tuple[bool, str]:
        check_date(signed, self.at)
        return True, f"admits until {signed.verdict.expires_at}; what was admitted by then goes on loading"

    def _ask(self, name: str, check: Callable[[], tuple[Any, str]]) -> Any:
        """What the check found, None where it said no."""
        try:
            found, sentence = check()
        except TidegateError as error:
            self.checks.append(Check(name, Answer.NO, error.message))
            return None
        self.checks.append(Check(name, Answer.YES, sentence))
        return found

    def _skip(self, name: str, why: str) -> None:
        self.checks.append(Check(name, Answer.NOT_LOOKED_AT, why))
