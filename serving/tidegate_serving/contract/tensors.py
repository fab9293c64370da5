"""Tensors as bytes: raw little-endian values in C order, strings as 64-bit offsets and then their bytes.

Everything that crosses a process uses this layout (probe, workers); golden bytes in the tests hold it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.signature import DTYPES

Array = npt.NDArray[Any]
PARTS = {"complex64": "float32", "complex128": "float64"}
"""What the two parts of a complex number are."""
_MOST_ELEMENTS = 1 << 58  # of 8 bytes; numpy refuses shapes of more, empty ones too


def dtype_name(array: Array) -> str:
    """The contract's name of an array's dtype; InvalidInput for one that cannot be served."""
    if array.dtype.kind in "OSU":
        return "string"
    name = array.dtype.name
    if name not in DTYPES:
        raise InvalidInput(f"dtype {name} cannot be served: use one of {', '.join(DTYPES)}")
    return name


def element_count(shape: tuple[int, ...]) -> int:
    """How many elements an array of a shape has. InvalidInput for a shape that no array can have."""
    if any(size < 0 for size in shape) or math.prod(max(size, 1) for size in shape) > _MOST_ELEMENTS:
        raise InvalidInput(f"no tensor can have the shape {list(shape)}: mend it")
    return math.prod(shape)


def encode(array: Array) -> bytes:
    """Bytes of one array. Elements of a string array may be `bytes` or `str`, which is encoded as UTF-8."""
    if dtype_name(array) != "string":
        return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
    items = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]
    offsets = np.zeros(len(items) + 1, dtype="<i8")
    np.cumsum([len(item) for item in items], out=offsets[1:])
    return offsets.tobytes() + b"".join(items)


def decode(data: bytes, dtype: str, shape: tuple[int, ...]) -> Array:
    """The array that `encode` made; strings come back as objects of `bytes`. InvalidInput when lengths disagree."""
    count = element_count(shape)
    if dtype == "string":
        return _decode_strings(data, count).reshape(shape)
    if dtype not in DTYPES:
        raise InvalidInput(f"dtype {dtype!r} cannot be served: use one of {', '.join(DTYPES)}")
    kind = np.dtype(dtype).newbyteorder("<")
    if len(data) != count * kind.itemsize:
        raise InvalidInput(f"{dtype} of shape {list(shape)} takes {count * kind.itemsize} bytes, not {len(data)}")
    return np.frombuffer(bytearray(data), dtype=kind).reshape(shape)


def from_parts(values: Any, dtype: str) -> Array:
    """Complex numbers from lists of which the innermost have real and imaginary part, as JSON and the log have them.
    ValueError for others.
    """
    parts = np.ascontiguousarray(values, dtype=PARTS[dtype])
    if parts.shape[-1] != 2:
        raise ValueError("a complex number is a list of its real and its imaginary part")
    return parts.view(dtype)[..., 0]


def to_parts(array: Array) -> Array:
    """The contrary of `from_parts`: real and imaginary part on a last axis of their own."""
    return np.stack([array.real, array.imag], axis=-1)


def _decode_strings(data: bytes, count: int) -> Array:
    head = 8 * (count + 1)
    if len(data) < head:
        raise InvalidInput(f"{count} strings need {head} bytes of offsets, not {len(data)}")
    offsets = np.frombuffer(data, dtype="<i8", count=count + 1)
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or int(offsets[-1]) != len(data) - head:
        raise InvalidInput(f"offsets of {count} strings do not fit their {len(data) - head} bytes")
    items = np.empty(count, dtype=object)
    for index in range(count):
        items[index] = data[head + int(offsets[index]) : head + int(offsets[index + 1])]
    return items


def describe(tensors: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Name, dtype, shape and length of each tensor's bytes, in the order in which the bytes follow."""
    return [
        {"name": name, "dtype": dtype_name(array), "shape": list(array.shape), "bytes": len(encode(array))}
        for name, array in tensors.items()
    ]
