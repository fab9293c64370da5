"""Deadlines and limits of the sandbox in which a version is probed; the policy file fills them.

`sandbox` applies them to the child process, `probes` reads batch sizes and tolerances.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RobustnessLimits:
    """Limits of the robustness gate; seconds of wall clock, megabytes of address space.

    `memory_mb` bounds the address space, of which runtimes reserve much more than they use. `max_batch` is the largest
    batch that must be answered. `tolerance` is the relative difference allowed between answers to the same row alone,
    in a batch, and again. `crashes` is after how many crashes probing ends. `nondeterminism` is what differing answers
    to the same input count as: FAIL, WARN or PASS. `leak_kb` is the growth per call that counts as a leak.
    """

    load_seconds: float = 120.0
    call_seconds: float = 20.0
    memory_mb: int = 16_384
    cpu_seconds: int = 900
    file_mb: int = 1024
    network: bool = False
    allow_pickle: bool = False
    max_batch: int = 1024
    golden_rows: int = 16
    sample_rows: int = 2048
    tolerance: float = 1e-5
    crashes: int = 3
    nondeterminism: str = "FAIL"
    leak_kb: int = 512
