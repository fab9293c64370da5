"""Dates that are kept as texts, such as 2026-11-29: compared as the dates that they are, and told where they come
written in another way, or where other texts are in their place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.schema import CHECK as SCHEMA
from tidegate_validation.skew.compare import Comparison
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import Family, family, quote, text_literal

CHECK = "dates"
ANOTHER_WAY = "written another way"
NO_DATES = "no dates"
_ISO = r"\d{4}-\d{2}-\d{2}"
_TEXT = "VARCHAR"
_LEAST = 20
_OTHER_WAYS = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y%m%d",
    "%d.%m.%y",
    "%m/%d/%y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%dT%H:%M:%S.%fZ",
)
"""What else dates are written as, the first also without a zero before the month. Of several that read as many texts
one is told that makes dates of training of more of them, else the first."""
_TWO_DIGITS = "%y"
"""A year that leaves the century open."""
_FIRST_YEAR = 1000
"""Two digits for a year are no year of their own."""


@dataclass(frozen=True, slots=True)
class Written:
    """How a window writes the dates of one column: in so many `rows` that have a text, `others` are dates written the
    `way` of which `example` is one, `usual` in training, and `strange` are none, such as `stranger`."""

    rows: int
    others: int = 0
    way: str | None = None
    example: str = ""
    usual: str = ""
    strange: int = 0
    stranger: str = ""


def dates_in_texts(reference: Relation, names: Sequence[str]) -> list[str]:
    """Which of the columns hold texts that are all dates as ISO 8601 writes them, where they are not empty."""
    texts = [name for name in names if family(reference.types[name]) is Family.TEXT]
    texts = [name for name in texts if reference.types[name].upper() == _TEXT]
    if not texts:
        return []
    first = _row(reference, [f"regexp_full_match(any_value({_filled(name)}), '{_ISO}')" for name in texts])
    likely = [name for name, is_one in zip(texts, first, strict=True) if is_one]
    if not likely:
        return []
    counted = [f"count({what})" for name in likely for what in (_filled(name), _iso(name))]
    n = _row(reference, counted)
    return [name for name, filled, dates in zip(likely, n[::2], n[1::2], strict=True) if filled == dates >= _LEAST]


def as_dates(relation: Relation, names: Collection[str], written: Mapping[str, Written] | None = None) -> Relation:
    """The relation, in which these texts are dates, none where they cannot be read in either way."""
    if not names:
        return relation
    ways = {name: one.way for name, one in (written or {}).items() if one.way is not None}
    return relation.parsed(f"{relation.name}_read", {name: _date(name, ways.get(name)) for name in names})


def kept_in_texts(profile: Profile, names: Collection[str]) -> Profile:
    """The profile, which knows that these dates were texts."""
    features = {name: replace(one, type=_TEXT) if name in names else one for name, one in profile.features.items()}
    return replace(profile, features=features)


def known_in_texts(profile: Profile, names: Collection[str]) -> list[str]:
    """Those of the columns of a window that a profile knows as dates in texts."""
    known = [name for name in names if name in profile.features]
    features = {name: profile.features[name] for name in known}
    return [name for name, one in features.items() if one.type == _TEXT and one.family is not Family.TEXT]


def ways_of(now: Relation, profile: Profile, names: Sequence[str]) -> dict[str, Written]:
    """How each of the columns, of those that hold texts, writes its dates."""
    texts = [name for name in names if family(now.types[name]) is Family.TEXT]
    return {name: _written(now, name, profile.features[name]) for name in texts}


def told_of_writing(
    comparison: Comparison, now: Relation, names: Sequence[str], written: Mapping[str, Written], floor: float
) -> Comparison:
    """The comparison with a FAIL for each of the columns in which more than a share `floor` of the texts is written
    another way or is no date, or which is no text any more; `now` has them as they came."""
    findings = {name: list(found) for name, found in comparison.findings.items()}
    for name in names:
        if name not in written:
            if _row(now, [f"count({quote(name)})"])[0]:
                words = f"was text in training and is served as {family(now.types[name]).value}"
                findings[name] = [Finding(SCHEMA, name, Outcome.FAIL, f"`{name}`: {words}")]
            continue
        one = written[name]
        if one.strange > floor * one.rows:
            findings[name] = [known for known in findings.get(name, []) if known.check != Aspect.MISSING]
            words = f"hold texts that are no dates, such as “{one.stranger}”"
            findings[name].insert(0, _finding(name, one.strange / one.rows, words, floor, {"kind": NO_DATES}))
        if one.others > floor * one.rows:
            if _TWO_DIGITS in (one.way or ""):
                findings[name] = [known for known in findings.get(name, []) if known.check == Aspect.MISSING]
            words = f"hold dates that are written another way: “{one.example}”, where training had “{one.usual}”"
            cause = {"kind": ANOTHER_WAY, "change": "date format", "spellings": [[one.usual, one.example]]}
            findings.setdefault(name, []).insert(0, _finding(name, one.others / one.rows, words, floor, cause))
    return replace(comparison, findings=findings)


def _finding(name: str, share: float, words: str, floor: float, cause: Mapping[str, object]) -> Finding:
    told = {**cause, "share": round(share, 4)}
    sentence = f"`{name}`: {100 * share:.1f} % of the rows {words}"
    return Finding(CHECK, name, Outcome.FAIL, sentence, number=share, limit=floor, cause=told)


def _written(now: Relation, name: str, known: FeatureProfile) -> Written:
    rest = f"CASE WHEN {_iso(name)} IS NULL THEN {_filled(name)} END"
    rows, others = _row(now, [f"count({_filled(name)})", f"count({rest})"])
    if not others:
        return Written(rows)
    read = _row(now, [f"count({_in_way(rest, way)})" for way in _OTHER_WAYS])
    most = max(read)
    if not most:
        return Written(rows, strange=others, stranger=_row(now, [f"min({rest})"])[0])
    ways = [way for way, n in zip(_OTHER_WAYS, read, strict=True) if n == most]
    way = ways[0] if len(ways) == 1 else max(ways, key=lambda one: _dates_of_training(now, _in_way(rest, one), known))
    strange = f"CASE WHEN {_in_way(rest, way)} IS NULL THEN {rest} END"
    read_so = f"CASE WHEN {_in_way(rest, way)} IS NOT NULL THEN {rest} END"
    example, stranger = _row(now, [f"min({read_so})", f"min({strange})"])
    usual = _row(now, [f"any_value(CAST({_in_way(text_literal(example), way)} AS VARCHAR))"])[0]
    return Written(rows, most, way, example, usual, others - most, stranger or "")


def _dates_of_training(now: Relation, date: str, known: FeatureProfile) -> int:
    """In how many rows this is one of the few dates that training held; 0 where these were many."""
    if known.family is not Family.TIME or not known.support:
        return 0
    listed = ", ".join(repr(value) for value, _ in known.support)
    return int(_row(now, [f"count(*) FILTER (WHERE epoch({date}) IN ({listed}))"])[0])


def _date(name: str, way: str | None) -> str:
    return _iso(name) if way is None else f"coalesce({_iso(name)}, {_in_way(_filled(name), way)})"


def _in_way(text: str, way: str) -> str:
    read = f"try_strptime({text}, {text_literal(way)})"
    return f"CASE WHEN year({read}) >= {_FIRST_YEAR} THEN CAST({read} AS DATE) END"


def _iso(name: str) -> str:
    return f"CASE WHEN regexp_full_match({quote(name)}, '{_ISO}') THEN TRY_CAST({quote(name)} AS DATE) END"


def _filled(name: str) -> str:
    return f"nullif({quote(name)}, '')"


def _row(relation: Relation, wanted: Sequence[str]) -> list[Any]:
    return list(relation.connection.execute(f"SELECT {', '.join(wanted)} FROM {relation.name}").fetchall()[0])
