"""A skew report as a page: is the model sent what it was trained on, feature by feature, with both distributions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tidegate_serving.admission import Outcome
from tidegate_validation.report.skew_advice import skew_steps
from tidegate_validation.report.view import Bar, FindingView, View, blind_spots, finding_view, top
from tidegate_validation.skew.over_time import minute_of
from tidegate_validation.skew.report import BinShares, SkewReport, unlogged_words

_WIDEST = 14
_ANSWERS = {
    Outcome.PASS: "It is sent what it was trained on.",
    Outcome.WARN: "It is sent something slightly unlike what it was trained on.",
    Outcome.FAIL: "It is not sent what it was trained on.",
    Outcome.INCONCLUSIVE: "Too little was sent to tell.",
    Outcome.ERROR: "It could not be told.",
}


def skew_view(report: SkewReport) -> View:
    """The page of a skew report."""
    found = [finding_view(one, "skew", _bars(report.shares.get(one.subject))) for one in report.findings]
    return View(
        title=report.title,
        outcome=report.outcome,
        answer=_ANSWERS[report.outcome],
        sentence=report.sentence,
        facts=_facts(report),
        tiles=(),
        top=top([one for one in found if one.finding.outcome is not Outcome.INCONCLUSIVE]),
        features=_one_by_one(found),
        checks=(),
        blind_spots=blind_spots(found),
        steps=skew_steps(report),
        about=_about(report),
    )


def _about(report: SkewReport) -> str:
    """Which rows were looked at, of when, against what, and when that was."""
    rows = f"{report.rows:,} row" + ("" if report.rows == 1 else "s")
    if report.days is not None:
        rows += f" of {report.days.words}, against training's {report.days.reference_words}"
    elif report.since is not None or report.until is not None:
        rows += f" from {_moment(report.since, 'the first event')} to {_moment(report.until, 'the last event')}"
    return f"{rows}; looked at on {_moment(datetime.fromisoformat(report.made_at), '')}."


def _one_by_one(found: Sequence[FindingView]) -> tuple[FindingView, ...]:
    """A row for each feature, and further ones for what else is wrong with it."""
    told: set[str] = set()
    rows = []
    for one in found:
        if one.finding.subject not in told or one.finding.outcome is not Outcome.PASS:
            rows.append(one)
        told.add(one.finding.subject)
    return tuple(rows)


def _facts(report: SkewReport) -> tuple[tuple[str, str], ...]:
    if report.model is None:
        return (*_days(report), ("Rows", f"{report.rows:,}"), ("Made", report.made_at))
    return (
        *_days(report),
        ("Window", f"{_moment(report.since, 'the first event')} to {_moment(report.until, 'the last event')}"),
        ("Rows", f"{report.rows:,}, role {report.role}"),
        ("Training profile", report.profile_id),
        *_over_time(report),
        *((("Not compared", unlogged_words(report.unlogged)),) if report.unlogged else ()),
        *((("Performance", report.performance.sentence),) if report.performance is not None else ()),
        *((("Rollback", report.rollback.sentence),) if report.rollback is not None else ()),
        ("Made", report.made_at),
    )


def _days(report: SkewReport) -> tuple[tuple[str, str], ...]:
    """Which days were compared with which, where rows have a time."""
    if report.days is None:
        return ()
    return (("Days", f"{report.days.words}, against training's {report.days.reference_words}"),)


def _over_time(report: SkewReport) -> tuple[tuple[str, str], ...]:
    """What all windows so far say, where a watch is kept."""
    seen = report.over_time
    if seen is None:
        return ()
    after = "1 window" if seen.windows == 1 else f"{seen.windows} windows"
    told = f"evidence {seen.evidence:.3g} after {after}; alarm at {seen.windows_per_alarm}"
    left = "" if seen.counted else "; this window overlaps one that was counted"
    alarms = [
        f"`{name}` since the window of {minute_of(one.alarm_since)}"
        for name, one in seen.features.items()
        if one.alarm_since is not None
    ]
    return (
        ("Over time", f"{told} (one false alarm in so many windows){left}"),
        *((("In alarm", ", ".join(alarms)),) if alarms else ()),
    )


def _moment(moment: datetime | None, otherwise: str) -> str:
    return otherwise if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _bars(shares: BinShares | None) -> tuple[Bar, ...]:
    if not shares:
        return ()
    rows = list(zip(shares.labels, shares.reference, shares.current, strict=True))
    kept = [row for row in rows if max(row[1], row[2]) > 0.0005]
    if len(kept) > 2 * _WIDEST:
        kept = sorted(kept, key=lambda row: -max(row[1], row[2]))[: 2 * _WIDEST]
    highest = max((max(row[1], row[2]) for row in kept), default=1.0) or 1.0
    bars = []
    for label, before, now in kept:
        words = f"{label}: {100 * before:.1f} % in training, {100 * now:.1f} % served"
        bars.append(Bar(label, before / highest, now / highest, words))
    return tuple(bars)
