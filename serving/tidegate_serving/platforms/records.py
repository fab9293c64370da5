"""TFRecord files, checked by their checksums and read without TensorFlow.

Warm-up hands in a path and gets the bytes of each record; tests and pipelines write such files here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.platforms.crc32c import masked

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")


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
    if masked(head[:8]) != length_check or length > size:
        return None
    data, tail = file.read(length), file.read(_TAIL.size)
    if len(data) < length or len(tail) < _TAIL.size or _TAIL.unpack(tail)[0] != masked(data):
        return None
    return data


def write_records(path: Path, records: Iterable[bytes]) -> None:
    """Writes a TFRecord file, its folder included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for record in records:
            length = struct.pack("<Q", len(record))
            file.write(length + _TAIL.pack(masked(length)) + record + _TAIL.pack(masked(record)))
