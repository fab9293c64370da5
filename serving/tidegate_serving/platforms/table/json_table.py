"""Reads a table from JSON: an object of keys to values, or of keys to objects of values by name.

Rows of values become arrays here, also those of nested lists in Parquet files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.tensors import Array

KEY, VALUE = "key", "value"
_KINDS = {bool: "bool", int: "number", float: "number", str: "text", bytes: "text"}


def read_json(path: Path, key: str | None) -> tuple[str, Array, Mapping[str, Array]]:
    """The key's name, the keys, and values by name. ModelFailed for no JSON, InvalidInput for no table."""
    try:
        rows = json.loads(path.read_bytes(), object_pairs_hook=_without_doubles)
    except _Double as error:
        raise InvalidInput(f"{path}: key {error.args[0]!r} is there twice: keep one") from error
    except ValueError as error:
        raise ModelFailed(f"{path} is no JSON: {error}") from error
    if not isinstance(rows, dict) or not rows:
        raise InvalidInput(f"{path} holds no object of keys and values: write one")
    objects = [row if isinstance(row, dict) else {VALUE: row} for row in rows.values()]
    names = list(objects[0])
    for word, row in zip(rows, objects, strict=True):
        if not row or set(row) != set(names):
            raise InvalidInput(
                f"{path}: key {word!r} has {', '.join(sorted(row)) or 'nothing'}, others have {', '.join(names)}"
            )
    keys = as_array(path, key or KEY, [word.encode() for word in rows])
    return key or KEY, keys, {name: as_array(path, name, [row[name] for row in objects]) for name in names}


def as_array(path: Path, name: str, values: list[Any]) -> Array:
    """Rows as an array; text as objects of bytes. InvalidInput where rows differ in length or kind."""
    leaves = list(_leaves(values))
    kinds = {_KINDS.get(type(leaf), type(leaf).__name__) for leaf in leaves if leaf is not None}
    if len(kinds) > 1:
        raise InvalidInput(f"{path}: values of {name!r} differ in kind or length: they are {', '.join(sorted(kinds))}")
    if not kinds <= set(_KINDS.values()) or (None in leaves and not any(isinstance(leaf, float) for leaf in leaves)):
        raise InvalidInput(f"{path}: values of {name!r} are of no kind that can be served: use numbers or text")
    try:
        shape = np.shape(values)
        if kinds == {"text"}:
            made = np.empty(len(leaves), dtype=object)
            made[:] = [leaf if isinstance(leaf, bytes) else leaf.encode() for leaf in leaves]
            return made.reshape(shape)
        if all(isinstance(leaf, int) for leaf in leaves) and kinds == {"number"}:
            return np.array(values, dtype="int64" if max(leaves) < 2**63 else "uint64")
        return np.array(values, dtype="bool" if kinds == {"bool"} else "float64")
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{path}: values of {name!r} differ in kind or length: {error}") from error


class _Double(Exception):
    """A key that an object has twice."""


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Double(next(name for name in names if names.count(name) > 1))
    return made


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _leaves(value)
        else:
            yield value
