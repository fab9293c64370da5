"""What the gates found about one version and whether it may serve: findings, gate results and the verdict over them.

`tidegate_validation.decision` makes verdicts; operators, the engine and reports read them. Signed as the predicate of
an in-toto statement, a verdict is bound to the manifest's digest, the data, the configuration and the tool's version.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from tidegate_serving.admission.envelope import Envelope, open_envelope, seal
from tidegate_serving.admission.keys import Signer
from tidegate_serving.contract.errors import InvalidInput, Tampered
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.plain_json import plain, plain_number
from tidegate_serving.contract.servable import ServableId

VERSION = "1"
PREDICATE_TYPE = "urn:tidegate:verdict:1"
SCHEMA = "verdict.schema.json"


class Outcome(enum.StrEnum):
    """What a check, a gate or a verdict says. PASS and WARN allow; the others deny unless the policy says otherwise."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's result in plain words, with the numbers behind them.

    `check` is the check's short name, `subject` what it is about (a feature, a slice, a probe); `sentence` one plain
    sentence. `number` with `interval` is the raw distance and its confidence interval, `limit` the margin that it was
    held against and `rule` which rule that is (`quality.margin`, say); `p_value` the adjusted p. `smallest_detectable`
    is what this much data could have shown, set wherever the outcome is INCONCLUSIVE and something was measured, and
    `rows_needed` how many rows would settle it. `cause` names a diagnosis, for example `{"kind": "constant factor",
    "factor": 1.609}`; `example` is an input or rows that show the finding.
    """

    check: str
    subject: str
    outcome: Outcome
    sentence: str
    number: float | None = None
    interval: tuple[float, float] | None = None
    limit: float | None = None
    p_value: float | None = None
    smallest_detectable: float | None = None
    cause: Mapping[str, Any] | None = None
    example: Mapping[str, Any] | None = None
    rule: str | None = None
    rows_needed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON. Numbers that are not finite are left out, an interval with its open end null."""
        return {
            "check": self.check,
            "subject": self.subject,
            "outcome": self.outcome.value,
            "sentence": self.sentence,
            "number": plain_number(self.number),
            "interval": [plain_number(end) for end in self.interval] if self.interval is not None else None,
            "limit": plain_number(self.limit),
            "rule": self.rule,
            "p_value": plain_number(self.p_value),
            "smallest_detectable": plain_number(self.smallest_detectable),
            "rows_needed": plain_number(self.rows_needed),
            "cause": plain(self.cause),
            "example": plain(self.example),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """From JSON; keys that a later minor version added are left aside."""
        known = {name: value for name, value in data.items() if name in _FINDING_KEYS}
        interval = data.get("interval")
        return cls(
            **{
                **known,
                "outcome": Outcome(data["outcome"]),
                "interval": (_end(interval[0], "-inf"), _end(interval[1], "inf")) if interval else None,
            }
        )


_FINDING_KEYS = frozenset(one.name for one in fields(Finding))


def _end(value: float | None, otherwise: str) -> float:
    return float(otherwise if value is None else value)


@dataclass(frozen=True, slots=True)
class GateResult:
    """All findings of one gate (`expectations`, `quality`, `robustness`, `skew`, ...) and what they add up to."""

    gate: str
    outcome: Outcome
    sentence: str
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "gate": self.gate,
            "outcome": self.outcome.value,
            "sentence": self.sentence,
            "findings": [finding.to_dict() for finding in self.findings],
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GateResult:
        """From JSON."""
        return cls(
            gate=data["gate"],
            outcome=Outcome(data["outcome"]),
            sentence=data["sentence"],
            findings=tuple(Finding.from_dict(finding) for finding in data["findings"]),
            seconds=float(data["seconds"]),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one version, as its manifest's digest names it, may serve. Times are RFC 3339 in UTC.

    `baseline` is the manifest digest of the version it was compared with, None for a first version, which `first`
    marks. `data_digest` and `config_digest` are SHA-256 in hex of the evaluation data and of the gates' configuration.
    `denied_by` names the gates that say no; one that is not among `gates` was required and did not run.
    """

    id: ServableId
    manifest_digest: str
    outcome: Outcome
    allowed: bool
    sentence: str
    gates: tuple[GateResult, ...]
    first: bool
    baseline: str | None
    data_digest: str
    config_digest: str
    tool_version: str
    issued_at: str
    expires_at: str
    notes: tuple[str, ...] = field(default=())
    denied_by: tuple[str, ...] = field(default=())

    def gate(self, name: str) -> GateResult | None:
        """The result of one gate, None where it did not run."""
        return next((one for one in self.gates if one.gate == name), None)

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its format tag."""
        return {
            "format": f"tidegate.verdict/{VERSION}",
            "name": self.id.name,
            "version": self.id.version,
            "manifest_digest": self.manifest_digest,
            "outcome": self.outcome.value,
            "allowed": self.allowed,
            "denied_by": list(self.denied_by),
            "sentence": self.sentence,
            "gates": [gate.to_dict() for gate in self.gates],
            "first": self.first,
            "baseline": self.baseline,
            "data_digest": self.data_digest,
            "config_digest": self.config_digest,
            "tool_version": self.tool_version,
            "issued_at": self.issued_at,
            "expires_at": self.expires_at,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str) -> Verdict:
        """From JSON; Tampered, naming `where`, when a key is missing or a value is unusable."""
        check_format(data, kind="verdict", version=VERSION, where=where)
        try:
            if (data["allowed"] is True) is bool(data["denied_by"]):
                raise ValueError(f"it says allowed {data['allowed']!r} and denied by {data['denied_by']!r}")
            return cls(
                id=ServableId(data["name"], int(data["version"])),
                manifest_digest=data["manifest_digest"],
                outcome=Outcome(data["outcome"]),
                allowed=data["allowed"] is True,
                sentence=data["sentence"],
                gates=tuple(GateResult.from_dict(gate) for gate in data["gates"]),
                first=data["first"] is True,
                baseline=data["baseline"],
                data_digest=data["data_digest"],
                config_digest=data["config_digest"],
                tool_version=data["tool_version"],
                issued_at=data["issued_at"],
                expires_at=data["expires_at"],
                notes=tuple(data["notes"]),
                denied_by=tuple(data["denied_by"]),
            )
        except (*MALFORMED, InvalidInput) as error:
            raise Tampered(f"{where} is no usable verdict ({error}): run `tidegate validate` again") from error


def write_verdict(verdict: Verdict, path: Path, key: Signer) -> str:
    """Signs the verdict and writes its envelope; returns the SHA-256 of the file's bytes in hex."""
    return seal(verdict.to_dict(), PREDICATE_TYPE, path, key)


def open_verdict(path: Path) -> Envelope:
    """A verdict's envelope, nothing checked yet. NotAdmitted or Tampered, naming the file."""
    return open_envelope(path, PREDICATE_TYPE, "run `tidegate validate` on this version")


def claimed_verdict(path: Path) -> Verdict:
    """The verdict in a file, its signature not checked: for who chooses or explains, never for who admits. NotAdmitted
    or Tampered, naming the file."""
    return Verdict.from_dict(open_verdict(path).predicate(), str(path))


def verdict_schema() -> dict[str, Any]:
    """The published JSON Schema (draft 2020-12) of a verdict's document."""
    text = resources.files("tidegate_serving.admission").joinpath(SCHEMA).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
