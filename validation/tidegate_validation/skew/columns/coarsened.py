"""Measured numbers of which hardly any came twice in training, and most do in a window: kept in eight bits, in classes,
or rounded to a step that is no power of ten, so that no single value weighs much and none has fewer digits."""

from __future__ import annotations

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.beyond import NEW_VALUE
from tidegate_validation.skew.diagnosis.rivals import CLIPPED, DEFAULT, ROUNDED
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample
from tidegate_validation.statistics.sql import Family

CHECK = "few values"
FEW_VALUES = "few values"
_HARDLY = 0.02
"""The most rows of training that may repeat another one's value."""
_MOST = 0.5
"""So many rows of a window repeat one, though their heaviest values are left out: a default is another fault."""
_HEAVIEST = 3
_LEAST_ROWS, _LEAST_VALUES = 100, 8
_EVEN, _NEARLY_ALL = 0.02, 0.95
_SAY_LESS = (DEFAULT, NEW_VALUE, CLIPPED)
"""What single values look like by themselves where all of them are few."""


def coarsened(feature: FeatureProfile, sample: ValueSample | TextSample, found: list[Finding]) -> Finding | None:
    """A FAIL where the numbers of a column are few now; None where what is `found` of it names another cause."""
    present = feature.rows - feature.missing - feature.infinite
    if feature.family is not Family.FLOAT or not isinstance(sample, ValueSample):
        return None
    if present < _LEAST_ROWS or 1 - feature.distinct / present > _HARDLY or _is_explained(found):
        return None
    values, n = sample.distinct()
    others = np.sort(n)[:-_HEAVIEST]
    rows = float(n.sum())
    if not _LEAST_ROWS <= rows <= present or len(others) < _LEAST_VALUES or rows - len(n) < _MOST * rows:
        return None
    if others.sum() - len(others) < _MOST * others.sum():
        return None
    step = _step(values)
    words = f"multiples of {step:.4g} beside each other" if step is not None else "few"
    sentence = (
        f"`{feature.name}`: its values are {words}, {len(values)} different ones in {rows:.0f} rows, where hardly any "
        "came twice in training (rounded, or kept in few bits?)"
    )
    cause = {"kind": FEW_VALUES, "share": 1.0} if step is None else {"kind": ROUNDED, "share": 1.0, "step": step}
    return Finding(CHECK, feature.name, Outcome.FAIL, sentence, number=1 - len(values) / rows, limit=_MOST, cause=cause)


def _is_explained(found: list[Finding]) -> bool:
    failing = found[0].outcome is Outcome.FAIL
    return failing and (found[0].cause or {}).get("kind", DEFAULT) not in _SAY_LESS


def _step(values: Floats) -> float | None:
    """What lies between values that lie evenly; None where they do not."""
    gaps = np.diff(values)
    step = float(np.quantile(gaps, 0.1))
    if step <= 0:
        return None
    times = gaps / step
    even = np.abs(times - np.round(times)) <= _EVEN * np.maximum(np.round(times), 1)
    return float(np.sum(gaps) / np.sum(np.round(times))) if even.mean() >= _NEARLY_ALL else None
