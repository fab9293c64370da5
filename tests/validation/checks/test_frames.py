"""A check's request arrives in the other process as it was handed over."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate_validation.checks.frames import encode_request, read_request

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
PATHS = st.lists(st.sampled_from("abc"), min_size=1).map(lambda parts: Path("/", *parts))
TABLES = st.lists(st.integers(-9, 9)).map(lambda values: pa.table({"a": pa.array(values, pa.int64())}))
VALUES = st.recursive(
    PLAIN | PATHS | TABLES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_values_paths_and_tables_arrive_in_their_places(request: dict[str, Any]) -> None:
    assert read_request(io.BytesIO(b"".join(map(bytes, encode_request(request))))) == request
