"""The robustness gate on every fault and control of the tests, each drawn twenty times: verdicts and deadlines.

A draw has a seed and decides what triggers a fault, how the process dies, and how large it is. Two examinations run
side by side, each in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from tests.bench.rows import Row
from tests.validation.robustness.controls import CONTROLS
from tests.validation.robustness.fault_run import examined
from tests.validation.robustness.faults import FAULTS

RUNS = 20
_AT_ONCE = 3
_LATEST = 2.0


def measure(runs: int = RUNS) -> Sequence[Row]:
    """Wrong verdicts, counted over faults and controls, and the largest overrun of a deadline in seconds."""
    drawn = [(name, number) for number in range(runs) for name in (*FAULTS, *CONTROLS)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(_AT_ONCE, mp_context=context) as pool:
        results = list(pool.map(_run, drawn))
    for (name, number), (wrong, _) in zip(drawn, results, strict=True):
        if wrong:
            print(f"robustness: {name}, draw {number}: {wrong}", flush=True)
    wrong_faults = sum(bool(wrong) for (name, _), (wrong, _) in zip(drawn, results, strict=True) if name in FAULTS)
    wrong_controls = sum(bool(wrong) for (name, _), (wrong, _) in zip(drawn, results, strict=True) if name in CONTROLS)
    late = max(late for _, late in results)
    examinations = len(drawn)
    return [
        Row(
            f"robustness: wrong verdicts on {len(FAULTS)} faults",
            wrong_faults,
            f"of {runs * len(FAULTS)}",
            "0",
            wrong_faults == 0,
        ),
        Row(
            f"robustness: wrong verdicts on {len(CONTROLS)} controls",
            wrong_controls,
            f"of {runs * len(CONTROLS)}",
            "0",
            wrong_controls == 0,
        ),
        Row(f"robustness: worst overrun of a deadline, {examinations} runs", late, "s", "<= 2", late <= _LATEST),
    ]


def _run(drawn: tuple[str, int]) -> tuple[str, float]:
    name, number = drawn
    case = {**FAULTS, **CONTROLS}[name](Random(f"{name} {number}"))
    root = Path(tempfile.mkdtemp(prefix="tidegate-bench-robustness-"))
    try:
        run = examined(root, case)
    finally:
        shutil.rmtree(root)
    return run.wrong, run.late
