"""How long the hub's pages take over 1,000 models x 90 days x 20 features, on SQLite and on PostgreSQL, and how large
they are. MODELS in the environment makes it smaller, to try it.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from tests.bench.rows import Row
from tests.support.hub.history import Size, make_history
from tests.support.hub.process import HubProcess
from tests.support.neighbours.postgresql import postgresql

from tidegate_pipelines.hub.store import Database

_PAGES = (
    "/",
    "/models",
    "/models?q=12&sort=name&page=2",
    "/models?skew=FAIL",
    "/models/model-0007",
    "/models/model-0007?days=90",
    "/features/model-0007?name=feature_01&days=90",
    "/releases",
    "/releases?state=REFUSED",
    "/releases/77",
    "/engines",
)
_TIMES = 40
_WARM = 3
_SLOWEST_MS = 200.0
_LARGEST_KB = 150.0


def measure() -> Sequence[Row]:
    """Both databases."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        rows += _on(Path(folder), f"sqlite:///{Path(folder)}/hub.db", "SQLite")
        with postgresql() as server:
            rows += _on(Path(folder), server.new_database("history"), "PostgreSQL")
    return rows


def _on(folder: Path, url: str, kind: str) -> Iterator[Row]:
    database = Database(url)
    tomorrow = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    make_history(database, Size(models=int(os.environ.get("MODELS", "1000")), until=tomorrow))
    database.close()
    slowest, busiest, largest = ("", 0.0), ("", 0.0), ("", 0.0)
    config = f'database = "{url}"\nwatch_seconds = 3600\n'
    with (
        HubProcess(folder / kind, config) as hub,
        httpx.Client(base_url=hub.url, timeout=60, trust_env=False) as client,
    ):
        assert hub.process is not None
        for path in _PAGES:
            p95, cpu, kilobytes = _asked(client, hub.process.pid, path)
            slowest, busiest = max(slowest, (path, p95), key=_second), max(busiest, (path, cpu), key=_second)
            largest = max(largest, (path, kilobytes), key=_second)
            if path == "/":
                yield Row(f"pages on {kind}: first page", kilobytes, "kB", "at most 150", kilobytes <= _LARGEST_KB)
    yield Row(f"pages on {kind}: p95 of {slowest[0]}", slowest[1], "ms", "at most 200", slowest[1] <= _SLOWEST_MS)
    yield Row(f"pages on {kind}: the hub's own work for {busiest[0]}", busiest[1], "CPU ms", "", None)
    yield Row(f"pages on {kind}: largest, {largest[0]}", largest[1], "kB", "", None)


def _asked(client: httpx.Client, pid: int, path: str) -> tuple[float, float, float]:
    """The 95th percentile in milliseconds, what the hub worked for one answer in milliseconds, and the size in kB."""
    taken: list[float] = []
    size, begun_at = 0, 0.0
    for number in range(_TIMES + _WARM):
        if number == _WARM:
            taken.clear()
            begun_at = _cpu_seconds(pid)
        begun = time.perf_counter()
        answer = client.get(path, headers={"accept": "text/html"})
        taken.append(1000 * (time.perf_counter() - begun))
        assert answer.status_code == 200, f"{path}: {answer.text[:500]}"
        size = len(answer.content)
    worked = 1000 * (_cpu_seconds(pid) - begun_at) / _TIMES
    return statistics.quantiles(taken, n=20)[-1], worked, size / 1000


def _cpu_seconds(pid: int) -> float:
    """What a process has used of processors; PostgreSQL's own are other processes."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _second(pair: tuple[str, float]) -> float:
    return pair[1]
