"""Schema skew: columns that training had and serving lacks, that serving adds, or that changed their type.

Columns that cannot be compared get their finding here and no test.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sql import Family, family
from tidegate_validation.statistics.vectors import is_vector

CHECK = "schema"
NOT_SERVED = "an input in training, it is not served"


@dataclass(frozen=True, slots=True)
class SchemaComparison:
    """Features that can be compared, those of them that are `vectors`, and findings about those that cannot."""

    comparable: tuple[FeatureProfile, ...]
    vectors: tuple[str, ...]
    findings: tuple[Finding, ...]


def compare_schema(
    features: Sequence[FeatureProfile],
    types: Mapping[str, str],
    columns: Mapping[str, str],
    known: Sequence[str] = (),
    measured: Collection[str] = (),
) -> SchemaComparison:
    """Compares the inputs of training with the served columns.

    `columns` says which served column carries which feature; `known` are further features that may be served without
    remark, such as the event time; of those `measured` the profile knows what their vectors or texts are measured by.
    """
    comparable, vectors, findings = [], [], []
    for feature in features:
        column = columns.get(feature.name, feature.name)
        if column not in types:
            findings.append(_finding(feature.name, Outcome.FAIL, NOT_SERVED))
        elif not _same(feature.family, family(types[column])):
            was = f"was {feature.family.value}" if feature.missing < feature.rows else "held nothing"
            now = family(types[column]).value
            findings.append(_finding(feature.name, Outcome.FAIL, f"{was} in training and is served as {now}"))
        elif feature.name in measured and is_vector(types[column]):
            vectors.append(feature.name)
        elif feature.name in measured and feature.bins is None:
            now = types[column].lower()
            findings.append(_finding(feature.name, Outcome.FAIL, f"was a list of numbers and is served as {now}"))
        elif feature.bins is None:
            findings.append(
                _finding(feature.name, Outcome.INCONCLUSIVE, f"values of type {feature.type} are not compared yet")
            )
        else:
            comparable.append(feature)
    names = {feature.name for feature in features} | set(known)
    findings += [
        _finding(name, Outcome.WARN, "is served, and training did not have it")
        for name, column in columns.items()
        if name not in names and column in types
    ]
    return SchemaComparison(tuple(comparable), tuple(vectors), tuple(findings))


def _same(one: Family, other: Family) -> bool:
    return one is other or (one.numeric and other.numeric)


def _finding(feature: str, outcome: Outcome, sentence: str) -> Finding:
    return Finding(CHECK, feature, outcome, f"`{feature}`: {sentence}")
