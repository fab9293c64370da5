"""Reads a table from Parquet, CSV or JSON into numpy columns, and tells how much memory it will take."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.platform import library
from tidegate_serving.platforms.table.json_table import as_array, read_json

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".csv", ".json")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_LEADING_ZERO = r"^\s*[+-]?0\d"
_MANY_DIGITS = r"^\s*[+-]?\d{16,}\s*$"
_CODE, _FRACTION = r"^\s*\d+[eE]\d+\s*$", r"\.|[eE][+-]"
# Bytes in memory per row, text value and number, and per mark of a row in CSV and JSON: bounds seen from above.
_ROW, _TEXT, _NUMBER, _LOOSE = 120, 50, 24, 200
_TIMES = 4
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class TableData:
    """Keys (whole numbers, or objects of `bytes`) by row, and values by name, rows on axis 0."""

    key: str
    keys: Array
    values: Mapping[str, Array]


def read_table_file(path: Path, key: str | None) -> TableData:
    """The table; `key` names the column of keys, the first one where it is None.

    JSON is an object: keys to values, or keys to objects of values by name. Parquet and CSV have columns; one of lists
    of the same length becomes a matrix. Numbers that a CSV writes with zeros in front, with more digits than a float
    holds or as codes such as 2E05 stay text, and so do dates; the index without a name that pandas adds is left out.
    ModelFailed for what is no such file, InvalidInput for columns that cannot be served.
    """
    if path.suffix == ".json":
        name, keys, columns = read_json(path, key)
        return TableData(name, _keys(path, keys), columns)
    table = _arrow_table(path)
    names = [name for name in table.column_names if not _PANDAS_INDEX.fullmatch(name)]
    key = key or next(iter(names), "")
    if key not in names or len(names) < 2:
        raise InvalidInput(
            f"{path} has columns {', '.join(names) or 'none'}: it needs a key and at least one value, and metadata "
            "'table.key' names the key"
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidInput(f"{path} has {names.count(twice[0])} columns {twice[0]!r}: keep one")
    values = {name: _column(path, name, table[name]) for name in names if name != key}
    return TableData(key, _keys(path, _column(path, key, table[key])), values)


def _arrow_table(path: Path) -> pa.Table:
    with library("pyarrow", "table"):
        import pyarrow as pa

    try:
        if path.suffix == ".csv":
            return _csv_table(path)
        from pyarrow import parquet

        return parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise ModelFailed(f"{path} is no table that can be read ({error}): write it anew") from error


def _csv_table(path: Path) -> pa.Table:
    """Columns as Arrow takes them, but for those that would lose what the file says: these are read again as text."""
    import pyarrow as pa
    from pyarrow import csv

    table = csv.read_csv(path)
    names: list[str] = table.column_names
    risky = {
        field.name: pa.string()
        for field in table.schema
        if names.count(field.name) == 1
        and (pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_temporal(field.type))
    }
    if not risky:
        return table
    said = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=risky, include_columns=list(risky)))
    for name in risky:
        index = names.index(name)
        if pa.types.is_temporal(table.schema.field(index).type) or _loses(said[name], table[name]):
            table = table.set_column(index, name, said[name])
    return table


def _loses(said: pa.ChunkedArray, numbers: pa.ChunkedArray) -> bool:
    """Whether a column's numbers are less than its texts: zeros in front, digits that a float does not hold, or codes
    such as 2E05 where no other value shows that the column holds fractions.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    def has(pattern: str) -> bool:
        return bool(pc.any(pc.match_substring_regex(said, pattern)).as_py())

    if has(_LEADING_ZERO):
        return True
    if pa.types.is_integer(numbers.type):
        return False
    long = pc.unique(said.filter(pc.match_substring_regex(said, _MANY_DIGITS))).to_pylist()
    return any(math.isinf(float(text)) or int(text) != int(float(text)) for text in long) or (
        has(_CODE) and not has(_FRACTION)
    )


def _column(path: Path, name: str, column: pa.ChunkedArray) -> Array:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _matrix(path, name, column)
    if column.null_count and not pa.types.is_floating(kind):
        raise InvalidInput(f"{path}: column {name!r} of {kind} has {column.null_count} empty values: fill them")
    if _is_text(kind):
        return _texts(column.to_pylist())
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InvalidInput(f"{path}: column {name!r} is {kind}, which cannot be served: cast it to numbers or text")
    array: Array = column.to_numpy()
    return array


def _matrix(path: Path, name: str, column: pa.ChunkedArray) -> Array:
    """A column of lists as rows. Lists of numbers keep their dtype."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type.value_type
    widths = pc.unique(pc.list_value_length(column)).to_pylist()
    if column.null_count or len(widths) > 1:
        raise InvalidInput(f"{path}: values of {name!r} differ in kind or length: give each row as many")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind) or _is_text(kind):
        return as_array(path, name, column.to_pylist())
    inner = _column(path, name, pc.list_flatten(column))
    return inner.reshape(len(column), widths[0] if widths else 0)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    told = pa.types
    known = (told.is_string, told.is_large_string, told.is_string_view, told.is_binary, told.is_large_binary)
    return any(check(kind) for check in (*known, told.is_binary_view, told.is_fixed_size_binary))


def _texts(values: list[str | bytes]) -> Array:
    made = np.empty(len(values), dtype=object)
    made[:] = [value if isinstance(value, bytes) else value.encode() for value in values]
    return made


def _keys(path: Path, keys: Array) -> Array:
    if keys.ndim != 1 or keys.dtype.kind not in "Oiu":
        raise InvalidInput(
            f"{path}: keys are {keys.dtype.name}: use whole numbers or text in the first column, or name a model where "
            "this is data"
        )
    return keys


def table_bytes(path: Path) -> int:
    """An upper bound of the memory that a table takes, in bytes, without reading it into memory.

    Of a file that cannot be read, a multiple of its size: loading says what is wrong.
    """
    size = path.stat().st_size
    if path.suffix == ".parquet":
        return _TIMES * size + _parquet_bytes(path)
    return _TIMES * size + _LOOSE * _count(path, b":" if path.suffix == ".json" else b"\n")


def _parquet_bytes(path: Path) -> int:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        told = parquet.read_metadata(path)
    except (pa.ArrowException, OSError):
        return 0
    groups = [told.row_group(index) for index in range(told.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    values = sum(column.num_values * (_TEXT if column.physical_type == "BYTE_ARRAY" else _NUMBER) for column in columns)
    return int(_ROW * told.num_rows + values + _TIMES * sum(column.total_uncompressed_size for column in columns))


def _count(path: Path, mark: bytes) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(mark) for chunk in iter(lambda: file.read(_CHUNK), b""))
