"""Rows as a version's inputs: columns of a table or a manifest's example, turned into tensors by its signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.example_bytes import to_bytes
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import PARTS, Array

Indices = npt.NDArray[np.int64]
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Examples:
    """One array per input, row i belonging to row `rows[i]` of the table they came from."""

    arrays: Mapping[str, Array]
    rows: Indices

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: Indices) -> Examples:
        """The examples at these places, in this order."""
        return Examples({name: array[indices] for name, array in self.arrays.items()}, self.rows[indices])

    def replaced(self, column: str, values: Array) -> Examples:
        """The same with other values in one input, shape as before."""
        return Examples({**self.arrays, column: values}, self.rows)

    def row(self, index: int) -> dict[str, Any]:
        """One example in plain values, for a finding; numbers that JSON lacks as text."""
        return {name: plain(array[index]) for name, array in self.arrays.items()}


def default_signature(manifest: Manifest) -> tuple[str, Signature]:
    """Name and signature that are judged: `serving_default`, else the first. InvalidInput for one without rows."""
    name = SERVING_DEFAULT if SERVING_DEFAULT in manifest.signatures else next(iter(manifest.signatures))
    signature = manifest.signatures[name]
    if signature.first_axis is FirstAxis.FREE:
        raise InvalidInput(
            f"signature {name!r} of {manifest.id} takes no rows (its first axis is 'free'), and gates judge rows: give "
            f"the model a signature {SERVING_DEFAULT!r} whose first axis is the batch"
        )
    if complex_ones := [spec.name for spec in (*signature.inputs, *signature.outputs) if spec.dtype in PARTS]:
        raise InvalidInput(
            f"signature {name!r} of {manifest.id} has complex numbers ({', '.join(complex_ones)}), which gates cannot "
            f"judge: give the model a signature {SERVING_DEFAULT!r} of real ones"
        )
    return name, signature


def plain(value: Any) -> Any:
    """A value as JSON can hold it: bytes as text, NaN and infinities by name, arrays as lists."""
    if isinstance(value, bytes):
        text = value.decode(errors="backslashreplace")
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} letters)"
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value


def examples_of(signature: Signature, table: Any) -> Examples:
    """All rows of a pyarrow.Table that can be sent, as `groups_of`. InvalidInput also for rows of several sizes."""
    first, *others = groups_of(signature, table)
    if others:
        one, other = ({name: array.shape[1:] for name, array in group.arrays.items()} for group in (first, others[0]))
        name = next(name for name in one if one[name] != other[name])
        raise InvalidInput(
            f"column {name!r} has rows of shape {list(one[name])} and {list(other[name])}, which cannot be sent "
            "together: send rows of one size at a time"
        )
    return first


def groups_of(signature: Signature, table: Any) -> list[Examples]:
    """All rows of a pyarrow.Table that can be sent, those whose open axes have the same sizes together.

    The group of most rows comes first; where no row can be sent, there is one group without rows.

    Missing floats become NaN, missing texts empty; rows lacking a whole number, a truth value or a list are left out.
    Raises InvalidInput for an input without a column, or with a value that its dtype or shape does not hold.
    """
    keep = np.ones(table.num_rows, dtype=bool)
    arrays: dict[str, Array] = {}
    sized: dict[str, list[Array | None]] = {}
    for spec in signature.inputs:
        if spec.name not in table.column_names:
            raise InvalidInput(f"the data lacks column {spec.name!r}, an input of the model: add it")
        column = _numbers_of_dates(table[spec.name].combine_chunks())
        if _holds_lists(column) and -1 in spec.shape[1:]:
            sized[spec.name] = [None if row is None else _sized_row(spec, row) for row in column.to_pylist()]
            present = np.array([row is not None for row in sized[spec.name]], dtype=bool)
        else:
            arrays[spec.name], present = _column(spec, column)
        keep &= present
    rows = np.flatnonzero(keep).astype(np.int64)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in rows.tolist() if sized else ():
        groups.setdefault(tuple(one.shape for column in sized.values() if (one := column[row]) is not None), []).append(
            row
        )
    parts = [np.array(group, np.int64) for group in sorted(groups.values(), key=len, reverse=True)] or [rows]
    return [
        Examples(
            {
                spec.name: _stacked(spec, [sized[spec.name][row] for row in part.tolist()])
                if spec.name in sized
                else arrays[spec.name][part]
                for spec in signature.inputs
            },
            part,
        )
        for part in parts
    ]


def _stacked(spec: TensorSpec, rows: Sequence[Array | None]) -> Array:
    """Rows of one size, of which none is missing."""
    found = [row for row in rows if row is not None]
    return np.stack(found) if found else _shaped(spec, np.empty((0, *(abs(size) for size in spec.shape[1:]))))


def example_of(signature: Signature, example: Mapping[str, Any]) -> Examples | None:
    """The manifest's example as one row, or None where it lacks an input."""
    arrays = {}
    for spec in signature.inputs:
        if spec.name not in example:
            return None
        value = example[spec.name]
        if isinstance(value, list) and -1 in spec.shape[1:]:
            arrays[spec.name] = _sized_row(spec, value)[np.newaxis]
        else:
            arrays[spec.name] = _shaped(spec, np.array([value if value is not None else _absent(spec)], dtype=object))
    return Examples(arrays, np.array([-1], dtype=np.int64))


