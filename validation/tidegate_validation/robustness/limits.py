"""Deadlines and limits of the sandbox in which a version is probed; the policy file fills them.

`child` applies them to the process, `watch` holds it to them, the stages read batch sizes, budgets and tolerances.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate_serving.contract.errors import InvalidInput

_COUNTS = ("FAIL", "WARN", "PASS")
_ABOVE_ZERO = (
    "load_seconds",
    "call_seconds",
    "exit_seconds",
    "total_seconds",
    "memory_mb",
    "cpu_seconds",
    "open_files",
    "processes",
    "disk_mb",
    "file_mb",
    "max_batch",
    "golden_rows",
    "sample_rows",
    "crashes",
    "slower",
)


@dataclass(frozen=True, slots=True)
class RobustnessLimits:
    """Limits of the robustness gate; seconds of wall clock, megabytes of 2^20 bytes, milliseconds per call.

    Deadlines: `load_seconds`, `call_seconds`, `exit_seconds` for unloading and ending, `total_seconds` for the gate.
    What the version may use: `memory_mb` resident in all its processes together, never more than four fifths of what
    the machine has free; `cpu_seconds` per process; `open_files`; `processes`, threads included; `disk_mb` of files,
    `file_mb` in one; `network`.
    `sandbox` false shares processes and files with this machine; `other_user` false keeps root where the gate is root.

    What it must be able to do: answer `max_batch` rows at once, `threads` calls at once (1: the engine runs one at a
    time, so they are not tried), within `p50_ms` and `p99_ms` for one row and `batch_p50_ms` and `batch_p99_ms` for
    `max_batch` rows (0: no budget), and not slower than the baseline by more than the factor `slower`, which counts as
    `slower_counts`. `tolerance` is the relative difference allowed between answers to the same row alone, in a batch,
    and again. `crashes` is after how many crashes probing ends. `nondeterminism` is what differing answers to the same
    input count as: FAIL, WARN or PASS. `leak_kb` is the growth of memory per call that counts as a leak, `log_kb` what
    a call may write to the log before that is a WARN.
    """

    load_seconds: float = 120.0
    call_seconds: float = 20.0
    exit_seconds: float = 30.0
    total_seconds: float = 1800.0
    memory_mb: int = 16_384
    cpu_seconds: int = 900
    open_files: int = 1024
    processes: int = 1024
    disk_mb: int = 1024
    file_mb: int = 1024
    network: bool = False
    sandbox: bool = True
    other_user: bool = True
    allow_pickle: bool = False
    max_batch: int = 1024
    threads: int = 4
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    batch_p50_ms: float = 0.0
    batch_p99_ms: float = 0.0
    slower: float = 2.0
    slower_counts: str = "WARN"
    golden_rows: int = 16
    sample_rows: int = 2048
    tolerance: float = 1e-5
    crashes: int = 3
    nondeterminism: str = "FAIL"
    leak_kb: float = 1.0
    log_kb: int = 64

    def __post_init__(self) -> None:
        for name in _ABOVE_ZERO:
            if getattr(self, name) <= 0:
                raise InvalidInput(f"robustness.{name} is {getattr(self, name)}: it must be above 0")
        for name in ("nondeterminism", "slower_counts"):
            if getattr(self, name) not in _COUNTS:
                raise InvalidInput(f"robustness.{name} is {getattr(self, name)!r}: use one of {', '.join(_COUNTS)}")
