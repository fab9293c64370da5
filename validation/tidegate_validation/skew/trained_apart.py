"""Do columns go together in a candidate's training as in that of the version that serves, and in what is served: a
column that was shuffled before training looks right by itself, and in the candidate's own profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.together import (
    ASKED,
    CHECK,
    SHOWN,
    TOLERATED,
    Loss,
    blamed,
    held,
    levels_in,
)
from tidegate_validation.skew.compare import Comparison
from tidegate_validation.statistics.association import Association
from tidegate_validation.statistics.associations import KEPT, chosen_columns, strengths, surely_listed
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.rows import read_rows
from tidegate_validation.statistics.window import Window


def trained_apart(
    candidate: Profile, baseline: Profile, before: Comparison, window: Window, words: str
) -> Iterator[Finding]:
    """One finding for each column of a candidate whose training lacks what went together in the baseline's: FAIL where
    the window goes together so much that the candidate's training would have shown it, WARN where it cannot tell.

    `before` is how the window compares with the baseline: columns that do not go with others there are not asked.
    `words` say whose values the window has.
    """
    loose = {one.subject for told in before.findings.values() for one in told if one.check == CHECK}
    names = {one.name for one in chosen_columns(candidate.inputs)} - loose
    pairs = [one for one in baseline.pairs if one.ranked and one.telling and {one.first, one.second} <= names]
    lost = [*_lost(pairs, candidate)]
    if not lost:
        return
    served = [*_strengths([one.pair for one in lost], baseline, before, window)]
    shown = [one for one, (least, _) in zip(lost, served, strict=True) if would_list(one.pair, least, candidate)]
    told = {name for one in shown for name in (one.pair.first, one.pair.second)}
    unclear = [
        one
        for one, (_, most) in zip(lost, served, strict=True)
        if would_list(one.pair, most, candidate) and not told & {one.pair.first, one.pair.second}
    ]
    for finding in blamed(pairs, shown, ""):
        yield replace(finding, p_value=None, sentence=f"{_said(finding)}, as they do in {words}{ASKED}")
    for finding in blamed(pairs, unclear, ""):
        sentence = (
            f"{_said(finding)}, as in that of the version that serves now, and {words} do not tell which is right"
        )
        yield replace(finding, p_value=None, outcome=Outcome.WARN, cause=None, sentence=sentence)


def _lost(pairs: Sequence[Association], candidate: Profile) -> Iterator[Loss]:
    """The pairs that the candidate's training holds together by less than a quarter of what the baseline's does, and
    would have been sure to show."""
    listed = {frozenset((one.first, one.second)): one.strength for one in candidate.pairs}
    for pair in pairs:
        strength = listed.get(frozenset((pair.first, pair.second)))
        if strength is None and not (len(candidate.pairs) < KEPT and would_list(pair, pair.strength, candidate)):
            continue
        kept = (strength or 0.0) / pair.strength
        if kept < TOLERATED:
            yield Loss(pair, kept, 0.0)


def would_list(pair: Association, strength: float, profile: Profile) -> bool:
    """Whether a profile would be sure to list the pair, were it so strong in its training."""
    return surely_listed(pair, strength, profile.counts[pair.first].n.sum(axis=1))


def _strengths(
    pairs: Sequence[Association], baseline: Profile, before: Comparison, window: Window
) -> Iterator[tuple[float, float]]:
    """The least and the most that the window may hold each pair together: from nothing to as much as in training where
    it cannot tell."""
    there = [one for one in baseline.inputs if one.name in before.numbers]
    types = {column: window.types[column] for one in there if (column := window.columns.get(one.name, one.name))}
    read = read_rows(window.connection, window.relation, window.block, types, window.rows)
    blocks, levels = levels_in(there, baseline, window, read, None)
    for pair in pairs:
        now = None
        if {pair.first, pair.second} <= levels.keys():
            now = held(pair, strengths(levels[pair.first], levels[pair.second], blocks, pair.cells, pair.odds))
        yield (0.0, pair.strength) if now is None else (now.mean - now.error, now.mean + now.error)


def _said(finding: Finding) -> str:
    """Of which columns, in words."""
    others = ", ".join(f"`{one}`" for one in (finding.cause or {})["columns"][:SHOWN])
    return f"`{finding.subject}`: in the candidate's training its values do not go with those of {others}"
