"""Two columns of numbers whose values changed places in some rows: where they hold much the same, each still looks
right by itself.

Of columns that do not go together, rows are weighed by how much likelier they would be with both values in each other's
place: on average not at all, whatever training's values are spread like, and only rows that were exchanged outweigh the
others (a mixture of both, whose part is found by likelihood). The window's own rows with values of others of their day
show how much of that is due to the window's level rather than to its rows. Where training had such rows as well, each
column holds what it held there: exchanged ones bring both nearer to each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.together import CHECK as TOGETHER
from tidegate_validation.skew.columns.together import SHUFFLED
from tidegate_validation.skew.diagnosis.suspect import like_training
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.associations import KEPT, LEVELS
from tidegate_validation.statistics.bins import NumericBins
from tidegate_validation.statistics.counts import REPEATED
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.rows import Rows
from tidegate_validation.statistics.sql import Family

CHECK = "exchanged values"
EXCHANGED = "exchanged in some rows"
_CELLS = 24
_MOST_COLUMNS = 40
_LEAST_ROWS, _MOST_ROWS = 300, 20_000
_HEAVY = 0.1
"""A value of a row in ten is special: columns of mostly zeros are alike in that alone."""
_APART = (0.7, 12.0)
"""How far apart two columns may be, as the sum of both relative entropies: of nearer ones nothing tells which is which,
and values of the other that lie further off are found by themselves."""
_LEAST = 0.025
"""The least part of rows: kinds of rows that are too few to count as going together may have as much."""
_SURE = 10.0
"""The least gain in the logarithm of the likelihood for one pair of columns."""
_MORE = 1.15
"""So many times the part that rows with values of others of their day seem to have."""
_NEARER = 0.4
"""A part of the share that both columns, on average, must have come nearer to what the other one held."""
_NEAR = 2
"""Levels of columns that rise together are no further from each other."""
_ROUNDS, _DRAWS = 40, 5
_LARGEST = 30.0


@dataclass(frozen=True, slots=True)
class _Column:
    """Training's values of a feature, and the window's values at its rows, NaN where there is none."""

    feature: FeatureProfile
    known: Floats
    values: Floats


def exchanged_rows(
    profile: Profile, read: Rows, carried: Mapping[str, str], findings: Mapping[str, Sequence[Finding]]
) -> list[Finding]:
    """A WARN for each of two columns that changed places in some rows; `carried` are the window's columns by feature,
    `read` its rows. Columns of whose `findings` one knows another cause for a FAIL are left out."""
    if REPEATED not in profile.counts:
        return []  # Of what single values are measured by nobody knows what goes together.
    fine = {name for name in carried if all(map(_is_open, findings[name]))}
    some = np.arange(len(read.day))
    if len(some) > _MOST_ROWS:
        some = np.sort(np.random.default_rng(7).choice(some, _MOST_ROWS, replace=False))
    features = [one for one in profile.inputs if one.name in carried and one.name in fine and _is_spread(one)]
    columns = [_Column(one, like_training(one), _values(read, carried[one.name], some)) for one in features]
    pairs = [*itertools.combinations(columns[:_MOST_COLUMNS], 2)]
    found: list[Finding] = []
    for first, second in pairs:
        names = first.feature.name, second.feature.name
        if _may_be_apart(profile, names) or {one.subject for one in found} & {*names}:
            continue
        share = _exchanged(first, second, read.day[some], _SURE + float(np.log(len(pairs))))
        if share is not None:
            found += [_finding(one, other, share) for one, other in (names, names[::-1])]
    return found


def told_of_exchanged(
    findings: Mapping[str, Sequence[Finding]], exchanged: Sequence[Finding]
) -> dict[str, list[Finding]]:
    """The findings of columns of which some rows were exchanged, with that first: a FAIL where they fail without a
    cause, or no longer go with each other alone, which then goes unsaid."""
    found = {}
    for one in exchanged:
        other = (one.cause or {})["column"]
        failing = [two for name in (one.subject, other) for two in findings[name] if two.outcome is Outcome.FAIL]
        kept = [two for two in findings[one.subject] if _partners(two) != {other}]
        outcome = Outcome.FAIL if failing else Outcome.WARN
        found[one.subject] = [replace(one, outcome=outcome), *kept]
    return found


def _is_open(finding: Finding) -> bool:
    return finding.outcome is not Outcome.FAIL or finding.cause is None or bool(_partners(finding))


def _partners(finding: Finding) -> set[str]:
    """The columns that a column is said to go with no longer."""
    cause = finding.cause or {}
    return {*cause["columns"]} if cause.get("kind") == SHUFFLED and finding.check == TOGETHER else set()


def _is_spread(feature: FeatureProfile) -> bool:
    numeric = feature.family in (Family.INTEGER, Family.FLOAT) and isinstance(feature.bins, NumericBins)
    return numeric and bool(feature.quantiles) and all(one.share < _HEAVY for one in feature.points.listed)


def _values(read: Rows, column: str, rows: Integers) -> Floats:
    held = read.columns[column]
    place = held.place[rows]
    values = np.append(np.asarray(held.values, dtype=np.float64), np.nan)
    return np.asarray(values[np.where(place >= 0, place, -1)])


def _may_be_apart(profile: Profile, names: tuple[str, str]) -> bool:
    """Whether some rows of training may have one of two columns low where the other is high, as where they were
    exchanged: unless both rise together, or surely do not go together."""
    known = [one for one in profile.pairs if {one.first, one.second} == {*names}]
    if not known:
        return len(profile.pairs) >= KEPT
    levels = (divmod(cell, LEVELS + 1) for one in known for cell in one.cells)
    return any(abs(first - second) > _NEAR for first, second in levels if max(first, second) < LEVELS)


def _exchanged(first: _Column, second: _Column, day: Integers, sure: float) -> float | None:
    """The part of rows in which two columns surely changed places; None where that is not so."""
    there = np.isfinite(first.values) & np.isfinite(second.values)
    edges = np.unique(np.quantile([first.known, second.known], np.linspace(0, 1, _CELLS + 1)[1:-1]))
    p, q = _shares(first.known, edges), _shares(second.known, edges)
    rather = np.log(q / p)
    if there.sum() < _LEAST_ROWS or not _APART[0] <= float((q - p) @ rather) <= _APART[1]:
        return None
    places = [np.searchsorted(edges, one.values[there], side="right") for one in (first, second)]
    as_other, as_own = rather[places[0]], rather[places[1]]
    weights = np.expm1(np.minimum(as_other - as_own, _LARGEST))
    if float((weights / (1 + _LEAST * weights)).sum()) <= 0:
        return None  # The likeliest part is less.
    share, gain = _likeliest(weights)
    if gain <= sure or _came_nearer(p, q, *places) < _NEARER * share:
        return None
    random, day = np.random.default_rng(7), day[there]
    in_order = np.argsort(day, kind="stable")
    for _ in range(_DRAWS):
        drawn = np.empty(len(day))
        drawn[in_order] = as_own[np.lexsort((random.random(len(day)), day))]
        by_level, most = _likeliest(np.expm1(np.minimum(as_other - drawn, _LARGEST)))
        if share < _MORE * by_level or gain - max(most, 0.0) <= sure + max(most, 0.0) ** 0.5:
            return None
    return share


def _came_nearer(p: Floats, q: Floats, first: Integers, second: Integers) -> float:
    """By which part two columns, whose values lie in these cells, came nearer to what the other one held, on average
    and less a standard error: a level that both rise by takes one away as far as it brings the other near."""
    told = (q - p) / (q + p)
    nearer = told[first] - p @ told + q @ told - told[second]
    return float(nearer.mean() - nearer.std() / len(nearer) ** 0.5) / float(2 * (q - p) @ told)


def _shares(known: Floats, edges: Floats) -> Floats:
    n = np.bincount(np.searchsorted(edges, known, side="right"), minlength=len(edges) + 1) + 1.0
    return np.asarray(n / n.sum())


def _likeliest(weights: Floats) -> tuple[float, float]:
    """The part of rows that is likeliest exchanged, and the logarithm of the likelihood that it gains; `weights` are
    how many times likelier each row is then, less 1."""
    part = _LEAST
    for _ in range(_ROUNDS):
        part = float((part * (weights + 1) / (1 + part * weights)).mean())
    return part, float(np.log1p(part * weights).sum())


def _finding(name: str, other: str, share: float) -> Finding:
    words = (
        f"in {100 * share:.0f} % of the rows it rather holds what `{other}` does, and that what it does (exchanged?)"
    )
    cause = {"kind": EXCHANGED, "share": round(share, 4), "column": other}
    return Finding(CHECK, name, Outcome.WARN, f"`{name}`: {words}", number=share, limit=_LEAST, cause=cause)
