"""A process that its GPU answers no more.

After a fault in a kernel, such as an index beyond an embedding's table, CUDA's driver fails each further call of the
process that ran it, for whichever version and through whichever library, until the process ends. A worker asks the
driver after a call that failed, and ends its process where that is so: the engine starts another one in its place.

Source: CUDA driver API, section "Error handling" (errors after which the process has to be terminated).
"""

from __future__ import annotations

import ctypes
import logging
import os
from typing import NoReturn

STATUS = 83
"""With which such a process ends."""
WORDS = "the GPU answered its process no more after a fault in a kernel, such as an index out of range"
_DRIVER = "libcuda.so.1"
_log = logging.getLogger(__name__)


def end(error: str) -> NoReturn:
    """Ends this process, which a GPU answers no more."""
    _log.error("this process ends, since a GPU answers it no more (%s)", error)
    os._exit(STATUS)


def gpu_error() -> str:
    """The driver's name for what is wrong with a GPU that this process uses, such as CUDA_ERROR_ASSERT; empty where
    nothing is, or no GPU is used. Waits for what the process has running there."""
    try:
        driver = ctypes.CDLL(_DRIVER, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:  # no library of this process has loaded it
        return ""
    count = ctypes.c_int()
    error = driver.cuDeviceGetCount(ctypes.byref(count))
    for number in range(count.value):
        error = error or _error_of(driver, number)
    return _name(driver, error) if error else ""


def _error_of(driver: ctypes.CDLL, number: int) -> int:
    """What synchronizing with a device says, 0 for one that this process does not use."""
    device, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    error = driver.cuDeviceGet(ctypes.byref(device), number)
    error = error or driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    if error or not active.value:
        return int(error)
    context, previous = ctypes.c_void_p(), ctypes.c_void_p()
    error = driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    if error:
        return int(error)
    try:
        error = driver.cuCtxPushCurrent_v2(context) or driver.cuCtxSynchronize()
        return int(error or driver.cuCtxPopCurrent_v2(ctypes.byref(previous)))
    finally:
        driver.cuDevicePrimaryCtxRelease_v2(device)


def _name(driver: ctypes.CDLL, error: int) -> str:
    name = ctypes.c_char_p()
    known = driver.cuGetErrorName(error, ctypes.byref(name)) == 0 and name.value
    return name.value.decode() if known and name.value else f"error {error}"
