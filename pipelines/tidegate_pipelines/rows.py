"""A client's rows and a model's arrays: columns of plain values become arrays of a signature's dtypes, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate_serving.contract.errors import InvalidInput

if TYPE_CHECKING:
    from tidegate_serving.contract.signature import Signature, TensorSpec
    from tidegate_serving.contract.tensors import Array


def arrays_of(columns: Mapping[str, Sequence[Any]], signature: Signature) -> dict[str, Array]:
    """Arrays of the signature's dtypes. InvalidInput naming the input that is missing, unknown or unusable."""
    specs = {spec.name: spec for spec in signature.inputs}
    missing = [name for name in specs if name not in columns]
    unknown = [name for name in columns if name not in specs]
    if missing or unknown:
        wrong = f"input {missing[0]!r} is missing" if missing else f"input {unknown[0]!r} is unknown"
        raise InvalidInput(f"{wrong}: the model takes {', '.join(specs)}")
    return {name: _array(specs[name], values) for name, values in columns.items()}


def _array(spec: TensorSpec, values: Sequence[Any]) -> Array:
    import numpy as np

    from tidegate_serving.contract.tensors import PARTS, from_parts

    try:
        if spec.dtype in PARTS:
            return from_parts(values, spec.dtype)
        return np.asarray(values, dtype=object if spec.dtype == "string" else spec.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"input {spec.name!r} wants {spec.dtype}: {error}") from error


def plain_values(array: Array) -> Any:
    """An output in JSON's own types, nested as its shape is, complex numbers as pairs; strings, which come as bytes, in
    one list."""
    if array.dtype.kind == "c":
        from tidegate_serving.contract.tensors import to_parts

        return to_parts(array).tolist()
    if array.dtype.kind != "O":
        return array.tolist()
    return [item.decode(errors="replace") if isinstance(item, bytes) else item for item in array.ravel().tolist()]
