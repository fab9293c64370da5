"""What memory a load took, and giving freed memory back to the operating system after an unload.

The manager measures on the load thread and returns on the unload thread; without the latter a process that unloads a
model keeps its pages.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_STATM = Path("/proc/self/statm")
_LIBRARY_MODULES = 20
_M_ARENA_MAX = -8
_HEAPS = 2
WORTH_IT_BYTES = 64 << 20
LEAST_UNLOADS = 64
SHARE_OF_SERVABLES = 16


class MemoryReturn:
    """Trims the heap of glibc, where there is one, and collects garbage after unloads.

    A collection holds up every thread that runs Python, and takes the longer the more is loaded. So it is made only
    where the process did not shrink by itself, and only once enough has left: 64 MiB in all, or a sixteenth of the
    servables that are loaded, and 64 at least. So what small changes pay for it does not grow with what is loaded.
    """

    def __init__(self, resident: Callable[[], int], collect: Callable[[], object] = gc.collect) -> None:
        self._resident = resident
        self._collect = collect
        self._lock = threading.Lock()
        self._owed = 0
        self._left = 0

    def unloaded(self, freed_bytes: int, resident_before: int, servables: int) -> bool:
        """Something that had reserved so much has left a process that was so large and has so many servables; whether
        garbage was collected."""
        with self._lock:
            if freed_bytes >= WORTH_IT_BYTES:
                _trim()
                if 2 * (resident_before - self._resident()) >= freed_bytes:
                    return False
            self._owed += freed_bytes
            self._left += 1
            if self._owed < WORTH_IT_BYTES and self._left < max(LEAST_UNLOADS, servables // SHARE_OF_SERVABLES):
                return False
            self._owed = self._left = 0
            self._collect()
            _trim()
            return True


def share_heaps() -> bool:
    """Lets the threads of a process that serves share two heaps of glibc's malloc, instead of up to eight a processor.

    Each heap keeps pages that a load touched and that no trim gives back, so that a process that loads and unloads
    grows by tens of megabytes. Whether it was done: not elsewhere than on glibc, nor where MALLOC_ARENA_MAX says
    otherwise. Of the whole process, so only for a program that is the server.
    """
    if sys.platform != "linux" or "MALLOC_ARENA_MAX" in os.environ:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_ARENA_MAX, _HEAPS))


def _trim() -> None:
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def resident_bytes() -> int:
    """Resident memory of this process in bytes; 0 where the system does not say."""
    try:
        with _STATM.open("rb", buffering=0) as file:  # read twice a load
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0


@dataclass(frozen=True, slots=True)
class Reading:
    """Where things stood when a load began; `ticket` is 0 where something else was under way."""

    ticket: int
    resident: int
    modules: int


class GrowthGauge:
    """How much a process grew over one load, told only where that can be said: nothing else loaded or unloaded
    meanwhile, and no library was imported, whose size is not the model's."""

    def __init__(self, resident: Callable[[], int]) -> None:
        self._resident = resident
        self._lock = threading.Lock()
        self._running = 0
        self._tickets = 0

    def begin(self) -> Reading:
        """A load or an unload begins."""
        with self._lock:
            self._running += 1
            self._tickets += 1
            return Reading(self._tickets if self._running == 1 else 0, self._resident(), len(sys.modules))

    def end(self, reading: Reading) -> int | None:
        """It has ended: bytes grown since, or None where they cannot be told."""
        with self._lock:
            self._running -= 1
            alone = reading.ticket == self._tickets
        if not alone or len(sys.modules) - reading.modules > _LIBRARY_MODULES:
            return None
        return self._resident() - reading.resident
