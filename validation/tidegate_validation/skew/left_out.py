"""Requests of another server's log that were left out of a report, and what that makes of its outcome."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate_serving.admission import Finding, Outcome

if TYPE_CHECKING:
    from tidegate_validation.skew.report import SkewReport

CHECK = "requests left out"
SHOWN = 20
_WARNED, _DECIDED = 0.01, 0.2
"""Up to one in a hundred is what clients send anywhere; of a log of which a fifth is missing, the rest says little."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many requests `of` all were left out, and for the first of them where they stand and why."""

    requests: int
    of: int
    examples: tuple[tuple[str, str], ...]

    @property
    def share(self) -> float:
        """Of all requests."""
        return self.requests / max(self.of, 1)

    @property
    def sentence(self) -> str:
        """How many, and one of them."""
        where, why = self.examples[0]
        return (
            f"{self.requests:,} of {self.of:,} requests ({self.share:.2%}) were left out, for they cannot be read or "
            f"do not fit in, such as {where}: {why}"
        )


def without(report: SkewReport, left_out: LeftOut) -> SkewReport:
    """The report with what was left out of it: beyond 1 % a WARN at least, beyond 20 % no report that may pass."""
    if not left_out.requests:
        return report
    outcome = report.outcome
    if left_out.share > _DECIDED:
        told = Outcome.INCONCLUSIVE
        outcome = told if outcome in (Outcome.PASS, Outcome.WARN) else outcome
    else:
        told = Outcome.WARN if left_out.share > _WARNED else Outcome.PASS
        outcome = told if outcome is Outcome.PASS else outcome
    limit = _DECIDED if told is Outcome.INCONCLUSIVE else _WARNED
    finding = Finding(
        CHECK,
        "requests",
        told,
        left_out.sentence,
        number=left_out.share,
        limit=limit,
        example={"requests": [f"{where}: {why}" for where, why in left_out.examples]},
    )
    sentence = f"{report.sentence.rstrip('.')}. {left_out.sentence}."
    if outcome is not report.outcome:
        sentence = f"{left_out.sentence}. {report.sentence}"
    return replace(
        report,
        outcome=outcome,
        sentence=sentence,
        findings=(finding, *report.findings) if outcome is not report.outcome else (*report.findings, finding),
        left_out=left_out,
    )
