"""What is found of a column of vectors: its measures differ, each by itself, and that becomes one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.beyond import NEW_VALUE
from tidegate_validation.skew.diagnosis.frozen import ONE_VALUE
from tidegate_validation.skew.diagnosis.rivals import DEFAULT
from tidegate_validation.statistics.vectors import FIRST, HIGHEST, LAST, LOWEST, NORM, NUMBERS

_TOLD = (Outcome.FAIL, Outcome.WARN)
_SEVERITY = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN, Outcome.PASS, Outcome.INCONCLUSIVE)
"""Where one measure says that nothing changed, others of which nothing can be told say no more."""
_UNIT = 1e-4


def finding_of_vectors(name: str, by_measure: Mapping[str, Sequence[Finding]]) -> Finding:
    """One finding about the column `name` from the findings of its measures, by measure; of how many numbers it has
    first, then of their length, then of the measure that differs most."""
    gravest = {measure: found[0] for measure, found in by_measure.items() if found}
    outcome = min((one.outcome for one in gravest.values()), key=_SEVERITY.index)
    alike = {measure: one for measure, one in gravest.items() if one.outcome is outcome}
    measure = max(alike, key=lambda one: (one == NUMBERS, one == NORM, abs(alike[one].number or 0.0)))
    first = alike[measure]
    cause = _cause(measure, first.cause or {})
    differ = sum(one.outcome in _TOLD for one in gravest.values())
    words = _words(name, measure, first.sentence, cause)
    if differ > 1 and cause is None:
        words += f" ({differ} of {len(gravest)} measures of its vectors differ)"
    return replace(first, subject=name, sentence=words, cause=cause)


def _cause(measure: str, cause: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a cause of the length of vectors says of these; no single number or direction says why they differ."""
    if measure != NORM:
        return None
    value = cause.get("value")
    if cause.get("kind") == ONE_VALUE and isinstance(value, float) and abs(value - 1) < _UNIT:
        return {"kind": "normalised", "share": cause["share"]}
    if cause.get("kind") in (DEFAULT, NEW_VALUE, ONE_VALUE) and value == 0:
        return {"kind": "zero vectors", "share": cause["share"]}
    return None


def _words(name: str, measure: str, sentence: str, cause: Mapping[str, Any] | None) -> str:
    about = sentence.removeprefix(f"`{measure}`: ")
    if cause is not None and cause["kind"] == "normalised":
        return f"`{name}`: its vectors have length 1, unlike in training (normalised?)"
    if cause is not None:
        return f"`{name}`: {100 * float(cause['share']):.1f} % of its vectors are all zeros, unlike in training"
    what = {NUMBERS: "how many numbers its vectors have", NORM: "the length of its vectors"}
    of_lists = {one: f"the {one} of its lists" for one in (FIRST, LAST, LOWEST, HIGHEST)}
    return f"`{name}`: {({**what, **of_lists}).get(measure, f'{measure} of its vectors')}: {about}"
