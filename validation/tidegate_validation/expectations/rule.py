"""The thresholds that expectations are inferred with, and how much data they look at: the policy's `[expectations]`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpectationRule:
    """Thresholds of the data expectations.

    `max_rows` bounds the sample that row by row expectations look at. `own_suite` says whether the suite that a version
    carries (`expectations/suite.json`, which its publisher may have edited) counts; where it carries none, or where it
    shall not count, one is inferred by the thresholds below. Where training never missed a value, `missing` may be
    missing; elsewhere that much more than there. `within` of the numbers must lie in training's range widened by
    `slack` of its width on each side (of a label with more than two values so many must be known ones), and `known` of
    the categories must be known ones,
    unless a new day brings half as many unknown ones by nature. A quartile may move by `rank`
    in rank: with 0.2, the median must lie between training's 30 % and 70 % quantiles.
    """

    max_rows: int = 50_000
    own_suite: bool = True
    missing: float = 0.05
    within: float = 0.99
    slack: float = 0.5
    known: float = 0.9
    rank: float = 0.2
