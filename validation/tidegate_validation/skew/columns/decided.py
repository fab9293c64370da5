"""Values that another column decides, as the article decides its price: a new one in all rows of one article is a price
that changed, or an article that came, rather than a default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.beyond import NEW_VALUE
from tidegate_validation.skew.diagnosis.rivals import CLIPPED
from tidegate_validation.skew.finding import where_words
from tidegate_validation.skew.measures.points import is_special
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sql import as_number, quote
from tidegate_validation.statistics.window import Window

_VALUES = {NEW_VALUE: "value", CLIPPED: "at"}
"""What is told of one value, or of the end to which values seem to be cut where the dearest article is cheaper now."""
_SEVERAL = 5
_NEARLY_ALL = 0.9
_ONLY = 0.95
_FURTHER = 1.25
"""A new price may lie so many times beyond all of training's."""
_SAME = 1e-7
_OTHERS = 1.0
"""So many times as many rows may have other values that training never held: else more than one price is another."""
_MOST = 20_000


def new_where_decided(
    finding: Finding, feature: FeatureProfile, unseen: float, window: Window, beside: Sequence[str]
) -> Finding:
    """A finding about one value, no more than a WARN where it is the one of a single category of a column, of those
    `beside` it, that decides what rows hold; other findings, and special values and ones far off, stay as they are, and
    so does one of several new ones, of the share `unseen` of rows that have such."""
    cause = finding.cause or {}
    value = cause.get(_VALUES.get(cause.get("kind", ""), ""))
    if finding.outcome is not Outcome.FAIL or not isinstance(value, float):
        return finding
    if is_special(value) or not _is_near(feature, value) or unseen > (1 + _OTHERS) * cause["share"]:
        return finding
    for name in beside:
        category = _category(window, window.columns.get(feature.name, feature.name), name, value)
        if name != feature.name and category is not None:
            where = {"column": name, "value": category}
            words = f"{100 * cause['share']:.1f} % of the rows hold {value:.6g}, all of them {where_words(where)}"
            words += f", which decides it (a new price?){f', since {since}' if (since := cause.get('since')) else ''}"
            told = {"kind": NEW_VALUE, "share": cause["share"], "value": value, "where": where}
            told |= {"since": since} if since else {}
            return replace(finding, outcome=Outcome.WARN, sentence=f"`{feature.name}`: {words}", cause=told)
    return finding


def _is_near(feature: FeatureProfile, value: float) -> bool:
    low, high = feature.minimum, feature.maximum
    return low is not None and high is not None and 0 < low / _FURTHER <= value <= high * _FURTHER


def _category(window: Window, column: str, beside: str, value: float) -> str | None:
    """The one category of a column that has nearly all rows of the value, where hardly any other has more than two
    values, one before and one after a change."""
    other = window.columns.get(beside, beside)
    number = as_number(column, window.types[column])
    rows = window.connection.execute(
        f"SELECT CAST({quote(other)} AS VARCHAR), {number}, count(*) FROM {window.relation} "
        f"WHERE {quote(other)} IS NOT NULL AND isfinite({number}) GROUP BY 1, 2 ORDER BY 3 DESC LIMIT {_MOST}"
    ).fetchall()
    if not rows or len(rows) == _MOST:
        return None
    by_category: dict[str, list[int]] = {}
    holding: dict[str, int] = {}
    for name, found, n in rows:  # The heaviest first.
        by_category.setdefault(name, []).append(n)
        if abs(found - value) <= _SAME * abs(value):
            holding[name] = holding.get(name, 0) + n
    if not holding or len(by_category) < _SEVERAL or len({found for _, found, _ in rows}) < _SEVERAL:
        return None
    one = max(holding, key=holding.__getitem__)
    others = [n for name, n in by_category.items() if name != one]
    decided = sum(sum(n[:2]) for n in others) / sum(map(sum, others))
    alone = holding[one] >= _ONLY * sum(holding.values())
    own = sum(by_category[one][:2]) / sum(by_category[one])
    return one if alone and min(decided, own) >= _NEARLY_ALL else None
