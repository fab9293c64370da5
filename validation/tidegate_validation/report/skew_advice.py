"""What to do about skew, in a few sentences: the gravest findings first, by what their causes are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.report import SkewReport

_MOST = 5
_TOLD = (Outcome.FAIL, Outcome.WARN)


def skew_steps(report: SkewReport) -> tuple[str, ...]:
    """Sentences in the order in which to act; none where nothing was found."""
    told: dict[str, Finding] = {}
    for one in report.findings:
        if one.outcome in _TOLD:
            known = told.setdefault(one.subject, one)
            told[one.subject] = one if known.cause is None and one.cause is not None else known
    steps = [_step(one) for one in list(told.values())[:_MOST]]
    if len(told) > _MOST:
        steps.append(
            f"Then see the {len(told) - _MOST} further features below: one cause upstream may explain several."
        )
    return (*steps, *_in_general(report))


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
    advice = _BY_KIND.get(str(cause.get("kind")))
    since = f" since {cause['since']}" if cause.get("since") else ""
    if cause.get("kind") == "renamed column":
        return f"Send `{cause['column']}` under its old name, `{finding.subject}`, or train with the new one."
    if finding.check == "schema":
        return f"Send `{finding.subject}` under the name and in the type of training, or train without it."
    if advice is None:
        return (
            f"Look at `{finding.subject}` at its source: no plain change explains it{since}. Its bars show what is new."
        )
    return advice(finding.subject, cause, f"{_where(cause)}{since}")


def _where(cause: Mapping[str, Any]) -> str:
    where = cause.get("where")
    return f" where `{where['column']}` is “{where['value']}”" if where else ""


def _unit(name: str, cause: Mapping[str, Any], when: str) -> str:
    return f"Ask who sends `{name}`{when} what changed its unit, and convert it back before the model is asked."


def _spelling(name: str, cause: Mapping[str, Any], when: str) -> str:
    return f"Write the categories of `{name}` as in training before the model is asked ({cause['change']}){when}."


def _missing(name: str, cause: Mapping[str, Any], when: str) -> str:
    return (
        f"Find out why `{name}` comes empty{when}: a source that is down, a join that misses, a field renamed upstream."
    )


def _filled(name: str, cause: Mapping[str, Any], when: str) -> str:
    return (
        f"Find out what writes {cause.get('value', 'one value')} into `{name}`{when}, and send it as missing instead."
    )


def _stuck(name: str, cause: Mapping[str, Any], when: str) -> str:
    return f"Find out what keeps `{name}` at one value{when}: a sensor, a cache, a constant left in the code."


def _new(name: str, cause: Mapping[str, Any], when: str) -> str:
    return f"Decide whether the new categories of `{name}` are real: then train with them, else map them to known ones."


def _zone(name: str, cause: Mapping[str, Any], when: str) -> str:
    return f"Check in which time zone `{name}` is written and read{when}."


def _order(name: str, cause: Mapping[str, Any], when: str) -> str:
    return (
        f"Check the join and the order of rows by which `{name}` comes to the others{when}: values are of other rows."
    )


def _twice(name: str, cause: Mapping[str, Any], when: str) -> str:
    return f"Find out what sends rows twice{when}: a retry, or a join with a table that has keys twice."


def _columns(name: str, cause: Mapping[str, Any], when: str) -> str:
    return f"Check the order and the names of columns where `{name}` is filled{when}."


def _digits(name: str, cause: Mapping[str, Any], when: str) -> str:
    return f"Find out what takes digits from `{name}`{when}, and send it as it was in training."


_BY_KIND: Mapping[str, Callable[[str, Mapping[str, Any], str], str]] = {
    "constant factor": _unit,
    "constant offset": _unit,
    "factor and offset": _unit,
    "written another way": _spelling,
    "renamed category": _new,
    "merged categories": _new,
    "new category": _new,
    "missing values": _missing,
    "missing categories": _missing,
    "default value": _filled,
    "new value": _filled,
    "one value": _stuck,
    "clock": _zone,
    "shuffled": _order,
    "sorted": _order,
    "duplicated rows": _twice,
    "other column": _columns,
    "rounded": _digits,
    "32-bit floats": _digits,
}
