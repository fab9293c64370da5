"""Infers expectations from a training profile: of every row, and of the statistics of the whole table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tidegate_validation.expectations.expectation import CRITICAL, INFO, NUMBER_TYPES, WARNING, Expectation
from tidegate_validation.expectations.rule import ExpectationRule
from tidegate_validation.statistics.bins import CategoryBins, DiscreteBins
from tidegate_validation.statistics.profile import FeatureProfile, Profile, Role
from tidegate_validation.statistics.sql import Family

ROWS = "rows"
MISSING = "missing share"
MINIMUM, MAXIMUM = "minimum", "maximum"
ROW_COUNTS = ("expect_table_row_count_to_be_between", "expect_table_row_count_to_equal")
_TWO = 2
"""A label of more values may be a count or a rare class, of which new data may bring one that training never held."""
QUANTILES = {"25 % quantile": 0.25, "median": 0.5, "75 % quantile": 0.75}


def infer(profile: Profile, rule: ExpectationRule) -> list[Expectation]:
    """What every row should be like, as in training: columns, types, missing rates, ranges, categories."""
    found: list[Expectation] = []
    for feature in checked_features(profile):
        found.append(_of(feature.name, "expect_column_to_exist", CRITICAL))
        found += [*_type(feature), _missing(feature, rule), *_values(feature, rule)]
    return found


def infer_statistics(profile: Profile, rule: ExpectationRule) -> list[Expectation]:
    """What the statistics of the whole table should be like: rows, missing shares, ranges and quartiles."""
    found = [_statistic(None, ROWS, CRITICAL, min_value=1)]
    for feature in checked_features(profile):
        allowed = round(min(1.0, _missing_share(feature) + rule.missing), 6)
        found.append(_statistic(feature.name, MISSING, WARNING, max_value=allowed))
        if has_range(feature):
            low, high = _room(feature, rule)
            found.append(_statistic(feature.name, MINIMUM, INFO, min_value=low))
            found.append(_statistic(feature.name, MAXIMUM, INFO, max_value=high))
            found += _quartiles(feature, rule)
    return found


def checked_features(profile: Profile) -> list[FeatureProfile]:
    """Features that expectations are about: all but the time of the event."""
    return [feature for feature in profile.features.values() if feature.role is not Role.TIME]


def has_range(feature: FeatureProfile) -> bool:
    """Whether a feature is a number with a smallest and a largest value."""
    numeric = feature.family in (Family.BOOLEAN, Family.INTEGER, Family.FLOAT)
    return numeric and feature.minimum is not None and feature.maximum is not None


def statistic_column(feature: str | None, statistic: str) -> str:
    """The column of the statistics table that holds a feature's statistic, or the table's."""
    return statistic if feature is None else f"{feature}: {statistic}"


def of_row_count(one: Expectation) -> Expectation:
    """An expectation of the number of rows, as one of the statistics table."""
    if "value" in one.kwargs:
        bounds = {"min_value": one.kwargs["value"], "max_value": one.kwargs["value"]}
    else:
        bounds = {key: value for key, value in one.kwargs.items() if key in ("min_value", "max_value")}
    return _statistic(None, ROWS, one.severity, **bounds)


def _of(column: str, kind: str, severity: str, **arguments: Any) -> Expectation:
    return Expectation(kind, {"column": column, **arguments}, severity)


def _statistic(feature: str | None, statistic: str, severity: str, **bounds: float) -> Expectation:
    kwargs = {"column": statistic_column(feature, statistic), **bounds}
    meta = {"statistic": statistic, **({"feature": feature} if feature is not None else {})}
    return Expectation("expect_column_values_to_be_between", kwargs, severity, meta)


def _type(feature: FeatureProfile) -> Iterator[Expectation]:
    if feature.family is Family.TEXT:
        yield _of(feature.name, "expect_column_values_to_be_of_type", CRITICAL, type_="str")
    elif feature.family in (Family.BOOLEAN, Family.INTEGER, Family.FLOAT):
        yield _of(feature.name, "expect_column_values_to_be_in_type_list", CRITICAL, type_list=list(NUMBER_TYPES))


def _missing_share(feature: FeatureProfile) -> float:
    return feature.missing / max(feature.rows, 1)


def _missing(feature: FeatureProfile, rule: ExpectationRule) -> Expectation:
    allowed = min(1.0, _missing_share(feature) + rule.missing)
    severity = CRITICAL if feature.missing == 0 else WARNING
    kind = "expect_column_values_to_not_be_null"
    return _of(feature.name, kind, severity, mostly=round(1.0 - allowed, 6))


def _values(feature: FeatureProfile, rule: ExpectationRule) -> Iterator[Expectation]:
    name, bins = feature.name, feature.bins
    if feature.role is Role.LABEL and isinstance(bins, DiscreteBins):
        most = {"mostly": rule.within} if len(bins.values) > _TWO else {}
        yield _of(name, "expect_column_values_to_be_in_set", CRITICAL, value_set=list(bins.values), **most)
    elif isinstance(bins, CategoryBins) and bins.complete and _comes_again(feature, rule):
        known = [*bins.top, *bins.others]
        yield _of(name, "expect_column_values_to_be_in_set", WARNING, value_set=known, mostly=rule.known)
    elif has_range(feature):
        low, high = _room(feature, rule)
        between = {"min_value": low, "max_value": high, "mostly": rule.within}
        yield _of(name, "expect_column_values_to_be_between", WARNING, **between)


def _comes_again(feature: FeatureProfile, rule: ExpectationRule) -> bool:
    """Whether a new day brings known values, so that unknown ones say something; in free text most are new."""
    return feature.new_rate is not None and feature.new_rate <= (1 - rule.known) / 2


def _room(feature: FeatureProfile, rule: ExpectationRule) -> tuple[float, float]:
    """Training's range with room on both sides."""
    minimum, maximum = float(feature.minimum or 0.0), float(feature.maximum or 0.0)
    room = rule.slack * (maximum - minimum) or abs(maximum) or 1.0
    return minimum - room, maximum + room


def _quartiles(feature: FeatureProfile, rule: ExpectationRule) -> Iterator[Expectation]:
    if not feature.levels:
        return
    for statistic, level in QUANTILES.items():
        low, high = (
            float(np.interp(min(max(level + step, 0.0), 1.0), feature.levels, feature.quantiles))
            for step in (-rule.rank, rule.rank)
        )
        yield _statistic(feature.name, statistic, WARNING, min_value=low, max_value=high)
