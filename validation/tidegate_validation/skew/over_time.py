"""The window of a report beside those before it: drift that no window shows by itself, or that has lasted for some.

What was counted so far lies in one file, so that a watch goes on where it was stopped. A window counts once, however
often it is looked at, and only where it begins no earlier than the one before ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput, Tampered, Unsupported
from tidegate_serving.contract.formats import check_format
from tidegate_serving.files import sweep_asides, write_atomically
from tidegate_validation.skew.measures.distance import block_distance
from tidegate_validation.skew.measures.e_detector import advance, e_values
from tidegate_validation.skew.measures.growth import growth_of, growths_of
from tidegate_validation.skew.measures.numbers import compared_bins, has_order, likeness_of, ordinary_bins
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import INFINITIES, MISSING
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile, Profile

CHECK = "over time"
FILE_NAME = "over-time.json"
VERSION = "2"
WINDOWS_PER_ALARM = 365
_KIND = "skew-over-time"
_DAYS_KEPT = 400


def minute_of(moment: str) -> str:
    """A moment as ISO 8601 has it, in words up to its minute, in UTC."""
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for a drift of one feature: the evidence of all windows, the e-value of the last one, and since when
    the feature is in alarm, as the start of a window; None where it is not."""

    evidence: float = 0.0
    e_value: float = 1.0
    alarm_since: str | None = None


