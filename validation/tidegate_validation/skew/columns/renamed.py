"""A column that is not served any more, and a new one that holds just what it held: it was renamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate_serving.admission import Finding
from tidegate_validation.skew.columns.schema import CHECK
from tidegate_validation.skew.diagnosis.suspect import distance_of, shares_of
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.counting import count_relation
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.sql import family
from tidegate_validation.statistics.window import Window

RENAMED = "renamed column"
_NEAR = 0.3
_CLEARLY = 2.0
_KNOWN = 0.5


def with_new_names(findings: Sequence[Finding], profile: Profile, window: Window) -> list[Finding]:
    """The findings of the schema; one about a missing column names the only new one that is spread as it was."""
    columns = set(window.columns.values())
    missing = [one.subject for one in findings if window.columns.get(one.subject, one.subject) not in columns]
    new = [one.subject for one in findings if one.subject not in profile.features and one.subject in window.columns]
    told = {name: found for name in missing if (found := _new_name(profile, name, new, window)) is not None}
    taken = list(told.values())
    return [
        replace(
            one,
            sentence=f"{one.sentence}; `{told[one.subject]}`, which is new, holds what it held (renamed?)",
            cause={"kind": RENAMED, "column": told[one.subject]},
        )
        if one.subject in told and one.check == CHECK and taken.count(told[one.subject]) == 1
        else one
        for one in findings
    ]


def _new_name(profile: Profile, name: str, new: Sequence[str], window: Window) -> str | None:
    feature = profile.features.get(name)
    if feature is None or feature.bins is None or not _telling(profile, feature):
        return None
    alike = [one for one in new if family(window.types[window.columns[one]]) is feature.family]
    apart = sorted((_apart(profile, feature, window.columns[one], window), one) for one in alike)
    if not apart or apart[0][0] > _NEAR or (len(apart) > 1 and apart[1][0] < _CLEARLY * max(apart[0][0], _NEAR)):
        return None
    return apart[0][1]


def _telling(profile: Profile, feature: FeatureProfile) -> bool:
    """Whether its values were listed well enough to be known again: free text is like any other."""
    if not isinstance(feature.bins, CategoryBins):
        return True
    return float(shares_of(feature, profile.counts[feature.name])[: feature.bins.other].sum()) >= _KNOWN


def _apart(profile: Profile, feature: FeatureProfile, column: str, window: Window) -> float:
    """Δ between the feature in training and a column of the window."""
    counts = count_relation(window.connection, window.relation, window.block, [feature], {feature.name: column})
    return distance_of(shares_of(feature, profile.counts[feature.name]), shares_of(feature, counts[feature.name]))
