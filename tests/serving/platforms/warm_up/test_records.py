"""TFRecord files: as TensorFlow writes them, damaged byte by byte, and made of any bytes."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.models.versions import flip

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.platforms.warm_up.records import read_records, write_records

OF_TENSORFLOW = bytes.fromhex("040000000000000042455204676174659801716a000000000000000029039807d8ea82a2")
"""What `tf.io.TFRecordWriter` of TensorFlow 2.21 makes of `gate` and of an empty record."""


def test_files_are_those_of_tensorflow(tmp_path: Path) -> None:
    path = tmp_path / "deep/records"
    write_records(path, [b"gate", b""])
    assert path.read_bytes() == OF_TENSORFLOW
    assert list(read_records(path)) == [b"gate", b""]


@given(st.lists(st.binary(max_size=64), max_size=4).map(lambda records: [*records, bytes(70_001)]))
def test_records_come_back(records: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records")
        write_records(path, records)
        assert list(read_records(path)) == records


@given(st.binary(max_size=64), st.sampled_from([b"", OF_TENSORFLOW, OF_TENSORFLOW[:20]]))
def test_any_bytes_are_records_or_invalid(data: bytes, before: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records")
        path.write_bytes(before + data)
        found: list[bytes] = []
        with contextlib.suppress(InvalidInput):
            found.extend(read_records(path))
        assert found[:2] == [b"gate", b""][: before.count(b"gate") + (len(before) == len(OF_TENSORFLOW))]


@given(st.integers(0, len(OF_TENSORFLOW) - 1))
def test_a_flipped_bit_is_found_wherever_it_is(position: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records")
        path.write_bytes(OF_TENSORFLOW)
        flip(path, position)
        with pytest.raises(InvalidInput, match=f"record {int(position >= 20)} is damaged"):
            list(read_records(path))


@pytest.mark.parametrize("kept", [*range(1, 20), *range(21, 36)])
def test_a_file_that_is_cut_short_is_found(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "records"
    path.write_bytes(OF_TENSORFLOW[:kept])
    with pytest.raises(InvalidInput, match=rf"record {int(kept > 20)} is damaged or cut short.*TFRecord"):
        list(read_records(path))