@dataclass(frozen=True, slots=True)
class OverTime:
    """All windows so far: there is one false alarm per `windows_per_alarm` windows at most, and `windows` were counted.

    `counted` says whether this report's window is among them; `evidence` is the mean over features, which raises the
    alarm where it reaches `windows_per_alarm`.
    """

    windows_per_alarm: int
    windows: int
    counted: bool
    evidence: float
    features: Mapping[str, Evidence]

    def findings(self) -> list[Finding]:
        """One for each feature in alarm."""
        return [
            Finding(
                CHECK,
                name,
                Outcome.FAIL,
                f"`{name}`: has drifted over windows, in alarm since the window of {minute_of(one.alarm_since)} "
                f"(evidence {one.evidence:.3g}; one false alarm in {self.windows_per_alarm} windows)",
                number=None,
                limit=float(self.windows_per_alarm),
                cause={"kind": "drift over time", "since": minute_of(one.alarm_since)},
            )
            for name, one in self.features.items()
            if one.alarm_since is not None
        ]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the file holds: the last window, what was known before it, and the counts of windows without an alarm."""

    model: str
    profile: str
    windows: int = 0
    since: str = ""
    until: str = ""
    before: Mapping[str, Evidence] = field(default_factory=dict)
    now: Mapping[str, Evidence] = field(default_factory=dict)
    counts: Mapping[str, FeatureCounts] = field(default_factory=dict)
    last: Mapping[str, FeatureCounts] = field(default_factory=dict)


def over_time(
    model: str,
    profile: Profile,
    counts: Mapping[str, FeatureCounts],
    window: tuple[datetime, datetime],
    folder: Path,
    windows_per_alarm: int,
) -> OverTime:
    """Takes a window's `counts` into the evidence that `folder` keeps, unless it overlaps one that is in it already.

    The last window may come again with more rows, and then replaces itself. Evidence about another profile is dropped.
    InvalidInput where `folder` keeps that about another model, Unsupported where another build of Tidegate wrote it,
    and Tampered where it was changed or broken.
    """
    path = folder / FILE_NAME
    kept = _read(path, model, profile.id)
    since, until = (one.isoformat() for one in window)
    again = (since, until) == (kept.since, kept.until)
    fresh = not kept.windows or window[0] >= datetime.fromisoformat(kept.until)
    if (again or fresh) and counts:
        kept = _counted(profile, counts, (since, until), kept if fresh else _undone(kept), windows_per_alarm)
        sweep_asides(folder)
        write_atomically(path, json.dumps(_to_dict(kept)) + "\n")
    mean = float(np.mean([one.evidence for one in kept.now.values()])) if kept.now else 0.0
    return OverTime(windows_per_alarm, kept.windows, again or fresh, mean, kept.now)


def _undone(kept: _Kept) -> _Kept:
    """As it was before the last window."""
    return replace(kept, windows=kept.windows - 1, now=kept.before, last={})


def _counted(
    profile: Profile, counts: Mapping[str, FeatureCounts], window: tuple[str, str], kept: _Kept, windows_per_alarm: int
) -> _Kept:
    """One window later. The window before joins the reference only now, and only features that were not in alarm."""
    joined = dict(kept.counts)
    for name, part in kept.last.items():
        if kept.now.get(name, Evidence()).alarm_since is None:
            joined[name] = _latest(joined[name].merged(part) if name in joined else part)
    known_by_now = counts.keys() | kept.now.keys()
    names = [one.name for one in profile.inputs if one.name in known_by_now and one.bins is not None]
    prior = likeness_of(profile, growths_of(profile)).shared
    e = np.array(
        [_e_value(profile.features[one], _reference(profile, joined, one), counts.get(one), prior) for one in names]
    )
    known = [kept.now.get(name, Evidence()) for name in names]
    alarms = np.array([one.alarm_since is not None for one in known], dtype=np.bool_)
    evidence, raised = advance(np.array([one.evidence for one in known]), alarms, e, windows_per_alarm)
    told = np.where(np.isnan(e), 1.0, e)
    now = {
        name: Evidence(
            float(evidence[place]), float(told[place]), (old.alarm_since or window[0]) if raised[place] else None
        )
        for place, (name, old) in enumerate(zip(names, known, strict=True))
    }
    return replace(
        kept,
        windows=kept.windows + 1,
        since=window[0],
        until=window[1],
        before=kept.now,
        now=now,
        counts=joined,
        last=dict(counts),
    )


def _reference(profile: Profile, joined: Mapping[str, FeatureCounts], name: str) -> FeatureCounts:
    """Training and all windows before: so each window is held against what was known before it came."""
    return profile.counts[name].merged(joined[name]) if name in joined else profile.counts[name]


def _e_value(
    feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts | None, prior: Floats | None
) -> float:
    """The mean of two e-values is one again: of the values that are there, and of those that are missing. Values that
    grow with time say nothing; NaN where nothing does, as in a window without the column."""
    if current is None:
        return float("nan")
    ordinary = tuple(code for group in ordinary_bins(feature) for code in group)
    distances = [block_distance(reference, current, [MISSING, (*ordinary, *INFINITIES)], prior=prior)]
    if growth_of(feature, reference) is None:
        bins = compared_bins(feature, reference)
        distances.append(block_distance(reference, current, bins, ordered=has_order(feature), prior=prior))
    p_values = [one.p_value() for one in distances if one.decidable and one.block_robust]
    return float(e_values(np.array(p_values)).mean()) if p_values else float("nan")


def _latest(counts: FeatureCounts) -> FeatureCounts:
    return FeatureCounts(counts.blocks[-_DAYS_KEPT:], counts.codes, counts.n[-_DAYS_KEPT:])


def _read(path: Path, model: str, profile: str) -> _Kept:
    if not path.is_file():
        return _Kept(model, profile)
    try:
        document = json.loads(path.read_bytes())
        check_format(document, kind=_KIND, version=VERSION, where=str(path))
        kept = _from_dict(document)
    except Unsupported as error:
        raise Unsupported(f"{path} cannot be used ({error.message}): remove it to begin the watch anew") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Tampered(f"{path} cannot be used ({error}): remove it to begin the watch anew") from error
    if kept.model != model:
        raise InvalidInput(f"{path} remembers windows of {kept.model}: give {model} a folder of its own")
    return kept if kept.profile == profile else _Kept(model, profile)


def _to_dict(kept: _Kept) -> dict[str, Any]:
    parts = {part: {name: asdict(one) for name, one in getattr(kept, part).items()} for part in ("before", "now")}
    counts = {
        part: {
            name: {"blocks": one.blocks.tolist(), "codes": one.codes.tolist(), "n": one.n.tolist()}
            for name, one in getattr(kept, part).items()
        }
        for part in ("counts", "last")
    }
    told = {name: getattr(kept, name) for name in ("model", "profile", "windows", "since", "until")}
    return {"format": f"tidegate.{_KIND}/{VERSION}", **told, **parts, **counts}


def _from_dict(document: Mapping[str, Any]) -> _Kept:
    parts: dict[str, Any] = {
        part: {name: Evidence(**one) for name, one in document[part].items()} for part in ("before", "now")
    }
    for part in ("counts", "last"):
        parts[part] = {
            name: FeatureCounts(*(np.array(one[key], dtype=np.int64) for key in ("blocks", "codes", "n")))
            for name, one in document[part].items()
        }
    for part in ("model", "profile", "since", "until"):
        parts[part] = str(document[part])
    return _Kept(windows=int(document["windows"]), **parts)
