"""Memory that two processes share: one writes the tensors of a batch into it, the other reads them out.

The writer makes it, seals it so that it can never shrink under its reader, and hands its descriptor over. What lies
where is a layout, in JSON: `[[name, dtype, shape, bytes, at], ...]`. The layouts of one model are few: each side keeps
them, with the arrays over the memory that they describe.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tidegate_serving.contract.signature import DTYPES
from tidegate_serving.contract.tensors import Array, decode, dtype_name, element_count, encode

_ALIGNED = 64
_LEAST_BYTES = 1 << 16
_KEPT_BYTES = 32 << 20  # larger memory is for one batch alone; the same as in the crate workers, on the other side
_KEPT_LAYOUTS = 256
_LONGEST_KEPT = 4096
_Shapes = tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class TensorMemory:
    """The writer's end. It grows with the tensors."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None
        self._descriptor = -1
        self._known: dict[_Shapes, tuple[bytes, list[Array]]] = {}

    def write(self, tensors: Mapping[str, Array]) -> tuple[bytes, int | None]:
        """The layout, and the descriptor of the memory where it is a new one."""
        shapes = tuple((name, array.dtype, array.shape) for name, array in tensors.items())
        known = self._known.get(shapes)
        if known is not None:
            for place, array in zip(known[1], tensors.values(), strict=True):
                place[...] = array
            return known[0], None
        texts = {name: encode(array) for name, array in tensors.items() if array.dtype.kind in "OSU"}
        sizes = [array.nbytes if name not in texts else len(texts[name]) for name, array in tensors.items()]
        layout, starts, needed = _lay_out(shapes, sizes)
        if not needed:
            return layout, None
        held = 0 if self._map is None else len(self._map)
        fits = needed <= held
        memory = self._map if fits and self._map is not None else self._make(needed)
        places = []
        for (name, array), at, size in zip(tensors.items(), starts, sizes, strict=True):
            if name in texts:
                memory[at : at + size] = texts[name]
            elif size:
                places.append(np.ndarray(array.shape, array.dtype.newbyteorder("<"), memory, at))
                places[-1][...] = array
        if len(places) == len(tensors):
            _remember(self._known, shapes, (layout, places))
        return layout, None if fits else self._descriptor

    def give_back(self) -> None:
        """Once all that was written is on its way: gives large memory back."""
        if self._map is not None and len(self._map) > _KEPT_BYTES:
            self.close()

    def close(self) -> None:
        """Gives it back; its reader may read on."""
        self._known.clear()
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
        self._known: dict[bytes, list[tuple[str, Array]]] = {}

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

    def read(self, layout: bytes) -> dict[str, Array]:
        """Copies of the tensors. TypeError, ValueError and InvalidInput for a layout that makes no sense."""
        known = self._known.get(layout)
        if known is not None:
            return {name: array.copy() for name, array in known}
        places = _places(layout)
        found = {place.name: self._read(place) for place in places}
        numbers = [
            (place.name, self._numbers(place, place.dtype))
            for place in places
            if place.dtype is not None and place.size
        ]
        if len(numbers) == len(places) and len(layout) <= _LONGEST_KEPT:
            _remember(self._known, layout, numbers)
        if self._map is not None and len(self._map) > _KEPT_BYTES:
            self.close()
        return found

    def _read(self, place: _Place) -> Array:
        at, end = place.at, place.at + place.size
        if not place.size and place.dtype is not None:
            return np.empty(place.shape, place.dtype)
        if self._map is None or end > len(self._map):
            raise ValueError(f"a tensor of {place.size} bytes at {at} lies outside the memory")
        if place.dtype is None:
            return decode(self._map[at:end], "string", place.shape)
        return self._numbers(place, place.dtype).copy()

    def _numbers(self, place: _Place, dtype: np.dtype[Any]) -> Array:
        return np.ndarray(place.shape, dtype, self._map, place.at)

    def close(self) -> None:
        """Lets go of it."""
        self._known.clear()
        if self._map is not None:
            self._map.close()
            self._map = None


class _Place(NamedTuple):
    """Where one tensor lies; without a dtype, strings."""

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    size: int
    at: int


def _remember(known: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Keeps few: whoever asks for ever other shapes must not fill this memory."""
    if len(known) >= _KEPT_LAYOUTS:
        known.clear()
    known[key] = value


def _lay_out(tensors: _Shapes, sizes: Sequence[int]) -> tuple[bytes, list[int], int]:
    """The layout, where each tensor begins, and the bytes of all. InvalidInput for a dtype that cannot be served."""
    ends = list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes), initial=0))
    layout = [
        (name, dtype_name(np.empty(0, dtype)), shape, size, at)
        for (name, dtype, shape), size, at in zip(tensors, sizes, ends, strict=False)
    ]
    return json.dumps(layout).encode(), ends[:-1], ends[-1]


def _places(layout: bytes) -> list[_Place]:
    return [_place(str(name), dtype, shape, int(size), int(at)) for name, dtype, shape, size, at in json.loads(layout)]


def _place(name: str, dtype: str, lengths: Sequence[int], size: int, at: int) -> _Place:
    shape = tuple(int(length) for length in lengths)
    count = element_count(shape)
    if at < 0 or size < 0:
        raise ValueError(f"a tensor of {size} bytes at {at} lies outside the memory")
    if dtype == "string":
        return _Place(name, None, shape, size, at)
    if dtype not in DTYPES or count * np.dtype(dtype).itemsize != size:
        raise ValueError(f"a tensor of dtype {dtype} and shape {list(shape)} does not take {size} bytes")
    return _Place(name, np.dtype(dtype).newbyteorder("<"), shape, size, at)
