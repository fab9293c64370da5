"""CRC-32C (Castagnoli), by which TFRecords are checked, fast enough for records of many megabytes.

The record reader hands in bytes. Lanes of 256 bytes are worked on side by side in numpy and then folded pairwise, since
a CRC is linear: appending zero bytes is a 32x32 matrix over GF(2).
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
_POLYNOMIAL = 0x82F63B78
_LANE_BITS = 8
_LANE = 1 << _LANE_BITS
_MASK_DELTA = 0xA282EAD8


def crc32c(data: bytes) -> int:
    """The checksum, as RFC 3720 appendix B.4 has it."""
    if len(data) < 2 * _LANE:
        return _simple(data, 0xFFFFFFFF) ^ 0xFFFFFFFF
    lanes = 1 << (len(data) - 1 >> _LANE_BITS).bit_length()
    padded = np.zeros(lanes * _LANE, dtype=np.uint8)
    padded[-len(data) :] = np.frombuffer(data, dtype=np.uint8)
    padded[-len(data) : -len(data) + 4 or None] ^= 0xFF
    return int(_folded(_lane_checksums(padded.reshape(lanes, _LANE)))) ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """The checksum as TFRecords store it: rotated, with a constant added."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _simple(data: bytes, crc: int) -> int:
    table = _byte_table().tolist()
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


def _lane_checksums(lanes: npt.NDArray[np.uint8]) -> Words:
    table = _byte_table()
    crc = np.zeros(len(lanes), dtype=np.uint32)
    for column in np.ascontiguousarray(lanes.T):
        crc = table[(crc ^ column) & 0xFF] ^ crc >> 8
    return crc


def _folded(crcs: Words) -> np.uint32:
    matrix = _zeros_matrix()
    while len(crcs) > 1:
        crcs = _times(matrix, crcs[0::2]) ^ crcs[1::2]
        matrix = _times(matrix, matrix)
    return np.uint32(crcs[0])


@functools.cache
def _byte_table() -> Words:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


@functools.cache
def _zeros_matrix() -> Words:
    """What appending one lane of zero bytes does to each bit of a checksum."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    matrix: Words = _byte_table()[bits & 0xFF] ^ bits >> 8
    for _ in range(_LANE_BITS):
        matrix = _times(matrix, matrix)
    return matrix


def _times(matrix: Words, values: Words) -> Words:
    """The matrix applied to each value; column i is what bit i becomes."""
    result = np.zeros_like(values)
    for bit in range(32):
        result ^= np.where(values >> bit & 1, matrix[bit], np.uint32(0))
    return result
