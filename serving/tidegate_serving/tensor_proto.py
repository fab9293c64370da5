"""Arrays as TensorFlow's `TensorProto` and back, without TensorFlow.

The client encodes inputs and decodes outputs here; the engine itself does both in the native data plane.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.tensors import PARTS, Array, decode, dtype_name, element_count, encode

DATA_TYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "string": 7,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}
BFLOAT16 = 14
"""TensorFlow's number of bfloat16, the upper half of a float32, which numpy lacks: it is float32 here."""
_NAMES = {**{number: name for name, number in DATA_TYPES.items()}, BFLOAT16: "float32"}
_MOST_ELEMENTS = 1 << 28  # one value can stand for as many as a shape asks for, and so for all memory
_TYPED_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
}
_VARINT_BITS = 35
_PARTS_FIELDS = {"complex64": "scomplex_val", "complex128": "dcomplex_val"}
"""Fields of pairs, real part first."""


def dtype_of(data_type: int) -> str:
    """The contract's name of a TensorFlow `DataType` number; Unsupported for one that cannot be served."""
    if data_type not in _NAMES:
        raise Unsupported(f"TensorFlow's data type {data_type} cannot be served: use one of {', '.join(DATA_TYPES)}")
    return _NAMES[data_type]


def fill(proto: Any, value: Array) -> None:
    """Writes an array, strings as `bytes` or `str`, into an empty `TensorProto`."""
    array = np.asarray(value)
    name = dtype_name(array)
    proto.dtype = DATA_TYPES[name]
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if name == "string":
        items = array.ravel().tolist()
        proto.string_val.extend(item if isinstance(item, bytes) else str(item).encode() for item in items)
    else:
        proto.tensor_content = encode(array)


def to_array(proto: Any) -> Array:
    """The array in a `TensorProto`; strings as objects of `bytes`, bfloat16 as float32. InvalidInput when values and
    shape disagree.
    """
    name = dtype_of(proto.dtype)
    shape = tuple(dimension.size for dimension in proto.tensor_shape.dim)
    if name == "string":
        packed = proto.tensor_content
        texts = _unpacked(packed, element_count(shape)) if packed else list(proto.string_val)
        items = np.empty(len(texts), dtype=object)
        items[:] = texts
        return _filled(items, shape)
    if proto.dtype == BFLOAT16:
        halves = decode(proto.tensor_content, "uint16", shape) if proto.tensor_content else _halves(proto, shape)
        return (halves.astype("uint32") << 16).view("float32")
    if proto.tensor_content:
        return decode(proto.tensor_content, name, shape)
    if name == "float16":
        return _halves(proto, shape).view(name)
    if name in _PARTS_FIELDS:
        field = _PARTS_FIELDS[name]
        parts = np.array(getattr(proto, field), dtype=PARTS[name])
        if parts.size % 2:
            raise InvalidInput(f"a number in {field} has no imaginary part")
        return _filled(parts.view(name), shape)
    try:
        values = np.array(getattr(proto, _TYPED_FIELDS.get(name, "int_val")), dtype=name)
    except OverflowError as error:
        raise InvalidInput(f"a tensor of {name} holds a value that is none: {error}") from error
    return _filled(values, shape)


def _unpacked(content: bytes, count: int) -> list[bytes]:
    """Strings as TensorFlow packs them: the lengths of all of them as varints, then their bytes."""
    lengths: list[int] = []
    length = shift = position = 0
    while len(lengths) < count and position < len(content) and shift < _VARINT_BITS:
        byte = content[position]
        position += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            lengths.append(length)
            length = shift = 0
    if len(lengths) < count or position + sum(lengths) != len(content):
        raise InvalidInput(f"tensor_content does not hold {count} strings")
    ends = itertools.accumulate(lengths, initial=position)
    return [content[start:end] for start, end in itertools.pairwise(ends)]


def _halves(proto: Any, shape: tuple[int, ...]) -> Array:
    """The bits of values of 16 bits."""
    try:
        return _filled(np.array(proto.half_val, dtype="uint16"), shape)
    except OverflowError as error:
        raise InvalidInput(f"half_val of a tensor holds a value that is none: {error}") from error


def _filled(values: Array, shape: tuple[int, ...]) -> Array:
    count = element_count(shape)
    if values.size > count or (values.size == 0 and count > 0) or count > _MOST_ELEMENTS:
        raise InvalidInput(f"a tensor of shape {list(shape)} cannot take {values.size} values")
    if values.size < count:
        values = np.concatenate([values, np.repeat(values[-1:], count - values.size)])
    return values.reshape(shape)
