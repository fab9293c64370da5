"""A few rows that show what a finding says, by which a person finds them again: the newest in which a column holds what
training held least of.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.log_record import REQUEST_ID, ROW
from tidegate_serving.inference_log.reader import read_again
from tidegate_validation.skew.compare import Comparison
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.bins import INFINITIES, MISSING
from tidegate_validation.statistics.blocks import ROW_INDEX
from tidegate_validation.statistics.counting import Term, equals, term_of
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.sql import Family, as_number, as_text, family, quote, text_literal
from tidegate_validation.statistics.window import Window

ROWS = "rows_that_show_it"
VALUE = "value"
AS_IN_TRAINING = "as_in_training"
_MOST = 3
_FINDINGS = 10
_TOLD = (Outcome.FAIL, Outcome.WARN)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_FEW: Collection[str] = (Aspect.UNSEEN, Aspect.RANGE, Aspect.OUTSIDE)
_LEAST = 1e-6
_DIGITS = 6
_TIME, _PLACE = "time", "place"


def with_examples(
    comparison: Comparison, profile: Profile, window: Window, left_out: Collection[str] = ()
) -> Comparison:
    """The comparison, where the gravest findings about columns' values have `example`: a list of ROWS, each with the
    value as VALUE, `event_time` (UTC), `request_id` and `row` where the rows are of a log, else `row`
    alone (the place among the table's, from 0) where they have no time. Where a cause says by what the value was
    changed, AS_IN_TRAINING is what it would have been. Columns `left_out` are not looked at.
    """
    wanted = [
        one
        for found in comparison.findings.values()
        for one in found
        if one.outcome in _TOLD
        and one.check in list(Aspect)
        and one.example is None
        and one.subject in comparison.counts
        and one.subject not in left_out
        and profile.features[one.subject].bins is not None
    ]
    wanted.sort(key=lambda one: (_TOLD.index(one.outcome), -abs(one.number or 0.0)))
    rows = _rows_of(wanted[:_FINDINGS], comparison, profile, window)
    return replace(
        comparison,
        findings={
            name: [replace(one, example={ROWS: rows[id(one)]}) if id(one) in rows else one for one in found]
            for name, found in comparison.findings.items()
        },
    )


def _rows_of(
    findings: Sequence[Finding], comparison: Comparison, profile: Profile, window: Window
) -> dict[int, list[dict[str, Any]]]:
    """Rows by the identity of the finding that they show, in one pass over the window."""
    if not findings:
        return {}
    terms, conditions = [], []
    for index, one in enumerate(findings):
        feature = profile.features[one.subject]
        term = term_of(window.connection, index, feature, window.columns.get(one.subject, one.subject), window.types)
        terms.append(term)
        conditions.append(_condition(one, term, window, profile.counts[one.subject], comparison))
    columns = [quote(window.columns.get(one.subject, one.subject)) for one in findings]
    identity = _identity(window)
    order = ", ".join(identity.values())
    named = ", ".join(f"'{name}': {sql}" for name, sql in identity.items())
    picked = ", ".join(
        f"max_by({{'{VALUE}': {column}, {named}}}, row({order}), {_MOST}) FILTER (WHERE {condition})"
        for column, condition in zip(columns, conditions, strict=True)
    )
    joins = " ".join(one.join for one in terms if one.join)

    def read() -> Any:
        source = window.relation if window.named is None else window.named()
        return window.connection.execute(f"SELECT {picked} FROM {source} AS source {joins}").fetchall()[0]

    found = read_again(read)
    return {
        id(one): [_row(profile.features[one.subject], comparison.causes.get(one.subject), row) for row in rows]
        for one, rows in zip(findings, found, strict=True)
        if rows
    }


def _condition(finding: Finding, term: Term, window: Window, before: FeatureCounts, comparison: Comparison) -> str:
    """SQL for the rows that show a finding: those of the value that it or its cause names, else of the bin in which
    there is most beside training."""
    column = window.columns.get(finding.subject, finding.subject)
    kind, value = family(window.types[column]), _value_named(finding, comparison)
    if kind in (Family.INTEGER, Family.FLOAT) and isinstance(value, int | float):
        return equals(as_number(column, window.types[column]), float(value))
    if kind is Family.TEXT and isinstance(value, str):
        return f"{as_text(column, window.types[column])} = {text_literal(value)}"
    code = _telling_bin(finding.check, before, comparison.counts[finding.subject])
    return "false" if code is None else f"({term.bin}) = {code}"


def _value_named(finding: Finding, comparison: Comparison) -> Any:
    """The one value of which a finding tells, if it is one."""
    if finding.cause is not None:
        return finding.cause.get("value")
    numbers = comparison.numbers.get(finding.subject)
    point = None if numbers is None or finding.check != Aspect.POINT else numbers.point
    return None if point is None else point.value


def _telling_bin(check: str, before: FeatureCounts, now: FeatureCounts) -> int | None:
    """The bin whose rows speak most for a difference; where a test asks for values that training hardly had, the one
    that is rarest there. None where what is told is that there are no such rows, as of missing values."""
    shares = {int(code): float(now.of((int(code),)).sum()) / max(now.rows, 1) for code in now.codes.tolist()}
    kinds = {Aspect.MISSING.value: MISSING, Aspect.INFINITE.value: INFINITIES}.get(check)
    codes = [code for code, share in shares.items() if share > 0 and (kinds is None or code in kinds)]

    def weight(code: int) -> float:
        known = max(float(before.of((code,)).sum()) / max(before.rows, 1), _LEAST)
        ratio = math.log(shares[code] / known)
        return ratio if check in _OF_FEW else shares[code] * ratio

    telling = [code for code in codes if weight(code) > 0]
    return max(telling, key=weight) if telling else None


def _identity(window: Window) -> dict[str, str]:
    """SQL by name of what tells a row, the newest last in its order."""
    time = {} if window.event_time is None else {_TIME: as_number(window.event_time, window.types[window.event_time])}
    if window.named:
        return {**time, REQUEST_ID: quote(REQUEST_ID), ROW: quote(ROW)}
    return time or {_PLACE: f"-{quote(ROW_INDEX)}"}


def _row(feature: FeatureProfile, cause: Cause | None, row: Mapping[str, Any]) -> dict[str, Any]:
    value = row[VALUE]
    told: dict[str, Any] = {VALUE: value}
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if cause is not None and cause.is_conversion and number and feature.family is not Family.TIME:
        told[AS_IN_TRAINING] = _rounded((float(value) - cause.offset) / cause.factor)
    if row.get(_TIME) is not None:
        told["event_time"] = (_EPOCH + timedelta(seconds=float(row[_TIME]))).isoformat(timespec="milliseconds")
    told |= {name: row[name] for name in (REQUEST_ID, ROW) if name in row}
    return told | ({ROW: -int(row[_PLACE])} if _PLACE in row else {})


def _rounded(value: float) -> float:
    """Without float noise: to a place after the point, later ones for small units, so that neither a large number nor a
    small one loses what was in it."""
    if not value or not math.isfinite(value):
        return value
    return round(value, max(_DIGITS, _DIGITS - 1 - math.floor(math.log10(abs(value)))))
