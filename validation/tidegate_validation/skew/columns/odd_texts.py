"""Texts that are written as none of training's in a column to which days bring new ones anyway, as releases or articles
are: what a test of new values lets pass there, or does not name."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.missing import AS_TEXT
from tidegate_validation.skew.diagnosis.categories import GONE, NEW_CATEGORY, RESPELLED
from tidegate_validation.skew.diagnosis.frozen import ONE_VALUE
from tidegate_validation.skew.measures.forms import odd_forms
from tidegate_validation.skew.measures.numbers import FeatureNumbers
from tidegate_validation.skew.rule import Aspect, SkewRule
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample

_BRINGS = 0.02
_SAYS_MORE = (AS_TEXT, RESPELLED, ONE_VALUE)
_SHOWN = 5


def told_of_odd_texts(
    found: list[Finding],
    feature: FeatureProfile,
    numbers: FeatureNumbers,
    sample: ValueSample | TextSample,
    free: Collection[str],
    rule: SkewRule,
) -> list[Finding]:
    """The findings of a column, first a FAIL about texts that are written as none of training's, if more rows than the
    rule's floor hold such; as they are where these are named already, or more is known of them, and of the columns of
    `free` texts, which are measured."""
    unnamed = (found[0].cause or {}).get("kind", GONE) == GONE and found[0].outcome is Outcome.FAIL
    untold = unnamed or numbers.waves or numbers.unseen is None or (feature.new_rate or 0.0) >= _BRINGS
    odd = odd_forms(feature, sample, rule.unseen_floor) if untold and feature.name not in free else None
    if odd is None or any((one.cause or {}).get("kind") in _SAYS_MORE for one in found):
        return found
    named = ", ".join(f"“{one}”" for one in odd.values[:_SHOWN])
    sentence = (
        f"`{feature.name}`: {100 * odd.share:.1f} % of the rows hold texts written as none of training's: {named}"
    )
    cause = {"kind": NEW_CATEGORY, "share": round(odd.share, 4), "values": [*odd.values[:_SHOWN]]}
    told = Finding(
        Aspect.UNSEEN.value, feature.name, Outcome.FAIL, sentence, number=odd.share, limit=odd.limit, cause=cause
    )
    return [told, *(one for one in found if not _is_told(one, odd.values))]


def _is_told(finding: Finding, values: Sequence[str]) -> bool:
    """Whether a finding is about new categories that are all among the `values`, or only passes."""
    cause = finding.cause or {}
    only_these = cause.get("kind") == NEW_CATEGORY and {*cause.get("values", ())} <= {*values}
    return only_these or finding.outcome not in (Outcome.FAIL, Outcome.WARN)
