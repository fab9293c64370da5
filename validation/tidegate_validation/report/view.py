"""What a page shows: plain values in reading order for the template, nothing decided anew."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.outcomes import GRAVITY
from tidegate_validation.report.forest import Forest
from tidegate_validation.skew.example_rows import AS_IN_TRAINING, ROWS, VALUE

_TOP = 10
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class OverrideLine:
    """One override for people: the gate, how it had come out, who overrode it, why, and until when."""

    gate: str
    outcome: str
    by: str
    reason: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class Seal:
    """`key` names the signing key, `digest` is the SHA-256 of the verdict's file in hex."""

    key: str
    digest: str
    overrides: tuple[OverrideLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """One bin in a small chart: heights from 0 to 1 of training and of what was served, and the words for a tooltip."""

    label: str
    reference: float
    current: float
    words: str


@dataclass(frozen=True, slots=True)
class FindingView:
    """One finding as the page shows it. `scale` places number, interval and limit on a line from 0 to 100; `rows` are
    rows that show it, each in words."""

    finding: Finding
    gate: str
    cause: str | None
    example: str | None
    scale: Mapping[str, float] | None
    bars: tuple[Bar, ...] = ()
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """One gate: its outcome and how many findings it has per outcome; `denies` where the verdict's no is (also) its."""

    name: str
    outcome: Outcome
    sentence: str
    counts: tuple[tuple[Outcome, int], ...]
    seconds: float
    denies: bool = False


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """Something that could not be seen, the smallest effect that would have shown, and rows that would settle it."""

    sentence: str
    smallest: str = ""
    rows_needed: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """One page. `about` says in its head what was looked at, and when."""

    title: str
    outcome: Outcome
    answer: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    tiles: tuple[Tile, ...]
    top: tuple[FindingView, ...]
    features: tuple[FindingView, ...]
    checks: tuple[tuple[str, tuple[FindingView, ...]], ...]
    blind_spots: tuple[BlindSpot, ...] = ()
    notes: tuple[str, ...] = field(default=())
    push: str = ""
    overrides: tuple[OverrideLine, ...] = ()
    steps: tuple[str, ...] = ()
    forest: Forest | None = None
    about: str = ""


def finding_view(finding: Finding, gate: str, bars: tuple[Bar, ...] = ()) -> FindingView:
    """A finding with its cause and example as text."""
    example = finding.example
    rows = (example or {}).get(ROWS, ())
    return FindingView(
        finding=finding,
        gate=gate,
        cause=_cause(finding.cause),
        example=json.dumps(example, indent=1, ensure_ascii=False, default=str) if example and not rows else None,
        scale=_scale(finding),
        bars=bars,
        rows=tuple(_row_words(one) for one in rows),
    )


def _row_words(row: Mapping[str, Any]) -> str:
    """A value and where it stands: `such as 2253 (1400 as training has it), 2013-06-05 14:00:01, request 8f3a21`."""
    value = row[VALUE]
    words = [f"such as {'nothing' if value is None else 'an empty text' if value == '' else _shown(value)}"]
    if AS_IN_TRAINING in row:
        words[0] += f" ({row[AS_IN_TRAINING]:.4g} as training has it)"
    if "event_time" in row:
        words.append(str(row["event_time"]).replace("T", " ")[:19])
    if "request_id" in row:
        words.append(f"request {row['request_id']}" + (f", its row {row['row']}" if row.get("row") else ""))
    elif "row" in row:
        words.append(f"row {row['row']}")
    return ", ".join(words)


def _shown(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def top(findings: Sequence[FindingView]) -> tuple[FindingView, ...]:
    """The ten gravest that are no PASS."""
    telling = [one for one in findings if one.finding.outcome is not Outcome.PASS]
    return tuple(sorted(telling, key=lambda one: GRAVITY.index(one.finding.outcome))[:_TOP])


def blind_spots(findings: Sequence[FindingView]) -> tuple[BlindSpot, ...]:
    """What the gates could not see: open questions, limits that could not be set, and how small a shift would hide."""
    every = [one.finding for one in findings]
    open_ones = [one for one in every if one.outcome in (Outcome.INCONCLUSIVE, Outcome.ERROR)]
    passed = [one for one in every if one.outcome in (Outcome.PASS, Outcome.WARN)]
    open_ones += [one for one in every if one.check == "sandbox" and one.outcome is Outcome.WARN]
    open_ones += [one for one in passed if one.check == "slice" and one.smallest_detectable]
    found = [_blind_spot(one) for one in open_ones]
    sizes = [one.smallest_detectable for one in passed if one.check == "distribution" and one.smallest_detectable]
    if sizes:
        words = f"shifts below Δ {min(sizes):.2f} (the feature seen best) to {max(sizes):.2f} (the one seen worst)"
        found.append(BlindSpot(words, smallest=f"Δ {max(sizes):.2f}"))
    return tuple(found)


def _blind_spot(finding: Finding) -> BlindSpot:
    smallest = "" if finding.smallest_detectable is None else f"{finding.smallest_detectable:.3g}"
    rows = "" if finding.rows_needed is None else f"{finding.rows_needed:,}"
    return BlindSpot(finding.sentence, smallest, rows)


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
