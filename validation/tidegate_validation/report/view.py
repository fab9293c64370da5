"""What a page shows, taken from a verdict or a skew report: plain values in reading order, nothing decided anew.

`write` makes one and hands it to the template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate_serving.contract.verdict import Finding, GateResult, Outcome, Verdict
from tidegate_validation.skew.report import BinShares, SkewReport

ORDER = (Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE, Outcome.WARN, Outcome.PASS)
_TOP = 10
_MEASURED = ("distribution", "missing", "unseen", "range", "infinite", "schema")
_WIDEST = 14


@dataclass(frozen=True, slots=True)
class Bar:
    """One bin in a small chart: heights from 0 to 1 of training and of what was served, and the words for a tooltip."""

    label: str
    reference: float
    current: float
    words: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One finding as the page shows it. `scale` places number, interval and limit on a line from 0 to 100."""

    finding: Finding
    gate: str
    cause: str | None
    example: str | None
    scale: Mapping[str, float] | None
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """One gate: its outcome and how many findings it has per outcome."""

    name: str
    outcome: Outcome
    sentence: str
    counts: tuple[tuple[Outcome, int], ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class View:
    """One page."""

    title: str
    outcome: Outcome
    answer: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    tiles: tuple[Tile, ...]
    top: tuple[Shown, ...]
    features: tuple[Shown, ...]
    checks: tuple[tuple[str, tuple[Shown, ...]], ...]
    unseen: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())


def view_of(subject: Verdict | SkewReport) -> View:
    """The page of a verdict or of a skew report."""
    return _verdict(subject) if isinstance(subject, Verdict) else _skew(subject)


def _verdict(verdict: Verdict) -> View:
    shown = {gate.gate: [_shown(one, gate.gate) for one in gate.findings] for gate in verdict.gates}
    everything = [one for gate in shown.values() for one in gate]
    return View(
        title=f"{verdict.id.name}, version {verdict.id.version}",
        outcome=verdict.outcome,
        answer="This version may serve." if verdict.allowed else "This version may not serve.",
        sentence=verdict.sentence,
        facts=_verdict_facts(verdict),
        tiles=tuple(_tile(gate) for gate in verdict.gates),
        top=_top(everything),
        features=tuple(one for one in shown.get("skew", ()) if one.finding.check in _MEASURED),
        checks=tuple((gate, tuple(found)) for gate, found in shown.items() if found),
        unseen=_unseen(everything),
        notes=verdict.notes,
    )


def _verdict_facts(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    return (
        ("Manifest", verdict.manifest_digest),
        ("Compared with", verdict.baseline or "nothing: a first version"),
        ("Evaluation data", verdict.data_digest),
        ("Configuration", verdict.config_digest),
        ("Judged by", f"Tidegate {verdict.tool_version}"),
        ("Issued", verdict.issued_at),
        ("Admits until", verdict.expires_at),
    )


def _skew(report: SkewReport) -> View:
    shown = [_shown(one, "skew", report.shares.get(one.subject)) for one in report.findings]
    window = f"{_moment(report.since, 'the first')} to {_moment(report.until, 'the last')} event"
    return View(
        title=f"{report.model}, version {report.version}: what it was sent",
        outcome=report.outcome,
        answer=_SKEW_ANSWERS[report.outcome],
        sentence=report.sentence,
        facts=(
            ("Window", window),
            ("Rows", f"{report.rows}, role {report.role}"),
            ("Training profile", report.profile_id),
            ("Made", report.made_at),
        ),
        tiles=(),
        top=_top([one for one in shown if one.finding.outcome is not Outcome.INCONCLUSIVE]),
        features=tuple(shown),
        checks=(),
        unseen=_unseen(shown),
    )


_SKEW_ANSWERS = {
    Outcome.PASS: "It is sent what it was trained on.",
    Outcome.WARN: "It is sent something slightly unlike what it was trained on.",
    Outcome.FAIL: "It is not sent what it was trained on.",
    Outcome.INCONCLUSIVE: "Too little was sent to tell.",
    Outcome.ERROR: "It could not be told.",
}


def _moment(moment: Any, otherwise: str) -> str:
    return otherwise if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _tile(gate: GateResult) -> Tile:
    counts = tuple((outcome, sum(one.outcome is outcome for one in gate.findings)) for outcome in ORDER)
    return Tile(
        gate.gate, gate.outcome, gate.sentence, tuple(pair for pair in counts if pair[1]), round(gate.seconds, 1)
    )


def _top(findings: Sequence[Shown]) -> tuple[Shown, ...]:
    telling = [one for one in findings if one.finding.outcome is not Outcome.PASS]
    return tuple(sorted(telling, key=lambda one: ORDER.index(one.finding.outcome))[:_TOP])


def _unseen(findings: Sequence[Shown]) -> tuple[str, ...]:
    """What the gates could not see: open questions, limits that could not be set, and how small a shift would hide."""
    found = [one.finding.sentence for one in findings if one.finding.outcome in (Outcome.INCONCLUSIVE, Outcome.ERROR)]
    found += [one.finding.sentence for one in findings if one.finding.check == "sandbox"]
    hidden = [one.finding for one in findings if one.finding.outcome in (Outcome.PASS, Outcome.WARN)]
    sizes = [one.smallest_detectable for one in hidden if one.check == "distribution" and one.smallest_detectable]
    if sizes:
        found.append(
            f"shifts below Δ {min(sizes):.2f} (the feature seen best) to {max(sizes):.2f} (the one seen worst)"
        )
    return tuple(found)


def _shown(finding: Finding, gate: str, shares: BinShares | None = None) -> Shown:
    return Shown(
        finding=finding,
        gate=gate,
        cause=_cause(finding.cause),
        example=json.dumps(finding.example, indent=1, ensure_ascii=False, default=str) if finding.example else None,
        scale=_scale(finding),
        bars=_bars(shares) if shares else (),
    )


def _cause(cause: Mapping[str, Any] | None) -> str | None:
    if not cause:
        return None
    details = [f"{name} {value:.6g}" for name, value in cause.items() if isinstance(value, float) and name != "share"]
    units = [str(cause["units"])] if cause.get("units") else []
    return ", ".join([str(cause.get("kind", "cause")), *details, *units])


def _scale(finding: Finding) -> Mapping[str, float] | None:
    """Places in per cent of a line that holds number, interval and limit; None where there is no interval."""
    if finding.number is None or finding.interval is None or finding.limit is None:
        return None
    low, high = finding.interval
    start = min(0.0, low, finding.limit, finding.number)
    end = max(0.0, high, finding.limit, finding.number)
    width = (end - start) * 1.05 or 1.0
    return {
        name: round(100 * (value - start) / width, 2)
        for name, value in (("low", low), ("high", high), ("number", finding.number), ("limit", finding.limit))
    }


def _bars(shares: BinShares) -> tuple[Bar, ...]:
    rows = list(zip(shares.labels, shares.reference, shares.current, strict=True))
    kept = [row for row in rows if max(row[1], row[2]) > 0.0005]
    if len(kept) > 2 * _WIDEST:
        kept = sorted(kept, key=lambda row: -max(row[1], row[2]))[: 2 * _WIDEST]
    highest = max((max(row[1], row[2]) for row in kept), default=1.0) or 1.0
    return tuple(
        Bar(label, before / highest, now / highest, f"{label}: {before:.1%} in training, {now:.1%} served")
        for label, before, now in kept
    )
