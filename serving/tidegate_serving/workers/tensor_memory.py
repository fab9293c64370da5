"""Memory that two processes share: one writes the tensors of a batch into it, the other reads them out.

The writer makes it, seals it so that it can never shrink under its reader, and hands its descriptor over.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate_serving.contract.signature import DTYPES
from tidegate_serving.contract.tensors import Array, decode, dtype_name, element_count, encode

_ALIGNED = 64
_LEAST_BYTES = 1 << 16
_KEPT_BYTES = 8 << 20
_TIMES_NEEDED = 4


class TensorMemory:
    """The writer's end. It grows with the tensors, and shrinks again once they are far smaller."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None
        self._descriptor = -1

    def write(self, tensors: Mapping[str, Array]) -> tuple[list[dict[str, Any]], int | None]:
        """Where each tensor lies, and the descriptor of the memory where it is a new one."""
        found = [
            (name, array, encode(array) if dtype_name(array) == "string" else None) for name, array in tensors.items()
        ]
        sizes = [array.nbytes if data is None else len(data) for _, array, data in found]
        held = 0 if self._map is None else len(self._map)
        needed = sum(map(_aligned, sizes))
        fits = needed <= held <= max(_KEPT_BYTES, _TIMES_NEEDED * needed)
        memory = self._map if fits and self._map is not None else self._make(needed)
        described, at = [], 0
        for (name, array, data), size in zip(found, sizes, strict=True):
            if data is not None:
                memory[at : at + size] = data
            elif size:
                kind = np.dtype(array.dtype).newbyteorder("<")
                np.frombuffer(memory, kind, array.size, at).reshape(array.shape)[...] = array
            dtype, shape = dtype_name(array), list(array.shape)
            described.append({"name": name, "dtype": dtype, "shape": shape, "bytes": size, "at": at})
            at += _aligned(size)
        return described, None if fits else self._descriptor

    def close(self) -> None:
        """Gives it back; its reader may read on."""
        if self._map is not None:
            self._map.close()
            os.close(self._descriptor)
        self._map, self._descriptor = None, -1

    def _make(self, needed: int) -> mmap.mmap:
        self.close()
        size = max(_LEAST_BYTES, 1 << max(0, needed - 1).bit_length())
        self._descriptor = os.memfd_create("tidegate-batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._descriptor, size)
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        self._map = mmap.mmap(self._descriptor, size)
        return self._map


class TheirMemory:
    """The reader's end."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None

    def map(self, descriptor: int) -> None:
        """Reads from this memory from now on, and takes the descriptor over. ValueError where it could shrink, which
        would end this process in the middle of a read."""
        try:
            if not fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
                raise ValueError("the memory for tensors is not sealed")
            self.close()
            self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)

    def read(self, described: Mapping[str, Any]) -> Array:
        """A copy of one tensor. KeyError, TypeError and ValueError for a description that makes no sense."""
        dtype, shape = str(described["dtype"]), tuple(int(size) for size in described["shape"])
        at, size = int(described["at"]), int(described["bytes"])
        if self._map is None or at < 0 or size < 0 or at + size > len(self._map):
            raise ValueError(f"a tensor of {size} bytes at {at} lies outside the memory")
        if dtype == "string":
            return decode(self._map[at : at + size], dtype, shape)
        count = element_count(shape)
        if dtype not in DTYPES or count * np.dtype(dtype).itemsize != size:
            raise ValueError(f"a tensor of dtype {dtype} and shape {list(shape)} does not take {size} bytes")
        return np.frombuffer(self._map, np.dtype(dtype).newbyteorder("<"), count, at).reshape(shape).copy()

    def close(self) -> None:
        """Lets go of it."""
        if self._map is not None:
            self._map.close()
            self._map = None


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
