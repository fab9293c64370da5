"""One verdict from the findings of all gates; nothing else decides whether a version may serve.

`gates` hands in the results and what they are about, operators sign what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata

from tidegate_serving.admission import GateResult, Outcome, Verdict
from tidegate_serving.contract.servable import ServableId
from tidegate_validation.outcomes import GRAVITY, worst
from tidegate_validation.policy import Policy

_TELLING = ("robustness", "skew", "quality", "expectations")
"""Which gate explains a refusal best when several say no: a crash or a wrong unit is why quality is bad."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is judged, by what: the version, the digests of its manifest, its baseline's and the data's."""

    id: ServableId
    manifest_digest: str
    baseline: str | None
    data_digest: str


def decide(subject: Subject, results: Sequence[GateResult], policy: Policy) -> Verdict:
    """The verdict: allowed when every required gate is there and no gate's outcome denies."""
    now = datetime.now(UTC)
    by_name = {result.gate: result for result in results}
    missing = [gate for gate in policy.required if gate not in by_name]
    denying = [result for result in results if not _allows(result, policy)]
    outcomes = [result.outcome for result in results] + ([Outcome.ERROR] if missing else [])
    return Verdict(
        id=subject.id,
        manifest_digest=subject.manifest_digest,
        outcome=worst(outcomes) if results or missing else Outcome.PASS,
        allowed=not missing and not denying,
        sentence=_sentence(subject, missing, denying, results),
        gates=tuple(results),
        first=subject.baseline is None,
        baseline=subject.baseline,
        data_digest=subject.data_digest,
        config_digest=policy.digest(),
        tool_version=metadata.version("tidegate"),
        issued_at=now.isoformat(timespec="seconds"),
        expires_at=(now + timedelta(days=policy.valid_days)).isoformat(timespec="seconds"),
        denied_by=(*(result.gate for result in denying), *missing),
    )


def _allows(result: GateResult, policy: Policy) -> bool:
    return result.outcome in (Outcome.PASS, Outcome.WARN, *policy.allow.get(result.gate, ()))


def _sentence(
    subject: Subject, missing: Sequence[str], denying: Sequence[GateResult], results: Sequence[GateResult]
) -> str:
    if denying:
        order = {gate: place for place, gate in enumerate(_TELLING)}
        first = min(denying, key=lambda one: (GRAVITY.index(one.outcome), order.get(one.gate, len(order))))
        return f"{subject.id} is refused by the {first.gate} gate: {first.sentence}"
    if missing:
        return f"{subject.id} is refused: the {missing[0]} gate is required and did not run"
    first_words = " as a first version, with nothing to compare it with" if subject.baseline is None else ""
    warned = [result for result in results if result.outcome is not Outcome.PASS]
    notes = f"; note {warned[0].gate}: {warned[0].sentence}" if warned else ""
    return f"{subject.id} may serve{first_words}{notes}"
