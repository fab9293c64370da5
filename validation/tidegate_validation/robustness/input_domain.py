"""The input domain: which values of each input training data, held-out data and the inference log have shown.

What lies in it is an everyday event and must be answered; anything else is merely possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate_serving.contract.signature import Signature
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.counting import types_of
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.sql import Family, as_number, as_text, family, quote
from tidegate_validation.statistics.window import Window

_TABLE = "tidegate_held_out"
_TERMS = 3


@dataclass(frozen=True, slots=True)
class InputDomain:
    """One input: whether a missing value was ever seen, and where, the range of its numbers, and the texts of the
    training data; None where unknown."""

    missing_in: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    trained: CategoryBins | None = None

    def merged(self, other: InputDomain) -> InputDomain:
        """Both together; the first to have seen a missing value is named."""
        return InputDomain(
            self.missing_in or other.missing_in,
            min((value for value in (self.minimum, other.minimum) if value is not None), default=None),
            max((value for value in (self.maximum, other.maximum) if value is not None), default=None),
            self.trained or other.trained,
        )

    def holds(self, value: float) -> bool:
        """Whether a number lies in the range that was seen."""
        return self.minimum is not None and self.maximum is not None and self.minimum <= value <= self.maximum


def input_domains(
    signature: Signature, profile: Profile | None, held_out: Any, window: Window | None
) -> dict[str, InputDomain]:
    """Domains by input name, from all that is known; each source may lack a column."""
    import duckdb

    domains = {spec.name: InputDomain() for spec in signature.inputs}
    sources = [_from_profile(profile)] if profile else []
    with duckdb.connect() as connection:
        connection.register(_TABLE, held_out)
        types = types_of(connection, _TABLE)
        columns = {name: name for name in types}
        sources.append(_from_relation(connection, _TABLE, types, columns, domains, "the held-out data"))
    if window is not None and window.rows:
        sources.append(
            _from_relation(
                window.connection, window.relation, window.types, window.columns, domains, "the inference log"
            )
        )
    for source in sources:
        for name in domains.keys() & source.keys():
            domains[name] = domains[name].merged(source[name])
    return domains


def _from_profile(profile: Profile) -> dict[str, InputDomain]:
    return {
        feature.name: InputDomain(
            "the training data" if feature.missing else None,
            feature.minimum,
            feature.maximum,
            feature.bins if isinstance(feature.bins, CategoryBins) and feature.bins.told else None,
        )
        for feature in profile.features.values()
    }


def _from_relation(
    connection: Any,
    relation: str,
    types: Mapping[str, str],
    columns: Mapping[str, str],
    inputs: Mapping[str, InputDomain],
    where: str,
) -> dict[str, InputDomain]:
    names = [name for name in inputs if columns.get(name) in types]
    if not names:
        return {}
    terms = ", ".join(_terms(columns[name], types[columns[name]]) for name in names)
    row = connection.execute(f"SELECT {terms} FROM {relation}").fetchall()[0]
    return {
        name: InputDomain(where if row[start] else None, row[start + 1], row[start + 2])
        for start, name in zip(range(0, len(row), _TERMS), names, strict=True)
    }


def _terms(column: str, sql_type: str) -> str:
    """SQL for: number of missing values, lowest and highest finite number."""
    kind = family(sql_type)
    if kind.numeric:
        value = as_number(column, sql_type)
        finite = f"FILTER (isfinite({value}))"
        return f"count(*) FILTER ({value} IS NULL OR isnan({value})), min({value}) {finite}, max({value}) {finite}"
    missing = f"{quote(column)} IS NULL"
    if kind is Family.TEXT:
        missing += f" OR {as_text(column, sql_type)} = ''"
    return f"count(*) FILTER ({missing}), NULL, NULL"
