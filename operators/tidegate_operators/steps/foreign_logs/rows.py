"""Examples of requests as rows: tensors and JSON values become columns of single values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.tensors import Array

Row = dict[str, Any]
_MOST = 256


def rows_of_arrays(arrays: Mapping[str, Array]) -> list[Row]:
    """One row per index of the first axis; several numbers of a row become NAME.0, NAME.1 and so on. A tensor without
    elements, whose first axis may be as long as its client said, tells nothing.

    InvalidInput where first axes differ, or a row holds more numbers than columns make sense for.
    """
    whole = {name: np.asarray(array) for name, array in arrays.items()}
    whole = {name: array.reshape(1) if array.ndim == 0 else array for name, array in whole.items() if array.size}
    lengths = {len(array) for array in whole.values()}
    if len(lengths) > 1:
        raise InvalidInput(f"its tensors have {' and '.join(map(str, sorted(lengths)))} rows")
    columns: dict[str, list[Any]] = {}
    for name, array in whole.items():
        flat = array.reshape(len(array), -1)
        if flat.shape[1] > _MOST:
            raise InvalidInput(
                f"{name!r} has {flat.shape[1]} numbers a row, more than the {_MOST} that columns are for"
            )
        for place in range(flat.shape[1]):
            column = name if flat.shape[1] == 1 else f"{name}.{place}"
            columns[column] = [_text(value) for value in flat[:, place].tolist()]
    count = lengths.pop() if lengths else 0
    return [{name: values[row] for name, values in columns.items()} for row in range(count)]


def rows_of_json(values: list[Any], name: str) -> list[Row]:
    """One row per value: an object's members, a list's numbers as 0, 1 and so on, or the value itself as `name`."""
    return [dict(_members(value, name)) for value in values]


def _members(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, member in value.items():
            if isinstance(member, list) and len(member) == 1:
                yield str(key), member[0]
            elif isinstance(member, list | Mapping):
                yield from ((f"{key}.{inner}", one) for inner, one in _members(member, "value"))
            else:
                yield str(key), member
    elif isinstance(value, list):
        prefix = "" if name == "instance" else f"{name}."
        yield from ((f"{prefix}{place}", member) for place, member in enumerate(value))
    else:
        yield name, value


def _text(value: Any) -> Any:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
