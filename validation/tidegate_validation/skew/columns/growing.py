"""What is found of a column that grows with time: whether a window goes on as training did, and if not, why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.grown import cause_of_growth
from tidegate_validation.skew.finding import explain
from tidegate_validation.skew.measures.growth import Growth, scatter_within
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample
from tidegate_validation.statistics.sql import Family

CHECK = "growth"
NOT_AS_BEFORE = "does not grow on"
FEW_VALUES = "few values"
_FEWER = 0.2
"""With fewer than this part of the different values that training would have, it was rounded or is stuck."""
_SAME_PLACE, _ROUGHLY = 0.01, 0.01
_SPREAD = 8.0
"""Values of one day may lie so many times as far from each other as in training, or as close to,"""
_LEAST_ROWS = 8
"""where days have so many rows."""


@dataclass(frozen=True, slots=True)
class Growing:
    """What is to be said of a column that grows, and the cause where one explains it."""

    finding: Finding
    cause: Cause | None = None


def told_of_growth(
    growth: Growth, feature: FeatureProfile, sample: ValueSample | TextSample, by_day: bool, floor: float
) -> Growing | None:
    """Whether a window grows on as training did; None where it begins before training ends, holds no values, or one.
    Steps without dates that are all training's may be a sample of its rows, and tell nothing either.

    More than a share `floor` of values elsewhere than where growth leads, few values over and over, or those of a day
    much further apart or closer together than in training fail.
    """
    if not isinstance(sample, ValueSample) or not len(sample.values):
        return None
    if _tells_nothing(growth, sample, by_day):
        return None
    ahead = sample.blocks - growth.last if by_day else sample.blocks + 1
    if not by_day and _numbers_rows(growth, feature, sample):
        sentence = f"`{feature.name}`: numbers the rows from {_value(feature, growth.start)} on, as in training"
        return Growing(Finding(CHECK, feature.name, Outcome.PASS, sentence, number=0.0))
    low, high = growth.within(float(ahead.max()), by_day)
    strange = (sample.values < low) | (sample.values > high)
    away = float(sample.n[strange].sum() / sample.n.sum())
    way = "grows" if growth.fastest > 0 else "shrinks"
    held = f"`{feature.name}`: {way} with time"
    told = f"(from {_value(feature, growth.start)} to {_value(feature, growth.end)})"
    distinct = len(sample.distinct()[0])
    rows, blocks = float(sample.n.sum()), len(np.unique(sample.blocks))
    if distinct < _FEWER * min(growth.values * blocks, rows):
        if distinct == 1:
            return None
        sentence = f"{held} in training {told}, and holds only {distinct} different values now (rounded?)"
        few: Mapping[str, Any] = {"kind": FEW_VALUES, "share": 1.0}
        return Growing(Finding(CHECK, feature.name, Outcome.FAIL, sentence, number=float(distinct), cause=few))
    apart = growth.apart(scatter_within(sample.values, sample.blocks, sample.n))
    spread = abs(apart) > np.log(_SPREAD) and rows >= _LEAST_ROWS * blocks
    if away <= floor and not spread:
        return Growing(Finding(CHECK, feature.name, Outcome.PASS, f"{held}, as it did in training {told}", number=away))
    where = f"{_value(feature, low)} to {_value(feature, high)}"
    cause = cause_of_growth(growth, sample.values, sample.blocks, sample.n, ahead, strange | (away <= floor))
    if cause is not None and feature.family is Family.TIME:
        cause = None if cause.is_conversion else cause.dated()
    if cause is None and away <= floor:
        how = f"{'further from' if apart > 0 else 'closer to'} each other than in training"
        sentence = f"{held} as in training {told}, and values of one day are {np.exp(abs(apart)):.2g} times {how}"
        document: Mapping[str, Any] = {"kind": NOT_AS_BEFORE, "share": 1.0}
    elif cause is None:
        sentence = (
            f"{held} in training {told}, and {100 * away:.1f} % of the values lie elsewhere than it leads to ({where})"
        )
        document = {"kind": NOT_AS_BEFORE, "share": round(away, 4)}
    else:
        sentence = f"`{feature.name}`: {explain(cause)}; it {way} with time, which leads to {where}"
        document = cause.to_dict()
    finding = Finding(CHECK, feature.name, Outcome.FAIL, sentence, number=away, limit=floor, cause=document)
    return Growing(finding, cause)


def _tells_nothing(growth: Growth, sample: ValueSample, by_day: bool) -> bool:
    """Whether a window begins before training ends, or has steps without dates that are all training's."""
    if by_day:
        return bool(sample.blocks.min() < growth.last)
    low, high = sorted((growth.start, growth.end))
    return growth.steps and bool(((sample.values >= low) & (sample.values <= high)).all())


def _numbers_rows(growth: Growth, feature: FeatureProfile, sample: ValueSample) -> bool:
    """Whether a table's rows are numbered as training's were, each one step after the one before: an index, and no
    count that goes on from table to table."""
    places = (np.sort(sample.values) - growth.start) * (feature.rows - 1) / (growth.end - growth.start)
    rows = float(sample.n.sum())
    few = max(_SAME_PLACE, _ROUGHLY * rows)
    return (
        feature.distinct >= (1 - _ROUGHLY) * feature.rows
        and abs(places[0]) < few
        and abs(places[-1] + 1 - rows) < few
        and bool((np.abs(places - np.round(places)) < _SAME_PLACE).all())
    )


def _value(feature: FeatureProfile, value: float) -> str:
    if feature.family is Family.TIME:
        return str(np.datetime64(round(value), "s")).replace("T", " ")[:16]
    return f"{value:.6g}" if feature.family is Family.FLOAT else f"{value:.0f}"
