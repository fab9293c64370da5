"""How fast a version's handle is taken and released from many threads while versions come and go all the time.

Runs `tidegate-lookup`, which takes turns between our way and bare `Arc` clones of the same map: a row a figure.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.rows import Row
from tests.bench.servers import built

MEASURE = "handle lookup and release while versions swap"
THREADS = 8
LEAST = 0.8


def measure() -> Sequence[Row]:
    """Median over rounds of the ratio between neighbouring arms, each on all cores."""
    found = _run(built("tidegate-lookup"))
    beside = f"beside a bare Arc clone of the same map, {THREADS} threads"
    same = _ratio(found, "handle", "arc_and_lookup")
    within = _ratio(found, "request", "arc_and_lookup")
    alone = _ratio(found, "request", "arc")
    return [
        Row(f"{MEASURE}: {beside}, and the same lookup in it", same, "ratio", f"at least {LEAST}", same >= LEAST),
        Row(f"{MEASURE}: within one request, {beside}, and the same lookup", within, "ratio", "", None),
        Row(f"{MEASURE}: within one request, {beside}, which looks nothing up", alone, "ratio", "", None),
        Row(f"{MEASURE}: lookups", statistics.median(found["handle"]), "1/s", "", None),
        Row(f"{MEASURE}: maps made meanwhile", found["swaps"], "maps", "", None),
    ]


def _ratio(found: dict[str, Any], ours: str, bare: str) -> float:
    ratios: list[float] = [mine / other for mine, other in zip(found[ours], found[bare], strict=True)]
    return statistics.median(ratios)


def _run(binary: Path) -> dict[str, Any]:
    """Starts the program, pins its threads in turn to the cores, and lets it go."""
    command = [str(binary), "--threads", str(THREADS), "--rounds", "30", "--round-ms", "100"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        _pin(process.pid)
        process.stdin.write("go\n")
        process.stdin.flush()
        found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def _pin(pid: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("lookup-"):
            os.sched_setaffinity(int(task.name), {cores[int(name.removeprefix("lookup-")) % len(cores)]})
