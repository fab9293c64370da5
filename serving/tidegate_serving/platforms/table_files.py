"""Reads a table from Parquet, CSV or JSON into numpy columns.

The table platform hands in a path and the key's name; out come the column of keys and the columns of values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.tensors import Array, dtype_name

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".csv", ".json")
KEY, VALUE = "key", "value"


@dataclass(frozen=True, slots=True)
class TableData:
    """Keys (int64, or objects of `bytes`) by row, and values by name, rows on axis 0."""

    key: str
    keys: Array
    values: Mapping[str, Array]


def read_table_file(path: Path, key: str | None) -> TableData:
    """The table; `key` names the column of keys, the first one where it is None.

    JSON is an object: keys to values, or keys to objects of values by name. Parquet and CSV have columns; one of lists
    of the same length becomes a matrix. ModelFailed for what is no such file, InvalidInput for columns that cannot be
    served.
    """
    if path.suffix == ".json":
        return _from_json(path, key)
    table = _arrow_table(path)
    names: list[str] = table.column_names
    key = key or next(iter(names), "")
    if key not in names or len(names) < 2:
        raise InvalidInput(
            f"{path} has columns {', '.join(names) or 'none'}: it needs a key and at least one value, and metadata "
            "'table.key' names the key"
        )
    values = {name: _column(path, name, table[name]) for name in names if name != key}
    return TableData(key, _keys(path, _column(path, key, table[key])), values)


def _arrow_table(path: Path) -> pa.Table:
    import pyarrow as pa

    try:
        if path.suffix == ".csv":
            from pyarrow import csv

            return csv.read_csv(path)
        from pyarrow import parquet

        return parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise ModelFailed(f"{path} is no table that can be read: {error}") from error


def _column(path: Path, name: str, column: Any) -> Array:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = kind.value_type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _as_array(path, name, column.to_pylist())
    if column.null_count and not pa.types.is_floating(kind):
        raise InvalidInput(f"{path}: column {name!r} of {kind} has {column.null_count} empty values: fill them")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return _as_array(path, name, column.cast(pa.binary()).to_pylist())
    array: Array = column.to_numpy()
    return _served(path, name, array)


def _from_json(path: Path, key: str | None) -> TableData:
    try:
        rows = json.loads(path.read_bytes())
    except ValueError as error:
        raise ModelFailed(f"{path} is no JSON: {error}") from error
    if not isinstance(rows, dict) or not rows:
        raise InvalidInput(f"{path} holds no object of keys and values: write one")
    objects = [row if isinstance(row, dict) else {VALUE: row} for row in rows.values()]
    names = list(objects[0])
    for word, row in zip(rows, objects, strict=True):
        if set(row) != set(names):
            raise InvalidInput(f"{path}: key {word!r} has {', '.join(sorted(row))}, others have {', '.join(names)}")
    keys = _as_array(path, key or KEY, [word.encode() for word in rows])
    return TableData(key or KEY, keys, {name: _as_array(path, name, [row[name] for row in objects]) for name in names})


def _as_array(path: Path, name: str, values: list[Any]) -> Array:
    """Rows as an array; text as objects of bytes. InvalidInput where rows differ in length or kind."""
    first = values[0] if values else 0.0
    try:
        if isinstance(first, str | bytes):
            made = np.empty(len(values), dtype=object)
            made[:] = [value if isinstance(value, bytes) else value.encode() for value in values]
            return made
        return _served(path, name, np.array(values))
    except (ValueError, AttributeError) as error:
        raise InvalidInput(f"{path}: values of {name!r} differ in kind or length: {error}") from error


def _served(path: Path, name: str, array: Array) -> Array:
    if array.dtype == object:
        raise InvalidInput(f"{path}: values of {name!r} are of no kind that can be served: use numbers or text")
    dtype_name(array)
    return array


def _keys(path: Path, keys: Array) -> Array:
    if keys.ndim != 1 or keys.dtype.kind not in "Oiu":
        raise InvalidInput(f"{path}: keys are {keys.dtype.name}: use whole numbers or text")
    return keys
