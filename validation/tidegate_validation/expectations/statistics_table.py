"""The statistics table: one row with the number of rows, and each feature's missing share, range and quartiles.

DuckDB computes it over all rows, so that expectations of statistics need no sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tidegate_validation.expectations.infer import (
    MAXIMUM,
    MINIMUM,
    MISSING,
    QUANTILES,
    ROWS,
    has_range,
    statistic_column,
)
from tidegate_validation.statistics.counting import types_of
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sql import Family, as_number, as_text, family, quote

_TABLE = "tidegate_data"


def statistics_of(table: Any, features: Iterable[FeatureProfile]) -> dict[str, float | None]:
    """Statistics by column name of the statistics table, in the features' own units; shares from 0 to 1.

    `table` is a pyarrow.Table; features that it lacks, or holds as another kind of type, are left out.
    """
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(_TABLE, table)
        types = types_of(connection, _TABLE)
        wanted = {ROWS: "count(*)"}
        for feature in features:
            if feature.name in types:
                wanted.update(_measures(feature, types))
        columns = ", ".join(f"{sql} AS {quote(name)}" for name, sql in wanted.items())
        (row,) = connection.execute(f"SELECT {columns} FROM {_TABLE}").fetchall()
    return {name: None if value is None else float(value) for name, value in zip(wanted, row, strict=True)}


def _measures(feature: FeatureProfile, types: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    stored = types[feature.name]
    kind = family(stored)
    number = as_number(feature.name, stored) if kind.numeric else ""
    yield statistic_column(feature.name, MISSING), _missing(feature.name, kind, number, stored)
    if has_range(feature) and kind.numeric and kind is not Family.TIME:
        finite = f"CASE WHEN isfinite({number}) THEN {number} END"
        yield statistic_column(feature.name, MINIMUM), f"min({finite})"
        yield statistic_column(feature.name, MAXIMUM), f"max({finite})"
        for statistic, level in QUANTILES.items():
            yield statistic_column(feature.name, statistic), f"quantile_cont({finite}, {level})"


def _missing(name: str, kind: Family, number: str, stored: str) -> str:
    missing = f"{quote(name)} IS NULL"
    if kind is Family.FLOAT:
        missing = f"{missing} OR isnan({number})"
    if kind is Family.TEXT:
        missing = f"{missing} OR {as_text(name, stored)} = ''"
    return f"avg(CASE WHEN {missing} THEN 1.0 ELSE 0.0 END)"
