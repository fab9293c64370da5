"""What is found of a column of free text: its measures differ, each by itself, and that becomes one finding."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.categories import NEW_CATEGORY, RESPELLED
from tidegate_validation.skew.diagnosis.frozen import ONE_VALUE
from tidegate_validation.skew.diagnosis.rivals import CLIPPED, OTHER_COLUMN
from tidegate_validation.statistics.arrays import Floats, Mask
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample
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
_KNOWN = 20
"""Texts of training that tell how ids are written."""
_MIXED = 0.1
"""Where letters and digits stand in the same place, each of them is there in so large a part of the texts at least."""
_ALIKE, _ERRORS = 0.15, 3.0
"""The share of letters there may differ by so much, and by so many standard errors besides."""
_NUMBER_AT_END, _DIGIT = re.compile(r"[0-9]+$"), re.compile(r"[0-9]")
_FEW_HEADS = 0.1
"""What ids that count behind a year or a day have in front are so few, beside their number."""
_SHORTER, _BY_CHANCE = 0.02, 5.0
"""So large a part of the rows may have shorter texts than training's, or so many times what chance makes of its own."""


def count_on(known: FeatureProfile, sample: TextSample) -> bool:
    """Whether ids have letters and digits in the same places, as numbers to a base above ten do, here as in training,
    and no text has kinds of characters that none of training's had together: what kinds of characters each is made of
    says nothing then, for those in front change with time. After `zzzz` comes `10000`."""
    before, now = _listed(known), [str(one) for one in sample.placed[0]]
    if len(before) < _KNOWN or len(now) < _KNOWN:
        return False
    place = next((at for at in range(max(map(len, before))) if _is_mixed(_letters(before, at))), None)
    if place is None:
        return False
    usual, share = (float(_letters(part, place).mean()) for part in (before, now))
    error = (usual * (1 - usual) / len(now)) ** 0.5
    kinds = {_kinds(one) for one in before}
    return abs(share - usual) <= _ALIKE + _ERRORS * error and all(
        any(one <= two for two in kinds) for one in {_kinds(text) for text in now}
    )


def shortened(known: FeatureProfile, sample: TextSample) -> Finding | None:
    """A finding where ids, of which hardly any comes twice, are shorter than all of training's: they grow longer with
    time, and shorter only where they are counted anew."""
    before = _listed(known)
    if len(before) < _KNOWN or not len(sample.values):
        return None
    least = min(map(len, before))
    lengths = np.fromiter(map(len, sample.values), dtype=np.int64, count=len(sample.values))
    lengths[_counted_anew(before, sample.values.tolist())] = least
    share = float(sample.n[lengths < least].sum() / sample.n.sum())
    limit = max(_SHORTER, _BY_CHANCE / (len(before) + 1))
    if share <= limit:
        return None
    most = int(lengths[lengths < least].max())
    zeros = all(one.startswith("0") for one in before) and not any(
        one.startswith("0") for one in sample.values[lengths < least]
    )
    change = "leading zeros" if zeros else "cut off"
    sentence = (
        f"`{known.name}`: {100 * share:.1f} % of its texts have {most} characters or fewer, all of training's had "
        f"{least} or more ({change}?)"
    )
    cause = {"kind": RESPELLED, "share": round(share, 4), "change": change, "spellings": []}
    return Finding(CHECK, known.name, Outcome.FAIL, sentence, number=share, limit=limit, cause=cause)


def _counted_anew(before: Sequence[str], texts: Sequence[str]) -> Mask:
    """Which texts count behind a beginning that is new, as with a new year or month, and written as those of training,
    which had few beginnings."""
    heads = {_NUMBER_AT_END.sub("", one) for one in before}
    forms = {_DIGIT.sub("0", one) for one in heads}
    if len(heads) > _FEW_HEADS * len(before) or heads == forms:
        return np.zeros(len(texts), dtype=bool)
    found = (_NUMBER_AT_END.sub("", one) for one in texts)
    return np.array([one not in heads and _DIGIT.sub("0", one) in forms for one in found], dtype=bool)


def _listed(known: FeatureProfile) -> list[str]:
    """The texts of training that its profile lists."""
    bins = known.bins
    return [*bins.top, *bins.others] if isinstance(bins, CategoryBins) else []


def _letters(texts: Sequence[str], place: int) -> Floats:
    """Which of the texts that have a letter or a digit in a `place`, counted from the end, have a letter there."""
    signs = [one[-1 - place] for one in texts if len(one) > place]
    return np.array([one.isalpha() for one in signs if one.isalnum()], dtype=np.float64)


def _is_mixed(letters: Floats) -> bool:
    return len(letters) >= _KNOWN and _MIXED <= letters.mean() <= 1 - _MIXED


def _kinds(text: str) -> frozenset[str]:
    """The kinds of characters of a text, each sign as one of its own."""
    return frozenset(
        "A" if one.isupper() else "a" if one.isalpha() else "0" if one.isdigit() else one for one in {*text}
    )


def _telling(differ: Sequence[str], told: Mapping[str, Finding]) -> str:
    """The measure that says most: kinds of characters that none of training's texts were made of, unless texts were cut
    off, which is seen by how long they are; else the first."""
    first, made = told[differ[0]], told.get(MADE_OF)
    if made is None or made.outcome is not first.outcome or (first.cause or {}).get("kind") == CLIPPED:
        return differ[0]
    return MADE_OF if (made.cause or {}).get("kind") in (NEW_CATEGORY, ONE_VALUE) else differ[0]


def finding_of_texts(name: str, by_measure: Mapping[str, Sequence[Finding]]) -> Finding | None:
    """The finding about the column `name` from those of its measures: the gravest, of how long its texts are before
    what they are written with; None where all are as in training, or cannot be told."""
    told = {measure: by_measure[measure][0] for measure in _WORDS if by_measure.get(measure)}
    differ = [measure for outcome in _TOLD for measure, one in told.items() if one.outcome is outcome]
    if not differ:
        return None
    measure = _telling(differ, told)
    first = told[measure]
    words = f"`{name}`: {_WORDS[measure]}: {first.sentence.removeprefix(f'`{measure}`: ')}"
    cause = first.cause or {}
    if measure == MADE_OF and cause.get("kind") == ONE_VALUE:
        words = f"`{name}`: all its texts are made of {cause['value']} now"
    if cause.get("kind") == OTHER_COLUMN:  # It holds what another measure did, which says nothing.
        words = f"`{name}`: {_WORDS[measure]}: values are distributed unlike training's"
    return replace(first, check=CHECK, subject=name, sentence=words, cause=None)
