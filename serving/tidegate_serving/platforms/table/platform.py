"""Lookup tables: keys in, values out, from Parquet, CSV or JSON; a servable need not be a model.

Metadata: `table.file` (default: the only .parquet, .csv or .json file), `table.key` (the column of keys, default the
first), `table.default` (JSON: the value per output for a key that is not there; without it such a row is NOT_FOUND).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, NotFound, TidegateError
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array, dtype_name
from tidegate_serving.platforms.loader import Answer, Servable
from tidegate_serving.platforms.platform import ModelDescription, PlatformOptions, model_file
from tidegate_serving.platforms.table.files import SUFFIXES, TableData, read_table_file, table_bytes


class TablePlatform:
    """Loads a table into memory."""

    def __init__(self, options: PlatformOptions) -> None:
        self._options = options

    def estimate(self, directory: Path, manifest: Manifest) -> int:
        """Bytes by the number of rows and values, as a small file may hold many of them."""
        return table_bytes(model_file(manifest, directory, "table.file", SUFFIXES))

    def discover(self, directory: Path, manifest: Manifest) -> ModelDescription:
        """The key in, every other column out."""
        table = _read(directory, manifest)
        inputs = (TensorSpec(table.key, dtype_name(table.keys)),)
        outputs = tuple(
            TensorSpec(name, dtype_name(array), (-1, *array.shape[1:])) for name, array in table.values.items()
        )
        return ModelDescription({SERVING_DEFAULT: Signature(inputs, outputs)}, example=_example(table))

    def load(self, directory: Path, manifest: Manifest) -> Servable:
        """The table, held against every signature."""
        table = _read(directory, manifest)
        for name, signature in manifest.signatures.items():
            _check(manifest, name, signature, table)
        return TableServable(manifest, table, _default(manifest, table))


class TableServable:
    """Finds rows by key, and takes all their values at once."""

    def __init__(self, manifest: Manifest, table: TableData, default: Mapping[str, Array] | None) -> None:
        self._id = manifest.id
        self._key = table.key
        self._outputs = {name: [spec.name for spec in sig.outputs] for name, sig in manifest.signatures.items()}
        self._rows = dict(zip(table.keys.tolist(), range(len(table.keys)), strict=True))
        if len(self._rows) < len(table.keys):
            raise InvalidInput(
                f"{manifest.id}: {len(table.keys) - len(self._rows)} keys are there twice, such as "
                f"{_doubled(table.keys.tolist())!r}: keep one each"
            )
        self._default = default is not None
        extra = {name: _blank(array) for name, array in table.values.items()} if default is None else default
        self._values = {name: np.concatenate([array, extra[name]]) for name, array in table.values.items()}

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Answer:
        """Values by row; a key that is not there gets the default, or NotFound in its row alone."""
        keys = inputs[self._key].tolist()
        last = len(self._rows)
        rows = [self._rows.get(key, last) for key in keys]
        errors: dict[int, TidegateError] = {}
        if not self._default and last in rows:
            errors = {row: NotFound(self._unknown(keys[row])) for row, found in enumerate(rows) if found == last}
        return Answer({name: self._values[name][rows] for name in self._outputs[signature]}, errors)

    def close(self) -> None:
        """Frees the table."""
        self._rows, self._values = {}, {}

    def _unknown(self, key: Any) -> str:
        shown = key.decode(errors="replace") if isinstance(key, bytes) else key
        return f"table {self._id} has no key {shown!r}"


def _read(directory: Path, manifest: Manifest) -> TableData:
    path = model_file(manifest, directory, "table.file", SUFFIXES)
    return read_table_file(path, manifest.metadata.get("table.key"))


def _example(table: TableData) -> dict[str, Any]:
    """The first key, which the manifest's JSON can only hold where it is UTF-8."""
    first = table.keys[:1].tolist()
    shown = [key.decode(errors="replace") if isinstance(key, bytes) else key for key in first]
    return {table.key: shown[0]} if shown and [_as_key(shown[0])] == first else {}


def _doubled(keys: Sequence[Any]) -> Any:
    """The first key that is there more than once."""
    double = next(key for key, count in Counter(keys).items() if count > 1)
    return double.decode(errors="replace") if isinstance(double, bytes) else double


def _as_key(value: Any) -> Any:
    """A value of the manifest as keys are kept."""
    return value.encode() if isinstance(value, str) else value


def _check(manifest: Manifest, name: str, signature: Signature, table: TableData) -> None:
    keys = [spec for spec in signature.inputs if spec.name != manifest.event_time]
    wanted = (table.key, table.keys.dtype.kind == "O", 1)
    if [(spec.name, spec.dtype == "string", len(spec.shape)) for spec in keys] != [wanted]:
        raise InvalidInput(
            f"signature {name!r} of {manifest.id} must have one input {table.key!r} of {dtype_name(table.keys)}, of "
            "shape [-1]"
        )
    unknown = [spec.name for spec in signature.outputs if spec.name not in table.values]
    if unknown:
        raise InvalidInput(f"table {manifest.id} has no column {unknown[0]!r}, which signature {name!r} gives")


def _blank(array: Array) -> Array:
    blank = np.zeros((1, *array.shape[1:]), dtype=array.dtype)
    if array.dtype == object:
        blank[:] = b""
    return blank


def _default(manifest: Manifest, table: TableData) -> dict[str, Array] | None:
    """One row per column, or None."""
    text = manifest.metadata.get("table.default")
    if text is None:
        return None
    try:
        told = dict(json.loads(text))
        return {name: _default_row(array, told[name]) for name, array in table.values.items()}
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(
            f"metadata 'table.default' of {manifest.id} is {text!r}: use JSON with a fitting value for each of "
            f"{', '.join(table.values)} ({error})"
        ) from error


def _default_row(array: Array, value: Any) -> Array:
    row = _blank(array)
    if array.dtype != object and not np.can_cast(np.asarray(value).dtype, array.dtype, "same_kind"):
        raise TypeError(f"{value!r} is no {array.dtype}")
    row[0] = _as_key(value)
    return row
