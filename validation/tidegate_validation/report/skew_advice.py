"""What to do about skew, in a few sentences: the gravest findings first, by what their causes are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.finding import where_words
from tidegate_validation.skew.left_out import CHECK
from tidegate_validation.skew.measures.distance import ENOUGH_BLOCKS
from tidegate_validation.skew.report import SkewReport
from tidegate_validation.skew.rule import Aspect

_MOST = 5
_TOLD = (Outcome.FAIL, Outcome.WARN)


def skew_steps(report: SkewReport) -> tuple[str, ...]:
    """Sentences in the order in which to act; none where nothing was found."""
    told: dict[str, Finding] = {}
    few_days = _few_days(report)
    for one in report.findings:
        if one.outcome in _TOLD and one.check != CHECK and not (few_days and _of_one_day(one)):
            known = told.setdefault(one.subject, one)
            told[one.subject] = one if known.cause is None and one.cause is not None else known
    steps = [_step(one) for one in list(told.values())[:_MOST]]
    further = len(told) - _MOST
    if further > 0:
        which = "further feature" if further == 1 else f"{further} further features"
        steps.append(f"Then see the {which} below: one cause upstream may explain several.")
    return (*_left_out(report), *few_days, *steps, *_in_general(report))


def _left_out(report: SkewReport) -> Iterator[str]:
    """What comes first where more of another server's log is missing than clients' mistakes explain."""
    if any(one.check == CHECK and one.outcome is not Outcome.PASS for one in report.findings):
        yield (
            "Find out who sends requests that cannot be read, or what writes, cuts or mixes the log: the first of them "
            "are named below. Then compare again with the whole log."
        )


def _few_days(report: SkewReport) -> tuple[str, ...]:
    """What comes first where training has too few days to know how days differ."""
    days = report.days
    if days is None or days.reference_number >= ENOUGH_BLOCKS or not any(map(_of_one_day, report.findings)):
        return ()
    has = "one day" if days.reference_number == 1 else f"{days.reference_number} days"
    return (
        f"Compare with {ENOUGH_BLOCKS} days of training or more: it has {has}, so that what a day brings by itself "
        "cannot be told from a fault, and is a WARN below.",
    )


def _of_one_day(finding: Finding) -> bool:
    """Whether it may be what one day brings by itself: values are otherwise, and no cause explains it."""
    return finding.outcome is Outcome.WARN and finding.cause is None and finding.check in list(Aspect)


def _in_general(report: SkewReport) -> Iterator[str]:
    if report.rollback is not None:
        yield report.rollback.sentence
    if report.outcome is Outcome.FAIL and report.model is not None:
        yield (
            "Where the world has changed and nothing is broken, train on days like these; the version that serves goes "
            "on serving until then."
        )


def _step(finding: Finding) -> str:
    cause = finding.cause or {}
    kind = _SCHEMA if finding.check == _SCHEMA and cause.get("kind") != "renamed column" else str(cause.get("kind"))
    when = _where(cause) + (f" since {cause['since']}" if cause.get("since") else "")
    known = {"value": "one value", "change": "spelling", "old": "the old", "new": "the new", **cause}
    return _BY_KIND.get(kind, _UNKNOWN).format(**{**known, "name": f"`{finding.subject}`", "when": when})


def _where(cause: Mapping[str, Any]) -> str:
    where = cause.get("where")
    return f" {where_words(where)}" if where else ""


_SCHEMA = "schema"
_UNKNOWN = "Look at {name} at its source: no plain change explains it{when}. Its bars show what is new."
_UNIT = "Ask who sends {name}{when} what changed its unit, and convert it back before the model is asked."
_FILLED = "Find out what writes {value} into {name}{when}, and send it as missing instead."
_ZONE = "Check in which time zone {name} is written and read{when}."
_ORDER = "Check the join and the order of rows by which {name} comes to the others{when}: values are of other rows."
_DIGITS = "Find out what takes digits from {name}{when}, and send it as it was in training."
_STEP_MORE = "Look for a step of preparation that {name} goes through once too often or not at all{when}"
_BY_KIND: Mapping[str, str] = {
    _SCHEMA: "Send {name} under the name and in the type of training, or train without it.",
    "renamed column": "Send `{column}` under its old name, {name}, or train with the new one.",
    "constant factor": _UNIT,
    "constant offset": _UNIT,
    "factor and offset": _UNIT,
    "inverted": "Check the meaning of {name}{when}: yes and no have changed places.",
    "transformed": f"{_STEP_MORE}: {{how}}.",
    "normalised": f"{_STEP_MORE}: vectors have length 1.",
    "written another way": "Write the categories of {name} as in training before the model is asked ({change}){when}.",
    "spelling": "Write the categories of {name} as in training before the model is asked{when}.",
    "renamed category": (
        "Write “{old}” for “{new}” in {name} before the model is asked{when}, or train with the new name."
    ),
    "merged categories": "Find out why “{old}” of {name} is sent as “{new}”{when}, and keep both apart.",
    "new category": (
        "Decide whether the new categories of {name} are real: then train with them, else map them to known ones."
    ),
    "no category": (
        "Find out which category has no column among those from {name} on: map it to a known one, or train with it."
    ),
    "several categories": "Find out what sets several of the columns from {name} on at once, where one is meant.",
    "missing values": (
        "Find out why {name} comes empty{when}: a source that is down, a join that misses, a field renamed upstream."
    ),
    "missing values as text": "Find out what writes missing values of {name} as text{when}, and send them as missing.",
    "no time": "Find out why rows come without a time in {name}, or with one in another unit: they count for no day.",
    "missing categories": (
        "Find out where the rows of the missing categories of {name} went{when}: a source that is down, a filter."
    ),
    "default value": _FILLED,
    "new value": _FILLED,
    "zero vectors": "Find out where {name} comes without a vector{when}, and send it as missing instead.",
    "begun again": "Find out what set {name} back{when}: a restart, a new source, or ids that are used again.",
    "does not grow on": "Look at {name} at its source: it does not go on as it grew in training{when}.",
    "few values": _DIGITS,
    "one value": "Find out what keeps {name} at one value{when}: a sensor, a cache, a constant left in the code.",
    "clipped": "Find out what cuts {name} off{when}: a limit in a form, a sensor's range, a column too narrow.",
    "outside the range": (
        "Look at rows of {name} outside training's range{when}: where they are real, train with such, else mend their "
        "source."
    ),
    "clock": _ZONE,
    "time zone": _ZONE,
    "day and month swapped": "Check how dates of {name} are written and read{when}: day and month have changed places.",
    "stale": "Find out why {name} comes a row late{when}: a cache, or a feature store that is behind.",
    "other rows": _ORDER,
    "shuffled": _ORDER,
    "sorted": _ORDER,
    "repeated values": "Find out what uses values of {name} again{when}: a retry, a wrong key, another thing's id.",
    "duplicated rows": "Find out what sends rows twice{when}: a retry, or a join with a table that has keys twice.",
    "other column": "Check the order and the names of columns where {name} is filled{when}.",
    "exchanged in some rows": "Find out who fills {name} and `{column}` in each other's place{when}.",
    "rounded": _DIGITS,
    "32-bit floats": _DIGITS,
    "64-bit floats": _DIGITS,
    "missing rows": "Find out which files or hours of the data did not come{when}, and compare again with all of it.",
    "missing ids": (
        "Find out which part of the data is missing{when}: {name} shows that a shard, or a reader of it, is left out."
    ),
    "exchanged categories": "Check the codes of {name} where they are written and read{when}: two have changed places.",
    "another date": "Find out which date {name} is written from{when}: it is not that of the event.",
    "drift over time": "Look at {name} over the last windows{when}: it moves a little in each, which none shows alone.",
}
"""What to do about each kind of cause; `{name}` is the column, `{when}` where and since when."""
