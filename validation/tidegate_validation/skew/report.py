"""The skew report: one window of the inference log against a training profile, one finding per feature at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput, NotFound
from tidegate_serving.contract.log_record import HASH, OMIT
from tidegate_validation.skew.compare import Comparison, compare
from tidegate_validation.skew.example_rows import with_examples
from tidegate_validation.skew.finding import SEVERITY
from tidegate_validation.skew.left_out import LeftOut
from tidegate_validation.skew.measures.numbers import ordinary_bins
from tidegate_validation.skew.measures.onset import date_of
from tidegate_validation.skew.over_time import WINDOWS_PER_ALARM, OverTime, over_time
from tidegate_validation.skew.performance import Performance, performance_in_log
from tidegate_validation.skew.rollback import RollbackAdvice, advise
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.statistics.bins import INFINITIES, MISSING
from tidegate_validation.statistics.blocks import BlockUnit
from tidegate_validation.statistics.profile import Profile, read_profile
from tidegate_validation.statistics.window import Window, log_window

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = "1"


@dataclass(frozen=True, slots=True)
class BinShares:
    """How one feature spreads over its bins: labels, and shares of rows in training and in the window."""

    labels: tuple[str, ...]
    reference: tuple[float, ...]
    current: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Days:
    """The first and the last day (UTC, YYYY-MM-DD) of the window and of what it is compared with, and how many there
    are with rows."""

    first: str
    last: str
    number: int
    reference_first: str
    reference_last: str
    reference_number: int

    @property
    def words(self) -> str:
        """The window's days."""
        return _of_days(self.first, self.last, self.number)

    @property
    def reference_words(self) -> str:
        """The other days."""
        return _of_days(self.reference_first, self.reference_last, self.reference_number)


def _of_days(first: str, last: str, number: int) -> str:
    return first if number == 1 else f"{first} to {last} ({number} days)"


