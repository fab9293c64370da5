"""Columns that hold another one's values, row by row, as where a field is filled from the wrong place: where both are
spread alike, neither looks wrong by itself. And columns that were copies in training, and no longer are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.rivals import OTHER_COLUMN, ROUNDED
from tidegate_validation.skew.measures.numbers import FeatureNumbers
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.statistics.agreement import Agreement, Agreements
from tidegate_validation.statistics.agreements import LEAST_ROWS, Comparable, comparable
from tidegate_validation.statistics.rows import Rows

CHECK = "equal columns"
_ALL = 0.75
"""So much of what a pair differed in training is gone where one column became a copy of the other."""
_SOME = 0.05
"""The least share of rows in which a pair is told to be equal, beyond chance,"""
_TIMES = 4.0
"""and so many times what any block of training had; a pair that was equal there differs in so many times the rows,"""
_LEAST = 0.01
"""and in this share of rows at least."""
_HARDLY = 0.03
_ALWAYS = 0.99
_MANY = 0.05
_NEARLY_ALL = 0.9


@dataclass(frozen=True, slots=True)
class _Changed:
    """A pair that is equal in a `share` of the rows in which something is there to compare: by how much of what it
    differed in training it is more equal now, below 0 where it is less. `idle` is whether many rows hold the usual
    value in both, and are not among them."""

    known: Agreement
    share: float
    more: float
    idle: bool


def copied_columns(
    agreements: Agreements,
    read: Rows,
    carried: Mapping[str, str],
    numbers: Mapping[str, FeatureNumbers],
    suspects: Mapping[str, Cause | None],
    rule: SkewRule,
) -> Iterator[Finding]:
    """A finding about one column of each pair that became equal, or no longer is. `carried` are the window's columns by
    feature, `read` its rows. Of two, one of the `suspects` is told, of which something else is known to be wrong, with
    its cause or None; else the one that is in more such pairs, or whose values are farther from training's."""
    told: set[str] = set()
    for kind in comparable(read, carried):
        changed = sorted(_changed(agreements, kind, rule), key=lambda one: -one.more)
        often = Counter(name for one in changed for name in (one.known.first, one.known.second))
        for one in changed:
            two = (one.known.first, one.known.second)
            if told & {*two} or (one.more < 0 and one.known.least < _ALWAYS and {*two} & {*suspects}):
                continue  # What is wrong with one of them is said.
            if one.more < _ALL and any(_explained(suspects.get(name)) for name in two):
                continue  # Values that were rounded, say, may meet another's.
            column = max(two, key=lambda name: (name in suspects, often[name], numbers[name].distribution.delta))
            other = two[1] if column == two[0] else two[0]
            told.add(column)
            yield _finding(column, other, one)


def _changed(agreements: Agreements, kind: Comparable, rule: SkewRule) -> Iterator[_Changed]:
    from scipy import special

    size = len(kind.names)
    alpha = rule.alpha / 2 / max(size * (size - 1) / 2, 1)
    for known in _candidates(agreements, kind):
        now = kind.equal(known.first, known.second)
        n, k = int(now.compared.sum()), int(now.equal.sum())
        if n < LEAST_ROWS:
            continue
        usual = max(known.most, now.by_chance)
        more = (k / n - usual) / max(1 - usual, 1 / n)
        less, idle = 1 - k / n, now.idle > _MANY * (now.idle + n)
        some = _SOME if known.most <= _HARDLY else _TIMES * known.most
        surely = usual < 1 and special.bdtrc(k - 1, n, usual) < alpha
        if surely and (more >= _ALL or now.several >= some):
            yield _Changed(known, k / n, more, idle)
        if less >= max(_TIMES * (1 - known.least), _LEAST) and special.bdtr(k, n, known.least) < alpha:
            yield _Changed(known, k / n, -less, idle)


def _candidates(agreements: Agreements, kind: Comparable) -> Iterator[Agreement]:
    """Pairs that look more equal than in any block of training, and those that always were equal."""
    names = {*kind.names}
    equal = [one for one in agreements.pairs if {one.first, one.second} <= names and _TIMES * (1 - one.least) <= 1]
    yield from equal
    always = {frozenset((one.first, one.second)) for one in equal if one.most >= 1}
    least = min([agreements.floor, *(one.most for one in agreements.pairs)])
    for first, second, share in kind.screened().pairs(max(_HARDLY, least)):
        known = agreements.of(first, second)
        if known is not None and frozenset((first, second)) not in always and share > known.most:
            yield known


def _explained(cause: Cause | None) -> bool:
    return cause is not None and (cause.kind == ROUNDED or (cause.is_conversion and cause.share >= _NEARLY_ALL))


def _finding(column: str, other: str, one: _Changed) -> Finding:
    of = "the rows in which not both hold what they mostly do" if one.idle else "the rows"
    least, most = one.known.least, one.known.most
    if one.more < 0:
        cause, said = None, f"it differs from `{other}` in {_percent(1 - one.share)} of {of}"
        before = "always equal" if least == 1 else f"equal in {_percent(least)} or more"
    else:
        cause = {"kind": OTHER_COLUMN, "share": round(one.more, 4), "column": other}
        said = f"it holds what `{other}` holds in {_percent(one.share)} of {of}"
        before = "hardly ever equal" if most <= _HARDLY else f"equal in at most {_percent(most)}"
    sentence = f"`{column}`: {said}; in training they were {before}"
    number = abs(one.more)
    return Finding(CHECK, column, Outcome.FAIL, sentence, number=number, limit=_LEAST, cause=cause)


def _percent(share: float) -> str:
    """As is fit to print; what is not quite all is never told as all."""
    return f"{math.floor(1000 * share) / 10:g} %"
