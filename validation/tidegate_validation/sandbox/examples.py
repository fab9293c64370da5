"""Rows as a version's inputs: columns of a table or a manifest's example, turned into tensors by its signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_serving.contract.errors import InvalidInput
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
    """All rows of a pyarrow.Table that can be sent.

    Missing floats become NaN, missing texts empty; rows lacking a whole number or a truth value are left out.
    Raises InvalidInput for an input without a column or of a type that cannot become its dtype.
    """
    keep = np.ones(table.num_rows, dtype=bool)
    arrays: dict[str, Array] = {}
    for spec in signature.inputs:
        if spec.name not in table.column_names:
            raise InvalidInput(f"the data lacks column {spec.name!r}, an input of the model: add it")
        arrays[spec.name], present = _column(spec, table[spec.name].combine_chunks())
        keep &= present
    rows = np.flatnonzero(keep).astype(np.int64)
    return Examples({name: array[rows] for name, array in arrays.items()}, rows)


def example_of(signature: Signature, example: Mapping[str, Any]) -> Examples | None:
    """The manifest's example as one row, or None where it lacks an input."""
    arrays = {}
    for spec in signature.inputs:
        if spec.name not in example:
            return None
        value = example[spec.name]
        arrays[spec.name] = _shaped(spec, np.array([value if value is not None else _absent(spec)], dtype=object))
    return Examples(arrays, np.array([-1], dtype=np.int64))


def _absent(spec: TensorSpec) -> Any:
    return "" if spec.dtype == "string" else float("nan")


def _column(spec: TensorSpec, column: Any) -> tuple[Array, npt.NDArray[np.bool_]]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        column = pa.compute.divide(column, 1_000_000)
    present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    if spec.dtype == "string":
        return _shaped(spec, np.array(column.to_pylist(), dtype=object)), np.ones(len(column), dtype=bool)
    if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        filler = [0] * abs(spec.shape[-1])
        values = np.array([item if item is not None else filler for item in column.to_pylist()])
        return _shaped(spec, values), present
    if spec.dtype.startswith("float"):
        return _shaped(spec, np.array(column.to_pylist(), dtype=np.float64)), np.ones(len(column), dtype=bool)
    if pa.types.is_integer(column.type):
        return _shaped(spec, column.fill_null(0).to_numpy(zero_copy_only=False)), present
    filled = np.array([item if item is not None else 0 for item in column.to_pylist()])
    return _shaped(spec, filled), present


def _shaped(spec: TensorSpec, values: Array) -> Array:
    rows = len(values)
    try:
        if spec.dtype == "string":
            texts = np.empty(values.shape, dtype=object)
            texts.ravel()[:] = [_bytes(item) for item in values.ravel()]
            values = texts
        else:
            values = values.astype(np.dtype(spec.dtype))
        return values.reshape((rows, *(size if size != -1 else 1 for size in spec.shape[1:])))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"column {spec.name!r} cannot become {spec.dtype} {list(spec.shape)}: {error}") from error


def _bytes(item: Any) -> bytes:
    if item is None:
        return b""
    return item if isinstance(item, bytes) else str(item).encode()
