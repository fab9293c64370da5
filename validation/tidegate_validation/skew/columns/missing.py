"""Where values are missing: whether it is the rows of one category of another column, such as one of many producers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate_serving.admission import Finding
from tidegate_validation.skew.finding import MISSING_VALUES
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.sql import as_number, as_text, family, quote
from tidegate_validation.statistics.window import Window

_NEARLY_ALL = 0.9
_MOST = 0.9
_LEAST_ROWS = 20
_MANY = 200


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
