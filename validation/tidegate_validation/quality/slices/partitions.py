"""Slices as sets of rows: the values of columns, crosses of them, and conditions in SQL, each slice with its name.

A numeric column with many values is cut at its quantiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.sandbox.examples import plain
from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.bins import quantile_edges

FEW = 30
_TABLE = "held_out"


@dataclass(frozen=True, slots=True)
class Partition:
    """Slices that do not overlap: `codes` is the slice of each unit by place in `names`, -1 for none; shape [units].

    `requested` says that the policy names them, so that their absence is worth a finding.
    """

    column: str
    names: tuple[str, ...]
    codes: Integers
    requested: bool = False

    def rows(self) -> Integers:
        """How many units each slice has."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))

    def crossed(self, other: Partition) -> Partition:
        """Every slice of this with every slice of the other."""
        size = len(other.names)
        codes = np.where((self.codes >= 0) & (other.codes >= 0), self.codes * size + other.codes, -1)
        names = tuple(f"{mine} and {theirs}" for mine in self.names for theirs in other.names)
        return Partition(f"{self.column}*{other.column}", names, codes, requested=True)


def partitions_of(table: Any, evaluation: Evaluation, columns: Sequence[str], bins: int = 4) -> list[Partition]:
    """A partition for each column that has one; `table` is a pyarrow.Table with the evaluation's rows."""
    found = []
    for name in columns:
        made = _partition(name, table[name], bins)
        if made is not None and len(made.names) > 1 and (whole := _by_unit(made, evaluation)) is not None:
            found.append(whole)
    return found


def ranges_of(table: Any, evaluation: Evaluation, columns: Sequence[str], least: int, bins: int = 4) -> list[Partition]:
    """Ranges of numbers of few values, such as the hours of a day, where most examples have a value that fewer than
    `least` have: no single one has rows enough to be judged."""
    found = []
    for name in columns:
        values = _as_numbers(table[name].combine_chunks())
        single = None if values is None else _numbers(name, values, bins)
        if values is None or single is None or not bins < len(np.unique(values[np.isfinite(values)])) <= FEW:
            continue
        rows = single.rows()
        whole = _by_unit(_ranges(name, values, bins), evaluation) if rows[rows < least].sum() > rows.sum() / 2 else None
        found += [] if whole is None else [whole]
    return found


def text_partitions_of(table: Any, evaluation: Evaluation, columns: Sequence[str]) -> list[Partition]:
    """Partitions of columns with many texts, by the first character and by the length: where a postcode lost its
    leading zero, or a long text its end, no single value has rows enough to show it. Names are conditions in SQL.
    """
    found = []
    for name in columns:
        made = [] if (texts := _many_texts(table[name])) is None else _text_partitions(name, *texts)
        whole = (_by_unit(one, evaluation) for one in made if np.count_nonzero(one.rows()) > 1)
        found += [one for one in whole if one is not None]
    return found


def crosses_of(table: Any, evaluation: Evaluation, crosses: Sequence[str]) -> list[Partition]:
    """Partitions of crosses such as "carrier*origin". InvalidInput for a column that is not there or has no slices."""
    found = []
    for cross in crosses:
        parts = [_named(part.strip(), table, evaluation, f"cross {cross!r}") for part in cross.split("*")]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.crossed(part)
        found.append(whole)
    return found


def requested_columns(table: Any, evaluation: Evaluation, columns: Sequence[str]) -> list[Partition]:
    """Partitions of the columns that the policy names. InvalidInput for one that is not there or has no slices."""
    return [replace(_named(name, table, evaluation, "slice_columns"), requested=True) for name in columns]


def conditions_of(table: Any, evaluation: Evaluation, sql: Mapping[str, str]) -> list[Partition]:
    """A slice for each SQL condition on the table, which is called `held_out`. InvalidInput for one that is no SQL."""
    import duckdb

    if not sql:
        return []
    found = []
    with duckdb.connect() as connection:
        connection.register(_TABLE, table)
        for name, condition in sql.items():
            try:
                rows = connection.execute(f"SELECT coalesce(({condition})::BOOLEAN, false) FROM {_TABLE}").fetchnumpy()
            except duckdb.Error as error:
                text = str(error).splitlines()[0]
                raise InvalidInput(f"quality.sql.{name} is {condition!r}, no condition on the data: {text}") from error
            inside = np.asarray(next(iter(rows.values())), dtype=bool)
            codes = np.where(inside, 0, -1).astype(np.int64)
            found.append(Partition(name, (name,), codes[evaluation.units()], requested=True))
    return found


