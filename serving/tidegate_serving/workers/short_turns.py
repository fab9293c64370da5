"""Short turns of the processor for the thread of a worker that a request waits for, and for its keeper's looks.

As `enter_short_turns` of the native module, which a worker's process does not load.
"""

from __future__ import annotations

import ctypes
import os
import struct

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""The call's number by machine: the C library has no function for it."""
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""`sched_attr` of sched_setattr(2): size, policy, flags, nice, priority, runtime, deadline, period."""
_RESET_ON_FORK = 1
_TURN_NANOSECONDS = 400_000


def take_short_turns() -> None:
    """Has the calling thread begin soon when it wakes beside busy ones (Linux 6.12 and later); those that it starts do
    not. Where the system does not know that, nothing changes."""
    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is not None and os.sched_getscheduler(0) == os.SCHED_OTHER:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        fields = (_ATTRIBUTES.size, os.SCHED_OTHER, _RESET_ON_FORK, nice, 0, _TURN_NANOSECONDS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, _ATTRIBUTES.pack(*fields), 0)