def _absent(spec: TensorSpec) -> Any:
    return "" if spec.dtype == "string" else float("nan")


def _holds_lists(column: Any) -> bool:
    import pyarrow as pa

    told = pa.types
    return any(is_list(column.type) for is_list in (told.is_list, told.is_large_list, told.is_fixed_size_list))


def _numbers_of_dates(column: Any) -> Any:
    """Moments and days as seconds since 1970, all else as it is."""
    import pyarrow as pa

    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return column
    return pa.compute.divide(column.cast(pa.timestamp("us"), safe=False).cast(pa.int64()), 1_000_000)


def _column(spec: TensorSpec, column: Any) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The column's values, and which rows have one."""
    import pyarrow as pa

    listed, is_float = _holds_lists(column), spec.dtype.startswith("float")
    if not listed and is_float and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return _shaped(spec, column.to_numpy(zero_copy_only=False)), np.ones(len(column), dtype=bool)
    if not listed and (is_float or spec.dtype == "string"):
        return _shaped(spec, np.array(column.to_pylist(), dtype=object)), np.ones(len(column), dtype=bool)
    if pa.types.is_floating(column.type):
        column = pa.compute.if_else(pa.compute.is_nan(column), pa.scalar(None, column.type), column)
    present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    given = column.drop_null()
    if pa.types.is_integer(given.type):
        found = _shaped(spec, given.to_numpy(zero_copy_only=False))
    else:
        found = _shaped(spec, _as_array(spec, given.to_pylist()))
    made = np.zeros((len(column), *found.shape[1:]), found.dtype)
    made[present] = found
    return made, present


def _as_array(spec: TensorSpec, values: list[Any]) -> Array:
    """InvalidInput for lists of unequal length."""
    try:
        return np.array(values, dtype=object if spec.dtype == "string" else None)
    except ValueError as error:
        raise InvalidInput(
            f"column {spec.name!r} holds lists of unequal length, and the input has {list(spec.shape)}: even them"
        ) from error


def _sized_row(spec: TensorSpec, row: list[Any]) -> Array:
    """One row's value of an input with open axes."""
    values, inner = _as_array(spec, row), spec.shape[1:]
    if values.ndim != len(inner) or any(size not in (-1, has) for size, has in zip(inner, values.shape, strict=True)):
        raise InvalidInput(
            f"column {spec.name!r} holds a row of shape {list(values.shape)}, and a row of the input has "
            f"{list(inner)}: correct the data, or the signature's shape"
        )
    return _cast(spec, values)


def _shaped(spec: TensorSpec, values: Array) -> Array:
    """Rows of the input's dtype and shape, 1 for an axis that is open."""
    made = _cast(spec, values)
    try:
        return made.reshape((len(values), *(abs(size) for size in spec.shape[1:])))
    except ValueError as error:
        raise InvalidInput(f"column {spec.name!r} cannot become {spec.dtype} {list(spec.shape)}: {error}") from error


def _cast(spec: TensorSpec, values: Array) -> Array:
    """Values of the input's dtype, of the same shape. InvalidInput for one that it does not hold: fractions may be
    rounded, but not to infinity; whole numbers and truth values have to stay what they are.
    """
    if spec.dtype == "string":
        texts = np.empty(values.shape, dtype=object)
        texts.ravel()[:] = [_bytes(item) for item in values.ravel()]
        return texts
    dtype = np.dtype(spec.dtype)
    try:
        if dtype.kind == "f" and values.dtype.kind not in "iufb":
            values = values.astype(np.float64)
        elif dtype.kind in "iu" and values.dtype.kind == "U":
            values = np.array([int(text) for text in values.ravel()], dtype=object).reshape(values.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            made = values.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"column {spec.name!r} cannot become {spec.dtype} {list(spec.shape)}: {error}") from error
    held = np.isfinite(made) | ~np.isfinite(values) if dtype.kind == "f" else np.asarray(made == values, dtype=bool)
    if not held.all():
        raise InvalidInput(
            f"column {spec.name!r} holds {plain(values[~held][0])!r}, which is no {spec.dtype}: correct the data, or "
            "give the model an input that takes it"
        )
    return made


def _bytes(item: Any) -> bytes:
    return b"" if item is None else to_bytes(item)