def _named(name: str, table: Any, evaluation: Evaluation, where: str) -> Partition:
    if name not in table.column_names:
        raise InvalidInput(f"{where} names column {name!r}, which held-out data lacks: it has {table.column_names}")
    made = _partition(name, table[name], 4)
    whole = None if made is None else _by_unit(made, evaluation)
    if whole is None:
        raise InvalidInput(f"{where} names column {name!r}, which cannot be cut into slices of whole examples")
    return whole


def _by_unit(partition: Partition, evaluation: Evaluation) -> Partition | None:
    """The same per unit; of a ranking None where rows of one query lie in different slices."""
    if evaluation.queries is None:
        return partition
    _, first, back = np.unique(evaluation.queries, return_index=True, return_inverse=True)
    if not np.array_equal(partition.codes[first][back], partition.codes):
        return None
    return replace(partition, codes=partition.codes[evaluation.units()])


def _partition(name: str, column: Any, bins: int) -> Partition | None:
    import pyarrow as pa

    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if (numbers := _as_numbers(column)) is not None:
        return _numbers(name, numbers, bins)
    if pa.types.is_nested(kind) or pa.types.is_temporal(kind) or pa.types.is_null(kind):
        return None
    encoded = column.dictionary_encode(null_encoding="encode")
    values = encoded.dictionary.to_pylist()
    return _frequent(name, [_value(value) for value in values], np.asarray(encoded.indices.to_numpy(), dtype=np.int64))


def _as_numbers(column: Any) -> Floats | None:
    """A column's numbers, NaN for a missing one; None where it has none."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        return None
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


def _many_texts(column: Any) -> tuple[list[str | None], Integers] | None:
    """A column's distinct texts and which of them each row has; None where they are no texts, or few."""
    import pyarrow as pa

    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    encoded = column.dictionary_encode(null_encoding="encode")
    if len(encoded.dictionary) <= FEW:
        return None
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices.to_numpy(), dtype=np.int64)


def _text_partitions(name: str, texts: Sequence[str | None], codes: Integers) -> list[Partition]:
    firsts, places = np.unique([(text or "")[:1] for text in texts], return_inverse=True)
    by_first = _frequent(f"left({name}, 1)", [_value(str(one)) for one in firsts], places[codes])
    lengths = np.asarray([np.nan if text is None else len(text) for text in texts])
    by_length = _numbers(f"length({name})", lengths[codes], 4)
    return [by_first, by_length]


def _numbers(name: str, values: Floats, bins: int) -> Partition:
    """Single values where they are few, else equally full ranges; missing ones apart."""
    missing = ~np.isfinite(values)
    distinct, codes = np.unique(np.where(missing, 0.0, values), return_inverse=True)
    if len(distinct) > FEW:
        return _ranges(name, values, bins)
    return _with_missing(name, [f"{name}={value:g}" for value in distinct], codes, missing)


def _ranges(name: str, values: Floats, bins: int) -> Partition:
    """Equally full ranges; missing ones apart."""
    missing = ~np.isfinite(values)
    edges = quantile_edges(values[~missing], bins)
    ends = ["", *(f"{edge:.6g}" for edge in edges), ""]
    names = [
        f"{low} <= {name} < {high}" if low and high else f"{name} < {high}" if high else f"{name} >= {low}"
        for low, high in itertools.pairwise(ends)
    ]
    return _with_missing(name, names, np.searchsorted(edges, values, side="right"), missing)


def _with_missing(name: str, names: Sequence[str], codes: Integers, missing: Mask) -> Partition:
    whole = (*names, f"{name} is missing")
    return Partition(name, whole, np.where(missing, len(names), codes).astype(np.int64))


def _frequent(name: str, values: Sequence[str], codes: Integers) -> Partition:
    """The most frequent values; the others belong to no slice."""
    order = np.argsort(-np.bincount(codes, minlength=len(values)), kind="stable")[:FEW]
    place = np.full(len(values), -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    return Partition(name, tuple(f"{name}={values[one]}" for one in order), place[codes])


def _value(value: Any) -> str:
    if value is None or value == "" or value == b"":
        return "(missing)"
    return str(plain(value))


def whole_rows(units: Mask, evaluation: Evaluation) -> Integers:
    """The rows behind some of the units: the same, or all rows of those queries."""
    if evaluation.queries is None:
        return np.flatnonzero(units)
    return np.flatnonzero(np.isin(evaluation.queries, evaluation.queries[evaluation.units()[units]]))
