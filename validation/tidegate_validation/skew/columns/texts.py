"""What is found of a column of free text: its measures differ, each by itself, and that becomes one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.frozen import ONE_VALUE
from tidegate_validation.skew.diagnosis.rivals import OTHER_COLUMN
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
