"""Columns of which exactly one was 1 in each row of training, as one-hot encoding leaves them: rows with none, or more.

An encoder that meets a category it does not know gives zeros in all of its columns, which look right by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.rule import NOTED, SkewRule
from tidegate_validation.statistics.arrays import Integers
from tidegate_validation.statistics.bins import DiscreteBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile, Profile

CHECK = "one-hot"
_FEWEST_BLOCKS = 5
_FEWEST = 3.0
"""Rows of training by the limit on unseen values: so many were to be expected had it held such rows as often."""
_SHOWN = 3


def broken_groups(
    features: Sequence[FeatureProfile], profile: Profile, counts: Mapping[str, FeatureCounts], rule: SkewRule
) -> Iterator[Finding]:
    """A finding about each group of columns, next to each other, of which rows of the window hold no 1, or several.

    As with values that training never held, a share beyond `unseen_floor` is a FAIL, and from a quarter of it a WARN.
    Groups in which something is neither 0 nor 1 are left out: that has findings of its own.
    """
    from scipy import special

    for group in _groups(features, profile, rule):
        ones = [_ones(one, counts[one.name]) for one in group]
        if any(one is None for one in ones):
            continue
        rows = counts[group[0].name].rows
        off = rows - sum(int(one.sum()) for one in ones if one is not None)
        chances = [
            float(special.bdtrc(abs(off) - 1, rows, floor)) for floor in (rule.unseen_floor, rule.unseen_floor / NOTED)
        ]
        if chances[1] < rule.alpha / 2:
            outcome = Outcome.FAIL if chances[0] < rule.alpha / 2 else Outcome.WARN
            yield _finding(group, off / rows, outcome, rule)


def _groups(features: Sequence[FeatureProfile], profile: Profile, rule: SkewRule) -> Iterator[list[FeatureProfile]]:
    """Runs of columns whose ones add up to the rows in every block of training."""
    found = [(one, _ones(one, profile.counts[one.name])) for one in features]
    start = 0
    while start < len(found):
        end = _end(found, start, profile, rule)
        if end is not None:
            yield [one for one, _ in found[start:end]]
        start = start + 1 if end is None else end


def _end(
    found: Sequence[tuple[FeatureProfile, Integers | None]], start: int, profile: Profile, rule: SkewRule
) -> int | None:
    """Where the group ends that begins with a column, None where none does."""
    first, ones = found[start]
    if ones is None or not ones.any() or len(ones) < _FEWEST_BLOCKS or first.rows * rule.unseen_floor < _FEWEST:
        return None
    left = profile.counts[first.name].n.sum(axis=1) - ones
    for end in range(start + 1, len(found)):
        ones = found[end][1]
        if ones is None or len(ones) != len(left):
            return None
        left = left - ones
        if (left < 0).any():
            return None
        if not left.any():
            return end + 1
    return None


def _ones(feature: FeatureProfile, counts: FeatureCounts) -> Integers | None:
    """Rows per block that hold 1; None where any holds neither 0 nor 1."""
    bins = feature.bins
    if not isinstance(bins, DiscreteBins) or not {0.0} <= {*bins.values} <= {0.0, 1.0}:
        return None
    zeros, ones = (counts.of((code,)) for code in bins.assign(np.array([0.0, 1.0])).tolist())
    if (zeros + ones != counts.n.sum(axis=1)).any() or (1.0 not in bins.values and ones.any()):
        return None
    return ones


def _finding(group: Sequence[FeatureProfile], share: float, outcome: Outcome, rule: SkewRule) -> Finding:
    names = [one.name for one in group]
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")
    what = "none is 1" if share > 0 else "several are 1"
    why = "a category that the encoder does not know?" if share > 0 else "two categories at once?"
    sentence = (
        f"of {shown} ({len(names)} columns) {what} in {100 * abs(share):.1f} % of the rows, where in training "
        f"exactly one was in each: {why}"
    )
    cause = {
        "kind": "no category" if share > 0 else "several categories",
        "share": round(abs(share), 4),
        "columns": names,
    }
    return Finding(
        CHECK,
        names[0],
        outcome,
        sentence,
        number=abs(share),
        limit=rule.unseen_floor,
        cause=cause,
        rule="skew.unseen_floor",
    )
