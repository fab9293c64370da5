"""Gives freed memory back to the operating system after an unload, where the C library can be asked to.

The manager calls it on the unload thread; without it a process that unloads a model keeps its pages.
"""

from __future__ import annotations

import ctypes
import gc
import sys


def return_memory() -> None:
    """Collects garbage and trims the heap of glibc; elsewhere only the former."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
