"""What Great Expectations' results mean for the verdict: findings in words, with values that show them.

An expectation's severity decides between FAIL and WARN; an exception inside it is an ERROR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.expectations.expectation import CRITICAL, INFO, SEVERITIES, WARNING, Expectation

_OUTCOMES = {CRITICAL: Outcome.FAIL, WARNING: Outcome.WARN, INFO: Outcome.PASS}
_EXAMPLES = 5
Result = tuple[Expectation, Mapping[str, Any]]


def row_findings(data: str, results: Sequence[Result]) -> Iterator[Finding]:
    """A finding for each expectation of the rows that is not met or cannot be checked."""
    for one, result in results:
        raised = raised_in(result)
        if raised is not None:
            yield _error(data, one, raised)
        elif not result["success"]:
            yield _unmet(data, one, result)


def statistic_findings(data: str, results: Sequence[Result]) -> Iterator[Finding]:
    """One finding per feature whose statistics are not as expected, one per expectation that cannot be checked."""
    by_subject: dict[str, list[Result]] = {}
    for one, result in results:
        raised = raised_in(result)
        if raised is not None:
            yield _error(data, one, raised)
        elif not result["success"]:
            by_subject.setdefault(one.subject, []).append((one, result))
    for subject, unmet in by_subject.items():
        yield _statistics(data, subject, unmet)


def absent(data: str, column: str, expectations: Sequence[Expectation]) -> Finding:
    """A column that is expected and not there; as grave as the gravest expectation of it."""
    gravest = min((one.severity for one in expectations), key=SEVERITIES.index)
    sentence = f"`{column}` in the {data}: expected that it is there"
    return Finding("expect_column_to_exist", column, _OUTCOMES[gravest], sentence, rule=_rule(gravest))


def raised_in(result: Mapping[str, Any]) -> str | None:
    """The exception inside an expectation, in either of the two shapes that are reported; None if there is none."""
    info = result.get("exception_info") or {}
    if "raised_exception" in info:
        return str(info.get("exception_message")) if info["raised_exception"] else None
    for nested in info.values():
        if isinstance(nested, Mapping) and nested.get("raised_exception"):
            return str(nested.get("exception_message"))
    return None


def _rule(severity: str) -> str:
    return f"expectations, severity {severity}"


def _error(data: str, one: Expectation, raised: str) -> Finding:
    sentence = f"`{one.subject}` in the {data}: it could not be checked whether it {one.words} ({raised})"
    return Finding(one.type, one.subject, Outcome.ERROR, sentence, rule=_rule(one.severity))


def _unmet(data: str, one: Expectation, result: Mapping[str, Any]) -> Finding:
    details = result.get("result") or {}
    percent = details.get("unexpected_percent")
    share = "" if percent is None else f", and {percent:.3g} % of the values do not fit"
    observed = details.get("observed_value")
    if percent is None and observed is not None:
        share = f", and it is {observed}"
    values = details.get("partial_unexpected_list") or []
    mostly = one.kwargs.get("mostly")
    return Finding(
        check=one.type,
        subject=one.subject,
        outcome=_OUTCOMES[one.severity],
        sentence=f"`{one.subject}` in the {data}: expected that it {one.words}{share}",
        number=None if percent is None else float(percent) / 100,
        limit=None if percent is None or mostly is None else 1.0 - float(mostly),
        rule=_rule(one.severity),
        example={"values": [str(value) for value in values[:_EXAMPLES]]} if values else None,
    )


def _statistics(data: str, subject: str, unmet: Sequence[Result]) -> Finding:
    gravest = min((one.severity for one, _ in unmet), key=SEVERITIES.index)
    found = {str(one.meta.get("statistic") or ", ".join(one.columns)): _observed(result) for one, result in unmet}
    said = [
        f"its {name} is {_shown(found[name])}, expected that it {one.words}"
        for name, (one, _) in zip(found, unmet, strict=True)
    ]
    return Finding(
        check="statistics",
        subject=subject,
        outcome=_OUTCOMES[gravest],
        sentence=f"`{subject}` in the {data}: {'; '.join(said)}",
        rule=_rule(gravest),
        example={"statistics": found},
    )


def _observed(result: Mapping[str, Any]) -> Any:
    values = (result.get("result") or {}).get("partial_unexpected_list") or [None]
    return values[0]


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "not there"
