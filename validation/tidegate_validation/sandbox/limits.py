"""Deadlines and limits of a sandbox: how long a model may take, and what it may use of the machine."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tidegate_serving.contract.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Seconds of wall clock, megabytes of 2^20 bytes. Raises InvalidInput for what is not above 0.

    Deadlines: `load_seconds`, `call_seconds`, `exit_seconds` for unloading and ending.
    What the process may use: `memory_mb` resident in all its processes together, never more than four fifths of what
    the machine has free; `cpu_seconds` per process; `open_files`; `processes`, and `most_threads`
    in all of them together; `disk_mb` of files,
    `file_mb` in one; `network`.
    `sandbox` false shares processes and files with this machine; `other_user` false keeps root where the gate is root.
    `allow_pickle` lets models be loaded that are pickles.
    """

    load_seconds: float = 120.0
    call_seconds: float = 20.0
    exit_seconds: float = 30.0
    memory_mb: int = 16_384
    cpu_seconds: int = 900
    open_files: int = 1024
    processes: int = 1024
    most_threads: int = 4096
    disk_mb: int = 1024
    file_mb: int = 1024
    network: bool = False
    sandbox: bool = True
    other_user: bool = True
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        above_zero(self, *(one.name for one in fields(SandboxLimits) if not isinstance(one.default, bool)))


def above_zero(limits: SandboxLimits, *names: str) -> None:
    """Raises InvalidInput for the first of these limits that is not above 0."""
    for name in names:
        if getattr(limits, name) <= 0:
            raise InvalidInput(f"{name} is {getattr(limits, name)}: it must be above 0")
