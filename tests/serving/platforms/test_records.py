"""TFRecords and their checksums, against the standard's vectors and files that are damaged byte by byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.versions import flip

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.platforms.crc32c import crc32c
from tidegate_serving.platforms.records import read_records, write_records


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_checksums_are_those_of_the_standard(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum


@pytest.mark.parametrize("size", [511, 512, 513, 1024, 5000, 70_001])
def test_long_data_has_the_checksum_that_one_byte_after_the_other_gives(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    assert crc32c(data) == crc ^ 0xFFFFFFFF


def test_records_come_back(tmp_path: Path) -> None:
    records = [b"", b"gate", bytes(100_000)]
    write_records(tmp_path / "records", records)
    assert list(read_records(tmp_path / "records")) == records


@pytest.mark.parametrize("position", [0, 8, 12, 17])
def test_a_flipped_bit_is_found_wherever_it_is(tmp_path: Path, position: int) -> None:
    path = tmp_path / "records"
    write_records(path, [b"gate", b"tide"])
    flip(path, 20 + position)
    with pytest.raises(InvalidInput, match="record 1 is damaged"):
        list(read_records(path))


@pytest.mark.parametrize("kept", [1, 11, 13, 19])
def test_a_file_that_is_cut_short_is_found(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "records"
    write_records(path, [b"gate"])
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InvalidInput, match=r"record 0 is damaged or cut short.*TFRecord"):
        list(read_records(path))
