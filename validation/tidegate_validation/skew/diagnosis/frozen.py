"""A column that is frozen at one value, on all days or from one of the window's days on."""

from __future__ import annotations

from dataclasses import replace

from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.suspect import Suspect
from tidegate_validation.statistics.points import heaviest
from tidegate_validation.statistics.sample import TextSample, ValueSample

ONE_VALUE = "one value"
_ALL = 0.95
_FEW = 0.5
_MOST = 0.98
_FEWER = 0.25


def frozen_at(suspect: Suspect) -> Cause | None:
    """One value in nearly all rows, where training had more rows that differ: a column that hardly ever changes is not
    frozen where the same part of its rows holds another value."""
    top = heaviest(suspect.sample, _ALL, 1)
    if not top:
        return None
    value, share = top[0]
    usual = max((point.share for point in suspect.feature.points.listed), default=0.0)
    if suspect.feature.points.of(value).share > _MOST or 1 - share > _FEWER * (1 - usual):
        return None
    return Cause(ONE_VALUE, share=share, details=(("value", value),))


def frozen_since(cause: Cause, sample: ValueSample | TextSample, block: int) -> Cause:
    """The cause, or where it is a value that holds nearly all rows from a day on, that the column is frozen at it."""
    value = dict(cause.details).get("value")
    later = sample.blocks >= block
    rows = int(sample.n[later].sum())
    if cause.is_conversion or value is None or not rows:
        return cause
    holds = sample.values == value
    if sample.n[later & holds].sum() < _ALL * rows or sample.n[~later & holds].sum() > _FEW * sample.n[~later].sum():
        return cause
    share = float(sample.n[holds].sum() / sample.n.sum())
    return replace(cause, kind=ONE_VALUE, share=share, details=(("value", value),))
