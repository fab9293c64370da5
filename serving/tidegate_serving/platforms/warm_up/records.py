"""TFRecord files, checked by their checksums and read without TensorFlow.

A record is its length (8 bytes), the length's checksum, its bytes and their checksum. Checksums are CRC-32C, rotated
and with a constant added, as TensorFlow's `record_writer` has them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from tidegate_serving.contract.errors import InvalidInput

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that cannot be read, and why; where the file cannot be read on behind it, how many there may be left by
    the size of those before."""

    words: str
    records: int = 1


def read_records(path: Path) -> Iterator[bytes]:
    """The records one after the other. InvalidInput, naming the record, at the first that is damaged or cut short."""
    for number, record in enumerate(read_whole_records(path)):
        if isinstance(record, Damaged):
            raise InvalidInput(
                f"{path}: record {number} is damaged or cut short. Please verify your warmup data is in TFRecord "
                "format."
            )
        yield record


def read_whole_records(path: Path) -> Iterator[bytes | Damaged]:
    """The records one after the other, and the places of those that are damaged."""
    with path.open("rb") as file:
        size, number = path.stat().st_size, 0
        while head := file.read(_HEAD.size):
            begun = file.tell() - len(head)
            length = _length(head, size - file.tell())
            if length is None:
                left = max(1, round((size - begun) * number / begun)) if number else 1
                yield Damaged(f"its length is damaged or cut short, at byte {begun:,} of {size:,}", left)
                return
            data, (check,) = file.read(length), _TAIL.unpack(file.read(_TAIL.size))
            yield data if check == _masked(data) else Damaged(f"its checksum is wrong, at byte {begun:,}")
            number += 1


def _length(head: bytes, left: int) -> int | None:
    """How long the record after this head is, None where its checksum is wrong or not so much is left."""
    if len(head) < _HEAD.size:
        return None
    length, check = _HEAD.unpack(head)
    return int(length) if _masked(head[:8]) == check and length + _TAIL.size <= left else None


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
