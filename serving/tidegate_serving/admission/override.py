"""A break-glass override: somebody with the right to it lets one version in although one gate said no, for a while.

`tidegate override` writes them beside the version, one signed statement per gate, bound to the manifest and to the
verdict that it overrides. One that no `[[override]]` rule of the engine's policy file permits counts nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate_serving.admission.envelope import Envelope, open_envelope, seal
from tidegate_serving.admission.key_ring import TrustedKey
from tidegate_serving.admission.keys import Signer
from tidegate_serving.admission.verdict import Outcome, Verdict
from tidegate_serving.contract.errors import InvalidInput, Tampered
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.times import from_text
from tidegate_serving.typed_config import read_config, read_toml

VERSION = "1"
PREDICATE_TYPE = "urn:tidegate:override:1"
MISSING = "MISSING"
OUTCOMES = (Outcome.FAIL.value, Outcome.ERROR.value, Outcome.INCONCLUSIVE.value, MISSING)


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
        except (*MALFORMED, InvalidInput) as error:
            raise Tampered(f"{where} is no usable override ({error}): make it again") from error


def write_override(override: Override, path: Path, key: Signer) -> str:
    """Signs the override and writes its envelope; returns the SHA-256 of the file's bytes in hex."""
    return seal(override.to_dict(), PREDICATE_TYPE, path, key)


def open_override(path: Path) -> Envelope:
    """An override's envelope, nothing checked yet. NotAdmitted or Tampered, naming the file."""
    return open_envelope(path, PREDICATE_TYPE, "make it again with `tidegate override`")


@dataclass(frozen=True, slots=True)
class OverrideRule:
    """`keys` (names or ids) may override these `outcomes` of these `gates` for at most `most_hours` hours.

    The outcome MISSING is that of a required gate that did not run. InvalidInput, naming the key, for what cannot be.
    """

    keys: tuple[str, ...]
    gates: tuple[str, ...]
    outcomes: tuple[str, ...] = (Outcome.INCONCLUSIVE.value,)
    most_hours: float = 24.0

    def __post_init__(self) -> None:
        for name in ("keys", "gates", "outcomes"):
            texts = getattr(self, name)
            if not texts or not all(texts):
                raise InvalidInput(f"{name} is {list(texts)}: it must be a list of at least one text")
        for outcome in self.outcomes:
            if outcome not in OUTCOMES:
                raise InvalidInput(f"outcome {outcome!r} is unknown: use {', '.join(OUTCOMES)}")
        if not 0 < self.most_hours < math.inf:
            raise InvalidInput(f"most_hours is {self.most_hours:g}: use a number of hours above 0")

    def concerns(self, key: TrustedKey, gate: str, outcome: str) -> bool:
        """Whether the rule speaks of this key, gate and outcome."""
        return (key.id in self.keys or key.name in self.keys) and gate in self.gates and outcome in self.outcomes


def denied_outcome(verdict: Verdict, gate: str) -> str:
    """How a gate that denies came out: its outcome, or MISSING."""
    result = verdict.gate(gate)
    return MISSING if result is None else result.outcome.value


def refusal(rules: Sequence[OverrideRule], key: TrustedKey, gate: str, outcome: str, hours: float) -> str | None:
    """Why no rule permits this override, or None where one does."""
    fitting = [rule for rule in rules if rule.concerns(key, gate, outcome)]
    if not fitting:
        return f"no [[override]] rule lets {key} override {outcome} of the {gate} gate"
    most = max(rule.most_hours for rule in fitting)
    if hours > most:
        return f"{key} may override {outcome} of the {gate} gate for at most {most:g} hours, not for {hours:.4g}"
    return None


def read_override_rules(path: Path) -> tuple[OverrideRule, ...]:
    """The rules in a policy file; what else it holds is not looked at. NotFound or InvalidInput naming the file."""
    document = read_toml(path, "policy")
    return read_config(_Rules, {"override": document.get("override", ())}, str(path)).override


@dataclass(frozen=True, slots=True)
class _Rules:
    override: tuple[OverrideRule, ...] = ()
