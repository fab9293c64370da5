"""Where values are missing: whether it is the rows of one category of another column, such as one of many producers.
And whether fewer are missing only because a text such as `NaN` stands for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.categories import NEW_CATEGORY
from tidegate_validation.skew.finding import MISSING_VALUES, SEVERITY
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.bins import MISSING, CategoryBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample
from tidegate_validation.statistics.sql import as_number, as_text, family, quote
from tidegate_validation.statistics.window import Window

AS_TEXT = "missing values as text"
_WORDS = frozenset(("nan", "none", "null", "na", "n/a", "#n/a", "nil", "nat", "<na>", "<null>", "(null)", "undefined"))
"""What programs write where a text is missing, in small letters."""
_NEARLY_ALL = 0.9
_MOST = 0.9
_LEAST_ROWS = 20
_MANY = 200
_ABOUT = 0.5
"""A share of what is no longer missing which the text must have at least, and of the text which must have been missing:
days differ."""
_TOLD = (Outcome.FAIL, Outcome.WARN)


def said_as_text(
    found: list[Finding],
    feature: FeatureProfile,
    reference: FeatureCounts,
    current: FeatureCounts,
    sample: ValueSample | TextSample,
) -> list[Finding]:
    """The findings of a column, in which one alone tells of a text that stands for missing values and that training
    never held: as a new category, and as values of which fewer are missing, it would be told twice."""
    if not isinstance(feature.bins, CategoryBins) or not isinstance(sample, TextSample):
        return found
    known = {*feature.bins.top, *feature.bins.others}
    rows = {str(text): 0 for text in sample.values if str(text).strip().lower() in _WORDS and text not in known}
    for text, n in zip(sample.values, sample.n, strict=True):
        if text in rows:
            rows[str(text)] += int(n)
    share = sum(rows.values()) / max(current.rows, 1)
    fewer = _missing(reference) - _missing(current)
    instead = fewer > 0 and share >= _ABOUT * fewer and fewer >= _ABOUT * share
    told = [one for one in found if one.outcome in _TOLD and _is_told(one, rows, instead=instead)]
    if not rows or not told:
        return found
    first = min(told, key=lambda one: SEVERITY.index(one.outcome))
    texts = sorted(rows, key=lambda one: -rows[one])
    named = " or ".join(f"“{one}”" for one in texts)
    words = f"`{feature.name}`: {100 * share:.1f} % of the rows hold the text {named}, which training never held"
    words += f": it stands for missing values, {100 * _missing(reference):.1f} % were in training" if instead else ""
    words += "" if instead else " (missing values as text?)"
    cause = {"kind": AS_TEXT, "share": round(share, 4), "values": texts}
    told_once = replace(first, check=Aspect.MISSING.value, sentence=words, cause=cause, number=share, interval=None)
    return [told_once, *(one for one in found if one not in told)]


def _is_told(finding: Finding, texts: dict[str, int], *, instead: bool) -> bool:
    """Whether a finding says no more than that some rows hold the `texts`, `instead` of being missing or not."""
    cause = finding.cause or {}
    if cause.get("kind") == NEW_CATEGORY:
        weighing = cause["values"][:1] if finding.check == Aspect.POINT.value else cause["values"]
        return {*weighing} <= texts.keys()
    return instead and finding.check == Aspect.MISSING.value


def _missing(counts: FeatureCounts) -> float:
    return float(counts.of(MISSING).sum()) / max(counts.rows, 1)


def said_where(finding: Finding, window: Window, beside: Sequence[str]) -> Finding:
    """A finding about missing values with the category that has nearly all of them, where nearly all of its rows have
    none; `beside` are the columns that are looked at. Other findings stay as they are."""
    cause = finding.cause or {}
    if finding.check != Aspect.MISSING.value or cause.get("kind") != MISSING_VALUES:
        return finding
    column = window.columns.get(finding.subject, finding.subject)
    for name in beside:
        other = window.columns.get(name, name)
        if name == finding.subject or (value := _category(window, column, other)) is None:
            continue
        where = {"column": name, "value": value}
        sentence = f"{finding.sentence}: where `{name}` is “{value}”"
        return replace(finding, sentence=sentence, cause={**cause, "where": where})
    return finding


def _category(window: Window, column: str, other: str) -> str | None:
    """The value of `other` that goes with missing values of `column`."""
    kind = window.types[column]
    missing = (
        f"{as_number(column, kind)} IS NULL OR isnan({as_number(column, kind)})"
        if family(kind).numeric
        else f"coalesce({as_text(column, kind)}, '') = ''"
    )
    found = window.connection.execute(
        f"SELECT CAST({quote(other)} AS VARCHAR), count(*), count(*) FILTER ({missing}) FROM {window.relation} "
        f"GROUP BY 1 ORDER BY 3 DESC LIMIT {_MANY}"
    ).fetchall()
    value, rows, empty = found[0]
    everything, all_rows = sum(one[2] for one in found), sum(one[1] for one in found)
    concentrated = empty >= _NEARLY_ALL * everything and empty >= _NEARLY_ALL * rows and empty >= _LEAST_ROWS
    return str(value) if value is not None and concentrated and rows <= _MOST * all_rows else None
