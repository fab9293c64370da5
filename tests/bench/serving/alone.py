"""The engine without protocols and sockets on one core and on several, by `tidegate-alone`.

The TensorFlow Serving paper gives 100,000 requests a second and core for its server without RPC. With N cores there are
N threads that ask, for one model all together, and for a model each.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.bench.rows import Row
from tests.bench.servers import program

LEAST_ON_ONE = 1_000_000
LEAST_OVER_ONE = {2: 1.7, 8: 6.0}
"""How many times as much as on one core, by their number."""


def engine_alone(rounds: int, seconds: float) -> Sequence[Row]:
    """On 1, 2, 4 and 8 cores, as far as there are so many; numbers of cores take turns in the rounds."""
    binary, cores = program("tidegate-alone"), sorted(os.sched_getaffinity(0))
    arms = [(1, 1)] + [(count, models) for count in (2, 4, 8) if count <= len(cores) for models in (1, count)]
    found: dict[tuple[int, int], list[float]] = {arm: [] for arm in arms}
    for turn in range(rounds):
        for count, models in arms if turn % 2 == 0 else reversed(arms):
            found[count, models].append(rate(binary, cores[:count], models, seconds))
    one = statistics.median(found[1, 1])
    rows = [Row("engine alone, 1 core", one, "requests/s", f">= {LEAST_ON_ONE:,}", one >= LEAST_ON_ONE)]
    for (count, models), rates in found.items():
        if count > 1:
            times = statistics.median(many / alone for many, alone in zip(rates, found[1, 1], strict=True))
            least = LEAST_OVER_ONE.get(count) if models == count else None
            target, holds = ("reported", None) if least is None else (f">= {least}", times >= least)
            of = "one model" if models == 1 else "a model each"
            rows.append(Row(f"engine alone, {count} cores, {of}: over 1 core", times, "times", target, holds))
    return rows


def rate(binary: Path, cores: Iterable[int], models: int, seconds: float) -> float:
    """Requests a second; RuntimeError where an answer is wrong."""
    allowed = ",".join(map(str, cores))
    lanes = allowed.count(",") + 1
    options = {"--lanes": lanes, "--models": models, "--rounds": 1, "--round-ms": int(1000 * seconds)}
    words = [str(word) for option in options.items() for word in option]
    done = subprocess.run(["taskset", "-c", allowed, binary, *words], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    if told["wrong"]:
        raise RuntimeError(f"{told['wrong']} answers are wrong")
    return float(told["rates"][0])
