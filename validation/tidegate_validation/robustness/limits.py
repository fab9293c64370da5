"""What the robustness gate asks of a version: the limits of its sandbox, batch sizes, budgets and tolerances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.robustness.output_range import OutputRange
from tidegate_validation.robustness.tolerance import Tolerance
from tidegate_validation.sandbox.limits import SandboxLimits, above_zero

_COUNTS = ("FAIL", "WARN", "PASS")


@dataclass(frozen=True, slots=True)
class RobustnessLimits(SandboxLimits):
    """The sandbox's limits, and what a version must be able to do in it; milliseconds per call.

    It must answer `max_batch` rows at once, `threads` calls at once (1: the engine runs one at a time, so they are not
    tried), within `p50_ms` and `p99_ms` for one row and `batch_p50_ms` and `batch_p99_ms` for `max_batch` rows (0: no
    budget), and not slower than the baseline by more than the factor `slower`, which counts as `slower_counts`.
    `tolerance` is the difference allowed between answers to the same row alone, in a batch, and again: for fractions as
    a share of the value, or of the largest that is answered to the data, 1 at the most; in float64 and far from 0, of
    the range of the answers, or 15 % of where they lie; as it is for whole numbers, so that below 1 these are equal.
    `crashes` is after how many crashes probing ends, `total_seconds` after how long. `nondeterminism` is what differing
    answers to the same input count as: FAIL, WARN or PASS. `leak_kb` is the growth of memory per call that counts as a
    leak, `log_kb` what a call with one row may write to the log; more counts as `log_counts`. `idle_share` is the share
    of a processor that it may keep busy while it is asked nothing; more counts as `idle_counts`. `output_range` holds,
    by the name of an output, which numbers it may answer to ordinary rows. `golden` holds, by the name of an output or
    `*`, how far answers to golden requests may lie from what was recorded; more counts as `golden_counts`.
    """

    total_seconds: float = 1800.0
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
    log_kb: int = 16
    log_counts: str = "FAIL"
    idle_share: float = 0.2
    idle_counts: str = "FAIL"
    output_range: Mapping[str, OutputRange] = field(default_factory=dict)
    golden: Mapping[str, Tolerance] = field(default_factory=dict)
    golden_counts: str = "FAIL"

    def __post_init__(self) -> None:
        SandboxLimits.__post_init__(self)
        above_zero(self, "total_seconds", "max_batch", "golden_rows", "sample_rows", "crashes", "slower", "idle_share")
        for name in ("nondeterminism", "slower_counts", "log_counts", "idle_counts", "golden_counts"):
            if getattr(self, name) not in _COUNTS:
                raise InvalidInput(f"the limit {name} is {getattr(self, name)!r}: use one of {', '.join(_COUNTS)}")
