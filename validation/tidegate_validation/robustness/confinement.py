"""What the sandbox's child may use: environment without secrets, no network where possible, limits on its process.

`sandbox` starts the child with this and reports, for the verdict, what could not be set on this machine.
"""

from __future__ import annotations

import functools
import os
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from tidegate_validation.robustness.limits import RobustnessLimits

_SECRETS = ("KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL")
_CPU_GRACE = 5


def environment() -> dict[str, str]:
    """This process's environment without what looks like a secret; crashes leave their traceback on stderr."""
    kept = {name: value for name, value in os.environ.items() if not any(word in name.upper() for word in _SECRETS)}
    return {**kept, "PYTHONFAULTHANDLER": "1"}


def command_line(command: Sequence[str], limits: RobustnessLimits) -> list[str]:
    """The command, in a network namespace of its own where this machine allows that and the limits ask for it."""
    if limits.network or not _can_unshare():
        return list(command)
    return ["unshare", "--net", "--", *command]


def confine(pid: int, limits: RobustnessLimits) -> list[str]:
    """Sets the limits of a process that was just started; returns what could not be set, in words."""
    missing: list[str] = []
    megabyte = 1 << 20
    wanted: Mapping[str, tuple[int, int, int]] = {
        "address space": (resource.RLIMIT_AS, limits.memory_mb * megabyte, limits.memory_mb * megabyte),
        "processor time": (resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + _CPU_GRACE),
        "core dumps": (resource.RLIMIT_CORE, 0, 0),
        "file size": (resource.RLIMIT_FSIZE, limits.file_mb * megabyte, limits.file_mb * megabyte),
    }
    for name, (kind, soft, hard) in wanted.items():
        try:
            resource.prlimit(pid, kind, (soft, hard))
        except ProcessLookupError:
            return missing
        except (OSError, ValueError, AttributeError) as error:
            missing.append(f"{name} ({error})")
    return missing


def unconfined(limits: RobustnessLimits) -> list[str]:
    """What this machine cannot keep a version from, in words for the verdict."""
    found = ["the number of processes is not limited"]
    if not limits.network and not _can_unshare():
        found.append("the network could not be taken away")
    return found


@functools.cache
def _can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "--net", "--", "true"], capture_output=True, timeout=10, check=False)
    return tried.returncode == 0