@dataclass(frozen=True, slots=True)
class SkewReport:
    """What a window of the log says about training-serving skew.

    `since` and `until` limit event times, UTC; `shares` are the distributions behind the findings, by feature. Where
    two tables were compared there is no model and no version, and `title` names both. `over_time` is what this window
    and those before it say together, where a watch is kept, `rollback` whether the previous version would do better.
    `unlogged` are features of which the log holds hashes (`hash`) or nothing (`omit`), so that they were not compared.
    `performance` is how well the version does, where its answers or labels tell. `days` are those that were compared,
    None where rows have no time. `left_out` are requests of another server's log that are not in it.
    """

    model: str | None
    version: int | None
    role: str
    since: datetime | None
    until: datetime | None
    rows: int
    profile_id: str
    outcome: Outcome
    sentence: str
    findings: tuple[Finding, ...]
    made_at: str
    shares: Mapping[str, BinShares] = field(default_factory=dict)
    title: str = ""
    over_time: OverTime | None = None
    rollback: RollbackAdvice | None = None
    unlogged: Mapping[str, str] = field(default_factory=dict)
    performance: Performance | None = None
    days: Days | None = None
    left_out: LeftOut | None = None

    def feature(self, name: str) -> Finding:
        """The gravest finding about a feature. Raises NotFound where the profile does not have it."""
        for finding in self.findings:
            if finding.subject == name:
                return finding
        raise NotFound(f"the skew report of {self.title} has no feature {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with its format tag."""
        return {
            "format": f"tidegate.skew-report/{VERSION}",
            **asdict(self),
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
            "findings": [finding.to_dict() for finding in self.findings],
            "performance": self.performance.to_dict() if self.performance is not None else None,
        }


def report_on_log(
    profile: Path,
    log_root: Path,
    *,
    model: str,
    version: int,
    since: datetime | None = None,
    until: datetime | None = None,
    received_since: datetime | None = None,
    role: str = "primary",
    rule: SkewRule | None = None,
    watch: Path | None = None,
    windows_per_alarm: int = WINDOWS_PER_ALARM,
    versions: tuple[Path, Path] | None = None,
    labels: pa.Table | None = None,
) -> SkewReport:
    """Compares what `version` of `model` was sent, from `since` up to but without `until`, with a training profile.

    `profile` is the directory that holds it. `since` and `until` are times of the event; `received_since` keeps only
    what arrived from then on, where events are sent again. An empty window is INCONCLUSIVE. `watch` is the folder that
    remembers earlier windows, so that drift over windows is seen too, with one false alarm per `windows_per_alarm` of
    them; it needs `since` and `until`. `versions` are the directories of the serving and of the previous version: where
    a feature fails, both answer logged rows to see whether a rollback would help. `labels` are those known by now, with
    the columns request_id, label, and where there are such row and at. Raises NotFound where the profile is
    missing and InvalidInput for times without a zone, and for a `watch` of another model.
    """
    if watch is not None and (since is None or until is None or windows_per_alarm < 1):
        raise InvalidInput("a watch over windows needs since, until and windows_per_alarm of 1 or more: give them")
    reference = read_profile(profile)
    used = rule or SkewRule()
    bounds = {"since": since, "until": until, "received_since": received_since}
    advice = None
    with log_window(log_root, model=model, version=version, role=role, **bounds) as window:
        comparison = _compared(reference, window, used) if window.rows else _empty(reference)
        if versions is not None:
            advice = advise(window, _ordered(comparison), *versions, used)
    seen = None
    if watch is not None and since is not None and until is not None:
        seen = over_time(model, reference, comparison.counts, (since, until), watch, windows_per_alarm)
        comparison = _with_drift(comparison, seen)
    done = performance_in_log(labels, log_root, model=model, version=version, role=role, **bounds)
    about = make_report(reference, comparison, f"{model}, version {version}: what it was sent")
    return replace(
        about,
        over_time=seen,
        rollback=advice,
        performance=done,
        model=model,
        version=version,
        role=role,
        since=since,
        until=until,
    )


def _compared(profile: Profile, window: Window, rule: SkewRule) -> Comparison:
    return with_examples(compare(profile, window, rule), profile, window)


def make_report(reference: Profile, comparison: Comparison, title: str) -> SkewReport:
    """What a comparison comes to, as a report of no model."""
    findings = _ordered(comparison)
    outcome, sentence = _summary(findings, comparison.rows)
    if comparison.unlogged:
        sentence += f" {unlogged_words(comparison.unlogged)}"
    return SkewReport(
        model=None,
        version=None,
        role="",
        since=None,
        until=None,
        rows=comparison.rows,
        profile_id=reference.id,
        outcome=outcome,
        sentence=sentence,
        findings=tuple(findings),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        shares=_shares(reference, comparison),
        title=title,
        unlogged=comparison.unlogged,
        days=_days(reference, comparison),
    )


def without(report: SkewReport, left_out: LeftOut) -> SkewReport:
    """The report with what was left out of it, which comes first where it changes the outcome."""
    if not left_out.requests:
        return report
    outcome, finding = left_out.of_report(report.outcome), left_out.finding()
    changed = outcome is not report.outcome
    sentence, told = report.sentence.rstrip("."), left_out.sentence
    return replace(
        report,
        outcome=outcome,
        sentence=f"{told}. {sentence}." if changed else f"{sentence}. {told}.",
        findings=(finding, *report.findings) if changed else (*report.findings, finding),
        left_out=left_out,
    )


def _days(profile: Profile, comparison: Comparison) -> Days | None:
    """The days of the column that has values on most of them; rows without a time, of day 0, have none."""
    if profile.block_unit is not BlockUnit.DAY or not comparison.counts:
        return None
    name = max(comparison.counts, key=lambda one: len(comparison.counts[one].blocks))
    now, before = (one.blocks[one.blocks != 0] for one in (comparison.counts[name], profile.counts[name]))
    if not len(now) or not len(before) or min(now.min(), before.min()) < 0:
        return None
    ends = [date_of(int(day)) for day in (now.min(), now.max(), before.min(), before.max())]
    return Days(ends[0], ends[1], len(now), ends[2], ends[3], len(before))


def unlogged_words(unlogged: Mapping[str, str]) -> str:
    """Which features were not compared, and why."""
    words = {HASH: "hashed in the log", OMIT: "left out of the log"}
    told = ", ".join(f"`{name}` ({words.get(rule, rule)})" for name, rule in unlogged.items())
    return f"Not compared: {told}."


def _with_drift(comparison: Comparison, seen: OverTime) -> Comparison:
    """With a finding for each feature that is in alarm, unless this window alone says as much."""
    findings = {name: list(found) for name, found in comparison.findings.items()}
    for finding in seen.findings():
        found = findings.setdefault(finding.subject, [])
        if not found or found[0].outcome is not Outcome.FAIL:
            found.insert(0, finding)
    return replace(comparison, findings=findings)


def _empty(profile: Profile) -> Comparison:
    sentence = "nothing was logged in this window"
    return Comparison(
        0,
        {
            feature.name: [Finding("distribution", feature.name, Outcome.INCONCLUSIVE, f"`{feature.name}`: {sentence}")]
            for feature in profile.inputs
        },
    )


def _shares(profile: Profile, comparison: Comparison) -> dict[str, BinShares]:
    found = {}
    for name, current in comparison.counts.items():
        bins = profile.features[name].bins
        if bins is None:
            continue
        codes = [*ordinary_bins(profile.features[name]), MISSING, INFINITIES]
        sides = [
            tuple(float(part.of(group).sum()) / max(part.rows, 1) for group in codes)
            for part in (profile.counts[name], current)
        ]
        found[name] = BinShares((*bins.labels(), "missing", "infinite"), sides[0], sides[1])
    return found


def _ordered(comparison: Comparison) -> list[Finding]:
    """The gravest first, among equals the feature that moved most; a feature's own findings keep their order."""
    moved = {
        name: max((abs(one.number or 0.0) for one in findings), default=0.0)
        for name, findings in comparison.findings.items()
    }
    everything = [finding for findings in comparison.findings.values() for finding in findings]
    return sorted(everything, key=lambda one: (SEVERITY.index(one.outcome), -moved[one.subject], one.subject))


def _summary(findings: Sequence[Finding], rows: int) -> tuple[Outcome, str]:
    """The gravest outcome among the features of which something could be told; INCONCLUSIVE where there are none."""
    if rows > 0 and not findings:
        return Outcome.INCONCLUSIVE, "There is no column to compare: all are times, keys or left out."
    if rows == 0:
        return Outcome.INCONCLUSIVE, "Nothing was logged in this window: check the version, the times and the sampling."
    undecided = {one.subject for one in findings if one.outcome is Outcome.INCONCLUSIVE}
    told = [one for one in findings if one.outcome is not Outcome.INCONCLUSIVE]
    if not told:
        return Outcome.INCONCLUSIVE, f"{findings[0].sentence}{_more(len(undecided))}."
    worst = told[0]
    count = len({one.subject for one in told if one.outcome is worst.outcome})
    if worst.outcome is Outcome.PASS:
        rest = f", and of {len(undecided)} nothing can be told" if undecided else ""
        which = "The one feature looks" if count == 1 else f"All {count} features look"
        return Outcome.PASS, f"{which} as in training{rest}, over {rows:,} {'row' if rows == 1 else 'rows'}."
    return worst.outcome, f"{worst.sentence}{_more(count)}."


def _more(count: int) -> str:
    return f" (and {count - 1} more)" if count > 1 else ""
