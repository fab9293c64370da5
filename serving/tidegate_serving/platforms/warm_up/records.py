"""TFRecord files, checked by their checksums and read without TensorFlow.

A record is its length (8 bytes), the length's checksum, its bytes and their checksum. Checksums are CRC-32C, rotated
and with a constant added, as TensorFlow's `record_writer` has them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import google_crc32c

from tidegate_serving.contract.errors import InvalidInput

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8


def read_records(path: Path) -> Iterator[bytes]:
    """The records one after the other. InvalidInput, naming the record, at the first that is damaged or cut short."""
    with path.open("rb") as file:
        size, number = path.stat().st_size, 0
        while head := file.read(_HEAD.size):
            record = _record(file, head, size)
            if record is None:
                raise InvalidInput(
                    f"{path}: record {number} is damaged or cut short. Please verify your warmup data is in TFRecord "
                    "format."
                )
            yield record
            number += 1


def _record(file: BinaryIO, head: bytes, size: int) -> bytes | None:
    """The record after its head, None where a length or a checksum is wrong."""
    if len(head) < _HEAD.size:
        return None
    length, length_check = _HEAD.unpack(head)
    if _masked(head[:8]) != length_check or length > size:
        return None
    data, tail = file.read(length), file.read(_TAIL.size)
    if len(data) < length or len(tail) < _TAIL.size or _TAIL.unpack(tail)[0] != _masked(data):
        return None
    return data


def write_records(path: Path, records: Iterable[bytes]) -> None:
    """Writes a TFRecord file, its folder included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for record in records:
            length = struct.pack("<Q", len(record))
            file.write(length + _TAIL.pack(_masked(length)) + record + _TAIL.pack(_masked(record)))


def _masked(data: bytes) -> int:
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
