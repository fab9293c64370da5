"""Tensors and probe frames cross processes in one layout; golden bytes hold it still."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.probe_frames import Frame, read_frame, write_frame
from tidegate_serving.contract.signature import DTYPES
from tidegate_serving.contract.tensors import decode, encode

NUMERIC = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", [*NUMERIC, "float16", "float32", "float64"])
def test_numbers_survive(dtype: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    back = decode(encode(array), dtype, (2, 3))
    assert back.dtype == array.dtype
    assert (back == array).all()
    back[0, 0] = 1


def test_strings_survive() -> None:
    array = np.array([["", "é"], [b"\xff\x00", "three"]], dtype=object)
    back = decode(encode(array), "string", (2, 2))
    assert back.tolist() == [[b"", "é".encode()], [b"\xff\x00", b"three"]]


def test_golden_bytes() -> None:
    assert encode(np.array([1, -2], dtype=">i4")).hex() == "01000000feffffff"
    assert encode(np.array([1.5], dtype="float16")).hex() == "003e"
    offsets = "000000000000000001000000000000000300000000000000"
    assert encode(np.array([b"a", b"bc"], dtype=object)).hex() == offsets + "616263"


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (b"\0" * 7, "int32", (2,)),
        (b"\0" * 8, "string", (1,)),
        (b"\0" * 8 + b"\xff" * 8, "string", (1,)),
        (b"\0" * 32, "complex256", (1,)),
    ],
)
def test_lengths_that_disagree_are_refused(data: bytes, dtype: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput):
        decode(data, dtype, shape)


@given(
    st.binary(max_size=40),
    st.sampled_from(sorted(DTYPES)),
    st.lists(st.sampled_from([-1, 0, 1, 2, 3, 1 << 31, 1 << 62]), max_size=4),
)
def test_any_bytes_are_an_array_of_the_shape_or_refused(data: bytes, dtype: str, shape: list[int]) -> None:
    try:
        assert decode(data, dtype, tuple(shape)).shape == tuple(shape)
    except InvalidInput:
        return


def test_unservable_dtypes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="complex256"):
        encode(np.array([1j], dtype="clongdouble"))


def test_frames_survive() -> None:
    stream = io.BytesIO()
    sent = Frame("predict", "t1", {"signature": "serving_default"}, {"x": np.ones((2, 4), "f4"), "s": np.array([b"q"])})
    write_frame(stream, sent)
    write_frame(stream, Frame("stop", "t2"))
    stream.seek(0)
    first, second = read_frame(stream), read_frame(stream)
    assert first is not None
    assert second is not None
    assert (first.kind, first.token, first.head["signature"]) == ("predict", "t1", "serving_default")
    assert (first.tensors["x"] == 1).all()
    assert first.tensors["s"].tolist() == [b"q"]
    assert (second.kind, dict(second.tensors)) == ("stop", {})
    assert read_frame(stream) is None


def test_broken_streams_are_refused() -> None:
    stream = io.BytesIO()
    write_frame(stream, Frame("predict", "t", {}, {"x": np.ones(3)}))
    whole = stream.getvalue()
    for cut in (2, 10, len(whole) - 1):
        with pytest.raises(InvalidInput):
            read_frame(io.BytesIO(whole[:cut]))
    with pytest.raises(Unsupported):
        read_frame(io.BytesIO(whole.replace(b"tidegate.probe/1", b"tidegate.probe/9")))
    with pytest.raises(InvalidInput, match="no probe stream"):
        read_frame(io.BytesIO(b"Hello from a print statement"))
