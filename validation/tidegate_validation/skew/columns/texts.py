"""What is found of a column of free text: its measures differ, each by itself, and that becomes one finding."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.categories import NEW_CATEGORY
from tidegate_validation.skew.diagnosis.frozen import ONE_VALUE
from tidegate_validation.skew.diagnosis.rivals import OTHER_COLUMN
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.texts import CAPITALS, CHARACTERS, DIGITS, FOREIGN, MADE_OF, WORDS

CHECK = "text"
_WORDS = {
    CHARACTERS: "how many characters its texts have",
    WORDS: "how many words its texts have",
    CAPITALS: "the share of capitals in its texts",
    DIGITS: "the share of digits in its texts",
    FOREIGN: "the share of characters beyond ASCII in its texts",
    MADE_OF: "what kinds of characters its texts are made of",
}
_TOLD = (Outcome.FAIL, Outcome.WARN)
"""The gravest first."""
_MOST = 0.5
_MIXED = 2
_KNOWN = 20
"""Texts of training that tell where letters and digits stand."""


def as_ids_roll_over(finding: Finding, known: FeatureProfile, made_of: FeatureProfile | None) -> bool:
    """Whether it says only that some texts are made of fewer kinds of characters than training's, where these have
    letters and digits in the same places, as numbers to a base above ten do: after `zzzz` comes `10000`."""
    cause = finding.cause or {}
    bins, kinds = known.bins, made_of.bins if made_of is not None else None
    if cause.get("kind") != NEW_CATEGORY or not isinstance(kinds, CategoryBins) or not isinstance(bins, CategoryBins):
        return False
    parts = [{*one.split(", ")} for one in (*kinds.top, *kinds.others)]
    fewer = all(any({*one.split(", ")} < two for two in parts) for one in cause["values"])
    return fewer and cause["share"] <= _MOST and _mixed((*bins.top, *bins.others))


def _mixed(texts: Sequence[str]) -> bool:
    """Whether in several places, from the end, some of the texts have a letter and others a digit."""
    places = [*itertools.zip_longest(*(one[::-1] for one in texts), fillvalue="")]
    both = [any(map(str.isdigit, place)) and any(map(str.isalpha, place)) for place in places]
    return len(texts) >= _KNOWN and sum(both) >= _MIXED


def finding_of_texts(name: str, by_measure: Mapping[str, Sequence[Finding]]) -> Finding | None:
    """The finding about the column `name` from those of its measures: the gravest, of how long its texts are before
    what they are written with; None where all are as in training, or cannot be told."""
    told = {measure: by_measure[measure][0] for measure in _WORDS if by_measure.get(measure)}
    differ = [measure for outcome in _TOLD for measure, one in told.items() if one.outcome is outcome]
    if not differ:
        return None
    measure = differ[0]
    first = told[measure]
    words = f"`{name}`: {_WORDS[measure]}: {first.sentence.removeprefix(f'`{measure}`: ')}"
    cause = first.cause or {}
    if measure == MADE_OF and cause.get("kind") == ONE_VALUE:
        words = f"`{name}`: all its texts are made of {cause['value']} now"
    if cause.get("kind") == OTHER_COLUMN:  # It holds what another measure did, which says nothing.
        words = f"`{name}`: {_WORDS[measure]}: values are distributed unlike training's"
    return replace(first, check=CHECK, subject=name, sentence=words, cause=None)
