"""Large whole numbers, such as ids, that went through 32-bit floats: they have 24 bits, and so name something else."""

from __future__ import annotations

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample
from tidegate_validation.statistics.sql import Family

NARROWED = "32-bit floats"
_LARGEST = 2.0**24
_LEAST_VALUES = 20
_ALL = 0.995
_FEW = 0.6


def narrowed(feature: FeatureProfile, sample: ValueSample | TextSample) -> Finding | None:
    """A finding where all large whole numbers are such as 32-bit floats hold, and few of training's were."""
    if feature.family is not Family.INTEGER or not isinstance(sample, ValueSample):
        return None
    before, now = _large(np.array(feature.quantiles)), _large(sample.values)
    if min(len(before), len(now)) < _LEAST_VALUES or _held(now) < _ALL or _held(before) > _FEW:
        return None
    step = 2.0 ** (np.floor(np.log2(float(np.median(np.abs(now))))) - 23)
    sentence = (
        f"`{feature.name}`: whole numbers went through 32-bit floats, which round them to multiples of {step:.0f}: "
        "ids among them are no longer what they were"
    )
    cause = {"kind": NARROWED, "share": 1.0, "step": float(step)}
    return Finding(
        Aspect.DIGITS.value, feature.name, Outcome.FAIL, sentence, number=_held(now), limit=_FEW, cause=cause
    )


def _large(values: Floats) -> Floats:
    distinct = np.unique(values)
    return np.asarray(distinct[(np.abs(distinct) > _LARGEST) & np.isfinite(distinct)], dtype=np.float64)


def _held(values: Floats) -> float:
    with np.errstate(over="ignore"):
        return float(np.mean(values.astype(np.float32).astype(np.float64) == values))
