"""Arrays as TensorProto and back, the way TensorFlow writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_serving.contract.errors import InvalidInput, TidegateError, Unsupported
from tidegate_serving.contract.messages import message
from tidegate_serving.tensor_proto import DATA_TYPES, dtype_of, fill, to_array


def proto(**fields: Any) -> Any:
    made = message("tensorflow.TensorProto")()
    for size in fields.pop("shape", ()):
        made.tensor_shape.dim.add(size=size)
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(made, name).extend(value)
        else:
            setattr(made, name, value)
    return made


@pytest.mark.parametrize("dtype", [name for name in DATA_TYPES if name != "string"])
def test_numbers_survive(dtype: str) -> None:
    array = np.array([[0, 1], [1, 0], [1, 1]], dtype)
    made = message("tensorflow.TensorProto")()
    fill(made, array)
    back = to_array(made)
    assert (back.dtype, back.tolist()) == (array.dtype, array.tolist())


def test_strings_survive() -> None:
    made = message("tensorflow.TensorProto")()
    fill(made, np.array([["é", "a"], [b"\xff\0", ""]], dtype=object))
    assert to_array(made).tolist() == [["é".encode(), b"a"], [b"\xff\0", b""]]


def test_strings_are_read_from_content_as_tensorflow_packs_them() -> None:
    long = b"l" * 300
    packed = b"\x01\x00\xac\x02\x02" + b"a" + long + b"\xff\0"
    found = to_array(proto(dtype=7, shape=(2, 2), tensor_content=packed))
    assert found.tolist() == [[b"a", b""], [long, b"\xff\0"]]
    for wrong in (packed[:-1], packed + b"x", b"\x01", b"\xff" * 9):
        with pytest.raises(InvalidInput, match="does not hold 4 strings"):
            to_array(proto(dtype=7, shape=(2, 2), tensor_content=wrong))


@pytest.mark.parametrize(
    ("dtype", "field", "values"),
    [
        ("float32", "float_val", [1.5]),
        ("float64", "double_val", [1.5]),
        ("int8", "int_val", [-1]),
        ("uint16", "int_val", [65535]),
        ("int64", "int64_val", [2**40]),
        ("uint32", "uint32_val", [2**31]),
        ("uint64", "uint64_val", [2**63]),
        ("bool", "bool_val", [True]),
        ("complex64", "scomplex_val", [1.5, -2.0]),
        ("complex128", "dcomplex_val", [0.1, -2.0]),
    ],
)
def test_typed_fields_are_read_and_the_last_value_fills(dtype: str, field: str, values: list[Any]) -> None:
    array = to_array(proto(dtype=DATA_TYPES[dtype], shape=(2, 2), **{field: values}))
    wanted = [complex(*values)] if array.dtype.kind == "c" else values
    assert (array.dtype.name, array.tolist()) == (dtype, [wanted * 2] * 2)


def test_half_floats_are_read_by_their_bits() -> None:
    assert to_array(proto(dtype=19, shape=(2,), half_val=[0x3E00, 0xFC00])).tolist() == [1.5, -np.inf]


def test_bfloat16_is_read_as_the_floats_that_it_is() -> None:
    assert to_array(proto(dtype=14, shape=(3,), half_val=[0x3FC0, 0xC010])).tolist() == [1.5, -2.25, -2.25]
    found = to_array(proto(dtype=14, shape=(1, 2), tensor_content=b"\xc0\x3f\x10\xc0"))
    assert (found.dtype.name, found.tolist()) == ("float32", [[1.5, -2.25]])


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"shape \[2\] cannot take 3 values"):
        to_array(proto(dtype=1, shape=(2,), float_val=[1, 2, 3]))
    with pytest.raises(InvalidInput, match="cannot take 0 values"):
        to_array(proto(dtype=1, shape=(2,)))
    with pytest.raises(InvalidInput, match="bytes"):
        to_array(proto(dtype=1, shape=(2,), tensor_content=b"abc"))
    with pytest.raises(Unsupported, match="data type 12 cannot be served"):
        dtype_of(12)
    with pytest.raises(InvalidInput, match="a tensor of uint8 holds a value that is none"):
        to_array(proto(dtype=4, shape=(1,), int_val=[-1]))


@given(
    shape=st.lists(st.sampled_from([-2, -1, 0, 1, 2, 3, 1 << 16, 1 << 31, 1 << 62]), max_size=4),
    dtype=st.integers(0, 30),
    content=st.binary(max_size=16),
    floats=st.lists(st.floats(width=32), max_size=3),
    ints=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    strings=st.lists(st.binary(max_size=3), max_size=3),
)
def test_any_tensor_is_an_array_of_its_shape_or_refused(
    shape: list[int], dtype: int, content: bytes, floats: list[float], ints: list[int], strings: list[bytes]
) -> None:
    values = {"float_val": floats, "int_val": ints, "half_val": ints, "string_val": strings}
    try:
        array = to_array(proto(dtype=dtype, shape=shape, tensor_content=content, **values))
    except TidegateError:
        return
    assert array.shape == tuple(shape)
